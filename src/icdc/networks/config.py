"""The shape of a network."""

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import UsageError
from .layers import NormKind

IdentifierKind = Literal["normal", "one_hot"]


@dataclass(frozen=True)
class NetworkConfig:
    """Choices of architecture; the defaults are ours, `paper()` is the paper's.

    encoder : "edge" keeps a thin state on every edge, "dual" is the paper's.
    denoiser : "edge" is attention with a thin edge state, "gated" the paper's anisotropic network.
    width, heads, edge_width, feed_forward : sizes (d, h, c, multiple of d).
    mixer_width : hidden width of the score-mixing MLP of the dual encoder.
    norm : normalisation inside the dual encoder and the gated denoiser ("batch" in the paper).
    identifiers : width of the random identifiers that tell items apart.
    identifier_kind : "normal" vectors for rows and columns, or "one_hot" ones, as MatNet has them: columns get
        different ones at random, rows the same where they are the same items and else none.
    summaries : items also see mean, minimum, maximum and spread of their relations.
    rich_relations : all relation channels of the problem and a mark on the diagonal, not only the raw ones.
    priced : relations are measured against dual prices, where the problem has such features, instead of in units of a
        matrix's mean.
    hidden_relations : relation channels that the network does not see, counted from 0 in the problem's order.
    relations_in_denoiser : the denoiser sees relations on every edge.
    products_in_denoiser : and X_t times relations beside them.
    candidates : columns of each row that the network looks at where there are more than `dense_up_to` rows, for
        problems with priced features; 0 for all columns always. The weights are the same either way.
    dense_up_to : the most rows for which it looks at all columns.
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
    identifier_kind: IdentifierKind = "normal"
    summaries: bool = True
    rich_relations: bool = True
    priced: bool = False
    hidden_relations: tuple[int, ...] = ()
    relations_in_denoiser: bool = True
    products_in_denoiser: bool = True
    candidates: int = 0
    dense_up_to: int = 100

    def __post_init__(self) -> None:
        if self.width % self.heads or self.width % 2:
            raise UsageError(f"the width {self.width} must be even and a multiple of the {self.heads} heads")
        for name, value, known in (
            ("encoder", self.encoder, ("edge", "dual")),
            ("denoiser", self.denoiser, ("edge", "gated")),
            ("norm", self.norm, ("layer", "batch")),
            ("identifier_kind", self.identifier_kind, ("normal", "one_hot")),
        ):
            if value not in known:
                raise UsageError(f"unknown {name} '{value}'; choose {' or '.join(known)}")

        self._check_hidden()
        if self.hidden_relations and not self.rich_relations:
            raise UsageError("hidden_relations need rich_relations = true: otherwise only the raw ones are seen")
        if self.candidates < 0 or self.candidates == 1:
            raise UsageError(f"candidates must be 0, for all columns, or at least 2, got {self.candidates}")
        if self.dense_up_to < 0:
            raise UsageError(f"dense_up_to must not be negative, got {self.dense_up_to}")
        if self.candidates and not (self.priced and self.encoder == self.denoiser == "edge"):
            raise UsageError('candidates need priced = true, encoder = "edge" and denoiser = "edge"')

    def _check_hidden(self) -> None:
        """Refuse what are no channels; a file has a list where Python has a tuple."""
        hidden: Any = self.hidden_relations
        numbers = isinstance(hidden, list | tuple) and all(type(channel) is int and channel >= 0 for channel in hidden)
        if not numbers or len(set(hidden)) < len(hidden):
            raise UsageError(f"hidden_relations must be a list of different numbers from 0, got {hidden!r}")
        object.__setattr__(self, "hidden_relations", tuple(hidden))

    def candidates_of(self, rows: int, columns: int) -> int:
        """Return how many columns of each row the network looks at for so many rows and columns; 0 for all of them."""
        return self.candidates if rows > self.dense_up_to and columns > self.candidates else 0

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
