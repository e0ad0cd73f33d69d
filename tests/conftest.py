"""What every test starts from: one thread, fixed seeds, hypothesis without a clock, and what tests share."""

import os
import random
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from icdc import solvers as registry
from icdc.baselines.matnet import MatNet, MatNetNetworkConfig
from icdc.cli import run
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.problems.base import Arrays

os.environ.setdefault("ICDC_NO_BACKGROUND", "1")  # commands that tests run leave no compiler behind

torch.set_num_threads(1)
settings.register_profile("icdc", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("icdc")


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Start every test from the same global random state; the package itself never uses one."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)


@pytest.fixture
def stop_before() -> Callable[[Any, int], None]:
    """Return a function that runs a trainer until a round (counted from 0) would begin, the state saved there."""

    def run(trainer: Any, stop: int) -> None:
        trainer.run(lambda progress: progress.round == stop, every=0.0)
        assert trainer.rounds_done == stop

    return run


@pytest.fixture
def assert_same_weights() -> Callable[[Any, Any], None]:
    """Return a check that two models have the same weights, up to rounding."""

    def check(one: Any, other: Any) -> None:
        for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)

    return check


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
        monkeypatch.setitem(registry.SOLVERS, "fake", registry.Entry("fake_solver:Fake", "any", "for tests"))

    return add


SMALL = MatNetNetworkConfig(width=32, heads=4, layers=2, feed_forward=64, mixer_width=8, one_hots=8)
SIZES = {"atsp": (5,), "pmsp": (4, 3), "navigation": (5,)}


@pytest.fixture
def make_small() -> Callable[[str], tuple[MatNet, Arrays]]:
    """Make an untrained model of a problem, its weights far from uniform choices, and three instances."""

    def make(name: str) -> tuple[MatNet, Arrays]:
        torch.manual_seed(1)
        model = MatNet(get_problem(name), SMALL)
        with torch.no_grad():
            for parameter in model.network.parameters():
                parameter.mul_(1.5)
        model.network.eval()
        return model, model.problem.sample(3, SIZES[name], np.random.default_rng(2))

    return make


@pytest.fixture(params=sorted(SIZES))
def small(request: pytest.FixtureRequest, make_small: Callable[[str], tuple[MatNet, Arrays]]) -> tuple[MatNet, Arrays]:
    """A small model of every problem in turn."""
    return make_small(request.param)


@pytest.fixture
def small_model() -> Callable[[Any], Model]:
    """Return a function that makes an untrained model of a problem."""

    def make(problem: Any) -> Model:
        torch.manual_seed(0)
        model = Model(problem, ModelConfig(network=TINY))
        model.network.eval()
        return model

    return make
