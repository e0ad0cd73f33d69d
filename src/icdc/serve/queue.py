"""The record of a job, its events for those who follow it, and the queue in which jobs wait for a worker."""

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from ..solving.answer import Answer
from .requests import PackedTask, Source
from .worker import record_of

WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"
MOST_EVENTS = 1000
"""Improvements of one job that are kept; of more, the older ones are thinned out."""


class Events:
    """The numbered events of a job, for those who follow it: also of a job on another server.

    Attributes
    ----------
    events : (number, name, data) of everything so far.
    over : whether nothing more will happen here.
    """

    def __init__(self) -> None:
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.over = False
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Add an event; one of the name "end" is the last."""
        self.events.append((next(self._numbers), name, data))
        if len(self.events) > MOST_EVENTS:
            half = len(self.events) // 2
            self.events = self.events[:half:2] + self.events[half:]
        self.wake(over=name == "end")

    def wake(self, over: bool = False) -> None:
        """Wake those who wait for a change."""
        self.over = self.over or over
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def change(self) -> Coroutine[Any, Any, Any]:
        """Return something to wait for: the next change from now on, even if the waiting begins later."""
        return self._changed.wait()

    async def wait(self) -> None:
        """Wait until nothing more will happen here."""
        while not self.over:
            await self.change()


class JobRecord(Events):
    """One job.

    Parameters
    ----------
    kept : whether it can be looked up later; one that answers a request directly cannot.
    """

    def __init__(self, task: PackedTask, name: str, created: float, kept: bool, source: Source) -> None:
        super().__init__()
        self._task: PackedTask | None = task
        self.source: Source | None = source
        self.id, self.created, self.kept, self.weight = name, created, kept, len(source.content)
        self.about = {
            "problem": task.problem,
            "instance": task.instance,
            "solver": task.solver,
            "time_limit": task.time_limit,
        }
        self.state, self.attempts = WAITING, 0
        self.alone = self.cancelled = False
        self.arrived = time.perf_counter()
        self.began: float | None = None
        self.seconds: float | None = None
        self.bound: int | float | None = None
        self.notes: list[str] = []
        self.best: dict[str, Any] | None = None
        self.answer: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None

    @property
    def task(self) -> PackedTask:
        """What is to be solved; it is dropped at the end."""
        assert self._task is not None
        return self._task

    @property
    def ended(self) -> bool:
        """Whether it has an answer or never will."""
        return self.state in (DONE, FAILED, CANCELLED)

    def add(self, name: str, data: dict[str, Any]) -> None:
        if self.kept:
            super().add(name, data)
        else:
            self.wake(over=name == "end")

    def start(self) -> float:
        """Note that a worker begins it; return the seconds that it has waited."""
        self.state, self.attempts, self.began = RUNNING, self.attempts + 1, time.perf_counter()
        self.add("state", {"state": RUNNING})
        return self.began - self.arrived

    def wait_again(self) -> None:
        """Let it wait to be solved again, alone."""
        self.state, self.alone = WAITING, True

    def receive(self, what: str, data: Any) -> None:
        """Note a message of its worker, and pass it on to those who follow it."""
        if what == "note":
            self.notes.append(data)
            self.add("note", {"sentence": data})
            return
        if what == "improved":
            self.best = data
        if what in ("begun", "improved") and data["bound"] is not None:
            self.bound = data["bound"]
        self.add(what, data)

    def settle(self, answer: dict[str, Any] | None, error: dict[str, Any] | None) -> str:
        """Note how it ends, before `end` makes it public; return the state that it will have."""
        self.answer, self.error = answer, error
        if self.began is not None:
            self.seconds = round(time.perf_counter() - self.began, 6)
        if answer is not None and answer["bound"] is not None:
            self.bound = answer["bound"]
        return CANCELLED if self.cancelled else DONE if answer is not None else FAILED

    def end(self, state: str) -> None:
        """Make the end public, and drop the matrix, which can be large."""
        self.state = state
        self._task = self.source = None
        self.add("end", self.outcome())

    def forget_details(self) -> None:
        """Drop steps and solutions of an ended job; keep its costs and bounds for the curve."""
        self.events = [
            (number, name, {key: value for key, value in data.items() if key != "solution"})
            for number, name, data in self.events
            if name != "step"
        ]

    def outcome(self) -> dict[str, Any]:
        """Return what a client is shown, a `schema.Job`."""
        return {
            "id": self.id,
            "state": self.state,
            "created": self.created,
            "seconds": self.seconds,
            **self.about,
            "cost": None if self.best is None else self.best["cost"],
            "bound": self.bound,
            "notes": self.notes,
            "answer": self.answer,
            "error": self.error,
        }

    def best_answer(self) -> dict[str, Any] | None:
        """Return the last improvement of a job whose worker was killed, as an answer; solvers report feasible ones."""
        if self.best is None:
            return None
        task, best = self.task.unpack(), self.best
        answer = Answer(
            instance=task.instance,
            choice=np.asarray(task.instance.choice(best["solution"])),
            objective=best["cost"],
            bound=self.bound,
            samples=task.samples or 1,
            seconds=best["seconds"],
            seed=task.seed,
            solver=task.solver,
            interrupted=True,
            found_by=best["found_by"],
        )
        return record_of(answer)


class Queue:
    """Jobs that wait: first come, first served; those that are alike leave together.

    Parameters
    ----------
    room : how many may wait.
    batch : how many leave together, at most.
    memory : bytes of waiting requests at which no other may wait either.
    """

    def __init__(self, room: int, batch: int, memory: float = math.inf) -> None:
        self.room, self.batch, self.memory = room, batch, memory
        self._waiting: deque[JobRecord] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether no other job may wait."""
        return len(self._waiting) >= self.room or sum(job.weight for job in self._waiting) >= self.memory

    def add(self, job: JobRecord) -> None:
        """Let a job wait behind the others; the caller looks first whether there is room."""
        self._waiting.append(job)

    def put_back(self, jobs: Sequence[JobRecord]) -> None:
        """Let jobs wait in front of the others, in their order."""
        self._waiting.extendleft(reversed(jobs))

    def remove(self, job: JobRecord) -> bool:
        """Take a job out; return whether it was waiting."""
        try:
            self._waiting.remove(job)
        except ValueError:
            return False
        return True

    def place(self, job: JobRecord) -> int | None:
        """Return how many are in front of a job; None if it does not wait."""
        return next((place for place, one in enumerate(self._waiting) if one is job), None)

    def take(self) -> list[JobRecord]:
        """Take the first job and those that can be solved with it, in the order they came."""
        first = self._waiting.popleft()
        batch, others = [first], deque[JobRecord]()
        for job in self._waiting:
            key = None if first.alone or job.alone else job.task.batch_key
            alike = key is not None and key == first.task.batch_key
            (batch if alike and len(batch) < self.batch else others).append(job)
        self._waiting = others
        return batch
