"""The reverse chain as a policy, against enumeration; and learning from reward alone."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from icdc.diffusion import Diffusion, DiffusionConfig
from icdc.errors import UsageError
from icdc.noise import Noise, fold, root_key
from icdc.problems import Pmsp
from icdc.sampling import SamplingOptions, Task
from icdc.training import Trainer
from icdc.training.chain import Decision, decision_log_probability, trajectories
from icdc.training.config import config_from

STEPS = 3
DURATIONS = torch.tensor([[[2.0, 5.0]]], dtype=torch.float64)  # one job, two machines: a 1×2 matrix
STATES = [torch.tensor([[[float(a), float(b)]]]) for a, b in itertools.product((0, 1), repeat=2)]


def _task() -> Task:
    return Task(Pmsp(), {"durations": DURATIONS})


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
            decision = Decision(t, t - 1, x, following=following)
            log_p = log_p + decision_log_probability(decision, _network(theta, x, t), task, diffusion)
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


@pytest.mark.parametrize("reverse", ["independent", "fresh", "posterior"])
def test_sampled_trajectories_give_the_gradient_of_the_expected_cost(reverse: str) -> None:
    """Many trajectories of every kind of reverse step: REINFORCE with a baseline against differences."""
    count, diffusion, task = 100_000, Diffusion(DiffusionConfig(STEPS)), _task()
    options = SamplingOptions(
        steps=STEPS,
        reverse=reverse,
        order="rule",
        temperature=1.0,
        keep="last",
        greedy_end=False,  # type: ignore[arg-type]
    )

    def run(theta: Tensor) -> tuple[list[Decision], Tensor]:
        noise = Noise(fold(root_key(0), torch.arange(count)))
        return trajectories(lambda x, t: _network(theta, x, int(t[0])), task, diffusion, noise, options)

    decisions, costs = run(THETA)
    cost = costs[0]
    assert [decision.t for decision in decisions] == [3, 2, 1]
    theta = THETA.clone().requires_grad_()
    log_p = torch.stack(
        [decision_log_probability(d, _network(theta, d.x, d.t), task, diffusion) for d in decisions]
    ).sum(0)
    (gradient,) = torch.autograd.grad(((cost - cost.mean()).float() * log_p).mean(), theta)
    # the same random numbers on both sides of a difference: its error is far below that of the costs themselves
    differences = torch.zeros_like(THETA)
    for index in range(len(THETA)):
        step = torch.zeros_like(THETA)
        step[index] = 0.1
        differences[index] = (run(THETA + step)[1].mean() - run(THETA - step)[1].mean()) / 0.2
    assert torch.allclose(gradient, differences, atol=0.03)
    assert gradient.abs().max() > 0.1


def _by_reward(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "problem": "pmsp",
        "sizes": [[5, 2]],
        "rounds": 60,
        "model": {
            "network": {"width": 32, "heads": 4, "edge_width": 16, "encoder_layers": 1, "denoiser_layers": 2},
            "diffusion": {"steps": 4},
        },
        "targets": {"instances": 32, "trajectories": 8},
        "memory": {"rounds": 1},
        "cloning": {"steps_first": 0, "steps_last": 0},
        "improvement": {
            "weight": 1.0, "objective": "chain", "until": 2.0, "per_trajectory": False,
            "sampling": {"steps": 4, "reverse": "independent", "order": "rule", "temperature": 1.0, "decodes": 1},
        },
        "optimizer": {"learning_rate": 3e-3, "warmup_rounds": 5, "average": 0.9},
    }  # fmt: skip
    for name, table in changes.items():
        values[name] = {**values[name], **table} if isinstance(table, dict) else table
    return config_from(values)


@pytest.mark.parametrize("reverse", ["independent", "fresh"])
def test_reward_alone_lowers_the_cost_of_small_schedules(reverse: str) -> None:
    """From random weights, with nothing cloned: what trajectories end in gets clearly cheaper."""
    sampling = {"steps": 4, "reverse": reverse, "order": "rule", "temperature": 1.0, "decodes": 1}
    trainer = Trainer(_by_reward(improvement={"sampling": sampling}), device="cpu")
    costs: list[float] = []
    original = trainer._round

    def observed(rounds: int, fraction: float) -> None:
        original(rounds, fraction)
        costs.append(trainer._read_metrics()["improvement"])

    trainer._round = observed  # type: ignore[method-assign]
    trainer.run()
    assert int(trainer.steps[0].memory.stored) == 0  # nothing was made to clone
    assert sum(costs[-10:]) < 0.85 * sum(costs[:10])


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
