"""A table of results: its rows, the CSV file that keeps them, every method that is compared, and every table.

A table (`TARGETS`) is a list of rows to measure: classical solvers, MatNet, other sources of learning, and IC/DC.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_type_hints

from experiments.training.variants import BASELINES
from icdc.errors import InputError
from icdc.evaluation.evaluate import Summary
from icdc.evaluation.published import published, published_cost, published_generalisation
from icdc.io.datasets import STANDARD_SETS
from icdc.models.catalogue import GONE, available

Answer = Literal["best", "last", "end", "refined"]
"""Which of a model's solutions counts.

best : the best of all that is decoded along the trajectories.
last : one solution decoded at the end of each trajectory of the plain reverse process, as the paper counts.
end : one solution decoded at the end of each of those trajectories that *best* looks along.
refined : the best, noised and denoised again a few times.
"""


@dataclass(frozen=True)
class Row:
    """One solver, with its settings, on one standard test set.

    method : a key of `experiments.tables.rows.METHODS`.
    samples : trajectories, or tries, for each instance.
    model : a shipped model, or a training run of that name; empty for solvers without one.
    change : in the ablations, what differs from the first row, as the table calls it.
    options : of the solver, as `icdc.make_solver` reads them: "steps=20,keep=last".
    paper_gap : the symmetric gap, in %, that the paper prints for it.
    paper_cost : the mean cost that the paper prints, where its gap is not to an optimum.
    train : the commands that train the model, joined by " && ".
    """

    dataset: str
    method: str
    samples: int = 1
    model: str = ""
    answer: Answer = "best"
    change: str = ""
    options: str = ""
    paper_gap: float | None = None
    paper_cost: float | None = None
    train: str = ""


@dataclass(frozen=True)
class Measured:
    """A row and what was measured, or a note that says why nothing was.

    settings : what a diffusion model was run with, its card's advice included.
    digest : of the model's file.
    """

    row: Row
    summary: Summary | None = None
    settings: str = ""
    digest: str = ""
    note: str = ""

    @property
    def gap(self) -> float | None:
        """Return the gap in %, if it was measured."""
        return None if self.summary is None else self.summary.gap


def options_of(text: str) -> dict[str, str]:
    """Return options by name; see `Row`."""
    return dict(part.split("=", 1) for part in text.split(",") if part)


def options_as_text(options: Mapping[str, object]) -> str:
    """Return options as a row has them."""
    return ",".join(f"{name}={value}" for name, value in options.items())


_LABELS = ("settings", "digest", "note")
_FIGURES = (
    "seed", "instances", "cost", "reference", "gap", "gap_low", "gap_high", "symmetric_gap", "optimal", "feasible",
    "below", "seconds", "device",
)  # fmt: skip
COLUMNS = (*(entry.name for entry in fields(Row)), *_LABELS, *_FIGURES)


def write_table(rows: Iterable[Measured]) -> str:
    """Return the CSV of some rows: every figure in full; rows that were not measured have a note instead."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for measured in rows:
        figures = {} if measured.summary is None else measured.summary.as_dict()
        known = vars(measured) | vars(measured.row) | figures
        writer.writerow(known | {"train": measured.row.train if measured.summary is None else ""})
    return buffer.getvalue()


def read_table(path: Path) -> list[Measured]:
    """Return the rows of what `write_table` wrote."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_read(line) for line in csv.DictReader(file)]
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: this is not a table of experiments ({error!r})") from error


def _read(line: dict[str, str]) -> Measured:
    row = Row(**{entry.name: _value(line[entry.name], Row, entry.name) for entry in fields(Row)})
    labels = {name: line[name] for name in _LABELS}
    if not line["seconds"]:
        return Measured(row, **labels)
    figures = {name: _value(line[name], Summary, name) for name in _FIGURES}
    each = figures["seconds"] / figures["instances"]
    about = {"dataset": row.dataset, "solver": row.method, "samples": row.samples}
    return Measured(row, Summary(**about, **figures, gap_at_most=None, seconds_per_instance=each), **labels)


def _value(text: str, cls: type, name: str) -> Any:
    """Read a cell as the type of a field: what is empty is None, or the field's default."""
    kind, default = _types(cls)[name]
    if kind == Answer:
        if text not in get_args(Answer):
            raise ValueError(f"'{text}' is none of {', '.join(get_args(Answer))}")
        return text
    return kind(text) if text else default


@cache
def _types(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return, by field of a dataclass, its type without None, and its default (None where there is none)."""
    hints = get_type_hints(cls)
    found = {}
    for entry in fields(cls):
        hint = hints[entry.name]
        kinds = [kind for kind in get_args(hint) if kind is not type(None)] if isinstance(hint, UnionType) else [hint]
        found[entry.name] = kinds[0], None if entry.default is MISSING else entry.default
    return found


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
"""The options that each kind of answer takes; see `experiments.tables.rows.Answer`."""


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


PMSP_SETS = ("pmsp-20x3", "pmsp-20x4", "pmsp-20x5", "pmsp-50x3", "pmsp-50x4", "pmsp-50x5")
ATSP_SETS = ("atsp-20", "atsp-50")
STEP_SETS = ("pmsp-20x3", "pmsp-50x3", "pmsp-50x5")
ALL_SIZES: dict[str, tuple[str, ...]] = {
    "atsp": tuple(f"atsp-{cities}" for cities in (*range(10, 51, 5), 100)),
    "pmsp": (*PMSP_SETS, "pmsp-100x5", "pmsp-100x10"),
}
"""The test sets of each problem that has several sizes, the smallest first."""
QUICK_SIZES = {"atsp": ("atsp-10", "atsp-20"), "pmsp": ("pmsp-20x3",)}
SAMPLES = (1, 8, 32, 128)
"""Numbers of samples, as in the paper."""


@dataclass(frozen=True)
class Scope:
    """How much of a target is measured.

    counts : numbers of samples, ascending.
    quick : a few sizes and steps only, to see that everything works.
    """

    counts: Sequence[int] = SAMPLES
    quick: bool = False


def pmsp_table(scope: Scope) -> list[Row]:
    """Makespans for 20 and 50 jobs on 3, 4 and 5 machines."""
    rows: list[Row] = []
    for dataset in ("pmsp-20x3", "pmsp-50x3") if scope.quick else PMSP_SETS:
        small = STANDARD_SETS[dataset].size[0] == 20
        size = 20 if small else 50
        rows += classical(dataset) + random(dataset, scope.counts)
        rows += matnet(dataset, f"matnet-pmsp-{size}", scope.counts)
        if not small:
            rows += matnet(dataset, "matnet-pmsp-20", scope.counts, trained_here=False)
        for method in ("paper-sl", "paper-rl"):
            rows += diffusion(dataset, method, scope.counts[-1:])
            if dataset != BASE_SIZE["pmsp"]:
                rows += diffusion(dataset, method, scope.counts[-1:], BASE_SIZE["pmsp"])
        rows += paper_icdc(dataset, f"paper-pmsp-{size}", scope.counts, ("last", "best"))
        rows += _ours_of_both(dataset, scope)
    return rows


def atsp_table(scope: Scope) -> list[Row]:
    """Tours through 20 and 50 cities."""
    rows: list[Row] = []
    for dataset in ATSP_SETS:
        rows += classical(dataset) + random(dataset, scope.counts)
        rows += matnet(dataset, f"matnet-{dataset}", scope.counts)
        sources = BASELINES
        rows += [row for method in sources for row in diffusion(dataset, method, scope.counts[-1:])]
        if dataset != BASE_SIZE["atsp"]:
            rows += matnet(dataset, "matnet-atsp-20", scope.counts, trained_here=False)
            rows += [row for method in sources for row in diffusion(dataset, method, scope.counts[-1:], "atsp-20")]
        rows += paper_icdc(dataset, f"paper-{dataset}", scope.counts, ("last", "best"))
        rows += paper_icdc(dataset, f"paper-{dataset}", scope.counts[-1:], ("refined",))
        rows += _ours_of_both(dataset, scope)
    return rows


def navigation_table(scope: Scope) -> list[Row]:
    """Routes whose travel times are hidden behind coordinates, slowness and traffic."""
    name, most = "navigation-20", scope.counts[-1]
    counts = sorted({*scope.counts, *([64] if most >= 64 else [])})  # the paper prints its own method with 64
    rows = classical(name) + random(name, scope.counts)
    rows += matnet(name, "matnet-navigation-20", (*scope.counts, 2 * most)) + ours(name, SHIPPED["navigation"], counts)
    return _with_the_paper(rows, published_cost, "paper_cost")


def generalisation(scope: Scope) -> list[Row]:
    """Models trained on 20 cities or jobs alone, and on mixed sizes, at other sizes."""
    sets, many = QUICK_SIZES if scope.quick else ALL_SIZES, scope.counts[-1:]
    ends = sorted({scope.counts[0], scope.counts[-1]})
    rows: list[Row] = []
    for dataset in sets["atsp"]:
        trained = matnet(dataset, "matnet-atsp-20", many)
        for method in ("paper-sl", "sl", "paper-rl", "rl"):
            trained += diffusion(dataset, method, many, "atsp-20")
        trained += paper_icdc(dataset, "paper-atsp-20", many)
        trained += ours(dataset, "atsp-20", many)
        rows += _with_the_paper(trained, lambda name, key, _: published_generalisation(name, key), "paper_gap")
        rows += ours(dataset, "atsp", many, ("best", "refined"), trained_here=False)
        rows += classical(dataset, ("patching",)) + random(dataset, ends)
    for dataset in sets["pmsp"]:
        rows += matnet(dataset, "matnet-pmsp-20", many, trained_here=False)
        rows += ours(dataset, "pmsp-20", many, trained_here=False)
        rows += ours(dataset, "pmsp", many, ("best", "refined"), trained_here=False)
        rows += classical(dataset, ("lpt",)) + random(dataset, ends)
    return rows


def sampling_steps(scope: Scope) -> list[Row]:
    """Gap and time against the number of reverse steps."""
    rows: list[Row] = []
    for dataset in STEP_SETS[:1] if scope.quick else STEP_SETS:
        for row in ours(dataset, SHIPPED["pmsp"], scope.counts, ("best", "last"), trained_here=False):
            for steps in (1, 20) if scope.quick else (1, 2, 3, 4, 5, 7, 10, 20):
                rows.append(replace(row, options=options_as_text(options_of(row.options) | {"steps": steps})))
        rows += matnet(dataset, f"matnet-pmsp-{STANDARD_SETS[dataset].size[0]}", scope.counts[-1:])
        rows += random(dataset, scope.counts)
    return rows


def training_comparison(scope: Scope) -> list[Row]:
    """Supervision, reward, both, and none of them: the same diffusion model from other sources of learning."""
    rows: list[Row] = []
    for problem, dataset in BASE_SIZE.items():
        rows += random(dataset, scope.counts)
        for method in ("paper-sl", "paper-rl", "paper-slrl", "sl", "rl", "slrl"):
            rows += diffusion(dataset, method, scope.counts)
        rows += paper_icdc(dataset, f"paper-{problem}-20", scope.counts, ("last", "best"))
        alone = ours(dataset, f"{problem}-20", scope.counts, ("best", "last", "end"))
        rows += [_decoded_alike(row) for row in alone]
        rows += ours(dataset, SHIPPED[problem], scope.counts, ("best", "last", "end"))
    return rows


FRESH = "reverse=fresh,order=rule,temperature=1.0,decodes=8"
CHANGES: dict[str, str] = {
    "nothing: fresh noise, 8 decodes a pass": FRESH,
    "only the last solution counts": FRESH + ",keep=last",
    "one decode a pass": FRESH.replace("decodes=8", "decodes=1"),
    "128 decodes a pass": FRESH.replace("decodes=8", "decodes=128"),
    "elements denoised independently": FRESH.replace("fresh", "independent"),
    "decoded by confidence": FRESH.replace("order=rule", "order=confidence"),
    "temperature 0.5": FRESH.replace("temperature=1.0", "temperature=0.5"),
    "5 steps": FRESH + ",steps=5",
    "refined three times": FRESH + ",refine=3",
    "as the paper samples": PAPER_SAMPLING,
    "as the model's card advises": "",
}
"""The options that a change of solving means, by what the table calls it."""


def ablations(scope: Scope) -> list[Row]:
    """One choice of solving changed at a time, and the paper's preset instead of ours."""
    rows: list[Row] = []
    for problem, dataset in BASE_SIZE.items():
        for change, options in CHANGES.items():
            alone = ours(dataset, f"{problem}-20", scope.counts, ("best",), trained_here=False)
            rows += [replace(row, change=change, options=options) for row in alone]
        paper = paper_icdc(dataset, f"paper-{problem}-20", scope.counts, ("best",))
        rows += [replace(row, change="the paper's preset, trained as long") for row in paper]
        rows += [replace(row, change="random solutions") for row in random(dataset, scope.counts)]
    return rows


TARGETS: dict[str, Callable[[Scope], list[Row]]] = {
    "pmsp-table": pmsp_table,
    "atsp-table": atsp_table,
    "navigation-table": navigation_table,
    "training-comparison": training_comparison,
    "generalisation": generalisation,
    "sampling-steps": sampling_steps,
    "ablations": ablations,
}


def _ours_of_both(dataset: str, scope: Scope) -> list[Row]:
    """Return the rows of the shipped model, and of the one that is trained at 20 cities or jobs alone."""
    spec = STANDARD_SETS[dataset]
    here = spec.size[0] == 20
    counts = scope.counts if here else scope.counts[-1:]
    rows = ours(dataset, SHIPPED[spec.problem], scope.counts)
    return rows + ours(dataset, f"{spec.problem}-20", counts, trained_here=here)


def _decoded_alike(row: Row) -> Row:
    """Return a row with the settings of the shipped model for its set, where its own model has no card with others."""
    if row.answer != "best" or row.model in (*available(), *GONE):
        return row
    return replace(row, options=decoded_alike(row.dataset, row.samples))


def _with_the_paper(rows: list[Row], figure: Callable[[str, str, int], float | None], name: str) -> list[Row]:
    """Return rows with a published figure in the field of that name, those of answers that count as the paper does."""
    return [
        replace(row, **{name: figure(row.dataset, METHODS[row.method].published, row.samples)})
        if row.answer in ("best", "last")
        else row
        for row in rows
    ]
