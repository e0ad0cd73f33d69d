"""MatNet (Kwon et al., 2021), the learned competitor: its network, its training by REINFORCE, and its solver."""

from .matnet import MatNet, MatNetSolver, load_matnet
from .pointer_network import MatNetNetworkConfig
from .reinforce import MatNetConfig, MatNetTrainer

__all__ = ["MatNet", "MatNetConfig", "MatNetNetworkConfig", "MatNetSolver", "MatNetTrainer", "load_matnet"]
