"""One search with a diffusion model: incumbents, trajectories in chunks and threads, refinement, deadlines.

Random numbers of a trajectory depend on the seed, the instance's own content and the trajectory's number, so an
answer does not depend on what else is in the batch, on the size of a chunk, or on the device count.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, pairwise
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..diffusion.process import strided_times
from ..diffusion.sampler import Predict, ReverseStep, SamplingOptions, best_of, generate, refine
from ..kernels import Noise, fold, root_key
from ..models.diffusion import Model
from ..problems.task import Task
from ..problems.tensors import to_tensors
from ..search.run import meets
from .fingerprints import fingerprints
from .request import Improvement, Request
from .results import Found
from .threads import own_threads
from .verify import judge, lower_bounds

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


@dataclass
class DiffusionSearch:
    """The incumbents of all instances of a request, and the loop that improves them.

    model, options : the network, and how its trajectories run.
    refine_rounds, refine_steps : rounds of refinement after sampling, and network passes of each; with a time limit
        there are as many rounds as fit.
    chunk : trajectories that run together.
    trace : sees the steps, which then run in one thread; from a start, how it is noised and denoised comes first.
    """

    request: Request
    model: Model
    options: SamplingOptions
    refine_rounds: int
    refine_steps: int
    chunk: int
    trace: Trace | None = None
    stopped: bool = field(default=False, init=False)
    abandoned: bool = field(default=False, init=False)
    lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        request = self.request
        self.choice = np.full((request.count, request.shape[0]), -1, dtype=np.int64)
        self.cost = np.full(request.count, np.inf)
        self.bound = np.full(request.count, -np.inf)
        self.proposal, self.proposal_cost = self.choice.copy(), self.cost.copy()  # the best since somebody took them
        self.tried = np.zeros(request.count, dtype=np.int64)
        self.threads = 1
        self.began = time.perf_counter()

    def run(self) -> Found:
        """Work through all instances."""
        request = self.request
        if request.start is not None:
            self.choice = request.start.copy()
            self.cost = judge(request.problem, request.arrays, request.start)[1].astype(np.float64)
        if request.bound is not None:
            self.bound = request.bound
        elif request.time_limit is not None:  # a bound is worth its time only where meeting it saves some
            self.bound = lower_bounds(request.problem, request.arrays)
        interrupted = False
        try:
            with torch.inference_mode():
                for span, spans_left in self.spans():
                    deadline = None
                    if request.time_limit is not None:
                        now = time.perf_counter()
                        deadline = now + (self.began + request.time_limit - now) / spans_left
                    self._solve_span(span, deadline)
                    if self.stopped and np.isfinite(self.cost).all():
                        break
        except KeyboardInterrupt:
            if not np.isfinite(self.cost).any():
                raise  # whoever called has an answer for that
            interrupted = True
        seconds = time.perf_counter() - self.began
        # with restarts there may be more than were asked for, after Ctrl-C and at a limit fewer
        made = min(self.request.samples, int(self.tried.min(initial=self.request.samples)))
        return Found(self.choice, seconds, self.bound, interrupted=interrupted, samples=max(1, made))

    def spans(self) -> Iterator[tuple[slice, int]]:
        """Yield ranges of instances that fit together, with how many ranges are left."""
        together = max(1, self.chunk // self.request.samples)
        begins = range(0, self.request.count, together)
        for index, begin in enumerate(begins):
            yield slice(begin, min(begin + together, self.request.count)), len(begins) - index

    def _solve_span(self, span: slice, deadline: float | None) -> None:
        """Sample, then refine; with a deadline, go on until it, or until every bound is met."""
        part = self.encoded(span)
        self.turn(part, deadline)
        while not self.stopped and (part.turns <= self.refine_rounds if deadline is None else True):
            if deadline is not None and (time.perf_counter() >= deadline or self._proven(span)):
                break
            self.turn(part, deadline)

    def encoded(self, span: slice) -> Part:
        """Return a range of instances as the network sees them, ready for its first turn."""
        device = self.model.device
        arrays = {name: array[span] for name, array in self.request.arrays.items()}
        content = torch.from_numpy(fingerprints(arrays)).to(device)
        keys = fold(root_key(self.request.seed, device), content)
        noise = Noise(fold(keys, 0))
        instances = to_tensors(arrays, device)
        features = self.model.features(instances)
        task = Task(self.request.problem, instances, only_feasible=True, candidates=features.candidates)
        predict = self.model.predict(self.model.encode(features, noise), task.density)
        return Part(span, task, predict, keys)

    def turn(self, part: Part, deadline: float | None) -> int:
        """Let trajectories run: the first time new ones, then from the incumbents noised again.

        With a deadline there are new ones every so often. Returns how many each instance got.
        """
        number, part.turns = part.turns, part.turns + 1
        keys = fold(part.keys, 1 + number)
        with own_threads() as allowed:
            self.threads = allowed if self.model.device.type == "cpu" and self.trace is None else 1
            if number == 0 or (deadline is not None and number % RESTART_EVERY == 0):
                watched_start = number == 0 and self.trace is not None and self.request.start is not None
                sample = self._return_to_start if watched_start else self._sample
                made = sample(part, keys, deadline)
                self.tried[part.span] += made
                return made
            level = REFINE_LEVELS[(number - 1) % len(REFINE_LEVELS)]
            return self._refine(part, keys, level, deadline)

    def _sample(self, part: Part, keys: Tensor, deadline: float | None) -> int:
        """Run `samples` trajectories for every instance, as many at a time as fit."""

        starts = self._starts(part.task) if self.options.begin == "starts" else None

        def run(noise: Noise, number: Tensor) -> tuple[Tensor, Tensor]:
            watch = self._watch(part, deadline)
            own = None if starts is None else (starts[0][:, number].flatten(0, 1), starts[1][:, number].flatten())
            made = generate(
                part.predict, part.task, self.model.diffusion, noise, self.options, starts=own, callback=watch
            )
            return made.choice, made.cost

        return self._run_all(run, part, keys, deadline)

    def _starts(self, task: Task) -> tuple[Tensor, Tensor]:
        """Return what each of `samples` trajectories of an instance begins with, (B, K, rows), and its cost, (B, K).

        There are not more than a few different ones: making them takes time before the network has had any.
        """
        samples = self.request.samples
        few = min(samples, MOST_STARTS)
        choice, cost = task.starts(few)
        again = torch.arange(samples, device=choice.device) % few
        return choice.view(task.batch, few, task.rows)[:, again], cost.view(task.batch, few)[:, again]

    def _return_to_start(self, part: Part, keys: Tensor, deadline: float | None) -> int:
        """Noise the start before the eyes of the trace, then denoise it: a refinement in the steps of a trajectory.

        On the way up every element keeps its random number, so it changes at most once; s is above t there. What the
        network believes of each x_t is shown both ways.
        """
        diffusion, options = self.model.diffusion, self.options
        task, predict = part.task, part.predict
        clean = task.marked(torch.from_numpy(self.choice[part.span]).to(self.model.device))
        times = strided_times(max(1, round(REFINE_LEVELS[0] * diffusion.steps)), options.steps)

        def run(noise: Noise, number: Tensor) -> tuple[Tensor, Tensor]:
            x0 = clean.repeat_interleave(len(noise.keys) // task.batch, 0)
            watch = self._watch(part, deadline)
            for t, s in pairwise(reversed(times)):
                at = torch.full((len(x0),), t, dtype=torch.long, device=x0.device)
                x = x0 if t == 0 else diffusion.q_sample(x0, at, task.density, Noise(noise.keys))
                log_odds = CERTAIN * (2 * x0 - 1) if t == 0 else predict(x, at)
                watch(ReverseStep(t, s, x, log_odds, None, None, None, candidates=task.candidates))
            at = torch.full((len(x0),), times[0], dtype=torch.long, device=x0.device)
            x = diffusion.q_sample(x0, at, task.density, Noise(noise.keys))
            way_back = Noise(fold(noise.keys, 0))
            made = generate(predict, task, diffusion, way_back, options, x=x, start=times[0], callback=watch)
            return made.choice, made.cost

        return self._run_all(run, part, keys, deadline)

    def _refine(self, part: Part, keys: Tensor, level: float, deadline: float | None) -> int:
        """Noise the incumbents of this moment again and denoise them, `samples` times each."""
        device, steps = self.model.device, self.refine_steps
        choice = torch.from_numpy(self.choice[part.span]).clamp_min(0).to(device)  # any, where there is no answer yet
        cost = torch.from_numpy(self.cost[part.span]).to(device)

        def run(noise: Noise, number: Tensor) -> tuple[Tensor, Tensor]:
            # every trajectory returns what it found: what is merged does not depend on how many come together
            each, each_cost = choice[:, None].expand(-1, len(number), -1), cost[:, None].expand(-1, len(number))
            return refine(
                part.predict, part.task, self.model.diffusion, noise, self.options, each, each_cost,
                level=level, steps=steps,
            )  # fmt: skip

        return self._run_all(run, part, keys, deadline)

    def _run_all(
        self, run: Callable[[Noise, Tensor], tuple[Tensor, Tensor]], part: Part, keys: Tensor, deadline: float | None
    ) -> int:
        """Run all trajectories, group after group, or on a CPU a group on every core; keep what is better.

        `run` gets the noise of a group and the numbers of its trajectories, and returns what they found, (B, K, rows),
        with costs (B, K). Where decodes are merged, so are the best of all trajectories in the end.

        Side by side, cores never wait for each other inside an operation. Groups that have not begun when the
        search ends are left out, except the first: there is always an answer. Returns how many each instance got.
        """
        groups = enumerate(self._trajectories(part.task, keys))  # made when they are needed: there may be any number

        def one(index: int, group: tuple[Noise, Tensor]) -> tuple[Tensor, Tensor, int] | None:
            late = deadline is not None and (time.perf_counter() >= deadline or self._proven(part.span))
            if index and (self.stopped or self.abandoned or late):
                return None
            with torch.inference_mode():
                return *run(*group), len(group[0].keys)

        tried = 0
        best: tuple[Tensor, Tensor] | None = None

        def take(choice: Tensor, cost: Tensor, count: int) -> None:
            nonlocal tried, best
            self._take(part.span, *best_of(choice, cost))
            tried += count
            if self.options.merge:
                best = _cheapest(choice, cost, best)

        if self.threads == 1 or self.request.samples == 1:
            for index, group in groups:
                if (made := one(index, group)) is None:
                    break
                take(*made)
        else:
            with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                try:
                    waiting = deque(pool.submit(one, *group) for group in islice(groups, 2 * self.threads))
                    while waiting:  # in their order, so that equal costs are settled the same way
                        made = waiting.popleft().result()
                        waiting.extend(pool.submit(one, *group) for group in islice(groups, made is not None))
                        if made is not None:
                            take(*made)
                except BaseException:
                    self.abandoned = True  # the threads stop at their next step
                    raise
        if best is not None and best[0].shape[1] > 1:
            with torch.inference_mode():
                self._take(part.span, *part.task.merge(best[0][:, 0], best[1][:, 0], best[0][:, 1:]))
        return tried // part.task.batch

    def _trajectories(self, task: Task, keys: Tensor) -> Iterator[tuple[Noise, Tensor]]:
        """Yield the noise of `samples` trajectories for every instance, and their numbers, in groups that fit."""
        together = max(1, min(self.chunk // task.batch, -(-self.request.samples // self.threads)))
        for begin in range(0, self.request.samples, together):
            number = torch.arange(begin, min(begin + together, self.request.samples), device=keys.device)
            yield Noise(fold(keys[:, None], number[None, :]).flatten()), number

    def _watch(self, part: Part, deadline: float | None) -> Callable[[ReverseStep], bool | None]:
        """Return a callback of the reverse process that stops it at the deadline once there is an answer.

        With a deadline every step counts: what it decoded is taken at once, long before its trajectory ends.
        Without one, answers are taken in the order of the trajectories, so that a seed repeats itself.
        """
        task = part.task

        def watch(step: ReverseStep) -> bool | None:
            stop = self.trace(step) if self.trace is not None else None
            if deadline is not None and step.choice is not None and step.cost is not None:
                found = step.choice.view(task.batch, -1, task.rows)
                self._take(part.span, *best_of(found, step.cost.view(task.batch, -1)))
                stop = stop or self.stopped or time.perf_counter() >= deadline or self._proven(part.span)
            return bool(stop) or self.abandoned

        return watch

    def _take(self, span: slice, choice: Tensor, cost: Tensor) -> None:
        """Keep what is better than the incumbents, and tell the callback."""
        with self.lock:
            self._take_locked(span, cost.double().cpu().numpy(), choice.cpu().numpy())

    def _take_locked(self, span: slice, new_cost: NDArray[np.float64], new_choice: NDArray[np.int64]) -> None:
        closer = new_cost < self.proposal_cost[span]
        self.proposal_cost[span] = np.where(closer, new_cost, self.proposal_cost[span])
        self.proposal[span] = np.where(closer[:, None], new_choice, self.proposal[span])
        better = new_cost < self.cost[span]
        self.cost[span] = np.where(better, new_cost, self.cost[span])
        self.choice[span] = np.where(better[:, None], new_choice, self.choice[span])
        if better.any():
            seconds = time.perf_counter() - self.began
            by = [found_by(self.options)] * self.request.count
            told = Improvement(seconds, self.cost.copy(), self.choice.copy(), self.bound.copy(), by)
            self.stopped |= self.request.tell(told)

    def _proven(self, span: slice) -> bool:
        return bool(meets(self.cost[span], self.bound[span]).all())


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
