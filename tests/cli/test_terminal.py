"""What a terminal shows: the live line with best, bound and gap, and what --explain says."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.cli.terminal import Watch
from icdc.problems.instance import Instance
from icdc.problems.pmsp import Pmsp
from icdc.solvers import make_solver
from icdc.solving import Improvement, anytime
from icdc.solving.jobs import Job


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def begin(watch: Watch, count: int) -> None:
    """Tell a watch of a job with a bound of 3 for each of its instances."""
    shop = Instance("shop.csv", Pmsp(), {"durations": np.full((3, 2), 2)})
    job = Job(list(range(count)), [shop] * count, make_solver("ect"), 1, 0)
    watch.begin(job, np.full(count, 3.0))


def improvement(*costs: float) -> Improvement:
    count = len(costs)
    choice = np.zeros((count, 3), dtype=np.int64)
    return Improvement(1.26, np.array(costs), choice, np.full(count, -np.inf), [""] * count)


def test_one_instance() -> None:
    stream = Terminal()
    watch = Watch(stream)
    begin(watch, 1)
    watch.improved(improvement(4.0))
    assert stream.getvalue() == "\r\x1b[Kshop.csv: best 4, bound 3, gap 33.33 %, 1.3 s"
    watch.clear()
    watch.clear()
    assert stream.getvalue().endswith("1.3 s\r\x1b[K")


def test_a_batch() -> None:
    stream = Terminal()
    watch = Watch(stream)
    begin(watch, 2)
    watch.improved(improvement(4.0, 5.0))
    assert stream.getvalue() == "\r\x1b[K2 × pmsp: mean of the best 4.5, 1.3 s"


def test_off_a_terminal_only_notes_are_shown() -> None:
    stream = io.StringIO()
    watch = Watch(stream)
    begin(watch, 1)
    watch.improved(improvement(4.0))
    watch.clear()
    assert stream.getvalue() == ""
    watch.note("shop.csv is new")
    assert stream.getvalue() == "icdc: shop.csv is new\n"


def test_a_bar_for_several_instances() -> None:
    stream = Terminal()
    watch = Watch(stream, total=8)
    watch.finished(4, before=True)
    assert stream.getvalue() == "\r\x1b[K━━━━━━━━━━━━──────────── 4/8  "
    begin(watch, 2)
    watch.improved(improvement(4.0, 5.0))
    assert stream.getvalue().endswith("4/8  2 × pmsp: mean of the best 4.5, 1.3 s")
    watch.finished(2)
    assert stream.getvalue().endswith("━━━━━━━━━━━━━━━━━━────── 6/8  0:00:00 left  ")
    watch.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_no_bar_for_one_instance_or_off_a_terminal() -> None:
    for stream, total in ((Terminal(), 1), (io.StringIO(), 5)):
        watch = Watch(stream, total=total)
        watch.finished(1)
        watch.clear()
        assert stream.getvalue() == ""


def test_a_solver_that_was_asked_for(icdc: Any, shop: Path) -> None:
    ran = icdc("solve", shop, "--solver", "ect", "--json", "--explain")
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    assert ran.err.startswith(f"icdc: read: {shop}, ")
    assert "(pmsp), whole numbers" in ran.err
    assert "icdc: solver: ect (asked for), 1 sample, seed 0, device cpu" in ran.err
    assert "model" not in ran.err
    assert "read:" not in icdc("solve", shop, "--solver", "ect", "--json").err


def test_the_default_says_which_network_it_may_ask(icdc: Any, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = icdc("solve", shop, "--explain")
    assert "icdc: solver: icdc (the default), 8 samples, seed 0, device auto" in ran.err
    assert "icdc: model: pmsp (of those that ship the one that knows the nearest size; trained on " in ran.err
    assert "for what search and proofs leave open" in ran.err
    monkeypatch.setattr(anytime, "GPU_PAIRS", 1)
    assert "icdc: model: none (search and proofs alone" in icdc("solve", shop, "--explain").err


def test_a_model_that_was_asked_for(icdc: Any, shop: Path, models: dict[str, Path]) -> None:
    ran = icdc(
        "solve", shop, "--solver", "network", "--samples", 2, "--steps", 2, "--model", models["pmsp"], "--explain"
    )
    assert "icdc: solver: network (asked for), 2 samples" in ran.err
    assert "(asked for; trained on " in ran.err or "(asked for)" in ran.err.split("model: ")[1]
