"""Break the code on purpose, one line at a time, and see that a test notices.

Every entry of the `.toml` files beside this one is a mutant: a wrong line that a careless change could bring in.

    [[mutant]]
    name = "refinement ignores its level"
    file = "src/icdc/diffusion/sampler.py"
    old = '''round(level * diffusion.steps)'''      # occurs exactly once in the file
    new = '''diffusion.steps'''
    tests = ["tests/diffusion/test_sampler.py::test_refinement_noises_to_its_level"]

The change is made in a copy of the project, never in the checkout, and only the named tests run there. They must
pass without the change and fail by an assertion with it; an import that breaks or a crash proves nothing about them.

    python tests/mutants/run.py [-j 2] [part of a name …]
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
NOT_COPIED = shutil.ignore_patterns(".*", "*.egg-info", "build", "dist", "runs", "local")
SETTINGS = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
PROCESSES = multiprocessing.get_context("forkserver")
"""Processes that begin with the slowest imports done."""
PROCESSES.set_forkserver_preload(["torch", "scipy.optimize", "matplotlib", "hypothesis", "pytest"])
LONGEST = 300.0
"""Seconds after which tests that do not end count as crashed."""

CAUGHT = "caught"
SURVIVED = "SURVIVED"
STALE = "STALE"
"""The old text is not in the file exactly once."""
CRASHED = "CRASHED"
"""The tests failed, but none of them by an assertion."""
UNFIT = "UNFIT"
"""The tests do not pass on the unchanged code, so that their failure says nothing."""


@dataclass(frozen=True)
class Mutant:
    """One wrong line, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def changed(self, root: Path) -> str | None:
        """Return the text of the file with the change; None if the old text does not occur exactly once."""
        path = root / self.file
        text = path.read_text() if path.is_file() else ""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 and self.old != self.new else None

    def missing_tests(self, root: Path) -> list[str]:
        """Return the tests that are named and do not exist."""
        missing = []
        for test in self.tests:
            file, _, name = test.partition("::")
            text = (root / file).read_text() if (root / file).is_file() else None
            if text is None or (name and f"def {name}(" not in text):
                missing.append(test)
        return missing


def read_mutants(root: Path) -> list[Mutant]:
    """Read every entry of `tests/mutants/*.toml` below `root`."""
    mutants = []
    for path in sorted((root / "tests" / "mutants").glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            mutant = Mutant(**{**entry, "tests": tuple(entry["tests"])})
            if not mutant.tests or any(mutant.name == other.name for other in mutants):
                raise ValueError(f"{path.name}: '{mutant.name}' names no tests, or is there twice")
            mutants.append(mutant)
    return mutants


def run_tests(root: Path, tests: Iterable[str], change: tuple[str, str] | None = None) -> str:
    """Run tests on a copy of a project in which one file has another text; return CAUGHT, SURVIVED or CRASHED."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        copy, report = Path(folder) / "project", Path(folder) / "report.xml"
        shutil.copytree(root, copy, ignore=NOT_COPIED)
        if change is not None:
            (copy / change[0]).write_text(change[1])
        process = PROCESSES.Process(target=_run_pytest, args=(str(copy), str(report), list(tests)))
        process.start()
        process.join(LONGEST)
        if process.is_alive():
            process.kill()
            process.join()
            return CRASHED
        if process.exitcode == 0:
            return SURVIVED
        # 1: tests failed; anything else: they could not be collected, there are none, or pytest itself broke
        return CAUGHT if process.exitcode == 1 and _assertion_failed(report) else CRASHED


def _run_pytest(copy: str, report: str, tests: list[str]) -> None:
    """Run tests in a project, in a process of its own that has imported nothing of it, and exit as pytest does."""
    import pytest

    paths = [str(Path(copy) / "src"), copy]
    os.environ.update(SETTINGS, PYTHONPATH=os.pathsep.join(paths))
    os.chdir(copy)
    sys.path[:0] = paths
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # this file, where it was imported from the checkout
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    # plugins that were imported before cannot explain their own assertions, and need not
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    raise SystemExit(int(pytest.main([*options, f"--junit-xml={report}", *tests])))


def _assertion_failed(report: Path) -> bool:
    """Tell whether some test failed by an assertion, or by an error that was expected and did not come."""
    failures = ElementTree.parse(report).iter("failure")
    messages = [(failure.get("message", ""), failure.text or "") for failure in failures]
    return any(
        message.startswith(("assert ", "AssertionError", "Failed: DID NOT"))
        or (message.startswith("ExceptionGroup") and "AssertionError" in text)  # several failures of one property
        for message, text in messages
    )


def unfit_tests(root: Path, mutants: Sequence[Mutant], jobs: int) -> set[tuple[str, ...]]:
    """Return the sets of tests that do not pass on an unchanged copy."""
    distinct = sorted({mutant.tests for mutant in mutants})
    every_test = sorted({test for tests in distinct for test in tests})
    if not every_test or run_tests(root, every_test) == SURVIVED:
        return set()
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = pool.map(lambda tests: run_tests(root, tests), distinct)
        return {tests for tests, verdict in zip(distinct, verdicts, strict=True) if verdict != SURVIVED}


def judge(root: Path, mutant: Mutant, unfit: set[tuple[str, ...]]) -> str:
    """Return what became of a mutant."""
    text = mutant.changed(root)
    if text is None:
        return STALE
    return UNFIT if mutant.tests in unfit else run_tests(root, mutant.tests, (mutant.file, text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants whose names contain one of the words; return 0 if every one of them was caught."""
    parser = argparse.ArgumentParser(description="Break the code on purpose and see that a test notices.")
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="how many run side by side")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project (this one)")
    options = parser.parse_args(arguments)
    mutants = [
        mutant
        for mutant in read_mutants(options.root)
        if not options.words or any(word in mutant.name for word in options.words)
    ]
    unfit = unfit_tests(options.root, [m for m in mutants if m.changed(options.root) is not None], options.jobs)

    def timed(mutant: Mutant) -> tuple[str, float]:
        began = time.perf_counter()
        return judge(options.root, mutant, unfit), time.perf_counter() - began

    escaped = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, (verdict, seconds) in zip(mutants, pool.map(timed, mutants), strict=True):
            escaped += verdict != CAUGHT
            print(f"{verdict:<8} {seconds:6.1f} s  {mutant.name}", flush=True)
    print(f"{len(mutants) - escaped} of {len(mutants)} mutants caught")
    return int(escaped > 0 or not mutants)


if __name__ == "__main__":
    os.environ.update(SETTINGS)  # before the first process, from which all others are made
    sys.exit(main())
