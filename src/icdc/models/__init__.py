"""Trained models: what they are, the files they live in, and those that ship.

Names are imported when they are first used: to know which models ship, no torch is needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalogue import available, card_of
    from .diffusion import Model, ModelConfig, load

_HOMES = {
    **dict.fromkeys(("available", "card_of"), "catalogue"),
    **dict.fromkeys(("Model", "ModelConfig", "load"), "diffusion"),
}

__all__ = ["Model", "ModelConfig", "available", "card_of", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'icdc.models' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
