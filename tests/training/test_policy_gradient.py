"""The reverse process as a policy, against enumeration; and learning from reward alone."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from icdc.diffusion.process import Diffusion, DiffusionConfig
from icdc.diffusion.sampler import SamplingOptions
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.problems.atsp import Atsp
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.settings import build
from icdc.training import Trainer, TrainingConfig
from icdc.training.policy_gradient import Decision, Trajectories, all_decisions, last_decision

STEPS = 3
OPTIONS = SamplingOptions(temperature=1.0)
DURATIONS = torch.tensor([[[2.0, 5.0]]], dtype=torch.float64)  # one job, two machines: a 1×2 matrix
STATES = [torch.tensor([[[float(a), float(b)]]]) for a, b in itertools.product((0, 1), repeat=2)]


def _task() -> Task:
    return Task(Pmsp(), {"durations": DURATIONS}, masked=False)


def _network(theta: Tensor, x: Tensor, t: int) -> Tensor:
    """A network of six parameters: log-odds linear in x_t, with an offset of its own for every step."""
    return theta[0] * x + theta[1] * x.flip(2) + theta[2 + t] * torch.tensor([[[1.0, 0.2]]])


THETA = torch.tensor([0.8, -0.5, 0.0, 0.3, -0.6, 0.2])


def _differences(function: Callable[[Tensor], float]) -> Tensor:
    gradient = torch.zeros_like(THETA)
    for index in range(len(THETA)):
        step = torch.zeros_like(THETA)
        step[index] = 1e-2
        gradient[index] = (function(THETA + step) - function(THETA - step)) / 2e-2
    return gradient


def _decoded_cost(x0: Tensor) -> float:
    """The marked machine's duration; the mean of both where greedy decoding has to toss a coin."""
    one, other = x0[0, 0].tolist()
    return 0.5 * (2.0 + 5.0) if one == other else (2.0 if one else 5.0)


def test_policy_gradient_of_independent_reverse_steps_is_that_of_the_expected_cost() -> None:
    """All x_3, …, x_0 of a 1×2 matrix: Σ p · cost · ∇ Σ_t log p(x_s | x_t) against differences of E[cost]."""
    diffusion, task = Diffusion(DiffusionConfig(STEPS)), _task()

    def chains(theta: Tensor) -> tuple[Tensor, Tensor]:
        every = list(itertools.product(STATES, repeat=STEPS + 1))
        states = [torch.cat(column) for column in zip(*every, strict=True)]
        log_p = torch.where(states[0] > 0.5, task.density, 1 - task.density).log().sum((1, 2))
        for t, x, following in zip((3, 2, 1), states, states[1:], strict=False):
            now = torch.full((len(x),), t)
            decision = Decision(now, now - 1, x, following=following)
            log_p = log_p + decision.log_probability(_network(theta, x, t), task, diffusion, OPTIONS)
        return log_p, torch.tensor([_decoded_cost(chain[-1]) for chain in every])

    def expected(theta: Tensor) -> float:
        log_p, cost = chains(theta)
        return float((log_p.double().exp() * cost).sum())

    theta = THETA.clone().requires_grad_()
    log_p, cost = chains(theta)
    assert float(log_p.detach().exp().sum()) == pytest.approx(1.0, abs=1e-5)
    (gradient,) = torch.autograd.grad((log_p.exp().detach() * cost * log_p).sum(), theta)
    assert torch.allclose(gradient, _differences(expected), atol=2e-3)
    assert gradient.abs().max() > 0.1


@pytest.mark.parametrize("reverse", ["independent", "fresh"])
def test_sampled_trajectories_give_the_gradient_of_the_expected_cost(reverse: str) -> None:
    """Many trajectories of every kind of reverse step: REINFORCE with a baseline against differences."""
    count, diffusion, task = 100_000, Diffusion(DiffusionConfig(STEPS)), _task()
    options = SamplingOptions(
        steps=STEPS,
        reverse=reverse,  # type: ignore[arg-type]
        order="rule",
        temperature=1.0,
        keep="last",
    )

    def run(theta: Tensor) -> Trajectories:
        noise = Noise(fold(root_key(0), torch.arange(count)))
        return all_decisions(lambda x, t: _network(theta, x, int(t[0])), task, diffusion, noise, options)

    sampled = run(THETA)
    cost = sampled.cost[0]
    assert [int(decision.t[0]) for decision in sampled.decisions] == [3, 2, 1]
    assert torch.equal(_task().cost(sampled.choice)[0], cost)
    theta = THETA.clone().requires_grad_()
    log_p = torch.stack(
        [d.log_probability(_network(theta, d.x, int(d.t[0])), task, diffusion, options) for d in sampled.decisions]
    ).sum(0)
    (gradient,) = torch.autograd.grad(((cost - cost.mean()).float() * log_p).mean(), theta)
    # the same random numbers on both sides of a difference: its error is far below that of the costs themselves
    differences = torch.zeros_like(THETA)
    for index in range(len(THETA)):
        step = torch.zeros_like(THETA)
        step[index] = 0.1
        differences[index] = (run(THETA + step).cost.mean() - run(THETA - step).cost.mean()) / 0.2
    assert torch.allclose(gradient, differences, atol=0.03)
    assert gradient.abs().max() > 0.1


def _by_hand(log_odds: Tensor, successor: list[int], first: int, temperature: float) -> float:
    """Follow a tour from a city, and add up the logarithms of each choice among the cities that are left."""
    total, city, visited = 0.0, first, {first}
    for _ in range(len(successor) - 1):
        left = [other for other in range(len(successor)) if other not in visited]
        scores = (log_odds[city, left] / temperature).log_softmax(0)
        city = successor[city]
        total += float(scores[left.index(city)])
        visited.add(city)
    return total


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_last_decision_knows_its_start_row_and_its_temperature(temperature: float) -> None:
    """Sampled tours of 4 cities: log p̂ of each by hand, and as often as that says, for every city to start from."""
    torch.manual_seed(0)
    count, decodes, log_odds = 4000, 2, 2.0 * torch.randn(4, 4)
    task = Task(Atsp(), {"distances": torch.rand(1, 4, 4, dtype=torch.float64)})
    options = SamplingOptions(steps=2, order="rule", temperature=temperature, decodes=decodes, keep="last")
    sampled = last_decision(
        lambda x, t: log_odds.expand_as(x),
        task,
        Diffusion(DiffusionConfig(STEPS)),
        Noise(fold(root_key(0), torch.arange(count))),
        options,
    )
    (decision,) = sampled.decisions
    assert decision.first is not None
    assert (int(decision.s[0]), len(sampled.choice)) == (0, count * decodes)
    log_p = decision.log_probability(log_odds.expand(count, 4, 4), task, Diffusion(DiffusionConfig(STEPS)), options)
    found: dict[tuple[int, tuple[int, ...]], list[float]] = {}
    for tour, first, value in zip(sampled.choice.tolist(), decision.first.tolist(), log_p.tolist(), strict=True):
        found.setdefault((first, tuple(tour)), []).append(value)
    starts = torch.bincount(decision.first)
    assert len(starts) == 4
    for (first, tour), values in found.items():
        expected = _by_hand(log_odds, list(tour), first, temperature)
        assert values[0] == pytest.approx(expected, abs=1e-4)
        assert len(values) / int(starts[first]) == pytest.approx(math.exp(expected), abs=0.04)
    torch.testing.assert_close(task.cost(sampled.choice), sampled.cost)


def test_a_mask_of_the_instances_counts_in_the_log_probability() -> None:
    class Barred(Pmsp):
        def mask(self, instances: Any) -> Tensor:
            return torch.tensor([[[True, True]], [[True, False]]])

    task = Task(Barred(), {"durations": DURATIONS.expand(2, 1, 2)})
    decision = Decision(torch.ones(2), torch.zeros(2), torch.zeros(2, 1, 2), decoded=torch.zeros(4, 1).long())
    log_p = decision.log_probability(torch.zeros(2, 1, 2), task, Diffusion(DiffusionConfig(STEPS)), OPTIONS)
    assert log_p.tolist() == pytest.approx([-math.log(2), -math.log(2), 0.0, 0.0])


def test_warm_reverse_steps_have_a_probability_of_their_own() -> None:
    """The temperature of independent reverse steps, not that of decoding, divides the log-odds of x_0."""
    diffusion, task = Diffusion(DiffusionConfig(STEPS)), _task()
    t, x, following = torch.tensor([3]), STATES[1], STATES[2]
    decision = Decision(t, t - 1, x, following=following)
    log_odds = torch.tensor([[[2.0, -3.0]]])
    options = SamplingOptions(temperature=0.5, reverse_temperature=4.0, reverse="independent")
    p = diffusion.posterior(x, (log_odds / 4).sigmoid(), t, t - 1, task.density)
    expected = float(torch.where(following > 0.5, p, 1 - p).log().sum())
    assert float(decision.log_probability(log_odds, task, diffusion, options)) == pytest.approx(expected, abs=1e-5)


def _by_reward(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "problem": "pmsp",
        "sizes": [[5, 2]],
        "rounds": 20,
        "model": {
            "network": {"width": 32, "heads": 4, "edge_width": 16, "encoder_layers": 1, "denoiser_layers": 2},
            "diffusion": {"steps": 4},
        },
        "targets": {"instances": 16, "trajectories": 8},
        "memory": {"rounds": 1},
        "cloning": {"steps_first": 0, "steps_last": 0},
        "improvement": {
            "weight": 1.0, "objective": "trajectory", "until": 2.0, "per_trajectory": False,
            "sampling": {"steps": 4, "reverse": "independent", "order": "rule", "temperature": 1.0, "decodes": 1},
        },
        "optimizer": {"learning_rate": 6e-3, "warmup_rounds": 5, "average": 0.9},
    }  # fmt: skip
    for name, table in changes.items():
        values[name] = {**values[name], **table} if isinstance(table, dict) else table
    return build(TrainingConfig, values)


def test_reward_alone_lowers_the_cost_of_small_schedules() -> None:
    """From random weights, with nothing cloned: what trajectories end in gets clearly cheaper."""
    trainer = Trainer(_by_reward(), device="cpu")
    costs: list[float] = []
    trainer.run(lambda progress: costs.append(progress.metrics["improvement"]), every=0.0)
    assert int(trainer.steps[0].memory.stored) == 0  # nothing was made to clone
    assert sum(costs[-5:]) < 0.85 * sum(costs[:5])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"improvement": {"weight": 0.0}}, "nothing to learn from"),
        ({"improvement": {"sampling": {"decodes": 4}}}, "decodes = 1"),
        ({"targets": {"from_improvement": True}}, "from_improvement"),
        ({"targets": {"examples": ["a.npz", "b.npz"]}}, "one dataset for each"),
    ],
)
def test_sources_that_mean_nothing_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        _by_reward(**changes)


@pytest.mark.parametrize("run", [last_decision, all_decisions])
def test_decisions_are_what_was_decoded_before_any_search(run: Callable[..., Trajectories]) -> None:
    """Local search goes on with other solutions; what is learned from is decoded, with its own cost and log p̂."""
    torch.manual_seed(0)
    task = Task(Pmsp(), {"durations": torch.randint(1, 20, (2, 6, 3))})
    options = SamplingOptions(steps=3, order="rule", temperature=2.0, keep="last")
    log_odds = torch.randn(8, 6, 3)

    def sampled(rounds: int) -> Trajectories:
        noise = Noise(fold(root_key(0), torch.arange(8)))
        wanted = replace(options, improve_rounds=rounds)
        return run(lambda x, t: log_odds, task, Diffusion(DiffusionConfig(STEPS)), noise, wanted)

    plain, searched = sampled(0), sampled(20)
    assert torch.equal(searched.cost, task.cost(searched.choice))
    assert torch.equal(searched.choice, plain.choice)
    for before, after in zip(plain.decisions, searched.decisions, strict=True):
        assert before.decoded is not None
        assert after.decoded is not None
        assert torch.equal(before.decoded, after.decoded)
    assert not torch.equal(plain.decisions[-1].x, searched.decisions[-1].x)
