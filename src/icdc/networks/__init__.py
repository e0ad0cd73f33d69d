"""The network f_θ(X_t, t, c): a problem encoder and a denoiser."""

from .config import NetworkConfig
from .layers import Encoding
from .network import NarrowWeights, Network

__all__ = ["Encoding", "NarrowWeights", "Network", "NetworkConfig"]
