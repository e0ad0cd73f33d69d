"""The evaluation believes nobody: it checks and scores by itself, and goes on after an interruption."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.cli import run
from icdc.errors import IcdcError, UsageError
from icdc.evaluation.evaluate import OutcomeFile, Summary, evaluate, gap_interval, run_of, summarise
from icdc.evaluation.published import published
from icdc.evaluation.report import (
    as_csv,
    as_json_lines,
    as_markdown,
    as_text,
    default_rows,
    kind_of,
    plot_gap_against_time,
)
from icdc.io.datasets import Dataset, standard_set, write_dataset
from icdc.problems.base import Problem
from icdc.problems.pmsp import Pmsp
from icdc.solvers import SOLVERS, make_solver
from icdc.solving.solver import Request, Result, Solver


@pytest.fixture
def dataset() -> Dataset:
    return standard_set("pmsp-20x3").first(12)


@dataclass
class Scripted(Solver):
    """A solver that returns given choices and claims that they are proven optimal."""

    choice: NDArray[np.int64]
    name = "scripted"
    seconds: float = 0.5
    calls: int = 0
    device: str = "cpu"

    def refusal(self, problem: Problem) -> str | None:
        return None if problem.name == "pmsp" else f"it cannot answer '{problem.name}'"

    def search(self, request: Request) -> None:
        self.calls += 1
        request.offer(self.choice[: request.count])
        request.result.raise_bound(request.result.cost)

    def solve(self, *instances: Any, **options: Any) -> Result:
        result = super().solve(*instances, **options)
        result.seconds = self.seconds
        return result


def test_optimal_solutions_have_no_gap(dataset: Dataset) -> None:
    assert dataset.choice is not None
    row = summarise(evaluate(dataset, Scripted(dataset.choice), "scripted"))
    assert (row.gap, row.gap_low, row.gap_high, row.symmetric_gap) == (0.0, 0.0, 0.0, 0.0)
    assert (row.optimal, row.feasible, row.below, row.instances) == (100.0, 100.0, 0, 12)
    assert row.seconds == pytest.approx(0.5)
    assert row.seconds_per_instance == pytest.approx(0.5 / 12)


def test_a_solver_s_own_cost_is_not_believed(dataset: Dataset) -> None:
    everything_on_one_machine = np.zeros((12, 20), dtype=np.int64)
    row = summarise(evaluate(dataset, Scripted(everything_on_one_machine), "scripted"))
    a = float(dataset.arrays["durations"][:, :, 0].sum(1).mean())
    assert dataset.reference is not None
    b = float(dataset.reference.mean())
    assert row.cost == pytest.approx(a)
    assert row.gap == pytest.approx(100 * (a - b) / b)
    assert row.symmetric_gap == pytest.approx(200 * (a - b) / (a + b))
    assert row.optimal == 0.0


def test_answers_that_are_not_feasible_are_counted_and_left_out(dataset: Dataset) -> None:
    assert dataset.choice is not None
    choice = dataset.choice.copy()
    choice[3, 5], choice[7, 0] = 3, -1
    outcomes = evaluate(dataset, Scripted(choice), "scripted")
    assert [o.instance for o in outcomes if not o.feasible] == [3, 7]
    assert outcomes[3].cost is None
    row = summarise(outcomes)
    assert row.feasible == pytest.approx(100 * 10 / 12)
    assert row.optimal == pytest.approx(100 * 10 / 12)
    assert row.gap == 0.0
    nothing = summarise(evaluate(dataset, Scripted(choice * 0 - 1), "scripted"))
    assert (nothing.cost, nothing.gap, nothing.feasible) == (None, None, 0.0)


def test_a_cost_below_a_proven_optimum_is_reported(dataset: Dataset) -> None:
    assert dataset.choice is not None
    assert dataset.reference is not None
    raised = replace(dataset, reference=dataset.reference + (np.arange(12) == 4))
    assert summarise(evaluate(raised, Scripted(dataset.choice), "scripted")).below == 1


def test_without_references_there_is_a_gap_to_the_bound(dataset: Dataset) -> None:
    assert dataset.choice is not None
    bare = replace(dataset, reference=None, proven=None)
    row = summarise(evaluate(bare, Scripted(dataset.choice), "scripted"))
    assert row.cost is not None
    assert (row.gap, row.optimal, row.symmetric_gap) == (None, None, None)
    lower = dataset.problem.lower_bound(dataset.arrays)
    assert lower is not None
    assert row.gap_at_most == pytest.approx(100 * (row.cost - lower.mean()) / lower.mean())
    assert f"≤ {row.gap_at_most:.3f}" in as_text([row])


def test_the_interval_covers_the_true_gap_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        reference = rng.uniform(50, 100, 80)
        cost = reference * (1 + rng.exponential(0.05, 80))
        low, high = gap_interval(cost, reference, resamples=400, seed=trial)
        assert low is not None
        assert high is not None
        covered += low <= 5.0 <= high
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_stopped_evaluation_goes_on(dataset: Dataset, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"results.{suffix}"
    solver = make_solver("sjf")
    stopped = KeyboardInterrupt()

    def stop(done: int, count: int) -> None:
        if done == 8:
            raise stopped

    store = OutcomeFile(path)
    with pytest.raises(KeyboardInterrupt):
        evaluate(dataset, solver, "sjf", chunk=4, store=store, on_progress=stop)
    with pytest.raises(UsageError, match="in use"):
        OutcomeFile(path)
    store.close()
    # the machine went down in the middle of a line
    path.write_text(path.read_text()[:-20])
    heard: list[int] = []
    store = OutcomeFile(path)
    outcomes = evaluate(
        dataset, solver, "sjf", chunk=4, store=store, on_progress=lambda done, count: heard.append(done)
    )
    assert heard == [7, 11, 12]
    fresh = evaluate(dataset, solver, "sjf")
    assert [replace(o, seconds=0.0) for o in outcomes] == [replace(o, seconds=0.0) for o in fresh]
    store.close()
    again = OutcomeFile(path)
    assert evaluate(dataset, Scripted(np.zeros((0, 0), dtype=np.int64)), "sjf", store=again) == outcomes


def test_other_runs_on_file_are_not_taken_over(dataset: Dataset, tmp_path: Path) -> None:
    store = OutcomeFile(tmp_path / "results.jsonl")
    solver = Scripted(np.zeros((12, 20), dtype=np.int64))
    for settings in ({"samples": 2}, {"seed": 1}, {"time_limit": 2.0}, {}):
        calls = solver.calls
        evaluate(dataset, solver, "scripted", store=store, **settings)  # type: ignore[arg-type]
        assert solver.calls == calls + 2  # the warm-up and the run
    evaluate(dataset, solver, "scripted", store=store)
    assert solver.calls == 8


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.txt", "", r"jsonl or a \.csv"),
        ("r.jsonl", '{"a": 1}\n', "does not hold results of an evaluation: line 1"),
        ("r.jsonl", '{"a":' * 100_000 + "1" + "}" * 100_000 + "\n", "does not hold results"),
        ("r.jsonl", "9" * 5000 + "\n", "does not hold results"),
        ("r.jsonl", "NaN\n", "does not hold results"),
        ("r.jsonl", "\xff\n", "does not hold results"),
        ("r.csv", "dataset,solver\natsp-20,nn\n", "does not hold results"),
    ],
)
def test_files_that_are_no_results_are_refused(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(IcdcError, match=words):
        OutcomeFile(tmp_path / name)


def test_no_text_in_a_csv_file_is_taken_for_a_formula(dataset: Dataset, tmp_path: Path) -> None:
    named = replace(dataset, name="=1+1")
    assert dataset.choice is not None
    outcomes = evaluate(named, Scripted(dataset.choice), "@x", store=OutcomeFile(tmp_path / "r.csv"))
    assert "'=1+1," in (tmp_path / "r.csv").read_text()
    assert as_csv([summarise(outcomes)]).splitlines()[1].startswith("'=1+1,'@x,")
    again = OutcomeFile(tmp_path / "r.csv").outcomes_of(run_of(named, "@x"))
    assert [again[index] for index in sorted(again)] == outcomes


def test_a_solver_of_another_problem_is_refused(dataset: Dataset) -> None:
    with pytest.raises(UsageError, match="cannot answer"):
        evaluate(dataset, make_solver("nn"), "nn")


def some_rows(dataset: Dataset) -> list[Summary]:
    return [summarise(evaluate(dataset, make_solver(name), name)) for name in ("sjf", "random")]


def test_tables_carry_the_same_figures(dataset: Dataset) -> None:
    rows = some_rows(dataset)
    assert [json.loads(line) for line in as_json_lines(rows).splitlines()] == [row.as_dict() for row in rows]
    head, *lines = as_csv(rows).splitlines()
    assert head.split(",") == list(rows[0].as_dict())
    assert len(lines) == 2
    for text in (as_text(rows, with_published=True), as_markdown(rows, with_published=True)):
        assert f"{rows[0].gap:.3f}" in text
        assert "11.91" in text  # the paper's figure for shortest job first
    assert as_markdown(rows).splitlines()[1].count("---") == 15


def test_published_figures_are_only_for_the_paper_s_settings() -> None:
    assert published("pmsp-20x4", "ga", 1) == 7.21
    assert published("pmsp-20x4", "ga:iterations=5", 1) is None
    assert published("atsp-50", "icdc:steps=20", 128) == 0.113
    assert published("atsp-30", "nn", 1) is None


def test_a_row_says_what_it_was_made_with(dataset: Dataset) -> None:
    row = summarise(evaluate(dataset, make_solver("sjf"), "icdc", samples=32, time_limit=2.0))
    assert row.time_limit == 2.0
    alone = summarise(evaluate(dataset, make_solver("sjf"), "network", samples=32, time_limit=2.0))
    text = as_text([alone], with_published=True)
    assert re.search(r"pmsp-20x3 +network +model +×32 +2 s .* 0\.02\n?", text)
    assert "†" not in text
    for table in (as_text, as_markdown):
        both = table([row], with_published=True)
        assert "model + search" in both
        assert "0.02 †" in both  # the paper's figure, of a network alone
        assert "the paper's figure is a network alone" in both
        assert "network alone" not in table([row])
        alone = table([replace(row, solver="network")], with_published=True)
        assert "0.02" in alone
        assert "†" not in alone
        classical = table([replace(row, solver="sjf", samples=1)], with_published=True)
        assert "11.91" in classical
        assert "†" not in classical


def test_shares_proven_by_the_solver_and_by_the_references(dataset: Dataset) -> None:
    assert dataset.choice is not None
    assert dataset.proven is not None
    some = replace(dataset, proven=np.arange(12) < 3)
    outcomes = evaluate(some, Scripted(dataset.choice), "scripted")
    row = summarise([*outcomes[:6], *(replace(o, proven=False, device="elsewhere") for o in outcomes[6:])])
    assert row.proven == 50.0
    assert row.references_proven == 25.0
    assert row.device == "cpu + elsewhere"
    assert "pmsp-20x3: 25 % of the references are proven optima, the others the best known costs." in as_text([row])
    whole = summarise(evaluate(dataset, Scripted(dataset.choice), "scripted"))
    assert (whole.proven, whole.references_proven) == (100.0, 100.0)
    assert "best known" not in as_text([whole])
    bare = replace(dataset, reference=None, proven=None)
    assert summarise(evaluate(bare, Scripted(dataset.choice), "scripted")).references_proven is None


def test_samples_are_those_of_solving_where_nobody_says(dataset: Dataset) -> None:
    solver = Scripted(np.zeros((12, 20), dtype=np.int64))
    assert evaluate(dataset, solver, "scripted")[0].samples == 1
    solver.default_samples = 5  # type: ignore[misc]
    assert evaluate(dataset, solver, "scripted")[0].samples == 5
    assert evaluate(dataset, solver, "scripted", samples=2)[0].samples == 2


def test_what_a_solver_answers_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SOLVERS, "network", raising=False)
    assert [kind_of(spec) for spec in ("icdc", "icdc:steps=20", "matnet:model=x")] == ["model"] * 3
    assert [kind_of(spec) for spec in ("search:seconds=2", "cpsat:workers=2", "nn")] == [
        "search", "classical", "classical",
    ]  # fmt: skip
    assert kind_of("icdc:steps=20,improve_rounds=2") == "model + search"
    assert kind_of("icdc:improve_rounds=0") == "model"
    assert kind_of("mine:Solver") == "own"
    assert default_rows() == ["icdc", "search"]
    monkeypatch.setitem(SOLVERS, "network", SOLVERS["icdc"])
    assert [kind_of(spec) for spec in ("network", "icdc")] == ["model", "model + search"]
    assert kind_of("network:improve_rounds=1") == "model + search"
    assert default_rows() == ["network", "search", "icdc"]


def test_without_a_solver_the_rows_are_compared_at_equal_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icdc.evaluation.report.default_rows", lambda: ["random", "search"])
    assert run(["evaluate", "pmsp-20x3", "--limit", "2", "--time-limit", "0.05", "--json"]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [(row["solver"], row["time_limit"]) for row in rows] == [("random", 0.05), ("search", 0.05)]
    assert "comparing random, search with 0.05 s an instance each" in printed.err
    assert run(["evaluate", "pmsp-20x3", "--limit", "1", "--json"]) == 0
    assert [json.loads(line)["time_limit"] for line in capsys.readouterr().out.splitlines()] == [1.0, 1.0]


def test_the_picture_has_a_panel_for_each_set(dataset: Dataset) -> None:
    rows = some_rows(dataset)
    other = [replace(row, dataset="other") for row in rows]
    panels = plot_gap_against_time(rows + other)
    assert [panel.get_title() for panel in panels] == ["pmsp-20x3", "other"]
    assert {line.get_label() for line in panels[0].get_lines()} == {"sjf", "random"}


def test_the_command_puts_solvers_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, picture = tmp_path / "results.csv", tmp_path / "gaps.png"
    arguments = ["evaluate", "pmsp-20x3", "atsp-10", "--limit", "6", "--solver", "random", "--solver", "sjf",
                 "--solver", "cpsat", "--samples", "1,4", "--json", "--out", str(out),
                 "--plot", str(picture)]  # fmt: skip
    assert run(arguments) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [(row["dataset"], row["solver"], row["samples"]) for row in rows] == [
        ("pmsp-20x3", "random", 1),
        ("pmsp-20x3", "random", 4),
        ("pmsp-20x3", "sjf", 1),
        ("pmsp-20x3", "cpsat", 1),
        ("atsp-10", "random", 1),
        ("atsp-10", "random", 4),
        ("atsp-10", "cpsat", 1),
    ]
    assert all(row["gap"] == 0.0 and row["optimal"] == 100.0 for row in rows if row["solver"] == "cpsat")
    assert "left out sjf" in printed.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(out.read_text().splitlines()) == 1 + 7 * 6


def test_the_command_reads_a_file_of_one_s_own(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path / "mine.npz", dataset)
    assert run(["evaluate", str(tmp_path / "mine.npz"), "--solver", "sjf", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("mine,sjf,1,0,12,")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere", "--solver", "sjf"], 3, "the standard sets are"),
        (["atsp-10", "--solver", "sjf"], 2, "none of the solvers"),
        (["atsp-10", "--solver", "nn", "--samples", "x"], 2, "--samples"),
        (["atsp-10", "--solver", "nn", "--json", "--csv"], 2, "choose one"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", *arguments]) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""


def test_a_solver_that_refuses_a_second_is_measured_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of warming up; nobody asked for it."""
    problem = Pmsp()
    dataset = Dataset(problem, problem.sample(2, (6, 2), np.random.default_rng(0)), name="x")
    solver = make_solver("sjf")
    plain = type(solver).search

    def impatient(self: Any, request: Any) -> Any:
        if request.time_limit is not None:
            raise UsageError("too short")
        return plain(self, request)

    monkeypatch.setattr(type(solver), "search", impatient)
    assert len(evaluate(dataset, solver, "sjf")) == 2
    with pytest.raises(UsageError, match="too short"):
        evaluate(dataset, solver, "sjf", time_limit=1.0)
