"""What fits, known before it is begun: how many trajectories into memory, and a pass of the network into the time."""

import time
from dataclasses import replace

import numpy as np

from ..diffusion.sampler import SamplingOptions
from ..models.diffusion import Model
from ..problems.rules import HamiltonianCycle
from .diffusion_search import DiffusionSearch
from .request import Request

CPU_CHUNK_BYTES = 4 * 2**20
"""Edge states that run together on one core, as float32: with many more, inference waits for memory."""
GPU_CHUNK_BYTES = 2**30
CPU_DECODES_BYTES = 8 * 2**20
"""Scores that are decoded together on one core, as float32."""
GPU_DECODES_BYTES = 2**31
"""Choices that are decoded together on a GPU, as int64: its kernels keep the scores to themselves."""

TRIAL_ENTRIES = 100**2
"""Entries of the matrix by which the time of a larger one is foreseen."""


def default_chunk(model: Model, shape: tuple[int, int], decodes: int = 1, device: str | None = None) -> int:
    """Return how many trajectories run together on a kind of device (its own).

    For matrices of a shape, so many solutions decoded from each; both take memory.
    """
    network, (rows, columns) = model.config.network, shape
    width = network.edge_width if network.denoiser == "edge" else network.width
    kept = columns
    if model.priced and (candidates := network.candidates_of(rows, columns)):
        # every edge has the key and the value of its column beside it, and is sorted in every decode
        kept, width = candidates, width + 2 * network.width
    if (device or model.device.type) == "cuda":
        each = 8 if kept == columns else 8 * columns  # scores of candidates are spread over all columns
        if kept < columns and isinstance(model.problem.rule, HamiltonianCycle):
            each = 32 * kept  # unless tours are made along candidates: scores, sorted, and what they are scores of
        state, decoded = rows * kept * width * 2, rows * decodes * each
        return max(1, min(GPU_CHUNK_BYTES // state, GPU_DECODES_BYTES // decoded))
    state, decoded = rows * kept * width * 4, rows * columns * decodes * 4
    return max(1, min(CPU_CHUNK_BYTES // state, CPU_DECODES_BYTES // decoded))


def seconds_of_a_pass(request: Request, model: Model, options: SamplingOptions) -> float:
    """Return how long a step of one trajectory takes at least, by one of a smaller instance drawn at random."""
    problem, (rows, columns) = request.problem, request.shape
    part = (TRIAL_ENTRIES / (rows * columns)) ** 0.5
    least = 2
    if model.candidates_of(request.size):  # the smaller one is to be looked at like it, at few columns of each row
        least = model.config.network.dense_up_to + 1
    size = tuple(min(count, max(least, int(count * part))) for count in request.size)
    trial = Request(problem, problem.sample(1, size, np.random.default_rng(0)))
    single = replace(options, steps=1, decodes=1, improve_rounds=0, merge=0)
    seconds = []
    for _ in range(2):  # the first may wait for a compiler, whose time does not grow with the matrix
        began = time.perf_counter()
        DiffusionSearch(trial, model, single, 0, 1, 1).run()
        seconds.append(time.perf_counter() - began)
    return min(seconds) * _entries(model, request) / _entries(model, trial)


def _entries(model: Model, request: Request) -> int:
    """Return how many pairs the network looks at."""
    rows, columns = request.shape
    return rows * (model.candidates_of(request.size) or columns)
