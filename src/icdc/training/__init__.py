"""Training: Algorithm 1 (`algorithm.py`, its steps in `steps.py`) and all it needs.

Names are imported when they are first used; the presets can be listed without torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .presets import parse_override, presets

if TYPE_CHECKING:
    from .algorithm import Trainer
    from .api import load_config, make_trainer, train
    from .config import TrainingConfig
    from .loop import Progress

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

_HOMES = {
    "Progress": "loop",
    "Trainer": "algorithm",
    "TrainingConfig": "config",
    "load_config": "api",
    "make_trainer": "api",
    "train": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'icdc.training' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
