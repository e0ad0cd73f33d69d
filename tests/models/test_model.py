"""The model file, its refusals, and what a model adds to its network."""

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import icdc
from icdc.diffusion.process import DiffusionConfig
from icdc.errors import InputError, UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.models import catalogue as model_module
from icdc.models.catalogue import available, card_of, default_for, shipped
from icdc.models.diffusion import Model, ModelConfig, load, model_config
from icdc.models.file import digest_of, load_weights, pick_device, write_card
from icdc.networks import NetworkConfig
from icdc.problems.atsp import Atsp
from icdc.problems.base import Problem
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.problems.tensors import to_tensors

TINY = ModelConfig(
    NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1),
    DiffusionConfig(7, True),
)
PAPER = ModelConfig(
    NetworkConfig(
        encoder="dual", denoiser="gated", norm="batch", width=16, heads=1, encoder_layers=1, denoiser_layers=1
    )
)


def noise(count: int) -> Noise:
    return Noise(fold(root_key(0), torch.arange(count)))


def log_odds(model: Model, problem: Problem, size: tuple[int, ...]) -> torch.Tensor:
    """Return a prediction for two instances, three trajectories each."""
    task = Task(problem, to_tensors(problem.sample(2, size, np.random.default_rng(0))))
    x = model.diffusion.prior(task.rows, task.columns, task.density, noise(6))
    with torch.no_grad():
        return model.predict(model.encode(model.features(task.instances), noise(2)), task.density)(
            x, torch.full((6,), 3)
        )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small model on disk."""
    path = tmp_path / "small.safetensors"
    Model(Atsp(), TINY, card={"sizes": [[5]], "note": "né"}).save(path)
    return path


@pytest.mark.parametrize(
    ("problem", "size", "config"),
    [(Atsp(), (5,), TINY), (Pmsp(), (4, 3), PAPER), (Navigation(), (4,), TINY), (Pmsp(), (1, 1), TINY)],
)
def test_a_model_comes_back_as_it_was(
    problem: Problem, size: tuple[int, ...], config: ModelConfig, tmp_path: Path
) -> None:
    """Problem, configuration, card and predictions survive the file, up to half precision of the weights."""
    model = Model(problem, config, card={"sizes": [list(size)]})
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.copy_(parameter.half())
    model.network.eval()
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors", "cpu")
    assert type(again.problem) is type(problem)
    assert again.config == config
    assert again.card == model.card
    assert not again.network.training
    assert torch.equal(log_odds(again, problem, size), log_odds(model, problem, size))
    assert again.name.endswith("m.safetensors")


def test_statistics_of_batch_normalisation_are_kept_exactly(tmp_path: Path) -> None:
    """A variance beyond the range of half precision comes back as it was."""
    model = Model(Pmsp(), PAPER)
    norms = [m for m in model.network.modules() if isinstance(m, torch.nn.BatchNorm1d)]
    assert norms
    for norm in norms:
        assert norm.running_var is not None
        norm.running_var.fill_(1e6)
    model.save(tmp_path / "m.safetensors")
    for norm in (m for m in load(tmp_path / "m.safetensors", "cpu").network.modules() if isinstance(m, type(norms[0]))):
        assert norm.running_var is not None
        assert (norm.running_var == 1e6).all()


def test_given_weights_are_saved_instead_of_its_own(file: Path, tmp_path: Path) -> None:
    """The running average of training is what ships."""
    model = load(file, "cpu")
    zeros = {name: torch.zeros_like(value) for name, value in model.network.state_dict().items()}
    model.save(tmp_path / "zeros.safetensors", zeros)
    again = load(tmp_path / "zeros.safetensors", "cpu")
    assert all((p == 0).all() for p in again.network.parameters())


def test_the_file_says_what_it_is(file: Path) -> None:
    """Format, version, problem, configuration and card are in the metadata; weights are half precision."""
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
        dtypes = {opened.get_tensor(key).dtype for key in opened.keys()}  # noqa: SIM118
    assert metadata["version"] == icdc.__version__
    assert metadata["problem"] == "atsp"
    assert json.loads(metadata["config"])["diffusion"] == {
        "steps": 7,
        "reverse_as_printed": True,
    }
    assert card_of(file) == {"problem": "atsp", "kind": "diffusion", "sizes": [[5]], "note": "né"}
    assert dtypes == {torch.float16}


def test_models_of_another_kind_are_refused(file: Path, tmp_path: Path) -> None:
    """A file that names no kind is a diffusion model; one that names another is not read as one."""
    with safe_open(file, framework="pt") as opened:
        metadata, state = opened.metadata(), {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    assert metadata.pop("kind") == "diffusion"
    save_file(state, tmp_path / "old.safetensors", metadata)
    assert load(tmp_path / "old.safetensors", "cpu").problem.name == "atsp"
    save_file(state, tmp_path / "other.safetensors", {**metadata, "kind": "matnet"})
    with pytest.raises(InputError, match="of kind 'matnet', where one of kind 'diffusion' is needed"):
        load(tmp_path / "other.safetensors", "cpu")


class Mine(Atsp):
    """A problem of one's own, with nothing changed."""


def test_a_problem_of_ones_own_must_be_given(tmp_path: Path) -> None:
    """A model file names the class it is for, and is used only with that class in the caller's hands."""
    Model(Mine(), TINY).save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match=r"for the problem .*:Mine', which does not ship.* give the problem"):
        load(tmp_path / "m.safetensors", "cpu")
    assert type(load(tmp_path / "m.safetensors", "cpu", Mine()).problem) is Mine
    with pytest.raises(UsageError, match=r"m\.safetensors' is for '.*:Mine', not for 'atsp'"):
        load(tmp_path / "m.safetensors", "cpu", "atsp")


def test_a_file_does_not_decide_what_is_imported(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither loading nor solving with a foreign file imports what it names, given another problem or none."""
    (tmp_path / "harmful_problem.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    rewrite(file, {"problem": "harmful_problem:Harm"})
    matrix = [[0, 1, 2], [3, 0, 4], [5, 6, 0]]
    for act in (
        lambda: load(file, "cpu"),
        lambda: load(file, "cpu", Mine()),
        lambda: icdc.solve(matrix, model=str(file)),
        lambda: icdc.solve(matrix, model=str(file), problem="atsp"),
        lambda: icdc.solve(matrix, model=str(file), problem=Mine()),
    ):
        with pytest.raises((InputError, UsageError), match="harmful_problem:Harm"):
            act()
    assert "harmful_problem" not in sys.modules
    load_weights(Model(Atsp(), TINY), file)  # weights alone need no problem


def test_a_class_that_moved_is_still_the_same(file: Path) -> None:
    """The module of one's own class may be called otherwise where the model is used."""
    rewrite(file, {"problem": "elsewhere:Mine"})
    assert type(load(file, "cpu", Mine()).problem) is Mine


def test_a_digest_is_of_what_a_model_computes(file: Path, tmp_path: Path) -> None:
    model = load(file, "cpu")
    before = digest_of(file)
    model.card["remark"] = "the same weights"
    model.save(tmp_path / "again.safetensors")
    assert digest_of(tmp_path / "again.safetensors") == before
    with torch.no_grad():
        next(iter(model.network.parameters())).view(-1)[0] += 1.0
    model.save(tmp_path / "other.safetensors")
    assert digest_of(tmp_path / "other.safetensors") != before


def test_weights_go_into_a_network_of_the_same_layout_only(file: Path) -> None:
    model = Model(Atsp(), TINY)
    load_weights(model, file)
    stored = load(file, "cpu").network.state_dict()
    assert all(torch.equal(value, stored[name]) for name, value in model.network.state_dict().items())
    with pytest.raises(InputError, match="do not fit the network"):
        load_weights(Model(Pmsp(), TINY), file)


def test_layers_of_another_shape_may_begin_anew(file: Path) -> None:
    """Those that read other features stay as they are; all others take the weights."""
    stored = load(file, "cpu").network.state_dict()
    model = Model(Pmsp(), TINY)
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    load_weights(model, file, where_they_fit=True)
    after = model.network.state_dict()
    new = {name for name, value in after.items() if stored[name].shape != value.shape}
    assert new
    assert all(torch.equal(after[name], before[name]) for name in new)
    assert all(torch.equal(after[name], stored[name]) for name in set(after) - new)
    wide = Model(Atsp(), replace(TINY, network=replace(TINY.network, width=2 * TINY.network.width)))
    with pytest.raises(InputError, match="fit less than half of the network"):
        load_weights(wide, file, where_they_fit=True)


def rewrite(file: Path, change: dict[str, str | None]) -> None:
    """Write the file again with other metadata; None leaves a key out."""
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
        state = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    kept = {k: v for k, v in {**metadata, **change}.items() if v is not None}
    save_file(state, file, metadata=kept)


CONFIG = json.loads(json.dumps(asdict(TINY)))
UNKNOWN = json.dumps({**CONFIG, "network": {**CONFIG["network"], "depth": 3}})
WIDER = json.dumps({**CONFIG, "network": {**CONFIG["network"], "width": 32}})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "99", "version": "7.1"}, "written by icdc 7.1; this version cannot read it"),
        ({"format": None}, "not one of an icdc model"),
        ({"format": "one"}, "not one of an icdc model"),
        ({"config": None}, "not one of an icdc model"),
        ({"config": "{"}, "does not describe itself"),
        ({"config": "[]"}, "does not fit this version.*must be a table"),
        ({"config": UNKNOWN}, "does not fit this version.*depth"),
        ({"config": WIDER}, "weights in .* do not fit"),
        ({"card": None}, "does not describe itself"),
        ({"problem": None}, "does not describe itself"),
    ],
)
def test_files_that_are_no_models_of_ours(change: dict[str, str | None], sentence: str, file: Path) -> None:
    """Each kind of wrong content is an InputError that names the file or what does not fit."""
    rewrite(file, change)
    with pytest.raises(InputError, match=sentence):
        load(file, "cpu")


@pytest.mark.parametrize("content", [b"", b"not a model", b"\xff" * 100])
def test_files_that_are_not_safetensors(content: bytes, tmp_path: Path) -> None:
    """Empty files, text and garbage are refused, by load and by card_of."""
    path = tmp_path / "broken.safetensors"
    path.write_bytes(content)
    for read in (load, card_of):
        with pytest.raises(InputError, match="not a readable model file"):
            read(path)


def test_a_file_cut_short(file: Path) -> None:
    """A download that broke off is refused, wherever it broke."""
    whole = file.read_bytes()
    for length in (4, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError, match="not a readable model file"):
            load(file, "cpu")


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    """Unknown names and folders are usage errors that list what ships."""
    for name in ("no-such-model", str(tmp_path), ""):
        with pytest.raises(UsageError, match="unknown model"):
            load(name)


def test_saving_makes_its_folder(file: Path) -> None:
    """A model can be saved where there is no folder yet."""
    target = file.parent / "new" / "folder" / "m.safetensors"
    load(file, "cpu").save(target)
    assert card_of(target) == card_of(file)


@pytest.mark.parametrize("density", [0.02, 0.25, 0.5, 1.0])
def test_log_odds_are_centred_on_the_density(density: float) -> None:
    """The offset of the logits is the log-odds of q̄, finite even where every element is one."""
    model = Model(Pmsp(), TINY)
    task = Task(Pmsp(), to_tensors(Pmsp().sample(1, (3, 2), np.random.default_rng(0))))
    encoding = model.encode(Pmsp().features(task.instances), noise(1))
    x, t = torch.zeros(1, 3, 2), torch.ones(1, dtype=torch.long)
    with torch.no_grad():
        offset = model.predict(encoding, density)(x, t) - model.network.denoise(encoding, x, t)
    expected = math.log(density / (1 - density)) if density < 1 else math.log(1e6)
    torch.testing.assert_close(offset, torch.full_like(offset, expected), atol=1e-4, rtol=1e-3)


def test_identifiers_come_from_the_noise() -> None:
    """The same keys give the same encoding, other keys another: nothing global is used."""
    model = Model(Atsp(), TINY)
    features = Atsp().features(to_tensors(Atsp().sample(2, (4,), np.random.default_rng(0))))
    with torch.no_grad():
        one, two, other = (model.encode(features, n).rows for n in (noise(2), noise(2), Noise(noise(4).keys[2:])))
    assert torch.equal(one, two)
    assert not torch.allclose(one, other)


def test_unknown_configuration_values_are_errors() -> None:
    """A value this version does not know is refused, not ignored."""
    assert model_config(CONFIG) == TINY
    with pytest.raises(InputError, match="colour"):
        model_config({**CONFIG, "diffusion": {"steps": 3, "colour": "red"}})
    with pytest.raises(InputError, match=r"'network.encoder' must be one of edge, dual, got 'gnn'"):
        model_config({**CONFIG, "network": {**CONFIG["network"], "encoder": "gnn"}})


def test_devices() -> None:
    """auto always works; a device that is not there, or not a device, is a usage error."""
    assert pick_device("auto").type in ("cpu", "cuda")
    assert pick_device("cpu").type == "cpu"
    with pytest.raises(UsageError, match="unknown device 'toaster'"):
        pick_device("toaster")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no CUDA device"):
            pick_device("cuda")


def test_the_nearest_shipped_model_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By relative distance of sizes, a tie to the larger; only models of the problem count."""
    monkeypatch.setattr(model_module, "models_folder", lambda: tmp_path)
    for name, problem, sizes in (
        ("a20", Atsp(), [[20]]),
        ("a50", Atsp(), [[50], [100]]),
        ("p", Pmsp(), [[20, 3], [20, 5]]),
    ):
        Model(problem, TINY, card={"sizes": sizes}).save(tmp_path / f"{name}.safetensors")
    assert available() == ["a20", "a50", "p"]
    assert [default_for("atsp", (n,)) for n in (5, 20, 28, 40, 500)] == ["a20", "a20", "a20", "a50", "a50"]
    assert default_for("pmsp", (50, 4)) == "p"
    assert load("a20", "cpu").name == "a20"
    with pytest.raises(UsageError, match="no shipped model solves 'navigation'"):
        default_for("navigation", (20,))


def test_every_shipped_model_loads() -> None:
    """What is in the package can be used: a card with sizes, finite predictions on its smallest size."""
    if not available():
        pytest.skip("no model ships yet")
    for name in available():
        model = load(name, "cpu")
        assert model.card["sizes"]
        size = tuple(min(model.card["sizes"]))
        assert torch.isfinite(log_odds(model, model.problem, size)).all()


def test_the_index_says_what_the_cards_say() -> None:
    cards = {name: card_of(name) for name in available()}
    wanted = {name: {key: card[key] for key in ("problem", "kind", "sizes")} for name, card in cards.items()}
    assert shipped() == wanted


def test_choosing_a_model_opens_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "read_header", None)
    assert default_for("atsp", (20,)) in available()


def test_a_model_that_ships_no_more_says_what_to_take() -> None:
    with pytest.raises(UsageError, match="'atsp-20' does not ship any more; 'atsp' knows its sizes"):
        load("atsp-20")


def test_another_card_leaves_everything_else(tmp_path: Path) -> None:
    """Also the text of a configuration that was written before some of today's settings."""
    path = tmp_path / "m.safetensors"
    network = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
    Model(Pmsp(), ModelConfig(network=network), card={"sizes": [[6, 3]]}).save(path)
    with safe_open(path, framework="pt") as file:
        old = {**file.metadata(), "config": file.metadata()["config"].replace('"priced": false, ', "")}
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    assert '"priced"' not in old["config"]
    save_file(weights, path, metadata=old)
    digest = digest_of(path)
    write_card(path, {"sizes": [[6, 3]], "home": []})
    assert digest_of(path) == digest
    assert card_of(path)["home"] == []
    with pytest.raises(InputError, match="'home' of its card: it must be a list"):
        write_card(path, {"home": 3})
    assert card_of(path)["home"] == []
