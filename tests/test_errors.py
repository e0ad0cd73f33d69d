"""Sentences name the options of the command line there, and the arguments of Python everywhere else."""

import pickle
from pathlib import Path

import pytest

import icdc
from icdc.cli import run
from icdc.errors import InputError, UsageError, in_python, on_command_line, visible


@pytest.mark.parametrize(
    ("shell", "python"),
    [
        ("say --labels if they are, --no-labels if not", "say labels=True if they are, labels=False if not"),
        ("say --labels --id-column 0 if it does", 'say labels=True id_column="0" if it does'),
        ("with --decimal , or --decimal .", 'with decimal="," or decimal="."'),
        ("say --metric euclidean, --problem pmsp", 'say metric="euclidean", problem="pmsp"'),
        ("--metric takes distances", "metric takes distances"),
        ("say --skip Total, --skip 'row 4'; (--skip)", 'say skip=("Total",), skip=("row 4",); (skip)'),
        ("--sheet: 'a'; --range must look like B2:F20", "sheet: 'a'; range must look like B2:F20"),
        ("say --no-transpose, --hidden or --no-comments", "say transpose=False, hidden=True or comments=False"),
    ],
)
def test_options_in_python(shell: str, python: str) -> None:
    assert in_python(f"a.csv: {shell}") == f"a.csv: {python} (in icdc.ReadOptions)"


@pytest.mark.parametrize(
    "sentence", ["my--labels.csv: no", "a --labelsx", "icdc generate pmsp --size 5x2 --out x", "----labels"]
)
def test_what_is_no_option_stays(sentence: str) -> None:
    assert in_python(sentence) == sentence


def test_the_problem_is_an_argument_of_its_own() -> None:
    assert in_python("give --problem; or --problem my.module:Mine") == 'give problem; or problem="my.module:Mine"'


def test_who_is_spoken_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n")
    with pytest.raises(UsageError, match='say which with problem="atsp" or problem="pmsp"'):
        icdc.solve(path)
    assert run(["solve", str(path)]) == 2
    assert "say which with --problem atsp or --problem pmsp" in capsys.readouterr().err
    error = UsageError("say --labels")
    assert str(error) == "say labels=True (in icdc.ReadOptions)"
    with on_command_line():
        assert str(error) == "say --labels"
        with pytest.raises(InputError), on_command_line():
            raise InputError("x")
        assert str(pickle.loads(pickle.dumps(error))) == "say --labels"
    assert str(pickle.loads(pickle.dumps(error))) == "say labels=True (in icdc.ReadOptions)"


def test_what_a_terminal_would_obey_is_shown() -> None:
    assert visible("a\x1b[31m\nb ü") == r"a\x1b[31m\nb ü"
