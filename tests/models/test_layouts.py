"""One network, two layouts: all columns for small instances, candidate columns for large ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.diffusion.sampler import ReverseStep, SamplingOptions, generate, refine
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig, load
from icdc.networks import NetworkConfig
from icdc.plots import Recorder
from icdc.problems.atsp import Atsp
from icdc.problems.base import Instances, Problem
from icdc.problems.features import Features
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.problems.tensors import to_tensors
from icdc.solving.network import DiffusionSolver, default_chunk

SMALL = {"width": 16, "heads": 2, "edge_width": 8, "encoder_layers": 2, "denoiser_layers": 2, "priced": True}
CASES = [(Atsp(), (9,)), (Pmsp(), (11, 6))]


def model_of(problem: Problem, **network: int) -> Model:
    """Return a model with random weights, those of the norms as well."""
    torch.manual_seed(0)
    model = Model(problem, ModelConfig(NetworkConfig(**{**SMALL, **network})))
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.network.eval()
    return model


def noise(count: int) -> Noise:
    return Noise(fold(root_key(0), torch.arange(count)))


def drawn(problem: Problem, size: tuple[int, ...], count: int = 2) -> dict[str, Tensor]:
    return to_tensors(problem.sample(count, size, np.random.default_rng(0)))


def predicted(model: Model, features: Features, x: Tensor) -> Tensor:
    return model.predict(model.encode(features, noise(2)), 0.2)(x, torch.arange(len(x)) + 1)


@pytest.mark.parametrize(("problem", "size"), CASES)
def test_with_all_columns_as_candidates_the_layouts_are_one(problem: Problem, size: tuple[int, ...]) -> None:
    """Log-odds and the gradients of all weights agree up to rounding, with and without gradients."""
    model, instances = model_of(problem), drawn(problem, size)
    dense = problem.priced_features(instances)
    sparse = problem.priced_features(instances, dense.shape[1])
    assert sparse.candidates is not None
    assert dense.shape == sparse.shape
    torch.manual_seed(1)
    x = (torch.rand(6, *dense.shape) < 0.3).float()
    found = []
    for features in (dense, sparse):
        log_odds = predicted(model, features, x)
        grads = torch.autograd.grad(log_odds.square().sum(), list(model.network.parameters()))
        with torch.no_grad():
            torch.testing.assert_close(predicted(model, features, x), log_odds.detach(), atol=1e-5, rtol=1e-4)
        found.append([log_odds, *grads])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, atol=1e-4 * float(a.detach().abs().max()), rtol=1e-3)


@pytest.mark.parametrize(("problem", "size"), CASES)
def test_the_order_of_candidates_does_not_matter(problem: Problem, size: tuple[int, ...]) -> None:
    """A network that is given a row's candidates in another order says the same about each of them."""
    model, instances = model_of(problem), drawn(problem, size)
    features = problem.priced_features(instances, 4)
    candidates = features.candidates
    assert candidates is not None
    torch.manual_seed(2)
    x = (torch.rand(2, size[0], 4) < 0.3).float()
    order = torch.rand(x.shape).argsort(2)
    moved = Features(
        features.relations.gather(2, order[..., None].expand_as(features.relations)),
        candidates=type(candidates)(candidates.index.gather(2, order), candidates.columns),
    )
    with torch.no_grad():
        there, here = predicted(model, moved, x.gather(2, order)), predicted(model, features, x)
    torch.testing.assert_close(there, here.gather(2, order), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("problem", "size"), CASES)
def test_columns_that_nobody_has_do_no_harm(problem: Problem, size: tuple[int, ...]) -> None:
    """Candidates may leave columns out; what the network says of the others stays finite."""
    model, instances = model_of(problem), drawn(problem, size)
    features = problem.priced_features(instances, 3)
    assert features.candidates is not None
    index = torch.arange(3).expand_as(features.candidates.index)
    narrow = Features(features.relations, candidates=type(features.candidates)(index, features.shape[1]))
    x = torch.zeros(2, size[0], 3, requires_grad=True)
    log_odds = predicted(model, narrow, x)
    assert torch.isfinite(log_odds).all()
    assert torch.isfinite(torch.autograd.grad(log_odds.sum(), x)[0]).all()


def test_the_size_decides_between_the_layouts() -> None:
    """Few rows, or few columns, are looked at as a whole; problems without prices always are."""
    tours = model_of(Atsp(), candidates=4, dense_up_to=8)
    assert [tours.candidates_of((cities,)) for cities in (4, 8, 9)] == [0, 0, 4]
    assert tours.features(drawn(Atsp(), (8,))).candidates is None
    assert tours.features(drawn(Atsp(), (9,))).relations.shape == (2, 9, 4, 8)
    schedules = model_of(Pmsp(), candidates=4, dense_up_to=8)
    assert [schedules.candidates_of(size) for size in ((9, 4), (9, 5), (8, 5))] == [0, 4, 0]
    hidden = model_of(Navigation(), candidates=4, dense_up_to=8)
    assert hidden.candidates_of((9,)) == 0
    assert hidden.features(drawn(Navigation(), (9,))).candidates is None
    assert model_of(Atsp()).candidates_of((10**6,)) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"candidates": 1}, "at least 2"),
        ({"candidates": -4}, "at least 0"),
        ({"candidates": 4, "dense_up_to": -1}, "must be at least 0"),
        ({"candidates": 4, "priced": False}, "priced = true"),
        ({"candidates": 4, "encoder": "dual", "denoiser": "gated"}, 'denoiser = "edge"'),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        NetworkConfig(**{**SMALL, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(("problem", "size"), CASES)
@pytest.mark.parametrize("reverse", ["fresh", "best", "independent"])
@pytest.mark.parametrize("order", ["confidence", "rule"])
def test_trajectories_end_in_feasible_solutions(
    problem: Problem, size: tuple[int, ...], reverse: str, order: str
) -> None:
    """Every way of going back works on candidates, and what is noised again are the marks of the solution carried."""
    model, instances = model_of(problem, candidates=3, dense_up_to=0), drawn(problem, size)
    features = model.features(instances)
    task = Task(problem, instances, candidates=features.candidates)
    steps: list[ReverseStep] = []
    options = SamplingOptions(steps=4, reverse=reverse, order=order, decodes=2, improve_rounds=2)  # type: ignore[arg-type]
    with torch.no_grad():
        predict = model.predict(model.encode(features, noise(2)), task.density)
        found = generate(predict, task, model.diffusion, noise(6), options, callback=steps.append)
        assert all(step.x.shape == step.log_odds.shape == (6, size[0], 3) for step in steps)
        assert problem.feasible(instances, found.choice).all()
        torch.testing.assert_close(problem.cost(instances, found.choice), found.cost)
        choice, cost = refine(predict, task, model.diffusion, noise(6), options, *found.best())
    assert problem.feasible(instances, choice[:, None]).all()
    assert (cost <= found.cost.amin(1)).all()


def test_frames_of_an_animation_are_whole_matrices() -> None:
    """Where a network says nothing there is nothing to see, and the picture keeps its shape."""
    model, instances = model_of(Atsp(), candidates=3, dense_up_to=0), drawn(Atsp(), (7,))
    features = model.features(instances)
    task, recorder = Task(Atsp(), instances, candidates=features.candidates), Recorder()
    with torch.no_grad():
        predict = model.predict(model.encode(features, noise(2)), task.density)
        generate(predict, task, model.diffusion, noise(2), SamplingOptions(steps=3), callback=recorder)
    assert features.candidates is not None
    mine = features.candidates.spread(torch.ones(2, 7, 3))[0].numpy() > 0
    for frame in recorder.frames:
        assert frame.x.shape == frame.predicted.shape == (7, 7)
        assert not frame.x[~mine].any()
        assert not frame.predicted[~mine].any()
        assert (frame.predicted[mine] > 0).all()


@pytest.mark.parametrize(("problem", "size"), CASES)
def test_solving_with_candidates(problem: Problem, size: tuple[int, ...]) -> None:
    """The solver answers, refines, and gives the same whatever runs together."""
    model = model_of(problem, candidates=3, dense_up_to=0)
    arrays = problem.sample(3, size, np.random.default_rng(1))
    together, alone = (
        DiffusionSolver(model, refine=2, device="cpu", steps=3, decodes=2, chunk=chunk).solve(
            problem, arrays, samples=3, seed=5
        )
        for chunk in (100, 1)
    )
    assert np.array_equal(together.choice, alone.choice)
    instances = to_tensors(arrays)
    assert problem.feasible(instances, torch.from_numpy(together.choice)[:, None]).all()


def test_large_instances_are_decoded_by_confidence() -> None:
    """Candidates of large ones are joined: other orders would look at all pairs again."""
    model = model_of(Atsp(), candidates=3, dense_up_to=8)
    assert model.sampling_options((251,), 1).order == "confidence"
    for size in (8, 9, 250):
        assert model.sampling_options((size,), 1).order == "rule"
    assert model_of(Atsp(), candidates=0, dense_up_to=8).sampling_options((251,), 1).order == "rule"


def test_more_trajectories_fit_together() -> None:
    """Memory grows with rows times candidates, on either kind of device."""
    dense, sparse = (model_of(Atsp(), candidates=count, dense_up_to=0) for count in (0, 8))
    for device in ("cpu", "cuda"):
        assert default_chunk(sparse, (1000, 1000), device=device) > default_chunk(dense, (1000, 1000), device=device)
        assert default_chunk(sparse, (6, 6), device=device) == default_chunk(dense, (6, 6), device=device)


def test_the_layout_is_part_of_a_model_file(tmp_path: Path) -> None:
    """A file says how many candidates there are; one from before there were any looks at all columns."""
    model = model_of(Atsp(), candidates=4, dense_up_to=8)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors", "cpu")
    assert again.candidates_of((9,)) == 4
    assert NetworkConfig().candidates == 0


def test_tours_with_a_mask_of_their_own_keep_to_it() -> None:
    """Candidates that an instance forbids are passed over."""

    class NoStepsByTwo(Atsp):
        priced_sizes = Atsp.priced_sizes

        def mask(self, instances: Instances) -> Tensor:
            size = instances["distances"].shape[1]
            ahead = (torch.arange(size) - torch.arange(size)[:, None]) % size
            return (ahead != 2).expand(len(instances["distances"]), -1, -1)

        def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
            allowed = self.mask(instances)[:, None].expand(-1, choice.shape[1], -1, -1)
            return super().feasible(instances, choice) & allowed.gather(3, choice[..., None]).all(2)[..., 0]

    problem = NoStepsByTwo()
    model = model_of(problem, candidates=3, dense_up_to=0)
    found = DiffusionSolver(model, device="cpu", steps=3, decodes=4).solve(
        problem, problem.sample(2, (9,), np.random.default_rng(0)), samples=4
    )
    steps = (found.choice - np.arange(9)) % 9
    assert not (steps == 2).any()
