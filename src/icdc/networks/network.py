"""The network f_θ(X_t, t, c): a problem encoder and a denoiser, sized from feature dimensions alone."""

from torch import Tensor, nn

from .. import kernels
from ..problems.base import FeatureSizes
from ..problems.features import Features
from .config import NetworkConfig
from .denoiser import EdgeDenoiser, EdgeInput, EdgeOutput, GatedDenoiser
from .edge import EdgeLayer
from .encoder import DualEncoder, EdgeEncoder, Encoding, relation_channels


class Network(nn.Module):
    """Encoder and denoiser together.

    Parameters
    ----------
    config : the choices of architecture.
    sizes : the feature dimensions of the problem.
    """

    def __init__(self, config: NetworkConfig, sizes: FeatureSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        channels = relation_channels(config, sizes)
        self.encoder: nn.Module = (EdgeEncoder if config.encoder == "edge" else DualEncoder)(config, sizes)
        self.denoiser: nn.Module = (EdgeDenoiser if config.denoiser == "edge" else GatedDenoiser)(config, channels)

    def encode(self, features: Features, identifiers: Tensor) -> Encoding:
        """Encode B instances; `identifiers` (B, R + C, config.identifiers) are standard normal."""
        encoding: Encoding = self.encoder(features, identifiers)
        return encoding

    def denoise(self, encoding: Encoding, x: Tensor, t: Tensor) -> Tensor:
        """Return logits (N, R, C) of X_0 for matrices x (N, R, C) at steps t (N,), N a multiple of B."""
        logits: Tensor = self.denoiser(encoding, x, t)
        return logits

    def worth_compiling(self) -> list[nn.Module]:
        """Return the parts that move edge tensors: the repeated layers, and what reads and writes edges.

        None where kernels do that better than a compiler could.
        """
        if not kernels.worth_compiling(next(self.parameters()).device):
            return []
        return [m for m in self.modules() if isinstance(m, EdgeLayer | EdgeInput | EdgeOutput)]
