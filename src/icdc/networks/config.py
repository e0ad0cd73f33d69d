"""The shape of a network."""

from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from ..settings import Settings, setting

EDGE, PAPER = ("edge", "edge"), ("dual", "gated")


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Choices of architecture; the defaults are ours, `paper()` is the paper's.

    encoder, denoiser : "edge" and "edge" keep a thin state on every edge; "dual" and "gated" are the paper's.
    width, heads, edge_width, feed_forward : sizes (d, h, c, multiple of d).
    identifiers : width of the random identifiers that tell items apart.
    summaries : items also see mean, minimum, maximum and spread of their relations.
    rich_relations : all relation channels of the problem and a mark on the diagonal, not only the raw ones.
    priced : relations are measured against dual prices, where the problem has such features, instead of in units of a
        matrix's mean.
    candidates : columns of each row that the network looks at where there are more than `dense_up_to` rows, for
        problems with priced features; 0 for all columns always. The weights are the same either way.
    dense_up_to : the most rows for which it looks at all columns.

    The paper's network leaves these open:

    mixer_width : hidden width of the score-mixing MLP of the encoder.
    norm : normalisation, "batch" in the paper.
    identifier_kind : "normal" vectors for rows and columns, or "one_hot" ones, as MatNet has them: columns get
        different ones at random, rows the same where they are the same items and else none.
    relations_in_denoiser : the denoiser sees relations on every edge.
    products_in_denoiser : and X_t times relations beside them.
    """

    REMOVED = {"hidden_relations": ()}  # noqa: RUF012

    encoder: Literal["edge", "dual"] = "edge"
    denoiser: Literal["edge", "gated"] = "edge"
    width: int = setting(128, least=2)
    heads: int = setting(8, least=1)
    edge_width: int = setting(64, least=1)
    feed_forward: int = setting(2, least=1)
    mixer_width: int = setting(16, least=1)
    encoder_layers: int = setting(3, least=0)
    denoiser_layers: int = setting(8, least=0)
    norm: Literal["layer", "batch"] = "layer"
    identifiers: int = setting(16, least=1)
    identifier_kind: Literal["normal", "one_hot"] = "normal"
    summaries: bool = True
    rich_relations: bool = True
    priced: bool = False
    relations_in_denoiser: bool = True
    products_in_denoiser: bool = True
    candidates: int = setting(0, least=0)
    dense_up_to: int = setting(100, least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.encoder, self.denoiser
        if kinds not in (EDGE, PAPER):
            raise UsageError(
                'encoder "edge" goes with denoiser "edge", and encoder "dual" with denoiser "gated", '
                f"got {self.encoder} and {self.denoiser}"
            )
        if kinds == EDGE and not (self.relations_in_denoiser and self.products_in_denoiser):
            raise UsageError(
                "relations_in_denoiser and products_in_denoiser can only be false with the paper's network, encoder = "
                '"dual" and denoiser = "gated"'
            )
        if self.width % self.heads or self.width % 2:
            raise UsageError(f"the width {self.width} must be even and a multiple of the {self.heads} heads")
        if self.candidates == 1:
            raise UsageError("candidates must be 0, for all columns, or at least 2, got 1")
        if self.candidates and not (self.priced and kinds == EDGE):
            raise UsageError('candidates need priced = true, encoder = "edge" and denoiser = "edge"')

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
