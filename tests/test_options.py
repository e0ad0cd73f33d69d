"""Values that callers give are checked alike in Python and on the command line."""

import os
import subprocess
import sys
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import icdc as package
from icdc import options
from icdc.errors import InputError, UsageError, shown_on
from icdc.options import HTTP, OPTIONS, PYTHON, Group, http_fields, options_of
from icdc.solving import Abilities, Improvement, Request, Solver
from icdc.solving.network import DiffusionSolver

SHOP = [[3, 5], [4, 2], [1, 1]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"samples": "3"}, "samples must be a whole number, got '3'"),
        ({"samples": 2.0}, "samples must be a whole number, got 2.0"),
        ({"samples": True}, "samples must be a whole number, got True"),
        ({"samples": 10**9}, "1000000000 samples need time_limit: then as many are made as fit"),
        ({"samples": 2**63, "time_limit": 1.0}, "samples must be at most 9223372036854775807"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 2**63}, "seed must be at most 9223372036854775807"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"time_limit": float("nan")}, "time_limit must be a number of seconds, got nan"),
        ({"time_limit": float("inf")}, "time_limit must be a finite number of seconds"),
        ({"time_limit": -1}, "time_limit must be more than 0 seconds, got -1"),
        ({"time_limit": "5"}, "time_limit must be a number of seconds, got '5'"),
        ({"solver": 3}, "solver must be a Solver or a text or None, got 3"),
        ({"solver": None, "model": 3}, "model must be a Model or a text or a PathLike or None, got 3"),
        ({"problem": 3}, "problem must be a Problem or a text or None, got 3"),
        ({"callback": 3}, "the callback must be callable, got int"),
        ({"solver": "ga", "iterations": "many"}, "option 'iterations' of solver 'ga' must be a whole number"),
        ({"solver": "ga", "mutation": "often"}, "option 'mutation' of solver 'ga' must be a number, got 'often'"),
        ({"solver": "ga", "device": 3}, "device must be a text, got 3"),
        ({"solver": "icdc", "steps": "ten"}, "steps must be a whole number"),
        ({"solver": "icdc", "refine": None}, "option 'refine' of solver 'icdc' must be a whole number, got None"),
        ({"solver": "icdc", "chunk": -1}, "a chunk needs at least one trajectory, got -1"),
        ({"solver": "icdc", "decodes": 10**9}, "'decodes' must be at most 65536"),
        ({"solver": "icdc", "device": "cuda:99"}, "choose the device cpu"),
        ({"solver": "icdc", "device": "meta"}, "not supported; choose auto, cpu or cuda"),
    ],
)
def test_python_gets_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        package.solve(SHOP, **{"solver": "ect", **given})
    assert words in str(error.value)
    assert "--" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--samples", 0), "--samples"),
        (("--samples", 10**9), "1000000000 samples need --time-limit: then as many are made as fit"),
        (("--seed", -1), "--seed must be at least 0, got -1"),
        (("--seed", 2**63), "--seed must be at most 9223372036854775807"),
        (("--time-limit", "nan"), "--time-limit must be a number of seconds, got nan"),
        (("--time-limit", "inf"), "--time-limit must be a finite number of seconds"),
        (("--solver", "ect", "--device", "moon"), "unknown device 'moon'; choose auto, cpu or cuda"),
        (("--solver", "ga", "--device", ""), "unknown device ''; choose auto, cpu or cuda"),
        (("--solver", "random", "--device", "-1"), "unknown device '-1'"),
        (("--solver", "ga:iterations=x"), "option 'iterations' of solver 'ga' must be a whole number"),
    ],
)
def test_so_does_the_command_line(icdc: Any, shop: Path, arguments: tuple[object, ...], words: str) -> None:
    ran = icdc("solve", shop, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("icdc: ")
    assert words in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--start", "--out", "--plot", "--model"])
def test_a_name_that_no_file_can_have_is_refused(icdc: Any, shop: Path, option: str) -> None:
    ran = icdc("solve", shop, "--solver", "network" if option == "--model" else "ect", option, "x" * 5000 + ".csv")
    assert ran.code in (2, 3)
    assert "internal" not in ran.err


def test_numbers_of_any_type_are_numbers() -> None:
    assert options.check("samples", np.int64(3)) == 3
    assert options.check("time_limit", np.float32(2)) == 2.0
    assert options.check_kind(np.int32(3), int, "n") == 3
    assert options.check_kind(3, float, "x") == 3
    assert options.check_kind(None, int | None, "n") is None
    assert package.solve(SHOP, solver="ga", iterations=np.int64(3), samples=np.int64(2)).feasible
    with pytest.raises(UsageError, match="x must be a number, got nan"):
        options.check_kind(float("nan"), float, "x")
    with pytest.raises(UsageError, match=r"n must be a whole number, got \['aaaa.*…$"):
        options.check_kind(["a" * 100], int, "n")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 2], [3]], "row 2 has 1 entries where row 1 has 2"),
        ([[1, 2], [3, 4], 5], "row 3 has 0 entries where row 1 has 2"),
        ([[1, 2], [3, [4, 5]]], "row 2 holds lists where numbers are needed"),
        ([[1, 2], [3, "x"]], "must hold numbers"),
    ],
)
def test_ragged_lists_name_the_row(rows: Any, words: str) -> None:
    for problem in (None, "pmsp"):
        with pytest.raises(InputError, match=words):
            package.solve(rows if problem else rows + rows, problem=problem or "pmsp", solver="ect")


@dataclass(frozen=True)
class Wrong(Solver):
    """Offers whatever it is told to, or returns it."""

    choice: Any
    returned: Any = None
    name = "wrong"
    abilities = Abilities()

    def refusal(self, problem: Any) -> None:
        return None

    def search(self, request: Request) -> Any:
        if self.choice is not None:
            request.offer(self.choice)
        return self.returned


@pytest.mark.parametrize(
    ("choice", "returned", "words"),
    [
        (None, np.zeros((1, 3)), "must offer its solutions to the request, not return them"),
        (np.zeros((1, 2), dtype=int), None, r"offered int64 choices of shape \(1, 2\), where whole numbers \(1, 3\)"),
        (np.zeros((1, 3)), None, "offered float64 choices"),
    ],
)
def test_a_solver_of_ones_own_is_told_what_it_got_wrong(choice: Any, returned: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"the solver 'wrong' {words}"):
        package.solve(SHOP, solver=Wrong(choice, returned))


def test_callbacks_know_which_instances_they_hear_of() -> None:
    heard: list[tuple[int, ...]] = []

    def hear(improvement: Improvement) -> None:
        assert len(improvement.places) == len(improvement.cost)
        heard.append(improvement.places)

    package.solve_many([SHOP, [*SHOP, [1, 2]], SHOP], solver="ect", callback=hear)
    assert heard == [(0, 2), (1,)]


def test_a_million_samples_are_as_many_as_fit(models: dict[str, Path]) -> None:
    learned = DiffusionSolver(str(models["pmsp"]), steps=2)
    for solver in (learned, package.make_solver("random"), package.make_solver("ga")):
        answer = package.solve([[7, 9, 8]] * 5 + [[3, 4, 1]], solver=solver, samples=10**12, time_limit=0.3)
        assert answer.feasible
        assert 1 <= answer.samples < 10**9
        assert answer.seconds < 10.0  # not those of a billion, however busy the machine is


def test_every_option_is_said_once_and_well() -> None:
    for name, option in OPTIONS.items():
        assert option.name == name
        assert option.help[0].isupper() or option.help.split()[0].rstrip(",") in ("auto", "icdc,"), name
        assert option.help.endswith((".", "…")), name
        assert option.where
        assert {need.option for need in option.needs} <= OPTIONS.keys()
        assert option.check(None) == option.default
    flags = [option.shell_name for option in OPTIONS.values()]
    assert len(flags) == len(set(flags))


def test_the_signature_in_python_is_that_of_the_table() -> None:
    """Written out for editors and readers; this keeps the two alike."""
    taken = dict(signature(package.solve).parameters)
    known = {one.name: one for one in options_of(PYTHON, Group.RUN, Group.CONDITIONS)}
    known["forbidden"] = OPTIONS["forbidden"]
    assert taken.keys() - {"instance", "callback", "reading", "options"} == known.keys()
    for name, option in known.items():
        assert taken[name].default == (None if name == "solver" else option.default), name
    assert taken["options"].kind is Parameter.VAR_KEYWORD  # those for the solver


def test_reading_options_in_python_are_those_of_the_table() -> None:
    known = {option.name for option in options_of(PYTHON, Group.READING)} - {"forbidden"} | {"nan_forbidden"}
    assert {field.name for field in fields(package.ReadOptions)} == known


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("samples", "12", 12), ("time_limit", "0.5", 0.5), ("labels", "false", False),
        ("skip", '["a", "b"]', ("a", "b")),
        ("skip", "row 4", ("row 4",)), ("first", "3", "3"), ("start", "[0, 1]", [0, 1]), ("start", "0,1", [0, 1]),
        ("fixed", '{"a": "b"}', {"a": "b"}), ("stay", "2", 2), ("stay", "2.5", 2.5), ("decimal", ",", ","),
        ("samples", 12, 12), ("samples", None, None), ("seed", None, 0),
    ],
)  # fmt: skip
def test_values_are_read_from_texts(name: str, text: Any, value: Any) -> None:
    read = OPTIONS[name].read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("samples", "many", "'samples' must be a whole number, got 'many'"),
        ("samples", "0", "'samples' must be at least 1, got 0"),
        ("samples", [1], "'samples' must be a whole number, got [1]"),
        ("time_limit", "-1", "'time_limit' must be more than 0 seconds, got -1.0"),
        ("time_limit", True, "'time_limit' must be a number of seconds, got True"),
        ("labels", "perhaps", "'labels' must be true or false, got 'perhaps'"),
        ("labels", 1, "'labels' must be true or false, got 1"),
        ("decimal", ";", "'decimal' must be . or ,, got ';'"),
        ("skip", "[1]", "'skip' must be a name or a list of names, got [1]"),
        ("fixed", "{", "'fixed' must be JSON, got '{'"),
        ("fixed", "[" * 9999, "'fixed' must be JSON, got "),
        ("stay", "x", "'stay' must be a whole number or a number, got 'x'"),
        ("sheet", 3, "'sheet' must be a text, got 3"),
    ],
)
def test_what_cannot_be_read_is_refused(name: str, text: Any, words: str) -> None:
    with shown_on(HTTP), pytest.raises(UsageError) as error:
        OPTIONS[name].read(text)
    with shown_on(HTTP):
        assert str(error.value).startswith(words)


def test_unknown_names_are_refused() -> None:
    options.reject_unknown(["samples", "trace"], HTTP)
    for name, surface in (("sample", HTTP), ("trace", PYTHON), ("metric", HTTP)):
        with pytest.raises(UsageError, match=f"unknown option '{name}'; choose from problem, "):
            options.reject_unknown([name], surface)


def test_a_request_has_the_types_and_ranges_of_the_table() -> None:
    pydantic = pytest.importorskip("pydantic")
    fields_of = {name: (kind, pydantic.Field(**about)) for name, (kind, about) in http_fields().items()}
    schema = pydantic.create_model("Request", **fields_of).model_json_schema()["properties"]
    assert schema.keys() == {option.name for option in options_of(HTTP)}
    assert {"type": "integer", "minimum": 1, "maximum": 2**63 - 1} in schema["samples"]["anyOf"]
    assert {"type": "number", "exclusiveMinimum": 0} in schema["time_limit"]["anyOf"]
    assert schema["open"]["default"] is False
    assert schema["fixed"]["description"] == OPTIONS["fixed"].help


ADDED = """
import json, sys, types
from dataclasses import dataclass
from icdc import options
from icdc.options import Group, Option

options.OPTIONS["patience"] = Option("patience", Group.SOLVER, int, "How long to wait.", least=1)

import icdc
from icdc.cli import run
from icdc.client import Client
from icdc.errors import shown_on
from icdc.options import HTTP
from icdc.serve.limits import Limits, Settings
from icdc.serve.requests import Source, read_task
from icdc.serve.schema import request_document
from icdc import solvers as registry
from icdc.solving.solver import Solver

heard = []

@dataclass(frozen=True)
class Patient(Solver):
    name = "patient"
    patience: int = 0

    def refusal(self, problem):
        return None

    def search(self, request):
        import numpy as np
        heard.append(self.patience)
        request.offer(np.zeros((request.count, request.shape[0]), dtype=np.int64))

sys.modules["patient"] = types.SimpleNamespace(Patient=Patient)
registry.SOLVERS["patient"] = registry.Entry("patient:Patient", "any", "waits")
with open("shop.csv", "w") as file:
    file.write("3,5\\n4,2\\n1,1\\n")
codes = [
    run(["solve", "shop.csv", "--solver", "patient", "--patience", "7"]),
    run(["solve", "shop.csv", "--solver", "patient", "--patience", "0"]),
    run(["solve", "--help"]),
]
icdc.solve("shop.csv", solver="patient", patience=8)
try:
    icdc.solve("shop.csv", solver="patient", patience=0)
except icdc.UsageError as error:
    print(error, file=sys.stderr)
client, sent = Client("http://127.0.0.1:1"), {}
client._json = lambda method, path, body: sent.update(body) or {"id": "x"}
client.submit([[3, 5], [4, 2], [1, 1]], problem="pmsp", solver="patient", patience=9)
tasks = [
    read_task(Source(json.dumps(sent).encode(), "application/json"), Settings()),
    read_task(Source(b"3,5\\n4,2\\n1,1\\n", "text/csv", {"solver": "patient", "patience": "10"}), Settings()),
]
document = request_document(Limits(samples=50))
print([one["schema"] for one in document["parameters"] if one["name"] == "patience"])
(body, *_) = document["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
print(body["properties"]["patience"]["description"], body["properties"]["patience"]["anyOf"][0])
try:
    read_task(Source(b"3,5\\n4,2\\n1,1\\n", "text/csv", {"solver": "patient", "patience": "0"}), Settings())
except icdc.UsageError as error:
    with shown_on(HTTP):
        print(error, file=sys.stderr)
print(codes, heard, [task.options["patience"] for task in tasks])
"""


def test_a_new_option_arrives_everywhere(tmp_path: Path) -> None:
    """One entry in the table: on the command line, in its help, in Python, over HTTP, in the OpenAPI document and the
    client, with its range."""
    command = [sys.executable, "-c", ADDED]
    environment = {**os.environ, "COLUMNS": "200", "ICDC_NO_BACKGROUND": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    schema = {"maximum": 50, "minimum": 1, "type": "integer"}
    *_, query, body, last = ran.stdout.splitlines()
    assert query == str([schema])
    assert body == f"How long to wait. {schema}"
    assert last == "[0, 2, 0] [7, 8] [9, 10]"
    assert "How long to wait." in ran.stdout
    assert "--patience must be at least 1, got 0" in ran.stderr
    assert "\npatience must be at least 1, got 0" in ran.stderr
    assert "\n'patience' must be at least 1, got 0" in ran.stderr
