"""The runner of mutants tells their fates apart, and the entries still fit the code."""

from pathlib import Path

import pytest

from tests.mutants import run

PROJECT = {
    "src/toy/__init__.py": "",
    "src/toy/sums.py": "def double(x):\n    return 2 * x\n\n\ndef unseen(x):\n    return x + 1\n",
    "tests/test_sums.py": (
        "from toy.sums import double\n\n\n"
        "def test_double():\n    assert double(3) == 6\n\n\n"
        "def test_wrong():\n    assert double(3) == 7\n\n\n"
        "def test_close():\n    assert double(3) <= 1e9\n"
    ),
}

ENTRIES = {
    "another factor": ("2 * x", "3 * x", "test_double", run.CAUGHT),
    "a line without a test": ("x + 1", "x - 1", "test_double", run.SURVIVED),
    "a test that sees too little": ("2 * x", "3 * x", "test_close", run.SURVIVED),
    "text that is gone": ("4 * x", "3 * x", "test_double", run.STALE),
    "text that is there twice": ("return", "yield", "test_double", run.STALE),
    "no change": ("2 * x", "2 * x", "test_double", run.STALE),
    "a module that does not compile": ("2 * x", "2 * * x", "test_double", run.CRASHED),
    "an error that is no assertion": ("2 * x", "2 * y", "test_double", run.CRASHED),
    "a name nobody can import": ("def double", "def triple", "test_double", run.CRASHED),
    "a test that fails anyway": ("2 * x", "3 * x", "test_wrong", run.UNFIT),
    "a test that is not there": ("2 * x", "3 * x", "test_absent", run.UNFIT),
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module, with an entry for every fate; its tests need no plugins, which take long to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    entries = [
        f"[[mutant]]\nname = {name!r}\nfile = 'src/toy/sums.py'\nold = '''{old}'''\nnew = '''{new}'''\n"
        f"tests = ['tests/test_sums.py::{test}']\n"
        for name, (old, new, test, _) in ENTRIES.items()
    ]
    (tmp_path / "tests/mutants").mkdir()
    (tmp_path / "tests/mutants/toy.toml").write_text("\n".join(entries))
    return tmp_path


def test_fates_are_told_apart(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only a failed assertion of a test that passes otherwise is a catch, and the checkout is never touched."""
    assert run.main(["--root", str(toy), "-j", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    fates = {line.split(" s  ")[1]: line.split()[0] for line in lines[:-1]}
    assert fates == {name: fate for name, (*_, fate) in ENTRIES.items()}
    assert lines[-1] == "1 of 11 mutants caught"
    assert (toy / "src/toy/sums.py").read_text() == PROJECT["src/toy/sums.py"]


def test_names_choose_and_success_is_told(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words pick mutants by their names; all caught is 0, and to pick none is a mistake."""
    assert run.main(["--root", str(toy), "factor"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 mutants caught\n")
    assert run.main(["--root", str(toy), "text that"]) == 1
    assert run.main(["--root", str(toy), "nobody"]) == 1


def test_two_mutants_of_one_name_are_refused(toy: Path) -> None:
    """A name in a report means one change."""
    (toy / "tests/mutants/again.toml").write_text((toy / "tests/mutants/toy.toml").read_text())
    with pytest.raises(ValueError, match="twice"):
        run.read_mutants(toy)


@pytest.mark.parametrize("mutant", run.read_mutants(run.ROOT), ids=lambda mutant: mutant.name)
def test_entries_fit_the_code(mutant: run.Mutant) -> None:
    """Every change of the list can be made, and its tests exist; `make mutants` makes them."""
    assert mutant.changed(run.ROOT) is not None
    assert not mutant.missing_tests(run.ROOT)
