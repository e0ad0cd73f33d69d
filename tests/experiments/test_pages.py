"""The pages are what the command makes from the files, and those are short enough to be read."""

import re
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import ROOT, pages
from experiments.markdown import between_marks, duration, percent
from experiments.tables.figures import FIGURES
from experiments.tables.pages import README_SETS, _main_table, training_commands
from experiments.tables.rows import TARGETS, Measured, Row, read_table
from icdc.errors import InputError

DOCS = ROOT / "docs"
RESULTS = DOCS / "results"


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return pages(RESULTS, DOCS)


def test_pages_are_up_to_date(made: dict[Path, str]) -> None:
    """`python -m experiments pages` writes them again."""
    assert [path.relative_to(ROOT).as_posix() for path in made] == [
        "docs/results.md", "docs/models.md", "docs/paper-recipe.md", "README.md", "docs/baselines.md",
        "docs/training.md",
    ]  # fmt: skip
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_pages_can_be_read(made: dict[Path, str]) -> None:
    results, models, paper, readme, *_ = made.values()
    assert len(results.splitlines()) < 340
    assert len(models.splitlines()) < 160
    assert len(paper.splitlines()) < 200
    assert not re.search(r"\{\{|\}\}|nan", results + paper)
    shown = between_marks(readme, "results", "")
    assert len(readme.splitlines()) - len(shown.splitlines()) + 1 == len(README_SETS) + 2
    for name in FIGURES:
        assert (RESULTS / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"results/{name}.png" in results


def test_one_meaning_of_the_last_sample(made: dict[Path, str]) -> None:
    """The same figures on every page: 3.82 % with one sample and 0.018 % with 128 (navigation), 2.18 % (20 cities)."""
    results, models, _, readme, *_ = made.values()
    line = "| navigation-20 (`navigation`) | 0.017 | 0.004 | 0.002 | 0.001 | 0.001 | 3.82 | 0.018 | – | – | 127.3 |"
    assert line in readme
    assert "| navigation-20 | 0.017 | 0.004 | 0.002 | 0.001 | 0.001 | 3.82 | 0.018 |" in models
    assert "| IC/DC `navigation`, last sample ×128 (20 × 1) | 0.018 (0.012–0.025) |" in results
    assert "| IC/DC, the model that ships, last sample | 2.18 | 0.093 | 0.014 |" in results
    assert (
        "| atsp-20 (`atsp`) | 0.009 | 0.000 | 0.000 | 0.000 | 0.000 | 2.18 | 0.001 | 4.92 | 0.000 | 127.4 |" in readme
    )


def test_every_file_is_named_somewhere() -> None:
    words = (DOCS / "reproducing.md").read_text()
    for path in RESULTS.glob("*.csv"):
        assert f"`{path.stem}`" in words, path.name
    assert {path.name for path in RESULTS.iterdir() if path.suffix not in (".jsonl", ".csv", ".png")} == {"kernels.txt"}


def test_what_is_missing_is_listed_with_its_command() -> None:
    commands = training_commands(m for name in TARGETS for m in read_table(RESULTS / f"{name}.csv"))
    assert "icdc train matnet-atsp-50" in commands
    assert len(commands) == len(set(commands))
    assert all(command.startswith("icdc ") for command in commands)


def test_a_main_table(measured: Any) -> None:
    rows = [
        measured(Row("atsp-20", "icdc", n, "atsp", answer, paper_gap=4.802), 1.0 / n, 0.5 / n, 2.0 / n)
        for answer in ("best", "last", "end", "refined")
        for n in (1, 8, 128)
    ]
    rows += [measured(Row("atsp-20", "matnet", n, "m"), 2.0, 1.0, 3.0, 0.25) for n in (1, 8, 128)]
    rows += [Measured(Row("atsp-50", "matnet", n, "m", paper_gap=1.314), note="not trained here") for n in (1, 128)]
    rows += [measured(Row("atsp-20", "cpsat", paper_gap=0.0), 0.0, 0.0, 0.0, 2.5)]
    head, _, *lines = _main_table(rows).splitlines()
    assert head == "|  | atsp-20 | atsp-50 | time an instance, last column |"
    assert lines[0] == "| CP-SAT | 0.000 |  | 2.5 s, cpu |"
    assert lines[1] == "| MatNet `m` ×1 | 2.00 (1.00–3.00) | *1.32* | 250 ms, a GPU |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| MatNet `m` ×128",
        *(f"| IC/DC `atsp`, best ×{n} (20 × 1)" for n in (1, 8, 128)),
        "| IC/DC `atsp`, last sample ×1 (20 × 1)",
        "| IC/DC `atsp`, last sample ×128 (20 × 1)",
        "| IC/DC `atsp`, refined ×128 (20 × 1)",
    ]
    assert lines[3] == "| IC/DC `atsp`, best ×1 (20 × 1) | 1.00 (0.500–2.00) *4.92* |  | 1 ms, a GPU |"


def test_figures_have_about_three_digits(measured: Any) -> None:
    figures = {
        None: "–",
        0.0: "0.000",
        -1e-14: "0.000",
        0.0001: "<0.001",
        0.0216: "0.022",
        4.918: "4.92",
        127.39: "127.4",
    }
    assert {value: percent(value) for value in figures} == figures
    times = {0.00002: "0.02 ms, cpu", 0.0194: "19 ms, cpu", 0.4261: "426 ms, cpu", 2.04: "2.0 s, cpu"}
    row = Row("atsp-20", "nn")
    assert {s: duration(measured(row, 1.0, 0.5, 1.5, s).summary) for s in times} == times


def test_a_page_without_a_place_for_the_table() -> None:
    assert between_marks("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb", "x", "new").splitlines()[2] == "new"
    with pytest.raises(InputError, match="no place"):
        between_marks("a\n<!-- x: end -->", "x", "new")
