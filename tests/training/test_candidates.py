"""Training on candidate columns: what is stored, what is learned, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, Problem, Size
from icdc.problems.features import Candidates, Features, best_candidates
from icdc.settings import build
from icdc.training import Trainer, TrainingConfig, checkpoint
from icdc.training.losses import constraint_loss
from icdc.training.memory import ReplayMemory, Targets
from icdc.training.steps import Steps

NETWORK = {"width": 16, "heads": 2, "edge_width": 8, "encoder_layers": 1, "denoiser_layers": 1, "priced": True}


def config_of(problem: str, size: list[int], candidates: int, **tables: Any) -> TrainingConfig:
    values: dict[str, Any] = {
        "problem": problem,
        "sizes": [size],
        "rounds": 3,
        "model": {"network": {**NETWORK, "candidates": candidates, "dense_up_to": 0}, "diffusion": {"steps": 4}},
        "targets": {"instances": 4, "trajectories": 2, "refine_rounds": 1, "sampling": {"steps": 2, "decodes": 2}},
        "cloning": {"batch": 6, "steps_first": 2, "steps_last": 2, "cst": 0.1},
        "improvement": {"weight": 0.0},
        **tables,
    }
    return build(TrainingConfig, values)


def noise(count: int) -> Noise:
    return Noise(fold(root_key(3), torch.arange(count)))


def steps_of(config: TrainingConfig) -> Steps:
    trainer = Trainer(config, device="cpu")
    trainer.set_up()
    return trainer.steps[0]


@pytest.mark.parametrize(("problem", "size"), [("atsp", [30]), ("pmsp", [20, 9])])
def test_rounds_go_by(problem: str, size: list[int]) -> None:
    """Targets are made, stored with their candidates and cloned; weights move and stay finite."""
    trainer = Trainer(config_of(problem, size, 8), device="cpu")
    trainer.set_up()
    before = [parameter.clone() for parameter in trainer.weights.model.network.parameters()]
    for number in range(3):
        trainer.round(number, number / 3)
    after = list(trainer.weights.model.network.parameters())
    assert all(torch.isfinite(parameter).all() for parameter in after)
    assert sum(not torch.equal(a, b) for a, b in zip(before, after, strict=True)) > len(after) / 2
    steps = trainer.steps[0]
    assert (steps.width, steps.density) == (8, pytest.approx(1 / 8))
    items = steps.memory.draw(noise(50))
    candidates = items.features.candidates
    assert candidates is not None
    assert items.features.relations.shape[:3] == candidates.index.shape == (50, size[0], 8)
    assert candidates.columns == size[-1]
    assert candidates.mark(items.choice).sum(2).mean() > 0.5


def test_the_loss_is_that_of_all_columns_where_all_are_candidates() -> None:
    """Every part of it: prediction, variational bound and constraints."""
    steps = steps_of(config_of("atsp", [7], 0))
    instances = steps.instances
    choice = torch.stack([torch.randperm(7, generator=torch.Generator().manual_seed(i)) for i in range(4)])
    successor = torch.zeros_like(choice).scatter(1, choice, choice.roll(-1, 1))
    found = []
    for features in (Atsp().priced_features(instances), Atsp().priced_features(instances, 7)):
        items = Targets(features, successor, torch.zeros(4), successor.roll(1, 0), torch.full((4,), 2))
        found.append(float(steps.clone_loss(items, noise(4)).detach()))
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_the_constraint_loss_of_candidates_by_hand() -> None:
    """Constraints see zeros where there is no candidate."""
    candidates = best_candidates(torch.rand(1, 4, 4, generator=torch.Generator().manual_seed(0)), 2)
    tour = torch.tensor([[1, 2, 3, 0]])
    log_odds = 80 * candidates.mark(tour) - 40
    violation = constraint_loss(Atsp().violation, log_odds, noise(1), candidates)
    whole = Atsp().violation(candidates.spread(candidates.mark(tour)))
    assert violation.item() == pytest.approx(whole.item(), abs=1e-4)


def test_a_memory_keeps_candidates_with_their_features() -> None:
    """What goes in comes out together; what pairs give away is not kept."""
    index = torch.arange(5)[:, None, None].expand(-1, 3, 2).contiguous()
    features = Features(index.float()[..., None], candidates=Candidates(index, 9, torch.zeros(5, 3, 9)))
    choice = index[:, :, 0].contiguous()
    targets = Targets(features, choice, torch.zeros(5), choice, choice[:, 0])
    memory = ReplayMemory(8, targets)
    assert set(memory.tensors()) >= {"relations", "candidates"}
    memory.store(targets)
    drawn = memory.draw(noise(100))
    assert drawn.features.candidates is not None
    assert drawn.features.shape == (3, 9)
    assert drawn.features.candidates.excess is None
    assert torch.equal(drawn.features.candidates.index[:, :, 0], drawn.choice)
    assert torch.equal(drawn.features.relations[:, 0, 0, 0].long(), drawn.choice[:, 0])


def test_batches_are_measured_in_what_the_network_sees() -> None:
    """A limit on the entries of a batch counts candidates, not columns."""
    steps = steps_of(config_of("atsp", [12], 4, most_cells=2 * 12 * 4))
    assert (steps.count, steps.batch) == (2, 2)


def test_learning_from_log_p_is_refused() -> None:
    """The sentence says what to change."""
    with pytest.raises(UsageError, match=r"improvement.weight = 0, or model.network.dense_up_to to 12"):
        steps_of(config_of("atsp", [12], 4, improvement={"weight": 0.5}))


def test_large_instances_are_described_by_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card's ranges are drawn once; of 16 instances, or of as many as are not too large together."""
    drawn: list[tuple[int, Size]] = []

    def draw(problem: Problem, family: str, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        drawn.append((count, size))
        return problem.sample(1, (5,), rng)

    monkeypatch.setattr(checkpoint, "sample_family", draw)
    checkpoint.learned_ranges(Atsp(), ["uniform"], [(20,), (500,), (1200,)])
    checkpoint.learned_ranges(Atsp(), ["uniform"], [(1200,)])
    assert drawn == [(16, (20,)), (1, (500,)), (1, (1200,))]
    monkeypatch.undo()
    trainer = Trainer(config_of("atsp", [12], 4, families=["uniform"]), device="cpu")
    trainer.set_up()
    assert trainer.ranges is trainer.ranges
    assert set(trainer.ranges) == {"ranges"}
