"""The same application on Ray Serve: replicas on the machines of a cluster, as many as there is work for."""

import importlib
import importlib.util
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from ..errors import MissingExtraError, UsageError
from ..solving.cluster import check_reachable
from .limits import Settings

LEDGER, APPLICATION = "icdc-ledger", "icdc"
ONGOING = 16
"""Requests under way for each replica, on average, above which another is started."""
LOCAL = "local"
"""The address for a cluster of this machine alone, started for the purpose."""


def serve_on_ray(settings: Settings, host: str, port: int, address: str, replicas: int) -> None:
    """Serve from a Ray cluster until told to stop."""
    _begin(settings, host, port, address, replicas)
    print(
        f"icdc serves on http://{host}:{port} with up to {replicas} replicas (Ctrl-C stops)",
        file=sys.stderr,
        flush=True,
    )
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    _module("ray.serve").shutdown()


def _begin(settings: Settings, host: str, port: int, address: str, replicas: int) -> None:
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
    """Import an optional package, of which nothing is known before."""
    return importlib.import_module(name)


class Replica:
    """One server of several; everything it does is the application's."""


def replica_app(settings: Settings) -> FastAPI:
    """Return the application of one replica, with the ledger that all of them share."""
    from .app import make_app
    from .board import Board

    ledger = (
        _module("ray")
        .remote(LedgerActor)
        .options(name=LEDGER, get_if_exists=True, lifetime="detached", num_cpus=0, max_restarts=-1, max_concurrency=100)
    )
    actor = ledger.remote(settings.data)

    async def call(method: str, *values: Any) -> Any:
        return await getattr(actor, method).remote(*values)

    return make_app(settings, Board(call))


class LedgerActor:
    """The ledger as an actor of the cluster: it outlives every replica, and is started again where it dies."""

    def __init__(self, folder: Path | None) -> None:
        from .board import Ledger

        self._ledger = Ledger(folder)

    async def add(self, *values: Any) -> None:
        """Enter a job."""
        await self._ledger.add(*values)

    async def finish(self, *values: Any) -> None:
        """Enter what became of a job."""
        await self._ledger.finish(*values)

    async def get(self, job: str) -> Any:
        """Return a job by its name."""
        return await self._ledger.get(job)

    async def cancel(self, job: str) -> None:
        """Note that somebody wants a job to end."""
        await self._ledger.cancel(job)

    async def beat(self, *values: Any) -> Any:
        """Hear that a server lives."""
        return await self._ledger.beat(*values)
