"""Sources of instances: a problem's generator, a set, and a set with solutions, the targets of supervision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.baselines.heuristics import RandomSolver
from icdc.errors import InputError, UsageError
from icdc.io.datasets import Dataset, write_dataset
from icdc.kernels import Noise, fold, root_key
from icdc.problems import get_problem
from icdc.problems.families import sample_family
from icdc.problems.pmsp import Pmsp
from icdc.problems.tensors import to_tensors
from icdc.settings import build
from icdc.solving.network import DiffusionSolver
from icdc.training import Trainer, TrainingConfig
from icdc.training.presets import read_settings
from icdc.training.sources import Batch, Generated, GivenSet, examples_command, read_examples
from icdc.training.steps import Steps

CPU = torch.device("cpu")


def noise_of(seed: int) -> Callable[[int], Noise]:
    return lambda count: Noise(fold(root_key(seed), torch.arange(count)))


def solved(path: Path, name: str, size: tuple[int, ...], count: int = 256, spoil: bool = False) -> str:
    """Write instances with the best of many random solutions, good enough to learn from."""
    problem = get_problem(name)
    arrays = problem.sample(count, size, np.random.default_rng(1))
    answers = RandomSolver().solve(problem, arrays, samples=512)
    choice = answers.choice.copy()
    if spoil:
        choice[3] = -1
    write_dataset(path, Dataset(problem, arrays, answers.cost, answers.proven, choice))
    return str(path)


def supervised(name: str, size: list[int], examples: str, **changes: Any) -> TrainingConfig:
    values: dict[str, Any] = {
        "problem": name,
        "sizes": [size],
        "rounds": 50,
        "model": {
            "network": {"width": 32, "heads": 4, "edge_width": 16, "encoder_layers": 1, "denoiser_layers": 2},
            "diffusion": {"steps": 8},
        },
        "targets": {"instances": 64, "trajectories": 1, "examples": [examples], "sampling": {"steps": 3}},
        "cloning": {"batch": 64, "steps_first": 4, "steps_last": 4, "drafts": 0.0},
        "improvement": {"weight": 0.0},
        "optimizer": {"learning_rate": 2e-3, "warmup_rounds": 5, "average": 0.9},
    }
    for key, table in changes.items():
        values[key] = {**values[key], **table} if isinstance(table, dict) else table
    return build(TrainingConfig, values)


def test_supervision_beats_chance_by_far(tmp_path: Path) -> None:
    examples = solved(tmp_path / "solved.npz", "pmsp", (6, 3))
    model = Trainer(supervised("pmsp", [6, 3], examples, rounds=15), device="cpu").run()
    arrays = model.problem.sample(64, (6, 3), np.random.default_rng(5))
    cost = (
        DiffusionSolver(model, steps=4, keep="last", decodes=1, device="cpu").solve(model.problem, arrays).cost.mean()
    )
    assert cost < 0.75 * RandomSolver().solve(model.problem, arrays).cost.mean()
    assert "with solutions" in model.card["data"]


def test_targets_are_the_solutions_of_their_own_instances(tmp_path: Path) -> None:
    """What lies in the memory belongs together, with and without drafts of the network's own."""
    path = solved(tmp_path / "solved.npz", "pmsp", (5, 2))
    problem = get_problem("pmsp")
    known = read_examples(path, problem, (5, 2), CPU)
    assert known.solutions is not None
    features = problem.features(known.instances).relations
    for drafts in (0.0, 0.5):
        trainer = Trainer(supervised("pmsp", [5, 2], path, rounds=2, cloning={"drafts": drafts}), device="cpu")
        trainer.run()
        memory = trainer.steps[0].memory
        stored = int(memory.stored)
        assert stored == 128
        for relations, choice in zip(
            memory.items.features.relations[:stored], memory.items.choice[:stored], strict=True
        ):
            distance, nearest = (features - relations).abs().amax((1, 2, 3)).min(0)
            assert float(distance) < 1e-5
            assert torch.equal(known.solutions[nearest], choice)
        same = (memory.items.draft == memory.items.choice)[:stored].all()
        assert bool(same) is (drafts == 0.0)


def test_examples_are_drawn_by_the_noise(tmp_path: Path) -> None:
    examples = read_examples(solved(tmp_path / "s.npz", "pmsp", (5, 2)), get_problem("pmsp"), (5, 2), CPU)
    drawn = [GivenSet(examples, noise_of(seed), np.random.default_rng(0)).draw(40).solutions for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize(("name", "size"), [("atsp", (5,)), ("pmsp", (5, 3)), ("navigation", (5,))])
def test_a_set_gives_its_own_instances_and_no_others(name: str, size: tuple[int, ...]) -> None:
    problem = get_problem(name)
    instances = to_tensors(problem.sample(4, size, np.random.default_rng(1)))
    drawn = GivenSet(Batch(instances), noise_of(0), np.random.default_rng(0)).draw(50)
    assert drawn.solutions is None
    assert drawn.instances.keys() == instances.keys()
    for index in range(50):  # all arrays of one instance
        assert any(all(torch.equal(drawn.instances[k][index], a[i]) for k, a in instances.items()) for i in range(4))
    first = problem.arrays[0]
    assert len({one.numpy().tobytes() for one in drawn.instances[first]}) == 4


def test_a_generator_draws_on_the_device_or_on_the_host() -> None:
    class HostOnly(Pmsp):
        def sample_on_device(self, size, noise):  # type: ignore[no-untyped-def]
            return None

    for problem in (Pmsp(), HostOnly()):
        source = Generated(problem, (5, 2), noise_of(3), np.random.default_rng(7), CPU)
        assert source.on_device is (type(problem) is Pmsp)
        durations = source.draw(6).instances["durations"]
        assert durations.shape == (6, 5, 2)
    expected = Pmsp().sample(6, (5, 2), np.random.default_rng(7))["durations"]
    assert durations.tolist() == expected.tolist()


def test_a_generator_shares_a_round_among_families() -> None:
    names = ("paper", "forbidden", "forbidden")

    class HostOnly(Pmsp):
        def sample_on_device(self, size, noise):  # type: ignore[no-untyped-def]
            return None

    for problem in (Pmsp(), HostOnly()):
        source = Generated(problem, (5, 3), noise_of(3), np.random.default_rng(7), CPU, names)
        assert source.on_device is (type(problem) is Pmsp)
        first, second = (source.draw(6).instances["durations"] for _ in range(2))
        assert (first.amax((1, 2)) > 1000).tolist() == [False] * 2 + [True] * 4
        assert torch.equal(first, second) is source.on_device  # the noise of this test is always the same
    with pytest.raises(UsageError, match="no family 'crane'"):
        Generated(Pmsp(), (5, 3), noise_of(3), np.random.default_rng(7), CPU, ("crane",))


def test_sources_say_whether_pairs_may_be_forbidden() -> None:
    """Of families it is known; a set from outside may bring some any time."""

    def generated(*names: str) -> Generated:
        return Generated(Pmsp(), (5, 3), noise_of(3), np.random.default_rng(7), CPU, names)

    assert not generated().forbids
    assert not generated("paper", "speeds").forbids
    assert generated("paper", "forbidden").forbids
    instances = {"durations": torch.ones(2, 3, 2)}
    assert GivenSet(Batch(instances), noise_of(0), np.random.default_rng(0)).forbids


@pytest.mark.parametrize(("problem", "sizes"), [("pmsp", [[6, 4]]), ("atsp", [[6]])])
def test_a_run_learns_instances_with_forbidden_pairs(problem: str, sizes: list[list[int]]) -> None:
    """IMPROVEMENT and CLONING both; what is stored as a target uses no forbidden pair where the mask lets it."""
    values = {
        "problem": problem, "sizes": sizes, "rounds": 3, "families": ["forbidden"],
        "model": {"network": {"width": 16, "heads": 2, "edge_width": 4, "encoder_layers": 1, "denoiser_layers": 1},
                  "diffusion": {"steps": 4}},
        "targets": {"instances": 16, "trajectories": 2, "sampling": {"steps": 2}},
        "cloning": {"batch": 8, "steps_first": 1, "steps_last": 1},
        "improvement": {"weight": 0.5, "sampling": {"steps": 2, "order": "rule", "reverse": "fresh"}},
    }  # fmt: skip
    trainer = Trainer(build(TrainingConfig, values), device="cpu")
    trainer.run()
    (steps,) = trainer.steps
    assert isinstance(steps, Steps)
    permitted = steps.task()[1].mask(1)
    assert permitted is not None
    assert not permitted.all()
    latest = steps.memory.items.choice[2 * 16 : 3 * 16]  # of the third round, whose instances are still there
    kept = permitted.gather(2, latest[..., None]).squeeze(2).all(1)
    assert kept.float().mean() > (0.999 if problem == "pmsp" else 0.8)
    assert all(torch.isfinite(p).all() for p in trainer.weights.model.network.parameters())


def test_a_run_learns_families_and_its_card_says_so() -> None:
    values = {
        "problem": "pmsp", "sizes": [[5, 3], [6, 3]], "rounds": 2, "families": ["paper", "heavy-tailed"],
        "model": {"network": {"width": 16, "heads": 2, "edge_width": 4, "encoder_layers": 1, "denoiser_layers": 1},
                  "diffusion": {"steps": 4}},
        "targets": {"instances": 4, "trajectories": 1, "sampling": {"steps": 2}},
        "cloning": {"batch": 4, "steps_first": 1, "steps_last": 1},
    }  # fmt: skip
    model = Trainer(build(TrainingConfig, values), device="cpu").run()
    assert model.card["data"].endswith("of the families paper, heavy-tailed; no solutions")
    own = Trainer(build(TrainingConfig, values | {"families": []}), device="cpu").run()
    assert "own generator" in own.card["data"]
    assert "ranges" not in own.card
    solver = DiffusionSolver(model)
    assert solver.unfamiliar(Pmsp(), sample_family(Pmsp(), "heavy-tailed", 1, (5, 3), np.random.default_rng(1))) == [
        None
    ]
    wide = {"durations": np.array([[[1, 1, 900], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]]])}
    assert solver.unfamiliar(Pmsp(), wide) != [None]
    spread = model.card["ranges"]["spread"]
    assert spread[0] < 0.5  # of the paper's own
    assert spread[1] > 1.0  # of the heavy tails


def test_examples_and_families_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out families"):
        supervised("pmsp", [5, 2], "solved.npz", families=["paper"])


def test_an_interrupted_supervised_run_resumes(
    tmp_path: Path, stop_before: Callable[[Any, int], None], assert_same_weights: Callable[[Any, Any], None]
) -> None:
    path = solved(tmp_path / "solved.npz", "pmsp", (5, 2))
    whole = Trainer(supervised("pmsp", [5, 2], path, rounds=4), device="cpu").run()
    stop_before(Trainer(supervised("pmsp", [5, 2], path, rounds=4), device="cpu", out=tmp_path / "run"), 2)
    resumed = Trainer(supervised("pmsp", [5, 2], path), device="cpu", out=tmp_path / "run", resume=True).run()
    assert_same_weights(whole, resumed)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    problem = get_problem("pmsp")
    with pytest.raises(InputError, match="icdc generate pmsp --size 5x2 --count 128000"):
        read_examples(str(tmp_path / "missing.npz"), problem, (5, 2), CPU)
    path = solved(tmp_path / "s.npz", "pmsp", (5, 2), count=8)
    with pytest.raises(InputError, match=r"size \[5, 2\], the run learns \[5, 3\]"):
        read_examples(path, problem, (5, 3), CPU)
    spoiled = solved(tmp_path / "spoiled.npz", "pmsp", (5, 2), count=8, spoil=True)
    with pytest.raises(InputError, match="instance 3 is not feasible"):
        read_examples(spoiled, problem, (5, 2), CPU)
    bare = tmp_path / "bare.npz"
    write_dataset(bare, Dataset(problem, problem.sample(4, (5, 2), np.random.default_rng(0))))
    with pytest.raises(InputError, match="no solutions"):
        read_examples(str(bare), problem, (5, 2), CPU)


@pytest.mark.parametrize(
    ("name", "size", "solver"),
    [("atsp", (20,), "branch"), ("pmsp", (20, 4), "dp"), ("pmsp", (50, 5), "cpsat"), ("navigation", (9,), "branch")],
)
def test_examples_are_made_by_the_quickest_exact_solver(name: str, size: tuple[int, ...], solver: str) -> None:
    problem = get_problem(name)
    assert f"--reference {solver} --without-instances --out runs/x.npz" in examples_command(problem, size, "runs/x.npz")


def preset_config(name: str) -> TrainingConfig:
    return build(TrainingConfig, read_settings(name))


@pytest.mark.parametrize("preset", ["sl-atsp-20", "sl-pmsp-20x4", "paper-sl-atsp-20", "paper-sl-pmsp-20x4"])
def test_presets_say_how_their_examples_are_made(preset: str) -> None:
    config = preset_config(preset)
    text = (Path(icdc.__file__).parent / "training" / "presets" / f"{preset}.toml").read_text().replace(" \\\n#  ", "")
    assert examples_command(get_problem(config.problem), tuple(config.sizes[0]), config.targets.examples[0]) in text


@pytest.mark.parametrize("size", ["atsp-20", "pmsp-20x4"])
@pytest.mark.parametrize("how", ["sl", "rl", "slrl"])
def test_presets_of_the_learned_baselines(how: str, size: str) -> None:
    """As the paper describes them, and with our denoiser; a run after supervision begins at its weights."""
    paper, ours = preset_config(f"paper-{how}-{size}"), preset_config(f"{how}-{size}")
    assert (paper.model.network.encoder, paper.model.network.denoiser) == ("dual", "gated")
    assert ours.model.network == TrainingConfig().model.network
    assert paper.model.diffusion.steps == 20
    for config, prefix in ((paper, "paper-"), (ours, "")):
        assert config.clones is (how == "sl")
        assert bool(config.targets.examples) is (how == "sl")
        assert (config.improvement.weight > 0) is (how != "sl")
        assert config.init == (f"runs/{prefix}sl-{size}/model.safetensors" if how == "slrl" else "")
    if how != "sl":
        assert paper.improvement.sampling.reverse == "independent"
        assert not paper.improvement.sampling.any_start
        assert preset_config(f"paper-sl-{size}").model == paper.model
