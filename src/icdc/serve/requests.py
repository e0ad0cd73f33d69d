"""From the bytes of a request to a task: one checked instance and how to solve it, or a sentence that refuses it.

A request never reaches the file system and never names code: it names solvers and models that the server knows. This
runs in a process of its own, which can be killed: content may be made to be slow to read.
"""

import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..io import ReadOptions, instances_of
from ..models.catalogue import available
from ..options import HTTP, OPTIONS, Group, Option, check_needs, options_of, reject_unknown
from ..problems import BUILT_IN, SHIPPED, get_problem
from ..problems.base import Problem, main_matrix
from ..problems.conditions import with_conditions
from ..problems.instance import Instance
from ..solvers import SOLVERS
from ..solvers import options_of as options_of_solver
from .limits import Limits, Settings, check_cells, check_size

KINDS = {
    "application/json": ".json",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "text/plain": "",
    "application/x-tsplib": ".atsp",
    "application/x-npz": ".npz",
    "application/x-npy": ".npy",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
"""Kinds of content that are read, each with the ending such a file has."""
TRACED = ("network", "icdc")
"""Solvers whose steps can be shown; written down, since asking them would import torch here."""
_MACHINE = frozenset(["processes", "threads", "workers", "device", "chunk", "model"])
"""Options of solvers that the server decides."""
_LONGEST_NAME = 80
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Source:
    """A request as it came, and as it is stored.

    kind : the type of its content, one of `KINDS`.
    options : those of its query; further ones may stand in the content.
    """

    content: bytes
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One instance and how it is to be solved.

    solver : a solver's name, or name:key=value,….
    options : further options of the solver, such as the model's name or the number of steps.
    start : (rows,) a feasible choice to begin from.
    trace : whether the steps of the network are to be shown.
    """

    instance: Instance
    solver: str = "icdc"
    options: Mapping[str, Any] = field(default_factory=dict)
    samples: int | None = None
    seed: int = 0
    time_limit: float | None = None
    start: NDArray[np.int64] | None = None
    trace: bool = False

    @property
    def batch_key(self) -> tuple[Any, ...] | None:
        """Equal for tasks that may be solved together; None for one that is solved alone.

        A task with a time limit has the device to itself, since the limit is the time for which it is searched; one
        with conditions has an instance of a size of its own.
        """
        if self.time_limit is not None or self.start is not None or self.trace or self.instance.conditions is not None:
            return None
        arrays = self.instance.arrays.values()
        kinds = tuple((array.shape, bool(np.issubdtype(array.dtype, np.integer))) for array in arrays)
        options = tuple(sorted(self.options.items()))
        return self.instance.problem.name, kinds, self.solver, options, self.samples, self.seed

    def packed(self) -> "PackedTask":
        """Return the task for the server, which passes it on without unpacking it."""
        instance = self.instance
        return PackedTask(
            pickle.dumps(self), instance.problem.name, instance.name, self.solver, self.time_limit, self.batch_key
        )


@dataclass(frozen=True)
class PackedTask:
    """A pickled task, and what the server needs to know of it."""

    content: bytes
    problem: str
    instance: str
    solver: str
    time_limit: float | None = None
    batch_key: tuple[Any, ...] | None = None

    def unpack(self) -> Task:
        """Return the task."""
        task: Task = pickle.loads(self.content)
        return task


def read_task(source: Source, settings: Settings) -> Task:
    """Return the task of a request; raise a Refusal or an error of the package that says what is wrong."""
    content, ending, values = _parts(source)
    limits = settings.limits
    chosen, values = values.get("solver"), check_options(values, limits)
    trace = values["trace"]
    solver = TRACED[0] if trace and chosen is None else solver_of(values["solver"], limits.samples, trace)
    options = {one.name: values[one.name] for one in options_of(HTTP, Group.SOLVER) if values[one.name] is not None}
    if values["model"] is not None:
        options["model"] = model_of(values["model"], settings)
    valid = options_of_solver(solver) if options else {}  # which imports the solver
    for name in options:
        if name not in valid:
            raise UsageError(f"solver '{solver}' has no option '{name}'; choose from {', '.join(valid) or 'none'}")
    problem = problem_of(values["problem"])
    instance = one_instance(content, ending, values["name"], problem, limits.cells, reading_of(values))
    names, solution = [one.name for one in options_of(HTTP, Group.CONDITIONS)], values["start"]
    start = None if solution is None else partial(_start, solution)
    instance, choice = with_conditions(instance, {name: values[name] for name in names}, start)
    if trace and (instance.conditions is not None or instance.problem.restated):
        raise UsageError(f"'trace' shows the steps of plain instances; leave it out, or {', '.join(names)}")
    return Task(instance, solver, options, values["samples"], values["seed"], values["time_limit"], choice, trace)


def describe(source: Source, settings: Settings) -> dict[str, Any]:
    """Return the instance of some content as JSON; if it may be of several problems, as each of them and a question."""
    content, ending, values = _parts(source)
    values = check_options(values, settings.limits)
    problem, name, cells = problem_of(values["problem"]), values["name"], settings.limits.cells
    try:
        return shown(one_instance(content, ending, name, problem, cells, reading_of(values)))
    except UsageError as error:
        if problem is not None:
            raise
        question = error
    candidates = {}
    for candidate in BUILT_IN:
        try:
            instance = one_instance(content, ending, name, get_problem(candidate), cells, reading_of(values))
        except (InputError, UsageError):
            continue
        candidates[candidate] = shown(instance)
    if not candidates:
        raise question
    return {"problem": None, "question": str(question), "candidates": candidates}


def check_options(values: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return every option that a request may have, as the table checks it, within the limits of the server."""
    reject_unknown(values, HTTP)
    checked = {name: limited(OPTIONS[name], limits).read(value) for name, value in values.items()}
    check_needs(checked)
    return {one.name: one.default for one in options_of(HTTP)} | checked


def limited(option: Option, limits: Limits) -> Option:
    """Return an option with the largest value that this server allows."""
    if option.name == "time_limit":
        return replace(option, most=limits.seconds)
    if option.name == "samples" or (option.group is Group.SOLVER and option.kind is int):
        return replace(option, most=limits.samples)
    return option


def solver_of(spec: str, most: int, trace: bool = False) -> str:
    """Return the solver of a request, without code of its own and without options that the server decides.

    most : the largest number that any of its options may have.
    """
    name, _, rest = spec.partition(":")
    if name not in SOLVERS:
        raise UsageError(f"unknown solver '{name}'; choose one of {', '.join(SOLVERS)}")
    for part in filter(None, rest.split(",")):
        option, _, value = part.partition("=")
        if option in _MACHINE:
            raise UsageError(f"option '{option}' of solver '{name}' cannot be chosen by a request")
        if not _magnitude(value) <= most:
            raise UsageError(f"option '{option}' of solver '{name}' may be at most {most} here, got {value[:20]}")
    if trace and name not in TRACED:
        raise UsageError(f"only the learned solver can be animated, not '{name}'")
    return spec


def model_of(name: str, settings: Settings) -> str:
    """Return the model that a request names: a shipped one, or the file of one that the server was started with."""
    if name not in settings.models and name not in available():
        names = ", ".join([*available(), *settings.models])
        raise UsageError(f"unknown model {name[:_LONGEST_NAME]!r}; choose one of {names}")
    return str(settings.models.get(name, name))


def problem_of(name: str | None) -> Problem | None:
    """Return the problem that a request names, one of those that ship."""
    if name is not None and name not in SHIPPED:
        raise UsageError(f"unknown problem {name[:_LONGEST_NAME]!r}; choose one of {', '.join(SHIPPED)}")
    return None if name is None else get_problem(name)


def reading_of(values: Mapping[str, Any]) -> ReadOptions:
    """Return how the content of a request is to be read."""
    reading = {one.name: values[one.name] for one in options_of(HTTP, Group.READING)}
    column, forbidden = reading.pop("id_column"), reading.pop("forbidden")
    return ReadOptions(id_column=None if column is None else str(column), nan_forbidden=forbidden == "nan", **reading)


def one_instance(
    content: bytes, ending: str, name: str | None, problem: Problem | None, cells: int, reading: ReadOptions
) -> Instance:
    """Return the one instance of some content; refuse more cells than are allowed, before they take memory."""
    kind = next(kind for kind, one in KINDS.items() if one == ending)
    check_size(content, kind, cells)
    instances = instances_of(content, clean_name(name), problem, reading, ending=ending)
    if len(instances) != 1:
        raise UsageError(f"a request holds one instance, this one holds {len(instances)}; send them one by one")
    check_cells(max(array.size for array in instances[0].arrays.values()), cells)
    return instances[0]


def clean_name(name: str | None) -> str:
    """Return the name of an instance for messages, without folders and unprintable characters."""
    text = PurePosixPath((name or "").replace("\\", "/")).name
    return "".join(c for c in text if c.isprintable())[:_LONGEST_NAME] or "instance"


def shown(instance: Instance) -> dict[str, Any]:
    """Return an instance as JSON: what it is, its names, its arrays, and one matrix to look at."""
    problem, batch = instance.problem, instance.batch()
    # of a sequence of jobs, its own numbers and not the tour that they become
    matrix = instance.arrays[problem.arrays[0]][None] if problem.restated else main_matrix(problem, batch)
    return {
        "problem": problem.name,
        "name": instance.name,
        "understood": instance.understood,
        "subject": problem.describe_size(problem.size(batch)),
        "rows": instance.rows,
        "columns": instance.columns,
        "matrix": None if matrix is None else _with_gaps(instance, matrix[0]),
        "arrays": {name: array.tolist() for name, array in instance.arrays.items()},
        "coordinates": None if instance.coordinates is None else instance.coordinates.tolist(),
    }


def _parts(source: Source) -> tuple[bytes, str, dict[str, Any]]:
    """Return the instance of a request, the ending of files of its format, and its options.

    A JSON request may hold instance and options in one object.
    """
    values: dict[str, Any] = dict(source.options)
    unchanged = source.content, KINDS[source.kind], values
    if source.kind != "application/json":
        return unchanged
    try:
        document = json.loads(source.content)
    except (ValueError, RecursionError):
        return unchanged  # the reader of files says what is wrong, and where
    if _HALF.search(source.content):
        _refuse_halves(document)
    if not isinstance(document, dict) or "instance" not in document:
        return unchanged
    instance = document.pop("instance")
    content = instance if isinstance(instance, str) else json.dumps(instance)
    values |= {name: value for name, value in document.items() if value is not None}
    return content.encode(), "", values  # recognised like a file without an ending


def _refuse_halves(document: Any) -> None:
    """Refuse half of a character that UTF-16 writes in two: no answer could be written with it."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the request holds half of a character: {error.object[error.start]!a}") from None


def _start(solution: Any, instance: Instance) -> NDArray[np.int64]:
    """Return a solution to begin from, written like an answer's, as a choice (rows,)."""
    if not isinstance(solution, list):
        raise InputError("'start' must be a solution: a list of integers")
    choice = instance.choice(solution)
    if choice.shape != (instance.shape[0],):
        raise InputError(f"the start of {instance.name} makes {choice.size} choices where it needs {instance.shape[0]}")
    return choice


def _magnitude(text: str) -> float:
    """Return how large a number is; 0 for a word."""
    try:
        return abs(float(text))
    except ValueError:
        return 0.0


def _with_gaps(instance: Instance, matrix: NDArray[Any]) -> list[list[Any]]:
    """Return a matrix with None where a pair is forbidden."""
    if instance.forbidden is None:
        return list(matrix.tolist())
    gaps = matrix.astype(object)
    rows, columns = matrix.shape
    gaps[instance.forbidden[:rows, :columns]] = None
    return list(gaps.tolist())
