"""Make the references of the standard sets of families, or improve them: the best of several solvers, proven or not.

    python -m experiments.search.references --jobs 16 --minutes 8

Every unproven instance gets runs of growing length by every solver that is installed, proofs and short runs first, on
`--jobs` pinned cores, one thread each, until the time is up. What is better than before, or newly proven, is written at
once, whole files only; the same command goes on where it was. It needs no GPU. `--folder` keeps the files elsewhere
than in the package, which is where they start from in any case.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.search.runs import PinnedWorkers
from icdc.errors import IcdcError, UsageError
from icdc.io.datasets import FAMILY_SETS, Dataset, Provenance, provenance, standard_set, write_references
from icdc.problems import get_problem
from icdc.search.run import Budget, meets
from icdc.search.schedule_exact import restricted_mip
from icdc.search.schedule_search import construct
from icdc.solvers import make_solver
from icdc.solving.answer import judge

ROOT = Path(__file__).parents[2]
LAST_CALL = 2.0
"""No run begins with less time than this; one that has begun may be this much late."""
SAVE_EVERY = 5.0
MIP = "mip"
"""The restricted integer program of `icdc.search.schedule_exact`, which is no solver of its own."""


class Attempt(NamedTuple):
    """One run on one instance: by which solver, with which seed, for how long."""

    name: str
    instance: int
    solver: str
    seed: int
    seconds: float


class Outcome(NamedTuple):
    """A solution (rows,), a proven bound on the cost of any, and whether it was shown to be the best."""

    choice: Any
    bound: float
    proven: bool


@dataclass
class Known:
    """What is known of one set; bounds are not kept on disk."""

    dataset: Dataset
    how: Provenance
    bound: Any = field(init=False)
    changed: bool = False

    def __post_init__(self) -> None:
        self.bound = np.full(len(self.dataset), -np.inf)

    def proven(self, instance: int) -> bool:
        """Tell whether nothing is left to do for an instance."""
        assert self.dataset.proven is not None
        return bool(self.dataset.proven[instance])

    def take(self, attempt: Attempt, outcome: Outcome) -> str | None:
        """Keep what is better than before; return what was new, in words."""
        data, at = self.dataset, attempt.instance
        assert data.reference is not None
        assert data.proven is not None
        assert data.choice is not None
        one = {key: array[at : at + 1] for key, array in data.arrays.items()}
        feasible, costs = judge(data.problem, one, np.asarray(outcome.choice)[None])
        news = None
        cost = float(costs[0]) if feasible[0] else np.inf
        before = data.reference[at]
        if data.proven[at] and cost < before:
            raise SystemExit(f"{attempt} is below the proven optimum {before} of {data.name}[{at}]: {cost}")
        if feasible[0] and not cost >= before:  # NaN: none so far
            data.reference[at], data.choice[at] = cost, outcome.choice
            self.how.found_by[at], self.how.seconds[at] = attempt.solver, attempt.seconds
            news = f"{before:.0f} → {cost:.0f}" if np.isfinite(before) else f"{cost:.0f}"
        self.bound[at] = max(self.bound[at], outcome.bound)
        reached = np.array([data.reference[at]])
        shown = (outcome.proven and cost <= reached[0]) or meets(reached, np.ceil(self.bound[at : at + 1] - 1e-6))[0]
        if shown and not data.proven[at]:
            data.proven[at], self.how.proven_by[at] = True, attempt.solver
            news = f"{news or f'{reached[0]:.0f}'}, proven"
        self.changed |= news is not None
        return news


def opened(name: str, folder: Path) -> Known:
    """Return a standard set with what the package and the folder know of it, the better of the two."""
    shipped = standard_set(name)
    count, rows = len(shipped), shipped.problem.shape(shipped.problem.size(shipped.arrays))[0]
    words = np.full(count, "", dtype="U24")
    known = Known(
        replace(
            shipped, reference=np.full(count, np.nan), proven=np.zeros(count, dtype=bool),
            choice=np.full((count, rows), -1, dtype=np.int64),
        ),
        Provenance(words, np.zeros(count), words.copy()),
    )  # fmt: skip
    said = provenance(name)
    if shipped.choice is not None and shipped.proven is not None and said is not None:
        _take_all(known, shipped.choice, shipped.proven, said)
    path = folder / f"{name}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as file:
            _take_all(known, file["choice"], file["proven"],
                      Provenance(file["found_by"], file["seconds"], file["proven_by"]))  # fmt: skip
    known.changed = False
    return known


def _take_all(known: Known, choice: Any, proven: Any, how: Provenance) -> None:
    for at in range(len(choice)):
        if choice[at].min() >= 0:
            finder = Attempt(known.dataset.name, at, str(how.found_by[at]), 0, float(how.seconds[at]))
            known.take(finder, Outcome(choice[at].astype(np.int64), -np.inf, False))
            if proven[at]:
                prover = finder._replace(solver=str(how.proven_by[at]))
                known.take(prover, Outcome(choice[at].astype(np.int64), -np.inf, True))


def efforts(
    names: Sequence[str], longest: float, also: Sequence[str], rounds: int | None, only: Sequence[str] = ()
) -> Iterator[Attempt]:
    """Yield runs on all instances, short ones and proofs first, then longer ones with ever new seeds.

    also : solvers that take part in all turns but the first.
    only : solvers that take the place of all others, with the full time at once.
    """
    for turn in itertools.count() if rounds is None else range(rounds):
        share = 1.0 if only else (0.1, 0.3, 1.0)[min(turn, 2)]
        for solver in only or _solvers(turn, also):
            for name in names:
                spec = FAMILY_SETS[name]
                if _useful(solver, spec.problem, spec.size):
                    for instance in range(spec.count):
                        yield Attempt(name, instance, solver, 1 + turn, share * longest)


def _solvers(turn: int, also: Sequence[str]) -> list[str]:
    """Return what runs in a turn: what may prove at first, and what only searches again with new seeds."""
    extra = ["cpsat"] if find_spec("ortools") else []
    engines = ["lkh:runs=5"] if find_spec("elkai") else []
    if turn == 0:
        return ["search", "branch", MIP]
    return ["search", *also, *([*extra, MIP, *engines] if turn in (1, 3) else [])]


def _useful(solver: str, problem: str, size: tuple[int, ...]) -> bool:
    if solver == "branch":
        return problem == "atsp" and size[0] <= 200
    if solver == MIP:
        return problem == "pmsp"
    if solver == "cpsat":
        return problem == "pmsp" or size[0] <= 100
    return not solver.startswith("lkh") or problem == "atsp"


def run(attempt: Attempt, problem_name: str, arrays: Any, start: Any) -> Outcome:
    """Run one attempt, in a worker; it begins from the best solution known where the solver can."""
    problem = get_problem(problem_name)
    if attempt.solver == MIP:
        return _restricted(problem.cost_matrix(arrays)[0], start, attempt.seconds)  # type: ignore[index]
    solver = make_solver(attempt.solver)
    # from scratch in every other turn, so that a good basin is no prison
    begin = None if start is None or attempt.seed % 2 else start[None]
    found = solver.solve(problem, arrays, seed=attempt.seed, time_limit=attempt.seconds, start=begin)
    return Outcome(found.choice[0], float(found.bound[0]), bool(found.proven[0]))


def _restricted(durations: Any, start: Any, seconds: float) -> Outcome:
    budget = Budget(seconds)
    first = construct(durations, budget.share(0.5))
    choice = first.choice if start is None else start
    for width in (3, 6, 10):
        if budget.over:
            break
        found = restricted_mip(durations, first.prices, choice, budget, width)
        choice = choice if found.choice is None else found.choice
        if found.optimal:
            return Outcome(choice, -np.inf, True)
    return Outcome(choice, float(first.prices.bound), False)


def warm_up() -> None:
    """Have everything compiled once, into the cache that all workers share."""
    for name, size in (("pmsp", (12, 3)), ("atsp", (12,))):
        problem = get_problem(name)
        for family in ("uniform-100",) if name == "pmsp" else ("noisy-plane", "uniform"):
            from icdc.problems.families import sample_family

            arrays = sample_family(problem, family, 1, size, np.random.default_rng(0))
            make_solver("search").solve(problem, arrays, time_limit=0.5)


class Maker:
    """Hands out attempts to workers and keeps what they find."""

    def __init__(self, folder: Path, deadline: float) -> None:
        self.folder, self.deadline = folder, deadline
        self.known: dict[str, Known] = {}
        self.running: dict[Future[Outcome], Attempt] = {}
        self.saved = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.deadline - time.monotonic()

    def work(self, workers: PinnedWorkers, attempts: Iterator[Attempt]) -> None:
        """Work off attempts until they or the time are used up."""
        most = 2 * len(workers.groups)  # enough waiting that no core idles, few enough that proofs still count
        try:
            for attempt in attempts:
                if self.left < LAST_CALL:
                    break
                known = self._set(attempt.name)
                if known.proven(attempt.instance):
                    continue
                if attempt.solver.startswith("lkh") and self.left < 60:
                    continue  # cannot be stopped
                self._begin(workers, known, attempt)
                while len(self.running) >= most and self.left > -LAST_CALL:
                    self._collect()
            while self.running and self.left > -LAST_CALL:
                self._collect()
        finally:
            self.save()

    def _set(self, name: str) -> Known:
        if name not in self.known:
            self.known[name] = opened(name, self.folder)
        return self.known[name]

    def _begin(self, workers: PinnedWorkers, known: Known, attempt: Attempt) -> None:
        data, at = known.dataset, attempt.instance
        assert data.choice is not None
        arrays = {key: array[at : at + 1] for key, array in data.arrays.items()}
        start = data.choice[at] if data.choice[at].min() >= 0 else None
        # two runs a core are waiting: each may take half of what is left
        attempt = attempt._replace(seconds=round(max(0.5, min(attempt.seconds, self.left / 2)), 2))
        self.running[workers.submit(run, attempt, data.problem.name, arrays, start)] = attempt

    def _collect(self) -> None:
        for future in wait(self.running, timeout=1.0, return_when=FIRST_COMPLETED).done:
            attempt = self.running.pop(future)
            try:
                news = self.known[attempt.name].take(attempt, future.result())
            except IcdcError as error:  # a solver whose package is missing is no reason to stop
                news = f"not run: {error}"
            if news:
                print(f"{attempt.name}[{attempt.instance}] {attempt.solver} {attempt.seconds:g} s: {news}", flush=True)
        if time.monotonic() - self.saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write the sets with news."""
        for known in self.known.values():
            if known.changed:
                write_references(known.dataset, self.folder, known.how)
                known.changed = False
        self.saved = time.monotonic()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(FAMILY_SETS), metavar="SET", help="default: all of families")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on a core of its own")
    parser.add_argument("--minutes", type=float, default=8.0, help="all in all, start-up included")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the longest run; the first take a tenth")
    parser.add_argument("--rounds", type=int, help="turns over all instances, even if time is left")
    parser.add_argument("--also", nargs="*", default=[], metavar="SOLVER", help="more solvers for the later turns")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="SOLVER", help="these solvers instead of the usual ones"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "src" / "icdc" / "io" / "references")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + 60.0 * options.minutes
    try:
        if unknown := [name for name in options.sets if name not in FAMILY_SETS]:
            raise UsageError(f"unknown set '{unknown[0]}'; choose from {', '.join(FAMILY_SETS)}")
        for solver in (*options.also, *options.only):
            if solver != MIP:
                make_solver(solver)
        with PinnedWorkers(options.jobs) as workers:
            workers.submit(warm_up).result()
            maker = Maker(options.folder, deadline)
            planned = efforts(options.sets, options.seconds, options.also, options.rounds, options.only)
            maker.work(workers, planned)
    except IcdcError as error:
        print(f"references: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("references: interrupted; what was found is kept", file=sys.stderr)
        return 130
    for name, known in maker.known.items():
        data = known.dataset
        assert data.proven is not None
        assert data.reference is not None
        print(f"{name}: {int(data.proven.sum())} of {len(data)} proven, {int(np.isnan(data.reference).sum())} without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
