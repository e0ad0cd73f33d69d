"""MatNet (Kwon et al., 2021): a dual encoder of matrices and an autoregressive pointer decoder."""

from .config import MatNetNetworkConfig
from .model import MatNet, load_matnet

__all__ = ["MatNet", "MatNetNetworkConfig", "load_matnet"]
