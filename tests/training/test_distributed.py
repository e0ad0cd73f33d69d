"""Two processes of half a batch each do what one process does with the whole batch."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = """
import os, sys, json, torch
torch.set_num_threads(1)
from icdc.noise import Noise, fold
from icdc.problems import get_problem
from icdc.training.config import config_from
from icdc.training.distributed import join_processes
from icdc.training.learner import Learner
from icdc.training.steps import Steps
from icdc.training import Trainer

config = config_from(json.loads(sys.argv[1]))
ranks = join_processes(torch.device("cpu"))
learner = Learner(get_problem(config.problem), config, torch.device("cpu"), ranks)
steps = Steps(learner, config.sizes[0])
learner.draws.fill_(100)
steps.draw()
noise = learner.noise(steps.count)
from icdc.decoding import random_choice
choice = random_choice(steps.task.rule, (steps.task.rows, steps.task.columns), noise)
items = steps._targets(steps.problem.features(steps.instances), choice, 1)
learner.update(steps.clone_loss(items, learner.noise(len(choice))))
if ranks.leads:
    torch.save([p.detach() for p in learner.parameters], sys.argv[2])
if len(sys.argv) > 3:
    seen = []
    Trainer(config, device="cpu").run(lambda p: seen.append(p.metrics))
    if ranks.leads:
        torch.save(seen[-1], sys.argv[3])
if ranks.world > 1:
    torch.distributed.destroy_process_group()
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
