"""Mistakes in the options are one sentence, and are said before torch is loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = """
import contextlib, io, json, sys
from icdc.cli import run
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as words:
        code = run(arguments.split())
    print(json.dumps([code, "torch" in sys.modules, words.getvalue()]))
"""

MISTAKES = [
    ("solve none.csv", 3, "none.csv: no such file"),
    ("solve", 2, "missing argument"),
    ("solve here.csv --samples 0", 2, "--samples"),
    ("solve here.csv --seed -1", 2, "--seed must be at least 0, got -1"),
    ("solve here.csv --time-limit nan", 2, "--time-limit must be a number of seconds, got nan"),
    ("solve here.csv --out answer.xlsx", 2, "the name must end in one of"),
    ("solve here.csv --plot nowhere/p.png", 2, "there is no folder 'nowhere'"),
    ("solve here.csv --resume", 2, "--resume goes on with a file of answers"),
    ("solve here.csv --start none.tour", 3, "none.tour: no such file"),
    ("verify here.csv none.tour", 3, "none.tour: no such file"),
    ("verify here.csv here.csv --index -1", 2, "--index"),
    ("generate atsp --size 5 --out set.csv", 2, "the name must end in .npz"),
    ("generate atsp --size 5 --out set.npz --count 0", 2, "--count"),
    ("generate atsp --size 5 --out set.npz --seed 9223372036854775808", 2, "--seed must be at most"),
    ("generate atsp --size 5 --out set.npz --time-limit inf", 2, "--time-limit must be a finite number"),
    ("train nothing-20", 2, "unknown preset 'nothing-20'"),
    ("train atsp-20 --set batch", 2, "'batch' is not of the form key=value"),
    ("train atsp-20 --rounds -1", 2, "--rounds"),
    ("train atsp-20 --seed -1", 2, "--seed must be at least 0"),
    ("train atsp-20 --time-limit nan", 2, "--time-limit must be a number of seconds, got nan"),
    ("finetune pmsp none.npz --time-limit 1", 3, "none.npz: no such file"),
    ("finetune pmsp here.csv", 2, "give --time-limit or --rounds"),
    ("finetune pmsp here.csv --time-limit nan", 2, "--time-limit must be a number of seconds, got nan"),
    ("evaluate atsp-20 --solver nn --samples 0", 2, "--samples must be whole numbers"),
    ("evaluate atsp-20 --solver nn --time-limit nan", 2, "--time-limit must be a number of seconds, got nan"),
    ("evaluate atsp-20 --solver nn --chunk -5", 2, "--chunk"),
    ("evaluate atsp-20 --solver nn --out x.txt", 2, "a .jsonl or a .csv"),
    ("evaluate atsp-20 --solver nn --plot x.gif", 2, "--plot x.gif: the name must end in"),
    ("evaluate atsp-20 --solver nn --json --csv", 2, "choose one of"),
    ("check-problem atsp --seed -1", 2, "--seed must be at least 0"),
    ("sovle here.csv", 2, "no such command 'sovle'"),
    ("solve here.csv --bogus", 2, "no such option: --bogus"),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, bool, str]]:
    """Exit code, whether torch was loaded, and the words, for every mistake; all in one process."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "here.csv").write_text("1,2\n3,4\n5,6\n")
    commands = [arguments for arguments, _, _ in MISTAKES]
    command = [sys.executable, "-c", CHECK, json.dumps(commands)]
    path = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    environment = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    assert [path.name for path in folder.iterdir()] == ["here.csv"]
    return dict(zip(commands, map(json.loads, ran.stdout.splitlines()), strict=True))


@pytest.mark.parametrize(("arguments", "code", "words"), MISTAKES)
def test_a_mistake_is_a_sentence_without_torch(
    said: dict[str, tuple[int, bool, str]], arguments: str, code: int, words: str
) -> None:
    found, heavy, sentence = said[arguments]
    assert (found, heavy) == (code, False)
    assert sentence.startswith("icdc: ")
    assert words in sentence
    assert sentence.count("\n") == 1


def test_completion_can_be_installed() -> None:
    command = [sys.executable, "-m", "icdc", "--show-completion", "bash"]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # whatever shell runs the tests
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "_ICDC_COMPLETE" in ran.stdout
