"""Files of fixed pairs and of busy machines: every way to write them, and what is wrong with the others."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc.errors import IcdcError, InputError, UsageError
from icdc.io.wishes import read_busy, read_pairs


def written(folder: Path, content: str) -> Path:
    path = folder / "asked.txt"
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ("job,machine\npaint,M1\n", [("paint", "M1")]),
        ("From;To\na b;c\n\n", [("a b", "c")]),
        ("a\tb\nc\td", [("a", "b"), ("c", "d")]),
        ("0 3\n2 1\n", [("0", "3"), ("2", "1")]),
        ('"a, b",c\n', [("a, b", "c")]),
        ("#1,#2\n", [("#1", "#2")]),  # names, no comment
        ("job,M1\n", [("job", "M1")]),  # no header: the second word is none of one
        ('{"a": "b", "c": 1}', [("a", "b"), ("c", 1)]),
        ('[["a", 0], [1, "b"]]', [("a", 0), (1, "b")]),
    ],
)
def test_pairs(tmp_path: Path, content: str, pairs: list[Any]) -> None:
    assert read_pairs(written(tmp_path, content)) == pairs


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "the file is empty"),
        ("job,machine\n", "there are no pairs in it"),
        ("a,b\nc\n", "line 2 must have two cells, got 1"),
        ("a,b,c\n", "line 1 must have two cells, got 3"),
        ("a,\n", "line 1 has an empty cell"),
        ('a,b\n"c,d\n', "line 2 cannot be read as a table"),
        ("position,city\n0,a\n", "this is a whole solution; fixed steps are pairs"),
        ('[["a"]]', "entry 1 is no pair of names or numbers"),
        ('[["a", 1.5]]', "entry 1 is no pair"),
        ('{"a": true}', "entry 1 is no pair"),
        ("{}", "there are no pairs in it"),
        ("[1, 2", "line 1: this is not JSON"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": 1}\n{"b": 1}', "there must be one object or one list in it, not 2"),
    ],
)
def test_what_are_no_pairs(tmp_path: Path, content: str, sentence: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("content", "times"),
    [
        ("machine,until\nM1,5\nM2,2.5\n", {"M1": 5, "M2": 2.5}),
        ("M1;5\n", {"M1": 5}),
        ("5\n0\n2.5\n", [5, 0, 2.5]),
        ("until\n5\n", [5]),
        ('{"M1": 5, "M2": 0.5}', {"M1": 5, "M2": 0.5}),
        ("[5, 0]", [5, 0]),
    ],
)
def test_times(tmp_path: Path, content: str, times: Any) -> None:
    assert read_busy(written(tmp_path, content)) == times


def test_a_decimal_comma(tmp_path: Path) -> None:
    assert read_busy(written(tmp_path, "M1;2,5\n"), ",") == {"M1": 2.5}
    assert read_busy(written(tmp_path, "machine;until\nM1;2,5\nM2;1.234,5\n")) == {"M1": 2.5, "M2": 1234.5}
    assert read_busy(written(tmp_path, "M1;2.5\nM2;3\n")) == {"M1": 2.5, "M2": 3}
    with pytest.raises(UsageError, match=r"line 2: .1,234. may be 1\.234 or 1234"):
        read_busy(written(tmp_path, "machine;until\nM1;1,234\n"))
    assert read_busy(written(tmp_path, "machine;until\nM1;1,234\n"), ".") == {"M1": 1234}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (" \n", "the file is empty"),
        ("machine,until\n", "there are no times in it"),
        ("M1,5,6\n", "line 1 must have a machine and a time"),
        ("M1,5\n6\n", "line 2 must have a machine and a time"),
        ("6\nM1,5\n", "line 2 must have a machine and a time"),
        ("M1,soon\n", "line 1: "),
        ("M1,5\nM1,6\n", "line 2 names 'M1' again"),
        ('{"M1": "5"}', "entry 1 is not a time"),
        ("[true]", "entry 1 is not a time"),
        ("[]", "there are no times in it"),
    ],
)
def test_what_are_no_times(tmp_path: Path, content: str, sentence: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_busy(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


_PIECES = st.sampled_from([*'a,;\t \n"[]{}:0#', "M1", "-1", "1e999", "null"])


@given(st.lists(_PIECES, max_size=30).map("".join) | st.text(max_size=30))
def test_junk_is_refused_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    """Whatever a file holds, it is read, or refused by a sentence that names it."""
    path = tmp_path_factory.mktemp("junk") / "asked.txt"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    for reader in (read_pairs, read_busy):
        said = None
        try:
            found = reader(path)
        except IcdcError as error:
            found, said = None, str(error)
        assert found or str(said).startswith(f"{path}: ")
