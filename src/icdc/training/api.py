"""`icdc.train`: a model of any method from a preset, a TOML file or a configuration."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..models.base import TrainedModel
from .algorithm import Trainer
from .config import RunConfig, TrainingConfig
from .matnet import MatNetConfig, MatNetTrainer
from .presets import build_config, read_settings, with_overrides
from .run import Callback, TrainingRun

CONFIGS: dict[str, type[RunConfig]] = {"icdc": TrainingConfig, "matnet": MatNetConfig}
TRAINERS: dict[str, type[TrainingRun[Any, Any]]] = {"icdc": Trainer, "matnet": MatNetTrainer}


def train(
    config: str | RunConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    callback: Callback | None = None,
    **settings: Any,
) -> TrainedModel:
    """Train a model and return its averaged weights: a `Model`, or a `MatNet` where that is the configured method.

    Parameters
    ----------
    config : the name of a preset, the path of a TOML file, or a configuration.
    out : folder for the model, the metrics and the state to resume from; None keeps all in memory.
    resume : go on from the state in `out`.
    callback : told every few seconds how it goes; returning True ends the run.
    settings : values to change, such as time_limit=60 or cloning={"batch": 256}; what they do not name stays.
    """
    config = load_config(config, settings)
    trained: TrainedModel = make_trainer(
        config, device=device, out=None if out is None else Path(out), resume=resume
    ).run(callback)
    return trained


def load_config(source: str | RunConfig, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Return the configuration of a preset, a TOML file or another configuration, with some values changed.

    The setting `method` says which kind of configuration it is, "icdc" unless given.
    """
    values = read_settings(source) if isinstance(source, str) else asdict(source)
    values = with_overrides(values, overrides or {})
    method = values.get("method", "icdc")
    if method not in CONFIGS:
        raise UsageError(f"unknown method '{method}'; choose {' or '.join(CONFIGS)}")
    return build_config(CONFIGS[method], values)


def make_trainer(config: RunConfig, **options: Any) -> TrainingRun[Any, Any]:
    """Return the trainer of a configuration; for its options see `TrainingRun`."""
    return TRAINERS[config.method](config, **options)
