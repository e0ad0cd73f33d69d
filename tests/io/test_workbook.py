"""Workbooks: what is hidden in them, what they refer to, and that reading stops at its limits."""

import io
import tracemalloc
import zipfile

import openpyxl
import pytest

from icdc.errors import InputError, UsageError
from icdc.io import ReadOptions, instances_of, workbook
from icdc.io.workbook import LARGEST_PART
from tests.io.corpus import TALL, xlsx


def changed(**parts: tuple[bytes, bytes]) -> bytes:
    """Return a workbook in which, in parts by a piece of their names, something is replaced; a new part is all new."""
    source, buffer = zipfile.ZipFile(io.BytesIO(xlsx(TALL))), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            content = source.read(name)
            for piece, (old, new) in parts.items():
                content = content.replace(old, new) if piece in name else content
            target.writestr(name, content)
        if "hidden_part" in parts:
            target.writestr("xl/worksheets/part.xml", parts["hidden_part"][1])
    return buffer.getvalue()


def refusal(content: bytes) -> str:
    with pytest.raises((InputError, UsageError)) as caught:
        instances_of(content, "a.xlsx")
    assert isinstance(caught.value, InputError)
    return str(caught.value)


def test_a_row_of_one_cell_again_and_again() -> None:
    row = b"<row r='9'>" + b"<c r='A9'><v>1</v></c>" * 16_385 + b"</row></sheetData>"
    assert "more than 2000000 cells" in refusal(changed(sheet1=(b"</sheetData>", row)))
    row = b"<row r='9'>" + b"<c r='A9'/>" * 16_384 + b"</row></sheetData>"
    (instance,) = instances_of(changed(sheet1=(b"</sheetData>", row)), "a.xlsx")
    assert instance.arrays["durations"].tolist() == TALL


def test_rows_are_counted_one_by_one() -> None:
    rows = b"".join(b"<row r='%d'>" % r + b"<c r='A9'/>" * 9_000 + b"</row>" for r in range(9, 12))
    (instance,) = instances_of(changed(sheet1=(b"</sheetData>", rows + b"</sheetData>")), "a.xlsx")
    assert instance.arrays["durations"].tolist() == TALL


def test_parts_that_are_no_sheets() -> None:
    blanks = b" " * LARGEST_PART
    assert "'xl/styles.xml' of the workbook unpacks to 4 MiB" in refusal(changed(styles=(b"</styleSheet>", blanks)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"<sheetData>", b"<cols>" + b'<col min="1" max="16384" hidden="1"/>' * 20_000 + b"</cols><sheetData>"),
        (b"</sheetData>", b"</sheetData><mergeCells>" + b'<mergeCell ref="A1:B2"/>' * 100_000 + b"</mergeCells>"),
        (b"<sheetData>", b"<other>" * 3_000_000 + b"<sheetData>"),
        (b"<sheetData>", b"<other/>" * 400_000 + b"<sheetData>"),
        (b"<sheetData>", b"<sheetData " + b" ".join(b'a%d=""' % i for i in range(300_000)) + b">"),
        (b"<sheetData>", b"<sheetData><row><c>" + b"<is>" * 1000),
        (b"<worksheet", b'<!DOCTYPE a [<!ENTITY a "' + b"b" * 1000 + b'">]><worksheet'),
    ],
)
def test_a_small_file_of_much_is_refused_soon_and_in_little_memory(
    old: bytes, new: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbook, "LARGEST_TREE", 320_000)
    content = changed(sheet1=(old, new))
    tracemalloc.start()
    try:
        assert "a.xlsx: " in refusal(content)
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_empty_rows_take_no_memory() -> None:
    rows = b"<row/>" * 300_000 + b"</sheetData>"
    content = changed(sheet1=(b"</sheetData>", rows))
    tracemalloc.start()
    try:
        assert instances_of(content, "a.xlsx")[0].arrays["durations"].tolist() == TALL
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'<row r="2"', b'<row r="2" ht="0" customHeight="1"', "row 2 is hidden"),
        (b'<row r="2"', b'<row r="2" hidden="true"', "row 2 is hidden"),
        (b"<sheetData>", b'<cols><col min="2" max="9" width="0"/></cols><sheetData>', "column B is hidden"),
        (b"<sheetData>", b'<cols><col min="1" max="1" hidden=" 1 "/></cols><sheetData>', "column A is hidden"),
        (b"<sheetData>", b'<sheetFormatPr zeroHeight="1"/><sheetData>', "row 1 is hidden"),
    ],
)
def test_rows_and_columns_that_are_not_seen(old: bytes, new: bytes, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        instances_of(changed(sheet1=(old, new)), "a.xlsx")
    (instance,) = instances_of(changed(sheet1=(old, new)), "a.xlsx", None, ReadOptions(hidden=True))
    assert instance.arrays["durations"].tolist() == TALL


def test_hidden_sheets() -> None:
    alone = changed(**{"xl/workbook": (b'name="Sheet" sheetId="1" state="visible"', b'name="Sheet" state="hidden"')})
    with pytest.raises(UsageError, match="the sheet 'Sheet' is hidden, and no other holds anything; say sheet="):
        instances_of(alone, "a.xlsx")
    for options in (ReadOptions(sheet="Sheet"), ReadOptions(hidden=True)):
        (instance,) = instances_of(alone, "a.xlsx", None, options)
        assert instance.arrays["durations"].tolist() == TALL


@pytest.mark.parametrize(
    ("cell", "meaning"),
    [
        (b'<c r="A1"><v>1e400</v></c>', "cell A1: '1e400' is too large"),
        (b'<c r="A1"><v>9007199254740993</v></c>', "cell A1: '9007199254740993' is too large"),
        (b'<c r="A1" t="s"><v>7</v></c>', "cell A1 refers to a text that is not there"),
        (b'<c r="A1" t="d"><v>2024-01-01</v></c>', "cell A1: this is a date or a time"),
        (b'<c r="A1" t="e"><v>#DIV/0!</v></c>', "'#DIV/0!' is not a number"),
        (b'<c r="A1" t="b"><v>1</v></c>', "cell A1: true is not a number"),
        (b'<c r="A1"><f>B1+1</f><v></v></c>', "cell A1 holds a formula without its value"),
        (b'<c r="A1"><v>many</v></c>', "cell A1: 'many' is not a number"),
    ],
)
def test_values_that_are_no_numbers(cell: bytes, meaning: str) -> None:
    assert meaning in refusal(changed(sheet1=(b'<c r="A1" t="n"><v>3</v></c>', cell)))


@pytest.mark.parametrize(
    "cell",
    [
        b"<c><v>3</v></c>",
        b'<c r="A1"><f>1+2</f><v>3</v></c>',
        b'<c r="A1" t="str"><f>T(3)</f><v> 3 </v></c>',
        b'<c r="A1" t="inlineStr"><is><r><t>3</t></r><rPh><t>4</t></rPh></is></c>',
        b'<c r="A1"><v>3.0000000000000000</v></c>',
        b'<c r="A1"><v>3E0</v></c>',
    ],
)
def test_a_number_in_many_forms(cell: bytes) -> None:
    (instance,) = instances_of(changed(sheet1=(b'<c r="A1" t="n"><v>3</v></c>', cell)), "a.xlsx")
    assert instance.arrays["durations"].tolist() == TALL
    assert instance.integral


@pytest.mark.parametrize(
    ("code", "is_time"),
    [("d/m/yy", True), ("[h]:mm", True), ("0.0E+00", False), ('0 "days"', False), ("[Red]0", False)],
)
def test_dates_are_known_by_their_format(code: str, is_time: bool) -> None:
    book = openpyxl.Workbook()
    for row in TALL:
        book.active.append(row)
    book.active["A2"].number_format = code
    buffer = io.BytesIO()
    book.save(buffer)
    if is_time:
        assert "cell A2: this is a date or a time" in refusal(buffer.getvalue())
    else:
        assert len(instances_of(buffer.getvalue(), "a.xlsx")) == 1
