"""Instances from Python: whatever holds numbers is read as files are, and what is in doubt is refused."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

import icdc
from icdc import ReadOptions
from icdc.errors import InfeasibleError, InputError, UsageError
from icdc.io import Instance, instances_from
from icdc.problems.atsp import Atsp
from icdc.problems.pmsp import Pmsp
from tests.io.test_corpus import shown

TALL = [[3, 4], [5, 6], [7, 8]]
J, M = ("a", "b", "c"), ("m1", "m2")


def one(value: Any, **options: Any) -> Instance:
    (instance,) = instances_from(value, options.pop("problem", None), "instance", ReadOptions(**options))
    return instance


@pytest.mark.parametrize(
    "value",
    [
        TALL,
        tuple(map(tuple, TALL)),
        np.array(TALL),
        np.array(TALL, dtype=object),
        [[Fraction(3), Decimal(4)], [5, np.int8(6)], [7.0, np.float32(8)]],
        {"durations": TALL},
        torch.tensor(TALL, dtype=torch.float32, requires_grad=True),
        torch.tensor(TALL, dtype=torch.bfloat16),
        [[3.0, 4], [5, np.float64(6)], [7, 8]],
        pd.DataFrame(TALL),
        pl.DataFrame(TALL, orient="row", schema=["0", "1"]),
    ],
)
def test_whatever_holds_numbers(value: Any) -> None:
    instance = one(value)
    assert instance.problem.name == "pmsp"
    assert shown(instance) == TALL


def test_objects_that_are_integers_stay_exact() -> None:
    instance = one(np.array([[2**53, 1], [1, 2]], dtype=object), problem=Pmsp())
    assert instance.integral
    assert shown(instance) == [[2**53, 1], [1, 2]]
    with pytest.raises(InputError, match="row 1, column 2: '9007199254740993' is too large"):
        one(np.array([[1, 2**53 + 1], [1, 2]], dtype=object), problem=Pmsp())
    with pytest.raises(InputError, match="row 1, column 1: '9999"):
        one([[10**400, 1], [1, 2]], problem=Pmsp())


def test_none_and_infinity_are_forbidden_and_nan_is_if_that_is_said() -> None:
    wanted = [[3, None], [5, 6], [7, 8]]
    exact = one([[3, None], [5, 6], [7, 8]])
    assert shown(exact) == wanted
    assert exact.integral
    assert exact.understood == "3 jobs × 2 machines; 1 forbidden pair"
    assert shown(one([[3, float("inf")], [5, 6], [7, 8]])) == wanted
    assert shown(one([[3, float("inf")], [5, None], [7, 8]])) == [[3, None], [5, None], [7, 8]]
    nan = np.array([[3, np.nan], [5, 6], [7, 8]])
    assert shown(one(nan, nan_forbidden=True)) == wanted
    with pytest.raises(InputError, match="not finite at row 1, column 2; a forbidden pair is written as"):
        one(nan)
    with pytest.raises(InputError, match="not finite at row 1, column 2"):
        one(-np.array([[3, np.inf], [5, 6], [7, 8]]))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.ma.masked_array(TALL, np.array(TALL) == 4), "is a masked array"),
        (sparse.csr_array(TALL), "is a sparse matrix"),
        ([[3, 4], [5]], "row 2 has 1 entries where row 1 has 2"),
        ([[3, "4"], [5, 6], [7, 8]], "must hold numbers"),
        (np.array([[3, "4"], [5, 6], [7, 8]], dtype=object), "at row 1, column 2 holds str, not a number"),
        (np.array([[3, 1j], [5, 6], [7, 8]], dtype=object), "at row 1, column 2: a complex is not a number"),
        (np.array([[3, True], [5, 6], [7, 8]], dtype=object), "true is not a number"),
        (object(), "array with 0 axes"),
        ([], "axes"),
        (pd.DataFrame({"m1": [3, 5], "m2": ["x y", 6]}), "row 1, column 2: 'x y' is not a number"),
        (pd.DataFrame({"m1": [3, 5, 1], "m2": [np.nan, 6, 2]}), "row 1, column 2: 'nan' is not a finite number"),
        (pd.DataFrame({"m1": [3, 5, 1], "m2": pd.array([None, 6, 2], dtype="Int64")}), "'nan' is not a finite number"),
        (pd.DataFrame({"m1": pd.to_datetime(["2020-01-01"]), "m2": [1]}), "a Timestamp is not a number"),
        (pd.DataFrame({"m1": pd.to_timedelta([3], unit="m"), "m2": [1]}), "a Timedelta is not a number"),
        (pd.DataFrame(), "the frame has no columns"),
        (pl.DataFrame(), "the frame has no columns"),
        (np.ones((3, 2), dtype="m8[m]"), "must hold numbers, got timedelta64[m]"),
        ({"durations": [[np.timedelta64(3, "m")] * 2] * 3}, "must hold numbers, got timedelta64[m]"),
        (np.array([[np.timedelta64(3, "m"), 1]] * 3, dtype=object), "a timedelta64 is not a number"),
        ([[2**53 + 1, 0.5], [1, 2], [3, 4]], "row 1, column 1: '9007199254740993' is too large"),
        ([[Decimal(2**53 + 1), 2], [1, 2], [3, 4]], "row 1, column 1: '9007199254740993' is too large"),
        ([[Decimal("1e400"), 2], [1, 2], [3, 4]], "row 1, column 1: the number is too large"),
        ([[Fraction(10**400), 2], [1, 2], [3, 4]], "row 1, column 1: the number is too large"),
        ([[True, 2], [1, 2], [3, 4]], "row 1, column 1: true is not a number"),
        (torch.ones(3, 2, device="meta"), "a Tensor cannot be read as numbers"),
        ({"durations": TALL, "duratoins": TALL}, "'duratoins' is not known; 'durations' is"),
        ({"durations": TALL, "due": [1, 2, 3]}, "'due' is not known; known are 'cities', 'columns'"),
        ({"durations": TALL, "forbiden": TALL}, "'forbiden' is not known; 'forbidden' is"),
        ({"durations": TALL, "jobs": "abc"}, "'jobs' must be a list of names"),
    ],
)
def test_what_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(InputError, match="instance") as caught:
        one(value)
    assert sentence in str(caught.value)


def test_frames_with_names() -> None:
    frame = pd.DataFrame(TALL, index=list(J), columns=list(M))
    for instance in (one(frame), one(frame.rename_axis("job").reset_index()), one(pl.DataFrame({"job": J, **frame}))):
        assert (instance.rows, instance.columns) == (J, M)
        assert shown(instance) == TALL
    assert "names" in (one(frame).understood or "")
    numbered = one(pd.DataFrame({"job_id": [4, 9, 2], "m1": [3, 5, 7], "m2": [4, 6, 8]}))
    assert (numbered.rows, shown(numbered)) == (("4", "9", "2"), TALL)
    cities = pd.DataFrame([[0, 2], [3, 0]], index=["A", "B"], columns=["A", "B"])
    assert one(cities).problem.name == "atsp"
    gaps = pl.DataFrame({"m1": [3, 5, 7], "m2": [None, 6, 8]})
    assert shown(one(gaps)) == [[3, None], [5, 6], [7, 8]]
    missing = pd.DataFrame({"m1": [3, 5, 7], "m2": [np.nan, 6, 8]})
    assert shown(one(missing, nan_forbidden=True)) == [[3, None], [5, 6], [7, 8]]


def test_points_of_a_frame() -> None:
    frame = pd.DataFrame({"city": ["a", "b"], "x": [0, 3], "y": [0, 4]})
    with pytest.raises(UsageError, match="look like coordinates"):
        icdc.solve(frame)
    answer = icdc.solve(frame, reading=ReadOptions(metric="euclidean"), solver="nn")
    assert answer.objective == 10.0
    assert one([[0, 0], [3, 4]], metric="euclidean").coordinates is not None


def test_paths_and_instances_in_solve(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("job,m1,m2\na,3,4\nb,5,6\nc,7,8\n")
    answer = icdc.solve(path, solver="dp")
    assert (answer.objective, answer.instance.rows) == (icdc.solve(TALL, solver="dp").objective, J)
    assert icdc.solve(str(path), solver="dp").instance.name == str(path)
    (instance,) = icdc.read_instances(path)
    assert icdc.solve(instance, solver="dp").objective == answer.objective
    with pytest.raises(UsageError, match="is an instance of 'pmsp', not of 'atsp'"):
        icdc.solve(instance, problem="atsp")
    with pytest.raises(InputError, match="no such file"):
        icdc.solve("nothing.csv")


def test_paths_in_solve_many(tmp_path: Path) -> None:
    many = tmp_path / "many.npy"
    np.save(many, np.array([TALL, TALL]))
    single = tmp_path / "one.csv"
    single.write_text("3,4\n5,6\n7,8\n")
    assert len(icdc.solve_many(many, solver="ect")) == 2
    assert len(icdc.solve_many(str(many), solver="ect")) == 2
    answers = icdc.solve_many([single, TALL, many, one(TALL)], solver="ect")
    assert [answer.objective for answer in answers] == [answers[0].objective] * 5
    with pytest.raises(UsageError, match=r"many.npy holds 2 instances; solve_many answers them all"):
        icdc.solve(many, solver="ect")


def test_forbidden_pairs_from_python() -> None:
    matrix = [[np.nan, 4], [5, 6], [7, 8]]
    answer = icdc.solve(matrix, solver="dp", forbidden="nan")
    assert answer.solution[0] == 1
    with pytest.raises(InputError, match="the start of instance uses a forbidden pair: job 0 with machine 0"):
        icdc.solve(matrix, solver="dp", forbidden="nan", start=[0, 1, 1])
    assert icdc.solve(matrix, solver="ect", forbidden="nan", start=answer.solution).objective == answer.objective
    with pytest.raises(UsageError, match="forbidden must be nan, got 'zero'"):
        icdc.solve(matrix, forbidden="zero")  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError, match="job 0 has no permitted machine"):
        icdc.solve([[None, None], [1, 2], [3, 4]], solver="dp")


def test_one_impossible_instance_among_others() -> None:
    """The others are answered as they would be alone, and nothing shows a stand-in."""
    heard: list[np.ndarray] = []
    instances = [TALL, [[None, None], [1, 2], [3, 4]], [[None, 4], [5, None], [7, 8]]]
    answers = icdc.solve_many(instances, solver="cpsat", callback=lambda best: heard.append(best.cost) or False)
    assert [answer.feasible for answer in answers] == [True, False, True]
    assert [answer.objective for answer in answers] == [8, None, 12]
    assert answers[1].reason == "job 0 has no permitted machine"
    assert answers[1].as_dict()["solution"] is None
    assert "job 0 has no permitted machine" in str(answers[1])
    assert heard
    finite = np.concatenate(heard)
    assert (finite[np.isfinite(finite)] <= 24).all()
    starts = [answers[0].solution, [0, 0, 0], answers[2].solution]
    with pytest.raises(InputError, match="uses a forbidden pair"):
        icdc.solve_many(instances, solver="ect", starts=starts)


def test_a_solver_that_finds_only_forbidden_pairs() -> None:
    """It is helped out where there is a way; where there is none, its answer is infeasible, without a cost."""
    permits = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0]], dtype=bool)
    for solver in ("random", "branch"):
        answer = icdc.solve(np.where(permits, 1.0, np.inf), problem="atsp", solver=solver, samples=1, seed=0)
        assert answer.objective == 4.0
    permits[0, 2] = False  # now 0 and 1 go to each other, and 2 and 3
    with pytest.raises(InfeasibleError, match="no permitted way from city 0 to city 2"):
        icdc.solve(np.where(permits, 1.0, np.inf), problem="atsp", solver="random", samples=1, seed=0)


@pytest.mark.parametrize("problem", [None, Pmsp()])
def test_a_mapping_says_what_an_object_of_json_says(problem: Any) -> None:
    """Names and forbidden pairs count, with a problem and without one."""
    mask = np.array([[0, 1], [0, 0], [0, 0]], dtype=bool)
    for jobs in (J, list(J), np.array(J), pd.Index(J)):
        mapping = {"durations": np.array(TALL), "forbidden": mask, "jobs": jobs, "machines": M, "name": "shop"}
        instance = one(mapping, problem=problem)
        assert shown(instance) == [[3, None], [5, 6], [7, 8]]
        assert (instance.rows, instance.columns, instance.name) == (J, M, "instance (shop)")
    with pytest.raises(InputError, match="is not known"):
        one({"durations": TALL, "distances": TALL}, problem=Pmsp())
    with pytest.raises(InputError, match="there are 2 names for 3 rows"):
        one({"durations": TALL, "jobs": ["a", "b"]}, problem=problem)


@pytest.mark.parametrize("problem", [None, Atsp()])
def test_a_square_matrix_needs_a_word(problem: Any) -> None:
    if problem is None:
        with pytest.raises(UsageError, match='say which with problem="atsp" or problem="pmsp"'):
            one(np.ones((3, 3)))
    else:
        assert one(np.ones((3, 3)), problem=problem).problem is problem


def test_options_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="the decimal mark must be"):
        ReadOptions(decimal=";")
    with pytest.raises(UsageError, match="unknown metric 'moon'"):
        ReadOptions(metric="moon")
