"""Families of hidden travel times: what is drawn first, and that features and times agree."""

import numpy as np
import pytest
import torch

from icdc.kernels import Noise, fold, root_key
from icdc.problems.base import Arrays
from icdc.problems.families import sample_family, sample_family_on_device
from icdc.problems.navigation import Navigation
from icdc.problems.navigation_torch import DISTRICT, TIME
from icdc.problems.tensors import to_tensors

NAVIGATION = Navigation()
WHOLE = [name for name, family in NAVIGATION.families.items() if family.draw is not None]


def drawn(family: str, count: int = 40, cities: int = 12, seed: int = 0) -> Arrays:
    return sample_family(NAVIGATION, family, count, (cities,), np.random.default_rng(seed))


@pytest.mark.parametrize("family", NAVIGATION.families)
def test_times_are_positive_and_follow_from_the_features(family: str) -> None:
    """By loops on one instance; nobody stays in place for less than nothing."""
    arrays = drawn(family, 3)
    times = NAVIGATION.cost_matrix(arrays)
    r, s, f = (arrays[name][0] for name in NAVIGATION.arrays)
    for i in range(12):
        for j in range(12):
            squared = sum((r[i, axis] - r[j, axis]) ** 2 for axis in range(2))
            assert times[0, i, j] == pytest.approx(squared * s[i, j] + f[i, j], abs=1e-9)
    assert (times[:, ~np.eye(12, dtype=bool)] >= -1e-9).all()


@pytest.mark.parametrize("family", WHOLE)
def test_the_device_draws_the_same_in_units_that_agree(family: str) -> None:
    """Coordinates, slowness and traffic have units of their own, and times still follow from them."""
    keys = torch.from_numpy(np.random.default_rng(0).integers(0, 2**32, size=40, dtype=np.int64))
    there = sample_family_on_device(NAVIGATION, family, (12,), Noise(keys))
    assert there is not None
    here = NAVIGATION.travel(to_tensors(drawn(family))) / TIME
    assert torch.allclose(NAVIGATION.travel(there), here, atol=2e-6)
    assert float(there["coordinates"].max()) < 1.0
    assert float(there["slowness"].max()) < 1.0


def test_what_is_special_about_each() -> None:
    shares = {}
    for family in WHOLE:
        arrays = drawn(family)
        times = NAVIGATION.cost_matrix(arrays)
        assert (arrays["slowness"][:, ~np.eye(12, dtype=bool)] >= (DISTRICT // 2 if family == "slow-ways" else 0)).all()
        shares[family] = arrays["traffic"].sum() / times.sum()
    assert shares["features-first"] > 0.7
    assert 0.3 < shares["slow-ways"] < 0.6
    assert 0.1 < shares["light-traffic"] < 0.4
    # whatever detours save is taken off the traffic, below zero where features alone are slower
    assert drawn("shortest-ways")["traffic"].min() < 0 <= drawn("features-first")["traffic"].min()


def test_shortest_ways_have_no_detour_that_saves() -> None:
    times = NAVIGATION.cost_matrix(drawn("shortest-ways", 10))
    detours = (times[:, :, :, None] + times[:, None]).min(2)  # over all cities between
    assert (times <= detours).all()
    open_times = NAVIGATION.cost_matrix(drawn("features-first", 10))
    assert (open_times > (open_times[:, :, :, None] + open_times[:, None]).min(2)).any()


def test_the_paper_draws_times_first() -> None:
    noise = Noise(fold(root_key(0), torch.arange(4)))
    own = NAVIGATION.sample_on_device((6,), noise)
    named = sample_family_on_device(NAVIGATION, "paper", (6,), Noise(noise.keys))
    assert named is not None
    assert all(torch.equal(named[name], own[name]) for name in NAVIGATION.arrays)
