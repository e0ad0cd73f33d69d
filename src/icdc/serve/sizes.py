"""How large the instance of a request is, from a look at its bytes: refused before anything is unpacked or computed."""

import io
import re
import zipfile
import zlib

from ..errors import InputError
from .refusals import Refusal

CELL_BYTES, FRAME_BYTES = 64, 2**20
"""What a cell takes at most in any format, and whatever is around all of them."""
_DIMENSION = re.compile(rb"DIMENSION\W{1,16}(\d{1,12})", re.IGNORECASE)
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


def check_size(content: bytes, kind: str, cells: int) -> None:
    """Raise a Refusal where content of a kind is certain to hold more cells."""
    if content.startswith(_GZIP):
        content = _unzipped(content, CELL_BYTES * cells + FRAME_BYTES)
    if content.startswith(_ZIP):
        _check_archive(content, cells)
        return
    if kind in ("application/x-npz", "application/x-npy"):
        return  # what they announce is compared with what they hold by their reader
    separators = max(content.count(mark) for mark in (b",", b";", b"\t"))
    if separators > 8 * cells + 1000:
        raise Refusal(413, f"more than {cells} cells; this server takes no more (icdc serve --cells)")
    # in TSPLIB files a few numbers for each city become a distance for each pair; zeros are half of wide characters
    cities = max(map(int, _DIMENSION.findall(content.replace(b"\0", b""))), default=0)
    if cities**2 > cells:
        raise too_many(cities**2, cells)


def too_many(found: int, cells: int) -> Refusal:
    """Return the refusal of an instance with too many cells."""
    return Refusal(413, f"the instance has {found} cells; this server takes {cells} at most (icdc serve --cells)")


def _unzipped(content: bytes, most: int) -> bytes:
    """Unpack gzip, and stop where there is more than a limit."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        inside = unpacker.decompress(content, most + 1)
    except zlib.error as error:
        raise InputError(f"the gzip file is damaged ({error})") from None
    if len(inside) > most:
        raise Refusal(413, f"the archive unpacks to more than {most} bytes (icdc serve --cells)")
    if not unpacker.eof or unpacker.unused_data:
        raise InputError("the gzip file is damaged (it ends too early, or goes on after its end)")
    if inside.startswith(_GZIP):
        raise InputError("the gzip file holds another gzip file")
    return inside


def _check_archive(content: bytes, cells: int) -> None:
    """Refuse an archive that announces more than its cells can need; readers stop at what was announced."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            announced = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return  # the reader of files says what is wrong
    if announced > CELL_BYTES * cells + FRAME_BYTES:
        raise Refusal(413, f"the archive unpacks to {announced} bytes, more than {cells} cells need")
