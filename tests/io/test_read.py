"""Instances from any file: which format, which problem, and one sentence about what is wrong."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from icdc.errors import InputError, UsageError
from icdc.io import ReadOptions, read_instances
from icdc.problems import BUILT_IN
from icdc.problems.atsp import Atsp
from icdc.problems.instance import Instance
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from tests.io.corpus import OK, npy, npz

SQUARE = np.array([[0, 7, 2], [4, 0, 9], [6, 3, 0]])
TALL = np.array([[5, 3], [2, 8], [7, 7]])


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def one(path: Path, problem: Atsp | Pmsp | Navigation | None = None) -> Instance:
    (instance,) = read_instances(path, problem)
    return instance


def csv(matrix: np.ndarray) -> str:
    return "\n".join(",".join(map(str, row)) for row in matrix.tolist()) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.json", json.dumps(SQUARE.tolist())),
        ("m.json", json.dumps({"matrix": SQUARE.tolist()})),
        ("m.npy", npy(SQUARE)),
        ("m.npz", npz(arr_0=SQUARE)),
        ("m.csv", csv(SQUARE)),
        ("m.tsv", csv(SQUARE).replace(",", "\t")),
        ("m.dat", csv(SQUARE).replace(",", "  ")),
    ],
)
def test_a_bare_square_matrix_needs_its_problem_said(tmp_path: Path, name: str, content: str | bytes) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(UsageError, match='problem="atsp" or problem="pmsp"'):
        read_instances(path)
    instance = one(path, Atsp())
    np.testing.assert_array_equal(instance.arrays["distances"], SQUARE)
    assert instance.integral
    assert instance.name == str(path)
    np.testing.assert_array_equal(one(path, Pmsp()).arrays["durations"], SQUARE)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.json", json.dumps(TALL.tolist())),
        ("m.json", json.dumps({"durations": TALL.tolist()})),
        ("m.json", json.dumps({"problem": "pmsp", "durations": TALL.tolist(), "comment": "from the shop"})),
        ("m.npy", npy(TALL)),
        ("m.npz", npz(times=TALL)),
        ("m.npz", npz(durations=TALL)),
        (
            "m.npz",
            npz(problem="pmsp", durations=TALL[None], reference=np.array([7.0]), proven=np.array([True])),
        ),
        ("m.csv", csv(TALL)),
        ("m.txt", csv(TALL).replace(",", ";")),
    ],
)
def test_certain_files_say_what_they_are(tmp_path: Path, name: str, content: str | bytes) -> None:
    instance = one(write(tmp_path, name, content))
    assert instance.problem.name == "pmsp"
    np.testing.assert_array_equal(instance.arrays["durations"], TALL)


def test_content_is_recognised_without_an_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (csv(TALL), json.dumps(TALL.tolist()), npy(TALL), npz(durations=TALL)):
        raw = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        (instance,) = read_instances("-")
        assert instance.name == "stdin"
        np.testing.assert_array_equal(instance.arrays["durations"], TALL)


def test_lists_and_datasets_become_numbered_instances(tmp_path: Path) -> None:
    batch = np.stack([TALL, TALL + 1])
    documents = [{"problem": "pmsp", "durations": m.tolist()} for m in batch]
    files = {
        "list.json": json.dumps(documents),
        "lines.jsonl": "\n".join(map(json.dumps, documents)),
        "matrices.json": json.dumps(batch.tolist()),
        "set.npz": npz(problem="pmsp", durations=batch.astype(np.uint8)),
        "stack.npy": npy(batch),
    }
    for name, content in files.items():
        path = write(tmp_path, name, content)
        first, second = read_instances(path)
        assert (first.name, second.name) == (f"{path}[0]", f"{path}[1]")
        np.testing.assert_array_equal(second.arrays["durations"], TALL + 1)


def test_a_stack_of_one_is_called_as_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "stack.npy", npy(TALL[None]))
    instance = one(path)
    assert instance.name == str(path)
    np.testing.assert_array_equal(instance.arrays["durations"], TALL)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("NAME: t\nTYPE: ATSP\nDIMENSION: 2\nEDGE_WEIGHT_SECTION\n0 3\n4 0\nEOF\n", "atsp"),
        ("[[1, 2], [3, 4], [5, 6]]", "pmsp"),
        ("1 2\n3 4\n5 6\n", "pmsp"),
    ],
)
def test_an_unknown_ending_is_recognised_by_content(tmp_path: Path, content: str, problem: str) -> None:
    assert one(write(tmp_path, "instance.txt", content)).problem.name == problem


def test_a_known_ending_is_believed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.csv: "):
        one(write(tmp_path, "t.csv", "[[1, 2], [3, 4], [5, 6]]"))


def test_a_large_tour_and_a_flat_schedule_in_one_list(tmp_path: Path) -> None:
    documents = [{"distances": SQUARE.tolist(), "name": "loop"}, {"durations": TALL.tolist()}]
    first, second = read_instances(write(tmp_path, "mixed.json", json.dumps(documents)))
    assert (first.problem.name, second.problem.name) == ("atsp", "pmsp")
    assert first.name.endswith("mixed.json[0] (loop)")


def test_navigation_from_json(tmp_path: Path) -> None:
    drawn = Navigation().sample(1, (5,), np.random.default_rng(3))
    path = write(tmp_path, "n.json", json.dumps({name: array[0].tolist() for name, array in drawn.items()}))
    instance = one(path)
    assert instance.problem.name == "navigation"
    np.testing.assert_array_equal(instance.arrays["traffic"], drawn["traffic"][0])
    assert instance.coordinates is not None


def test_names_come_from_json(tmp_path: Path) -> None:
    document = {"durations": TALL.tolist(), "jobs": ["a", "b", "c"], "machines": ["x", "y"]}
    instance = one(write(tmp_path, "m.json", json.dumps(document)))
    assert instance.rows == ("a", "b", "c")
    assert instance.columns == ("x", "y")
    tour = one(write(tmp_path, "t.json", json.dumps({"distances": SQUARE.tolist(), "cities": ["p", "q", "r"]})))
    assert tour.rows == tour.columns == ("p", "q", "r")


class Shifts(Pmsp):
    """A problem of one's own with its own words."""

    name = "shifts"
    row_words = ("nurse", "nurses")
    column_words = ("shift", "shifts")


def test_names_under_the_words_of_ones_own_problem(tmp_path: Path) -> None:
    document = {"durations": TALL.tolist(), "nurses": ["a", "b", "c"], "shifts": ["x", "y"]}
    instance = one(write(tmp_path, "m.json", json.dumps(document)), Shifts())
    assert (instance.rows, instance.columns) == (("a", "b", "c"), ("x", "y"))
    with pytest.raises(InputError, match="'nurses'"):
        one(write(tmp_path, "m.json", json.dumps(document)), Pmsp())


def test_names_of_cities_alone_do_not_tell_a_square_matrix(tmp_path: Path) -> None:
    """They are names of rows, as `rows` are; only names on both sides say that the items are the same."""
    document = {"matrix": SQUARE.tolist(), "cities": ["p", "q", "r"]}
    with pytest.raises(UsageError, match="may be distances or processing times"):
        one(write(tmp_path, "t.json", json.dumps(document)))


def test_a_problem_that_joins_those_that_ship_is_found_by_its_own_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names, its arrays and what it recognises need no change in the readers."""

    class Prices(Shifts):
        name = "prices"
        arrays = ("prices",)
        entries = "prices"

        def size(self, arrays: Mapping[str, Any]) -> tuple[int, ...]:
            return tuple(arrays["prices"].shape[1:])

        def check(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
            return {"prices": np.asarray(arrays["prices"])}

    monkeypatch.setitem(BUILT_IN, "prices", Prices)
    document = {"prices": TALL.tolist(), "nurses": ["a", "b", "c"]}
    instance = one(write(tmp_path, "m.json", json.dumps(document)))
    assert isinstance(instance.problem, Prices)
    assert instance.rows == ("a", "b", "c")
    with pytest.raises(UsageError, match=r"a matrix \(3 × 2\) may be processing times or prices; say which with "):
        one(write(tmp_path, "m.json", json.dumps(TALL.tolist())))


def test_coordinates_beside_distances_are_for_drawing(tmp_path: Path) -> None:
    points = [[0, 0], [1, 0], [1, 1]]
    instance = one(write(tmp_path, "t.json", json.dumps({"distances": SQUARE.tolist(), "coordinates": points})))
    assert instance.problem.name == "atsp"
    np.testing.assert_array_equal(instance.coordinates, points)
    with pytest.raises(InputError, match="'coordinates' must be 3 × 2"):
        one(write(tmp_path, "t.json", json.dumps({"distances": SQUARE.tolist(), "coordinates": points[:2]})))


def test_the_file_and_the_option_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path, "m.json", json.dumps({"problem": "pmsp", "durations": TALL.tolist()}))
    with pytest.raises(UsageError, match="is for 'pmsp', not for 'atsp'"):
        read_instances(path, Atsp())


def test_a_file_cannot_choose_code_to_import(tmp_path: Path) -> None:
    path = write(tmp_path, "m.json", json.dumps({"problem": "os:path", "durations": TALL.tolist()}))
    with pytest.raises(InputError, match="if you trust it"):
        read_instances(path)


integers = st.integers(0, 2**53)
matrices = st.tuples(st.integers(2, 6), st.integers(2, 6)).flatmap(
    lambda shape: (
        arrays(np.int64, shape, elements=integers)
        | arrays(np.float64, shape, elements=st.floats(0, 1e30, allow_subnormal=False))
    )
)


@settings(deadline=None)
@given(
    matrix=matrices,
    form=st.sampled_from(["csv", "semicolon", "tsv", "blank", "labels", "json", "npy", "npz"]),
)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, matrix: np.ndarray, form: str) -> None:
    """Whatever is written comes back, bit for bit, integers as integers."""
    folder = tmp_path_factory.mktemp("round")
    text = csv(matrix)
    rows, columns = matrix.shape
    labelled = "\n".join(
        [",".join(["job"] + [f"m{c}" for c in range(columns)])]
        + [f"j{r},{line}" for r, line in enumerate(text.splitlines())]
    )
    content = {
        "csv": ("m.csv", text),
        "semicolon": ("m.csv", text.replace(",", ";")),
        "tsv": ("m.tsv", text.replace(",", "\t")),
        "blank": ("m.txt", text.replace(",", " ")),
        "labels": ("m.csv", labelled),
        "json": ("m.json", json.dumps(matrix.tolist())),
        "npy": ("m.npy", npy(matrix)),
        "npz": ("m.npz", npz(problem="pmsp", durations=matrix[None])),
    }[form]
    text_form = form in ("csv", "semicolon", "tsv", "blank", "labels")
    options = ReadOptions(labels=form == "labels") if text_form else ReadOptions()
    (instance,) = read_instances(write(folder, *content), Pmsp(), options)
    found = instance.arrays["durations"]
    assert found.dtype == matrix.dtype
    np.testing.assert_array_equal(found, matrix)
    if form == "labels":
        assert instance.rows == tuple(f"j{r}" for r in range(rows))


GOOD_NPY = npy(OK)


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


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64, np.float16, np.float32, np.longdouble, ">i4", ">f8"])
def test_numbers_of_every_kind(tmp_path: Path, kind: object) -> None:
    """Whatever NumPy calls a number is read; integers as integers, reals as float64."""
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6).reshape(3, 2).astype(kind))  # type: ignore[call-overload]
    (instance,) = read_instances(path)
    assert instance.arrays["durations"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert instance.integral == (np.dtype(kind).kind in "iu")  # type: ignore[call-overload]
