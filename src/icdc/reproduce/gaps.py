"""Plain gaps, 100·(a − b)/b, and the paper's symmetric ones, 200·(a − b)/(a + b), as each other; both in %."""


def plain_gap(symmetric: float) -> float:
    """Return the plain gap that a symmetric one stands for."""
    return 100.0 * 2.0 * symmetric / (200.0 - symmetric)


def symmetric_gap(plain: float) -> float:
    """Return the symmetric gap that a plain one stands for."""
    return 200.0 * plain / (200.0 + plain)
