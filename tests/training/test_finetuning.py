"""Fine-tuning: instances come from the set and only from it, training begins at the model's weights, and it helps."""

from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.errors import InputError, UsageError
from icdc.models.card import outside
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.problems.base import Arrays
from icdc.problems.families import sample_family
from icdc.problems.pmsp import Pmsp
from icdc.training.finetuning import Finetuned, finetune, finetuning_config, train_on

TINY = NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1, identifiers=4)


def untrained(problem: str, **card: Any) -> Model:
    torch.manual_seed(3)
    model = Model(get_problem(problem), ModelConfig(network=TINY), name="base", card=card)
    model.network.eval()
    return model


def some(problem: str, size: tuple[int, ...], count: int = 12) -> Arrays:
    return get_problem(problem).sample(count, size, np.random.default_rng(1))


def weights(model: Model) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.network.parameters()]


def test_training_begins_at_the_weights_and_leaves_the_model_alone() -> None:
    model, arrays = untrained("pmsp"), some("pmsp", (5, 2))
    before = weights(model)
    config = finetuning_config(model, arrays, torch.device("cpu"), time_limit=1)
    assert config.optimizer.learning_rate <= 1e-4
    assert config.improvement.weight == 0
    tuned = train_on(model, arrays, time_limit=1, rounds=1, device="cpu")
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))
    moved = [(a - b).abs().max().item() for a, b in zip(before, weights(tuned), strict=True)]
    assert 0 < max(moved) < 0.01
    assert type(tuned.problem) is Pmsp


def test_batches_shrink_with_the_matrix() -> None:
    for device in ("cpu", "cuda"):
        small, large = (
            finetuning_config(untrained("atsp"), some("atsp", (n,), 2), torch.device(device), time_limit=1)
            for n in (10, 60)
        )
        assert small.targets.instances > large.targets.instances >= 1
        assert small.cloning.batch > large.cloning.batch >= 1


def test_the_same_seed_repeats_itself() -> None:
    model, arrays = untrained("atsp"), some("atsp", (5,))
    first, second, other = (
        weights(train_on(model, arrays, time_limit=1, rounds=2, seed=seed, device="cpu")) for seed in (4, 4, 5)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_the_held_out_part_is_never_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = some("pmsp", (5, 2), 10)
    seen: list[Arrays] = []

    def stand_in(model: Model, own: Arrays, **options: Any) -> Model:
        seen.append(own)
        return train_on(model, own, **{**options, "rounds": 1})

    monkeypatch.setattr("icdc.training.finetuning.train_on", stand_in)
    result = finetune(untrained("pmsp"), arrays, holdout=0.3, device="cpu", about={"dataset": "mine"})
    assert len(result.before) == len(result.after) == 3
    assert len(seen[0]["durations"]) == 7
    record = result.model.card["finetuning"][-1]
    assert (record["trained_on"], record["held_out"], record["dataset"], record["base"]) == (7, 3, "mine", "base")
    assert record["before"] == pytest.approx(result.before.mean())
    assert record["after"] == pytest.approx(result.after.mean())


def judged(monkeypatch: pytest.MonkeyPatch, before: float, after: float) -> tuple[Model, Finetuned]:
    """Fine-tune for a round where the comparison says what it is told to say."""
    from icdc.solving.solver import Result

    said = iter([before, after])

    def solve(self: Any, problem: Any, arrays: Any, **options: Any) -> Result:
        count = len(arrays["durations"])
        result = Result(count, 5, whole=False)
        result.offer(np.zeros((count, 5), dtype=np.int64), np.full(count, next(said)), "")
        return result

    monkeypatch.setattr("icdc.training.finetuning.DiffusionSolver.solve", solve)
    model = untrained("pmsp", sizes=[[9, 9]], solving=[{"samples": 1, "options": {}}], results=["of the base"])
    return model, finetune(model, some("pmsp", (5, 2)), rounds=1, device="cpu")


def test_the_better_weights_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model, result = judged(monkeypatch, 10.0, 9.0)
    assert result.improved
    assert result.change == pytest.approx(-0.1)
    assert not all(torch.equal(a, b) for a, b in zip(weights(model), weights(result.model), strict=True))
    card = result.model.card
    assert card["sizes"] == [[5, 2]]
    assert card["solving"] == model.card["solving"]
    assert "results" not in card  # they were the old weights'
    assert card["finetuning"][-1]["kept"] == "tuned"


def test_worse_weights_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model, result = judged(monkeypatch, 10.0, 10.0)
    assert not result.improved
    assert all(torch.equal(a, b) for a, b in zip(weights(model), weights(result.model), strict=True))
    card = dict(result.model.card)
    assert card.pop("finetuning")[-1]["kept"] == "base"
    assert card == model.card


def test_the_card_knows_the_matrices_it_was_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heavy tails are new to what the problem draws, and not to a model that was trained on them."""
    rng = np.random.default_rng(0)
    heavy = np.exp(3 * rng.standard_normal((40, 20, 4)))
    monkeypatch.setattr("icdc.training.finetuning.Finetuned.improved", True)
    result = finetune(untrained("pmsp"), {"durations": heavy[:30]}, rounds=1, device="cpu")
    fresh = {"durations": heavy[30:]}
    assert any(outside(Pmsp(), fresh, [(20, 4)]))
    card = result.model.card
    assert not any(outside(Pmsp(), fresh, card["sizes"], card["ranges"]))
    usual = Pmsp().sample(3, (20, 4), rng)
    assert all(outside(Pmsp(), usual, card["sizes"], card["ranges"]))


def test_what_cannot_be_finetuned_is_refused() -> None:
    model = untrained("pmsp")
    with pytest.raises(InputError, match="at least 2 instances"):
        finetune(model, some("pmsp", (5, 2), 1), device="cpu")
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(UsageError, match="hold out"):
            finetune(model, some("pmsp", (5, 2)), holdout=share, device="cpu")
    assert icdc.finetune is finetune


def test_two_instances_are_enough() -> None:
    result = finetune(untrained("pmsp"), some("pmsp", (4, 2), 2), holdout=0.9, rounds=1, device="cpu")
    assert len(result.before) == 1
    assert np.isnan(result.uncertainty)


def test_it_helps_on_instances_it_was_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a model without training, since small steps show little in seconds: far better than chance can be."""
    points = np.random.default_rng(0).random((80, 8, 2))
    plane = np.hypot(*(points[:, :, None] - points[:, None]).transpose(3, 0, 1, 2))
    monkeypatch.setattr("icdc.training.finetuning.LEARNING_RATE", 3e-3)
    result = finetune(untrained("atsp"), {"distances": plane}, rounds=12, holdout=0.4, device="cpu")
    assert result.improved
    assert result.change < -4 * result.uncertainty


@pytest.mark.parametrize(("problem", "size"), [("pmsp", (6, 3)), ("atsp", (6,))])
def test_instances_with_forbidden_pairs_are_learned(problem: str, size: tuple[int, ...]) -> None:
    """Targets use no forbidden pair, and the card knows how many there are."""
    arrays = sample_family(get_problem(problem), "forbidden", 10, size, np.random.default_rng(0))
    result = finetune(untrained(problem), arrays, rounds=2, device="cpu")
    (matrix,) = arrays.values()
    forbidden = matrix.max()
    assert (result.after < forbidden).all()
    tuned = train_on(untrained(problem), arrays, time_limit=1, rounds=1, device="cpu")
    assert all(torch.isfinite(weight).all() for weight in weights(tuned))
    if result.improved:
        assert result.model.card["ranges"]["forbidden"][0] > 0
