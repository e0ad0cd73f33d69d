"""The steps of Algorithm 1 against their equations, on cases so small that everything can be counted out."""

import importlib.util
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from icdc.diffusion.sampler import Samples
from icdc.kernels import Noise, fold, root_key
from icdc.problems.features import Features
from icdc.problems.tensors import one_hot
from icdc.problems.tours_torch import random_tour_cost
from icdc.settings import build
from icdc.training import Trainer, TrainingConfig
from icdc.training.checkpoint import load_state, read_means
from icdc.training.losses import bernoulli_kl
from icdc.training.memory import Targets
from icdc.training.steps import Steps

NETWORK = {"width": 16, "heads": 2, "edge_width": 4, "encoder_layers": 1, "denoiser_layers": 1, "identifiers": 2}
T = 3
ONLY = {"vb": 0.0, "prd": 0.0, "cst": 0.0, "drafts": 0.0}
EXAMPLE = Path(__file__).parents[2] / "examples" / "eligible_machines.py"


def config_of(problem: str, size: list[int], **tables: Any) -> TrainingConfig:
    values: dict[str, Any] = {
        "problem": problem,
        "sizes": [size],
        "rounds": 4,
        "model": {"network": NETWORK, "diffusion": {"steps": T}},
        "targets": {"instances": 16, "trajectories": 4, "refine_rounds": 0, "sampling": {"steps": T, "decodes": 1}},
        "cloning": {"batch": 16, "steps_first": 1, "steps_last": 1},
        "improvement": {"weight": 0.0},
    }
    for name, table in tables.items():
        values[name] = {**values.get(name, {}), **table} if isinstance(table, dict) else table
    return build(TrainingConfig, values)


def steps_of(config: TrainingConfig) -> Steps:
    """Return the steps of a run that is set up and not begun."""
    trainer = Trainer(config, device="cpu")
    trainer.set_up()
    return trainer.steps[0]


def noise_of(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


# --- CLONING ---

COUNT = 40_000
TARGET, DRAFT = 0, 1
"""One job on two machines: the target is the first machine, the draft the second."""


def logits(x: Tensor, t: Tensor) -> Tensor:
    """A network in place of ours, which depends on x_t and on t."""
    return 0.7 * x - 0.4 * x.flip(2) + 0.5 * t[:, None, None] * torch.tensor([1.0, -0.6])


class Asked:
    """Stands in for `Steps.predict`, and remembers what the network was asked."""

    def __init__(self, network: Callable[[Tensor, Tensor], Tensor] = logits) -> None:
        self.network = network
        self.x = self.t = torch.empty(0)

    def __call__(self, features: Features, noise: Noise) -> Callable[[Tensor, Tensor], Tensor]:
        def predict(x: Tensor, t: Tensor) -> Tensor:
            self.x, self.t = x, t
            return self.network(x, t)

        return predict


def cloned(cloning: dict[str, float], network: Callable[[Tensor, Tensor], Tensor] = logits) -> tuple[float, Asked]:
    """Return the cloning loss of very many noised copies of one target, and what the network was asked."""
    steps = steps_of(config_of("pmsp", [1, 2], cloning={**ONLY, **cloning}))
    asked = Asked(network)
    steps.predict = asked  # type: ignore[method-assign, assignment]
    choice = torch.full((COUNT, 1), TARGET)
    draft, time = torch.full((COUNT, 1), DRAFT), torch.full((COUNT,), 2)
    items = Targets(Features(torch.zeros(COUNT, 1, 2, 1)), choice, torch.zeros(COUNT), draft, time)
    return float(steps.clone_loss(items, noise_of(COUNT))), asked


def expected(term: Callable[[Tensor, Tensor, Tensor, int], float]) -> float:
    """Return the mean of a term over t uniform on {1, …, T} and x_t ~ q(x_t | x_0), counted out."""
    diffusion = steps_of(config_of("pmsp", [1, 2])).diffusion
    x0 = one_hot(torch.tensor([[TARGET]]), 2)
    total = 0.0
    for t in range(1, T + 1):
        now = torch.tensor([t])
        ones = diffusion.q_marginal(x0, now, 0.5)
        for pair in itertools.product((0.0, 1.0), repeat=2):
            xt = torch.tensor([[pair]])
            chance = float(torch.where(xt > 0.5, ones, 1 - ones).prod())
            total += chance * term(xt, logits(xt, now), x0, t) / T
    return total


def bound(xt: Tensor, log_odds: Tensor, x0: Tensor, t: int) -> float:
    """T · KL(q(x_{t−1} | x_t, x_0) ‖ p_θ(x_{t−1} | x_t)), and nothing at t = 1."""
    diffusion = steps_of(config_of("pmsp", [1, 2])).diffusion
    now = torch.tensor([t])
    true = diffusion.posterior(xt, x0, now, now - 1, 0.5)
    model = diffusion.posterior(xt, log_odds.sigmoid(), now, now - 1, 0.5)
    return T * float(bernoulli_kl(true, model).sum()) if t > 1 else 0.0


def cross_entropy(xt: Tensor, log_odds: Tensor, x0: Tensor, t: int) -> float:
    p = log_odds.sigmoid()
    return -float((x0 * p.log() + (1 - x0) * (1 - p).log()).sum())


@pytest.mark.parametrize(("name", "term"), [("vb", bound), ("prd", cross_entropy)])
def test_each_cloning_loss_is_its_mean_over_all_times(
    name: str, term: Callable[[Tensor, Tensor, Tensor, int], float]
) -> None:
    """Losses are divided by the number of elements, two here."""
    value = expected(term) / 2
    assert value > 0.05
    assert cloned({name: 1.0})[0] == pytest.approx(value, rel=0.02)
    assert cloned({name: 0.25})[0] == pytest.approx(0.25 * value, rel=0.02)


def test_cloning_losses_add_up() -> None:
    parts = {"vb": 1.0, "prd": 1e-1}
    alone = [cloned({name: weight})[0] for name, weight in parts.items()]
    assert cloned(parts)[0] == pytest.approx(sum(alone), rel=1e-5)


def test_what_violates_constraints_costs() -> None:
    """A job that is surely on both machines is on one too many."""
    both = cloned({"cst": 1.0}, lambda x, t: torch.full_like(x, 200.0))[0]
    assert both == pytest.approx(1.0 / 2, abs=1e-6)
    one = cloned({"cst": 1.0}, lambda x, t: torch.tensor([200.0, -200.0]).expand_as(x))[0]
    assert one == pytest.approx(0.0, abs=1e-6)


def test_times_are_uniform_from_1_to_t() -> None:
    asked = cloned({"prd": 1.0})[1]
    assert torch.allclose(torch.bincount(asked.t, minlength=T + 1) / COUNT, torch.tensor([0, 1, 1, 1]) / T, atol=0.01)


def test_drafts_are_noised_in_place_of_the_target_and_have_no_bound() -> None:
    asked = cloned({"prd": 1.0, "drafts": 1.0})[1]
    assert bool((asked.t == 2).all())
    diffusion = steps_of(config_of("pmsp", [1, 2])).diffusion
    marginal = diffusion.q_marginal(one_hot(torch.tensor([[DRAFT]]), 2), torch.tensor([2]), 0.5)
    assert torch.allclose(asked.x.mean(0, keepdim=True), marginal, atol=0.01)
    assert cloned({"vb": 1.0, "drafts": 1.0})[0] == 0.0
    half, whole = (cloned({"vb": 1.0, "drafts": share})[0] for share in (0.5, 0.0))
    assert half == pytest.approx(0.5 * whole, rel=0.05)


# --- targets ---


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[Samples]:
    """What trajectories gave while targets were made."""
    from icdc.training import steps

    seen: list[Samples] = []
    original = steps.generate

    def remember(*arguments: Any, **options: Any) -> Samples:
        seen.append(original(*arguments, **options))
        return seen[-1]

    monkeypatch.setattr(steps, "generate", remember)
    return seen


def stored_costs(steps: Steps) -> Tensor:
    """Return the costs (instances,) of the first targets in the memory."""
    return steps.task()[1].cost(steps.memory.items.choice[: steps.count]).squeeze(1)


@pytest.mark.parametrize(("problem", "size"), [("pmsp", [6, 3]), ("atsp", [6])])
def test_the_target_is_the_best_of_the_trajectories(problem: str, size: list[int], generated: list[Samples]) -> None:
    steps = steps_of(config_of(problem, size))
    steps.make_targets()
    (trajectories,) = generated
    assert not torch.equal(trajectories.cost.amin(1), trajectories.cost[:, 0])
    assert torch.equal(stored_costs(steps), trajectories.cost.amin(1))
    assert torch.equal(steps.memory.items.reward[: steps.count], -trajectories.cost.amin(1).float())


def test_refinement_makes_targets_better(generated: list[Samples]) -> None:
    steps = steps_of(config_of("pmsp", [8, 3], targets={"refine_rounds": 3}))
    steps.make_targets()
    better = generated[0].cost.amin(1) - stored_costs(steps)
    assert bool((better >= 0).all())
    assert float(better.mean()) > 0


def test_drafts_are_what_trajectories_decoded_on_the_way() -> None:
    steps = steps_of(config_of("pmsp", [6, 3], cloning={"drafts": 0.5}))
    steps.make_targets()
    items = steps.memory.items
    times = items.draft_time[: steps.count]
    assert set(times.tolist()) == {1, 2}  # 3 is pure noise, 0 is clean
    worse = steps.task()[1].cost(items.draft[: steps.count]).squeeze(1) - stored_costs(steps)
    assert bool((worse >= 0).all())
    assert float(worse.float().mean()) > 0


# --- the paper's memory ---

ALTERNATION: dict[str, dict[str, Any]] = {
    "targets": {"from_improvement": True, "trajectories": 2, "instances": 8},
    "memory": {"rounds": 2, "reward_weighted": True, "mixture": 0.25},
    "improvement": {"weight": 1.0, "until": 2.0, "sampling": {"steps": T, "decodes": 2}},
}


def test_the_memory_holds_the_mixture_with_standardised_rewards() -> None:
    """α = ¼: three of the prior for every generated solution; R in standard deviations above random tours."""
    steps = steps_of(config_of("atsp", [6], **ALTERNATION))
    steps.improve()
    prior, own = 3 * 4, 4
    assert int(steps.memory.stored) == steps.count * (prior + own)
    assert steps.memory.capacity == 2 * steps.count * (prior + own)
    choice = steps.memory.items.choice
    random = steps.task()[1].cost(choice[: steps.count * prior])
    ours = steps.task()[1].cost(choice[steps.count * prior : steps.count * (prior + own)])
    mean, spread = (value[:, None].float() for value in random_tour_cost(steps.instances["distances"]))
    rewards = torch.cat([((mean - cost) / spread).flatten() for cost in (random, ours)])
    assert torch.allclose(steps.memory.items.reward[: len(rewards)], rewards, atol=1e-4)
    assert float(random.mean()) == pytest.approx(float(mean.mean()), rel=0.05)
    assert read_means([steps.metrics])["effective"] == pytest.approx(float(steps.memory.effective_share()))


def test_only_the_best_sample_of_each_instance_is_a_target() -> None:
    settings = {**ALTERNATION, "targets": {**ALTERNATION["targets"], "best_only": True}}
    settings["memory"] = {"rounds": 2, "reward_weighted": True, "mixture": 0.5}
    steps = steps_of(config_of("pmsp", [6, 3], **settings))
    steps.improve()
    assert int(steps.memory.stored) == 2 * steps.count  # a random one beside each
    assert steps.memory.capacity == 4 * steps.count
    kept = steps.task()[1].cost(steps.memory.items.choice[steps.count : 2 * steps.count])
    means = read_means([steps.metrics])
    assert float(kept.mean()) == pytest.approx(means["target"])
    assert means["target"] < means["improvement"]


def test_generating_leaves_the_running_statistics_alone() -> None:
    """A batch at one time t is normalised by what CLONING, at all of them, has gathered; and gathers nothing itself."""
    network = {**NETWORK, "encoder": "dual", "denoiser": "gated", "norm": "batch"}
    steps = steps_of(config_of("pmsp", [4, 2], model={"network": network, "diffusion": {"steps": T}}, **ALTERNATION))
    buffers = steps.weights.model.network.named_buffers
    before = {name: value.clone() for name, value in buffers() if "running" in name}
    steps.improve()
    changed = [name for name, value in buffers() if name in before and not torch.equal(value, before[name])]
    assert not changed
    assert steps.weights.model.network.training
    steps.clone()
    assert all(not torch.equal(value, before[name]) for name, value in buffers() if name in before)


def test_the_average_has_statistics_of_its_own() -> None:
    """After many rounds with weights at rest on average, the running means are those of the averaged network."""
    network = {**NETWORK, "encoder": "dual", "denoiser": "gated", "norm": "batch"}
    config = config_of(
        "pmsp", [4, 2], model={"network": network, "diffusion": {"steps": T}}, cloning={"batch": 256}, **ALTERNATION
    )
    trainer = Trainer(config, device="cpu")
    trainer.set_up()
    (steps,) = trainer.steps
    trainer.round(0, 0.0)
    trainer.round(1, 0.25)
    average = steps.weights.average.network
    seen = {int(value) for name, value in average.named_buffers() if name.endswith("num_batches_tracked")}
    assert seen == {2}  # a batch a round, and nothing of what the current weights saw
    assert not average.training
    before = [p.detach().clone() for p in average.parameters()]
    for _ in range(80):
        steps.gather_statistics()
    assert all(torch.equal(old, new) for old, new in zip(before, average.parameters(), strict=True))
    with torch.no_grad():  # the network gives about the same whether it takes these or those of a large batch
        model, noise = steps.weights.average, noise_of(2000)
        items = steps.memory.draw(noise)
        x = steps.diffusion.q_sample(one_hot(items.choice, 2), 1 + noise.integers(T), 0.5, noise)
        t = 1 + noise_of(2000, 1).integers(T)
        running = model.predict(model.encode(items.features, noise_of(2000, 2)), 0.5)(x, t)
        model.network.train()
        fresh = model.predict(model.encode(items.features, noise_of(2000, 2)), 0.5)(x, t)
    assert float((running - fresh).abs().mean()) < 0.2 * float(fresh.std())


def test_reward_alone_gathers_its_statistics_while_generating() -> None:
    """There is no CLONING that could: generated batches are normalised by themselves, and the average gets a copy."""
    network = {**NETWORK, "encoder": "dual", "denoiser": "gated", "norm": "batch"}
    config = config_of(
        "pmsp", [4, 2], model={"network": network, "diffusion": {"steps": T}},
        cloning={"steps_first": 0, "steps_last": 0}, improvement={"weight": 1.0, "until": 2.0},
    )  # fmt: skip
    trainer = Trainer(config, device="cpu")
    trainer.set_up()
    trainer.round(0, 0.0)
    model, average = (dict(m.network.named_buffers()) for m in (trainer.weights.model, trainer.weights.average))
    assert all(torch.equal(model[name], average[name]) for name in model)
    assert any(bool(value.any()) for name, value in model.items() if "running_mean" in name)


def test_a_memory_that_is_not_saved_begins_empty(tmp_path: Path) -> None:
    settings = {**ALTERNATION, "memory": {**ALTERNATION["memory"], "saved": False}}
    config = config_of("pmsp", [4, 2], **settings)
    Trainer(config, device="cpu", out=tmp_path).run(lambda progress: progress.round == 2, every=0.0)
    again = Trainer(config, device="cpu", out=tmp_path, resume=True)
    config, state = load_state(tmp_path, TrainingConfig)
    assert state["memories"] == [{}]
    again.set_up(state)
    assert int(again.steps[0].memory.stored) == 0
    assert any(tensor is again.steps[0].memory.stored for tensor in again.steps[0].tensors())  # recording undoes it
    assert again.run().card["training"]["rounds"] == 4


# --- IMPROVEMENT ---


def test_improvement_learns_from_samples_of_the_decoder() -> None:
    """Every sample is stored here: they follow the softmax at the temperature of sampling, without a greedy end."""
    steps = steps_of(
        config_of(
            "pmsp", [1, 2],
            targets={"from_improvement": True, "trajectories": 1, "instances": 4000},
            improvement={"weight": 1.0, "until": 2.0, "sampling": {"steps": T, "decodes": 1, "temperature": 2.0}},
        )
    )  # fmt: skip
    theta = torch.tensor([1.0, 0.0], requires_grad=True)
    steps.predict = Asked(lambda x, t: theta.expand_as(x))  # type: ignore[method-assign, assignment]
    steps.improve()
    first = float((steps.memory.items.choice[: steps.count] == 0).float().mean())
    assert first == pytest.approx(1 / (1 + math.exp(-0.5)), abs=0.025)


@pytest.mark.parametrize("objective", ["last", "trajectory"])
def test_log_probability_sees_the_identifiers_of_sampling(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(
        "atsp", [5], improvement={"weight": 1.0, "objective": objective, "sampling": {"steps": T, "decodes": 1}}
    )
    steps = steps_of(config)
    network = steps.weights.model.network
    seen: list[Tensor] = []
    original = network.encode

    def encode(features: Features, identifiers: Tensor) -> Any:
        seen.append(identifiers)
        return original(features, identifiers)

    monkeypatch.setattr(network, "encode", encode)
    steps.improve()
    assert len(seen) == (2 if objective == "last" else 1 + T)
    assert all(torch.equal(seen[0], other) for other in seen[1:])


def test_improvement_makes_the_better_column_likelier() -> None:
    """One job: the gradient step must raise the log-odds of the faster machine, by the weight that is set."""
    moved = []
    for weight in (1.0, 0.5):
        config = config_of(
            "pmsp", [1, 2], targets={"trajectories": 8}, improvement={"weight": 1.0, "sampling": {"steps": T}}
        )
        steps = steps_of(config)
        steps.instances["durations"].copy_(torch.tensor([[2, 5]]).expand(steps.count, 1, 2))
        theta = torch.tensor([0.0, 0.0], requires_grad=True)
        steps.predict = Asked(lambda x, t, theta=theta: theta.expand_as(x))  # type: ignore[method-assign, assignment]
        steps.weights.update = lambda losses: sum(losses).backward()  # type: ignore[method-assign]
        steps.improvement_weight.fill_(weight)
        steps.improve()
        assert theta.grad is not None
        moved.append(theta.grad)
    assert float(moved[0][0]) < -0.05 < 0.05 < float(moved[0][1])  # a descent step raises the first
    assert torch.allclose(moved[0], 2 * moved[1])


def test_a_baseline_of_each_trajectory_or_of_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    from icdc.training import steps as module

    groups: list[int] = []
    original = module.advantages

    def remember(cost: Tensor, count: int, normalise: bool) -> Tensor:
        groups.append(count)
        return original(cost, count, normalise)

    monkeypatch.setattr(module, "advantages", remember)
    for per_trajectory in (True, False):
        sampling = {"steps": T, "decodes": 2}
        improvement = {"weight": 1.0, "per_trajectory": per_trajectory, "sampling": sampling}
        steps_of(config_of("pmsp", [3, 2], improvement=improvement)).improve()
    assert groups == [4, 1]


# --- masks ---


@pytest.fixture
def eligible(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The worked example: machines that cannot do every job, another mask for every instance."""
    specification = importlib.util.spec_from_file_location("eligible_machines", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    problem: type[Any] = module.EligibleMachines
    monkeypatch.setattr(Trainer, "find_problem", lambda self: problem())
    return problem


@pytest.mark.usefixtures("eligible")
@pytest.mark.parametrize("alternation", [False, True])
def test_targets_are_permitted_by_their_own_mask(alternation: bool) -> None:
    """Every round has other instances: what is stored of each goes together, the prior's solutions too."""
    tables: dict[str, Any] = ALTERNATION if alternation else {"cloning": {"drafts": 0.5}}
    steps = steps_of(config_of("eligible", [6, 3], **tables))
    masks = []
    for _ in range(2):
        steps.draw()
        steps.improve() if alternation else steps.make_targets()
        masks.append(steps.task()[1].mask(1))
    stored = int(steps.memory.stored)
    assert stored > steps.count
    items = steps.memory.items.each(lambda ring: ring[:stored])
    permitted = items.features.relations[..., 1] > 0.5  # the network sees what is permitted, too
    for choice in (items.choice, items.draft):
        assert bool(permitted.gather(2, choice[..., None]).all())
    assert masks[0] is not None
    assert not torch.equal(masks[0], masks[1])


@pytest.mark.usefixtures("eligible")
def test_a_problem_with_masks_trains() -> None:
    config = config_of(
        "eligible", [6, 3], rounds=6, cloning={"batch": 64, "steps_first": 6, "steps_last": 6},
        optimizer={"learning_rate": 3e-3, "warmup_rounds": 1},
    )  # fmt: skip
    losses: list[float] = []
    Trainer(config, device="cpu").run(lambda progress: losses.append(progress.metrics["loss"]), every=0.0)
    assert max(losses) < 3.0
    assert losses[-1] < losses[0]


def test_targets_and_drafts_are_what_local_search_left() -> None:
    """With improve_rounds in the sampling of targets, neither targets nor what was noised again can be improved."""
    sampling = {"steps": T, "decodes": 1, "improve_rounds": 100}
    tables: dict[str, Any] = {"targets": {"sampling": sampling}, "cloning": {"drafts": 0.5}}
    for rounds in (0, 100):
        sampling["improve_rounds"] = rounds
        steps = steps_of(config_of("pmsp", [8, 3], **tables))
        steps.draw()
        steps.make_targets()
        for name in ("choice", "draft"):
            made = steps.memory.tensors()[name][: steps.count]
            again = steps.problem.improve(steps.instances, made[:, None], 100).squeeze(1)
            assert torch.equal(again, made) == (rounds > 0), (name, rounds)
