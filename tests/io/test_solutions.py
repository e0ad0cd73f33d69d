"""Solutions, their pictures, fixed pairs and busy machines: what is written is read, and what is wrong is said."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from icdc.errors import IcdcError, InputError, UsageError
from icdc.io import Instance, choice_of, read_solution, save_animation, save_solution, write_solution
from icdc.io.solutions import read_busy, read_pairs
from icdc.plots import Frame
from icdc.problems import Atsp, Navigation, Pmsp
from icdc.problems.base import Problem
from icdc.problems.instance import Names

TOUR = Instance("t.atsp", Atsp(), {"distances": np.arange(16).reshape(4, 4)}, *(("a", "b", "c", "d"),) * 2)
SHOP = Instance("p.csv", Pmsp(), {"durations": np.arange(9).reshape(3, 3)}, ("1", "2", "3"), ("x", "y", "z"))
PLAIN = Instance("p.csv", Pmsp(), {"durations": np.arange(9).reshape(3, 3)})


@settings(deadline=None)
@given(tour=st.permutations(range(4)), ending=st.sampled_from([".tour", ".csv", ".json", ".txt"]))
def test_tours_round_trip(tmp_path_factory: pytest.TempPathFactory, tour: list[int], ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"answer{ending}"
    choice = choice_of(tour, TOUR)
    write_solution(path, TOUR, choice)
    np.testing.assert_array_equal(read_solution(path, TOUR), choice)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), min_size=3, max_size=3), st.sampled_from([".csv", ".json", ".txt"]))
def test_schedules_round_trip(tmp_path_factory: pytest.TempPathFactory, machines: list[int], ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"answer{ending}"
    for instance in (SHOP, PLAIN):
        write_solution(path, instance, np.array(machines))
        assert read_solution(path, instance).tolist() == machines


def test_a_schedule_is_written_with_its_names(tmp_path: Path) -> None:
    write_solution(tmp_path / "s.csv", SHOP, np.array([2, 0, 2]))
    assert (tmp_path / "s.csv").read_text() == "job,machine\n1,z\n2,x\n3,z\n"


class Shifts(Pmsp):
    """A problem of one's own with its own words."""

    name = "shifts"
    row_words = ("nurse", "nurses")
    column_words = ("shift", "shifts")


class Pairs(Atsp):
    """Rows and columns are the same items, and a solution is no tour: each item names its partner."""

    solution_is_tour = False

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        return Problem.solution(self, choice)

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        return Problem.choice(self, solution)


def test_a_problem_of_ones_own_has_its_own_words(tmp_path: Path) -> None:
    """They are written, and both they and those of the problems that ship are read."""
    ward = Instance("w.csv", Shifts(), {"durations": np.ones((2, 2))}, ("Ann", "Bo"), ("early", "late"))
    path = tmp_path / "s.csv"
    write_solution(path, ward, np.array([1, 0]))
    assert path.read_text() == "nurse,shift\nAnn,late\nBo,early\n"
    for header in ("nurse,shift", " nurse , shift", "job,machine", "position,city"):
        path.write_text(f"{header}\nBo,early\nAnn,late\n")
        assert read_solution(path, ward).tolist() == [1, 0]
    path.write_text("nurse,shift\nBo,early\nBo,late\n")
    with pytest.raises(InputError, match="every nurse must be named exactly once"):
        read_solution(path, ward)
    with pytest.raises(InputError, match="'nurse' is neither a number nor a name"):
        read_solution(path, SHOP)


def test_the_same_items_need_not_make_a_tour(tmp_path: Path) -> None:
    """What is no tour is not written as one, and its table says row by row what was chosen."""
    pairs = Instance("p", Pairs(), {"distances": np.ones((4, 4))}, *(("a", "b", "c", "d"),) * 2)
    choice = np.array([1, 0, 3, 2])
    with pytest.raises(UsageError, match="is not a tour"):
        write_solution(tmp_path / "s.tour", pairs, choice)
    write_solution(tmp_path / "s.csv", pairs, choice)
    assert (tmp_path / "s.csv").read_text() == "city,city\na,b\nb,a\nc,d\nd,c\n"
    assert read_solution(tmp_path / "s.csv", pairs).tolist() == choice.tolist()


def test_a_tour_is_written_by_position(tmp_path: Path) -> None:
    write_solution(tmp_path / "s.csv", TOUR, choice_of([0, 2, 1, 3], TOUR))
    assert (tmp_path / "s.csv").read_text() == "position,city\n0,a\n1,c\n2,b\n3,d\n"


@pytest.mark.parametrize(
    "text",
    [
        "z x z",
        "2, 0, 2",
        "2\n0\n2\n",
        '["z", "x", "z"]',
        "[2, 0, 2]",
        '{"problem": "pmsp", "instance": "elsewhere", "solution": [2, 0, 2]}',
        '{"instance": "q.csv", "solution": [0, 0, 0]}\n{"instance": "p.csv", "solution": [2, 0, 2]}',
        "job,machine\n3,z\n1,z\n2,x",
        "job;machine\n3;z\n1;z\n2;x",
        "job\tmachine\n3\tz\n1\tz\n2\tx",
        "Job, Machine\n1, z\n2, x\n3, z",
        '"job","machine"\n"1","z"\n"2","x"\n"3","z"',
        "machine\nz\nx\nz",
        "Machine\n2\n0\n2",
    ],
)
def test_forms_of_a_schedule(tmp_path: Path, text: str) -> None:
    (tmp_path / "s").write_text(text)
    assert read_solution(tmp_path / "s", SHOP).tolist() == [2, 0, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("0 1", "the solution has 2 entries where the instance needs 3"),
        ("0 1 3", "entry 3 of the solution is 3; it must be from 0 to 2"),
        ("0 1 -1", "entry 3 of the solution is -1"),
        ("0 1 w", "'w' is neither a number nor a name of this instance"),
        ("[0, 1, 1.5]", "entry 3 of the solution is not a whole number"),
        ("[0, 1, true]", "entry 3 of the solution is not a whole number"),
        ('{"problem": "atsp", "solution": [0, 1, 2]}', "this solves 'atsp', not 'pmsp'"),
        ('{"solution": 3}', "there is no list of items in it"),
        ("[0, 1", "line 1: this is not JSON"),
        ("[1]\n[2]", "none of the 2 lines is for p.csv"),
        ("job,machine\n1,x\n2,y\n", "job '3' is missing; every job must be named exactly once"),
        ("job,machine\n1,x\n1,y\n2,z\n", "line 3 names job '1' again; every job must be named exactly once"),
        ("# mine\n\njob,machine\n1,x\n1,y\n2,z\n", "line 5 names job '1' again"),
        ("job,machine\n1,x\n2,y\n3,z\n9,x\n", "there is no job 9; they count from 0 to 2"),
        ("job,machine\n0,x\n1,y\n2,z\n-1,x\n", "there is no job -1; they count from 0 to 2"),
        ("job,machine\n1,x\n2,y\n3,z\nJ9,x\n", "'J9' is neither a number nor a name of this instance"),
        ("job,machine\n1,x\n2,Y\n3,z\n", "'Y' is neither a number nor a name of this instance; 'y' is one"),
        ("x y 1", "'x' is a name and '1' is none; use names or numbers from 0"),
        ("job,machine\n1,x,y\n", "line 2 must have two cells, got 3"),
    ],
)
def test_wrong_schedules(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_solution(path, SHOP)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TYPE: TOUR\nTOUR_SECTION\n1 2 2 4 -1", "exactly once; 'b' is named more than once and 'c' is missing"),
        ("TYPE: TOUR\nTOUR_SECTION\n1 2 3 5 -1", "entry 4 of the solution is 4"),
        ("TYPE: ATSP\nDIMENSION: 1\nEDGE_WEIGHT_SECTION\n0", "this is an instance, not a tour"),
    ],
)
def test_wrong_tours(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.tour"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_solution(path, TOUR)


SPACED = Instance("p.csv", Pmsp(), {"durations": np.ones((2, 2))}, ("a;b", "c, d"), ("big saw", "machine"))


def test_names_with_blanks_and_marks(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    write_solution(path, SPACED, np.array([1, 0]))
    assert read_solution(path, SPACED).tolist() == [1, 0]
    for text in ("machine\nbig saw\n", "big saw\nmachine\n", "big saw, machine"):
        path.write_text(text)
        first = 1 if text.startswith("machine") else 0
        assert read_solution(path, SPACED).tolist() == [first, 1 - first]


def test_wrong_endings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a solution is written as"):
        write_solution(tmp_path / "s.xlsx", SHOP, np.array([0, 0, 0]))
    with pytest.raises(UsageError, match="is not a tour"):
        write_solution(tmp_path / "s.tour", SHOP, np.array([0, 0, 0]))
    assert list(tmp_path.iterdir()) == []


def test_positions_are_numbers_even_where_cities_are_called_by_numbers(tmp_path: Path) -> None:
    numbered = Instance("t", Atsp(), TOUR.arrays, *(("3", "2", "1", "0"),) * 2)
    choice = choice_of([0, 2, 1, 3], numbered)
    write_solution(tmp_path / "s.csv", numbered, choice)
    assert read_solution(tmp_path / "s.csv", numbered).tolist() == choice.tolist()


@pytest.mark.parametrize("names", [("1", "2", "3"), ("2", "1", "0"), ("10", "1", "x"), ("-1", "0", "1")])
@pytest.mark.parametrize("ending", [".csv", ".json", ".txt"])
def test_every_choice_is_read_back_where_names_are_numbers(tmp_path: Path, names: Names, ending: str) -> None:
    """As it was meant, though numbers count from 0 and names do not."""
    shop = Instance("p.csv", Pmsp(), {"durations": np.ones((3, 3))}, names, names)
    tour = Instance("p.csv", Atsp(), {"distances": np.ones((3, 3))}, names, names)
    path = tmp_path / f"s{ending}"
    for instance in (shop, tour):
        for choice in product(range(3), repeat=3):
            if instance is tour and choice not in ((1, 2, 0), (2, 0, 1)):
                continue
            write_solution(path, instance, np.array(choice))
            assert read_solution(path, instance).tolist() == list(choice)


def test_a_list_that_may_be_names_or_numbers_is_asked(tmp_path: Path) -> None:
    shop = Instance("p.csv", Pmsp(), {"durations": np.ones((3, 3))}, None, ("1", "2", "3"))
    path = tmp_path / "s"
    for text, meant in (
        ("1 1 2", "'1' may be a name or a number from 0; begin the file with a line '# names' or '# numbers from 0'"),
        ("# names\n1 1 2", [0, 0, 1]),
        ("# numbers from 0\n1 1 2", [1, 1, 2]),
        ("1 1 3", [0, 0, 2]),
        ("0 1 1", [0, 1, 1]),
        ("[1, 1, 2]", [1, 1, 2]),
        ('["1", "1", "2"]', [0, 0, 1]),
        ("job,machine\n0,1\n1,1\n2,2", [0, 0, 1]),
    ):
        path.write_text(text)
        if isinstance(meant, list):
            assert read_solution(path, shop).tolist() == meant
        else:
            with pytest.raises(InputError, match=re.escape(meant)):
                read_solution(path, shop)


ODD = ("=1+1", "'=1+1", "+x", "-2", "@sum", "＝q", "#1", "''=1+1", "plain")


def test_no_cell_of_a_table_is_a_formula(tmp_path: Path) -> None:
    """A spreadsheet would run what begins so; what was written is read back, as a solution and as fixed pairs."""
    shop = Instance("p.csv", Pmsp(), {"durations": np.ones((9, 9))}, ODD, ODD)
    path = tmp_path / "s.csv"
    choice = np.arange(9)[::-1].copy()
    write_solution(path, shop, choice)
    for line in path.read_text().splitlines():
        assert not any(cell[0] in "=+-@＝" for cell in line.split(","))
    assert read_solution(path, shop).tolist() == choice.tolist()
    assert "'=1+1,plain\n" in path.read_text().replace("''=1+1,plain", "")
    assert dict(read_pairs(path)) == dict(zip(shop.row_labels(range(9)), shop.item_labels(choice), strict=True))
    write_solution(tmp_path / "s.txt", shop, choice)
    assert read_solution(tmp_path / "s.txt", shop).tolist() == choice.tolist()


RNG = np.random.default_rng(0)
DURATIONS = RNG.integers(2, 20, (12, 3))
MACHINE_OF = RNG.integers(0, 3, 12)
POINTS = RNG.random((9, 2))
DISTANCES = np.hypot(*(POINTS[:, None] - POINTS[None]).transpose(2, 0, 1))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_as_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"p.{ending}"
    save_solution(path, Instance("p", Pmsp(), {"durations": DURATIONS}), MACHINE_OF)
    first = path.read_bytes()
    assert first[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_picture_shows_the_bound_and_no_date(tmp_path: Path) -> None:
    instance = Instance("p", Pmsp(), {"durations": DURATIONS})
    for name, bound in (("with.svg", 20.0), ("without.svg", None)):
        save_solution(tmp_path / name, instance, MACHINE_OF, bound)
    shown, plain = ((tmp_path / name).read_text() for name in ("with.svg", "without.svg"))
    assert "<!-- makespan" in plain
    assert ", bound 20 -->" in shown
    assert ", bound" not in plain
    assert "date>" not in shown


def test_tours_as_files(tmp_path: Path) -> None:
    choice = Atsp().choice(list(range(9)))
    save_solution(tmp_path / "a.png", Instance("a", Atsp(), {"distances": DISTANCES}, coordinates=POINTS), choice)
    drawn = Navigation().sample(1, (9,), RNG)
    instance = Instance("n", Navigation(), {name: array[0] for name, array in drawn.items()})
    save_solution(tmp_path / "n.png", instance, choice)
    with Image.open(tmp_path / "a.png") as with_map, Image.open(tmp_path / "n.png") as without:
        assert with_map.size == without.size == (1800, 840)


def frames(count: int) -> list[Frame]:
    return [Frame(t, RNG.random((9, 9)) < 0.1, RNG.random((9, 9)), 3.5) for t in range(count, 0, -1)]


def test_animation_has_a_picture_for_each_step_and_the_solution(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    save_animation(path, frames(4), order=range(9), final=np.eye(9), seconds=3.0)
    with Image.open(path) as gif:
        assert gif.n_frames == 5
        assert gif.info["loop"] == 0
        gif.seek(4)
        assert gif.info["duration"] == 1500
    with pytest.raises(UsageError, match="no step"):
        save_animation(path, [])


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
