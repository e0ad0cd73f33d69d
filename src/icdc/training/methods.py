"""What can be trained: the configuration and the trainer of every method, by name, imported when asked for."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .config import RunConfig, build_config, read_settings
from .run import TrainingRun


@dataclass(frozen=True)
class Method:
    """Where the configuration and the trainer of a method live."""

    config: str
    trainer: str


METHODS = {
    "icdc": Method("icdc.training.config:TrainingConfig", "icdc.training.trainer:Trainer"),
    "matnet": Method("icdc.learned.matnet.config:MatNetConfig", "icdc.learned.matnet.training:MatNetTrainer"),
}


def load_run(source: str, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read a preset or a TOML file of any method: its setting `method` says which, "icdc" unless given."""
    values = read_settings(source, overrides)
    method = values.get("method", "icdc")
    if method not in METHODS:
        raise UsageError(f"unknown method '{method}'; choose {' or '.join(METHODS)}")
    config: RunConfig = build_config(_found(METHODS[method].config), values)
    return config


def make_trainer(
    config: RunConfig, *, device: str = "auto", out: Path | None = None, resume: bool = False
) -> TrainingRun[Any, Any]:
    """Return the trainer of a configuration."""
    trainer: TrainingRun[Any, Any] = _found(METHODS[config.method].trainer)(
        config, device=device, out=out, resume=resume
    )
    return trainer


def _found(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
