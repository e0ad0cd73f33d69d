"""Any file in: formats, the guess of the problem, names, exact integers, round trips."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from icdc.data import Instance, read_instances
from icdc.errors import InputError, UsageError
from icdc.problems import Atsp, Navigation, Pmsp

SQUARE = np.array([[0, 7, 2], [4, 0, 9], [6, 3, 0]])
TALL = np.array([[5, 3], [2, 8], [7, 7]])


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def one(path: Path, problem: Atsp | Pmsp | Navigation | None = None) -> Instance:
    (instance,) = read_instances(path, problem)
    return instance


def npz(**named: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **named)  # type: ignore[arg-type]
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


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
    with pytest.raises(UsageError, match="--problem atsp or --problem pmsp"):
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


def test_rows_and_columns_of_a_tour_in_the_same_order(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", ",a,b,c\na,0,1,2\nc,3,0,4\nb,5,6,0\n")
    with pytest.raises(InputError, match="row 2 is 'c' and column 2 is 'b'"):
        read_instances(path, Atsp())


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
    instance = one(write(folder, *content), Pmsp())
    found = instance.arrays["durations"]
    assert found.dtype == matrix.dtype
    np.testing.assert_array_equal(found, matrix)
    if form == "labels":
        assert instance.rows == tuple(f"j{r}" for r in range(rows))
