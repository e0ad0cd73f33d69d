"""`icdc reproduce`: the tables and figures of the paper, with this code's numbers beside the paper's."""

import sys
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from .counts import sample_counts


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="pmsp-table, atsp-table, navigation-table, generalisation, sampling-steps, training-comparison, "
            "ablations, or all.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few instances, to see that everything works.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for tables and pictures.")] = Path("results"),
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many instances of each set.")] = None,
    samples: Annotated[
        str, typer.Option(help="Numbers of samples instead of the paper's 1,8,32,128; fewer for a CPU.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of the solvers.")] = 0,
    runs: Annotated[Path, typer.Option(help="Folder of training runs, for models that are not shipped.")] = Path(
        "runs"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    only: Annotated[
        str,
        typer.Option(
            metavar="PART",
            help="learned: only rows of models; classical: only the others; what is known already stays.",
        ),
    ] = "all",
    cards: Annotated[
        bool, typer.Option("--cards", help="Take from the cards of shipped models what they have measured already.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE.md", help="Also write a page of everything in the folder, with the account of it."),
    ] = None,
    remark: Annotated[
        str, typer.Option(help="A sentence for the page: what else ran on the machine, for example.")
    ] = "",
) -> None:
    """Make tables and figures of the paper: Markdown, CSV and, for figures, PNG and SVG.

    Stopped and called again, it goes on where it was. Rows whose model is not there are listed with the command
    that trains it.
    """
    from ..errors import UsageError
    from ..reproduce import TARGETS, gather
    from ..reproduce import reproduce as make
    from ..reproduce.session import Part

    if only not in get_args(Part):
        raise UsageError(f"--only takes {', '.join(get_args(Part))}, not '{only}'")
    chosen = list(TARGETS) if names == ["all"] else names
    unknown = [name for name in chosen if name not in TARGETS]
    if unknown:
        raise UsageError(f"unknown table or figure '{unknown[0]}'; choose {', '.join(TARGETS)} or all")

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    counts = tuple(sorted(set(sample_counts(samples)))) if samples else None
    for name in chosen:
        for path in make(
            name, out, quick=quick, limit=limit, seed=seed, runs=runs, device=device, only=cast(Part, only),
            counts=counts, cards=cards, say=say,
        ):  # fmt: skip
            print(path)
    if page is not None:
        print(gather(page, out, runs=runs, remark=remark))
