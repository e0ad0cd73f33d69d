"""Feasibility-enforced generation: p̂ is a distribution over feasible solutions, and samples follow it."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from icdc import kernels
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.problems.atsp import Atsp
from icdc.problems.decoding import decode, log_probability, random_choice
from icdc.problems.rules import HamiltonianCycle, OneColumnPerRow, Rule

CYCLE, ROWS = HamiltonianCycle(), OneColumnPerRow()


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def all_tours(size: int) -> list[list[int]]:
    """Return the successors of every Hamiltonian cycle."""
    tours = []
    for rest in itertools.permutations(range(1, size)):
        order = [0, *rest]
        successor = [0] * size
        for a, b in zip(order, order[1:] + order[:1], strict=True):
            successor[a] = b
        tours.append(successor)
    return tours


def probability_along(log_odds: list[list[float]], successor: list[int], first: int) -> float:
    """p̂ of a tour by its definition: at each row, the Bernoulli product of "exactly this one", renormalised.

    A row's elements are independent Bernoullis with these log-odds; given that exactly one of the allowed
    ones is 1, and all others 0, the chance of each is compared with that of all.
    """
    size, city, visited, result = len(log_odds), first, {first}, 1.0
    for turn in range(size):
        allowed = [first] if turn == size - 1 else [c for c in range(size) if c not in visited]
        ones = [1 / (1 + math.exp(-v)) for v in log_odds[city]]

        def only(column: int, ones: list[float] = ones) -> float:
            return math.prod(p if c == column else 1 - p for c, p in enumerate(ones))

        result *= only(successor[city]) / sum(only(c) for c in allowed)
        city = successor[city]
        visited.add(city)
    return result


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_tours_have_total_probability_one_from_every_city(size: int) -> None:
    """Σ p̂ over all tours is 1 whichever city decides first, and each is the product of its decisions."""
    tours = torch.tensor(all_tours(size))
    log_odds = torch.randn(1, size, size) * 2
    for first in range(size):
        start = torch.full((len(tours),), first)
        p = log_probability(CYCLE, log_odds.expand(len(tours), -1, -1), tours, start).exp()
        assert p.sum().item() == pytest.approx(1, abs=1e-5)
        for tour, chance in zip(tours.tolist(), p.tolist(), strict=True):
            assert chance == pytest.approx(probability_along(log_odds[0].tolist(), tour, first), rel=1e-4)


@pytest.mark.parametrize(("jobs", "machines"), [(1, 1), (1, 4), (3, 1), (4, 3)])
def test_assignments_have_total_probability_one(jobs: int, machines: int) -> None:
    """Σ p̂ over all assignments is 1, with and without a mask; a forbidden one has no probability."""
    choices = torch.tensor(list(itertools.product(range(machines), repeat=jobs)))
    log_odds = (torch.randn(1, jobs, machines) * 2).expand(len(choices), -1, -1)
    assert log_probability(ROWS, log_odds, choices).exp().sum().item() == pytest.approx(1, abs=1e-5)
    mask = torch.rand(1, jobs, machines) < 0.5
    mask[:, torch.arange(jobs), torch.arange(jobs) % machines] = True
    p = log_probability(ROWS, log_odds, choices, mask=mask.expand(len(choices), -1, -1)).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-5)
    permitted = mask[0][torch.arange(jobs), choices].all(1)
    assert (p[~permitted] == 0).all()
    assert (p[permitted] > 0).all()


def test_masked_tours_have_total_probability_one() -> None:
    """With forbidden steps the mass lies on the tours that the rule can build."""
    tours = torch.tensor(all_tours(5))
    log_odds = torch.randn(1, 5, 5).expand(len(tours), -1, -1)
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[0, 1] = mask[3, 2] = False
    first = torch.zeros(len(tours), dtype=torch.long)
    p = log_probability(CYCLE, log_odds, tours, first, mask.expand(len(tours), -1, -1)).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("rule", "shape", "first", "masked"),
    [(CYCLE, (5, 5), 2, False), (CYCLE, (4, 4), 0, True), (ROWS, (3, 3), 0, False), (ROWS, (4, 2), 0, True)],
)
def test_samples_follow_p_hat_and_are_feasible(rule: Rule, shape: tuple[int, int], first: int, masked: bool) -> None:
    """10,000 samples: all feasible, frequencies within a chi-square of exp(log p̂)."""
    rows, columns = shape
    count = 10000
    mask = None
    if masked:
        mask = torch.ones(rows, columns, dtype=torch.bool)
        mask[1, 0] = False
    log_odds = torch.randn(1, rows, columns)
    start = torch.full((count,), first)
    spread = None if mask is None else mask.expand(count, -1, -1)
    drawn = decode(rule, log_odds.expand(count, -1, -1), noise=noise(count), first=start, mask=spread)
    if rule is CYCLE:
        known = all_tours(rows)
    else:
        known = [list(c) for c in itertools.product(range(columns), repeat=rows)]
    choices = torch.tensor(known)
    few = None if mask is None else mask.expand(len(choices), -1, -1)
    p = log_probability(rule, log_odds.expand(len(choices), -1, -1), choices, start[: len(choices)], few).exp()
    number = {tuple(c): i for i, c in enumerate(known)}
    counts = torch.zeros(len(known))
    for choice in drawn.tolist():
        counts[number[tuple(choice)]] += 1  # a KeyError here is an infeasible sample
    if mask is not None and rule is ROWS:
        assert mask[torch.arange(rows), drawn].all()
    expected = p * count
    common = expected > 5
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum().item()
    freedom = max(int(common.sum()) - 1, 1)
    assert statistic < freedom + 4.5 * math.sqrt(2 * freedom)
    assert counts[~common].sum() < expected[~common].sum() + 5 * math.sqrt(expected[~common].sum() + 1)


@pytest.mark.parametrize("order", ["rule", "confidence"])
@pytest.mark.parametrize("size", [2, 3, 9])
def test_ten_thousand_samples_are_tours(order: str, size: int) -> None:
    """Every sample is one cycle, in both orders, at low and high temperature."""
    count = 10000
    log_odds = torch.randn(count, size, size) * 5
    for temperature in (0.05, 1.0, 20.0):
        drawn = decode(CYCLE, log_odds, order=order, temperature=temperature, noise=noise(count))
        city, visits = torch.zeros(count, 1, dtype=torch.long), torch.zeros(count, size)
        for _ in range(size):
            city = drawn.gather(1, city)
            visits.scatter_add_(1, city, torch.ones(count, 1))
        assert (visits == 1).all()


@pytest.mark.parametrize("order", ["rule", "confidence"])
@pytest.mark.parametrize("temperature", [1e-12, 1e-6])
def test_a_tiny_temperature_is_greedy_decoding(order: str, temperature: float) -> None:
    """As the temperature falls sampling becomes greedy, and stays feasible all the way down."""
    log_odds = torch.randn(50, 6, 6) * 4 - 8
    greedy = decode(CYCLE, log_odds, order=order)
    assert torch.equal(decode(CYCLE, log_odds, order=order, temperature=temperature, noise=noise(50)), greedy)


def test_temperature_flattens() -> None:
    """At temperature τ a row is drawn with probabilities softmax(log-odds / τ)."""
    log_odds = torch.tensor([[[0.0, 1.0, 2.0]]]).expand(20000, -1, -1)
    for temperature in (0.5, 3.0):
        drawn = decode(ROWS, log_odds, temperature=temperature, noise=noise(20000))
        share = torch.bincount(drawn.flatten(), minlength=3) / 20000
        torch.testing.assert_close(share, (log_odds[0, 0] / temperature).softmax(0), atol=0.015, rtol=0)


def test_greedy_decoding_needs_no_noise_and_ignores_temperature() -> None:
    """Without noise the most probable decisions are taken, whatever the temperature."""
    log_odds = torch.randn(20, 5, 5)
    once = decode(CYCLE, log_odds)
    assert torch.equal(once, decode(CYCLE, log_odds, temperature=7.0))
    assert torch.equal(once, CYCLE.follow(log_odds, torch.zeros(20, dtype=torch.long)))
    assert torch.equal(decode(CYCLE, log_odds, order="confidence"), CYCLE.by_confidence(log_odds))


@pytest.mark.parametrize("rule", [CYCLE, ROWS])
def test_gradient_of_log_p_hat(rule: Rule) -> None:
    """∇ log p̂ agrees with finite differences, so it is what REINFORCE needs."""
    log_odds = torch.randn(2, 4, 4)
    first = torch.tensor([1, 3])
    choice = decode(rule, log_odds, noise=noise(2), first=first)
    variable = log_odds.clone().requires_grad_()
    log_probability(rule, variable, choice, first).sum().backward()
    assert variable.grad is not None
    for i, j in itertools.product(range(4), repeat=2):
        bump = torch.zeros(4, 4)
        bump[i, j] = 0.05
        up, down = (log_probability(rule, log_odds + s * bump, choice, first) for s in (1, -1))
        torch.testing.assert_close(variable.grad[:, i, j], (up - down) / 0.1, atol=2e-3, rtol=0)


@pytest.mark.parametrize(("rule", "shape"), [(CYCLE, (5, 5)), (ROWS, (3, 3))])
def test_random_choices_are_uniform(rule: Rule, shape: tuple[int, int]) -> None:
    """q(X_0): every feasible solution comes equally often."""
    count = 12000
    drawn = random_choice(rule, shape, noise(count))
    known = all_tours(shape[0]) if rule is CYCLE else [list(c) for c in itertools.product(range(3), repeat=3)]
    counts = {tuple(c): 0 for c in known}
    for choice in drawn.tolist():
        counts[tuple(choice)] += 1
    expected = count / len(known)
    statistic = sum((c - expected) ** 2 / expected for c in counts.values())
    assert statistic < len(known) + 4.5 * math.sqrt(2 * len(known))


def test_random_choices_begin_at_any_row() -> None:
    """Where a mask makes the first row matter, all rows come first equally often."""
    seen: list[Tensor] = []

    class Watched(HamiltonianCycle):
        def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
            seen.append(first)
            return super().follow(scores, first, mask)

    random_choice(Watched(), (5, 5), noise(5000))
    share = torch.bincount(seen[0], minlength=5) / 5000
    torch.testing.assert_close(share, torch.full((5,), 0.2), atol=0.03, rtol=0)


def test_random_choices_honour_a_mask() -> None:
    """The prior never uses a pair the instance forbids."""
    mask = torch.rand(300, 4, 3) < 0.5
    mask[:, :, 1] = True
    drawn = random_choice(ROWS, (4, 3), noise(300), mask)
    assert mask.gather(2, drawn[:, :, None]).all()


@given(st.integers(0, 10**6), st.sampled_from(["rule", "confidence"]), st.integers(0, 5))
def test_a_sample_ignores_its_batch(seed: int, order: str, index: int) -> None:
    """What is decoded for one matrix does not depend on what is decoded beside it."""
    log_odds = torch.randn(6, 5, 5, generator=torch.Generator().manual_seed(seed))
    keys = fold(root_key(seed), torch.arange(6))
    together = decode(CYCLE, log_odds, order=order, noise=Noise(keys))
    one = slice(index, index + 1)
    assert torch.equal(together[one], decode(CYCLE, log_odds[one], order=order, noise=Noise(keys[one])))


@pytest.mark.parametrize("order", ["rule", "confidence"])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("rule", [CYCLE, ROWS])
def test_several_decodes_are_those_of_repeated_matrices(rule: Rule, noisy: bool, order: str) -> None:
    """Each matrix serves `decodes` keys in a row, with a mask too."""
    log_odds, first = torch.randn(3, 6, 6), torch.arange(12) % 6
    some = (torch.rand(3, 6, 6) < 0.6) | torch.eye(6, dtype=torch.bool).roll(1, 1)
    repeated = log_odds.repeat_interleave(4, 0)
    for mask in (None, some):

        def made(matrices: Tensor, decodes: int, mask: Tensor | None) -> Tensor:
            source = noise(12) if noisy else None
            return decode(rule, matrices, order=order, noise=source, first=first, mask=mask, decodes=decodes)

        spread = None if mask is None else mask.repeat_interleave(4, 0)
        assert torch.equal(made(log_odds, 4, mask), made(repeated, 1, spread))
        assert torch.equal(made(repeated, 1, mask), made(repeated, 1, spread))  # one mask for four matrices
    assert torch.equal(decode(rule, log_odds, order=order, decodes=2), decode(rule, repeated[::2], order=order))


@given(st.integers(0, 10**6), st.sampled_from([0.2, 0.5, 0.8]))
def test_masked_tours_are_those_of_the_plain_rule(seed: int, share: float) -> None:
    """However many dead ends there are, the quick ways decide as the rule says, and log p̂ knows what was allowed."""
    draws = torch.Generator().manual_seed(seed)
    scores, first = torch.randn(8, 6, 6, generator=draws), torch.arange(8) % 6
    mask = torch.rand(8, 6, 6, generator=draws) < share
    tours = CYCLE.follow(scores, first, mask)
    assert torch.equal(tours, Rule.follow(CYCLE, scores, first, mask))
    assert torch.equal(CYCLE.by_confidence(scores, mask), Rule.by_confidence(CYCLE, scores, mask))
    assert Atsp().feasible({"distances": torch.zeros(1, 6, 6)}, tours[None]).all()
    along = CYCLE.allowed_along(tours, 6, first, mask)
    assert torch.equal(along, Rule.allowed_along(CYCLE, tours, 6, first, mask))
    assert along.gather(2, tours[..., None]).all()


def test_a_dead_end_comes_last_by_confidence() -> None:
    """City 0 may go nowhere; though it is the surest of all, the others decide first, as the mask says."""
    mask = torch.eye(4, dtype=torch.bool).roll(1, 1)[None].clone()
    mask[0, 0] = False
    scores = torch.zeros(1, 4, 4)
    scores[0, 0, 2] = 50.0
    assert CYCLE.by_confidence(scores, mask).tolist() == [[1, 2, 3, 0]]


class _PlainCycle(HamiltonianCycle):
    """Decodes by the methods that every rule has."""

    follow, by_confidence = Rule.follow, Rule.by_confidence


@pytest.mark.parametrize("order", ["rule", "confidence"])
def test_a_mask_is_kept_in_both_orders(order: str) -> None:
    """Only the permitted pairs are taken, though all others are far more probable."""
    ring = torch.eye(5, dtype=torch.bool).roll(1, 1).expand(40, -1, -1)
    log_odds = torch.randn(40, 5, 5) - 20.0 * ring
    for rule in (CYCLE, _PlainCycle()):
        assert (decode(rule, log_odds, order=order, noise=noise(40), mask=ring) == torch.tensor([1, 2, 3, 4, 0])).all()
    mask = torch.rand(40, 5, 5) < 0.4
    mask[:, :, 2] = True
    drawn = decode(ROWS, torch.randn(40, 5, 5) - 20.0 * mask, order=order, noise=noise(40), mask=mask)
    assert mask.gather(2, drawn[:, :, None]).all()


def test_half_precision_log_odds_are_decoded_in_float32() -> None:
    """bfloat16 logits from a GPU give a float32 log-probability and feasible choices."""
    log_odds = torch.randn(4, 6, 6).bfloat16()
    choice = decode(CYCLE, log_odds, noise=noise(4))
    log_p = log_probability(CYCLE, log_odds, choice)
    assert log_p.dtype == torch.float32
    torch.testing.assert_close(log_p, log_probability(CYCLE, log_odds.float(), choice))


def test_sampling_is_traceable_without_reading_values() -> None:
    """decode and log p̂ run on tensors without data, so no value is ever read on the host."""
    with torch.device("meta"):
        log_odds, first = torch.empty(3, 5, 5), torch.empty(3, dtype=torch.long)
        keys, mask = torch.empty(3, dtype=torch.long), torch.empty(3, 5, 5, dtype=torch.bool)
    for rule, order in itertools.product((CYCLE, ROWS), ("rule", "confidence")):
        for permitted in (None, mask):
            choice: Tensor = decode(rule, log_odds, order=order, noise=Noise(keys), first=first, mask=permitted)
            assert choice.shape == (3, 5)
            assert log_probability(rule, log_odds, choice, first, permitted).shape == (3,)


def test_loads_have_total_probability_one_and_samples_follow_it() -> None:
    """Σ p̂ over all schedules is 1, and decoding by loads draws each as often as p̂ says."""
    rows, columns = 3, 3
    choices = torch.tensor(list(itertools.product(range(columns), repeat=rows)))
    log_odds, times = torch.randn(1, rows, columns), torch.tensor([[[4, 5, 6], [9, 8, 7], [2, 1, 3]]])
    log_p = log_probability(ROWS, log_odds.expand(len(choices), -1, -1), choices, order="loads", times=times)
    assert float(log_p.exp().sum()) == pytest.approx(1.0, abs=1e-5)
    count = 40_000
    drawn = decode(ROWS, log_odds, order="loads", noise=noise(count), decodes=count, times=times)
    number = (drawn * torch.tensor([9, 3, 1])).sum(1)
    share = torch.bincount(number, minlength=27) / count
    assert (share - log_p.exp()).abs().max() < 0.01
    independent = log_probability(ROWS, log_odds.expand(len(choices), -1, -1), choices)
    assert (log_p - independent).abs().max() > 0.5


def test_loads_by_hand() -> None:
    """The longest row first, by what it takes at least; one mean row to come on a load weighs as log-odds of one."""
    times = torch.tensor([[[2.0, 9.0], [6.0, 8.0], [4.0, 4.0]]])  # rows decide 1, 2, 0; units 4, 3, 2
    choice = torch.tensor([[0, 0, 0]])
    log_odds = torch.zeros(1, 3, 2)
    expected = sum(-math.log1p(math.exp((a - b) / unit)) for a, b, unit in ((6, 8, 4), (10, 4, 3), (12, 9, 2)))
    found = log_probability(ROWS, log_odds, choice, order="loads", times=times)
    assert float(found) == pytest.approx(expected, rel=1e-5)
    assert decode(ROWS, log_odds, order="loads", times=times).tolist() == [[0, 0, 1]]
    log_odds[0, 2, 0] = 2.1  # above the price of 6 in units of 3
    assert decode(ROWS, log_odds, order="loads", times=times).tolist() == [[1, 0, 0]]
    mask = torch.ones(1, 3, 2, dtype=torch.bool)
    mask[0, 0, 1] = False
    assert decode(ROWS, log_odds, order="loads", times=times, mask=mask).tolist() == [[0, 0, 0]]


def test_loads_are_those_of_each_instance() -> None:
    """Several matrices of each instance, decoded several times; the unit of time is all the same."""
    log_odds, times = torch.randn(6, 9, 4), torch.rand(3, 9, 4) + 0.5
    whole = decode(ROWS, log_odds, order="loads", noise=noise(12), decodes=2, times=times)
    for instance in range(3):
        own = Noise(noise(12).keys[4 * instance : 4 * instance + 4])
        part = log_odds[2 * instance : 2 * instance + 2]
        alone = decode(ROWS, part, order="loads", noise=own, decodes=2, times=1000 * times[instance : instance + 1])
        assert torch.equal(whole[4 * instance : 4 * instance + 4], alone)


def test_loads_are_evened_out() -> None:
    """With nothing else to go by, makespans are far below those of independent rows."""
    times = torch.rand(5, 40, 4) + 0.5
    flat = torch.zeros(5, 40, 4)

    def makespan(choice: Tensor) -> Tensor:
        return kernels.column_totals(times, choice.view(5, 8, 40)).amax(-1).mean()

    by_loads = decode(ROWS, flat, order="loads", noise=noise(40), decodes=8, times=times)
    independent = decode(ROWS, flat, noise=noise(40), decodes=8)
    assert makespan(by_loads) < 0.85 * makespan(independent)


def test_rows_that_take_no_time_are_decided_all_the_same() -> None:
    times = torch.zeros(1, 3, 2)
    choice = decode(ROWS, torch.tensor([[[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]]), order="loads", times=times)
    assert choice.tolist() == [[1, 0, 1]]
    assert torch.isfinite(log_probability(ROWS, torch.zeros(1, 3, 2), choice, order="loads", times=times)).all()


class _Reversed(OneColumnPerRow):
    """Decides from the last row on: what the shortcut for loads does is no longer its own way."""

    def next_row(self, state: dict[str, Tensor]) -> Tensor:
        return state["open"].shape[1] - 1 - state["turn"]


def test_orders_that_cannot_be_are_refused() -> None:
    log_odds, choice, times = torch.zeros(1, 3, 3), torch.tensor([[1, 2, 0]]), torch.ones(1, 3, 3)
    for rule in (CYCLE, _Reversed()):
        with pytest.raises(UsageError, match="cannot decide by loads"):
            decode(rule, log_odds, order="loads", times=times)
        with pytest.raises(UsageError, match="cannot decide by loads"):
            log_probability(rule, log_odds, choice, order="loads", times=times)
    with pytest.raises(UsageError, match="needs to know what each row adds"):
        decode(ROWS, log_odds, order="loads")
    with pytest.raises(UsageError, match="no closed form"):
        log_probability(ROWS, log_odds, choice, order="confidence")
