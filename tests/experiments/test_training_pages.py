"""What became of variants: tables and curves from the lines that runs have written."""

import csv
import shutil
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.tables.figures import draw
from experiments.training.pages import (
    ablation_table,
    features_table,
    learning_panels,
    learning_table,
    presets_table,
    switches_table,
    take,
    training_panels,
)
from experiments.training.side_by_side import COLUMNS, choose
from icdc.errors import InputError, UsageError

BASE = "nothing: all relations, the best sample of each instance as target"


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def curves(folder: Path, lines: list[dict[str, object]]) -> Path:
    """Write what a call of `side_by_side` leaves."""
    folder.mkdir()
    with (folder / "curves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return folder


def line(run: str, gap: float, samples: int = 8, weights: str = "current", **more: object) -> dict[str, object]:
    about = {"words": "old words", "preset": "p", "data": "validation", "way": "last", "at": 30.0, "round": 12}
    return {**about, "run": run, "samples": samples, "weights": weights, "gap": gap, "effective": 0.25, **more}


def test_curves_are_taken_over_run_by_run(tmp_path: Path) -> None:
    """A run that comes again replaces its lines, others stay; words are those of the variants, in their order."""
    first = curves(tmp_path / "a", [line("pmsp-20x4-all", 9.0), line("atsp-20-all", 50.0), line("unknown", 1.0)])
    path = take("cause", first, tmp_path)
    assert [row["run"] for row in read(path)] == ["atsp-20-all", "pmsp-20x4-all"]
    second = curves(tmp_path / "c", [line("atsp-20-all", 40.0, at=10.0), line("atsp-20-all", 30.0)])
    rows = read(take("cause", second, tmp_path))
    assert [(row["run"], row["gap"]) for row in rows] == [
        ("atsp-20-all", "40.0"), ("atsp-20-all", "30.0"), ("pmsp-20x4-all", "9.0"),
    ]  # fmt: skip
    assert {row["words"] for row in rows} == {"all relations in encoder and denoiser"}
    *_, last = switches_table(tmp_path, "cause").splitlines()
    assert (
        last
        == "| all relations in encoder and denoiser (`all`) |  | 30.0 |  |  | 12 |  | 9.00 |  |  | 12 | 0.25, 0.25 |"
    )
    with pytest.raises(InputError, match="no curves of the group 'ours'"):
        take("ours", first, tmp_path)


def test_the_last_line_counts(tmp_path: Path) -> None:
    lines = [
        line("atsp-20-fixed", gap, n, weights, at=at, round=at)
        for at, worse in ((10, 10.0), (20, 1.0))
        for weights, more in (("current", 0.0), ("average", 0.5))
        for n, gap in ((1, worse + more), (8, worse / 2 + more))
    ]
    lines += [line("atsp-20-fixed", 0.25, 128, data="atsp-20", at=21.0, round=33)]
    take("readings", curves(tmp_path / "a", lines), tmp_path)
    *_, last = switches_table(tmp_path, "readings").splitlines()
    assert last == f"| {BASE} (`fixed`) | 1.00 | 0.500 | 0.250 | 1.00 | 20 |  |  |  |  |  | 0.25 |"
    (panel,) = training_panels(tmp_path)
    assert panel.lines == {"fixed": [(10.0, 5.0), (20.0, 0.5)]}


def test_presets_stand_between_the_paper_and_random_solutions(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "docs" / "results" / "training-comparison.csv", tmp_path)
    lines = [line("paper-atsp-20", 3.0, 8, "average", data="atsp-20", at=21.0, round=33)]
    lines += [line("paper-rl-pmsp-20x4", 400.0, 1, "average", data="pmsp-20x4", way="greedy", round=5)]
    assert presets_table(tmp_path) == "Not measured yet."
    take("presets", curves(tmp_path / "a", lines), tmp_path)
    assert presets_table(tmp_path).splitlines()[2:] == [
        "| atsp-20 | IC/DC, published |  |  | *4.92* | *0.913* | *0.782* | *0.000* |",
        "| atsp-20 | random |  |  | 127.4 | 104.9 | 94.5 | 85.7 |",
        "| atsp-20 | `paper-atsp-20` | 21 | 33 |  | 3.00 |  |  |",
        "| pmsp-20x4 | IC/DC, published |  |  | *3.76* | *0.672* | *0.280* | *0.140* |",
        "| pmsp-20x4 | random |  |  | 193.9 | 120.5 | 97.6 | 81.5 |",
    ]
    *_, published, random, baseline = presets_table(tmp_path, baselines=True).splitlines()
    assert "published" in published
    assert "random" in random
    assert baseline == "| pmsp-20x4 | `paper-rl-pmsp-20x4`, greedy end | 30 | 5 | 400.0 |  |  |  |"


def test_seeds_stand_beside_each_other(tmp_path: Path) -> None:
    assert ablation_table(tmp_path).startswith("Not measured yet")
    lines = [line(f"atsp-20-raw-seed-{seed}", gap, 8, "average") for seed, gap in ((0, 1.0), (1, 2.0))]
    take("ours", curves(tmp_path / "a", lines), tmp_path)
    assert ablation_table(tmp_path).splitlines()[-1] == "| raw relations only |  | 1.00 / 2.00 |  |  |"


def test_the_command_takes_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = curves(tmp_path / "a", [line("atsp-20-all", 50.0)])
    assert main(["missing", "--out", str(tmp_path), "--take", f"cause={source}"]) == 0
    assert (tmp_path / "paper-cause.csv").is_file()
    assert main(["missing", "--out", str(tmp_path), "--take", "other=x"]) == UsageError.exit_code
    assert "not of the form GROUP=FOLDER" in capsys.readouterr().err


def test_the_last_line_of_every_run_best_first(tmp_path: Path) -> None:
    lines = [
        ("atsp-20-priced", 10, 1, 9.0), ("atsp-20-priced", 10, 8, 4.0),
        ("atsp-20-priced", 20, 1, 5.0), ("atsp-20-priced", 20, 8, 2.5),
        ("atsp-20-mean", 20, 1, 4.0), ("atsp-20-mean", 20, 8, 3.0),
    ]  # fmt: skip
    with (tmp_path / "curves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for run, number, samples, gap in lines:
            words = next(variant.words for variant in choose("features") if variant.name == run)
            about = {"run": run, "words": words, "data": "validation", "weights": "average", "way": "chain"}
            writer.writerow({**about, "round": number, "samples": samples, "gap": gap})
    assert features_table(tmp_path) == "Not measured yet."
    take("features", tmp_path, tmp_path)
    shown = features_table(tmp_path).splitlines()
    assert shown[0] == "| tours | ×1 | ×8 | rounds |"
    assert shown[2:] == [
        "| all channels by prices | 5.00 | 2.50 | 20 |",
        "| units of the mean instead of prices | 4.00 | 3.00 | 20 |",
    ]


def test_learning_curves_of_equal_seconds(tmp_path: Path) -> None:
    """A row and a line for each run, and each number of samples; current weights and test sets are left out."""
    lines = [
        ("atsp-20-mean", 10.0, 3, 1, 9.0), ("atsp-20-mean", 10.0, 3, 8, 4.0),
        ("atsp-20-mean", 20.0, 7, 1, 5.0), ("atsp-20-mean", 20.0, 7, 8, 2.5),
        ("atsp-100-sparse", 20.4, 5, 1, 12.0),
    ]  # fmt: skip
    with (tmp_path / "curves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for run, at, number, samples, gap in lines:
            about = {"run": run, "at": at, "round": number, "samples": samples, "way": "chain"}
            writer.writerow({**about, "data": "validation", "weights": "average", "gap": gap})
            writer.writerow({**about, "data": "validation", "weights": "current", "gap": 77.0})
            writer.writerow({**about, "data": "atsp-20", "weights": "average", "gap": 66.0})
    assert learning_table(tmp_path) == "Not measured yet."
    assert learning_panels(tmp_path) == []
    take("learning", tmp_path, tmp_path)
    assert learning_table(tmp_path).splitlines() == [
        "| instances | what the network sees | seconds | rounds | ×1 | ×8 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| tours of 20 cities | units of the mean instead of prices | 20 | 7 | 5.00 | 2.50 |",
        "| tours of 100 cities | 16 candidate columns | 20 | 5 | 12.0 |  |",
    ]
    small, large = learning_panels(tmp_path)
    assert (small.title, large.title) == ("tours of 20 cities", "tours of 100 cities")
    assert small.lines == {
        "units of the mean instead of prices, ×1": [(10.0, 9.0), (20.0, 5.0)],
        "units of the mean instead of prices, ×8": [(10.0, 4.0), (20.0, 2.5)],
    }
    assert draw([small, large, large]).startswith(b"\x89PNG")
