"""The server's side of its workers: started, sent batches, asked to stop, killed where they do not, started again."""

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from ..errors import UsageError
from ..machine import may_have_gpu
from .worker import Batch, Device, Message, run

Hear = Callable[["Worker", Message | None], None]
"""Told, in a thread of the worker's, what it says; None when it is gone."""


@dataclass
class Worker:
    """One process and the pipe to it.

    hear : told what it says.
    ready : whether it has said that it can take work.
    batch : the number of the batch it works on.
    """

    device: Device
    hear: Hear
    ready: bool = False
    batch: int | None = None

    def start(self) -> None:
        """Start the process, and a thread that listens to it."""
        context = multiprocessing.get_context("spawn")  # forking a process that runs threads can deadlock
        here, there = context.Pipe()
        self.ready, self.batch = False, None
        self._connection: Connection = here
        self._process: BaseProcess = context.Process(target=run, args=(there, self.device), daemon=True)
        self._process.start()
        there.close()
        threading.Thread(target=self._listen, args=(here,), daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid

    def solve(self, batch: Batch) -> None:
        """Send it a batch."""
        self.batch = batch.number
        with contextlib.suppress(BrokenPipeError, OSError):  # it is gone; the listener says so
            self._connection.send(batch)

    def stop(self) -> None:
        """Ask it to end its batch with the best it has."""
        if self.batch is not None:
            with contextlib.suppress(BrokenPipeError, OSError):
                self._connection.send(self.batch)

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def _listen(self, connection: Connection) -> None:
        while True:
            try:
                message = connection.recv()
            except (EOFError, OSError):
                connection.close()
                self._process.join(5)
                self.hear(self, None)
                return
            self.hear(self, message)


def devices(kind: str, workers: int, warm: bool = True) -> list[Device]:
    """Return where workers are to run: one on each GPU, or a number of them that share the CPU's cores.

    kind : "cpu", "cuda", or "auto" for GPUs where there are any.
    """
    gpus = _gpus() if kind != "cpu" else []
    if gpus:
        return [Device("cuda", gpu, warm=warm) for gpu in gpus]
    if kind == "cuda":
        raise UsageError("--device cuda: there is no GPU that can be used")
    return [Device("cpu", None, max(1, _cores() // workers), warm) for _ in range(workers)]


def _gpus() -> list[str]:
    """Return the GPUs that there are, without waking a driver where there is none.

    Where somebody has said which of them may be seen, they go by the names that were given.
    """
    if not may_have_gpu():
        return []
    import torch

    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(count)] if visible is None else visible.split(",")
    return [name.strip() for name in names[:count]]


def _cores() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(asked), available) if asked.isdecimal() and int(asked) else available
