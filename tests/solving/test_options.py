"""Options of sampling: one object, handed through whole, or changes to what a card advises."""

from dataclasses import fields

from icdc.diffusion.sampler import SamplingOptions
from icdc.problems.atsp import Atsp
from icdc.solving import DiffusionSolver


def test_changes_are_those_of_the_options() -> None:
    assert {field.name for field in fields(SamplingOptions)} <= DiffusionSolver.options().keys()


def test_whole_options_are_taken_as_they_are(small_model) -> None:  # type: ignore[no-untyped-def]
    model = small_model(Atsp())
    model.card = {"sizes": [[5]], "solving": [{"samples": 1, "options": {"steps": 3, "decodes": 7}}]}
    whole = SamplingOptions(steps=2, reverse="independent")
    assert DiffusionSolver(model, sampling=whole).options_for(model, (5,), 1) == whole
    assert DiffusionSolver(model, sampling=whole, decodes=4).options_for(model, (5,), 1).decodes == 4
    assert DiffusionSolver(model).options_for(model, (5,), 1).decodes == 7


def test_a_prepared_solver_keeps_its_options(small_model) -> None:  # type: ignore[no-untyped-def]
    options = {"refine": 3, "refine_steps": 2, "device": "cpu", "chunk": 7, "trace": print, "decodes": 4}
    solver = DiffusionSolver(small_model(Atsp()), sampling=SamplingOptions(steps=2), **options)
    assert vars(solver.prepared(Atsp(), (5,))) == vars(solver)
