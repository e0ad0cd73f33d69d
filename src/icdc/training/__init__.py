"""Training: Algorithm 1 and all it needs."""

from .api import train
from .config import TrainingConfig, load_config, parse_override, presets
from .run import Progress
from .trainer import Trainer

__all__ = ["Progress", "Trainer", "TrainingConfig", "load_config", "parse_override", "presets", "train"]
