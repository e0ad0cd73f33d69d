"""Variants side by side: every one of them is a valid run, curves are gathered, and packed states go on elsewhere."""

import csv
from pathlib import Path

import pytest
import torch

from experiments.training import packing, side_by_side
from experiments.training.side_by_side import choose, main, solved
from experiments.training.variants import GROUPS
from icdc.errors import InputError, UsageError
from icdc.io.datasets import STANDARD_SETS
from icdc.training import load_config

TINY = (
    "sizes=[[5]]", "model.network.width=8", "model.network.encoder_layers=1", "model.network.denoiser_layers=1",
    "model.network.identifiers=8", "cloning.batch=4", "cloning.steps_first=1", "cloning.steps_last=1",
    "targets.instances=2", "memory.rounds=2",
)  # fmt: skip


def lines(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize("group", GROUPS)
def test_every_variant_is_a_run_of_its_test_sets_size(group: str) -> None:
    variants = choose(group)
    assert len({variant.name for variant in variants}) == len(variants)
    seen = {}
    for variant in variants:
        config = load_config(variant.preset, variant.settings)
        spec = STANDARD_SETS[variant.data]
        assert (config.problem, config.sizes) == (spec.problem, (tuple(spec.size),)), variant.name
        key = repr(config)
        assert key not in seen, f"{variant.name} is the same as {seen[key]}"
        seen[key] = variant.name


def test_variants_are_chosen_by_name() -> None:
    names = [variant.name for variant in choose("cause")]
    assert [variant.name for variant in choose("cause", only=f"{names[2]},{names[0]}")] == [names[2], names[0]]
    assert [variant.name for variant in choose("cause", leave_out=names[0])] == names[1:]
    with pytest.raises(UsageError, match="unknown variant 'other'; choose atsp-20-preset"):
        choose("cause", only="other")
    assert main(["cause", "--only", "other", "--out", "nowhere"]) == UsageError.exit_code


def test_a_run_is_validated_packed_and_goes_on(tmp_path: Path) -> None:
    """A process of its own trains; its curve is gathered; a second call adds to it from the packed state."""
    name = "atsp-20-onehot"
    settings = [f"--set={change}" for change in TINY]
    asked = ["cause", "--only", name, "--seconds", "0.2", "--schedule", "60", "--every", "0.1", "--device", "cpu"]
    asked += ["--count", "4", "--samples", "1,2", *settings]
    first = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "first"), "--keep", name]
    assert main([*asked, *first]) == 0
    found = lines(tmp_path / "first" / "curves.csv")
    assert found, (tmp_path / "first" / "logs.json").read_text()
    assert {(line["weights"], line["way"], line["samples"]) for line in found} == {
        (weights, "last", count) for weights in ("average", "current") for count in "12"
    }
    assert all(float(line["gap"]) >= 0 and line["effective"] for line in found)
    summary = lines(tmp_path / "first" / "summary.csv")
    assert summary == found[-len(summary) :]
    # the second call in this process, as its worker does it
    packing.unpack(tmp_path / "first", tmp_path / "other")
    second = ["--work", str(tmp_path / "other"), "--out", str(tmp_path / "second"), "--run", name]
    assert main([*asked, *second, "--resume", str(tmp_path / "first"), "--began", "9e9"]) == 0
    curve = lines(tmp_path / "other" / name / "curve.csv")
    assert curve[: len(found)] == found
    assert int(curve[-1]["round"]) > int(found[-1]["round"])


def test_validation_instances_have_proven_optima_and_are_no_test_set() -> None:
    for problem, size in (("atsp", (5,)), ("pmsp", (4, 2))):
        dataset = solved(problem, size, 3)
        assert dataset.reference is not None
        assert bool((dataset.reference >= dataset.problem.lower_bound(dataset.arrays) - 1e-9).all())
    assert side_by_side.VALIDATION_SEED not in {spec.seed for spec in STANDARD_SETS.values()}


def test_pieces_become_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights to the bit, moments to the digits of bfloat16; a run that is not there is left out."""
    monkeypatch.setattr(packing, "PIECE", 1500)
    folder = tmp_path / "work" / "one"
    folder.mkdir(parents=True)
    moment = torch.tensor([1.0, 3.14159265])
    state = {"network": moment, "optimizer": {"state": {0: {"exp_avg": moment, "step": torch.tensor(7.0)}}}}
    torch.save(state, folder / "state.pt")
    (folder / "curve.csv").write_text("a,b")
    pieces = packing.pack(tmp_path / "work", [folder, tmp_path / "work" / "two"], tmp_path)
    assert len(pieces) > 2
    assert all(piece.stat().st_size <= 1500 for piece in pieces)
    packing.unpack(tmp_path, tmp_path / "again")
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["one"]
    assert (tmp_path / "again" / "one" / "curve.csv").read_text() == "a,b"
    again = torch.load(tmp_path / "again" / "one" / "state.pt", weights_only=True)
    assert torch.equal(again["network"], moment)
    kept = again["optimizer"]["state"][0]
    assert (kept["exp_avg"].dtype, float(kept["step"])) == (torch.bfloat16, 7.0)
    assert torch.allclose(kept["exp_avg"].float(), moment, rtol=0.01)
    with pytest.raises(InputError, match="no packed runs"):
        packing.unpack(tmp_path / "again", tmp_path)
