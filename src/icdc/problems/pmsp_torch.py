"""Schedules on unrelated machines as tensors: cost, features, and schedules to begin with. `pmsp` is the rest."""

import torch
from torch import Tensor

from .. import kernels
from ..kernels import Noise
from .base import Instances, Problem, Size
from .decoding import Starts, decode_around
from .features import Features
from .local_search import construct as draw_and_improve
from .prices import schedule_candidates, schedule_channels
from .tensors import neutral, permitted_mean, permitted_pairs, picked, totals_by_column

_VARIETY = 0.1
"""Temperature of starting schedules after the first, in units of what a job costs at balancing prices."""
_SHARE_OF_LOADS, _VARIETY_BY_LOADS = 0.01, 0.5
"""Where jobs see the loads so far: that unit's share that counts as one average job more, and the temperature in it."""
_NOWHERE = 1e3
"""The time of a forbidden pair, in mean times, where jobs spread over machines: no share of any job gets there."""


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


def permitted_machines(problem: Problem, instances: Instances) -> Tensor | None:
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
    relations, chosen = schedule_candidates(instances["durations"], candidates)
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
