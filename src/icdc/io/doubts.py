"""What may not be part of a matrix, or lies the other way round: sums, ranks, lists of pairs, machines as rows.

Each is refused with the options that decide; where `labels` was said, whoever reads the table has looked at it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..options import mention
from ..problems import BUILT_IN
from ..problems.base import Problem
from ..problems.instance import Names
from .grid import Grid
from .layout import Layout, one_family, says_names, words_of
from .numbers import shorten

_SUMS = frozenset(
    [
        "total",
        "totals",
        "sum",
        "sums",
        "subtotal",
        "summe",
        "gesamt",
        "somme",
        "suma",
        "totale",
        "mean",
        "average",
        "avg",
        "mittel",
        "mittelwert",
        "moyenne",
        "median",
    ]
)
_ABOUT = _SUMS | frozenset(
    [
        "rank",
        "ranking",
        "priority",
        "prio",
        "priorität",
        "deadline",
        "due",
        "release",
        "weight",
        "weights",
        "gewicht",
        "quantity",
        "qty",
        "menge",
        "demand",
        "kommentar",
        "comment",
        "remark",
        "note",
    ]
)
"""Words above columns that say something about a row, and are nothing to put it on."""
_DESTINATIONS = frozenset(["to", "destination", "nach", "ziel", "vers"])
_LEAST_SUMS = 3
"""Sums that must all be right before numbers without a name are taken for sums: fewer may be chance."""


def refuse_names(
    grid: Grid, layout: Layout, rows: Names | None, columns: Names | None, problem: Problem | None, turned: bool
) -> None:
    """Refuse names that say that their row or column is not one of the matrix, or that rows should be columns.

    turned : whether it was said how the table lies.
    """
    same_items = None if problem is None else problem.feature_sizes.same_items
    cornered = layout.header and layout.names is not None and len(grid.rows[0]) == len(grid.rows[-1])
    corner = grid.rows[0][layout.names or 0] if cornered else ""
    if same_items is not True:
        _refuse_lists(grid, layout, columns)
        if not turned:
            _refuse_rows_for_columns(grid, corner, rows, columns, problem)
    if same_items is not False and not turned and words_of(corner)[:1] and words_of(corner)[0] in _DESTINATIONS:
        raise UsageError(
            f"{grid.name}: by {shorten(corner)} in the corner rows may be where one goes to; "
            f"say {mention('transpose', True)} if they are, "
            f"{mention('transpose', False)} if they are where one comes from"
        )
    for names, unusual, what in ((rows, _SUMS, grid.line_word), (columns, _ABOUT, "column")):
        for name in names or ():
            found = [word for word in words_of(name) if word in unusual]
            if found and not one_family(names or ()):
                raise UsageError(
                    f"{grid.name}: the {what if what != 'line' else 'row'} {shorten(name)} seems not to be one of the "
                    f"matrix; say {mention('skip', name)} to leave it out, {decides(layout)} if it is"
                )


def refuse_sums(grid: Grid, values: NDArray[np.number], forbidden: NDArray[np.bool_], layout: Layout) -> None:
    """Refuse a last row, or a last column, in which all numbers are the sums of the others."""
    if forbidden[-1].any() or forbidden[:, -1].any():
        return
    for table, what in ((values, "row"), (values.T, "column")):
        others, last = table[:-1], table[-1]
        if len(last) < _LEAST_SUMS or (others != 0).any(1).sum() < 2 or not np.array_equal(others.sum(0), last):
            continue
        place = f"{grid.line_word} {grid.lines[-1]}" if what == "row" else grid.column_place(len(grid.rows[-1]) - 1)
        raise UsageError(
            f"{grid.name}: {place} is the sum of all {what}s before it; "
            f"say {mention('skip', place)} to leave it out, {decides(layout)} if it belongs to the matrix"
        )


def decides(layout: Layout) -> str:
    """Return the option that says that names and numbers are what they seem to be."""
    return mention("labels", True) if layout.header and layout.names is not None else mention("labels", False)


def _refuse_lists(grid: Grid, layout: Layout, columns: Names | None) -> None:
    """Refuse a list with a pair a line, such as `job,machine,time`, which is not a matrix."""
    if columns is None or one_family(columns):
        return
    found = [column for column in columns if says_names(column) and not column.startswith("#")]
    if found and len(columns) <= 4:
        raise UsageError(
            f"{grid.name}: the column {shorten(found[0])} seems to hold names: a list with a pair a line is not read, "
            f"only a matrix; say {decides(layout)} if it is one of the columns of a matrix"
        )


def _refuse_rows_for_columns(
    grid: Grid, corner: str, rows: Names | None, columns: Names | None, problem: Problem | None
) -> None:
    """Refuse machines as rows, where the corner or the names say so."""
    for kind in [type(problem)] if problem is not None else BUILT_IN.values():
        if kind.feature_sizes.same_items:
            continue
        row_words, column_words = set(kind.row_words), set(kind.column_words)
        known = [word for word in words_of(corner) if word in row_words | column_words]
        wrong = bool(known) and known[0] in column_words
        wrong |= _all_say(columns, row_words) or _all_say(rows, column_words)
        if wrong:
            raise UsageError(
                f"{grid.name}: the rows seem to be {kind.column_words[1]}, and must be {kind.row_words[1]}; "
                f"say {mention('transpose', True)} if they are {kind.column_words[1]}, "
                f"{mention('transpose', False)} if they are {kind.row_words[1]}"
            )


def _all_say(names: Sequence[str] | None, words: set[str]) -> bool:
    """Tell whether all names have one of some words in them: job 1, job 2."""
    return bool(names) and all(set(words_of(name)) & words for name in names or ())
