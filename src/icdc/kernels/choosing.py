"""Which implementation of an operation runs on a device: the one place that asks what there is."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..jit import fast_now

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton's own switch: kernels run in Python, on tensors of the CPU, in float32."""
INSTALLED = importlib.util.find_spec("triton") is not None  # a build of torch without a GPU comes without it
_switched_off = False
_only_plain = False


def triton_runs_on(device: torch.device) -> bool:
    """Return whether Triton kernels run on a device: on every NVIDIA GPU, anywhere in Triton's interpreter.

    Not while a compiler traces an operation: it finds its own way through plain ones.
    """
    wanted = INSTALLED and not (_switched_off or _only_plain) and not torch.compiler.is_compiling()
    return wanted and (device.type == "cuda" or INTERPRETED)


def network_kernels_run_on(device: torch.device) -> bool:
    """Return whether those of the network do: they are written for data-centre GPUs from Hopper on."""
    if device.type != "cuda" or not triton_runs_on(device):
        return triton_runs_on(device)
    return torch.cuda.get_device_capability(device)[0] in (9, 10)


def compiled_runs_on(device: torch.device) -> bool:
    """Return whether loops compiled by numba run on a device: on a CPU."""
    return device.type == "cpu" and not _only_plain and not torch.compiler.is_compiling()


def compiled_runs_fast_on(device: torch.device) -> bool:
    """Return whether they do so now, for operations whose plain implementation gives the same solutions.

    While the compiler is at work in the background loops that it has not come to run as they are written, which takes
    far longer than plain operations.
    """
    return compiled_runs_on(device) and fast_now()


def is_narrow(dtype: torch.dtype) -> bool:
    """Return whether the network's kernels take a dtype: one of autocast's, or float32 in the interpreter."""
    return dtype in (torch.float32 if INTERPRETED else torch.bfloat16, torch.float16)


def worth_compiling(device: torch.device) -> bool:
    """Return whether a compiler makes networks faster on a device.

    Not where kernels written by hand do their work: compiling takes a minute, for every size again, and gives slower
    steps.
    """
    return not network_kernels_run_on(device)


@contextmanager
def without_triton() -> Iterator[None]:
    """Do without Triton kernels for a while, to compare with them."""
    global _switched_off
    before, _switched_off = _switched_off, True
    try:
        yield
    finally:
        _switched_off = before


@contextmanager
def only_plain() -> Iterator[None]:
    """Do with plain operations for a while, to compare with all others."""
    global _only_plain
    before, _only_plain = _only_plain, True
    try:
        yield
    finally:
        _only_plain = before
