"""Settings: what schedules give at every point of a run, and mistakes refused with a sentence that says which."""

from typing import Any

import pytest

from icdc.errors import UsageError
from icdc.settings import build
from icdc.training.config import (
    CloningConfig,
    ImprovementConfig,
    MemoryConfig,
    OptimizerConfig,
    TrainingConfig,
)


def test_the_learning_rate_warms_up_and_falls() -> None:
    optimizer = OptimizerConfig(learning_rate=1.0, warmup_rounds=4, final_share=0.2)
    assert [optimizer.rate_at(number, 0.0) for number in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    falling = [optimizer.rate_at(100, fraction) for fraction in (0.0, 1 / 3, 0.5, 2 / 3, 1.0)]
    assert falling == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert OptimizerConfig(learning_rate=1.0, warmup_rounds=0, final_share=1.0).rate_at(0, 0.9) == 1.0


def test_improvement_fades_unless_told_not_to() -> None:
    fading = ImprovementConfig(weight=2.0, until=0.5)
    assert [fading.weight_at(fraction) for fraction in (0.0, 0.25, 0.5, 0.9)] == pytest.approx([2.0, 1.0, 0.0, 0.0])
    assert ImprovementConfig(weight=2.0, until=2.0).weight_at(0.99) == 2.0


def test_cloning_steps_grow() -> None:
    growing = CloningConfig(steps_first=6, steps_last=14)
    assert [growing.steps_at(fraction) for fraction in (0.0, 0.5, 0.99)] == [6, 10, 14]


@pytest.mark.parametrize(("mixture", "extra"), [(1.0, 0), (0.8, 2), (0.5, 8), (0.25, 24)])
def test_the_share_of_the_prior(mixture: float, extra: int) -> None:
    """α generated for 1 − α of the prior."""
    assert MemoryConfig(mixture=mixture).prior_share(8) == extra


def test_larger_matrices_come_in_smaller_batches() -> None:
    config = TrainingConfig(most_cells=500)
    assert [config.batch_of(32, n, n) for n in (2, 5, 8, 100)] == [32, 20, 7, 1]
    assert TrainingConfig().batch_of(32, 100, 100) == 32


def test_a_partial_table_keeps_the_defaults_of_its_place() -> None:
    config = build(TrainingConfig, {"improvement": {"sampling": {"steps": 3}}})
    assert config.improvement.sampling.steps == 3
    assert config.improvement.sampling.reverse == TrainingConfig().improvement.sampling.reverse == "independent"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cloning": {"bach": 3}}, "cloning.bach"),
        ({"cloning": {"batch": 2.5}}, "cloning.batch"),
        ({"cloning": 3}, "cloning"),
        ({"sizes": []}, "sizes"),
        ({"sizes": 20}, "sizes"),
        ({"memory": {"mixture": 0.0}}, "memory.mixture"),
        ({"model": {"network": {"encoder": "big"}}}, "encoder"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"most_cells": -1}, "most_cells"),
        ({"targets": {"from_improvement": True}, "improvement": {"weight": 0.0}}, "improvement.weight"),
        ({"improvement": {"sampling": {"order": "confidence"}}}, "for that order alone"),
    ],
)
def test_mistakes_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build(TrainingConfig, values)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"targets": {"instances": 0}}, "'targets.instances' must be at least 1, got 0"),
        ({"targets": {"trajectories": 0}}, "'targets.trajectories' must be at least 1, got 0"),
        ({"memory": {"rounds": 0}}, "'memory.rounds' must be at least 1, got 0"),
        ({"cloning": {"batch": 0}}, "'cloning.batch' must be at least 1, got 0"),
        ({"sizes": [[0]]}, "sizes must name at least one size of positive numbers"),
        ({"seed": -1}, "'seed' must be at least 0, got -1"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build(TrainingConfig, settings)


def test_improvement_until_zero_never_runs() -> None:
    assert ImprovementConfig(until=0.0).weight_at(0.0) == 0.0
