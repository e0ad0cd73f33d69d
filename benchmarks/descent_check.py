"""Local search and prices on a GPU: what `kernel_check` checks and times of them.

Every search starts from random solutions and runs to local optima. No solution may be worse than it was, infeasible,
or such that the plain operations, which look at all changes, still find one that improves it. Schedules must be those
of the plain operations; tours take other ways, and must not be longer on average by more than a hundredth. A bound must
be the CPU's up to rounding. Times are of the whole batch, for each solution.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from icdc import kernels

SCHEDULES = [(64, 16, 20, 4), (64, 16, 50, 10), (64, 16, 100, 20), (16, 16, 200, 50), (2, 4, 1000, 50), (3, 5, 7, 3)]
TOURS = [(64, 16, 20), (64, 16, 50), (64, 16, 100), (16, 8, 200), (1, 4, 400), (3, 5, 3), (3, 5, 7)]
ENOUGH = 1_000_000
PLAIN_ROUNDS = 8
"""Rounds of plain operations that are timed: they cannot see that all solutions are done."""


def random_times(batch: int, rows: int, columns: int, kind: torch.dtype, device: torch.device) -> Tensor:
    """Return times that depend on the row as much as on the pair."""
    rows_of = torch.randint(1, 100, (batch, rows, 1), device=device)
    times = rows_of + torch.randint(0, 100, (batch, rows, columns), device=device)
    return times if kind == torch.int64 else (times / 7).to(kind)


def random_tours(batch: int, samples: int, size: int, device: torch.device) -> Tensor:
    """Return random tours (batch, samples, n), as successors."""
    order = torch.rand(batch, samples, size, device=device).argsort(-1)
    return torch.zeros_like(order).scatter(2, order, order.roll(-1, 2))


def makespans(times: Tensor, choice: Tensor) -> Tensor:
    """Return the makespans (batch, samples)."""
    with kernels.only_plain():
        return kernels.column_totals(times, choice).amax(-1)


def lengths(distances: Tensor, successor: Tensor) -> Tensor:
    """Return the lengths (batch, samples) of tours."""
    spread = distances[:, None].expand(-1, successor.shape[1], -1, -1)
    return spread.gather(3, successor[..., None]).squeeze(3).sum(-1)


def are_tours(successor: Tensor) -> Tensor:
    """Tell which successors (batch, samples, n) are tours through all cities."""
    city, seen = torch.zeros_like(successor[..., :1]), torch.zeros_like(successor)
    for _ in range(successor.shape[-1]):
        city = successor.gather(-1, city.clamp(0, successor.shape[-1] - 1))
        seen = seen.scatter_add(-1, city, torch.ones_like(city))
    return (seen == 1).all(-1)


def seconds(work: Callable[[], Any]) -> float:
    """Return the least time of three calls after a first one."""
    work()
    found = []
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return min(found)


Improve = Callable[..., Tensor]


def check_one(
    what: str, improve: Improve, costs: Tensor, start: Tensor, score: Callable[[Tensor, Tensor], Tensor],
    feasible: Callable[[Tensor], Tensor], allowed: Tensor | None, same: bool, timed: bool,
) -> bool:  # fmt: skip
    """Print a row; return whether a search does what it promises."""
    found = improve(costs, start, ENOUGH, allowed)
    again = improve(costs, start, ENOUGH, allowed)
    few = improve(costs, start, 3, allowed)
    with kernels.only_plain():
        looked = improve(costs, found, 1, allowed)
        part = slice(None) if timed else slice(0, 1)
        mask = None if allowed is None else allowed[part]
        plain_few = improve(costs[part], start[part], 3, mask)
    before, after = score(costs, start), score(costs, found)
    wrong = []
    if not feasible(found).all():
        wrong.append("INFEASIBLE")
    if not (after <= before).all() or not (score(costs, few) <= before).all():
        wrong.append("WORSE")
    if allowed is not None:
        spread = allowed[:, None].expand(-1, start.shape[1], -1, -1)
        taken = spread.gather(3, found[..., None]).squeeze(3)
        if not (taken | (found == start)).all():
            wrong.append("FORBIDDEN")
    if not torch.equal(looked, found):
        wrong.append(f"{int((looked != found).any(-1).sum())} OF {found.shape[0] * found.shape[1]} NO LOCAL OPTIMUM")
    if not torch.equal(found, again):
        wrong.append("DIFFERS FROM RUN TO RUN")
    if same and not torch.equal(few[part], plain_few):
        wrong.append("NOT THE PLAIN ONES")
    solutions = start.shape[0] * start.shape[1]
    mine = seconds(lambda: improve(costs, start, ENOUGH, allowed)) / solutions if timed else float("nan")
    plain = float("nan")
    if timed:
        with kernels.only_plain():
            plain = seconds(lambda: improve(costs, start, PLAIN_ROUNDS, allowed)) / solutions / PLAIN_ROUNDS
    ratio = float(after.double().mean() / before.double().mean())
    print(f"{what:44} {ratio:8.4f} {1e6 * mine:10.2f} {1e6 * plain:10.2f}  {', '.join(wrong) or 'ok'}", flush=True)
    return not wrong


def check_descent(device: torch.device, timed: bool = True) -> bool:
    """Print a row for every size, dtype and mask; return whether all is well."""
    print(f"{'search':44} {'after/start':>11} {'µs each':>7} {'plain round':>10}")
    fine = True
    torch.manual_seed(1)
    for batch, samples, rows, columns in SCHEDULES:
        for kind, masked in ((torch.int64, False), (torch.float64, True), (torch.float32, False)):
            times = random_times(batch, rows, columns, kind, device)
            start = torch.randint(columns, (batch, samples, rows), device=device)
            allowed = torch.rand(times.shape, device=device) < 0.8 if masked else None
            what = f"schedules {batch * samples} of {rows}×{columns} {str(kind)[6:]}{' masked' if masked else ''}"
            fine &= guarded(
                what, kernels.improve_schedules, times, start, makespans,
                lambda choice, columns=columns: ((choice >= 0) & (choice < columns)).all(-1),
                allowed, kind != torch.float32, timed and kind == torch.int64 and rows <= 200,
            )  # fmt: skip
    for batch, samples, size in TOURS:
        for kind, masked in ((torch.int64, False), (torch.float64, True), (torch.float32, False)):
            distances = torch.randint(0, 10**6, (batch, size, size), device=device)
            distances = distances if kind == torch.int64 else (distances / 7e5).to(kind)
            start = random_tours(batch, samples, size, device)
            allowed = torch.rand(distances.shape, device=device) < 0.8 if masked else None
            what = f"tours {batch * samples} of {size} {str(kind)[6:]}{' masked' if masked else ''}"
            fine &= guarded(
                what, kernels.improve_tours, distances, start, lengths, are_tours, allowed, False,
                timed and kind == torch.int64 and size <= 100,
            )  # fmt: skip
    return fine & check_tour_quality(device) & check_prices(device) & check_loads(device)


def guarded(what: str, *arguments: Any) -> bool:
    """Check one search; an error is a row, too."""
    try:
        return check_one(what, *arguments)
    except Exception as error:  # the others are still worth checking
        print(f"{what:44} {type(error).__name__}: {str(error)[:600]}", flush=True)
        return False


def check_tour_quality(device: torch.device) -> bool:
    """Compare mean lengths of local optima with those of the plain operations."""
    distances = torch.randint(0, 10**6, (32, 30, 30), device=device)
    start = random_tours(32, 16, 30, device)
    mine = lengths(distances, kernels.improve_tours(distances, start, ENOUGH)).double().mean()
    with kernels.only_plain():
        plain = lengths(distances, kernels.improve_tours(distances, start, 200)).double().mean()
    fine = bool(mine <= 1.01 * plain)
    verdict = "ok" if fine else "LONG"
    print(f"mean length of local optima, 30 cities: {float(mine / plain):.5f} of the plain ones  {verdict}")
    return fine


def check_prices(device: torch.device) -> bool:
    """Compare bounds with those of the CPU, and time them."""
    fine = True
    times, distances = (
        random_times(64, 100, 20, torch.int64, device),
        torch.randint(1, 10**6, (64, 50, 50), device=device),
    )
    for what, price, costs in (
        ("schedule_prices 64 of 100×20", kernels.schedule_prices, times),
        ("tour_prices 64 of 50", kernels.tour_prices, distances),
    ):
        mine, host = price(costs).bound.cpu(), price(costs.cpu()).bound
        off = float(((mine - host).abs() / host).max())
        took = seconds(lambda price=price, costs=costs: price(costs))
        fine &= off < 1e-3
        print(f"{what}: {1e3 * took:.2f} ms, bounds {off:.1e} from the CPU's  {'ok' if off < 1e-3 else 'TOO FAR'}")
    return fine


def check_loads(device: torch.device) -> bool:
    """Compare decoding by loads with plain operations: the same but where rounding decides; and time both."""
    fine = True
    for batch, decodes, rows, columns in ((64, 16, 20, 4), (64, 16, 100, 20), (4, 128, 200, 50)):
        times = random_times(batch, rows, columns, torch.int64, device)
        log_odds = torch.randn(batch, rows, columns, device=device)
        keys = kernels.fold(torch.tensor(1, device=device), torch.arange(batch * decodes, device=device))
        noise = kernels.GumbelNoise(keys, 7, 0.5)

        def work(
            log_odds: Tensor = log_odds, times: Tensor = times, noise: Any = noise, decodes: int = decodes
        ) -> Tensor:
            return kernels.pick_by_loads(log_odds, times, noise, decodes)

        found, mine = work(), seconds(work)
        with kernels.only_plain():
            differ = float((found != work()).any(1).float().mean())
            plain = seconds(work)
        fine &= differ <= 0.02
        print(
            f"pick_by_loads {batch * decodes} of {rows}×{columns}: {1e3 * mine:.3f} ms, plain {1e3 * plain:.3f} ms, "
            f"{differ:.4f} of the choices differ  {'ok' if differ <= 0.02 else 'TOO MANY'}"
        )
    return fine
