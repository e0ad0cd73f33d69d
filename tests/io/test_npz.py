"""What a file announces, and what it unpacks to, is limited before memory is taken; nothing advises to unpickle."""

import gzip
import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from icdc.errors import InputError
from icdc.io import csv, datasets, files, read_instances, workbook
from icdc.io.datasets import load_arrays, read_dataset
from tests.io.corpus import OK, npy, npz, xlsx


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": kind, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def packed(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def refused(content: bytes) -> str:
    """Return the refusal of arrays, made without taking much memory."""
    tracemalloc.start()
    with pytest.raises(InputError) as caught:
        load_arrays(content, "a.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27
    return str(caught.value)


def test_every_kind_of_array_comes_back_writable() -> None:
    for array in (OK, np.asfortranarray(OK), OK.astype(">i4"), np.zeros((0, 3)), np.array(3), np.array(["ab", "c"])):
        found = load_arrays(npy(array), "a")
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
        assert found.flags.writeable
    named = load_arrays(npz(a=OK, b=np.arange(3)), "a")
    assert isinstance(named, dict)
    assert list(named) == ["a", "b"]
    np.testing.assert_array_equal(named["a"], OK)


def test_a_small_archive_that_unpacks_to_much() -> None:
    """Kilobytes become gigabytes; the sizes are in the archive's own list."""
    size = datasets.LARGEST_ARRAYS
    content = bytearray(packed(durations=header((2**15, 2**14)) + bytes(2**20)))
    place = content.rindex(b"PK\x01\x02") + 24
    content[place : place + 4] = (2**32 - 2).to_bytes(4, "little")
    assert f"announces 4096 MiB of arrays, more than the {size // 2**20} MiB that are read" in refused(bytes(content))


def test_many_arrays_that_are_too_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "LARGEST_ARRAYS", 3 * len(npy(OK)))
    assert isinstance(load_arrays(npz(a=OK, b=OK), "a"), dict)
    assert "announces" in refused(npz(a=OK, b=OK, c=OK, d=OK))


@pytest.mark.parametrize("shape", [(2**20, 2**20), (2**62, 2**62), (10**6, 100)])
def test_a_header_that_announces_more_than_there_is(shape: tuple[int, ...]) -> None:
    for content in (header(shape) + bytes(64), packed(durations=header(shape) + bytes(64))):
        assert "announces" in refused(content)


@pytest.mark.parametrize(
    "content",
    [
        header((-1, 4)) + bytes(64),
        header((2, 2), "|O") + bytes(32),
        b"\x93NUMPY\x07\x00" + bytes(64),
        b"\x93NUMPY\x01\x00\xff\xff" + bytes(64),
        b"\x80\x04K\x01.",  # a pickle
        b"PK\x05\x06" + bytes(10),
        npy(np.array([[{}]]), allow_pickle=True),
    ],
)
def test_no_file_leads_to_unpickling(tmp_path: Path, content: bytes) -> None:
    for ending in (".npy", ".npz"):
        path = tmp_path / f"a{ending}"
        path.write_bytes(content)
        for read in (read_instances, read_dataset):
            with pytest.raises(InputError) as caught:
                read(path)
            assert "pickle" not in str(caught.value)
            assert str(caught.value).isprintable()


def test_the_same_entry_twice() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.npy", npy(OK))
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("a.npy", npy(OK))
    assert "has the entry 'a' twice" in refused(buffer.getvalue())


def test_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_MEMBERS", 2)
    assert "the archive has 3 entries, more than 2" in refused(npz(a=OK, b=OK, c=OK))


def test_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 2**20)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1," * 2**20))
    with pytest.raises(InputError, match="the file holds more than 1 MiB"):
        read_instances(path)
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(InputError, match="a: the file holds more than 0 MiB"):
        files.read_bytes(tmp_path / "a", 4)
    assert files.read_bytes(tmp_path / "a", 5) == b"12345"
    monkeypatch.setattr(files, "LARGEST_TEXT", 10)
    (tmp_path / "a.csv").write_text("1,2\n3,4\n5,6")
    with pytest.raises(InputError, match="of text; write the matrix"):
        read_instances(tmp_path / "a.csv")


def test_tables_with_too_many_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n5,6")
    monkeypatch.setattr(csv, "LARGEST_GRID", 5)
    with pytest.raises(InputError, match="the table has more than 5 cells"):
        read_instances(path)
    book = tmp_path / "a.xlsx"
    book.write_bytes(xlsx([[1, 2], [3, 4], [5, 6]]))
    monkeypatch.setattr(workbook, "LARGEST_SHEET", 5)
    with pytest.raises(InputError, match="the sheet has more than 5 cells"):
        read_instances(book)
    monkeypatch.setattr(workbook, "LARGEST_SHEET", 6)
    assert len(read_instances(book)) == 1
    monkeypatch.setattr(workbook, "LARGEST_WORKBOOK", 100)
    with pytest.raises(InputError, match="the workbook unpacks to"):
        read_instances(book)


def test_a_sheet_with_one_cell_far_away(tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active["A1"] = 1
    book.active["XFD1048576"] = 2
    path = tmp_path / "a.xlsx"
    book.save(path)
    with pytest.raises(InputError, match="are spread over 1048576 rows"):
        read_instances(path)


def test_long_json_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([[1, 2], [3, 4], [5, 6]]))
    monkeypatch.setattr("icdc.io.json.LARGEST_DOCUMENT", 10)
    with pytest.raises(InputError, match="of JSON; write the matrix"):
        read_instances(path)
