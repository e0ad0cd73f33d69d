"""Jobs that can be asked for: in memory while they are new, on the disk where there is a store.

An answer is told when it is stored; where the disk does not take it, at once, and it is offered to the disk again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from .records import WAITING, JobRecord
from .refusals import Refusal
from .store import JobStore, NoRoomError, Stored, UnreadableError

REPLAYED = 60.0
"""Seconds after its end for which a job can be watched again in every detail."""
STORE_AGAIN = 5.0
"""Seconds after which an answer that the disk did not take is offered to it again."""


class Archive:
    """The jobs of a server by their names.

    Parameters
    ----------
    kept : finished jobs that stay in memory.
    store : where they survive; None for memory alone.
    """

    def __init__(self, kept: int, store: JobStore | None) -> None:
        self.kept, self.store = kept, store
        self.records: OrderedDict[str, JobRecord] = OrderedDict()
        self.closing = False
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, job: JobRecord) -> None:
        """Keep a new job; raise a Refusal where there is no room for it."""
        if self.store is not None:
            assert job.source is not None
            try:
                await self.store.add(job.id, job.created, job.source)
            except NoRoomError as error:
                raise Refusal(507, str(error)) from None
        self.remember(job)

    def remember(self, job: JobRecord) -> None:
        """Keep a job in memory, and forget the oldest of those that have ended."""
        self.records[job.id] = job
        if len(self.records) > self.kept:
            oldest = next((name for name, one in self.records.items() if one.ended), None)
            if oldest is not None:
                del self.records[oldest]
                if oldest in self._forgetting:
                    self._forgetting.pop(oldest).cancel()

    async def get(self, name: str) -> dict[str, Any]:
        """Return what is known of a job; raise a Refusal if there is none of that name."""
        job = self.records.get(name)
        if job is not None:
            return job.outcome()
        try:
            stored = None if self.store is None else await self.store.get(name)
        except UnreadableError as error:
            raise Refusal(500, str(error)) from None
        if stored is None:
            raise Refusal(404, f"there is no job '{name[:40]}'")
        return stored.outcome or {"id": name, "state": WAITING, "created": stored.created}

    def unfinished(self) -> list[Stored]:
        """Return the jobs that a server before this one did not finish."""
        return [] if self.store is None else self.store.unfinished()

    def keeps(self, job: JobRecord) -> bool:
        """Tell whether a job outlives this server."""
        return self.store is not None and job.kept

    def end(self, job: JobRecord, state: str) -> None:
        """Tell of a job's end, once it is stored where it is to be."""
        if self.keeps(job):
            self._later(self._store_and_announce(job, state))
        else:
            self._announce(job, state)

    def store_later(self, name: str, outcome: dict[str, Any]) -> None:
        """Store what became of a job, however long the disk does not take it."""
        if self.store is not None:
            self._later(self._offer(self.store, name, outcome))

    async def close(self) -> None:
        """Let what is being stored be stored, and let go of the store."""
        self.closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STORE_AGAIN + 1)
        for timer in self._forgetting.values():
            timer.cancel()
        if self.store is not None:
            await asyncio.to_thread(self.store.close)

    async def _store_and_announce(self, job: JobRecord, state: str) -> None:
        assert self.store is not None
        outcome = job.outcome() | {"state": state}
        try:
            await self.store.finish(job.id, outcome)
        except NoRoomError as error:
            job.notes.append(f"{error}; this is tried again while the server runs")
            self.store_later(job.id, outcome)
        self._announce(job, state)

    async def _offer(self, store: JobStore, name: str, outcome: dict[str, Any]) -> None:
        while True:
            try:
                await store.finish(name, outcome)
            except NoRoomError:
                if self.closing:
                    return  # it is unfinished for the next server, which does it again
                await asyncio.sleep(STORE_AGAIN)
                continue
            return

    def _announce(self, job: JobRecord, state: str) -> None:
        job.end(state)
        if job.kept:
            self._forgetting[job.id] = asyncio.get_running_loop().call_later(REPLAYED, self._forget_details, job.id)

    def _forget_details(self, name: str) -> None:
        del self._forgetting[name]
        if name in self.records:
            self.records[name].forget_details()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
