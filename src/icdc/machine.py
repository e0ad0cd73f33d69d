"""What this machine has to give."""

import contextlib
import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_memory(proc: Path = Path("/proc"), cgroup: Path = _CGROUP) -> int | None:
    """Return the bytes of memory that can still be taken, by this machine and by the group of processes we are in.

    None where the system does not say.
    """
    sizes = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (proc / "meminfo").read_text().splitlines()
        sizes += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
        limit = int((cgroup / "memory.max").read_text())
        sizes.append(max(0, limit - int((cgroup / "memory.current").read_text())))
    return min(sizes) if sizes else None


def gibibytes(size: float) -> str:
    """Return a number of bytes for people."""
    return f"{size / 2**30:.1f} GiB"


def may_have_gpu(devices: Path = Path("/dev")) -> bool:
    """Tell whether a GPU that torch could use is possible here; asking torch itself takes a second of imports."""
    if not sys.platform.startswith("linux"):
        return True
    return any((devices / name).exists() for name in ("nvidiactl", "nvidia0", "dxg", "kfd"))
