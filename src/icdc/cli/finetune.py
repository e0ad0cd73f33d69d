"""`icdc finetune`: a model for your own matrices."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, UsageError
from .parameters import Given, find_problem, takes
from .progress import show_training

if TYPE_CHECKING:
    from ..problems.base import Arrays, Problem
    from ..problems.instance import Instance


ANY_TIME = 1e6
"""Seconds that are never over, where rounds are counted instead."""


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
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of training instead of seconds; repeatable by seed.")
    ] = None,
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
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: there is no folder '{path.parent}'")
    for file in files:
        if not Path(file).exists() and Path(file).suffix:
            raise InputError(f"{file}: no such file")

    from ..io.datasets import fingerprint
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
    sure = "" if result.uncertainty != result.uncertainty else f" ± {100 * result.uncertainty:.2f}"
    print(
        f"on {len(result.before)} held-out instances: mean cost {before:.6g} before, {after:.6g} after "
        f"({100 * result.change:+.2f}{sure} %)",
        file=sys.stderr,
    )
    kept = "the fine-tuned weights" if result.improved else f"the weights of {base.name}: fine-tuning did not help"
    print(f"wrote {path} with {kept}", file=sys.stderr)
    print(path)


def _read(files: list[str], problem: "Problem") -> "Arrays":
    """Return all instances of the files, stacked; they must be of one size."""
    import numpy as np

    from ..io import read_instances
    from ..problems.forbidden import why_impossible

    first: Instance | None = None
    found = []
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
        found.append(instance.arrays)
    return {name: np.stack([arrays[name] for arrays in found]) for name in problem.arrays}
