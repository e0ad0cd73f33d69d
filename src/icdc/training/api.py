"""`icdc.train`: a model of any method from a preset, a TOML file or a configuration."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..models.file import TrainedModel, pick_device
from ..problems import import_class, problem_of_file
from .fitting import fit_to_cpu
from .presets import build_config, read_settings, with_overrides
from .run import Callback

METHODS = {
    "icdc": ("icdc.training.config:TrainingConfig", "icdc.training.algorithm:Trainer"),
    "matnet": ("icdc.baselines.matnet:MatNetConfig", "icdc.baselines.matnet:MatNetTrainer"),
}
"""Of each method its configuration and its trainer, imported when they are first needed."""


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
    callback : told every few seconds how it goes; returning True ends the run.
    settings : values to change, such as time_limit=60 or cloning={"batch": 256}; what they do not name stays.
    """
    config, note = settings_for(config, settings, device)
    if note is not None:
        logging.getLogger(__name__).info(note)
    trained: TrainedModel = make_trainer(
        config, device=device, out=None if out is None else Path(out), resume=resume
    ).run(callback)
    return trained


def settings_for(
    source: Any, overrides: Mapping[str, Any] | None = None, device: str = "auto"
) -> tuple[Any, str | None]:
    """Return the configuration to train with on a device, and what a preset leaves out on a CPU, in a line."""
    config = load_config(source, overrides)
    if pick_device(device).type != "cpu" or not isinstance(source, str) or source.endswith(".toml"):
        return config, None
    return fit_to_cpu(config, kept=_names(overrides or {}))


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
    method = values.get("method", "icdc")
    if method not in METHODS:
        raise UsageError(f"unknown method '{method}'; choose {' or '.join(METHODS)}")
    return build_config(import_class(METHODS[method][0], object, "configuration"), values)


def make_trainer(config: Any, **options: Any) -> Any:
    """Return the trainer of a configuration; for its options see `Trainer`."""
    trainer: Any = import_class(METHODS[config.method][1], object, "trainer")
    return trainer(config, **options)
