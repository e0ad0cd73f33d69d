"""`icdc solve`: what it prints, what it refuses, how it ends."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc import __version__
from icdc.problems import get_problem
from icdc.problems.base import Problem
from icdc.solving.solver import Request, Solver

KEYS = "problem instance understood objective solution feasible bound gap".split()
KEYS += "samples seconds seed solver model found_by version".split()


@dataclass(frozen=True)
class FakeSolver(Solver):
    """Gives every row the first column, whatever that is worth."""

    name = "fake"

    def refusal(self, problem: Problem) -> str | None:
        return None

    def search(self, request: Request) -> None:
        request.offer(np.zeros((request.count, request.shape[0]), dtype=np.int64))


def test_one_json_line_with_the_documented_keys(icdc: Any, shop: Path, models: dict[str, Path]) -> None:
    ran = icdc("solve", shop, "--solver", "network", "--model", models["pmsp"], "--json", "--samples", 4, "--seed", 7)
    assert (ran.code, ran.err) == (0, "")
    (line,) = ran.out.splitlines()
    answer = json.loads(line)
    assert list(answer) == KEYS
    assert answer["problem"] == "pmsp"
    assert answer["instance"] == str(shop)
    assert answer["feasible"] is True
    assert (answer["samples"], answer["seed"], answer["solver"]) == (4, 7, "network")
    assert answer["found_by"] == "network"
    assert answer["model"] == str(models["pmsp"])
    assert answer["version"] == __version__
    durations = np.loadtxt(shop, delimiter=",", skiprows=1, usecols=(1, 2, 3))
    loads = [durations[np.array(answer["solution"]) == m, m].sum() for m in range(3)]
    assert type(answer["objective"]) is int
    assert answer["objective"] == max(loads)
    assert type(answer["bound"]) is int
    assert answer["gap"] == pytest.approx((answer["objective"] - answer["bound"]) / answer["bound"])


def test_the_same_seed_gives_the_same_answer(icdc: Any, cities: Path, models: dict[str, Path]) -> None:
    options = ("--json", "--samples", 3, "--refine", 1, "--steps", 4)
    command = ("solve", cities, "--model", models["atsp"], *options)
    first, second = (json.loads(icdc(*command).out) for _ in range(2))
    first.pop("seconds")
    second.pop("seconds")
    assert first == second
    assert sorted(first["solution"]) == list(range(6))


def test_local_search_inside_the_chain(icdc: Any, shop: Path, models: dict[str, Path]) -> None:
    """An untrained network alone is far from the best; with search it ends where no job can move or be exchanged."""
    command = ("solve", shop, "--solver", "network", "--model", models["pmsp"], "--json", "--samples", 1, "--steps", 2)
    plain, none, searched = (
        json.loads(icdc(*command, *more).out) for more in ((), ("--improve-rounds", 0), ("--improve-rounds", 50))
    )
    assert none["solution"] == plain["solution"]
    assert searched["objective"] < plain["objective"]
    assert (plain["found_by"], searched["found_by"]) == ("network", "network + search")
    ran = icdc("solve", shop, "--solver", "network:improve_rounds=50", *command[4:])
    assert json.loads(ran.out)["solution"] == searched["solution"]


def test_text_brings_the_names_back(icdc: Any, shop: Path) -> None:
    ran = icdc("solve", shop, "--solver", "ect")
    assert ran.code == 0
    assert ran.out.startswith(f"{shop}: 6 jobs on 3 machines, makespan ")
    for word in ("saw", "mill", "press", *(f"job{j}" for j in range(6))):
        assert word in ran.out
    assert "ect, seed 0" in ran.out


def test_optimal_is_said_when_the_bound_is_met(icdc: Any, tmp_path: Path) -> None:
    one_machine = tmp_path / "one.csv"
    one_machine.write_text("3\n4\n5\n")
    assert "makespan 12, optimal" in icdc("solve", one_machine, "--solver", "ect").out
    ran = icdc("solve", one_machine, "--solver", "ect", "--json")
    answer = json.loads(ran.out)
    assert (answer["objective"], answer["bound"], answer["gap"]) == (12, 12, 0.0)


def test_real_numbers_in_their_own_units(icdc: Any, tmp_path: Path) -> None:
    path = tmp_path / "hours.csv"
    path.write_text("0.25\n1e-3\n")
    answer = json.loads(icdc("solve", path, "--solver", "ect", "--json").out)
    assert answer["objective"] == 0.251
    assert answer["bound"] <= 0.251


def test_integers_stay_exact_where_floats_do_not(icdc: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    large = 2**53 - 1
    path.write_text(f"{large}\n{large}\n{large}\n")
    ran = icdc("solve", path, "--solver", "ect", "--json")
    assert json.loads(ran.out)["objective"] == 3 * large


def test_answers_keep_the_order_of_the_input(icdc: Any, tmp_path: Path, shop: Path, cities: Path) -> None:
    documents = [{"durations": np.full((jobs, 2), jobs).tolist()} for jobs in (3, 5, 3, 4, 5, 3)]
    batch = tmp_path / "batch.json"
    batch.write_text(json.dumps(documents))
    ran = icdc("solve", batch, shop, "--solver", "ect", "--json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [line["instance"] for line in lines] == [f"{batch}[{i}]" for i in range(6)] + [str(shop)]
    assert [len(line["solution"]) for line in lines] == [3, 5, 3, 4, 5, 3, 6]


def test_answers_do_not_depend_on_company(icdc: Any, tmp_path: Path, models: dict[str, Path]) -> None:
    drawn = get_problem("atsp").sample(5, (6,), np.random.default_rng(3))["distances"]
    many = tmp_path / "many.npz"
    np.savez(many, problem="atsp", distances=drawn)
    single = tmp_path / "single.npy"
    np.save(single, drawn[3])
    options = ("--model", models["atsp"], "--samples", 2, "--json", "--steps", 3)
    together = [json.loads(line) for line in icdc("solve", many, *options).out.splitlines()]
    alone = json.loads(icdc("solve", single, *options).out)
    assert together[3]["solution"] == alone["solution"]


def test_standard_input(icdc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"3,4\n5,6\n7,8\n")))
    ran = icdc("solve", "-", "--solver", "ect", "--json")
    assert json.loads(ran.out)["instance"] == "stdin"


def test_a_start_is_never_made_worse(icdc: Any, offer: Callable[[type], None], shop: Path, tmp_path: Path) -> None:
    offer(FakeSolver)
    start = tmp_path / "start.csv"
    best = json.loads(icdc("solve", shop, "--solver", "cpsat", "--json", "--out", start).out)
    poor = json.loads(icdc("solve", shop, "--solver", "fake", "--json").out)
    assert poor["objective"] > best["objective"]
    kept = json.loads(icdc("solve", shop, "--solver", "fake", "--json", "--start", start).out)
    assert (kept["objective"], kept["solution"]) == (best["objective"], best["solution"])


def test_the_learned_solver_begins_from_a_start(icdc: Any, shop: Path, tmp_path: Path, models: dict[str, Path]) -> None:
    start = tmp_path / "start.json"
    best = json.loads(icdc("solve", shop, "--solver", "cpsat", "--json", "--out", start).out)
    options = ("--model", models["pmsp"], "--samples", 1, "--steps", 1, "--json")
    assert json.loads(icdc("solve", shop, *options, "--start", start).out)["objective"] == best["objective"]


@pytest.mark.parametrize("ending", ["csv", "json", "txt", "tour"])
def test_solution_files_verify(icdc: Any, cities: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"answer.{ending}"
    ran = icdc("solve", cities, "--problem", "atsp", "--solver", "nn", "--json", "--out", out)
    answer = json.loads(ran.out)
    checked = icdc("verify", cities, out, "--problem", "atsp", "--json")
    assert checked.code == 0
    assert json.loads(checked.out)["objective"] == answer["objective"]


def test_several_answers_get_numbered_files(icdc: Any, shop: Path, tmp_path: Path) -> None:
    ran = icdc("solve", shop, shop, "--solver", "ect", "--out", tmp_path / "a.txt", "--plot", tmp_path / "p.svg")
    assert ran.code == 0
    assert {"a-0.txt", "a-1.txt", "p-0.svg", "p-1.svg"} <= {p.name for p in tmp_path.iterdir()}


def test_an_animation(icdc: Any, cities: Path, models: dict[str, Path], tmp_path: Path) -> None:
    gif = tmp_path / "a.gif"
    ran = icdc("solve", cities, "--model", models["atsp"], "--samples", 2, "--steps", 3, "--plot", gif)
    assert ran.code == 0
    assert gif.read_bytes().startswith(b"GIF89a")
    refused = icdc("solve", cities, "--problem", "atsp", "--solver", "nn", "--plot", gif)
    assert refused.code == 2
    assert "only the learned solver can be animated" in refused.err


def test_time_is_spent_and_not_overspent(icdc: Any, cities: Path, models: dict[str, Path], tmp_path: Path) -> None:
    # three equal jobs on two machines: the bound of 3 cannot be met, so the search goes on to the end
    path = tmp_path / "equal.csv"
    path.write_text("2,2\n2,2\n2,2\n")
    options = ("--solver", "network", "--model", models["pmsp"], "--samples", 2, "--time-limit", 1.0, "--json")
    ran = icdc("solve", path, *options)
    answer = json.loads(ran.out)
    assert answer["objective"] == 4
    assert 0.8 < answer["seconds"] < 3.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--solver", "magic"), "unknown solver 'magic'"),
        (("--solver", "nn"), "the solver 'nn' is for tours: it cannot answer 'pmsp'"),
        (("--solver", "ect", "--steps", 3), "solver 'ect' has no option 'steps'"),
        (("--solver", "ect", "--improve-rounds", 3), "solver 'ect' has no option 'improve_rounds'"),
        (("--improve-rounds", -1), "--improve-rounds"),
        (("--problem", "tsp"), "unknown problem 'tsp'"),
        (("--model", "nowhere"), "unknown model 'nowhere'"),
        (("--time-limit", 0), "--time-limit must be more than 0 seconds"),
        (("--time-limit", "nan"), "--time-limit must be a number of seconds, got nan"),
        (("--solver", "ect", "--out", "answer.xlsx"), "the name must end in one of .tour"),
        (("--solver", "ect", "--plot", "picture.bmp"), "the name must end in one of .png"),
        (("--solver", "ect", "--plot", "no/such/folder/p.png"), "there is no folder"),
        (("--solver", "ect", "--start", "-"), None),
        (("--samples", 0), "--samples"),
        (("--sample", 3), "icdc: no such option: --sample"),
    ],
)
def test_usage_errors(icdc: Any, shop: Path, arguments: tuple[object, ...], sentence: str | None) -> None:
    second = ("-",) if "--start" in arguments else ()
    ran = icdc("solve", shop, *second, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert (sentence or "standard input can be read only once") in " ".join(ran.err.split())


def test_an_ambiguous_matrix_is_asked_about(icdc: Any, cities: Path) -> None:
    ran = icdc("solve", cities)
    assert (ran.code, ran.out) == (2, "")
    assert "say which with --problem atsp or --problem pmsp" in ran.err


def test_a_model_for_another_problem(icdc: Any, shop: Path, models: dict[str, Path]) -> None:
    ran = icdc("solve", shop, "--problem", "pmsp", "--model", models["atsp"])
    assert ran.code == 2
    assert "is for 'atsp', not for 'pmsp'" in ran.err


def test_a_size_the_model_was_not_trained_on(icdc: Any, tmp_path: Path, models: dict[str, Path]) -> None:
    path = tmp_path / "small.csv"
    path.write_text("1,2\n3,4\n5,6\n")
    ran = icdc("solve", path, "--solver", "network", "--model", models["pmsp"], "--samples", 1, "--steps", 2)
    assert ran.code == 0
    assert "size 3×2 is not one it was trained on (6×3)" in ran.err


@pytest.mark.parametrize("content", ["1,2\n3\n", "1,2\n3,nan\n5,6", "1,2\n3,y\n5,6", "1,2\n3,-4\n5,6", "", "\0"])
def test_bad_input_is_one_sentence_and_exit_3(icdc: Any, tmp_path: Path, shop: Path, content: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    ran = icdc("solve", shop, path, "--solver", "ect")
    assert (ran.code, ran.out) == (3, "")  # nothing is solved before everything is read
    assert ran.err.startswith(f"icdc: {path}: ")
    assert len(ran.err.splitlines()) == 1


def test_a_missing_file(icdc: Any, tmp_path: Path) -> None:
    ran = icdc("solve", tmp_path / "gone.csv")
    assert (ran.code, ran.err) == (3, f"icdc: {tmp_path / 'gone.csv'}: no such file\n")


def test_a_start_that_does_not_fit(icdc: Any, shop: Path, tmp_path: Path) -> None:
    start = tmp_path / "start.txt"
    start.write_text("0 1 2")
    ran = icdc("solve", shop, "--solver", "ect", "--start", start)
    assert ran.code == 3
    assert "the solution has 3 entries where the instance needs 6" in ran.err


def test_nothing_feasible_is_exit_4(icdc: Any, offer: Callable[[type], None], cities: Path, shop: Path) -> None:
    offer(FakeSolver)
    ran = icdc("solve", cities, "--problem", "atsp", "--solver", "fake", "--json")
    assert ran.code == 4
    answer = json.loads(ran.out)
    assert (answer["feasible"], answer["objective"], answer["gap"]) == (False, None, None)
    assert "no feasible solution was found for 1 of 1 instances" in ran.err


def test_a_missing_extra_is_exit_5(icdc: Any, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    ran = icdc("solve", shop, "--solver", "cpsat")
    assert (ran.code, ran.out) == (5, "")
    assert "pip install 'icdc[exact]'" in ran.err


def test_an_unexpected_error_is_exit_1(
    icdc: Any, offer: Callable[[type], None], shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(FakeSolver):
        def search(self, request: Request) -> None:
            raise ZeroDivisionError("division\nby zero")

    offer(Broken)
    ran = icdc("solve", shop, "--solver", "fake")
    assert ran.code == 1
    assert ran.err == "icdc: internal error: ZeroDivisionError: division by zero (ICDC_DEBUG=1 shows where)\n"
    monkeypatch.setenv("ICDC_DEBUG", "1")
    assert "Traceback" in icdc("solve", shop, "--solver", "fake").err


def test_an_interrupted_batch_prints_what_it_has(icdc: Any, offer: Callable[[type], None], tmp_path: Path) -> None:
    class Impatient(FakeSolver):
        def search(self, request: Request) -> None:
            request.offer(np.zeros((2, 3), dtype=np.int64), places=[0, 2])  # the second is not reached
            raise KeyboardInterrupt

    offer(Impatient)
    path = tmp_path / "three.json"
    path.write_text(json.dumps([{"durations": [[1, 2], [3, 4], [5, 6]]}] * 3))
    ran = icdc("solve", path, "--solver", "fake", "--json")
    assert ran.code == 130
    assert [json.loads(line)["instance"] for line in ran.out.splitlines()] == [f"{path}[0]", f"{path}[2]"]


INTERRUPTIBLE = """
import sys
from icdc.cli import run, terminal
plain = terminal.Watch.improved
def told(self, improvement):
    plain(self, improvement)
    print("improved", file=sys.stderr, flush=True)
terminal.Watch.improved = told
sys.exit(run(sys.argv[1:]))
"""


def test_ctrl_c_prints_the_best_so_far(tmp_path: Path, models: dict[str, Path]) -> None:
    path = tmp_path / "equal.csv"
    path.write_text("2,2\n2,2\n2,2\n")
    options = ["--solver", "network", "--model", str(models["pmsp"])]
    options += ["--samples", "2", "--time-limit", "120", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "solve", str(path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stderr is not None
        while "improved" not in (line := process.stderr.readline()):
            assert line, "it ended without an answer"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(out)["objective"] in (4, 6)


def test_a_file_of_answers_goes_on_though_its_model_was_adapted_then(
    icdc: Any, shop: Path, models: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "answers.jsonl"
    network = ("--solver", "network", "--model", models["pmsp"], "--steps", 2, "--samples", 2, "--out", out)
    assert icdc("solve", shop, *network).code == 0
    line = json.loads(out.read_text())
    out.write_text(json.dumps({**line, "model": f"{line['model']}, adapted"}) + "\n")
    again = icdc("solve", shop, *network, "--resume")
    assert again.code == 0, again.err
    assert "1 of 1 instances answered, 1 of them before" in again.err


def test_a_schedule_is_not_written_as_a_tour_which_is_said_before_it_is_solved(icdc: Any, tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("1,2,3\n4,5,6\n")
    ran = icdc("solve", tmp_path / "shop.csv", "--out", tmp_path / "plan.tour")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"icdc: --out {tmp_path / 'plan.tour'}: a 'pmsp' solution is not a tour; write .csv instead\n"
