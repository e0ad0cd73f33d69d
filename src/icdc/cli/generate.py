"""`icdc generate`: draw instances, with references if a solver is named, into one dataset file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .problems import find_problem, read_size
from .progress import progress

if TYPE_CHECKING:
    from ..io.dataset import Dataset, SeededSample


def generate(
    problem: Annotated[
        str, typer.Argument(help="pmsp, atsp, navigation, module:Class, or a standard set such as atsp-50.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write (.npz).")],
    size: Annotated[str | None, typer.Option(help="Cities, or jobs x machines: 20, 20x4.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many instances.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the instances.")] = 0,
    reference: Annotated[
        str | None, typer.Option(help="Solver whose costs become the references: cpsat, branch, lkh:runs=10, …")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Processes that solve at once.")] = 1,
    time_limit: Annotated[float | None, typer.Option(help="Seconds per instance for the references.")] = None,
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
    from ..evaluation.references import write_referenced
    from ..io.dataset import write_dataset
    from ..solving.registry import make_solver

    dataset, sample = _drawn(problem, size, count, seed)
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


def _drawn(name: str, size: str | None, count: int, seed: int) -> tuple["Dataset", "SeededSample"]:
    """Return the standard set of that name, or fresh instances of that problem, and what they are drawn from."""
    from ..errors import UsageError
    from ..io.dataset import Dataset, SeededSample
    from ..io.standard import STANDARD_SETS, standard_set

    if name in STANDARD_SETS:
        if size is not None:
            raise UsageError(f"the standard set '{name}' has its own size; leave out --size")
        return standard_set(name), STANDARD_SETS[name].sample
    problem = find_problem(name)
    if size is None:
        raise UsageError(f"--size is needed for '{name}': {' x '.join(problem.size_names)}")
    sample = SeededSample(read_size(size, problem), count, seed)
    return Dataset(problem, sample.draw(problem)), sample
