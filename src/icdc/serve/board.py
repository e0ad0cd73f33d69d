"""Jobs that several servers share: a ledger that one of them keeps, and what each does to keep up with it.

Whoever a request reaches can tell how any job stands, follow it and cancel it. A server says every moment that it is
alive and how its jobs stand; jobs of one that has fallen silent are handed to the next that speaks.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .orders import Source
from .records import CANCELLED, DONE, FAILED, Watched
from .store import NoRoomError, Store, Stored

if TYPE_CHECKING:
    from .jobs import Jobs

BEAT = 0.5
"""Seconds between two words of a server."""
SILENT = 6.0
"""Seconds of silence after which a server counts as dead."""
KEPT = 10_000
"""Ended jobs that the ledger remembers where no folder does."""
ENDED = (DONE, FAILED, CANCELLED)


class Ledger:
    """Who has which job, and how it stands; in a folder, too, where there is one.

    now : the clock.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._store = None if folder is None else Store(folder)
        self._now = now
        self._jobs: dict[str, Stored] = {}
        self._owners: dict[str, str | None] = {}
        self._heard: dict[str, float] = {}
        self._cancelled: set[str] = set()
        for stored in [] if self._store is None else self._store.unfinished():
            self._jobs[stored.id], self._owners[stored.id] = stored, None

    async def add(self, owner: str, job: str, created: float, source: Source) -> None:
        """Enter a job that a server has accepted."""
        if self._store is not None:
            await self._store.add(job, created, source)
        self._jobs[job], self._owners[job] = Stored(job, created, source, None), owner
        self._heard[owner] = self._now()

    async def finish(self, job: str, outcome: Mapping[str, Any]) -> None:
        """Enter what became of a job; the first word counts, where two servers came to have it."""
        known = self._jobs.get(job)
        if known is not None and known.outcome is not None and known.outcome["state"] in ENDED:
            return
        if self._store is not None:
            await self._store.finish(job, outcome)
            self._jobs.pop(job, None)  # from now on the folder remembers it
        elif known is not None:
            self._jobs[job] = known._replace(outcome=dict(outcome))
            ended = [name for name in self._jobs if name not in self._owners]
            for name in ended[: max(0, len(ended) - KEPT)]:
                del self._jobs[name]
        self._owners.pop(job, None)
        self._cancelled.discard(job)

    async def get(self, job: str) -> Stored | None:
        """Return a job by its name."""
        found = self._jobs.get(job)
        return found if found is not None or self._store is None else await self._store.get(job)

    async def cancel(self, job: str) -> None:
        """Note that somebody wants a job to end."""
        if job in self._owners:
            self._cancelled.add(job)

    async def beat(self, owner: str, progress: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[Stored]]:
        """Hear that a server lives and how its jobs stand; return those to be cancelled and those it inherits."""
        now = self._heard[owner] = self._now()
        for job, outcome in progress.items():
            if self._owners.get(job) == owner:
                self._jobs[job] = self._jobs[job]._replace(outcome=dict(outcome))
        dead = {name for name, heard in self._heard.items() if now - heard > SILENT}
        inherited = []
        for job, held in list(self._owners.items()):
            if held is None or held in dead:
                self._owners[job] = owner
                inherited.append(self._jobs[job])
        for name in dead:
            del self._heard[name]
        return [job for job in self._cancelled if self._owners.get(job) == owner], inherited


class Board:
    """A server's view of the ledger; a store for its jobs.

    Parameters
    ----------
    call : calls a method of the ledger by name, wherever it is.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._owner = secrets.token_hex(6)
        self._following: set[asyncio.Task[None]] = set()

    async def add(self, job: str, created: float, source: Source) -> None:
        """Enter a job."""
        await self._ask("add", self._owner, job, created, source)

    async def finish(self, job: str, outcome: Mapping[str, Any]) -> None:
        """Enter what became of a job."""
        await self._ask("finish", job, dict(outcome))

    async def get(self, job: str) -> Stored | None:
        """Return a job by its name."""
        found: Stored | None = await self._ask("get", job)
        return found

    def unfinished(self) -> list[Stored]:
        """Return nothing: what is left over comes with the first beat."""
        return []

    def close(self) -> None:
        """Do nothing: others go on using the ledger."""

    async def cancel(self, job: str) -> None:
        """End a job that another server has, and wait until it has."""
        await self._ask("cancel", job)
        for _ in range(40):
            stored = await self.get(job)
            if stored is None or (stored.outcome is not None and stored.outcome["state"] in ENDED):
                return
            await asyncio.sleep(0.25)

    def followed(self, outcome: dict[str, Any]) -> Watched:
        """Return something to watch a job by that another server has."""
        watched = Watched()
        task = asyncio.ensure_future(self._follow(watched, outcome))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return watched

    async def share(self, jobs: "Jobs") -> None:
        """Keep up with the ledger until cancelled."""
        while True:
            progress = {
                name: job.outcome() | {"best": job.best}
                for name, job in jobs.archive.records.items()
                if job.kept and not job.ended
            }
            try:
                cancelled, inherited = await self._ask("beat", self._owner, progress)
            except NoRoomError:  # whoever keeps the ledger is being replaced
                cancelled, inherited = [], []
            for name in cancelled:
                if (job := jobs.find(name)) is not None:
                    jobs.cancel(job)
            for stored in inherited:
                if jobs.find(stored.id) is None:
                    await jobs.take_up(stored)
            await asyncio.sleep(BEAT)

    async def _follow(self, watched: Watched, outcome: dict[str, Any]) -> None:
        """Look how a job stands again and again, and tell of what is new."""
        last = None
        while True:
            best = outcome.get("best")
            if best is not None and best != last:
                last = best
                watched.tell("improved", best)
            if outcome["state"] in ENDED:
                watched.tell("end", outcome)
                return
            await asyncio.sleep(BEAT)
            stored = await self.get(outcome["id"])
            if stored is not None and stored.outcome is not None:
                outcome = stored.outcome

    async def _ask(self, method: str, *values: Any) -> Any:
        try:
            return await self._call(method, *values)
        except NoRoomError:
            raise
        except Exception as error:  # the ledger's machine is gone, or its disk is full
            raise NoRoomError(f"the job cannot be stored ({error})") from None
