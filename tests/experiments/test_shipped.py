"""The command that trains what ships: jobs, their settings, calls that go on from one another, what is brought back."""

import argparse
import csv
import json
import time
from pathlib import Path

import pytest
import torch

from experiments.training import packing
from experiments.training import shipped as train_shipped
from experiments.training.shipped import JOBS, config_of, gather, main, plan_again, settings_of
from icdc.errors import UsageError
from icdc.models.diffusion import Model
from icdc.problems import get_problem
from icdc.training import Trainer, load_config
from icdc.training.checkpoint import METRICS, STATE
from icdc.training.validation import References, size_name

TINY = (
    "model.network.width=8", "model.network.heads=2", "model.network.edge_width=4", "model.network.encoder_layers=1",
    "model.network.denoiser_layers=1", "targets.instances=2", "targets.trajectories=1", "cloning.batch=2",
    "cloning.steps_first=1", "cloning.steps_last=1", "targets.sampling.steps=2", "targets.sampling.decodes=1",
    "targets.refine_rounds=0", "memory.rounds=1", "sizes=[[4, 2]]", 'families=["paper", "speeds"]',
    "validation.instances=2", "validation.every=1", "init=",
)  # fmt: skip
SETTINGS = [part for change in TINY for part in ("--set", change)]


def arguments(**values: object) -> argparse.Namespace:
    return argparse.Namespace(**{"set": [], **values})


@pytest.mark.parametrize("job", JOBS)
def test_every_job_is_a_run_whose_references_are_here(job: str) -> None:
    """All families and sizes that are validated: nobody searches for minutes on the machine that trains."""
    config = config_of(job, arguments())
    assert not config.memory.saved
    known, problem = References().shipped, get_problem(config.problem)
    for family in set(config.families):
        assert family in problem.families
        for size in set(config.sizes):
            found = [key for key in known if key.startswith(f"{config.problem}/{family}/{size_name(size)}/")]
            assert len(found) == 1, (family, size)
            assert int(found[0].split("/")[-1]) == len(known[found[0]]) <= config.validation.instances


def test_all_models_together_are_small_enough_to_ship(tmp_path: Path) -> None:
    """20 MB in all; the packed state of each is two pieces, so that three jobs and two tables are eight files."""
    total = 0
    for job, preset in JOBS.items():
        config = load_config(preset)
        model = Model(get_problem(config.problem), config.model)  # type: ignore[attr-defined]
        model.save(tmp_path / f"{job}.safetensors")
        total += (tmp_path / f"{job}.safetensors").stat().st_size
        parameters = list(model.network.parameters())
        moments = {n: {"exp_avg": p.data, "exp_avg_sq": p.data} for n, p in enumerate(parameters)}
        weights = model.network.state_dict()
        (tmp_path / job).mkdir()
        torch.save({"network": weights, "average": weights, "optimizer": {"state": moments}}, tmp_path / job / STATE)
        pieces = packing.pack(tmp_path, [tmp_path / job], tmp_path, job)
        assert len(pieces) == 2
        assert max(piece.stat().st_size for piece in pieces) < 16 * 2**20
    assert total < 20e6


def test_settings_are_for_all_jobs_or_for_one() -> None:
    changes = ["cloning.batch=8", "tours:cloning.batch=4", "tours:sizes=[[5]]", "init=a:b"]
    assert settings_of("tours", changes) == {"cloning.batch": 4, "sizes": [[5]], "init": "a:b"}
    assert settings_of("schedules", changes) == {"cloning.batch": 8, "init": "a:b"}
    assert main(["--jobs", "tours,knapsacks"]) == UsageError.exit_code


def test_a_call_trains_packs_and_the_next_goes_on_elsewhere(tmp_path: Path) -> None:
    """The first in a process of its own; the second, as that process does it, from the packed state alone."""
    asked = ["--jobs", "schedules", "--device", "cpu", "--minutes", "2", *SETTINGS]
    first, begin = tmp_path / "first", ["--calls-left", "2", "--set", "rounds=2", "--state", str(tmp_path / "state")]
    assert main([*asked, *begin, "--out", str(first)]) == 0
    assert {path.name for path in first.iterdir()} == {"schedules.00", METRICS, "gaps.csv"}
    rows = list(csv.DictReader((first / "gaps.csv").read_text().splitlines()))
    assert [(row["job"], row["size"], row["family"], row["round"]) for row in rows] == [
        ("schedules", "4x2", "paper", "2"), ("schedules", "4x2", "speeds", "2"),
    ]  # fmt: skip
    lines = [json.loads(line) for line in (first / METRICS).read_text().splitlines()]
    assert {line["job"] for line in lines} == {"schedules"}
    again = tmp_path / "again"
    packing.unpack(first, again, "schedules")
    state = torch.load(again / "schedules" / STATE, weights_only=True)
    state["config"] = json.dumps({**json.loads(state["config"]), "rounds": 4})
    torch.save(state, again / "schedules" / STATE)
    second = ["--state", str(again), "--out", str(tmp_path / "second"), "--run", "schedules"]
    assert main([*asked, *second, "--began", str(time.time())]) == 0
    assert torch.load(again / "schedules" / STATE, weights_only=True)["round"] == 4


def test_schedules_end_with_the_last_call(tmp_path: Path) -> None:
    config = load_config("pmsp-families", settings_of("schedules", TINY) | {"validation.every": 0, "mixture.most": 1})
    trainer = Trainer(config, device="cpu", out=tmp_path)  # type: ignore[arg-type]
    trainer.run(lambda progress: True, every=0.0)
    done = trainer.seconds
    plan_again(tmp_path, 100.0)
    resumed = Trainer(config, device="cpu", out=tmp_path, resume=True)  # type: ignore[arg-type]
    resumed.run(lambda progress: True, every=0.0)
    assert resumed.config.time_limit == pytest.approx(done + 100.0, abs=0.5)


def test_a_run_is_over_at_its_time() -> None:
    over = train_shipped.watch(time.time() + 1000)
    assert not over(None)
    assert train_shipped.watch(time.time() - 1)(None)


def test_lines_that_are_being_written_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "tours").mkdir()
    (tmp_path / "tours" / METRICS).write_text('{"round": 1, "seconds": 2.0}\n{"round": 2, "sec')
    gather(["tours", "schedules"], tmp_path, tmp_path)
    assert json.loads((tmp_path / METRICS).read_text()) == {"job": "tours", "round": 1, "seconds": 2.0}
    assert (tmp_path / "gaps.csv").read_text().splitlines() == [",".join(train_shipped.COLUMNS)]
