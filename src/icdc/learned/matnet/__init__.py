"""MatNet (Kwon et al., 2021): a dual encoder of matrices and an autoregressive pointer decoder, by REINFORCE."""

from .config import MatNetConfig, MatNetNetworkConfig
from .model import MatNet, load_matnet
from .solver import MatNetSolver
from .training import MatNetTrainer

__all__ = ["MatNet", "MatNetConfig", "MatNetNetworkConfig", "MatNetSolver", "MatNetTrainer", "load_matnet"]
