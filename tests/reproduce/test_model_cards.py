"""The page of the shipped models and the README's table: models of many sizes, several for one set."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from icdc.model import Model, ModelConfig, card_of
from icdc.networks import NetworkConfig
from icdc.problems import get_problem

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "model_cards.py"
TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)


def result(name: str, samples: int, gap: float, way: str = "chain", **options: Any) -> dict[str, Any]:
    figures = {"gap": gap, "gap_low": 0.0, "gap_high": 2 * gap, "optimal": 50.0, "seconds": 1.0, "device": "cpu"}
    return {"set": name, "instances": 128, "way": way, "samples": samples, "options": options, **figures}


def ship(folder: Path, name: str, sizes: list[list[int]], results: list[dict[str, Any]], init: str = "") -> None:
    network = {"encoder_layers": 1, "denoiser_layers": 1, "width": 16, "edge_width": 4, "heads": 2}
    card = {
        "sizes": sizes,
        "results": results,
        "solving": [{"size": sizes[0], "samples": 1, "options": {}}],
        "settings": {"init": init, "model": {"network": network, "diffusion": {"steps": 20}}},
        "training": {"seconds": 9.0, "seed": 0, "rounds": 3, "hardware": "nothing"},
        "data": "nothing",
        "not_for": "anything",
    }
    Model(get_problem(name.split("-")[0]), ModelConfig(network=TINY), card=card).save(folder / f"{name}.safetensors")


def test_models_of_many_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icdc.model.models_folder", lambda: tmp_path)
    refined = result("atsp-20", 128, 0.25, "refined", decodes=16, refine=6)
    mixed = [result("atsp-100", 1, 2.5), refined, result("atsp-20", 1, 0.5), result("atsp-45", 8, 0.75)]
    ship(tmp_path, "atsp", [[20], [100], [9], [20]], mixed, init="atsp-20")
    ship(tmp_path, "atsp-20", [[20]], [result("atsp-20", 8, 0.125), result("atsp-20", 1, 4.0, "last sample")])
    ship(tmp_path, "pmsp", [[60, 6], [10, 2]], [result("pmsp-50x3", 128, 0.0625)])
    cards = tmp_path / "cards"
    cards.mkdir()
    card = {**card_of("atsp-20"), "results": [result("atsp-20", 1, 8.0)]}
    (cards / "unshipped.json").write_text(json.dumps(card))
    page, readme = tmp_path / "models.md", tmp_path / "README.md"
    readme.write_text("before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n")
    monkeypatch.setattr(
        "sys.argv", ["model_cards.py", "--out", str(page), "--readme", str(readme), "--cards", str(cards)]
    )
    runpy.run_path(str(SCRIPT), run_name="__main__")
    text = page.read_text()
    assert "**For**: atsp, 9, 20, 100 cities." in text
    assert "**For**: pmsp, 10 × 2, 60 × 6 jobs × machines." in text
    assert "from the weights of `atsp-20`." in text
    rows = [line.split(" | ")[:4] for line in text.splitlines() if line.startswith("| atsp")]
    assert [(row[0], row[2]) for row in rows[:4]] == [
        ("| atsp-20", "chain"), ("| atsp-20", "refined"), ("| atsp-45", "chain"), ("| atsp-100", "chain"),
    ]  # fmt: skip
    assert "decodes 16, refined 6× |" in text
    assert "## unshipped\n\n- **For**: atsp, 20 cities. Does not ship" in text
    before, *table, after = readme.read_text().splitlines()
    assert (before, after) == ("before", "after")
    assert table[3:-1] == [
        "| atsp-20 | `atsp`, chain | 0.50 | – | – | – | 0.25 |",
        "|  | `atsp-20`, chain | – | 0.12 | – | – | – |",
        "|  | `atsp-20`, last sample | 4.00 | – | – | – | – |",
        "|  | `unshipped`, chain | 8.00 | – | – | – | – |",
        "|  | the paper | 4.92 | 0.91 | 0.78 | 0.0000 | – |",
        "| atsp-100 (128 instances) | `atsp`, chain | 2.50 | – | – | – | – |",
        "| pmsp-50x3 | `pmsp`, chain | – | – | – | 0.062 | – |",
        "|  | the paper | 0.79 | 0.21 | 0.060 | 0.010 | – |",
    ]
