"""Compile all inner loops into numba's cache, in a process of low priority that a command may leave behind.

A command with a short time limit ends before the compiler does. If nothing went on after it, no command of that kind
would ever find compiled code.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from .starting import try_out

LEAVE_NOTHING = "ICDC_NO_BACKGROUND"
"""An environment variable; where it is set, nothing goes on after a command has ended."""
STALE = 120.0
"""Seconds after which a process that was left behind is taken to be done, or dead."""


def compile_afterwards(folder: Path | None = None) -> bool:
    """Leave a process behind that compiles everything, unless one is at it already; tell whether one was left.

    folder : where a mark says that one is at it; that of temporary files by default.
    """
    if os.environ.get(LEAVE_NOTHING):
        return False
    owner = os.getuid() if hasattr(os, "getuid") else 0
    mark = (folder or Path(tempfile.gettempdir())) / f"icdc-compiling-{owner}"
    try:
        if mark.is_symlink() or (mark.exists() and time.time() - mark.stat().st_mtime < STALE):
            return False
        mark.touch(mode=0o600)
        # -P: nothing that lies in the current folder is ever imported
        subprocess.Popen(
            [sys.executable, "-P", "-m", "icdc.search.afterwards"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    return True


def main() -> None:
    """Compile everything."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    kinds: tuple[type[np.int64] | type[np.float64], ...] = (np.int64, np.float64)
    for kind in kinds:
        for tour in (False, True):
            try_out(tour, kind)


if __name__ == "__main__":
    main()
