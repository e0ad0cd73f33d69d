"""Who improves more gets more of the time, and nobody is forgotten."""

import pytest

from icdc.solving.shares import LEAST, Shares


def test_shares_follow_what_brought_improvements() -> None:
    shares, both = Shares({"search": 0.75, "network": 0.25}), ["search", "network"]

    def turns(count: int, **gains: float) -> float:
        """Return how often the network has a turn."""
        had = []
        for _ in range(count):
            had.append(shares.next(both))
            shares.report(had[-1], 1.0, gains.get(had[-1], 0.0), both)
        return had.count("network") / count

    assert shares.next(both) == "search"
    assert turns(40) == pytest.approx(LEAST + 0.25 * (1 - 2 * LEAST), abs=0.05)
    turns(30, network=0.01)
    assert turns(200, network=0.01) == pytest.approx(1 - LEAST, abs=0.03)  # and the search is not forgotten
    turns(30, search=0.01)
    assert turns(200, search=0.01) == pytest.approx(LEAST, abs=0.03)
    turns(30, search=0.01, network=0.01)
    assert turns(100, search=0.01, network=0.01) == pytest.approx(0.5, abs=0.1)
    assert shares.next(["search"]) == "search"
