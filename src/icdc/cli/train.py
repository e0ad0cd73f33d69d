"""`icdc train` and `icdc finetune`: a model from a preset or a TOML file, and one for your own matrices."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..errors import InputError, UsageError
from ..io import read_instances
from ..io.datasets import fingerprint
from ..options import check
from ..problems.base import Arrays, Problem
from ..problems.forbidden import why_impossible
from ..problems.instance import Instance
from ..training.presets import parse_override, path_of, presets
from .parameters import Given, check_output, find_problem, takes
from .terminal import show_training

Rounds = Annotated[int | None, typer.Option(min=1, help="Rounds of training instead of seconds; repeatable by seed.")]
ANY_TIME = 1e6
"""Seconds that are never over, where rounds are counted instead."""


@takes(
    problem="What is learned; needed for module:Class, which a file does not import.",
    time_limit="Seconds of training, set-up not counted.",
    device="auto, cpu or cuda.",
)
def train(
    config: Annotated[
        str | None,
        typer.Argument(help="A preset or a .toml file; none lists the presets.", metavar="PRESET|FILE"),
    ] = None,
    *,
    given: Given,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, e.g. cloning.batch=256; repeatable.")
    ] = None,
    rounds: Rounds = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, instances and noise.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last state in the folder.")] = False,
) -> None:
    """Train a model; the folder holds it, its metrics, and the state to resume from.

    A run can be stopped at any moment, by Ctrl-C or a kill, and resumed.
    """
    if config is None:
        for name, words in presets().items():
            print(f"{name:<{max(map(len, presets()))}}  {words}")
        return
    path_of(config)
    problem, time_limit, device = given["problem"], given["time_limit"], given["device"] or "auto"
    seed = None if seed is None else check("seed", seed)
    overrides = dict(map(parse_override, settings or []))
    for name, value in (("problem", problem), ("time_limit", time_limit), ("rounds", rounds), ("seed", seed)):
        if value is not None:
            overrides[name] = value

    from ..training import api
    from ..training.checkpoint import METRICS, MODEL, STATE

    loaded, note = api.settings_for(config, overrides, device)
    find_problem(loaded.problem)  # modules in the current folder too, before anything is written
    folder = out or Path("runs") / Path(config).stem
    if resume and overrides.keys() - {"problem"}:
        raise UsageError("a resumed run keeps its settings; leave out --set, --time-limit, --rounds and --seed")
    if not resume and (folder / STATE).exists():
        raise UsageError(f"{folder} holds a run already; give --resume to go on with it, or another --out")
    if note is not None and not resume:
        print(f"icdc: {note}", file=sys.stderr)
    try:
        model = api.train(loaded, out=folder, resume=resume, device=device, callback=show_training)
    except KeyboardInterrupt:
        again = f"{config}{f' --problem {problem}' if problem else ''} --out {folder}"
        print(f"\nicdc: interrupted; go on with: icdc train {again} --resume", file=sys.stderr)
        raise
    finally:
        if sys.stderr.isatty():
            print(file=sys.stderr)
    done = model.card["training"]
    print(
        f"trained for {done['seconds']:.0f} s (rounds: {done['rounds']}); "
        f"wrote the model {folder / MODEL} and its metrics {folder / METRICS}",
        file=sys.stderr,
    )
    print(folder / MODEL)


@takes(
    "problem",
    time_limit="Seconds of training, set-up and comparison not counted.",
    seed="Seed of the split, of training and of the comparison.",
    device="auto, cpu or cuda.",
)
def finetune(
    model: Annotated[str, typer.Argument(help="A shipped model or a model file to begin with.")],
    files: Annotated[
        list[str], typer.Argument(metavar="DATASET...", help="A dataset, or instance files; all of one size.")
    ],
    given: Given,
    rounds: Rounds = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model to write; by default MODEL-DATASET.safetensors.")
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of the instances held out to compare on.")] = 0.2,
) -> None:
    """Train a model further on your own matrices, without solved examples.

    A part is held out; the model is compared with the old one on it, and the better of the two is written. Stopped and
    called again, it goes on where it was.
    """
    problem, time_limit, seed = given["problem"], given["time_limit"], given["seed"]
    device = given["device"] or "auto"
    if (time_limit is None) == (rounds is None):
        raise UsageError("give --time-limit or --rounds")
    path = out or Path(f"{Path(model).stem}-{Path(files[0]).stem}.safetensors")
    partial = path.with_name(path.name + ".partial")
    if path.exists() and partial.is_dir():  # a call that was killed when it had written the model
        shutil.rmtree(partial, ignore_errors=True)
        print(f"{path} was finished already", file=sys.stderr)
        print(path)
        return
    if path.exists():
        raise UsageError(f"{path} is there already; choose another --out")
    check_output("--out", path)
    for file in files:
        if not Path(file).exists() and Path(file).suffix:
            raise InputError(f"{file}: no such file")

    from ..models.diffusion import load
    from ..training.finetuning import finetune as run

    base = load(model, device, None if problem is None else find_problem(problem))
    arrays = _read(files, base.problem)
    named = Path(files[0]).name if len(files) == 1 else f"{Path(files[0]).name} and {len(files) - 1} more"
    about = {"dataset": named, "sha256": fingerprint(arrays)}
    try:
        result = run(
            base, arrays, time_limit=time_limit or ANY_TIME, rounds=rounds or 0, holdout=holdout, seed=seed,
            device=device, about=about, callback=show_training, partial=partial,
        )  # fmt: skip
    except KeyboardInterrupt:
        print("\nicdc: stopped; the same command goes on where it was", file=sys.stderr)
        raise
    finally:
        if sys.stderr.isatty():
            print(file=sys.stderr)
    result.model.save(path)
    shutil.rmtree(partial, ignore_errors=True)
    before, after = float(result.before.mean()), float(result.after.mean())
    error = "" if result.uncertainty != result.uncertainty else f" ± {100 * result.uncertainty:.2f}"
    print(
        f"on {len(result.before)} held-out instances: mean cost {before:.6g} before, {after:.6g} after "
        f"({100 * result.change:+.2f}{error} %)",
        file=sys.stderr,
    )
    weights = "the fine-tuned weights" if result.improved else f"the weights of {base.name}: fine-tuning did not help"
    print(f"wrote {path} with {weights}", file=sys.stderr)
    print(path)


def _read(files: list[str], problem: Problem) -> Arrays:
    """Return all instances of the files, stacked; they must be of one size."""
    first: Instance | None = None
    arrays_of = []
    for instance in (instance for file in files for instance in read_instances(file, problem)):
        if (reason := why_impossible(instance)) is not None:
            raise InputError(f"{instance.name} has no solution to learn: {reason}")
        first = first or instance
        sizes = [problem.size(one.batch()) for one in (first, instance)]
        if sizes[0] != sizes[1]:
            words = ["×".join(map(str, size)) for size in sizes]
            raise InputError(
                f"{instance.name} is of size {words[1]}, {first.name} of {words[0]}: all must be of one size"
            )
        arrays_of.append(instance.arrays)
    return {name: np.stack([arrays[name] for arrays in arrays_of]) for name in problem.arrays}
