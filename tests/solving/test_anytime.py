"""The default solver: never worse than its parts, ended by proofs, repeatable, and it says what found an answer."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.kernels import decode, improve, merge
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import Atsp, Pmsp, Problem
from icdc.solving import Improvement, Incumbent, Request, Result, anytime, network
from icdc.solving.anytime import LEAST, AnytimeSolver, Shares, in_thread
from icdc.solving.network import DiffusionSolver
from tests.families import distances_of

SMALL = ModelConfig(NetworkConfig(width=16, heads=2, edge_width=8, encoder_layers=1, denoiser_layers=1))
OPEN = distances_of("one-way-plane", 45, 3)
"""A tour that is not proven by the parts before the network."""


def untrained(problem: Problem) -> Model:
    return Model(problem, SMALL, name="untrained")


@pytest.fixture
def fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little effort, so that something is left to find, and tests are quick."""
    monkeypatch.setattr(anytime, "STEPS", 70)
    monkeypatch.setattr(anytime, "PROPOSED_STEPS", 20)


@pytest.fixture
def no_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that never prove anything."""
    for name in ("tour_search.TourSearch", "schedule_search.ScheduleSearch"):
        monkeypatch.setattr(f"icdc.search.{name}.prove", lambda self, effort, brief=False: None)
    monkeypatch.setattr("icdc.search.tour_search.TINY", 0)


def solver_of(problem: Problem, **options: Any) -> AnytimeSolver:
    return AnytimeSolver(untrained(problem), steps=2, device="cpu", **options)


def schedules(count: int, jobs: int, machines: int) -> dict[str, Any]:
    rng = np.random.default_rng(jobs)
    return {"durations": rng.integers(1, 101, (count, jobs, 1)) + rng.integers(1, 21, (count, jobs, machines))}


@pytest.mark.usefixtures("fewer_steps")
@pytest.mark.parametrize("problem", [Atsp(), Pmsp()])
def test_it_is_never_worse_than_its_classical_part(problem: Problem) -> None:
    """With the same counted effort, instance by instance; and both bounds are below both costs."""
    arrays = {"distances": OPEN[None]} if isinstance(problem, Atsp) else schedules(2, 30, 8)
    classical = icdc.make_solver("search", seconds=None).solve(problem, arrays, seed=5)
    whole = solver_of(problem).solve(problem, arrays, samples=2, seed=5)
    assert (whole.cost <= classical.cost).all()
    assert (whole.bound <= classical.cost).all()
    assert (classical.bound <= whole.cost).all()
    assert whole.model == "untrained"
    assert classical.model is None


@pytest.mark.usefixtures("fewer_steps")
def test_a_seed_repeats_itself_and_the_batch_does_not_matter() -> None:
    """Also where the network has a part in the answer."""
    problem, arrays = Pmsp(), schedules(2, 30, 8)
    solver = solver_of(problem)
    once = solver.solve(problem, arrays, samples=2, seed=5)
    again = solver.solve(problem, arrays, samples=2, seed=5)
    assert np.array_equal(once.choice, again.choice)
    assert once.found_by.tolist() == again.found_by.tolist()
    alone = solver.solve(problem, {"durations": arrays["durations"][1:2]}, samples=2, seed=5)
    assert np.array_equal(alone.choice[0], once.choice[1])


@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize(("problem", "size"), [(Atsp(), (20,)), (Pmsp(), (20, 4))])
def test_small_instances_are_proven_at_once_without_a_network(
    problem: Problem, size: tuple[int, ...], limit: float | None
) -> None:
    """And cost what the exact solvers say."""
    arrays = problem.sample(8, size, np.random.default_rng(0))
    begun = time.perf_counter()
    results = AnytimeSolver().solve(problem, arrays, time_limit=limit)
    assert time.perf_counter() - begun < 30
    assert results.proven.all()
    assert results.model is None
    exact = icdc.make_solver("branch" if isinstance(problem, Atsp) else "dp").solve(problem, arrays)
    assert results.exact_cost.tolist() == exact.exact_cost.tolist()
    assert set(results.found_by) <= {"construction", "search", "exact"}


@pytest.mark.usefixtures("fewer_steps", "no_proofs")
@pytest.mark.parametrize("limit", [None, 1.5])
def test_improvements_say_what_found_them_and_what_is_proven(limit: float | None) -> None:
    problem, told = Atsp(), list[Improvement]()
    distances = distances_of("one-way-plane", 45, 1)
    results = solver_of(problem).solve(
        problem, {"distances": distances[None]}, samples=2, time_limit=limit, callback=told.append
    )
    assert told[0].found_by == ["construction"]
    known = {"construction", "search", "network", "network + search"}
    assert {by for event in told for by in event.found_by} <= known
    assert results.found_by.tolist() == told[-1].found_by
    costs, bounds = [event.cost[0] for event in told], [event.bound for event in told]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == len(costs)
    assert all(bound[0] <= costs[-1] for bound in bounds)
    assert costs[-1] == results.cost[0]


@pytest.mark.usefixtures("no_proofs")
def test_samples_are_those_that_the_network_made() -> None:
    problem, arrays = Atsp(), {"distances": OPEN[None]}
    many = solver_of(problem).solve(problem, arrays, samples=10**12, time_limit=3.0)
    assert many.samples is not None
    assert 1 <= many.samples < 10**9
    assert many.seconds < 4.0
    few = solver_of(problem).solve(problem, arrays, samples=2, time_limit=1.5)
    assert few.samples == 2


def test_without_a_turn_of_the_network_there_are_none() -> None:
    arrays = Pmsp().sample(1, (6, 2), np.random.default_rng(0))
    assert AnytimeSolver().solve(Pmsp(), arrays, samples=3, time_limit=5.0).samples == 0
    assert AnytimeSolver().solve(Pmsp(), arrays, samples=3).samples is None


def test_a_device_that_is_not_there_is_said_before_anything_is_solved() -> None:
    with pytest.raises(icdc.UsageError, match="not supported; choose auto, cpu or cuda"):
        AnytimeSolver(device="meta").prepare(Pmsp(), (6, 2))


class Oracle:
    """A network's part that proposes what it is told to."""

    refine = 0

    def __init__(self, choice: Any) -> None:
        self.choice = choice


def test_what_the_network_finds_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal that search cannot better is the network's; one that it repairs belongs to both."""
    distances = distances_of("uniform", 60, 0)
    best = icdc.solve(distances, problem="atsp", solver="search:seconds=20")
    assert best.optimal
    monkeypatch.setattr("icdc.search.tour_search.TourSearch.prove", lambda self, effort, brief=False: None)
    monkeypatch.setattr("icdc.search.tour_search.TourSearch.search", lambda self, effort: None)

    class Proposing:
        model = untrained(Atsp())
        places = np.array([0])
        samples = 1

        def __init__(self, network: Any, *rest: Any) -> None:
            self.proposal = network.choice

        def turn(self, *known: Any) -> Incumbent:
            proposed = Incumbent(1, 60, whole=True)
            proposed.offer(self.proposal, 0, "network")
            return proposed

    monkeypatch.setattr("icdc.solving.network.Chain", Proposing)

    def search(choice: Any) -> Result:
        request = Request(Atsp(), {"distances": distances[None]})
        anytime.AnytimeSearch(request, lambda: Oracle(choice)).run()  # type: ignore[arg-type,return-value]
        return request.result

    found = search(best.choice)
    assert found.found_by.tolist() == ["network"]
    assert np.array_equal(found.choice[0], best.choice)
    poor = np.roll(np.arange(60), -1)
    found = search(poor)
    cost = distances[np.arange(60), found.choice[0]].sum()
    assert found.found_by[0] in ("network + search", "construction")
    assert cost < distances[np.arange(60), poor].sum()


def test_a_start_is_kept_searched_on_from_and_named() -> None:
    problem, arrays = Pmsp(), schedules(1, 20, 4)
    best = AnytimeSolver().solve(problem, arrays)
    assert best.proven.all()
    again = AnytimeSolver().solve(problem, arrays, start=best.choice)
    assert again.found_by.tolist() == ["start"]
    poor = AnytimeSolver().solve(problem, arrays, start=np.zeros((1, 20), dtype=np.int64))
    assert poor.exact_cost.tolist() == best.exact_cost.tolist()
    assert poor.found_by.tolist() != ["start"]


@pytest.mark.usefixtures("no_proofs")
def test_the_time_is_kept_and_used() -> None:
    problem, arrays = Pmsp(), schedules(4, 60, 12)
    AnytimeSolver().solve(problem, arrays, time_limit=0.5)  # compiles
    begun = time.perf_counter()
    results = AnytimeSolver().solve(problem, arrays, time_limit=1.0)
    assert 0.9 < time.perf_counter() - begun < 2.5
    assert results.feasible.all()


def test_a_callback_ends_it() -> None:
    told = []

    def stop(improvement: Improvement) -> bool:
        told.append(improvement)
        return True

    begun = time.perf_counter()
    results = AnytimeSolver().solve(Atsp(), {"distances": OPEN[None]}, time_limit=60, callback=stop)
    assert len(told) == 1
    assert results.feasible.all()
    assert time.perf_counter() - begun < 30


def test_a_network_that_cannot_help_is_not_asked() -> None:
    """Where instances are too large, or nobody trained a model; other sizes ask for it."""

    class Mine(Atsp):
        name = "mine"

    assert AnytimeSolver().network_helps(Atsp(), (100, 100))
    assert not AnytimeSolver().network_helps(Atsp(), (1000, 1000))
    assert not AnytimeSolver(device="cpu").network_helps(Atsp(), (500, 500))
    assert not AnytimeSolver().network_helps(Mine(), (20, 20))
    assert icdc.solve(OPEN[:20, :20], problem=Mine()).optimal
    with pytest.raises(icdc.UsageError, match="is for atsp, not for pmsp"):
        AnytimeSolver(untrained(Atsp())).solve(Pmsp(), schedules(1, 5, 2))


def test_a_problem_without_structure_is_the_networks() -> None:
    class Squared(Pmsp):
        def cost(self, instances: Any, choice: Any) -> Any:
            return super().cost(instances, choice) ** 2

    problem, arrays = Squared(), schedules(2, 6, 3)
    assert problem.structure is None
    model = untrained(problem)
    results = AnytimeSolver(model, steps=2, device="cpu").solve(problem, arrays, samples=2)
    alone = DiffusionSolver(model, steps=2, device="cpu").solve(problem, arrays, samples=2)
    assert np.array_equal(results.choice, alone.choice)
    assert results.found_by.tolist() == ["network"] * 2


def test_options_are_those_of_the_network_and_checked_at_once() -> None:
    assert AnytimeSolver.options() == DiffusionSolver.options()
    with pytest.raises(icdc.UsageError, match="'steps' must be at least 1"):
        icdc.make_solver("icdc:steps=0")


COMMAND = """
import sys
from icdc.cli import run
code = run(sys.argv[1:])
print(sorted({"torch", "matplotlib", "numba"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(("name", "values", "options"), [("atsp", (20,), []), ("pmsp", (20, 4), ["--device", "cpu"])])
def test_the_command_proves_small_instances_without_torch(
    tmp_path: Path, name: str, values: tuple[int, ...], options: list[str]
) -> None:
    problem = icdc.get_problem(name)
    (matrix,) = problem.sample(1, values, np.random.default_rng(1)).values()
    file = tmp_path / "instance.csv"
    np.savetxt(file, matrix[0], fmt="%d", delimiter=",")
    ran = subprocess.run(
        [sys.executable, "-c", COMMAND, "solve", str(file), "--problem", name, *options],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "optimal" in ran.stdout
    assert ran.stderr.strip() == "[]"


def test_the_first_call_on_a_machine_keeps_its_limit_too(tmp_path: Path) -> None:
    """With nothing in the compiler's cache; the command ends while the compiler is still at work."""
    file = tmp_path / "instance.csv"
    np.savetxt(file, distances_of("noisy-plane", 150, 0), fmt="%d", delimiter=",")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "icdc", "solve", str(file), "--problem", "atsp", "--time-limit", "2", "--json"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer = json.loads(ran.stdout)
    assert answer["feasible"]
    assert answer["seconds"] < 3.0


def test_ctrl_c_gives_the_best_so_far(tmp_path: Path) -> None:
    file = tmp_path / "instance.csv"
    np.savetxt(file, schedules(1, 100, 20)["durations"][0], fmt="%d", delimiter=",")
    code = (
        "import sys\nfrom icdc.cli import terminal\n"
        "terminal.Watch.improved = lambda self, improvement: print('improved', file=sys.stderr, flush=True)\n"
        "from icdc import cli\ncli.main()"
    )
    command = [sys.executable, "-c", code, "solve", str(file), "--time-limit", "100", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "improved" not in process.stderr.readline():
            pass
        time.sleep(0.5)
        begun = time.perf_counter()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert time.perf_counter() - begun < 4
    assert process.returncode == 130
    assert '"feasible": true' in out


@pytest.mark.skipif(torch.cuda.is_available(), reason="here a network could help")
def test_large_instances_do_without_torch(tmp_path: Path) -> None:
    """Where no network can help in time, none is asked for, and a second of imports is saved."""
    np.save(tmp_path / "large.npy", np.random.default_rng(0).integers(1, 100, (500, 100)))
    program = (
        "import sys; from icdc.cli import run; "
        "code = run(['solve', 'large.npy', '--problem', 'pmsp', '--time-limit', '0.5']); "
        "print('torch' in sys.modules); import os; sys.stdout.flush(); os._exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "False"


def test_the_chain_begins_with_noise_and_searches_as_advised() -> None:
    """Its trajectories follow the advice for search inside them, and leave the starts to the search beside them."""
    model = untrained(Pmsp())
    model.card = {
        "sizes": [[30, 4]],
        "solving": [
            {"size": [30, 4], "samples": 1, "options": {"temperature": 0.5}},
            {"size": [30, 4], "options": {"temperature": 2.0, "improve_rounds": 7}, "with_search": True},
        ],
    }
    request = Request(Pmsp(), schedules(1, 30, 4), 2)
    for changes, expected in (
        ({}, (2.0, "noise", 7)),
        ({"begin": "starts"}, (2.0, "starts", 7)),
        ({"improve_rounds": 0}, (0.5, "noise", 0)),
    ):
        solver = DiffusionSolver(model, device="cpu", **changes)  # type: ignore[arg-type]
        options = network.Chain(solver, request, np.array([0]))._search.options
        assert (options.temperature, options.begin, options.improve_rounds) == expected


def test_hopeful_proofs_get_more_turns_and_more_of_the_time() -> None:
    """Sixteen turns of an instance instead of four, and three quarters of what is left if there are no others."""
    assert anytime.proof_seconds(0, 1, slot=0.5, left=100.0) == 2.0
    assert anytime.proof_seconds(1, 0, slot=0.5, left=100.0) == 8.0
    assert anytime.proof_seconds(2, 3, slot=0.5, left=100.0) == 22.0
    assert anytime.proof_seconds(1, 0, slot=0.5, left=4.0) == 3.0
    assert anytime.proof_seconds(0, 5, slot=0.5, left=4.0) == 2.0
    assert anytime.proof_seconds(4, 1, slot=0.5, left=4.0) == 2.0


@pytest.mark.parametrize("problem", [Atsp(), Pmsp()])
def test_all_that_a_chain_does_is_compiled_beside_it(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding over all columns and along candidates, merging, local search."""
    called: list[str] = []

    def watch(module: Any, name: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: called.append(name) or real(*given))

    for name in ("follow_tours", "follow_candidates", "join_candidates"):
        watch(decode.numba, name)
    for module, verb in ((merge.numba, "merge"), (improve.numba, "improve")):
        for what in ("tours", "schedules"):
            watch(module, f"{verb}_{what}")
    monkeypatch.setattr(network, "in_background", lambda name, work: work())
    size = (30, 4)[: len(problem.size_names)]
    network.compile_chain(Request(problem, problem.sample(1, size, np.random.default_rng(0))))
    tours = ["follow_tours", "follow_candidates", "join_candidates", "merge_tours", "improve_tours"]
    assert called == (tours if problem.structure == "tour" else ["merge_schedules", "improve_schedules"])


def test_a_network_with_a_limit_does_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins at once; without a limit, or for a problem that nothing is known of, nothing is compiled ahead."""
    begun = []
    monkeypatch.setattr(network, "compile_chain", lambda request: begun.append(request.problem))

    class Another(Pmsp):
        structure = None

    arrays = Pmsp().sample(1, (6, 2), np.random.default_rng(0))
    for problem, limit, expected in ((Pmsp(), None, 0), (Pmsp(), 0.2, 1), (Another(), 0.2, 1)):
        solver = DiffusionSolver(untrained(problem), device="cpu", steps=1)
        solver.solve(problem, arrays, samples=1, time_limit=limit)
        assert len(begun) == expected


@pytest.mark.parametrize(("problem", "size"), [(Atsp(), (20,)), (Pmsp(), (20, 4))])
def test_a_limit_that_is_long_enough_proves_no_fewer(problem: Problem, size: tuple[int, ...]) -> None:
    """What some instances leave of their shares is for the others; in half the time, about half are proven."""
    arrays = problem.sample(200, size, np.random.default_rng(3))

    def run(limit: float | None) -> tuple[float, int]:
        begun = time.perf_counter()
        results = icdc.make_solver("search", seconds=None).solve(problem, arrays, time_limit=limit)
        assert results.feasible.all()
        return time.perf_counter() - begun, int(results.proven.sum())

    run(None)  # compiles
    seconds, all_of_them = run(None)
    assert all_of_them >= 195
    # what else the machine does may take the time of one run, not of all of them
    assert max(run(3 * seconds)[1] for _ in range(3)) >= 0.95 * all_of_them
    assert max(run(seconds / 2)[1] for _ in range(3)) >= 0.15 * all_of_them


def test_when_no_time_is_left_the_rule_answers_the_rest_of_a_batch() -> None:
    arrays = Atsp().sample(50, (30,), np.random.default_rng(0))
    results = icdc.make_solver("search").solve(Atsp(), arrays, time_limit=1e-9)
    assert results.feasible.all()
    assert set(results.found_by) <= {"construction", "exact", "search"}


def test_work_is_waited_for_and_its_error_is_heard() -> None:
    done: list[int] = []

    def work() -> None:
        time.sleep(0.05)
        done.append(1)

    in_thread(work, np.inf)
    assert done == [1]

    def fail() -> None:
        raise ValueError("in vain")

    with pytest.raises(ValueError, match="in vain"):
        in_thread(fail, np.inf)


def test_work_that_is_late_is_not_waited_for() -> None:
    go_on = threading.Event()
    begun = time.perf_counter()
    in_thread(lambda: bool(go_on.wait(20)), begun + 0.2)  # type: ignore[arg-type, return-value]
    took = time.perf_counter() - begun
    go_on.set()
    assert 0.2 <= took < 5


def test_shares_follow_what_brought_improvements() -> None:
    shares, both = Shares({"search": 0.75, "network": 0.25}), ["search", "network"]

    def turns(count: int, **gains: float) -> float:
        """Return how often the network has a turn."""
        had = []
        for _ in range(count):
            had.append(shares.next(both))
            shares.report(had[-1], 1.0, gains.get(had[-1], 0.0), both)
        return had.count("network") / count

    assert shares.next(both) == "search"
    assert turns(40) == pytest.approx(LEAST + 0.25 * (1 - 2 * LEAST), abs=0.05)
    turns(30, network=0.01)
    assert turns(200, network=0.01) == pytest.approx(1 - LEAST, abs=0.03)  # and the search is not forgotten
    turns(30, search=0.01)
    assert turns(200, search=0.01) == pytest.approx(LEAST, abs=0.03)
    turns(30, search=0.01, network=0.01)
    assert turns(100, search=0.01, network=0.01) == pytest.approx(0.5, abs=0.1)
    assert shares.next(["search"]) == "search"


COUNTED = """
import sys
if sys.argv[1] == "warm":  # compiled functions and torch are there before the command begins
    import numpy, torch, icdc
    rng = numpy.random.default_rng(9)
    icdc.solve(rng.integers(1, 99, (12, 12)), problem="atsp", seed=5)
    icdc.solve(rng.integers(1, 99, (12, 4)), problem="pmsp", seed=5)
from icdc.cli import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize(("problem", "shape"), [("atsp", (40, 40)), ("pmsp", (24, 5))])
def test_without_a_limit_an_answer_does_not_depend_on_what_is_loaded(
    problem: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    """Counted instead of timed: a cold start and a warm one end alike."""
    file = tmp_path / "instance.csv"
    np.savetxt(file, np.random.default_rng(3).integers(1, 1000, shape), fmt="%d", delimiter=",")
    options = ["solve", str(file), "--problem", problem, "--no-labels", "--json", "--seed", "4", "--samples", "2"]
    answers = []
    for state in ("cold", "warm"):
        command = [sys.executable, "-c", COUNTED, state, *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.append(json.loads(ran.stdout))
    for name in ("solution", "objective", "bound", "found_by"):
        assert [answer[name] for answer in answers] == [answers[0][name]] * 2
