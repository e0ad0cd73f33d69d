"""The shape of the network; the defaults are the published ones where those are known."""

from dataclasses import dataclass
from typing import Literal

from ...errors import UsageError

Decoding = Literal["multistart", "greedy", "sample"]


@dataclass(frozen=True)
class MatNetNetworkConfig:
    """Choices of architecture.

    width, heads, layers, feed_forward : sizes of the encoder (d, h, number of layers, hidden width).
    mixer_width : hidden width of the score-mixing MLP that every head has of its own.
    one_hots : how many one-hot vectors columns draw from; with more columns than this some share one.
    clip : C of the logits C · tanh(·) of the pointer.
    usage_width : width of what the decoder sees of each column's use so far, where columns are used several times.
    """

    width: int = 256
    heads: int = 16
    layers: int = 5
    feed_forward: int = 512
    mixer_width: int = 16
    one_hots: int = 64
    clip: float = 10.0
    usage_width: int = 16

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UsageError(f"the width {self.width} must be a multiple of the {self.heads} heads")
        for name in ("layers", "feed_forward", "mixer_width", "one_hots", "usage_width"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.one_hots > self.width:
            raise UsageError(f"{self.one_hots} one-hot vectors do not fit a width of {self.width}")
        if not self.clip > 0:
            raise UsageError(f"clip must be positive, got {self.clip}")
