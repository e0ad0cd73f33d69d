"""Arrays from NumPy's files, within limits: what a file announces is checked before anything is allocated.

Nothing is ever unpickled.
"""

import io
import math
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .files import LARGEST_FILE

LARGEST_ARRAYS = LARGEST_FILE
"""Bytes of all arrays of a file together."""
_CHUNK = 2**24
_MEMBERS = 1000
"""Entries of an archive; a dataset has a handful."""

Content = NDArray[Any] | dict[str, NDArray[Any]]


def load_arrays(content: bytes, name: str) -> Content:
    """Return the array of an NPY file or the named arrays of an NPZ archive; raise InputError for anything else."""
    if not content:
        raise InputError(f"{name}: the file is empty")
    try:
        if content.startswith(b"PK"):
            return _load_archive(content, name)
        return _load_one(io.BytesIO(content), len(content), name)
    except MemoryError:
        raise InputError(f"{name}: the arrays do not fit into memory") from None
    except InputError:
        raise
    except Exception as error:
        # numpy, zipfile and zlib raise a dozen kinds of exception for a broken file; all of them mean this
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{name}: the file cannot be read as NumPy arrays ({reason})") from None


def members_of(content: bytes, name: str) -> list[str]:
    """Return the names of the entries of a zip archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.namelist()
    except Exception:  # as above: whatever is raised, the archive is damaged
        raise InputError(
            f"{name}: the zip archive is damaged, it cannot be read as NumPy arrays or a workbook"
        ) from None


def _load_archive(content: bytes, name: str) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if not any(member.filename.endswith(".npy") for member in members):
            raise InputError(f"{name}: this is a zip archive without NumPy arrays in it")
        if len(members) > _MEMBERS:
            raise InputError(f"{name}: the archive has {len(members)} entries, more than {_MEMBERS}")
        _check_size(sum(member.file_size for member in members), name)
        arrays: dict[str, NDArray[Any]] = {}
        for member in members:
            key = member.filename.removesuffix(".npy")
            if key == member.filename:
                raise InputError(f"{name}: the archive's entry {key[:40]!r} is not a NumPy array")
            if key in arrays:
                raise InputError(f"{name}: the archive has the entry {key[:40]!r} twice")
            with archive.open(member) as file:
                arrays[key] = _load_one(file, member.file_size, name)
        return arrays


def _load_one(file: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read one array from a file that is said to have `size` bytes."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (format {version[0]}.{version[1]})")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (it holds Python objects, not numbers)")
    if any(length < 0 for length in shape):
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (a negative length)")
    announced = math.prod(shape) * dtype.itemsize
    _check_size(announced, name)
    if announced > size:
        raise InputError(
            f"{name}: the file cannot be read as NumPy arrays (it announces {announced} bytes of numbers and has fewer)"
        )
    flat = np.empty(announced, dtype=np.uint8)
    done = 0
    while done < announced:
        piece = file.read(min(_CHUNK, announced - done))
        if not piece:
            raise InputError(f"{name}: the file cannot be read as NumPy arrays (it ends too early)")
        flat[done : done + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        done += len(piece)
    if file.read(1):  # also lets an archive compare its checksum
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (it goes on after the array)")
    if not dtype.itemsize:
        return np.zeros(shape, dtype=dtype)
    return flat.view(dtype).reshape(shape, order="F" if fortran else "C")


def _check_size(size: int, name: str) -> None:
    if size > LARGEST_ARRAYS:
        raise InputError(
            f"{name}: the file announces {size / 2**20:.0f} MiB of arrays, more than the "
            f"{LARGEST_ARRAYS // 2**20} MiB that are read"
        )
