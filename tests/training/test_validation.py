"""Validation inside a run: its instances, its references, and what a gap is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.diffusion.sampler import SamplingOptions
from icdc.errors import InputError
from icdc.io.datasets import STANDARD_SETS
from icdc.models.diffusion import Model, ModelConfig
from icdc.models.file import own_random_numbers
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.training.validation import SEED, References, Validation, gaps_in_percent, mean_gap

PMSP = get_problem("pmsp")
NETWORK = NetworkConfig(width=8, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1)


def validation(folder: Path, **changes: object) -> Validation:
    references = References(folder / "references.json")
    settings: dict[str, Any] = {"instances": 3, "targets": SamplingOptions(), "references": references, "device": "cpu"}
    return Validation(PMSP, [(5, 2), (6, 3), (5, 2)], ["paper", "speeds", "paper"], **{**settings, **changes})


def test_gaps_of_every_family_and_size_against_the_optimum(tmp_path: Path) -> None:
    with own_random_numbers(0):
        model = Model(PMSP, ModelConfig(network=NETWORK))
    made = validation(tmp_path)
    found = made.gaps(model)
    assert {size: set(own) for size, own in found.items()} == {"5x2": {"paper", "speeds"}, "6x3": {"paper", "speeds"}}
    for size in ((5, 2), (6, 3)):
        for group in made.groups(size):
            every = np.stack(np.meshgrid(*[np.arange(size[1])] * size[0])).reshape(size[0], -1).T
            times = group.arrays["durations"]
            loads = np.stack(
                [
                    [(times[b, np.arange(size[0]), choice] * (choice == m)).sum() for choice in every]
                    for b in range(len(times))
                    for m in range(size[1])
                ]
            ).reshape(len(times), size[1], -1)
            assert group.reference == pytest.approx(loads.max(1).min(1))
    assert all(0 <= gap <= 100 for own in found.values() for gap in own.values())
    assert found == validation(tmp_path).gaps(model)
    assert made.gaps(model, [(6, 3)]) == {"6x3": found["6x3"]}
    assert mean_gap(found) == pytest.approx(np.mean([list(own.values()) for own in found.values()]))


def test_an_answer_without_use_counts_no_more_than_others() -> None:
    gaps = gaps_in_percent(np.array([10, 11, 2_000_000]), np.array([10.0, 10.0, 10.0]))
    assert gaps.tolist() == pytest.approx([0.0, 10.0, 100.0])


def test_references_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [group.reference for group in validation(tmp_path).groups((5, 2))]
    known = json.loads((tmp_path / "references.json").read_text())
    assert set(known) == {"pmsp/paper/5x2/3", "pmsp/speeds/5x2/3"}  # what comes with the package is not copied
    monkeypatch.setattr("icdc.training.validation.make_solver", None)
    again = [group.reference for group in validation(tmp_path).groups((5, 2))]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_large_instances_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(References, "costs", lambda self, problem, family, size, arrays: np.ones(1))
    made = validation(tmp_path, instances=9)
    assert len(made.groups((6, 3))[0].arrays["durations"]) == 9
    monkeypatch.setattr("icdc.training.validation.MOST_CELLS", 5 * 10)
    assert len(validation(tmp_path, instances=9).groups((5, 2))[0].arrays["durations"]) == 5
    assert len(validation(tmp_path, instances=9).groups((9, 9))[0].arrays["durations"]) == 2


def test_no_test_set_has_the_seed() -> None:
    assert SEED not in {spec.seed for spec in STANDARD_SETS.values()}


@pytest.mark.parametrize("text", ["[1]", '{"a": 3}', '{"a": ["x"]}', "{"])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "references.json"
    path.write_text(text)
    with pytest.raises(InputError, match="references"):
        References(path)
