"""What the server allows, each limit a flag of `icdc serve`, and how it refuses what goes beyond."""

import io
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ..errors import IcdcError, InputError, Surface, UsageError, shown_on

CELL_BYTES, FRAME_BYTES = 64, 2**20
"""Bytes that a cell takes at most in any format, and bytes around all of them."""
STATUSES = {2: 400, 3: 422, 4: 422, 5: 501}
"""The HTTP status of an exit code of the command line; 500 for others."""
_DIMENSION = re.compile(rb"DIMENSION\W{1,16}(\d{1,12})", re.IGNORECASE)
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take.

    body : bytes of a request.
    cells : entries of an instance's largest array.
    seconds : of search for one request; a search without a time limit of its own is ended here, too.
    samples : tries of one request, and its denoising steps and rounds of refinement.
    queue : requests that may wait; others are refused with the time after which to try again.
    batch : requests that are solved together, at most.
    kept : finished jobs that stay in memory.
    wait : seconds for which `POST /v1/solve` waits before it hands out the address of a job instead.
    grace : seconds that running searches have to finish when the server is stopped.
    """

    body: int = 8 * 2**20
    cells: int = 250_000
    seconds: float = 300.0
    samples: int = 4096
    queue: int = 256
    batch: int = 32
    kept: int = 1000
    wait: float = 30.0
    grace: float = 5.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0 and not (name == "grace" and value == 0):
                raise UsageError(f"the limit '{name}' must be more than 0, got {value:g}")

    @property
    def reading_seconds(self) -> float:
        """Seconds in which a request must be read."""
        return 4.0 * max(1.0, self.cells / 250_000)

    @property
    def reading_bytes(self) -> int:
        """Memory that reading a request may take."""
        return 2**30 + 1024 * self.cells


@dataclass(frozen=True)
class Settings:
    """How a server runs.

    data : the folder in which jobs survive; None keeps them in memory.
    token : what requests must show; None asks for nothing.
    hosts : names under which the server may be addressed; empty allows all.
    origins : web pages of other hosts that may call it.
    models : files of models beside the shipped ones, by the name requests use.
    device : "auto", "cpu" or "cuda".
    workers : processes that solve on the CPU; on GPUs there is one for each.
    warm : whether workers load models and compile before they take work, or with the first request that needs it.
    """

    limits: Limits = field(default_factory=Limits)
    data: Path | None = None
    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    models: dict[str, Path] = field(default_factory=dict)
    device: str = "auto"
    workers: int = 1
    warm: bool = True


class Refusal(Exception):
    """A request that is not served.

    Parameters
    ----------
    status : of HTTP.
    sentence : the reason, for the client.
    exit_code : of the command line for the same error, where it has one.
    headers : to send along.
    """

    def __init__(
        self, status: int, sentence: str, exit_code: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, sentence, exit_code, headers)  # all of them, so that it can be pickled
        self.status, self.sentence, self.exit_code, self.headers = status, sentence, exit_code, headers or {}

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> dict[str, Any]:
        """Return the document that is sent, a `schema.Problem`."""
        about = {"type": "about:blank", "title": HTTPStatus(self.status).phrase, "status": self.status}
        return about | {"detail": self.sentence, "exit_code": self.exit_code}


def refusal_of(error: IcdcError) -> Refusal:
    """Return an error of the package as the refusal of a request."""
    with shown_on(Surface.HTTP):
        return Refusal(STATUSES.get(error.exit_code, 500), str(error), error.exit_code)


def is_packed(content: bytes) -> bool:
    """Tell whether content is an archive, which can be much larger than it looks."""
    return content.startswith((_GZIP, _ZIP))


def check_size(content: bytes, kind: str, cells: int) -> None:
    """Raise a Refusal where content of a kind is certain to hold more cells, before it is unpacked or computed."""
    if content.startswith(_GZIP):
        content = _unzipped(content, CELL_BYTES * cells + FRAME_BYTES)
    if content.startswith(_ZIP):
        _check_archive(content, cells)
        return
    if kind in ("application/x-npz", "application/x-npy"):
        return  # their reader compares the sizes in the header with the content
    separators = max(content.count(mark) for mark in (b",", b";", b"\t"))
    if separators > 8 * cells + 1000:
        raise Refusal(413, f"more than {cells} cells; this server takes no more (icdc serve --cells)")
    # in TSPLIB files a few numbers for each city become a distance for each pair; zeros are half of wide characters
    cities = max(map(int, _DIMENSION.findall(content.replace(b"\0", b""))), default=0)
    check_cells(cities**2, cells)


def check_cells(count: int, cells: int) -> None:
    """Refuse an instance with too many cells."""
    if count > cells:
        raise Refusal(413, f"the instance has {count} cells; this server takes {cells} at most (icdc serve --cells)")


def _unzipped(content: bytes, most: int) -> bytes:
    """Unpack gzip up to a number of bytes, and refuse more."""
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
    """Refuse an archive that announces more than its cells can need; readers stop at the announced size."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            announced = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return  # the reader of files says what is wrong
    if announced > CELL_BYTES * cells + FRAME_BYTES:
        raise Refusal(413, f"the archive unpacks to {announced} bytes, more than {cells} cells need")
