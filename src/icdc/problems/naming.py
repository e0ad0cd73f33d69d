"""Items and pairs of an instance as sentences name them: in the problem's words, by name where they have names."""

from ..errors import visible
from .instance import Instance, Names
from .sequencing import Sequencing


def row_text(instance: Instance, item: int) -> str:
    """Name a row: "job 'paint'", "city 3"."""
    return _named(instance.rows, item, instance.problem.row_words[0])


def column_text(instance: Instance, item: int) -> str:
    """Name a column: "machine 'M2'", "city 3"."""
    return _named(instance.columns, item, instance.problem.column_words[0])


def pair_text(instance: Instance, pair: tuple[int, int]) -> str:
    """Name a pair: "job 'paint' with machine 'M2'", "from city 3 to city 5", "job 'b' after job 'a'"."""
    row, column = pair
    if isinstance(instance.problem, Sequencing):
        return f"{row_text(instance, column)} after {row_text(instance, row)}"
    if instance.problem.feature_sizes.same_items:
        return f"from {row_text(instance, row)} to {column_text(instance, column)}"
    return f"{row_text(instance, row)} with {column_text(instance, column)}"


def _named(names: Names | None, item: int, word: str) -> str:
    return f"{word} {item}" if names is None else f"{word} '{visible(names[item])}'"
