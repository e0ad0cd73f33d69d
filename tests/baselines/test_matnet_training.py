"""Training a MatNet: it learns, it repeats itself, it resumes, and the command line does it all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from icdc.baselines.heuristics import RandomSolver
from icdc.baselines.matnet import MatNetSolver, load_matnet
from icdc.baselines.matnet.reinforce import MatNetConfig, MatNetSteps, MatNetTrainer
from icdc.cli import run
from icdc.errors import UsageError
from icdc.problems.pmsp import Pmsp
from icdc.settings import build
from icdc.training import load_config, make_trainer
from icdc.training.checkpoint import METRICS, MODEL, read_means

NETWORK = {"width": 32, "heads": 4, "layers": 2, "feed_forward": 64, "mixer_width": 8, "one_hots": 8}


def small(problem: str, size: list[int], **settings: Any) -> MatNetConfig:
    """Return a run that takes seconds on one core."""
    values: dict[str, Any] = {
        "problem": problem,
        "sizes": [size],
        "network": NETWORK,
        "batch": 32,
        "steps": 2,
        "rollouts": 0 if len(size) == 1 else 8,
        "optimizer": {"learning_rate": 2e-3, "warmup_rounds": 5, "average": 0.9},
    }
    return build(MatNetConfig, {**values, **settings})


def steps_of(config: MatNetConfig) -> MatNetSteps:
    """Return the steps of a run that is set up and not begun."""
    trainer = MatNetTrainer(config, device="cpu")
    trainer.set_up()
    return trainer.steps[0]


def test_a_little_training_beats_chance_by_far() -> None:
    """One greedy solution of a network trained from nothing costs much less than a random one."""
    model = MatNetTrainer(small("pmsp", [6, 3], rounds=20), device="cpu").run()
    problem = model.problem
    arrays = problem.sample(128, (6, 3), np.random.default_rng(5))
    random = RandomSolver().solve(problem, arrays, samples=1).cost.mean()
    cost = MatNetSolver(model, decoding="greedy", device="cpu").solve(problem, arrays).cost.mean()
    assert cost < 0.75 * random


def test_a_seed_repeats_itself() -> None:
    runs = [MatNetTrainer(small("atsp", [4], rounds=2, seed=7), device="cpu").run() for _ in range(2)]
    first, second = (list(model.network.parameters()) for model in runs)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    other = MatNetTrainer(small("atsp", [4], rounds=2, seed=8), device="cpu").run()
    assert not torch.equal(first[0], next(other.network.parameters()))


def test_a_resumed_run_ends_like_an_unbroken_one(
    tmp_path: Path, stop_before: Callable[[Any, int], None], assert_same_weights: Callable[[Any, Any], None]
) -> None:
    config = small("pmsp", [4, 2], rounds=4, sizes=[[4, 2], [3, 3]])
    whole = MatNetTrainer(config, device="cpu", out=tmp_path / "whole").run()

    stop_before(MatNetTrainer(config, device="cpu", out=tmp_path / "broken"), 2)
    resumed = MatNetTrainer(config, device="cpu", out=tmp_path / "broken", resume=True).run()
    assert_same_weights(whole, resumed)
    card = load_matnet(tmp_path / "broken" / MODEL, "cpu").card
    assert card["sizes"] == [[3, 3], [4, 2]]
    assert card["settings"]["method"] == "matnet"


def test_a_run_begins_with_the_weights_of_another(
    tmp_path: Path, assert_same_weights: Callable[[Any, Any], None]
) -> None:
    """A learning rate of zero leaves them as they were, but for the half precision of the file."""
    MatNetTrainer(small("atsp", [4], rounds=1), device="cpu", out=tmp_path).run()
    still = {"learning_rate": 0.0, "weight_decay": 0.0}
    config = small("atsp", [4], rounds=1, seed=1, init=str(tmp_path / MODEL), optimizer=still)
    begun = MatNetTrainer(config, device="cpu").run()
    assert_same_weights(load_matnet(tmp_path / MODEL, "cpu"), begun)


def test_steps_make_the_rollouts_of_fixed_instances_cheaper() -> None:
    config = small("pmsp", [4, 2], rounds=1, optimizer={"learning_rate": 5e-3})
    steps = steps_of(config)
    steps.learn()
    before = read_means([steps.metrics])["cost"]
    for _ in range(15):
        steps.learn()
    read_means([steps.metrics])
    steps.learn()
    assert read_means([steps.metrics])["cost"] < 0.97 * before


class NoHostReads(TorchDispatchMode):
    """Refuses every operation whose result the host has to wait for, which no CUDA graph can record."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket._qualified_op_name not in ("aten::_local_scalar_dense", "aten::nonzero"), func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "size"), [("atsp", (5,)), ("pmsp", (4, 3)), ("navigation", (5,))])
def test_a_step_reads_nothing_on_the_host(name: str, size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing, encoding, sampling and the gradient; the optimizer of a GPU is another one than that of a CPU."""
    steps = steps_of(small(name, list(size)))
    monkeypatch.setattr(steps.weights, "update", lambda loss: loss.backward())
    with NoHostReads():
        steps.draw()
        steps.learn()
    assert all(parameter.grad is not None for parameter in steps.weights.parameters)
    with pytest.raises(AssertionError), NoHostReads():
        steps.metrics.totals["cost"][0].item()


def test_instances_sampled_on_the_host_train_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class HostOnly(Pmsp):
        def sample_on_device(self, size, noise):  # type: ignore[no-untyped-def]
            return None

    monkeypatch.setattr("icdc.training.loop.get_problem", lambda name: HostOnly())
    steps = steps_of(small("pmsp", [4, 2], rounds=1))
    assert steps.draw not in steps.recordable()
    before = steps.instances["durations"].clone()
    steps.draw()
    assert not torch.equal(before, steps.instances["durations"])
    steps.learn()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rollouts": 1}, "at least 2"),
        ({"batch": 0}, "'batch' must be at least 1"),
        ({"network": {"width": 30}}, "multiple"),
        ({"network": {"one_hots": 300}}, "one-hot"),
        ({"cloning": {"batch": 3}}, "unknown setting 'cloning'"),
        ({"method": "icdc"}, "method"),
    ],
)
def test_mistakes_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build(MatNetConfig, values)


def test_presets_are_the_published_network() -> None:
    config = load_config("matnet-atsp-20")
    assert isinstance(config, MatNetConfig)
    network = config.network
    assert (network.layers, network.width, network.heads, network.feed_forward, network.clip) == (5, 256, 16, 512, 10.0)
    assert (config.batch, config.rollouts, config.optimizer.learning_rate) == (200, 0, 4e-4)
    assert isinstance(make_trainer(config, device="cpu"), MatNetTrainer)


def test_the_command_line_trains_evaluates_and_solves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [f"network.{name}={value}" for name, value in NETWORK.items()]
    settings += ["batch=8", "steps=1", "rollouts=4", "sizes=[[5, 2]]"]
    options = [part for setting in settings for part in ("--set", setting)]
    out = tmp_path / "run"
    train = ["train", "matnet-pmsp-20", *options, "--rounds", "3", "--out", str(out), "--device", "cpu"]
    assert run(train) == 0
    assert capsys.readouterr().out.strip() == str(out / MODEL)
    line = json.loads((out / METRICS).read_text().splitlines()[-1])
    assert {"round", "seconds", "loss", "cost", "target"} <= line.keys()
    assert run(["train", "matnet-pmsp-20", "--out", str(out), "--resume", "--device", "cpu"]) == 0
    capsys.readouterr()
    shop = tmp_path / "shop.csv"
    shop.write_text("3,4\n5,2\n1,9\n")
    spec = f"matnet:model={out / MODEL},device=cpu"
    assert run(["solve", str(shop), "--problem", "pmsp", "--solver", spec, "--samples", "4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["solver"], answer["feasible"], answer["samples"]) == ("matnet", True, 4)
    assert run(["generate", "pmsp", "--size", "5x2", "--count", "4", "--out", str(tmp_path / "d.npz")]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "d.npz"), "--solver", spec, "--samples", "1,2", "--csv"]) == 0
    assert capsys.readouterr().out.count("matnet") >= 2
