"""PMSP: generator, makespan, features and the checks of input."""

import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icdc.errors import InputError
from icdc.kernels import Noise, fold, root_key
from icdc.problems.instance import Instance
from icdc.problems.pmsp import Pmsp
from icdc.problems.pmsp_torch import balanced_assignment
from icdc.problems.tensors import one_hot, to_tensors, totals_by_column

PMSP = Pmsp()


def instances(count: int, size: tuple[int, int], seed: int = 0) -> dict[str, torch.Tensor]:
    return to_tensors(PMSP.sample(count, size, np.random.default_rng(seed)))


def test_sample_is_the_same_on_every_machine() -> None:
    """Seed 0 gives these bytes, of this type."""
    (drawn,) = PMSP.sample(2, (6, 3), np.random.default_rng(0)).values()
    assert drawn.dtype == np.uint8
    assert (
        hashlib.sha256(drawn.tobytes()).hexdigest()
        == "90326fa219854135af690f3c591f7d3e5cef8d99c905ed501fc8b6beccf5a2b4"
    )


def test_durations_are_uniform_on_2_to_19() -> None:
    """Both generators draw each of the eighteen values equally often, and no other."""
    here = PMSP.sample(300, (20, 4), np.random.default_rng(0))["durations"].ravel()
    noise = Noise(fold(root_key(0), torch.arange(300)))
    there = PMSP.sample_on_device((20, 4), noise)["durations"].numpy().ravel()
    for drawn in (here, there):
        values, counts = np.unique(drawn, return_counts=True)
        assert values.tolist() == list(range(2, 20))
        expected = len(drawn) / 18
        assert ((counts - expected) ** 2 / expected).sum() < 17 + 4.5 * np.sqrt(34)


def test_cost_is_the_makespan() -> None:
    """−score of the paper: the largest Σ_j [X ⊙ P]_{j,m}, by loops, for every assignment of 3 jobs."""
    batch = instances(2, (3, 2))
    choices = torch.tensor(list(itertools.product(range(2), repeat=3)))
    found = PMSP.cost(batch, choices.expand(2, -1, -1))
    for b, (k, choice) in itertools.product(range(2), enumerate(choices.tolist())):
        busy = [0, 0]
        for job, machine in enumerate(choice):
            busy[machine] += int(batch["durations"][b, job, machine])
        assert found[b, k].item() == max(busy)
        assert totals_by_column(batch["durations"], choices.expand(2, -1, -1))[b, k].tolist() == busy


def test_feasible_is_a_machine_that_exists() -> None:
    """Indices below zero or beyond the last machine are refused."""
    batch = instances(1, (2, 3))
    assert PMSP.feasible(batch, torch.tensor([[[0, 2], [0, 3], [-1, 0]]])).tolist() == [[True, False, False]]


def test_violation_is_the_papers_for_jobs() -> None:
    """C_PMSP = Σ_jobs (Σ_machines x − 1)²; machines may have any number of jobs."""
    x = torch.rand(3, 4, 2)
    for matrix, found in zip(x.tolist(), PMSP.violation(x).tolist(), strict=True):
        assert found == pytest.approx(sum((sum(row) - 1) ** 2 for row in matrix), rel=1e-5)
    assert PMSP.violation(one_hot(torch.tensor([[0, 0, 0, 0]]), 2)).item() == 0


def test_density_is_one_over_the_machines() -> None:
    """Not one over the jobs, as the paper prints: a solution has as many ones as jobs."""
    assert PMSP.density((20, 4)) == one_hot(torch.zeros(20, dtype=torch.long), 4).mean().item() == 0.25


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 100))
def test_features_have_no_unit(jobs: int, machines: int, seed: int) -> None:
    """Seconds or milliseconds: the features are the same, and finite."""
    batch = instances(2, (jobs, machines), seed)
    plain = PMSP.features(batch).relations
    assert plain.shape == (2, jobs, machines, PMSP.feature_sizes.relations)
    assert torch.isfinite(plain).all()
    scaled = PMSP.features({"durations": batch["durations"] * 1000}).relations
    torch.testing.assert_close(plain, scaled, atol=1e-4, rtol=1e-4)


def test_features_are_what_they_say() -> None:
    """P in units of its mean, its excess over the row's least, and over the row's mean."""
    p = torch.tensor([[[1.0, 3.0], [2.0, 4.0]]], dtype=torch.float64)
    relations = PMSP.features({"durations": p}).relations[0]
    assert relations[1, 1, 0].item() == pytest.approx(4 / 2.5 - 1)
    assert relations[1, 1, 1].item() == pytest.approx((4 - 2) / 2.5)
    assert relations[1, 1, 2].item() == pytest.approx((4 - 3) / 2.5)


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (4, 1), (3, 2)])
@pytest.mark.parametrize("value", [0, 1, 10**9])
def test_ties_give_finite_features(size: tuple[int, int], value: int) -> None:
    """All times equal, zero included, one job, one machine: nothing is divided by zero."""
    batch = to_tensors(PMSP.check({"durations": np.full((2, *size), value)}))
    assert torch.isfinite(PMSP.features(batch).relations).all()


@pytest.mark.parametrize("temperature", [0.2, 0.06])
@pytest.mark.parametrize("size", [(5, 3), (20, 5), (50, 4)])
def test_balanced_assignment_balances(size: tuple[int, int], temperature: float) -> None:
    """At both temperatures of the features the fractional loads end within 2 %, far from equal prices."""
    durations = instances(50, size)["durations"].float()
    durations[:, :, 0] /= 4  # one fast machine, so that equal prices overload it
    durations = durations / durations.mean((1, 2), keepdim=True)

    def imbalance(rounds: int) -> float:
        weights = balanced_assignment(durations, temperature, rounds).exp()
        torch.testing.assert_close(weights.sum(2), torch.ones(50, size[0]))
        load = (weights * durations).sum(1)
        return float((load.amax(1) / load.mean(1)).mean())

    assert imbalance(30) < 1.02
    assert imbalance(0) > 1.3


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[1, 2], [3]], "different lengths"),
        ([[1, np.nan]], "not finite at row 1, column 2"),
        ([[1, 2], [3, -4]], "negative value -4 at row 2, column 2"),
        ([["x", "y"]], "must hold numbers"),
        (np.zeros((1, 0, 3)), "empty"),
        ([1, 2, 3], "must be a matrix"),
    ],
)
def test_bad_matrices_get_one_clear_sentence(matrix: object, sentence: str) -> None:
    """Every refusal is an InputError that says what is wrong and where."""
    with pytest.raises(InputError, match=sentence):
        PMSP.check({"durations": matrix})


def test_solution_is_the_machine_of_each_job() -> None:
    """Plain integers out, the same choice back."""
    written = PMSP.solution(np.array([2, 0, 1]))
    assert written == [2, 0, 1]
    assert all(type(machine) is int for machine in written)
    assert PMSP.choice(written).tolist() == [2, 0, 1]


def test_a_schedule_in_other_words() -> None:
    """Whoever inherits scheduling may call its rows and columns something else."""

    class Workshops(Pmsp):
        row_words = ("order", "orders")
        column_words = ("shop", "shops")

    instance = Instance("file", Workshops(), {"durations": np.array([[3, 9], [9, 4], [2, 9]])})
    assert Workshops().describe_size((3, 1)) == "3 orders on 1 shop"
    assert Workshops().describe_size((1, 2)) == "1 order on 2 shops"
    assert [line.split() for line in Workshops().describe_solution(instance, np.array([0, 1, 0]))] == [
        ["shop", "0", "5", "█" * 24, "0", "2"],
        ["shop", "1", "4", "█" * 19, "1"],
    ]
    assert Workshops().solution_header() == ("order", "shop")


def test_a_schedule_is_drawn_with_its_names_and_its_bound() -> None:
    instance = Instance("file", PMSP, {"durations": np.array([[3, 9], [9, 4]])}, ("cut", "glue"), ("saw", "press"))
    (ax,) = PMSP.draw_solution(instance, np.array([0, 1]), bound=3.5).axes
    assert ax.get_title() == "makespan 4, bound 3.5"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["saw", "press"]
    assert {"cut", "glue"} <= {text.get_text() for text in ax.texts}
