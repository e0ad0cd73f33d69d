"""The shape of a network."""

from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from .layers import NormKind


@dataclass(frozen=True)
class NetworkConfig:
    """Choices of architecture; the defaults are ours, `paper()` is the paper's.

    encoder : "edge" keeps a thin state on every edge, "dual" is the paper's.
    denoiser : "edge" is attention with a thin edge state, "gated" the paper's anisotropic network.
    width, heads, edge_width, feed_forward : sizes (d, h, c, multiple of d).
    mixer_width : hidden width of the score-mixing MLP of the dual encoder.
    norm : normalisation inside the dual encoder and the gated denoiser ("batch" in the paper).
    identifiers : width of the random identifiers that tell items apart.
    summaries : items also see mean, minimum, maximum and spread of their relations.
    rich_relations : all relation channels of the problem and a mark on the diagonal, not only the raw ones.
    relations_in_denoiser : the denoiser sees relations, and X_t times relations, on every edge.
    """

    encoder: Literal["edge", "dual"] = "edge"
    denoiser: Literal["edge", "gated"] = "edge"
    width: int = 128
    heads: int = 8
    edge_width: int = 64
    feed_forward: int = 2
    mixer_width: int = 16
    encoder_layers: int = 3
    denoiser_layers: int = 8
    norm: NormKind = "layer"
    identifiers: int = 16
    summaries: bool = True
    rich_relations: bool = True
    relations_in_denoiser: bool = True

    def __post_init__(self) -> None:
        if self.width % self.heads or self.width % 2:
            raise UsageError(f"the width {self.width} must be even and a multiple of the {self.heads} heads")
        for name, value, known in (
            ("encoder", self.encoder, ("edge", "dual")),
            ("denoiser", self.denoiser, ("edge", "gated")),
            ("norm", self.norm, ("layer", "batch")),
        ):
            if value not in known:
                raise UsageError(f"unknown {name} '{value}'; choose {' or '.join(known)}")

    @staticmethod
    def paper(encoder_layers: int = 3, denoiser_layers: int = 3) -> "NetworkConfig":
        """Return the paper's network: one head, batch normalisation, D in the encoder only."""
        return NetworkConfig(
            encoder="dual",
            denoiser="gated",
            heads=1,
            encoder_layers=encoder_layers,
            denoiser_layers=denoiser_layers,
            norm="batch",
            identifiers=128,
            summaries=False,
            rich_relations=False,
            relations_in_denoiser=False,
        )
