"""Seconds and memory against size: both layouts, both problems, one table, one figure."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from experiments.csvfiles import read_rows
from experiments.speed import sizes


def asked(**changes: Any) -> argparse.Namespace:
    options = {"device": "cpu", "samples": 2, "steps": 2, "repeats": 1, "width": 64, "candidates": 8, "again": False}
    return argparse.Namespace(**{**options, **changes})


@pytest.mark.parametrize(
    ("problem", "size", "candidates", "layout"),
    [("atsp", (30,), 0, "all columns"), ("atsp", (30,), 8, "8 candidates"), ("pmsp", (20, 12), 8, "8 candidates")],
)
def test_a_line(problem: str, size: tuple[int, ...], candidates: int, layout: str) -> None:
    line = sizes.measure(problem, size, candidates, asked())
    assert list(line) == list(sizes.COLUMNS)
    assert (line["problem"], line["size"], line["layout"]) == (problem, "x".join(map(str, size)), layout)
    assert all(float(str(line[name])) > 0 for name in ("features s", "pass s", "trajectory s"))
    assert 0 <= float(str(line["peak MiB"])) < 1000


def test_what_is_known_is_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sizes, "SIZES", {"atsp": ((20,), (5000,)), "pmsp": ((20, 4),)})
    wanted = [("pmsp", (20, 4), 0), ("atsp", (20,), 0), ("atsp", (20,), 8), ("atsp", (5000,), 8)]
    assert sizes.lines_to_do(asked(), []) == wanted  # 4 machines are no more than 8, and 5,000 cities too many for all
    known = {"problem": "atsp", "size": "20", "layout": "8 candidates", "hardware": "CPU"}
    assert sizes.lines_to_do(asked(), [known]) == [wanted[0], wanted[1], wanted[3]]
    assert sizes.lines_to_do(asked(again=True), [known]) == wanted
    assert sizes.lines_to_do(asked(), [{**known, "hardware": "NVIDIA H200"}]) == wanted


def test_the_command_writes_table_and_figure_and_ends_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sizes, "SIZES", {"atsp": ((20,),), "pmsp": ((20, 4),)})

    class Here:
        """Does in this process what a pool of one would do in another."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *_: object) -> None: ...

        def apply(self, work: Any, arguments: Any) -> Any:
            problem, size, candidates, _ = arguments
            numbers = dict.fromkeys(sizes.COLUMNS[4:8], 0.5)
            about = {"problem": problem, "size": sizes.text_of(size), "layout": sizes.layout_of(candidates)}
            return {**about, "samples": 1, **numbers, "hardware": "CPU", "threads": 1}

    context = type("Context", (), {"Pool": Here})
    monkeypatch.setattr(sizes.multiprocessing, "get_context", lambda _: context)
    assert sizes.main(["--out", str(tmp_path), "--device", "cpu", "--minutes", "-1"]) == 0
    assert not (tmp_path / "sizes.csv").exists()
    assert sizes.main(["--out", str(tmp_path), "--device", "cpu"]) == 0
    rows = read_rows(tmp_path / "sizes.csv")
    assert [(row["size"], row["layout"]) for row in rows] == [
        ("20x4", "all columns"), ("20", "all columns"), ("20", "16 candidates"),
    ]  # fmt: skip
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    first, *_ = sizes.panels(rows)
    assert set(first.lines) == {"all columns, CPU", "16 candidates, CPU"}
    assert first.lines["all columns, CPU"] == [(0.0, 0.5)]
