"""One machine with setups, and the no-wait flow shop: times by hand, tables in every shape, words and pictures."""

from typing import Any

import numpy as np
import pytest

import icdc
from icdc.conformance import assert_conforms
from icdc.errors import InputError, UsageError
from icdc.io import instances_from, read_instances, read_solution, write_solution
from icdc.problems import BUILT_IN, SHIPPED, get_problem, problem_path
from icdc.problems.instance import Instance
from icdc.problems.sequencing import FlowShop, Sequencing, Setups
from icdc.problems.tensors import to_tensors


def read(value: Any, problem: Sequencing) -> Instance:
    (instance,) = instances_from(value, problem, "x")
    return instance


@pytest.mark.parametrize("problem", [FlowShop(), Setups()], ids=lambda problem: problem.name)
def test_they_keep_the_contract(problem: Sequencing) -> None:
    assert_conforms(problem, (4, 2)[: len(problem.size_names)])


@pytest.mark.parametrize("kind", [FlowShop, Setups])
def test_tensors_and_arrays_cost_the_same(kind: type[Sequencing]) -> None:
    problem = kind()
    arrays = problem.sample(3, (5, 4)[: len(problem.size_names)], np.random.default_rng(1))
    made = problem.cost_matrix(arrays)
    assert np.array_equal(made, problem.travel(to_tensors(arrays)).numpy())
    assert made.shape == (3, 6, 6)
    assert np.issubdtype(made.dtype, np.integer)


def test_they_have_names() -> None:
    assert not {"flow-shop", "setups"} & set(BUILT_IN)  # no matrix is taken for one of them unasked
    for name in ("flow-shop", "setups"):
        assert problem_path(get_problem(name)) == name
        assert SHIPPED[name].name == name
    with pytest.raises(UsageError, match="flow-shop, setups, or module:Class"):
        get_problem("flowshop")


def test_a_flow_shop_by_hand() -> None:
    """Two machines: b (1, 5) before a (4, 2) ends at 8; the other way round b begins at 5, and ends at 11."""
    answer = icdc.solve([[4, 2], [1, 5]], problem="flow-shop")
    assert (answer.solution, answer.objective, answer.optimal) == ([1, 0], 8, True)
    assert answer.timetable == {"start": [[0, 1], [2, 6]], "end": [6, 8]}
    instance = read([[4, 2], [1, 5]], FlowShop())
    assert FlowShop().timetable(instance, FlowShop().choice([0, 1])) == {"start": [[0, 4], [5, 6]], "end": [6, 11]}
    assert FlowShop().cost_matrix(instance.batch())[0].tolist() == [[0, 5, 6], [2, 0, 6], [0, 0, 0]]


def test_setups_by_hand() -> None:
    setups = {"setups": [[0, 9, 1], [2, 0, 9], [9, 3, 0]], "durations": [10, 20, 30], "initial": [5, 0, 9]}
    answer = icdc.solve(setups, problem="setups")
    assert (answer.solution, answer.objective) == ([1, 0, 2], 63)
    assert answer.timetable == {"setup": [0, 2, 1], "start": [0, 22, 33], "end": [20, 32, 63]}
    assert "setups take 3 of it" in str(answer)
    assert "  0  setup 2  starts 22  ends 32" in str(answer)
    assert str(answer).startswith("instance: 3 jobs on one machine, makespan 63, optimal")
    # without times of their own, the makespan is what setups take
    for given in (setups["setups"], {"setups": setups["setups"]}):
        assert icdc.solve(given, problem="setups").objective == 3


TABLES = {
    "the matrix alone": (",a,b\na,0,2\nb,3,0\n", [0, 0], [0, 0], "2 jobs; row 1 and column 1 are names"),
    "a first row": (
        ",a,b\nstart,5,6\na,0,2\nb,3,0\n", [0, 0], [5, 6],
        "2 jobs; row 1 and column 1 are names; row 'start' is the first setups",
    ),
    "a last row": (",a,b\na,0,2\nb,3,0\nidle,5,6\n", [0, 0], [5, 6], None),
    "a column of times": (
        ",a,b,time\na,0,2,7\nb,3,0,8\n", [7, 8], [0, 0],
        "2 jobs; row 1 and column 1 are names; column 'time' is the processing times",
    ),
    "both": (",time,a,b\nstart,0,5,6\na,7,0,2\nb,8,3,0\n", [7, 8], [5, 6], None),
    "both, with gaps": (",a,b,time\nstart,5,6,\na,,2,7\nb,3,,8\n", [7, 8], [5, 6], None),
    "no names, a row too many": ("5,6\n0,2\n3,0\n", [0, 0], [5, 6], None),
    "no names, a column too many": ("0,2,7\n3,0,8\n", [7, 8], [0, 0], None),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_tables_of_setups(case: str, tmp_path: Any) -> None:
    content, durations, initial, understood = TABLES[case]
    path = tmp_path / "setups.csv"
    path.write_text(content)
    instance = read(path, Setups())
    assert instance.arrays["setups"].tolist() == [[0, 2], [3, 0]]
    assert instance.arrays["durations"].tolist() == durations
    assert instance.arrays["initial"].tolist() == initial
    assert instance.forbidden is None
    assert instance.rows == instance.columns
    assert instance.rows in (None, ("a", "b"))
    if understood is not None:
        assert instance.understood == understood


def test_successions_that_are_forbidden(tmp_path: Any) -> None:
    path = tmp_path / "setups.csv"
    path.write_text(",a,b,c\nstart,-,1,1\na,0,1,1\nb,x,0,1\nc,1,1,0\n")
    instance = read(path, Setups())
    assert instance.forbidden is not None
    assert np.argwhere(instance.forbidden).tolist() == [[1, 0], [3, 0]]
    answer = icdc.solve(instance)
    assert answer.solution.index(0) > 0
    assert answer.solution[answer.solution.index(0) - 1] == 2
    same = icdc.solve([[0, 1, 1], [np.inf, 0, 1], [1, 1, 0]], problem="setups")
    assert same.instance.forbidden is not None
    assert np.argwhere(same.instance.forbidden).tolist() == [[1, 0]]
    assert same.instance.integral


@pytest.mark.parametrize(
    ("problem", "value", "sentence"),
    [
        (Setups(), [[0, 1, 2, 3], [1, 0, 2, 3]], "must be square, got 2 rows and 4 columns"),
        (Setups(), {"setups": [[0, 1], [1, 0]], "durations": [1, 2, 3]}, "must be a list of 2 numbers"),
        (Setups(), {"setups": [[0, 1], [1, 0]], "initial": [-1, 0]}, "the first setups has the negative value -1"),
        (Setups(), [[0, -1], [1, 0]], "the matrix of setup times has the negative value -1"),
        (Setups(), {"durations": [1, 2]}, "'setups' of the problem 'setups' is missing"),
        (FlowShop(), [[1, -2]], "the matrix of processing times has the negative value -2"),
        (FlowShop(), [[1, None], [1, 1]], "needs a time on every machine, 0 if it only passes: job 1 has none on "),
    ],
)
def test_what_is_refused(problem: Sequencing, value: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        read(value, problem)


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        (",a,b,c\na,0,1,2\nb,3,0,4\nd,5,6,0", None),  # c and d are one job
        (",a,b,c\na,,1,2\nb,3,,4\nd,5,6,", None),
        (",paint,b,c\nb,0,1,2\nc,3,0,4\npiant,5,6,0", None),  # in another order, too
        (",t,a,b\ns,,1,2\na,7,0,4\nb,8,6,0", ("a", "b")),  # only the first setups have no time
        (",t,a,b\ns,0,1,2\na,7,0,4\nb,8,6,0", None),
        (",a,b,t\ns,1,2,\na,0,4,7\nb,6,0,8", ("a", "b")),
        (",t,a,b\na,7,0,4\nb,8,6,0\ns,,1,2", ("a", "b")),
    ],
)
def test_a_misspelt_name_deletes_no_job(text: str, jobs: tuple[str, ...] | None, tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    if jobs is None:
        with pytest.raises(InputError, match="a job has one name"):
            read_instances(path, Setups())
        return
    (instance,) = read_instances(path, Setups())
    assert instance.rows == jobs
    assert instance.arrays["setups"].tolist() == [[0, 4], [6, 0]]
    assert (instance.arrays["durations"].tolist(), instance.arrays["initial"].tolist()) == ([7, 8], [1, 2])


def test_a_missing_time_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "setups.csv"
    path.write_text(",a,b,time\na,0,2,\nb,3,0,8\n")
    with pytest.raises(InputError, match="a job has no processing time"):
        read(path, Setups())


def test_a_square_flow_shop_with_a_diagonal_is_not_taken_for_distances(tmp_path: Any) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("job,cut,bend\na,0,2\nb,3,0\n")
    instance = read(path, FlowShop())
    assert (instance.rows, instance.columns) == (("a", "b"), ("cut", "bend"))
    assert instance.understood == "2 jobs × 2 machines; row 1 and column 1 are names"


@pytest.mark.parametrize("ending", [".csv", ".json", ".txt", ".tour"])
def test_files_of_sequences(ending: str, tmp_path: Any) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("job,cut,bend\na,4,2\nb,1,5\nc,2,2\n")
    instance = read(path, FlowShop())
    choice = FlowShop().choice([1, 2, 0])
    target = tmp_path / f"answer{ending}"
    write_solution(target, instance, choice)
    assert read_solution(target, instance).tolist() == choice.tolist()
    if ending == ".csv":
        assert target.read_text() == ("position,job,start cut,start bend,end\n0,b,0,1,6\n1,c,4,6,8\n2,a,6,10,12\n")
        target.write_text("position,job\n0,b\n1,c\n2,a\n")
        assert read_solution(target, instance).tolist() == choice.tolist()
        target.write_text("position,job,start cut,start bend,end\n0,b\n1,c\n2,a\n")
        with pytest.raises(InputError, match="line 2 must have 5 cells, got 2"):
            read_solution(target, instance)


def test_what_is_no_sequence() -> None:
    with pytest.raises(InputError, match="a sequence must name every job from 0 to n-1 exactly once"):
        FlowShop().choice([0, 0])
    with pytest.raises(InputError, match="entry 1 of the solution is 'a', not an integer"):
        FlowShop().choice(["a", 1])  # type: ignore[list-item]


def test_many_jobs_and_machines_are_shortened() -> None:
    rng = np.random.default_rng(0)
    instance = Instance("x", FlowShop(), {"durations": rng.integers(1, 9, (100, 20))})
    lines = FlowShop().describe_solution(instance, FlowShop().choice(list(range(100))))
    assert len(lines) == 61
    assert "… 40 more …" in lines[30]
    assert len(lines[0].split()) == 5  # name, starts, one begin, ends, one end


def test_pictures() -> None:
    shop = icdc.solve([[4, 2], [1, 5]], problem="flow-shop")
    (ax,) = FlowShop().draw_solution(shop.instance, shop.choice, 8.0).axes
    widths = sorted((bar.get_y() > 0.5, bar.get_x(), bar.get_width()) for bar in ax.patches)
    assert widths == [(False, 0, 1), (False, 2, 4), (True, 1, 5), (True, 6, 2)]
    assert ax.get_title() == "makespan 8, bound 8"
    one = icdc.solve({"setups": [[0, 9], [2, 0]], "durations": [10, 20], "initial": [5, 1]}, problem="setups")
    (ax,) = Setups().draw_solution(one.instance, one.choice).axes
    assert sorted((bar.get_x(), bar.get_width(), bar.get_hatch() is not None) for bar in ax.patches) == [
        (0, 1, True), (1, 20, False), (21, 2, True), (23, 10, False),
    ]  # fmt: skip
    assert "hatched: setups" in ax.get_xlabel()


@pytest.mark.parametrize("solver", ["search", "nn", "random", "patching", "highs"])
def test_other_solvers_know_them_too(solver: str) -> None:
    answer = icdc.solve([[4, 2], [1, 5], [2, 2]], problem="flow-shop", solver=solver)
    assert answer.feasible
    assert sorted(answer.solution) == [0, 1, 2]
