"""The rows of every method: classical solvers, MatNet, diffusion with other sources of learning, and ours."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..baselines.published import published
from ..data.standard import STANDARD_SETS
from ..errors import UsageError
from ..model import advised, available, card_of, default_for
from ..training.examples import examples_command
from .rows import Row

CLASSICAL: dict[str, dict[str, str]] = {
    "pmsp": {
        "cpsat": "CP-SAT, exact",
        "dp": "dynamic programming, exact",
        "sjf": "shortest job first",
        "lpt": "longest processing time first",
        "ga": "genetic algorithm",
        "pso": "particle swarm",
    },
    "atsp": {
        "cplex": "CPLEX, exact (the paper's MIP)",
        "cpsat": "CP-SAT, exact",
        "branch": "branch and bound, exact",
        "nn": "nearest neighbour",
        "ni": "nearest insertion",
        "fi": "furthest insertion",
        "patching": "assignment patching",
        "lkh": "LKH-3",
    },
    "navigation": {
        "random": "random",
        "cpsat": "CP-SAT on the hidden travel times, exact",
        "branch": "branch and bound on the hidden travel times, exact",
    },
}
BASE_SIZE = {"atsp": "atsp-20", "pmsp": "pmsp-20x4"}
"""The sizes for which the diffusion baselines have presets; others are these presets with another size."""
TRAINED_WITH = {"sl": "SL", "rl": "RL", "slrl": "SL+RL"}
"""Sources of learning other than the model's own generations, as the paper calls them."""

PAPER_SAMPLING = "steps=20,reverse=independent,order=rule,temperature=1.0,decodes=1,keep=last"
"""How the paper samples: elements are denoised independently, and one solution is decoded in the end."""
FROM_ROW_0 = PAPER_SAMPLING + ",any_start=false"
"""Its diffusion baselines decode greedily from city 0, or job by job."""
MIXED = "IC/DC, ours, mixed sizes"
"""How tables call the model for many sizes where the one for a single size stands beside it."""
LAST = "decodes=1,keep=last"
"""The last solution of a trajectory alone, as the paper counts a sample, instead of the best on the way."""
PLAIN_LAST = "reverse=independent,order=rule,temperature=1.0,reverse_temperature=0.0," + LAST
"""The same, by the plain reverse process."""


def last_of(model: str) -> str:
    """Return the options for the last solution of a model's trajectories alone.

    Where its card advises warm reverse steps, those are for the best of all that is decoded on the way, and far too
    warm for one sample.
    """
    advice = card_of(model).get("solving", []) if model in available() else []
    warm = any(entry["options"].get("reverse_temperature") for entry in advice)
    return PLAIN_LAST if warm else LAST


def problem_of(dataset: str) -> str:
    """Return the problem of a standard test set."""
    return STANDARD_SETS[dataset].problem


def classical(dataset: str) -> list[Row]:
    """Return the rows of the classical solvers for a test set."""
    return [
        Row(dataset, words, name, paper=published(dataset, name, 1))
        for name, words in CLASSICAL[problem_of(dataset)].items()
    ]


def matnet(dataset: str, model: str, counts: Iterable[int], words: str = "MatNet") -> list[Row]:
    """Return the rows of MatNet with a model of that name."""
    return [
        Row(
            dataset, words, "matnet", count, model, f"icdc train {model}",
            published(dataset, "matnet", count) if "trained at" not in words else None,
        )
        for count in counts
    ]  # fmt: skip


def ours(
    dataset: str, model: str, counts: Iterable[int], words: str = "IC/DC, ours", *, elsewhere: bool = False
) -> list[Row]:
    """Return our rows: the best of every trajectory, its last solution alone, and refined.

    elsewhere : the model was not trained on this size, so that the paper's figures are not beside the row.
    """
    rows = []
    train = f"icdc train {model}"
    for count in counts:
        paper = None if elsewhere else published(dataset, "icdc", count)
        rows += [
            Row(dataset, words, "icdc", count, model, train, paper),
            Row(dataset, f"{words}, last sample alone", f"icdc:{last_of(model)}", count, model, train, paper),
            Row(dataset, f"{words}, refined", "icdc:refine=3", count, model, train),
        ]
    return rows


def decoded_alike(row: Row) -> Row:
    """Return a row of ours with the settings of the shipped model for its set, where its own model's card has none."""
    if row.solver != "icdc" or row.model in available():
        return row
    return replace(row, solver=f"icdc:{_as_text(_advice(row.dataset, row.samples))}")


def as_in_the_paper(dataset: str, model: str, counts: Iterable[int]) -> list[Row]:
    """Return the rows of IC/DC with the paper's network, training and sampling, trained by this code."""
    steps = "icdc:" + PAPER_SAMPLING  # never more than the T of the model
    return [
        Row(
            dataset, "IC/DC as in the paper, trained here", steps, count, model, f"icdc train {model}",
            published(dataset, "icdc", count),
        )
        for count in counts
    ]  # fmt: skip


def diffusion(dataset: str, key: str, counts: Iterable[int], *, paper: bool, trained: str = "") -> list[Row]:
    """Return the rows of diffusion trained by supervision ("sl"), reward ("rl") or both ("slrl").

    Parameters
    ----------
    paper : as the paper describes it, otherwise with our denoiser, steps and decoding.
    trained : the test set of the size it is trained on, if not this one.
    """
    size = trained or dataset
    head = f"paper-{key}" if paper else key
    words = f"diffusion {TRAINED_WITH[key]}, " + ("as in the paper" if paper else "our denoiser and decoding")
    rows = []
    for count in counts:
        options = FROM_ROW_0 if paper else _as_text(_advice(size, count))
        rows.append(
            Row(
                dataset,
                words if size == dataset else f"{words}, trained on {size}",
                f"icdc:{options}",
                count,
                f"{head}-{size}",
                train_commands(head, size),
                published(dataset, key, count) if paper and size == dataset else None,
            )
        )
    return rows


def train_commands(head: str, size: str) -> str:
    """Return the commands that train one of the diffusion baselines, one a line.

    Parameters
    ----------
    head : "sl", "rl" or "slrl", after "paper-" for the paper's.
    size : the test set of the size it is trained on.
    """
    spec = STANDARD_SETS[size]
    examples = f"runs/solved-{size}.npz"
    base = BASE_SIZE[spec.problem]
    if head.endswith("slrl"):
        before = train_commands(head.replace("slrl", "sl"), size)
        other = f"init=runs/{head.replace('slrl', 'sl')}-{size}/model.safetensors"
    elif head.endswith("sl"):
        before = examples_command(spec.problem, spec.size, examples)
        other = f"'targets.examples=[\"{examples}\"]'"
    else:
        before = other = ""
    command = f"icdc train {head}-{base}"
    if size != base:
        command += f' --set "sizes=[{list(spec.size)}]"' + (f" --set {other}" if other else "")
        command += f" --out runs/{head}-{size}"
    return "\n".join(filter(None, [before, command]))


def _advice(size: str, samples: int) -> Mapping[str, Any]:
    """Return how the shipped model for a test set solves best with so many samples, so that all decode alike."""
    spec = STANDARD_SETS[size]
    try:
        name = default_for(spec.problem, spec.size)
    except UsageError:
        return {}
    return advised(card_of(name), spec.size, samples)


def _as_text(options: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())
