"""How far off the Triton kernels of every operation are, and how long they take on a GPU, beside torch operations.

    python -m experiments.speed.kernels

Operations of the network run in bfloat16, under autocast as in training; the truth are torch operations in float64,
and an error is ‖value − truth‖ / ‖truth‖, the largest of all outputs, or of all gradients. Of random numbers, totals
and solutions it is the largest share of rows that differ from what torch operations return. Times are medians in
milliseconds of what a caller waits for. `tests/kernels` holds the errors to limits. Exits with 2 where there is no GPU
for the network's kernels.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import NormedMLP, dispatch

WIDTH, EDGE, HEADS = 128, 64, 8
SHAPES = [(33, 7, 11), (512, 20, 20), (512, 20, 4)]
"""Instances, rows and columns."""


@dataclass(frozen=True)
class Case:
    """An operation, which returns a tensor or a tuple of them, with inputs for it.

    passes : for which there are kernels.
    exact : whether results are equal to those of torch operations, but for rounding that decides otherwise.
    """

    name: str
    call: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    passes: tuple[str, ...] = ("forward",)
    exact: bool = False

    def values(self, backward: bool, double: bool = False) -> list[Tensor]:
        """Return the outputs, or the gradients of all inputs for the same random gradients of the outputs."""
        narrow = not double and any(x.dtype == torch.bfloat16 for x in self.inputs)
        inputs = [x.detach().double() if double and x.is_floating_point() else x.detach() for x in self.inputs]
        inputs = [x.requires_grad_() for x in inputs] if backward else inputs
        autocast = torch.autocast(self.inputs[0].device.type, torch.bfloat16, enabled=narrow, cache_enabled=False)
        with autocast, torch.set_grad_enabled(backward):
            result = self.call(*inputs)
        outputs = list(result) if isinstance(result, tuple) else [result]
        if not backward:
            return outputs
        return list(torch.autograd.grad(outputs, inputs, [_gradient(x.shape, x.dtype, x.device) for x in outputs]))


@cache
def _gradient(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).bfloat16().to(device, dtype)


def network_cases(device: torch.device, dtype: torch.dtype, n: int, rows: int, columns: int) -> list[Case]:
    """Return all operations of the network's layers, for n instances."""

    def some(*shape: int, scale: float = 1.0, wide: bool = False) -> Tensor:
        return (scale * torch.randn(shape, device=device)).to(torch.float32 if wide else dtype)

    def mlp(width: int, inside: int, out: int, wide: bool) -> tuple[Tensor, ...]:
        hidden = 2 * width
        up, down = some(hidden, inside, scale=inside**-0.5, wide=wide), some(out, hidden, scale=hidden**-0.5, wide=wide)
        norm = 1 + some(width, scale=0.3, wide=True), some(width, scale=0.3, wide=True)
        return *norm, up, some(hidden, scale=0.3, wide=wide), down, some(out, scale=0.3, wide=wide)

    edges, scores = some(n, rows, columns, EDGE, scale=2.0) + 0.5, some(n, HEADS, rows, columns)
    nodes, gathered, means, time = some(n, rows, WIDTH), some(n, rows, WIDTH), some(n, rows, EDGE), some(n, WIDTH)
    norm = 1 + some(WIDTH, scale=0.3, wide=True), some(WIDTH, scale=0.3, wide=True)
    halves = some(n, rows, 2 * WIDTH), some(n, columns, 2 * WIDTH)
    mixer = mlp(EDGE, EDGE + HEADS, EDGE + 2 * HEADS, wide=True)
    out = some(WIDTH, WIDTH + EDGE, scale=0.1), some(WIDTH, scale=0.3)
    weight = some(2 * WIDTH, WIDTH, scale=0.1)
    both = ("forward", "backward")
    return [
        Case("mix_edges", lambda e, s, *w: kernels.mix_edges(e, s, NormedMLP(*w)), (edges, scores, *mixer), both),
        Case(
            "edge_attention",
            lambda e, r, c, *w: kernels.edge_attention(e, r, c, HEADS, NormedMLP(*w)),
            (edges, *halves, *mixer), both,
        ),
        Case("project_nodes", kernels.project_nodes, (nodes, *norm, weight, time)),
        Case(
            "update_nodes",
            lambda h, g, m, o, b, *w: kernels.update_nodes(h, g, m, o, b, NormedMLP(*w)),
            (nodes, gathered, means, *out, *mlp(WIDTH, WIDTH, WIDTH, wide=False)),
        ),
        Case(
            "read_edges",
            lambda e, s, *w: kernels.read_edges(e, s, NormedMLP(*w)),
            (edges, scores, *mlp(EDGE, EDGE + HEADS, 1, wide=True)),
        ),
    ]  # fmt: skip


def sampling_cases(device: torch.device, n: int, rows: int, columns: int, decodes: int = 8) -> list[Case]:
    """Return draws, decoding and totals, for n matrices of log-odds decoded several times each."""
    keys = kernels.fold(torch.tensor(1, device=device), torch.arange(n * decodes, device=device))
    noise = kernels.GumbelNoise(keys, 7, 0.5)
    log_odds, size = 3 * torch.randn(n, rows, columns, device=device), min(rows, columns)
    square, first = log_odds[:, :size, :size], torch.arange(n * decodes, device=device) * 7 % size
    choice = torch.randint(columns, (n, decodes, rows), device=device)
    durations = torch.randint(1, 100, (n, rows, columns), device=device)
    exact = partial(Case, exact=True)
    return [
        exact("uniform", lambda k: kernels.uniform(k, 3, rows * columns), (keys,)),
        Case("gumbel", lambda k: kernels.gumbel(k, 3, rows * columns), (keys,)),
        exact("integers", lambda k: kernels.integers(k, 3, rows, 1000), (keys,)),
        exact("child_keys", lambda k: kernels.child_keys(k, 3, rows), (keys,)),
        exact("pick_columns, greedy", kernels.pick_columns, (log_odds,)),
        exact("pick_columns", lambda x: kernels.pick_columns(x, noise, decodes), (log_odds,)),
        exact("follow_tours", lambda x: kernels.follow_tours(x, first, noise, decodes), (square,)),
        exact("join_tours, greedy", kernels.join_tours, (square,)),
        exact("join_tours", lambda x: kernels.join_tours(x, noise, decodes), (square,)),
        exact("pick_by_loads", lambda x, t: kernels.pick_by_loads(x, t, noise, decodes), (log_odds, durations)),
        exact("column_totals", kernels.column_totals, (durations, choice)),
        Case("column_totals of reals", kernels.column_totals, (durations.double() / 7, choice)),
    ]


def errors(case: Case, backward: bool) -> tuple[float, float]:
    """Return the errors of the kernels and of torch operations in the same precision."""
    values = case.values(backward)
    with kernels.without_triton():
        plain = case.values(backward)
        # noise is drawn in float32 whatever is asked: where results are to be equal, torch operations are the truth
        truth = plain if case.exact else case.values(backward, double=True)
    return distance(values, truth, case.exact), distance(plain, truth, case.exact)


def distance(values: list[Tensor], truth: list[Tensor], exact: bool) -> float:
    """Return the largest relative error, or the largest share of rows that differ."""
    if exact:
        return max(float((a != b).flatten(1).any(1).float().mean()) for a, b in zip(values, truth, strict=True))
    pairs = [(a.double(), b.double()) for a, b in zip(values, truth, strict=True)]
    return max(float((a - b).norm() / b.norm().clamp_min(1e-12)) for a, b in pairs)


def milliseconds(work: Callable[[], object]) -> float:
    """Return the median time of one call."""
    from triton.testing import do_bench

    return float(do_bench(work, warmup=10, rep=50, return_mode="median"))


def main() -> int:
    """Print a line for every operation, size and pass."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    device = torch.device("cuda", 0)
    if not torch.cuda.is_available() or not dispatch.network_kernels_run_on(device):
        print("this needs triton and an NVIDIA GPU of compute capability 9 or 10 (Hopper, Blackwell)", file=sys.stderr)
        return 2
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}")
    print(f"{'operation':24} {'N×R×C':10} {'pass':8} {'error':>9} {'plain':>9} {'ms':>9} {'plain ms':>9}")
    for shape in SHAPES:
        torch.manual_seed(sum(shape))
        for case in network_cases(device, torch.bfloat16, *shape) + sampling_cases(device, *shape):
            for name in case.passes:
                work = partial(case.values, name == "backward")
                error, plain_error = errors(case, name == "backward")
                mine = milliseconds(work)
                with kernels.without_triton():
                    plain = milliseconds(work)
                line = f"{case.name:24} {'×'.join(map(str, shape)):10} {name:8} {error:9.1e} {plain_error:9.1e}"
                print(f"{line} {mine:9.3f} {plain:9.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
