"""Ways of making targets, compared on the same instances."""

import json
from typing import Any

import numpy as np
import pytest

from experiments import target_ways
from icdc.errors import UsageError
from icdc.problems import get_problem

TINY = (
    "init=", "model.network.width=8", "model.network.heads=2", "model.network.edge_width=4",
    "model.network.encoder_layers=1", "model.network.denoiser_layers=1", 'families=["paper", "speeds"]',
)  # fmt: skip
SETTINGS = [part for change in TINY for part in ("--set", change)]


def lines(capsys: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_way_is_a_name_and_changes() -> None:
    way = target_ways.way_of("long: sampling.steps=20 refine_rounds=0")
    assert way == target_ways.Way("long", {"targets.sampling.steps": 20, "targets.refine_rounds": 0})
    assert target_ways.way_of("now:").changes == {}
    with pytest.raises(UsageError, match="a way is a name, a colon and changes"):
        target_ways.way_of("sampling.steps=20")


def test_instances_are_of_all_families_in_their_order() -> None:
    arrays = target_ways.instances_of(get_problem("pmsp"), ["paper", "uniform-1000"], 3, (7, 2))
    assert arrays["durations"].shape == (6, 7, 2)
    assert arrays["durations"][:3].max() < 20 <= arrays["durations"][3:].max()


def test_longer_ways_are_no_worse_and_all_are_judged_by_the_best(capsys: Any) -> None:
    """One decode of a network that knows nothing, and search from many: families and their mean."""
    poor = "poor: trajectories=1 sampling.steps=1 sampling.decodes=1 sampling.improve_rounds=0 sampling.merge=0"
    good = "good: trajectories=4 sampling.steps=4"
    arguments = ["pmsp-families", "--size", "12x3", "--each", "4", "--device", "cpu", *SETTINGS]
    assert target_ways.main([*arguments, "--way", poor, "--way", good]) == 0
    first, second = lines(capsys)
    assert (first["way"], second["way"]) == ("poor", "good")
    assert second["excess %"] == second["paper"] == second["speeds"] == 0.0
    assert first["paper"] > 5.0
    assert first["speeds"] > 5.0
    assert first["excess %"] == pytest.approx(np.mean([first["paper"], first["speeds"]]), abs=1e-3)
    assert min(first["seconds"], second["seconds"]) > 0
    # the same instances, whichever ways there are
    assert target_ways.main([*arguments, "--way", poor, "--way", good, "--way", "now:"]) == 0
    again = lines(capsys)
    assert [line["paper"] for line in again[:2]] == [first["paper"], second["paper"]]


def test_what_cannot_be_is_a_sentence(capsys: Any) -> None:
    assert target_ways.main(["atsp-20", "--size", "5", "--way", "now:"]) == UsageError.exit_code
    assert "the preset 'atsp-20' has no families" in capsys.readouterr().err
    assert target_ways.main(["pmsp-families", "--size", "5x", "--way", "now:"]) == UsageError.exit_code
    assert "5x" in capsys.readouterr().err
