"""Which implementation of an operation runs: the one place where it is decided, by device, dtype and sizes.

On a GPU operations run as Triton kernels, on a CPU as loops that numba compiles or as torch operations. What no kernel
is written for runs as torch operations; local search and merging run on the host then.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..jit import fast_now

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton's own switch: kernels run in Python, on tensors of the CPU, in float32."""
INSTALLED = importlib.util.find_spec("triton") is not None  # a build of torch without a GPU comes without it
_switched_off = False

# what still fits a program's registers
WIDEST_ROW, WIDEST_TOUR, WIDEST_MATRIX, WIDEST_TOTALS = 1024, 256, 64, 64
"""Columns of a row to pick from, cities of a tour that is followed and of one that is joined from all pairs, and
columns to add up."""
LONGEST_JOINED = 4096
"""Cities of a tour that is joined from candidates, or followed along them."""
WIDEST_CITIES = 1024
"""Cities of a tour that is improved or merged."""
WIDEST_JOBS, WIDEST_MACHINES = 2048, 256
"""Rows and columns of a schedule that is improved or merged."""
MOST_ITEMS = 128
"""Rows or columns whose attention weights a program holds."""
MOST_EDGES = 64
"""Edges of a row whose columns a program holds."""
EDGE_WIDTHS, NODE_WIDTHS, NORM_WIDTHS = (32, 64), (64, 128), (16, 32, 64, 128, 256)
"""Widths of states that the network's kernels are written for."""
HEADS = (4, 8, 16)
"""Numbers of heads that they are written for."""

_FEWEST = 32
"""Solutions that are worth a thread of their own."""


def triton_kernels(operation: str) -> ModuleType:
    """Return the module with the Triton kernels of an operation, "decode.triton"; it is imported when first used."""
    return importlib.import_module(f"{__package__}.{operation}")


def triton_runs_on(device: torch.device) -> bool:
    """Return whether Triton kernels run on a device: on every NVIDIA GPU, anywhere in Triton's interpreter.

    Not while a compiler traces an operation: it reads torch operations only.
    """
    wanted = INSTALLED and not _switched_off and not torch.compiler.is_compiling()
    return wanted and (device.type == "cuda" or INTERPRETED)


def network_kernels_run_on(device: torch.device) -> bool:
    """Return whether those of the network do: they are written for data-centre GPUs from Hopper on."""
    if device.type != "cuda" or not triton_runs_on(device):
        return triton_runs_on(device)
    return torch.cuda.get_device_capability(device)[0] in (9, 10)


def loops_run_on(device: torch.device) -> bool:
    """Return whether loops compiled by numba run on a device: on a CPU."""
    return device.type == "cpu"


def loops_are_ready_on(device: torch.device) -> bool:
    """Tell whether the loops are already compiled there, where torch could give the same result meanwhile.

    While the compiler is at work in the background, loops that it has not compiled yet run as plain Python, which
    takes far longer than torch operations.
    """
    return loops_run_on(device) and fast_now()


def is_narrow(dtype: torch.dtype) -> bool:
    """Return whether the network's kernels take a dtype: one of autocast's, or float32 in the interpreter."""
    return dtype in (torch.float32 if INTERPRETED else torch.bfloat16, torch.float16)


def scores_fit(log_odds: Tensor, widest: int) -> bool:
    """Return whether kernels decode log-odds (N, rows, columns) of at most `widest` columns."""
    return log_odds.shape[2] <= widest and log_odds.dtype != torch.float64 and triton_runs_on(log_odds.device)


def loads_fit(log_odds: Tensor) -> bool:
    """Return whether kernels choose columns by loads; they take log-odds of any precision."""
    return log_odds.shape[2] <= WIDEST_ROW and triton_runs_on(log_odds.device)


def candidates_fit(scores: Tensor) -> bool:
    """Return whether kernels choose tours by scores (N, n, k) of candidates."""
    return scores.dtype == torch.float32 and scores.shape[1] <= LONGEST_JOINED and triton_runs_on(scores.device)


def totals_fit(matrix: Tensor) -> bool:
    """Return whether kernels add up columns of a matrix (batch, rows, columns)."""
    return matrix.shape[2] <= WIDEST_TOTALS and triton_runs_on(matrix.device)


def tours_fit(distances: Tensor) -> bool:
    """Return whether kernels improve and merge tours of distances (batch, n, n)."""
    return distances.shape[1] <= WIDEST_CITIES and triton_runs_on(distances.device)


def schedules_fit(times: Tensor) -> bool:
    """Return whether kernels improve and merge schedules of times (batch, rows, columns)."""
    _, rows, columns = times.shape
    return rows <= WIDEST_JOBS and columns <= WIDEST_MACHINES and triton_runs_on(times.device)


def edges_fit(edges: Tensor, heads: int) -> bool:
    """Return whether kernels mix edges (N, R, C, c) with the scores of so many heads."""
    written = edges.shape[-1] in EDGE_WIDTHS and heads in HEADS
    return written and is_narrow(edges.dtype) and network_kernels_run_on(edges.device)


def edge_norm_fits(edges: Tensor) -> bool:
    """Return whether a kernel normalises edges (N, R, C, c)."""
    return edges.shape[-1] in NORM_WIDTHS and is_narrow(edges.dtype) and network_kernels_run_on(edges.device)


def attention_fits(edges: Tensor, width: int, heads: int) -> bool:
    """Return whether kernels do the attention over all columns by edges (N, R, C, c), for nodes of a width."""
    return max(edges.shape[1:3]) <= MOST_ITEMS and heads_fit(width, heads) and edges_fit(edges, heads)


def neighbours_fit(index: Tensor, width: int, heads: int, states: Tensor) -> bool:
    """Return whether kernels attend over the columns `index` (B, R, k), for states of this kind."""
    fits = index.shape[2] <= MOST_EDGES and heads_fit(width, heads)
    return fits and is_narrow(states.dtype) and network_kernels_run_on(states.device)


def nodes_fit(nodes: Tensor, hidden: int) -> bool:
    """Return whether nodes have kernels: without gradients only, for with them they saved 3 % of a training step."""
    written = nodes.shape[-1] in NODE_WIDTHS and hidden % nodes.shape[-1] == 0 and not torch.is_grad_enabled()
    return written and is_narrow(nodes.dtype) and network_kernels_run_on(nodes.device)


def heads_fit(width: int, heads: int) -> bool:
    """Return whether heads are of a size that kernels multiply."""
    each = width // heads
    return each >= 16 and each & (each - 1) == 0


def tiles_fit(edges: Tensor) -> bool:
    """Return whether edges are mixed in tiles: on a CPU, in float32, with neither gradients nor a compiler at work."""
    plain = edges.device.type == "cpu" and edges.dtype == torch.float32 and edges.numel() > 0
    return plain and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


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


def host_copy(tensor: Tensor) -> NDArray[Any]:
    """Return an array (N, items) for loops to write to, from a tensor (batch, samples, items) of any device."""
    array: NDArray[Any] = tensor.detach().flatten(0, 1).cpu().clone(memory_format=torch.contiguous_format).numpy()
    return array


def on_host(tensor: Tensor) -> NDArray[Any]:
    """Return an array for loops to read, from a tensor of any device."""
    array: NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    return array


def in_threads(loop: Callable[..., None], count: int, *arguments: Any, fewest: int | None = None) -> None:
    """Call a loop for parts of `count` solutions, in as many threads as torch uses; no interpreter lock is held.

    `fewest` solutions are worth a thread of their own.
    """
    threads = max(1, min(torch.get_num_threads(), count // (_FEWEST if fewest is None else fewest)))
    if threads == 1:
        loop(*arguments, 0, count)
        return
    # parts smaller than a thread's share: some solutions take longer than others
    bounds = np.linspace(0, count, 4 * threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        for result in [pool.submit(loop, *arguments, *part) for part in pairwise(bounds)]:
            result.result()
