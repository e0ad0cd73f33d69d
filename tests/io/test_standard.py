"""The standard sets are what everybody has, and every shipped reference is attained and within its bound."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import icdc
from icdc.errors import InputError, UsageError
from icdc.io import standard
from icdc.io.standard import STANDARD_SETS, open_dataset, standard_set, write_references
from icdc.solving.verify import judge

MEANS = {"pmsp-20x3": 42.44, "pmsp-20x4": 27.97, "pmsp-20x5": 20.67, "pmsp-50x3": 101.70, "pmsp-50x4": 65.95,
         "pmsp-50x5": 46.88, "pmsp-100x5": 91.71, "atsp-20": 1.540e6, "atsp-50": 1.567e6, "atsp-100": 1.571e6,
         "navigation-20": 1.546}  # fmt: skip
"""Mean optima of other draws of the same sizes; two draws of these lengths agree within about 2 %."""


@pytest.mark.parametrize("name", STANDARD_SETS)
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
    assert set(STANDARD_SETS) == pmsp | larger | atsp | {"navigation-20"}
    counts = {name: spec.count for name, spec in STANDARD_SETS.items()}
    assert {counts[name] for name in pmsp | {"atsp-20", "atsp-50", "navigation-20"}} == {1000}
    assert {counts[name] for name in larger | {"atsp-100"}} == {128}
    assert counts["atsp-35"] == 200
    assert len({spec.seed for spec in STANDARD_SETS.values()}) == len(STANDARD_SETS)


def test_what_ships_is_small() -> None:
    folder = Path(icdc.__file__).parent / "io" / "references"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 500_000


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
