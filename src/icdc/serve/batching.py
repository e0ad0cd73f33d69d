"""The queue: first come, first served, bounded; whoever is alike goes together."""

import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .records import JobRecord


class Queue:
    """Jobs that wait.

    Parameters
    ----------
    room : how many may wait.
    batch : how many leave together, at most.
    memory : bytes that those who wait have sent, at which nobody more may wait either.
    """

    def __init__(self, room: int, batch: int, memory: float = math.inf) -> None:
        self.room, self.batch, self.memory = room, batch, memory
        self._waiting: deque[JobRecord] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether nobody more may wait."""
        return len(self._waiting) >= self.room or sum(job.weight for job in self._waiting) >= self.memory

    def add(self, job: "JobRecord") -> None:
        """Let a job wait behind the others; the caller asks first whether there is room."""
        self._waiting.append(job)

    def put_back(self, jobs: "list[JobRecord]") -> None:
        """Let jobs wait in front of the others, in their order: their worker died."""
        self._waiting.extendleft(reversed(jobs))

    def remove(self, job: "JobRecord") -> bool:
        """Take a job out; return whether it was waiting."""
        try:
            self._waiting.remove(job)
        except ValueError:
            return False
        return True

    def place(self, job: "JobRecord") -> int | None:
        """Return how many are in front of a job; None if it does not wait."""
        return next((place for place, one in enumerate(self._waiting) if one is job), None)

    def take(self) -> "list[JobRecord]":
        """Take the first job and those that can be solved with it, in the order they came."""
        first = self._waiting.popleft()
        taken, left = [first], deque["JobRecord"]()
        for job in self._waiting:
            alike = not first.alone and not job.alone and job.batch_key == first.batch_key
            (taken if alike and len(taken) < self.batch else left).append(job)
        self._waiting = left
        return taken
