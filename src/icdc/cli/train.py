"""`icdc train`: a model from a preset or a TOML file, without solved examples."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .problems import find_problem

if TYPE_CHECKING:
    from ..training import Progress


def train(
    config: Annotated[str, typer.Argument(help="A preset (see `icdc info`) or a .toml file.", metavar="PRESET|FILE")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, e.g. cloning.batch=256; repeatable.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds of training, set-up not counted.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of training instead of seconds; repeatable by seed.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, instances and noise.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last state in the folder.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train a model; the folder holds it, its metrics, and the state to resume from.

    A run can be stopped at any moment, by Ctrl-C or a kill, and resumed.
    """
    from ..errors import UsageError
    from ..training import Trainer, load_config, parse_override
    from ..training.checkpoint import METRICS, MODEL, STATE

    overrides = dict(map(parse_override, settings or []))
    for name, value in (("time_limit", time_limit), ("rounds", rounds), ("seed", seed)):
        if value is not None:
            overrides[name] = value
    loaded = load_config(config, overrides)
    find_problem(loaded.problem)  # modules in the current folder too, before anything is written
    folder = out or Path("runs") / Path(config).stem
    if resume and overrides:
        raise UsageError("a resumed run keeps its settings; leave out --set, --time-limit, --rounds and --seed")
    if not resume and (folder / STATE).exists():
        raise UsageError(f"{folder} holds a run already; give --resume to go on with it, or another --out")
    trainer = Trainer(loaded, device=device, out=folder, resume=resume)
    try:
        trainer.run(_show)
    except KeyboardInterrupt:
        print(f"\nicdc: interrupted; go on with: icdc train {config} --out {folder} --resume", file=sys.stderr)
        raise
    finally:
        if sys.stderr.isatty():
            print(file=sys.stderr)
    print(f"trained for {folder / MODEL} (metrics: {folder / METRICS})", file=sys.stderr)
    print(folder / MODEL)


def _show(progress: "Progress") -> None:
    """Write how it goes: in place on a terminal, a line each time elsewhere."""
    metrics = progress.metrics
    line = f"{100 * progress.fraction:5.1f} %  {progress.seconds:6.0f} s  round {progress.round}"
    for name, words in (("loss", "loss"), ("cost", "mean cost"), ("target", "best cost")):
        if name in metrics:
            line += f"  {words} {metrics[name]:.4f}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)
