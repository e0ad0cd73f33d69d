"""ATSP: cost, features and the checks of input."""

import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icdc.errors import InputError
from icdc.problems.atsp import Atsp
from icdc.problems.tensors import to_tensors
from icdc.problems.tours_torch import log_sinkhorn

ATSP = Atsp()


def instances(count: int, cities: int, seed: int = 0) -> dict[str, torch.Tensor]:
    return to_tensors(ATSP.sample(count, (cities,), np.random.default_rng(seed)))


def test_sample_is_the_same_on_every_machine() -> None:
    """Seed 0 gives these bytes, of this type."""
    (drawn,) = ATSP.sample(2, (6,), np.random.default_rng(0)).values()
    assert drawn.dtype == np.int32
    assert (
        hashlib.sha256(drawn.astype("<i4").tobytes()).hexdigest()
        == "fbff0fc55b670d910b38bd4f0bdb5b633e9ffdb33ac964bda1898e47dacd343e"
    )


def test_cost_is_the_length_of_the_tour() -> None:
    """−score of the paper, Σ [X ⊙ D], exact in integers, for all samples of all instances."""
    batch = instances(2, 5)
    tours = torch.tensor([[1, 2, 3, 4, 0], [2, 0, 4, 1, 3], [4, 3, 1, 0, 2]])
    found = ATSP.cost(batch, tours.expand(2, -1, -1))
    for b, k in itertools.product(range(2), range(3)):
        d = batch["distances"][b].tolist()
        assert found[b, k].item() == sum(d[i][j] for i, j in enumerate(tours[k].tolist()))


@given(st.integers(2, 7), st.integers(0, 100))
def test_features_have_no_unit_and_no_diagonal(cities: int, seed: int) -> None:
    """1000·D gives the features of D; what stands on the diagonal does not matter."""
    batch = instances(2, cities, seed)
    plain = ATSP.features(batch).relations
    assert plain.shape == (2, cities, cities, ATSP.feature_sizes.relations)
    scaled = ATSP.features({"distances": batch["distances"] * 1000}).relations
    torch.testing.assert_close(plain, scaled, atol=1e-4, rtol=1e-4)
    diagonal = torch.eye(cities, dtype=torch.bool)
    marked = ATSP.features({"distances": batch["distances"].masked_fill(diagonal, 10**9)}).relations
    torch.testing.assert_close(plain, marked)
    assert (plain[:, diagonal] == 0).all()


def test_features_are_what_they_say() -> None:
    """D in units of its mean, its transpose, and its excess over the least of the row and of the column."""
    d = torch.tensor([[[0.0, 1.0, 3.0], [2.0, 0.0, 5.0], [6.0, 1.0, 0.0]]], dtype=torch.float64)
    relations = ATSP.features({"distances": d}).relations[0]
    unit = 18 / 6
    assert relations[0, 2, 0].item() == pytest.approx(3 / unit)
    assert relations[0, 2, 1].item() == pytest.approx(6 / unit)
    assert relations[0, 2, 2].item() == pytest.approx((3 - 1) / unit)
    assert relations[2, 0, 3].item() == pytest.approx((6 - 2) / unit)


@pytest.mark.parametrize("cities", [2, 3, 10])
@pytest.mark.parametrize("value", [0, 1, 10**9])
def test_ties_give_finite_features(cities: int, value: int) -> None:
    """All distances equal, zero included: nothing is divided by zero."""
    batch = to_tensors(ATSP.check({"distances": np.full((2, cities, cities), value)}))
    assert torch.isfinite(ATSP.features(batch).relations).all()


def test_one_huge_distance_gives_finite_features() -> None:
    """A forbidden step written as a huge number does not overflow the features of the others."""
    d = np.ones((1, 5, 5))
    d[0, 1, 2] = 1e12
    assert torch.isfinite(ATSP.features(to_tensors({"distances": d})).relations).all()


def test_sinkhorn_approaches_a_doubly_stochastic_matrix() -> None:
    """Rows and columns of the scaled matrix sum to one, and cheap pairs get more."""
    scaled = log_sinkhorn(torch.rand(3, 6, 6) * 3, rounds=200).exp()
    torch.testing.assert_close(scaled.sum(1), torch.ones(3, 6))
    torch.testing.assert_close(scaled.sum(2), torch.ones(3, 6), atol=1e-4, rtol=0)
    assert log_sinkhorn(torch.tensor([[[0.0, 5.0], [5.0, 0.0]]]))[0, 0].argmax() == 0


def test_two_cities_work() -> None:
    """The smallest tour: there and back."""
    batch = to_tensors(ATSP.check({"distances": [[0, 3], [4, 0]]}))
    assert ATSP.size(batch) == (2,)
    assert ATSP.density((2,)) == 0.5
    assert ATSP.cost(batch, torch.tensor([[[1, 0]]])).item() == 7
    assert torch.isfinite(ATSP.features(batch).relations).all()


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[0, 1, 2], [1, 0, 2]], "square, got 2 rows and 3 columns"),
        ([[0]], "at least 2 cities"),
        ([[0, np.nan], [1, 0]], "not finite at row 1, column 2"),
        ([[0, 1], [np.inf, 0]], "not finite at row 2, column 1"),
        ([[0, 1], [2**53 + 1, 0]], "too large at row 2, column 1"),
        ([[0, 2**70], [1, 0]], "too large"),
        (np.array([[0, 2**64 - 1], [1, 0]], dtype=np.uint64), "too large at row 1, column 2"),
        ([[0, 1.1e30], [1, 0]], "too large at row 1, column 2"),
        (np.array([[0, np.longdouble("1e400")], [1, 0]]), "too large at row 1, column 2"),
        ([[0, 1], [-2, 0]], "negative value -2 at row 2, column 1"),
        ([[0, "a"], [1, 0]], "must hold numbers"),
        ([[0, 1], [1]], "different lengths"),
        ([[True, False], [False, True]], "must hold numbers"),
        ([[0, 1j], [1, 0]], "must hold numbers"),
        ([], "must be a matrix"),
        (np.zeros((0, 3, 3)), "empty"),
        (np.zeros((2, 0, 0)), "empty"),
        (3, "must be a matrix"),
        (None, "must be a matrix"),
    ],
)
def test_bad_matrices_get_one_clear_sentence(matrix: object, sentence: str) -> None:
    """Every refusal is an InputError that says what is wrong and where."""
    with pytest.raises(InputError, match=sentence):
        ATSP.check({"distances": matrix})


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (np.array([[0, 2**53], [2**53, 0]]), np.int64),
        (np.array([[0, 2**53], [1, 0]], dtype=np.uint64), np.int64),
        (np.array([[0, 255], [1, 0]], dtype=np.uint8), np.uint8),
        (np.array([[0, 1e30], [1, 0]]), np.float64),
        (np.array([[0, 6e4], [1, 0]], dtype=np.float16), np.float64),
        (np.array([[0, 0.5], [1, 0]], dtype=np.longdouble), np.float64),
    ],
)
def test_the_largest_numbers_are_kept_exactly(matrix: np.ndarray, kind: type) -> None:
    """Integers up to 2^53 and reals up to 10^30 come in as they are, reals as float64."""
    (checked,) = ATSP.check({"distances": matrix}).values()
    assert checked.dtype == kind
    assert (checked[0] == matrix).all()


def test_check_ignores_the_diagonal_and_keeps_the_argument() -> None:
    """Whatever files put on the diagonal becomes zero, in a copy; other entries keep type and value."""
    given_matrix = np.array([[-1, 2], [3, 9999]], dtype=np.int16)
    (checked,) = ATSP.check({"distances": given_matrix}).values()
    assert checked.tolist() == [[[0, 2], [3, 0]]]
    assert checked.dtype == np.int16
    assert given_matrix[0, 0] == -1
