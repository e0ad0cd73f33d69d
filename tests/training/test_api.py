"""Presets on a CPU: sizes that fit, memory that is planned, limits that hold within a round, a state from the start."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import icdc as package
from icdc.baselines.matnet.reinforce import kept_numbers
from icdc.errors import InputError, UsageError
from icdc.machine import available_memory
from icdc.networks import NetworkConfig
from icdc.training import batches, presets
from icdc.training.api import CPU_SETTINGS, load_config, make_trainer, settings_for, settings_for_cpu
from icdc.training.batches import batch_sizes, kept_bytes, memory_needed
from icdc.training.checkpoint import STATE, load_state
from icdc.training.config import TrainingConfig

TINY: dict[str, Any] = {
    "sizes": [[5]],
    "targets": {"instances": 2, "trajectories": 2},
    "cloning": {"batch": 2, "steps_first": 1, "steps_last": 1},
    "model": {"network": {"width": 16, "heads": 2, "edge_width": 4, "encoder_layers": 1, "denoiser_layers": 1}},
}


def kept_by(step: Callable[[], Any], parameters: Any) -> int:
    """Return the bytes that a forward pass keeps for its backward pass, weights not counted."""
    seen = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    kept: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in seen:
            seen.add(tensor.untyped_storage().data_ptr())
            kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return sum(tensor.untyped_storage().nbytes() for tensor in kept)


@pytest.mark.parametrize(
    ("preset", "size"),
    [("atsp-20", [12]), ("atsp-20", [24]), ("pmsp-20", [20, 4]), ("paper-atsp-20", [20]), ("navigation-20", [10])],
)
def test_what_a_network_keeps_is_known_before(preset: str, size: list[int]) -> None:
    settings: dict[str, Any] = {"targets": {"instances": 2}, "cloning": {"batch": 2}, "init": ""}
    config = load_config(preset, {**settings, "sizes": [size]})
    assert isinstance(config, TrainingConfig)
    trainer = make_trainer(config, device="cpu")
    trainer.set_up()
    (steps,) = trainer.steps
    if config.makes_targets:
        steps.make_targets()  # type: ignore[attr-defined]
    else:
        steps.improve()  # type: ignore[attr-defined]
    noise = trainer.weights.noise(2)
    items = steps.memory.draw(noise)  # type: ignore[attr-defined]
    measured = kept_by(lambda: steps.clone_loss(items, noise), trainer.weights.parameters) / 2  # type: ignore[attr-defined]
    estimate = kept_bytes(config.model.network, *trainer.problem.shape(tuple(size)))
    assert 0.9 < estimate / measured < 1.5


@pytest.mark.parametrize(("preset", "size"), [("matnet-atsp-20", [12]), ("matnet-pmsp-20", [12, 4])])
def test_what_matnet_keeps_is_known_before(preset: str, size: list[int]) -> None:
    config = load_config(preset, {"sizes": [size], "batch": 2})
    trainer = make_trainer(config, device="cpu")
    trainer.set_up()
    (steps,) = trainer.steps
    measured = kept_by(steps.learn, trainer.weights.parameters) / 2  # type: ignore[attr-defined]
    problem = trainer.problem
    same = problem.feature_sizes.same_items
    rows, columns = problem.shape(tuple(size))
    estimate = 4 * kept_numbers(config.network, rows, columns, steps.rollouts, same)  # type: ignore[attr-defined]
    assert 0.9 < estimate / measured < 1.5


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_fits_a_small_machine(name: str) -> None:
    """No preset takes more than 4 GiB on a CPU, and every change is named."""
    config, words = settings_for(name, device="cpu")
    assert settings_for_cpu(config) == {}
    assert words is None or words.startswith("on this CPU: ")
    assert config.problem == load_config(name).problem
    assert config.time_limit == load_config(name).time_limit
    trainer = make_trainer(config, device="cpu")
    trainer.problem = package.get_problem(config.problem)
    assert trainer.memory_needed()[0] < 4 * 2**30


def test_what_was_asked_for_stays() -> None:
    plain, words = settings_for("atsp-20", {}, "cpu")
    assert isinstance(plain, TrainingConfig)
    assert (plain.targets.instances, plain.cloning.batch, plain.most_cells) == (8, 16, CPU_SETTINGS["most_cells"])
    assert words is not None
    assert "targets.instances 8 instead of 512" in words
    assert "\n" not in words
    asked, words = settings_for("atsp-20", {"cloning.batch": 64, "targets": {"instances": 48}}, "cpu")
    assert isinstance(asked, TrainingConfig)
    assert (asked.targets.instances, asked.cloning.batch, asked.targets.trajectories) == (48, 64, 2)
    assert words is not None
    assert "cloning.batch" not in words
    own = load_config("atsp-20")
    assert settings_for(own, {}, "cpu") == (own, None)


def test_files_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "atsp-20"\n')
    config, words = settings_for(str(path), {}, "cpu")
    assert isinstance(config, TrainingConfig)
    assert (config.cloning.batch, words) == (512, None)


def test_python_hears_of_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        package.train("atsp-20", rounds=1, sizes=[[5]], model=TINY["model"], device="cpu")
    assert "on this CPU: targets.instances 8 instead of 512" in caplog.text


def test_a_run_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config("atsp-20", {"sizes": [[2000]]})
    assert isinstance(config, TrainingConfig)
    monkeypatch.setattr(batches, "available_memory", lambda: 10 * 2**30)
    with pytest.raises(UsageError, match=r"needs about [\d.]+ GiB of memory, and 10.0 GiB are free: choose a smaller"):
        make_trainer(config, device="cpu").run()
    with pytest.raises(UsageError, match="batch or rollouts"):
        make_trainer(load_config("matnet-atsp-20", {"batch": 10**6}), device="cpu").run()
    assert memory_needed(config, package.get_problem("atsp")) > 2**40
    monkeypatch.setattr(batches, "available_memory", lambda: None)
    batches.check_memory(2**60, "nothing")  # a system that does not say


def test_the_plan_knows_where_memory_goes() -> None:
    """The published preset of tours as it is: IMPROVEMENT keeps all trajectories, and that is most of it."""
    atsp, config = package.get_problem("atsp"), load_config("atsp-20")
    assert isinstance(config, TrainingConfig)
    each = kept_bytes(config.model.network, 20, 20)
    assert memory_needed(config, atsp) > 1.5 * 2048 * each
    without = load_config("atsp-20", {"improvement.weight": 0.0})
    assert isinstance(without, TrainingConfig)
    assert 1.5 * 512 * each < memory_needed(without, atsp) < 1.5 * 1000 * each
    halved = load_config("atsp-20", {"most_cells": 256 * 400})
    assert isinstance(halved, TrainingConfig)
    assert 0.4 < memory_needed(halved, atsp) / memory_needed(config, atsp) < 0.6


def test_batches_fit_the_memory_that_a_run_may_take() -> None:
    """Cut to it where they would take more, never to nothing; entries limit them as well."""
    config = load_config("atsp-families", {"most_memory": 4.0})
    assert isinstance(config, TrainingConfig)
    for cities, seen in ((20, 20), (100, 100), (1000, 16)):
        instances, batch = batch_sizes(config, cities, cities)
        each = kept_bytes(config.model.network, cities, cities)
        assert 1 <= batch <= 512
        assert batch == 1 or 1.5 * batch * each <= 4 * 2**30 < 1.5 * (batch + 1) * each or batch == 512
        assert instances * cities * seen <= config.most_cells
    tiny = load_config(config, {"most_memory": 1e-6})
    assert isinstance(tiny, TrainingConfig)
    assert batch_sizes(tiny, 100, 100) == (1, 1)
    free = load_config(config, {"most_memory": 0.0})
    assert isinstance(free, TrainingConfig)
    assert batch_sizes(free, 20, 20) == (512, 512)
    assert batch_sizes(free, 1000, 1000) == (20, 20)


def test_available_memory(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:     2048 kB\n")
    assert available_memory(tmp_path, tmp_path) == 2048 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path, tmp_path) == 2048 * 1024
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_memory(tmp_path, tmp_path) == 600_000


def test_the_time_limit_holds_within_a_round() -> None:
    """A round that would take minutes ends with the limit, even in its first step."""
    network = NetworkConfig(width=64, heads=4, edge_width=32, encoder_layers=1, denoiser_layers=2)
    for slow in (
        {"targets": {"instances": 32, "trajectories": 8}},
        {"cloning": {"steps_first": 10**6, "steps_last": 10**6}},
    ):
        settings = {**TINY, "sizes": [[10]], "model": {"network": vars(network)}, **slow, "time_limit": 0.3}
        config = load_config("atsp-20", {"cloning": {"batch": 8}, **settings})
        began = time.process_time()  # the machine may have other work
        trainer = make_trainer(config, device="cpu")
        trainer.run()
        assert trainer.rounds_done == 1
        assert time.process_time() - began < 5.0


def test_there_is_something_to_resume_from_the_first_second_on(tmp_path: Path) -> None:
    """kill -9 within the first round: the state is there, and a resumed run ends like one that was not killed."""
    options = ["--set=sizes=[[5]]", "--set=targets.instances=2", "--set=cloning.batch=2", "--rounds=2"]
    options += [f"--set=model.network.{name}={value}" for name, value in TINY["model"]["network"].items()]
    hang = "import sys; from icdc.cli import run; from icdc.training.algorithm import Trainer; import time; "
    hang += "Trainer.round = lambda *_: time.sleep(60); sys.exit(run(sys.argv[1:]))"
    command = ["train", "atsp-20", "--device", "cpu", *options, "--out", str(tmp_path / "killed")]
    with subprocess.Popen([sys.executable, "-c", hang, *command], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "killed" / STATE).exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    resumed = package.train("atsp-20", out=tmp_path / "killed", resume=True, device="cpu")
    settings = json.loads(json.dumps(resumed.card["settings"]))
    whole = make_trainer(load_config("atsp-20", settings), device="cpu").run()
    for one, other in zip(resumed.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    heard = []

    def second(progress: Any) -> None:
        with pytest.raises(UsageError, match="in use"):
            package.train("atsp-20", out=tmp_path, rounds=1, device="cpu", **TINY)
        heard.append(progress.round)

    package.train("atsp-20", out=tmp_path, rounds=1, device="cpu", callback=second, **TINY)
    assert heard == [1]


def test_a_broken_state_is_a_sentence_without_advice(tmp_path: Path) -> None:
    (tmp_path / STATE).write_bytes(b"\x80\x04nothing of ours")
    with pytest.raises(InputError, match="is not a readable training state") as error:
        load_state(tmp_path, TrainingConfig)
    assert "weights_only" not in str(error.value)
    torch.save({"config": "{"}, tmp_path / STATE)
    with pytest.raises(InputError, match="is not a readable training state"):
        load_state(tmp_path, TrainingConfig)


def test_training_leaves_torch_alone() -> None:
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    package.train("atsp-20", rounds=1, device="cpu", **TINY)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
