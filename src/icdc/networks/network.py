"""The network f_θ(X_t, t, c): a problem encoder and a denoiser, sized from feature dimensions alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from .. import kernels
from ..problems.base import FeatureSizes
from ..problems.features import Features
from .config import EDGE, NetworkConfig
from .edge import EdgeDenoiser, EdgeEncoder, EdgeInput, EdgeLayer, EdgeMixer, EdgeOutput
from .layers import Encoding, relation_channels
from .paper import DualEncoder, GatedDenoiser


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
        ours = (config.encoder, config.denoiser) == EDGE
        self.encoder: nn.Module = (EdgeEncoder if ours else DualEncoder)(config, sizes)
        self.denoiser: nn.Module = (EdgeDenoiser if ours else GatedDenoiser)(config, channels)

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


class NarrowWeights:
    """The weights of a network's linear maps in the dtype of autocast, while a pass needs them.

    Autocast casts every weight when it is used and every gradient on its way back: two small kernels for each of some
    hundred tensors, as long together as the large products take. Here one operation casts the weights of all linear
    maps, and one their gradients. The parameters themselves keep their precision, and so do their gradients.

    Left alone are weights that are not used under autocast or that kernels want in full precision. Without
    gradients, weights are cast once and kept: after a change of the weights another object is needed.

    Parameters
    ----------
    network : a network, or a part of one.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.kept: tuple[Tensor, ...] | None = None

    @cached_property
    def places(self) -> list[tuple[nn.Module, str, nn.Parameter]]:
        """The parameters to cast, each with its module and its name there."""
        parts = [part for module in self.network.modules() for part in _wide_parts(module)]
        wide = {module for part in parts for module in part.modules()}
        linear = [m for m in self.network.modules() if isinstance(m, nn.Linear) and m not in wide]
        named = [(module, name, p) for module in linear for name, p in module.named_parameters(recurse=False)]
        # a pass in another thread may have put narrow weights, which are no parameters, in some places
        return [place for place in named if isinstance(place[2], nn.Parameter)]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the narrow weights into the network, under autocast; without autocast, change nothing."""
        device = next(self.network.parameters()).device.type
        if not torch.is_autocast_enabled(device) or not self.places:
            yield
            return
        narrow = self._cast(torch.get_autocast_dtype(device))
        try:
            for (module, name, _), weight in zip(self.places, narrow, strict=True):
                module._parameters[name] = weight  # type: ignore[assignment]  # as torch.func.functional_call does
            yield
        finally:
            for module, name, parameter in self.places:
                module._parameters[name] = parameter

    def _cast(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        if not torch.is_grad_enabled() and self.kept is not None and self.kept[0].dtype == dtype:
            return self.kept
        parameters = [parameter for _, _, parameter in self.places]
        narrow: tuple[Tensor, ...] = _Cast.apply(dtype, *parameters)  # type: ignore[no-untyped-call]
        if not torch.is_grad_enabled():
            self.kept = narrow
        return narrow


class _Cast(torch.autograd.Function):
    """Cast tensors to a dtype, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.kinds = [tensor.dtype for tensor in tensors]
        return tuple(_cast(list(tensors), [dtype] * len(tensors)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [grad for grad in grads if grad is not None]
        kinds = [kind for grad, kind in zip(grads, ctx.kinds, strict=True) if grad is not None]
        cast = iter(_cast(present, kinds))
        return None, *(None if grad is None else next(cast) for grad in grads)


def _cast(tensors: list[Tensor], kinds: list[torch.dtype]) -> list[Tensor]:
    # strides are kept: tensors that lie in memory like their copies are copied by one kernel
    new = [torch.empty_like(tensor, dtype=kind) for tensor, kind in zip(tensors, kinds, strict=True)]
    if new:
        torch._foreach_copy_(new, tensors)
    return new


def _wide_parts(module: nn.Module) -> list[nn.Module]:
    """Return the parts of a module whose weights keep their precision."""
    if isinstance(module, EdgeMixer | EdgeInput):
        return [module]
    if isinstance(module, EdgeOutput):
        return [module.mix]
    return [module.embed_edges] if isinstance(module, EdgeEncoder) else []
