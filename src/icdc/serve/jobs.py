"""Jobs from arrival to long after their end: accepted or refused, waiting, cancelled, finished, stored, looked up."""

import asyncio
import contextlib
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Coroutine
from typing import Any, Protocol

from .limits import Refusal, Settings
from .metrics import Metrics
from .queue import FAILED, WAITING, Events, JobRecord, Queue
from .requests import Source
from .store import JobStore, NoRoomError, Store, StoredJob, UnreadableError
from .workers import Readers, Workers, stopping

WAITING_BODIES = 32
"""Requests of the largest size that may wait: a full queue of small requests is small."""
REPLAYED = 60.0
"""Seconds after its end for which a job can at least be followed again in every detail."""
TAKE_UP_PATIENCE = 10.0
"""How many times as long as usual reading may take for a job that was accepted before: a server that starts is busy."""
STORE_AGAIN = 5.0
"""Seconds after which an answer that the disk did not take is offered to it again."""


class SharedJobStore(JobStore, Protocol):
    """A store that several servers share."""

    async def share(self, jobs: "Jobs") -> None:
        """Tell the others how the jobs of this server stand, and take up those of dead servers, until cancelled."""

    async def cancel(self, job: str) -> None:
        """End a job that another server has, and wait until it has ended."""

    def follow(self, outcome: dict[str, Any]) -> Events:
        """Return the events of a job that another server has."""
        ...


class Jobs:
    """All jobs of a server: in memory while they are new, on the disk where there is a store.

    Parameters
    ----------
    settings : limits, devices, the folder of the store.
    store : where jobs are kept; by default in the folder of the settings, if they name one.
    shared : a store that other servers use, too, in place of one of its own.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        store: JobStore | None = None,
        shared: SharedJobStore | None = None,
    ) -> None:
        self.settings, self.limits, self.metrics, self.shared = settings, settings.limits, metrics, shared
        store = store or shared
        self.store = Store(settings.data) if store is None and settings.data is not None else store
        self.queue = Queue(self.limits.queue, self.limits.batch, WAITING_BODIES * self.limits.body)
        self.workers = Workers(settings, metrics, self.queue, self.finish)
        self.readers = Readers(settings)
        self.records: OrderedDict[str, JobRecord] = OrderedDict()
        self.stopping = False
        self._closing: asyncio.Task[None] | None = None
        self._detailed: deque[tuple[float, str]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        batches = self.workers.batches
        metrics.gauge("icdc_queue_length", "Jobs that wait.", lambda: len(self.queue))
        metrics.gauge(
            "icdc_running", "Jobs that are being solved.", lambda: sum(len(one.jobs) for one in batches.values())
        )
        metrics.gauge("icdc_workers_ready", "Workers that can take work.", lambda: self.workers.ready)

    async def open(self) -> None:
        """Start the workers, and take up the jobs that a server before this one did not finish."""
        self._loop = asyncio.get_running_loop()
        self.workers.open()
        self.readers.quick.start()
        self._later(self._take_up_all([] if self.store is None else self.store.unfinished()))
        self._sharing = None if self.shared is None else asyncio.ensure_future(self.shared.share(self))

    async def take_up(self, stored: StoredJob) -> None:
        """Let a job wait that was accepted before, here or elsewhere, however long the queue."""
        try:
            task = await self.readers.read(stored.source, patience=TAKE_UP_PATIENCE)
        except Refusal as refusal:  # limits have changed since
            if refusal.status == 429:
                self._later(self.take_up(stored))
                return
            outcome = {"id": stored.id, "state": FAILED, "created": stored.created, "error": refusal.as_dict()}
            if not self.stopping:
                self._later(self._offer(stored.id, outcome))
            return
        self._add(JobRecord(task, stored.id, stored.created, True, stored.source))

    async def submit(self, source: Source, *, kept: bool) -> JobRecord:
        """Accept a request; raise a Refusal where there is no room or something is wrong with it."""
        self.refuse_if_busy()
        task = await self.readers.read(source)
        self.refuse_if_busy()
        job = JobRecord(task, secrets.token_urlsafe(12), time.time(), kept, source)
        if kept:
            await self._store(job)
        self._add(job)
        return job

    async def keep(self, job: JobRecord) -> None:
        """Let a job that was to be answered directly be looked up later."""
        if not job.ended and not job.kept:
            job.kept = True
            await self._store(job)
            self._remember(job)

    def refuse_if_busy(self) -> None:
        """Refuse where the queue is full or the server stops."""
        if self.stopping:
            raise stopping()
        if self.queue.full:
            batches = math.ceil(len(self.queue) / self.limits.batch / max(1, len(self.workers.all)))
            seconds = max(1, min(60, math.ceil(batches * self.workers.pace)))
            sentence = f"{len(self.queue)} requests wait already; try again in {seconds} s"
            raise Refusal(429, sentence, headers={"Retry-After": str(seconds)})

    def find(self, name: str) -> JobRecord | None:
        """Return a job that is in memory."""
        return self.records.get(name)

    async def get(self, name: str) -> dict[str, Any]:
        """Return how a job stands; raise a Refusal if there is none of that name."""
        job = self.find(name)
        if job is not None:
            return job.outcome() | {"position": self.queue.place(job)}
        try:
            stored = None if self.store is None else await self.store.get(name)
        except UnreadableError as error:
            raise Refusal(500, str(error)) from None
        if stored is None:
            raise Refusal(404, f"there is no job '{name[:40]}'")
        return stored.outcome or {"id": name, "state": WAITING, "created": stored.created}

    async def follow(self, name: str) -> Events:
        """Return the events of a job, wherever it is; raise a Refusal if there is none of that name."""
        job = self.find(name)
        if job is not None:
            return job
        outcome = await self.get(name)
        if self.shared is not None:
            return self.shared.follow(outcome)
        ended = Events()  # under a server before this one, or long ago
        ended.add("end", outcome)
        return ended

    async def cancel_wherever(self, name: str) -> None:
        """End a job, wherever it is, and wait until it has ended."""
        job = self.find(name)
        if job is not None:
            self.cancel(job)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job.wait(), 10)
        elif self.shared is not None:
            await self.shared.cancel(name)

    def cancel(self, job: JobRecord) -> None:
        """End a job with the best it has so far; others in its batch go on."""
        if job.ended or job.cancelled:
            return
        job.cancelled = True
        if self.queue.remove(job):
            self.finish(job, None, None)
        else:
            self.workers.stop(job)

    def finish(self, job: JobRecord, answer: dict[str, Any] | None, refusal: Refusal | None) -> None:
        """End a job; its end becomes public once it is stored.

        A job that a stop left unanswered is kept for the next server, if there is a store.
        """
        stored = self.store is not None and job.kept
        if self.stopping and answer is None and not job.cancelled:
            if stored:
                job.state = WAITING
                job.wake(over=True)  # those who follow it ask the next server
                return
            refusal = Refusal(503, "the server was stopped before this job had an answer")
        state = job.settle(answer, None if refusal is None else refusal.as_dict())
        self.metrics.jobs.labels(state=state).inc()
        if stored:
            self._later(self._finish_stored(job, state))
        else:
            self._end(job, state)

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
        if self._sharing is not None:
            self._sharing.cancel()
        self.readers.close()
        while len(self.queue):
            for job in self.queue.take():
                self.finish(job, None, None)
        await self.workers.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STORE_AGAIN + 1)
        if self.store is not None:
            await asyncio.to_thread(self.store.close)

    async def _take_up_all(self, unfinished: list[StoredJob]) -> None:
        for stored in unfinished:
            if not self.stopping:
                await self.take_up(stored)

    def _add(self, job: JobRecord) -> None:
        if job.kept:
            self._remember(job)
        self.queue.add(job)
        self.workers.feed()

    async def _store(self, job: JobRecord) -> None:
        """Store a new job; raise a Refusal where there is no room for it."""
        if self.store is not None:
            assert job.source is not None
            try:
                await self.store.add(job.id, job.created, job.source)
            except NoRoomError as error:
                raise Refusal(507, str(error)) from None

    def _remember(self, job: JobRecord) -> None:
        """Keep a job in memory, and forget the oldest of too many that have ended."""
        self.records[job.id] = job
        self._trim()

    def _trim(self) -> None:
        if len(self.records) <= self.limits.kept:
            return
        ended = [name for name, job in self.records.items() if job.ended]
        for name in ended[: len(self.records) - self.limits.kept]:
            del self.records[name]

    async def _finish_stored(self, job: JobRecord, state: str) -> None:
        assert self.store is not None
        outcome = job.outcome() | {"state": state}
        try:
            await self.store.finish(job.id, outcome)
        except NoRoomError as error:
            job.notes.append(f"{error}; this is tried again while the server runs")
            self._later(self._offer(job.id, outcome))
        self._end(job, state)

    async def _offer(self, name: str, outcome: dict[str, Any]) -> None:
        """Offer the outcome of a job to the store until it takes it."""
        assert self.store is not None
        while True:
            try:
                await self.store.finish(name, outcome)
                return
            except NoRoomError:
                if self.stopping:
                    return  # it is unfinished for the next server, which does it again
                await asyncio.sleep(STORE_AGAIN)

    def _end(self, job: JobRecord, state: str) -> None:
        job.end(state)
        if job.kept:
            self._detailed.append((time.monotonic(), job.id))
        while self._detailed and self._detailed[0][0] < time.monotonic() - REPLAYED:
            old = self.find(self._detailed.popleft()[1])
            if old is not None:
                old.forget_details()
        self._trim()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
