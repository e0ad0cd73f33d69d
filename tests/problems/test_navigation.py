"""Navigation: the travel-time identity, what the network may see, and the checks of input."""

import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from icdc.errors import InputError
from icdc.problems.navigation import Navigation
from icdc.problems.navigation_torch import squared_distances
from icdc.problems.tensors import to_tensors
from icdc.problems.tours import random_tmat

NAVIGATION = Navigation()


def instances(count: int, cities: int, seed: int = 0) -> dict[str, Tensor]:
    return to_tensors(NAVIGATION.sample(count, (cities,), np.random.default_rng(seed)))


def test_sample_is_the_same_on_every_machine() -> None:
    """Seed 0 gives these numbers (compared as millionths, so that no rounding of a sum matters)."""
    drawn = NAVIGATION.sample(2, (5,), np.random.default_rng(0))
    digest = hashlib.sha256()
    for name in NAVIGATION.arrays:
        digest.update(np.rint(drawn[name] * 1e6).astype("<i8").tobytes())
    assert digest.hexdigest() == "ef477282190f45710a601bac17f2be811ef4b0229e34cb6d4b3d4576269d35c1"


def test_travel_time_is_the_papers_formula_and_a_tmat_matrix() -> None:
    """T_ij = ‖R_i − R_j‖² S_ij + F_ij by loops, and it is the matrix the generator began with."""
    batch = instances(2, 6)
    travel = NAVIGATION.travel(batch)
    hidden = random_tmat(2, 6, np.random.default_rng(0)) / 1e6
    np.testing.assert_allclose(travel.numpy(), hidden, atol=1e-12)
    r, s, f = (batch[name][0].tolist() for name in NAVIGATION.arrays)
    for i in range(6):
        for j in range(6):
            squared = sum((a - b) ** 2 for a, b in zip(r[i], r[j], strict=True))
            assert travel[0, i, j].item() == pytest.approx(squared * s[i][j] + f[i][j])


def test_cost_is_the_travel_time_of_the_tour() -> None:
    """Scored by T, which is not among the features."""
    batch = instances(1, 4)
    tour = torch.tensor([[[1, 2, 3, 0]]])
    travel = NAVIGATION.travel(batch)[0]
    expected = travel[0, 1] + travel[1, 2] + travel[2, 3] + travel[3, 0]
    assert NAVIGATION.cost(batch, tour).item() == pytest.approx(expected.item())


def test_no_channel_shows_the_hidden_matrix() -> None:
    """No relation the network sees is T, or its transpose, up to scale and shift."""
    batch = instances(1, 30)
    off = ~torch.eye(30, dtype=torch.bool)
    travel = NAVIGATION.travel(batch)[0].float()
    for channel in NAVIGATION.features(batch).relations[0].unbind(-1):
        for hidden in (travel, travel.T):
            assert abs(torch.corrcoef(torch.stack([channel[off], hidden[off]]))[0, 1]) < 0.95


@given(st.integers(2, 6), st.integers(0, 1000), st.floats(0.01, 100), st.floats(0.01, 100), st.floats(-50, 50))
def test_features_have_no_units(cities: int, seed: int, length: float, time: float, shift: float) -> None:
    """Other units of length and time, and another origin of the map, give the same features."""
    batch = instances(2, cities, seed)
    plain = NAVIGATION.features(batch)
    other = NAVIGATION.features(
        {
            "coordinates": batch["coordinates"] * length + shift,
            "slowness": batch["slowness"] * time / length**2,
            "traffic": batch["traffic"] * time,
        }
    )
    for a, b in (
        (plain.relations, other.relations),
        (plain.rows, other.rows),
        (plain.columns, other.columns),
    ):
        assert a is not None
        assert b is not None
        torch.testing.assert_close(a, b, atol=2e-3, rtol=2e-3)


def test_features_determine_the_travel_times() -> None:
    """T follows from the features up to one factor: scaling S and F apart would lose which tour is best."""
    batch = instances(4, 8)
    features = NAVIGATION.features(batch)
    assert features.rows is not None
    shown = squared_distances(features.rows) * features.relations[..., 0] + features.relations[..., 1]
    ratio = shown / NAVIGATION.travel(batch)
    off = ~torch.eye(8, dtype=torch.bool)
    for one in ratio:
        torch.testing.assert_close(one[off], one[0, 1].expand(56), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("cities", [2, 5])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e6])
def test_ties_give_finite_features(cities: int, value: float) -> None:
    """All cities at one place, all times equal or zero: nothing is divided by zero."""
    arrays = {
        "coordinates": np.full((1, cities, 2), value),
        "slowness": np.full((1, cities, cities), value),
        "traffic": np.zeros((1, cities, cities)),
    }
    apart = {**arrays, "coordinates": arrays["coordinates"] + np.arange(cities)[None, :, None] * 1e4}
    zero = {**apart, "slowness": arrays["traffic"]}
    for one in (arrays, apart, zero):
        features = NAVIGATION.features(to_tensors(NAVIGATION.check(one)))
        assert torch.isfinite(features.relations).all()
        assert features.rows is not None
        assert torch.isfinite(features.rows).all()


@pytest.mark.parametrize("scales", list(itertools.product((1e-30, 1.0, 1e30), repeat=3)))
def test_numbers_of_every_size_give_finite_features(scales: tuple[float, float, float]) -> None:
    """Lengths and times as large or as small as can be read, in any combination."""
    drawn = NAVIGATION.sample(2, (5,), np.random.default_rng(0))
    scaled = {name: drawn[name] * scale for name, scale in zip(NAVIGATION.arrays, scales, strict=True)}
    features = NAVIGATION.features(to_tensors(NAVIGATION.check(scaled)))
    assert features.rows is not None
    for tensor in (features.relations, features.rows):
        assert tensor.dtype == torch.float32
        assert torch.isfinite(tensor).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"coordinates": np.zeros((1, 3, 3))}, "two columns"),
        ({"coordinates": np.zeros((1, 1, 2))}, "at least 2 cities"),
        ({"traffic": np.zeros((1, 3, 4))}, "'traffic' must be 3 × 3 for 3 cities, got 3 × 4"),
        ({"slowness": np.zeros((2, 3, 3))}, "different numbers"),
        ({"slowness": np.full((1, 3, 3), np.nan)}, "'slowness' has a value that is not finite"),
    ],
)
def test_bad_arrays_get_one_clear_sentence(changes: dict[str, np.ndarray], sentence: str) -> None:
    """Arrays that do not fit together are refused by name."""
    good = {
        "coordinates": np.zeros((1, 3, 2)),
        "slowness": np.zeros((1, 3, 3)),
        "traffic": np.zeros((1, 3, 3)),
    }
    NAVIGATION.check(good)
    with pytest.raises(InputError, match=sentence):
        NAVIGATION.check(good | changes)
