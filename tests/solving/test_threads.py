"""Torch's threads belong to the caller, and a child that is forked after a solve answers, too."""

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import icdc
from icdc.solving.threads import own_threads

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
