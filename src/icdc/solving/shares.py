"""Sharing time among ways of searching: what has brought improvements gets more of it."""

FADE = 0.8
"""What a turn is still worth when the same way has had another one."""
LEAST = 0.05
"""The share that every way keeps, so that one that was unlucky, or is good only later, is not forgotten."""


class Shares:
    """Whose turn it is.

    Every way has a rate, what it improved per second, recent turns counting more; its share of the time is its part of
    all rates, and at least `LEAST`. While one has a turn, all that are ready earn their shares of its time, and it pays
    for the whole; who has earned most has the next turn. Before anything is known, shares are those that were given.
    Nothing is random.

    Parameters
    ----------
    first : the shares to begin with, by name.
    """

    def __init__(self, first: dict[str, float]) -> None:
        self.first = first
        self.earned = dict.fromkeys(first, 0.0)
        self._gains = dict.fromkeys(first, 0.0)
        self._spent = dict.fromkeys(first, 0.0)

    def next(self, ready: list[str]) -> str:
        """Return whose turn it is among those that are ready."""
        shares = self.shares(ready)
        return max(ready, key=lambda name: (self.earned[name], shares[name]))

    def shares(self, ready: list[str]) -> dict[str, float]:
        """Return the part of the time that each of some ways is to have."""
        rates = {name: self._gains[name] / self._spent[name] if self._spent[name] else 0.0 for name in ready}
        total = sum(rates.values())
        if total <= 0:
            rates = {name: self.first[name] for name in ready}
            total = sum(rates.values())
        free = 1.0 - LEAST * len(ready)
        return {name: LEAST + free * rate / total for name, rate in rates.items()}

    def report(self, name: str, seconds: float, gain: float, ready: list[str]) -> None:
        """Hear that one of those that were ready had a turn of some seconds, and by which fraction costs fell in it."""
        for other, share in self.shares(ready).items():
            self.earned[other] += share * seconds
        self.earned[name] -= seconds
        self._gains[name] = FADE * self._gains[name] + gain
        self._spent[name] = FADE * self._spent[name] + seconds
