"""Datasets on disk and the standard sets: whole or not there, checked on the way in, every reference attained."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.cli import run
from icdc.errors import InputError, UsageError
from icdc.evaluation import references as referencing
from icdc.evaluation.references import write_referenced
from icdc.io import datasets
from icdc.io.datasets import (
    FAMILY_SETS,
    PAPER_SETS,
    STANDARD_SETS,
    Dataset,
    Provenance,
    SeededSample,
    fingerprint,
    open_dataset,
    provenance,
    read_dataset,
    shipped_references,
    standard_set,
    write_arrays,
    write_dataset,
    write_references,
)
from icdc.io.read import read_instances
from icdc.problems import get_problem
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, Problem
from icdc.problems.forbidden import permitted_in
from icdc.problems.pmsp import Pmsp
from icdc.solvers import SOLVERS, make_solver
from icdc.solving.answer import judge
from icdc.solving.solver import Result
from icdc.training.sources import read_examples


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

    def solve(self, problem: Problem, arrays: Arrays, **options: Any) -> Result:
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

    def solve(self, problem: Problem, arrays: Arrays, **options: Any) -> Result:
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


@pytest.mark.parametrize(
    ("name", "size", "family"),
    [
        ("pmsp", (6, 3), None),
        ("atsp", (6,), None),
        ("navigation", (6,), None),
        ("pmsp", (6, 3), "speeds"),
        ("atsp", (6,), "roads"),
    ],
)
def test_a_file_without_instances_reads_as_one_with_them(
    name: str, size: tuple[int, ...], family: str | None, tmp_path: Path
) -> None:
    problem, sample = get_problem(name), SeededSample(size, 200, 7, family)
    dataset = Dataset(problem, sample.draw(problem), np.arange(200) / 4, np.ones(200, dtype=bool))
    write_dataset(tmp_path / "whole.npz", dataset)
    write_dataset(tmp_path / "drawn.npz", dataset, drawn_from=sample)
    whole, drawn = read_dataset(tmp_path / "whole.npz"), read_dataset(tmp_path / "drawn.npz")
    assert fingerprint(whole.arrays) == fingerprint(drawn.arrays) == fingerprint(dataset.arrays)
    for read in (whole, drawn):
        assert read.reference is not None
        assert np.array_equal(read.reference, np.arange(200) / 4)
    assert (tmp_path / "drawn.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size / 2
    instances = read_instances(tmp_path / "drawn.npz")
    assert len(instances) == 200
    for key, array in dataset.arrays.items():
        assert np.array_equal(instances[150].arrays[key], array[150])


@pytest.mark.parametrize(("name", "size", "solver"), [("atsp", "7", "branch"), ("pmsp", "7x3", "dp")])
def test_generated_solutions_are_examples_to_learn_from(name: str, size: str, solver: str, tmp_path: Path) -> None:
    arguments = ["generate", name, "--size", size, "--count", "70", "--seed", "3", "--reference", solver]
    assert run([*arguments, "--out", str(tmp_path / "whole.npz")]) == 0
    assert run([*arguments, "--without-instances", "--out", str(tmp_path / "drawn.npz")]) == 0
    dimensions = tuple(map(int, size.split("x")))
    whole, drawn = (
        read_examples(str(tmp_path / file), get_problem(name), dimensions, torch.device("cpu"))
        for file in ("whole.npz", "drawn.npz")
    )
    assert len(drawn.solutions) == 70
    assert torch.equal(whole.solutions, drawn.solutions)
    assert all(torch.equal(whole.instances[key], tensor) for key, tensor in drawn.instances.items())
    with np.load(tmp_path / "drawn.npz") as file:
        assert file["choice"].dtype == np.uint8
        assert file["proven"].all()


def test_a_standard_set_needs_no_instances_either(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    assert run(["generate", "atsp-10", "--without-instances", "--out", str(path)]) == 0
    with np.load(path) as file:
        assert json.loads(str(file["drawn"]))["sha256"] == STANDARD_SETS["atsp-10"].sha256
    read, standard = read_dataset(path), standard_set("atsp-10")
    assert standard.reference is not None
    assert read.reference is not None
    assert np.array_equal(read.reference, standard.reference)


class OwnTour(Atsp):
    """A problem of one's own."""


def test_ones_own_problem_must_be_given(tmp_path: Path) -> None:
    path, sample = tmp_path / "set.npz", SeededSample((5,), 3, 0)
    write_dataset(path, Dataset(OwnTour(), sample.draw(OwnTour())), drawn_from=sample)
    assert len(read_dataset(path, OwnTour())) == 3
    with pytest.raises(InputError, match="does not ship"):
        read_dataset(path)
    with pytest.raises(InputError, match="does not ship"):
        read_instances(path)
    assert len(read_instances(path, OwnTour())) == 3
    with pytest.raises(UsageError, match="not for 'pmsp'"):
        read_dataset(path, get_problem("pmsp"))


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ("hello", "does not say from what"),
        ({"size": [5], "count": 3}, "does not say from what"),
        ({"size": [5, 2], "count": 3, "seed": 0}, "can be drawn"),
        ({"size": [], "count": 3, "seed": 0}, "can be drawn"),
        ({"size": [5], "count": 0, "seed": 0}, "can be drawn"),
        ({"size": [5], "count": 3, "seed": -1}, "can be drawn"),
        ({"size": [5], "count": 10**17, "seed": 0}, "do not fit into memory"),
        ({"size": [5], "count": 4, "seed": 0}, "SHA-256"),
        ({"size": [5], "count": 3, "seed": 0, "family": "uniform"}, "SHA-256"),
        ({"size": [5], "count": 3, "seed": 0, "family": "speeds"}, "no family 'speeds'"),
        ({"size": [5], "count": 10**17, "seed": 0, "family": "uniform"}, "do not fit into memory"),
        ({"size": [10**7], "count": 1, "seed": 0, "family": "uniform"}, "do not fit into memory"),
        ({"size": [5], "count": 3, "seed": 1}, "SHA-256"),
    ],
)
def test_what_cannot_be_drawn_again_is_refused_by_name(drawn: Any, message: str, tmp_path: Path) -> None:
    sha256 = fingerprint(SeededSample((5,), 3, 0).draw(get_problem("atsp")))
    text = drawn if isinstance(drawn, str) else json.dumps({"sha256": sha256, **drawn})
    if drawn == {"size": [5], "count": 3}:
        text = json.dumps(drawn)
    write_arrays(tmp_path / "bad.npz", {"problem": np.array("atsp"), "drawn": np.array(text)})
    with pytest.raises(InputError, match=message) as error:
        read_dataset(tmp_path / "bad.npz")
    assert "bad.npz" in str(error.value)


MEANS = {"pmsp-20x3": 42.44, "pmsp-20x4": 27.97, "pmsp-20x5": 20.67, "pmsp-50x3": 101.70, "pmsp-50x4": 65.95,
         "pmsp-50x5": 46.88, "pmsp-100x5": 91.71, "atsp-20": 1.540e6, "atsp-50": 1.567e6, "atsp-100": 1.571e6,
         "navigation-20": 1.546}  # fmt: skip
"""Mean optima of other draws of the same sizes; two draws of these lengths agree within about 2 %."""


@pytest.mark.parametrize("name", PAPER_SETS)
def test_a_standard_set_is_whole_and_its_references_are_attained(name: str) -> None:
    dataset = standard_set(name)
    spec = STANDARD_SETS[name]
    assert len(dataset) == spec.count
    assert dataset.problem.size(dataset.arrays) == spec.size
    assert dataset.reference is not None
    assert dataset.proven is not None
    assert dataset.choice is not None
    assert dataset.proven.all()
    feasible, cost = judge(dataset.problem, dataset.arrays, dataset.choice)
    assert feasible.all()
    assert np.allclose(cost, dataset.reference, rtol=1e-12)
    bound = dataset.problem.lower_bound(dataset.arrays)
    assert bound is not None
    assert (bound <= dataset.reference).all()
    if name in MEANS:
        assert dataset.reference.mean() == pytest.approx(MEANS[name], rel=0.02)


def test_the_sets_of_the_paper_are_all_there() -> None:
    pmsp = {f"pmsp-{jobs}x{machines}" for jobs in (20, 50) for machines in (3, 4, 5)}
    atsp = {f"atsp-{cities}" for cities in (10, 15, 20, 25, 30, 35, 40, 45, 50, 100)}
    larger = {"pmsp-100x5", "pmsp-100x10"}
    assert set(PAPER_SETS) == pmsp | larger | atsp | {"navigation-20"}
    counts = {name: spec.count for name, spec in PAPER_SETS.items()}
    assert {counts[name] for name in pmsp | {"atsp-20", "atsp-50", "navigation-20"}} == {1000}
    assert {counts[name] for name in larger | {"atsp-100"}} == {128}
    assert counts["atsp-35"] == 200
    assert len({spec.seed for spec in STANDARD_SETS.values()}) == len(STANDARD_SETS)


def test_the_sets_of_families_are_all_there() -> None:
    sizes = ("100x10", "100x20", "200x20", "200x50", "1000x50")
    pmsp = {f"pmsp-{f}-{s}" for f in ("job-correlated", "machine-correlated", "uniform-100") for s in sizes}
    cities = {
        "uniform": (20, 50, 100), "noisy-plane": (50, 100, 200), "one-way-plane": (50, 100, 200),
        "roads": (50, 100, 170, 200), "crane": (50, 100, 200, 300, 450),
    }  # fmt: skip
    atsp = {f"atsp-{family}-{size}" for family, every in cities.items() for size in every}
    assert set(FAMILY_SETS) == pmsp | {"pmsp-200x10"} | atsp | {"atsp-200", "atsp-500", "atsp-1000"}
    for name, spec in FAMILY_SETS.items():
        assert name == "-".join(filter(None, (spec.problem, spec.family, "x".join(map(str, spec.size)))))
        assert spec.family is None or spec.family in get_problem(spec.problem).families
        assert spec.count == (20 if spec.problem == "atsp" and spec.size[0] <= 50 else 10)


def test_the_largest_set_begins_as_its_references_say() -> None:
    """All of it takes seconds to draw; the first instance is the same without the others."""
    spec, known = FAMILY_SETS["atsp-1000"], shipped_references("atsp-1000")
    problem = get_problem("atsp")
    first = replace(spec, count=1).sample.draw(problem)
    assert fingerprint(first)[:16] == "1a7760eed2a53292"
    if known:
        feasible, cost = judge(problem, first, known["choice"][:1].astype(np.int64))
        assert feasible[0]
        assert cost[0] == known["reference"][0]


@pytest.mark.parametrize("name", [name for name in FAMILY_SETS if name != "atsp-1000"])
def test_a_set_of_a_family_is_whole_and_its_references_are_attained(name: str) -> None:
    """The instances are those of the digest; every reference is the cost of its solution, and says who found it."""
    dataset, spec = standard_set(name), FAMILY_SETS[name]
    assert len(dataset) == spec.count
    assert dataset.problem.size(dataset.arrays) == spec.size
    how = provenance(name)
    assert (dataset.reference is None) == (how is None) == (not shipped_references(name))
    if dataset.reference is None or dataset.proven is None or dataset.choice is None or how is None:
        return
    feasible, cost = judge(dataset.problem, dataset.arrays, dataset.choice)
    assert feasible.all()
    assert np.array_equal(cost, dataset.reference)
    assert ((how.proven_by != "") == dataset.proven).all()
    named = {text.split(":")[0] for text in (*how.found_by, *how.proven_by)}
    assert named <= {*SOLVERS, "mip", ""}
    assert (how.found_by != "").all()
    assert (how.seconds > 0).all()
    if np.prod(dataset.problem.shape(spec.size)) <= 10_000:
        bound = dataset.problem.lower_bound(dataset.arrays)
        assert bound is not None
        assert (bound <= dataset.reference).all()


def test_how_a_reference_is_known() -> None:
    how = Provenance(np.array(["search", "lkh:runs=5"]), np.array([10.0, 2.5]), np.array(["branch", ""]))
    assert how[0] == "proven by branch"
    assert how[1] == "best known, lkh:runs=5, 2.5 s"
    assert provenance("atsp-10") is None


def test_references_carry_their_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = standard_set("atsp-10")
    words = np.array(["search"] * len(dataset))
    path = write_references(dataset, tmp_path / "references", Provenance(words, np.full(len(words), 3.0), words))
    monkeypatch.setattr(datasets.resources, "files", lambda package: tmp_path)
    how = provenance("atsp-10")
    assert how is not None
    assert how[7] == "proven by search"
    assert how.seconds.tolist() == [3.0] * len(dataset)
    again = standard_set("atsp-10")
    assert again.reference is not None
    assert np.array_equal(again.reference, dataset.reference)
    path.unlink()
    assert standard_set("atsp-10").reference is None
    assert provenance("atsp-10") is None


def test_what_ships_is_small() -> None:
    folder = Path(icdc.__file__).parent / "io" / "references"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1_000_000


def test_instances_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = STANDARD_SETS["atsp-10"]
    monkeypatch.setitem(datasets.STANDARD_SETS, "atsp-10", replace(spec, seed=spec.seed + 1))
    with pytest.raises(InputError, match="SHA-256"):
        standard_set("atsp-10")


def test_references_are_written_as_they_ship(tmp_path: Path) -> None:
    dataset = standard_set("atsp-15")
    path = write_references(dataset, tmp_path)
    with (
        np.load(path) as mine,
        np.load(Path(icdc.__file__).parent / "io/references/atsp-15.npz") as shipped,
    ):
        assert all(np.array_equal(mine[name], shipped[name]) for name in shipped.files)
    with pytest.raises(InputError, match="does not hold the standard instances"):
        write_references(replace(dataset, name="atsp-10"), tmp_path)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match="atsp-50"):
        standard_set("atsp-51")
    with pytest.raises(InputError, match=r"no file 'atsp-51', and the standard sets are .*atsp-50"):
        open_dataset("atsp-51")
