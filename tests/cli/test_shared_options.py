"""Groups of options: a command is called with them whole, and a user gives them one by one."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from icdc.cli.shared_options import spread


@dataclass(frozen=True)
class Paint:
    """Two options."""

    colour: Annotated[str, typer.Option("--color", help="Of what kind.")] = "red"
    coats: int = 1


@dataclass(frozen=True)
class Frame:
    """One more."""

    wide: bool = False


def app(calls: list[tuple[str, str, Paint, bool, Frame]]) -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @spread
    def draw(*, name: str, before: str = "b", paint: Paint, after: bool = False, frame: Frame) -> None:
        """Draw something."""
        calls.append((name, before, paint, after, frame))

    return made


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["x"], ("x", "b", Paint(), False, Frame())),
        (
            ["--coats", "3", "x", "--after", "--color", "blue", "--wide", "--before", "c"],
            ("x", "c", Paint("blue", 3), True, Frame(True)),
        ),
    ],
)
def test_a_command_is_called_with_its_groups(given: list[str], wanted: tuple[str, str, Paint, bool, Frame]) -> None:
    calls: list[tuple[str, str, Paint, bool, Frame]] = []
    ran = CliRunner().invoke(app(calls), given)
    assert (ran.exit_code, calls) == (0, [wanted])


def test_help_lists_options_where_their_group_stands() -> None:
    text = CliRunner().invoke(app([]), ["--help"], env={"COLUMNS": "200"}).output
    assert "Draw something." in text
    assert "Of what kind." in text
    places = [text.index(option) for option in ("--before", "--color", "--coats", "--after", "--wide")]
    assert places == sorted(places)
    assert "--paint" not in text


def test_what_is_no_number_is_refused() -> None:
    calls: list[tuple[str, str, Paint, bool, Frame]] = []
    assert CliRunner().invoke(app(calls), ["x", "--coats", "many"]).exit_code == 2
    assert not calls
