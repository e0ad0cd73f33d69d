"""From the bytes of a request to an order: one checked instance and how to solve it, or a sentence why not.

A request never reaches the file system and never names code: solvers and models go by the names they are known under.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..io import ReadOptions, instances_of
from ..models.catalogue import available
from ..problems import SHIPPED, get_problem
from ..problems.base import Problem
from ..problems.conditions import CONDITIONS, with_conditions
from ..problems.instance import Instance
from ..solving.registry import SOLVERS, options_of
from .limits import Settings
from .options import READING, flag, read_options
from .sizes import check_size, too_many

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

WORDS = (
    *("problem", "name", "solver", "model", "samples", "steps", "refine", "time_limit", "seed", "start", "trace"),
    *CONDITIONS,
    *READING,
)
"""What a request may say beside its instance: the words of `icdc.solve`, and how the content is to be read."""

TRACED = ("network", "icdc")
"""Solvers whose steps can be shown; written down, since asking them would import torch here."""

_MACHINE = frozenset(["processes", "threads", "workers", "device", "chunk", "model"])
"""Options of solvers that are the server's own affair."""

_LONGEST_NAME = 80
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Source:
    """A request as it came, and as it is stored.

    kind : the type of its content, one of `KINDS`.
    words : what it said beside the content, in its query.
    """

    content: bytes
    kind: str
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
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
    def batch_key(self) -> object:
        """Equal for orders that may be solved together; unequal to everything for one that is solved alone.

        Whoever has a time limit has the device to himself: the limit is the time for which it is searched.
        """
        # whoever asks for more than the matrix has an instance of a size of its own
        if self.time_limit is not None or self.start is not None or self.trace or self.instance.conditions is not None:
            return object()
        arrays = self.instance.arrays.values()
        kinds = tuple((array.shape, bool(np.issubdtype(array.dtype, np.integer))) for array in arrays)
        options = tuple(sorted(self.options.items()))
        return type(self.instance.problem), kinds, self.solver, options, self.samples, self.seed


def read_order(source: Source, settings: Settings) -> Order:
    """Return the order of a request; raise a Refusal or an error of the package that says what is wrong."""
    document, words = _document_and_words(source)
    unknown = [word for word in words if word not in WORDS]
    if unknown:
        raise UsageError(f"unknown option '{unknown[0]}'; a request may say {', '.join(WORDS)}")
    limits = settings.limits
    trace = bool(flag(words, "trace"))
    solver = solver_of(words, limits.samples, trace)
    options: dict[str, Any] = {}
    if words.get("model") is not None:
        options["model"] = model_of(words["model"], settings)
    for word, least in (("steps", 1), ("refine", 0)):
        value = _integer(words, word, least, limits.samples)
        if value is not None:
            options[word] = value
    known = options_of(solver) if options else {}  # which imports the solver
    for word in options:
        if word not in known:
            raise UsageError(f"solver '{solver}' has no option '{word}'; choose from {', '.join(known) or 'none'}")
    samples = _integer(words, "samples", 1, limits.samples)
    seed = _integer(words, "seed", 0, 2**63 - 1)
    time_limit = _seconds(words, limits.seconds)
    kind = source.kind if document is source.content else "text/plain"  # recognised like a file without an ending
    named = problem_named(words.get("problem"))
    instance = one_instance(document, kind, words.get("name"), named, limits.cells, read_options(words))
    solution = words.get("start")
    instance, start = with_conditions(
        instance,
        _conditions(words),
        None if solution is None else partial(_start, solution),
        {word: f"'{word}'" for word in (*CONDITIONS, "start")},
    )
    if trace and (instance.conditions is not None or instance.problem.restated):
        raise UsageError("'trace' shows the steps of plain instances; leave it out, or " + ", ".join(CONDITIONS))
    return Order(instance, solver, options, samples, seed or 0, time_limit, start, trace)


def solver_of(words: Mapping[str, Any], most: int, trace: bool = False) -> str:
    """Return the solver that a request names, refusing code of its own and options that are the server's affair.

    most : the largest number that any of its options may have.
    """
    spec = words.get("solver")
    if spec is None:
        return TRACED[0] if trace else "icdc"
    if not isinstance(spec, str):
        raise UsageError("'solver' must be a name")
    name, _, rest = spec.partition(":")
    if name not in SOLVERS:
        raise UsageError(f"unknown solver '{name}'; choose one of {', '.join(SOLVERS)}")
    for part in filter(None, rest.split(",")):
        option, _, value = part.partition("=")
        if option in _MACHINE:
            raise UsageError(f"option '{option}' of solver '{name}' cannot be chosen by a request")
        if _size(value) > most:
            raise UsageError(f"option '{option}' of solver '{name}' may be at most {most} here, got {value[:20]}")
    if trace and name not in TRACED:
        raise UsageError(f"only the learned solver can be animated, not '{name}'")
    return spec


def model_of(name: Any, settings: Settings) -> str:
    """Return the model that a request names: a shipped one, or the file of one that the server was started with."""
    if not isinstance(name, str) or (name not in settings.models and name not in available()):
        known = ", ".join([*available(), *settings.models])
        raise UsageError(f"unknown model {str(name)[:_LONGEST_NAME]!r}; choose one of {known}")
    return str(settings.models[name]) if name in settings.models else name


def problem_named(name: Any) -> Problem | None:
    """Return the problem that a request names, one of those that ship."""
    if name is None:
        return None
    if not isinstance(name, str) or name not in SHIPPED:
        raise UsageError(f"unknown problem {str(name)[:_LONGEST_NAME]!r}; choose one of {', '.join(SHIPPED)}")
    return get_problem(name)


def one_instance(
    content: bytes, kind: str, name: Any, problem: Problem | None, cells: int, options: ReadOptions
) -> Instance:
    """Return the one instance of some content; refuse more cells than are allowed, before they take memory."""
    check_size(content, kind, cells)
    instances = instances_of(content, clean_name(name), problem, options, ending=KINDS[kind])
    if len(instances) != 1:
        raise UsageError(f"a request holds one instance, this one holds {len(instances)}; send them one by one")
    largest = max(array.size for array in instances[0].arrays.values())
    if largest > cells:
        raise too_many(largest, cells)
    return instances[0]


def clean_name(name: Any) -> str:
    """Return the word for an instance in messages: what it was called, without folders and unprintable characters."""
    text = PurePosixPath(str(name).replace("\\", "/")).name if isinstance(name, str) else ""
    return "".join(c for c in text if c.isprintable())[:_LONGEST_NAME] or "instance"


def _document_and_words(source: Source) -> tuple[bytes, dict[str, Any]]:
    """Return the instance of a request and its words; a JSON request may hold both in one object."""
    words: dict[str, Any] = dict(source.words)
    if source.kind != "application/json":
        return source.content, words
    refuse_halves(source)
    try:
        document = json.loads(source.content)
    except (ValueError, RecursionError):
        return source.content, words  # the reader of files says what is wrong, and where
    if not isinstance(document, dict) or "instance" not in document:
        return source.content, words
    words.update({key: value for key, value in document.items() if key != "instance" and value is not None})
    inner = document["instance"]
    return inner.encode() if isinstance(inner, str) else json.dumps(inner).encode(), words


def refuse_halves(source: Source) -> None:
    """Refuse half of a character that UTF-16 writes in two: no answer could be written with it."""
    if source.kind != "application/json" or not _HALF.search(source.content):
        return
    try:
        document = json.loads(source.content)
    except (ValueError, RecursionError):
        return  # the reader of files says what is wrong
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the request holds half of a character: {error.object[error.start]!a}") from None


def _conditions(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request asks of the solution; in a query, pairs and times are JSON."""
    given: dict[str, Any] = {word: words.get(word) for word in CONDITIONS}
    for word in ("fixed", "busy", "stay"):
        if isinstance(value := given[word], str):
            try:
                given[word] = json.loads(value)
            except (ValueError, RecursionError):
                raise UsageError(f"'{word}' must be JSON, got {value[:_LONGEST_NAME]!r}") from None
    given["open"] = bool(flag(words, "open"))
    return given


def _start(solution: Any, instance: Instance) -> NDArray[np.int64]:
    """Return a solution to begin from, written like an answer's, as a choice (rows,)."""
    if isinstance(solution, str):
        solution = [int(part) if part.strip().isdecimal() else part for part in solution.split(",")]
    if not isinstance(solution, list):
        raise InputError("'start' must be a solution: a list of integers")
    choice = instance.choice(solution)
    rows = instance.problem.shape(instance.problem.size(instance.batch()))[0]
    if choice.shape != (rows,):
        raise InputError(f"the start of {instance.name} makes {choice.size} choices where it needs {rows}")
    return choice


def _size(text: str) -> float:
    """Return how large a number is; 0 for what is none, and infinity for what nobody can tell."""
    try:
        value = abs(float(text))
    except ValueError:
        return 0.0
    return value if value == value else float("inf")


def _integer(words: Mapping[str, Any], word: str, least: int, most: int) -> int | None:
    value = words.get(word)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"'{word}' must be a whole number, got {str(value)[:_LONGEST_NAME]!r}")
    if not least <= value <= most:
        raise UsageError(f"'{word}' must be between {least} and {most}, got {value}")
    return value


def _seconds(words: Mapping[str, Any], most: float) -> float | None:
    value = words.get("time_limit")
    if value is None:
        return None
    try:
        seconds = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError):
        seconds = float("nan")
    if not 0 < seconds <= most:
        raise UsageError(
            f"'time_limit' must be more than 0 and at most {most:g} seconds, got {str(value)[:_LONGEST_NAME]!r}"
        )
    return seconds
