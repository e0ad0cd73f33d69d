"""Solutions in and out: every form that is written is read back, wrong ones are refused clearly."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from icdc.errors import InputError, UsageError
from icdc.io import choice_of, read_solution, write_solution
from icdc.io.wishes import read_pairs
from icdc.problems.atsp import Atsp
from icdc.problems.base import Instance, Names, Problem
from icdc.problems.pmsp import Pmsp

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
