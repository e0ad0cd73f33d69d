"""The table of what the network sees: the last line of every variant, best first."""

import csv
from pathlib import Path

from experiments.features_page import features_table, learning_panels, learning_table
from experiments.paper_page import take
from experiments.side_by_side import COLUMNS, choose
from experiments.tables.figures import draw
from experiments.variants import CHANNELS
from icdc.problems import Atsp, Pmsp


def test_every_channel_has_its_words() -> None:
    assert [len(CHANNELS[data]) for data in ("atsp-20", "pmsp-20x4")] == [
        cls.priced_sizes.relations for cls in (Atsp, Pmsp)
    ]
    hidden = [variant.settings.get("model.network.hidden_relations") for variant in choose("features")]
    assert [found for found in hidden if found] == 2 * [[channel] for channel in range(8)]


def test_the_last_line_of_every_run_best_first(tmp_path: Path) -> None:
    lines = [
        ("atsp-20-priced", 10, 1, 9.0), ("atsp-20-priced", 10, 8, 4.0),
        ("atsp-20-priced", 20, 1, 5.0), ("atsp-20-priced", 20, 8, 2.5),
        ("atsp-20-mean", 20, 1, 4.0), ("atsp-20-mean", 20, 8, 3.0),
        ("atsp-20-without-4", 20, 1, 3.0), ("atsp-20-without-4", 20, 8, 1.0),
        ("atsp-20-without-5", 20, 1, 3.0),  # not there yet
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
        "| without the Sinkhorn, warm | 3.00 | 1.00 | 20 |",
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
