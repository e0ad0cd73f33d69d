"""Options of the table as parameters of commands: a new one is on the command line, and in its help, by itself."""

import inspect
import typing
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from icdc.cli.parameters import Given, files_of, parameter_of, takes
from icdc.options import OPTIONS, PYTHON, Group, Option


def app(calls: list[Any]) -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @takes(Group.CONDITIONS, "start", seed="Of the paint.")
    def draw(name: str, given: Given, *, wide: bool = False, before: Annotated[str, typer.Option()] = "b") -> None:
        """Draw something."""
        calls.append((name, wide, before, given))

    return made


def test_a_command_is_called_with_checked_values() -> None:
    calls: list[Any] = []
    ran = CliRunner().invoke(app(calls), ["x", "--wide", "--fix", "f.csv", "--stay", "2", "--start", "s", "--open"])
    ((name, wide, before, given),) = calls
    assert (ran.exit_code, name, wide, before) == (0, "x", True, "b")
    assert given == {
        "start": "s", "fixed": "f.csv", "stay": 2.0, "open": True, "first": None, "last": None, "busy": None, "seed": 0,
    }  # fmt: skip
    assert files_of(given) == ["s", "f.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--stay", "2"], "--stay needs --start"), (["--seed", "-1"], "--seed must be at least 0")]
)
def test_wrong_values_are_refused_before_the_command_begins(icdc: Any, arguments: list[str], words: str) -> None:
    ran = icdc("solve", "there-is-none.csv", *arguments)
    assert (ran.code, words in ran.err) == (2, True)


def test_help_lists_options_of_the_table_where_they_stand() -> None:
    text = CliRunner().invoke(app([]), ["--help"], env={"COLUMNS": "200"}).output
    places = [text.index(words) for words in ("Draw something.", "--start", "--fix", "--seed", "--wide", "--before")]
    assert places == sorted(places)
    assert "Of the paint." in text
    assert "--given" not in text
    assert CliRunner().invoke(app([]), ["x", "--seed", "many"]).exit_code == 2


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_a_parameter(name: str) -> None:
    option = OPTIONS[name]
    parameter = parameter_of(option)
    kind, about = typing.get_args(parameter.annotation)
    (flag,) = about.param_decls or (about.default,)
    assert flag.split("/")[0] == option.shell_name
    assert ("/--no-" in flag) == (option.kind is bool and option.default is None)
    assert parameter.default == (None if option.many else option.default)
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert kind is not None


def test_python_alone_knows_what_is_for_python_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, "secret", Option("secret", Group.RUN, int, "For Python.", where=frozenset((PYTHON,))))

    @takes(Group.RUN)
    def command(given: Given) -> None:
        """Do nothing."""

    assert "secret" not in inspect.signature(command).parameters
    assert "samples" in inspect.signature(command).parameters
