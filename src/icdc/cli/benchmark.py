"""`icdc generate` and `icdc evaluate`: sets of instances, and any solvers side by side on them."""

import sys
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, UsageError
from ..evaluation import report as reporting
from ..evaluation.evaluate import OutcomeFile, Summary, summarise
from ..evaluation.evaluate import evaluate as run
from ..evaluation.references import write_referenced
from ..io.datasets import STANDARD_SETS, Dataset, SeededSample, open_dataset, standard_set, write_dataset
from ..io.files import write_atomically
from ..io.solutions import IMAGES
from ..machine import available_memory, gibibytes
from ..solvers import make_solver
from ..solving.solver import Solver
from .parameters import Given, check_output, find_problem, look_here, read_size, takes
from .terminal import progress

NUMBERS = 3
"""Numbers in memory for every entry of a matrix while instances are drawn and written."""
_CHUNK = 250
_EQUAL_SECONDS = 1.0
"""Of each row and instance where no solver is named."""


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

    dataset, sample = _draw(problem, size, count, seed, family)
    drawn_from = sample if without_instances else None
    if reference is None:
        write_dataset(out, dataset, drawn_from=drawn_from)
        about = "with shipped references" if dataset.reference is not None else "without references"
        print(f"wrote {len(dataset)} instances to {out}, {about}", file=sys.stderr)
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


def _draw(name: str, size: str | None, count: int, seed: int, family: str | None) -> tuple[Dataset, SeededSample]:
    """Return the standard set of that name, or fresh instances of that problem, and what they are drawn from."""
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


@takes(
    problem="module:Class, where a file is of a problem of your own.",
    seed="Seed of the solvers.",
    time_limit="Seconds per instance that a solver may take.",
)
def evaluate(
    datasets: Annotated[
        list[str],
        typer.Argument(metavar="DATASET...", help="Standard sets (pmsp-20x4, atsp-50, …) or .npz files."),
    ],
    given: Given,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            "--solver",
            help="NAME or NAME:option=value,…; repeat it for more. Default: model alone, search alone, and both.",
        ),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(
            help="Tries per instance; several numbers for several rows: 1,8,32. Default: as many as `icdc solve` takes."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many instances of each set.")] = None,
    chunk: Annotated[
        int | None, typer.Option(min=1, help="Instances given to a solver at once. Default: 250; 1 without --solver.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Per-instance results (.jsonl or .csv); taken up again if there."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of gap against time (.png, .svg, .pdf).")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    published: Annotated[bool, typer.Option("--published", help="Add the paper's figures to the table.")] = False,
) -> None:
    """Run solvers on datasets and compare them: cost, gaps, share solved to optimality, feasibility and time.

    Solvers that take no samples run once with 1; solvers that cannot answer a problem are left out, with a note.
    Without --solver, the model alone, the search alone and both
    are compared at equal time: one instance after the other, 1 second each unless --time-limit says otherwise.
    """
    if markdown + json + csv > 1:
        raise UsageError("choose one of --markdown, --json and --csv")
    counts = None if samples is None else _sample_counts(samples)
    problem, seed, time_limit = given["problem"], given["seed"], given["time_limit"]
    if out is not None and out.suffix not in (".jsonl", ".csv"):
        raise UsageError(f"per-instance results go to a .jsonl or a .csv, not to '{out}'")
    check_output("--plot", plot, IMAGES)

    if not solver:
        solver, chunk, time_limit = reporting.default_rows(), chunk or 1, time_limit or _EQUAL_SECONDS
        print(f"comparing {', '.join(solver)} with {time_limit:g} s an instance each", file=sys.stderr)
    for spec in solver:
        look_here(spec)
    solvers = {spec: make_solver(spec) for spec in solver}
    of = None if problem is None else find_problem(problem)
    opened = [open_dataset(name, of) for name in datasets]
    if limit is not None:
        opened = [dataset.first(limit) for dataset in opened]
    store = OutcomeFile(out) if out is not None else None
    try:
        summaries = _measured(opened, solvers, counts, seed, time_limit, chunk, store)
    finally:
        if store is not None:
            store.close()
    if not summaries:
        raise UsageError("none of the solvers can answer any of the datasets")
    if json:
        print(reporting.as_json_lines(summaries))
    elif csv:
        print(reporting.as_csv(summaries))
    elif markdown:
        print(reporting.as_markdown(summaries, published))
    else:
        print(reporting.as_text(summaries, published))
    if plot is not None:
        buffer = BytesIO()
        figure = reporting.plot_gap_against_time(summaries)[0].figure
        figure.savefig(buffer, dpi=150, format=plot.suffix.lower()[1:])
        write_atomically(plot, buffer.getvalue())
        print(f"wrote {plot}", file=sys.stderr)


def _measured(
    opened: list[Dataset],
    solvers: dict[str, Solver],
    counts: list[int] | None,
    seed: int,
    time_limit: float | None,
    chunk: int | None,
    store: OutcomeFile | None,
) -> list[Summary]:
    """Run every solver on every dataset, and return a row for each."""
    summaries = []
    for dataset in opened:
        for spec, one in solvers.items():
            if (reason := one.refusal(dataset.problem)) is not None:
                print(f"{dataset.name}: left out {spec}: {reason}", file=sys.stderr)
                continue
            # one row where more samples change nothing: exact solvers and fixed rules
            for count in (counts or [one.default_samples]) if one.abilities.samples else [1]:
                with progress(f"{dataset.name} {spec} ×{count}") as advance:
                    outcomes = run(
                        dataset, one, spec, samples=count, seed=seed, time_limit=time_limit, chunk=chunk or _CHUNK,
                        store=store, on_progress=advance,
                    )  # fmt: skip
                summaries.append(summarise(outcomes))
                if summaries[-1].below:
                    where = f"{dataset.name} on {summaries[-1].below} instances"
                    print(f"warning: {spec} is below the proven optimum of {where}; check both", file=sys.stderr)
    return summaries


def _sample_counts(text: str) -> list[int]:
    """Read numbers of samples such as 1,8,32."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"--samples must be whole numbers such as 1,8,32, got '{text}'")
    return counts
