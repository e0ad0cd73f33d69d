"""The one table of options: every option of solving and of reading is declared here once, for all surfaces.

The parameters of the command line, the checks of keyword arguments in Python, the fields of a request over HTTP with
their descriptions, and what sentences call an option are made from `OPTIONS`. To add an option, add an `Option` and use
its value; one of the group `SOLVER` reaches the solvers that have a field of its name with nothing else to be done.

Values of other settings (of solvers, models and configurations) are checked by their types: `check_kind`, `read_text`.
"""

import contextlib
import json
import math
import numbers
import shlex
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from .errors import Surface, UsageError, reference, visible

LARGEST_SEED = 2**63 - 1
"""Seeds fill a signed word: what random generators, files and other programs all take."""
MOST_SAMPLES = 10**7
"""Most samples of an instance without a time limit; with one, as many are made as fit."""
SHELL, PYTHON, HTTP = Surface
EVERYWHERE = frozenset(Surface)


class Group(Enum):
    """What options are about, and where their values go."""

    RUN = "run"  # which solver, and how long it searches
    SOLVER = "solver"  # passed on to the solver, whose option of that name they are
    CONDITIONS = "conditions"  # what solutions have to keep to
    READING = "reading"  # how a file is read


@dataclass(frozen=True)
class Need:
    """Another option that one cannot do without.

    above : only values of the option above this one need the other.
    """

    option: str
    why: str
    above: float | None = None


@dataclass(frozen=True)
class Option:
    """One option.

    Parameters
    ----------
    name : in Python and over HTTP; on the command line with dashes, unless `flag` is another word.
    kind : the type of its values in Python and over HTTP; `bool` without a default can be true, false or left out.
        Types that are neither numbers, texts nor truth values are checked where they are used.
    help : one sentence for `--help` and for the document of the service.
    shell_help : the sentence for `--help` where it is another, such as for an option that is a file there.
    least, most, above : the range of a number; `above` is not in it.
    choices : all values that there are.
    unit : what a number counts.
    file : on the command line it is the path of a file.
    many : it may be given several times; the value is a tuple.
    needs : other options that it cannot do without.
    where : the surfaces on which it can be said.
    """

    name: str
    group: Group
    kind: Any
    help: str
    default: Any = None
    shell_help: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    flag: str = ""
    metavar: str | None = None
    file: bool = False
    many: bool = False
    needs: tuple[Need, ...] = ()
    where: frozenset[Surface] = EVERYWHERE

    @property
    def shell_name(self) -> str:
        """The option on the command line, such as `--time-limit`."""
        return f"--{self.flag or self.name.replace('_', '-')}"

    @property
    def two_way(self) -> bool:
        """Whether it has a negative form, too: `--labels/--no-labels`."""
        return self.kind is bool and self.default is None

    def check(self, value: Any) -> Any:
        """Return a value as this option takes it, or refuse it with a sentence; None is the default."""
        if value is None:
            return self.default
        if self.many:
            return _names(value, mention(self))
        if self.choices and value not in self.choices:
            raise UsageError(f"{mention(self)} must be {' or '.join(self.choices)}, got {_shown(value)}")
        value = check_kind(value, self.kind, mention(self), self.unit)
        if {int, float} & set(_members(self.kind)) and not isinstance(value, str):
            self._check_range(value)
            return float(value) if self.kind is float else value
        return value

    def read(self, value: Any) -> Any:
        """Return a value that may be a text, as in a query; numbers, truth values and JSON are read from it."""
        kinds = _members(self.kind)
        if not isinstance(value, str) or str in kinds or (self.many and not value.startswith("[")):
            return self.check(value)
        if {bool, int, float}.isdisjoint(kinds):
            return self.check(_from_json(value, mention(self)))
        return self.check(read_text(value, self.kind, mention(self)))

    def _check_range(self, value: Any) -> None:
        check_range(value, mention(self), self.least, self.most, self.above, self.unit)
        if value == math.inf:
            finite = f"a finite number of {self.unit}" if self.unit else "a finite number"
            raise UsageError(f"{mention(self)} must be {finite}; leave it out for no limit")


def _table(*options: Option) -> dict[str, Option]:
    return {option.name: option for option in options}


_LOCAL = frozenset((SHELL, PYTHON))
_REMOTE = frozenset((HTTP,))

OPTIONS: dict[str, Option] = _table(
    Option(
        "problem",
        Group.RUN,
        str,
        "What it is an instance of: pmsp, atsp, navigation, setups, flow-shop; needed where that is left open.",
        shell_help="pmsp, atsp, navigation, setups, flow-shop, or module:Class; needed where the file leaves it open.",
    ),
    Option("name", Group.RUN, str, "What the instance is called in answers and messages.", where=_REMOTE),
    Option(
        "model",
        Group.RUN,
        str,
        "One of /v1/models; by default the one that fits best.",
        shell_help="A shipped model or a model file; by default the one that fits best.",
    ),
    Option(
        "solver",
        Group.RUN,
        str,
        "A solver's name, or name:option=value,…",
        default="icdc",
        shell_help="icdc, or another of `icdc info`: cpsat, lkh, …",
    ),
    Option(
        "samples",
        Group.RUN,
        int,
        "Tries for each instance; by default 8 (icdc), 32 (network) or 1.",
        least=1,
        most=LARGEST_SEED,
        needs=(Need("time_limit", "then as many are made as fit", above=MOST_SAMPLES),),
    ),
    Option("steps", Group.SOLVER, int, "Denoising steps of the learned solver.", least=1),
    Option("refine", Group.SOLVER, int, "Rounds of refinement by noising again.", least=0),
    Option(
        "improve_rounds",
        Group.SOLVER,
        int,
        "Local search: changes to the best solution of every denoising step.",
        least=0,
        where=_LOCAL,
    ),
    Option(
        "time_limit",
        Group.RUN,
        float,
        "Seconds to search.",
        shell_help="Seconds to spend on all instances together.",
        above=0,
        unit="seconds",
    ),
    Option(
        "start",
        Group.RUN,
        list[Any],
        "A solution to begin with, as answers write it; the answer is never worse.",
        shell_help="Solution file to begin with; the answer is never worse.",
        file=True,
    ),
    Option(
        "fixed",
        Group.CONDITIONS,
        dict[str, Any] | list[Any],
        "Pairs to keep, by name or number: a job and its machine, a city and the next one; a list or an object.",
        shell_help="Pairs to keep: job and machine, or city and the next one.",
        flag="fix",
        metavar="FILE",
        file=True,
    ),
    Option(
        "stay",
        Group.CONDITIONS,
        int | float,
        "What each change of the start weighs.",
        shell_help="What each change of --start weighs; see the documentation.",
        metavar="W",
        needs=(Need("start", "it weighs changes against that"),),
    ),
    Option("open", Group.CONDITIONS, bool, "A tour need not return to where it began.", default=False),
    Option("first", Group.CONDITIONS, str | int, "The first city or job, by name or number from 0.", metavar="NAME"),
    Option("last", Group.CONDITIONS, str | int, "The last city or job, by name or number from 0.", metavar="NAME"),
    Option(
        "busy",
        Group.CONDITIONS,
        dict[str, Any] | list[Any],
        "Until when machines are busy, by name or number; or a list with a time for each.",
        shell_help="Until when machines are busy: lines of machine and time.",
        metavar="FILE",
        file=True,
    ),
    Option("seed", Group.RUN, int, "Seed of all random numbers.", default=0, least=0, most=LARGEST_SEED),
    Option(
        "device",
        Group.SOLVER,
        str,
        "auto, cpu or cuda; by default what suits the solver.",
        where=_LOCAL,
    ),
    Option("trace", Group.RUN, bool, "Whether events show the steps of the network.", default=False, where=_REMOTE),
    Option("labels", Group.READING, bool, "Row 1 and column 1 are names, even if numbers; or no number is a name."),
    Option("comments", Group.READING, bool, "Lines that begin with # are comments, or are rows."),
    Option("decimal", Group.READING, str, "The mark before fractions.", choices=(".", ","), metavar=".|,"),
    Option(
        "id_column",
        Group.READING,
        str | int,
        "The column of names: its own name, or its number; 0 for none.",
        metavar="COLUMN",
    ),
    Option(
        "metric",
        Group.READING,
        str,
        "The table holds points; take distances between them.",
        choices=("euclidean", "geo"),
        metavar="euclidean|geo",
        where=_LOCAL,  # a small request would become a large matrix
    ),
    Option(
        "skip",
        Group.READING,
        tuple[str, ...],
        "Rows or columns to leave out: a name, 'row 4' or 'column 3', or a list of them.",
        shell_help="Leave out a row or a column: its name, 'row 4' or 'column 3'; may be repeated.",
        metavar="NAME",
        many=True,
        default=(),
    ),
    Option("transpose", Group.READING, bool, "Rows and columns of the table change places, or do not."),
    Option("sheet", Group.READING, str, "The sheet of a workbook (.xlsx)."),
    Option("range", Group.READING, str, "The part of the sheet, such as B2:F20.", metavar="B2:F20"),
    Option("hidden", Group.READING, bool, "Read hidden rows and columns of a workbook, or do not."),
    Option(
        "forbidden",
        Group.READING,
        str,
        "Also read NaN as a forbidden pair, beside empty cells, -, x and inf.",
        choices=("nan",),
        metavar="nan",
    ),
)


def options_of(surface: Surface, *groups: Group) -> list[Option]:
    """Return the options of a surface, in the order of the table; of some groups only, where they are named."""
    return [one for one in OPTIONS.values() if surface in one.where and (not groups or one.group in groups)]


def check(name: str, value: Any) -> Any:
    """Return the value of one option, checked."""
    return OPTIONS[name].check(value)


def check_all(values: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
    """Return values of options by name, each checked, and all checked against what each needs.

    also : options with a value elsewhere, which others may need.
    """
    checked = {name: check(name, value) for name, value in values.items()}
    check_needs(checked, also)
    return checked


def check_needs(values: Mapping[str, Any], also: Iterable[str] = ()) -> None:
    """Refuse options without another one that they need; see `check_all`."""
    present = {*also, *(name for name, value in values.items() if value is not None)}
    for name, value in values.items():
        for need in OPTIONS[name].needs if value is not None else ():
            if need.option in present or (need.above is not None and not value > need.above):
                continue
            which = mention(name) if need.above is None else f"{value} {name}"
            verb = "needs" if need.above is None else "need"
            raise UsageError(f"{which} {verb} {mention(need.option)}: {need.why}")


def reject_unknown(names: Iterable[str], surface: Surface) -> None:
    """Refuse names that are no options of a surface."""
    options = [one.name for one in options_of(surface)]
    for name in names:
        if name not in options:
            raise UsageError(f"unknown option {_shown(name)}; choose from {', '.join(options)}")


def http_fields(surface: Surface = HTTP) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return what `pydantic.create_model` needs for a request: of each option its type and what its `Field` says."""
    fields = {}
    for one in options_of(surface):
        about: dict[str, Any] = {"default": one.default, "description": one.help}
        bounds = {"ge": one.least, "le": one.most, "gt": one.above}
        about |= {key: bound for key, bound in bounds.items() if bound is not None}
        kind = Literal[one.choices] if one.choices else one.kind
        fields[one.name] = (kind if one.default is not None else kind | None, about)
    return fields


def mention(option: Option | str, value: Any = None) -> str:
    """Return a reference to an option, or to an option with a value, for a sentence: each surface shows its own words.

    `mention("labels", False)` is `--no-labels`, `labels=False` and `"labels": false`.
    """
    one = OPTIONS[option] if isinstance(option, str) else option
    where = "in icdc.ReadOptions" if one.group == Group.READING else ""
    if value is None:
        return reference(one.shell_name, one.name, f"'{one.name}'", where)
    if isinstance(value, bool):
        shell = one.shell_name if value else f"--no-{one.shell_name[2:]}"
        return reference(shell, f"{one.name}={value}", f'"{one.name}": {json.dumps(value)}', where)
    plain = visible(str(value))
    plain = plain if len(plain) <= 60 else f"{plain[:59]}…"
    text = json.dumps(plain, ensure_ascii=False)
    shell = f"{one.shell_name} {plain if plain == ',' else shlex.quote(plain)}"
    if one.many:
        return reference(shell, f"{one.name}=({text},)", f'"{one.name}": [{text}]', where)
    return reference(shell, f"{one.name}={text}", f'"{one.name}": {text}', where)


def check_kind(value: Any, kind: Any, name: str, unit: str = "") -> Any:
    """Return a value of a type (a number may be of any numeric type), or say what it is not.

    Types that are neither numbers, text nor truth values are not checked here.
    """
    kinds = _members(kind)
    if value is None:
        if type(None) in kinds or Any in kinds:
            return None
    elif any(_fits(value, one) for one in kinds):
        return int(value) if kinds == (int,) else value
    words = " or ".join(dict.fromkeys(_words(one) for one in kinds)) + (f" of {unit}" if unit else "")
    raise UsageError(f"{name} must be {words}, got {_shown(value)}")


def check_range(
    value: float,
    name: str,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    unit: str = "",
) -> None:
    """Refuse a number out of a range with a sentence; `above` itself is not in the range."""
    unit = f" {unit}" if unit else ""
    wrong = None
    if above is not None and not value > above:
        wrong = f"be more than {above:g}{unit}"
    elif least is not None and not value >= least:
        wrong = f"be at least {least:g}{unit}"
    elif most is not None and not value <= most:
        wrong = f"be at most {f'{most:g}' if isinstance(most, float) else most}{unit}"
    if wrong is not None:
        raise UsageError(f"{name} must {wrong}, got {value}")


def read_text(text: str, kind: Any, name: str) -> Any:
    """Return the value of a type that is written as a text."""
    kinds = _members(kind)
    if text.lower() == "none" and type(None) in kinds:
        return None
    kinds = tuple(one for one in kinds if one is not type(None))
    if {bool, int, float}.isdisjoint(kinds):
        return text
    if bool in kinds and text.lower() in ("true", "yes", "1", "false", "no", "0"):
        return text.lower() in ("true", "yes", "1")
    for one in kinds:
        if one in (int, float):
            with contextlib.suppress(ValueError):
                return one(text)
    raise UsageError(f"{name} must be {' or '.join(map(_words, kinds))}, got {_shown(text)}")


def _from_json(text: str, name: str) -> Any:
    """Return the value of a text in JSON; the brackets around a list may be left out."""
    for attempt in (text, f"[{text}]"):
        try:
            return json.loads(attempt)
        except (ValueError, RecursionError):
            continue
    raise UsageError(f"{name} must be JSON, got {_shown(text)}")


def _names(value: Any, name: str) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{name} must be a name or a list of names, got {_shown(value)}")
    return tuple(value)


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the types that a type allows: several of a union."""
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    return typing.get_args(kind) if union else (kind,)


def _fits(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a type, as far as that can be told from the type."""
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return not isinstance(value, bool) and isinstance(value, numbers.Integral)
    if kind is float:
        return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _words(kind: Any) -> str:
    """Return a type in words."""
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    named = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "None"}
    return named.get(kind, f"a {getattr(kind, '__name__', kind)}")


def _shown(value: Any) -> str:
    """Return a value for a message: short, and of one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}…"
