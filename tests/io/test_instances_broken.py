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


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def npz(**named: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **named)  # type: ignore[arg-type]
    return buffer.getvalue()


def atsp(section: str, size: object = 2, layout: str = "FULL_MATRIX") -> str:
    return (
        f"NAME: t\nTYPE: ATSP\nDIMENSION: {size}\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
        f"EDGE_WEIGHT_FORMAT: {layout}\nEDGE_WEIGHT_SECTION\n{section}\nEOF\n"
    )


OK = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
WITH_NAN = np.where(OK == 4.0, np.nan, OK)
GOOD_NPY, GOOD_NPZ = npy(OK), npz(durations=OK)

# (file name, content, part of the message)
CORPUS: list[tuple[str, str | bytes, str]] = [
    # tables
    ("a.csv", "", "the file is empty"),
    ("a.csv", "\n \n\t\n", "the file is empty"),
    ("a.csv", "# only a comment\n", "the file is empty"),
    ("a.csv", "m1,m2\n", "no row of numbers"),
    ("a.csv", "1,2\n3\n", "line 2 has 1 cells where line 1 has 2"),
    ("a.csv", "1,2\n3,4,5\n", "line 2 has 3 cells where line 1 has 2"),
    ("a.csv", "1,2\n3,4\n5,", "line 3, column 2: the cell is empty"),
    ("a.csv", "1,2\nNaN,4\n5,6", "line 2, column 1: 'NaN' is not a finite number"),
    ("a.csv", "1,2\n3,inf\n5,6", "line 2, column 2: 'inf' is not a finite number"),
    ("a.csv", "1,2\n3,-4\n5,6", "negative value -4 at row 2, column 2"),
    ("a.csv", "1,2\n3,four\n5,6", "line 2, column 2: 'four' is not a number"),
    ("a.csv", "1,2\n3,=A1\n5,6", "'=A1' is not a number"),
    ("a.csv", "1,2\n3,1e999\n5,6", "'1e999' is too large"),
    ("a.csv", "1,2\n3," + "1" * 400 + "\n5,6", "is too large"),
    ("a.csv", "1,2\n3," + "y" * 400 + "\n5,6", "…' is not a number"),
    ("a.csv", "a,1,2\nb,3,4\na,5,6", "the row label 'a' occurs twice"),
    ("a.csv", "x,x\n1,2\n3,4\n5,6", "the column label 'x' occurs twice"),
    ("a.csv", ",x,y\na,1,2\nb,3,4\nc,5", "line 4 has 2 cells"),
    ("a.csv", '"1,2\n3,4\n', "line 1 cannot be read as a table"),
    ("a.csv", "one two three", "a header but no row of numbers"),
    ("a.csv", b"\x00\x01\x02\x03", "not text"),
    ("a.csv", b"1,2\n3,\xff\xfe\n", "not text (byte 7 is not UTF-8)"),
    ("a.csv", b"\xff\xfe1", "not text"),
    ("a.tsv", "1\t2\n3\tx\n5\t6", "line 2, column 2: 'x' is not a number"),
    ("a.txt", "1 2\n3\n", "line 2 has 1 cells"),
    ("a.csv", "%PDF-1.7\n%âãÏÓ\n", "is not a number"),
    ("a.csv", "<html><body>404</body></html>", "is not a number"),
    # JSON
    ("a.json", "", "the file is empty"),
    ("a.json", "{", "line 1: this is not JSON"),
    ("a.json", "[[1,2],\n[3,4", "line 2: this is not JSON"),
    ("a.json", "[]", "the list is empty"),
    ("a.json", "{}", "the object holds no matrix"),
    ("a.json", "[[]]", "is empty"),
    ("a.json", "null", "must be a matrix or an object, got null"),
    ("a.json", "7", "must be a matrix or an object, got a number"),
    ("a.json", '"text"', "must be a matrix or an object, got 'text'"),
    ("a.json", "[1,2,3]", "must be a matrix, got an array with 1 axes"),
    ("a.json", "[[1,2],[3]]", "row 2 has 1 entries where row 1 has 2"),
    ("a.json", "[[1,2],3]", "row 2 must be a list of numbers, got a number"),
    ("a.json", '[[1,2],[3,"4"],[5,6]]', "row 2, column 2: '4' is not a number"),
    ("a.json", "[[1,2],[3,null],[5,6]]", "row 2, column 2: null is not a number"),
    ("a.json", "[[1,2],[3,true],[5,6]]", "row 2, column 2: true is not a number"),
    ("a.json", "[[1,2],[3,NaN],[5,6]]", "row 2, column 2: the number is not finite"),
    ("a.json", "[[1,2],[3,-Infinity],[5,6]]", "row 2, column 2: the number is not finite"),
    ("a.json", "[[1,2],[3,1e31],[5,6]]", "row 2, column 2: the number is too large"),
    ("a.json", f"[[1,2],[3,{10**20}],[5,6]]", "row 2, column 2: the number is too large"),
    ("a.json", "[[1,2],[3," + "9" * 5000 + "],[5,6]]", "a.json: "),
    ("a.json", "[" * 100_000, "a.json: "),
    ("a.json", '{"problem": 3, "durations": [[1]]}', "'problem' must be a name"),
    (
        "a.json",
        '{"problem": "pmsp", "duration": [[1]]}',
        "the array 'durations' of the problem 'pmsp' is missing",
    ),
    ("a.json", '{"problem": "pmsp", "durations": 3}', "the object holds no matrix"),
    ("a.json", '{"problem": "navigation", "coordinates": [[0,0],[1,1]]}', "the array 'slowness'"),
    (
        "a.json",
        '{"problem": "navigation", "matrix": [[0,0],[1,1]]}',
        "needs the arrays 'coordinates', 'slowness'",
    ),
    (
        "a.json",
        '{"problem": "atsp", "distances": [[0,1,2],[3,0,4]]}',
        "must be square, got 2 rows and 3 columns",
    ),
    ("a.json", '{"problem": "atsp", "distances": [[0]]}', "at least 2 cities"),
    ("a.json", '{"problem": "atsp", "distances": [[0,-1],[1,0]]}', "negative value -1 at row 1, column 2"),
    ("a.json", '{"durations": [[1,2],[3,4]], "jobs": ["a"]}', "there are 1 names for 2 rows"),
    ("a.json", '{"durations": [[1,2],[3,4]], "jobs": ["a", "a"]}', "'a' occurs twice"),
    ("a.json", '{"durations": [[1,2],[3,4]], "jobs": ["a", {}]}', "'jobs' must be a list of names"),
    ("a.jsonl", '{"durations": [[1,2]]}\n{"durations": [[1,2]]\n', "line 2: this is not JSON"),
    # TSPLIB
    ("a.atsp", "", "DIMENSION must be a whole number"),
    ("a.atsp", atsp("0 1 2"), "must hold 4 numbers for 2 cities in FULL_MATRIX, got 3"),
    ("a.atsp", atsp("0 1 2 0 5"), "must hold 4 numbers"),
    ("a.atsp", atsp("0 1 -2 0"), "negative value -2 at row 2, column 1"),
    ("a.atsp", atsp("0 1 2 nil"), "line 7: 'nil' is not a number"),
    ("a.atsp", atsp("0", size=1), "at least 2 cities"),
    ("a.atsp", atsp("0 1 2 0", size="two"), "DIMENSION must be a whole number of cities, got 'two'"),
    ("a.atsp", atsp("0 1 2 0", size="9" * 99), "DIMENSION must be a whole number"),
    ("a.atsp", atsp("0 1 2 0", layout="SPIRAL"), "EDGE_WEIGHT_FORMAT 'SPIRAL' is not supported"),
    ("a.tsp", "just some words", "line 1: 'just some words' is neither"),
    ("a.tsp", b"\x89PNG\r\n\x1a\n\x00", "not text"),
    ("a.tour", "TYPE: TOUR\nTOUR_SECTION\n1 2 3 -1", "this is a tour, not an instance"),
    # NumPy
    ("a.npy", b"", "the file is empty"),
    ("a.npy", b"junk junk junk", "cannot be read as NumPy arrays"),
    ("a.npy", GOOD_NPY[:20], "cannot be read as NumPy arrays"),
    ("a.npy", GOOD_NPY[:-1], "cannot be read as NumPy arrays"),
    ("a.npy", npy(WITH_NAN), "not finite at row 2, column 2"),
    ("a.npy", npy(-OK), "negative value -1.0 at row 1, column 1"),
    ("a.npy", npy(np.array([["a", "b"]])), "must hold numbers"),
    ("a.npy", npy(np.array([[None, 1]]), allow_pickle=True), "cannot be read as NumPy arrays"),
    ("a.npy", npy(np.ones((2, 3), dtype=complex)), "must hold numbers"),
    ("a.npy", npy(np.array(3.0)), "got an array with 0 axes"),
    ("a.npy", npy(np.ones(4)), "got an array with 1 axes"),
    ("a.npy", npy(np.ones((0, 4))), "is empty"),
    ("a.npy", npy(np.ones((0, 4, 4))), "the file holds no instance"),
    ("a.npy", npy(np.full((3, 2), 2**60)), "the value at row 1, column 1 is too large"),
    ("a.npy", npy(np.full((3, 2), 1e300)), "the value at row 1, column 1 is too large"),
    ("a.npz", b"", "the file is empty"),
    ("a.npz", GOOD_NPZ[:-30], "cannot be read as NumPy arrays"),
    ("a.npz", GOOD_NPZ[:150], "cannot be read as NumPy arrays"),
    ("a.npz", npz(problem="pmsp"), "the archive holds no matrix"),
    ("a.npz", npz(problem="pmsp", times=OK[None]), "the array 'durations'"),
    ("a.npz", npz(problem=np.array([1, 2]), durations=OK[None]), "'problem' must be a name"),
    ("a.npz", npz(problem="atsp", distances=OK[None]), "must be square"),
    ("a.npz", npz(coordinates=OK[None], slowness=OK, traffic=OK), "different numbers of instances"),
]


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_instances(path)
    message = str(caught.value)
    assert message.startswith(str(path)), message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(("name", "content", "message"), CORPUS, ids=range(len(CORPUS)))
def test_corpus(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused(path)


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
    assert "announces an array that does not fit into memory" in refused(path)


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
