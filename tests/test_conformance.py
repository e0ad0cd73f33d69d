"""The conformance kit passes problems that keep the contract and catches each way of breaking it."""

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from icdc.conformance import assert_conforms, check_conformance
from icdc.diffusion.process import DiffusionConfig
from icdc.diffusion.sampler import SamplingOptions, generate
from icdc.errors import InputError, UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, FeatureSizes, Instances, Problem, Size
from icdc.problems.decoding import Starts
from icdc.problems.features import Features
from icdc.problems.instance import Instance
from icdc.problems.navigation import Navigation
from icdc.problems.pmsp import Pmsp
from icdc.problems.rules import HamiltonianCycle, OneColumnPerRow, State
from icdc.problems.task import Task
from icdc.problems.tensors import picked, to_tensors


def example(name: str) -> Any:
    """Import a file of examples/ as a user's module."""
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


EligibleMachines = example("eligible_machines").EligibleMachines


@pytest.mark.parametrize(
    ("problem", "sizes"),
    [
        (Atsp(), [None, (2,), (3,)]),
        (Pmsp(), [None, (1, 1), (1, 3), (3, 1), (3, 3)]),
        (Navigation(), [None, (2,), (3,)]),
        (EligibleMachines(), [None, (1, 1), (4, 2)]),
    ],
)
def test_problems_that_keep_the_contract(problem: Problem, sizes: list[Size | None]) -> None:
    """What ships, and the example of the documentation, at the smallest sizes too."""
    for size in sizes:
        assert_conforms(problem, size)


def test_the_example_can_be_sampled_and_refuses_bad_input() -> None:
    """The user's problem runs through network, diffusion and decoder, and every answer honours its mask."""
    problem = EligibleMachines()
    network = NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1)
    model = Model(problem, ModelConfig(network, DiffusionConfig(4)))
    batch = to_tensors(problem.sample(5, (6, 3), np.random.default_rng(0)))
    task = Task(problem, batch)
    keys = fold(root_key(0), torch.arange(5))
    with torch.no_grad():
        predict = model.predict(model.encode(model.features(task.instances), Noise(keys)), task.density)
        made = generate(predict, task, model.diffusion, Noise(keys).spawn(8), SamplingOptions(4))
    assert problem.feasible(batch, made.choice).all()
    with pytest.raises(InputError, match="no machine"):
        problem.check({"durations": np.ones((1, 2, 2)), "eligible": np.array([[[1, 0], [0, 0]]])})


class ColumnTwice(HamiltonianCycle):
    """Forgets which cities were entered, in all three ways of deciding."""

    def choose(self, state: State, row: Tensor, column: Tensor) -> State:
        return {**super().choose(state, row, column), "entering": state["entering"]}

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        return scores.argmax(-1)


class WrongShortcut(OneColumnPerRow):
    """A fast way that takes the worst column."""

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return scores.argmin(-1)


class HostReader(OneColumnPerRow):
    """Looks at a value on the host."""

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        return scores.argmax(-1) if bool((scores > -1e30).all()) else scores.argmin(-1)


class OpenTours(Atsp):
    rule = ColumnTwice()


class ShortCut(Pmsp):
    rule = WrongShortcut()


class OnTheHost(Pmsp):
    rule = HostReader()


class IgnoresMask(EligibleMachines):  # type: ignore[misc, valid-type]
    def mask(self, instances: Instances) -> Tensor:
        return torch.ones_like(instances["eligible"], dtype=torch.bool)


class ForbidsTooMuch(Pmsp):
    def mask(self, instances: Instances) -> Tensor:
        permitted = torch.ones_like(instances["durations"], dtype=torch.bool)
        permitted[:, 0, 1:] = False
        return permitted


class PaperDensity(Pmsp):
    def density(self, size: Size) -> float:
        return 1.0 / size[0]


class SignedViolation(Pmsp):
    def violation(self, x: Tensor) -> Tensor:
        return (x.sum(2) - 1).sum(1)


class FlatViolation(Pmsp):
    def violation(self, x: Tensor) -> Tensor:
        return (x * 0).sum((1, 2))


class AcceptsLoops(Atsp):
    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return (choice.sort(-1).values == torch.arange(choice.shape[-1], device=choice.device)).all(-1)


class AcceptsAnything(Pmsp):
    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return torch.ones(choice.shape[:2], dtype=torch.bool, device=choice.device)


class BiasedSamples(OneColumnPerRow):
    """Follows scores that are not the ones it was given."""

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        return (scores + torch.eye(*scores.shape[1:], device=scores.device)).argmax(-1)


class Biased(Pmsp):
    rule = BiasedSamples()


class TextSolution(Pmsp):
    def solution(self, choice: Any) -> list[int]:
        return list(choice)


class CostOfTheFirst(Atsp):
    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().cost({"distances": instances["distances"][:1].expand_as(instances["distances"])}, choice)


class FirstCityMatters(Atsp):
    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().cost(instances, choice) * (1 + choice[..., 0])


class BoundTooHigh(Pmsp):
    def lower_bound(self, arrays: Arrays) -> Any:
        return super().lower_bound(arrays) * 2 + 1


class BatchScale(Pmsp):
    def features(self, instances: Instances) -> Features:
        return Features(super().features(instances).relations + instances["durations"].float().mean())


class RowNumbers(Pmsp):
    def features(self, instances: Instances) -> Features:
        relations = super().features(instances).relations
        return Features(relations + torch.arange(relations.shape[1], device=relations.device)[:, None, None])


class WrongSizes(Pmsp):
    feature_sizes = FeatureSizes(relations=4, raw_relations=1)


class Infinite(Pmsp):
    def features(self, instances: Instances) -> Features:
        return Features(super().features(instances).relations.log())


class NumpyFeatures(Pmsp):
    def features(self, instances: Instances) -> Features:
        scale = float(instances["durations"].max())
        return Features(super().features({"durations": instances["durations"] / scale}).relations)


class OtherDevice(Pmsp):
    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        return {"durations": (1 + noise.integers(99, *size)).float()}


class NoiseOfTheBatch(Pmsp):
    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        drawn = super().sample_on_device(size, noise)["durations"]
        return {"durations": drawn.roll(1, 0)}


class OwnRandomness(Pmsp):
    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        return super().sample(count, size, np.random.default_rng())


class ConstantSample(Pmsp):
    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        return super().sample(count, size, np.random.default_rng(0))


class NoChecks(Pmsp):
    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        return {"durations": np.asarray(arrays["durations"])}


class RaisesTheWrongError(Pmsp):
    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        if not np.isfinite(arrays["durations"]).all():
            raise KeyError("nan")
        return super().check(arrays)


class OneBased(Pmsp):
    def solution(self, choice: Any) -> list[int]:
        return [int(machine) + 1 for machine in choice]


class Swapped(Pmsp):
    def size(self, arrays: Mapping[str, Any]) -> Size:
        jobs, machines = super().size(arrays)
        return machines, jobs


class Crashes(Pmsp):
    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        raise ZeroDivisionError("oops")


class ForbidsQuietly(Pmsp):
    """Promises that everything is allowed, and allows the first machine for the first job only."""

    structure = "makespan"

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().feasible(instances, choice) & (choice[..., 0] == 0)


class SumOfLoads(Pmsp):
    """Promises a makespan and costs the sum of all times."""

    structure = "makespan"

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(instances["durations"], choice).sum(-1)


class OtherTravel(Atsp):
    """Promises the length of a tour and tells solvers the way back."""

    structure = "tour"

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        return super().cost_matrix(arrays).transpose(0, 2, 1)


class OpenPath(Atsp):
    """Promises that a tour comes home, and does not charge for it."""

    structure = "tour"

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        steps = picked(self.travel(instances), choice)
        return steps.sum(-1) - steps.amax(-1)


class NoMatrix(Pmsp):
    structure = "makespan"

    def cost_matrix(self, arrays: Arrays) -> Any:
        return None


class MatrixOnItsSide(Pmsp):
    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        return super().cost_matrix(arrays).transpose(0, 2, 1)


class Speechless(Pmsp):
    def describe_size(self, size: Size) -> str:
        return ""


class OneLongText(Pmsp):
    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        return ["first\nsecond"]


class CannotDraw(Pmsp):
    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Any:
        raise ZeroDivisionError("no paper")


class WordsOfAnArray(Pmsp):
    row_words = ("duration", "durations")


class LineInAWord(Pmsp):
    column_words = ("machine\nor nothing", "machines")


class NoTour(Pmsp):
    solution_is_tour = True


class ChangesUpsideDown(Pmsp):
    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
        return -super().cost_changes(instances, choice)


class ChangesOnTheirSide(Pmsp):
    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().cost_changes(instances, choice).transpose(2, 3)


class Searches(Pmsp):
    """What a search makes of solutions is spoilt by `spoil`, a number of rounds from which on it happens."""

    spoil = 1

    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        found = super().improve(instances, choice, rounds)
        return self.spoilt(instances, choice, found) if rounds >= self.spoil else found

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return found


class NeverIdle(Searches):
    """A search that makes a change where none is asked for."""

    spoil = 0

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return Pmsp.improve(self, instances, found, 1)


class AllToOne(Searches):
    """A search that gives all jobs to one machine."""

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return torch.zeros_like(found)


class NoSearch(Searches):
    """A search that leaves everything as it is."""

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return choice


class OneRound(Searches):
    """A search that stops after one change, however many it may make."""

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return Pmsp.improve(self, instances, choice, 1)


class MovesOnly(Pmsp):
    """A search that looks at every machine for a job, and never at an exchange."""

    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        for _ in range(min(rounds, 100)):
            changes = self.cost_changes(instances, choice).scatter(3, choice[..., None], 0)
            place = changes.flatten(2).argmin(2, keepdim=True)
            machines = changes.shape[3]
            moved = choice.scatter(2, place // machines, place % machines)
            choice = torch.where(changes.flatten(2).gather(2, place) < 0, moved, choice)
        return choice


class LastLeftOut(Searches):
    """A search that forgets the last solution of a batch."""

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return torch.cat([found[:, :-1], choice[:, -1:]], 1)


class OutOfTheMatrix(Searches):
    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return found - 1


class Flattened(Searches):
    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        return found[:, 0]


class Moody(Searches):
    """A search that goes another way every time."""

    calls = 0

    def spoilt(self, instances: Instances, choice: Tensor, found: Tensor) -> Tensor:
        Moody.calls += 1
        return choice if Moody.calls % 2 else found


class ForgetsTheMask(EligibleMachines):  # type: ignore[misc, valid-type]
    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        return Pmsp().improve(instances, choice, rounds)


class StaysOnItsTour(Atsp):
    """A search for tours that looks for changes of one or two rows, of which there are none."""

    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        return choice


class Constructs(Pmsp):
    def construct(self, instances: Instances, count: int = 1) -> Starts:
        return self.spoilt(super().construct(instances, count))

    def spoilt(self, made: Starts) -> Starts:
        return made


class WorstFirst(Constructs):
    """All jobs on the machine that needs longest for them."""

    def construct(self, instances: Instances, count: int = 1) -> Starts:
        slowest = instances["durations"].sum(1).argmax(1)
        return Starts(slowest[:, None, None].expand(-1, count, instances["durations"].shape[1]).contiguous())


class OneStart(Constructs):
    def spoilt(self, made: Starts) -> Starts:
        return replace(made, choice=made.choice[:, :1])


class BareStarts(Constructs):
    def spoilt(self, made: Starts) -> Starts:
        return made.choice  # type: ignore[return-value]


class HighStartingBound(Constructs):
    def spoilt(self, made: Starts) -> Starts:
        assert made.bound is not None
        return replace(made, bound=made.bound * 2 + 1)


class PricesOfRows(Constructs):
    def spoilt(self, made: Starts) -> Starts:
        return replace(made, column_prices=made.row_prices)


class StartsOfTheBatch(Constructs):
    def spoilt(self, made: Starts) -> Starts:
        return replace(made, choice=made.choice.roll(1, 0))


class MoodyStarts(Constructs):
    calls = 0

    def spoilt(self, made: Starts) -> Starts:
        MoodyStarts.calls += 1
        return made if MoodyStarts.calls % 2 else replace(made, choice=(made.choice + 1) % 3)


class ReadsItsSearch(Pmsp):
    """A search that looks whether anything is left to do."""

    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        return super().improve(instances, choice, rounds) if bool(self.cost(instances, choice).any()) else choice


class Merges(Pmsp):
    """Merging that changes the last solution of every instance as `spoilt` says."""

    def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
        found = super().merge(instances, choice, others)
        return torch.cat([found[:, :-1], self.spoilt(instances, found[:, -1:], others[:, -1:])], 1)

    def spoilt(self, instances: Instances, found: Tensor, others: Tensor) -> Tensor:
        return found


class MergesIntoTheWorst(Merges):
    """Takes over all of the worst of the others, whatever it costs."""

    def spoilt(self, instances: Instances, found: Tensor, others: Tensor) -> Tensor:
        worst = self.cost(instances, others[:, 0]).argmax(1)[:, None, None, None].expand(-1, 1, 1, found.shape[2])
        return others.gather(2, worst)[:, :, 0]


class MergesMore(Merges):
    """Goes on with a search of its own."""

    def spoilt(self, instances: Instances, found: Tensor, others: Tensor) -> Tensor:
        return self.improve(instances, found, 100)


class MergesTheBatch(Merges):
    """Takes what was found for the last instance of the batch into account."""

    def spoilt(self, instances: Instances, found: Tensor, others: Tensor) -> Tensor:
        return found if len(found) > 1 else others[:, :, 0]


class MoodyMerging(Merges):
    """Comes to something else every time."""

    times_asked = 0

    def spoilt(self, instances: Instances, found: Tensor, others: Tensor) -> Tensor:
        MoodyMerging.times_asked += 1
        return found if self.times_asked % 2 else torch.where((found == others[:, :, 0]).all(), found, others[:, :, 0])


class MergesInPlace(Pmsp):
    """Writes what it takes over into what it was given."""

    def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
        return choice.copy_(super().merge(instances, choice, others))


class MergesOutOfShape(Merges):
    """Returns one solution too many."""

    def spoilt(self, instances: Instances, found: Tensor, others: Tensor) -> Tensor:
        return found.repeat(1, 2, 1)


class ReadsWhatItMerges(Pmsp):
    """Looks whether there is anything to merge."""

    def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
        return choice if bool((others == choice[:, :, None]).all()) else super().merge(instances, choice, others)


class LeavesOutTheBest(Pmsp):
    """Permits every job only the machine where it takes longest."""

    def permitted(self, instances: Instances) -> Tensor:
        times = instances["durations"]
        return times == times.amax(2, keepdim=True)


class LeavesOutNothing(Pmsp):
    """Takes stand-ins for numbers like any others."""

    def permitted(self, instances: Instances) -> Tensor:
        return torch.ones_like(instances["durations"], dtype=torch.bool)


class _Masked(Pmsp):
    def mask(self, instances: Instances) -> Tensor:
        mask = torch.ones_like(instances["durations"], dtype=torch.bool)
        mask[:, 0, 0] = False
        return mask

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().feasible(instances, choice) & (choice[..., 0] != 0)


class PermitsAll(_Masked):
    """Forgets its mask."""

    def permitted(self, instances: Instances) -> None:
        return None


class PermitsMore(_Masked):
    """Permits what its mask forbids."""

    def permitted(self, instances: Instances) -> Tensor:
        return torch.ones_like(instances["durations"], dtype=torch.bool)


class PermitsInNumbers(Pmsp):
    """Ones and zeros."""

    def permitted(self, instances: Instances) -> Tensor:
        return torch.ones_like(instances["durations"], dtype=torch.long)


class MeasuresStandIns(Pmsp):
    """Takes the mean of the longest times for a bound, which holds as long as no number stands for something else."""

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        times = np.asarray(arrays["durations"], dtype=np.float64)
        return np.where(times.max((1, 2)) > 20, times.max((1, 2)), super().lower_bound(arrays))


@pytest.mark.parametrize(
    ("problem", "check", "words"),
    [
        (ChangesUpsideDown(), "cost_changes says", "to the cost, not"),
        (ChangesOnTheirSide(), "cost_changes says", "it has shape (1, 243, 3, 5), not (1, 243, 5, 3)"),
        (NeverIdle(), "improve makes", "with no rounds"),
        (AllToOne(), "improve makes", "becomes [0, 0, 0, 0, 0], from cost"),
        (NoSearch(), "improve makes", "one change from"),
        (OneRound(), "improve makes", "one change from"),
        (MovesOnly(), "improve makes", "one change from"),
        (LastLeftOut(), "improve makes", "alone than in a batch"),
        (OutOfTheMatrix(), "improve makes", "which feasible refuses"),
        (Flattened(), "improve makes", "int64 of shape (3, 5)"),
        (Moody(), "improve makes", "the second time"),
        (ForgetsTheMask(), "improve makes", "which feasible refuses"),
        (StaysOnItsTour(), "improve makes", "one change from"),
        (MergesIntoTheWorst(), "merge makes", ", from cost "),
        (MergesMore(), "merge makes", "neither the choice nor any of its others"),
        (MergesTheBatch(), "merge makes", "alone than in a batch"),
        (MoodyMerging(), "merge makes", "the second time"),
        (MergesInPlace(), "merge makes", "it changes the solutions that it is given"),
        (MergesOutOfShape(), "merge makes", "not int64 of"),
        (ReadsWhatItMerges(), "no value is read", "merge reads one"),
        (WorstFirst(), "construct begins", "nothing better than a solution at random"),
        (OneStart(), "construct begins", "not int64 of (3, 4, 5)"),
        (BareStarts(), "construct begins", "not Starts"),
        (HighStartingBound(), "construct begins", "below its bound"),
        (PricesOfRows(), "construct begins", "column_prices has shape (3, 5)"),
        (StartsOfTheBatch(), "construct begins", "alone than in a batch"),
        (MoodyStarts(), "construct begins", "the second time"),
        (ReadsItsSearch(), "no value is read", "improve reads one"),
        (OpenTours(), "what the rule decodes", "feasible refuses"),
        (OpenTours(), "shortcuts", "follow decides"),
        (ShortCut(), "shortcuts", "by_confidence decides"),
        (OnTheHost(), "no value is read", "decoding in the rule's order reads one"),
        (Biased(), "samples come as often", "do not"),
        (Biased(), "shortcuts", "follow decides"),
        (IgnoresMask(), "what the rule decodes", "feasible refuses"),
        (IgnoresMask(), "probabilities", "sum to 0"),
        (ForbidsTooMuch(), "feasible keeps", "mask of instance 0 forbids"),
        (ForbidsTooMuch(), "probabilities", "never build"),
        (PaperDensity(), "density", "density is 0.2;"),
        (SignedViolation(), "violation", "not positive"),
        (FlatViolation(), "violation", "not positive"),
        (AcceptsLoops(), "probabilities", "never build [0, 1, 2, 3]"),
        (AcceptsAnything(), "feasible keeps", "does not exist"),
        (CostOfTheFirst(), "costs are finite", "something else alone"),
        (FirstCityMatters(), "the order of rows", "cost changes"),
        (BoundTooHigh(), "the lower bound", "below its bound"),
        (BatchScale(), "features have", "alone than in a batch"),
        (RowNumbers(), "the order of rows", "relations do not follow"),
        (WrongSizes(), "features have", "feature_sizes says"),
        (Infinite(), "features have", "finite"),
        (NumpyFeatures(), "no value is read", "features reads one"),
        (OtherDevice(), "the generator on the device", "differs"),
        (NoiseOfTheBatch(), "the generator on the device", "alone than in a batch"),
        (OwnRandomness(), "instances are drawn", "different instances"),
        (ConstantSample(), "instances are drawn", "another seed draws the same"),
        (NoChecks(), "check refuses", "accepts NaN"),
        (RaisesTheWrongError(), "check refuses", "KeyError"),
        (OneBased(), "a solution reads back", "read back differently"),
        (TextSolution(), "a solution reads back", "plain integers"),
        (Swapped(), "instances are drawn", "size returns"),
        (Crashes(), "costs are finite", "ZeroDivisionError: oops"),
        (ForbidsQuietly(), "cost_matrix and structure", "other solutions than 'makespan'"),
        (SumOfLoads(), "cost_matrix and structure", "other costs than 'makespan'"),
        (OtherTravel(), "cost_matrix and structure", "other costs than 'tour'"),
        (OpenPath(), "cost_matrix and structure", "other costs than 'tour'"),
        (NoMatrix(), "cost_matrix and structure", "needs a cost_matrix"),
        (MatrixOnItsSide(), "cost_matrix and structure", "shape (3, 3, 5)"),
        (Speechless(), "an answer can be", "not a phrase"),
        (LeavesOutTheBest(), "forbidden pairs", "no best solution is left"),
        (LeavesOutNothing(), "forbidden pairs", "does not say which pairs an instance forbids"),
        (PermitsAll(), "forbidden pairs", "permitted says that all pairs are, mask that some are not"),
        (PermitsMore(), "forbidden pairs", "has a pair that the mask forbids"),
        (PermitsInNumbers(), "forbidden pairs", "permitted returns torch.int64"),
        (MeasuresStandIns(), "forbidden pairs", "above its best permitted solution"),
        (OneLongText(), "an answer can be", "not a list of lines"),
        (CannotDraw(), "an answer can be", "no paper"),
        (WordsOfAnArray(), "an answer can be", "'durations' is an array and the word"),
        (LineInAWord(), "a solution file", "solution.csv cannot be read back"),
        (NoTour(), "a solution file", "does not list every item once"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Problem) else None,
)
def test_broken_problems_are_caught(problem: Problem, check: str, words: str) -> None:
    """Each broken part is found by the check that is for it, and named."""
    size = (4,) if isinstance(problem, Atsp) else None
    (found,) = check_conformance(problem, size, only=check)
    assert found.wrong is not None
    assert words in found.wrong


def test_a_sound_problem_passes_every_check() -> None:
    """The kit reports each check once, and nothing wrong."""
    findings = check_conformance(Pmsp(), (3, 2))
    assert len({finding.check for finding in findings}) == len(findings) >= 22
    assert all(finding.wrong is None for finding in findings)


def test_one_fault_does_not_hide_behind_others() -> None:
    """A wrong density is the only thing wrong with a problem whose density is wrong."""
    (wrong,) = (f for f in check_conformance(PaperDensity()) if f.wrong)
    assert wrong.check == "density is the share of ones"
    with pytest.raises(AssertionError, match=r"(?s)breaks the contract.*density is the share of ones"):
        assert_conforms(PaperDensity())


def test_sizes_too_large_to_list_are_refused() -> None:
    """Twenty cities have too many matrices to enumerate; the kit says so instead of running for ever."""
    with pytest.raises(UsageError, match="too many assignments"):
        check_conformance(Atsp(), (20,))


def test_what_cannot_even_begin() -> None:
    """No feasible solution, no instances, no answer of the right type: one sentence each."""

    class Impossible(Pmsp):
        def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
            return super().feasible(instances, choice) & False

    class NoInstances(Pmsp):
        def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
            raise RuntimeError("nothing here")

    class Scores(Pmsp):
        def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
            return super().feasible(instances, choice).float()

    for problem, words in (
        (Impossible(), "no feasible"),
        (NoInstances(), "nothing here"),
        (Scores(), "bool"),
    ):
        with pytest.raises(InputError, match=words):
            check_conformance(problem)
