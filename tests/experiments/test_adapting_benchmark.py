"""Adapting against not adapting: cases that are what they say, equal seconds, a table with intervals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import adapting
from benchmarks.runs import append_rows, read_rows
from icdc.io.standard import standard_instances
from icdc.solving import Found, Solver


def test_the_cases() -> None:
    problem, arrays = adapting.jobs(3)
    assert problem.name == "pmsp"
    assert (arrays["durations"] == standard_instances(adapting.JOBS)["durations"][:3]).all()
    problem, arrays = adapting.city_map(4)
    assert problem.name == "atsp"
    assert arrays["distances"].shape == (4, adapting.CITIES, adapting.CITIES)
    (again,) = adapting.city_map(1)[1]["distances"]
    assert (again == arrays["distances"][0]).all()
    pairs = [set(one[one > 0].tolist()) for one in arrays["distances"]]
    assert pairs[0] & pairs[1]  # they share cities of one map
    assert pairs[0] != pairs[1]


def line(way: str, instance: int, cost: float, said: str = "", seed: int = 0) -> dict[str, Any]:
    adapt = 36.0 if way.endswith("adapted") else 0.0
    about = {"case": "map", "way": way, "seconds": 60.0, "adapt": adapt, "seed": seed, "device": "cpu"}
    return {**about, "instance": instance, "cost": cost, "model": "", "found_by": "x", "took": 60.1, "said": said}


def test_gaps_are_to_the_best_of_all_ways(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [line("reference", 0, 100.0), line("reference", 1, 100.0)]
    rows += [line("network", n, 110.0) for n in (0, 1)]
    rows += [line("network, adapted", 0, 99.0, "adapted 'x': 3"), line("network, adapted", 1, 104.0, "adapted 'x': 3")]
    append_rows(path, adapting.COLUMNS, rows)
    text = adapting.page(read_rows(path))
    assert "| map | network | cpu | 60 | 10.6 (10.0–11.1) | 2 |  |" in text
    assert "| map | network, adapted | cpu | 60, 36 of them adapting | 2.01 (0.000–4.00) | 2 | 2 of 2 |" in text
    assert "reference" not in text


class Quick(Solver):
    """Visits the cities in their order, and has a model to adapt only where it says so."""

    name = "quick"

    def refusal(self, problem: Any) -> None:
        return None

    def search(self, request: Any) -> Found:
        limits.append(request.time_limit)
        order = np.roll(np.arange(request.shape[0]), -1)
        return Found(np.tile(order, (request.count, 1)), 0.0)


limits: list[float] = []


def test_every_way_has_the_same_seconds_and_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits.clear()
    monkeypatch.setattr(adapting, "make_solver", lambda spec, **options: Quick())
    monkeypatch.setattr("icdc.solving.adapting.adapt_jobs", lambda jobs, adapt, observer: asked.append(adapt) or jobs)
    asked: list[Any] = []
    page = tmp_path / "page.md"
    page.write_text("<!-- adapting: begin --><!-- adapting: end -->")
    out = tmp_path / "a.csv"
    command = ["--cases", "map", "--count", "2", "--seconds", "5", "--share", "0.4", "--out", str(out)]
    assert adapting.main([*command, "--page", str(page)]) == 0
    assert [adapt.seconds for adapt in asked] == [2.0, 2.0]
    assert 5.0 < limits[0] <= 10.0
    assert all(limit <= 5.0 for limit in limits[1:])
    assert len(read_rows(out)) == 2 * len(adapting.WAYS)
    assert "| map | icdc, adapted |" in page.read_text()
    before = len(limits)
    assert adapting.main(command) == 0
    assert len(limits) == before
