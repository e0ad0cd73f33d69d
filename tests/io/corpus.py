"""Odd and broken inputs, each with what it must give: the numbers that are meant, or a sentence about what is wrong.

An entry is a file's name, its content, what it must give and, where they matter, the options and the problem.
"""

import gzip
import io
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from icdc.io import ReadOptions


class Read(NamedTuple):
    """What is read: the numbers of the problem's matrix, None at forbidden pairs, names, and part of what is said."""

    problem: str
    matrix: list[list[Any]]
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    said: str = ""


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def npz(**named: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **named)  # type: ignore[arg-type]
    return buffer.getvalue()


def atsp(section: str, size: object = 2, layout: str = "FULL_MATRIX") -> str:
    return (
        f"NAME: t\nTYPE: ATSP\nDIMENSION: {size}\nEDGE_WEIGHT_TYPE: EXPLICIT\n"
        f"EDGE_WEIGHT_FORMAT: {layout}\nEDGE_WEIGHT_SECTION\n{section}\nEOF\n"
    )


def archive(**members: bytes) -> bytes:
    """Return a zip archive; two underscores in a name stand for a point."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def xlsx(
    rows: list[list[Any]],
    title: str = "Sheet",
    hidden_rows: Sequence[int] = (),
    hidden_columns: str = "",
    merged: str | None = None,
    **more: list[list[Any]],
) -> bytes:
    """Return a workbook with a sheet of cells, of which parts may be hidden or merged, and further ones by name."""
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = title
    for name, cells in {title: rows, **more}.items():
        sheet = book[name] if name in book.sheetnames else book.create_sheet(name)
        for row in cells:
            sheet.append(row)
    for row in hidden_rows:
        book[title].row_dimensions[row].hidden = True
    for column in hidden_columns:
        book[title].column_dimensions[column].hidden = True
    if merged is not None:
        book[title].merge_cells(merged)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


OK = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
WITH_NAN = np.where(OK == 4.0, np.nan, OK)
GOOD_NPY, GOOD_NPZ = npy(OK), npz(durations=OK)
TALL, WIDE = [[3, 4], [5, 6], [7, 8]], [[1, 2, 3], [4, 5, 6]]
CITIES = [[0, 2, 3], [4, 0, 5], [6, 7, 0]]
BOTH = [[0, 2, 3], [2, 0, 4], [3, 4, 0]]
YES, NO = ReadOptions(labels=True), ReadOptions(labels=False)
COMMA, POINT = ReadOptions(decimal=","), ReadOptions(decimal=".")
STRAIGHT, GLOBE = ReadOptions(metric="euclidean"), ReadOptions(metric="geo")
M, J = ("m1", "m2"), ("a", "b", "c")

NUMBERED = [[1, 10, 20], [2, 30, 40], [4, 50, 60], [7, 1, 2]]
TOTAL = "job,m1,m2\na,3,4\nb,5,6\nc,7,8\nTotal,15,18"
TURN, TURN_NO = ReadOptions(transpose=True), ReadOptions(transpose=True, labels=False)
JJ, ABC, AB, XYZ = ("j1", "j2", "j3"), ("A", "B", "C"), ("a", "b"), ("x", "y", "z")
FIVE, NOWHERE = [[0.0, 5.0], [5.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]
LIKE = ReadOptions(labels=True)
UNUSED = "'unit', 'due' not used"
SPLIT = Read("pmsp", [[3, 4], [5, 6]], ("a b", "c"), M)
HALVED = Read("pmsp", [[1, 2], [3, 4], [5, 6]], ("\\ud800", "b", "c"))
SHOWN = Read("pmsp", TALL, None, M, "without what is hidden")

NUMBERED_MACHINES = Read("pmsp", [[4, 2], [3, 5]], ("paint", "cut"), ("1", "2"))

# (file name, content, what it gives[, options[, problem]])
CORPUS: list[tuple[Any, ...]] = [
    # tables
    ("a.csv", "", "the file is empty"),
    ("a.csv", "\n \n\t\n", "the file is empty"),
    ("a.csv", "# only a comment\n", "the file is empty"),
    ("a.csv", "m1,m2\n", "no row of numbers"),
    ("a.csv", "1,2\n3\n", "line 2 has 1 cells where line 1 has 2"),
    ("a.csv", "1,2\n3,4,5\n", "line 2 has 3 cells where line 1 has 2"),
    ("a.csv", "1,2\n3,4\n5,", Read("pmsp", [[1, 2], [3, 4], [5, None]], said="1 forbidden pair")),
    ("a.csv", "1,2\nNaN,4\n5,6", "line 2, column 1: 'NaN' is not a finite number"),
    ("a.csv", "1,2\n3,inf\n5,6", Read("pmsp", [[1, 2], [3, None], [5, 6]])),
    ("a.csv", "1,2\n3,-inf\n5,6", "line 2, column 2: '-inf' is not a finite number"),
    ("a.csv", "1,2\n3,-4\n5,6", "negative value -4 at row 2, column 2"),
    (
        "a.csv",
        "job,saw,mill,remarks\na,1,2,ok\nb,3,4,\nc,5,6,see Ann",
        "line 2, column 4: 'ok' is not a number; say --skip remarks if that column is none of the matrix",
    ),
    (
        "a.csv",
        "job,saw,my remarks\na,1,ok\nb,3,fine",
        "column 3: 'ok' is not a number; say --skip 'my remarks' if that column is none of the matrix",
    ),
    ("a.csv", "1,2\n3,four\n5,6", "line 2, column 2: 'four' is not a number"),
    ("a.csv", "1,2\n3,=A1\n5,6", "'=A1' is not a number"),
    ("a.csv", "1,2\n3,1e999\n5,6", "'1e999' is too large"),
    ("a.csv", "1,2\n3," + "1" * 400 + "\n5,6", "is too large"),
    ("a.csv", "1,2\n3," + "y" * 400 + "\n5,6", "…' is not a number"),
    ("a.csv", "a,1,2\nb,3,4\na,5,6", "the row label 'a' occurs twice"),
    ("a.csv", "z,z\n1,2\n3,4\n5,6", "the column label 'z' occurs twice"),
    ("a.csv", "x,x\n1,2\n3,4", Read("pmsp", [[None, None], [1, 2], [3, 4]])),
    ("a.csv", ",x,y\na,1,2\nb,3,4\nc,5", "line 4 has 2 cells"),
    ("a.csv", '"1,2\n3,4\n', "line 1 cannot be read as a table"),
    ("a.csv", "one two three", "a header but no row of numbers"),
    ("a.csv", b"\x00\x01\x02\x03", "not text"),
    ("a.csv", b"1,2\n3,\xff\xfe\n", "line 2, column 2: 'ÿþ' is not a number"),
    ("a.csv", b"1,2\n3,\xff\x01\n", "not text (byte 7 is not UTF-8)"),
    ("a.csv", b"\xff\xfe1", "not text"),
    ("a.tsv", "1\t2\n3\ty\n5\t6", "line 2, column 2: 'y' is not a number"),
    ("a.tsv", "1\t2\n3\tx\n5\t6", Read("pmsp", [[1, 2], [3, None], [5, 6]])),
    ("a.txt", "1 2\n3\n", "line 2 has 1 cells"),
    ("a.csv", "%PDF-1.7\n%âãÏÓ\n", "is not a number"),
    ("a.csv", "<html><body>404</body></html>", "is not a number"),
    # JSON
    ("a.json", "", "the file is empty"),
    ("a.json", "{", "line 1: this is not JSON"),
    ("a.json", "[[1,2],\n[3,4", "line 2: this is not JSON"),
    ("a.json", "[]", "the list is empty"),
    ("a.json", "{}", "the object holds no matrix"),
    ("a.json", "[[]]", "is empty"),
    ("a.json", "null", "must be a matrix or an object, got null"),
    ("a.json", "7", "must be a matrix or an object, got a number"),
    ("a.json", '"text"', "must be a matrix or an object, got 'text'"),
    ("a.json", "[1,2,3]", "must be a matrix, got an array with 1 axes"),
    ("a.json", "[[1,2],[3]]", "row 2 has 1 entries where row 1 has 2"),
    ("a.json", "[[1,2],3]", "row 2 must be a list of numbers, got a number"),
    ("a.json", '[[1,2],[3,"4"],[5,6]]', Read("pmsp", [[1, 2], [3, 4], [5, 6]])),
    ("a.json", "[[1,2,3],[4,5,null]]", Read("pmsp", [[1, 2, 3], [4, 5, None]])),
    ("a.json", '{"durations": [[1,2,3],[4,5,null]]}', Read("pmsp", [[1, 2, 3], [4, 5, None]])),
    ("a.json", "[[0,5,6],[1,2,null],[2,3,4],[3,5,6]]", Read("pmsp", [[0, 5, 6], [1, 2, None], [2, 3, 4], [3, 5, 6]])),
    ("a.json", "[[1,2],[3,null],[5,6]]", Read("pmsp", [[1, 2], [3, None], [5, 6]])),
    ("a.json", "[[1,2],[3,true],[5,6]]", "row 2, column 2: true is not a number"),
    ("a.json", "[[1,2],[3,NaN],[5,6]]", "row 2, column 2: 'nan' is not a finite number"),
    ("a.json", "[[1,2],[3,-Infinity],[5,6]]", "row 2, column 2: '-inf' is not a finite number"),
    ("a.json", "[[1,2],[3,1e31],[5,6]]", "row 2, column 2: the number is too large"),
    ("a.json", f"[[1,2],[3,{10**20}],[5,6]]", "row 2, column 2: the number is too large"),
    ("a.json", "[[1,2],[3," + "9" * 5000 + "],[5,6]]", "a.json: "),
    ("a.json", "[" * 100_000, "a.json: "),
    ("a.json", '{"problem": 3, "durations": [[1]]}', "'problem' must be a name"),
    (
        "a.json",
        '{"problem": "pmsp", "hours": [[1]]}',
        "the array 'durations' of the problem 'pmsp' is missing",
    ),
    ("a.json", '{"problem": "pmsp", "duration": [[1]]}', "'duration' is not known; 'durations' is"),
    ("a.json", '{"problem": "pmsp", "durations": 3}', "the object holds no matrix"),
    ("a.json", '{"problem": "navigation", "coordinates": [[0,0],[1,1]]}', "the array 'slowness'"),
    (
        "a.json",
        '{"problem": "navigation", "matrix": [[0,0],[1,1]]}',
        "needs the arrays 'coordinates', 'slowness'",
    ),
    (
        "a.json",
        '{"problem": "atsp", "distances": [[0,1,2],[3,0,4]]}',
        "must be square, got 2 rows and 3 columns",
    ),
    ("a.json", '{"problem": "atsp", "distances": [[0]]}', "at least 2 cities"),
    ("a.json", '{"problem": "atsp", "distances": [[0,-1],[1,0]]}', "negative value -1 at row 1, column 2"),
    ("a.json", '{"durations": [[1,2],[3,4]], "jobs": ["a"]}', "there are 1 names for 2 rows"),
    ("a.json", '{"durations": [[1,2],[3,4]], "jobs": ["a", "a"]}', "'a' occurs twice"),
    ("a.json", '{"durations": [[1,2],[3,4]], "jobs": ["a", {}]}', "'jobs' must be a list of names"),
    ("a.jsonl", '{"durations": [[1,2]]}\n{"durations": [[1,2]]\n', "line 2: this is not JSON"),
    # TSPLIB
    ("a.atsp", "", "DIMENSION must be a whole number"),
    ("a.atsp", atsp("0 1 2"), "must hold 4 numbers for 2 cities in FULL_MATRIX, got 3"),
    ("a.atsp", atsp("0 1 2 0 5"), "must hold 4 numbers"),
    ("a.atsp", atsp("0 1 -2 0"), "negative value -2 at row 2, column 1"),
    ("a.atsp", atsp("0 1 2 nil"), "line 7: 'nil' is not a finite number"),
    ("a.atsp", atsp("0", size=1), "at least 2 cities"),
    ("a.atsp", atsp("0 1 2 0", size="two"), "DIMENSION must be a whole number of cities, got 'two'"),
    ("a.atsp", atsp("0 1 2 0", size="9" * 99), "DIMENSION must be a whole number"),
    ("a.atsp", atsp("0 1 2 0", layout="SPIRAL"), "EDGE_WEIGHT_FORMAT 'SPIRAL' is not supported"),
    ("a.tsp", "just some words", "line 1: 'just some words' is neither"),
    ("a.tsp", b"\x89PNG\r\n\x1a\n\x00", "not text"),
    ("a.tour", "TYPE: TOUR\nTOUR_SECTION\n1 2 3 -1", "this is a tour, not an instance"),
    # NumPy
    ("a.npy", b"", "the file is empty"),
    ("a.npy", b"junk junk junk", "cannot be read as NumPy arrays"),
    ("a.npy", GOOD_NPY[:20], "cannot be read as NumPy arrays"),
    ("a.npy", GOOD_NPY[:-1], "cannot be read as NumPy arrays"),
    ("a.npy", npy(WITH_NAN), "not finite at row 2, column 2"),
    ("a.npy", npy(-OK), "negative value -1.0 at row 1, column 1"),
    ("a.npy", npy(np.array([["a", "b"]])), "must hold numbers"),
    ("a.npy", npy(np.array([[None, 1]]), allow_pickle=True), "cannot be read as NumPy arrays"),
    ("a.npy", npy(np.ones((2, 3), dtype=complex)), "must hold numbers"),
    ("a.npy", npy(np.array(3.0)), "got an array with 0 axes"),
    ("a.npy", npy(np.ones(4)), "got an array with 1 axes"),
    ("a.npy", npy(np.ones((0, 4))), "is empty"),
    ("a.npy", npy(np.ones((0, 4, 4))), "the file holds no instance"),
    ("a.npy", npy(np.full((3, 2), 2**60)), "the value at row 1, column 1 is too large"),
    ("a.npy", npy(np.full((3, 2), 1e300)), "the value at row 1, column 1 is too large"),
    ("a.npz", b"", "the file is empty"),
    ("a.npz", GOOD_NPZ[:-30], "cannot be read as NumPy arrays"),
    ("a.npz", GOOD_NPZ[:150], "cannot be read as NumPy arrays"),
    ("a.npz", npz(problem="pmsp"), "the archive holds no matrix"),
    ("a.npz", npz(problem="pmsp", times=OK[None]), "the array 'durations'"),
    ("a.npz", npz(problem=np.array([1, 2]), durations=OK[None]), "'problem' must be a name"),
    ("a.npz", npz(problem="atsp", distances=OK[None]), "must be square"),
    ("a.npz", npz(coordinates=OK[None], slowness=OK, traffic=OK), "different numbers of instances"),
    # names or numbers
    ("a.csv", ",2,3,4\n2,,5,6\n3,5,,7\n4,6,7,", "say --labels if they are, --no-labels if they are not"),
    ("a.csv", ",2,3\n2,,5\n3,5,", Read("atsp", [[0, 2, 3], [2, 0, 5], [3, 5, 0]], said="empty diagonal"), NO),
    ("a.csv", ",2,3\n2,,5\n3,5,", Read("atsp", [[0, 5], [5, 0]], ("2", "3"), ("2", "3")), YES),
    ("a.csv", ",5,3\n2,,4\n1,6,", Read("atsp", [[0, 5, 3], [2, 0, 4], [1, 6, 0]], said="no names")),
    ("a.csv", ",1,2\n1,-,4\n2,6,-", Read("atsp", [[0, 4], [6, 0]], ("1", "2"), ("1", "2"))),
    ("a.csv", ",0,1\n0,3,4\n1,5,6\n2,7,8", Read("pmsp", TALL, ("0", "1", "2"), ("0", "1"))),
    ("a.csv", ",7,9\n3,3,4\n5,5,6\n2,7,8", "numbers beside a forbidden pair; say --labels"),
    ("a.csv", ",7,9\n3,3,4\n5,5,6\n2,7,8", Read("pmsp", TALL, ("3", "5", "2"), ("7", "9")), YES),
    ("a.csv", ",7,9\n3,3,4\n5,5,6", Read("pmsp", [[None, 7, 9], [3, 3, 4], [5, 5, 6]]), NO, "pmsp"),
    ("a.csv", "Job ID,m1,m2\n1,3,4\n2,5,6\n3,7,8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.csv", "job_id,m1,m2\n17,3,4\n4,5,6\n9,7,8", Read("pmsp", TALL, ("17", "4", "9"), M)),
    ("a.csv", "jobId,m1,m2\n17,3,4\n4,5,6\n9,7,8", Read("pmsp", TALL, ("17", "4", "9"), M)),
    ("a.csv", "id,m1,m2\n1,3,4\n2,5,6\n3,7,8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.csv", "No.,m1,m2\n1,3,4\n2,5,6\n3,7,8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.csv", "Nr;m1;m2\n1;3;4\n2;5;6\n3;7;8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.csv", "Unnamed: 0,m1,m2\n0,3,4\n1,5,6\n2,7,8", Read("pmsp", TALL, ("0", "1", "2"), M)),
    ("a.csv", "id,m1,m2\n1,3,4\n1,5,6\n3,7,8", "the row label '1' occurs twice"),
    ("a.csv", "id,m1,m2\n1,3,4\n2,5,6", Read("pmsp", [[1, 3, 4], [2, 5, 6]], None, ("id", *M)), NO),
    (
        "a.csv",
        "Werk,cut,drill\n1,2,3\n2,3,4\n3,5,6",
        "'Werk' may number the rows (1, 2, 3, …); say --id-column 1",
    ),
    ("a.csv", "part,cut,drill\n104,2,3\n107,3,4\n111,5,6\n112,1,1", "'part' may number the rows"),
    ("a.csv", "part,cut,drill\n907,2,3\n104,3,4\n111,5,6", "'part' may number the rows"),
    (
        "a.csv",
        "part,m1,m2\n1,3,4\n2,5,6\n3,7,8",
        Read("pmsp", TALL, ("1", "2", "3"), M),
        ReadOptions(id_column="part"),
    ),
    ("a.csv", "m1,m2,id\n3,4,1\n5,6,2\n7,8,3", "'id' seems to number the rows; say --id-column 3"),
    (
        "a.csv",
        "m1,m2,id\n3,4,1\n5,6,2\n7,8,3",
        Read("pmsp", TALL, ("1", "2", "3"), M),
        ReadOptions(id_column="3"),
    ),
    ("a.csv", "m1,m2\n3,4\n5,6", "there is no column 'job' (--id-column)", ReadOptions(id_column="job")),
    ("a.csv", "m1,m2\n1,5\n2,6\n3,9", Read("pmsp", [[1, 5], [2, 6], [3, 9]], None, M)),
    ("a.csv", "A,B\n1,5\n2,6\n3,9", Read("pmsp", [[1, 5], [2, 6], [3, 9]], None, ("A", "B"))),
    ("a.csv", "1,5,7\n2,6,3\n3,8,9\n4,1,1", "column 1 may number the rows (1, 2, 3, …)"),
    (
        "a.csv",
        "1,5,7\n2,6,3\n3,8,9\n4,1,1",
        Read("pmsp", [[5, 7], [6, 3], [8, 9], [1, 1]], ("1", "2", "3", "4")),
        ReadOptions(id_column="1"),
    ),
    ("a.csv", "0,1,2\n5,7,2\n4,4,9\n1,3,1", "row 1 may number the columns (0, 1, 2, …); say --labels --id-column 0"),
    (
        "a.csv",
        "0,1,2\n5,7,2\n4,4,9",
        Read("pmsp", [[5, 7, 2], [4, 4, 9]], None, ("0", "1", "2")),
        ReadOptions(labels=True, id_column="0"),
    ),
    ("a.csv", "0,1,2\n1,0,3\n2,3,0", Read("atsp", [[0, 1, 2], [1, 0, 3], [2, 3, 0]]), ReadOptions(), "atsp"),
    ("a.csv", "1,2,3\n4,5,6\n", Read("pmsp", WIDE)),
    (
        "a.csv",
        ",X,Y,Z\nA,1,2,3\nB,4,5,6\nC,7,8,9",
        Read("pmsp", [[1, 2, 3], [4, 5, 6], [7, 8, 9]], ("A", "B", "C"), ("X", "Y", "Z")),
    ),
    ("a.csv", ",X,Y,Z\nA,1,2,3\nB,4,5,6\nC,7,8,9", "the rows have 'A' and the columns 'X'", ReadOptions(), "atsp"),
    ("a.csv", ",A,B,Z\nA,1,2,3\nB,4,5,6\nC,7,8,9", "the rows have 'C' and the columns 'Z'", ReadOptions(), "atsp"),
    ("a.csv", ",A,B,Z\nA,1,2,3\nB,4,5,6\nC,7,8,9", "say which with --problem atsp or --problem pmsp"),
    ("a.csv", ",A,B\nA,0,2\nB,4,0", Read("atsp", [[0, 2], [4, 0]], ("A", "B"), ("A", "B"))),
    ("a.csv", ",a,b\nx,3,4\ny,5,6\nz,7,8", Read("pmsp", TALL, ("x", "y", "z"), ("a", "b"))),
    ("a.csv", "a,3,4\nb,5,6\nx,7,8", Read("pmsp", TALL, ("a", "b", "x"))),
    # comments
    ("a.csv", "#,m1,m2\n1,3,4\n2,5,6\n3,7,8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.csv", "# job,m1,m2\n1,3,4\n2,5,6\n3,7,8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.csv", "#m1,m2\n3,4\n5,6\n7,8", Read("pmsp", TALL, None, M)),
    ("a.txt", "# job m1 m2\n1 3 4\n2 5 6\n3 7 8", Read("pmsp", TALL, ("1", "2", "3"), M)),
    ("a.txt", "# in minutes\n3 4\n5 6\n7 8", Read("pmsp", TALL)),
    ("a.csv", "# minutes, measured\n# job,m1,m2\na,3,4\nb,5,6\nc,7,8", Read("pmsp", TALL, J, M)),
    ("a.csv", "job,m1,m2\n#1,3,4\n#2,5,6\n#3,7,8", Read("pmsp", TALL, ("#1", "#2", "#3"), M)),
    ("a.csv", "#,m1,10\na,3,4\nb,5,6\nc,7,8", "line 1 begins with # and is as wide as the table"),
    ("a.csv", "#,m1,10\na,3,4\nb,5,6\nc,7,8", Read("pmsp", TALL, J), ReadOptions(comments=True)),
    ("a.csv", "m1,m2,m3\n1,2,3\n#4,five,6\n4,5,6", "line 3 begins with # and is as wide as the table"),
    ("a.csv", "#1,3,4\n#2,5,6\n#3,7,8", Read("pmsp", TALL, ("#1", "#2", "#3"))),
    ("a.csv", "a,3,4\n#2,5,6\nc,7,8", "line 2 begins with # and is as wide as the table: a comment or a row?"),
    ("a.csv", "a,3,4\n#2,5,6\nc,7,8", Read("pmsp", TALL, ("a", "#2", "c")), ReadOptions(comments=False)),
    ("a.csv", "a,3,4\n#2,9,9\nb,5,6\nc,7,8", Read("pmsp", TALL, J), ReadOptions(comments=True)),
    ("a.csv", "a,3,4\n# it's \"odd\nb,5,6\nc,7,8", Read("pmsp", TALL, J)),
    # numbers as people write them
    ("a.csv", "1,234;5\n2;3\n4;6", "'1,234' may be 1.234 or 1234; say which mark stands before fractions"),
    ("a.csv", "1,234;5\n2;3\n4;6", Read("pmsp", [[1.234, 5], [2, 3], [4, 6]], said="decimal comma"), COMMA),
    ("a.csv", "1,234;5\n2;3\n4;6", Read("pmsp", [[1234, 5], [2, 3], [4, 6]], said="'1,234' is 1234"), POINT),
    ("a.csv", "1.234;5\n2;3\n4;6", "'1.234' may be 1234 or 1.234"),
    ("a.csv", "1,234;5\n2;3,5\n4;6", Read("pmsp", [[1.234, 5], [2, 3.5], [4, 6]], said="decimal comma")),
    ("a.csv", "1.234,5;5\n2;3\n4;6", Read("pmsp", [[1234.5, 5], [2, 3], [4, 6]], said="decimal comma")),
    ("a.csv", "0,125;5\n2;3\n4;6", Read("pmsp", [[0.125, 5], [2, 3], [4, 6]], said="decimal comma")),
    ("a.csv", "1,5;2.5\n3;4\n5;6", "'2.5' is not a number where ',' stands before fractions, as in '1,5'"),
    ("a.csv", '"1,234",5\n2,3\n4,6', Read("pmsp", [[1234, 5], [2, 3], [4, 6]], said="'1,234' is 1234")),
    ("a.csv", '"1,5",5\n2,3\n4,6', Read("pmsp", [[1.5, 5], [2, 3], [4, 6]], said="decimal comma")),
    ("a.csv", "1.234,5\n2,3\n4,6", Read("pmsp", [[1.234, 5], [2, 3], [4, 6]])),
    ("a.tsv", "1,234\t5\n2\t3\n4\t6", "'1,234' may be 1.234 or 1234"),
    ("a.csv", "1 234;5\n2;3\n4;6", Read("pmsp", [[1234, 5], [2, 3], [4, 6]], said="'1 234' is 1234")),
    ("a.csv", "1\u00a0234;5\n2;3\n4;6", Read("pmsp", [[1234, 5], [2, 3], [4, 6]])),
    ("a.csv", "1\u202f234,5;5\n2;3\n4;6", Read("pmsp", [[1234.5, 5], [2, 3], [4, 6]])),
    ("a.csv", "1'234;5\n2;3\n4;6", Read("pmsp", [[1234, 5], [2, 3], [4, 6]])),
    ("a.csv", "1,234,567.5;5\n2;3\n4;6", Read("pmsp", [[1234567.5, 5], [2, 3], [4, 6]])),
    ("a.csv", "12 34;5\n2;3\n4;6", "'12 34' is not a number"),
    ("a.csv", "−3;5\n2;3\n4;6", "negative value -3"),
    ("a.csv", "1;1,5\n1;1,", Read("pmsp", [[1, 1.5], [1, 1]]), ReadOptions(), "pmsp"),
    # separators, quotes, empty cells around the table
    ("a.csv", "sep=;\n3;4\n5;6\n7;8", Read("pmsp", TALL)),
    ("a.csv", "sep=|\n3|4\n5|6\n7|8", Read("pmsp", TALL)),
    ("a.csv", "\ufeffsep=,\r\nm1,m2\r\n3,4\r\n5,6\r\n7,8\r\n", Read("pmsp", TALL, None, M)),
    ("a.csv", "m1,m2,,\n3,4,,\n5,6,,\n7,8,,\n,,,\n,,,\n", Read("pmsp", TALL, None, M)),
    ("a.csv", ",,\n,m1,m2\n,3,4\n,5,6\n,7,8\n", Read("pmsp", TALL, None, M)),
    ("a.csv", "3,4\n5,6,\n7,8,,", Read("pmsp", TALL)),
    ("a.csv", ",3\n,5\n,7", "column 1 is empty in every row; write '-' if all its pairs are forbidden"),
    ("a.csv", "-,3\n-,5\n-,7", Read("pmsp", [[None, 3], [None, 5], [None, 7]])),
    ("a.csv", 'sep="\n3;4', "the header has 1 cells where line 2 has 2"),
    ("a.csv", "minutes\n3,4\n5,6\n7,8", "the header has 1 cells where line 2 has 2"),
    ("a.csv", "3,4\n,\n5,6\n7,8", "line 2 has only empty cells"),
    ("a.csv", '"cut\nfirst",3,4\nb,5,6\nc,7,8', Read("pmsp", TALL, ("cut first", "b", "c"))),
    ("a.csv", '"say ""hi""",3,4\nb,5,6\nc,7,8', Read("pmsp", TALL, ('say "hi"', "b", "c"))),
    ("a.csv", '"a;b",3,4\nb,5,6\nc,7,8', Read("pmsp", TALL, ("a;b", "b", "c"))),
    ("a.csv", "m1,m2\r3,4\r5,6\r7,8\r", Read("pmsp", TALL, None, M)),
    ("a.csv", "m1,m2,\na,3,4\nb,5,6\nc,7,8", "'m2' is not a number"),
    ("a.csv", "job,m1,,m3\na,3,4,5\nb,5,6,7", "is not a number"),
    # triangles
    ("a.csv", "0\n2,0\n3,4,0", Read("atsp", BOTH, said="the lower triangle, mirrored")),
    ("a.csv", "-\n2,-\n3,4,-", Read("atsp", BOTH)),
    ("a.csv", "0,,\n2,0,\n3,4,0", Read("atsp", BOTH, said="the lower triangle, mirrored")),
    ("a.csv", "0,2,3\n0,4\n0", Read("atsp", BOTH, said="the upper triangle, mirrored")),
    ("a.csv", "0,2,3\n,0,4\n,,0", Read("atsp", BOTH, said="the upper triangle, mirrored")),
    ("a.csv", "A,0\nB,2,0\nC,3,4,0", Read("atsp", BOTH, ("A", "B", "C"), ("A", "B", "C"))),
    ("a.csv", ",A,B,C\nA,0\nB,2,0\nC,3,4,0", Read("atsp", BOTH, ("A", "B", "C"), ("A", "B", "C"))),
    ("a.csv", ",A,B,C\nA,,,\nB,2,,\nC,3,4,", Read("atsp", BOTH, ("A", "B", "C"), ("A", "B", "C"))),
    ("a.csv", "2\n3,4\n5,6,7", "(half a matrix needs its diagonal, zeros or '-')"),
    ("a.csv", "0\n2,0\n3,4,0", "line 2 has 2 cells where line 1 has 1", ReadOptions(), "pmsp"),
    ("a.csv", "0,,\n2,0,\n3,4,0", Read("pmsp", [[0, None, None], [2, 0, None], [3, 4, 0]]), ReadOptions(), "pmsp"),
    ("a.json", "[[0],[2,0],[3,4,0]]", Read("atsp", BOTH, said="the lower triangle, mirrored")),
    ("a.csv", ",,,\n2,,,\n3,4,,\n5,6,7,", "this seems to be half a matrix; it needs its diagonal"),
    (
        "a.csv",
        ",,,\n2,,,\n3,4,,\n5,6,7,",
        Read("pmsp", [[2, None, None], [3, 4, None], [5, 6, 7]]),
        ReadOptions(),
        "pmsp",
    ),
    # forbidden pairs
    ("a.csv", "1,-\nx,2\n3,∞", Read("pmsp", [[1, None], [None, 2], [3, None]], said="3 forbidden pairs")),
    ("a.csv", "1,null\nNone,2\n3,+inf", Read("pmsp", [[1, None], [None, 2], [3, None]])),
    (
        "a.csv",
        ",A,B,C\nA,,2,-\nB,4,,5\nC,x,7,",
        Read("atsp", [[0, 2, None], [4, 0, 5], [None, 7, 0]], ("A", "B", "C"), ("A", "B", "C"), "2 forbidden pairs"),
    ),
    ("a.csv", "4,nan\n2,2\n3,4", "'nan' is not a finite number; a forbidden pair is written as an empty cell"),
    ("a.csv", "4,nan\n2,2\n3,4", Read("pmsp", [[4, None], [2, 2], [3, 4]]), ReadOptions(nan_forbidden=True)),
    ("a.csv", "4,NA\n2,2\n3,4", "'NA' is not a finite number"),
    ("a.csv", "9007199254740992,-\n1,2\n3,4", "too large for an instance with forbidden pairs"),
    ("a.csv", "-,5\n6,-\n1,2", Read("pmsp", [[None, 5], [6, None], [1, 2]])),
    ("a.csv", "-,5\n6,-", Read("pmsp", [[None, 5], [6, None]]), ReadOptions(), "pmsp"),
    (
        "a.json",
        '{"durations": [[1, 2], [3, 4]], "forbidden": [[false, true], [false, false]]}',
        Read("pmsp", [[1, None], [3, 4]], said="1 forbidden pair"),
    ),
    ("a.json", '{"durations": [[1, 2], [3, 4]], "forbidden": [[false, true]]}', "'forbidden' can forbid pairs only as"),
    ("a.npy", npy(np.where(OK == 4, np.inf, OK)), Read("pmsp", [[1.0, 2.0], [3.0, None], [5.0, 6.0]])),
    ("a.npy", npy(np.where(OK == 4, -np.inf, OK)), "not finite at row 2, column 2"),
    ("a.npy", npy(WITH_NAN), Read("pmsp", [[1.0, 2.0], [3.0, None], [5.0, 6.0]]), ReadOptions(nan_forbidden=True)),
    ("a.npz", npz(durations=OK, forbidden=OK == 4), Read("pmsp", [[1.0, 2.0], [3.0, None], [5.0, 6.0]])),
    (
        "a.atsp",
        atsp("9999999 5 9999999 2 9999999 3 4 6 9999999", 3),
        Read("atsp", [[0, 5, None], [2, 0, 3], [4, 6, 0]], said="9999999 is read as forbidden; 1 forbidden pair"),
    ),
    ("a.atsp", atsp("0 5 9999 2 0 3 4 6 0", 3), Read("atsp", [[0, 5, None], [2, 0, 3], [4, 6, 0]])),
    (
        "a.atsp",
        atsp("0 5 9999 2 0 3 4 9999 0", 3),
        Read("atsp", [[0, 5, None], [2, 0, 3], [4, None, 0]], said="2 forbidden pairs"),
    ),
    (
        "a.atsp",
        atsp("0 9999 9999 2 0 3 4 6 0", 3),
        Read("atsp", [[0, 9999, 9999], [2, 0, 3], [4, 6, 0]], said="9999 may mean forbidden, but no tour does without"),
    ),
    ("a.atsp", atsp("0 5 9998 2 0 3 4 6 0", 3), Read("atsp", [[0, 5, 9998], [2, 0, 3], [4, 6, 0]])),
    ("a.csv", "3,4\n5,9999\n7,8", Read("pmsp", [[3, 4], [5, 9999], [7, 8]], said="if it means forbidden, write '-'")),
    # points
    ("a.csv", "city,x,y\na,0,0\nb,3,4", "'x' and 'y' look like coordinates; say --metric euclidean or --metric geo"),
    (
        "a.csv",
        "city,x,y\na,0,0\nb,3,4",
        Read("atsp", [[0.0, 5.0], [5.0, 0.0]], ("a", "b"), ("a", "b"), "straight lines"),
        STRAIGHT,
    ),
    ("a.csv", "city,x,y\na,3,4\nb,5,6", Read("pmsp", TALL[:2], ("a", "b"), ("x", "y")), ReadOptions(), "pmsp"),
    ("a.csv", "lat,lon\n1,2\n3,4\n5,6", "'lat' and 'lon' look like coordinates"),
    ("a.csv", "name,lat,lon,demand\na,1,2,3\nb,3,4,5", "'lat' and 'lon' look like coordinates"),
    (
        "a.csv",
        "name,demand,km,h\na,1,2,3\nb,3,4,5",
        "points are a table of two columns of numbers, got 2 × 3",
        GLOBE,
    ),
    ("a.csv", "lat,lon\n95,2\n3,4", "point 1 has the latitude 95; it must be within ±90", GLOBE),
    ("a.csv", "lon,lat\n95,2\n95,2", Read("atsp", [[0.0, 0.0], [0.0, 0.0]], said="kilometres on the globe"), GLOBE),
    ("a.csv", "0,0\n3,4\n", Read("atsp", [[0.0, 5.0], [5.0, 0.0]]), STRAIGHT),
    ("a.csv", "x,y\n0,0\n3,\n", "point 2 has no number in column 2", STRAIGHT),
    ("a.json", '[{"x": 0, "y": 0}, {"x": 3, "y": 4}]', Read("atsp", [[0.0, 5.0], [5.0, 0.0]]), STRAIGHT),
    ("a.json", '{"coordinates": [[0, 0], [3, 4]]}', "--metric takes distances between coordinates"),
    ("a.json", '{"coordinates": [[0, 0], [3, 4]]}', Read("atsp", [[0.0, 5.0], [5.0, 0.0]]), STRAIGHT),
    ("a.npy", npy(np.array([[0, 0], [3, 4]])), Read("atsp", [[0.0, 5.0], [5.0, 0.0]]), STRAIGHT),
    ("a.tsp", atsp("0 1 2 0"), "a TSPLIB file says itself how distances are taken", STRAIGHT),
    # encodings and packed files
    (
        "a.csv",
        "Ärger,3,4\nb,5,6\nc,7,8".encode("latin-1"),
        Read("pmsp", TALL, ("Ärger", "b", "c"), said="read as Windows-1252"),
    ),
    ("a.csv", "5 €,3,4\nb,5,6\nc,7,8".encode("cp1252"), Read("pmsp", TALL, ("5 €", "b", "c"))),
    ("a.csv", "é,3,4\nb,5,6\nc,7,8".encode("utf-16"), Read("pmsp", TALL, ("é", "b", "c"))),
    ("a.csv", "3,4\n5,6\n7,8".encode("utf-16-le"), "not text"),
    ("a.csv.gz", gzip.compress(b"3,4\n5,6\n7,8"), Read("pmsp", TALL)),
    ("a.json.gz", gzip.compress(b"[[3,4],[5,6],[7,8]]"), Read("pmsp", TALL)),
    ("a.npy.gz", gzip.compress(GOOD_NPY), Read("pmsp", OK.tolist())),
    ("a.gz", gzip.compress(b"3,4\n5,6\n7,8"), Read("pmsp", TALL)),
    ("a.csv", gzip.compress(b"3,4\n5,6\n7,8"), Read("pmsp", TALL)),
    ("a.csv.gz", b"3,4\n5,6\n7,8", "this is not a gzip file"),
    ("a.csv.gz", gzip.compress(b"3,4\n5,6\n7,8")[:-4], "the gzip file is damaged"),
    ("a.csv.gz", b"\x1f\x8bjunk and more junk", "the gzip file is damaged"),
    ("a.csv.gz", gzip.compress(b""), "the file is empty"),
    # names that a terminal would obey
    ("a.csv", "\x1b[31mred,3,4\nb,5,6\nc,7,8", Read("pmsp", TALL, ("\x1b[31mred", "b", "c"))),
    ("a.csv", "3,\x1b[2J\n5,6", r"line 1, column 2: '\x1b[2J' is not a number"),
    # JSON of other programs
    (
        "a.json",
        '[{"job": "a", "m1": 3, "m2": 4}, {"job": "b", "m1": 5, "m2": 6}, {"job": "c", "m1": 7, "m2": 8}]',
        Read("pmsp", TALL, J, M),
    ),
    (
        "a.jsonl",
        '{"job": "a", "m1": 3, "m2": 4}\n{"job": "b", "m1": 5, "m2": 6}',
        Read("pmsp", TALL[:2], ("a", "b"), M),
    ),
    ("a.json", '[{"m1": 3, "m2": 4}, {"m1": 5}]', "record 2 lacks 'm2', unlike record 1"),
    ("a.json", '[{"m1": 3, "m2": 4}, {"m1": 5, "m2": 6, "m3": 7}]', "record 2 also has 'm3', unlike record 1"),
    (
        "a.json",
        '[{"m1": 3, "m2": null}, {"m1": 5, "m2": 6}]',
        Read("pmsp", [[3, None], [5, 6]], None, M),
        ReadOptions(),
        "pmsp",
    ),
    (
        "a.json",
        '{"columns": ["m1", "m2"], "index": ["a", "b", "c"], "data": [[3, 4], [5, 6], [7, 8]]}',
        Read("pmsp", TALL, J, M),
    ),
    (
        "a.json",
        '{"columns": ["m1", "m2"], "index": [0, 1, 2], "data": [[3, 4], [5, 6], [7, 8]]}',
        Read("pmsp", TALL, None, M),
    ),
    (
        "a.json",
        '{"columns": ["job_id", "m1", "m2"], "data": [[4, 3, 4], [9, 5, 6], [2, 7, 8]]}',
        Read("pmsp", TALL, ("4", "9", "2"), M),
    ),
    (
        "a.json",
        '{"columns": ["m1", "m2"], "index": ["a"], "data": [[3, 4], [5, 6]]}',
        "'index' has 1 entries for 2 rows",
    ),
    (
        "a.json",
        '{"columns": ["m1"], "data": [[3, 4], [5, 6]]}',
        "'columns' has 1 names where row 1 of 'data' has 2 entries",
    ),
    ("a.json", '{"m1": {"a": 3}, "m2": {"a": 4}}', "a table is written as a list of records"),
    ("a.json", '[["3", "4"], ["5", "6"], ["7", "8"]]', Read("pmsp", TALL)),
    (
        "a.json",
        '[["3,5", "4"], ["5", "6"], ["7", "8"]]',
        Read("pmsp", [[3.5, 4], [5, 6], [7, 8]], said="decimal comma"),
    ),
    ("a.json", '[["1,234", "4"], ["5", "6"], ["7", "8"]]', "'1,234' may be 1.234 or 1234"),
    ("a.json", '[["job", "m1", "m2"], ["a", 3, 4], ["b", 5, 6], ["c", 7, 8]]', Read("pmsp", TALL, J, M)),
    ("a.json", '{"durations": [[1, 2]], "durations": [[3, 4]]}', "the entry 'durations' occurs twice in an object"),
    ("a.json", '{"durations": [["3", null], [5, "x"]]}', Read("pmsp", [[3, None], [5, None]])),
    ("a.json", "[[1, {}], [2, 3]]", "row 1, column 2: an object is not a number"),
    # zip archives
    ("a.npz", archive(a__txt=b"hello"), "this is a zip archive without NumPy arrays in it"),
    ("a.zip", archive(a__txt=b"hello"), "this is a zip archive without NumPy arrays in it"),
    ("a.npz", archive(durations__npy=GOOD_NPY, readme__txt=b"x"), "'readme.txt' is not a NumPy array"),
    ("a.npz", archive(), "without NumPy arrays"),
    ("a.npy", GOOD_NPY + b"more", "it goes on after the array"),
    ("a.npy", npy(np.array([None]), allow_pickle=True), "it holds Python objects, not numbers"),
    ("a.xlsx", archive(a__txt=b"hello"), "the workbook cannot be read"),
    ("a.xlsx", b"not a zip", "this is not a workbook"),
    ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "a workbook of an old format"),
    # workbooks
    ("a.xlsx", xlsx([["job", "m1", "m2"], ["a", 3, 4], ["b", 5, 6], ["c", 7, 8]]), Read("pmsp", TALL, J, M)),
    (
        "a.xlsx",
        xlsx([["job", "m1", "m2"], ["a", 3.5, None], ["b", 5, 6]]),
        Read("pmsp", [[3.5, None], [5, 6]], ("a", "b"), M),
    ),
    ("a.xlsx", xlsx([[], [None, "m1", "m2"], [None, 3, 4], [None, 5, 6], [None, 7, 8]]), Read("pmsp", TALL, None, M)),
    ("a.xlsx", xlsx([["job", "m1", "m2"], ["a", 3, "four"]]), "cell C2: 'four' is not a number"),
    ("a.xlsx", xlsx([["m1", "m2"], [3, "=A2+1"]]), "cell B2 holds a formula without its value"),
    ("a.xlsx", xlsx([[3, 4], [5, True]]), "cell B2: true is not a number"),
    ("a.xlsx", xlsx([[1.001, 2.125], [3, 4], [5, 6]]), Read("pmsp", [[1.001, 2.125], [3.0, 4.0], [5.0, 6.0]])),
    ("a.xlsx", xlsx([]), "the workbook is empty"),
    ("a.xlsx", xlsx([[3, 4], [5, 6], [7, 8]], "One", Two=[[1]]), "say which sheet is meant with --sheet: 'One', 'Two'"),
    ("a.xlsx", xlsx([[1]], "One", Two=TALL), Read("pmsp", TALL, said="sheet 'Two'"), ReadOptions(sheet="Two")),
    ("a.xlsx", xlsx([[1]], "One"), "there is no sheet 'Two'; it has 'One'", ReadOptions(sheet="Two")),
    (
        "a.xlsx",
        xlsx([["Times", None, None], [None, 3, 4], [None, 5, 6], [None, 7, 8]]),
        Read("pmsp", TALL),
        ReadOptions(range="B2:C4"),
    ),
    ("a.xlsx", xlsx(TALL), "--range must look like B2:F20, got 'all'", ReadOptions(range="all")),
    ("a.xlsx", xlsx(TALL), "from its upper left cell to its lower right one", ReadOptions(range="C3:A1")),
    ("a.csv", "3,4\n5,6\n7,8", "--sheet is for workbooks", ReadOptions(sheet="One")),
    # marks before fractions
    ("a.tsv", "1.000\t2\n3\t4\n5\t6", "line 1, column 1: '1.000' may be 1000 or 1.0; say which mark"),
    ("a.tsv", "1.000\t2\n3\t4\n5\t6", Read("pmsp", [[1000, 2], [3, 4], [5, 6]]), COMMA),
    ("a.tsv", "1.000\t2.5\n3\t4\n5\t6", Read("pmsp", [[1.0, 2.5], [3.0, 4.0], [5.0, 6.0]])),
    ("a.txt", "1.000 2\n3 4\n5 6", Read("pmsp", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])),
    ("a.xlsx", xlsx([["1.234", 2], [3, 4], [5, 6]]), "cell A1: '1.234' may be 1234 or 1.234"),
    # columns that number the rows, without a word above them
    ("a.csv", "1,10,20\n2,30,40\n4,50,60\n7,1,2", "column 1 may number the rows (1, 2, 4, …); say --id-column 1"),
    ("a.csv", "1,10,20\n2,30,40\n4,50,60\n7,1,2", Read("pmsp", NUMBERED), NO),
    ("a.csv", "2020,1,2\n2021,3,4\n2022,5,6", "column 1 may number the rows (2020, 2021, 2022, …)"),
    ("a.csv", "9100,1,2\n9020,3,4\n9450,5,6\n9001,7,9", "column 1 may number the rows (9100, 9020, 9450, …)"),
    ("a.csv", "cut,saw,mill\n101,10,20\n102,30,40\n103,50,60", "column 1 'cut' may number the rows"),
    ("a.csv", "1,2\n3,4\n5,6\n7,8", Read("pmsp", [[1, 2], [3, 4], [5, 6], [7, 8]])),
    ("a.csv", "Auftrag,cut,drill\n7,3,4\n2,5,6\n9,7,8", Read("pmsp", TALL, ("7", "2", "9"), ("cut", "drill"))),
    ("a.csv", "0,1,2\n1,0,3\n2,3,0", "a square matrix (3 × 3) may be distances or processing times"),
    # rows and columns that are none of the matrix
    ("a.csv", "job,m1,m2\na,3,4\nb,5,6\nc,7,8\nTotal,15,18", "the row 'Total' seems not to be one of the matrix"),
    ("a.csv", "job,m1,m2\na,3,4\nb,5,6\nc,7,8\nSumme,15,18", "say --skip Summe to leave it out, --labels if it is"),
    ("a.csv", TOTAL, Read("pmsp", TALL, J, M, "without 'Total'"), ReadOptions(skip=("Total",))),
    ("a.csv", TOTAL, Read("pmsp", [*TALL, [15, 18]], (*J, "Total"), M), YES),
    ("a.csv", TOTAL, Read("pmsp", TALL, J, M), ReadOptions(skip=("row 5",))),
    (
        "a.csv",
        TOTAL,
        Read("pmsp", [[3], [5], [7], [15]], (*J, "Total"), ("m1",)),
        ReadOptions(True, skip=("column 3",)),
    ),
    ("a.csv", TOTAL, "there is no row and no column 'sum' (--skip)", ReadOptions(skip=("sum",))),
    ("a.csv", "job,job\n1,2\n3,4", "there are several called 'job' (--skip)", ReadOptions(skip=("job",))),
    ("a.csv", "m1,m2\na,3,4\nb,5,6\nc,7,8\nq,1,2", Read("pmsp", TALL, J, M), ReadOptions(skip=("q",))),
    ("a.csv", "m0,m1,m2\na,9,3,4\nb,9,5,6\nc,9,7,8", Read("pmsp", TALL, J, M), ReadOptions(skip=("m0",))),
    ("a.csv", "job,m1,m2,Total\na,3,4,7\nb,5,6,11", "the column 'Total' seems not to be one of the matrix"),
    ("a.csv", "job,rank,m1,m2\na,1,3,4\nb,2,5,6\nc,3,7,8", "the column 'rank' seems not to be one of the matrix"),
    ("a.csv", "job,due,m1,m2\na,1,3,4\nb,2,5,6\nc,3,7,8", Read("pmsp", TALL, J, M), ReadOptions(skip=("due",))),
    ("a.csv", ",A,B,Total\nA,0,2,2\nB,3,0,3", "the column 'Total' seems not to be one of the matrix"),
    ("a.csv", "5,6,1\n3,4,5\n7,8,2\n15,18,8", "line 4 is the sum of all rows before it; say --skip 'line 4'"),
    ("a.csv", "5,6,1\n3,4,5\n7,8,2\n15,18,8", Read("pmsp", [[5, 6, 1], [3, 4, 5], [7, 8, 2], [15, 18, 8]]), NO),
    ("a.csv", "3,4,7\n5,6,11\n7,8,15\n7,9,16", "column 3 is the sum of all columns before it; say --skip 'column 3'"),
    ("a.csv", "3,4,7\n5,6,11\n7,8,15", Read("pmsp", TALL), ReadOptions(skip=("column 3",))),
    ("a.csv", "3,4\n5,6\n8,10", Read("pmsp", [[3, 4], [5, 6], [8, 10]])),
    (
        "a.npy",
        GOOD_NPY,
        "only tables of cells (.csv, .tsv, .xlsx, records, frames) have parts to --skip",
        ReadOptions(skip=("row 1",)),
    ),
    ("a.csv", "job,m1,m2\n,min,min\na,3,4\nb,5,6\nc,7,8", Read("pmsp", TALL, J, M), ReadOptions(skip=("row 2",))),
    ("a.csv", "Times\njob,m1,m2\na,3,4\nb,5,6\nc,7,8", Read("pmsp", TALL, J, M), ReadOptions(skip=("Times",))),
    ("a.csv", "3,4,5\n5,6,7\n\n7,8,9\n1,1,1", "line 3 is empty, and more follows"),
    ("a.csv", "3,4\n\n5,6\n\n7,8\n\n", Read("pmsp", TALL)),
    ("a.csv", "m1,m2\n\n3,4\n5,6\n7,8", Read("pmsp", TALL, None, M)),
    # numbers that are names, and names that are numbers
    ("a.csv", "job,1,2\npaint,4,2\ncut,3,5", NUMBERED_MACHINES, ReadOptions(), "pmsp"),
    ("a.json", '[["job", 1, 2], ["paint", 4, 2], ["cut", 3, 5]]', NUMBERED_MACHINES, ReadOptions(), "pmsp"),
    ("a.csv", "Werk,2020,2021\npaint,4,2\ncut,3,5\nsaw,1,1", "row 1 ('Werk', 2020, 2021, …) may be the names"),
    ("a.csv", "5 min;3\n6 min;4", "column 1 may hold names or numbers ('5 min', '6 min'); say --id-column 1"),
    ("a.csv", "5 min;3\n6 min;4", "line 1, column 1: '5 min' is not a number", NO),
    ("a.csv", "$5,$6\n3,4\n5,6", "row 1 may hold names or numbers ('$5', '$6'); say --labels --id-column 0"),
    ("a.csv", "job;m1\n5 min;3\n6 min;4", Read("pmsp", [[3], [4]], ("5 min", "6 min"), ("m1",))),
    ("a.csv", "1.1,5,3\n1.2,2,4\n2.1,9,1\n2.2,4,4", "column 1 may number the rows (1.1, 1.2, 2.1, …)"),
    ("a.csv", "3,1,2\n2,9,9\n4,8,8\n1,7,7", "column 1 may number the rows (3, 2, 4, …)"),
    ("a.json", '[["1.1", 5, 3], ["1.2", 2, 4], ["2.1", 9, 1], ["2.2", 4, 4]]', "column 1 may number the rows"),
    # what is empty, and sums of all kinds
    ("a.csv", "3,,4\n5,,6\n7,,8", "column 2 is empty in every row; write '-' if all its pairs are forbidden"),
    ("a.csv", "3,4\n5,6\n,\n7,8", "line 3 has only empty cells"),
    ("a.csv", "m1,m2,m3\n1.5,2.25,3\n3.5,4.5,1\n2,1,4\n2.3,2.6,2.7", "line 5 is the mean of all rows before it"),
    ("a.csv", "m1,m2,m3\n7,7.75,8\n1.5,2.25,3\n3.5,4.5,1\n2,1,4", "line 2 is the sum of all rows after it"),
    ("a.csv", "job,m1,m2\nJ1,3,4\nJ2,5,6\nJ3,7,8\nВсё,15,18", "the row 'Всё' seems not to be one of the matrix"),
    ("a.csv", "job,m1,m2,m3,délai\na,3,4,1,9\nb,5,6,2,9", "the column 'délai' seems not to be one of the matrix"),
    # lists of pairs
    ("a.csv", "from,to,km\nA,B,3\nB,A,4\nA,C,5", "a list with a pair a line is not read, only a matrix"),
    ("a.csv", "0,1,5\n0,2,6\n1,2,7\n2,1,4", "this seems to be a list with a pair a line"),
    ("a.csv", "job,machine,time\n0,0,3\n1,1,4\n2,0,5\n3,1,6", "the column 'machine' seems to hold names"),
    (
        "a.json",
        '[{"job": 1, "machine": 2, "time": 3}, {"job": 2, "machine": 1, "time": 4}]',
        "a list with a pair a line",
    ),
    # the other way round
    ("a.csv", "machine,j1,j2,j3\nsaw,3,5,7\ndrill,4,6,8", "the rows seem to be machines, and must be jobs"),
    ("a.csv", "machine,j1,j2,j3\nsaw,3,5,7\ndrill,4,6,8", Read("pmsp", TALL, JJ, ("saw", "drill")), TURN),
    ("a.csv", "machine,j1,j2,j3\nA,1,2,3\nB,4,5,6", Read("pmsp", WIDE, ("A", "B"), JJ), ReadOptions(transpose=False)),
    ("a.csv", ",job 1,job 2,job 3\nA,1,2,3\nB,4,5,6", "say --transpose if they are machines, --no-transpose if"),
    ("a.csv", ",J1,J2,J3\nsaw,3,5,7\ndrill,4,6,8", "the rows seem to be machines, and must be jobs"),
    ("a.csv", "job\\machine,A,B\n1,3,4\n2,5,6\n3,7,8", Read("pmsp", TALL, ("1", "2", "3"), ("A", "B"))),
    ("a.csv", "to/from,A,B,C\nA,0,4,6\nB,2,0,7\nC,3,5,0", "by 'to/from' in the corner rows may be where one goes to"),
    ("a.csv", "to/from,A,B,C\nA,0,4,6\nB,2,0,7\nC,3,5,0", Read("atsp", CITIES, ABC, ABC, "changed places"), TURN),
    ("a.csv", "from/to,A,B,C\nA,0,2,3\nB,4,0,5\nC,6,7,0", Read("atsp", CITIES, ABC, ABC)),
    ("a.csv", "1,2,3\n4,x,6", Read("pmsp", [[1, 4], [2, None], [3, 6]]), TURN_NO),
    ("a.npy", npy(np.array(WIDE)), Read("pmsp", [[1, 4], [2, 5], [3, 6]]), TURN),
    ("a.json", '{"durations": [[1, 2, 3], [4, 5, 6]]}', "--transpose is for a table, or for one matrix", TURN),
    # names above and beside that are not quite the same
    ("a.csv", ",A,B,C\nB,0,1,2\nA,3,0,4\nC,5,6,0", "rows and columns must be in the same order", ReadOptions(), "atsp"),
    ("a.csv", ",A,B,C\nB,0,1,2\nA,3,0,4\nC,5,6,0", "may be distances or processing times"),
    ("a.csv", ",a,b,c\nA,0,1,2\nB,3,0,4\nC,5,6,0", "may be distances or processing times"),
    ("a.csv", ",A,B,C\nA,0,1,2\nB,3,0,4", "part of a matrix of distances? say --problem pmsp"),
    ("a.csv", ",A,B\nA,1,2\nB,3,4\nC,5,6", Read("pmsp", [[1, 2], [3, 4], [5, 6]], ABC, ("A", "B"))),
    # coordinates
    ("a.csv", "city,x,y,demand\na,0,0,3\nb,3,4,5", "'x' and 'y' look like coordinates"),
    ("a.csv", "city,x,y,demand\na,0,0,3\nb,3,4,5", Read("atsp", FIVE, AB, AB, "'demand' not used"), STRAIGHT),
    ("a.csv", "city,x (km),y (km)\na,0,0\nb,3,4", "'x (km)' and 'y (km)' look like coordinates"),
    ("a.csv", "Ort,Breite,Länge\na,0,0\nb,3,4", "'Breite' and 'Länge' look like coordinates"),
    ("a.csv", "y,x\n0,0\n4,3", Read("atsp", FIVE), STRAIGHT),
    ("a.csv", "0,95\n0,95", Read("atsp", NOWHERE, said="of latitude and longitude, in this order"), GLOBE),
    ("a.csv", "x,y\n95,0\n95,0", Read("atsp", NOWHERE, said="of longitude and latitude, in this order"), GLOBE),
    ("a.csv", "job,x,y,z\na,3,4,1\nb,5,6,1\nc,7,8,1", Read("pmsp", [[3, 4, 1], [5, 6, 1], [7, 8, 1]], J, XYZ), LIKE),
    # JSON that says more than is heard, or something else
    (
        "a.json",
        '{"durations": [[3, 4], [5, 6], [7, 8]], "due": [1, 2, 3], "unit": "h"}',
        Read("pmsp", TALL, said=UNUSED),
    ),
    ("a.json", '{"problem": "pmsp", "durations": [[1]], "matrix": [[2]]}', "a 'matrix' and an array 'durations'"),
    ("a.json", '{"durations": [[1, 2], [3, 4]], "forbidden": [[0, 1], [1, 0]]}', "may be a mask or a list of pairs"),
    ("a.json", '{"durations": [[1, 2], [3, 4]], "forbidden": "nan"}', "'forbidden' must be a matrix of true and false"),
    ("a.json", '{"durations": [[1, 2]], "forbiden": [[true, false]]}', "'forbiden' is not known; 'forbidden' is"),
    ("a.json", '{"durations": [[1, 2]], "job": ["a"]}', "'job' is not known; 'jobs' is"),
    ("a.json", '{"durations": [[1, 2]], "jobs": 1, "machines": 2}', Read("pmsp", [[1, 2]])),
    ("a.json", '{"durations": [[1, 2]], "jobs": [true]}', "'jobs' must be a list of names"),
    ("a.json", '{"durations": [[1, 2], [3, 4], [5, 6]], "jobs": ["\\ud800", "b", "c"]}', HALVED),
    ("a.json", "[[1, 2], [3, 1e400], [5, 6]]", "row 2, column 2: the number is too large"),
    ("a.json", "[[1, 2], [3, Infinity], [5, 6]]", Read("pmsp", [[1, 2], [3, None], [5, 6]])),
    ("a.jsonl", '{"job": "a\u2028b", "m1": 3, "m2": 4}\n{"job": "c", "m1": 5, "m2": 6}', SPLIT),
    # workbooks that show something else than they hold
    ("a.xlsx", xlsx([["m1", "m2"], *TALL], hidden_rows=[3]), "row 3 is hidden; say --hidden to read it, --no-hidden"),
    ("a.xlsx", xlsx([["m1", "m2"], *TALL], hidden_rows=[3]), Read("pmsp", TALL, None, M), ReadOptions(hidden=True)),
    ("a.xlsx", xlsx([["m1", "m2"], *TALL, [9, 9]], hidden_rows=[5]), SHOWN, ReadOptions(hidden=False)),
    ("a.xlsx", xlsx([["m1", "m2"], *TALL], hidden_columns="B"), "column B is hidden; say --hidden to read it"),
    ("a.xlsx", xlsx([["m1", "m2"], *TALL], hidden_rows=[9]), Read("pmsp", TALL, None, M)),
    ("a.xlsx", xlsx([["m1", "m2"], [3, None], [5, 6]], merged="A2:B2"), "the cells A2:B2 are merged; separate them"),
    ("a.xlsx", xlsx([["T"], ["m1", "m2"], *TALL], merged="A1:B1"), "the cells A1:B1 are merged; separate them"),
    (
        "a.xlsx",
        xlsx([["T"], ["m1", "m2"], *TALL], merged="A1:B1"),
        Read("pmsp", TALL, None, M),
        ReadOptions(range="A2:B5"),
    ),
    ("a.csv", "3,4\n5,6\n7,8", "--hidden is for workbooks", ReadOptions(hidden=True)),
]
