"""A batch over a Ray cluster: workers take jobs, each on a device of its own; jobs of workers that die are done again.

The jobs are those one machine would do, cut the same way, so the answers are the same too.
"""

import importlib.util
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .. import __version__
from ..errors import IcdcError, MissingExtraError, UsageError
from .answer import Answer
from .jobs import Job, Observer, do
from .solver import Solver

RETRIES = 20
"""How often a job is begun again when the worker that does it dies; only its own fault can use them all up."""
AHEAD = 2
"""Jobs handed out for every worker: one that it does, and the next."""

PATIENCE = 10.0
"""Seconds to wait for the head of a cluster to be reached; Ray itself would try for minutes, and talk about it."""


class Cluster:
    """A connection to a Ray cluster.

    Parameters
    ----------
    address : `host:port` of its head, `ray://host:port`, or `auto` for the one this machine belongs to.

    Attributes
    ----------
    gpus : how many GPUs its machines have.
    """

    def __init__(self, address: str) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("--ray needs the package 'ray'; add it with: pip install 'icdc[cluster]'")
        check_reachable(address)
        ray = _ray()
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UsageError(f"--ray {address}: there is no Ray cluster to be reached ({reason})") from None
        self.gpus = int(ray.cluster_resources().get("GPU", 0))

    def device_of(self, solver: Solver) -> str:
        """Return the kind of device on which its machines run a solver."""
        return "cuda" if self._on_gpus(solver) else "cpu"

    def do_all(self, jobs: Sequence[Job], time_limit: float | None) -> Iterator[dict[int, Answer]]:
        """Do all jobs and yield the answers of each as it comes; Ctrl-C ends it.

        The time limit is shared out by numbers of instances, as if no worker were ever idle.
        """
        ray = _ray()
        total = sum(len(job.places) for job in jobs)
        solvers: dict[int, Any] = {}
        left = iter(jobs)
        running: dict[Any, Job] = {}
        try:
            while True:
                workers = max(1, self._workers(jobs[0].solver)) if jobs else 0
                while len(running) < AHEAD * workers and (job := next(left, None)) is not None:
                    share = None if time_limit is None else time_limit * workers * len(job.places) / total
                    solver = job.solver
                    if id(solver) not in solvers:
                        solvers[id(solver)] = ray.put(solver)  # a model travels once
                    work = ray.remote(_work).options(
                        num_cpus=1, num_gpus=int(self._on_gpus(solver)), max_retries=RETRIES
                    )
                    alone = replace(job, solver=None)  # type: ignore[arg-type]
                    running[work.remote(alone, solvers[id(solver)], share, __version__)] = job
                if not running:
                    return
                for done in ray.wait(list(running), num_returns=1)[0]:
                    yield _received(done, running.pop(done))
        finally:
            for task in running:
                ray.cancel(task, force=True)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *error: object) -> None:
        _ray().shutdown()  # of our connection; the cluster goes on

    def _on_gpus(self, solver: Solver) -> bool:
        """Tell whether the jobs of a solver each need a GPU: where there are any, one that can use it does."""
        return self.gpus > 0 and solver.abilities.device and solver.runs_on != "cpu"

    def _workers(self, solver: Solver) -> int:
        """Return how many jobs the cluster can do at a time, now: machines come and go."""
        return int(_ray().cluster_resources().get("GPU" if self._on_gpus(solver) else "CPU", 0))


def _work(job: Job, solver: Solver, time_limit: float | None, version: str) -> dict[int, Answer]:
    """Do a job, which comes without its solver; this is what runs on a worker."""
    if version != __version__:
        raise UsageError(f"the worker has icdc {__version__}, and this is icdc {version}: install the same everywhere")
    return do(replace(job, solver=solver), time_limit, Observer())


def _received(task: Any, job: Job) -> dict[int, Answer]:
    """Return the answers of a task that has ended, or say in one sentence why there are none."""
    ray = _ray()
    try:
        answers: dict[int, Answer] = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, IcdcError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        name = job.originals[0].name
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise IcdcError(f"the workers that were given {name} died {RETRIES + 1} times: {reason}") from None
    return answers


def _ray() -> Any:
    """Return the package, imported now that it is needed."""
    return importlib.import_module("ray")


def check_reachable(address: str) -> None:
    """Raise UsageError where nothing answers at `host:port`; other addresses are Ray's affair."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--ray {address}: there is no Ray cluster to be reached ({reason})") from None
