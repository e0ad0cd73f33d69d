"""Standard output belongs to the data: keep native libraries from writing to it."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_stdout() -> Iterator[None]:
    """Send what native code writes to standard output while the block runs to nowhere.

    HiGHS prints lines of its own there that no option turns off. The descriptor itself is redirected, since
    such output does not pass through Python; C's buffers are emptied on both sides, lest they spill later.
    """
    sys.stdout.flush()
    _flush_c_buffers()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush_c_buffers()
        os.dup2(kept, 1)
        os.close(kept)


def _flush_c_buffers() -> None:
    """Call C's fflush(NULL), where there is a C library to be found."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
