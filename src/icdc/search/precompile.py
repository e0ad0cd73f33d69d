"""Compile all inner loops into numba's cache, in a process of low priority that outlives the command.

A command with a short time limit ends before the compiler does. If compiling ended with it, no command of that kind
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

from .structures import STRUCTURES

SWITCHED_OFF = "ICDC_NO_BACKGROUND"
"""An environment variable; where it is set, nothing goes on after a command has ended."""
STALE = 120.0
"""Seconds after which a process in the background is taken to be done, or dead."""


def compile_in_background(folder: Path | None = None) -> bool:
    """Start a process that compiles everything, unless one is running already; tell whether it was started.

    folder : where a file marks that one is running; that of temporary files by default.
    """
    if os.environ.get(SWITCHED_OFF):
        return False
    owner = os.getuid() if hasattr(os, "getuid") else 0
    mark = (folder or Path(tempfile.gettempdir())) / f"icdc-compiling-{owner}"
    try:
        if mark.is_symlink() or (mark.exists() and time.time() - mark.stat().st_mtime < STALE):
            return False
        mark.touch(mode=0o600)
        # -P: nothing that lies in the current folder is ever imported
        subprocess.Popen(
            [sys.executable, "-P", "-m", "icdc.search.precompile"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    return True


def main() -> None:
    """Compile everything."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    for structure in STRUCTURES.values():
        structure.compile(np.int64)
        structure.compile(np.float64)


if __name__ == "__main__":
    main()
