"""Broken files: each gives one sentence that names the file and what is wrong, never anything else."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icdc.errors import InputError, UsageError
from icdc.io import read_instances
from icdc.problems.atsp import Atsp
from tests.io.corpus import OK, npy, npz

GOOD_NPY, GOOD_NPZ = npy(OK), npz(durations=OK)


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_instances(path)
    message = str(caught.value)
    assert message.startswith(str(path)), message
    assert "\n" not in message
    return message


def test_a_zip_with_a_wrong_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("durations.npy", GOOD_NPY)
    content = bytearray(path.read_bytes())
    content[content.index(b"NUMPY") + 130] ^= 0xFF
    path.write_bytes(content)
    assert "cannot be read as NumPy arrays" in refused(path)


def test_an_npy_header_that_announces_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    announced = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (9_999_999, 9_999_999)}
    np.lib.format.write_array_header_1_0(announced, header)
    path.write_bytes(announced.getvalue() + b"\0" * 48)
    assert "announces 762939301 MiB of arrays, more than the 1024 MiB that are read" in refused(path)


def loop(path: Path) -> None:
    path.symlink_to(path)


def folder(path: Path) -> None:
    path.mkdir()


def nothing(path: Path) -> None:
    pass


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (nothing, "no such file"),
        (dangling, "no such file"),
        (folder, "this is a directory"),
        (loop, "cannot be read (Too many levels of symbolic links)"),
    ],
)
def test_not_a_file(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "a.csv"
    make(path)
    assert message in refused(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n5,6")
    path.chmod(0)
    assert "Permission denied" in refused(path)


def assert_read_or_refused(path: Path) -> None:
    """Reading succeeds, or is refused by one of the two errors with one sentence."""
    for problem in (None, Atsp()):
        message = str(path)
        try:
            read_instances(path, problem)
        except (InputError, UsageError) as error:
            message = str(error)
        assert message.startswith(str(path))
        assert "\n" not in message


ENDINGS = [".csv", ".tsv", ".txt", ".json", ".jsonl", ".atsp", ".tsp", ".tour", ".npy", ".npz", ""]


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200), ending=st.sampled_from(ENDINGS))
def test_fuzz_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz{ending}"
    path.write_bytes(content)
    assert_read_or_refused(path)


words = st.sampled_from(
    '0 1 2.5 -3 nan inf a b , ; \t \n \n # " [ ] { } : NAME: TYPE: ATSP TOUR DIMENSION: EDGE_WEIGHT_SECTION '
    "NODE_COORD_SECTION EDGE_WEIGHT_TYPE: EUC_2D GEO EXPLICIT -1 EOF job 1e999 _".split(" ")
)


@settings(max_examples=250, deadline=None)
@given(
    pieces=st.lists(words, max_size=40),
    glue=st.sampled_from(["", " ", "\n", ","]),
    ending=st.sampled_from(ENDINGS),
)
def test_fuzz_words(tmp_path_factory: pytest.TempPathFactory, pieces: list[str], glue: str, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"words{ending}"
    path.write_text(glue.join(pieces))
    assert_read_or_refused(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["problem", "distances", "durations", "matrix", "jobs", "cities", "coordinates", "name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=250, deadline=None)
@given(value=values)
def test_fuzz_json(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "values.json"
    path.write_text(json.dumps(value))
    assert_read_or_refused(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), base=st.sampled_from([GOOD_NPY, GOOD_NPZ]))
def test_fuzz_binary_by_flipping_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, base: bytes
) -> None:
    content = bytearray(base)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.getbasetemp() / ("flipped.npy" if base is GOOD_NPY else "flipped.npz")
    path.write_bytes(content[:cut] if data.draw(st.booleans()) else content)
    assert_read_or_refused(path)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64, np.float16, np.float32, np.longdouble, ">i4", ">f8"])
def test_numbers_of_every_kind(tmp_path: Path, kind: object) -> None:
    """Whatever NumPy calls a number is read; integers as integers, reals as float64."""
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6).reshape(3, 2).astype(kind))  # type: ignore[call-overload]
    (instance,) = read_instances(path)
    assert instance.arrays["durations"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert instance.integral == (np.dtype(kind).kind in "iu")  # type: ignore[call-overload]
