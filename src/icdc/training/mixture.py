"""What a run spends its time on: which size a round is for, and the shares of families in it.

Sizes and families begin with the shares that the configuration gives them, by how often it names them. Validation moves
shares towards where the gap is, within limits. A run that repeats itself needs no clock for it: where a count of rounds
ends the run, sizes are balanced by the work of their rounds instead of their seconds.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems.base import Size
from .config import MixtureConfig
from .sources import counted
from .validation import OWN, Gaps, size_name

Shares = NDArray[np.float64]

EVEN = 0.1
"""Gap in percent that is added to all before they are compared: what is nearly solved needs no more turns."""


class Mixture:
    """The shares of sizes and families, and whose turn it is.

    Parameters
    ----------
    sizes, named : the sizes, and how often the configuration names each: the more often, the larger its share.
    families : as the configuration names them; the same goes for them.
    cells : entries of a matrix of each size, as the network sees it: the curriculum goes by them.
    config : how shares move, and when which size joins.

    Attributes
    ----------
    families : the different ones, in their order.
    size_shares (sizes,) and family_shares (sizes, families) : what each has now.
    """

    def __init__(
        self,
        sizes: Sequence[Size],
        named: Sequence[int],
        families: Sequence[str],
        cells: Sequence[int],
        config: MixtureConfig,
    ) -> None:
        self.config, self.sizes = config, list(sizes)
        self._base_sizes: Shares = np.array(named) / sum(named)
        self.families, self._base_families = counted(families)
        self.size_shares = self._base_sizes.copy()
        self.family_shares = np.tile(self._base_families, (len(self.sizes), 1))
        self._order = np.argsort(np.argsort(cells, kind="stable"), kind="stable")
        self._spent = np.zeros(len(self.sizes))
        self._joined = np.zeros(len(self.sizes), dtype=bool)

    def open(self, fraction: float) -> NDArray[np.bool_]:
        """Tell which sizes take part when `fraction` of the run is done: the smallest first, in the end all."""
        until = self.config.curriculum
        share = min(1.0, fraction / until) if until else 1.0
        first = self.config.first_share * len(self.sizes)
        count = max(1, math.ceil(first + share * (len(self.sizes) - first) - 1e-9))
        return np.asarray(self._order < count)

    def next(self, fraction: float) -> int:
        """Return the size whose turn it is, as its number: the one that has had least of what its share is worth."""
        now = self.open(fraction)
        behind = self._spent[self._joined & now].min(initial=np.inf)
        for new in np.flatnonzero(now & ~self._joined):
            # who joins later does not get back what others had before
            self._spent[new] = max(self._spent[new], behind if np.isfinite(behind) else 0.0)
        self._joined |= now
        return int(np.where(now, self._spent, np.inf).argmin())

    def spend(self, size: int, amount: float) -> None:
        """Count what a round of a size took: seconds, or any other measure of work."""
        self._spent[size] += amount / self.size_shares[size]

    def move(self, gaps: Gaps) -> None:
        """Move shares towards the families and sizes with the largest gaps; sizes without gaps stay as they are."""
        means = np.full(len(self.sizes), np.nan)
        for number, size in enumerate(self.sizes):
            found = list(gaps.get(size_name(size), {}).values())
            if not found:
                continue
            means[number] = np.mean(found)
            if self.families:
                own = self.family_shares[number]
                self.family_shares[number] = self._moved(own, self._base_families, np.array(found))
        known = np.isfinite(means)
        if known.any():
            # a size that was not measured counts as an average one
            means = np.where(known, means, means[known].mean())
            self.size_shares = self._moved(self.size_shares, self._base_sizes, means)

    def shares(self) -> dict[str, dict[str, float]]:
        """Return what part of all time every family of every size has now, by their names, to three digits."""
        found: dict[str, dict[str, float]] = {}
        for size, share, own in zip(self.sizes, self.size_shares, self.family_shares, strict=True):
            each = dict(zip(self.families, own, strict=True)) if self.families else {OWN: 1.0}
            found[size_name(size)] = {family: float(f"{share * part:.3g}") for family, part in each.items()}
        return found

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs again."""
        return {
            "size_shares": self.size_shares.tolist(),
            "family_shares": self.family_shares.tolist(),
            "spent": self._spent.tolist(),
            "joined": self._joined.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.size_shares, self.family_shares = np.array(state["size_shares"]), np.array(state["family_shares"])
        self._spent, self._joined = np.array(state["spent"]), np.array(state["joined"], dtype=bool)

    def _moved(self, shares: Shares, base: Shares, gaps: Shares) -> Shares:
        """Return shares that moved towards those by gaps, all between base / most and base · most, with the sum one."""
        gaps = np.maximum(gaps, 0.0) + EVEN
        wanted = base * np.sqrt(gaps / gaps.mean())
        within = bounded(wanted, base / self.config.most, np.minimum(1.0, base * self.config.most))
        moved: Shares = shares + self.config.move * (within - shares)
        return moved


def bounded(weights: Shares, low: Shares, high: Shares) -> Shares:
    """Return shares proportional to weights, but for those that a limit holds; their sum is one.

    The sum of `low` must be at most one and that of `high` at least one.
    """
    least, most = 0.0, float(np.max(high / np.maximum(weights, 1e-12)))
    for _ in range(60):
        factor = (least + most) / 2
        if np.clip(factor * weights, low, high).sum() < 1.0:
            least = factor
        else:
            most = factor
    found: Shares = np.clip(most * weights, low, high)
    return found
