"""The weights: their average, their update, and two processes that do what one does with the whole batch."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems.pmsp import Pmsp
from icdc.training.config import OptimizerConfig
from icdc.training.weights import Ranks, Weights

CPU = torch.device("cpu")


def weights_of(norm: str = "layer", **optimizer: float) -> Weights[Model]:
    network = NetworkConfig(
        width=8, heads=1, edge_width=4, encoder_layers=1, denoiser_layers=1, encoder="dual", denoiser="gated",
        norm=norm,  # type: ignore[arg-type]
    )  # fmt: skip
    config = OptimizerConfig(**optimizer)  # type: ignore[arg-type]
    return Weights(lambda: Model(Pmsp(), ModelConfig(network)), config, 0, CPU, Ranks())


def fill(model: Model, value: float) -> None:
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.fill_(value)


def test_the_average_moves_towards_the_weights_and_slows_down() -> None:
    """Of the old average 1/10 stays after the first round, r/(9 + r) after r of them, and at most `average`."""
    weights = weights_of(average=0.9)
    for rounds, kept in ((1, 0.1), (3, 0.25), (81, 0.9), (1000, 0.9)):
        fill(weights.model, 1.0)
        fill(weights.average, 0.0)
        weights.update_average(rounds)
        for parameter in weights.average.network.parameters():
            assert torch.allclose(parameter, torch.full_like(parameter, 1 - kept))
    assert all(bool((p == 1.0).all()) for p in weights.model.network.parameters())


def test_the_average_has_the_statistics_of_batch_normalisation() -> None:
    weights = weights_of(norm="batch")
    means = [(name, b) for name, b in weights.model.network.named_buffers() if name.endswith("running_mean")]
    assert means
    for _, buffer in means:
        buffer.fill_(3.0)
    weights.update_average(5)
    copied = dict(weights.average.network.named_buffers())
    assert all(torch.equal(copied[name], buffer) for name, buffer in means)


def test_an_update_descends_at_the_rate_that_is_set() -> None:
    """Adam's first step is the learning rate against the sign of the gradient; parts of a loss add up."""
    for parts in (1, 3):
        weights = weights_of(weight_decay=0.0)
        before = [p.detach().clone() for p in weights.parameters]
        weights.set_rate(1e-3)
        loss = sum((p.sum() for p in weights.parameters), torch.zeros(()))
        weights.update(loss if parts == 1 else (sum(p.sum() for p in weights.parameters) / 3 for _ in range(3)))
        for old, new in zip(before, weights.parameters, strict=True):
            assert torch.allclose(old - new, torch.full_like(old, 1e-3), atol=1e-5)


def test_no_clipping_at_all() -> None:
    weights = weights_of(clip=0.0)
    weights.update(sum((100.0 * p.sum() for p in weights.parameters), torch.zeros(())))
    assert all(bool((p.grad == 100.0).all()) for p in weights.parameters if p.grad is not None)


def test_large_gradients_are_clipped() -> None:
    weights = weights_of(clip=0.5)
    weights.update(sum((100.0 * p.sum() for p in weights.parameters), torch.zeros(())))
    norm = torch.stack([p.grad.norm() for p in weights.parameters if p.grad is not None]).norm()
    assert float(norm) == pytest.approx(0.5, rel=1e-4)


def test_every_use_of_noise_is_fresh_and_depends_on_the_seed_alone() -> None:
    one, same = weights_of(), weights_of()
    first, second = one.noise(3).keys, one.noise(3).keys
    assert not torch.equal(first, second)
    assert torch.equal(same.noise(3).keys, first)


SCRIPT = """
import os, sys, json, torch
torch.set_num_threads(1)
from icdc.problems.decoding import random_choice
from icdc.training import Trainer, TrainingConfig
from icdc.settings import build
from icdc.training.weights import leave_processes

config = build(TrainingConfig, json.loads(sys.argv[1]))
trainer = Trainer(config, device="cpu")
trainer.set_up()
weights, ranks, steps = trainer.weights, trainer.ranks, trainer.steps[0]
weights.draws.fill_(100)
steps.draw()
features, task = steps.task()
choice = random_choice(task.rule, (task.rows, task.columns), weights.noise(steps.count))
items = steps.targets_of(features, choice)
weights.update(steps.clone_loss(items, weights.noise(len(choice))))
if ranks.leads:
    torch.save([p.detach() for p in weights.parameters], sys.argv[2])
if len(sys.argv) > 3:
    seen = []
    Trainer(config, device="cpu").run(lambda p: seen.append(p.metrics))
    if ranks.leads:
        torch.save(seen[-1], sys.argv[3])
if ranks.world > 1:
    torch.distributed.barrier()  # the first one keeps what all look up; leaving early, it lets others abort
    leave_processes()
    tasks = "/proc/self/task"
    names = [open(f"{tasks}/{task}/comm").read() for task in os.listdir(tasks)] if os.path.exists(tasks) else []
    assert not any("gloo" in name for name in names), names  # an interpreter that ends beside them may abort
"""

CONFIG = {
    "problem": "pmsp",
    "sizes": [[6, 3]],
    "rounds": 25,
    "model": {"network": {"width": 32, "heads": 4, "edge_width": 16, "encoder_layers": 1, "denoiser_layers": 2}},
    "targets": {"instances": 32, "trajectories": 2, "sampling": {"steps": 3, "decodes": 2}},
    "cloning": {"batch": 32, "steps_first": 5, "steps_last": 5},
    "optimizer": {"learning_rate": 2e-3, "warmup_rounds": 1, "clip": 1e9},
    "improvement": {"weight": 0.0},
}


def start(world: int, out: Path, run: Path | None = None) -> None:
    """Run the script in `world` processes, as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SCRIPT, json.dumps(CONFIG), str(out), *([str(run)] if run else [])]
    processes = []
    for rank in range(world):
        environment = {
            **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        processes.append(subprocess.Popen(command, env=environment))
    assert [process.wait(timeout=240) for process in processes] == [0] * world


@pytest.mark.slow
def test_two_ranks_of_half_a_batch_equal_one_of_the_whole(tmp_path: Path) -> None:
    """The same instances, noise and targets, split: the step they take together is the same; a run learns."""
    start(1, tmp_path / "one.pt")
    start(2, tmp_path / "two.pt", tmp_path / "metrics.pt")
    one, two = torch.load(tmp_path / "one.pt"), torch.load(tmp_path / "two.pt")
    for a, b in zip(one, two, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    metrics = torch.load(tmp_path / "metrics.pt")
    assert metrics["loss"] < 0.75
