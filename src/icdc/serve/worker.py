"""A worker: a process with one device that solves what it is sent and tells of every improvement.

It lives for many batches, so models stay loaded. Whoever wants a batch to end says so through the pipe; a thread
listens and raises Ctrl-C in the main thread, which every solver knows how to take: it returns its best so far.
"""

import contextlib
import os
import queue
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .orders import Order


WARM_UP = ((20, 4, ("icdc", "search", "network")), (100, 30, ("icdc",)))
"""Instances with which a worker begins: how many items, of how many others, and who solves them."""
WARM_UP_SECONDS = 25.0
"""After which a worker on a busy machine is ready all the same; its first requests then wait instead."""

AGAIN = 0.7
"""Seconds between interruptions of a search that does not end; time enough to put its best together."""


@dataclass(frozen=True)
class Device:
    """Where a worker runs: "cpu" with a number of threads, or "cuda"; and whether it warms up first.

    gpu : the one GPU that it sees, by its number or name among those of the machine.
    """

    kind: str = "cpu"
    gpu: str | None = None
    threads: int = 1
    warm: bool = True


@dataclass(frozen=True)
class Batch:
    """Orders that are alike, to be solved in one call."""

    number: int
    orders: "list[Order]"


@dataclass(frozen=True)
class Message:
    """What a worker says about a batch.

    what : "ready" (no batch), "begun", "improved", "note", "step", "done" or "failed".
    place : which of the batch's orders it is about.
    """

    what: str
    batch: int = -1
    place: int = 0
    data: Any = None


@dataclass(frozen=True)
class Failure:
    """Why a batch was not solved: a sentence, and the exit code of the error's class where the package has one."""

    sentence: str
    exit_code: int | None = None


def run(connection: Connection, device: Device) -> None:
    """Work until the pipe is closed; the body of the process."""
    if device.gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device.gpu
    os.environ["OMP_NUM_THREADS"] = str(device.threads)
    _Worker(connection, device).work()


class _Worker:
    """The two threads of the process: one listens, the main one solves."""

    def __init__(self, connection: Connection, device: Device) -> None:
        self.connection, self.device = connection, device
        self.inbox: queue.Queue[Batch] = queue.Queue()
        self.solving: int | None = None
        self.stopped: set[int] = set()
        self.lock = threading.Lock()
        self.speaking = False

    def work(self) -> None:
        signal.signal(signal.SIGINT, self._interrupted)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the server ends its workers; a signal to all of them does not
        threading.Thread(target=self._listen, daemon=True).start()
        load()
        if self.device.warm:
            warm_up(self.device)
        self._say(Message("ready"))
        while True:
            # a queue that waits for ever cannot be interrupted on every system
            with contextlib.suppress(queue.Empty):
                self._solve(self.inbox.get(timeout=3600))

    def _listen(self) -> None:
        """Hear what the server says; when it is gone, be gone too."""
        while True:
            try:
                message = self.connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            if isinstance(message, Batch):
                self.inbox.put(message)
            else:
                self.stopped.add(int(message))
                threading.Thread(target=self._interrupt, args=(message,), daemon=True).start()

    def _interrupt(self, number: int) -> None:
        """Interrupt the main thread until it is done with a batch: libraries may swallow it when they call back."""
        while self.solving == number:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(AGAIN)

    def _interrupted(self, _: int = 0, frame: FrameType | None = None) -> None:
        """Take Ctrl-C only where the server asked for it; the terminal's own is the server's affair.

        Half a message would spoil the pipe, and a library that is half imported or half compiled this process; both
        are left alone, since the interruption comes again.
        """
        if self.speaking or self.solving is None or self.solving not in self.stopped or _is_importing(frame):
            return
        raise KeyboardInterrupt

    def _solve(self, batch: Batch) -> None:
        """Solve a batch and say what came of it; an order that was cut off is answered with the best it had."""
        from ..errors import IcdcError

        teller = _teller(self, batch)
        answers: dict[int, Any] = {}
        failure: Failure | None = None
        try:
            self.solving = batch.number
            try:
                if batch.number not in self.stopped:  # before it began
                    answers = solve_batch(batch.orders, teller, self.device)
            except IcdcError as error:
                failure = Failure(str(error), error.exit_code)
            except Exception as error:
                traceback.print_exc()
                failure = Failure(f"internal error: {type(error).__name__}: {' '.join(str(error).split())}")
            finally:
                self.solving = None
        except KeyboardInterrupt:
            self.solving = None
        self.stopped.discard(batch.number)
        if failure is not None:
            self._say(Message("failed", batch.number, data=failure))
            return
        for place in range(len(batch.orders)):
            if place not in answers and (best := teller.best_of(place)) is not None:
                answers[place] = best
        self._say(Message("done", batch.number, data=answers))

    def _say(self, message: Message) -> None:
        self.speaking = True
        with self.lock:
            try:
                self.connection.send(message)
            except (BrokenPipeError, OSError):
                os._exit(0)
        self.speaking = False
        self._interrupted()


def solve_batch(orders: "list[Order]", teller: Any, device: Device) -> dict[int, dict[str, Any]]:
    """Solve orders that are alike through the one solve path; return the answer of each place as it is sent."""
    from ..solving.path import solve_instances
    from ..solving.registry import make_solver, options_of

    first = orders[0]
    options = dict(first.options)
    if first.trace:
        options["trace"] = teller.step
    if "device" in options_of(first.solver):
        options["device"] = device.kind
    answers = solve_instances(
        [order.instance for order in orders],
        make_solver(first.solver, **options),
        samples=first.samples,
        seed=first.seed,
        time_limit=first.time_limit,
        starts=None if first.start is None else [order.start for order in orders if order.start is not None],
        observer=teller,
    )
    found = {}
    try:
        for place, answer in answers:
            found[place] = document_of(answer)
    except KeyboardInterrupt:
        pass  # between two yields; what was found is kept
    return found


def document_of(answer: Any) -> dict[str, Any]:
    """Return an answer as it is sent: what `--json` prints, and whether it is proven or was interrupted."""
    from ..solving.answer import verdict_text

    words = verdict_text(answer.verdict, answer.instance, answer.choice)
    about = {"optimal": answer.optimal, "interrupted": answer.interrupted, "in_words": words}
    return {**answer.as_dict(), **about}


def _is_importing(frame: FrameType | None) -> bool:
    """Tell whether a frame is part of an import, or of numba's compiler."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or "/numba/core/" in file or "/llvmlite/" in file:
            return True
        frame = frame.f_back
    return False


def _teller(worker: _Worker, batch: Batch) -> Any:
    from .telling import Teller

    return Teller([order.instance for order in batch.orders], batch, worker._say)


def load() -> None:
    """Import what solving needs."""
    import torch  # noqa: F401

    from ..solving import anytime, diffusion  # noqa: F401


def warm_up(device: Device) -> None:
    """Load the models that are asked for most, and let compilers do their work."""
    import numpy as np

    from ..errors import IcdcError
    from ..problems import BUILT_IN
    from ..problems.instance import Instance
    from ..solving.jobs import Observer
    from .orders import Order

    began = time.perf_counter()
    for cls in BUILT_IN.values():
        problem = cls()
        for first, others, solvers in WARM_UP:
            size = tuple(first if place == 0 else others for place in range(len(problem.size_names)))
            arrays = problem.sample(1, size, np.random.default_rng(0))
            instance = Instance("warm-up", problem, {name: array[0] for name, array in arrays.items()})
            for solver in solvers:
                with contextlib.suppress(IcdcError):
                    solve_batch([Order(instance, solver, samples=1, time_limit=0.2)], Observer(), device)
                if time.perf_counter() - began > WARM_UP_SECONDS:
                    return
