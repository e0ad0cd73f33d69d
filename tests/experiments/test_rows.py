"""Tables: their CSV files keep everything, they have the rows of their target, and commands that train are commands."""

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments.tables.measure import NOT_TRAINED
from experiments.tables.rows import (
    CHANGES,
    CLASSICAL,
    METHODS,
    PRESETS,
    TARGETS,
    Measured,
    Row,
    Scope,
    options_as_text,
    options_of,
    read_table,
    training_commands,
    write_table,
)
from icdc.errors import InputError
from icdc.solvers import make_solver
from icdc.training import load_config, parse_override, presets


def test_what_is_written_is_read(measured: Any, tmp_path: Path) -> None:
    ours = Row("atsp-20", "icdc", 8, "atsp", "last", 'a, "b"', "steps=20,keep=last", 0.909)
    missing = Row("atsp-50", "paper-sl", 128, "paper-sl-atsp-50", "last", train="make it && train it")
    rows = [
        measured(ours, 0.1 / 3, 0.01, 0.2),
        measured(Row("navigation-20", "random", paper_cost=3.5), 127.0, 126.0, 128.0),
        Measured(missing, note=NOT_TRAINED),
    ]
    path = tmp_path / "table.csv"
    path.write_text(write_table(rows))
    assert read_table(path) == rows


@pytest.mark.parametrize("change", [("dataset,", "data,"), (",last,", ",first,"), (",8,", ",eight,")])
def test_other_files_are_refused(measured: Any, tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "table.csv"
    path.write_text(write_table([measured(Row("atsp-20", "icdc", 8, "atsp", "last"), 1.0, 0.5, 1.5)]).replace(*change))
    with pytest.raises(InputError, match="not a table of experiments"):
        read_table(path)


def test_options() -> None:
    assert options_of("steps=20,keep=last") == {"steps": "20", "keep": "last"}
    assert options_of("") == {}
    assert options_as_text({"steps": 20, "temperature": 1.0}) == "steps=20,temperature=1.0"


RESULTS = Path(__file__).parents[2] / "docs" / "results"
COUNTS = {"sampling-steps": (1, 8), "ablations": (1, 8)}


@pytest.mark.parametrize("name", TARGETS)
def test_files_have_the_rows_of_their_target(name: str) -> None:
    """Also the published figures, and the commands of what was not measured; nothing is below a proven optimum."""
    table = read_table(RESULTS / f"{name}.csv")
    wanted = TARGETS[name](Scope(COUNTS.get(name, (1, 8, 32, 128))))
    keys = [vars(m.row) | {"train": ""} for m in table]
    assert keys == [vars(row) | {"train": ""} for row in wanted]
    for m, row in zip(table, wanted, strict=True):
        assert (m.summary is None) == bool(m.note)
        assert m.row.train in (row.train, "")
        assert m.summary is None or (m.summary.below == 0 and m.summary.feasible == 100.0)
        assert bool(m.digest) == bool(m.row.model and m.summary is not None)


@pytest.mark.parametrize("name", TARGETS)
def test_rows_are_different_and_their_options_exist(name: str) -> None:
    rows = TARGETS[name](Scope((1, 2), quick=True))
    twice = Counter((r.dataset, r.method, r.model, r.answer, r.samples, r.change, r.options) for r in rows)
    assert max(twice.values()) == 1
    for options in {row.options for row in rows if METHODS[row.method].solver == "network"}:
        make_solver(f"icdc:{options}")


def test_last_samples_are_drawn_by_the_plain_reverse_process() -> None:
    """One meaning everywhere, whatever a model's card advises."""
    plain = {"reverse": "independent", "temperature": "1.0", "decodes": "1", "keep": "last", "order": "rule"}
    for name, rows in TARGETS.items():
        for row in rows(Scope()):
            if row.answer == "last":
                assert plain.items() <= options_of(row.options).items(), name


def test_changes_are_changes() -> None:
    assert len(set(CHANGES.values())) == len(CHANGES)
    assert set(CLASSICAL["pmsp"]) | set(CLASSICAL["atsp"]) | set(CLASSICAL["navigation"]) <= set(METHODS)


@pytest.mark.parametrize("method", ["sl", "rl", "slrl", "paper-sl", "paper-rl", "paper-slrl"])
@pytest.mark.parametrize("size", ["atsp-20", "atsp-50", "pmsp-20x4", "pmsp-50x3"])
def test_training_commands_are_commands(method: str, size: str) -> None:
    """Presets exist, and settings are accepted."""
    commands = [shlex.split(command) for command in training_commands(method, size)]
    trained = [words for words in commands if words[1] == "train"]
    assert commands[-1] == trained[-1]
    for words in trained:
        settings = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
        config = load_config(words[2], dict(map(parse_override, settings)))
        assert "x".join(map(str, config.sizes[0])) == size.split("-")[1]
    assert len(trained) == (2 if "slrl" in method else 1)
    assert ("generate" in commands[0]) is ("sl" in method)


def test_every_other_model_has_a_preset() -> None:
    for rows in TARGETS.values():
        for row in rows(Scope()):
            if row.method in ("icdc", "matnet", "paper-icdc"):
                preset = PRESETS.get(row.model, row.model)
                assert row.train == f"icdc train {preset}"
                assert preset in presets()
