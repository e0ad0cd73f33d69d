"""How long the ways through the package are."""

import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    """Import a benchmark, which is a script and no module of a package."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_length_of_a_path() -> None:
    benchmark = script("path_length")
    places = ["cli/a.py", "cli/b.py", "io/a.py", "errors.py", "noise.py", "cli/a.py"]
    functions = [benchmark.Called(place, str(number)) for number, place in enumerate(places)]
    assert benchmark.length(functions) == (6, 5, 4)  # root modules are packages of their own


def test_functions_are_counted_once_and_in_every_thread() -> None:
    benchmark = script("path_length")
    from icdc.evaluation.published import plain_gap, symmetric_gap

    def path() -> None:
        plain_gap(1.0)
        thread = threading.Thread(target=symmetric_gap, args=(1.0,))
        thread.start()
        thread.join()
        plain_gap(2.0)

    found = benchmark.functions_called(path)
    assert [called.name for called in found] == ["plain_gap", "symmetric_gap"]
    assert benchmark.length(found) == (2, 1, 0)


def test_what_runs_while_a_module_is_imported_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = script("path_length")
    name = "icdc.solvers"
    monkeypatch.delitem(sys.modules, name)  # its class bodies and decorators run again
    assert benchmark.functions_called(lambda: importlib.import_module(name)) == []


def test_a_training_round_is_counted_without_its_set_up() -> None:
    benchmark = script("path_length")
    functions = benchmark.functions_called(benchmark.train_a_round, benchmark.ROUND)
    assert functions[0].name.rpartition(".")[2] in benchmark.ROUND
    assert functions[0].package == "training"
    assert not any("load_config" in called.name for called in functions)
