"""The benchmark of other sizes: a row for each set, taken up where it was, and joined by other models later."""

import csv
import runpy
from pathlib import Path
from typing import Any

import pytest

from icdc.learned.matnet import MatNet, MatNetNetworkConfig
from icdc.model import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.reproduce.rows import Measured, Row
from icdc.reproduce.sizes import SETS, as_report, published_at

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "generalisation.py"
TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
FEW = {"atsp": ("atsp-10", "atsp-20"), "pmsp": ("pmsp-20x3", "pmsp-100x10")}


@pytest.fixture
def benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the script on one instance of a few sets, and return its table."""
    monkeypatch.setattr("icdc.reproduce.sizes.SETS", FEW)
    monkeypatch.setattr("icdc.evaluation._warm_up", lambda dataset, solver: None)  # time is not asked here

    def run(*arguments: str) -> list[dict[str, str]]:
        settings = [
            "--limit",
            "1",
            "--samples",
            "2",
            "--device",
            "cpu",
            "--runs",
            str(tmp_path),
            "--out",
            str(tmp_path),
        ]
        monkeypatch.setattr("sys.argv", [str(SCRIPT), *arguments, *settings])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        with (tmp_path / "generalisation.csv").open() as file:
            return list(csv.DictReader(file))

    return run


def save(path: Path, problem: str, sizes: list[list[int]]) -> str:
    card = {"sizes": sizes, "training": {}}
    Model(get_problem(problem), ModelConfig(network=TINY), card=card).save(path)
    return str(path)


def test_rows_join_and_nothing_is_run_twice(benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tours = save(tmp_path / "mine.safetensors", "atsp", [[10]])
    save(tmp_path / "shop" / "model.safetensors", "pmsp", [[20, 3]])
    rows = benchmark("--model", tours, "--refine", "1")
    assert [(row["dataset"], row["method"]) for row in rows] == [
        (dataset, method) for dataset in FEW["atsp"] for method in ("mine", "mine, refined")
    ]
    assert rows[1]["how"] == "20 steps, fresh, rule order, temperature 1, decodes 8, refined 1×"
    both = benchmark("--model", "shop", "--model", "atsp-nowhere")
    assert [row for row in both if row["method"].startswith("mine")] == rows
    assert {row["dataset"] for row in both if row["method"] == "shop"} == set(FEW["pmsp"])
    assert {row["note"] for row in both if row["method"] == "atsp-nowhere"} == {"not trained here"}

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr("icdc.evaluation._run", refuse)
    measured = [row for row in both if not row["note"]]
    assert benchmark("--model", "shop") == measured
    assert benchmark("--model", tours, "--refine", "1") == measured
    for ending in ("md", "png", "svg"):
        assert (tmp_path / f"generalisation.{ending}").stat().st_size > 100


def test_matnet_beside(benchmark: Any, tmp_path: Path) -> None:
    small = MatNetNetworkConfig(width=32, heads=2, layers=1, feed_forward=16, mixer_width=4, one_hots=20)
    MatNet(get_problem("atsp"), small, card={"training": {}}).save(tmp_path / "matnet-atsp-20" / "model.safetensors")
    rows = benchmark("--matnet", "matnet-atsp-20", "--refine", "1")
    assert [row["method"] for row in rows] == ["matnet-atsp-20"] * 2
    assert all(row["feasible"] == "100.0" and row["how"] == "" for row in rows)


def test_problems_without_several_sizes_are_refused(benchmark: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "routes.safetensors", "navigation", [[20]])
    with pytest.raises(SystemExit, match="is for 'navigation'"):
        benchmark("--model", path)


def test_the_paper_stands_beside_what_it_measured_and_nothing_else() -> None:
    assert published_at(Row("atsp-50", "ours", "icdc", 128, "atsp-20")) == 43.797
    assert published_at(Row("atsp-50", "ours, refined", "icdc:refine=3", 128, "atsp-20")) is None
    assert published_at(Row("atsp-50", "ours, mixed sizes", "icdc", 128, "atsp")) is None
    assert published_at(Row("atsp-100", "ours", "icdc", 128, "atsp-20")) is None


def test_nothing_measured_is_nothing_drawn() -> None:
    rows = [Measured(Row(dataset, "ours", "icdc")) for sets in SETS.values() for dataset in sets]
    assert as_report(rows, [], ["icdc"]).panels == []
