"""`icdc solve`: files in, checked answers out."""

import sys
from collections.abc import Callable, Iterator, Sequence
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
    from .answers import Line
    from .batch import Job
    from .cluster import Cluster

INTERRUPTED = 130
ANIMATION, STREAM = ".gif", ".jsonl"


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
    out: Annotated[
        Path | None,
        typer.Option(help="Write the solution too: .tour, .csv, .json or .txt; or all answers as they come: .jsonl."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an --out FILE.jsonl that is there.")] = False,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Spread the instances over the Ray cluster there.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the solution too: .png, .svg, .pdf; .gif animates.")] = None,
) -> None:
    """Solve instances and print checked answers with a lower bound.

    Reads TSPLIB, CSV, TSV, JSON, NPY and NPZ files and datasets. Ctrl-C stops and prints the best so far.
    With several instances, --out and --plot number their files. For thousands, --out FILE.jsonl takes the answers
    as they come instead of standard output, and a call that was stopped goes on with --resume.
    """
    from ..data import read_instances
    from ..plots import Recorder
    from .batch import grouped, in_order, jobs_of, run_jobs
    from .planner import Planner

    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"--time-limit must be more than 0 seconds, got {time_limit:g}")
    if [*files, start].count("-") > 1:
        raise UsageError("standard input can be read only once")
    _check_outputs(out, plot, resume)
    recorder = Recorder() if plot is not None and plot.suffix.lower() == ANIMATION else None
    if recorder is not None and ray is not None:
        raise UsageError(f"--plot {plot}: what happens on a cluster cannot be animated")
    cluster = None if ray is None else _join(ray)
    elsewhere = None if cluster is None else "cuda" if cluster.gpus and device != "cpu" else "cpu"
    planner = Planner(solver, model, samples, steps, refine, seed, device, recorder, elsewhere)
    asked = planner.problem() if problem is None else find_problem(problem)
    instances = [instance for file in files for instance in read_instances(file, asked)]
    if recorder is not None and len(instances) != 1:
        raise UsageError(f"--plot {plot}: an animation shows one instance, not {len(instances)}")
    starts = None if start is None else _read_starts(start, instances)
    jobs = [job for group in grouped(instances) for job in jobs_of(group, planner.plan(group), starts)]
    watch = Watch(total=len(instances))

    def answers(jobs: "Sequence[Job]") -> "Iterator[dict[int, Answer]]":
        if cluster is None:
            yield from run_jobs(jobs, time_limit, watch)
        else:
            with cluster:
                yield from cluster.answers(jobs, time_limit, watch)

    count = len(instances)
    if out is not None and out.suffix.lower() == STREAM:
        infeasible = _stream(out, resume, instances, jobs, answers, watch, plot)
    else:
        infeasible = 0
        for place, answer in in_order(answers(jobs)):
            watch.clear()
            _print(answer, as_json)
            if answer.verdict.feasible:
                _write(answer, _numbered(out, place, count), _numbered(plot, place, count), recorder)
            else:
                infeasible += 1
            watch.finished(1)
        watch.clear()
    if watch.interrupted:
        raise typer.Exit(INTERRUPTED)
    if infeasible:
        raise InfeasibleError(f"no feasible solution was found for {infeasible} of {count} instances")


def _join(address: str) -> "Cluster":
    from .cluster import Cluster

    return Cluster(address)


def _stream(
    out: Path,
    resume: bool,
    instances: "list[Instance]",
    jobs: "list[Job]",
    answers: "Callable[[Sequence[Job]], Iterator[dict[int, Answer]]]",
    watch: Watch,
    plot: Path | None,
) -> int:
    """Do the jobs that the file has no answers of, and append answers as they come; return how many are infeasible."""
    from .answers import AnswersFile

    file = AnswersFile(out, resume)
    done: dict[int, Line] = {}
    if resume:
        plan = jobs[0].plan
        models = {job.plan.model for job in jobs}
        run = {"solver": plan.solver.name, "samples": plan.samples, "seed": plan.seed}
        done = file.read(instances, run | ({"model": plan.model} if len(models) == 1 else {}))
    before = len(done)
    watch.finished(before, before=True)
    # a job is done whole or not at all, so that a batch that was stopped ends like one that was not
    for found in answers([job for job in jobs if not done.keys() >= set(job.places)]):
        if watch.interrupted:
            break  # the best so far is not what these instances were to get: the next call solves them
        fresh = {place: answer for place, answer in found.items() if place not in done}
        file.append(fresh.values())
        for place, answer in fresh.items():
            done[place] = answer.as_dict()
            if answer.feasible:
                _write(answer, None, _numbered(plot, place, len(instances)), None)
        watch.finished(len(fresh))
    watch.clear()
    print(_summary(out, list(done.values()), before, len(instances)), file=sys.stderr)
    return sum(not line["feasible"] for line in done.values())


def _summary(out: Path, lines: "list[Line]", before: int, count: int) -> str:
    """Say what a file of answers holds."""
    words = f"{out}: {len(lines)} of {count} instances answered"
    words += f", {before} of them before" if before else ""
    gaps = [line["gap"] for line in lines if line.get("gap") is not None]
    if gaps:
        words += f"; mean gap {100 * sum(gaps) / len(gaps):.2f} %, {sum(gap == 0 for gap in gaps)} optimal"
    return words


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


def _check_outputs(out: Path | None, plot: Path | None, resume: bool) -> None:
    """Refuse, before anything is solved, what could not be written after."""
    from ..data.solutions import ENDINGS
    from ..plots import IMAGES

    if resume and (out is None or out.suffix.lower() != STREAM):
        raise UsageError(f"--resume goes on with a file of answers; name it with --out FILE{STREAM}")
    for path, endings, option in ((out, (*ENDINGS, STREAM), "--out"), (plot, (*IMAGES, ANIMATION), "--plot")):
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
