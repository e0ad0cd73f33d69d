"""Which implementation runs where."""

import subprocess
import sys

import pytest
import torch

from icdc import jit, kernels
from icdc.kernels import dispatch

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def test_without_triton_no_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "INSTALLED", False)
    for device in (CPU, GPU):
        assert not dispatch.triton_runs_on(device)
        assert not dispatch.network_kernels_run_on(device)
        assert kernels.worth_compiling(device)


@pytest.mark.parametrize(("capability", "wanted"), [((8, 0), False), ((9, 0), True), ((10, 0), True), ((12, 0), False)])
def test_the_networks_kernels_are_for_some_gpus(
    capability: tuple[int, int], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of random numbers and decoding are for all, and a CPU has none outside the interpreter."""
    monkeypatch.setattr(dispatch, "INSTALLED", True)
    monkeypatch.setattr(dispatch, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert dispatch.triton_runs_on(GPU)
    assert dispatch.network_kernels_run_on(GPU) == wanted
    assert kernels.worth_compiling(GPU) == (not wanted)
    assert not dispatch.triton_runs_on(CPU)
    assert not dispatch.network_kernels_run_on(CPU)
    with kernels.without_triton():
        with kernels.without_triton():
            assert not dispatch.triton_runs_on(GPU)
        assert not dispatch.triton_runs_on(GPU)
        assert kernels.worth_compiling(GPU)
    assert dispatch.triton_runs_on(GPU)


def test_the_interpreter_runs_on_a_cpu_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "INSTALLED", True)
    monkeypatch.setattr(dispatch, "INTERPRETED", True)
    assert dispatch.network_kernels_run_on(CPU)
    assert dispatch.is_narrow(torch.float32)
    assert not dispatch.is_narrow(torch.bfloat16)
    monkeypatch.setattr(dispatch, "INTERPRETED", False)
    assert dispatch.is_narrow(torch.bfloat16)
    assert not dispatch.is_narrow(torch.float32)
    assert not dispatch.is_narrow(torch.float64)


def test_loops_do_not_run_as_written_while_the_compiler_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch operations are faster then; the thread that compiles them calls them all the same."""
    assert dispatch.loops_are_ready_on(CPU)
    assert not dispatch.loops_run_on(GPU)
    monkeypatch.setattr(jit, "compiling", lambda word=None: True)
    assert dispatch.loops_run_on(CPU)
    assert not dispatch.loops_are_ready_on(CPU)
    monkeypatch.setattr(jit._here, "compiles", True, raising=False)
    assert dispatch.loops_are_ready_on(CPU)


def test_neither_triton_nor_numba_is_imported_until_it_is_needed() -> None:
    """Importing the operations, and running those of torch on a CPU, leaves both alone."""
    code = (
        "import sys, torch; from icdc import kernels; kernels.uniform(torch.zeros(2, dtype=torch.long), 1, 3);"
        "names = set(sys.modules);"
        "sys.exit('numba' in names or any(name.startswith('icdc.kernels') and 'triton' in name for name in names))"
    )
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0


def test_tiles_are_only_for_inference_on_a_cpu() -> None:
    """Gradients, other precisions and empty batches take torch operations."""
    edges = torch.zeros(1, 2, 3, 4)
    assert not dispatch.tiles_fit(edges)
    with torch.no_grad():
        assert dispatch.tiles_fit(edges)
        assert not dispatch.tiles_fit(edges.double())
        assert not dispatch.tiles_fit(edges[:0])
        assert not dispatch.tiles_fit(edges.to("meta"))
