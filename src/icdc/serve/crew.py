"""The workers of a server: given batches from the queue, held to their time, stopped, killed and replaced.

Everything here happens in the thread of the event loop; workers' threads only hand their messages over.
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

from .batching import Queue
from .limits import Settings
from .metrics import Metrics
from .pool import Worker, devices
from .records import CANCELLED, DONE, FAILED, RUNNING, WAITING, JobRecord
from .refusals import Refusal
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
STATUSES = {2: 400, 3: 422, 4: 422, 5: 501}
"""The status of HTTP for an exit code of the command line; 500 for others."""

Finish = Callable[[JobRecord, str, dict[str, Any] | None, dict[str, Any] | None], None]
"""Told what became of a job: its state, its answer, the refusal in place of one."""


class Crew:
    """The workers, and which of them works on what.

    Parameters
    ----------
    settings : devices and limits.
    metrics : where it counts.
    queue : from which it takes its work.
    finish : told of every job that ends.
    """

    def __init__(self, settings: Settings, metrics: Metrics, queue: Queue, finish: Finish) -> None:
        self.settings, self.limits, self.metrics = settings, settings.limits, metrics
        self.queue, self.finish = queue, finish
        self.workers: list[Worker] = []
        self.running: dict[int, list[JobRecord]] = {}
        self.pace = 1.0  # seconds that a batch takes, lately
        self.closing = False
        self._numbers = itertools.count(1)
        self._timers: dict[int, asyncio.TimerHandle] = {}

    @property
    def ready(self) -> int:
        """How many workers can take work."""
        return sum(worker.ready for worker in self.workers)

    def open(self) -> None:
        """Start the workers."""
        self._loop = asyncio.get_running_loop()
        for device in devices(self.settings.device, self.settings.workers, self.settings.warm):
            worker = Worker(device, self._hear)
            worker.start()
            self.workers.append(worker)

    def feed(self) -> None:
        """Give work to workers that have none."""
        for worker in self.workers:
            if self.closing or not len(self.queue):
                return
            if worker.ready and worker.batch is None:
                self._start(worker, self.queue.take())

    def stop_unwanted(self, job: JobRecord) -> None:
        """Stop the batch of a job, unless somebody wants others of it."""
        for number, jobs in self.running.items():
            if job in jobs and all(one.cancelled for one in jobs):
                self._stop(number)

    async def close(self) -> None:
        """Let running batches finish within the grace, or return their best; then end the workers."""
        self.closing = True
        await self._all_ended(self.limits.grace)
        for number in list(self.running):
            self._stop(number)
        await self._all_ended(UNWILLING + 2.0)
        for worker in self.workers:
            worker.kill()

    async def _all_ended(self, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        while self.running and time.perf_counter() < deadline:
            await asyncio.sleep(0.02)

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
                self.finish(job, CANCELLED if job.cancelled else DONE, job.best_as_answer(), None)
            elif job.cancelled:
                self.finish(job, CANCELLED, None, None)
            else:
                refusal = Refusal(500, "no solution was found in the time there was", exit_code=4)
                self.finish(job, FAILED, None, refusal.as_dict())
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
            self.feed()
        elif message.batch in self.running:
            if message.what in ("done", "failed"):
                worker.batch = None
                self._timers.pop(message.batch).cancel()
                self._end_batch(message)
                self.feed()
            else:
                self.running[message.batch][message.place].hear(message.what, message.data)

    def _end_batch(self, message: Message) -> None:
        jobs = self.running.pop(message.batch)
        took = time.perf_counter() - (jobs[0].began or 0.0)
        self.metrics.solved.see(took)
        self.pace += 0.2 * (took - self.pace)
        if isinstance(message.data, Failure):
            self._failed(jobs, message.data)
            return
        for place, job in enumerate(jobs):
            answer = message.data.get(place)
            if job.cancelled:
                self.finish(job, CANCELLED, answer, None)
            elif answer is None:
                refusal = Refusal(422, f"no feasible solution was found for {job.order.instance.name}", exit_code=4)
                self.finish(job, FAILED, None, refusal.as_dict())
            else:
                self.finish(job, DONE, answer, None)

    def _failed(self, jobs: list[JobRecord], failure: Failure) -> None:
        """End the job that failed; where there were several, begin each alone: it may be the fault of one of them."""
        if len(jobs) > 1:
            for job in jobs:
                job.alone = True
            self.queue.put_back(jobs)
            return
        refusal = Refusal(STATUSES.get(failure.exit_code or 0, 500), failure.sentence, exit_code=failure.exit_code)
        self.finish(jobs[0], FAILED, None, refusal.as_dict())

    def _gone(self, worker: Worker) -> None:
        """A worker died: its jobs are begun again, unless they are what it dies of."""
        number, worker.ready, worker.batch = worker.batch, False, None
        if number in self._timers:
            self._timers.pop(number).cancel()
        jobs = [] if number is None else self.running.pop(number, [])
        if self.closing:
            for job in jobs:
                self.finish(job, FAILED, None, None)
            return
        self.metrics.restarts.add()
        again = []
        for job in jobs:
            if job.cancelled:
                self.finish(job, CANCELLED, None, None)
            elif job.attempts >= ATTEMPTS:
                refusal = Refusal(500, f"the worker that solved it died {job.attempts} times")
                self.finish(job, FAILED, None, refusal.as_dict())
            else:
                job.state, job.alone = WAITING, True
                again.append(job)
        self.queue.put_back(again)
        worker.start()
