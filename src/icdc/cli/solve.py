"""`icdc solve`: files in, checked answers out."""

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ..errors import InfeasibleError, InputError, UsageError
from ..io import read_instances, read_solution, save_animation, save_solution, write_solution
from ..io.solutions import ENDINGS, IMAGES
from ..models.catalogue import card_of
from ..options import OPTIONS, Group
from ..plots import Recorder
from ..problems import problem_of_file
from ..problems.base import Problem
from ..problems.conditions import with_conditions
from ..problems.instance import Instance
from ..solvers import make_solver, solver_class
from ..solving.answer import Answer, json_line, text, value_of
from ..solving.cluster import Cluster
from ..solving.jobs import solve_instances
from ..solving.resume import AnswersFile
from ..solving.solver import Solver
from .parameters import (
    Given,
    check_files,
    check_output,
    conditions_of,
    files_of,
    find_problem,
    look_here,
    read_options,
    solver_options,
    takes,
)
from .terminal import Watch, explained

INTERRUPTED = 130
ANIMATION, STREAM = ".gif", ".jsonl"


@takes(Group.RUN, Group.SOLVER, Group.CONDITIONS, Group.READING)
def solve(
    *,
    files: Annotated[list[str], typer.Argument(help="Instance files, or - for standard input.", metavar="FILE")],
    given: Given,
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
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what was read, and which solver and model answer it, and why.")
    ] = False,
) -> None:
    """Solve instances and print checked answers with a lower bound.

    Reads TSPLIB, CSV, TSV, JSON, XLSX, NPY and NPZ files and datasets, packed by gzip too.
    Ctrl-C stops and prints the best so far.
    With several instances, --out and --plot number their files. For thousands, --out FILE.jsonl takes the answers
    as they come instead of standard output, and a call that was stopped goes on with --resume.
    """
    check_files(files + files_of(given))
    if resume and (out is None or out.suffix.lower() != STREAM):
        raise UsageError(f"--resume goes on with a file of answers; name it with --out FILE{STREAM}")
    check_output("--out", out, (*ENDINGS, STREAM))
    check_output("--plot", plot, (*IMAGES, ANIMATION))

    recorder = Recorder() if plot is not None and plot.suffix.lower() == ANIMATION else None
    if recorder is not None and ray is not None:
        raise UsageError(f"--plot {plot}: what happens on a cluster cannot be animated")
    cluster = None if ray is None else Cluster(ray)
    problem, model, spec = given["problem"], given["model"], given["solver"]
    solver = _make(spec, recorder, model=model, **solver_options(given))
    reading, of = read_options(given), _problem_of(model) if problem is None else find_problem(problem)
    instances = [one for file in files for one in read_instances(file, of, reading)]
    _check_tours(out, instances)
    source, (values, words) = given["start"], conditions_of(given)
    begin = None if source is None else partial(_read_start, source)
    with_starts = [with_conditions(one, values, begin, words) for one in instances]
    instances, starts = [one for one, _ in with_starts], [start for _, start in with_starts]
    _check_animation(plot, recorder, instances)
    file = AnswersFile(out, resume) if out is not None and out.suffix.lower() == STREAM else None
    count = len(instances)
    why = partial(explained, named_solver=spec != OPTIONS["solver"].default, named_model=model is not None)
    watch = Watch(total=count, explain=why) if explain else Watch(total=count)
    answers = solve_instances(
        instances,
        solver,
        samples=given["samples"],
        seed=given["seed"],
        time_limit=given["time_limit"],
        starts=None if source is None else starts,
        observer=watch,
        cluster=cluster,
        file=file,
    )
    infeasible, interrupted, reason = 0, False, None
    try:
        with contextlib.nullcontext() if cluster is None else cluster:
            for number, (place, answer) in enumerate(answers):
                interrupted |= answer.interrupted
                infeasible += not answer.feasible
                reason = answer.reason
                if file is None:
                    watch.clear()
                    _print(answer, as_json, last=out is None and plot is None)
                elif answer.interrupted:
                    continue
                elif not number:
                    watch.finished(file.before, before=True)
                if answer.feasible:
                    solution = None if file is not None else _numbered(out, place, count)
                    _write(answer, solution, _numbered(plot, place, count), recorder)
                watch.finished(1)
    finally:
        watch.clear()
        if file is not None:
            file.close()
            if file.taken_up:
                print(file.summary(count), file=sys.stderr)
    if file is not None:
        infeasible = sum(not line["feasible"] for line in file.lines.values())
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if infeasible:
        if count == 1 and reason is not None:
            raise InfeasibleError(f"{instances[0].name}: {reason}")
        raise InfeasibleError(f"no feasible solution was found for {infeasible} of {count} instances")


def _make(spec: str, recorder: Recorder | None, **options: Any) -> Solver:
    """Return the solver of a name and options, which shows its steps to a recorder."""
    look_here(spec)
    if recorder is not None and not solver_class(spec).abilities.trace:
        raise UsageError(f"only the learned solver can be animated (--plot FILE.gif), not '{spec}'")
    options["trace"] = recorder
    return make_solver(spec, **{name: value for name, value in options.items() if value is not None})


def _problem_of(model: str | None) -> Problem | None:
    """Return the problem of the model that an option names, if one does."""
    if model is None:
        return None
    return problem_of_file(str(card_of(model)["problem"]), None, f"the model '{model}'")


def _read_start(source: str, instance: Instance) -> NDArray[np.int64]:
    """Return the solution that a file has for an instance, refusing an infeasible one."""
    choice = read_solution(source, instance)
    # with conditions it is checked together with them
    plain = instance.conditions is None and not instance.problem.restated
    if plain and value_of(instance, instance, choice) is None:
        raise InputError(f"{source}: the solution is infeasible for {instance.name}")
    return choice


def _check_animation(plot: Path | None, recorder: Recorder | None, instances: list[Instance]) -> None:
    """Refuse to animate what is not the denoising of one plain instance."""
    if recorder is None:
        return
    if len(instances) != 1:
        raise UsageError(f"--plot {plot}: an animation shows one instance, not {len(instances)}")
    if instances[0].conditions is not None:
        options = "--fix, --stay, --open, --first, --last and --busy"
        raise UsageError(f"--plot {plot}: an animation shows a plain instance; leave out {options}")
    if instances[0].problem.restated:
        raise UsageError(f"--plot {plot}: a '{instances[0].problem.name}' cannot be animated; write .png instead")


def _check_tours(out: Path | None, instances: list[Instance]) -> None:
    """Refuse to write as a tour what is none."""
    other = next((one.problem for one in instances if not one.problem.solution_is_tour), None)
    if out is not None and out.suffix.lower() == ".tour" and other is not None:
        raise UsageError(f"--out {out}: a '{other.name}' solution is not a tour; write .csv instead")


def _numbered(path: Path | None, place: int, count: int) -> Path | None:
    """Return the file for one of several answers: answer.png becomes answer-3.png."""
    return path if path is None or count == 1 else path.with_stem(f"{path.stem}-{place}")


def _print(answer: Answer, as_json: bool, last: bool) -> None:
    """Print an answer; where its reader has gone away, that ends the command, unless files are still to be written."""
    try:
        print(json_line(answer) if as_json else text(answer), flush=True)
    except BrokenPipeError:
        if last:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(answer: Answer, out: Path | None, plot: Path | None, recorder: Recorder | None) -> None:
    """Write the solution and the picture, where files for them are named."""
    if out is not None:
        write_solution(out, answer.instance, answer.choice)
    if plot is None:
        return
    if recorder is None:
        save_solution(plot, answer.instance, answer.choice, answer.bound)
        return
    order = answer.solution if answer.instance.problem.solution_is_tour else None
    final = answer.choice[:, None] == range(answer.instance.shape[1])
    save_animation(plot, recorder.frames, order=order, final=final)
