"""Check every operation's Triton kernels against torch operations on a GPU, and time both.

    PYTHONPATH=src python benchmarks/kernel_check.py [--without-times] [--tune]

Operations of the network run in bfloat16, under autocast as in training; the truth are torch operations in float64,
and an error is ‖value − truth‖ / ‖truth‖, the largest of all outputs, or of all gradients. Random numbers and totals
must be equal, and solutions too, except where the rounding of a logarithm decides. Local search and merging, which no
torch operations do, are timed alone: `tests/kernels` checks them. Times are medians in milliseconds of what a caller
waits for. Exits with 1 where a limit is broken, or where an operation did not use a kernel at all; with 2 where there
is no GPU for the network's kernels.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from icdc import kernels
from icdc.kernels import NormedMLP, dispatch

WIDTH, EDGE, HEADS = 128, 64, 8
CHECKED, TIMED = [(64, 20, 20), (33, 7, 11)], [(512, 20, 20), (512, 20, 4)]
LAUNCHES = {
    "FORWARD": [(64, 4, 3, 1, 168), (64, 4, 3, 2, 168), (64, 4, 4, 1, 128), (128, 8, 2, 1, 128)],
    "BACKWARD": [(128, 8, 1, 1), (128, 8, 1, 2), (64, 8, 1, 1), (64, 4, 2, 1)],
}


@dataclass(frozen=True)
class Case:
    """An operation with inputs for it.

    call : the operation, of the inputs; returns a tensor or a tuple of them.
    forward, backward : limits of the relative errors, where there are kernels for it. For an `exact` one, `forward` is
        the share of rows of the result that may differ.
    """

    name: str
    call: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    forward: float | None
    backward: float | None = None
    exact: bool = False

    def passes(self) -> list[tuple[bool, float]]:
        """Return whether a pass is backward, and its limit, for each that has kernels."""
        both = ((False, self.forward), (True, self.backward))
        return [(backward, limit) for backward, limit in both if limit is not None]

    def autocast(self) -> torch.autocast:
        """Return autocast where an input is narrow."""
        narrow = any(x.dtype == torch.bfloat16 for x in self.inputs)
        return torch.autocast(self.inputs[0].device.type, torch.bfloat16, enabled=narrow, cache_enabled=False)


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
    nodes, gathered, means, time_ = some(n, rows, WIDTH), some(n, rows, WIDTH), some(n, rows, EDGE), some(n, WIDTH)
    norm = 1 + some(WIDTH, scale=0.3, wide=True), some(WIDTH, scale=0.3, wide=True)
    halves = some(n, rows, 2 * WIDTH), some(n, columns, 2 * WIDTH)
    mixer = mlp(EDGE, EDGE + HEADS, EDGE + 2 * HEADS, wide=True)
    out = some(WIDTH, WIDTH + EDGE, scale=0.1), some(WIDTH, scale=0.3)
    weight = some(2 * WIDTH, WIDTH, scale=0.1)
    return [
        Case("mix_edges", lambda e, s, *w: kernels.mix_edges(e, s, NormedMLP(*w)), (edges, scores, *mixer), 1e-2, 1e-2),
        Case(
            "edge_attention",
            lambda e, r, c, *w: kernels.edge_attention(e, r, c, HEADS, NormedMLP(*w)),
            (edges, *halves, *mixer), 1.5e-2, 3e-2,
        ),
        Case("project_nodes", kernels.project_nodes, (nodes, *norm, weight, time_), 1e-2),
        Case(
            "update_nodes",
            lambda h, g, m, o, b, *w: kernels.update_nodes(h, g, m, o, b, NormedMLP(*w)),
            (nodes, gathered, means, *out, *mlp(WIDTH, WIDTH, WIDTH, wide=False)), 1e-2,
        ),
        Case(
            "read_edges",
            lambda e, s, *w: kernels.read_edges(e, s, NormedMLP(*w)),
            (edges, scores, *mlp(EDGE, EDGE + HEADS, 1, wide=True)), 1.5e-2,
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
    share = 1e-2  # of the solutions: one other choice early on a tour makes all of it another tour
    return [
        Case("uniform", lambda k: kernels.uniform(k, 3, rows * columns), (keys,), 0.0, exact=True),
        Case("gumbel", lambda k: kernels.gumbel(k, 3, rows * columns), (keys,), 1e-5),
        Case("integers", lambda k: kernels.integers(k, 3, rows, 1000), (keys,), 0.0, exact=True),
        Case("child_keys", lambda k: kernels.child_keys(k, 3, rows), (keys,), 0.0, exact=True),
        Case("pick_columns, greedy", kernels.pick_columns, (log_odds,), 0.0, exact=True),
        Case("pick_columns", lambda x: kernels.pick_columns(x, noise, decodes), (log_odds,), share, exact=True),
        Case("follow_tours", lambda x: kernels.follow_tours(x, first, noise, decodes), (square,), share, exact=True),
        Case("join_tours, greedy", kernels.join_tours, (square,), 0.0, exact=True),
        Case("join_tours", lambda x: kernels.join_tours(x, noise, decodes), (square,), share, exact=True),
        Case(
            "pick_by_loads",
            lambda x, t: kernels.pick_by_loads(x, t, noise, decodes),
            (log_odds, durations),
            share,
            exact=True,
        ),
        Case("column_totals", kernels.column_totals, (durations, choice), 0.0, exact=True),
        Case("column_totals of reals", kernels.column_totals, (durations.double() / 7, choice), 1e-12),
    ]  # fmt: skip


def outputs(case: Case, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return what the operation returns, always as a tuple."""
    result = case.call(*inputs)
    return result if isinstance(result, tuple) else (result,)


def values(case: Case, inputs: tuple[Tensor, ...], backward: bool) -> list[Tensor]:
    """Return the outputs, or the gradients of all inputs for the same random gradients of the outputs."""
    if not backward:
        with torch.no_grad():
            return list(outputs(case, inputs))
    inputs = tuple(x.detach().requires_grad_() for x in inputs)
    found = outputs(case, inputs)
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(x.shape, generator=generator).bfloat16().to(x.device, x.dtype) for x in found]
    return list(torch.autograd.grad(found, inputs, seeds))


def distance(case: Case, found: list[Tensor], truth: list[Tensor]) -> float:
    """Return the largest relative error, or the largest share of rows that differ."""
    if any(not torch.isfinite(value).all() for value in found):
        return float("inf")
    if case.exact:
        return max(float((a != b).flatten(1).any(1).float().mean()) for a, b in zip(found, truth, strict=True))
    pairs = [(a.double(), b.double()) for a, b in zip(found, truth, strict=True)]
    return max(float((a - b).norm() / b.norm().clamp_min(1e-12)) for a, b in pairs)


def doubled(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return reals in float64, integers as they are."""
    return tuple(x.double() if x.is_floating_point() else x for x in inputs)


@contextmanager
def counted_launches() -> Iterator[list[str]]:
    """Collect the names of the Triton kernels that are launched meanwhile."""
    from triton.runtime.jit import JITFunction

    names: list[str] = []
    run = JITFunction.run

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        names.append(self.__name__)
        return run(self, *arguments, **options)

    JITFunction.run = counted
    try:
        yield names
    finally:
        JITFunction.run = run


def check(case: Case, shape: tuple[int, ...], backward: bool, limit: float) -> bool:
    """Print a row with the errors of the kernels and of torch operations in the same precision."""
    with case.autocast(), counted_launches() as launched:
        found = values(case, case.inputs, backward)
        again = values(case, case.inputs, backward)
    with kernels.without_triton():
        with case.autocast():
            plain = values(case, case.inputs, backward)
        # noise is drawn in float32 whatever is asked: where results are to be equal, torch operations are the truth
        truth = plain if case.exact else values(case, doubled(case.inputs), backward)
    repeats = all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    error, used = distance(case, found, truth), bool(launched) or dispatch.INTERPRETED
    fine = error <= limit and used and repeats
    verdict = "ok" if fine else "NO KERNEL" if not used else "DIFFERS FROM RUN TO RUN" if not repeats else "TOO LARGE"
    size, kind = "×".join(map(str, shape)), "backward" if backward else "forward"
    print(f"{case.name:24} {size:10} {kind:8} {error:9.1e} {distance(case, plain, truth):9.1e} {limit:9.1e}  {verdict}")
    return fine


def milliseconds(case: Case, backward: bool) -> float:
    """Return the median time of one call."""
    from triton.testing import do_bench

    inputs = tuple(x.detach().requires_grad_(backward) for x in case.inputs)

    def work() -> None:
        with case.autocast(), torch.set_grad_enabled(backward):
            found = outputs(case, inputs)
        if backward:
            torch.autograd.grad(found, inputs, [x.detach() for x in found])

    return float(do_bench(work, warmup=10, rep=50, return_mode="median"))


def measure(case: Case, shape: tuple[int, ...], backward: bool) -> None:
    """Print a row with both times."""
    mine = milliseconds(case, backward)
    with kernels.without_triton():
        plain = milliseconds(case, backward)
    size, kind = "×".join(map(str, shape)), "both" if backward else "forward"
    print(f"{case.name:24} {size:10} {kind:8} {mine:9.3f} {plain:9.3f} {plain / mine:8.1f}×")


def time_searches(device: torch.device) -> None:
    """Print what local search and merging take for 1,024 solutions of 64 instances."""
    from triton.testing import do_bench

    searches: list[tuple[str, Callable[[], Tensor]]] = []
    for rows, columns in ((20, 4), (50, 10), (100, 20)):
        times = torch.randint(1, 100, (64, rows, columns), device=device)
        choice, others = (torch.randint(columns, (64, 16, *more, rows), device=device) for more in ((), (4,)))
        searches += [
            (f"improve_schedules {rows}×{columns}", partial(kernels.improve_schedules, times, choice, 10**6)),
            (f"merge_schedules {rows}×{columns}", partial(kernels.merge_schedules, times, choice, others)),
        ]
    for size in (20, 50, 100):
        distances = torch.randint(1, 10**6, (64, size, size), device=device)
        tours, others = (torch.rand(64, 16, *more, size, device=device).argsort(-1) for more in ((), (4,)))
        tours, others = (torch.zeros_like(x).scatter(-1, x, x.roll(-1, -1)) for x in (tours, others))
        searches += [
            (f"improve_tours {size}", partial(kernels.improve_tours, distances, tours, 10**6)),
            (f"merge_tours {size}", partial(kernels.merge_tours, distances, tours, others)),
        ]
    for name, search in searches:
        print(f"{name:35} {float(do_bench(search, warmup=10, rep=50, return_mode='median')):9.3f} ms")


def tune(case: Case) -> None:
    """Time launches of the mixer's kernels."""
    from icdc.kernels.edge_attention import triton_mixer

    for name, choices in LAUNCHES.items():
        before = getattr(triton_mixer, name)
        for choice in choices:
            setattr(triton_mixer, name, triton_mixer.Launch(*choice))
            try:
                print(f"{name:9} {choice!s:22} {milliseconds(case, name == 'BACKWARD'):.4f} ms", flush=True)
            except Exception as error:  # some launches do not fit some devices
                print(f"{name:9} {choice!s:22} {type(error).__name__} {str(error)[:80]}", flush=True)
        setattr(triton_mixer, name, before)


def check_all(device: torch.device, dtype: torch.dtype, shapes: list[tuple[int, int, int]]) -> bool:
    """Print the table of errors; return whether all limits hold."""
    print(f"{'operation':24} {'N×R×C':10} {'pass':8} {'error':>9} {'plain':>9} {'limit':>9}")
    fine = True
    for shape in shapes:
        torch.manual_seed(sum(shape))
        for case in network_cases(device, dtype, *shape) + sampling_cases(device, *shape):
            for backward, limit in case.passes():
                try:
                    fine &= check(case, shape, backward, limit)
                except Exception as error:  # the other operations are still worth checking
                    print(f"{case.name:24} {shape!s:10} {type(error).__name__}: {str(error)[:200]}")
                    fine = False
            sys.stdout.flush()
    return fine


def main() -> int:
    """Check, then time, then tune if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-times", action="store_true", help="check only")
    parser.add_argument("--tune", action="store_true", help="time several launches of the mixer's kernels")
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    if not torch.cuda.is_available() or not dispatch.network_kernels_run_on(device):
        print("this needs triton and an NVIDIA GPU of compute capability 9 or 10 (Hopper, Blackwell)", file=sys.stderr)
        return 2
    begin = time.perf_counter()
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}")
    fine = check_all(device, torch.bfloat16, CHECKED)
    print(
        "all limits hold" if fine else "SOME LIMITS ARE BROKEN", f"({time.perf_counter() - begin:.0f} s)\n", flush=True
    )
    for shape in [] if options.without_times else TIMED:
        print(f"{'operation':24} {'N×R×C':10} {'pass':8} {'ms':>9} {'plain ms':>9}")
        for case in network_cases(device, torch.bfloat16, *shape) + sampling_cases(device, *shape):
            for backward, _ in case.passes():
                try:
                    measure(case, shape, backward)
                except Exception as error:  # the others are still worth timing
                    print(f"{case.name:24} {type(error).__name__}: {str(error)[:200]}")
        print(f"({time.perf_counter() - begin:.0f} s)\n", flush=True)
    if not options.without_times:
        time_searches(device)
    if options.tune:
        tune(next(case for case in network_cases(device, torch.bfloat16, *TIMED[0]) if case.name == "mix_edges"))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
