"""Jobs from arrival to end: queue, workers, deadlines, cancelling, restarts, and a graceful stop.

Everything here happens in the thread of the event loop; workers' threads only hand their messages over.
"""

import asyncio
import itertools
import math
import secrets
import time
from collections import OrderedDict
from typing import Any

from ..errors import IcdcError
from .batching import Queue
from .limits import Settings
from .metrics import Gauge, Metrics, resident_bytes
from .orders import Source, read_order
from .pool import Worker, devices
from .records import CANCELLED, DONE, FAILED, RUNNING, WAITING, JobRecord
from .refusals import Refusal, refusal_of
from .store import JobStore, NoRoomError, Store, Stored
from .worker import Batch, Failure, Message

LATE = 1.0
"""Seconds after its time limit at which a search that goes on is asked to stop."""
FIRST = 5.0
"""Seconds more for a search that has no answer at all when its time is over: it may be the first of its kind, and
wait for a compiler."""
UNWILLING = 3.0
"""Seconds after it was asked to stop at which its worker is killed."""
ATTEMPTS = 3
"""How often a job is begun when workers die of it."""
REPLAYED = 60.0
"""Seconds after its end for which a job can be watched again in every detail."""
STORE_AGAIN = 5.0
"""Seconds after which an answer that the disk did not take is offered to it again."""


class Jobs:
    """All jobs of a server.

    Parameters
    ----------
    settings : limits, devices, the folder of the store.
    metrics : where it counts.
    store : where jobs are kept; by default in the folder of the settings, if they name one.
    """

    def __init__(self, settings: Settings, metrics: Metrics, store: JobStore | None = None) -> None:
        self.settings, self.limits, self.metrics = settings, settings.limits, metrics
        self.queue = Queue(self.limits.queue, self.limits.batch)
        self.store = store
        if store is None and settings.data is not None:
            self.store = Store(settings.data)
        self.records: OrderedDict[str, JobRecord] = OrderedDict()
        self.workers: list[Worker] = []
        self.running: dict[int, list[JobRecord]] = {}
        self.stopping = False
        self._numbers = itertools.count(1)
        self._pace = 1.0  # seconds that a batch takes, lately
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        metrics.add(Gauge("icdc_queue_length", "Jobs that wait.", lambda: len(self.queue)))
        metrics.add(Gauge("icdc_running", "Jobs that are being solved.", lambda: sum(map(len, self.running.values()))))
        metrics.add(
            Gauge("icdc_workers_ready", "Workers that can take work.", lambda: sum(w.ready for w in self.workers))
        )
        metrics.add(Gauge("process_resident_memory_bytes", "Memory of the server's own process.", resident_bytes))

    async def open(self) -> None:
        """Start the workers, and take up the jobs that a server before this one did not finish."""
        self._loop = asyncio.get_running_loop()
        for device in devices(self.settings.device, self.settings.workers, self.settings.warm):
            worker = Worker(device, self._hear)
            worker.start()
            self.workers.append(worker)
        for stored in [] if self.store is None else self.store.unfinished():
            await self.take_up(stored)
        self._feed()

    async def take_up(self, stored: Stored) -> None:
        """Let a job wait that was accepted before, here or elsewhere, however long the queue."""
        try:
            order = await asyncio.to_thread(read_order, stored.source, self.settings)
        except (IcdcError, Refusal) as error:  # limits have changed since
            refusal = error if isinstance(error, Refusal) else refusal_of(error)
            outcome = {"id": stored.id, "state": FAILED, "created": stored.created, "error": refusal.as_dict()}
            self._later(self._keep(stored.id, outcome))
            return
        job = JobRecord(order, stored.id, stored.created, True, stored.source)
        self.records[job.id] = job
        self.queue.add(job)
        self._feed()

    async def submit(self, source: Source, *, kept: bool) -> JobRecord:
        """Take a request in; raise a Refusal where there is no room or something is wrong with it."""
        self.refuse_if_busy()
        order = await asyncio.to_thread(read_order, source, self.settings)
        self.refuse_if_busy()
        job = JobRecord(order, secrets.token_urlsafe(12), time.time(), kept, source)
        if kept:
            await self._store_new(job)
            self._remember(job)
        self.queue.add(job)
        self._feed()
        return job

    async def keep(self, job: JobRecord) -> None:
        """Let a job that was to be answered directly be asked for later."""
        if not job.ended and not job.kept:
            job.kept = True
            await self._store_new(job)
            self._remember(job)

    def refuse_if_busy(self) -> None:
        """Refuse where the queue is full or the server stops."""
        if self.stopping:
            raise Refusal(503, "the server is stopping; try again in a moment", headers={"Retry-After": "5"})
        if self.queue.full:
            batches = math.ceil(len(self.queue) / self.limits.batch / max(1, len(self.workers)))
            seconds = max(1, min(60, math.ceil(batches * self._pace)))
            raise Refusal(
                429, f"{len(self.queue)} requests wait already; try again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )  # fmt: skip

    async def get(self, name: str) -> dict[str, Any]:
        """Return what is known of a job; raise a Refusal if there is none of that name."""
        job = self.records.get(name)
        if job is not None:
            return job.outcome() | {"position": self.queue.place(job)}
        stored = None if self.store is None else await self.store.get(name)
        if stored is None:
            raise Refusal(404, f"there is no job '{name[:40]}'")
        return stored.outcome or {"id": name, "state": WAITING, "created": stored.created}

    def cancel(self, job: JobRecord) -> None:
        """End a job; its best so far is its answer. What is alike and wanted by others goes on."""
        if job.ended or job.cancelled:
            return
        job.cancelled = True
        if self.queue.remove(job):
            self._finish(job, CANCELLED)
            return
        for number, jobs in self.running.items():
            if job in jobs and all(one.cancelled for one in jobs):
                self._stop(number)

    def stop_soon(self) -> None:
        """Begin to stop; to be called from a handler of a signal."""
        self._loop.call_soon_threadsafe(self._begin_to_close)

    async def close(self) -> None:
        """Stop, or wait until it is done if it has begun."""
        await self._begin_to_close()

    def _begin_to_close(self) -> "asyncio.Task[None]":
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        return self._closing

    async def _close(self) -> None:
        """Stop: running jobs finish within the grace or return their best, waiting ones stay stored or are refused."""
        self.stopping = True
        stored = self.store is not None
        while len(self.queue):
            for job in self.queue.take():
                if not (stored and job.kept):
                    refusal = Refusal(503, "the server was stopped before this job began")
                    self._finish(job, FAILED, error=refusal.as_dict())
                job.wake()
        await self._all_ended(self.limits.grace)
        for number in list(self.running):
            self._stop(number)
        await self._all_ended(UNWILLING + 2.0)
        for worker in self.workers:
            worker.kill()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STORE_AGAIN + 1)
        if self.store is not None:
            await asyncio.to_thread(self.store.close)

    # What follows happens by itself.

    async def _all_ended(self, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        while self.running and time.perf_counter() < deadline:
            await asyncio.sleep(0.02)

    async def _store_new(self, job: JobRecord) -> None:
        if self.store is not None:
            try:
                await self.store.add(job.id, job.created, job.source)
            except NoRoomError as error:
                raise Refusal(507, str(error)) from None

    def _remember(self, job: JobRecord) -> None:
        """Keep a job in memory, and forget the oldest of those that have ended."""
        self.records[job.id] = job
        if len(self.records) > self.limits.kept:
            oldest = next((name for name, one in self.records.items() if one.ended), None)
            if oldest is not None:
                del self.records[oldest]

    def _feed(self) -> None:
        """Give work to workers that have none."""
        for worker in self.workers:
            if self.stopping or not len(self.queue):
                return
            if worker.ready and worker.batch is None:
                self._start(worker, self.queue.take())

    def _start(self, worker: Worker, jobs: list[JobRecord]) -> None:
        number = next(self._numbers)
        self.running[number] = jobs
        now = time.perf_counter()
        for job in jobs:
            job.state, job.began, job.attempts = RUNNING, now, job.attempts + 1
            self.metrics.waited.see(now - job.arrived)
            job.tell("state", {"state": RUNNING})
        self.metrics.batches.see(len(jobs))
        worker.solve(Batch(number, [job.order for job in jobs]))
        limit = jobs[0].order.time_limit
        seconds = self.limits.seconds if limit is None else min(limit + LATE, self.limits.seconds + LATE)
        patience = now + seconds + FIRST
        self._timers[number] = self._loop.call_later(seconds, self._late, number, patience)

    def _late(self, number: int, patience: float) -> None:
        """Stop a batch whose time is over; one without any answer yet has a little longer to make one."""
        without = any(job.best is None and not job.cancelled for job in self.running.get(number, []))
        if without and time.perf_counter() < patience:
            self._timers[number] = self._loop.call_later(0.1, self._late, number, patience)
        else:
            self._stop(number)

    def _stop(self, number: int) -> None:
        """Ask a batch that still runs to end; kill its worker if it does not."""
        worker = self._worker_of(number)
        if worker is not None:
            worker.stop()
            self._loop.call_later(UNWILLING, self._kill, number)

    def _kill(self, number: int) -> None:
        worker = self._worker_of(number)
        if worker is None:
            return
        for job in self.running.pop(number):
            if job.best is not None:
                self._finish(job, CANCELLED if job.cancelled else DONE, answer=job.best_as_answer())
            elif job.cancelled:
                self._finish(job, CANCELLED)
            else:
                refusal = Refusal(500, "no solution was found in the time there was", exit_code=4)
                self._finish(job, FAILED, error=refusal.as_dict())
        worker.kill()

    def _worker_of(self, number: int) -> Worker | None:
        return next((worker for worker in self.workers if worker.batch == number and number in self.running), None)

    def _hear(self, worker: Worker, message: Message | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._heard, worker, message)

    def _heard(self, worker: Worker, message: Message | None) -> None:
        """Act on what a worker says; None when it is gone."""
        if message is None:
            self._gone(worker)
        elif message.what == "ready":
            worker.ready = True
            self._feed()
        elif message.batch in self.running:
            jobs = self.running[message.batch]
            if message.what in ("done", "failed"):
                worker.batch = None
                self._timers.pop(message.batch).cancel()
                self._end_batch(message)
                self._feed()
            else:
                self._tell(jobs[message.place], message)

    def _tell(self, job: JobRecord, message: Message) -> None:
        data = message.data
        if message.what == "note":
            job.notes.append(data)
            job.tell("note", {"sentence": data})
        elif message.what == "begun":
            job.bound = data["bound"]
            job.tell("begun", data)
        elif message.what == "improved":
            job.best = data
            if data["bound"] is not None:
                job.bound = data["bound"]
            job.tell("improved", data)
        else:
            job.tell(message.what, data)

    def _end_batch(self, message: Message) -> None:
        jobs = self.running.pop(message.batch)
        took = time.perf_counter() - (jobs[0].began or 0.0)
        self.metrics.solved.see(took)
        self._pace += 0.2 * (took - self._pace)
        if isinstance(message.data, Failure):
            if len(jobs) > 1:  # it may be the fault of one of them
                for job in jobs:
                    job.alone = True
                self.queue.put_back(jobs)
                return
            failure = message.data
            status = {2: 400, 3: 422, 4: 422, 5: 501}.get(failure.exit_code or 0, 500)
            refusal = Refusal(status, failure.sentence, exit_code=failure.exit_code)
            self._finish(jobs[0], FAILED, error=refusal.as_dict())
            return
        for place, job in enumerate(jobs):
            answer = message.data.get(place)
            if job.cancelled:
                self._finish(job, CANCELLED, answer=answer)
            elif answer is None:
                refusal = Refusal(422, f"no feasible solution was found for {job.order.instance.name}", exit_code=4)
                self._finish(job, FAILED, error=refusal.as_dict())
            else:
                self._finish(job, DONE, answer=answer)

    def _gone(self, worker: Worker) -> None:
        """A worker died: its jobs are begun again, unless they are what it dies of."""
        number, worker.ready, worker.batch = worker.batch, False, None
        if number in self._timers:
            self._timers.pop(number).cancel()
        if self.stopping:
            for jobs in self.running.values():
                for job in jobs:
                    self._finish(job, FAILED, error=Refusal(503, "the server was stopped").as_dict())
            self.running.clear()
            return
        self.metrics.restarts.add()
        again = []
        for job in self.running.pop(number, []) if number is not None else []:
            if job.cancelled:
                self._finish(job, CANCELLED)
            elif job.attempts >= ATTEMPTS:
                refusal = Refusal(500, f"the worker that solved it died {job.attempts} times")
                self._finish(job, FAILED, error=refusal.as_dict())
            else:
                job.state, job.alone = WAITING, True
                again.append(job)
        self.queue.put_back(again)
        worker.start()

    def _finish(
        self, job: JobRecord, state: str, *, answer: dict[str, Any] | None = None, error: dict[str, Any] | None = None
    ) -> None:
        """End a job; those who wait hear of it once it is stored."""
        job.answer, job.error = answer, error
        if job.began is not None:
            job.seconds = round(time.perf_counter() - job.began, 6)
        if answer is not None and answer["bound"] is not None:
            job.bound = answer["bound"]
        self.metrics.jobs.add(state=state)
        if self.store is None or not job.kept:
            self._announce(job, state)
            return
        self._later(self._store_and_announce(job, state))

    async def _store_and_announce(self, job: JobRecord, state: str) -> None:
        """Tell of an answer when it is stored; where the disk does not take it, at once, and store it when it does."""
        assert self.store is not None
        outcome = job.outcome() | {"state": state}
        try:
            await self.store.finish(job.id, outcome)
        except NoRoomError as error:
            job.notes.append(f"{error}; this is tried again while the server runs")
            self._later(self._keep(job.id, outcome))
        self._announce(job, state)

    async def _keep(self, name: str, outcome: dict[str, Any]) -> None:
        """Store an outcome, however long the disk does not take it."""
        assert self.store is not None
        while not self.stopping:
            try:
                await self.store.finish(name, outcome)
            except NoRoomError:
                await asyncio.sleep(STORE_AGAIN)
                continue
            return

    def _announce(self, job: JobRecord, state: str) -> None:
        job.state = state
        job.tell("end", job.outcome())
        if job.kept:
            self._loop.call_later(REPLAYED, self._forget_details, job.id)

    def _forget_details(self, name: str) -> None:
        if name in self.records:  # by its name, so that a job that is no longer kept is not kept alive
            self.records[name].forget_details()

    def _later(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
