"""Training: Algorithm 1 (`algorithm.py`, its steps in `steps.py`) and all it needs."""

from .algorithm import Trainer
from .api import load_config, make_trainer, train
from .config import TrainingConfig
from .presets import parse_override, presets
from .run import Progress

__all__ = [
    "Progress",
    "Trainer",
    "TrainingConfig",
    "load_config",
    "make_trainer",
    "parse_override",
    "presets",
    "train",
]
