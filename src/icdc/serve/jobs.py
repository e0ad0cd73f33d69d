"""Jobs from arrival to end: taken in or refused, made to wait, cancelled, finished, and a graceful stop."""

import asyncio
import math
import secrets
import time
from typing import Any

from ..errors import IcdcError
from .archive import Archive
from .batching import Queue
from .crew import Crew
from .limits import Settings
from .metrics import Gauge, Metrics, resident_bytes
from .orders import Source, read_order
from .records import CANCELLED, FAILED, JobRecord
from .refusals import Refusal, refusal_of
from .store import JobStore, Store, Stored

WAITING_BODIES = 32
"""Of the largest size, that may wait: a full queue of small requests is small."""


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
        if store is None and settings.data is not None:
            store = Store(settings.data)
        self.queue = Queue(self.limits.queue, self.limits.batch, WAITING_BODIES * self.limits.body)
        self.archive = Archive(self.limits.kept, store)
        self.crew = Crew(settings, metrics, self.queue, self._finish)
        self.stopping = False
        self._closing: asyncio.Task[None] | None = None
        running = self.crew.running
        metrics.add(Gauge("icdc_queue_length", "Jobs that wait.", lambda: len(self.queue)))
        metrics.add(Gauge("icdc_running", "Jobs that are being solved.", lambda: sum(map(len, running.values()))))
        metrics.add(Gauge("icdc_workers_ready", "Workers that can take work.", lambda: self.crew.ready))
        metrics.add(Gauge("process_resident_memory_bytes", "Memory of the server's own process.", resident_bytes))

    async def open(self) -> None:
        """Start the workers, and take up the jobs that a server before this one did not finish."""
        self._loop = asyncio.get_running_loop()
        self.crew.open()
        for stored in self.archive.unfinished():
            await self.take_up(stored)

    async def take_up(self, stored: Stored) -> None:
        """Let a job wait that was accepted before, here or elsewhere, however long the queue."""
        try:
            order = await asyncio.to_thread(read_order, stored.source, self.settings)
        except (IcdcError, Refusal) as error:  # limits have changed since
            refusal = error if isinstance(error, Refusal) else refusal_of(error)
            outcome = {"id": stored.id, "state": FAILED, "created": stored.created, "error": refusal.as_dict()}
            self.archive.store_later(stored.id, outcome)
            return
        job = JobRecord(order, stored.id, stored.created, True, stored.source)
        self.archive.remember(job)
        self.queue.add(job)
        self.crew.feed()

    async def submit(self, source: Source, *, kept: bool) -> JobRecord:
        """Take a request in; raise a Refusal where there is no room or something is wrong with it."""
        self.refuse_if_busy()
        order = await asyncio.to_thread(read_order, source, self.settings)
        self.refuse_if_busy()
        job = JobRecord(order, secrets.token_urlsafe(12), time.time(), kept, source)
        if kept:
            await self.archive.add(job)
        self.queue.add(job)
        self.crew.feed()
        return job

    async def keep(self, job: JobRecord) -> None:
        """Let a job that was to be answered directly be asked for later."""
        if not job.ended and not job.kept:
            job.kept = True
            await self.archive.add(job)

    def refuse_if_busy(self) -> None:
        """Refuse where the queue is full or the server stops."""
        if self.stopping:
            raise Refusal(503, "the server is stopping; try again in a moment", headers={"Retry-After": "5"})
        if self.queue.full:
            batches = math.ceil(len(self.queue) / self.limits.batch / max(1, len(self.crew.workers)))
            seconds = max(1, min(60, math.ceil(batches * self.crew.pace)))
            raise Refusal(
                429, f"{len(self.queue)} requests wait already; try again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )  # fmt: skip

    def find(self, name: str) -> JobRecord | None:
        """Return a job that is in memory."""
        return self.archive.records.get(name)

    async def get(self, name: str) -> dict[str, Any]:
        """Return what is known of a job; raise a Refusal if there is none of that name."""
        job = self.find(name)
        return await self.archive.get(name) | ({} if job is None else {"position": self.queue.place(job)})

    def cancel(self, job: JobRecord) -> None:
        """End a job; its best so far is its answer. What is alike and wanted by others goes on."""
        if job.ended or job.cancelled:
            return
        job.cancelled = True
        if self.queue.remove(job):
            self._finish(job, CANCELLED)
        else:
            self.crew.stop_unwanted(job)

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
        while len(self.queue):
            for job in self.queue.take():
                self._finish(job, FAILED)
        await self.crew.close()
        await self.archive.close()

    def _finish(
        self,
        job: JobRecord,
        state: str,
        answer: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        """End a job; those who wait hear of it once it is stored.

        One that a stop left without an answer is left to the next server, where there is a store.
        """
        if self.stopping and answer is None and not job.cancelled:
            if self.archive.keeps(job):
                job.leave()
                return
            error = Refusal(503, "the server was stopped before this job had an answer").as_dict()
        job.settle(answer, error)
        self.metrics.jobs.add(state=state)
        self.archive.end(job, state)
