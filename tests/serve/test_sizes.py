"""Small requests that would become large: refused from a look at their bytes."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from icdc.errors import InputError
from icdc.serve.limits import Limits, Settings
from icdc.serve.orders import Source, read_order
from icdc.serve.refusals import Refusal
from icdc.serve.sizes import CELL_BYTES, FRAME_BYTES, check_size

CSV = b"job,saw,mill\na,1,2\nb,3,4\nc,5,6\n"
SETTINGS = Settings(Limits(cells=100))


def points(cities: int, announced: str | None = None) -> str:
    head = f"NAME: x\nTYPE: TSP\nDIMENSION: {announced or cities}\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n"
    return head + "".join(f"{city + 1} {city} {city % 7}\n" for city in range(cities)) + "EOF\n"


def test_gzip_is_unpacked_up_to_what_the_cells_can_need() -> None:
    most = CELL_BYTES * 100 + FRAME_BYTES
    check_size(gzip.compress(b"0" * most), "text/csv", 100)
    with pytest.raises(Refusal, match=f"unpacks to more than {most} bytes") as caught:
        check_size(gzip.compress(b"0" * (most + 1)), "text/csv", 100)
    assert caught.value.status == 413
    assert read_order(Source(gzip.compress(CSV), "text/csv", {"name": "x.csv.gz"}), SETTINGS).instance.rows is not None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(CSV)[:-9], "ends too early"),
        (gzip.compress(CSV) + b"more", "goes on after its end"),
        (b"\x1f\x8b" + bytes(40), "damaged"),
        (gzip.compress(gzip.compress(CSV)), "holds another gzip file"),
    ],
    ids=["short", "long", "damaged", "twice"],  # the bytes hold the time of day, and processes must agree on names
)
def test_gzip_that_is_not_whole(content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_size(content, "text/csv", 100)


@pytest.mark.parametrize("kind", ["application/x-tsplib", "text/plain", "text/csv"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-8-sig"])
def test_cities_are_counted_before_their_distances_are_taken(kind: str, encoding: str) -> None:
    with pytest.raises(Refusal, match="the instance has 121 cells; this server takes 100 at most"):
        check_size(points(11).encode(encoding), kind, 100)
    check_size(points(10).encode(encoding), kind, 100)


@pytest.mark.parametrize("line", ["DIMENSION: 9\nDIMENSION: 5000", "dimension :\t5000", "DIMENSION\u00a0:\u20035000"])
def test_however_the_number_of_cities_is_written(line: str) -> None:
    with pytest.raises(Refusal, match="25000000 cells"):
        check_size(points(9).replace("DIMENSION: 9", line).encode(), "text/plain", 100)


def test_archives_are_believed_in_what_they_announce() -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, matrix=np.zeros((1000, 1000)))
    with pytest.raises(Refusal, match=r"the archive unpacks to 8000\d+ bytes, more than 100 cells need"):
        check_size(buffer.getvalue(), "application/x-npz", 100)
    damaged = buffer.getvalue()[:200]
    check_size(damaged, "application/x-npz", 100)  # its reader says so
    small = io.BytesIO()
    with zipfile.ZipFile(small, "w") as archive:
        archive.writestr("a.txt", "b")
    check_size(small.getvalue(), "text/plain", 100)


def test_separators_are_counted() -> None:
    with pytest.raises(Refusal, match="more than 100 cells"):
        check_size(b"1," * 2000, "text/csv", 100)
