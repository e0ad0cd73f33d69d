"""Training runs: they learn, they repeat, they survive being killed, and processes agree."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from icdc.baselines.heuristics import RandomSolver
from icdc.errors import DivergedError, InputError, UsageError
from icdc.models.diffusion import load
from icdc.settings import build
from icdc.solving.network import DiffusionSolver
from icdc.training import Progress, Trainer, TrainingConfig
from icdc.training.checkpoint import METRICS, MODEL, STATE, load_state, save_state

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
    return build(TrainingConfig, {**values, **settings})


def test_a_round_is_algorithm_1() -> None:
    """Draw, make targets, IMPROVEMENT while its weight lasts, CLONING ever more often, the average last."""
    config = small(
        "pmsp", [4, 2], rounds=8, improvement={"weight": 2.0, "until": 0.5}, cloning={"steps_first": 1, "steps_last": 5}
    )
    trainer = Trainer(config, device="cpu")
    trainer.set_up()
    (steps,) = trainer.steps
    done: list[str] = []
    trainer.graphs.run = lambda step: done.append(step.__name__)  # type: ignore[method-assign]
    trainer.weights.update_average = lambda rounds, statistics: done.append(f"average {rounds}")  # type: ignore[method-assign]
    trainer.round(0, 0.0)
    assert done == ["draw", "make_targets", "improve", "clone", "average 1"]
    assert float(steps.improvement_weight) == 2.0
    done.clear()
    trainer.round(3, 0.25)
    assert done == ["draw", "make_targets", "improve", "clone", "clone", "average 4"]
    assert float(steps.improvement_weight) == 1.0
    assert float(trainer.weights.rate) == pytest.approx(config.optimizer.rate_at(3, 0.25))
    done.clear()
    trainer.round(7, 1.0)
    assert done == ["draw", "make_targets", *["clone"] * 5, "average 8"]


def test_the_papers_round_stores_what_improvement_samples() -> None:
    config = small(
        "pmsp", [4, 2], rounds=8, targets={"from_improvement": True, "instances": 4}, improvement={"until": 2.0}
    )
    trainer = Trainer(config, device="cpu")
    trainer.set_up()
    done: list[str] = []
    trainer.graphs.run = lambda step: done.append(step.__name__)  # type: ignore[method-assign]
    trainer.round(7, 0.9)
    assert done == ["draw", "improve", *["clone"] * 6]


def test_a_callback_stops_a_run_with_its_state_saved(tmp_path: Path) -> None:
    seen: list[Progress] = []

    def second(progress: Progress) -> bool:
        seen.append(progress)
        return progress.round == 2

    trainer = Trainer(small("pmsp", [4, 2], rounds=5), device="cpu", out=tmp_path)
    model = trainer.run(second, every=0.0)
    assert [progress.round for progress in seen] == [1, 2]
    assert [progress.fraction for progress in seen] == pytest.approx([0.2, 0.4])
    assert model.card["training"]["rounds"] == trainer.rounds_done == 2
    assert load_state(tmp_path, TrainingConfig)[1]["round"] == 2


def test_one_function_trains_every_method(tmp_path: Path) -> None:
    """As the command line: presets of any method, nested and dotted settings, a configuration as it is."""
    import icdc
    from icdc.baselines.matnet import MatNet

    network = {"width": 32, "heads": 4, "layers": 1, "one_hots": 8}
    model = icdc.train("matnet-pmsp-20", sizes=[[5, 2]], rounds=1, batch=8, network=network, device="cpu")
    assert isinstance(model, MatNet)
    assert model.card["settings"]["network"]["feed_forward"] == 512
    assert model.card["settings"]["rollouts"] == 24
    config = small("pmsp", [4, 2], rounds=5)
    model = icdc.train(config, rounds=1, cloning={"batch": 8}, out=tmp_path, device="cpu", **{"optimizer.clip": 0.5})
    settings = model.card["settings"]
    assert (settings["cloning"]["batch"], settings["cloning"]["steps_last"]) == (8, 6)
    assert (settings["optimizer"]["clip"], settings["optimizer"]["average"]) == (0.5, 0.9)
    assert (tmp_path / MODEL).is_file()


def test_weights_to_begin_with_that_are_not_there() -> None:
    with pytest.raises(UsageError, match=r"no weights to begin with.*nowhere.safetensors"):
        Trainer(small("pmsp", [4, 2], init="nowhere.safetensors"), device="cpu").run()


def test_training_from_nothing_beats_chance_by_far() -> None:
    """From random weights, one decode of one trajectory gets well under a random solution's cost."""
    model = Trainer(small("atsp", [6], rounds=15), device="cpu").run()
    problem = model.problem
    arrays = problem.sample(64, (6,), np.random.default_rng(5))
    solver = DiffusionSolver(model, steps=4, keep="last", decodes=1, device="cpu")
    random = RandomSolver().solve(problem, arrays, samples=1).cost.mean()
    assert solver.solve(problem, arrays, samples=1).cost.mean() < 0.8 * random


def test_the_papers_alternation_runs() -> None:
    """Samples of IMPROVEMENT as targets, α-mixture with the prior, exp(R) weights, all three cloning losses."""
    config = small(
        "pmsp", [6, 3], rounds=4,
        targets={"instances": 16, "trajectories": 4, "from_improvement": True},
        memory={"rounds": 8, "reward_weighted": True, "mixture": 0.5},
        cloning={"batch": 64, "steps_first": 6, "steps_last": 6, "vb": 1.0, "prd": 1e-3, "cst": 1e-6,
                 "drafts": 0.0},
        improvement={"weight": 1.0, "until": 2.0, "normalise": False, "per_trajectory": False,
                     "sampling": {"steps": 4, "decodes": 2}},
    )  # fmt: skip
    seen: list[Progress] = []
    trainer = Trainer(config, device="cpu")
    trainer.run(seen.append)
    memory = trainer.steps[0].memory
    assert int(memory.stored) == 4 * 16 * 8 * 2  # as many from the prior as generated
    assert all(np.isfinite(seen[-1].metrics[name]) for name in ("loss", "improvement"))


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


def test_a_large_state_is_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing takes no more than its share of the time, however slow the disk is."""
    monkeypatch.setattr("icdc.training.loop.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("icdc.training.loop.CHECKPOINT_SHARE", 1e-3)
    written = 0

    def slowly(*arguments: Any) -> None:
        nonlocal written
        written += 1
        time.sleep(0.05)

    monkeypatch.setattr("icdc.training.loop.save_state", slowly)
    Trainer(small("pmsp", [4, 2], rounds=6), device="cpu", out=tmp_path).run()
    assert written == 3  # before and after the first round, and in the end: the next was due after 50 seconds


def test_a_seed_repeats_itself() -> None:
    runs = [Trainer(small("atsp", [4], rounds=2, seed=7), device="cpu").run() for _ in range(2)]
    first, second = (list(model.network.parameters()) for model in runs)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    other = Trainer(small("atsp", [4], rounds=2, seed=8), device="cpu").run()
    assert not torch.equal(first[0], next(other.network.parameters()))


def test_a_resumed_run_ends_like_an_unbroken_one(
    tmp_path: Path, stop_before: Callable[[Any, int], None], assert_same_weights: Callable[[Any, Any], None]
) -> None:
    """Stop after two of four rounds, resume: the same weights as without the stop, and one log."""
    config = small("atsp", [4], rounds=4)
    whole = Trainer(config, device="cpu", out=tmp_path / "whole").run()

    stop_before(Trainer(config, device="cpu", out=tmp_path / "broken"), 2)
    resumed = Trainer(config, device="cpu", out=tmp_path / "broken", resume=True).run()
    assert_same_weights(whole, resumed)
    lines = [json.loads(line) for line in (tmp_path / "broken" / METRICS).read_text().splitlines()]
    assert [line["round"] for line in lines] == sorted({line["round"] for line in lines})
    assert load(tmp_path / "broken" / MODEL).card["sizes"] == [[4]]


def test_resuming_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run to resume"):
        Trainer(small("atsp", [5]), device="cpu", out=tmp_path, resume=True).run()
    (tmp_path / STATE).write_bytes(b"not a state")
    with pytest.raises(InputError, match="not a readable training state"):
        load_state(tmp_path, TrainingConfig)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence wherever the disk fills, also where torch ends the file that it could not finish."""
    whole = {"numbers": torch.zeros(1000)}
    save_state(tmp_path, TrainingConfig(), whole)
    size = (tmp_path / STATE).stat().st_size
    (tmp_path / STATE).unlink()

    class FullDisk(io.BytesIO):
        room = 0

        def write(self, data: Any) -> int:
            if self.tell() + len(data) > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

        def fileno(self) -> int:
            raise AssertionError("nothing was written")

    monkeypatch.setattr("builtins.open", lambda *arguments, **options: FullDisk())
    for FullDisk.room in range(0, size, 97):
        with pytest.raises(InputError, match=r"state\.pt: cannot be written \(No space left on device\)"):
            save_state(tmp_path, TrainingConfig(), whole)
    assert not list(tmp_path.iterdir())


def test_a_state_without_its_parts_is_refused(tmp_path: Path) -> None:
    config = small("atsp", [4], rounds=1)
    Trainer(config, device="cpu", out=tmp_path).run()
    state = torch.load(tmp_path / STATE, weights_only=True)

    def refusal(changed: dict[str, Any]) -> str:
        torch.save(changed, tmp_path / STATE)
        with pytest.raises(InputError) as refused:
            Trainer(config, device="cpu", out=tmp_path, resume=True).run()
        return str(refused.value)

    for name in state.keys() - {"extra"}:
        words = "not a readable training state" if name == "config" else f"not a whole training state: it lacks {name}"
        assert words in refusal({key: value for key, value in state.items() if key != name})
    for name, value in (
        ("network", {}), ("average", 3), ("optimizer", {}), ("draws", "x"), ("memories", []), ("memories", [{}]),
        ("generators", ["("]), ("generators", ["{}"]), ("extra", "{"),
    ):  # fmt: skip
        assert "does not fit the run" in refusal({**state, name: value})


def test_a_size_that_does_not_fit_the_problem() -> None:
    with pytest.raises(UsageError, match="jobs, machines"):
        Trainer(small("pmsp", [5]), device="cpu").run()


KILLED = """
import sys, torch
torch.set_num_threads(1)
import icdc.training.loop as run
run.CHECKPOINT_SECONDS = 0.0
from icdc.training import Trainer, TrainingConfig
from icdc.settings import build
from pathlib import Path
import json
Trainer(build(TrainingConfig, json.loads(sys.argv[1])), device="cpu", out=Path(sys.argv[2])).run()
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
        while not (folder / MODEL).exists() and time.monotonic() < deadline:  # written after the first round
            time.sleep(0.005)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        restored, state = load_state(folder, TrainingConfig)
        assert restored == config
        load(folder / MODEL)
        rounds = int(state["round"])
        assert rounds >= 1
        resumed = Trainer(config, device="cpu", out=folder, resume=True)
        resumed.set_up(state)
        resumed.round(rounds, 0.5)
        assert all(torch.isfinite(p).all() for p in resumed.weights.parameters)


def test_instances_sampled_on_the_host_train_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem without a generator on the device is sampled by NumPy, with the same steps after it."""
    from icdc.problems.pmsp import Pmsp

    class HostOnly(Pmsp):
        def sample_on_device(self, size, noise):  # type: ignore[no-untyped-def]
            return None

    monkeypatch.setattr(Trainer, "find_problem", lambda self: HostOnly())
    trainer = Trainer(small("pmsp", [5, 2], rounds=2), device="cpu")
    trainer.set_up()
    (steps,) = trainer.steps
    assert steps.draw not in steps.recordable()
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
    monkeypatch.setattr("icdc.training.loop.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("icdc.training.loop.CHECKPOINT_SHARE", 1e9)
    trainer = Trainer(small("pmsp", [4, 2], rounds=6), device="cpu", out=tmp_path)

    def poison(progress: Progress) -> None:
        if progress.round == 3:
            with torch.no_grad():
                next(iter(trainer.weights.model.network.parameters())).fill_(torch.nan)

    with pytest.raises(DivergedError, match=r"before round 3.*learning_rate"):
        trainer.run(poison, every=0.0)
    model = load(tmp_path / MODEL, "cpu")
    assert model.card["training"]["rounds"] == 2
    assert all(bool(p.isfinite().all()) for p in model.network.parameters())
