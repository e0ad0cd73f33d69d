"""Datasets on disk: whole or not there, checked on the way in, and referenced with interruptions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.cli import run
from icdc.errors import InputError, UsageError
from icdc.evaluation import references as referencing
from icdc.evaluation.references import write_referenced
from icdc.io.dataset import Dataset, SeededSample, fingerprint, read_dataset, write_arrays, write_dataset
from icdc.io.instances import read_instances
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, Problem
from icdc.problems.forbidden import permitted_in
from icdc.problems.pmsp import Pmsp
from icdc.problems.registry import get_problem
from icdc.solving.registry import make_solver
from icdc.solving.solver import Results


def sampled(name: str, size: tuple[int, ...], count: int = 5) -> Dataset:
    problem = get_problem(name)
    return Dataset(problem, problem.sample(count, size, np.random.default_rng(0)))


@pytest.mark.parametrize(("name", "size"), [("pmsp", (6, 3)), ("atsp", (6,)), ("navigation", (6,))])
def test_what_is_written_is_read(name: str, size: tuple[int, ...], tmp_path: Path) -> None:
    dataset = sampled(name, size)
    reference, proven = np.arange(5.0), np.arange(5) % 2 == 0
    write_dataset(tmp_path / "set.npz", Dataset(dataset.problem, dataset.arrays, reference, proven))
    read = read_dataset(tmp_path / "set.npz")
    assert read.problem.name == name
    assert read.name == "set"
    assert len(read) == 5
    assert fingerprint(read.arrays) == fingerprint(dataset.arrays)
    assert read.reference is not None
    assert read.proven is not None
    assert np.array_equal(read.reference, reference)
    assert np.array_equal(read.proven, proven)
    assert len(read.first(2)) == 2
    assert read.first(2).reference is not None


def test_writing_leaves_the_old_file_if_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    write_dataset(path, sampled("pmsp", (4, 2)))
    before = path.read_bytes()

    class Unwritable:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_arrays(path, {"durations": Unwritable()})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"durations": np.ones((2, 3, 2))}, "no entry 'problem'"),
        ({"problem": np.array("pmsp")}, "lacks the array 'durations'"),
        ({"problem": np.array("pmsp"), "durations": -np.ones((2, 3, 2))}, "negative value"),
        (
            {"problem": np.array("pmsp"), "durations": np.ones((2, 3, 2)), "reference": np.ones(3)},
            "'reference' has shape",
        ),
    ],
)
def test_a_broken_file_is_refused_by_name(entries: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_arrays(tmp_path / "bad.npz", entries)
    with pytest.raises(InputError, match=message) as error:
        read_dataset(tmp_path / "bad.npz")
    assert "bad.npz" in str(error.value)


class Mine(Pmsp):
    """A problem of one's own."""


def test_a_dataset_of_ones_own_problem_needs_the_problem(tmp_path: Path) -> None:
    """A file does not decide which code is imported."""
    write_dataset(tmp_path / "set.npz", Dataset(Mine(), sampled("pmsp", (4, 2)).arrays))
    with pytest.raises(InputError, match=r"set.npz' is for the problem .*:Mine', which does not ship"):
        read_dataset(tmp_path / "set.npz")
    with pytest.raises(UsageError, match="not for 'atsp'"):
        read_dataset(tmp_path / "set.npz", get_problem("atsp"))
    assert type(read_dataset(tmp_path / "set.npz", Mine()).problem) is Mine


def test_no_file_and_no_dataset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_dataset(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(InputError, match="not a dataset"):
        read_dataset(tmp_path / "text.npz")


def test_the_fingerprint_sees_values_types_shapes_and_names() -> None:
    array = np.arange(6)
    prints = {
        fingerprint({"a": array}),
        fingerprint({"b": array}),
        fingerprint({"a": array.astype(np.int32)}),
        fingerprint({"a": array.reshape(2, 3)}),
        fingerprint({"a": array + 1}),
    }
    assert len(prints) == 5
    assert fingerprint({"a": array.astype(">i8")}) == fingerprint({"a": array.astype("<i8")})


class Interrupted:
    """A solver that is stopped after some blocks, as by Ctrl-C, and counts the instances it was given."""

    name = "interrupted"

    def __init__(self, blocks: int) -> None:
        self.inner, self.blocks, self.seen = make_solver("cpsat"), blocks, 0

    def supports(self, problem: Problem) -> bool:
        return True

    def solve(self, problem: Problem, arrays: Arrays, **options: Any) -> Results:
        if self.blocks == 0:
            raise KeyboardInterrupt
        self.blocks -= 1
        self.seen += len(arrays[problem.arrays[0]])
        return self.inner.solve(problem, arrays, **options)


def test_references_go_on_where_they_were_interrupted(tmp_path: Path) -> None:
    dataset, path = sampled("pmsp", (6, 2), count=10), tmp_path / "set.npz"
    with pytest.raises(KeyboardInterrupt):
        write_referenced(path, dataset, Interrupted(2), "cpsat", block=3)
    assert not path.exists()
    rest, heard = Interrupted(9), []
    finished = write_referenced(
        path, dataset, rest, "cpsat", block=3, on_progress=lambda done, count: heard.append((done, count))
    )
    assert rest.seen == 4
    assert heard[0] == (6, 10)
    assert heard[-1] == (10, 10)
    assert finished.reference is not None
    assert np.array_equal(finished.reference, make_solver("cpsat").solve(dataset.problem, dataset.arrays).cost)
    assert [file.name for file in tmp_path.iterdir()] == ["set.npz"]


def test_references_of_other_settings_are_not_taken_over(tmp_path: Path) -> None:
    dataset, path = sampled("pmsp", (6, 2), count=6), tmp_path / "set.npz"
    with pytest.raises(KeyboardInterrupt):
        write_referenced(path, dataset, Interrupted(1), "sjf", block=3)
    again = Interrupted(9)
    write_referenced(path, dataset, again, "cpsat", block=3)
    assert again.seen == 6


class Counting(Interrupted):
    """A solver that remembers how many instances each call had."""

    def __init__(self) -> None:
        super().__init__(99)
        self.calls: list[int] = []

    def solve(self, problem: Problem, arrays: Arrays, **options: Any) -> Results:
        self.calls.append(len(arrays[problem.arrays[0]]))
        return make_solver("sjf").solve(problem, arrays, **options)


def test_blocks_of_a_quick_solver_grow(tmp_path: Path) -> None:
    solver, dataset = Counting(), sampled("pmsp", (6, 2), count=200)
    finished = write_referenced(tmp_path / "set.npz", dataset, solver, "sjf")
    assert solver.calls[0] == 32
    assert len(solver.calls) < 200 // 32
    assert sum(solver.calls) == 200
    assert finished.reference is not None
    assert np.array_equal(finished.reference, make_solver("sjf").solve(dataset.problem, dataset.arrays).cost)


def test_long_runs_are_saved_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed outright leaves what it had at the last saving."""
    monkeypatch.setattr(referencing, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(referencing, "SAVE_SHARE", 1e9)
    path, seen = tmp_path / "set.npz", []
    write_referenced(
        path,
        sampled("pmsp", (6, 2), count=9),
        make_solver("sjf"),
        "sjf",
        block=3,
        on_progress=lambda done, count: seen.append((tmp_path / "set.npz.partial").exists()),
    )
    assert seen == [False, True, True, True]
    assert [file.name for file in tmp_path.iterdir()] == ["set.npz"]


def test_generate_writes_proven_references(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "set.npz"
    arguments = ["generate", "pmsp", "--size", "8x3", "--count", "4", "--seed", "9", "--out", str(path)]
    assert run([*arguments, "--reference", "cpsat"]) == 0
    assert "4 references proven optimal" in capsys.readouterr().err
    written = read_dataset(path)
    assert written.proven is not None
    assert written.proven.all()
    assert run(arguments) == 0
    assert read_dataset(path).reference is None
    assert fingerprint(read_dataset(path).arrays) == fingerprint(written.arrays)


def test_generate_writes_a_standard_set_with_what_ships(tmp_path: Path) -> None:
    assert run(["generate", "atsp-10", "--out", str(tmp_path / "set.npz")]) == 0
    written = read_dataset(tmp_path / "set.npz")
    assert len(written) == 200
    assert written.proven is not None
    assert written.proven.all()


@pytest.mark.parametrize("size", [[], ["--size", "20"], ["--size", "axb"], ["--size", "0x3"]])
def test_generate_says_what_size_it_needs(size: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "pmsp", *size, "--out", str(tmp_path / "set.npz")]) == 2
    assert "jobs x machines" in capsys.readouterr().err


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("problem", "size"), [(Pmsp(), (6, 3)), (Atsp(), (6,))])
def test_forbidden_pairs_go_through_a_file(tmp_path: Path, problem: Problem, size: tuple[int, ...], kept: bool) -> None:
    """Those of a family, with the instances in the file or drawn again; and both readers see them."""
    sample = SeededSample(size, 4, 7, "forbidden")
    arrays = sample.draw(problem)
    forbidden = sample.forbidden(problem, arrays)
    assert forbidden is not None
    (name,) = problem.arrays
    assert np.array_equal(forbidden, arrays[name] >= 10**6)
    path = tmp_path / "masked.npz"
    write_dataset(path, Dataset(problem, arrays, forbidden=forbidden), drawn_from=None if kept else sample)
    found = read_dataset(path)
    assert found.forbidden is not None
    assert np.array_equal(found.forbidden, forbidden)
    assert np.array_equal(found.arrays[name][~forbidden], arrays[name][~forbidden])
    assert np.array_equal(permitted_in(found.arrays[name], tour=problem.structure == "tour"), ~forbidden)
    assert found.first(2).forbidden is not None
    assert len(found.first(2).forbidden) == 2  # type: ignore[arg-type]
    for instance, mask, matrix in zip(read_instances(path), forbidden, found.arrays[name], strict=True):
        assert instance.forbidden is not None
        assert np.array_equal(instance.forbidden, mask)
        assert np.array_equal(instance.arrays[name], matrix)
    assert SeededSample(size, 4, 7).forbidden(problem, arrays) is None


def test_infinite_entries_of_a_dataset_are_forbidden(tmp_path: Path) -> None:
    durations = np.array([[[1.0, np.inf], [2.0, 3.0]], [[1.0, 4.0], [2.0, 3.0]]])
    path = tmp_path / "inf.npz"
    write_arrays(path, {"problem": np.array("pmsp"), "durations": durations})
    found = read_dataset(path)
    assert found.forbidden is not None
    assert np.array_equal(found.forbidden, np.isinf(durations))
    assert np.isfinite(found.arrays["durations"]).all()
    assert np.array_equal(found.arrays["durations"][1], durations[1])
    distances = np.array([[[np.inf, 1.0], [2.0, np.inf]]])
    write_arrays(path, {"problem": np.array("atsp"), "distances": distances})
    assert read_dataset(path).forbidden is None  # nobody stays in place
    wrong = {"problem": np.array("pmsp"), "durations": durations, "forbidden": np.zeros((2, 2), dtype=bool)}
    write_arrays(path, wrong)
    with pytest.raises(InputError, match="'forbidden' must be true or false for every entry of 'durations'"):
        read_dataset(path)


def test_a_table_is_no_dataset(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("job,saw\na,1\n")
    with pytest.raises(InputError) as caught:
        read_dataset(path)
    assert str(caught.value) == f"'{path}' is not a dataset: those are .npz files, as icdc generate writes them"
