"""The learned solver: reproducible, independent of batch and chunk, never worse with more, always checked."""

import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import icdc
from icdc.diffusion.sampler import ReverseStep, SamplingOptions
from icdc.errors import InputError, UsageError
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.problems.atsp import Atsp
from icdc.problems.tensors import to_tensors
from icdc.solving import Improvement, network, trajectories
from icdc.solving.answer import judge
from icdc.solving.network import DiffusionSolver, default_chunk, seconds_of_a_pass
from icdc.solving.solver import Request, Solver
from icdc.solving.trajectories import DiffusionSearch, fingerprints, own_threads

SMALL = NetworkConfig(width=32, heads=4, edge_width=16, encoder_layers=1, denoiser_layers=2)
CASES = [("atsp", (7,)), ("pmsp", (7, 3)), ("navigation", (6,))]


def setting(name: str, size: tuple[int, ...], count: int = 5) -> tuple[Model, dict[str, np.ndarray]]:
    torch.manual_seed(1)
    problem = get_problem(name)
    model = Model(problem, ModelConfig(network=SMALL))
    model.network.eval()
    return model, problem.sample(count, size, np.random.default_rng(2))


@pytest.mark.parametrize("searched", [{}, {"improve_rounds": 1}, {"merge": 4}])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_answers_do_not_depend_on_chunk_or_company(
    name: str, size: tuple[int, ...], searched: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectories, "MOST_STARTS", 4)  # so that some trajectories share what they begin with
    model, arrays = setting(name, size)
    problem = model.problem
    options = {"steps": 4, "refine": 2, "device": "cpu", **searched}
    reference = DiffusionSolver(model, **options).solve(problem, arrays, samples=6, seed=3)
    for chunk in (1, 2, 5, 64):
        again = DiffusionSolver(model, chunk=chunk, **options).solve(problem, arrays, samples=6, seed=3)
        assert np.array_equal(again.choice, reference.choice)
    for index in (0, 3):
        alone = {key: array[index : index + 1] for key, array in arrays.items()}
        single = DiffusionSolver(model, **options).solve(problem, alone, samples=6, seed=3)
        assert np.array_equal(single.choice[0], reference.choice[index])


def test_with_search_inside_trajectories_begin_with_its_starts() -> None:
    """Answers are never worse than these, each trajectory has its own, and noise is there for the asking."""
    model, arrays = setting("pmsp", (40, 6))
    starts = model.problem.construct(to_tensors(arrays), 6).choice
    cost = model.problem.cost(to_tensors(arrays), starts).amin(1).numpy()
    assert (cost < model.problem.cost(to_tensors(arrays), starts[:, :1])[:, 0].numpy()).any()
    options = {"steps": 1, "device": "cpu", "improve_rounds": 1, "temperature": 100.0}
    found = {
        begin: DiffusionSolver(model, **options, **begin_with).solve(model.problem, arrays, samples=6).cost
        for begin, begin_with in (("as usual", {}), ("one by one", {"chunk": 1}), ("noise", {"begin": "noise"}))
    }
    assert (found["as usual"] <= cost).all()
    assert (found["one by one"] == found["as usual"]).all()
    assert (found["noise"] > cost).all()  # an untrained network, and a single change
    assert DiffusionSolver(model).options_for(model, (40, 6), 6).begin == "noise"


@pytest.mark.parametrize(("name", "size"), CASES)
@pytest.mark.parametrize("reverse", ["fresh", "best", "independent"])
def test_every_way_gives_feasible_answers_of_the_stated_cost(name: str, size: tuple[int, ...], reverse: str) -> None:
    model, arrays = setting(name, size)
    exact = {key: torch.from_numpy(array.astype(np.float64)) for key, array in arrays.items()}
    for order in ("rule", "confidence"):
        solver = DiffusionSolver(model, steps=3, reverse=reverse, order=order, decodes=2, device="cpu")
        results = solver.solve(model.problem, arrays, samples=3)
        choice = torch.from_numpy(results.choice)[:, None]
        assert bool(model.problem.feasible(exact, choice).all())
        assert results.cost == pytest.approx(model.problem.cost(exact, choice)[:, 0].numpy())
        assert (results.cost >= results.bound - 1e-9).all()


def test_a_seed_repeats_and_another_differs() -> None:
    model, arrays = setting("atsp", (9,), 8)
    first, again, other = (
        DiffusionSolver(model, steps=3, device="cpu").solve(model.problem, arrays, samples=1, seed=seed)
        for seed in (4, 4, 5)
    )
    assert np.array_equal(first.choice, again.choice)
    assert not np.array_equal(first.choice, other.choice)


def test_more_samples_and_refinement_never_hurt() -> None:
    model, arrays = setting("atsp", (9,), 8)

    def cost(samples: int, refine: int) -> np.ndarray:
        solver = DiffusionSolver(model, steps=3, refine=refine, device="cpu")
        return solver.solve(model.problem, arrays, samples=samples, seed=0).cost

    assert (cost(8, 0) <= cost(2, 0)).all()
    assert (cost(8, 3) <= cost(8, 0)).all()
    assert cost(8, 3).sum() < cost(2, 0).sum()


def test_a_start_is_never_lost() -> None:
    model, arrays = setting("atsp", (8,), 3)
    best = icdc.make_solver("cpsat").solve(model.problem, arrays)
    told: list[Improvement] = []
    solver = DiffusionSolver(model, steps=2, device="cpu")
    results = solver.solve(model.problem, arrays, start=best.choice, callback=told.append)
    assert np.array_equal(results.cost, best.cost)
    assert all(np.array_equal(event.cost, best.cost) for event in told)  # nothing worse on the way either
    broken = best.choice.copy()
    broken[0, 0] = 0
    with pytest.raises(InputError, match="not a feasible"):
        DiffusionSolver(model, device="cpu").solve(model.problem, arrays, start=broken)
    with pytest.raises(InputError, match="shape"):
        DiffusionSolver(model, device="cpu").solve(model.problem, arrays, start=best.choice[:1])


def test_a_time_limit_is_used_and_kept() -> None:
    model, arrays = setting("pmsp", (30, 4), 2)
    begin = time.perf_counter()
    DiffusionSolver(model, steps=2, device="cpu").solve(model.problem, arrays, samples=2, time_limit=1.0)
    assert 0.8 < time.perf_counter() - begin < 3.0


def test_a_pass_that_does_not_fit_is_refused_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single pass over a large matrix takes minutes on a CPU; it is foreseen by one over a small matrix."""
    model, arrays = setting("pmsp", (320, 300), count=1)
    solver = DiffusionSolver(model, device="cpu")
    ended: list[float] = []

    def clock() -> float:
        ended.append(7.0 * len(ended))
        return ended[-1]

    request = Request(model.problem, arrays, time_limit=1.0)
    options = solver.options_for(model, (320, 300), 1)
    monkeypatch.setattr("icdc.solving.solver.time", SimpleNamespace(perf_counter=clock))
    trial = (int(320 * (1e4 / 96e3) ** 0.5), int(300 * (1e4 / 96e3) ** 0.5))
    seconds = seconds_of_a_pass(request, model, options)
    assert seconds == pytest.approx(7.0 * 320 * 300 / (trial[0] * trial[1]))
    monkeypatch.undo()
    monkeypatch.setattr("icdc.solving.network.seconds_of_a_pass", lambda *_: 61.0)
    with pytest.raises(UsageError, match="'network' needs 61 s and more for one pass over a matrix of 320 × 300 here"):
        solver.solve(model.problem, arrays, time_limit=1.0)
    assert solver.solve(model.problem, arrays, samples=1, time_limit=60.5, callback=lambda _: True).feasible.all()
    small = {"durations": arrays["durations"][:, :20, :20]}
    assert solver.solve(model.problem, small, time_limit=0.1).feasible.all()


def test_few_columns_of_many_rows_are_foreseen_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial is looked at in the same way, and time grows with the candidates of all rows, not with all pairs."""
    problem = get_problem("atsp")
    network = replace(SMALL, priced=True, candidates=4, dense_up_to=20)
    model = Model(problem, ModelConfig(network=network))
    arrays = problem.sample(1, (60,), np.random.default_rng(2))
    tried: list[tuple[int, ...]] = []
    sample = type(problem).sample

    def watched(self: Any, count: int, size: tuple[int, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
        tried.append(size)
        return sample(self, count, size, rng)

    monkeypatch.setattr(type(problem), "sample", watched)
    monkeypatch.setattr("icdc.solving.network.TRIAL_ENTRIES", 100)
    ticks = iter([0.0, 0.0, 0.0, 9.0, 9.0, 16.0])  # two trials, of which the shorter one counts
    monkeypatch.setattr("icdc.solving.solver.time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    solver = DiffusionSolver(model, device="cpu")
    seconds = seconds_of_a_pass(Request(problem, arrays), model, solver.options_for(model, (60,), 1))
    assert tried == [(21,)]  # one instance for both
    assert seconds == pytest.approx(7.0 * 60 / 21)


def test_with_a_time_limit_the_first_step_has_an_answer() -> None:
    """Long before the first trajectories end; and the answer is at least as good as all that was told."""
    model, arrays = setting("atsp", (30,), 2)
    told: list[tuple[int, Improvement]] = []
    steps: list[int] = []
    solver = DiffusionSolver(model, steps=20, device="cpu", trace=lambda step: steps.append(step.t))
    results = solver.solve(
        model.problem, arrays, samples=2, time_limit=0.5, callback=lambda event: told.append((len(steps), event))
    )
    assert told[0][0] == 1
    assert np.isfinite(told[0][1].cost).all()
    assert (results.cost <= told[-1][1].cost).all()


@pytest.mark.parametrize(("name", "size"), [("atsp", (12,)), ("pmsp", (15, 3))])
def test_a_start_is_noised_and_denoised_while_a_trace_watches(name: str, size: tuple[int, ...]) -> None:
    """From the start itself up to the level of refinement, each element changing once at most, and down again."""
    model, arrays = setting(name, size, 1)
    start = DiffusionSolver(model, steps=1, device="cpu").solve(model.problem, arrays, samples=1).choice
    seen: list[ReverseStep] = []
    solver = DiffusionSolver(model, steps=6, device="cpu", trace=seen.append)
    results = solver.solve(model.problem, arrays, samples=2, start=start)
    highest = round(0.7 * model.diffusion.steps)
    up, down = [step for step in seen if step.s > step.t], [step for step in seen if step.s < step.t]
    assert [step.t for step in up] == sorted({step.t for step in up})
    assert (up[0].t, up[-1].s, down[0].t, down[-1].s) == (0, highest, highest, 0)
    assert [step.t for step in down] == [step.s for step in reversed(up)]
    assert len(up[0].x) == 2
    for step in (up[0], *up[1:2]):
        assert step.log_odds.shape == step.x.shape
    marked = up[0].x[0].argmax(1).numpy()
    assert (marked == start[0]).all()
    assert (up[0].log_odds[0].argmax(1).numpy() == start[0]).all()
    way = torch.stack([step.x for step in (*up, down[0])])
    assert (way.diff(dim=0).abs().sum(0) <= 1).all()
    assert way.diff(dim=0).abs().sum() > 0
    assert results.cost[0] <= judge(model.problem, arrays, start)[1][0]
    # without anybody who watches, a start changes nothing of how trajectories run
    quiet = DiffusionSolver(model, steps=6, device="cpu")
    again = quiet.solve(model.problem, arrays, samples=2)
    assert quiet.solve(model.problem, arrays, samples=2, start=start).cost[0] <= again.cost[0]


def test_a_met_bound_ends_the_search() -> None:
    """Equal durations on one machine: the bound is the only cost, so no time is spent."""
    model = setting("pmsp", (3, 1))[0]
    arrays = {"durations": np.full((1, 3, 1), 5)}
    begin = time.perf_counter()
    results = DiffusionSolver(model, steps=1, device="cpu").solve(model.problem, arrays, time_limit=30.0)
    assert time.perf_counter() - begin < 10
    assert results.proven.all()
    assert results.cost.tolist() == [15.0]


def test_a_callback_sees_improvements_and_can_stop() -> None:
    model, arrays = setting("atsp", (9,), 2)
    seen: list[Improvement] = []

    def watch(event: Improvement) -> bool:
        seen.append(event)
        return len(seen) == 2

    solver = DiffusionSolver(model, steps=2, chunk=1, device="cpu")
    results = solver.solve(model.problem, arrays, samples=1, time_limit=20.0, start=None, callback=watch)
    assert 2 <= len(seen) <= 3  # one more where the second instance had no answer yet
    assert (seen[1].cost <= seen[0].cost).all()
    assert np.isfinite(results.cost).all()


def test_cores_side_by_side_answer_like_one() -> None:
    """Trajectories in threads, refinement too: the same answers, and as many threads after as before."""
    model, arrays = setting("atsp", (9,), 3)
    solver = DiffusionSolver(model, steps=3, refine=2, device="cpu")
    alone = solver.solve(model.problem, arrays, samples=5)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = solver.solve(model.problem, arrays, samples=5)
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError):  # what goes wrong in the caller's code comes out
            solver.solve(model.problem, arrays, samples=5, callback=lambda _: bool(1 // 0))
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(alone.choice, together.choice)


def test_wrong_options_are_refused() -> None:
    model, arrays = setting("atsp", (5,), 1)
    for options, words in (
        ({"steps": 0}, "steps"),
        ({"temperature": 0.0}, "temperature"),
        ({"reverse": "sideways"}, "reverse"),
        ({"chunk": 0}, "chunk"),
        ({"refine": -1}, "refine"),
    ):
        with pytest.raises(UsageError, match=words):
            DiffusionSolver(model, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="sample"):
        DiffusionSolver(model, device="cpu").solve(model.problem, arrays, samples=0)
    pmsp = get_problem("pmsp")
    schedules = pmsp.sample(1, (3, 2), np.random.default_rng(0))
    with pytest.raises(UsageError, match="is for atsp"):
        DiffusionSolver(model, device="cpu").solve(pmsp, schedules)


def test_it_is_a_solver() -> None:
    assert isinstance(DiffusionSolver(), Solver)


def test_integers_stay_exact() -> None:
    """Costs above 2²⁴ would lose units in float32."""
    model = setting("atsp", (4,))[0]
    distances = np.full((1, 4, 4), 2**40 + 1, dtype=np.int64)
    results = DiffusionSolver(model, steps=1, device="cpu").solve(model.problem, {"distances": distances})
    assert results.cost.tolist() == [4 * (2**40 + 1)]


def test_solve_from_python() -> None:
    model, arrays = setting("atsp", (6,), 1)
    matrix = arrays["distances"][0]
    answer = icdc.solve(matrix.tolist(), model=model, samples=2, steps=2, device="cpu")
    assert sorted(answer.solution) == list(range(6))
    assert answer.feasible
    length = sum(matrix[a, b] for a, b in zip(answer.solution, [*answer.solution[1:], answer.solution[0]], strict=True))
    assert answer.objective == length
    again = icdc.solve(matrix, model=model, start=answer.solution, samples=1, steps=1, device="cpu")
    assert again.objective is not None
    assert again.objective <= length
    exact = icdc.solve(matrix, problem="atsp", solver=icdc.make_solver("cpsat"))
    assert exact.objective is not None
    assert exact.objective <= again.objective
    with pytest.raises(UsageError, match='say which with problem="atsp" or'):
        icdc.solve(matrix)
    with pytest.raises(InputError, match="square"):
        icdc.solve([[1, 2, 3], [4, 5, 6]], problem="atsp", model=model)


def test_the_card_advises_for_sizes_it_knows() -> None:
    """What was best on validation data is used where it was measured; what the caller says always wins."""
    model = setting("atsp", (5,))[0]
    model.card = {
        "sizes": [[5]],
        "solving": [
            {"samples": 1, "options": {"order": "confidence", "decodes": 3}},
            {"samples": 32, "options": {"reverse": "independent"}},
        ],
    }
    solver = DiffusionSolver(model, decodes=2)
    assert solver.options_for(model, (5,), 8).order == "confidence"
    assert solver.options_for(model, (5,), 8).decodes == 2
    assert solver.options_for(model, (5,), 100).reverse == "independent"
    assert solver.options_for(model, (6,), 100).reverse == "fresh"


def test_the_card_advises_otherwise_where_search_is_inside() -> None:
    """Where it was tuned for that; elsewhere as for the model alone, beginning with the starts of search."""
    model = setting("atsp", (5,))[0]
    model.card = {
        "sizes": [[5], [40]],
        "solving": [
            {"size": [5], "samples": 1, "options": {"temperature": 0.5}},
            {"size": [20], "samples": 1, "options": {"temperature": 0.6}},
            {"size": [20], "samples": 1, "options": {"temperature": 2.0, "begin": "noise"}, "with_search": True},
        ],
    }
    alone, searched = DiffusionSolver(model), DiffusionSolver(model, improve_rounds=3)
    assert alone.options_for(model, (20,), 1).temperature == 0.6
    for found in (searched.options_for(model, (22,), 1), alone.options_for(model, (22,), 1, with_search=True)):
        assert (found.temperature, found.begin) == (2.0, "noise")
    small = searched.options_for(model, (6,), 1)
    assert (small.temperature, small.begin) == (0.5, "starts")
    assert DiffusionSolver(model, improve_rounds=3, begin="starts").options_for(model, (20,), 1).begin == "starts"


def test_advice_for_who_keeps_the_best_is_not_for_who_keeps_the_last() -> None:
    """The card may advise what goes with the chain alone; whoever asks for both is told."""
    model = setting("atsp", (5,))[0]
    model.card = {"sizes": [[5]], "solving": [{"samples": 1, "options": {"reverse": "best", "temperature": 0.3}}]}
    assert DiffusionSolver(model).options_for(model, (5,), 1).reverse == "best"
    found = DiffusionSolver(model, keep="last").options_for(model, (5,), 1)
    assert (found.reverse, found.temperature, found.keep) == ("fresh", 0.3, "last")
    with pytest.raises(UsageError, match='"best" needs keep "chain"'):
        DiffusionSolver(model, keep="last", reverse="best")


def test_advice_to_merge_is_for_who_merges() -> None:
    """And goes before other advice; whoever keeps the last solution, or asks for no merging, gets other advice."""
    model = setting("atsp", (5,))[0]
    model.card = {
        "sizes": [[5], [9]],
        "solving": [
            {"size": [5], "samples": 1, "options": {"temperature": 0.8, "merge": 64, "decodes": 64}},
            {"size": [5], "samples": 1, "options": {"temperature": 0.3, "reverse": "best"}},
            {"size": [9], "samples": 1, "options": {"temperature": 0.4}},
            {"size": [9], "samples": 1, "options": {"temperature": 0.9, "merge": 2}, "with_search": True},
        ],
    }

    def advice(size: int, **changes: Any) -> tuple[float, int]:
        found = DiffusionSolver(model, **changes).options_for(model, (size,), 1)
        return found.temperature, found.merge

    assert advice(5) == (0.8, 64)
    assert advice(5, merge=7) == (0.8, 7)
    assert advice(5, merge=0) == (0.3, 0)
    assert advice(5, keep="last") == (0.3, 0)
    assert advice(9) == (0.4, 0)
    assert advice(9, merge=3) == (0.4, 3)
    assert advice(9, improve_rounds=1) == (0.9, 2)
    assert advice(9, improve_rounds=1, merge=0) == (0.9, 0)


@pytest.mark.parametrize("refine", [0, 2])
def test_the_best_of_all_trajectories_are_merged(refine: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end, the best as many as there is room for: better than each of them, and no other answer from chunks."""
    model, arrays = setting("pmsp", (40, 6))
    options: Any = {"steps": 2, "device": "cpu", "temperature": 9.0, "merge": 1, "refine": refine}

    def solve(**more: Any) -> NDArray[np.float64]:
        return DiffusionSolver(model, **options, **more).solve(model.problem, arrays, samples=12, seed=1).cost

    merged = solve()
    for chunk in (1, 3, 5):
        assert np.array_equal(solve(chunk=chunk), merged)
    with monkeypatch.context() as patch:
        patch.setattr(trajectories, "MOST_MERGED", 1)
        apart = solve()
        assert np.array_equal(solve(chunk=5), apart)
    assert (merged <= apart).all()
    assert (merged < apart).any()
    monkeypatch.setattr(trajectories, "MOST_MERGED", 3)
    some = solve()
    assert np.array_equal(solve(chunk=2), some)
    assert merged.sum() <= some.sum() < apart.sum()


def test_answers_say_whether_decodes_were_merged() -> None:
    model, arrays = setting("pmsp", (7, 3), count=1)
    found = {
        by: DiffusionSolver(model, device="cpu", steps=1, **more).solve(model.problem, arrays, samples=1).found_by
        for by, more in (
            ("network", {}),
            ("network + merging", {"merge": 2}),
            ("network + search", {"merge": 2, "improve_rounds": 1}),
        )
    }
    assert all(list(said) == [by] for by, said in found.items())


def test_so_many_of_the_cheapest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the cheapest on, of equals those that came first."""
    monkeypatch.setattr(trajectories, "MOST_MERGED", 3)
    choice, cost = torch.arange(8).view(2, 4, 1), torch.tensor([[4, 2, 2, 9], [1, 8, 7, 8]])
    best = trajectories._cheapest(choice, cost, None)
    assert best[0].flatten(1).tolist() == [[1, 2, 0], [4, 6, 5]]
    more = trajectories._cheapest(choice[:, :2] + 10, torch.tensor([[2, 3], [0, 7]]), best)
    assert more[0].flatten(1).tolist() == [[1, 2, 10], [14, 4, 6]]
    assert more[1].tolist() == [[2, 2, 2], [0, 1, 7]]


def test_large_matrices_get_fewer_steps_unless_the_card_or_the_caller_says_otherwise() -> None:
    """Above a number of elements a pass of the network is what costs: fewer of them, more decodes of each."""
    model = setting("atsp", (5,))[0]
    solver = DiffusionSolver(model)
    small, large = solver.options_for(model, (50,), 1), solver.options_for(model, (100,), 1)
    assert large.steps < small.steps
    assert large.decodes > small.decodes
    model.card = {"sizes": [[100]], "solving": [{"samples": 1, "options": {"steps": 17}}]}
    assert solver.options_for(model, (100,), 1).steps == 17
    assert DiffusionSolver(model, steps=3).options_for(model, (100,), 1).steps == 3


def test_chunks_shrink_with_the_matrix() -> None:
    model = Model(get_problem("atsp"), ModelConfig(network=SMALL))
    assert default_chunk(model, (10**5, 10**4)) == 1
    assert default_chunk(model, (5, 5)) > default_chunk(model, (50, 50)) > 1


@pytest.mark.parametrize(("device", "count"), [("cpu", 100), ("cuda", 1000)])
def test_chunks_shrink_where_many_solutions_are_decoded(device: str, count: int) -> None:
    model = Model(get_problem("atsp"), ModelConfig(network=SMALL))
    few, many, more = (default_chunk(model, (50, 50), decodes, device) for decodes in (1, count, 10**9))
    assert few > many > more == 1


def test_tours_along_candidates_leave_room_for_more() -> None:
    """On a GPU; schedules spread scores of candidates over all columns, and where all are looked at none are kept."""
    network = replace(SMALL, priced=True, candidates=8, dense_up_to=20)
    tours, schedules = (Model(get_problem(name), ModelConfig(network=network)) for name in ("atsp", "pmsp"))
    along, spread = (default_chunk(model, (200, 200), 4096, "cuda") for model in (tours, schedules))
    assert along == 2**31 // (200 * 4096 * 32 * 8)
    assert spread == 2**31 // (200 * 4096 * 8 * 200)
    assert along > spread
    assert default_chunk(tours, (20, 20), 4096, "cuda") == 2**31 // (20 * 4096 * 8)


def test_the_time_of_a_compiler_is_not_taken_for_that_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first trial is slow, the second is what counts; neither merges or searches."""
    model = Model(get_problem("atsp"), ModelConfig(network=SMALL))
    request = Request(model.problem, model.problem.sample(1, (200,), np.random.default_rng(0)))
    asked = []

    class Slow(DiffusionSearch):
        def run(self) -> Any:
            asked.append((self.options.merge, self.options.improve_rounds, self.options.decodes))
            time.sleep(0.3 if len(asked) == 1 else 0.0)
            return super().run()

    monkeypatch.setattr(network, "DiffusionSearch", Slow)
    options = SamplingOptions(merge=64, decodes=64, improve_rounds=9)
    seconds = network.seconds_of_a_pass(request, model, options)
    assert asked == [(0, 0, 1)] * 2
    assert seconds < 4 * 0.3  # four times the entries of the trial


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
    assert vars(solver.prepare(Atsp(), (5,))) == vars(solver)


def test_fingerprints_depend_on_values_alone() -> None:
    arrays = {"distances": np.arange(18).reshape(2, 3, 3)}
    assert np.array_equal(fingerprints(arrays), fingerprints({"distances": arrays["distances"].astype(float)}))
    assert len(set(fingerprints(arrays))) == 2


FORK = """
import os, sys, icdc, torch
torch.set_num_threads(2)
shop = [[7, 9, 8]] * 6
first = icdc.solve(shop, model=sys.argv[1], samples=8, steps=2, device="cpu")
assert torch.get_num_threads() == 2
child = os.fork()
if child == 0:
    again = icdc.solve(shop, model=sys.argv[1], samples=8, steps=2, device="cpu")
    torch.ones(300, 300).exp().matmul(torch.ones(300, 300))
    os._exit(0 if again.objective == first.objective else 1)
import time
for _ in range(600):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, 9)
sys.exit("the child hangs")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_answers(models: dict[str, Path]) -> None:
    path = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": path}
    command = [sys.executable, "-c", FORK, str(models["pmsp"])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_the_setting_of_threads_is_put_back(models: dict[str, Path]) -> None:
    """By several solves at once, too: the last one puts back what the first one found."""
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(2) as pool:
            for _ in range(2):
                shops = [np.full((6, 3), value) for value in (3, 4, 5, 6)]
                solve = lambda shop: icdc.solve(shop, model=str(models["pmsp"]), samples=6, steps=2, device="cpu")  # noqa: E731
                answers = list(pool.map(solve, shops))
                assert all(answer.feasible for answer in answers)
        assert torch.get_num_threads() == 3
        with own_threads() as allowed:
            torch.set_num_threads(1)
            with own_threads() as inner:
                assert (allowed, inner) == (3, 3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


def test_solving_leaves_the_generator_and_warnings_alone(models: dict[str, Path]) -> None:
    shop = np.full((6, 3), 5)
    shop.setflags(write=False)
    cities = np.arange(36).reshape(6, 6)
    cities.setflags(write=False)
    before, filters = torch.get_rng_state(), list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        icdc.solve(shop, model=str(models["pmsp"]), samples=2, steps=2, device="cpu")
        for solver in ("ga:iterations=2", "pso:iterations=2", "random", "ect", "lpt", "sjf", "dp"):
            icdc.solve(shop, solver=solver)
        for solver in ("nn", "ni", "fi", "patching", "branch", "random"):
            icdc.solve(cities, problem="atsp", solver=solver)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(warnings.filters) == filters
