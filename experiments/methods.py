"""Every method that is compared, and its rows: classical solvers, MatNet, other sources of learning, and IC/DC."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from experiments.table import Answer, Row
from icdc.evaluation.published import published
from icdc.io.datasets import STANDARD_SETS


class Family(Enum):
    """Methods that are alike; the value is how the pages call them."""

    EXACT = "exact solvers"
    HEURISTIC = "other classical solvers"
    MATNET = "MatNet"
    PAPER_DIFFUSION = "diffusion by SL, RL or both, the paper's network"
    OUR_DIFFUSION = "diffusion by SL, RL or both, our network and decoding"
    PAPER_ICDC = "IC/DC, the paper's settings"
    OURS = "IC/DC"


@dataclass(frozen=True)
class Method:
    """How a method is called, what it belongs to, the solver that runs it, and its name among the published figures."""

    title: str
    family: Family
    solver: str
    published: str = ""


def _classical(name: str, title: str, family: Family = Family.HEURISTIC) -> tuple[str, Method]:
    return name, Method(title, family, name, name)


METHODS: dict[str, Method] = dict(
    (
        _classical("cplex", "CPLEX, the paper's MIP", Family.EXACT),
        _classical("cpsat", "CP-SAT", Family.EXACT),
        _classical("dp", "dynamic programming", Family.EXACT),
        _classical("branch", "branch and bound", Family.EXACT),
        _classical("random", "random"),
        _classical("sjf", "shortest job first"),
        _classical("lpt", "longest processing time first"),
        _classical("ga", "genetic algorithm"),
        _classical("pso", "particle swarm"),
        _classical("nn", "nearest neighbour"),
        _classical("ni", "nearest insertion"),
        _classical("fi", "furthest insertion"),
        _classical("patching", "assignment patching"),
        _classical("lkh", "LKH-3"),
    )
) | {
    "matnet": Method("MatNet", Family.MATNET, "matnet", "matnet"),
    "paper-sl": Method("diffusion SL, the paper's network", Family.PAPER_DIFFUSION, "network", "sl"),
    "paper-rl": Method("diffusion RL, the paper's network", Family.PAPER_DIFFUSION, "network", "rl"),
    "paper-slrl": Method("diffusion SL+RL, the paper's network", Family.PAPER_DIFFUSION, "network", "slrl"),
    "sl": Method("diffusion SL, our network and decoding", Family.OUR_DIFFUSION, "network"),
    "rl": Method("diffusion RL, our network and decoding", Family.OUR_DIFFUSION, "network"),
    "slrl": Method("diffusion SL+RL, our network and decoding", Family.OUR_DIFFUSION, "network"),
    "paper-icdc": Method("IC/DC, the paper's settings", Family.PAPER_ICDC, "network", "icdc"),
    "icdc": Method("IC/DC", Family.OURS, "network", "icdc"),
}
CLASSICAL: dict[str, tuple[str, ...]] = {
    "pmsp": ("cpsat", "dp", "sjf", "lpt", "ga", "pso"),
    "atsp": ("cplex", "cpsat", "branch", "nn", "ni", "fi", "patching", "lkh"),
    "navigation": ("cpsat", "branch"),
}
"""The classical solvers of each problem; the exact ones see the hidden travel times of navigation."""
SHIPPED = {"pmsp": "pmsp", "atsp": "atsp", "navigation": "navigation"}
PRESETS = {"atsp": "atsp-families", "pmsp": "pmsp-families", "navigation": "navigation-families"}
"""The presets of models that have other names."""
DECODING = {
    "atsp": {
        1: "decodes=32,order=rule,reverse=fresh,temperature=1.5",
        32: "decodes=32,order=rule,reverse=fresh,temperature=0.7",
    },
    "pmsp": {
        1: "decodes=512,order=rule,reverse=independent,temperature=2.0",
        8: "decodes=512,order=rule,reverse=independent,temperature=1.5",
    },
}
"""What validation chose for our own models of 20 cities, or jobs, with so many samples and more."""
"""The model that `icdc solve` takes for the test sets of a problem."""
BASE_SIZE = {"atsp": "atsp-20", "pmsp": "pmsp-20x4"}
"""The sizes for which the diffusion baselines have presets; others are these presets with another size."""

PAPER_SAMPLING = "steps=20,reverse=independent,order=rule,temperature=1.0,decodes=1,keep=last"
"""How the paper samples: elements are denoised independently, and one solution is decoded in the end."""
GREEDY = PAPER_SAMPLING + ",any_start=false"
"""Its diffusion baselines decode greedily from city 0, or job by job."""
ANSWERS: dict[Answer, str] = {
    "best": "",
    "last": PAPER_SAMPLING + ",reverse_temperature=0.0",
    "end": "decodes=1,keep=last",
    "refined": "refine=3",
}
"""The options that each kind of answer takes; see `experiments.table.Answer`."""


def problem_of(dataset: str) -> str:
    """Return the problem of a standard test set."""
    return STANDARD_SETS[dataset].problem


def classical(dataset: str, names: Iterable[str] = ()) -> list[Row]:
    """Return the rows of the classical solvers for a test set; all of them, if none are named."""
    return [
        Row(dataset, name, paper_gap=published(dataset, name, 1)) for name in names or CLASSICAL[problem_of(dataset)]
    ]


def random(dataset: str, counts: Iterable[int]) -> list[Row]:
    """Return the rows of random feasible solutions, the best of so many: what having learned nothing is worth."""
    return [Row(dataset, "random", count, paper_gap=published(dataset, "random", count)) for count in counts]


def matnet(dataset: str, model: str, counts: Iterable[int], *, trained_here: bool = True) -> list[Row]:
    """Return the rows of MatNet; `trained_here`: on this size, so that the paper's figure stands beside it."""
    return [
        Row(
            dataset, "matnet", count, model, paper_gap=published(dataset, "matnet", count) if trained_here else None,
            train=f"icdc train {model}",
        )
        for count in counts
    ]  # fmt: skip


def ours(
    dataset: str, model: str, counts: Iterable[int], answers: Iterable[Answer] = ANSWERS, *, trained_here: bool = True
) -> list[Row]:
    """Return the rows of one of our models, for each kind of answer; `trained_here` as for `matnet`."""
    return [
        Row(
            dataset, "icdc", count, model, answer, options=ANSWERS[answer],
            paper_gap=published(dataset, "icdc", count) if trained_here and answer in ("best", "last") else None,
            train=f"icdc train {PRESETS.get(model, model)}",
        )
        for answer in answers
        for count in counts
    ]  # fmt: skip


def paper_icdc(dataset: str, model: str, counts: Iterable[int], answers: Iterable[Answer] = ("last",)) -> list[Row]:
    """Return the rows of IC/DC with the paper's network and training, by this code; the last sample is the paper's."""
    return [
        Row(
            dataset, "paper-icdc", count, model, answer, options=PAPER_SAMPLING if answer == "last" else "",
            paper_gap=published(dataset, "icdc", count) if answer == "last" else None, train=f"icdc train {model}",
        )
        for answer in answers
        for count in counts
    ]  # fmt: skip


def diffusion(dataset: str, method: str, counts: Iterable[int], trained_on: str = "") -> list[Row]:
    """Return the rows of diffusion trained by supervision, by reward or by both.

    Parameters
    ----------
    method : "sl", "rl" or "slrl", after "paper-" with the paper's network and greedy decoding of the last sample;
        without it they have our network and are decoded as ours is.
    trained_on : the test set of the size it is trained on, if not this one.
    """
    size = trained_on or dataset
    key = METHODS[method].published
    return [
        Row(
            dataset, method, count, f"{method}-{size}", "last" if key else "best",
            options=GREEDY if key else decoded_alike(size, count),
            paper_gap=published(dataset, key, count) if key and size == dataset else None,
            train=" && ".join(training_commands(method, size)),
        )
        for count in counts
    ]  # fmt: skip


def decoded_alike(dataset: str, samples: int) -> str:
    """Return how models of our network are decoded with so many samples, whatever they learned from."""
    known = DECODING[STANDARD_SETS[dataset].problem]
    return known[max(count for count in known if count <= samples)]


def training_commands(method: str, size: str) -> list[str]:
    """Return the commands that train a diffusion baseline; `size` is the test set of that size."""
    spec = STANDARD_SETS[size]
    base = BASE_SIZE[spec.problem]
    solved = f"runs/solved-{size}.npz"
    before: list[str] = []
    setting = ""
    if method.endswith("slrl"):
        first = method.removesuffix("rl")
        before, setting = training_commands(first, size), f"init=runs/{first}-{size}/model.safetensors"
    elif method.endswith("sl"):
        # the quick exact solvers; dynamic programming's tables are too large for many machines and jobs
        exact = "branch" if spec.problem == "atsp" else "dp" if spec.size[0] * spec.size[1] <= 200 else "cpsat"
        dimensions = "x".join(map(str, spec.size))
        before = [
            f"icdc generate {spec.problem} --size {dimensions} --count 128000 --seed 1 --reference {exact} "
            f"--without-instances --out {solved}"
        ]
        setting = f"'targets.examples=[\"{solved}\"]'"
    command = f"icdc train {method}-{base}"
    if size != base:
        settings = [f'"sizes=[{list(spec.size)}]"', *([setting] if setting else [])]
        command += "".join(f" --set {text}" for text in settings) + f" --out runs/{method}-{size}"
    return [*before, command]
