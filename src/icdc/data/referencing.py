"""Solve a dataset for its references, block by block: an interrupted run goes on where it stopped."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ..errors import InfeasibleError
from ..problem import to_tensors
from ..solver import Solver
from .dataset import Dataset, fingerprint, write_arrays, write_dataset


def write_referenced(
    path: str | Path,
    dataset: Dataset,
    solver: Solver,
    label: str,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    block: int = 32,
    on_progress: Callable[[int, int], None] = lambda done, count: None,
) -> Dataset:
    """Write a dataset with the costs `solver` finds as references, and return it.

    What is done so far is kept in `PATH.partial`; the same call takes it up again. `label` is how the
    solver was asked for: a partial file made of other instances, by another solver or with other settings
    is not used. `time_limit` is seconds per instance. `on_progress` hears how many instances of how many
    are done.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    mark = f"{fingerprint(dataset.arrays)} {label} {time_limit} {seed}"
    count = len(dataset)
    rows = dataset.problem.shape(dataset.problem.size(dataset.arrays))[0]
    reference = np.full(count, np.nan)
    proven = np.zeros(count, dtype=bool)
    choice = np.zeros((count, rows), dtype=np.int64)
    done = 0
    if partial.exists():
        with np.load(partial, allow_pickle=False) as file:
            if str(file["mark"]) == mark:
                done = len(file["reference"])
                reference[:done], proven[:done], choice[:done] = (
                    file["reference"],
                    file["proven"],
                    file["choice"],
                )
    on_progress(done, count)
    while done < count:
        part = slice(done, min(done + block, count))
        arrays = {name: array[part] for name, array in dataset.arrays.items()}
        limit = None if time_limit is None else time_limit * (part.stop - part.start)
        answers = solver.solve(dataset.problem, arrays, seed=seed, time_limit=limit)
        found = (
            dataset.problem.feasible(to_tensors(arrays), torch.from_numpy(answers.choice)[:, None]).squeeze(1).numpy()
        )
        if not found.all():
            raise InfeasibleError(f"no feasible solution was found for instance {done + int(found.argmin())}")
        reference[part], proven[part], choice[part] = answers.cost, answers.proven, answers.choice
        done = part.stop
        write_arrays(
            partial,
            {
                "mark": np.array(mark),
                "reference": reference[:done],
                "proven": proven[:done],
                "choice": choice[:done],
            },
        )
        on_progress(done, count)
    finished = replace(dataset, reference=reference, proven=proven, choice=choice)
    write_dataset(path, finished)
    partial.unlink(missing_ok=True)
    return finished
