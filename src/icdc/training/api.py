"""`icdc.train`: a model of any method from a preset, a TOML file or a configuration."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..models.file import TrainedModel, pick_device
from ..problems import import_class, problem_of_file
from ..settings import build
from .loop import Callback, TrainingRun
from .presets import read_settings, with_overrides

METHODS = {
    "icdc": ("icdc.training.config:TrainingConfig", "icdc.training.algorithm:Trainer"),
    "matnet": ("icdc.baselines.matnet:MatNetConfig", "icdc.baselines.matnet:MatNetTrainer"),
}
"""Of each method its configuration and its trainer, imported when they are first needed."""
CPU_SETTINGS: dict[str, Any] = {
    "most_cells": 6_400,
    "targets.instances": 8,
    "targets.trajectories": 2,
    "targets.refine_decodes": 32,
    "targets.sampling.decodes": 32,
    "cloning.batch": 16,
    "cloning.steps_first": 6,
    "cloning.steps_last": 6,
    "batch": 8,
}
"""The most that presets take of each setting on a CPU: a round of 20 × 20 matrices then takes a few seconds on two
cores, and less than 1 GiB. `most_cells` divides batches of larger ones; `batch` is that of MatNet."""


def train(
    config: Any,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    callback: Callback | None = None,
    **settings: Any,
) -> TrainedModel:
    """Train a model and return its averaged weights: a `Model`, or a `MatNet` where that is the configured method.

    Presets are made for a GPU; on a CPU they take smaller batches and fewer steps a round (`CPU_SETTINGS`), except for
    settings that are given here. Files and configurations are taken as they are.

    Parameters
    ----------
    config : the name of a preset, the path of a TOML file, or a configuration (a `TrainingConfig` or `MatNetConfig`).
    out : folder for the model, the metrics and the state to resume from; None keeps all in memory.
    resume : go on from the state in `out`.
    callback : called every few seconds with the `Progress`; returning True ends the run.
    settings : values to change, such as time_limit=60 or cloning={"batch": 256}; what they do not name stays.
    """
    config, note = settings_for(config, settings, device)
    if note is not None:
        logging.getLogger(__name__).info(note)
    trainer = make_trainer(config, device=device, out=None if out is None else Path(out), resume=resume)
    trained: TrainedModel = trainer.run(callback)
    return trained


def settings_for(
    source: Any, overrides: Mapping[str, Any] | None = None, device: str = "auto"
) -> tuple[Any, str | None]:
    """Return the configuration to train with on a device, and what a preset leaves out on a CPU, in a line."""
    config = load_config(source, overrides)
    if pick_device(device).type != "cpu" or not isinstance(source, str) or source.endswith(".toml"):
        return config, None
    changes = settings_for_cpu(config, _names(overrides or {}))
    if not changes:
        return config, None
    before = {name: _value(asdict(config), name) for name in changes}
    words = [f"{name} {most} instead of {before[name]}" for name, most in changes.items() if name != "most_cells"]
    cells = f"batches of at most {CPU_SETTINGS['most_cells']} matrix entries"
    return load_config(config, changes), f"on this CPU: {', '.join(words) or cells}"


def settings_for_cpu(config: Any, kept: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings of a preset that a CPU takes less of.

    kept : settings that stay, such as "cloning.batch", or all of a table, such as "cloning".
    """
    changes = {}
    for name, most in CPU_SETTINGS.items():
        value = _value(asdict(config), name)
        stays = any(key == name or name.startswith(f"{key}.") for key in kept)
        unlimited = name == "most_cells" and value == 0
        if value is not None and not stays and (value > most or unlimited):
            changes[name] = most
    return changes


def _value(values: Any, name: str) -> Any:
    """Return the value of a setting such as "cloning.batch" in nested dictionaries; None where there is none."""
    for part in name.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _names(settings: Mapping[str, Any]) -> set[str]:
    """Return the settings that nested dictionaries name, such as "cloning.batch"."""
    names = set()
    for name, value in settings.items():
        names |= {f"{name}.{inner}" for inner in _names(value)} if isinstance(value, Mapping) else {name}
    return names


def load_config(source: Any, overrides: Mapping[str, Any] | None = None) -> Any:
    """Return the configuration of a preset, a TOML file or another configuration, with some values changed.

    The setting `method` says which kind of configuration it is, "icdc" unless given. A file does not decide what is
    imported: a problem of your own must be among the values to change, even where the file names it.
    """
    values = read_settings(source) if isinstance(source, str) else asdict(source)
    if isinstance(source, str) and ":" in str(values.get("problem")) and "problem" not in (overrides or {}):
        problem_of_file(str(values["problem"]), None, source)
    values = with_overrides(values, overrides or {})
    return build(_method(values.get("method", "icdc"), 0), values)


def make_trainer(config: Any, **options: Any) -> TrainingRun:
    """Return the trainer of a configuration; for its options see `TrainingRun`."""
    trainer: TrainingRun = _method(config.method, 1)(config, **options)
    return trainer


def _method(name: Any, part: int) -> Any:
    """Return the configuration or the trainer of a method."""
    if name not in METHODS:
        raise UsageError(f"unknown method '{name}'; choose {' or '.join(METHODS)}")
    return import_class(METHODS[name][part], object, ("configuration", "trainer")[part])
