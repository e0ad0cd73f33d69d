"""Sentences name an option in the words of the surface that shows them: command line, Python, or HTTP."""

import pickle
from pathlib import Path

import pytest

import icdc
from icdc.cli import run
from icdc.errors import Surface, UsageError, rendered, shown_on, visible
from icdc.options import mention


@pytest.mark.parametrize(
    ("sentence", "shell", "python", "http"),
    [
        (f"say {mention('labels', True)}, not {mention('labels', False)}", "say --labels, not --no-labels",
         "say labels=True, not labels=False", 'say "labels": true, not "labels": false'),
        (f"{mention('id_column', 0)}", "--id-column 0", 'id_column="0"', '"id_column": "0"'),
        (f"{mention('decimal', ',')} or {mention('decimal', '.')}", "--decimal , or --decimal .",
         'decimal="," or decimal="."', '"decimal": "," or "decimal": "."'),
        (f"{mention('skip', 'row 4')}, {mention('skip')}", "--skip 'row 4', --skip", 'skip=("row 4",), skip',
         '"skip": ["row 4"], \'skip\''),
        (f"{mention('range', 'x' * 80)}", f"--range '{'x' * 59}…'", f'range="{"x" * 59}…"', f'"range": "{"x" * 59}…"'),
    ],
)  # fmt: skip
def test_each_surface_has_its_words(sentence: str, shell: str, python: str, http: str) -> None:
    assert rendered(sentence, Surface.SHELL) == shell
    assert rendered(sentence, Surface.PYTHON) == f"{python} (in icdc.ReadOptions)"
    assert rendered(sentence, Surface.HTTP) == http


@pytest.mark.parametrize("sentence", ["my--labels.csv: no", "give --out", "----labels"])
def test_what_is_no_reference_stays(sentence: str) -> None:
    assert [rendered(sentence, surface) for surface in Surface] == [sentence] * 3


def test_arguments_of_solve_are_not_in_read_options() -> None:
    assert rendered(f"give {mention('fixed')} or {mention('time_limit')}") == "give fixed or time_limit"
    assert rendered(f"give {mention('fixed')}", Surface.SHELL) == "give --fix"


def test_who_is_spoken_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n")
    with pytest.raises(UsageError, match='say which with problem="atsp" or problem="pmsp"'):
        icdc.solve(path)
    assert run(["solve", str(path)]) == 2
    assert "say which with --problem atsp or --problem pmsp" in capsys.readouterr().err
    error = UsageError(f"say {mention('labels', True)}")
    assert str(error) == "say labels=True (in icdc.ReadOptions)"
    with shown_on(Surface.SHELL):
        assert str(error) == "say --labels"
        with shown_on(Surface.HTTP):
            assert str(error) == 'say "labels": true'
        assert str(pickle.loads(pickle.dumps(error))) == "say --labels"
    assert str(pickle.loads(pickle.dumps(error))) == "say labels=True (in icdc.ReadOptions)"


def test_what_a_terminal_would_obey_is_shown() -> None:
    assert visible("a\x1b[31m\nb ü") == r"a\x1b[31m\nb ü"
