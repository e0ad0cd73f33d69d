"""Bytes in and out: every failure is one sentence, and a file is written whole or not at all."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from ..errors import InputError

STDIN = "-"


def read_bytes(source: str | Path) -> bytes:
    """Return the contents of a file, or of standard input for "-"."""
    if str(source) == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except IsADirectoryError:
        raise InputError(f"{source}: this is a directory, not a file") from None
    except FileNotFoundError:
        raise InputError(f"{source}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{source}: cannot be read ({reason})") from None


def decode_text(content: bytes, name: str) -> str:
    """Return text from bytes: UTF-8, or UTF-16 where a byte order mark says so."""
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if wide else "UTF-8"
        raise InputError(f"{name}: this is not text (byte {error.start + 1} is not {encoding})") from None
    if "\0" in text:
        raise InputError(f"{name}: this is not text (character {text.index(chr(0)) + 1} is a null)")
    return text


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write a file so that readers see the old contents or the new, never a part.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written to.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def _umask() -> int:
    """Return the process's umask; temporary files are private by default, results should not be."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
