"""Training on known solutions: better ones replace them, worse ones never, and nothing is begun that ends too late."""

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from icdc.kernels import Noise, root_key
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks.network import NetworkConfig
from icdc.problems.pmsp import Pmsp
from icdc.solving.verify import judge
from icdc.training import incumbents
from icdc.training.finetuning import finetuning_config
from icdc.training.incumbents import Incumbents, InstanceTrainer

TINY = NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1, identifiers=4)


def source(costs: list[float]) -> Incumbents:
    count = len(costs)
    made = iter(range(10**6))

    def noise(n: int) -> Noise:
        return Noise(root_key(next(made), torch.device("cpu")) + torch.arange(n))

    choice = torch.zeros(count, 3, dtype=torch.long)
    instances = {"number": torch.arange(count)}
    return Incumbents(instances, choice, torch.tensor(costs).double(), noise, np.random.default_rng(0))


def test_what_is_drawn_comes_with_its_solution() -> None:
    given = source([5.0, 6.0, 7.0])
    given.choice.copy_(torch.arange(3)[:, None].expand(3, 3))
    drawn = given.draw(50)
    assert drawn.solutions is not None
    assert set(drawn.instances["number"].tolist()) == {0, 1, 2}
    assert torch.equal(drawn.instances["number"], drawn.solutions[:, 0])
    assert torch.equal(given.drawn, drawn.instances["number"])
    before = given.drawn
    given.draw(50)
    assert given.drawn is before  # in place, for steps that were recorded


def test_the_best_of_several_is_kept_whole_and_nothing_worse() -> None:
    given = source([5.0, 6.0, 7.0])
    given.drawn = torch.tensor([1, 1, 2, 1])
    found = torch.tensor([[1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4]])
    given.keep(found, torch.tensor([5.5, 4.0, 7.0, 4.5]))
    assert given.choice.tolist() == [[0, 0, 0], [2, 2, 2], [0, 0, 0]]  # an equal cost is not better
    assert given.cost.tolist() == [5.0, 4.0, 7.0]


def trainer(rounds: int = 0, until: float | None = None, **options: object) -> InstanceTrainer:
    problem = Pmsp()
    arrays = problem.sample(3, (5, 2), np.random.default_rng(1))
    torch.manual_seed(3)
    model = Model(problem, ModelConfig(network=TINY))
    config = finetuning_config(model, arrays, torch.device("cpu"), time_limit=9.0, rounds=rounds)
    poor = np.zeros((3, 5), dtype=np.int64)  # all on one machine
    return InstanceTrainer(
        config, start=model, arrays=arrays, choice=poor, until=until, device="cpu", **options  # type: ignore[arg-type]
    )  # fmt: skip


def test_solutions_of_its_own_replace_poor_ones() -> None:
    run = trainer(rounds=3)
    run.run()
    assert run.rounds_done == 3
    problem, arrays = run.problem, run.instances
    assert arrays is not None
    feasible, cost = judge(problem, arrays, run.incumbents.choice.numpy())
    _, poor = judge(problem, arrays, run.choice)
    assert feasible.all()
    assert (cost < poor).all()
    assert cost.tolist() == run.incumbents.cost.tolist()
    assert (run.choice == 0).all()  # what was given stays as it was
    memory = run.steps[0].memory
    stored = memory.rings["choice"][: int(memory.stored)]
    assert stored.any()  # what is learned is not what was given


class Direct:
    """Records nothing."""

    def waits(self, step: object) -> bool:
        return False

    def run(self, step: Callable[[], object]) -> None:
        step()


def test_nothing_is_begun_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(until=time.perf_counter() + 5.0, step_seconds=6.0)
    run.run()
    assert run.rounds_done == 0
    now = [0.0]
    monkeypatch.setattr(incumbents.time, "perf_counter", lambda: now[0])
    taken: list[str] = []
    run = trainer(until=100.0, step_seconds=1.0)

    def take(name: str, seconds: float) -> object:
        def step() -> None:
            taken.append(name)
            now[0] += seconds

        step.__name__ = name
        return step

    run.graphs = Direct()  # type: ignore[assignment]
    for seconds in (30.0, 30.0, 1.0):  # a third of 30 seconds would need 36 of the 40 that are left, not of 39
        run.do(take("clone", seconds))  # type: ignore[arg-type]
    assert (taken, now[0]) == (["clone"] * 3, 61.0)
    now[0] = 65.0
    run.do(take("clone", 1.0))  # type: ignore[arg-type]
    run.do(take("draw", 1.0))  # type: ignore[arg-type]
    assert taken == ["clone"] * 3 + ["draw"]
    now[0] = 100.0
    assert not run.late()  # it has not begun
    run._running = True
    assert run.late()
    now[0] = 99.9
    assert not run.late()


def test_it_ends_where_it_is_told_to() -> None:
    run = trainer(rounds=50, stopped=lambda: True)
    run.run()
    assert run.rounds_done == 0
