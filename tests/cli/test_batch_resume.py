"""Thousands of instances in one call: answers stream into a file, and a stopped batch goes on where it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.problems import get_problem
from icdc.solving.solver import Request, Solver
from icdc.solving.trajectories import DiffusionSearch

COUNT = 40


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """Forty instances of six cities."""
    path = tmp_path / "batch.npz"
    drawn = get_problem("atsp").sample(COUNT, (6,), np.random.default_rng(3))
    np.savez(path, problem="atsp", **drawn)
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the answers of a file, without their times."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in found]


def options(models: dict[str, Path]) -> list[Any]:
    return ["--solver", "network", "--model", models["atsp"], "--samples", 2, "--steps", 2]


def test_answers_go_to_the_file_and_say_the_same(icdc: Any, batch: Path, models: dict[str, Path]) -> None:
    out = batch.with_name("answers.jsonl")
    ran = icdc("solve", batch, *options(models), "--out", out)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(f"{out}: {COUNT} of {COUNT} instances answered; mean gap ")
    printed = icdc("solve", batch, *options(models), "--json").out.splitlines()
    for line, shown in zip(lines(out), map(json.loads, printed), strict=True):
        shown.pop("seconds")
        assert line == shown
    again = icdc("solve", batch, *options(models), "--out", out)
    assert again.code == 2
    assert "--resume" in again.err
    nothing = icdc("solve", batch, *options(models), "--out", out, "--resume")
    assert nothing.code == 0
    assert f"{COUNT} of {COUNT} instances answered, {COUNT} of them before" in nothing.err
    assert len(lines(out)) == COUNT


@pytest.mark.parametrize("cut", [b"", b'{"problem": "atsp", "inst', b"\xff"])
def test_a_cut_file_is_taken_up_again(icdc: Any, batch: Path, models: dict[str, Path], cut: bytes) -> None:
    whole, part = batch.with_name("whole.jsonl"), batch.with_name("part.jsonl")
    assert icdc("solve", batch, *options(models), "--out", whole).code == 0
    kept = whole.read_bytes().splitlines(keepends=True)[:7]
    part.write_bytes(b"".join(kept) + cut)
    ran = icdc("solve", batch, *options(models), "--out", part, "--resume")
    assert ran.code == 0
    assert f"{COUNT} of {COUNT} instances answered, 7 of them before" in ran.err
    assert part.read_bytes().splitlines(keepends=True)[:7] == kept
    by_name = {line["instance"]: line for line in lines(part)}
    assert by_name == {line["instance"]: line for line in lines(whole)}
    assert len(lines(part)) == COUNT


def test_a_killed_batch_loses_nothing(icdc: Any, batch: Path, models: dict[str, Path]) -> None:
    """kill -9 while answers are written; what the file had stays, and the end is that of an unbroken run."""
    whole, killed = batch.with_name("whole.jsonl"), batch.with_name("killed.jsonl")
    command = ["solve", batch, "--solver", "network", "--model", models["atsp"]]
    command += ["--samples", 2, "--steps", 20, "--refine", 30]
    assert icdc(*command, "--out", whole).code == 0
    arguments = [str(word) for word in [*command, "--device", "cpu", "--out", killed]]
    slow = "import torch, sys; torch.set_num_threads(1); from icdc.cli import run; import icdc.solving.network as d; "
    slow += "d.LARGEST_BATCH = 1; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", slow, *arguments], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not killed.exists() or killed.read_bytes().count(b"\n") < 3):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = killed.read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert 3 <= kept.count(b"\n") < COUNT
    ran = icdc(*command, "--out", killed, "--resume")
    assert ran.code == 0
    assert killed.read_bytes().startswith(kept)
    assert sorted(lines(killed), key=str) == sorted(lines(whole), key=str)


def test_the_same_file_twice_is_answered_twice(icdc: Any, cities: Path) -> None:
    out = cities.with_name("twice.jsonl")
    command = ("solve", cities, cities, "--problem", "atsp", "--solver", "nn", "--out", out)
    assert icdc(*command).code == 0
    assert len(lines(out)) == 2
    out.write_text(out.read_text().splitlines(keepends=True)[0])
    assert icdc(*command, "--resume").code == 0
    assert len(lines(out)) == 2


def test_a_limit_may_have_left_fewer_samples(icdc: Any, shop: Path) -> None:
    out = shop.with_name("limited.jsonl")
    command = ("solve", shop, shop, "--solver", "random", "--samples", 10**7, "--out", out)
    assert icdc(*command, "--time-limit", 0.2).code == 0
    assert 0 < lines(out)[0]["samples"] < 10**7
    out.write_text(out.read_text().splitlines(keepends=True)[0])
    without = icdc(*command, "--resume")
    assert without.code == 2
    assert "was made with samples" in without.err
    assert icdc(*command, "--time-limit", 0.2, "--resume").code == 0
    assert len(lines(out)) == 2
    more = icdc(*command[:-3], 1, "--out", out, "--time-limit", 0.2, "--resume")
    assert more.code == 2
    assert "resume with the same" in more.err


def test_search_by_the_clock_takes_up_its_own_file(icdc: Any, shop: Path) -> None:
    """It limits itself, and no samples were asked for."""
    out = shop.with_name("searched.jsonl")
    command = ("solve", shop, shop, "--solver", "search", "--out", out)
    assert icdc(*command).code == 0
    assert [line["samples"] for line in lines(out)] == [1, 1]
    out.write_text(out.read_text().splitlines(keepends=True)[0])
    assert icdc(*command, "--resume").code == 0
    assert len(lines(out)) == 2


def test_a_file_of_another_run_is_refused(icdc: Any, shop: Path) -> None:
    out = shop.with_name("answers.jsonl")
    command = ("solve", shop, "--solver", "ect", "--out", out, "--resume")
    assert icdc(*command).code == 0
    other = icdc(*command, "--seed", 1)
    assert other.code == 2
    assert f"{out}: line 1 was made with seed 0, not 1" in other.err
    assert "instances answered" not in other.err  # nothing was, and what the file has is of another run
    text = out.read_text()
    for wrong, words in (
        (text.replace("shop.csv", "other.csv"), "which is not among these instances"),
        (text.replace('"objective": ', '"objective": 1'), "one of them was changed"),
        (text.replace('"solution": [', '"solution": ["0", '), "one of them was changed"),
        (text.replace('"solution": [', '"solution": [7, '), "one of them was changed"),
        (text.replace('"feasible": true', '"feasible": 1'), "not an answer"),
        ("[1, 2]\n", "line 1 is not an answer in JSON"),
        ("nonsense\n" + text, "line 1 is not an answer in JSON"),
        ("[" * 10**5 + "]" * 10**5 + "\n", "line 1 is not an answer in JSON"),
        (re.sub('"objective": [0-9]+', '"objective": 1' + "0" * 400, text), "one of them was changed"),
        (text.replace('"solution": [', f'"solution": [{10**30}, '), "one of them was changed"),
    ):
        out.write_text(wrong)
        ran = icdc(*command)
        assert ran.code == 3, words
        assert words in ran.err
        assert out.read_text() == wrong


def test_duplicates_and_edited_bounds_are_said(icdc: Any, shop: Path) -> None:
    out = shop.with_name("answers.jsonl")
    command = ("solve", shop, "--solver", "ect", "--out", out, "--resume")
    assert icdc(*command).code == 0
    text = out.read_text()
    line = json.loads(text)

    def edited(**changes: Any) -> str:
        return json.dumps({**line, **changes}) + "\n"

    higher = line["objective"] + 1
    for wrong, words in (
        (text + text, f"line 2 answers '{shop}' again, as line 1 does"),
        (edited(bound=line["bound"] - 1), "objective, bound and gap"),
        (edited(bound=None), "objective, bound and gap"),
        (edited(gap=0.0), "objective, bound and gap"),
        (edited(gap=None), "objective, bound and gap"),
        (edited(bound=higher, gap=0.0), "the bound of"),
        (edited(bound="low"), "one of them was changed"),
    ):
        out.write_text(wrong)
        ran = icdc(*command)
        assert ran.code == 3, wrong
        assert words in ran.err
        assert out.read_text() == wrong


def test_two_processes_do_not_share_a_file(icdc: Any, shop: Path, offer: Any) -> None:
    out = shop.with_name("answers.jsonl")
    seen: list[Any] = []

    @dataclass(frozen=True)
    class Second(Solver):
        name = "fake"

        def refusal(self, problem: Any) -> None:
            return None

        def search(self, request: Request) -> None:
            other = [sys.executable, "-m", "icdc", "solve", shop, "--solver", "ect", "--out", out, "--resume"]
            seen.append(subprocess.run(other, capture_output=True, text=True, check=False))
            request.offer(np.zeros((request.count, request.shape[0]), dtype=np.int64))

    offer(Second)
    assert icdc("solve", shop, "--solver", "fake", "--out", out).code == 0
    (other,) = seen
    assert other.returncode == 2
    assert other.stderr == f"icdc: {out} is in use by another process, which writes to it\n"
    assert len(lines(out)) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence(icdc: Any, shop: Path) -> None:
    out = shop.with_name("full.jsonl")
    out.symlink_to("/dev/full")
    ran = icdc("solve", shop, "--solver", "ect", "--out", out)
    assert ran.code == 3
    assert f"icdc: {out}: cannot be written (No space left on device)" in ran.err


def test_only_a_file_of_answers_can_be_resumed(icdc: Any, shop: Path) -> None:
    for extra in ((), ("--out", shop.with_name("plan.csv"))):
        ran = icdc("solve", shop, "--solver", "ect", "--resume", *extra)
        assert ran.code == 2
        assert "--out FILE.jsonl" in ran.err


def test_an_interrupted_batch_keeps_only_whole_answers(
    icdc: Any, batch: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second job: the file has the first, and the second is solved in full later."""
    out = batch.with_name("answers.jsonl")
    command = ("solve", batch, *options(models), "--out", out)
    monkeypatch.setattr("icdc.solving.network.LARGEST_BATCH", 8)
    original = DiffusionSearch.run
    calls: list[DiffusionSearch] = []

    def run(self: DiffusionSearch) -> None:
        calls.append(self)
        original(self)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DiffusionSearch, "run", run)
        ran = icdc(*command)
    assert ran.code == 130
    assert f"{out}: 8 of {COUNT} instances answered" in ran.err
    assert len(lines(out)) == 8
    assert icdc(*command, "--resume").code == 0
    assert len(lines(out)) == COUNT


def test_infeasible_answers_stay_infeasible(icdc: Any, shop: Path, offer: Any) -> None:
    @dataclass(frozen=True)
    class Lost(Solver):
        name = "fake"

        def refusal(self, problem: Any) -> str | None:
            return None

        def search(self, request: Request) -> None:
            request.offer(np.full((1, 6), -1))

    offer(Lost)
    out = shop.with_name("answers.jsonl")
    command = ("solve", shop, "--solver", "fake", "--out", out, "--resume")
    assert [icdc(*command).code, icdc(*command).code] == [4, 4]
    assert len(lines(out)) == 1
