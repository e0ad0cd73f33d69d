"""Where jobs survive: a SQLite file written by one thread, many changes in one transaction.

A change counts only when it is on the disk, so every job and answer that a client has seen outlives the server.
"""

import asyncio
import contextlib
import json
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..errors import InputError
from .requests import Source

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    kind TEXT NOT NULL,
    words TEXT NOT NULL,
    content BLOB NOT NULL,
    outcome TEXT,
    ended REAL
);
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended);
PRAGMA user_version = 1;
"""
_FILE = "jobs.sqlite3"
_VERSION = 1
"""Of the tables; a server leaves those of a later one alone."""
_DAYS_KEPT = 30


class StoredJob(NamedTuple):
    """A job as it is stored; `outcome` is what a client is shown of one that has ended."""

    id: str
    created: float
    source: Source
    outcome: dict[str, Any] | None


class JobStore(Protocol):
    """Where jobs are kept, for one server or for several that share it."""

    async def add(self, job: str, created: float, source: Source) -> None:
        """Keep a job that is to be done; raise NoRoomError if it cannot be."""

    async def finish(self, job: str, outcome: Mapping[str, Any]) -> None:
        """Keep what became of a job; raise NoRoomError if it cannot be."""

    async def get(self, job: str) -> StoredJob | None:
        """Return a job by its name."""

    def unfinished(self) -> list[StoredJob]:
        """Return the jobs that this server is to take up when it starts."""

    def close(self) -> None:
        """Let go of it."""


class NoRoomError(Exception):
    """The disk does not take a job; the sentence says why."""


class UnreadableError(Exception):
    """The file is damaged; the sentence says how."""


class Store:
    """Jobs in a folder.

    Parameters
    ----------
    folder : made where it is missing; one server uses it at a time. None keeps the jobs in memory.
    patience : seconds to wait for another server to let go of it.
    """

    def __init__(self, folder: Path | None, patience: float = 2.0) -> None:
        self._lock = threading.Lock()
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                _keep_private(folder / _FILE)
            file = ":memory:" if folder is None else folder / _FILE
            self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None, timeout=patience)
            self._prepare(folder)
        except FileExistsError:
            raise InputError(f"--data {folder}: this is not a folder") from None
        except (sqlite3.Error, OSError, UnreadableError) as error:
            reason = "another server uses it" if "locked" in str(error) else getattr(error, "strerror", None) or error
            raise InputError(f"--data {folder}: cannot be used ({reason})") from None
        self._changes: queue.Queue[tuple[str, tuple[Any, ...], Future[None]] | None] = queue.Queue()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def _prepare(self, folder: Path | None) -> None:
        """Lock the file, make its tables, and see that unfinished jobs can be read."""
        execute = self._database.execute
        execute("PRAGMA locking_mode=EXCLUSIVE")  # before anything is read, so that no further file is needed
        version = execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            self._database.close()
            raise InputError(f"--data {folder}: it was written by a newer version of icdc (format {version})")
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=FULL")
        self._database.executescript(f"BEGIN IMMEDIATE; {'' if version else _SCHEMA} COMMIT;")
        with contextlib.suppress(sqlite3.OperationalError):  # a full disk does not prevent a start
            execute("DELETE FROM jobs WHERE ended < ?", (time.time() - 86400 * _DAYS_KEPT,))
        self.unfinished()

    async def add(self, job: str, created: float, source: Source) -> None:
        """Store a job that is to be done; raise NoRoomError if the disk does not take it."""
        values = (job, created, source.kind, json.dumps(dict(source.options)), source.content)
        await self._change("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, NULL, NULL)", values)

    async def finish(self, job: str, outcome: Mapping[str, Any]) -> None:
        """Store what became of a job; raise NoRoomError if the disk does not take it."""
        values = (json.dumps(dict(outcome)), time.time(), job)
        await self._change("UPDATE jobs SET outcome = ?, ended = ? WHERE id = ?", values)

    async def forget(self, job: str) -> None:
        """Delete a job."""
        await self._change("DELETE FROM jobs WHERE id = ?", (job,))

    async def get(self, job: str) -> StoredJob | None:
        """Return a job by its name; raise UnreadableError if the file is damaged."""
        jobs = await asyncio.to_thread(self._read, "SELECT * FROM jobs WHERE id = ?", (job,))
        return jobs[0] if jobs else None

    def unfinished(self) -> list[StoredJob]:
        """Return the jobs that were not finished, in the order they came."""
        return self._read("SELECT * FROM jobs WHERE outcome IS NULL ORDER BY created, rowid", ())

    def close(self) -> None:
        """Write the remaining changes and close the file."""
        self._changes.put(None)
        self._writer.join(10)
        self._database.close()

    def _read(self, query: str, values: tuple[Any, ...]) -> list[StoredJob]:
        try:
            with self._lock:
                rows = self._database.execute(query, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise UnreadableError(f"what is stored cannot be read ({error})") from None
        return [
            StoredJob(
                job, created, Source(content, kind, json.loads(options)), None if end is None else json.loads(end)
            )
            for job, created, kind, options, content, end, _ in rows
        ]

    async def _change(self, query: str, values: tuple[Any, ...]) -> None:
        done: Future[None] = Future()
        self._changes.put((query, values, done))
        try:
            await asyncio.wrap_future(done)
        except (sqlite3.Error, OSError) as error:
            raise NoRoomError(f"the job cannot be stored ({error})") from None

    def _write(self) -> None:
        """Make all changes that wait in one transaction, and wake those who wait for them."""
        while (first := self._changes.get()) is not None:
            changes = [first]
            while not self._changes.empty():
                following = self._changes.get()
                if following is None:
                    self._changes.put(None)
                    break
                changes.append(following)
            failed: Exception | None = None
            with self._lock:
                try:
                    self._database.execute("BEGIN IMMEDIATE")
                    for query, values, _ in changes:
                        self._database.execute(query, values)
                    self._database.execute("COMMIT")
                except (sqlite3.Error, OSError) as error:
                    failed = error
                    if self._database.in_transaction:
                        self._database.execute("ROLLBACK")
            for *_, done in changes:
                if failed is None:
                    done.set_result(None)
                else:
                    done.set_exception(failed)


def _keep_private(file: Path) -> None:
    """Make a database readable by its owner alone; the files that SQLite adds get the same permissions."""
    os.close(os.open(file, os.O_CREAT | os.O_RDONLY, 0o600))
    for part in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
        with contextlib.suppress(FileNotFoundError):
            part.chmod(0o600)
