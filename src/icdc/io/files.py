"""Bytes in and out: every failure is one sentence; a file is written whole or not at all, or grows by whole lines."""

import gzip
import io
import os
import re
import secrets
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO

from ..errors import InputError, UsageError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on this system: two processes that write to one file do not notice each other
    fcntl = None

STDIN = "-"
LARGEST_FILE = 2**30
"""Bytes of the largest file that is read, unpacked."""
LARGEST_TEXT = 2**27
"""Bytes of the largest text that is read: cells of text take many times the memory of numbers."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")  # but for tabs, line breaks and escape codes


def read_bytes(source: str | Path, limit: int = LARGEST_FILE) -> bytes:
    """Return the contents of a file, or of standard input for "-"; more than `limit` bytes are refused."""
    if str(source) == STDIN:
        content = sys.stdin.buffer.read(limit + 1)
    else:
        try:
            with open(source, "rb") as file:
                content = file.read(limit + 1) if os.fstat(file.fileno()).st_size <= limit else b" " * (limit + 1)
        except IsADirectoryError:
            raise InputError(f"{source}: this is a directory, not a file") from None
        except FileNotFoundError:
            raise InputError(f"{source}: no such file") from None
        except (OSError, ValueError) as error:  # ValueError: a path with a null byte
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{source}: cannot be read ({reason})") from None
    if len(content) > limit:
        raise InputError(f"{'stdin' if str(source) == STDIN else source}: {too_much(limit)}")
    return content


def too_much(limit: int) -> str:
    """Say that something is larger than is read."""
    return f"the file holds more than {limit // 2**20} MiB, the most that is read"


def unpacked(content: bytes, name: str) -> tuple[bytes, str]:
    """Return what a gzip file holds, and its name without `.gz`; other files as they are."""
    if not content.startswith(b"\x1f\x8b"):
        if name.lower().endswith(".gz"):
            raise InputError(f"{name}: this is not a gzip file")
        return content, name
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            inside = file.read(LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name}: the gzip file is damaged ({' '.join(str(error).split())[:80]})") from None
    if len(inside) > LARGEST_FILE:
        raise InputError(f"{name}: {too_much(LARGEST_FILE)}")
    return inside, name[:-3] if name.lower().endswith(".gz") else name


def decode_text(content: bytes, name: str) -> str:
    """Return text from bytes; see `decoded`."""
    return decoded(content, name)[0]


def decoded(content: bytes, name: str) -> tuple[str, str | None]:
    """Return text from bytes, and the encoding where it had to be guessed.

    Text is UTF-8, or UTF-16 where a byte order mark says so, or else Windows-1252, of which Latin-1 is a part.
    """
    if len(content) > LARGEST_TEXT:
        raise InputError(f"{name}: {too_much(LARGEST_TEXT)} of text; write the matrix as .npy")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    guessed = None
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        if wide:
            raise InputError(f"{name}: this is not text (byte {error.start + 1} is not UTF-16)") from None
        try:
            text, guessed = content.decode("cp1252"), "Windows-1252"
        except UnicodeDecodeError:
            raise InputError(f"{name}: this is not text (byte {error.start + 1} is not UTF-8)") from None
        if _CONTROL.search(text):
            raise InputError(f"{name}: this is not text (byte {error.start + 1} is not UTF-8)") from None
    if "\0" in text:
        raise InputError(f"{name}: this is not text (character {text.index(chr(0)) + 1} is a null)")
    return text, guessed


@contextmanager
def replacing(path: str | os.PathLike[str], *, make_folder: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` at the end, if all went well.

    A reader, or a crash, sees the old contents or the new, never a part. Where `path` is a link, the file that it
    points to is replaced, and the link stays.

    Raises
    ------
    InputError
        If the file cannot be written; without `make_folder`, also if its folder does not exist.
    """
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            raise InputError(f"{path}: cannot be written (it is not a regular file)")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def write_atomically(path: str | os.PathLike[str], content: bytes | str, *, make_folder: bool = False) -> None:
    """Write a file whole or not at all; see `replacing`."""
    with replacing(path, make_folder=make_folder) as file:
        file.write(content.encode() if isinstance(content, str) else content)


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
