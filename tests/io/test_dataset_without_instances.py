"""Files without instances: small, and the same dataset again for whoever reads them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from icdc.cli import run
from icdc.errors import InputError, UsageError
from icdc.io.dataset import Dataset, SeededSample, fingerprint, read_dataset, write_arrays, write_dataset
from icdc.io.instances import read_instances
from icdc.io.standard import STANDARD_SETS, standard_set
from icdc.problems.atsp import Atsp
from icdc.problems.registry import get_problem
from icdc.training.sources import read_examples


@pytest.mark.parametrize(
    ("name", "size", "family"),
    [
        ("pmsp", (6, 3), None),
        ("atsp", (6,), None),
        ("navigation", (6,), None),
        ("pmsp", (6, 3), "speeds"),
        ("atsp", (6,), "roads"),
    ],
)
def test_a_file_without_instances_reads_as_one_with_them(
    name: str, size: tuple[int, ...], family: str | None, tmp_path: Path
) -> None:
    problem, sample = get_problem(name), SeededSample(size, 200, 7, family)
    dataset = Dataset(problem, sample.draw(problem), np.arange(200) / 4, np.ones(200, dtype=bool))
    write_dataset(tmp_path / "whole.npz", dataset)
    write_dataset(tmp_path / "drawn.npz", dataset, drawn_from=sample)
    whole, drawn = read_dataset(tmp_path / "whole.npz"), read_dataset(tmp_path / "drawn.npz")
    assert fingerprint(whole.arrays) == fingerprint(drawn.arrays) == fingerprint(dataset.arrays)
    for read in (whole, drawn):
        assert read.reference is not None
        assert np.array_equal(read.reference, np.arange(200) / 4)
    assert (tmp_path / "drawn.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size / 2
    instances = read_instances(tmp_path / "drawn.npz")
    assert len(instances) == 200
    for key, array in dataset.arrays.items():
        assert np.array_equal(instances[150].arrays[key], array[150])


@pytest.mark.parametrize(("name", "size", "solver"), [("atsp", "7", "branch"), ("pmsp", "7x3", "dp")])
def test_generated_solutions_are_examples_to_learn_from(name: str, size: str, solver: str, tmp_path: Path) -> None:
    arguments = ["generate", name, "--size", size, "--count", "70", "--seed", "3", "--reference", solver]
    assert run([*arguments, "--out", str(tmp_path / "whole.npz")]) == 0
    assert run([*arguments, "--without-instances", "--out", str(tmp_path / "drawn.npz")]) == 0
    dimensions = tuple(map(int, size.split("x")))
    whole, drawn = (
        read_examples(str(tmp_path / file), get_problem(name), dimensions, torch.device("cpu"))
        for file in ("whole.npz", "drawn.npz")
    )
    assert len(drawn.solutions) == 70
    assert torch.equal(whole.solutions, drawn.solutions)
    assert all(torch.equal(whole.instances[key], tensor) for key, tensor in drawn.instances.items())
    with np.load(tmp_path / "drawn.npz") as file:
        assert file["choice"].dtype == np.uint8
        assert file["proven"].all()


def test_a_standard_set_needs_no_instances_either(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    assert run(["generate", "atsp-10", "--without-instances", "--out", str(path)]) == 0
    with np.load(path) as file:
        assert json.loads(str(file["drawn"]))["sha256"] == STANDARD_SETS["atsp-10"].sha256
    read, standard = read_dataset(path), standard_set("atsp-10")
    assert standard.reference is not None
    assert read.reference is not None
    assert np.array_equal(read.reference, standard.reference)


class Mine(Atsp):
    """A problem of one's own."""


def test_ones_own_problem_must_be_given(tmp_path: Path) -> None:
    path, sample = tmp_path / "set.npz", SeededSample((5,), 3, 0)
    write_dataset(path, Dataset(Mine(), sample.draw(Mine())), drawn_from=sample)
    assert len(read_dataset(path, Mine())) == 3
    with pytest.raises(InputError, match="does not ship"):
        read_dataset(path)
    with pytest.raises(InputError, match="does not ship"):
        read_instances(path)
    assert len(read_instances(path, Mine())) == 3
    with pytest.raises(UsageError, match="not for 'pmsp'"):
        read_dataset(path, get_problem("pmsp"))


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ("hello", "does not say from what"),
        ({"size": [5], "count": 3}, "does not say from what"),
        ({"size": [5, 2], "count": 3, "seed": 0}, "can be drawn"),
        ({"size": [], "count": 3, "seed": 0}, "can be drawn"),
        ({"size": [5], "count": 0, "seed": 0}, "can be drawn"),
        ({"size": [5], "count": 3, "seed": -1}, "can be drawn"),
        ({"size": [5], "count": 10**17, "seed": 0}, "do not fit into memory"),
        ({"size": [5], "count": 4, "seed": 0}, "SHA-256"),
        ({"size": [5], "count": 3, "seed": 0, "family": "uniform"}, "SHA-256"),
        ({"size": [5], "count": 3, "seed": 0, "family": "speeds"}, "no family 'speeds'"),
        ({"size": [5], "count": 10**17, "seed": 0, "family": "uniform"}, "do not fit into memory"),
        ({"size": [10**7], "count": 1, "seed": 0, "family": "uniform"}, "do not fit into memory"),
        ({"size": [5], "count": 3, "seed": 1}, "SHA-256"),
    ],
)
def test_what_cannot_be_drawn_again_is_refused_by_name(drawn: Any, message: str, tmp_path: Path) -> None:
    sha256 = fingerprint(SeededSample((5,), 3, 0).draw(get_problem("atsp")))
    text = drawn if isinstance(drawn, str) else json.dumps({"sha256": sha256, **drawn})
    if drawn == {"size": [5], "count": 3}:
        text = json.dumps(drawn)
    write_arrays(tmp_path / "bad.npz", {"problem": np.array("atsp"), "drawn": np.array(text)})
    with pytest.raises(InputError, match=message) as error:
        read_dataset(tmp_path / "bad.npz")
    assert "bad.npz" in str(error.value)
