"""`icdc.train`: a model from a preset, a TOML file or a configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..model import Model
from .config import TrainingConfig, load_config
from .run import Progress
from .trainer import Trainer


def train(
    config: str | TrainingConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    callback: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Model:
    """Train a model and return its averaged weights.

    Parameters
    ----------
    config : the name of a preset, the path of a TOML file, or a configuration.
    out : folder for the model, the metrics and the state to resume from; None keeps all in memory.
    resume : go on from the state in `out`.
    callback : told every few seconds how it goes.
    settings : values to change, such as time_limit=60 or cloning={"batch": 256}.
    """
    if isinstance(config, str):
        config = load_config(config, settings)
    elif settings:
        from ..errors import UsageError

        raise UsageError("settings change a preset or a file; change a configuration with dataclasses.replace")
    folder = None if out is None else Path(out)
    return Trainer(config, device=device, out=folder, resume=resume).run(callback)
