"""`python -m experiments`: tables from tiny models, in parts, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import keep_known, main
from experiments.tables.figures import FIGURES
from experiments.tables.measure import NOT_TRAINED
from experiments.tables.rows import TARGETS, Measured, Row, read_table


@pytest.fixture
def make(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Make targets quickly: one instance, tiny models, and only those classical solvers that take no time."""
    quick = {"pmsp": ("sjf",), "atsp": ("nn", "patching"), "navigation": ("random", "branch")}
    monkeypatch.setattr("experiments.tables.rows.CLASSICAL", quick)

    def call(*arguments: str) -> tuple[int, str, str]:
        out = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs"), "--device", "cpu"]
        code = main([*arguments, *out])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_runs(make: Any, name: str, tmp_path: Path) -> None:
    code, out, err = make(name, "--quick", "--limit", "1")
    assert code == 0
    written = [tmp_path / "out" / f"{name}.csv", *([tmp_path / "out" / f"{name}.png"] if name in FIGURES else [])]
    assert out.split() == list(map(str, written))
    rows = read_table(written[0])
    ran = [m for m in rows if m.summary is not None]
    assert ran
    for m in ran:
        assert m.summary is not None
        assert (m.summary.instances, m.summary.feasible, m.summary.below) == (1, 100.0, 0)
    assert {m.note for m in rows if m.summary is None} == {NOT_TRAINED}
    assert "to train what is missing: icdc train " in err
    assert f"icdc train {next(m.row.model for m in rows if m.note)}" in make("missing")[1].replace(" && ", "\n")


def test_numbers_of_samples_and_parts(make: Any, tmp_path: Path) -> None:
    """What one machine has measured stays when another, which cannot, makes the table again."""
    asked = ("navigation-table", "--limit", "1", "--samples", "3,1")
    make(*asked, "--only", "classical")
    first = read_table(tmp_path / "out" / "navigation-table.csv")
    assert {m.row.samples for m in first if m.row.method == "icdc"} == {1, 3}
    assert {m.row.method for m in first if m.summary is not None} == {"random", "branch"}
    (tmp_path / "out" / "outcomes.jsonl").unlink()
    make(*asked, "--only", "learned")
    second = read_table(tmp_path / "out" / "navigation-table.csv")
    assert {m.row.method for m in second if m.summary is not None} == {"random", "branch", "icdc"}


def test_what_is_measured_now_comes_before_what_was_known(measured: Any) -> None:
    row = Row("atsp-20", "nn")
    now, before = measured(row, 1.0, 0.5, 1.5), measured(row, 2.0, 1.5, 2.5)
    assert keep_known([now], [before]) == [now]
    assert keep_known([Measured(row, note="not run here")], [before]) == [before]
    other = Measured(Row("atsp-20", "nn", options="all_starts=true"), note="not run here")
    assert keep_known([other], [before]) == [other]


def test_unknown_targets_are_refused(make: Any) -> None:
    code, _, err = make("table-7")
    assert code == 2
    assert "sampling-steps" in err
