"""`icdc generate`: draw instances, with references if a solver is named, into one dataset file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, UsageError
from ..machine import available_memory, gibibytes
from .parameters import Given, find_problem, read_size, takes
from .progress import progress

if TYPE_CHECKING:
    from ..io.datasets import Dataset, SeededSample


NUMBERS = 3
"""Numbers in memory for every entry of a matrix while instances are drawn and written."""


@takes(seed="Seed of the instances.", time_limit="Seconds per instance for the references.")
def generate(
    problem: Annotated[
        str, typer.Argument(help="pmsp, atsp, navigation, module:Class, or a standard set such as atsp-50.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write (.npz).")],
    given: Given,
    size: Annotated[str | None, typer.Option(help="Cities, or jobs x machines: 20, 20x4.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many instances.")] = 1000,
    family: Annotated[
        str | None, typer.Option(help="A family of the problem, such as job-correlated or crane; default its own draw.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Solver whose costs become the references: cpsat, branch, lkh:runs=10, …")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Processes that solve at once.")] = 1,
    without_instances: Annotated[
        bool, typer.Option("--without-instances", help="Keep their seed instead: a small file that reads the same.")
    ] = False,
) -> None:
    """Draw instances of a problem and write them as a dataset.

    With --reference they are solved too, proven optima marked as such; stopped and called again, it goes on
    where it was. A standard set's name needs no size, count or seed, and brings its shipped references
    along. With --without-instances the file holds what the instances are drawn from and their SHA-256; whatever
    reads it draws them again.
    """
    if out.suffix.lower() != ".npz":
        raise UsageError(f"--out {out}: a dataset is an .npz file, so the name must end in .npz")
    seed, time_limit = given["seed"], given["time_limit"]

    from ..evaluation.references import write_referenced
    from ..io.datasets import write_dataset
    from ..solving.registry import make_solver

    dataset, sample = _drawn(problem, size, count, seed, family)
    drawn_from = sample if without_instances else None
    if reference is None:
        write_dataset(out, dataset, drawn_from=drawn_from)
        known = "with shipped references" if dataset.reference is not None else "without references"
        print(f"wrote {len(dataset)} instances to {out}, {known}", file=sys.stderr)
        return
    solver = make_solver(reference, **({"processes": processes} if processes > 1 else {}))
    # with several processes large blocks, since every block starts them anew
    block = None if processes == 1 else 128 * processes
    with progress("solving for references") as advance:
        finished = write_referenced(
            out,
            dataset,
            solver,
            reference,
            drawn_from=drawn_from,
            time_limit=time_limit,
            block=block,
            on_progress=advance,
        )
    assert finished.proven is not None
    proven = int(finished.proven.sum())
    print(f"wrote {len(finished)} instances to {out}, {proven} references proven optimal", file=sys.stderr)


def _check_memory(shape: tuple[int, int], count: int) -> None:
    """Refuse instances that do not fit into memory, before any is drawn."""
    needed, there = NUMBERS * 8 * count * shape[0] * shape[1], available_memory()
    if there is not None and needed > there:
        raise UsageError(
            f"{count} instances of {shape[0]} × {shape[1]} need about {gibibytes(needed)} of memory, and "
            f"{gibibytes(there)} are free: choose a smaller --count or --size"
        )


def _drawn(name: str, size: str | None, count: int, seed: int, family: str | None) -> tuple["Dataset", "SeededSample"]:
    """Return the standard set of that name, or fresh instances of that problem, and what they are drawn from."""
    from ..io.datasets import STANDARD_SETS, Dataset, SeededSample, standard_set

    if name in STANDARD_SETS:
        if size is not None:
            raise UsageError(f"the standard set '{name}' has its own size; leave out --size")
        if family is not None:
            raise UsageError(f"the standard set '{name}' is of one family already; leave out --family")
        return standard_set(name), STANDARD_SETS[name].sample
    problem = find_problem(name)
    if size is None:
        raise UsageError(f"--size is needed for '{name}': {' x '.join(problem.size_names)}")
    if family is not None:
        problem.family(family)  # refuses an unknown one
    sample = SeededSample(read_size(size, problem), count, seed, family)
    _check_memory(problem.shape(sample.size), count)
    try:
        arrays = sample.draw(problem)
        dataset = Dataset(problem, arrays, forbidden=sample.forbidden(problem, arrays))
    except (MemoryError, ValueError):  # NumPy says either, by how far it is too much
        raise UsageError(f"{count} instances of size {size} do not fit into memory") from None
    try:
        problem.check({key: array[:1] for key, array in arrays.items()})
    except InputError as error:  # such as tours of one city, which nothing could read again
        raise UsageError(f"--size {size}: {error}") from None
    return dataset, sample
