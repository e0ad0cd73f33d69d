"""`icdc train`: a model from a preset or a TOML file, without solved examples."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..options import check
from .parameters import Given, find_problem, takes
from .progress import show_training


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
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of training instead of seconds; repeatable by seed.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, instances and noise.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last state in the folder.")] = False,
) -> None:
    """Train a model; the folder holds it, its metrics, and the state to resume from.

    A run can be stopped at any moment, by Ctrl-C or a kill, and resumed.
    """
    from ..training.presets import parse_override, path_of, presets

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
