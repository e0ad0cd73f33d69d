"""Presets and TOML files: they load, they extend one another, and they are listed with a line each."""

import sys
from pathlib import Path

import pytest

from icdc.baselines.matnet.reinforce import MatNetConfig
from icdc.errors import InputError, UsageError
from icdc.models.catalogue import available
from icdc.models.diffusion import Model
from icdc.models.file import load_weights
from icdc.problems import get_problem
from icdc.settings import build
from icdc.training import TrainingConfig, load_config, parse_override, presets, train
from icdc.training.checkpoint import PARTS, save_state
from icdc.training.presets import read_settings


def preset(name: str) -> TrainingConfig:
    return build(TrainingConfig, read_settings(name))


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_for_its_problem(name: str) -> None:
    config = load_config(name)
    problem = get_problem(config.problem)
    assert all(len(size) == len(problem.size_names) for size in config.sizes)
    # it can be started in a fresh clone, or says what comes first
    assert config.init in ("", *available()) or f"icdc train {Path(config.init).parts[1]}" in presets()[name]


@pytest.mark.parametrize("name", [name for name in presets() if load_config(name).init in available()])
def test_shipped_weights_fit_the_presets_that_begin_with_them(name: str) -> None:
    config = load_config(name)
    assert isinstance(config, TrainingConfig)
    model = Model(get_problem(config.problem), config.model)
    load_weights(model, config.init, where_they_fit=config.init_where_it_fits)


def test_presets_are_listed_with_a_line_each() -> None:
    assert list(presets()) == sorted(presets())
    assert {"atsp-20", "pmsp-20", "navigation-20", "paper-atsp-20", "paper-pmsp-20"} <= presets().keys()
    assert presets()["atsp-20"] == "ATSP with 20 cities, minutes on one GPU."
    assert all(20 < len(words) < 120 and not words.startswith("#") for words in presets().values())
    assert len(set(presets().values())) == len(presets())


def test_paper_presets_are_the_paper() -> None:
    config = preset("paper-atsp-20")
    network = config.model.network
    assert (network.encoder, network.denoiser, network.norm) == ("dual", "gated", "batch")
    assert (network.encoder_layers, network.denoiser_layers, config.model.diffusion.steps) == (3, 3, 10)
    assert (config.cloning.prd, config.cloning.cst, config.cloning.drafts) == (1e-3, 1e-6, 0)
    assert config.targets.from_improvement
    assert config.memory.reward_weighted
    assert config.improvement.until > 1
    assert config.optimizer.learning_rate == 4e-4
    assert not network.rich_relations
    assert not network.relations_in_denoiser
    larger = preset("paper-pmsp-50")  # through two others
    assert (larger.problem, larger.sizes[0], larger.cloning.batch) == ("pmsp", (50, 3), 512)
    assert (larger.model.network.encoder_layers, larger.model.diffusion.steps) == (5, 15)
    assert larger.improvement.sampling.steps == 15
    assert larger.cloning.prd == 1e-3


def test_pmsp_goes_on_where_pmsp_20_ended() -> None:
    small, large = preset("pmsp-20"), preset("pmsp")
    assert large.init == "pmsp"
    assert large.memory == small.memory
    assert (small.targets.sampling.temperature, large.targets.sampling.temperature) == (2.0, 1.5)
    assert large.targets.sampling.reverse == small.targets.sampling.reverse == "independent"


def test_a_file_extends_a_preset_or_a_file_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "base.toml").write_text('extends = "pmsp-20"\nseed = 4\n[cloning]\nbatch = 8\n')
    (folder / "shop.toml").write_text('extends = "base.toml"\nsizes = [[5, 2]]\n[cloning]\nsteps_last = 3\n')
    config = preset(str(folder / "shop.toml"))
    assert (config.problem, config.seed, config.sizes) == ("pmsp", 4, ((5, 2),))
    assert (config.cloning.batch, config.cloning.steps_last, config.cloning.drafts) == (8, 3, 0.0)
    assert config.memory.rounds == 32
    changed = read_settings(str(folder / "shop.toml"), {"cloning": {"vb": 1.0}, "cloning.prd": 0.5})
    assert changed["cloning"] == {"batch": 8, "steps_last": 3, "drafts": 0.0, "vb": 1.0, "prd": 0.5}


def test_what_cannot_be_extended_is_named(tmp_path: Path) -> None:
    for name, text in (("a", 'extends = "b.toml"'), ("b", 'extends = "a.toml"'), ("c", 'extends = "c.toml"')):
        (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(UsageError, match=r"circle: a.toml → b.toml → a.toml"):
        read_settings(str(tmp_path / "a.toml"))
    with pytest.raises(UsageError, match=r"circle: c.toml → c.toml"):
        read_settings(str(tmp_path / "c.toml"))
    (tmp_path / "d.toml").write_text('extends = "nothing"')
    with pytest.raises(UsageError, match="unknown preset 'nothing'; choose atsp, "):
        read_settings(str(tmp_path / "d.toml"))
    (tmp_path / "e.toml").write_text('extends = "gone.toml"')
    with pytest.raises(InputError, match=r"cannot read .*gone.toml"):
        read_settings(str(tmp_path / "e.toml"))
    (tmp_path / "f.toml").write_text("extends = 3")
    with pytest.raises(UsageError, match="'extends' must be"):
        read_settings(str(tmp_path / "f.toml"))


def test_unknown_and_unreadable_sources(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown preset"):
        load_config("nothing")
    with pytest.raises(InputError, match="cannot read"):
        load_config(str(tmp_path / "missing.toml"))
    (tmp_path / "broken.toml").write_text("a = [")
    with pytest.raises(InputError, match="not valid TOML"):
        load_config(str(tmp_path / "broken.toml"))
    with pytest.raises(UsageError, match="unknown method 'guessing'; choose icdc or matnet"):
        load_config("atsp-20", {"method": "guessing"})


def test_overrides() -> None:
    assert parse_override("cloning.batch=8") == ("cloning.batch", 8)
    assert parse_override("problem=pmsp") == ("problem", "pmsp")
    with pytest.raises(UsageError, match="key=value"):
        parse_override("cloning.batch")
    changes = dict([parse_override("cloning.batch=8"), parse_override("sizes=[[5], [6]]")])
    config = build(TrainingConfig, read_settings("atsp-20", changes))
    assert config.cloning.batch == 8
    assert config.sizes == ((5,), (6,))
    with pytest.raises(UsageError, match=r"'cloning.batch' must be"):
        load_config("atsp-20", {"cloning.batch.x": 3})


def test_a_configuration_is_changed_as_a_preset_is() -> None:
    config = load_config(load_config("matnet-pmsp-20"), {"batch": 8, "optimizer": {"clip": 2.0}})
    assert isinstance(config, MatNetConfig)
    assert (config.batch, config.rollouts, config.optimizer.clip) == (8, 24, 2.0)
    assert config.optimizer.learning_rate == 4e-4


def test_a_file_does_not_decide_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a TOML file, nor one that it extends, nor the state of a run; who trains names the problem."""
    (tmp_path / "intruder.py").write_text("from icdc.problems.atsp import Atsp as Own\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "below.toml").write_text('problem = "intruder:Own"\nsizes = [[4]]\nrounds = 1\n')
    file = tmp_path / "mine.toml"
    file.write_text('extends = "below.toml"\n')
    for run in (load_config, train):
        with pytest.raises(InputError, match="a file does not decide what is imported"):
            run(str(file))
    assert load_config(str(file), {"problem": "atsp"}).problem == "atsp"

    own = load_config(str(file), {"problem": "intruder:Own"})
    save_state(tmp_path, own, dict.fromkeys(PARTS))
    with pytest.raises(InputError, match="a file does not decide what is imported"):
        train(load_config(str(file), {"problem": "atsp"}), out=tmp_path, resume=True, device="cpu")
    assert "intruder" not in sys.modules
    with pytest.raises(InputError, match="the saved state does not fit"):  # it has nothing but the names of its parts
        train(own, out=tmp_path, resume=True, device="cpu")
    assert "intruder" in sys.modules
