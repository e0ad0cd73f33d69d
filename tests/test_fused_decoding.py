"""Decoding as one kernel: the solutions of the plain operations, for every rule, order and size."""

import pytest
import torch
from torch import Tensor

from icdc import fused_decoding, fused_noise
from icdc.decoding import Order, decode, random_choice
from icdc.noise import Noise, fold, root_key
from icdc.problems.atsp import Atsp
from icdc.rules import HamiltonianCycle, OneColumnPerRow, Rule
from icdc.sampling import SamplingOptions, Task, _decode

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    not fused_noise.available(torch.device(DEVICE)), reason="needs a GPU, or triton with TRITON_INTERPRET=1"
)
CYCLE, ROWS = HamiltonianCycle(), OneColumnPerRow()


def without_kernels(patch: pytest.MonkeyPatch) -> None:
    for module in (fused_decoding, fused_noise):
        patch.setattr(module, "available", lambda device: False)


def noise(count: int, skipped: int = 0) -> Noise:
    """Return noise that has drawn some numbers before."""
    made = Noise(fold(root_key(count), torch.arange(count, device=DEVICE)))
    for _ in range(skipped):
        made.uniform(1)
    return made


def random_log_odds(count: int, rows: int, columns: int) -> Tensor:
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    return (torch.randn(count, rows, columns, generator=generator) * 3).to(DEVICE)


def both_ways(
    patch: pytest.MonkeyPatch, rule: Rule, log_odds: Tensor, order: Order, decodes: int, noisy: bool
) -> tuple[Tensor, Tensor]:
    """Return the choices of the kernel and of plain operations; each draws once more, so that draws are counted."""
    rows, solutions = log_odds.shape[1], len(log_odds) * decodes
    first = torch.arange(solutions, device=DEVICE) * 7 % rows

    def choices() -> tuple[Tensor, Tensor]:
        drawn = noise(solutions, 3)
        choice = decode(
            rule, log_odds, order=order, temperature=0.7, noise=drawn if noisy else None, first=first, decodes=decodes
        )
        return choice, drawn.uniform(2)

    assert rule.kernel(log_odds, order == "confidence") is not None
    fused, after = choices()
    without_kernels(patch)
    assert rule.kernel(log_odds, order == "confidence") is None
    expected, expected_after = choices()
    assert torch.equal(after, expected_after)
    return fused, expected


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("decodes", [1, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 20, 33])
def test_tours_are_those_of_plain_operations(
    size: int, decodes: int, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followed from any city, and joined from the best pairs."""
    log_odds = random_log_odds(3, size, size)
    for order in ("rule", "confidence"):
        with monkeypatch.context() as patch:
            fused, expected = both_ways(patch, CYCLE, log_odds, order, decodes, noisy)
        assert fused.dtype == torch.long
        assert torch.equal(fused, expected)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("decodes", [1, 4])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (5, 3), (50, 5), (33, 16), (7, 33)])
def test_columns_are_those_of_plain_operations(
    rows: int, columns: int, decodes: int, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row by itself, more rows than one program takes."""
    fused, expected = both_ways(monkeypatch, ROWS, random_log_odds(9, rows, columns), "rule", decodes, noisy)
    assert fused.dtype == torch.long
    assert torch.equal(fused, expected)


@pytest.mark.parametrize(("rule", "order"), [(CYCLE, "rule"), (CYCLE, "confidence"), (ROWS, "rule")])
@pytest.mark.parametrize("noisy", [False, True])
def test_half_precision_is_read_as_it_is(
    rule: Rule, order: Order, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused, expected = both_ways(monkeypatch, rule, random_log_odds(4, 9, 9).bfloat16(), order, 2, noisy)
    assert torch.equal(fused, expected)


@pytest.mark.parametrize(("rule", "order"), [(CYCLE, "rule"), (CYCLE, "confidence"), (ROWS, "rule")])
def test_the_first_of_equals_is_taken(rule: Rule, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """As argmax does; and matrices in another layout are read in their own order."""
    ties = random_log_odds(6, 10, 10).div(4).round().mT
    fused, expected = both_ways(monkeypatch, rule, ties, order, 1, False)
    assert torch.equal(fused, expected)


@pytest.mark.parametrize("order", ["rule", "confidence"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1e30])
def test_a_tour_stays_a_tour_whatever_the_network_says(order: Order, value: float) -> None:
    log_odds = random_log_odds(4, 6, 6)
    log_odds[1, 2:] = value
    log_odds[2] = value
    choice = decode(CYCLE, log_odds, order=order, noise=noise(4))
    instances = {"distances": torch.zeros(4, 6, 6, device=DEVICE)}
    assert Atsp().feasible(instances, choice[:, None]).all()


def test_what_has_no_kernel() -> None:
    """A mask, and sizes beyond a program's registers, are left to plain operations."""
    wide = fused_decoding.WIDEST_MATRIX + 1
    assert CYCLE.kernel(torch.zeros(1, wide, wide, device=DEVICE), by_confidence=True) is None
    assert CYCLE.kernel(torch.zeros(1, wide, wide, device=DEVICE), by_confidence=False) is not None
    assert CYCLE.kernel(torch.zeros(1, 2, 3, device=DEVICE), by_confidence=False) is None
    mask = torch.eye(4, dtype=torch.bool, device=DEVICE).expand(2, -1, -1)
    log_odds = random_log_odds(2, 4, 4)
    assert decode(ROWS, log_odds, noise=noise(2), mask=mask).tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("decodes", [1, 5])
@pytest.mark.parametrize("order", ["rule", "confidence"])
def test_decodes_of_a_trajectory(order: Order, decodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a step of sampling decodes: choices, first rows, costs and the best of each matrix."""
    distances = random_log_odds(2, 7, 7).abs()
    options = SamplingOptions(order=order, decodes=decodes)
    log_odds = random_log_odds(6, 7, 7)

    def made() -> tuple[Tensor, ...]:
        return _decode(Task(Atsp(), {"distances": distances}), log_odds, noise(6), options, None, False)

    fused = made()
    without_kernels(monkeypatch)
    for found, expected in zip(fused, made(), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("rule", [CYCLE, ROWS])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_random_choices(rule: Rule, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior over solutions is drawn from one matrix for all keys."""
    fused = random_choice(rule, (6, 6), noise(count))
    without_kernels(monkeypatch)
    expected = random_choice(rule, (6, 6), noise(count))
    assert fused.shape == (count, 6)
    assert torch.equal(fused, expected)


@pytest.mark.parametrize(("rule", "order"), [(CYCLE, "rule"), (CYCLE, "confidence"), (ROWS, "rule")])
def test_operations_know_their_outputs(rule: Rule, order: Order) -> None:
    """Shapes are known without a value, gradients stop here."""
    log_odds = random_log_odds(3, 5, 5).requires_grad_()
    first = torch.zeros(6, dtype=torch.long, device=DEVICE)
    keys = noise(6).keys
    kernel = rule.kernel(log_odds, order == "confidence")
    assert kernel is not None
    real = decode(rule, log_odds, order=order, noise=Noise(keys), first=first, decodes=2)
    fake = kernel(log_odds.to("meta"), keys.to("meta"), 0, 1.0, first.to("meta"), 2)
    assert (fake.shape, fake.dtype) == (real.shape, real.dtype) == ((6, 5), torch.long)
    assert not real.requires_grad
