"""Training: Algorithm 1 and all it needs."""

from .api import train
from .config import TrainingConfig, load_config, parse_override, presets
from .trainer import Progress, Trainer

__all__ = ["Progress", "Trainer", "TrainingConfig", "load_config", "parse_override", "presets", "train"]
