"""Configurations: presets load, mistakes are refused with a sentence that says which."""

from pathlib import Path

import pytest

from icdc.errors import InputError, UsageError
from icdc.problems import get_problem
from icdc.training.config import TrainingConfig, config_from, load_config, parse_override, presets
from icdc.training.methods import load_run


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_for_its_problem(name: str) -> None:
    config = load_run(name)
    problem = get_problem(config.problem)
    assert all(len(size) == len(problem.size_names) for size in config.sizes)


def test_there_are_presets_of_ours_and_of_the_paper() -> None:
    assert {"atsp-20", "pmsp-20", "navigation-20", "paper-atsp-20", "paper-pmsp-20"} <= set(presets())


def test_paper_presets_are_the_paper() -> None:
    config = load_config("paper-atsp-20")
    network = config.model.network
    assert (network.encoder, network.denoiser, network.norm) == ("dual", "gated", "batch")
    assert (network.encoder_layers, network.denoiser_layers, config.model.diffusion.steps) == (3, 3, 10)
    assert (config.cloning.prd, config.cloning.cst, config.cloning.drafts, config.cloning.decoder) == (1e-3, 1e-6, 0, 0)
    assert config.targets.from_improvement
    assert config.memory.reward_weighted
    assert config.improvement.until > 1
    assert config.optimizer.learning_rate == 4e-4
    assert not network.rich_relations
    assert not network.relations_in_denoiser


def test_a_partial_table_keeps_the_defaults_of_its_place() -> None:
    config = config_from({"improvement": {"sampling": {"steps": 3}}})
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
        ({"targets": {"from_improvement": True}, "improvement": {"weight": 0.0}}, "improvement.weight"),
    ],
)
def test_mistakes_are_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        config_from(values)


def test_unknown_and_unreadable_sources(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown preset"):
        load_config("nothing")
    with pytest.raises(InputError, match="cannot read"):
        load_config(str(tmp_path / "missing.toml"))
    (tmp_path / "broken.toml").write_text("a = [")
    with pytest.raises(InputError, match="not valid TOML"):
        load_config(str(tmp_path / "broken.toml"))
    with pytest.raises(UsageError, match="unknown method 'guessing'; choose icdc or matnet"):
        load_run("atsp-20", {"method": "guessing"})


def test_overrides() -> None:
    assert parse_override("cloning.batch=8") == ("cloning.batch", 8)
    assert parse_override("problem=pmsp") == ("problem", "pmsp")
    with pytest.raises(UsageError, match="key=value"):
        parse_override("cloning.batch")
    config = load_config("atsp-20", dict([parse_override("cloning.batch=8"), parse_override("sizes=[[5], [6]]")]))
    assert config.cloning.batch == 8
    assert config.sizes == ((5,), (6,))
