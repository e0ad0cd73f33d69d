"""What a run spends its time on: shares of sizes and families, the curriculum, and what a resumed run knows of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from icdc.errors import UsageError
from icdc.settings import build
from icdc.training import Trainer, TrainingConfig
from icdc.training.checkpoint import METRICS, REFERENCES, STATE
from icdc.training.config import MixtureConfig
from icdc.training.sources import Mixture, bounded

NETWORK = {"width": 16, "heads": 2, "edge_width": 8, "encoder_layers": 1, "denoiser_layers": 1, "priced": True}
SIZES = [(4,), (6,), (9,)]


def mixture(named: tuple[int, ...] = (1, 1, 1), **config: Any) -> Mixture:
    settings = MixtureConfig(**{"balance": "time", **config})
    return Mixture(SIZES, named, ["tmat", "tmat", "crane", "roads"], [81, 16, 36], settings)


def small(**settings: Any) -> TrainingConfig:
    """Return a run on families and sizes that takes seconds on one core, some of them on candidates."""
    values: dict[str, Any] = {
        "problem": "atsp",
        "sizes": [[5], [9], [5]],
        "families": ["tmat", "uniform", "crane"],
        "rounds": 6,
        "model": {"network": {**NETWORK, "candidates": 4, "dense_up_to": 6}, "diffusion": {"steps": 4}},
        "targets": {"instances": 4, "trajectories": 2, "sampling": {"steps": 2, "decodes": 2, "improve_rounds": 2}},
        "cloning": {"batch": 6, "steps_first": 2, "steps_last": 2},
        "improvement": {"weight": 0.0},
        "memory": {"rounds": 2},
        "mixture": {"balance": "time", "curriculum": 0.5, "most": 2.0},
        "validation": {"every": 2, "instances": 2},
    }
    return build(TrainingConfig, {**values, **settings})


@pytest.fixture(autouse=True)
def quick_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icdc.training.validation.SAMPLES", 1)
    monkeypatch.setattr("icdc.training.validation.STEPS", 2)


def test_sizes_have_their_share_of_the_time() -> None:
    """However long a round of each takes: the more often a size is named, the more of it."""
    shared, seconds = mixture(named=(1, 2, 1)), np.array([0.1, 1.0, 3.0])
    used = np.zeros(3)
    for _ in range(600):
        size = shared.next(1.0)
        used[size] += seconds[size]
        shared.spend(size, seconds[size])
    assert used / used.sum() == pytest.approx([0.25, 0.5, 0.25], abs=0.02)


def test_smaller_matrices_come_first_and_late_ones_get_nothing_back() -> None:
    shared = mixture(curriculum=0.5, first_share=0.3)
    assert [shared.open(fraction).tolist() for fraction in (0.0, 0.2, 0.3, 0.5, 1.0)] == [
        [False, True, False],  # 16 entries
        [False, True, True],  # and 36
        [True, True, True],
        [True, True, True],
        [True, True, True],
    ]
    counts: Counter[int] = Counter()
    for turn in range(200):
        size = shared.next(turn / 200)
        counts[size] += 1
        shared.spend(size, 1.0)
    # a third of what came after each of them had joined
    assert counts[1] > counts[2] > counts[0]
    assert counts[0] == pytest.approx(200 * 0.72 / 3, abs=6)
    assert all(mixture().open(0.0))


def test_shares_move_to_where_the_gap_is_and_no_further_than_allowed() -> None:
    shared = mixture(most=2.0)
    assert shared.family_shares[0].tolist() == [0.5, 0.25, 0.25]
    gaps = {"4": {"tmat": 0.0, "crane": 0.0, "roads": 50.0}, "6": {"tmat": 1.0, "crane": 1.0, "roads": 1.0}}
    shared.move(gaps)
    first = shared.family_shares.copy()
    for _ in range(50):
        shared.move(gaps)
    assert shared.family_shares.sum(1) == pytest.approx([1.0] * 3)
    assert shared.size_shares.sum() == pytest.approx(1.0)
    assert shared.family_shares[0].tolist() == pytest.approx([1 / 3, 1 / 6, 0.5], abs=1e-6)
    assert first[0, 2] == pytest.approx((0.25 + 0.5) / 2, abs=1e-6)  # half of the way
    assert shared.family_shares[1].tolist() == pytest.approx([0.5, 0.25, 0.25])  # all alike
    assert shared.family_shares[2].tolist() == [0.5, 0.25, 0.25]  # nobody looked
    assert shared.size_shares[0] > shared.size_shares[2] > shared.size_shares[1] >= 1 / 6 - 1e-9
    shown = shared.shares()
    assert shown["9"]["tmat"] == pytest.approx(0.5 * shared.size_shares[2], abs=1e-3)


def test_limits_of_shares_hold_and_the_rest_is_proportional() -> None:
    low, high = np.full(4, 0.1), np.full(4, 0.4)
    assert bounded(np.array([1.0, 1.0, 1.0, 1.0]), low, high) == pytest.approx([0.25] * 4)
    assert bounded(np.array([100.0, 1.0, 2.0, 0.01]), low, high) == pytest.approx([0.4, 1 / 6, 1 / 3, 0.1])


def test_a_mixture_goes_on_where_it_was() -> None:
    one, other = mixture(most=2.0, curriculum=0.9), mixture(most=2.0, curriculum=0.9)
    for turn in range(20):
        one.spend(one.next(turn / 40), 1.0 + turn % 3)
    one.move({"6": {"tmat": 3.0, "crane": 1.0, "roads": 0.0}})
    other.restore(json.loads(json.dumps(one.state())))
    for turn in range(20, 40):
        mine = one.next(turn / 40)
        assert other.next(turn / 40) == mine
        one.spend(mine, 1.0)
        other.spend(mine, 1.0)
    assert np.array_equal(other.family_shares, one.family_shares)


def test_a_run_validates_moves_shares_and_logs_both(tmp_path: Path) -> None:
    trainer = Trainer(small(), device="cpu", out=tmp_path)
    trainer.run()
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    found = [line for line in lines if "gaps" in line]
    assert [line["round"] for line in found] == [2, 4, 6]
    assert set(found[0]["gaps"]) == {"5", "9"}
    assert set(found[0]["gaps"]["9"]) == {"tmat", "uniform", "crane"}
    assert all(gap >= -1e-6 for line in found for own in line["gaps"].values() for gap in own.values())
    assert sum(share for own in found[-1]["shares"].values() for share in own.values()) == pytest.approx(1.0, abs=0.01)
    sources = [steps.source for steps in trainer.steps]
    for source, shares in zip(sources, trainer.mixture.family_shares, strict=True):
        assert source.shares_there.tolist() == pytest.approx(shares.tolist())  # type: ignore[attr-defined]
    assert not np.allclose(trainer.mixture.family_shares, 1 / 3)
    assert len(json.loads((tmp_path / REFERENCES).read_text())) == 6


def test_what_does_not_take_part_yet_is_not_validated(tmp_path: Path) -> None:
    mixture = {"balance": "time", "curriculum": 1.0, "first_share": 0.01}
    Trainer(small(rounds=4, mixture=mixture, validation={"every": 1}), device="cpu", out=tmp_path).run()
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert [set(line["gaps"]) for line in lines if "gaps" in line] == [{"5"}, *[{"5", "9"}] * 3]


def test_shipped_references_are_taken_and_none_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Trainer(small(rounds=2), device="cpu", out=tmp_path / "first").run()
    monkeypatch.setattr("icdc.training.validation.SHIPPED", tmp_path / "first" / REFERENCES)

    def nobody(*_: object) -> None:
        raise AssertionError("search was asked for what is known")

    monkeypatch.setattr("icdc.training.validation.make_solver", nobody)
    Trainer(small(rounds=2), device="cpu", out=tmp_path / "second").run()
    assert not (tmp_path / "second" / REFERENCES).exists()


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_a_run_that_was_killed_ends_like_one_that_was_not(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of its curriculum, before and after shares moved: the same weights, shares and lines to the bit."""
    monkeypatch.setattr("icdc.training.loop.FIRST_CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("icdc.training.loop.CHECKPOINT_SHARE", 1e9)
    whole = Trainer(small(), device="cpu", out=tmp_path / "whole")
    whole.run()

    class Killed(Exception):
        pass

    def kill(progress: Any) -> None:
        if progress.round > stop:
            raise Killed

    folder = tmp_path / "killed"
    with pytest.raises(Killed):
        Trainer(small(), device="cpu", out=folder).run(kill, every=0.0)
    assert torch.load(folder / STATE, weights_only=True)["round"] == stop
    again = Trainer(TrainingConfig(), device="cpu", out=folder, resume=True)
    again.run()
    assert json.dumps(again.mixture.state()) == json.dumps(whole.mixture.state())
    for one, other in zip(again.weights.tensors(), whole.weights.tensors(), strict=True):
        assert torch.equal(one, other)
    texts = [(tmp_path / name / METRICS).read_text().splitlines() for name in ("whole", "killed")]
    gaps = [[json.loads(line)["gaps"] for line in text if "gaps" in line] for text in texts]
    assert gaps[0] == gaps[1]


def test_without_its_memory_a_run_goes_on_with_the_same_mixture(tmp_path: Path) -> None:
    """The state is small then, and knows shares and turns."""
    config = small(memory={"rounds": 2, "saved": False})
    Trainer(config, device="cpu", out=tmp_path).run(lambda progress: progress.round == 3, every=0.0)
    again = Trainer(config, device="cpu", out=tmp_path, resume=True)
    again.set_up(torch.load(tmp_path / STATE, weights_only=True))
    assert again.mixture.state()["joined"] == [True, True]
    assert not np.allclose(again.mixture.family_shares, 1 / 3)
    assert int(again.steps[0].memory.stored) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mixture": {"curriculum": 0.5}}, 'needs mixture.balance = "time"'),
        ({"mixture": {"most": 2.0}, "validation": {}}, "mixture.most needs validation.every"),
        ({"mixture": {"most": 0.5}}, "'mixture.most' must be at least 1"),
        ({"mixture": {"balance": "time", "curriculum": 2.0}}, "'mixture.curriculum' must be"),
        ({"mixture": {"first_share": 0.0}}, "mixture.first_share"),
        ({"validation": {"every": -1.0}}, "validation.every"),
        ({"most_memory": -1.0}, "most_memory"),
        ({"families": [], "targets": {"examples": ["a", "b", "c"]}}, "leave out mixture and validation"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        small(**settings)
