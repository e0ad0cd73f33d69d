"""`icdc solve --explain` says on standard error what was read and who answers it; the answer stays the same."""

from pathlib import Path
from typing import Any

import pytest

from icdc.solving import anytime


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
