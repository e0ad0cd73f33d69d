"""`icdc generate`: families by name, and sentences for those that do not exist."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.io.datasets import read_dataset
from icdc.problems import get_problem
from icdc.problems.families import sample_family


@pytest.mark.parametrize(("problem", "family", "size"), [("pmsp", "job-correlated", "9x4"), ("atsp", "crane", "8")])
def test_instances_of_a_family(icdc: Any, tmp_path: Path, problem: str, family: str, size: str) -> None:
    common = ("generate", problem, "--family", family, "--size", size, "--count", 5, "--seed", 3)
    made = icdc(*common, "--reference", "search:seconds=0.05", "--out", tmp_path / "whole.npz")
    assert made.code == 0, made.err
    assert icdc(*common, "--without-instances", "--out", tmp_path / "drawn.npz").code == 0
    whole, drawn = (read_dataset(tmp_path / f"{name}.npz") for name in ("whole", "drawn"))
    assert whole.reference is not None
    known = get_problem(problem)
    rng = np.random.Generator(np.random.PCG64(3))
    expected = sample_family(known, family, 5, tuple(map(int, size.split("x"))), rng)
    for name, array in expected.items():
        assert np.array_equal(whole.arrays[name], array)
        assert np.array_equal(drawn.arrays[name], array)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pmsp", "--family", "crane", "--size", "5x2"), "has no family 'crane'; choose one of paper"),
        (("flow-shop", "--family", "tmat", "--size", "5x2"), "it has none"),
        (("atsp-10", "--family", "tmat"), "leave out --family"),
        (("atsp-10", "--size", "10"), "leave out --size"),
        (("atsp", "--family", "crane"), "--size is needed"),
        (("atsp", "--family", "crane", "--size", "9999999"), "1000 instances of 9999999 × 9999999 need about"),
        (("atsp", "--size", "99999999"), "are free: choose a smaller --count or --size"),
    ],
)
def test_mistakes_are_one_sentence(icdc: Any, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    made = icdc("generate", *arguments, "--out", tmp_path / "x.npz")
    assert made.code == 2
    assert words in made.err
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize("problem", ["atsp", "navigation"])
def test_sizes_that_nothing_could_read_again_are_refused(icdc: Any, tmp_path: Path, problem: str) -> None:
    ran = icdc("generate", problem, "--size", "1", "--count", "2", "--out", tmp_path / "x.npz")
    assert ran.code == 2
    assert ran.err == "icdc: --size 1: a tour needs at least 2 cities, got 1\n"
    assert not (tmp_path / "x.npz").exists()
