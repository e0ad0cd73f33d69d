"""Schedules on unrelated machines as tensors: cost, features, and schedules to begin with. `pmsp` is the rest."""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from .. import kernels
from ..kernels import Noise
from .base import Draw, Instances, Problem, Size
from .decoding import Starts, decode_around
from .families import NORMAL_STEPS, looked_up, normal_table, rounded_exponentials
from .features import FARTHEST, LARGEST, PRICE_ROUNDS, Features, channels_of_candidates
from .local_search import construct as draw_and_improve
from .tensors import neutral, permitted_mean, permitted_pairs, picked, totals_by_column

_VARIETY = 0.1
"""Temperature of starting schedules after the first, in units of what a job costs at balancing prices."""
_SHARE_OF_LOADS, _VARIETY_BY_LOADS = 0.01, 0.5
"""Where jobs see the loads so far: that unit's share that counts as one average job more, and the temperature in it."""
_NOWHERE = 1e3
"""The time of a forbidden pair, in mean times, where jobs spread over machines: no share of any job gets there."""
_TINY = 1e-30

HUGE = 1_000_000
"""The processing time that forbids a pair: below 10,000 jobs no schedule without it is as long."""
_SPEEDS = 1024
"""Different speeds of a machine."""


def sample_on_device(problem: Problem, size: Size, noise: Noise) -> dict[str, Tensor]:
    jobs, machines = size
    return {"durations": (2 + noise.integers(18, jobs, machines)).float()}


def cost(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    return totals_by_column(instances["durations"], choice).amax(-1)


def cost_changes(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    """Return by how much the makespan rises if one job takes another machine, (batch, samples, jobs, machines)."""
    durations = instances["durations"]
    loads = totals_by_column(durations, choice)
    top, machine = loads.topk(min(2, loads.shape[-1]), -1)
    # the fullest machine besides the job's own, which is left without the job; where the job arrives counts anyway
    other = torch.where(choice == machine[..., :1], top[..., -1:], top[..., :1])
    left = loads.gather(-1, choice) - picked(durations, choice)
    arrived = loads[:, :, None] + durations[:, None]
    return torch.maximum(arrived, torch.maximum(left, other)[..., None]) - top[..., :1, None]


def feasible(problem: Problem, instances: Instances, choice: Tensor) -> Tensor:
    return ((choice >= 0) & (choice < instances["durations"].shape[2])).all(-1)


def violation(problem: Problem, x: Tensor) -> Tensor:
    """C_PMSP: squared excess over one of the number of machines each job has."""
    return (x.sum(2) - 1).square().sum(1)


def times(problem: Problem, instances: Instances) -> Tensor:
    """Return the processing times, (batch, jobs, machines)."""
    return instances["durations"]


def permitted(problem: Problem, instances: Instances) -> Tensor | None:
    """Return the pairs that are in some schedule worth having; see `permitted_pairs`."""
    return permitted_pairs(instances["durations"]) if problem.structure == "makespan" else problem.mask(instances)


def construct(problem: Problem, instances: Instances, count: int = 1) -> Starts:
    """Give jobs to machines by prices that balance the loads, and improve the schedules.

    Half of them, the first among them, give every job to the machine at which it costs least; the others decide
    longest first, and see the loads so far.
    """
    if problem.structure != "makespan":  # a subclass with another cost, or with schedules that it refuses
        return draw_and_improve(problem, instances, count)
    durations, permitted = instances["durations"], permitted_pairs(instances["durations"])
    prices, bound = kernels.schedule_prices(durations, permitted)
    priced = (durations * prices[:, None]).masked_fill(~permitted, torch.inf)
    least = priced.amin(2)
    scores, unit = least[..., None] - priced, least.mean(1)[:, None, None]
    free = decode_around(problem.rule, scores, unit, count - count // 2, "rule", _VARIETY)
    by_loads = decode_around(
        problem.rule, scores, _SHARE_OF_LOADS * unit, count // 2, "loads", _VARIETY_BY_LOADS,
        neutral(durations, permitted),
    )  # fmt: skip
    choice = problem.improve(instances, torch.cat([free, by_loads], 1), rounds=durations.shape[1])
    return Starts(choice, least, prices, bound)


def features(problem: Problem, instances: Instances) -> Features:
    """P, P above its row's minimum and mean, and balanced fractional assignments at two temperatures.

    Forbidden pairs look somewhat longer than all others, and no job is spread over them.
    """
    permitted = permitted_pairs(instances["durations"])
    durations = neutral(instances["durations"], permitted).float()
    mean = permitted_mean(durations, permitted, (1, 2))
    scaled = durations / mean.clamp_min(torch.finfo(torch.float32).tiny)
    chosen = scaled.masked_fill(~permitted, _NOWHERE)
    channels = [
        scaled - 1.0,
        scaled - scaled.amin(2, keepdim=True),
        scaled - permitted_mean(scaled, permitted, 2),
        balanced_assignment(chosen, 0.2).clamp_min(-12.0) / 4.0,
        balanced_assignment(chosen, 0.06).clamp_min(-12.0) / 4.0,
    ]
    return Features(torch.stack(channels, -1))


def priced_features(problem: Problem, instances: Instances, candidates: int = 0) -> Features:
    """What pairs give away beyond the prices of a balanced schedule; see `schedule_channels`."""
    if not candidates:
        return Features(schedule_channels(instances["durations"]))
    relations, chosen = channels_of_candidates(*_schedule_planes(instances["durations"]), candidates)
    return Features(relations, candidates=chosen)


def balanced_assignment(durations: Tensor, temperature: float, rounds: int = 30) -> Tensor:
    """Return log-weights (batch, jobs, machines) of a fractional assignment with nearly equal loads.

    Machines have prices; a job spreads over machines by softmax of −price × duration. Prices of machines
    loaded above the mean rise and the others fall, by multiplicative updates that shrink: at a low
    temperature steady ones would overshoot for ever, and amplify rounding.
    """
    price = torch.ones_like(durations[:, :1])
    for turn in range(rounds):
        load = ((-durations * price / temperature).softmax(-1) * durations).sum(1, keepdim=True)
        ratio = load / load.mean(2, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        price = price * ratio.clamp(0.5, 2.0) ** (0.4 * 0.9**turn)
        price = price / price.mean(2, keepdim=True)
    return (-durations * price / temperature).log_softmax(-1)


def schedule_channels(durations: Tensor) -> Tensor:
    """Describe pairs of jobs and machines, (batch, jobs, machines, 8), from durations (batch, jobs, machines).

    In this order: the logarithm of the time, in units u of a job's mean time in a balanced schedule; the time itself,
    up to a limit; the share of the lower bound of the makespan that it fills; what the pair gives away beyond the best
    priced machine of its job, in u, as it is and as a logarithm; the log-weights of the machine where jobs choose by
    what they give away, softly and less softly; and the logarithm of the machine's price. None depends on
    the unit of time.
    """
    return torch.stack(list(_schedule_planes(durations)[1]), -1).float()


def _schedule_planes(durations: Tensor) -> tuple[Tensor, Iterator[Tensor]]:
    """Return what pairs give away, and the channels one by one: all (batch, jobs, machines), float64."""
    permitted = permitted_pairs(durations)
    prices, bound = kernels.schedule_prices(durations.double(), permitted, PRICE_ROUNDS)
    times = durations.double().masked_fill(~permitted, torch.inf)
    jobs, machines = times.shape[1:]
    bound = bound[:, None, None].clamp_min(_TINY)
    unit = bound * machines / jobs
    prices = prices[:, None] * machines  # one on average
    priced = times * prices.clamp_min(_TINY)  # so that what is forbidden stays so at any price
    excess = (priced - priced.amin(2, keepdim=True)) / unit

    def planes() -> Iterator[Tensor]:
        yield _log(times / unit)
        yield (times / unit).clamp_max(LARGEST) - 1.0
        yield (times / bound).clamp_max(2.0)
        yield excess.clamp_max(LARGEST)
        yield excess.clamp_max(FARTHEST).mul(10.0).log1p() / 2.0
        yield (-excess / 0.3).log_softmax(2).clamp_min(-12.0) / 4.0
        yield (-excess / 0.03).log_softmax(2).clamp_min(-12.0) / 4.0
        yield _log(prices).expand_as(times)

    return excess, planes()


def _log(positive: Tensor) -> Tensor:
    """Return the logarithm of positive numbers, within limits."""
    return positive.clamp_min(_TINY).log().clamp(-LARGEST, LARGEST)


# Families.


def _uniform_times(high: int) -> Draw:
    def draw(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
        return {"durations": 1 + noise.integers(high, *size)}

    return draw


def job_correlated(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """A base of every job plus noise: machines nearly alike, the hardest to balance."""
    jobs, machines = size
    return {"durations": 2 + noise.integers(100, jobs, 1) + noise.integers(20, jobs, machines)}


def machine_correlated(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """A base of every machine plus noise: jobs nearly alike, most of the work on the fast machines."""
    jobs, machines = size
    return {"durations": 2 + noise.integers(100, 1, machines) + noise.integers(20, jobs, machines)}


def speeds(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """The work of a job over the speed of a machine, each pair disturbed."""
    jobs, machines = size
    work, speed = 100 + noise.integers(901, jobs, 1), looked_up(_speed_table(), noise.integers(_SPEEDS, 1, machines))
    disturbed = work * (800 + noise.integers(401, jobs, machines))
    return {"durations": ((2 * disturbed + speed) // (2 * speed)).clamp_min(1)}


def heavy_tailed(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    return {"durations": looked_up(_log_normal_table(), noise.integers(NORMAL_STEPS, *size))}


def forbidden_pairs(size: tuple[int, ...], noise: Noise) -> dict[str, Tensor]:
    """Each job has one machine for sure, and every other one with a chance of a third."""
    jobs, machines = size
    durations = 1 + noise.integers(100, jobs, machines)
    own = noise.integers(machines, jobs, 1) == torch.arange(machines, device=durations.device)
    return {"durations": torch.where(own | (noise.integers(3, jobs, machines) == 0), durations, HUGE)}


@cache
def _speed_table() -> tuple[int, ...]:
    """Speeds from 1 to e², in thousandths."""
    return rounded_exponentials([2.0 * (step + 0.5) / _SPEEDS for step in range(_SPEEDS)], 1000.0)


@cache
def _log_normal_table() -> tuple[int, ...]:
    return tuple(max(1, value) for value in rounded_exponentials(normal_table(1.2), 20.0))


uniform_100, uniform_1000 = _uniform_times(100), _uniform_times(1000)
