"""Generating solutions by the reverse process, and improving them by noising them again.

Both functions take the network as an argument (`predict`), know the problem only by its contract, and hand
every step to a callback, so that progress, animation and early stopping need nothing more.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypedDict

import torch
from torch import Tensor

from ..errors import UsageError
from ..kernels import Noise, fold
from ..problems.decoding import Order, decode
from ..problems.features import Candidates
from ..problems.task import Task
from .process import Diffusion, strided_times

Predict = Callable[[Tensor, Tensor], Tensor]
"""Log-odds (N, rows, columns) of X_0 from noisy matrices x (N, rows, columns) at steps t (N,).

In every module matrices have a row's candidates in the place of its columns where the network looks at no others.
"""

Ordering = Literal["rule", "confidence", "loads", "mixed"]
Reverse = Literal["fresh", "best", "posterior", "independent"]
Keep = Literal["chain", "last"]
Begin = Literal["noise", "starts"]

BEGIN_LEVEL = 0.6
"""Noise level of what trajectories begin with where that is no pure noise, in units of T: validation liked it best."""
MOST_DECODES = 2**16
"""They are in memory together, so there is an end to them."""


@dataclass(frozen=True)
class SamplingOptions:
    """How trajectories run.

    steps : network passes of a trajectory, at most T.
    reverse : how x_s follows from x_t. "independent" samples every element from p_θ(x_s | x_t), as the paper
        does; "posterior" decodes a feasible X̂_0 first and samples q(x_s | x_t, X̂_0); "fresh" forgets x_t and
        samples q(x_s | X̂_0); "best" samples q(x_s | X̂_0) of the best X̂_0 of the trajectory so far: where one wrong
        row is dear, a decode is often worse than what it was made from, and no step should build on it.
    order : "confidence", "rule" or, for schedules, "loads": the order of decisions in decoding (`Order`). "mixed" has
        some trajectories decide in the rule's order and some by loads, or where there are none by confidence, as their
        keys fall: which is better depends on the instance, and a trajectory goes on with what it began with.
    temperature : of the decoding.
    reverse_temperature : of independent reverse steps; 0 for the same as in decoding. The warmer, the less a step
        believes of what the network says, and the more trajectories differ.
    decodes : solutions decoded from each matrix of log-odds, the best of which is carried on.
    keep : "chain" keeps the best solution decoded anywhere along a trajectory, "last" only the final one.
    greedy_end : the last step decodes greedily, unless it decodes several times; otherwise it samples p̂.
    any_start : decoding in the rule's order begins at a random row; otherwise at row 0.
    improve_rounds : local search inside the chain: the best decodes of every pass are improved by at most so many
        changes (`Problem.improve`), and the best outcome is scored, kept, and noised again; 0 for none. Probabilities
        of decisions are those of what was decoded.
    improve_best : how many decodes of every pass are improved so, the best ones.
    merge : how many decodes of every pass, the best ones, hand over their better parts (`Problem.merge`) to the best
        solution of the trajectory so far, which the chain goes on with; 0 for none. With local search they are those
        that it improved, `improve_best` at most.
    begin : "noise", x_T of pure noise; or "starts", solutions that the problem constructs (`Problem.construct`), noised
        to BEGIN_LEVEL · T: they count themselves, and so a trajectory is never worse than what it began with.
    """

    steps: int = 20
    reverse: Reverse = "fresh"
    order: Ordering = "confidence"
    temperature: float = 0.5
    decodes: int = 1
    keep: Keep = "chain"
    greedy_end: bool = True
    any_start: bool = True
    reverse_temperature: float = 0.0
    improve_rounds: int = 0
    improve_best: int = 1
    merge: int = 0
    begin: Begin = "noise"

    def __post_init__(self) -> None:
        for name in ("steps", "decodes", "improve_best"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.decodes > MOST_DECODES:
            raise UsageError(f"decodes must be at most {MOST_DECODES}, got {self.decodes}")
        if not self.temperature > 0:
            raise UsageError(f"the temperature must be positive, got {self.temperature}")
        if not self.reverse_temperature >= 0:
            raise UsageError(f"the reverse temperature must not be negative, got {self.reverse_temperature}")
        for name in ("improve_rounds", "merge"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, got {getattr(self, name)}")
        for name, known in (
            ("reverse", ("fresh", "best", "posterior", "independent")),
            ("order", ("confidence", "rule", "loads", "mixed")),
            ("begin", ("noise", "starts")),
            ("keep", ("chain", "last")),
        ):
            if getattr(self, name) not in known:
                raise UsageError(f"unknown {name} '{getattr(self, name)}'; choose {', '.join(known)}")
        if self.reverse == "best" and self.keep == "last":
            raise UsageError('the reverse process "best" needs keep "chain": "last" remembers no best solution')
        if self.merge and self.keep == "last":
            raise UsageError('merging needs keep "chain": "last" remembers no best solution')

    @property
    def step_temperature(self) -> float:
        """Return the temperature of independent reverse steps."""
        return self.reverse_temperature or self.temperature


class SamplingChanges(TypedDict, total=False):
    """Some of the fields of `SamplingOptions`: what somebody asks for, where the rest is left to others."""

    steps: int
    reverse: Reverse
    order: Ordering
    temperature: float
    decodes: int
    keep: Keep
    greedy_end: bool
    any_start: bool
    reverse_temperature: float
    improve_rounds: int
    improve_best: int
    merge: int
    begin: Begin


class Step(NamedTuple):
    """What a callback sees: x_t, the log-odds predicted from it, the solution decoded and the best so far.

    t and s are this step and the next; x and log_odds (N, rows, columns), decoded and choice (N, rows) and
    cost (N,), for N = B · K trajectories. Where a step decodes nothing these three are None. `first` (N · M,) is
    the row at which each of M decodes of a matrix began. `carried` (N, rows) is the solution decoded after local
    search and merging, which the chain goes on with; without them it is the one decoded. With `candidates`, x and
    log_odds are (N, rows, k), of these columns only.
    """

    t: int
    s: int
    x: Tensor
    log_odds: Tensor
    decoded: Tensor | None
    choice: Tensor | None
    cost: Tensor | None
    first: Tensor | None = None
    carried: Tensor | None = None
    candidates: Candidates | None = None


@dataclass(frozen=True)
class Generated:
    """The outcome of B · K trajectories.

    choice (B, K, rows) and cost (B, K) of what each trajectory keeps; and of the last step alone, as decoded, with M
    decodes each: `last_x` (B · K, rows, columns) with its step `last_t` (B · K,), `last_choice`
    (B, K · M, rows), `last_first` (B · K · M,) and `last_cost` (B, K · M).
    """

    choice: Tensor
    cost: Tensor
    last_x: Tensor
    last_t: Tensor
    last_choice: Tensor
    last_first: Tensor
    last_cost: Tensor

    def best(self) -> tuple[Tensor, Tensor]:
        """Return the best choice (B, rows) of every instance and its cost (B,)."""
        return best_of(self.choice, self.cost)


def best_of(choice: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cheapest of (B, K, rows) and its cost, from costs (B, K)."""
    lowest, index = cost.min(1)
    chosen = choice.gather(1, index[:, None, None].expand(-1, 1, choice.shape[2])).squeeze(1)
    return chosen, lowest


def generate(
    predict: Predict,
    task: Task,
    diffusion: Diffusion,
    noise: Noise,
    options: SamplingOptions,
    *,
    x: Tensor | None = None,
    start: int | None = None,
    starts: tuple[Tensor, Tensor] | None = None,
    callback: Callable[[Step], bool | None] | None = None,
) -> Generated:
    """Run one trajectory for each key of `noise` (B · K of them, instance-major).

    As the options say, from pure noise at T, or from noised `starts`, choices (B · K, rows) with costs (B · K,), which
    are constructed where none are given; or else from matrices `x` at step `start`. A callback that returns True ends
    it early.
    """
    count = len(noise.keys)
    samples = count // task.batch
    mask = task.mask(samples)
    decoded: _Decoded | None = None
    choice: Tensor | None = None
    cost: Tensor | None = None
    if x is None and options.begin == "starts":
        choice, cost = task.starts(samples) if starts is None else starts
        start = max(1, round(BEGIN_LEVEL * diffusion.steps))
        x = diffusion.q_sample(task.marked(choice), torch.full_like(choice[:, 0], start), task.density, noise)
    elif x is None:
        x = diffusion.prior(task.rows, task.width, task.density, noise)
    times = strided_times(diffusion.steps if start is None else start, options.steps)
    for t, s in pairwise(times):
        t_batch = torch.full((count,), t, dtype=torch.long, device=x.device)
        s_batch = torch.full((count,), s, dtype=torch.long, device=x.device)
        log_odds = predict(x, t_batch)
        last = s == 0
        if last or options.keep == "chain" or options.reverse != "independent":
            decoded = _decode(task, log_odds, noise, options, mask, last)
            if options.merge:
                decoded = _merged(task, decoded, options, choice, cost)
            # what was merged is never worse than the best so far, and progress may hide behind an equal cost
            if cost is None or choice is None or options.keep == "last" or options.merge:
                choice, cost = decoded.carried, decoded.carried_cost
            else:
                better = decoded.carried_cost < cost
                choice = torch.where(better[:, None], decoded.carried, choice)
                cost = torch.where(better, decoded.carried_cost, cost)
        seen, first, carried = (
            (None, None, None) if decoded is None else (decoded.best_choice, decoded.first, decoded.carried)
        )
        step = Step(t, s, x, log_odds, seen, choice, cost, first, carried, task.candidates)
        stop = callback is not None and callback(step)
        if last or stop:
            break
        if options.reverse == "independent" or decoded is None or choice is None:
            p0 = (log_odds / options.step_temperature).sigmoid()
            x = diffusion.p_sample(x, p0, t_batch, s_batch, task.density, noise)
        else:
            clean = task.marked(choice if options.reverse == "best" else decoded.carried)
            if options.reverse == "posterior":
                x = diffusion.p_sample(x, clean, t_batch, s_batch, task.density, noise)
            else:
                x = diffusion.q_sample(clean, s_batch, task.density, noise)
    if decoded is None or choice is None or cost is None:
        # stopped before anything was decoded: end with what this step predicts
        decoded = _decode(task, log_odds, noise, options, mask, last=True)
        choice, cost = decoded.carried, decoded.carried_cost
    return Generated(
        choice.view(task.batch, samples, task.rows),
        cost.view(task.batch, samples),
        x,
        t_batch,
        decoded.choice.view(task.batch, -1, task.rows),
        decoded.first,
        decoded.cost,
    )


def refine(
    predict: Predict,
    task: Task,
    diffusion: Diffusion,
    noise: Noise,
    options: SamplingOptions,
    choice: Tensor,
    cost: Tensor,
    *,
    level: float = 0.7,
    steps: int = 2,
) -> tuple[Tensor, Tensor]:
    """Noise solutions to `level` · T, denoise them in `steps`, and keep what got better.

    One solution of every instance, (B, rows) with costs (B,), gets as many attempts as there are keys for it; several,
    (B, K, rows) with costs (B, K), get one each, and none is replaced by another's. No cost ever rises.
    """
    several = choice.dim() == 3
    clean = choice.flatten(0, 1) if several else choice.repeat_interleave(len(noise.keys) // task.batch, 0)
    start = max(1, round(level * diffusion.steps))
    t = torch.full((len(clean),), start, dtype=torch.long, device=clean.device)
    x = diffusion.q_sample(task.marked(clean), t, task.density, noise)
    again = generate(predict, task, diffusion, noise, replace(options, steps=steps), x=x, start=start)
    new_choice, new_cost = (again.choice, again.cost) if several else again.best()
    better = new_cost < cost
    return torch.where(better[..., None], new_choice, choice), torch.where(better, new_cost, cost)


class _Decoded(NamedTuple):
    """M decodes of each of N = B · K matrices, the best of each matrix, and what local search made of them.

    choice (N · M, rows) with first rows (N · M,) and cost (B, K · M); best_choice (N, rows); some (N, few, rows), the
    best ones, after search; carried (N, rows), the best of those, with carried_cost (N,).
    """

    choice: Tensor
    first: Tensor
    cost: Tensor
    best_choice: Tensor
    some: Tensor
    carried: Tensor
    carried_cost: Tensor


def _decode(
    task: Task, log_odds: Tensor, noise: Noise, options: SamplingOptions, mask: Tensor | None, last: bool
) -> _Decoded:
    """Decode every matrix of log-odds (N, rows, columns) `decodes` times, and improve the best of each, if asked."""
    count, decodes, keys = len(log_odds), options.decodes, noise.keys
    greedy = last and decodes == 1 and options.greedy_end
    if decodes > 1:
        noise = noise.spawn(decodes)
    first = noise.integers(task.rows) if options.any_start else torch.zeros_like(noise.keys)

    def decoded(order: Order, noise: Noise) -> Tensor:
        return decode(
            task.rule,
            log_odds,
            order=order,
            temperature=options.temperature,
            noise=None if greedy else noise,
            first=first,
            mask=mask,
            decodes=decodes,
            times=task.times() if order == "loads" else None,
            candidates=task.candidates,
        )

    if options.order == "mixed":
        other: Order = "loads" if task.has_loads else "confidence"
        by_rule = (keys % 2 == 0).repeat_interleave(decodes)[:, None]
        choice = torch.where(by_rule, decoded("rule", noise), decoded(other, Noise(fold(noise.keys, 1))))
    else:
        choice = decoded(options.order, noise)
    cost = task.cost(choice)
    each, each_cost = choice.view(count, decodes, task.rows), cost.reshape(count, decodes)
    best, best_cost = best_of(each, each_cost)
    some, some_cost = best[:, None], best_cost[:, None]
    if (few := min(decodes, options.improve_best if options.improve_rounds else options.merge)) > 1:
        lowest, index = each_cost.sort(dim=1, stable=True)
        some, some_cost = each.gather(1, index[:, :few, None].expand(-1, -1, task.rows)), lowest[:, :few]
    carried = best, best_cost
    if options.improve_rounds:
        found, found_cost = task.improve(some.flatten(0, 1), some_cost.flatten(), options.improve_rounds)
        some, some_cost = found.view_as(some), found_cost.view_as(some_cost)
        carried = best_of(some, some_cost)
    return _Decoded(choice, first, cost, best, some, *carried)


def _merged(
    task: Task, decoded: _Decoded, options: SamplingOptions, choice: Tensor | None, cost: Tensor | None
) -> _Decoded:
    """Carry on the better of a pass's best solution and the trajectory's, (N, rows), with the better parts of others.

    choice, cost : the best of the trajectories so far, where there is one.
    """
    basis, basis_cost = decoded.carried, decoded.carried_cost
    if choice is not None and cost is not None:
        basis = torch.where((cost <= basis_cost)[:, None], choice, basis)
        basis_cost = torch.minimum(cost, basis_cost)
    found, found_cost = task.merge(basis, basis_cost, decoded.some[:, : options.merge])
    if options.improve_rounds:  # two local optima merged need not be one
        found, found_cost = task.improve(found, found_cost, options.improve_rounds)
    return decoded._replace(carried=found, carried_cost=found_cost)
