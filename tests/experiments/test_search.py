"""Making references, the table of the search, and the duel with CP-SAT: on something tiny, and on rows by hand."""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.csvfiles import append_rows, read_rows
from experiments.markdown import between_marks
from experiments.search import references, runs, tables
from experiments.search.references import Attempt, Known, Outcome, efforts, opened
from experiments.search.runs import Run, groups_of_cores, run_all, watched
from icdc.errors import UsageError
from icdc.io import datasets
from icdc.io.datasets import FAMILY_SETS, STANDARD_SETS, SeededSample, StandardSet, fingerprint, write_references
from icdc.problems import get_problem
from icdc.problems.forbidden import why_impossible
from icdc.solving.solver import Request, Solver

TINY = {"tiny-pmsp": ("pmsp", (6, 3), "job-correlated"), "tiny-atsp": ("atsp", (7,), "crane")}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of three instances beside the standard ones."""
    for name, (problem, size, family) in TINY.items():
        sample = SeededSample(size, 3, 1, family)
        spec = StandardSet(problem, size, 3, 1, fingerprint(sample.draw(get_problem(problem))), family)
        for sets in (datasets.STANDARD_SETS, datasets.FAMILY_SETS):
            monkeypatch.setitem(sets, name, spec)


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 1, 4, 8, 9})
    assert groups_of_cores(2, 2) == [[1, 3], [4, 8]]
    for workers, each in ((3, 2), (0, 1), (6, 1)):
        with pytest.raises(UsageError, match="do not fit"):
            groups_of_cores(workers, each)


def attempt(instance: int = 0, solver: str = "search", seconds: float = 1.0) -> Attempt:
    return Attempt("tiny-pmsp", instance, solver, 1, seconds)


@pytest.fixture
def known(tiny: None, tmp_path: Path) -> Known:
    return opened("tiny-pmsp", tmp_path)


def loads(known: Known, choice: np.ndarray[Any, Any]) -> float:
    durations = known.dataset.arrays["durations"][0]
    return float(np.bincount(choice, durations[np.arange(6), choice], minlength=3).max())


def test_only_what_is_better_is_kept(known: Known) -> None:
    poor, good = np.zeros(6, dtype=np.int64), np.array([0, 1, 2, 0, 1, 2])
    assert known.take(attempt(), Outcome(poor, -np.inf, False)) == f"{loads(known, poor):.0f}"
    assert known.take(attempt(solver="lkh", seconds=2), Outcome(good, -np.inf, False)) is not None
    assert known.take(attempt(), Outcome(poor, -np.inf, False)) is None
    assert known.dataset.reference is not None
    assert known.dataset.reference[0] == loads(known, good)
    assert known.dataset.choice is not None
    assert np.array_equal(known.dataset.choice[0], good)
    assert known.how[0] == "best known, lkh, 2 s"
    assert known.take(attempt(), Outcome(good + 3, -np.inf, True)) is None  # no solution, whatever it claims
    assert not known.proven(0)


def test_a_proof_is_a_claim_for_the_best_or_a_bound_that_meets_it(known: Known) -> None:
    poor, good = np.zeros(6, dtype=np.int64), np.array([0, 1, 2, 0, 1, 2])
    known.take(attempt(), Outcome(good, -np.inf, False))
    known.take(attempt(), Outcome(poor, -np.inf, True))  # of a worse one: no proof
    known.take(attempt(), Outcome(poor, loads(known, good) - 1.0, False))
    assert not known.proven(0)
    news = known.take(attempt(solver="mip"), Outcome(poor, loads(known, good) - 0.7, False))
    assert news is not None
    assert news.endswith("proven")
    assert known.proven(0)
    assert known.how[0] == "proven by mip"
    best = int(known.dataset.reference[0])  # type: ignore[index]
    known.dataset.reference[0] = best + 50  # type: ignore[index]
    with pytest.raises(SystemExit, match="below the proven optimum"):
        known.take(attempt(), Outcome(good, -np.inf, False))


def test_a_folder_and_the_package_are_read_the_better_of_the_two(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor, good = np.zeros(6, dtype=np.int64), np.array([0, 1, 2, 0, 1, 2])
    shipped, folder = tmp_path / "package" / "references", tmp_path / "folder"
    for place, choices, solver in ((shipped, (good, poor, poor), "search"), (folder, (poor, good, good), "cpsat")):
        made = opened("tiny-pmsp", tmp_path / "nowhere")
        for instance, choice in enumerate(choices):
            made.take(attempt(instance, solver), Outcome(choice, -np.inf, instance == 2))
        write_references(made.dataset, place, made.how)
    monkeypatch.setattr(datasets.resources, "files", lambda package: tmp_path / "package")
    with pytest.raises(SystemExit, match="below the proven optimum"):  # the package claims a proof of a poor one
        opened("tiny-pmsp", folder)
    (shipped / "tiny-pmsp.npz").unlink()
    alone = opened("tiny-pmsp", folder)
    assert alone.how[2] == "proven by cpsat"
    assert not alone.changed
    made = opened("tiny-pmsp", tmp_path / "nowhere")
    made.take(attempt(0, "search"), Outcome(good, -np.inf, False))
    write_references(made.dataset, shipped, made.how)
    both = opened("tiny-pmsp", folder)
    assert [both.how[instance] for instance in range(3)] == [
        "best known, search, 1 s", "best known, cpsat, 1 s", "proven by cpsat",
    ]  # fmt: skip


def test_short_runs_and_proofs_come_first() -> None:
    names = ["pmsp-uniform-100-100x10", "atsp-500", "atsp-uniform-20"]
    planned = list(efforts(names, 30.0, ["icdc"], 3))
    first = [a for a in planned if a.seed == 1]
    assert {a.seconds for a in first} == {3.0}
    assert [a.solver for a in first] == ["search"] * 40 + ["branch"] * 20 + ["mip"] * 10
    assert {a.name for a in first if a.solver == "branch"} == {"atsp-uniform-20"}
    assert {a.name for a in planned if a.solver == "mip"} == {names[0]}
    assert {a.name for a in planned if a.solver == "cpsat"} == {names[0], names[2]}
    alone = list(efforts(names, 30.0, [], 1, ["lkh:runs=2"]))
    assert {(a.solver, a.name, a.seconds) for a in alone} == {("lkh:runs=2", name, 30.0) for name in names[1:]}
    assert {a.name for a in planned if a.solver.startswith("lkh")} == set(names[1:])
    assert {(a.seed, a.seconds) for a in planned if a.solver == "icdc"} == {(2, 9.0), (3, 30.0)}
    assert {(a.name, a.instance) for a in first} == {(n, i) for n in names for i in range(FAMILY_SETS[n].count)}


def test_the_restricted_program_proves_what_it_can(tiny: None) -> None:
    arrays = STANDARD_SETS["tiny-pmsp"].sample.draw(get_problem("pmsp"))
    one = {"durations": arrays["durations"][:1]}
    found = references.run(attempt(solver="mip", seconds=5.0), "pmsp", one, None)
    searched = references.run(attempt(seconds=0.2), "pmsp", one, np.zeros(6, dtype=np.int64))
    assert found.proven
    assert searched.proven
    durations = one["durations"][0]
    costs = [
        np.bincount(choice, durations[np.arange(6), choice], minlength=3).max()
        for choice in (found.choice, searched.choice)
    ]
    every = np.stack(np.meshgrid(*[range(3)] * 6, indexing="ij"), -1).reshape(-1, 6)
    best = min(np.bincount(choice, durations[np.arange(6), choice], minlength=3).max() for choice in every)
    assert costs == [best, best]


def test_the_command_makes_references_and_goes_on(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--sets", *TINY, "--minutes", "1", "--seconds", "2", "--rounds", "2", "--folder", str(tmp_path)]
    assert references.main(arguments) == 0
    assert "tiny-pmsp: 3 of 3 proven, 0 without" in capsys.readouterr().out
    for name in TINY:
        made = opened(name, tmp_path)
        assert all(made.proven(instance) for instance in range(3))
    assert references.main(["--sets", "nowhere"]) == 2
    assert "unknown set 'nowhere'" in capsys.readouterr().err


class Patient(Solver):
    """The longer it may search, the better its answer."""

    name = "patient"
    limits: list[float | None]

    def refusal(self, problem: Any) -> None:
        return None

    def search(self, request: Request) -> None:
        self.limits.append(request.time_limit)
        time.sleep(0.05)
        request.offer(np.roll(np.arange(20), -len(self.limits))[None])


def test_a_run_of_its_own_for_every_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Patient()
    solver.limits = []
    monkeypatch.setattr(runs, "_ready", lambda spec, name: solver)
    arrays = STANDARD_SETS["atsp-uniform-20"].sample.draw(get_problem("atsp"))
    one = {"distances": arrays["distances"][:1]}
    reached = watched("patient", "atsp-uniform-20", one, (1.0, 5.0), 0)
    assert solver.limits == [1.0, 5.0]
    assert [each.limit for each in reached] == [1.0, 5.0]
    steps = one["distances"][0][np.arange(20), np.roll(np.arange(20), -1)]
    assert reached[0].cost == float(steps.sum())
    assert reached[1].cost == np.inf  # every second city is no tour
    assert all(0.05 <= each.seconds < 1.0 and not each.proven for each in reached)


def rows_of(solver: str, name: str, costs: list[tuple[float, float]]) -> list[dict[str, Any]]:
    return [
        {"solver": solver, "set": name, "instance": instance, "seed": 0, "limit": limit, "cost": cost,
         "proven": limit == 10.0, "seconds": limit}
        for instance, pair in enumerate(costs)
        for limit, cost in zip((1.0, 10.0), pair, strict=True)
    ]  # fmt: skip


def asked(*words: str) -> argparse.Namespace:
    """Return options with the words after the name of a table."""
    return argparse.Namespace(only=list(words), instances=2, seed=5, solver=["search", "icdc"])


def test_the_table_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "shipped_references", lambda name: {"reference": np.array([100.0, 100.0, np.nan])})
    path = tmp_path / "table.csv"
    append_rows(path, runs.COLUMNS, rows_of("search", "atsp-200", [(102.0, 101.0), (104.0, 99.0)]))
    append_rows(path, runs.COLUMNS, rows_of("icdc", "atsp-200", [(100.0, 100.0), (110.0, 99.0)]))
    rows = read_rows(path)
    assert tables.best_known(rows) == {("atsp-200", 0): 100.0, ("atsp-200", 1): 99.0}
    head, _, mine, ours = tables.search_table(rows).splitlines()
    assert "1 s, % over best known" in head
    gaps = 2.0, 100 * (104 / 99 - 1)
    mean, half = tables.mean_and_interval(gaps)
    assert mean == pytest.approx(sum(gaps) / 2)
    assert half == pytest.approx(12.706 * abs(gaps[1] - gaps[0]) / 2, rel=1e-3)
    assert f"| tmat 200 | search | {mean:.2f} ± {half:.1f} | 0.500 ± 6.35 | 2 of 2 | 10.0 | 2 |" == mine
    assert ours.startswith("| tmat 200 | icdc |")
    assert tables.search_table([]) == tables.EMPTY
    assert tables.mean_and_interval([1.0]) == (1.0, np.inf)


def test_the_cells_of_the_table() -> None:
    assert len(tables.CELLS) == 20
    assert all(name in STANDARD_SETS for sets in tables.CELLS.values() for name in sets)
    planned = tables.search_runs(asked("tmat 100", "crane"))
    planned = [run for run in planned if run.set != "atsp-1000"]
    assert planned[0] == Run("search", "atsp-100", 0, 5, (1.0, 10.0))
    assert [(run.set, run.instance) for run in planned[::2]] == [
        ("atsp-100", 0), ("atsp-crane-300", 0), ("atsp-crane-450", 0),
        ("atsp-100", 1), ("atsp-crane-300", 1), ("atsp-crane-450", 1),
    ]  # fmt: skip


def test_a_page_gets_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    names = [name for name, _ in tables.TABLES.values()]
    page.write_text("".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->\n" for name in names))
    for table in tables.TABLES:
        words = [table, "--minutes", "0", "--out", str(tmp_path / "none.csv"), "--page", str(page)]
        assert tables.main(words) == 0
    assert page.read_text().count(tables.EMPTY) == 3
    assert tables.main(["search", "--only", "nowhere"]) == 2
    assert "no cell is called so" in capsys.readouterr().err
    assert tables.main(["masked", "--only", "7x7", "--out", str(tmp_path / "none.csv")]) == 2
    assert "no such size" in capsys.readouterr().err


def test_the_page_is_up_to_date() -> None:
    """To write it again: `--minutes 0 --page docs/families.md` for each of the tables."""
    page = (tables.ROOT / "docs" / "families.md").read_text()
    for name, as_text in tables.TABLES.values():
        rows = read_rows(tables.ROOT / "docs" / "results" / f"{name}.csv")
        assert between_marks(page, name, as_text([row for row in rows if row.get("seed", "0") == "0"])) == page
    for problem in ("pmsp", "atsp"):
        for name, family in get_problem(problem).families.items():
            assert f"| `{name}` | {family.summary} |" in page
    for name, spec in FAMILY_SETS.items():
        assert f"`{spec.family}`" in page or f"`{name}`" in page
        assert "x".join(map(str, spec.size)) in page


def test_what_is_on_file_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoWorkers:
        def __init__(self, *arguments: int) -> None:
            pass

        def __enter__(self) -> "NoWorkers":
            return self

        def __exit__(self, *error: Any) -> None:
            pass

        def submit(self, *arguments: Any) -> None:
            raise AssertionError

    monkeypatch.setattr(runs, "PinnedWorkers", NoWorkers)
    path = tmp_path / "table.csv"
    append_rows(path, runs.COLUMNS, rows_of("search", "atsp-200", [(102.0, 101.0)]))
    done = Run("search", "atsp-200", 0, 0, (1.0, 10.0))
    assert run_all([done], path, 1, 1.0) == 0
    # a run that does not fit into the time is left for the next call
    assert run_all([done, done._replace(instance=1)], path, 1, 0.1) == 1
    with pytest.raises(AssertionError):
        run_all([done._replace(seed=1)], path, 1, 1.0)


def test_runs_on_pairs_of_cores(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    path = tmp_path / "runs.csv"
    assert run_all([Run("nn", "atsp-uniform-20", 2, 0, (0.2,))], path, 1, 1.0) == 0
    (row,) = read_rows(path)
    assert (row["solver"], row["set"], row["instance"], row["limit"]) == ("nn", "atsp-uniform-20", "2", "0.2")


def test_wins_ties_and_losses() -> None:
    rows = [
        {"solver": solver, "set": tables.SETS[0], "instance": str(instance), "seed": "0", "limit": limit,
         "cost": str(cost), "proven": "False", "seconds": limit}
        for solver, limit, costs in (
            (tables.RIVAL, "300.0", (100, 100, 100, 100)), (tables.RIVAL, "5.0", (200,)),
            ("icdc", "10.0", (99, 100, 101, 98, 50)),
        )
        for instance, cost in enumerate(costs)
    ]  # fmt: skip
    _, _, long, short = tables.rivals_table(rows).splitlines()
    assert long == f"| {tables.SETS[0]} | icdc, 10 s | 300 s | 2 | 1 | 1 | -0.50 % |"
    assert short == f"| {tables.SETS[0]} | icdc, 10 s | 5 s | 1 | 0 | 0 | -50.50 % |"
    planned = tables.rival_runs(asked())
    assert len(planned) == 2 * 3 * 3
    assert planned[0] == Run(tables.RIVAL, tables.SETS[0], 0, 5, (300.0,))
    assert planned[1] == Run("search", tables.SETS[0], 0, 5, (10.0,))


def test_masked_instances_beside_plain_ones(tmp_path: Path) -> None:
    """The same numbers with and without forbidden pairs, and a line each."""
    plain, some = (tables.instance_of(tables.Case("pmsp", (6, 3), share, 1)) for share in (0.0, 0.3))
    assert plain.forbidden is None
    assert some.forbidden is not None
    assert some.forbidden.any()
    assert not some.forbidden.all(1).any()
    kept = ~some.forbidden
    assert np.array_equal(plain.arrays["durations"][kept], some.arrays["durations"][kept])
    tour = tables.instance_of(tables.Case("atsp", (8,), 0.6, 2))
    assert why_impossible(tour) is None
    row = tables.measured("search", tables.Case("atsp", (8,), 0.3, 0), 0.5)
    assert row["proven"]
    assert row["cost"] == row["reference"]
    rows = [
        {name: str(value) for name, value in {**row, "forbidden": share, "cost": cost, "reference": 100.0}.items()}
        for share, cost in ((0.0, 101.0), (0.0, 101.0), (0.3, 102.0), (0.3, 101.5))
    ]
    (line,) = tables.masked_table(rows).splitlines()[2:]
    assert line.startswith("| atsp 8 | 30 % | 1.00 ± 0.000 | 2 of 2 | 1.75 ±")
    # what is on file is not measured again
    path = tmp_path / "masked.csv"
    done = {**row, "problem": "pmsp", "size": "20x4"}
    append_rows(path, tables.MASKED, [{**done, "seconds": 1.0, "forbidden": share} for share in (0.0, 0.3)])
    options = ["masked", "--only", "20x4", "--instances", "1", "--solver", "search", "--out", str(path)]
    before = path.read_text()
    assert tables.main(options) == 0
    assert path.read_text() == before
