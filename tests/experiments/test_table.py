"""The CSV file of a table keeps everything: figures in full, and rows that were not measured."""

from pathlib import Path
from typing import Any

import pytest

from experiments.measure import NOT_TRAINED
from experiments.table import Measured, Row, options_as_text, options_of, read_table, write_table
from icdc.errors import InputError


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
