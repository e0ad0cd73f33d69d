"""How long the journeys through the package are."""

import importlib
import sys
import threading

import pytest

from experiments.house import ROUND, functions_called, length, train_a_round
from icdc.evaluation.published import plain_gap, symmetric_gap


def test_the_length_of_a_journey() -> None:
    places = ["cli/a.py", "cli/b.py", "io/a.py", "errors.py", "noise.py", "cli/a.py"]
    calls = [(place, str(number)) for number, place in enumerate(places)]
    assert length(calls) == (6, 5, 4)  # root modules are packages of their own


def test_functions_are_counted_once_and_in_every_thread() -> None:
    def journey() -> None:
        plain_gap(1.0)
        thread = threading.Thread(target=symmetric_gap, args=(1.0,))
        thread.start()
        thread.join()
        plain_gap(2.0)

    calls = functions_called(journey)
    assert [name for _, name in calls] == ["plain_gap", "symmetric_gap"]
    assert length(calls) == (2, 1, 0)


def test_what_runs_while_a_module_is_imported_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "icdc.solvers"
    monkeypatch.delitem(sys.modules, name)  # its class bodies and decorators run again
    assert functions_called(lambda: importlib.import_module(name)) == []


def test_a_training_round_is_counted_without_its_set_up() -> None:
    calls = functions_called(train_a_round, ROUND)
    module, name = calls[0]
    assert name.rpartition(".")[2] == ROUND
    assert module.startswith("training/")
    assert not any("load_config" in name for _, name in calls)
