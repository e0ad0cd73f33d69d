"""Which implementation runs where."""

import subprocess
import sys

import pytest
import torch

from icdc import kernels
from icdc.kernels import choosing

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def test_without_triton_nothing_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "INSTALLED", False)
    for device in (CPU, GPU):
        assert not choosing.triton_runs_on(device)
        assert not choosing.network_kernels_run_on(device)
        assert kernels.worth_compiling(device)


@pytest.mark.parametrize(("capability", "wanted"), [((8, 0), False), ((9, 0), True), ((10, 0), True), ((12, 0), False)])
def test_the_networks_kernels_are_for_some_gpus(
    capability: tuple[int, int], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of random numbers and decoding are for all, and a CPU has none outside the interpreter."""
    monkeypatch.setattr(choosing, "INSTALLED", True)
    monkeypatch.setattr(choosing, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choosing.triton_runs_on(GPU)
    assert choosing.network_kernels_run_on(GPU) == wanted
    assert kernels.worth_compiling(GPU) == (not wanted)
    assert not choosing.triton_runs_on(CPU)
    assert not choosing.network_kernels_run_on(CPU)
    with kernels.without_triton():
        with kernels.without_triton():
            assert not choosing.triton_runs_on(GPU)
        assert not choosing.triton_runs_on(GPU)
        assert kernels.worth_compiling(GPU)
    assert choosing.triton_runs_on(GPU)


def test_the_interpreter_runs_on_a_cpu_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "INSTALLED", True)
    monkeypatch.setattr(choosing, "INTERPRETED", True)
    assert choosing.network_kernels_run_on(CPU)
    assert choosing.is_narrow(torch.float32)
    assert not choosing.is_narrow(torch.bfloat16)
    monkeypatch.setattr(choosing, "INTERPRETED", False)
    assert choosing.is_narrow(torch.bfloat16)
    assert not choosing.is_narrow(torch.float32)
    assert not choosing.is_narrow(torch.float64)


def test_triton_is_not_imported_until_it_is_needed() -> None:
    """Importing the operations, and running them on a CPU, leaves it alone."""
    code = (
        "import sys, torch; from icdc import kernels; kernels.uniform(torch.zeros(2, dtype=torch.long), 1, 3);"
        "sys.exit(any(name.startswith('icdc.kernels.triton') for name in sys.modules))"
    )
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
