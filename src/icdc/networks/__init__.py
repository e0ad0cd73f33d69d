"""The network f_θ(X_t, t, c): a problem encoder and a denoiser."""

from .config import NetworkConfig
from .encoder import Encoding
from .network import Network

__all__ = ["Encoding", "Network", "NetworkConfig"]
