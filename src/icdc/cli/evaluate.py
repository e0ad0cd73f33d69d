"""`icdc evaluate`: any solvers side by side on the same instances."""

import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .parameters import Given, find_problem, look_here, takes
from .progress import progress

if TYPE_CHECKING:
    from ..evaluation.evaluate import OutcomeFile, Summary
    from ..io.datasets import Dataset
    from ..solving import Solver

_CHUNK = 250
_EQUAL_SECONDS = 1.0
"""Of each row and instance where no solver is named."""


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

    A solver that takes no samples, such as an exact one, or that cannot answer a problem at all, is run
    with samples 1 only, or left out for it, and said so. Without --solver, the model alone, the search alone and both
    are compared at equal time: one instance after the other, 1 second each unless --time-limit says otherwise.
    """
    if markdown + json + csv > 1:
        raise UsageError("choose one of --markdown, --json and --csv")
    counts = None if samples is None else _sample_counts(samples)
    problem, seed, time_limit = given["problem"], given["seed"], given["time_limit"]
    if out is not None and out.suffix not in (".jsonl", ".csv"):
        raise UsageError(f"per-instance results go to a .jsonl or a .csv, not to '{out}'")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageError(f"--plot {plot}: the name must end in one of .png, .svg, .pdf")
    if plot is not None and not plot.parent.is_dir():
        raise UsageError(f"--plot {plot}: there is no folder '{plot.parent}'")

    from ..evaluation import report as reporting
    from ..evaluation.evaluate import OutcomeFile
    from ..evaluation.report import default_rows
    from ..io.datasets import open_dataset
    from ..io.files import write_atomically
    from ..solving.registry import make_solver

    if not solver:
        solver, chunk, time_limit = default_rows(), chunk or 1, time_limit or _EQUAL_SECONDS
        print(f"comparing {', '.join(solver)} with {time_limit:g} s an instance each", file=sys.stderr)
    for spec in solver:
        look_here(spec)
    solvers = {spec: make_solver(spec) for spec in solver}
    asked = None if problem is None else find_problem(problem)
    opened = [open_dataset(name, asked) for name in datasets]
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
    opened: "list[Dataset]",
    solvers: "dict[str, Solver]",
    counts: list[int] | None,
    seed: int,
    time_limit: float | None,
    chunk: int | None,
    store: "OutcomeFile | None",
) -> "list[Summary]":
    """Run every solver on every dataset, and return a row for each."""
    from ..evaluation.evaluate import evaluate as run
    from ..evaluation.evaluate import summarise

    summaries = []
    for dataset in opened:
        for spec, made in solvers.items():
            if (reason := made.refusal(dataset.problem)) is not None:
                print(f"{dataset.name}: left out {spec}: {reason}", file=sys.stderr)
                continue
            # one row where more samples change nothing: exact solvers and fixed rules
            for count in (counts or [made.default_samples]) if made.abilities.samples else [1]:
                with progress(f"{dataset.name} {spec} ×{count}") as advance:
                    outcomes = run(
                        dataset, made, spec, samples=count, seed=seed, time_limit=time_limit, chunk=chunk or _CHUNK,
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
