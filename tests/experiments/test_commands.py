"""Whole commands: the table of limits in words, and what was measured."""

from pathlib import Path

import numpy as np
import pytest

from experiments.markdown import between_marks
from experiments.speed.commands import COLUMNS, HEADINGS, main, matrix_of, measured, page_of, write_page
from icdc.errors import InputError

ROOT = Path(__file__).parents[2]
ROWS = [
    ["atsp-20", "icdc", "1", "0.0", "0.5", "225", "0.00", "", "2 of 8 cores"],
    ["pmsp-20x4", "icdc", "1", "0.2", "0.4", "274", "–", "", "2 of 8 cores"],
]


def test_a_reader_understands_the_columns() -> None:
    page = page_of(ROWS)
    heading, _, tour, shop, _, below = page.splitlines()
    assert heading.startswith(
        "| instance | limit, s | over the limit, s | start of the command, s | peak memory, MiB |"
    )
    assert not any(name in page for name in COLUMNS if "_" in name)
    assert tour == "| 20 cities | 1 | 0.0 | 0.5 | 225 | 0.00 |"
    assert shop == "| 20 jobs on 4 machines | 1 | 0.2 | 0.4 | 274 | – |"
    assert below == "By the default solver, `icdc`, on 2 of 8 cores."


def test_other_solvers_and_what_they_say_have_columns() -> None:
    refused = ["atsp-20", "lkh", "1", "–", "0.5", "225", "–", "too large", "2 of 8 cores"]
    page = page_of([*ROWS, refused])
    assert page.splitlines()[0] == "| " + " | ".join(HEADINGS.values()) + " |"
    assert "| 20 cities | lkh | 1 | – | 0.5 | 225 | – | too large |" in page
    assert page.endswith("\n\nOn 2 of 8 cores.")


def test_the_page_has_what_was_measured(tmp_path: Path) -> None:
    rows = measured(ROOT / "docs" / "results" / "limits.csv")
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    assert between_marks(page, "limits", page_of(rows)) == page
    copy = tmp_path / "page.md"
    copy.write_text("a\n<!-- limits: begin -->\nold\n<!-- limits: end -->\nb\n")
    write_page(copy, rows)
    assert copy.read_text() == f"a\n<!-- limits: begin -->\n{page_of(rows)}\n<!-- limits: end -->\nb\n"


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="the columns must be instance, solver"):
        measured(tmp_path / "x.csv")


def test_instances_of_all_kinds_of_numbers() -> None:
    own, reals, equal = (matrix_of("pmsp", (6, 3), numbers) for numbers in ("own", "reals", "equal"))
    assert own.shape == reals.shape == equal.shape == (6, 3)
    assert np.issubdtype(own.dtype, np.integer)
    assert 0 < reals.min() < reals.max() < 1
    assert np.unique(equal).tolist() == [7]
    assert page_of([["atsp-1000-equal", *ROWS[0][1:]]]).splitlines()[2].startswith("| 1000 cities, all equal |")


def test_a_command_is_measured_from_its_call_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_setaffinity", lambda process, cores: None)  # of this process, for good
    assert main(["limits", "--quick", "--only", "pmsp-20x4", "--write", str(tmp_path)]) == 0
    (row,) = measured(tmp_path / "limits.csv")
    assert row[:3] == ["pmsp-20x4", "icdc", "1"]
    assert float(row[4]) > 0
    assert float(row[5]) > 20
    assert main(["limits", "--quick", "--only", "pmsp-20x4", "--solver", "nn"]) == 0
    assert "| – |" in capsys.readouterr().out  # refused, and said so
