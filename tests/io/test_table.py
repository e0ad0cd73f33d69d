"""Halves of matrices, in every form, against the whole."""

import numpy as np
import pytest

from icdc.errors import InputError
from icdc.io.csv import raw_from_table
from icdc.problems.instance import BARE


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("half", ["lower", "upper"])
@pytest.mark.parametrize("diagonal", ["0", "-", "", "0.0"])
def test_triangles_of_every_kind(half: str, padded: bool, names: bool, diagonal: str) -> None:
    size = 4
    whole = np.random.default_rng(0).integers(1, 50, (size, size))
    whole = np.triu(whole, 1) + np.triu(whole, 1).T
    if diagonal == "" and not padded:
        pytest.skip("without a mark, an empty cell at the end of a row is not there")
    rows = []
    for r in range(size):
        cells = [diagonal if r == c else str(whole[r, c]) for c in range(size)]
        gone = range(r + 1, size) if half == "lower" else range(r)
        cells = ["" if c in gone else cell for c, cell in enumerate(cells)] if padded else cells
        if not padded:
            cells = [cell for c, cell in enumerate(cells) if c not in gone]
        rows.append(([f"c{r}"] if names else []) + cells)
    text = "\n".join(",".join(row) for row in rows)
    if diagonal == "" and (half, names) != ("upper", True):
        # its first row or last column is not to be seen any more
        with pytest.raises(InputError, match=r"half a matrix|column 1 is empty"):
            raw_from_table(text, "t")
        return
    raw = raw_from_table(text, "t")
    assert raw.arrays[BARE].tolist() == whole.tolist()
    assert raw.forbidden is None
    assert raw.blank_diagonal
    assert f"the {half} triangle, mirrored" in raw.notes
