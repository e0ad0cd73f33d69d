"""`icdc solve`: files in, checked answers out."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InfeasibleError, InputError, UsageError
from .problems import HELP, find_problem
from .watch import Watch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..data import Instance
    from ..plots import Recorder
    from ..solving.report import Answer
    from .batch import Group
    from .planner import Planner

INTERRUPTED = 130
ANIMATION = ".gif"


def solve(
    files: Annotated[list[str], typer.Argument(help="Instance files, or - for standard input.", metavar="FILE")],
    problem: Annotated[str | None, typer.Option(help=HELP)] = None,
    model: Annotated[
        str | None, typer.Option(help="A shipped model or a model file; by default the one that fits best.")
    ] = None,
    solver: Annotated[str, typer.Option(help="icdc, or another of `icdc info`: cpsat, lkh, …")] = "icdc",
    samples: Annotated[
        int | None, typer.Option(min=1, help="Tries for each instance; by default 32 for icdc, 1 for others.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Denoising steps of the learned solver.")] = None,
    refine: Annotated[int | None, typer.Option(min=0, help="Rounds of refinement by noising again.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds to spend on all instances together.")] = None,
    start: Annotated[str | None, typer.Option(help="Solution file to begin with; the answer is never worse.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the solution too: .tour, .csv, .json or .txt.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the solution too: .png, .svg, .pdf; .gif animates.")] = None,
) -> None:
    """Solve instances and print checked answers with a lower bound.

    Reads TSPLIB, CSV, TSV, JSON, NPY and NPZ files and datasets. Ctrl-C stops and prints the best so far.
    With several instances, --out and --plot number their files.
    """
    from ..data import read_instances
    from ..plots import Recorder
    from .batch import grouped, in_order
    from .planner import Planner

    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"--time-limit must be more than 0 seconds, got {time_limit:g}")
    if [*files, start].count("-") > 1:
        raise UsageError("standard input can be read only once")
    _check_outputs(out, plot)
    recorder = Recorder() if plot is not None and plot.suffix.lower() == ANIMATION else None
    planner = Planner(solver, model, samples, steps, refine, seed, device, recorder)
    asked = planner.problem() if problem is None else find_problem(problem)
    instances = [instance for file in files for instance in read_instances(file, asked)]
    if recorder is not None and len(instances) != 1:
        raise UsageError(f"--plot {plot}: an animation shows one instance, not {len(instances)}")
    starts = None if start is None else _read_starts(start, instances)
    watch = Watch()
    infeasible = 0
    for place, answer in in_order(_answers(grouped(instances), planner, time_limit, starts, watch)):
        watch.clear()
        _print(answer, as_json)
        if answer.verdict.feasible:
            count = len(instances)
            _write(answer, _numbered(out, place, count), _numbered(plot, place, count), recorder)
        else:
            infeasible += 1
    watch.clear()
    if watch.interrupted:
        raise typer.Exit(INTERRUPTED)
    if infeasible:
        raise InfeasibleError(f"no feasible solution was found for {infeasible} of {len(instances)} instances")


def _answers(
    groups: "list[Group]",
    planner: "Planner",
    time_limit: float | None,
    starts: "list[NDArray[np.int64]] | None",
    watch: Watch,
) -> "Iterator[dict[int, Answer]]":
    """Solve group after group, sharing out the time that is left by numbers of instances."""
    import numpy as np

    from .batch import answer

    begun = time.perf_counter()
    left = sum(len(group.places) for group in groups)
    for group in groups:
        plan = planner.plan(group)
        share = None
        if time_limit is not None:
            remaining = max(0.01, time_limit - (time.perf_counter() - begun))
            share = remaining * len(group.places) / left
        left -= len(group.places)
        start = None if starts is None else np.stack([starts[place] for place in group.places])
        yield answer(group, plan, watch, time_limit=share, start=start)
        if watch.interrupted:
            return


def _read_starts(source: str, instances: "list[Instance]") -> "list[NDArray[np.int64]]":
    """Return the solution that --start has for every instance, refusing infeasible ones."""
    from ..data import read_solution
    from ..solving.verify import verify

    starts = []
    for instance in instances:
        choice = read_solution(source, instance)
        if not verify(instance.problem, instance.batch(), choice[None])[0].feasible:
            raise InputError(f"{source}: the solution is infeasible for {instance.name}")
        starts.append(choice)
    return starts


def _check_outputs(out: Path | None, plot: Path | None) -> None:
    """Refuse, before anything is solved, what could not be written after."""
    from ..data.solutions import ENDINGS
    from ..plots import IMAGES

    for path, endings, option in ((out, ENDINGS, "--out"), (plot, (*IMAGES, ANIMATION), "--plot")):
        if path is not None and path.suffix.lower() not in endings:
            raise UsageError(f"{option} {path}: the name must end in one of {', '.join(endings)}")
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: there is no folder '{path.parent}'")


def _numbered(path: Path | None, place: int, count: int) -> Path | None:
    """Return the file for one of several answers: answer.png becomes answer-3.png."""
    return path if path is None or count == 1 else path.with_stem(f"{path.stem}-{place}")


def _print(answer: "Answer", as_json: bool) -> None:
    from ..solving.report import json_line, text

    print(json_line(answer) if as_json else text(answer), flush=True)


def _write(answer: "Answer", out: Path | None, plot: Path | None, recorder: "Recorder | None") -> None:
    """Write the solution and the picture, where they were asked for."""
    from ..data import write_solution
    from ..plots import save_animation, save_solution

    if out is not None:
        write_solution(out, answer.instance, answer.choice)
    if plot is None:
        return
    if recorder is None:
        save_solution(plot, answer.instance, answer.choice, answer.verdict.bound)
        return
    problem = answer.instance.problem
    order = answer.solution if problem.feature_sizes.same_items else None
    columns = problem.shape(problem.size(answer.instance.batch()))[1]
    save_animation(plot, recorder.frames, order=order, final=answer.choice[:, None] == range(columns))
