"""What goes on beside the main thread of a search: proofs that listen to nobody, and a network that is being loaded."""

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..jit import BACKGROUND
from .request import Request

if TYPE_CHECKING:
    from .diffusion import DiffusionSolver

IMPORTING = 3.0
"""Seconds that must be left for a network to be worth loading where torch is not imported yet."""
QUICK = 0.2
"""The same where it is."""


def aside(work: Callable[[], None], until: float) -> None:
    """Do what listens to nobody, such as an integer program, in a thread, and wait for it: Ctrl-C is heard at once.

    It is not waited for longer than `until` (by `time.perf_counter`): integer programs may be seconds late. The thread
    then still goes on to its own end; nobody looks at what it finds.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again where it can be heard
            errors.append(error)

    thread = threading.Thread(target=run, name=f"{BACKGROUND}proof")
    thread.start()
    while thread.is_alive() and time.perf_counter() < until:
        thread.join(min(0.1, max(0.001, until - time.perf_counter())))
    for error in errors:
        raise error


class Loading:
    """The network's part, loaded in a thread of its own while the search goes on."""

    def __init__(self, make: "Callable[[], DiffusionSolver]", request: Request) -> None:
        self._make, self._request = make, request
        self._thread: threading.Thread | None = None
        self._loaded: DiffusionSolver | None = None
        self._error: Exception | None = None

    def ready(self, left: float) -> bool:
        """Tell whether the network can have a turn; begin to load it if enough time is left."""
        if self._error is not None:
            raise self._error
        if self._thread is None and left > (QUICK if "torch" in sys.modules else IMPORTING):
            self._thread = threading.Thread(target=self._load, name=f"{BACKGROUND}network")
            self._thread.start()
        return self._loaded is not None and left > QUICK

    def solver(self) -> "DiffusionSolver":
        """Return it, once it is ready."""
        assert self._loaded is not None
        return self._loaded

    def _load(self) -> None:
        try:
            solver = self._make()
            model = solver.model_for(self._request.problem, self._request.size)
            if model.device.type == "cpu":
                from .chain import compile_chain

                compile_chain(self._request).join()
            self._loaded = solver
        except Exception as error:  # told in the main thread
            self._error = error
