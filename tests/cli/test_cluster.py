"""A batch over a Ray cluster: the answers of one machine, whoever dies on the way."""

import importlib.util
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.problems import get_problem
from icdc.solvers import SOLVERS, Entry

COUNT = 32
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


def answers(path: Path) -> dict[str, Any]:
    """Return the answers of a file by instance, without their times; no instance is answered twice."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({line["instance"] for line in found}) == len(found)
    return {line["instance"]: {**line, "seconds": None} for line in found}


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of this machine: a head that does no work, and two workers of one core each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": quick})
    yield made
    made.shutdown()


SLOW = """
import os, time
from pathlib import Path
from icdc.solving.network import DiffusionSolver

class Slow(DiffusionSolver):
    def search(self, request):
        job = int(request.arrays["distances"].sum())
        begun = Path(os.environ["JOBS_BEGUN"])
        with open(begun, "a") as log:
            log.write(f"{job}\\n")
        # after four jobs, both workers hold one each until one of them has been killed
        deadline = time.monotonic() + 240  # on a busy machine the second worker may begin late
        while len(begun.read_text().split()) > 4 and not begun.with_name("killed").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("no worker was killed")
            time.sleep(0.01)
        return super().search(request)
"""


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of ray's own making
def test_a_worker_killed_half_way_loses_nothing(
    icdc: Any, tmp_path: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    """Two workers, one of them killed with its work under way: every instance is answered, as on one machine."""
    batch, alone, spread, begun = (tmp_path / name for name in ("b.npz", "alone.jsonl", "spread.jsonl", "begun"))
    np.savez(batch, problem="atsp", **get_problem("atsp").sample(COUNT, (6,), np.random.default_rng(3)))
    (tmp_path / "slow_solver.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2] / 'src'}")
    monkeypatch.setenv("JOBS_BEGUN", str(begun))
    monkeypatch.setattr("icdc.solving.network.LARGEST_BATCH", 2)
    command = ("solve", batch, "--solver", "network", "--model", models["atsp"], "--samples", 2, "--steps", 3)
    assert icdc(*command, "--out", alone).code == 0
    monkeypatch.setitem(SOLVERS, "network", Entry("slow_solver:Slow", "any", "logs its jobs, and holds some"))
    cluster = request.getfixturevalue("cluster")
    workers = [cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20) for _ in range(2)]
    cluster.wait_for_nodes()

    def kill() -> None:
        while not begun.exists() or len(begun.read_text().split()) < 6:
            time.sleep(0.01)
        cluster.remove_node(workers[1], allow_graceful=False)
        begun.with_name("killed").touch()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    ran = icdc(*command, "--out", spread, "--ray", cluster.address)
    killer.join(30)
    assert ran.code == 0, ran.err
    assert answers(spread) == answers(alone)
    times = Counter(begun.read_text().split())
    assert len(times) == COUNT // 2
    assert max(times.values()) == 2, "the worker that was killed had nothing to do"


def test_without_ray(icdc: Any, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = icdc("solve", shop, "--solver", "ect", "--ray", "auto")
    assert ran.code == 5
    assert ran.err == "icdc: --ray needs the package 'ray'; add it with: pip install 'icdc[cluster]'\n"


@needs_ray
def test_no_cluster_there(icdc: Any, shop: Path) -> None:
    ran = icdc("solve", shop, "--solver", "ect", "--ray", "auto")
    assert ran.code == 2
    assert ran.err.startswith("icdc: --ray auto: there is no Ray cluster to be reached (")
    assert ran.err.count("\n") == 1


@needs_ray
def test_a_head_that_does_not_answer_is_said_at_once(icdc: Any, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for minutes."""
    monkeypatch.setattr("icdc.solving.cluster._ray", lambda: pytest.fail("Ray was asked"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for said in (address, f"ray://{address}", "127.0.0.1:99999999"):
            ran = icdc("solve", shop, "--ray", said)
            assert ran.code == 2
            assert ran.err.startswith(f"icdc: --ray {said}: there is no Ray cluster to be reached (")
            assert ran.err.count("\n") == 1


def test_a_cluster_is_not_animated(icdc: Any, shop: Path, tmp_path: Path) -> None:
    ran = icdc("solve", shop, "--plot", tmp_path / "x.gif", "--ray", "auto")
    assert ran.code == 2
    assert "cannot be animated" in ran.err
