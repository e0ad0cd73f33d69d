"""Requests become tasks, or sentences; nothing in them reaches files or code."""

import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.errors import InputError, Surface, UsageError, shown_on
from icdc.problems import SHIPPED
from icdc.problems.instance import Conditions
from icdc.serve.app import conditions_of
from icdc.serve.limits import CELL_BYTES, FRAME_BYTES, Limits, Refusal, Settings, check_size
from icdc.serve.requests import KINDS, TRACED, Source, Task, clean_name, describe, read_task
from icdc.solvers import SOLVERS, solver_class

SETTINGS = Settings(Limits(cells=100, samples=50, seconds=10.0))
CSV = b"job,saw,mill\na,1,2\nb,3,4\nc,5,6\n"


@pytest.fixture(autouse=True)
def _http() -> Iterator[None]:
    """Sentences have the words that they have over HTTP."""
    with shown_on(Surface.HTTP):
        yield


def task(document: Any, settings: Settings = SETTINGS) -> Task:
    return read_task(Source(json.dumps(document).encode(), "application/json"), settings)


def test_a_table_with_words_in_the_query() -> None:
    words = {"samples": "7", "seed": "3", "time_limit": "2.5", "solver": "ga:iterations=5", "name": "C:\\x\\shop.csv"}
    read_from = read_task(Source(CSV, "text/csv", words), SETTINGS)
    assert read_from.instance.name == "shop.csv"
    assert read_from.instance.rows == ("a", "b", "c")
    assert read_from.instance.columns == ("saw", "mill")
    assert (read_from.samples, read_from.seed, read_from.time_limit) == (7, 3, 2.5)
    assert read_from.solver == "ga:iterations=5"


def test_the_same_instance_in_every_format() -> None:
    matrix = [[0, 2, 9], [4, 0, 6], [7, 8, 0]]
    buffer = io.BytesIO()
    np.savez(buffer, distances=np.array(matrix))
    tsplib = (
        "NAME: x\nTYPE: ATSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT\nEDGE_WEIGHT_FORMAT: FULL_MATRIX\n"
        "EDGE_WEIGHT_SECTION\n0 2 9\n4 0 6\n7 8 0\nEOF\n"
    )
    sources = [
        Source(json.dumps({"problem": "atsp", "matrix": matrix}).encode(), "application/json"),
        Source(json.dumps({"instance": matrix, "problem": "atsp"}).encode(), "application/json"),
        Source(json.dumps({"instance": tsplib}).encode(), "application/json"),
        Source(b"0,2,9\n4,0,6\n7,8,0\n", "text/csv", {"problem": "atsp"}),
        Source(b"0\t2\t9\n4\t0\t6\n7\t8\t0\n", "text/plain", {"problem": "atsp"}),
        Source(tsplib.encode(), "application/x-tsplib"),
        Source(buffer.getvalue(), "application/x-npz"),
    ]
    for source in sources:
        one = read_task(source, SETTINGS).instance
        assert one.problem.name == "atsp"
        assert one.arrays["distances"].tolist() == matrix


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"solver": "os:system"}, "unknown solver 'os'"),
        ({"solver": "pathlib:Path:x=1"}, "unknown solver 'pathlib'"),
        ({"solver": 3}, "'solver' must be a text, got 3"),
        ({"solver": "cpsat:processes=64"}, "option 'processes' of solver 'cpsat' cannot be chosen by a request"),
        ({"solver": "icdc:model=/etc/passwd"}, "option 'model' of solver 'icdc' cannot be chosen by a request"),
        ({"solver": "ga:individuals=51"}, "option 'individuals' of solver 'ga' may be at most 50 here, got 51"),
        ({"solver": "network:decodes=1e9"}, "option 'decodes' of solver 'network' may be at most 50 here"),
        ({"solver": "network:temperature=nan"}, "option 'temperature' of solver 'network' may be at most 50 here"),
        ({"model": "/etc/passwd"}, "unknown model '/etc/passwd'"),
        ({"model": "../weights/pmsp"}, "unknown model '../weights/pmsp'"),
        ({"problem": "examples.eligible_machines:EligibleMachines"}, "unknown problem 'examples."),
        ({"samples": 51}, "'samples' must be at most 50, got 51"),
        ({"samples": 0}, "'samples' must be at least 1, got 0"),
        ({"samples": True}, "'samples' must be a whole number"),
        ({"samples": "1e3"}, "'samples' must be a whole number"),
        ({"steps": 51}, "'steps' must be at most 50, got 51"),
        ({"seed": -1}, "'seed' must be at least 0, got -1"),
        ({"time_limit": 10.5}, "'time_limit' must be at most 10 seconds, got 10.5"),
        ({"time_limit": 0}, "'time_limit' must be more than 0"),
        ({"time_limit": "nan"}, "'time_limit' must be a number of seconds, got nan"),
        ({"time_limit": [1]}, "'time_limit' must be a number of seconds, got [1]"),
        ({"trace": "perhaps"}, "'trace' must be true or false"),
        ({"trace": True, "solver": "lpt"}, "only the learned solver can be animated, not 'lpt'"),
        ({"colour": "red"}, "unknown option 'colour'"),
        ({"solver": "lpt", "steps": 3}, "solver 'lpt' has no option 'steps'"),
    ],
)
def test_words_that_are_refused(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(sentence)):
        task({"instance": [[1, 2], [3, 4], [5, 6]], "problem": "pmsp", **words})


def test_the_solvers_that_can_be_traced_are_those_that_are_written_down() -> None:
    assert {name for name in SOLVERS if solver_class(name).abilities.trace} == set(TRACED)


def test_requests_are_read_without_torch() -> None:
    """The server's own process stays small and starts quickly; torch belongs to the workers."""
    code = (
        "import sys; from icdc.serve.app import make_app; from icdc.serve.limits import Settings\n"
        "from icdc.serve.requests import Source, read_task\n"
        "make_app(); read_task(Source(b'1,2,3', 'text/csv'), Settings()); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_model_that_the_server_offers_goes_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    settings = Settings(models={"mine": file})
    made = task({"instance": [[1, 2], [3, 4], [5, 6]], "model": "mine"}, settings)
    assert made.options == {"model": str(file)}


def test_instances_that_are_refused() -> None:
    with pytest.raises(InputError, match=r"^instance: row 2 has 1 entries where row 1 has 2"):
        task({"instance": [[1, 2], [3]]})
    with pytest.raises(InputError, match=r"^shop\.csv: line 2, column 2: 'oak' is not a number"):
        read_task(Source(b"saw,mill\n1,oak\n", "text/csv", {"name": "shop.csv"}), SETTINGS)
    with pytest.raises(UsageError, match="a request holds one instance, this one holds 2"):
        task([[[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6]]])
    with pytest.raises(UsageError, match="may be distances or processing times"):
        task({"instance": [[1, 2], [3, 4]]})
    with pytest.raises(InputError, match="which does not ship"):
        task({"instance": {"problem": "os:system", "matrix": [[1, 2]]}})


def test_the_limit_of_cells_holds_before_memory_is_taken() -> None:
    with pytest.raises(Refusal, match="the instance has 110 cells; this server takes 100 at most") as refused:
        task({"instance": np.ones((11, 10), int).tolist(), "problem": "pmsp"})
    assert refused.value.status == 413
    with pytest.raises(Refusal, match="more than 100 cells"):
        read_task(Source(b"1," * 5000, "text/csv"), SETTINGS)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("distances.npy", bytes(2**24))
    assert len(buffer.getvalue()) < 2**16
    with pytest.raises(Refusal, match="the archive unpacks to 16777216 bytes"):
        read_task(Source(buffer.getvalue(), "application/x-npz"), SETTINGS)


def test_starts_are_solutions_of_the_instance() -> None:
    made = task({"instance": [[1, 2], [3, 4], [5, 6]], "start": [1, 0, 1]})
    assert made.start is not None
    assert made.start.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="makes 2 choices where it needs 3"):
        task({"instance": [[1, 2], [3, 4], [5, 6]], "start": [1, 0]})
    with pytest.raises(InputError, match="'start' must be a solution"):
        task({"instance": [[1, 2], [3, 4], [5, 6]], "start": 3})


def test_names_lose_folders_and_control_characters() -> None:
    assert clean_name("../../etc/pass\x1b[31mwd") == "pass[31mwd"
    assert clean_name(None) == "instance"
    assert clean_name("a" * 500) == "a" * 80


def test_a_name_does_not_decide_how_a_body_is_read() -> None:
    made = task({"instance": [[1, 2], [3, 4], [5, 6]], "name": "shop.csv"})
    assert made.instance.name == "shop.csv"
    assert made.instance.arrays["durations"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_reading_says_what_is_understood() -> None:
    found = describe(Source(CSV, "text/csv", {"name": "shop.csv"}), SETTINGS)
    assert found["problem"] == "pmsp"
    assert found["subject"] == "3 jobs on 2 machines"
    assert found["matrix"] == [[1, 2], [3, 4], [5, 6]]
    assert found["columns"] == ("saw", "mill")


def test_reading_asks_where_a_matrix_may_be_two_things() -> None:
    found = describe(Source(b"5,2\n3,6\n", "text/csv"), SETTINGS)
    assert found["problem"] is None
    assert set(found["candidates"]) == {"atsp", "pmsp"}
    assert found["candidates"]["pmsp"]["matrix"] == [[5, 2], [3, 6]]
    assert "may be distances or processing times" in found["question"]
    assert describe(Source(b"5,2\n3,6\n", "text/csv", {"problem": "pmsp"}), SETTINGS)["problem"] == "pmsp"


MACHINES = b"machine;J 1;J 2\nsaw;1,5;2\nmill;3,25;4\nTotal;4,75;6\n"


def test_a_request_says_how_its_content_is_to_be_read() -> None:
    """What the sentence asks for can be answered in the query and, for a text in an object, beside it."""
    with pytest.raises(UsageError, match="transpose"):
        read_task(Source(MACHINES, "text/csv"), SETTINGS)
    words = {"skip": "Total", "transpose": "true"}
    found = read_task(Source(MACHINES, "text/csv", words), SETTINGS).instance
    assert (found.rows, found.columns) == (("J 1", "J 2"), ("saw", "mill"))
    assert found.arrays["durations"].tolist() == [[1.5, 3.25], [2, 4]]
    assert describe(Source(MACHINES, "text/csv", {**words, "problem": "pmsp"}), SETTINGS)["columns"] == ("saw", "mill")
    inside = task(
        {"instance": MACHINES.decode(), "skip": ["Total", "mill"], "transpose": False, "decimal": ","}
    ).instance
    assert (inside.rows, inside.columns) == (("saw",), ("J 1", "J 2"))
    several = read_task(Source(MACHINES, "text/csv", words | {"skip": '["Total", "mill"]'}), SETTINGS).instance
    assert several.columns == ("saw",)
    numbered = task(
        {"instance": "1,2,3\n2,5,7\n3,5,7\n4,5,8", "id_column": 0, "labels": False, "comments": True}
    ).instance
    assert numbered.arrays["durations"].shape == (4, 3)
    forbidding = read_task(Source(b"m1,m2\n1,nan\n3,4\n2,2\n", "text/csv", {"forbidden": "nan"}), SETTINGS).instance
    assert forbidding.forbidden is not None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"labels": "perhaps"}, "'labels' must be true or false"),
        ({"decimal": ";"}, "'decimal' must be . or ,, got ';'"),
        ({"decimal": 3}, "'decimal' must be . or ,, got 3"),
        ({"id_column": True}, "'id_column' must be a text or a whole number, got True"),
        ({"skip": 3}, "'skip' must be a name or a list of names, got 3"),
        ({"skip": "[1"}, "'skip' must be JSON, got '[1'"),
        ({"skip": [1]}, "'skip' must be a name or a list of names"),
        ({"forbidden": "x"}, "'forbidden' must be nan, got 'x'"),
        ({"sheet": "A"}, "instance: 'sheet' is for workbooks"),
        ({"metric": "geo"}, "unknown option 'metric'"),
    ],
)
def test_ways_of_reading_that_are_refused(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(sentence)):
        task({"instance": "1,2\n3,4\n5,6\n", **words})


def test_a_workbook_is_read_as_the_request_says() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Plan"], ["job", "saw", "mill"], ["a", 1, 2], ["b", 3, 4], ["c", 5, 6]):
        book.active.append(row)
    book.active.title = "Times"
    book.create_sheet("More").append([1, 2])
    book["Times"].row_dimensions[5].hidden = True
    content = io.BytesIO()
    book.save(content)
    words = {"sheet": "Times", "range": "A2:C5", "hidden": "0"}
    kind = next(kind for kind, ending in KINDS.items() if ending == ".xlsx")
    assert read_task(Source(content.getvalue(), kind, words), SETTINGS).instance.rows == ("a", "b")
    assert read_task(Source(content.getvalue(), kind, words | {"hidden": "1"}), SETTINGS).instance.rows == (
        "a",
        "b",
        "c",
    )


def test_empty_cells_are_forbidden_pairs() -> None:
    made = task({"instance": {"problem": "pmsp", "matrix": [[1, None], [3, 4], [5, 6]]}})
    assert made.instance.forbidden is not None
    assert made.instance.forbidden.tolist() == [[False, True], [False, False], [False, False]]
    found = describe(Source(b"job,saw,mill\na,1,\nb,3,4\nc,5,6\n", "text/csv"), SETTINGS)
    assert found["matrix"] == [[1, None], [3, 4], [5, 6]]
    assert "3 jobs" in found["understood"]


def test_what_is_asked_of_a_solution() -> None:
    """The words of `icdc.solve`, in an object and, as JSON, in a query."""
    document = json.loads(json.dumps({"instance": [[1, 2], [3, 4], [5, 6]], "fixed": [[0, 1]], "busy": {"0": 2}}))
    asked = task(document).instance.conditions
    assert asked == Conditions(((0, 1),), busy=(2, 0))
    words = {"fixed": '{"a": "mill"}', "busy": "[0, 4.5]", "start": "0,0,1", "stay": "2"}
    found = read_task(Source(CSV, "text/csv", words), SETTINGS)
    assert found.instance.conditions == Conditions(((0, 1),), busy=(0, 4.5), stay=2, before=(0, 0, 1))
    assert found.start is None  # it is compared with, and does not keep to what is fixed
    tour = {"instance": [[0, 2, 9], [4, 0, 6], [7, 8, 0]], "problem": "atsp", "open": True, "first": 0, "last": "2"}
    found = task({**tour, "start": [0, 1, 2]})
    assert found.instance.conditions == Conditions(open=True, first=0, last=2)
    assert found.start is not None
    assert found.instance.solution(found.start) == [0, 1, 2]
    assert found.batch_key is None  # sizes of its own: never in a batch with others
    assert task({"instance": [[1, 2], [3, 4]], "problem": "flow-shop"}).instance.problem.name == "flow-shop"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"fixed": "a,b"}, "'fixed' must be JSON, got 'a,b'"),
        ({"fixed": 7}, "'fixed' must be pairs"),
        ({"busy": {"mill": 1}}, "'busy': instance has no machine 'mill'"),
        ({"busy": True}, "'busy' must be a mapping"),
        ({"open": "perhaps"}, "'open' must be true or false"),
        ({"open": True}, "'open' is for tours, and instance is a schedule"),
        ({"first": {"a": 1}}, "'first' must be a text or a whole number, got {'a': 1}"),
        ({"stay": 3}, "'stay' needs 'start': it weighs changes against that"),
        ({"stay": "much", "start": [0, 0, 0]}, "'stay' must be a whole number or a number, got 'much'"),
        ({"stay": [3], "start": [0, 0, 0]}, "'stay' must be a whole number or a number, got [3]"),
        ({"trace": True, "busy": [1, 2]}, "'trace' shows the steps of plain instances"),
        ({"start": [0, 0, 7], "busy": [1, 2]}, "does not keep to what is asked"),
    ],
)
def test_what_cannot_be_asked(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises((InputError, UsageError), match=re.escape(sentence)):
        task({"instance": [[1, 2], [3, 4], [5, 6]], **words})


@pytest.mark.parametrize("name", SHIPPED)
def test_what_the_server_says_can_be_asked_can_be_asked(name: str) -> None:
    """Of every problem exactly what is listed."""
    problem = SHIPPED[name]()
    size = (3,) * len(problem.size_names)
    arrays = problem.sample(1, size, np.random.default_rng(0))
    document = {"problem": name, **{key: array[0].tolist() for key, array in arrays.items()}}
    asked: dict[str, Any] = {"fixed": [[0, 1]], "stay": 1, "open": True, "first": 0, "last": 1, "busy": [1, 2, 3]}
    for word, value in asked.items():
        start = {"start": [0, 1, 2]} if word == "stay" else {}
        wanted = {"instance": document, "problem": name, word: value, **start}
        if word in conditions_of(type(problem)):
            assert task(wanted).instance.conditions is not None
        else:
            with pytest.raises(UsageError, match=f"'{word}'"):
                task(wanted)


def test_a_sequence_is_shown_as_it_was_given() -> None:
    shown = describe(Source(b"5,6\n0,x\n3,0\n", "text/csv", {"problem": "setups"}), SETTINGS)
    assert shown["matrix"] == [[0, None], [3, 0]]
    assert shown["subject"] == "2 jobs on one machine"


def points(cities: int, announced: str | None = None) -> str:
    head = f"NAME: x\nTYPE: TSP\nDIMENSION: {announced or cities}\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n"
    return head + "".join(f"{city + 1} {city} {city % 7}\n" for city in range(cities)) + "EOF\n"


def test_gzip_is_unpacked_up_to_what_the_cells_can_need() -> None:
    most = CELL_BYTES * 100 + FRAME_BYTES
    check_size(gzip.compress(b"0" * most), "text/csv", 100)
    with pytest.raises(Refusal, match=f"unpacks to more than {most} bytes") as caught:
        check_size(gzip.compress(b"0" * (most + 1)), "text/csv", 100)
    assert caught.value.status == 413
    assert read_task(Source(gzip.compress(CSV), "text/csv", {"name": "x.csv.gz"}), SETTINGS).instance.rows is not None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(CSV)[:-9], "ends too early"),
        (gzip.compress(CSV) + b"more", "goes on after its end"),
        (b"\x1f\x8b" + bytes(40), "damaged"),
        (gzip.compress(gzip.compress(CSV)), "holds another gzip file"),
    ],
    ids=["short", "long", "damaged", "twice"],  # the bytes hold the time of day, and processes must agree on names
)
def test_gzip_that_is_not_whole(content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_size(content, "text/csv", 100)


@pytest.mark.parametrize("kind", ["application/x-tsplib", "text/plain", "text/csv"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-8-sig"])
def test_cities_are_counted_before_their_distances_are_taken(kind: str, encoding: str) -> None:
    with pytest.raises(Refusal, match="the instance has 121 cells; this server takes 100 at most"):
        check_size(points(11).encode(encoding), kind, 100)
    check_size(points(10).encode(encoding), kind, 100)


@pytest.mark.parametrize("line", ["DIMENSION: 9\nDIMENSION: 5000", "dimension :\t5000", "DIMENSION\u00a0:\u20035000"])
def test_however_the_number_of_cities_is_written(line: str) -> None:
    with pytest.raises(Refusal, match="25000000 cells"):
        check_size(points(9).replace("DIMENSION: 9", line).encode(), "text/plain", 100)


def test_archives_are_believed_in_what_they_announce() -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, matrix=np.zeros((1000, 1000)))
    with pytest.raises(Refusal, match=r"the archive unpacks to 8000\d+ bytes, more than 100 cells need"):
        check_size(buffer.getvalue(), "application/x-npz", 100)
    damaged = buffer.getvalue()[:200]
    check_size(damaged, "application/x-npz", 100)  # its reader says so
    small = io.BytesIO()
    with zipfile.ZipFile(small, "w") as archive:
        archive.writestr("a.txt", "b")
    check_size(small.getvalue(), "text/plain", 100)


def test_separators_are_counted() -> None:
    with pytest.raises(Refusal, match="more than 100 cells"):
        check_size(b"1," * 2000, "text/csv", 100)
