"""Training runs: they learn, they repeat, they survive being killed, and processes agree."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from icdc.errors import DivergedError, InputError, UsageError
from icdc.model import load
from icdc.problems import get_problem
from icdc.solving import DiffusionSolver
from icdc.training import Progress, Trainer
from icdc.training.checkpoint import METRICS, MODEL, STATE, load_state
from icdc.training.config import TrainingConfig, config_from

NETWORK = {"width": 32, "heads": 4, "edge_width": 16, "encoder_layers": 1, "denoiser_layers": 2}


def small(problem: str, size: list[int], **settings: Any) -> TrainingConfig:
    """Return a run that takes seconds on one core."""
    values: dict[str, Any] = {
        "problem": problem,
        "sizes": [size],
        "model": {"network": NETWORK, "diffusion": {"steps": 8}},
        "targets": {"instances": 32, "trajectories": 2, "sampling": {"steps": 4, "decodes": 2}, "refine_decodes": 2},
        "cloning": {"batch": 64, "steps_first": 6, "steps_last": 6},
        "improvement": {"sampling": {"steps": 4, "decodes": 4}},
        "optimizer": {"learning_rate": 2e-3, "warmup_rounds": 5, "average": 0.9},
    }
    return config_from({**values, **settings})


def random_mean(problem_name: str, size: tuple[int, ...]) -> float:
    from icdc.baselines.random import RandomSolver

    problem = get_problem(problem_name)
    arrays = problem.sample(64, size, np.random.default_rng(5))
    return float(RandomSolver().solve(problem, arrays, samples=1).cost.mean())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("atsp", (8,)), ("pmsp", (8, 3)), ("navigation", (7,))])
def test_training_from_nothing_beats_chance_by_far(name: str, size: tuple[int, ...]) -> None:
    """From random weights, one decode of one trajectory gets well under a random solution's cost."""
    model = Trainer(small(name, list(size), rounds=60), device="cpu").run()
    problem = model.problem
    arrays = problem.sample(64, size, np.random.default_rng(5))
    solver = DiffusionSolver(model, steps=4, keep="last", device="cpu")
    cost = solver.solve(problem, arrays, samples=1).cost.mean()
    assert cost < 0.72 * random_mean(name, size)


def test_the_papers_alternation_runs_and_learns() -> None:
    """Samples of IMPROVEMENT as targets, α-mixture with the prior, exp(R) weights, all three cloning losses."""
    config = small(
        "pmsp", [6, 3], rounds=30,
        targets={"instances": 16, "trajectories": 4, "from_improvement": True},
        memory={"rounds": 8, "reward_weighted": True, "mixture": 0.5},
        cloning={"batch": 64, "steps_first": 6, "steps_last": 6, "vb": 1.0, "prd": 1e-3, "cst": 1e-6,
                 "decoder": 0.0, "drafts": 0.0},
        improvement={"weight": 1.0, "until": 2.0, "normalise": False, "per_trajectory": False,
                     "sampling": {"steps": 4, "decodes": 2}},
    )  # fmt: skip
    seen: list[Progress] = []
    trainer = Trainer(config, device="cpu")
    trainer.run(seen.append)
    memory = trainer.steps[0].memory
    assert int(memory.stored) == 30 * 16 * 8 * 2  # as many from the prior as generated
    assert seen[-1].metrics["improvement"] < 1.02 * random_mean("pmsp", (6, 3))


def test_sizes_take_turns_and_larger_instances_come_in_smaller_batches() -> None:
    """A size that is named twice gets two turns of the same steps; a batch has at most so many matrix entries."""
    config = small("atsp", [5], rounds=7, sizes=[[5], [8], [5]], most_cells=500)
    trainer = Trainer(config, device="cpu")
    model = trainer.run()
    five, eight = trainer.steps
    assert (five.count, five.batch) == (20, 20)  # 500 / 25
    assert (eight.count, eight.batch) == (7, 7)  # 500 / 64
    assert (int(five.memory.stored), int(eight.memory.stored)) == (5 * 20, 2 * 7)  # rounds 1 3 4 6 7, and 2 5
    assert model.card["sizes"] == [[5], [8]]


def test_a_new_model_decodes_often_where_that_is_cheap() -> None:
    """Schedules are decoded many times from every pass, tours as by default; inside the sizes it was trained on."""
    schedules = Trainer(small("pmsp", [5, 2], rounds=1), device="cpu").run()
    tours = Trainer(small("atsp", [5], rounds=1), device="cpu").run()
    solver = DiffusionSolver()
    assert solver.options_for(schedules, (5, 2), 4).decodes == 128
    assert solver.options_for(tours, (5,), 4).decodes == 8
    assert "solving" not in tours.card


def test_solutions_that_tie_are_all_targets() -> None:
    """Every trajectory gives a target, and each costs as little as the best of its instance."""
    config = small("pmsp", [6, 3], rounds=1)
    trainer = Trainer(replace(config, targets=replace(config.targets, trajectories=4, ties=True)), device="cpu")
    trainer.run()
    (steps,) = trainer.steps
    assert int(steps.memory.stored) == 4 * steps.count
    stored = steps.memory.rings["choice"][: 4 * steps.count].view(steps.count, 4, 6)
    cost = steps.task.cost(stored)
    assert bool((cost == cost[:, :1]).all())
    assert torch.equal(-cost.flatten().float(), steps.memory.rings["reward"][: 4 * steps.count])
    assert len({tuple(row) for row in stored[0].tolist()} | {tuple(row) for row in stored[1].tolist()}) > 2
    assert int((steps.memory.rings["draft"][: 4 * steps.count] != stored.flatten(0, 1)).sum()) > 0


def test_a_large_state_is_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing takes no more than its share of the time, however slow the disk is."""
    monkeypatch.setattr("icdc.training.run.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("icdc.training.run.CHECKPOINT_SHARE", 1e-3)
    written = 0

    def slowly(*arguments: Any) -> None:
        nonlocal written
        written += 1
        time.sleep(0.05)

    monkeypatch.setattr("icdc.training.run.save_state", slowly)
    Trainer(small("pmsp", [4, 2], rounds=6), device="cpu", out=tmp_path).run()
    assert written == 2  # after the first round, and in the end: the next would have been due after 50 seconds


def test_a_seed_repeats_itself() -> None:
    runs = [Trainer(small("atsp", [5], rounds=3, seed=7), device="cpu").run() for _ in range(2)]
    first, second = (list(model.network.parameters()) for model in runs)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    other = Trainer(small("atsp", [5], rounds=3, seed=8), device="cpu").run()
    assert not torch.equal(first[0], next(other.network.parameters()))


def test_a_resumed_run_ends_like_an_unbroken_one(
    tmp_path: Path, stop_before: Callable[[Any, int], None], assert_same_weights: Callable[[Any, Any], None]
) -> None:
    """Stop after three of six rounds, resume: the same weights as without the stop, and one log."""
    config = small("atsp", [5], rounds=6)
    whole = Trainer(config, device="cpu", out=tmp_path / "whole").run()

    stop_before(Trainer(config, device="cpu", out=tmp_path / "broken"), 3)
    resumed = Trainer(config, device="cpu", out=tmp_path / "broken", resume=True).run()
    assert_same_weights(whole, resumed)
    lines = [json.loads(line) for line in (tmp_path / "broken" / METRICS).read_text().splitlines()]
    assert [line["round"] for line in lines] == sorted({line["round"] for line in lines})
    assert load(tmp_path / "broken" / MODEL).card["sizes"] == [[5]]


def test_resuming_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run to resume"):
        Trainer(small("atsp", [5]), device="cpu", out=tmp_path, resume=True).run()
    (tmp_path / STATE).write_bytes(b"not a state")
    with pytest.raises(InputError, match="not a readable training state"):
        load_state(tmp_path, TrainingConfig)


def test_a_size_that_does_not_fit_the_problem() -> None:
    with pytest.raises(UsageError, match="jobs, machines"):
        Trainer(small("pmsp", [5]), device="cpu").run()


KILLED = """
import sys, torch
torch.set_num_threads(1)
import icdc.training.run as run
run.CHECKPOINT_SECONDS = 0.0
from icdc.training import Trainer
from icdc.training.config import config_from
from pathlib import Path
import json
Trainer(config_from(json.loads(sys.argv[1])), device="cpu", out=Path(sys.argv[2])).run()
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_state_to_resume(tmp_path: Path) -> None:
    """kill -9 while checkpoints are being written all the time; what is on disk always loads and goes on."""
    from dataclasses import asdict

    config = small("pmsp", [5, 2], rounds=4000)
    for attempt, delay in enumerate((0.0, 0.03, 0.11)):
        folder = tmp_path / str(attempt)
        process = subprocess.Popen([sys.executable, "-c", KILLED, json.dumps(asdict(config)), str(folder)])
        deadline = time.monotonic() + 60
        while not (folder / STATE).exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        restored, state = load_state(folder, TrainingConfig)
        assert restored == config
        load(folder / MODEL) if (folder / MODEL).exists() else None
        rounds = int(state["round"])
        assert rounds >= 1
        resumed = Trainer(config, device="cpu", out=folder, resume=True)
        resumed._set_up(state)
        resumed._round(rounds, 0.5)
        assert all(torch.isfinite(p).all() for p in resumed.learner.parameters)


def test_instances_sampled_on_the_host_train_too() -> None:
    """A problem without a generator on the device is sampled by NumPy, with the same steps after it."""
    from icdc.problems import Pmsp
    from icdc.training.distributed import Ranks
    from icdc.training.learner import Learner
    from icdc.training.steps import Steps

    class HostOnly(Pmsp):
        def sample_on_device(self, size, noise):  # type: ignore[no-untyped-def]
            return None

    config = small("pmsp", [5, 2], rounds=2)
    steps = Steps(Learner(HostOnly(), config, torch.device("cpu"), Ranks()), (5, 2))
    assert not steps.on_device
    before = steps.instances["durations"].clone()
    steps.draw()
    assert not torch.equal(before, steps.instances["durations"])
    steps.make_targets()
    steps.clone()
    assert int(steps.memory.stored) == 32


def test_mixed_sizes_take_turns() -> None:
    config = small("pmsp", [5, 2], rounds=4, sizes=[[5, 2], [4, 3]])
    trainer = Trainer(config, device="cpu")
    trainer.run()
    assert [int(steps.memory.stored) for steps in trainer.steps] == [64, 64]


def test_a_run_that_diverges_stops_and_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icdc.training.run.REPORT_SECONDS", 0.0)
    monkeypatch.setattr("icdc.training.run.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("icdc.training.run.CHECKPOINT_SHARE", 1e9)
    trainer = Trainer(small("pmsp", [4, 2], rounds=6), device="cpu", out=tmp_path)

    def poison(progress: Progress) -> None:
        if progress.round == 3:
            with torch.no_grad():
                next(iter(trainer.learner.model.network.parameters())).fill_(torch.nan)

    with pytest.raises(DivergedError, match=r"before round 3.*learning_rate"):
        trainer.run(poison)
    model = load(tmp_path / MODEL, "cpu")
    assert model.card["training"]["rounds"] == 2
    assert all(bool(p.isfinite().all()) for p in model.network.parameters())
