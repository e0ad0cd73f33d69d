"""Test-time training: better weights are used, worse ones are not, and what was met on the way is never lost."""

from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.errors import UsageError
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks.network import NetworkConfig
from icdc.problems.contract import Arrays
from icdc.problems.registry import get_problem
from icdc.solving import AnytimeSolver, DiffusionSolver, Found, Improvement, Request, Solver
from icdc.solving.adapting import Adapt, Adapted
from icdc.training import adapting
from icdc.training.adapting import InstanceTraining

TINY = NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1, identifiers=4)


def untrained(problem: str = "pmsp") -> Model:
    torch.manual_seed(3)
    model = Model(get_problem(problem), ModelConfig(network=TINY), name="base", card={"sizes": [[12, 3]]})
    model.network.eval()
    return model


def network(**options: Any) -> DiffusionSolver:
    return DiffusionSolver(untrained(), steps=2, device="cpu", **options)


def shops(count: int = 4, size: tuple[int, ...] = (12, 3)) -> Arrays:
    return get_problem("pmsp").sample(count, size, np.random.default_rng(1))


def adapted(
    solver: Solver | None = None, arrays: Arrays | None = None, adapt: Adapt | None = None, **more: Any
) -> Adapted:
    request = Request(get_problem("pmsp"), arrays or shops(), **{"samples": 2, **more})
    return InstanceTraining().adapt(solver or network(), request, adapt or Adapt(rounds=2))


def weights(model: Any) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.network.parameters()]


def judged(monkeypatch: pytest.MonkeyPatch, before: float, after: float) -> tuple[Model, Adapted]:
    """Adapt where the comparison says what it is told to say."""
    said = iter([before, after])
    monkeypatch.setattr(adapting._Adaptation, "_judged", lambda *_: np.full(4, next(said)))
    solver = network()
    assert isinstance(solver.model, Model)
    return solver.model, adapted(solver)


def test_better_weights_are_used_and_the_model_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    before = weights(untrained())
    model, found = judged(monkeypatch, 10.0, 9.0)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))
    assert isinstance(found.solver, DiffusionSolver)
    assert found.solver.model is not model
    assert found.solver.model_name == "base, adapted"
    assert found.solver.changes == {"steps": 2}
    assert not all(torch.equal(a, b) for a, b in zip(before, weights(found.solver.model), strict=True))
    assert found.sentence == (
        "adapted 'base': 2 rounds on 4 instances of size 12×3 changed the cost of its samples by -10.00 %"
    )


@pytest.mark.parametrize("after", [10.0, 10.1])
def test_weights_that_are_not_better_are_not_used(monkeypatch: pytest.MonkeyPatch, after: float) -> None:
    model, found = judged(monkeypatch, 10.0, after)
    assert isinstance(found.solver, DiffusionSolver)
    assert found.solver.model is model
    assert found.sentence.startswith("not adapted: 2 rounds on 4 instances")


def test_the_same_seed_repeats_itself() -> None:
    first, again, other = (adapted(seed=seed) for seed in (4, 4, 5))
    assert first.sentence == again.sentence
    assert (first.choice == again.choice).all()
    for one, two in ((first, again), (first, other)):
        models = [getattr(found.solver, "model", None) for found in (one, two)]
        same = all(torch.equal(a, b) for a, b in zip(weights(models[0]), weights(models[1]), strict=True))
        assert same == (two is again) or "not adapted" in one.sentence + two.sentence


def test_it_learns_what_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a model without training, which solutions of a search teach something within a few rounds."""
    monkeypatch.setattr(adapting, "LEARNING_RATE", 3e-3)
    found = adapted(AnytimeSolver(untrained(), device="cpu"), adapt=Adapt(rounds=12), arrays=shops(4, (60, 7)))
    if "proven" not in found.sentence:
        assert found.sentence.startswith("adapted 'base': 12 rounds")
        change = float(found.sentence.split("by ")[1].split(" %")[0])
        assert change < -2.0


def test_what_was_met_on_the_way_is_kept_and_says_what_found_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poor solutions at first, better ones of the samples that weights are compared by."""
    poor = np.zeros((4, 12), dtype=np.int64)
    worse = network()
    monkeypatch.setattr(adapting._Adaptation, "_trained", lambda self, model, *_: (model, 1))
    search = worse.solve(get_problem("pmsp"), shops(), start=poor)
    monkeypatch.setattr(DiffusionSolver, "search", lambda self, request: search_of(request))

    def search_of(request: Any) -> Any:
        calls.append(request)
        return Found(poor if len(calls) == 1 else search.choice, 0.0)

    calls: list[Any] = []
    found = adapted(worse, start=poor)
    assert (found.choice == search.choice).all()
    assert list(found.found_by) == ["adaptation"] * 4
    assert calls[0].start is poor
    assert len(calls) == 3  # the search, the old weights, and the new ones


def test_everything_proven_needs_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapting._Adaptation, "_trained", lambda *_: pytest.fail("there was nothing to learn"))
    found = adapted(AnytimeSolver(untrained(), device="cpu"), arrays=shops(3, (5, 2)))
    assert found.sentence == "not adapted: every answer is proven optimal already"
    assert np.isfinite(found.bound).all()


def test_too_few_seconds_and_too_large_instances_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = adapted(adapt=Adapt(0.05))
    assert "seconds are too few to learn 4 instances of size 12×3" in found.sentence
    assert (found.choice >= 0).all()
    monkeypatch.setattr(AnytimeSolver, "network_helps", lambda *_: False)
    found = adapted(AnytimeSolver(untrained(), device="cpu"))
    assert found.sentence.startswith("not adapted: there is no network for these instances")
    assert (found.choice < 0).all()  # nothing was searched in vain


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from icdc.training import fitting

    monkeypatch.setattr(fitting, "available_memory", lambda: 1)
    found = adapted()
    assert found.sentence.startswith("not adapted: training with these settings needs about")


def test_batches_fit_into_the_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained()
    plenty = adapting._config(model, shops(), 1, 0)
    each = adapting.PEAK * adapting.kept_bytes(TINY, 12, 3)
    monkeypatch.setattr(adapting, "available_memory", lambda: int(each * 8))
    scarce = adapting._config(model, shops(), 1, 0)
    assert plenty.cloning.batch > scarce.cloning.batch == 2
    assert scarce.targets.instances == 2


def test_batches_fit_into_the_time_there_is() -> None:
    model = untrained()
    plenty, some, none = (adapting._config(model, shops(), 1, 0, items) for items in (np.inf, 3.7, 0.0))
    assert plenty.cloning.batch > 3
    assert (some.cloning.batch, some.targets.instances) == (3, 3)
    assert (none.cloning.batch, none.targets.instances) == (1, 1)


def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(adapting._Adaptation, "_trained", stop)
    found = adapted()
    assert found.interrupted
    assert (found.choice >= 0).all()
    monkeypatch.setattr(DiffusionSolver, "search", stop)
    answer = icdc.solve(shops()["durations"][0], solver=network(), adapt=Adapt(rounds=1))
    assert answer.interrupted
    assert answer.found_by == "construction"


def test_a_callback_ends_it() -> None:
    heard: list[Improvement] = []

    def stop(improvement: Improvement) -> bool:
        heard.append(improvement)
        return True

    answer = icdc.solve(shops()["durations"][0], solver=network(), adapt=Adapt(rounds=1), callback=stop)
    assert len(heard) == 1
    assert heard[0].places == (0,)
    assert not answer.interrupted
    assert answer.objective <= heard[0].cost[0]  # another thread may have found more before it heard of the end
    assert answer.found_by == "network"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"seconds": None}, "one of the two"),
        ({"seconds": 3.0, "rounds": 2}, "one of the two"),
        ({"seconds": 0.0}, "adapt must be more than 0 seconds"),
        ({"rounds": -1}, "rounds of adapting must be at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Adapt(**asked)
    with pytest.raises(UsageError, match="the solver 'ga' has no model to adapt: only icdc and network have one"):
        icdc.solve(shops()["durations"][0], solver="ga", adapt=1.0)
    with pytest.raises(UsageError, match="5 of 5 seconds leave none"):
        icdc.solve(shops()["durations"][0], adapt=5, time_limit=5)
