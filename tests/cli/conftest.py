"""What tests of the command line share: calling it in this process, tiny models, solvers to order."""

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from icdc import solvers
from icdc.cli import run
from icdc.model import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem

TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)


@dataclass(frozen=True)
class Outcome:
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str


Icdc = Callable[..., Outcome]


@pytest.fixture
def icdc(capfd: pytest.CaptureFixture[str]) -> Icdc:
    """Call the command line with arguments."""

    def call(*arguments: object) -> Outcome:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained models of the built-in problems, small enough to be instant."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name, size in (("atsp", [6]), ("pmsp", [6, 3]), ("navigation", [6])):
        torch.manual_seed(0)
        found[name] = folder / f"{name}.safetensors"
        Model(get_problem(name), ModelConfig(network=TINY), card={"sizes": [size]}).save(found[name])
    return found


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A shop with names, six jobs on three machines."""
    durations = get_problem("pmsp").sample(1, (6, 3), np.random.default_rng(1))["durations"][0]
    path = tmp_path / "shop.csv"
    rows = [f"job{j}," + ",".join(map(str, times)) for j, times in enumerate(durations.tolist())]
    path.write_text("\n".join(["job,saw,mill,press", *rows]))
    return path


@pytest.fixture
def cities(tmp_path: Path) -> Path:
    """Six cities, without names."""
    distances = get_problem("atsp").sample(1, (6,), np.random.default_rng(2))["distances"][0]
    path = tmp_path / "cities.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in distances.tolist()))
    return path


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Any]], None]:
    """Make a class available as `--solver fake`."""

    def add(cls: type[Any]) -> None:
        module = types.ModuleType("fake_solver")
        module.Fake = cls  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "fake_solver", module)
        monkeypatch.setitem(solvers.SOLVERS, "fake", solvers.Entry("fake_solver:Fake", "any", "for tests"))

    return add
