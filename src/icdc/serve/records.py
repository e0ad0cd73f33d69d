"""One job and all that is known of it, from its arrival to long after its end."""

import asyncio
import itertools
import time
from collections.abc import Coroutine
from typing import Any

from .. import __version__
from .orders import Order, Source

MOST_EVENTS = 1000
"""Improvements of one job that are kept; of more, the older ones are thinned out."""

WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"


class JobRecord:
    """One job and all that is known of it.

    events : (number, name, data) of everything that happened, for those who watch.
    kept : whether it can be asked for later; one that answers a request directly cannot.
    left : whether this server leaves it to the next one.
    weight : bytes of the request.
    source : the request as it came; None once the job has ended, when nobody needs it any more.
    """

    def __init__(self, order: Order, name: str, created: float, kept: bool, source: Source) -> None:
        self._order: Order | None = order
        self.id, self.created, self.kept = name, created, kept
        self.source: Source | None = source
        self.weight = len(source.content)
        self._about = {
            "problem": order.instance.problem.name,
            "instance": order.instance.name,
            "solver": order.solver,
            "time_limit": order.time_limit,
        }
        self.arrived = time.perf_counter()
        self.batch_key, self.attempts, self.alone = order.batch_key, 0, False
        self.state = WAITING
        self.began: float | None = None
        self.seconds: float | None = None
        self.bound: int | float | None = None
        self.notes: list[str] = []
        self.best: dict[str, Any] | None = None
        self.answer: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.cancelled = self.left = False
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    @property
    def order(self) -> Order:
        """What is to be solved; asked for only before the end."""
        assert self._order is not None
        return self._order

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in (DONE, FAILED, CANCELLED)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen here."""
        return self.ended or self.left

    def leave(self) -> None:
        """Leave it to the next server: those who watch are let go, and ask again."""
        self.state, self.left = WAITING, True
        self.wake()

    def hear(self, what: str, data: Any) -> None:
        """Note what its worker says of it, and tell those who watch."""
        if what == "note":
            self.notes.append(data)
            self.tell("note", {"sentence": data})
            return
        if what == "improved":
            self.best = data
        if what in ("begun", "improved") and data["bound"] is not None:
            self.bound = data["bound"]
        self.tell(what, data)

    def settle(self, answer: dict[str, Any] | None, error: dict[str, Any] | None) -> None:
        """Note how it ends; those who watch are told by `end`."""
        self.answer, self.error = answer, error
        if self.began is not None:
            self.seconds = round(time.perf_counter() - self.began, 6)
        if answer is not None and answer["bound"] is not None:
            self.bound = answer["bound"]

    def end(self, state: str) -> None:
        """End: tell those who watch, and let go of the matrix, which can be large."""
        self.state = state
        self._order = self.source = None
        self.tell("end", self.outcome())

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Add an event and wake those who watch."""
        if self.kept:
            self.events.append((next(self._numbers), name, data))
            if len(self.events) > MOST_EVENTS:
                half = len(self.events) // 2
                self.events = self.events[:half:2] + self.events[half:]
        self.wake()

    def forget_details(self) -> None:
        """Keep of a job that has ended what a curve needs: costs and bounds, but no steps and no solutions."""
        self.events = [
            (number, name, {key: value for key, value in data.items() if key != "solution"})
            for number, name, data in self.events
            if name != "step"
        ]

    def wake(self) -> None:
        """Wake those who wait for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def change(self) -> Coroutine[Any, Any, Any]:
        """Return something to wait for: the next change from now on, even if the waiting begins later."""
        return self._changed.wait()

    async def wait(self) -> None:
        """Wait until nothing more will happen here."""
        while not self.over:
            await self.change()

    def outcome(self) -> dict[str, Any]:
        """Return what a client is shown."""
        return {
            "id": self.id,
            "state": self.state,
            "created": self.created,
            "seconds": self.seconds,
            **self._about,
            "cost": None if self.best is None else self.best["cost"],
            "bound": self.bound,
            "notes": self.notes,
            "answer": self.answer,
            "error": self.error,
        }

    def best_as_answer(self) -> dict[str, Any]:
        """Return the last improvement of a job whose worker had to be killed, as an answer.

        Solvers tell only of feasible solutions, and of what they cost.
        """
        assert self.best is not None
        order, best = self.order, self.best
        cost, bound = best["cost"], self.bound
        gap = max(0.0, (cost - bound) / abs(bound)) if bound else None
        return {
            "problem": order.instance.problem.name,
            "instance": order.instance.name,
            "objective": cost,
            "solution": best["solution"],
            "feasible": True,
            "bound": bound,
            "gap": gap,
            "samples": order.samples or 1,
            "seconds": best["seconds"],
            "seed": order.seed,
            "solver": order.solver,
            "model": None,
            "found_by": best.get("found_by"),
            "version": __version__,
            "optimal": gap == 0.0,
            "interrupted": True,
            "in_words": f"{order.instance.problem.objective} {cost}",
        }


class Watched:
    """What those who watch a job need of it: its events, whether more will come, and when.

    The record of a job on this server is one; a job on another server is watched through one of these.
    """

    def __init__(self) -> None:
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.over = False
        self._changed = asyncio.Event()

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Add an event and wake those who watch."""
        self.events.append((len(self.events) + 1, name, data))
        self.over = name == "end"
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def change(self) -> Coroutine[Any, Any, Any]:
        """Return something to wait for: the next change from now on."""
        return self._changed.wait()


def ended_job(outcome: dict[str, Any]) -> Watched:
    """Return a job that has ended long ago, with its end as its only event."""
    job = Watched()
    job.tell("end", outcome)
    return job
