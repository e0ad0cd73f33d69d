"""Several servers on the machines of a Ray cluster: replicas of Ray Serve, and one named actor that has all their jobs.

Every replica can look up, follow and cancel every job. It reports regularly to the actor that it is alive and how its
jobs stand; the jobs of a replica that stops reporting go to the next one that reports.
"""

import asyncio
import importlib
import importlib.util
import logging
import secrets
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from ..errors import MissingExtraError, UsageError
from ..solving.cluster import check_reachable
from .app import make_app
from .jobs import Jobs
from .limits import Settings
from .queue import CANCELLED, DONE, FAILED, Events
from .requests import Source
from .store import NoRoomError, Store, StoredJob

ACTOR, APPLICATION = "icdc-jobs", "icdc"
ONGOING = 16
"""Requests under way for each replica, on average, above which another is started."""
LOCAL = "local"
"""The address for a cluster of this machine alone, started for the purpose."""
BEAT = 0.5
"""Seconds between two reports of a replica."""
SILENT = 6.0
"""Seconds without a report after which a replica counts as dead."""
KEPT = 10_000
"""Ended jobs that are kept where there is no folder."""


def serve_on_ray(settings: Settings, host: str, port: int, address: str, replicas: int) -> None:
    """Serve from a Ray cluster until a signal stops it."""
    _start(settings, host, port, address, replicas)
    about = f"icdc serves on http://{host}:{port} with up to {replicas} replicas (Ctrl-C stops)"
    print(about, file=sys.stderr, flush=True)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    _module("ray.serve").shutdown()


def _start(settings: Settings, host: str, port: int, address: str, replicas: int) -> None:
    """Start the replicas and return."""
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("grpc") is None:
        raise MissingExtraError("--ray needs Ray Serve; add it with: pip install 'icdc[serve-cluster]'")
    check_reachable(address)
    ray, serve = _module("ray"), _module("ray.serve")
    try:
        ray.init(
            address=None if address == LOCAL else address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=False if address == LOCAL else None,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(f"--ray {address}: there is no Ray cluster to be reached ({reason})") from None
    serve.start(http_options={"host": host, "port": port})
    gpus = 1 if settings.device != "cpu" and ray.cluster_resources().get("GPU", 0) else 0
    deployment = serve.deployment(
        name=APPLICATION,
        autoscaling_config={
            "min_replicas": min(2, replicas),
            "max_replicas": replicas,
            "target_ongoing_requests": ONGOING,
        },
        max_ongoing_requests=settings.limits.queue,
        health_check_period_s=2,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=settings.limits.grace + 10,
        ray_actor_options={"num_cpus": settings.workers, "num_gpus": gpus},
    )

    def build() -> FastAPI:  # Ray takes functions alone for makers of applications
        return replica_app(settings)

    replica = deployment(serve.ingress(build)(Replica))
    serve.run(replica.bind(), name=APPLICATION, route_prefix="/")


def _module(name: str) -> Any:
    """Import an optional package."""
    return importlib.import_module(name)


class Replica:
    """One server of several; everything it does is the application's."""


def replica_app(settings: Settings) -> FastAPI:
    """Return the application of one replica, whose jobs are those of the one actor."""
    options = {
        "name": ACTOR, "get_if_exists": True, "lifetime": "detached", "num_cpus": 0, "max_restarts": -1,
        "max_concurrency": 100,
    }  # fmt: skip
    actor = _module("ray").remote(SharedJobs).options(**options).remote(settings.data)

    async def call(method: str, *values: Any) -> Any:
        return await getattr(actor, method).remote(*values)

    return make_app(settings, shared=SharedStore(call))


class SharedJobs:
    """The actor: the jobs of all replicas, which replica has each, and how it stands.

    Ray starts it again where it dies; what must survive that is in its store.
    """

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._store, self._now = folder, Store(folder), now
        self._owners: dict[str, str | None] = {stored.id: None for stored in self._store.unfinished()}
        self._progress: dict[str, dict[str, Any]] = {}
        self._reported: dict[str, float] = {}
        self._cancelled: set[str] = set()
        self._ended: deque[str] = deque()

    async def add(self, owner: str, job: str, created: float, source: Source) -> None:
        """Keep a job that a replica has accepted."""
        await self._store.add(job, created, source)
        self._owners[job], self._reported[owner] = owner, self._now()

    async def finish(self, job: str, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a job; the first one counts, where two replicas came to have it."""
        if job not in self._owners:
            return
        await self._store.finish(job, outcome)
        self._owners.pop(job, None)
        self._progress.pop(job, None)
        self._cancelled.discard(job)
        self._ended.append(job)
        if self._folder is None and len(self._ended) > KEPT:
            await self._store.forget(self._ended.popleft())

    async def get(self, job: str) -> StoredJob | None:
        """Return a job by its name."""
        stored = await self._store.get(job)
        progress = self._progress.get(job)
        return stored if stored is None or progress is None else stored._replace(outcome=progress)

    async def cancel(self, job: str) -> None:
        """Let the replica that has a job end it."""
        if job in self._owners:
            self._cancelled.add(job)

    async def report(self, owner: str, progress: Mapping[str, dict[str, Any]]) -> tuple[list[str], list[StoredJob]]:
        """Note that a replica lives and how its jobs stand; return those to cancel and those that it inherits."""
        now = self._reported[owner] = self._now()
        self._progress |= {job: outcome for job, outcome in progress.items() if self._owners.get(job) == owner}
        dead = {name for name, reported in self._reported.items() if now - reported > SILENT}
        inherited = []
        for job, other in list(self._owners.items()):
            if other is None or other in dead:
                self._owners[job] = owner
                stored = await self._store.get(job)
                inherited += [] if stored is None else [stored]
        for name in dead:
            del self._reported[name]
        return [job for job in self._cancelled if self._owners.get(job) == owner], inherited

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


class SharedStore:
    """A replica's view of the jobs of all; a store for its own.

    Parameters
    ----------
    call : calls a method of the actor by name.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._owner = secrets.token_hex(6)
        self._following: set[asyncio.Task[None]] = set()

    async def add(self, job: str, created: float, source: Source) -> None:
        """Keep a job."""
        await self._ask("add", self._owner, job, created, source)

    async def finish(self, job: str, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a job."""
        await self._ask("finish", job, dict(outcome))

    async def get(self, job: str) -> StoredJob | None:
        """Return a job by its name."""
        stored: StoredJob | None = await self._ask("get", job)
        return stored

    def unfinished(self) -> list[StoredJob]:
        """Return nothing: jobs to take up come with the first report."""
        return []

    def close(self) -> None:
        """Do nothing: other replicas go on using the actor."""

    async def cancel(self, job: str) -> None:
        """End a job that another replica has, and wait until it has ended."""
        await self._ask("cancel", job)
        for _ in range(40):
            stored = await self.get(job)
            if stored is None or (stored.outcome is not None and _has_ended(stored.outcome)):
                return
            await asyncio.sleep(0.25)

    def follow(self, outcome: dict[str, Any]) -> Events:
        """Return the events of a job that another replica has."""
        events = Events()
        task = asyncio.ensure_future(self._follow(events, outcome))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return events

    async def share(self, jobs: Jobs) -> None:
        """Report to the actor, cancel and take up the jobs that it returns, and go on until cancelled."""
        while True:
            progress = {
                name: job.outcome() | {"best": job.best}
                for name, job in jobs.records.items()
                if job.kept and not job.ended
            }
            try:
                cancelled, inherited = await self._ask("report", self._owner, progress)
            except NoRoomError:  # the actor is being started again
                cancelled, inherited = [], []
            for name in cancelled:
                if (job := jobs.find(name)) is not None:
                    jobs.cancel(job)
            for stored in inherited:
                if jobs.find(stored.id) is None:
                    await jobs.take_up(stored)
            await asyncio.sleep(BEAT)

    async def _follow(self, events: Events, outcome: dict[str, Any]) -> None:
        """Look how a job stands again and again, and add an event for every improvement."""
        last = None
        while not _has_ended(outcome):
            best = outcome.get("best")
            if best is not None and best != last:
                last = best
                events.add("improved", best)
            await asyncio.sleep(BEAT)
            stored = await self.get(outcome["id"])
            if stored is not None and stored.outcome is not None:
                outcome = stored.outcome
        events.add("end", outcome)

    async def _ask(self, method: str, *values: Any) -> Any:
        try:
            return await self._call(method, *values)
        except NoRoomError:
            raise
        except Exception as error:  # the actor's machine is gone, or its disk is full
            raise NoRoomError(f"the job cannot be stored ({error})") from None


def _has_ended(outcome: Mapping[str, Any]) -> bool:
    return outcome["state"] in (DONE, FAILED, CANCELLED)
