"""Solve a dataset for its references, block by block: an interrupted run goes on where it stopped."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import InfeasibleError, InputError
from ..io.datasets import Dataset, SeededSample, fingerprint, reference_entries, write_arrays, write_dataset
from ..io.files import LockedFile
from ..problems.forbidden import uses_forbidden
from ..solving.solver import Solver

SAVE_EVERY, SAVE_SHARE = 1.0, 0.05
"""Seconds between two times that unfinished work is written, more where writing takes more than this share of the time;
it is also written when the run is stopped."""
_FIRST_BLOCK, _BLOCK_SECONDS = 32, 1.0


def write_referenced(
    path: str | Path,
    dataset: Dataset,
    solver: Solver,
    label: str,
    *,
    drawn_from: SeededSample | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    block: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, count: None,
) -> Dataset:
    """Write a dataset with the costs `solver` finds as references, and return it.

    What is done so far is kept in `PATH.partial`, and the same call goes on from there.

    Parameters
    ----------
    label : the solver as it was named; a partial file of other instances, solvers or settings is not used.
    drawn_from : leaves the instances out of the file (see `write_dataset`).
    time_limit : seconds per instance.
    block : instances that are solved in one call; left out, calls grow until they take about a second.
    on_progress : called with how many instances of how many are done.
    """
    path = Path(path)
    partial, lock = (path.with_name(path.name + ending) for ending in (".partial", ".lock"))
    mark = f"{fingerprint(dataset.arrays)} {label} {time_limit} {seed}"
    count = len(dataset)
    rows = dataset.problem.shape(dataset.problem.size(dataset.arrays))[0]
    finished = replace(
        dataset,
        reference=np.full(count, np.nan),
        proven=np.zeros(count, dtype=bool),
        choice=np.zeros((count, rows), dtype=np.int64),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
    with LockedFile(lock):
        done = _read_partial(partial, mark, finished)
        on_progress(done, count)
        length, saved, pause = block or _FIRST_BLOCK, time.monotonic(), SAVE_EVERY
        try:
            while done < count:
                part = slice(done, min(done + length, count))
                started = time.monotonic()
                _solve_part(finished, part, solver, seed, time_limit)
                done = part.stop
                now = time.monotonic()
                if block is None and now - started < _BLOCK_SECONDS / 2:
                    length *= 2
                if now - saved > pause:
                    _save(partial, mark, finished.first(done))
                    saved = time.monotonic()
                    pause = max(SAVE_EVERY, (saved - now) / SAVE_SHARE)
                on_progress(done, count)
        except BaseException:  # Ctrl-C above all
            if done:
                _save(partial, mark, finished.first(done))
            raise
        write_dataset(path, finished, drawn_from=drawn_from)
        partial.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
    return finished


def _solve_part(dataset: Dataset, part: slice, solver: Solver, seed: int, time_limit: float | None) -> None:
    """Solve some instances of a dataset and fill in what is found, in place."""
    assert dataset.reference is not None
    assert dataset.proven is not None
    assert dataset.choice is not None
    arrays = {name: array[part] for name, array in dataset.arrays.items()}
    limit = None if time_limit is None else time_limit * (part.stop - part.start)
    answers = solver.solve(dataset.problem, arrays, seed=seed, time_limit=limit)
    if answers.interrupted:
        raise KeyboardInterrupt  # half a search is no reference
    feasible = answers.feasible
    if dataset.forbidden is not None:
        feasible = feasible & ~uses_forbidden(dataset.forbidden[part], answers.choice)
    if not feasible.all():
        missing = part.start + int(feasible.argmin())
        raise InfeasibleError(f"no feasible solution was found for instance {missing}")
    dataset.reference[part] = answers.cost
    dataset.proven[part] = answers.proven
    dataset.choice[part] = answers.choice


def _save(partial: Path, mark: str, done: Dataset) -> None:
    write_arrays(partial, {"mark": np.array(mark), **reference_entries(done)})


def _read_partial(partial: Path, mark: str, dataset: Dataset) -> int:
    """Fill in the references of an earlier run of the same mark, in place, and return how many instances that is."""
    if not partial.exists():
        return 0
    try:
        with np.load(partial, allow_pickle=False) as file:
            if str(file["mark"]) != mark:
                return 0
            values_of = {name: file[name] for name in ("reference", "proven", "choice")}
        for name, values in values_of.items():
            getattr(dataset, name)[: len(values)] = values
    except OSError as error:
        raise InputError(f"{partial}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # numpy and zipfile raise many kinds, some with advice that does not help here
        raise InputError(
            f"{partial} is not what an interrupted run leaves ({type(error).__name__}); remove it"
        ) from None
    return len(values_of["reference"])
