"""What can be made: the tables and figures of the paper, and the ablations, each a list of rows to measure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from experiments import methods
from experiments.methods import BASE_SIZE, PAPER_SAMPLING, SHIPPED, classical, diffusion, matnet, ours, random
from experiments.table import Row, options_as_text, options_of
from experiments.variants import BASELINES
from icdc.evaluation.published import published_cost, published_generalisation
from icdc.io.datasets import STANDARD_SETS
from icdc.models.catalogue import GONE, available

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
        rows += methods.paper_icdc(dataset, f"paper-pmsp-{size}", scope.counts, ("last", "best"))
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
        rows += methods.paper_icdc(dataset, f"paper-{dataset}", scope.counts, ("last", "best"))
        rows += methods.paper_icdc(dataset, f"paper-{dataset}", scope.counts[-1:], ("refined",))
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
        trained += methods.paper_icdc(dataset, "paper-atsp-20", many)
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
        rows += methods.paper_icdc(dataset, f"paper-{problem}-20", scope.counts, ("last", "best"))
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
    "the posterior instead of fresh noise": FRESH.replace("fresh", "posterior"),
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
        paper = methods.paper_icdc(dataset, f"paper-{problem}-20", scope.counts, ("best",))
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
    return replace(row, options=methods.decoded_alike(row.dataset, row.samples))


def _with_the_paper(rows: list[Row], figure: Callable[[str, str, int], float | None], name: str) -> list[Row]:
    """Return rows with a published figure in the field of that name, those of answers that count as the paper does."""
    return [
        replace(row, **{name: figure(row.dataset, methods.METHODS[row.method].published, row.samples)})
        if row.answer in ("best", "last")
        else row
        for row in rows
    ]
