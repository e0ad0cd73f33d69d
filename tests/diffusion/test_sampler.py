"""The reverse process and refinement: feasible, reproducible, never worse, independent of company."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.diffusion.process import Diffusion, DiffusionConfig, strided_times
from icdc.diffusion.sampler import Predict, ReverseStep, Samples, SamplingOptions, best_of, generate, refine
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems.atsp import Atsp
from icdc.problems.base import Instances, Problem
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.problems.tensors import one_hot, picked, to_tensors

ATSP, PMSP = Atsp(), Pmsp()
DIFFUSION = Diffusion(DiffusionConfig(8))
WAYS = [
    SamplingOptions(steps=4, reverse=reverse, order=order, decodes=decodes, keep=keep, temperature=1.0)  # type: ignore[arg-type]
    for reverse, order, decodes, keep in itertools.product(
        ("fresh", "best", "independent"), ("confidence", "rule"), (1, 3), ("chain", "last")
    )
    if (reverse, keep) != ("best", "last")
]


def instances(problem: Problem, count: int, size: tuple[int, ...]) -> dict[str, Tensor]:
    return to_tensors(problem.sample(count, size, np.random.default_rng(1)))


def some(batch: Instances, chosen: list[int]) -> dict[str, Tensor]:
    return {name: array[chosen] for name, array in batch.items()}


def toy(batch: Instances, samples: int) -> Predict:
    """A stand-in for a network: short distances and what x already says are likely; varies with t."""
    costs = next(iter(batch.values())).float()
    likely = -costs / costs.mean((1, 2), keepdim=True)

    def predict(x: Tensor, t: Tensor) -> Tensor:
        return likely.repeat_interleave(samples, 0) + x * (1 - t[:, None, None] / 10)

    return predict


def keys(instance_numbers: list[int], samples: int, seed: int = 0) -> Tensor:
    """One key for each trajectory, from the seed, the instance and the trajectory's number."""
    roots = fold(root_key(seed), torch.tensor(instance_numbers))
    return fold(roots[:, None], torch.arange(samples)[None]).flatten()


def run(problem: Problem, batch: Instances, options: SamplingOptions, samples: int = 4, **more: Any) -> Samples:
    """Run so many trajectories of every instance of a batch."""
    count = len(next(iter(batch.values())))
    noise = Noise(keys(list(range(count)), samples))
    return generate(toy(batch, samples), Task(problem, batch), DIFFUSION, noise, options, **more)


def watched(
    problem: Problem, batch: Instances, options: SamplingOptions, samples: int = 4
) -> tuple[Samples, list[ReverseStep]]:
    """Return the outcome of trajectories and all their steps."""
    steps: list[ReverseStep] = []
    return run(problem, batch, options, samples, callback=steps.append), steps


class Noiseless(Diffusion):
    """The next state is the solution itself."""

    def q_sample(self, x0: Tensor, t: Tensor, density: float, noise: Noise) -> Tensor:
        return x0


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize(("problem", "size"), [(ATSP, (5,)), (ATSP, (2,)), (PMSP, (4, 3)), (PMSP, (1, 1))])
def test_every_way_of_sampling_is_sound(options: SamplingOptions, problem: Problem, size: tuple[int, ...]) -> None:
    """Solutions are feasible, costs are theirs, shapes are as promised, a chain is no worse than its end."""
    batch = instances(problem, 3, size)
    task = Task(problem, batch)
    made = generate(toy(batch, 4), task, DIFFUSION, Noise(keys([0, 1, 2], 4)), options)
    rows, columns = problem.shape(size)
    many = 4 * options.decodes
    assert made.choice.shape == (3, 4, rows)
    assert made.last_choice.shape == (3, many, rows)
    assert made.last_first.shape == (3 * many,)
    assert made.last_x.shape == (12, rows, columns)
    for choice, cost in ((made.choice, made.cost), (made.last_choice, made.last_cost)):
        assert problem.feasible(batch, choice).all()
        assert torch.equal(problem.cost(batch, choice), cost)
    last = made.last_cost.view(3, 4, -1).amin(2)
    assert (made.cost <= last).all()
    if options.keep == "last":
        assert torch.equal(made.cost, last)
    strides = strided_times(8, 4)
    assert (made.last_t == strides[-2]).all()
    choice, cost = made.best()
    assert torch.equal(cost, made.cost.amin(1))
    assert torch.equal(problem.cost(batch, choice[:, None])[:, 0], cost)


def test_the_chain_keeps_more_than_its_end() -> None:
    """On some trajectory the best solution is met before the last step, so that keeping it matters."""
    batch = instances(ATSP, 6, (7,))
    made = run(ATSP, batch, SamplingOptions(8), 8)
    assert (made.cost < made.last_cost).any()


@pytest.mark.parametrize("options", WAYS)
def test_a_trajectory_ignores_its_company(options: SamplingOptions) -> None:
    """Other instances, their order and the number of trajectories change nothing for this one."""
    batch = instances(ATSP, 4, (5,))
    whole = generate(toy(batch, 5), Task(ATSP, batch), DIFFUSION, Noise(keys([0, 1, 2, 3], 5)), options)
    few = some(batch, [2, 0])
    part = generate(toy(few, 2), Task(ATSP, few), DIFFUSION, Noise(keys([2, 0], 2)), options)
    assert torch.equal(part.choice, whole.choice[[2, 0]][:, :2])
    assert torch.equal(part.cost, whole.cost[[2, 0]][:, :2])


def test_seeds_repeat_and_differ() -> None:
    """The same keys give the same solutions; another seed gives others."""
    batch = instances(ATSP, 4, (9,))

    def run(seed: int) -> Tensor:
        noise = Noise(keys([0, 1, 2, 3], 6, seed))
        return generate(toy(batch, 6), Task(ATSP, batch), DIFFUSION, noise, SamplingOptions(4, temperature=2.0)).choice

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


@pytest.mark.parametrize(("problem", "size"), [(ATSP, (6,)), (PMSP, (8, 3))])
def test_refinement_never_makes_it_worse(problem: Problem, size: tuple[int, ...]) -> None:
    """From any start every round keeps or lowers every cost, and somewhere it lowers one."""
    batch = instances(problem, 8, size)
    task = Task(problem, batch)
    noise = Noise(keys(list(range(8)), 3))
    made = generate(toy(batch, 3), task, DIFFUSION, noise, SamplingOptions(1, keep="last", temperature=5.0))
    choice, cost = made.choice[:, 0], made.cost[:, 0]
    begin = cost
    for level in (0.0, 0.5, 1.0):
        new_choice, new_cost = refine(
            toy(batch, 3), task, DIFFUSION, noise, SamplingOptions(4), choice, cost, level=level
        )
        assert (new_cost <= cost).all()
        assert torch.equal(problem.cost(batch, new_choice[:, None])[:, 0], new_cost)
        choice, cost = new_choice, new_cost
    assert (cost < begin).any()


@pytest.mark.parametrize(("level", "start"), [(0.0, 1), (0.3, 2), (0.7, 6), (1.0, 8)])
@pytest.mark.parametrize("several", [False, True])
def test_refinement_noises_to_its_level(level: float, start: int, several: bool) -> None:
    """The network sees x_t ~ q(x_t | the solution) at t = level · T first, and then as many strides as asked for."""
    many = 3000
    batch = instances(ATSP, 2, (3,))
    choice = torch.tensor([[1, 2, 0], [2, 0, 1]])
    seen: list[tuple[Tensor, Tensor]] = []

    def predict(x: Tensor, t: Tensor) -> Tensor:
        seen.append((x, t))
        return torch.zeros_like(x)

    given = choice[:, None].expand(-1, many, -1) if several else choice
    cost = ATSP.cost(batch, given if several else given[:, None])
    noise = Noise(keys([0, 1], many))
    refine(
        predict, Task(ATSP, batch), DIFFUSION, noise, SamplingOptions(7), given, cost if several else cost[:, 0],
        level=level, steps=3,
    )  # fmt: skip
    assert [t.unique().tolist() for _, t in seen] == [[t] for t in strided_times(start, 3)[:-1]]
    share = seen[0][0].view(2, many, 3, 3).mean(1)
    expected = DIFFUSION.q_marginal(one_hot(choice, 3), torch.full((2,), start), 1 / 3)
    torch.testing.assert_close(share, expected, atol=0.045, rtol=0)


def test_solutions_are_refined_each_by_itself() -> None:
    """Several solutions of an instance: each gets better or stays, and none is replaced by another's."""
    batch = instances(PMSP, 6, (8, 3))
    task, noise = Task(PMSP, batch), Noise(keys(list(range(6)), 4))
    made = generate(toy(batch, 4), task, DIFFUSION, noise, SamplingOptions(1, keep="last", temperature=5.0))
    choice, cost = refine(toy(batch, 4), task, DIFFUSION, noise, SamplingOptions(4), made.choice, made.cost)
    assert (cost <= made.cost).all()
    assert (cost < made.cost).any()
    kept = cost == made.cost
    assert torch.equal(choice[kept], made.choice[kept])
    assert torch.equal(PMSP.cost(batch, choice), cost)


def test_refinement_keeps_an_optimum() -> None:
    """A tour nobody can beat comes back unchanged."""
    batch = {"distances": one_hot(torch.tensor([[1, 2, 3, 0]]), 4).double() * -1 + 1}
    best = torch.tensor([[1, 2, 3, 0]])
    found, cost = refine(
        toy(batch, 4),
        Task(ATSP, batch),
        DIFFUSION,
        Noise(keys([0], 4)),
        SamplingOptions(2),
        best,
        torch.zeros(1),
    )
    assert torch.equal(found, best)
    assert cost.item() == 0


def test_the_callback_sees_every_step() -> None:
    """Times fall from T to the last stride, the best cost never rises, and x is what the network saw."""
    batch = instances(ATSP, 2, (5,))
    made, steps = watched(ATSP, batch, SamplingOptions(4), 3)
    assert [(step.t, step.s) for step in steps] == list(itertools.pairwise(strided_times(8, 4)))
    for before, after in itertools.pairwise(steps):
        assert before.cost is not None
        assert after.cost is not None
        assert (after.cost <= before.cost).all()
    for step in steps:
        assert torch.equal(step.log_odds, toy(batch, 3)(step.x, torch.full((6,), step.t)))
    assert steps[-1].cost is not None
    assert torch.equal(steps[-1].cost, made.cost.flatten())


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("stop_at", [1, 2])
def test_a_callback_ends_it_early_with_an_answer(options: SamplingOptions, stop_at: int) -> None:
    """However it samples, a trajectory that is stopped has a feasible solution."""
    batch = instances(ATSP, 2, (5,))
    steps: list[ReverseStep] = []

    def stop(step: ReverseStep) -> bool:
        steps.append(step)
        return len(steps) == stop_at

    made = generate(toy(batch, 3), Task(ATSP, batch), DIFFUSION, Noise(keys([0, 1], 3)), options, callback=stop)
    assert len(steps) == stop_at
    assert ATSP.feasible(batch, made.choice).all()
    assert torch.equal(ATSP.cost(batch, made.choice), made.cost)


def test_a_callback_changes_nothing_it_does_not_stop() -> None:
    """Watching is free: the same solutions with and without a callback."""
    batch = instances(ATSP, 2, (5,))
    for options in WAYS:
        plain, watched = (
            generate(toy(batch, 2), Task(ATSP, batch), DIFFUSION, Noise(keys([0, 1], 2)), options, callback=c)
            for c in (None, lambda step: None)
        )
        assert torch.equal(plain.choice, watched.choice)


def test_how_the_next_state_is_drawn() -> None:
    """fresh: q(x_s | X̂_0), posterior: q(x_s | x_t, X̂_0), independent: p_θ(x_s | x_t), by shares of ones.

    Elements that were 1 and those that were 0 are counted apart: over both, posterior and fresh have equal shares.
    Midway, because x_T says next to nothing about x_s.
    """
    many = 6000
    batch = instances(ATSP, 1, (3,))
    log_odds = torch.tensor([[[-9.0, 9.0, -1.0], [-9.0, -9.0, 9.0], [9.0, 0.5, -9.0]]]).expand(many, -1, -1)
    x = (torch.rand(many, 3, 3) < 0.4).float()
    for reverse, temperature, warmer in (
        ("fresh", 1e-3, 0.0),
        ("best", 1e-3, 0.0),
        ("independent", 2.0, 0.0),
        ("independent", 0.5, 2.0),
    ):
        seen: list[ReverseStep] = []
        options = SamplingOptions(2, reverse=reverse, temperature=temperature, reverse_temperature=warmer)  # type: ignore[arg-type]
        generate(
            lambda x, t: log_odds, Task(ATSP, batch), DIFFUSION, Noise(keys([0], many)), options,
            x=x, start=4, callback=seen.append,
        )  # fmt: skip
        first, second = seen
        clean = one_hot(torch.tensor([[1, 2, 0]]), 3).expand(many, -1, -1)
        assert first.decoded is not None
        assert reverse == "independent" or (first.decoded == torch.tensor([1, 2, 0])).all()
        t, s = (torch.full((many,), v) for v in (first.t, first.s))
        if reverse in ("fresh", "best"):
            chance = DIFFUSION.q_marginal(clean, s, 1 / 3)
        else:
            chance = DIFFUSION.posterior(first.x, (log_odds / 2.0).sigmoid(), t, s, 1 / 3)
        for value in (0.0, 1.0):
            was = (first.x == value).float()
            share, expected = ((was * one).sum(0) / was.sum(0) for one in (second.x, chance))
            torch.testing.assert_close(share, expected, atol=0.05, rtol=0)


@pytest.mark.parametrize(("reverse", "expected"), [("fresh", [2, 0, 1]), ("best", [1, 2, 0])])
def test_what_is_noised_again(reverse: str, expected: list[int]) -> None:
    """The latest solution, or the best of the trajectory: the short way round is found first here."""
    many = 4000
    batch = {"distances": torch.tensor([[[0, 2, 3], [3, 0, 2], [2, 3, 0]]])}
    short, long = (9.0 * (2 * one_hot(torch.tensor([tour]), 3) - 1) for tour in ([1, 2, 0], [2, 0, 1]))
    seen: list[ReverseStep] = []

    def predict(x: Tensor, t: Tensor) -> Tensor:
        return (short if not seen else long).expand(many, -1, -1)

    options = SamplingOptions(3, reverse=reverse, temperature=1e-3)  # type: ignore[arg-type]
    generate(predict, Task(ATSP, batch), DIFFUSION, Noise(keys([0], many)), options, callback=seen.append)
    assert (seen[1].decoded == torch.tensor([2, 0, 1])).all()
    last = seen[2]
    clean = one_hot(torch.tensor([expected]), 3).expand(many, -1, -1)
    chance = DIFFUSION.q_marginal(clean, torch.full((many,), last.t), 1 / 3)
    torch.testing.assert_close(last.x.mean(0), chance[0], atol=0.05, rtol=0)


def test_a_best_solution_that_nobody_keeps_is_refused() -> None:
    with pytest.raises(UsageError, match='"best" needs keep "chain"'):
        SamplingOptions(reverse="best", keep="last")


def test_the_end_is_greedy_or_a_sample() -> None:
    """A single last decode is the most probable one or, as REINFORCE needs, a sample of p̂; several are."""
    many = 4000
    batch = instances(PMSP, 1, (1, 3))
    log_odds = torch.tensor([0.0, 1.0, -1.0])
    expected = log_odds.softmax(0)

    def shares(greedy_end: bool = True, **changes: Any) -> Tensor:
        options = replace(SamplingOptions(1, order="rule", temperature=1.0), **changes)
        made = generate(
            lambda x, t: log_odds.expand(many, 1, 3),
            Task(PMSP, batch, masked=False),
            DIFFUSION,
            Noise(keys([0], many)),
            options,
            greedy_end=greedy_end,
        )
        return torch.bincount(made.last_choice.flatten(), minlength=3) / made.last_choice.numel()

    assert shares().tolist() == [0, 1, 0]
    torch.testing.assert_close(shares(greedy_end=False), expected, atol=0.03, rtol=0)
    torch.testing.assert_close(shares(decodes=2), expected, atol=0.03, rtol=0)
    warm = (log_odds / 3).softmax(0)
    torch.testing.assert_close(shares(greedy_end=False, temperature=3.0), warm, atol=0.03, rtol=0)


def test_only_the_end_is_greedy() -> None:
    """Before the last step a solution is drawn from p̂, so that trajectories differ."""
    many = 4000
    log_odds = torch.tensor([0.0, 1.0, -1.0])
    steps: list[ReverseStep] = []
    generate(
        lambda x, t: log_odds.expand(many, 1, 3), Task(PMSP, instances(PMSP, 1, (1, 3)), masked=False), DIFFUSION,
        Noise(keys([0], many)), SamplingOptions(2, temperature=1.0), callback=steps.append,
    )  # fmt: skip
    drawn, decided = (step.decoded for step in steps)
    assert drawn is not None
    assert decided is not None
    share = torch.bincount(drawn.flatten(), minlength=3) / many
    torch.testing.assert_close(share, log_odds.softmax(0), atol=0.03, rtol=0)
    assert (decided == 1).all()


@pytest.mark.parametrize("decodes", [1, 3])
def test_decoding_begins_where_it_says_and_in_the_order_asked_for(decodes: int) -> None:
    """Cold enough to be greedy: from the row told in `last_first`, any of them or row 0, or by confidence."""
    batch = instances(ATSP, 4, (6,))
    scores = torch.randn(4 * 5, 6, 6)
    repeated = scores.repeat_interleave(decodes, 0)

    def made(order: str, any_start: bool) -> tuple[Tensor, Tensor]:
        options = SamplingOptions(1, order=order, any_start=any_start, decodes=decodes, temperature=1e-6)  # type: ignore[arg-type]
        found = generate(lambda x, t: scores, Task(ATSP, batch), DIFFUSION, Noise(keys([0, 1, 2, 3], 5)), options)
        return found.last_choice.flatten(0, 1), found.last_first

    for any_start, rows in ((True, set(range(6))), (False, {0})):
        choice, first = made("rule", any_start)
        assert set(first.tolist()) == rows
        assert torch.equal(choice, ATSP.rule.follow(repeated, first))
        assert torch.equal(made("confidence", any_start)[0], ATSP.rule.by_confidence(repeated))


def test_a_trajectory_may_begin_anywhere() -> None:
    """From given matrices at a given step: the network sees exactly these, at that step and its strides."""
    batch = instances(ATSP, 2, (5,))
    x = (torch.rand(6, 5, 5) < 0.3).float()
    steps: list[ReverseStep] = []
    generate(
        toy(batch, 3), Task(ATSP, batch), DIFFUSION, Noise(keys([0, 1], 3)), SamplingOptions(3), x=x, start=6,
        callback=steps.append,
    )  # fmt: skip
    assert torch.equal(steps[0].x, x)
    assert [step.t for step in steps] == [6, 4, 2]


@pytest.mark.parametrize("options", WAYS)
def test_a_trajectory_keeps_the_first_of_its_best_or_its_last(options: SamplingOptions) -> None:
    """What is kept, told from everything that was decoded; independent steps decode only where that is kept."""
    batch = {"durations": torch.randint(1, 4, (3, 5, 2))}  # few costs, many ties
    made, steps = watched(PMSP, batch, options, 6)
    decoded = [step.decoded for step in steps if step.decoded is not None]
    only_last = options.keep == "last" and options.reverse == "independent"
    assert len(decoded) == (1 if only_last else len(steps))
    if options.keep == "last":
        assert torch.equal(made.choice.flatten(0, 1), decoded[-1])
        return
    costs = torch.stack([PMSP.cost(batch, choice.view(3, 6, 5)).flatten() for choice in decoded])
    kept = torch.stack(decoded)[costs.argmin(0), torch.arange(18)]
    assert (costs.sort(0).values.diff(dim=0)[0] == 0).any()  # there are ties to settle
    assert torch.equal(made.choice.flatten(0, 1), kept)


def test_the_best_of_a_steps_decodes_is_carried_on() -> None:
    """Without noise, the next state is the best solution decoded from this one, though an earlier one was better."""

    batch = instances(PMSP, 4, (6, 3))
    steps: list[ReverseStep] = []
    options = SamplingOptions(6, decodes=3, temperature=3.0)
    process = Noiseless(DiffusionConfig(8))
    task, noise = Task(PMSP, batch), Noise(keys([0, 1, 2, 3], 4))
    generate(toy(batch, 4), task, process, noise, options, callback=steps.append)
    for before, after in itertools.pairwise(steps):
        assert before.decoded is not None
        assert torch.equal(after.x, one_hot(before.decoded, 3))
    assert any(not torch.equal(step.decoded, step.choice) for step in steps if step.choice is not None)


def test_a_stopped_trajectory_ends_greedily() -> None:
    """Stopped before it decoded anything, it takes the most probable solution of what it saw."""
    batch = instances(ATSP, 2, (5,))
    scores = torch.randn(6, 5, 5)
    options = SamplingOptions(4, reverse="independent", keep="last", temperature=5.0)
    made = generate(
        lambda x, t: scores, Task(ATSP, batch), DIFFUSION, Noise(keys([0, 1], 3)), options, callback=lambda step: True
    )
    assert torch.equal(made.choice.flatten(0, 1), ATSP.rule.by_confidence(scores))


def test_decodes_of_a_matrix_differ() -> None:
    """Several solutions of one matrix are as many draws, and the best of them is what the trajectory has."""
    batch = instances(PMSP, 2, (6, 3))
    options = SamplingOptions(1, decodes=8, temperature=5.0)
    made = run(PMSP, batch, options, 3)
    each = made.last_choice.view(6, 8, 6)
    assert all(len(of_one.unique(dim=0)) > 4 for of_one in each)
    assert torch.equal(made.cost, made.last_cost.view(2, 3, 8).amin(2))


class EvenMachines(Pmsp):
    """Only machines with an even number pass the problem's own test, though its mask permits them all."""

    def mask(self, batch: Instances) -> Tensor:
        return torch.ones_like(batch["durations"], dtype=torch.bool)

    def feasible(self, batch: Instances, choice: Tensor) -> Tensor:
        return (choice % 2 == 0).all(-1)


def test_only_feasible_solutions_have_a_cost_where_that_is_asked_for() -> None:
    """What fails the problem's own test never wins, however cheap."""
    batch = {"durations": torch.tensor([[[9, 1, 5]]])}
    choice = torch.tensor([[0], [1], [2]])
    assert Task(EvenMachines(), batch).cost(choice).tolist() == [[9, 1, 5]]
    assert Task(EvenMachines(), batch, only_feasible=True).cost(choice).tolist() == [[9, torch.inf, 5]]


def test_sampling_stops_at_the_mask() -> None:
    """What an instance forbids is never chosen, for any number of samples and decodes."""

    class Half(Pmsp):
        def mask(self, batch: Instances) -> Tensor:
            permitted = batch["durations"] % 2 == 0
            permitted[:, :, 0] = True
            return permitted

    problem = Half()
    batch = instances(problem, 3, (6, 3))
    task = Task(problem, batch)
    for options in WAYS:
        made = generate(toy(batch, 4), task, DIFFUSION, Noise(keys([0, 1, 2], 4)), options)
        allowed = problem.mask(batch)[:, None].expand(-1, 4, -1, -1).gather(3, made.choice[..., None])
        assert allowed.all()
    repeated = task.mask(2)
    assert repeated is not None
    assert torch.equal(repeated[1], problem.mask(batch)[0])


@pytest.mark.parametrize(("encoder", "denoiser"), [("edge", "edge"), ("dual", "gated")])
def test_a_network_samples_alike_in_any_batch(encoder: str, denoiser: str) -> None:
    """With real weights, too, an instance's solutions are its own."""
    network = NetworkConfig(
        encoder=encoder,
        denoiser=denoiser,
        width=16,
        heads=2,
        edge_width=8,
        encoder_layers=1,
        denoiser_layers=2,
    )
    model = Model(ATSP, ModelConfig(network, DiffusionConfig(8)))
    model.network.eval()
    batch = instances(ATSP, 4, (6,))
    options = SamplingOptions(4, temperature=1.0)

    def run(chosen: list[int], samples: int) -> Tensor:
        part = some(batch, chosen)
        task = Task(ATSP, part)
        roots = fold(root_key(7), torch.tensor(chosen))
        with torch.no_grad():
            predict = model.predict(model.encode(model.features(task.instances), Noise(roots)), task.density)
            return generate(predict, task, model.diffusion, Noise(keys(chosen, samples)), options).choice

    whole = run([0, 1, 2, 3], 5)
    assert torch.equal(run([3, 1], 2), whole[[3, 1]][:, :2])


def test_best_of_takes_the_first_of_equals() -> None:
    """The cheapest of each instance and its cost."""
    choice = torch.arange(12).view(2, 3, 2)
    found, cost = best_of(choice, torch.tensor([[3.0, 1.0, 1.0], [2.0, 5.0, 0.0]]))
    assert found.tolist() == [[2, 3], [10, 11]]
    assert cost.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "'steps' must be at least 1, got 0"),
        ({"decodes": 0}, "'decodes' must be at least 1"),
        ({"temperature": 0.0}, "'temperature' must be more than 0"),
        ({"temperature": float("nan")}, "'temperature' must be"),
        ({"reverse_temperature": -0.5}, "'reverse_temperature' must be at least 0"),
        ({"improve_rounds": -1}, "'improve_rounds' must be at least 0"),
        ({"improve_best": 0}, "'improve_best' must be at least 1, got 0"),
        ({"merge": -1}, "'merge' must be at least 0, got -1"),
        ({"merge": 1, "keep": "last"}, 'merging needs keep "chain"'),
        ({"begin": "nowhere"}, "'begin' must be one of noise, starts, got 'nowhere'"),
        ({"reverse": "posterior"}, "'reverse' must be one of fresh, best, independent, got 'posterior'"),
        ({"order": "random"}, "'order' must be one of"),
        ({"keep": "all"}, "'keep' must be one of chain, last"),
    ],
)
def test_impossible_options_are_refused(changes: dict[str, object], sentence: str) -> None:
    """Wrong options say which and why before anything runs."""
    with pytest.raises(UsageError, match=sentence):
        replace(SamplingOptions(), **changes)  # type: ignore[arg-type]


SEARCHES = [(ATSP, (7,)), (PMSP, (8, 3))]


def improved(problem: Problem, batch: Instances, choice: Tensor, rounds: int) -> Tensor:
    """Return what a problem's search makes of solutions (N, rows)."""
    count = len(next(iter(batch.values())))
    return problem.improve(batch, choice.view(count, -1, choice.shape[1]), rounds).flatten(0, 1)


@pytest.mark.parametrize("options", [*WAYS[::3], WAYS[-1]])
@pytest.mark.parametrize(("problem", "size"), SEARCHES)
def test_search_improves_the_best_decode_of_every_pass(
    options: SamplingOptions, problem: Problem, size: tuple[int, ...]
) -> None:
    """What is carried is what the search made of the decode, and the best of that is kept; the end is as decoded."""
    batch = instances(problem, 3, size)
    made, steps = watched(problem, batch, replace(options, improve_rounds=2))
    carried = [step.carried for step in steps if step.carried is not None]
    changed = False
    for step in steps:
        if step.decoded is not None and step.carried is not None:
            assert torch.equal(step.carried, improved(problem, batch, step.decoded, 2))
            changed |= not torch.equal(step.carried, step.decoded)
    assert changed
    costs = torch.stack([problem.cost(batch, choice.view(3, 4, -1)) for choice in carried])
    assert torch.equal(made.cost, costs[-1] if options.keep == "last" else costs.amin(0))
    assert torch.equal(problem.cost(batch, made.choice), made.cost)
    # the last step's decodes keep their own cost: log p̂ is theirs
    assert torch.equal(problem.cost(batch, made.last_choice), made.last_cost)
    assert (made.last_cost.view(3, 4, -1).amin(2) >= costs[-1]).all()
    assert steps[-1].decoded is not None
    last = problem.cost(batch, steps[-1].decoded.view(3, 4, -1))
    assert torch.equal(made.last_cost.view(3, 4, -1).amin(2), last)


@pytest.mark.parametrize("few", [1, 3, 9])
@pytest.mark.parametrize(("problem", "size"), SEARCHES)
def test_search_improves_so_many_of_the_best_decodes(problem: Problem, size: tuple[int, ...], few: int) -> None:
    """The best outcome of all that were improved is carried on; what was decoded, and its cost, stay as they are."""
    batch = instances(problem, 3, size)
    options = SamplingOptions(1, decodes=5, temperature=4.0, improve_rounds=2, improve_best=few)
    made, steps = watched(problem, batch, options)
    order = made.last_cost.view(12, 5).argsort(dim=1, stable=True)[:, : min(few, 5)]
    best = made.last_choice.view(12, 5, -1).gather(1, order[:, :, None].expand(-1, -1, made.choice.shape[2]))
    found = problem.cost(batch, problem.improve(batch, best.reshape(3, -1, made.choice.shape[2]), 2))
    assert torch.equal(made.cost, found.view(3, 4, -1).amin(2))
    assert torch.equal(problem.cost(batch, made.choice), made.cost)
    assert torch.equal(problem.cost(batch, made.last_choice), made.last_cost)
    assert steps[0].decoded is not None
    assert torch.equal(problem.cost(batch, steps[0].decoded.view(3, 4, -1)), made.last_cost.view(3, 4, 5).amin(2))


@pytest.mark.parametrize(("problem", "size"), SEARCHES)
def test_what_search_found_is_noised_again(problem: Problem, size: tuple[int, ...]) -> None:
    """Without noise the next state is the solution after search, not the one decoded."""

    batch = instances(problem, 3, size)
    steps: list[ReverseStep] = []
    options = SamplingOptions(5, decodes=2, temperature=3.0, improve_rounds=1)
    task, noise = Task(problem, batch), Noise(keys([0, 1, 2], 4))
    generate(toy(batch, 4), task, Noiseless(DiffusionConfig(8)), noise, options, callback=steps.append)
    for before, after in itertools.pairwise(steps):
        assert before.carried is not None
        assert torch.equal(after.x, one_hot(before.carried, task.columns))
    assert any(not torch.equal(step.carried, step.decoded) for step in steps if step.decoded is not None)


@pytest.mark.parametrize(("problem", "size"), SEARCHES)
def test_search_makes_chains_better_and_keeps_them_apart(problem: Problem, size: tuple[int, ...]) -> None:
    """Better on average than the same chains without, each as it is alone, and no rounds are no search at all."""
    batch = instances(problem, 6, size)
    options = SamplingOptions(4, temperature=3.0)

    def run(chosen: list[int], samples: int, rounds: int) -> Tensor:
        part = some(batch, chosen)
        wanted = replace(options, improve_rounds=rounds)
        made = generate(
            toy(part, samples), Task(problem, part), DIFFUSION, Noise(keys(chosen, samples)), wanted
        )  # fmt: skip
        assert torch.equal(problem.cost(part, made.choice), made.cost)
        return made.choice

    everyone = list(range(6))
    plain, searched = run(everyone, 5, 0), run(everyone, 5, 20)
    assert problem.cost(batch, searched).double().mean() < problem.cost(batch, plain).double().mean()
    assert torch.equal(run([4, 1], 3, 20), searched[[4, 1]][:, :3])


@pytest.mark.parametrize("search", [{}, {"improve_rounds": 1, "improve_best": 3}])
@pytest.mark.parametrize("reverse", ["fresh", "best", "independent"])
@pytest.mark.parametrize(("problem", "size"), SEARCHES)
def test_decodes_hand_their_better_parts_over(
    problem: Problem, size: tuple[int, ...], reverse: Any, search: dict[str, int]
) -> None:
    """The best so far takes them from the best decodes of the pass, or from what search made of those."""
    batch = instances(problem, 3, size)
    task, few = Task(problem, batch), 3
    options = SamplingOptions(4, reverse, decodes=6, temperature=4.0, merge=few, **search)  # type: ignore[arg-type]
    found: list[tuple[Tensor, Tensor, Tensor]] = []  # what was merged, with which others, and the outcome

    class Watched(Task):
        def merge(self, choice: Tensor, cost: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
            assert torch.equal(self.cost(choice).flatten(), cost)
            made = super().merge(choice, cost, others)
            found.append((choice, others, made[0]))
            return made

    steps: list[ReverseStep] = []
    made = generate(
        toy(batch, 4), Watched(problem, batch), DIFFUSION, Noise(keys([0, 1, 2], 4)), options, callback=steps.append
    )  # fmt: skip
    assert len(found) == len(steps) == 4
    best: Tensor | None = None
    helped = False
    for step, (basis, others, merged) in zip(steps, found, strict=True):
        assert step.decoded is not None
        assert step.choice is not None
        assert step.carried is not None
        assert others.shape == (12, few, task.rows)
        cost = task.cost(others.flatten(0, 1)).view(12, few)
        if not search:  # the best of six, from the best on
            assert (cost.diff(dim=1) >= 0).all()
            assert torch.equal(others[:, 0], step.decoded)
        before = cost.amin(1) if best is None else torch.minimum(best, cost.amin(1))
        assert torch.equal(task.cost(basis).flatten(), before)
        # a step's local search has the last word
        assert torch.equal(step.carried, improved(problem, batch, merged, 1) if search else merged)
        assert torch.equal(step.choice, step.carried)
        best = task.cost(step.carried).flatten()
        helped |= bool((task.cost(merged).flatten() < before).any())
    assert helped
    assert torch.equal(made.cost.flatten(), best)
    assert torch.equal(problem.cost(batch, made.last_choice), made.last_cost)


@pytest.mark.parametrize(("problem", "size"), SEARCHES)
def test_merging_more_than_there_is(problem: Problem, size: tuple[int, ...]) -> None:
    """More to merge than decodes, and one decode; chains are better than without, and each is on its own."""
    batch = instances(problem, 6, size)

    def run(chosen: list[int], samples: int, merge: int, decodes: int = 5) -> Tensor:
        part = some(batch, chosen)
        options = SamplingOptions(4, temperature=3.0, decodes=decodes, merge=merge)
        made = generate(toy(part, samples), Task(problem, part), DIFFUSION, Noise(keys(chosen, samples)), options)
        assert torch.equal(problem.cost(part, made.choice), made.cost)
        return made.choice

    everyone = list(range(6))
    plain, merged = run(everyone, 5, 0), run(everyone, 5, 9)
    assert problem.cost(batch, merged).double().mean() < problem.cost(batch, plain).double().mean()
    assert torch.equal(run([4, 1], 3, 9), merged[[4, 1]][:, :3])
    assert torch.equal(run(everyone, 2, 9, decodes=1), run(everyone, 5, 1, decodes=1)[:, :2])


def test_merging_that_makes_it_worse_changes_nothing() -> None:
    """Nor does a problem that knows no parts."""

    class Worse(Atsp):
        def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
            return others[:, :, 0]

    batch = {"distances": torch.tensor([[[0, 1, 5], [5, 0, 1], [1, 5, 0]]])}
    good, bad = torch.tensor([[1, 2, 0]]), torch.tensor([[2, 0, 1]])
    choice, cost = Task(Worse(), batch).merge(good, torch.tensor([3]), bad[:, None])
    assert (choice.tolist(), cost.tolist()) == ([[1, 2, 0]], [3])
    choice, cost = Task(Worse(), batch).merge(bad, torch.tensor([15]), good[:, None])
    assert (choice.tolist(), cost.tolist()) == ([[1, 2, 0]], [3])
    for problem in (Told(), Untold()):
        batch = instances(problem, 2, (7, 3)[: len(problem.size_names)])
        shape = problem.shape(problem.size(batch))
        choice = torch.stack([torch.arange(shape[0]).roll(-1) % shape[1]] * 2)[:, None]
        assert torch.equal(problem.merge(batch, choice, choice[:, :, None].roll(1, -1)), choice)


@pytest.mark.parametrize("decodes", [1, 3])
@pytest.mark.parametrize(("problem", "size", "other"), [(ATSP, (7,), "confidence"), (PMSP, (8, 3), "loads")])
def test_some_trajectories_decide_in_another_order(
    problem: Problem, size: tuple[int, ...], other: Any, decodes: int
) -> None:
    """As their keys fall, for good, whatever else is in the batch; those by the rule are as if all were."""
    batch = instances(problem, 6, size)
    random = keys(list(range(6)), 4)
    by_rule = random.view(6, 4) % 2 == 0
    assert by_rule.any()
    assert not by_rule.all()

    def run(order: Any, chosen: list[int], steps: int = 4) -> Samples:
        part = some(batch, chosen)
        options = SamplingOptions(steps, order=order, temperature=2.0, decodes=decodes)
        return generate(toy(part, 4), Task(problem, part), DIFFUSION, Noise(keys(chosen, 4)), options)

    everyone = list(range(6))
    mixed, plain = run("mixed", everyone), run("rule", everyone)
    assert torch.equal(mixed.choice[by_rule], plain.choice[by_rule])
    assert not torch.equal(mixed.choice[~by_rule], plain.choice[~by_rule])
    assert torch.equal(run("mixed", [4, 1]).choice, mixed.choice[[4, 1]])
    if decodes == 1:  # a single greedy pass has no noise to differ by
        mixed, others = run("mixed", everyone, 1), run(other, everyone, 1)
        assert torch.equal(mixed.choice[~by_rule], others.choice[~by_rule])


@pytest.mark.parametrize("several", [False, True])
def test_refinement_searches_too(several: bool) -> None:
    """A refinement of one pass ends in a local optimum, and never makes a solution worse."""
    batch = instances(PMSP, 5, (9, 3))
    task, noise = Task(PMSP, batch), Noise(keys(list(range(5)), 4))
    made = generate(toy(batch, 4), task, DIFFUSION, noise, SamplingOptions(1, keep="last", temperature=9.0))
    given = (made.choice, made.cost) if several else (made.choice[:, 0], made.cost[:, 0])
    options = SamplingOptions(1, temperature=9.0, improve_rounds=100)
    choice, cost = refine(toy(batch, 4), task, DIFFUSION, noise, options, *given)
    assert (cost <= given[1]).all()
    assert (cost < given[1]).any()
    better = choice[cost < given[1]]
    where = (cost < given[1]).nonzero()[:, 0]
    again = PMSP.improve(some(batch, where.tolist()), better[:, None], 100)
    assert torch.equal(again[:, 0], better)


def test_a_search_that_makes_it_worse_changes_nothing() -> None:
    """Neither a longer tour nor one that the problem refuses is carried on; an equally long one is."""

    class Worse(Atsp):
        def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
            return self.found

        found: Tensor

    problem, batch = Worse(), {"distances": torch.tensor([[[0, 1, 5], [5, 0, 1], [1, 5, 0]]])}
    good, bad = torch.tensor([[1, 2, 0]]), torch.tensor([[2, 0, 1]])
    problem.found = bad[None]
    choice, cost = Task(problem, batch).improve(good, torch.tensor([3]), 1)
    assert (choice.tolist(), cost.tolist()) == ([[1, 2, 0]], [3])
    problem.found = good[None]
    choice, cost = Task(problem, batch).improve(bad, torch.tensor([15]), 1)
    assert (choice.tolist(), cost.tolist()) == ([[1, 2, 0]], [3])
    even = {"distances": torch.ones(1, 3, 3, dtype=torch.long)}
    choice, cost = Task(problem, even).improve(bad, torch.tensor([3]), 1)
    assert (choice.tolist(), cost.tolist()) == ([[1, 2, 0]], [3])


class Told(Pmsp):
    """A schedule with a cost of its own, which says how it changes; searched as every problem is."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(instances["durations"], choice).sum(-1)

    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
        durations = instances["durations"]
        return durations[:, None] - picked(durations, choice)[..., None]


class Untold(Atsp):
    """A tour whose longest step counts twice."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        steps = picked(self.travel(instances), choice)
        return steps.sum(-1) + steps.amax(-1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("problem", "size"), [*SEARCHES, (Told(), (8, 3)), (Untold(), (7,))])
def test_chains_with_search_are_recorded(problem: Problem, size: tuple[int, ...]) -> None:
    """Nothing of a chain with search waits for the host: replayed from a CUDA graph it finds what it finds at once."""
    batch = {name: tensor.cuda() for name, tensor in instances(problem, 3, size).items()}
    predict, random = toy(batch, 4), keys([0, 1, 2], 4).cuda()
    options = SamplingOptions(3, decodes=2, temperature=3.0, improve_rounds=20, merge=2)
    process = Diffusion(DiffusionConfig(8), "cuda")

    def run() -> Samples:
        return generate(predict, Task(problem, batch), process, Noise(random), options)

    expected = run()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        made = run()
    made.choice.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(made.choice, expected.choice)
    assert torch.equal(made.cost, expected.cost)
    assert torch.equal(problem.improve(batch, made.choice, 100), made.choice)


@pytest.mark.parametrize(("problem", "size"), [(Pmsp(), (7, 3)), (Atsp(), (7,))])
def test_trajectories_may_begin_with_what_the_problem_constructs(problem: Problem, size: tuple[int, ...]) -> None:
    """Noised to 0.6 · T, one for each trajectory; whatever the network makes of them, none gets worse."""
    batch = instances(problem, 3, size)
    task = Task(problem, batch)
    made = problem.construct(batch, 4).choice
    steps: list[ReverseStep] = []
    options = SamplingOptions(steps=4, begin="starts", temperature=50.0)
    found = generate(
        toy(batch, 4), task, DIFFUSION, Noise(keys([0, 1, 2], 4)), options, callback=lambda step: steps.append(step)
    )
    assert [step.t for step in steps] == list(strided_times(round(0.6 * DIFFUSION.steps), 4))[:-1]
    at = torch.full((12,), steps[0].t)
    wanted = DIFFUSION.q_sample(task.marked(made.flatten(0, 1)), at, task.density, Noise(keys([0, 1, 2], 4)))
    assert torch.equal(steps[0].x, wanted)
    cost = problem.cost(batch, made)
    assert (found.cost <= cost).all()
    kept = found.cost == cost
    assert kept.any()  # a network this warm hardly ever does better
    assert torch.equal(found.choice[kept], made[kept])
    # others than these, handed in; and the end alone, where only that is asked for
    other = made.flip(1).flatten(0, 1)
    given = other, task.cost(other).flatten()
    again = generate(toy(batch, 4), task, DIFFUSION, Noise(keys([0, 1, 2], 4)), options, starts=given)
    assert (again.cost <= cost.flip(1)).all()
    last = generate(toy(batch, 4), task, DIFFUSION, Noise(keys([0, 1, 2], 4)), replace(options, keep="last"))
    assert torch.equal(last.cost, last.last_cost)


def blind(problem: Problem, batch: Instances, **options: Any) -> Tensor:
    """Return the best costs of chains that know nothing."""
    sampling = SamplingOptions(steps=2, decodes=4, **options)
    noise = Noise(keys([0, 1, 2], 2))
    return generate(lambda x, t: torch.zeros_like(x), Task(problem, batch), DIFFUSION, noise, sampling).best()[1]


@pytest.mark.parametrize("reverse", ["fresh", "best", "independent"])
def test_a_chain_by_loads_is_balanced(reverse: Any) -> None:
    """Where machines are nearly alike, loads are all there is to know."""
    batch = {"durations": torch.randint(10, 100, (3, 40, 1)) + torch.randint(0, 5, (3, 40, 5))}
    by_loads, by_rule = (blind(PMSP, batch, order=order, reverse=reverse) for order in ("loads", "rule"))
    assert (by_loads < 0.95 * by_rule).all()


def test_a_tour_has_no_loads() -> None:
    with pytest.raises(UsageError, match='cannot be decoded in the order "loads"'):
        blind(ATSP, instances(ATSP, 3, (6,)), order="loads")
