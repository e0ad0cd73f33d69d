"""Ctrl-C and SIGTERM: the first ends the search, the second does not lose what it found, the third gives up."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.05
"""Seconds after which a signal that came in the middle of an import is heard again."""
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interrupts:
    """The signals that came while a command ran."""

    def __init__(self) -> None:
        self.came: list[int] = []

    @property
    def first(self) -> int:
        """The signal that came first; that of Ctrl-C where something else ended the search like it."""
        return self.came[0] if self.came else signal.SIGINT

    @property
    def exit_code(self) -> int:
        """What a shell says of a command that a signal ended: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.first

    @property
    def word(self) -> str:
        """What happened, in a word."""
        return WORDS[signal.Signals(self.first)]

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Take a signal: the first is an exception wherever the program is, and everything knows how to end by it.

        Except inside an import, which takes a moment and, interrupted, may fail in words of its own: it is heard again
        when that is over.
        """
        if not self.came and importing(frame):
            again = threading.Timer(AGAIN, send_to_main_thread, (number,))
            again.daemon = True
            again.start()
            return
        self.came.append(number)
        if len(self.came) == 1:
            raise KeyboardInterrupt
        # not by print: the signal may have come in the middle of one
        if len(self.came) == 2:
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"icdc: stopping; a third time gives up\n")
            return
        os._exit(self.exit_code)


def send_to_main_thread(number: int) -> None:
    """Send this process a signal that also ends a wait of the main thread, the only one that hears signals.

    One that a thread raises for itself does not: the main thread hears of it when what it waits for is over.
    """
    main = threading.main_thread().ident
    if main is None or not hasattr(signal, "pthread_kill"):
        signal.raise_signal(number)  # Windows: no signal ends a wait there
    else:
        signal.pthread_kill(main, number)


def importing(frame: FrameType | None) -> bool:
    """Tell whether a frame belongs to an import that is not over."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


current = Interrupts()
"""Those of the command that runs."""


@contextmanager
def listening() -> Iterator[Interrupts]:
    """Take Ctrl-C and SIGTERM while the block runs; handlers are as before afterwards."""
    current.came.clear()
    if threading.current_thread() is not threading.main_thread():
        yield current  # only the main thread hears signals
        return
    before = {number: signal.signal(number, current.hear) for number in WORDS}
    try:
        yield current
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if current.came:
            # the interpreter remembers an interrupted exec of a text, such as those inside imports, and would end by
            # SIGINT, whatever the exit code; the next one makes it forget
            exec("")
