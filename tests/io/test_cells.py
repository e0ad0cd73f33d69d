"""Numbers as people write them, one by one."""

import math

import pytest

from icdc.errors import InputError, UsageError
from icdc.io.cells import Plain, Style, are_names, is_number, is_word, parse_number, read_number, shorten, style_of


@pytest.mark.parametrize(
    ("cell", "point", "comma"),
    [
        ("12", 12, 12),
        ("+12", 12, 12),
        ("−12", -12, -12),
        ("1.5", 1.5, None),
        ("1,5", None, 1.5),
        ("1.500", 1.5, 1500),
        ("1,500", 1500, 1.5),
        ("0.500", 0.5, None),
        ("1,500,000", 1_500_000, None),
        ("1.500.000", None, 1_500_000),
        ("1,500.25", 1500.25, None),
        ("1.500,25", None, 1500.25),
        ("1 500", 1500, 1500),
        ("1 500 000", 1_500_000, 1_500_000),
        ("1 500'000", None, None),
        ("15 00", None, None),
        ("1234,567", None, 1234.567),
        ("1e3", 1000.0, 1000.0),
        (".5", 0.5, None),
        (",5", None, 0.5),
        ("5.", 5.0, None),
        ("1_000", None, None),
        ("0x10", None, None),
        ("١", None, None),
    ],
)
def test_both_styles(cell: str, point: float | None, comma: float | None) -> None:
    for decimal, wanted in ((".", point), (",", comma)):
        if wanted is None:
            with pytest.raises(InputError, match="is not a number"):
                read_number(cell, Style(decimal))
        else:
            found = read_number(cell, Style(decimal))
            assert (found, type(found)) == (wanted, type(wanted))
    assert is_number(cell) == (point is not None or comma is not None)


def decided(*cells: str, separator: str = "", asked: str | None = None) -> str:
    return style_of(((cell, f"t: cell {i}") for i, cell in enumerate(cells)), separator, asked).decimal


def test_which_mark_stands_before_fractions() -> None:
    assert decided("1", "2") == "."
    assert decided("1,5") == ","
    assert decided("1,234", "0,5") == ","
    assert decided("1,234", "2.5") == "."
    assert decided("1.234") == "."
    assert decided("1,234", separator=",") == "."
    assert decided("1,234", asked=",") == ","
    for cells, separator in ((["1,234"], ";"), (["1,234"], "\t"), (["1.234"], ";"), (["1,234"], "")):
        with pytest.raises(UsageError, match=r't: cell 0: .* may be .* decimal="," or decimal="\."'):
            decided(*cells, separator=separator)


def test_numbers_of_programs_have_their_own_style() -> None:
    assert read_number(Plain("1.234"), Style(",")) == 1.234
    assert read_number("1.234", Style(",")) == 1234
    assert decided(Plain("1.5"), "1,5") == ","


def test_limits() -> None:
    assert parse_number(str(2**53)) == 2**53
    for cell in (str(2**53 + 1), "9" * 5000, "1e31", "1e400"):
        with pytest.raises(InputError, match="is too large"):
            parse_number(cell)
    assert parse_number("1e30") == 1e30
    assert not math.isinf(parse_number("1e-400"))


def test_words_and_marks() -> None:
    assert [cell for cell in ("a", "x", "-", "", "inf", "nan", "N/A", "3", "1,5", "3a") if is_word(cell)] == ["a", "3a"]
    assert are_names(["a", "x"])
    assert not are_names(["x", "X"])
    assert not are_names(["a", "-"])
    assert not are_names([])


def test_pieces_of_files_in_messages() -> None:
    assert shorten("a\x1b[2Jb\n") == r"'a\x1b[2Jb\n'"
    assert shorten("y" * 50) == "'" + "y" * 39 + "…'"
