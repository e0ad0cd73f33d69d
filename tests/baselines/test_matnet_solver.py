"""MatNet by the solver protocol: checked answers, alike in any batch and chunk, better with more samples."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from icdc.baselines.matnet import MatNet, MatNetSolver, load_matnet
from icdc.errors import InputError, UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig, load
from icdc.networks import NetworkConfig
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays
from icdc.problems.pmsp import Pmsp
from icdc.problems.tensors import to_tensors
from icdc.solvers import make_solver
from icdc.solving.answer import judge
from icdc.solving.solver import Solver

Small = tuple[MatNet, Arrays]


@pytest.mark.parametrize("decoding", ["greedy", "sample", "multistart"])
def test_answers_are_feasible_and_more_samples_are_never_worse(small: Small, decoding: str) -> None:
    model, arrays = small
    solver = MatNetSolver(model, decoding=decoding, device="cpu")
    assert isinstance(solver, Solver)
    assert solver.supports(model.problem)
    few, many = (solver.solve(model.problem, arrays, samples=samples, seed=2) for samples in (2, 7))
    for results in (few, many):
        feasible, cost = judge(model.problem, arrays, results.choice)
        assert feasible.all()
        assert np.allclose(cost, results.cost)
    assert (many.cost <= few.cost).all()


@pytest.mark.parametrize("decoding", ["greedy", "sample", "multistart"])
def test_an_instance_is_answered_alike_in_any_batch_and_chunk(small: Small, decoding: str) -> None:
    model, arrays = small
    whole = MatNetSolver(model, decoding=decoding, device="cpu").solve(model.problem, arrays, samples=4, seed=3)
    for chunk in (1, 3, 8):
        solver = MatNetSolver(model, decoding=decoding, device="cpu", chunk=chunk)
        parts = solver.solve(model.problem, arrays, samples=4, seed=3)
        assert np.array_equal(parts.choice, whole.choice)
    alone = {name: array[1:2] for name, array in arrays.items()}
    solver = MatNetSolver(model, decoding=decoding, device="cpu")
    assert np.array_equal(solver.solve(model.problem, alone, samples=4, seed=3).choice[0], whole.choice[1])


def test_a_time_limit_leaves_every_instance_an_answer(make_small: Callable[[str], Small]) -> None:
    model, arrays = make_small("pmsp")
    solver = MatNetSolver(model, device="cpu", chunk=1)
    results = solver.solve(model.problem, arrays, samples=10**6, time_limit=0.2)
    assert results.seconds < 5.0
    assert judge(model.problem, arrays, results.choice)[0].all()


def test_a_file_gives_the_same_model(small: Small, tmp_path: Path) -> None:
    model, arrays = small
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.copy_(parameter.half().float())
    model.card = {"sizes": [[5]]}
    model.save(tmp_path / "m.safetensors")
    again = load_matnet(tmp_path / "m.safetensors", "cpu")
    assert again.card == model.card
    assert again.config == model.config
    features = model.problem.features(to_tensors(arrays))
    keys = fold(root_key(0), torch.arange(3))
    with torch.no_grad():
        assert torch.equal(model.encode(features, Noise(keys)).rows, again.encode(features, Noise(keys)).rows)
    by_name = make_solver(f"matnet:model={tmp_path / 'm.safetensors'},decoding=greedy,device=cpu")
    assert by_name.supports(model.problem)
    results = by_name.solve(model.problem, arrays)
    assert results.model == str(tmp_path / "m.safetensors")
    expected = MatNetSolver(model, decoding="greedy", device="cpu").solve(model.problem, arrays)
    assert np.array_equal(results.choice, expected.choice)


def test_kinds_of_models_are_not_mistaken_for_each_other(make_small: Callable[[str], Small], tmp_path: Path) -> None:
    model, arrays = make_small("atsp")
    model.save(tmp_path / "matnet.safetensors")
    tiny = ModelConfig(NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1))
    Model(Atsp(), tiny).save(tmp_path / "diffusion.safetensors")
    with pytest.raises(InputError, match="of kind 'matnet', where one of kind 'diffusion' is needed"):
        load(tmp_path / "matnet.safetensors", "cpu")
    with pytest.raises(InputError, match="of kind 'diffusion', where one of kind 'matnet' is needed"):
        load_matnet(tmp_path / "diffusion.safetensors", "cpu")
    assert not MatNetSolver(str(tmp_path / "diffusion.safetensors")).supports(Atsp())
    assert not make_solver("icdc", model=str(tmp_path / "matnet.safetensors")).supports(Atsp())
    with pytest.raises(UsageError, match="is for atsp, not for pmsp"):
        MatNetSolver(model, device="cpu").solve(Pmsp(), arrays)


def test_mistakes_say_what_is_valid(make_small: Callable[[str], Small]) -> None:
    model, arrays = make_small("atsp")
    with pytest.raises(UsageError, match="unknown decoding 'beam'; choose multistart, greedy, sample"):
        MatNetSolver(model, decoding="beam")
    with pytest.raises(UsageError, match="chunk"):
        MatNetSolver(model, chunk=0)
    with pytest.raises(UsageError, match="samples must be at least 1"):
        MatNetSolver(model, device="cpu").solve(model.problem, arrays, samples=0)
