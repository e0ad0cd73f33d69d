"""Draws, decoding and totals as one kernel each: what torch operations give, for every rule, order and size."""

from typing import Any

import pytest
import torch
from torch import Tensor

from icdc import kernels
from icdc.diffusion.sampler import SamplingOptions, _decode
from icdc.kernels import Noise, dispatch, fold, root_key
from icdc.kernels import decode as decoding
from icdc.problems.atsp import Atsp
from icdc.problems.decoding import Order, decode, random_choice
from icdc.problems.pmsp import Pmsp
from icdc.problems.rules import HamiltonianCycle, OneColumnPerRow, Rule
from icdc.problems.task import Task
from tests.kernels.support import DEVICE, NEEDS_TRITON

pytestmark = NEEDS_TRITON
CYCLE, ROWS = HamiltonianCycle(), OneColumnPerRow()
# the interpreter takes seconds for what a GPU does at once
JOINED = [(1, 1), (2, 1), (3, 1), (5, 2), (9, 9), (13, 3)]
JOINED += [] if dispatch.INTERPRETED else [(64, 8), (100, 16), (257, 5), (1000, 16)]


class Plain(Exception):
    """Raised where torch operations would decode."""


@pytest.fixture
def kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no plain decoding pass unnoticed."""

    def refuse(log_odds: Tensor, gumbel: object, decodes: int) -> Tensor:
        if dispatch._switched_off:
            return PLAIN(log_odds, gumbel, decodes)
        raise Plain

    monkeypatch.setattr(decoding, "noisy_scores", refuse)


PLAIN: Any = decoding.noisy_scores


def noise(count: int, skipped: int = 0) -> Noise:
    """Return noise that has drawn some numbers before."""
    made = Noise(fold(root_key(count), torch.arange(count, device=DEVICE)))
    for _ in range(skipped):
        made.uniform(1)
    return made


def random_log_odds(count: int, rows: int, columns: int) -> Tensor:
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    return (torch.randn(count, rows, columns, generator=generator) * 3).to(DEVICE)


def both_ways(rule: Rule, log_odds: Tensor, order: Order, decodes: int, noisy: bool) -> tuple[Tensor, Tensor]:
    """Return the choices of the kernel and of torch operations; each draws once more, so that draws are counted."""
    rows, count = log_odds.shape[1], len(log_odds) * decodes
    first = torch.arange(count, device=DEVICE) * 7 % rows

    def choices() -> tuple[Tensor, Tensor]:
        drawn = noise(count, 3)
        choice = decode(
            rule, log_odds, order=order, temperature=0.7, noise=drawn if noisy else None, first=first, decodes=decodes
        )
        return choice, drawn.uniform(2)

    found, after = choices()
    with kernels.without_triton():
        expected, expected_after = choices()
    assert torch.equal(after, expected_after)
    assert found.dtype == torch.long
    return found, expected


@pytest.mark.usefixtures("kernels_only")
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("decodes", [1, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 20, 33])
def test_tours_are_those_of_torch_operations(size: int, decodes: int, noisy: bool) -> None:
    """Followed from any city, and joined from the best pairs."""
    log_odds = random_log_odds(3, size, size)
    for order in ("rule", "confidence"):
        found, expected = both_ways(CYCLE, log_odds, order, decodes, noisy)
        assert torch.equal(found, expected)


@pytest.mark.usefixtures("kernels_only")
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("decodes", [1, 4])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (5, 3), (50, 5), (33, 16), (7, 33)])
def test_columns_are_those_of_torch_operations(rows: int, columns: int, decodes: int, noisy: bool) -> None:
    """Every row by itself, more rows than one program takes."""
    found, expected = both_ways(ROWS, random_log_odds(9, rows, columns), "rule", decodes, noisy)
    assert torch.equal(found, expected)


@pytest.mark.usefixtures("kernels_only")
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("decodes", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (5, 3), (20, 16), (7, 33)])
def test_columns_by_loads_are_those_of_torch_operations(rows: int, columns: int, decodes: int, noisy: bool) -> None:
    """Three matrices for each of two instances, every row at its own turn."""
    log_odds = random_log_odds(6, rows, columns)
    times = 1 + random_log_odds(2, rows, columns).abs()

    def choices() -> Tensor:
        drawn = noise(6 * decodes, 3) if noisy else None
        return decode(ROWS, log_odds, order="loads", temperature=0.7, noise=drawn, decodes=decodes, times=times)

    found = choices()
    with kernels.without_triton():
        assert torch.equal(found, choices())


@pytest.mark.usefixtures("kernels_only")
@pytest.mark.parametrize(("rule", "order"), [(CYCLE, "rule"), (CYCLE, "confidence"), (ROWS, "rule")])
@pytest.mark.parametrize("noisy", [False, True])
def test_half_precision_is_read_as_it_is(rule: Rule, order: Order, noisy: bool) -> None:
    found, expected = both_ways(rule, random_log_odds(4, 9, 9).bfloat16(), order, 2, noisy)
    assert torch.equal(found, expected)


@pytest.mark.usefixtures("kernels_only")
@pytest.mark.parametrize(("rule", "order"), [(CYCLE, "rule"), (CYCLE, "confidence"), (ROWS, "rule")])
def test_the_first_of_equals_is_taken(rule: Rule, order: Order) -> None:
    """As argmax does; and matrices in another layout are read in their own order."""
    ties = random_log_odds(6, 10, 10).div(4).round().mT
    found, expected = both_ways(rule, ties, order, 1, False)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("order", ["rule", "confidence"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1e30])
def test_a_tour_stays_a_tour_whatever_the_network_says(order: Order, value: float) -> None:
    log_odds = random_log_odds(4, 6, 6)
    log_odds[1, 2:] = value
    log_odds[2] = value
    choice = decode(CYCLE, log_odds, order=order, noise=noise(4))
    instances = {"distances": torch.zeros(4, 6, 6, device=DEVICE)}
    assert Atsp().feasible(instances, choice[:, None]).all()


@pytest.mark.usefixtures("kernels_only")
def test_what_has_no_kernel() -> None:
    """A mask, sizes beyond a program's registers, double precision: left to torch operations."""
    wide = dispatch.WIDEST_MATRIX + 1
    first = torch.zeros(1, dtype=torch.long, device=DEVICE)
    kernels.follow_tours(torch.zeros(1, wide, wide, device=DEVICE), first)
    with pytest.raises(Plain):
        kernels.join_tours(torch.zeros(1, wide, wide, device=DEVICE))
    with pytest.raises(Plain):
        kernels.follow_tours(torch.zeros(1, 3, 3, device=DEVICE).double(), first)
    with pytest.raises(Plain):
        kernels.pick_columns(torch.zeros(1, 1, dispatch.WIDEST_ROW + 1, device=DEVICE))


def test_a_mask_is_kept() -> None:
    mask = torch.eye(4, dtype=torch.bool, device=DEVICE).expand(2, -1, -1)
    log_odds = random_log_odds(2, 4, 4)
    assert decode(ROWS, log_odds, noise=noise(2), mask=mask).tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.usefixtures("kernels_only")
def test_a_rule_that_decides_otherwise_gets_no_kernel() -> None:
    class Backwards(HamiltonianCycle):
        def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().by_confidence(-scores, mask)

    log_odds = random_log_odds(3, 6, 6)
    with kernels.without_triton():
        expected = decode(CYCLE, -log_odds, order="confidence")
    assert torch.equal(decode(Backwards(), log_odds, order="confidence"), expected)


@pytest.mark.parametrize("decodes", [1, 5])
@pytest.mark.parametrize("order", ["rule", "confidence"])
def test_decodes_of_a_trajectory(order: Order, decodes: int) -> None:
    """All that a step of sampling decodes: choices, first rows, costs and the best of each matrix."""
    distances = random_log_odds(2, 7, 7).abs()
    options = SamplingOptions(order=order, decodes=decodes)
    log_odds = random_log_odds(6, 7, 7)

    def decoded() -> list[Tensor]:
        return flat(_decode(Task(Atsp(), {"distances": distances}), log_odds, noise(6), options, None, False))

    by_kernels = decoded()
    with kernels.without_triton():
        expected = decoded()
    for one, other in zip(by_kernels, expected, strict=True):
        assert torch.equal(one, other)


def flat(results: object) -> list[Tensor]:
    """Return the tensors of nested tuples; None is left out."""
    if isinstance(results, tuple):
        return [tensor for part in results for tensor in flat(part)]
    return [results] if isinstance(results, Tensor) else []


@pytest.mark.parametrize("rule", [CYCLE, ROWS])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_random_choices(rule: Rule, count: int) -> None:
    """The prior over solutions is drawn from one matrix for all keys."""
    found = random_choice(rule, (6, 6), noise(count))
    with kernels.without_triton():
        expected = random_choice(rule, (6, 6), noise(count))
    assert found.shape == (count, 6)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("rule", "order"), [(CYCLE, "rule"), (CYCLE, "confidence"), (ROWS, "rule")])
def test_gradients_stop_here(rule: Rule, order: Order) -> None:
    assert not decode(rule, random_log_odds(3, 5, 5).requires_grad_(), order=order, noise=noise(3)).requires_grad


@pytest.mark.parametrize("shape", [(1,), (3, 4), (20, 20), (1023,)])
@pytest.mark.parametrize("skipped", [0, 1, 5])
def test_kernels_draw_what_torch_operations_draw(shape: tuple[int, ...], skipped: int) -> None:
    """Uniform numbers agree to the last bit at any draw, Gumbel noise up to the rounding of a logarithm."""
    keys = fold(root_key(3, DEVICE), torch.arange(7, device=DEVICE))

    def values() -> tuple[Tensor, Tensor]:
        noise = Noise(keys)
        for _ in range(skipped):
            noise.uniform(1)
        return noise.uniform(*shape), noise.gumbel(*shape)

    found = values()
    with kernels.without_triton():
        uniform, gumbel = values()
    assert torch.equal(found[0], uniform)
    torch.testing.assert_close(found[1], gumbel, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("high", [1, 2, 20, 10**6, 2**31 - 1])
@pytest.mark.parametrize("skipped", [0, 4])
def test_kernels_draw_the_same_integers_and_children(high: int, skipped: int) -> None:
    """To the last bit, and draws are counted alike."""
    keys = fold(root_key(5, DEVICE), torch.arange(300, device=DEVICE))

    def values() -> list[Tensor]:
        noise = Noise(keys)
        for _ in range(skipped):
            noise.uniform(1)
        children = noise.spawn(7)
        return [noise.integers(high), noise.integers(high, 3, 4), children.keys, children.integers(high), noise.keys]

    found = values()
    with kernels.without_triton():
        expected = values()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.long
        assert torch.equal(one, other)


def test_no_keys_no_numbers() -> None:
    none = Noise(torch.zeros(0, dtype=torch.long, device=DEVICE))
    assert none.uniform(4).shape == (0, 4)
    assert none.integers(3).shape == (0,)
    assert none.spawn(2).keys.shape == (0,)


def by_hand(matrix: Tensor, choice: Tensor) -> Tensor:
    """Add up one entry after the other."""
    totals = torch.zeros(*choice.shape[:2], matrix.shape[2], dtype=matrix.dtype)
    for instance in range(choice.shape[0]):
        for sample in range(choice.shape[1]):
            for row, column in enumerate(choice[instance, sample].tolist()):
                totals[instance, sample, column] += matrix[instance, row, column]
    return totals


@pytest.mark.parametrize("kind", [torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize(("batch", "samples", "rows", "columns"), [(1, 1, 1, 1), (3, 5, 7, 4), (2, 70, 9, 13)])
def test_every_row_counts_once_in_its_column(
    kind: torch.dtype, batch: int, samples: int, rows: int, columns: int
) -> None:
    generator = torch.Generator().manual_seed(rows)
    matrix = torch.randint(1, 1000, (batch, rows, columns), generator=generator).to(kind)
    choice = torch.randint(columns, (batch, samples, rows), generator=generator)
    found = kernels.column_totals(matrix.to(DEVICE), choice.to(DEVICE))
    assert found.dtype == kind
    assert torch.equal(found.cpu(), by_hand(matrix, choice))


def test_no_column_adds_nothing() -> None:
    matrix = torch.full((1, 3, 2), 5, device=DEVICE)
    choice = torch.tensor([[[0, -1, 2]]], device=DEVICE)
    assert kernels.column_totals(matrix, choice).tolist() == [[[5, 0]]]


def test_no_solutions() -> None:
    matrix = torch.ones(2, 3, 2, device=DEVICE)
    choice = torch.zeros(2, 0, 3, dtype=torch.long, device=DEVICE)
    assert kernels.column_totals(matrix, choice).shape == (2, 0, 2)


def test_the_makespan_uses_it() -> None:
    """A choice of no machine is an error in torch operations; a kernel adds nothing."""
    generator = torch.Generator().manual_seed(1)
    durations = torch.randint(2, 20, (4, 20, 3), generator=generator).to(DEVICE)
    choice = torch.randint(3, (4, 6, 20), generator=generator).to(DEVICE)
    found = Pmsp().cost({"durations": durations}, choice)
    with kernels.without_triton():
        assert torch.equal(found, Pmsp().cost({"durations": durations}, choice))


def drawn(size: int, each: int, levels: int, samples: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of random candidates of two instances and the excess of all steps; with `levels` few different numbers."""
    generator = torch.Generator().manual_seed(size + 100 * each + levels)
    index = torch.rand(2, size, size, generator=generator).argsort(-1)[..., :each].sort(-1).values
    scores = torch.randn(2 * samples, size, each, generator=generator)
    excess = 5 * torch.rand(2, size, size, generator=generator)
    if levels:
        scores, excess = (scores * levels).round() / levels, (excess * levels).round() / levels
    return scores.to(DEVICE), index.to(DEVICE), excess.to(DEVICE)


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize(("size", "each"), JOINED)
def test_joined_tours_are_those_of_torch_operations(size: int, each: int, levels: int) -> None:
    from icdc.kernels.decode import triton

    scores, index, excess = drawn(size, each, levels)
    found = triton.join_candidates(scores, index, excess, decoding.least_score(scores))
    assert found.dtype == torch.int64
    with kernels.without_triton():
        assert torch.equal(found, kernels.join_tours(kernels.spread_scores(scores, index, excess)))


@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize(("size", "each"), JOINED)
def test_followed_tours_are_those_of_torch_operations(size: int, each: int, levels: int) -> None:
    """From any city, and with cities among their own candidates, however good they are."""
    from icdc.kernels.decode import triton

    scores, index, excess = drawn(size, each, levels)
    first = torch.arange(6, device=DEVICE) * 5 % size
    if levels:
        index[:, ::2, 0], scores[:, ::2, 0] = torch.arange(0, size, 2, device=DEVICE), 99.0
    found = triton.follow_candidates(scores, index, excess, decoding.least_score(scores), first)
    assert found.dtype == torch.int64
    with kernels.without_triton():
        assert torch.equal(found, kernels.follow_tours(kernels.spread_scores(scores, index, excess), first))


def test_a_gpu_joins_and_follows_by_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No further than registers hold."""
    from icdc.kernels.decode import triton

    seen = []
    for name in ("join_candidates", "follow_candidates"):
        monkeypatch.setattr(triton, name, lambda *given: seen.append(len(given)) or given[0])
    scores, index, excess = drawn(5, 2, 0)
    first = torch.zeros(6, dtype=torch.long, device=DEVICE)
    kernels.join_candidates(scores, index, excess)
    kernels.follow_candidates(scores, index, excess, first)
    assert seen == [4, 5]
    monkeypatch.setattr(dispatch, "LONGEST_JOINED", 4)
    assert kernels.join_candidates(scores, index, excess).shape == (6, 5)
    assert kernels.follow_candidates(scores, index, excess, first).shape == (6, 5)
    assert seen == [4, 5]
