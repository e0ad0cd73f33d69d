"""`icdc train` and `icdc finetune`: presets are listed and started; a model for a dataset or files of your own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.io.datasets import fingerprint, read_dataset
from icdc.models.catalogue import card_of
from icdc.problems import get_problem
from icdc.training import presets

TINY = {
    "model.network.width": 16,
    "model.network.heads": 2,
    "model.network.edge_width": 4,
    "model.network.encoder_layers": 1,
    "model.network.denoiser_layers": 1,
    "targets.instances": 4,
    "targets.trajectories": 2,
    "cloning.batch": 4,
    "sizes": [[5, 2]],
}


def settings(**changes: Any) -> list[str]:
    values = {**TINY, **changes}
    return [part for name, value in values.items() for part in ("--set", f"{name}={json.dumps(value)}")]


def test_without_a_preset_they_are_listed(icdc: Any) -> None:
    ran = icdc("train")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines] == list(presets())
    assert all(line.endswith(words) for line, words in zip(lines, presets().values(), strict=True))


def test_an_unknown_preset_names_those_there_are(icdc: Any) -> None:
    ran = icdc("train", "nothing")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown preset 'nothing'; choose atsp, atsp-20, " in ran.err


def test_a_run_says_what_it_did(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = icdc("train", "pmsp-20", *settings(), "--rounds", 2, "--device", "cpu")
    assert ran.code == 0, ran.err
    assert ran.out == "runs/pmsp-20/model.safetensors\n"
    said = ran.err.splitlines()[-1]
    assert said.startswith("trained for ")
    assert " s (rounds: 2); wrote the model runs/pmsp-20/model.safetensors and its metrics " in said
    assert "100.0 %" in ran.err
    again = icdc("train", "pmsp-20", *settings(), "--rounds", 2)
    assert again.code == 2
    assert "give --resume" in again.err
    resumed = icdc("train", "pmsp-20", "--resume", "--device", "cpu")
    assert resumed.code == 0, resumed.err


def test_the_preset_of_many_schedules_starts_from_a_fresh_clone(
    icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first weights ship; the folder one stands in holds nothing."""
    monkeypatch.chdir(tmp_path)
    small = ["--set", "sizes=[[5, 2]]", "--set", "targets.instances=2", "--set", "cloning.batch=2"]
    small += ["--set", "targets.trajectories=1", "--set", "cloning.steps_first=1", "--set", "cloning.steps_last=1"]
    ran = icdc("train", "pmsp", *small, "--rounds", 1, "--device", "cpu", "--out", "run")
    assert ran.code == 0, ran.err


def test_what_must_come_first_is_said(icdc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = icdc("train", "slrl-atsp-20", "--rounds", 1, "--device", "cpu")
    assert ran.code == 2
    assert "no weights to begin with" in ran.err
    assert "runs/sl-atsp-20/model.safetensors" in ran.err
    ran = icdc("train", "sl-atsp-20", "--rounds", 1, "--device", "cpu")
    assert ran.code == 3
    assert "make them with: icdc generate atsp" in ran.err


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "shops.npz"
    np.savez(path, problem="pmsp", **get_problem("pmsp").sample(10, (6, 3), np.random.default_rng(1)))
    return path


def test_a_model_is_written_and_solves(
    icdc: Any, dataset: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dataset.parent)
    ran = icdc("finetune", models["pmsp"], "shops.npz", "--time-limit", 0.5, "--device", "cpu")
    assert ran.code == 0, ran.err
    assert ran.out == "pmsp-shops.safetensors\n"
    assert "on 2 held-out instances: mean cost " in ran.err
    card = card_of("pmsp-shops.safetensors")
    (record,) = card["finetuning"]
    assert card["sizes"] == [[6, 3]]
    assert record["base"] == str(models["pmsp"])
    assert record["dataset"] == "shops.npz"
    assert record["sha256"] == fingerprint(read_dataset(dataset).arrays)
    assert (record["trained_on"], record["held_out"]) == (8, 2)
    assert record["seconds"] > 0
    kept = {"tuned": "with the fine-tuned weights", "base": "fine-tuning did not help"}[record["kept"]]
    assert kept in ran.err
    options = ("--solver", "network", "--model", "pmsp-shops.safetensors", "--samples", 2, "--json")
    solved = icdc("solve", dataset, *options)
    assert solved.code == 0
    assert {json.loads(line)["model"] for line in solved.out.splitlines()} == {"pmsp-shops.safetensors"}
    again = icdc("finetune", models["pmsp"], "shops.npz", "--time-limit", 0.5)
    assert again.code == 2
    assert "is there already" in again.err


def test_single_files(icdc: Any, shop: Path, tmp_path: Path, models: dict[str, Path]) -> None:
    other = tmp_path / "other.csv"
    other.write_text(shop.read_text().replace(",1", ",2"))
    out = tmp_path / "mine.safetensors"
    ran = icdc("finetune", models["pmsp"], shop, other, "--time-limit", 0.2, "--out", out, "--device", "cpu")
    assert ran.code == 0, ran.err
    assert card_of(out)["finetuning"][0]["dataset"] == "shop.csv and 1 more"


def test_what_does_not_fit_is_refused(icdc: Any, shop: Path, cities: Path, models: dict[str, Path]) -> None:
    short = shop.with_name("short.csv")
    short.write_text("1,2,3\n4,5,6\n")
    for files, extra, code, words in (
        ([shop, short], (), 3, "is of size 2×3"),
        ([shop], (), 3, "at least 2 instances"),
        ([shop.with_name("none.csv")], (), 3, "no such file"),
        ([shop], ("--holdout", 1.5), 2, "hold out"),
        ([shop], ("--out", shop.with_name("nowhere") / "x.safetensors"), 2, "there is no folder"),
        ([shop, shop], ("--problem", "atsp"), 2, "is for"),
    ):
        ran = icdc("finetune", models["pmsp"], *files, "--time-limit", 1, *extra)
        assert ran.code == code, ran.err
        assert words in ran.err
        assert ran.out == ""
    assert icdc("finetune", models["pmsp"], shop, shop, "--time-limit", 0).code == 2
    assert icdc("finetune", "no-such-model", shop, "--time-limit", 1).code == 2
    assert not list(shop.parent.glob("*.safetensors"))
