"""Workbooks that unpack to far more than they show are refused before openpyxl takes them."""

import io
import zipfile

import pytest

from icdc.errors import InputError, UsageError
from icdc.io import instances_of
from icdc.io.workbooks import LARGEST_PART
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
    with pytest.raises(InputError) as caught:
        instances_of(content, "a.xlsx")
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
    types = b'<Override PartName="/xl/worksheets/part.xml" ContentType="application/x.styles+xml"/></Types>'
    packed = changed(Content_Types=(b"</Types>", types), hidden_part=(b"", blanks + b" "))
    assert "'xl/worksheets/part.xml' of the workbook unpacks to 4 MiB" in refusal(packed)
    assert "unpacks to more than is read" in refusal(changed(Content_Types=(b"</Types>", blanks + b"</Types>")))


@pytest.mark.parametrize("piece", [1, 7, 100, 2**20])
def test_tags_in_two_pieces_are_seen(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icdc.io.workbooks._PIECE", piece)
    with pytest.raises(UsageError, match="row 2 is hidden"):
        instances_of(xlsx(TALL, hidden_rows=[2]), "a.xlsx")
