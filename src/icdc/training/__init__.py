"""Training: Algorithm 1 and all it needs."""

from .config import TrainingConfig, load_config, parse_override, presets
from .trainer import Progress, Trainer, train

__all__ = ["Progress", "Trainer", "TrainingConfig", "load_config", "parse_override", "presets", "train"]
