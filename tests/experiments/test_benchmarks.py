"""The benchmarks of speed that run anywhere: paths through the package, whole commands, rounds, test sets."""

import csv
import importlib
import importlib.util
import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
TINY = {
    "sizes": "[[5]]", "model.network.width": 16, "model.network.heads": 2, "model.network.edge_width": 4,
    "model.network.encoder_layers": 1, "model.network.denoiser_layers": 1, "targets.instances": 2, "cloning.batch": 2,
}  # fmt: skip


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
    name = "icdc.solving.registry"
    monkeypatch.delitem(sys.modules, name)  # its class bodies and decorators run again
    assert benchmark.functions_called(lambda: importlib.import_module(name)) == []


def test_a_training_round_is_counted_without_its_set_up() -> None:
    benchmark = script("path_length")
    functions = benchmark.functions_called(benchmark.train_a_round, benchmark.ROUND)
    assert functions[0].name.rpartition(".")[2] in benchmark.ROUND
    assert functions[0].package == "training"
    assert not any("load_config" in called.name for called in functions)


def test_the_time_of_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [f"--set={key}={value}" for key, value in TINY.items()]
    out = tmp_path / "rounds.jsonl"
    asked = ["round_time.py", "atsp-20", "--repeats", "1", "--device", "cpu", "--out", str(out), *settings]
    monkeypatch.setattr(sys, "argv", asked)
    script("round_time").main()
    line = json.loads(out.read_text())
    assert line["preset"] == "atsp-20"
    assert line["round ms"] > 0


def test_the_time_of_a_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: Any) -> None:
    out = tmp_path / "throughput.csv"
    asked = [
        "--set",
        "atsp-20",
        "--steps",
        "1,2",
        "--samples",
        "2",
        "--limit",
        "2",
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    monkeypatch.setattr(sys, "argv", ["throughput.py", *asked])
    script("throughput").main()
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["steps"], row["samples"], row["instances"]) for row in rows] == [("1", "2", "2"), ("2", "2", "2")]
    assert all(float(row["seconds"]) > 0 for row in rows)
