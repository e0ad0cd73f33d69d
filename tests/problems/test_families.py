"""Families of instances and mixtures of them: what their names say, the same on every device."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import csgraph_from_dense, shortest_path

import icdc
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.problems import Atsp, Pmsp, atsp_torch, pmsp_torch
from icdc.problems.base import Arrays, Family
from icdc.problems.families import (
    NORMAL_STEPS,
    mix,
    mix_on_device,
    normal_table,
    sample_family,
    sample_family_on_device,
)
from icdc.problems.forbidden import permitted_in
from icdc.problems.navigation import Navigation
from icdc.problems.navigation_torch import DISTRICT, TIME
from icdc.problems.pmsp_torch import HUGE
from icdc.problems.tensors import to_tensors
from icdc.problems.tours import random_tmat
from icdc.problems.tours_torch import closed

PMSP, ATSP = Pmsp(), Atsp()
EVERY = [*((PMSP, name) for name in PMSP.families), *((ATSP, name) for name in ATSP.families)]
SIZES: dict[str, tuple[int, ...]] = {"pmsp": (12, 5), "atsp": (13,)}
SMALLEST: dict[str, tuple[int, ...]] = {"pmsp": (1, 1), "atsp": (2,)}


def drawn(problem: Any, family: str, count: int, size: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    (array,) = sample_family(problem, family, count, size, np.random.default_rng(seed)).values()
    return array.astype(np.int64)


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def test_every_family_has_its_name() -> None:
    assert set(PMSP.families) == {"paper", "uniform-100", "uniform-1000", "job-correlated", "machine-correlated",
                                  "speeds", "heavy-tailed", "forbidden"}  # fmt: skip
    assert set(ATSP.families) == {"tmat", "uniform", "noisy-plane", "one-way-plane", "roads", "crane", "clustered",
                                  "forbidden"}  # fmt: skip


@pytest.mark.parametrize(("problem", "family"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_every_family_draws_instances_that_repeat(problem: Any, family: str) -> None:
    size = SIZES[problem.name]
    twenty = sample_family(problem, family, 20, size, np.random.default_rng(3))
    assert problem.size(twenty) == size
    ten = sample_family(problem, family, 10, size, np.random.default_rng(3))
    checked = problem.check(twenty)
    for name in problem.arrays:
        assert twenty[name].dtype in (np.int32, np.uint8)
        assert np.array_equal(checked[name], twenty[name])
        assert np.array_equal(twenty[name][:10], ten[name])
        assert len({one.tobytes() for one in twenty[name]}) == 20
    other = sample_family(problem, family, 20, size, np.random.default_rng(4))
    assert not np.array_equal(other[problem.arrays[0]], twenty[problem.arrays[0]])
    assert (
        problem.size(sample_family(problem, family, 2, SMALLEST[problem.name], np.random.default_rng(0)))
        == (SMALLEST[problem.name])
    )


@pytest.mark.parametrize(("problem", "family"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_the_device_draws_the_same_in_other_units(problem: Any, family: str) -> None:
    """The keys of the host's instances, as noise: the same numbers, whatever else is in the batch."""
    size = SIZES[problem.name]
    keys = torch.from_numpy(np.random.default_rng(3).integers(0, 2**32, size=6, dtype=np.int64))
    there = sample_family_on_device(problem, family, size, Noise(keys))
    assert there is not None
    (tensor,) = there.values()
    assert tensor.dtype == torch.float32
    assert torch.isfinite(tensor).all()
    alone = sample_family_on_device(problem, family, size, Noise(keys[4:5]))
    assert alone is not None
    assert torch.equal(next(iter(alone.values()))[0], tensor[4])
    if problem.families[family].draw is not None:
        here = drawn(problem, family, 6, size, seed=3)
        assert np.allclose(tensor.numpy() * problem.families[family].unit, here, rtol=1e-6)
    if family != "forbidden":
        assert 0.01 < float(tensor.mean()) < 200.0  # of the order that training expects


def test_uniform_schedules() -> None:
    for high in (100, 1000):
        numbers = drawn(PMSP, f"uniform-{high}", 20, (100, 50))
        assert set(np.unique(numbers)) == set(range(1, high + 1))
        assert numbers.mean() == pytest.approx((high + 1) / 2, rel=0.01)


def test_correlation_is_by_job_or_by_machine() -> None:
    for family, axis in (("job-correlated", 1), ("machine-correlated", 0)):
        numbers = drawn(PMSP, family, 5, (60, 60))
        assert (numbers.min(), numbers.max()) == (2, 120)
        for one in numbers:
            # what is alike: along the machines of a job, or along the jobs of a machine
            assert np.ptp(one, axis=axis).max() <= 19
            alike, apart = (np.corrcoef(one, rowvar=rows)[np.triu_indices(60, 1)].mean() for rows in (axis == 0, axis))
            assert alike > 0.9
            assert abs(apart) < 0.1
        bases = numbers.min(axis=axis + 1) - 1
        assert bases.mean() == pytest.approx(50.5, abs=6.0)


def test_speeds_are_work_over_speed() -> None:
    numbers = drawn(PMSP, "speeds", 3, (200, 10)).astype(np.float64)
    for one in numbers:
        # the ratio of two machines is the same for all jobs, but for what disturbs each pair
        ratio = one[:, :1] / one
        assert (ratio.max(0) / ratio.min(0)).max() < (1.2 / 0.8) ** 2 * 1.2
    fastest, slowest = numbers.mean(1).min(), numbers.mean(1).max()
    assert 3.0 < slowest / fastest < math.e**2 * 1.1
    assert numbers.min() >= 1000 * 0.1 * 0.8 / math.e**2 - 1
    assert numbers.max() <= 1200
    assert (drawn(PMSP, "speeds", 40, (50, 1)).mean((1, 2)) > 400).any()  # some machine of speed near 1


def test_heavy_tails_are_log_normal() -> None:
    logs = np.log(drawn(PMSP, "heavy-tailed", 20, (100, 20)).ravel())
    assert logs.mean() == pytest.approx(math.log(20), abs=0.03)
    assert logs.std() == pytest.approx(1.2, abs=0.03)
    assert np.exp(logs.max()) > 1000


def test_forbidden_steps_leave_a_tour_and_shortest_ways() -> None:
    numbers = drawn(ATSP, "forbidden", 20, (30,))
    steps = ~np.eye(30, dtype=bool)
    forbidden = numbers == atsp_torch.FORBIDDEN
    assert forbidden[:, steps].mean() == pytest.approx(0.3 * 28 / 29, abs=0.01)
    assert not forbidden[:, ~steps].any()
    for number, (matrix, mask) in enumerate(zip(numbers, forbidden, strict=True)):
        assert (permitted_in(matrix[None], tour=True)[0] == ~mask).all()
        assert (matrix[~mask] <= (matrix[:, :, None] + matrix[None]).min(1)[~mask]).all()  # as in tmat
        answer = icdc.solve(np.where(mask, np.inf, matrix), problem="atsp", solver="branch", seed=number)
        assert answer.feasible
    assert ATSP.families["forbidden"].forbids
    assert not ATSP.families["tmat"].forbids


def test_forbidden_pairs_are_huge_and_no_job_has_only_those() -> None:
    numbers = drawn(PMSP, "forbidden", 20, (100, 10))
    huge = numbers == pmsp_torch.HUGE
    assert not huge.all(2).any()
    assert huge.mean() == pytest.approx(2 / 3 * 9 / 10, abs=0.01)
    assert (numbers[~huge].min(), numbers[~huge].max()) == (1, 100)
    own = (~huge).mean((0, 1))
    assert own.min() > 0.37  # the one that is sure is any of the machines


def test_the_papers_own_are_the_problems_own() -> None:
    for problem, family, size in ((PMSP, "paper", (7, 3)), (ATSP, "tmat", (9,))):
        (own,) = problem.sample(4, size, np.random.default_rng(5)).values()
        assert np.array_equal(drawn(problem, family, 4, size, seed=5), own)
        (same,) = sample_family(problem, None, 4, size, np.random.default_rng(5)).values()
        assert np.array_equal(same, own)


def detours(distances: np.ndarray[Any, Any]) -> float:
    """Return the share of triples whose detour is shorter than the straight step."""
    through = distances[:, :, None] + distances[None]
    return float((through.min(1) < distances).mean())


def test_uniform_tours_are_not_closed() -> None:
    numbers = drawn(ATSP, "uniform", 4, (60,))
    off = ~np.eye(60, dtype=bool)
    assert numbers[:, off].min() >= 1
    assert numbers[:, off].max() < 10**6
    assert numbers[:, off].mean() == pytest.approx(5e5, rel=0.02)
    assert min(map(detours, numbers)) > 0.5


def test_a_noisy_plane_is_nearly_symmetric() -> None:
    for one in drawn(ATSP, "noisy-plane", 3, (50,)).astype(np.float64):
        upper = np.triu_indices(50, 1)
        ratio = one[upper] / one.T[upper]
        assert 1.13 < max(ratio.max(), 1 / ratio.min()) < 1.1501
        assert np.abs(np.log(ratio)).mean() > 0.03
        assert one.max() <= 1.15 * math.sqrt(2) * 10**6


def test_one_direction_of_a_one_way_plane_is_straight() -> None:
    for one in drawn(ATSP, "one-way-plane", 3, (50,)):
        straight = np.minimum(one, one.T)
        assert detours(straight) < 0.01  # a plane, but for rounding
        upper = np.triu_indices(50, 1)
        low, high = straight[upper], np.maximum(one, one.T)[upper]
        assert (high <= 3 * low + 1).all()
        assert (high / low).mean() == pytest.approx(2.0, abs=0.06)
        longer_up = (one[upper] > one.T[upper]).mean()
        assert longer_up == pytest.approx(0.5, abs=0.06)


def test_roads_are_closed_by_shortest_ways() -> None:
    for one in drawn(ATSP, "roads", 3, (60,)):
        through = one[:, :, None] + one[None]
        assert (one <= through.min(1)).all()
        assert (one[~np.eye(60, dtype=bool)] > 0).all()
        assert (one != one.T).mean() > 0.3  # one-way streets
        assert one.max() < 6 * 10**6
        # ways lead along few streets: most are the sum of two others
        between = through + np.where(np.eye(60, dtype=bool), 10**9, 0)[:, :, None]
        between = between + np.where(np.eye(60, dtype=bool), 10**9, 0)[None]
        assert (between.min(1) == one).mean() > 0.2


def test_a_crane_has_ties() -> None:
    for one in drawn(ATSP, "crane", 3, (80,)):
        assert one.min() >= 0
        assert one.max() <= 39
        assert len(np.unique(one)) <= 40
        assert (one != one.T).mean() > 0.5
        # both axes move at once: the longer one counts, which is about 18.7 of 40 in the mean
        assert one.mean() == pytest.approx(18.4, abs=2.0)


def test_clusters_are_close_together() -> None:
    near = {}
    for family in ("noisy-plane", "clustered"):
        numbers = drawn(ATSP, family, 5, (100,)).astype(np.float64)
        near[family] = np.median(np.sort(numbers, axis=2)[:, :, 20] / numbers.mean((1, 2))[:, None])
    assert near["clustered"] < 0.5 * near["noisy-plane"]
    upper = np.triu_indices(100, 1)
    assert all((one[upper] / one.T[upper]).max() < 1.16 for one in numbers)


def test_closing_finds_shortest_ways_in_parts_too() -> None:
    rng = np.random.default_rng(0)
    for count, cities in ((7, 20), (3, 400)):  # several parts at 400
        steps = rng.integers(1, 10**6, (count, cities, cities)).astype(np.int32)
        steps[:, np.arange(cities), np.arange(cities)] = 0
        found = closed(torch.from_numpy(steps)).numpy()
        for one, mine in zip(steps, found, strict=True):
            wanted = shortest_path(csgraph_from_dense(one.astype(np.float64), null_value=np.inf), method="FW")
            assert np.array_equal(mine, wanted)


def test_tmat_is_closed_in_parts_too() -> None:
    drawn_at_once = random_tmat(4, 300, np.random.default_rng(1))  # two parts
    steps = np.random.default_rng(1).integers(0, 10**6, size=(4, 300, 300), dtype=np.int64)
    for one, mine in zip(steps, drawn_at_once, strict=True):
        np.fill_diagonal(one, 0)
        wanted = shortest_path(csgraph_from_dense(one.astype(np.float64), null_value=np.inf), method="FW")
        assert np.array_equal(mine, wanted)


@pytest.mark.parametrize(
    "values",
    [
        lambda: [1000 * math.exp(2 * (step + 0.5) / 1024) for step in range(1024)],
        lambda: [20 * math.exp(value) for value in normal_table(1.2)],
        lambda: normal_table(0.03 * atsp_torch.SIDE),
    ],
    ids=["speeds", "log-normal", "spread"],
)
def test_no_entry_of_a_table_hangs_on_the_last_digit(values: Callable[[], list[float]]) -> None:
    """A library that rounds an exponential otherwise in its last digits still makes the same table."""
    assert min(abs(value % 1.0 - 0.5) for value in values()) > 1e-7


def test_a_table_is_a_normal_distribution() -> None:
    table = np.array(normal_table(2.0))
    assert len(table) == NORMAL_STEPS
    assert table.mean() == pytest.approx(0.0, abs=1e-9)
    assert table.std() == pytest.approx(2.0, rel=0.01)
    assert (np.diff(table) > 0).all()


def test_unknown_families_list_the_known_ones() -> None:
    class Nameless(Pmsp):
        families: ClassVar = {}

    with pytest.raises(UsageError, match=r"no family 'crane'; choose one of paper, .*forbidden"):
        sample_family(PMSP, "crane", 1, (3, 2), np.random.default_rng(0))
    with pytest.raises(UsageError, match="it has none"):
        sample_family(Nameless(), "tmat", 1, (3,), np.random.default_rng(0))


def test_a_problem_of_ones_own_has_its_own_families() -> None:
    class Changed(Pmsp):
        def sample(self, count, size, rng):  # type: ignore[no-untyped-def]
            return super().sample(count, size, rng)

    class Kept(Pmsp):
        def density(self, size):  # type: ignore[no-untyped-def]
            return 0.5

    class Declared(Changed):
        families: ClassVar = {
            "ones": Family("all alike", lambda size, noise: {"durations": 1 + noise.integers(1, *size)})
        }

    assert Changed.families == {}
    assert Kept.families == Pmsp.families
    assert (drawn(Declared(), "ones", 2, (3, 2)) == 1).all()


NAVIGATION = Navigation()
WHOLE = [name for name, family in NAVIGATION.families.items() if family.draw is not None]


def draw(family: str, count: int = 40, cities: int = 12, seed: int = 0) -> Arrays:
    return sample_family(NAVIGATION, family, count, (cities,), np.random.default_rng(seed))


@pytest.mark.parametrize("family", NAVIGATION.families)
def test_times_are_positive_and_follow_from_the_features(family: str) -> None:
    """By loops on one instance; nobody stays in place for less than nothing."""
    arrays = draw(family, 3)
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
    here = NAVIGATION.travel(to_tensors(draw(family))) / TIME
    assert torch.allclose(NAVIGATION.travel(there), here, atol=2e-6)
    assert float(there["coordinates"].max()) < 1.0
    assert float(there["slowness"].max()) < 1.0


def test_what_is_special_about_each() -> None:
    shares = {}
    for family in WHOLE:
        arrays = draw(family)
        times = NAVIGATION.cost_matrix(arrays)
        assert (arrays["slowness"][:, ~np.eye(12, dtype=bool)] >= (DISTRICT // 2 if family == "slow-ways" else 0)).all()
        shares[family] = arrays["traffic"].sum() / times.sum()
    assert shares["features-first"] > 0.7
    assert 0.3 < shares["slow-ways"] < 0.6
    assert 0.1 < shares["light-traffic"] < 0.4
    # whatever detours save is taken off the traffic, below zero where features alone are slower
    assert draw("shortest-ways")["traffic"].min() < 0 <= draw("features-first")["traffic"].min()


def test_shortest_ways_have_no_detour_that_saves() -> None:
    times = NAVIGATION.cost_matrix(draw("shortest-ways", 10))
    detours = (times[:, :, :, None] + times[:, None]).min(2)  # over all cities between
    assert (times <= detours).all()
    open_times = NAVIGATION.cost_matrix(draw("features-first", 10))
    assert (open_times > (open_times[:, :, :, None] + open_times[:, None]).min(2)).any()


def test_the_paper_draws_times_first() -> None:
    noise = Noise(fold(root_key(0), torch.arange(4)))
    own = NAVIGATION.sample_on_device((6,), noise)
    named = sample_family_on_device(NAVIGATION, "paper", (6,), Noise(noise.keys))
    assert named is not None
    assert all(torch.equal(named[name], own[name]) for name in NAVIGATION.arrays)


MIXING_PMSP = Pmsp()
NAMES = ["paper", "uniform-1000", "forbidden"]


def kinds(numbers: NDArray[np.float64], unit: float = 1.0) -> list[str]:
    """Tell from the numbers of instances which of the three families they are of."""
    largest = numbers.reshape(len(numbers), -1).max(1)
    return ["forbidden" if top == HUGE else "paper" if top < 20 and unit == 1 else "uniform-1000" for top in largest]


def shares_drawn(where: str, shares: list[float], count: int, seed: int, most: list[float] | None = None) -> list[str]:
    """Draw a mixture of schedules of 8 × 4 and return the families of its instances."""
    if where == "host":
        arrays = mix(MIXING_PMSP, NAMES, np.array(shares), count, (8, 4), np.random.default_rng(seed))["durations"]
        return kinds(arrays)
    found = mix_on_device(MIXING_PMSP, NAMES, torch.tensor(shares), most or [1.0] * 3, (8, 4), noise(count, seed))
    assert found is not None
    numbers = found["durations"].numpy()
    # on the device times of "uniform-1000" are in tens: tell them from the whole numbers of the others
    whole = (numbers == numbers.round()).all((1, 2))
    return [kind if own else "uniform-1000" for kind, own in zip(kinds(numbers), whole, strict=True)]


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_family_has_its_share_in_the_order_of_the_names(where: str) -> None:
    for seed in range(5):
        assert shares_drawn(where, [0.25, 0.5, 0.25], 8, seed) == [
            *["paper"] * 2,
            *["uniform-1000"] * 4,
            *["forbidden"] * 2,
        ]
        counts = Counter(shares_drawn(where, [0.1, 0.3, 0.6], 16, seed))
        assert counts["paper"] in (1, 2)
        assert counts["uniform-1000"] in (4, 5)
        assert counts["forbidden"] in (9, 10)


@pytest.mark.parametrize("where", ["host", "device"])
def test_shares_are_kept_on_average_by_batches_smaller_than_the_families(where: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(200):
        counts.update(shares_drawn(where, [0.2, 0.2, 0.6], 1, seed))
    assert counts["paper"] / 200 == pytest.approx(0.2, abs=0.1)
    assert counts["forbidden"] / 200 == pytest.approx(0.6, abs=0.12)


def test_shares_may_change_after_the_draw_was_made_ready() -> None:
    """Any shares up to the most that was named: a family is shares_drawn often enough, whatever mark comes first."""
    most = [0.5, 0.5, 0.5]
    for shares in ([0.5, 0.25, 0.25], [0.2, 0.5, 0.3], [0.35, 0.15, 0.5]):
        for seed in range(30):
            counts = Counter(shares_drawn("device", shares, 7, seed, most))
            assert sum(counts.values()) == 7
            for name, share in zip(NAMES, shares, strict=True):
                assert abs(counts[name] - 7 * share) < 1


def test_no_two_instances_are_alike() -> None:
    names = ["uniform-100", "uniform-100 "]  # the same draw under two names
    problem = type("Twice", (Pmsp,), {"families": dict.fromkeys(names, MIXING_PMSP.families["uniform-100"])})()
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
