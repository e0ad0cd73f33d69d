"""Torch's threads belong to whoever called: what a search changes is put back, and a forked child does not hang."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Borrowed:
    """The setting of torch's threads while searches that share it run, in however many threads of the caller."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users, self.before = 0, 1

    def take(self) -> int:
        with self.lock:
            if self.users == 0:
                self.before = torch.get_num_threads()
            self.users += 1
            return self.before

    def give_back(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                torch.set_num_threads(self.before)


_borrowed = _Borrowed()


@contextmanager
def own_threads() -> Iterator[int]:
    """Let a search use its own threads in place of torch's; yield how many the caller's setting allows.

    Threads that are started inside call `torch.set_num_threads(1)`, which concerns the whole process for that long; the
    last search that ends puts the setting back.
    """
    allowed = _borrowed.take()
    try:
        yield allowed
    finally:
        _borrowed.give_back()


def _stay_alone() -> None:
    """Keep a forked child from waiting for threads that only its parent has: OpenMP's pool does not survive a fork."""
    _borrowed.__init__()  # type: ignore[misc]
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stay_alone)
