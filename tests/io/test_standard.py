"""The standard sets are what everybody has, and every shipped reference is attained and within its bound."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import icdc
from icdc.errors import InputError, UsageError
from icdc.io import standard
from icdc.io.dataset import fingerprint
from icdc.io.standard import (
    FAMILY_SETS,
    PAPER_SETS,
    STANDARD_SETS,
    Provenance,
    open_dataset,
    provenance,
    shipped_references,
    standard_set,
    write_references,
)
from icdc.problems.registry import get_problem
from icdc.solving.registry import SOLVERS
from icdc.solving.verify import judge

MEANS = {"pmsp-20x3": 42.44, "pmsp-20x4": 27.97, "pmsp-20x5": 20.67, "pmsp-50x3": 101.70, "pmsp-50x4": 65.95,
         "pmsp-50x5": 46.88, "pmsp-100x5": 91.71, "atsp-20": 1.540e6, "atsp-50": 1.567e6, "atsp-100": 1.571e6,
         "navigation-20": 1.546}  # fmt: skip
"""Mean optima of other draws of the same sizes; two draws of these lengths agree within about 2 %."""


@pytest.mark.parametrize("name", PAPER_SETS)
def test_a_standard_set_is_whole_and_its_references_are_attained(name: str) -> None:
    dataset = standard_set(name)
    spec = STANDARD_SETS[name]
    assert len(dataset) == spec.count
    assert dataset.problem.size(dataset.arrays) == spec.size
    assert dataset.reference is not None
    assert dataset.proven is not None
    assert dataset.choice is not None
    assert dataset.proven.all()
    feasible, cost = judge(dataset.problem, dataset.arrays, dataset.choice)
    assert feasible.all()
    assert np.allclose(cost, dataset.reference, rtol=1e-12)
    bound = dataset.problem.lower_bound(dataset.arrays)
    assert bound is not None
    assert (bound <= dataset.reference).all()
    if name in MEANS:
        assert dataset.reference.mean() == pytest.approx(MEANS[name], rel=0.02)


def test_the_sets_of_the_paper_are_all_there() -> None:
    pmsp = {f"pmsp-{jobs}x{machines}" for jobs in (20, 50) for machines in (3, 4, 5)}
    atsp = {f"atsp-{cities}" for cities in (10, 15, 20, 25, 30, 35, 40, 45, 50, 100)}
    larger = {"pmsp-100x5", "pmsp-100x10"}
    assert set(PAPER_SETS) == pmsp | larger | atsp | {"navigation-20"}
    counts = {name: spec.count for name, spec in PAPER_SETS.items()}
    assert {counts[name] for name in pmsp | {"atsp-20", "atsp-50", "navigation-20"}} == {1000}
    assert {counts[name] for name in larger | {"atsp-100"}} == {128}
    assert counts["atsp-35"] == 200
    assert len({spec.seed for spec in STANDARD_SETS.values()}) == len(STANDARD_SETS)


def test_the_sets_of_families_are_all_there() -> None:
    sizes = ("100x10", "100x20", "200x20", "200x50", "1000x50")
    pmsp = {f"pmsp-{f}-{s}" for f in ("job-correlated", "machine-correlated", "uniform-100") for s in sizes}
    cities = {
        "uniform": (20, 50, 100), "noisy-plane": (50, 100, 200), "one-way-plane": (50, 100, 200),
        "roads": (50, 100, 170, 200), "crane": (50, 100, 200, 300, 450),
    }  # fmt: skip
    atsp = {f"atsp-{family}-{size}" for family, every in cities.items() for size in every}
    assert set(FAMILY_SETS) == pmsp | {"pmsp-200x10"} | atsp | {"atsp-200", "atsp-500", "atsp-1000"}
    for name, spec in FAMILY_SETS.items():
        assert name == "-".join(filter(None, (spec.problem, spec.family, "x".join(map(str, spec.size)))))
        assert spec.family is None or spec.family in get_problem(spec.problem).families
        assert spec.count == (20 if spec.problem == "atsp" and spec.size[0] <= 50 else 10)


def test_the_largest_set_begins_as_its_references_say() -> None:
    """All of it takes seconds to draw; the first instance is the same without the others."""
    spec, known = FAMILY_SETS["atsp-1000"], shipped_references("atsp-1000")
    problem = get_problem("atsp")
    first = replace(spec, count=1).sample.draw(problem)
    assert fingerprint(first)[:16] == "1a7760eed2a53292"
    if known:
        feasible, cost = judge(problem, first, known["choice"][:1].astype(np.int64))
        assert feasible[0]
        assert cost[0] == known["reference"][0]


@pytest.mark.parametrize("name", [name for name in FAMILY_SETS if name != "atsp-1000"])
def test_a_set_of_a_family_is_whole_and_its_references_are_attained(name: str) -> None:
    """The instances are those of the digest; every reference is the cost of its solution, and says who found it."""
    dataset, spec = standard_set(name), FAMILY_SETS[name]
    assert len(dataset) == spec.count
    assert dataset.problem.size(dataset.arrays) == spec.size
    how = provenance(name)
    assert (dataset.reference is None) == (how is None) == (not shipped_references(name))
    if dataset.reference is None or dataset.proven is None or dataset.choice is None or how is None:
        return
    feasible, cost = judge(dataset.problem, dataset.arrays, dataset.choice)
    assert feasible.all()
    assert np.array_equal(cost, dataset.reference)
    assert ((how.proven_by != "") == dataset.proven).all()
    named = {text.split(":")[0] for text in (*how.found_by, *how.proven_by)}
    assert named <= {*SOLVERS, "mip", ""}
    assert (how.found_by != "").all()
    assert (how.seconds > 0).all()
    if np.prod(dataset.problem.shape(spec.size)) <= 10_000:
        bound = dataset.problem.lower_bound(dataset.arrays)
        assert bound is not None
        assert (bound <= dataset.reference).all()


def test_how_a_reference_is_known() -> None:
    how = Provenance(np.array(["search", "lkh:runs=5"]), np.array([10.0, 2.5]), np.array(["branch", ""]))
    assert how[0] == "proven by branch"
    assert how[1] == "best known, lkh:runs=5, 2.5 s"
    assert provenance("atsp-10") is None


def test_references_carry_their_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = standard_set("atsp-10")
    words = np.array(["search"] * len(dataset))
    path = write_references(dataset, tmp_path / "references", Provenance(words, np.full(len(words), 3.0), words))
    monkeypatch.setattr(standard.resources, "files", lambda package: tmp_path)
    how = provenance("atsp-10")
    assert how is not None
    assert how[7] == "proven by search"
    assert how.seconds.tolist() == [3.0] * len(dataset)
    again = standard_set("atsp-10")
    assert again.reference is not None
    assert np.array_equal(again.reference, dataset.reference)
    path.unlink()
    assert standard_set("atsp-10").reference is None
    assert provenance("atsp-10") is None


def test_what_ships_is_small() -> None:
    folder = Path(icdc.__file__).parent / "io" / "references"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1_000_000


def test_instances_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = STANDARD_SETS["atsp-10"]
    monkeypatch.setitem(standard.STANDARD_SETS, "atsp-10", replace(spec, seed=spec.seed + 1))
    with pytest.raises(InputError, match="SHA-256"):
        standard_set("atsp-10")


def test_references_are_written_as_they_ship(tmp_path: Path) -> None:
    dataset = standard_set("atsp-15")
    path = write_references(dataset, tmp_path)
    with (
        np.load(path) as mine,
        np.load(Path(icdc.__file__).parent / "io/references/atsp-15.npz") as shipped,
    ):
        assert all(np.array_equal(mine[name], shipped[name]) for name in shipped.files)
    with pytest.raises(InputError, match="does not hold the standard instances"):
        write_references(replace(dataset, name="atsp-10"), tmp_path)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match="atsp-50"):
        standard_set("atsp-51")
    with pytest.raises(InputError, match=r"no file 'atsp-51', and the standard sets are .*atsp-50"):
        open_dataset("atsp-51")
