"""Files that grow line by line: one process at a time, on the disk before going on, whole lines only."""

import os
import stat
from pathlib import Path
from types import ModuleType

from ..errors import InputError, UsageError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on this system: two processes on one file are then not noticed
    fcntl = None


class LockedFile:
    """A file held open by this process alone, until it is closed or the process ends, however it ends.

    A link is followed: the file it points to is the one that is locked and written.

    Parameters
    ----------
    path : the file; it is made if it is not there, its folder is not.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from None
        try:
            self._lock()
        except BaseException:
            self.close()
            raise

    def read(self) -> bytes:
        """Return the whole lines; a last one without an end was cut short by a kill, and is removed from the file."""
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                return b""
            os.lseek(self._file, 0, os.SEEK_SET)
            parts = []
            while part := os.read(self._file, 1 << 24):
                parts.append(part)
            content = b"".join(parts)
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                os.ftruncate(self._file, len(whole))
        except OSError as error:
            raise InputError(f"{self.path}: cannot be taken up again ({error.strerror or error})") from None
        return whole

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return os.fstat(self._file).st_size

    def append(self, text: str) -> None:
        """Add text at the end, and see it onto the disk; a file that has vanished is noticed, not written unseen."""
        content = text.encode()
        try:
            if not os.path.exists(self.path) or not os.path.samestat(os.stat(self.path), os.fstat(self._file)):
                raise InputError(f"{self.path}: cannot be written (it was removed or replaced meanwhile)")
            while content:
                content = content[os.write(self._file, content) :]
            if stat.S_ISREG(os.fstat(self._file).st_mode):
                os.fsync(self._file)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from None

    def close(self) -> None:
        """Let go of the file; another process may then take it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "LockedFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{self.path} is in use by another process, which writes to it") from None
        except OSError:
            return  # a file system without locks
