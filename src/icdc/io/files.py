"""Bytes in and out: every failure is one sentence, and a file is written whole or not at all."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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


@contextmanager
def replacing(path: str | os.PathLike[str], *, make_folder: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` at the end, if all went well.

    A reader, or a crash, sees the old contents or the new, never a part.

    Raises
    ------
    InputError
        If the file cannot be written; without `make_folder`, also if its folder does not exist.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def write_atomically(path: str | os.PathLike[str], content: bytes | str, *, make_folder: bool = False) -> None:
    """Write a file whole or not at all; see `replacing`."""
    with replacing(path, make_folder=make_folder) as file:
        file.write(content.encode() if isinstance(content, str) else content)
