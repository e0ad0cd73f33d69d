"""A solver that keeps what it is asked."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from icdc.problems.base import Problem
from icdc.solving import Request, Solver


@dataclass(frozen=True)
class Recording(Solver):
    """Gives every row the same column, in a second of its own clock, two instances at a time.

    asked : every request that it was to answer.
    reason : why it refuses every problem, if it does.
    """

    name = "recording"
    default_samples = 5
    column: int = 0
    interrupted: bool = False
    reason: str | None = None
    clock: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(now=0.0))
    asked: list[Request] = field(default_factory=list)

    def refusal(self, problem: Problem) -> str | None:
        return self.reason

    def batch_size(self, *_: Any) -> int:
        return 2

    def search(self, request: Request) -> None:
        self.asked.append(request)
        self.clock.now += 1.0
        request.offer(np.full((request.count, request.shape[0]), self.column))
        if self.interrupted:
            raise KeyboardInterrupt
