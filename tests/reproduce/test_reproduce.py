"""Every table and figure runs, on tiny models and one instance; nothing is invented, nothing is run twice."""

import csv
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from icdc import reproduce as package
from icdc.baselines.published import published, published_cost, published_generalisation
from icdc.errors import UsageError
from icdc.model import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.reproduce import TARGETS, models, reproduce
from icdc.reproduce.ablations import TRAINING
from icdc.reproduce.gaps import plain_gap
from icdc.reproduce.methods import train_commands
from icdc.reproduce.rows import Measured, Row
from icdc.reproduce.session import LEFT_OUT, NOT_TRAINED, Session
from icdc.reproduce.wording import how, settled
from icdc.reproduce.writing import as_csv, read_csv
from icdc.solving import DiffusionSolver
from icdc.training.config import parse_override, presets, read_settings

TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
FIGURES = {"generalisation", "sampling-steps", "training-comparison", "ablations"}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny models in place of the shipped ones."""
    folder = tmp_path / "models"
    for name, sizes in (("atsp-20", [[20]]), ("pmsp-20", [[20, 3], [20, 5]]), ("navigation-20", [[20]])):
        save(folder / f"{name}.safetensors", name, sizes)
    for module in ("icdc.model", "icdc.reproduce.session"):
        monkeypatch.setattr(f"{module}.models_folder", lambda: folder)
    return folder


def save(path: Path, name: str, sizes: list[list[int]], seed: int = 0) -> None:
    torch.manual_seed(seed)
    training = {"seconds": 1.0, "hardware": "nothing", "seed": seed}
    card = {"sizes": sizes, "training": training}
    Model(get_problem(name.split("-")[0]), ModelConfig(network=TINY), card=card).save(path)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("name", TARGETS)
def test_every_target_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # population searches and exact solvers have tests of their own
    quick_ones = {"sjf": "shortest job first", "nn": "nearest neighbour", "patching": "patching", "random": "random"}
    problems = {"pmsp": ("sjf",), "atsp": ("nn", "patching"), "navigation": ("random",)}
    classical = {problem: {key: quick_ones[key] for key in keys} for problem, keys in problems.items()}
    monkeypatch.setattr("icdc.reproduce.methods.CLASSICAL", classical)
    out = tmp_path / "out"
    files = reproduce(name, out, quick=True, limit=1, runs=tmp_path / "runs", device="cpu")
    endings = [".md", ".csv", ".png", ".svg"] if name in FIGURES else [".md", ".csv"]
    assert [path.suffix for path in files] == endings
    assert all(path.stat().st_size > 100 for path in files)
    page = files[0].read_text()
    assert "its numbers mean nothing" in page
    assert "seed 0" in page
    assert f"icdc reproduce {name} --quick" in page
    with files[1].open() as file:
        rows = list(csv.DictReader(file))
    assert len({(row["dataset"], row["method"], row["samples"], row["model"]) for row in rows}) == len(rows)
    ran = [row for row in rows if row["cost"]]
    missing = [row for row in rows if not row["cost"]]
    assert ran
    assert missing
    for row in ran:
        assert row["feasible"] == "100.0"
        assert row["instances"] == "1"
        assert int(row["below"]) == 0
    for row in missing:
        assert row["note"] == NOT_TRAINED
        assert row["gap"] == row["seconds"] == ""
        assert row["train"].split(" && ")[-1] in page


def test_tables_use_the_model_that_solving_takes(shipped: Path) -> None:
    """The mixed model at 50, once it ships; where none knows the size, the command that trains one."""
    assert models.chosen("pmsp-20x4") == "pmsp-20"
    assert models.chosen("atsp-50") == "atsp"
    save(shipped / "atsp.safetensors", "atsp", [[10], [100]])
    save(shipped / "pmsp.safetensors", "pmsp", [[10, 2], [60, 6]])
    assert models.chosen("atsp-50") == "atsp"
    assert models.chosen("pmsp-50x5") == "pmsp"
    assert models.chosen("pmsp-20x4") == "pmsp-20"
    for path in shipped.glob("pmsp*"):
        path.unlink()
    assert models.chosen("pmsp-20x4") == "pmsp"


def test_without_the_small_models_the_mixed_ones_answer(shipped: Path, tmp_path: Path) -> None:
    from icdc.outcomes import OutcomeFile

    save(shipped / "pmsp.safetensors", "pmsp", [[10, 2], [60, 6]])
    session = Session(OutcomeFile(tmp_path / "o.jsonl"), quick=True, runs=tmp_path)
    assert models.small_or_chosen(session, "pmsp-20x3") == "pmsp-20"
    (shipped / "pmsp-20.safetensors").unlink()
    assert models.small_or_chosen(session, "pmsp-20x3") == "pmsp"


@pytest.mark.parametrize("name", ["pmsp-table", "generalisation"])
def test_mixed_models_take_their_rows(
    name: str, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icdc.reproduce.methods.CLASSICAL", {"pmsp": {}, "atsp": {}})
    (shipped / "pmsp-20.safetensors").unlink()
    save(shipped / "atsp.safetensors", "atsp", [[10], [100]])
    save(shipped / "pmsp.safetensors", "pmsp", [[20, 3], [60, 6]])
    _, table, *_ = reproduce(name, tmp_path, quick=True, limit=1, runs=tmp_path / "runs", device="cpu")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["model"] for row in rows if row["cost"]} == {"pmsp"} | (
        {"atsp", "atsp-20"} if name == "generalisation" else set()
    )
    mixed = [row for row in rows if row["model"] == "pmsp" and row["dataset"] == "pmsp-50x5"]
    assert {row["solver"].partition(" ")[0] for row in mixed} >= {"icdc", "icdc:refine=3"}
    assert all(row["cost"] for row in mixed)


def test_how_a_model_was_run_follows_its_card() -> None:
    card = {
        "sizes": [[10], [50]],
        "settings": {"model": {"diffusion": {"steps": 10}}},
        "solving": [{"size": [20], "samples": 8, "options": {"reverse": "independent", "temperature": 2.0}}],
    }
    advice = "10 steps, independent, rule order, temperature 2, decodes 8, refined 3×"

    def said(size: int, refine: int = 0, **given: Any) -> str:
        solver = DiffusionSolver(refine=refine, **given)
        return how(settled(solver, get_problem("atsp"), (size,), 8, card), refine)

    assert said(20, refine=3) == advice
    assert said(60).startswith("10 steps, fresh")
    assert said(20, keep="last", any_start=False, decodes=1).endswith("decodes 1, last sample alone, from row 0")
    assert said(100, steps=5).startswith("5 steps")


@pytest.mark.usefixtures("shipped")
def test_rows_survive_the_table(tmp_path: Path) -> None:
    from icdc.outcomes import OutcomeFile

    session = Session(OutcomeFile(tmp_path / "o.jsonl"), quick=True, limit=2, runs=tmp_path, device="cpu")
    rows = [
        Row("atsp-20", "ours, fast", "icdc:steps=2", 2, "atsp-20", "icdc train a\nicdc train b", paper=0.5),
        Row("atsp-20", "nearest", "nn"),
        Row("atsp-20", "another", "icdc", 2, "nowhere"),
    ]
    measured = session.measure(rows)
    assert read_csv(as_csv(measured)) == measured[:2]


def test_published_gaps_as_plain_ones() -> None:
    cost, optimum = 1.37, 1.1
    symmetric = 200 * (cost - optimum) / (cost + optimum)
    assert plain_gap(symmetric) == pytest.approx(100 * (cost - optimum) / optimum)


@pytest.mark.usefixtures("shipped")
def test_a_second_run_measures_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = reproduce("navigation-table", tmp_path, quick=True, limit=1, runs=tmp_path / "runs", device="cpu")
    table = first[1].read_text()

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr("icdc.evaluation._run", refuse)
    again = reproduce("navigation-table", tmp_path, quick=True, limit=1, runs=tmp_path / "runs", device="cpu")
    assert again[1].read_text() == table


@pytest.mark.usefixtures("shipped")
def test_other_numbers_of_samples_take_the_place_of_the_paper_s(tmp_path: Path) -> None:
    page, table = reproduce(
        "navigation-table", tmp_path, limit=1, counts=(1, 3), runs=tmp_path, device="cpu", only="learned"
    )
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["samples"] for row in rows} == {"1", "3"}
    assert "`icdc reproduce navigation-table --limit 1 --samples 1,3`" in page.read_text()


@pytest.mark.usefixtures("shipped")
def test_tables_of_a_folder_share_what_was_measured(tmp_path: Path) -> None:
    from icdc.outcomes import OutcomeFile

    row = Row("atsp-20", "nearest", "nn")
    store = OutcomeFile(tmp_path / "o.jsonl")
    (first,) = Session(store, quick=True).measure([row])
    (second,) = Session(OutcomeFile(store.path), quick=True).measure([Row("atsp-20", "in another table", "nn")])
    assert first.summary == second.summary
    assert len(store.path.read_text().splitlines()) == 2


@pytest.mark.usefixtures("shipped")
def test_one_part_is_measured_beside_what_is_known_of_the_other(tmp_path: Path) -> None:
    """Models on one machine, the other solvers on another, and the table has both in the end."""
    from icdc.outcomes import OutcomeFile

    rows = [Row("atsp-20", "nearest", "nn"), Row("atsp-20", "ours", "icdc:steps=2,decodes=1", 1, "atsp-20")]

    def notes(**options: Any) -> list[str]:
        store = OutcomeFile(tmp_path / "o.jsonl")
        measured = Session(store, quick=True, limit=2, device="cpu", **options).measure(rows)
        assert [m.summary is None for m in measured] == [bool(m.note) for m in measured]
        return [m.note for m in measured]

    assert notes(only="learned") == [LEFT_OUT, ""]
    assert notes(only="classical") == ["", ""]
    assert notes(only="learned") == ["", ""]
    assert len((tmp_path / "o.jsonl").read_text().splitlines()) == 4


def test_models_of_runs_join_and_are_measured_again_when_trained_again(shipped: Path, tmp_path: Path) -> None:
    """A row waits for its model; another model under the same name is another solver."""
    from icdc.outcomes import OutcomeFile

    runs, store = tmp_path / "runs", OutcomeFile(tmp_path / "o.jsonl")
    session = Session(store, quick=True, limit=1, runs=runs, device="cpu")
    row = Row("atsp-20", "m", "icdc:steps=2,decodes=1", 1, "sl-atsp-20", "icdc train sl-atsp-20", paper=4.179)
    (before,) = session.measure([row])
    assert before.summary is None
    assert before.note == NOT_TRAINED
    for seed in (0, 1):
        save(runs / "sl-atsp-20" / "model.safetensors", "atsp-20", [[20]], seed)
        (after,) = session.measure([row])
        assert after.summary is not None
    assert session.used == {"sl-atsp-20"}
    assert len(store.path.read_text().splitlines()) == 2


@pytest.mark.usefixtures("shipped")
def test_solvers_that_cannot_run_are_listed_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from icdc.errors import MissingExtraError
    from icdc.outcomes import OutcomeFile

    def missing(spec: str, **options: Any) -> None:
        raise MissingExtraError("this needs pip install 'icdc[lkh]'")

    monkeypatch.setattr("icdc.reproduce.session.make_solver", missing)
    session = Session(OutcomeFile(tmp_path / "o.jsonl"), quick=True)
    rows = session.measure([Row("atsp-20", "LKH-3", "lkh", paper=1.758)])
    assert "pip install" in rows[0].note
    line = next(iter(csv.DictReader(as_csv(rows).splitlines())))
    assert line["paper_symmetric_gap"] == "1.758"
    assert line["gap"] == ""


@pytest.mark.parametrize("head", ["sl", "rl", "slrl", "paper-sl", "paper-rl", "paper-slrl"])
@pytest.mark.parametrize("size", ["atsp-20", "atsp-50", "pmsp-20x4", "pmsp-50x3"])
def test_training_commands_are_commands(head: str, size: str) -> None:
    """Presets exist, and settings are accepted."""
    from icdc.training.config import load_config

    commands = [shlex.split(command) for command in train_commands(head, size).splitlines()]
    assert commands[-1][1] == "train"
    for words in commands:
        if words[1] == "train":
            settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
            config = load_config(words[2], dict(map(parse_override, settings)))
            assert "x".join(map(str, config.sizes[0])) == size.split("-")[1]
    trained = [words for words in commands if words[1] == "train"]
    assert len(trained) == (2 if "slrl" in head else 1)
    assert ("generate" in commands[0]) is ("sl" in head)


def test_other_training_commands_are_commands() -> None:
    from icdc.training.config import load_config

    for model in ("atsp-20", "pmsp-20"):
        for settings in TRAINING.values():
            load_config(model, dict(map(parse_override, settings)))
    for name in ("matnet-atsp-20", "matnet-atsp-50", "matnet-pmsp-20", "matnet-pmsp-50", "matnet-navigation-20"):
        if name in presets():
            assert read_settings(name)["method"] == "matnet"


def test_published_figures() -> None:
    assert published("atsp-20", "matnet", 8) == 0.078
    assert published("pmsp-50x5", "rl", 128) == 78.435
    assert published("atsp-50", "slrl", 128) == 7.964
    assert published("atsp-50", "slrl", 8) is None
    assert published_generalisation("atsp-30", "icdc") == 3.733
    assert published_generalisation("atsp-20", "sl") == 13.438
    assert published_generalisation("atsp-100", "icdc") is None
    assert published_cost("navigation-20", "icdc", 64) == 1.56
    assert published_cost("atsp-20", "icdc", 64) is None


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown table or figure"):
        reproduce("table-7", tmp_path)
    assert package.__doc__


def test_rows_without_a_measurement_have_no_gap() -> None:
    assert Measured(Row("atsp-20", "m", "nn")).gap is None
