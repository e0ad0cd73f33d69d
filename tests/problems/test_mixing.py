"""Mixtures of families: shares, on the host and on the device, whatever the size of a batch."""

from collections import Counter

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from icdc.kernels import Noise, fold, root_key
from icdc.problems.families import mix, mix_on_device
from icdc.problems.pmsp import Pmsp
from icdc.problems.pmsp_torch import HUGE

PMSP = Pmsp()
NAMES = ["paper", "uniform-1000", "forbidden"]


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def kinds(numbers: NDArray[np.float64], unit: float = 1.0) -> list[str]:
    """Tell from the numbers of instances which of the three families they are of."""
    largest = numbers.reshape(len(numbers), -1).max(1)
    return ["forbidden" if top == HUGE else "paper" if top < 20 and unit == 1 else "uniform-1000" for top in largest]


def drawn(where: str, shares: list[float], count: int, seed: int, most: list[float] | None = None) -> list[str]:
    """Draw a mixture of schedules of 8 × 4 and return the families of its instances."""
    if where == "host":
        arrays = mix(PMSP, NAMES, np.array(shares), count, (8, 4), np.random.default_rng(seed))["durations"]
        return kinds(arrays)
    found = mix_on_device(PMSP, NAMES, torch.tensor(shares), most or [1.0] * 3, (8, 4), noise(count, seed))
    assert found is not None
    numbers = found["durations"].numpy()
    # on the device times of "uniform-1000" are in tens: tell them from the whole numbers of the others
    whole = (numbers == numbers.round()).all((1, 2))
    return [kind if own else "uniform-1000" for kind, own in zip(kinds(numbers), whole, strict=True)]


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_family_has_its_share_in_the_order_of_the_names(where: str) -> None:
    for seed in range(5):
        assert drawn(where, [0.25, 0.5, 0.25], 8, seed) == ["paper"] * 2 + ["uniform-1000"] * 4 + ["forbidden"] * 2
        counts = Counter(drawn(where, [0.1, 0.3, 0.6], 16, seed))
        assert counts["paper"] in (1, 2)
        assert counts["uniform-1000"] in (4, 5)
        assert counts["forbidden"] in (9, 10)


@pytest.mark.parametrize("where", ["host", "device"])
def test_shares_are_kept_on_average_by_batches_smaller_than_the_families(where: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(200):
        counts.update(drawn(where, [0.2, 0.2, 0.6], 1, seed))
    assert counts["paper"] / 200 == pytest.approx(0.2, abs=0.1)
    assert counts["forbidden"] / 200 == pytest.approx(0.6, abs=0.12)


def test_shares_may_change_after_the_draw_was_made_ready() -> None:
    """Any shares up to the most that was named: a family is drawn often enough, whatever mark comes first."""
    most = [0.5, 0.5, 0.5]
    for shares in ([0.5, 0.25, 0.25], [0.2, 0.5, 0.3], [0.35, 0.15, 0.5]):
        for seed in range(30):
            counts = Counter(drawn("device", shares, 7, seed, most))
            assert sum(counts.values()) == 7
            for name, share in zip(NAMES, shares, strict=True):
                assert abs(counts[name] - 7 * share) < 1


def test_no_two_instances_are_alike() -> None:
    names = ["uniform-100", "uniform-100 "]  # the same draw under two names
    problem = type("Twice", (Pmsp,), {"families": dict.fromkeys(names, PMSP.families["uniform-100"])})()
    found = mix_on_device(problem, names, torch.tensor([0.5, 0.5]), [0.5, 0.5], (6, 4), noise(10))
    assert found is not None
    assert len({one.numpy().tobytes() for one in found["durations"]}) == 10


def test_where_nothing_is_drawn_on_the_device_neither_is_a_mixture() -> None:
    class HostOnly(Pmsp):
        def sample_on_device(self, size, noise):  # type: ignore[no-untyped-def]
            return None

    for names, there in ((["paper", "speeds"], False), (["uniform-100", "speeds"], True)):
        for count in (1, 4):
            found = mix_on_device(HostOnly(), names, torch.tensor([0.5, 0.5]), [0.5, 0.5], (4, 2), noise(count))
            assert (found is not None) is there
