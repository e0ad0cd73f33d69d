"""Numbers of samples on the command line."""

from ..errors import UsageError


def sample_counts(text: str) -> list[int]:
    """Read numbers of samples such as 1,8,32."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"--samples must be whole numbers such as 1,8,32, got '{text}'")
    return counts
