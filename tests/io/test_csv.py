"""Tables: separators, headers, labels, blank diagonals, decimal commas."""

import numpy as np
import pytest

from icdc.errors import InputError
from icdc.io.csv import raw_from_table
from icdc.problems.instance import BARE

WANTED = [[3, 4], [5, 6], [7, 8]]
J, M = ("a", "b", "c"), ("p", "q")


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("3,4\n5,6\n7,8", None, None),
        ("3, 4\n\n5, 6\n\n7, 8\n\n", None, None),
        ("3,4,\n5,6,\n7,8,\n", None, None),
        ("# minutes\n3;4\n5;6\n7;8", None, None),
        ("3\t4\r\n5\t6\r\n7\t8\r\n", None, None),
        ("  3   4\n5 6\n7 8", None, None),
        ("p,q\n3,4\n5,6\n7,8", None, M),
        ("a,3,4\nb,5,6\nc,7,8", J, None),
        (",p,q\na,3,4\nb,5,6\nc,7,8", J, M),
        ("job,p,q\na,3,4\nb,5,6\nc,7,8", J, M),
        ("anything,p,q\na,3,4\nb,5,6\nc,7,8", J, M),
        ("p q\na 3 4\nb 5 6\nc 7 8", J, M),  # a header without a corner
        (",0,1\n0,3,4\n1,5,6\n2,7,8", ("0", "1", "2"), ("0", "1")),
        ("Jobs,1,2\n1,3,4\n2,5,6\n3,7,8", ("1", "2", "3"), ("1", "2")),
        ("id,p,q\n1,3,4\n2,5,6\n3,7,8", ("1", "2", "3"), M),
        ('"a, first",3,4\nb,5,6\nc,7,8', ("a, first", "b", "c"), None),
    ],
)
def test_layouts(text: str, rows: tuple[str, ...] | None, columns: tuple[str, ...] | None) -> None:
    table = raw_from_table(text, "t")
    assert table.arrays[BARE].tolist() == WANTED
    assert table.arrays[BARE].dtype == np.int64
    assert (table.rows, table.columns) == (rows, columns)


def test_one_machine_and_one_job() -> None:
    assert raw_from_table("3\n4\n", "t").arrays[BARE].tolist() == [[3], [4]]
    table = raw_from_table("minutes\n3\n4\n", "t")
    assert table.arrays[BARE].tolist() == [[3], [4]]
    assert table.columns == ("minutes",)
    assert raw_from_table("3,4", "t").arrays[BARE].tolist() == [[3, 4]]


def test_reals_and_exact_integers() -> None:
    assert raw_from_table("1.5,2\n3,4e2", "t").arrays[BARE].tolist() == [[1.5, 2.0], [3.0, 400.0]]
    assert raw_from_table("1,5;2\n3;4,25", "t").arrays[BARE].tolist() == [[1.5, 2.0], [3.0, 4.25]]
    big = raw_from_table(f"{2**53},{2**53 - 1}", "t").arrays[BARE]
    assert big.tolist() == [[2**53, 2**53 - 1]]


@pytest.mark.parametrize("text", ["-,5,3\n2,-,4\n1,6,-", ",5,3\n2,,4\n1,6,", "inf,5,3\n2,inf,4\n1,6,inf"])
def test_a_blank_diagonal(text: str) -> None:
    table = raw_from_table(text, "t")
    assert table.blank_diagonal
    assert table.rows is None
    assert table.arrays[BARE].tolist() == [[0, 5, 3], [2, 0, 4], [1, 6, 0]]


@pytest.mark.parametrize("text", [",A,B\nA,,4\nB,6,", ",1,2\n1,-,4\n2,6,-", "from/to,A,B\nA,x,4\nB,6,x"])
def test_a_blank_diagonal_under_names(text: str) -> None:
    table = raw_from_table(text, "t")
    assert table.blank_diagonal
    assert table.rows == table.columns
    assert table.arrays[BARE].tolist() == [[0, 4], [6, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n\n# note\n3,b\n", "t: line 4, column 2: 'b' is not a number"),
        ("nan,2\n3,4\n5,6", "t: line 1, column 1: 'nan' is not a finite number"),
        ("1,2\n3,0x10\n", "'0x10' is not a number"),
        ("1,2\n3,1_000\n", "'1_000' is not a number"),
        ("1,2\n3,１\n", "is not a number"),
        (f"1,2\n3,{2**53 + 1}\n", "is too large"),
        ("x,y,z,w\n1,2\n", "the header has 4 cells where line 2 has 2"),
        ("a\nb\nc\n", "is not a number"),
    ],
)
def test_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        raw_from_table(text, "t")
    assert message in str(caught.value)


def test_units_are_no_reason_to_leave_a_column_out() -> None:
    with pytest.raises(InputError) as caught:
        raw_from_table("job,saw (min)\na,10 min\nb,4 min\n", "shop.csv")
    assert str(caught.value) == "shop.csv: line 2, column 2: '10 min' is not a number"
