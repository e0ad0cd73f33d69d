"""Model files from anywhere: what they claim is compared with their tensors before anything is allocated."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from icdc.baselines.matnet import MatNet, load_matnet
from icdc.errors import InputError
from icdc.models.catalogue import read_model
from icdc.models.diffusion import Model, load
from icdc.models.file import build_fitting

Change = Callable[[dict[str, Any]], None]


def forged(source: Path, path: Path, config: Change = lambda values: None, card: Any = None) -> Path:
    """Write the tensors of a model file with another configuration or card."""
    with safe_open(source, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    values = json.loads(metadata["config"])
    config(values)
    metadata["config"] = json.dumps(values)
    if card is not None:
        metadata["card"] = card if isinstance(card, str) else json.dumps(card)
    save_file(tensors, path, metadata=metadata)
    return path


def setting(table: str, name: str, value: Any) -> Change:
    def change(values: dict[str, Any]) -> None:
        values[table][name] = value

    return change


@pytest.mark.parametrize(
    ("table", "name", "value", "words"),
    [
        ("network", "width", 10**7, "do not fit the network"),
        ("network", "width", 10**18, "do not fit the network"),
        ("network", "identifiers", 10**9, "do not fit the network"),
        ("network", "denoiser_layers", 10**6, "do not fit the network"),
        ("network", "encoder_layers", -1, "'network.encoder_layers' must be at least 0"),
        ("network", "denoiser_layers", 2, "do not fit the network"),
        ("network", "heads", 0, "does not fit this version"),
        ("network", "width", "16", "'network.width' must be a whole number, got '16'"),
        ("network", "width", 16.0, "'network.width' must be a whole number"),
        ("network", "summaries", 1, "'network.summaries' must be true or false"),
        ("network", "norm", "none", "'network.norm' must be one of layer, batch"),
        ("network", "colour", "red", "unknown setting 'network.colour'"),
        ("diffusion", "steps", 10**9, "at most 100000"),
        ("diffusion", "steps", [20], "'diffusion.steps' must be a whole number"),
        ("diffusion", "schedule", "linear", "the setting 'diffusion.schedule' is gone"),
    ],
)
def test_what_a_file_claims_is_checked_first(
    models: dict[str, Path], tmp_path: Path, table: str, name: str, value: Any, words: str
) -> None:
    path = forged(models["atsp"], tmp_path / "forged.safetensors", setting(table, name, value))
    tracemalloc.start()
    before = torch.get_rng_state()
    with pytest.raises(InputError, match=words) as error:
        load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(error.value)
    assert most < 50e6
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ([], "its card must be a table"),
        ({"sizes": 20}, "'sizes' of its card: it must have sizes"),
        ({"sizes": [20]}, "'sizes' of its card"),
        ({"sizes": [[20], [20, 4]]}, "'sizes' of its card"),
        ({"sizes": [["20"]]}, "'sizes' of its card"),
        ({"sizes": [[10**12]]}, "'sizes' of its card"),
        ({"ranges": {"ties": "many"}}, "'ranges' of its card"),
        ({"ranges": [1, 2]}, "'ranges' of its card"),
        ({"finetuning": {"base": 1}}, "'finetuning' of its card: it must be a list of tables"),
        ({"solving": {"samples": 1}}, "'solving' of its card"),
        ({"solving": [{"samples": 0, "options": {}}]}, "'samples' must be at least 1"),
        ({"solving": [{"samples": 1, "size": 20, "options": {}}]}, "'size' must be a list"),
        ({"solving": [{"samples": 1, "options": {"decodes": 10**9}}]}, "'decodes' must be at most"),
        ({"solving": [{"samples": 1, "options": {"decodes": "8"}}]}, "'decodes' must be a whole number"),
        ({"solving": [{"samples": 1, "options": {"colour": 8}}]}, "unknown setting 'colour'"),
        ({"solving": [{"options": 3}]}, "must be a table"),
        ({"solving": [{"options": {}, "with_search": 1}]}, "'with_search' must be true or false"),
        ("[" * 100_000, "not readable JSON"),
        ("{", "not readable JSON"),
    ],
)
def test_a_card_of_wrong_kinds_is_a_sentence(models: dict[str, Path], tmp_path: Path, card: Any, words: str) -> None:
    path = forged(models["atsp"], tmp_path / "forged.safetensors", card=card)
    with pytest.raises(InputError, match=words):
        load(path)


def test_the_command_says_so_too(icdc: Any, models: dict[str, Path], cities: Path, tmp_path: Path) -> None:
    path = forged(models["atsp"], tmp_path / "forged.safetensors", card={"sizes": 20})
    ran = icdc("solve", cities, "--problem", "atsp", "--model", path)
    assert ran.code == 3
    assert ran.err.startswith(f"icdc: {path}: 'sizes'")
    assert ran.err.count("\n") == 1


def test_other_networks_are_checked_alike(make_small: Any, tmp_path: Path) -> None:
    model, _ = make_small("atsp")
    assert isinstance(model, MatNet)
    model.save(tmp_path / "small.safetensors")
    assert load_matnet(tmp_path / "small.safetensors").config == model.config
    for name, value in (("layers", 10**6), ("width", 10**7), ("mixer_width", 10**8)):

        def change(values: dict[str, Any], name: str = name, value: int = value) -> None:
            values[name] = value

        path = forged(tmp_path / "small.safetensors", tmp_path / "forged.safetensors", change)
        with pytest.raises(InputError, match="do not fit"):
            load_matnet(path)


def test_loading_leaves_the_global_generator_alone(models: dict[str, Path]) -> None:
    before = torch.get_rng_state()
    load(models["atsp"])
    assert torch.equal(torch.get_rng_state(), before)


def test_nothing_is_built_of_more_than_there_is(models: dict[str, Path]) -> None:
    """Neither more layers than tensors, nor a matrix of more numbers than the file has."""
    whole = load(models["atsp"])
    stored = read_model(models["atsp"], Model.kind)
    there = sum(tensor.numel() for tensor in whole.network.state_dict().values())
    built: list[int] = []

    def build() -> Model:
        built.append(1)
        return whole

    most = len(stored.shapes)
    assert build_fitting(build, most, [there], stored) is whole
    assert len(built) == 1
    for layers, products in ((most + 1, [1]), (-1, [1]), (1, [1, there + 1])):
        with pytest.raises(InputError, match="do not fit"):
            build_fitting(build, layers, products, stored)
    assert len(built) == 1
    with pytest.raises(InputError, match="do not fit"):
        build_fitting(build, 1, [1], stored._replace(shapes={**stored.shapes, "more": (1,)}))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_finite_numbers_are_refused(models: dict[str, Path], tmp_path: Path, value: float) -> None:
    model = load(models["pmsp"])
    with torch.no_grad():
        list(model.network.parameters())[-1].view(-1)[0] = value
    model.save(tmp_path / "broken.safetensors")
    with pytest.raises(InputError, match="are not all finite numbers"):
        load(tmp_path / "broken.safetensors")
