"""Trajectories of a diffusion model for instances of one size: in chunks and threads, from noise and from solutions.

Random numbers of a trajectory depend on the seed, the instance's own content and the trajectory's number, so an
answer does not depend on what else is in the batch, on the size of a chunk, or on the device count.
"""

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..diffusion.process import strided_times
from ..diffusion.sampler import Predict, ReverseStep, SamplingOptions, best_of, generate, refine
from ..kernels import Noise, fold, root_key
from ..models.diffusion import Model
from ..problems.base import Arrays
from ..problems.task import Task
from ..problems.tensors import to_tensors
from ..search.run import Budget, Incumbent
from .answer import lower_bounds
from .solver import Request

Trace = Callable[[ReverseStep], bool | None]
"""Sees every step of the first trajectories; returning True ends them."""

REFINE_LEVELS = (0.7, 0.5, 0.85)
"""Noise levels that rounds of refinement take in turn, in units of T."""
CERTAIN = 20.0
"""Log-odds of what is known without a network."""
MOST_STARTS = 64
"""Different solutions that trajectories of an instance begin with, where they do not begin with noise."""
MOST_MERGED = 64
"""Trajectories of an instance, the best ones, whose outcomes are merged."""
RESTART_EVERY = 4
"""While time is left, every so many rounds the search starts new trajectories instead of refining."""


@dataclass
class Part:
    """A range of instances as the network sees them, and how many turns they have had.

    span : where they are among those of the request.
    keys : (count,), of their random numbers.
    """

    span: slice
    task: Task
    predict: Predict
    keys: Tensor
    turns: int = 0


class DiffusionSearch:
    """The trajectories of all instances of a request, turn after turn.

    A turn runs new trajectories, or noises the best solutions so far and denoises them.

    Parameters
    ----------
    request : takes the solutions.
    model, options : the network, and how its trajectories run.
    refine_rounds, refine_steps : rounds of refinement after sampling, and network passes of each; with a time limit
        there are as many rounds as fit.
    chunk : trajectories that run together.
    trace : sees the steps, which then run in one thread; from a start, how it is noised and denoised comes first.

    Attributes
    ----------
    proposed : the best solutions that trajectories found, whatever else is known.
    """

    def __init__(
        self,
        request: Request,
        model: Model,
        options: SamplingOptions,
        refine_rounds: int,
        refine_steps: int,
        chunk: int,
        trace: Trace | None = None,
    ) -> None:
        self.request, self.model, self.options = request, model, options
        self.refine_rounds, self.refine_steps = refine_rounds, refine_steps
        self.chunk, self.trace = chunk, trace
        self.found_by = found_by(options)
        self.proposed = Incumbent(request.count, request.shape[0], request.result.whole)
        self.tried = np.zeros(request.count, dtype=np.int64)
        self.threads = 1

    def run(self) -> None:
        """Work through all instances."""
        request = self.request
        if request.bound is None and request.budget.timed:  # a bound is worth its time where meeting it saves some
            request.result.raise_bound(lower_bounds(request.problem, request.arrays))
        try:
            with torch.inference_mode():
                for span, spans_left in self.spans():
                    self._solve_span(span, request.budget.share(1 / spans_left))
                    if request.stopped():
                        break
        finally:
            # with restarts there may be more than were asked for, after Ctrl-C and at a limit fewer
            fewest = min(request.samples, int(self.tried.min(initial=request.samples)))
            request.result.samples = max(1, fewest)

    def spans(self) -> Iterator[tuple[slice, int]]:
        """Yield ranges of instances that fit together, with how many ranges are left."""
        together = max(1, self.chunk // self.request.samples)
        begins = range(0, self.request.count, together)
        for index, begin in enumerate(begins):
            yield slice(begin, min(begin + together, self.request.count)), len(begins) - index

    def _solve_span(self, span: slice, budget: Budget) -> None:
        """Sample, then refine; where time is limited, go on until it is over, or until every bound is met."""
        part = self.encoded(span)
        self.turn(part, budget)
        while (budget.timed or part.turns <= self.refine_rounds) and not self._done(part, budget):
            self.turn(part, budget)

    def _done(self, part: Part, budget: Budget) -> bool:
        """Tell whether the search for some instances has ended: by time, by a callback, or all of them are proven."""
        proven = budget.timed and bool(self.request.result.proven[part.span].all())
        return proven or budget.over or self.request.stopped(part.span)

    def encoded(self, span: slice) -> Part:
        """Return a range of instances as the network sees them, ready for its first turn."""
        device = self.model.device
        arrays = self.request.part(span)
        content = torch.from_numpy(fingerprints(arrays)).to(device)
        keys = fold(root_key(self.request.seed, device), content)
        noise = Noise(fold(keys, 0))
        instances = to_tensors(arrays, device)
        features = self.model.features(instances)
        task = Task(self.request.problem, instances, only_feasible=True, candidates=features.candidates)
        predict = self.model.predict(self.model.encode(features, noise), task.density)
        return Part(span, task, predict, keys)

    def turn(self, part: Part, budget: Budget) -> int:
        """Let trajectories run: the first time new ones, then from the best solutions noised again.

        Where time is limited there are new ones every so often. Returns how many each instance got.
        """
        number, part.turns = part.turns, part.turns + 1
        keys = fold(part.keys, 1 + number)
        with own_threads() as allowed:
            self.threads = allowed if self.model.device.type == "cpu" and self.trace is None else 1
            if number == 0 or (budget.timed and number % RESTART_EVERY == 0):
                watched_start = number == 0 and self.trace is not None and self.request.start is not None
                sample = self._return_to_start if watched_start else self._sample
                count = sample(part, keys, budget)
                self.tried[part.span] += count
                return count
            level = REFINE_LEVELS[(number - 1) % len(REFINE_LEVELS)]
            return self._refine(part, keys, level, budget)

    def _sample(self, part: Part, keys: Tensor, budget: Budget) -> int:
        """Run `samples` trajectories for every instance, as many at a time as fit."""

        starts = self._starts(part.task) if self.options.begin == "starts" else None

        def run(noise: Noise, number: Tensor) -> tuple[Tensor, Tensor]:
            watch = self._watch(part, budget)
            own = None if starts is None else (starts[0][:, number].flatten(0, 1), starts[1][:, number].flatten())
            decoded = generate(
                part.predict, part.task, self.model.diffusion, noise, self.options, starts=own, callback=watch
            )
            return decoded.choice, decoded.cost

        return self._run_all(run, part, keys, budget)

    def _starts(self, task: Task) -> tuple[Tensor, Tensor]:
        """Return what each of `samples` trajectories of an instance begins with, (B, K, rows), and its cost, (B, K).

        There are not more than a few different ones: making them takes time before the network has had any.
        """
        samples = self.request.samples
        few = min(samples, MOST_STARTS)
        choice, cost = task.starts(few)
        again = torch.arange(samples, device=choice.device) % few
        return choice.view(task.batch, few, task.rows)[:, again], cost.view(task.batch, few)[:, again]

    def _return_to_start(self, part: Part, keys: Tensor, budget: Budget) -> int:
        """Noise the start before the eyes of the trace, then denoise it: a refinement in the steps of a trajectory.

        On the way up every element keeps its random number, so it changes at most once; s is above t there. What the
        network believes of each x_t is shown both ways.
        """
        diffusion, options = self.model.diffusion, self.options
        task, predict = part.task, part.predict
        clean = task.marked(torch.from_numpy(self.request.result.choice[part.span]).to(self.model.device))
        times = strided_times(max(1, round(REFINE_LEVELS[0] * diffusion.steps)), options.steps)

        def run(noise: Noise, number: Tensor) -> tuple[Tensor, Tensor]:
            x0 = clean.repeat_interleave(len(noise.keys) // task.batch, 0)
            watch = self._watch(part, budget)
            for t, s in pairwise(reversed(times)):
                at = torch.full((len(x0),), t, dtype=torch.long, device=x0.device)
                x = x0 if t == 0 else diffusion.q_sample(x0, at, task.density, Noise(noise.keys))
                log_odds = CERTAIN * (2 * x0 - 1) if t == 0 else predict(x, at)
                watch(ReverseStep(t, s, x, log_odds, None, None, None, candidates=task.candidates))
            at = torch.full((len(x0),), times[0], dtype=torch.long, device=x0.device)
            x = diffusion.q_sample(x0, at, task.density, Noise(noise.keys))
            way_back = Noise(fold(noise.keys, 0))
            decoded = generate(predict, task, diffusion, way_back, options, x=x, start=times[0], callback=watch)
            return decoded.choice, decoded.cost

        return self._run_all(run, part, keys, budget)

    def _refine(self, part: Part, keys: Tensor, level: float, budget: Budget) -> int:
        """Noise the best solutions of this moment again and denoise them, `samples` times each."""
        device, steps = self.model.device, self.refine_steps
        best = self.request.result
        # any choice, where there is no answer yet
        choice = torch.from_numpy(best.choice[part.span]).clamp_min(0).to(device)
        cost = torch.from_numpy(best.cost[part.span]).to(device)

        def run(noise: Noise, number: Tensor) -> tuple[Tensor, Tensor]:
            # every trajectory returns what it found: what is merged does not depend on how many come together
            each, each_cost = choice[:, None].expand(-1, len(number), -1), cost[:, None].expand(-1, len(number))
            return refine(
                part.predict, part.task, self.model.diffusion, noise, self.options, each, each_cost,
                level=level, steps=steps,
            )  # fmt: skip

        return self._run_all(run, part, keys, budget)

    def _run_all(
        self, run: Callable[[Noise, Tensor], tuple[Tensor, Tensor]], part: Part, keys: Tensor, budget: Budget
    ) -> int:
        """Run all trajectories, group after group, or on a CPU a group on every core; keep what is better.

        `run` gets the noise of a group and the numbers of its trajectories, and returns what they found, (B, K, rows),
        with costs (B, K). Where decodes are merged, so are the best of all trajectories in the end.

        Side by side, cores never wait for each other inside an operation. Groups that have not begun when the
        search ends are left out, except the first: there is always an answer. Returns how many each instance got.
        """
        groups = enumerate(self._trajectories(part.task, keys))  # made when they are needed: there may be any number

        def one(index: int, group: tuple[Noise, Tensor]) -> tuple[Tensor, Tensor, int] | None:
            if index and self._done(part, budget):
                return None
            with torch.inference_mode():
                return *run(*group), len(group[0].keys)

        tried = 0
        best: tuple[Tensor, Tensor] | None = None

        def take(choice: Tensor, cost: Tensor, count: int) -> None:
            nonlocal tried, best
            self._offer(part, *best_of(choice, cost))
            tried += count
            if self.options.merge:
                best = _cheapest(choice, cost, best)

        if self.threads == 1 or self.request.samples == 1:
            for index, group in groups:
                if (outcome := one(index, group)) is None:
                    break
                take(*outcome)
        else:
            with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                try:
                    waiting = deque(pool.submit(one, *group) for group in islice(groups, 2 * self.threads))
                    while waiting:  # in their order, so that equal costs are settled the same way
                        outcome = waiting.popleft().result()
                        waiting.extend(pool.submit(one, *group) for group in islice(groups, outcome is not None))
                        if outcome is not None:
                            take(*outcome)
                except BaseException:
                    budget.cancel()  # the threads stop at their next step
                    raise
        if best is not None and best[0].shape[1] > 1:
            with torch.inference_mode():
                self._offer(part, *part.task.merge(best[0][:, 0], best[1][:, 0], best[0][:, 1:]))
        return tried // part.task.batch

    def _trajectories(self, task: Task, keys: Tensor) -> Iterator[tuple[Noise, Tensor]]:
        """Yield the noise of `samples` trajectories for every instance, and their numbers, in groups that fit."""
        together = max(1, min(self.chunk // task.batch, -(-self.request.samples // self.threads)))
        for begin in range(0, self.request.samples, together):
            number = torch.arange(begin, min(begin + together, self.request.samples), device=keys.device)
            yield Noise(fold(keys[:, None], number[None, :]).flatten()), number

    def _watch(self, part: Part, budget: Budget) -> Callable[[ReverseStep], bool | None]:
        """Return a callback of the reverse process that stops it when the time is over, once there is an answer.

        Where time is limited every step counts: what it decoded is taken at once, long before its trajectory ends.
        Without a limit, answers are taken in the order of the trajectories, so that a seed repeats itself.
        """
        task = part.task

        def watch(step: ReverseStep) -> bool | None:
            stop = self.trace(step) if self.trace is not None else None
            if budget.timed and step.choice is not None and step.cost is not None:
                decoded = step.choice.view(task.batch, -1, task.rows)
                self._offer(part, *best_of(decoded, step.cost.view(task.batch, -1)))
                stop = stop or self._done(part, budget)
            return bool(stop) or budget.cancelled

        return watch

    def _offer(self, part: Part, choice: Tensor, cost: Tensor) -> None:
        """Offer a solution (rows,) of each instance of a part."""
        choices, costs = choice.cpu().numpy(), cost.double().cpu().numpy()
        self.proposed.offer(choices, costs, self.found_by, part.span)
        self.request.offer(choices, costs, self.found_by, part.span)


def _cheapest(choice: Tensor, cost: Tensor, more: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    """Return the `MOST_MERGED` best of solutions (B, K, rows) with costs (B, K), and of those that came before them."""
    if more is not None:
        choice, cost = torch.cat([more[0], choice], 1), torch.cat([more[1], cost], 1)
    lowest, index = cost.sort(dim=1, stable=True)
    index = index[:, :MOST_MERGED, None].expand(-1, -1, choice.shape[2])
    return choice.gather(1, index), lowest[:, :MOST_MERGED]


def found_by(options: SamplingOptions) -> str:
    """Return what finds the solutions of trajectories: the network, or what works with it inside the chain as well."""
    if options.improve_rounds:
        return "network + search"
    return "network + merging" if options.merge else "network"


def fingerprints(arrays: Arrays) -> NDArray[np.int64]:
    """Return a number for every instance that depends on its values alone, (count,), to draw random numbers by."""
    plain = [np.ascontiguousarray(arrays[name], dtype=np.float64) for name in sorted(arrays)]
    prints = []
    for index in range(len(plain[0])):
        digest = hashlib.blake2b(digest_size=4)
        for array in plain:
            digest.update(array[index].tobytes())
        prints.append(int.from_bytes(digest.digest(), "little"))
    return np.array(prints, dtype=np.int64)


class _Borrowed:
    """The setting of torch's threads while searches that share it run, in however many threads of the caller."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users, self.before = 0, 1

    def take(self) -> int:
        with self.lock:
            if self.users == 0:
                self.before = torch.get_num_threads()
            self.users += 1
            return self.before

    def give_back(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                torch.set_num_threads(self.before)


_borrowed = _Borrowed()


@contextmanager
def own_threads() -> Iterator[int]:
    """Let a search use its own threads in place of torch's; yield how many the caller's setting allows.

    Threads that are started inside call `torch.set_num_threads(1)`, which concerns the whole process for that long; the
    last search that ends puts the setting back.
    """
    allowed = _borrowed.take()
    try:
        yield allowed
    finally:
        _borrowed.give_back()


def _stay_alone() -> None:
    """Keep a forked child from waiting for threads that only its parent has: OpenMP's pool does not survive a fork."""
    _borrowed.__init__()  # type: ignore[misc]
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stay_alone)
