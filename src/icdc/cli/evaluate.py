"""`icdc evaluate`: any solvers side by side on the same instances."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .problems import find_problem, look_here
from .progress import progress


def evaluate(
    datasets: Annotated[
        list[str],
        typer.Argument(metavar="DATASET...", help="Standard sets (pmsp-20x4, atsp-50, …) or .npz files."),
    ],
    solver: Annotated[list[str], typer.Option("--solver", help="NAME or NAME:option=value,…; repeat it for more.")],
    problem: Annotated[str | None, typer.Option(help="module:Class, where a file is of a problem of your own.")] = None,
    samples: Annotated[str, typer.Option(help="Tries per instance; several numbers for several rows: 1,8,32.")] = "1",
    seed: Annotated[int, typer.Option(help="Seed of the solvers.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many instances of each set.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds per instance that a solver may take.")] = None,
    chunk: Annotated[int, typer.Option(min=1, help="Instances given to a solver at once.")] = 250,
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
    with samples 1 only, or left out for it, and said so.
    """
    from ..evaluation import report as reporting
    from ..evaluation.evaluate import evaluate as run
    from ..evaluation.evaluate import summarise
    from ..evaluation.outcomes import OutcomeFile
    from ..io.standard import open_dataset
    from ..solving.registry import make_solver

    if markdown + json + csv > 1:
        raise UsageError("choose one of --markdown, --json and --csv")
    counts = _sample_counts(samples)
    for spec in solver:
        look_here(spec)
    solvers = {spec: make_solver(spec) for spec in solver}
    asked = None if problem is None else find_problem(problem)
    opened = [open_dataset(name, asked) for name in datasets]
    if limit is not None:
        opened = [dataset.first(limit) for dataset in opened]
    store = OutcomeFile(out) if out is not None else None
    summaries = []
    for dataset in opened:
        for spec, made in solvers.items():
            if (reason := made.refusal(dataset.problem)) is not None:
                print(f"{dataset.name}: left out {spec}: {reason}", file=sys.stderr)
                continue
            # one row where more samples change nothing: exact solvers and fixed rules
            for count in counts if made.abilities.samples else [1]:
                with progress(f"{dataset.name} {spec} ×{count}") as advance:
                    outcomes = run(
                        dataset, made, spec, samples=count, seed=seed, time_limit=time_limit, chunk=chunk,
                        store=store, on_progress=advance,
                    )  # fmt: skip
                summaries.append(summarise(outcomes))
                if summaries[-1].below:
                    where = f"{dataset.name} on {summaries[-1].below} instances"
                    print(f"warning: {spec} is below the proven optimum of {where}; check both", file=sys.stderr)
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
        reporting.plot_gap_against_time(summaries)[0].figure.savefig(plot, dpi=150)
        print(f"wrote {plot}", file=sys.stderr)


def _sample_counts(text: str) -> list[int]:
    """Read numbers of samples such as 1,8,32."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"--samples must be whole numbers such as 1,8,32, got '{text}'")
    return counts
