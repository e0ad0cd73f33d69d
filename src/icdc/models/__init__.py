"""TrainedModel models: what they are, the files they live in, and those that ship."""

from .catalogue import available, card_of
from .diffusion import Model, ModelConfig, load

__all__ = ["Model", "ModelConfig", "available", "card_of", "load"]
