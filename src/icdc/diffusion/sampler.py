"""Generating solutions by the reverse process, and improving them by noising them again.

Both functions take the network as an argument (`predict`), know the problem only by its contract, and hand every
reverse step to a callback, so that progress, animation and early stopping need nothing more.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..errors import UsageError
from ..kernels import Noise, fold
from ..problems.decoding import Order, decode
from ..problems.features import Candidates
from ..problems.task import Task
from ..settings import Settings, setting
from .process import Diffusion, strided_times

Predict = Callable[[Tensor, Tensor], Tensor]
"""Log-odds (N, rows, columns) of X_0 from noisy matrices x (N, rows, columns) at steps t (N,).

With candidates, the last axis has the k candidate columns instead of all columns, here and in all that follows.
"""

BEGIN_LEVEL = 0.6
"""Noise level, as a fraction of T, of solutions that trajectories begin with; tuned on validation data."""
MOST_DECODES = 2**16
"""Upper limit: all decodes are held in memory at once."""


@dataclass(frozen=True)
class SamplingOptions(Settings):
    """How trajectories run.

    steps : network passes of a trajectory, at most T.
    reverse : how x_s follows from x_t. "independent" samples every element from p_θ(x_s | x_t), as the paper does;
        "fresh" samples q(x_s | X̂_0) of the solution just decoded; "best" samples q(x_s | X̂_0) of the best solution of
        the trajectory so far: if a single bad row is costly, a decode is often worse than what it was made from.
    order : "confidence", "rule" or, for schedules, "loads": the order of decisions in decoding (`Order`). "mixed" has
        some trajectories decide in the rule's order and the others by loads, or by confidence where there are none;
        chosen per trajectory by its random key, because the better order depends on the instance.
    temperature : of the decoding.
    reverse_temperature : of independent reverse steps; 0 for the same as in decoding. Higher values weaken the
        prediction and diversify trajectories.
    decodes : solutions decoded from each matrix of log-odds, the best of which is carried on.
    keep : "chain" keeps the best solution decoded anywhere along a trajectory, "last" only the final one.
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

    REMOVED = {"greedy_end": True}  # noqa: RUF012

    steps: int = setting(20, least=1)
    reverse: Literal["fresh", "best", "independent"] = "fresh"
    order: Literal["confidence", "rule", "loads", "mixed"] = "confidence"
    temperature: float = setting(0.5, above=0)
    decodes: int = setting(1, least=1, most=MOST_DECODES)
    keep: Literal["chain", "last"] = "chain"
    any_start: bool = True
    reverse_temperature: float = setting(0.0, least=0)
    improve_rounds: int = setting(0, least=0)
    improve_best: int = setting(1, least=1)
    merge: int = setting(0, least=0)
    begin: Literal["noise", "starts"] = "noise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reverse == "best" and self.keep == "last":
            raise UsageError('the reverse process "best" needs keep "chain": "last" remembers no best solution')
        if self.merge and self.keep == "last":
            raise UsageError('merging needs keep "chain": "last" remembers no best solution')

    @property
    def step_temperature(self) -> float:
        """Return the temperature of independent reverse steps."""
        return self.reverse_temperature or self.temperature


class ReverseStep(NamedTuple):
    """What a callback sees of a step from t to s: x_t, the log-odds predicted from it, the solutions decoded.

    x and log_odds are (N, rows, columns), decoded and choice, the best so far, (N, rows), and its cost (N,), for
    N = B · K trajectories. Where a step decodes nothing these three are None. `first` (N · M,) is the row at which each
    of M decodes of a matrix began. `carried` (N, rows) is the solution decoded after local search and merging, which
    the chain goes on with. With `candidates`, x and log_odds are (N, rows, k), of these columns only.
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
class Samples:
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
    greedy_end: bool = True,
    callback: Callable[[ReverseStep], bool | None] | None = None,
) -> Samples:
    """Run one trajectory for each key of `noise` (B · K of them, instance-major).

    As the options say, from pure noise at T, or from noised `starts`, choices (B · K, rows) with costs (B · K,), which
    are constructed where none are passed; or else from matrices `x` at step `start`. With `greedy_end` the last step
    decodes greedily, unless it decodes several times; otherwise it samples p̂. A callback that returns True ends it
    early.
    """
    count = len(noise.keys)
    samples = count // task.batch
    mask = task.mask(samples)
    best: tuple[Tensor, Tensor] | None = None
    decoded: _Decoded | None = None
    if x is None and options.begin == "starts":
        best = task.starts(samples) if starts is None else starts
        start = max(1, round(BEGIN_LEVEL * diffusion.steps))
        x = diffusion.q_sample(task.marked(best[0]), torch.full_like(noise.keys, start), task.density, noise)
    elif x is None:
        x = diffusion.prior(task.rows, task.width, task.density, noise)
    for t, s in pairwise(strided_times(diffusion.steps if start is None else start, options.steps)):
        times = torch.full_like(noise.keys, t), torch.full_like(noise.keys, s)
        log_odds = predict(x, times[0])
        last = s == 0
        if last or options.keep == "chain" or options.reverse != "independent":
            decoded = _decode(task, log_odds, noise, options, mask, last and greedy_end)
            if options.merge:
                decoded = _merge(task, decoded, options, best)
            best = _better(best, decoded.carried, options)
        choice, cost = best if best is not None else (None, None)
        step = ReverseStep(t, s, x, log_odds, None, choice, cost, candidates=task.candidates)
        if decoded is not None:
            step = step._replace(decoded=decoded.best, first=decoded.first, carried=decoded.carried[0])
        stop = callback is not None and callback(step)
        if last or stop:
            break
        if options.reverse == "independent" or decoded is None or best is None:
            p0 = (log_odds / options.step_temperature).sigmoid()
            x = diffusion.p_sample(x, p0, *times, task.density, noise)
        else:
            clean = best[0] if options.reverse == "best" else decoded.carried[0]
            x = diffusion.q_sample(task.marked(clean), times[1], task.density, noise)
    if decoded is None or best is None:  # stopped before anything was decoded
        decoded = _decode(task, log_odds, noise, options, mask, greedy_end)
        best = decoded.carried
    return Samples(
        best[0].view(task.batch, samples, task.rows),
        best[1].view(task.batch, samples),
        x,
        times[0],
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
    x = diffusion.q_sample(task.marked(clean), torch.full_like(noise.keys, start), task.density, noise)
    again = generate(predict, task, diffusion, noise, replace(options, steps=steps), x=x, start=start)
    new_choice, new_cost = (again.choice, again.cost) if several else again.best()
    better = new_cost < cost
    return torch.where(better[..., None], new_choice, choice), torch.where(better, new_cost, cost)


class _Decoded(NamedTuple):
    """M decodes of each of N = B · K matrices, the best of each matrix, and what local search made of them.

    choice (N · M, rows) with first rows (N · M,) and cost (B, K · M); best (N, rows); improved (N, few, rows), the best
    ones, after search; carried, the best of those (N, rows) with its cost (N,).
    """

    choice: Tensor
    first: Tensor
    cost: Tensor
    best: Tensor
    improved: Tensor
    carried: tuple[Tensor, Tensor]


def _decode(
    task: Task, log_odds: Tensor, noise: Noise, options: SamplingOptions, mask: Tensor | None, greedy: bool
) -> _Decoded:
    """Decode every matrix of log-odds (N, rows, columns) `decodes` times, and improve the best of each."""
    count, decodes, keys = len(log_odds), options.decodes, noise.keys
    if decodes > 1:
        noise = noise.spawn(decodes)
    first = noise.integers(task.rows) if options.any_start else torch.zeros_like(noise.keys)

    def decoded(order: Order, noise: Noise) -> Tensor:
        return decode(
            task.rule,
            log_odds,
            order=order,
            temperature=options.temperature,
            noise=None if greedy and decodes == 1 else noise,
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
    best = best_of(each, each_cost)
    few = min(decodes, options.improve_best if options.improve_rounds else options.merge)
    if few > 1:
        lowest, index = each_cost.sort(dim=1, stable=True)
        some, some_cost = each.gather(1, index[:, :few, None].expand(-1, -1, task.rows)), lowest[:, :few]
    else:
        some, some_cost = best[0][:, None], best[1][:, None]
    if not options.improve_rounds:
        return _Decoded(choice, first, cost, best[0], some, best)
    improved, improved_cost = task.improve(some.flatten(0, 1), some_cost.flatten(), options.improve_rounds)
    some = improved.view_as(some)
    return _Decoded(choice, first, cost, best[0], some, best_of(some, improved_cost.view_as(some_cost)))


def _merge(task: Task, decoded: _Decoded, options: SamplingOptions, best: tuple[Tensor, Tensor] | None) -> _Decoded:
    """Carry on the better of a pass's best solution and the trajectory's, with the better parts of others."""
    basis, cost = decoded.carried
    if best is not None:
        basis = torch.where((best[1] <= cost)[:, None], best[0], basis)
        cost = torch.minimum(best[1], cost)
    merged, cost = task.merge(basis, cost, decoded.improved[:, : options.merge])
    if options.improve_rounds:  # two local optima merged need not be one
        merged, cost = task.improve(merged, cost, options.improve_rounds)
    return decoded._replace(carried=(merged, cost))


def _better(
    best: tuple[Tensor, Tensor] | None, carried: tuple[Tensor, Tensor], options: SamplingOptions
) -> tuple[Tensor, Tensor]:
    """Return the best solutions of the trajectories after a pass, (N, rows), and their costs (N,)."""
    # what was merged is never worse than the best so far, and progress may hide behind an equal cost
    if best is None or options.keep == "last" or options.merge:
        return carried
    better = carried[1] < best[1]
    return torch.where(better[:, None], carried[0], best[0]), torch.where(better, carried[1], best[1])
