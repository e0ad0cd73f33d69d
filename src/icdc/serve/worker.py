"""A worker: a process that reads requests, or solves tasks on its device and reports every improvement.

It lives for many batches, so models stay loaded. The server ends a batch through the pipe: a thread listens, and raises
Ctrl-C in the main thread, which every solver takes by returning its best solution so far. Reading has a limit of memory
here and one of time in the server, which kills a process that does not keep to it.
"""

import base64
import contextlib
import math
import os
import queue
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import IcdcError, Surface, shown_on
from ..problems import BUILT_IN
from ..problems.instance import Instance
from ..search.run import Incumbent
from ..solvers import make_solver, options_of
from ..solving.answer import Answer, judge_answer, verdict_text
from ..solving.jobs import Job, Observer, solve_instances
from ..solving.solver import Improvement
from .limits import Refusal, Settings, refusal_of
from .requests import PackedTask, Source, Task, describe, read_task

if TYPE_CHECKING:
    from ..diffusion.sampler import ReverseStep

WARM_UP = ((20, 4, ("icdc", "search", "network")), (100, 30, ("icdc",)))
"""Instances with which a worker begins: how many items, of how many others, and the solvers."""
WARM_UP_SECONDS = 25.0
"""After which a worker on a busy machine is ready all the same; its first requests then wait instead."""
AGAIN = 0.7
"""Seconds between interruptions of a search that does not end; time enough to put its best together."""


@dataclass(frozen=True)
class Device:
    """Where a worker runs, or that it only reads.

    kind : "cpu" with a number of threads, "cuda", or "reader".
    gpu : the one GPU that it sees, by its number or name among those of the machine.
    warm : whether it solves something before it takes work.
    """

    kind: str = "cpu"
    gpu: str | None = None
    threads: int = 1
    warm: bool = True

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the process starts with: libraries read them when they are imported."""
        gpu = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu}
        return {"OMP_NUM_THREADS": str(self.threads), **gpu}


@dataclass(frozen=True)
class Batch:
    """Tasks that are alike, to be solved in one call."""

    number: int
    tasks: Sequence[PackedTask]


@dataclass(frozen=True)
class Reading:
    """A request to be read: as a task, or as a description of its instance."""

    number: int
    source: Source
    describe: bool = False


@dataclass(frozen=True)
class Message:
    """A message of a worker about its work.

    what : "ready" (no batch), "begun", "improved", "note", "step", "done" (with the result) or "failed" (a Refusal).
    place : the place in the batch of the task it is about.
    """

    what: str
    batch: int = -1
    place: int = 0
    data: Any = None


class Progress(Observer):
    """Reports the improvements of every task of a batch, once each, and keeps the best solution of each."""

    def __init__(self, tasks: Sequence[Task], batch: int, send: Callable[[Message], None]) -> None:
        self.tasks, self.batch, self.send = tasks, batch, send
        first = tasks[0].instance
        self.incumbent = Incumbent(len(tasks), first.shape[0], first.integral)
        self.began = time.perf_counter()

    def note(self, sentence: str) -> None:
        for place in range(len(self.tasks)):
            self._send("note", place, sentence)

    def begin(self, job: Job, bound: NDArray[np.float64]) -> None:
        self.incumbent.raise_bound(bound, job.places)
        for place in job.places:
            self._send("begun", place, {"bound": self._number(self.incumbent.bound[place])})

    def improved(self, improvement: Improvement) -> None:
        best, places = self.incumbent, list(improvement.places)
        best.raise_bound(improvement.bound, places)
        for index, place in enumerate(places):
            found_by, choice = improvement.found_by[index], improvement.choice[index]
            if not best.offer(choice, improvement.cost[index], found_by, [place])[0]:
                continue
            improved = {
                "seconds": round(time.perf_counter() - self.began, 6),
                "cost": best.exact_cost[place].item(),
                "bound": self._number(best.bound[place]),
                "solution": self.tasks[place].instance.solution(choice),
                "found_by": found_by,
            }
            self._send("improved", place, improved)

    def step(self, step: "ReverseStep") -> None:
        """Report a step of the first trajectory: X_t and the network's prediction of X_0, in bytes.

        Where s is above t the start is being noised, otherwise the matrix denoised.
        """
        noisy, predicted = step.x.float(), step.log_odds.float().sigmoid()
        if step.candidates is not None:  # all other entries are zero
            noisy, predicted = step.candidates.spread(noisy), step.candidates.spread(predicted)
        x = (noisy[0] > 0.5).cpu().numpy()
        belief = (255 * predicted[0]).round().byte().cpu().numpy()
        cost = None if step.cost is None else float(step.cost.flatten()[0])
        about = {
            "t": step.t, "s": step.s, "rows": x.shape[0], "columns": x.shape[1],
            "x": base64.b64encode(np.packbits(x).tobytes()).decode(),
            "belief": base64.b64encode(belief.tobytes()).decode(),
            "cost": cost if cost is None or math.isfinite(cost) else None,
        }  # fmt: skip
        self._send("step", 0, about)

    def best_answer(self, place: int) -> dict[str, Any] | None:
        """Return the best of a task whose search was cut off, checked, as an answer; None if it has none."""
        task, best = self.tasks[place], self.incumbent
        choice = best.choice[place] if best.solved[place] else task.start
        if choice is None:
            return None
        found_by = best.found_by[place] if best.solved[place] else "start"
        about = {"samples": task.samples or 1, "seed": task.seed, "solver": task.solver, "found_by": found_by}
        about |= {"seconds": time.perf_counter() - self.began, "interrupted": True}
        answer = judge_answer(task.instance, choice, float(best.bound[place]), **about)
        return record_of(answer)

    def _send(self, what: str, place: int, data: Any) -> None:
        self.send(Message(what, self.batch, place, data))

    def _number(self, value: float) -> int | float | None:
        """Return a cost or a bound as JSON holds it: a whole number where the instance has only those."""
        if not math.isfinite(value):
            return None
        return math.ceil(value - 1e-6) if self.incumbent.whole else float(value)


def record_of(answer: Answer) -> dict[str, Any]:
    """Return an answer as it is sent: what `--json` prints, with `optimal`, `interrupted` and `in_words`."""
    words = verdict_text(answer)
    about = {"optimal": answer.optimal, "interrupted": answer.interrupted, "in_words": words}
    return {**answer.as_dict(), **about}


def solve_tasks(tasks: Sequence[Task], observer: Observer, device: Device) -> dict[int, dict[str, Any]]:
    """Solve tasks that are alike as every caller does; return the answer of each place as it is sent."""
    first = tasks[0]
    options = dict(first.options)
    if isinstance(observer, Progress) and first.trace:
        options["trace"] = observer.step
    if "device" in options_of(first.solver):
        options["device"] = device.kind
    answers = solve_instances(
        [task.instance for task in tasks],
        make_solver(first.solver, **options),
        samples=first.samples,
        seed=first.seed,
        time_limit=first.time_limit,
        starts=None if first.start is None else [task.start for task in tasks],
        observer=observer,
    )
    records = {}
    with contextlib.suppress(KeyboardInterrupt):  # between two answers; those so far are kept
        for place, answer in answers:
            records[place] = record_of(answer)
    return records


def run(connection: Connection, device: Device, settings: Settings) -> None:
    """Work until the pipe is closed; the body of the process."""
    Process(connection, device, settings).work()


class Process:
    """The two threads of the process: one listens, the main one works."""

    def __init__(self, connection: Connection, device: Device, settings: Settings) -> None:
        self.connection, self.device, self.settings = connection, device, settings
        self.inbox: queue.Queue[Batch | Reading] = queue.Queue()
        self.number: int | None = None
        self.stopped: set[int] = set()
        self.lock = threading.Lock()
        self.sending = False

    def work(self) -> None:
        """Take one batch or request after the other."""
        signal.signal(signal.SIGINT, self.interrupt)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the server ends its workers; a signal to all of them does not
        threading.Thread(target=self._listen, daemon=True).start()
        if self.device.kind == "reader":
            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (self.settings.limits.reading_bytes, most))
        else:
            _load()
            if self.device.warm:
                warm_up(self.device)
        self._send(Message("ready"))
        while True:
            # a queue that waits for ever cannot be interrupted on every system
            with contextlib.suppress(queue.Empty):
                self._do(self.inbox.get(timeout=3600))

    def interrupt(self, _: int = 0, frame: FrameType | None = None) -> None:
        """Take Ctrl-C only where the server sent it; the terminal's own is for the server.

        Ignored while sending or importing, which must not be cut; the signal is repeated.
        """
        if self.sending or self.number is None or self.number not in self.stopped or is_importing(frame):
            return
        raise KeyboardInterrupt

    def _listen(self) -> None:
        """Receive what the server sends; end with the server."""
        while True:
            try:
                message = self.connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            if isinstance(message, int):
                self.stopped.add(message)
                threading.Thread(target=self._interrupt_until_done, args=(message,), daemon=True).start()
            else:
                self.inbox.put(message)

    def _interrupt_until_done(self, number: int) -> None:
        """Interrupt the main thread until it is done with a batch: libraries may swallow it when they call back."""
        while self.number == number:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(AGAIN)

    def _do(self, work: Batch | Reading) -> None:
        """Do some work and send the result, or the refusal in its place."""
        result: Any = {}
        try:
            with shown_on(Surface.HTTP):
                result = self._solve(work) if isinstance(work, Batch) else self._read(work)
        except Refusal as refusal:
            result = refusal
        except IcdcError as error:
            result = refusal_of(error)
        except MemoryError:
            most = self.settings.limits.reading_bytes >> 20
            result = Refusal(413, f"reading the content takes more than {most} MiB (icdc serve --cells)")
        except Exception as error:
            traceback.print_exc()
            result = Refusal(500, f"internal error: {type(error).__name__}: {' '.join(str(error).split())}")
        self._send(Message("failed" if isinstance(result, Refusal) else "done", work.number, data=result))

    def _read(self, reading: Reading) -> Any:
        read = describe(reading.source, self.settings) if reading.describe else None
        return read or read_task(reading.source, self.settings).packed()

    def _solve(self, batch: Batch) -> dict[int, dict[str, Any]]:
        """Return the answers of a batch; a task that was cut off is answered with the best it had."""
        tasks = [task.unpack() for task in batch.tasks]
        progress = Progress(tasks, batch.number, self._send)
        answers: dict[int, dict[str, Any]] = {}
        try:
            self.number = batch.number
            try:
                if batch.number not in self.stopped:  # before it began
                    answers = solve_tasks(tasks, progress, self.device)
            finally:
                self.number = None
        except KeyboardInterrupt:
            self.number = None
        self.stopped.discard(batch.number)
        for place in range(len(tasks)):
            if place not in answers and (best := progress.best_answer(place)) is not None:
                answers[place] = best
        return answers

    def _send(self, message: Message) -> None:
        self.sending = True
        with self.lock:
            try:
                self.connection.send(message)
            except (BrokenPipeError, OSError):
                os._exit(0)
        self.sending = False
        self.interrupt()


def is_importing(frame: FrameType | None) -> bool:
    """Tell whether a frame is part of an import, or of numba's compiler."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or "/numba/core/" in file or "/llvmlite/" in file:
            return True
        frame = frame.f_back
    return False


def _load() -> None:
    """Import what solving needs; readers and the server do without torch."""
    from ..solving import anytime, network  # noqa: F401


def warm_up(device: Device) -> None:
    """Load the models that are used most, and let compilers do their work."""
    began = time.perf_counter()
    for cls in BUILT_IN.values():
        problem = cls()
        for first, others, solvers in WARM_UP:
            size = tuple(first if place == 0 else others for place in range(len(problem.size_names)))
            arrays = problem.sample(1, size, np.random.default_rng(0))
            instance = Instance("warm-up", problem, {name: array[0] for name, array in arrays.items()})
            for solver in solvers:
                with contextlib.suppress(IcdcError):
                    solve_tasks([Task(instance, solver, samples=1, time_limit=0.2)], Observer(), device)
                if time.perf_counter() - began > WARM_UP_SECONDS:
                    return
