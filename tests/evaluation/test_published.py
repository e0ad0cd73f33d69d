"""Every figure that the paper prints, written down a second time, by test set: a wrong digit shows."""

import pytest

from icdc.evaluation.published import plain_gap, published, published_cost, published_generalisation, symmetric_gap

PMSP_METHODS = "cpsat sjf ga pso matnet×1 matnet×8 matnet×32 matnet×128 sl×128 rl×128 icdc×1 icdc×8 icdc×32 icdc×128"
PMSP = {
    "pmsp-20x3": "0 11.91 3.64 2.80 2.67 0.56 0.24 0.10 6.09 39.997 1.00 0.16 0.02 0",
    "pmsp-20x4": "0 19.70 7.21 5.82 5.12 1.35 0.86 0.62 10.16 57.74 3.69 0.67 0.28 0.14",
    "pmsp-20x5": "0 27.77 11.28 9.79 3.70 1.41 1.12 0.50 14.34 71.323 2.80 0.80 0.39 0.15",
    "pmsp-50x3": "0 6.06 2.37 2.55 1.07 0.34 0.16 0.08 5.54 39.858 0.79 0.21 0.06 0.01",
    "pmsp-50x4": "0 10.20 2.47 4.79 1.79 0.35 0.31 0.18 8.78 58.26 1.17 0.45 0.24 0.11",
    "pmsp-50x5": "0 14.69 7.08 7.53 1.36 0.59 0.33 0.18 13.15 78.435 2.41 0.87 0.39 0.17",
}
ATSP_METHODS = (
    "cplex nn ni fi lkh matnet×1 matnet×8 matnet×32 matnet×128 sl×128 rl×128 slrl×128 icdc×1 icdc×8 icdc×32 icdc×128"
)
ATSP = {
    "atsp-20": "0 26.099 15.477 10.770 1.758 .456 .078 .033 .013 4.179 73.875 3.508 4.802 .909 .779 0",
    "atsp-50": "0 29.701 22.164 16.802 0 1.314 .317 .214 .111 8.215 94.579 7.964 4.266 1.243 .828 .113",
}
OTHER_SIZES = {  # matnet, sl, rl, icdc; trained on 20 cities, 128 samples
    "atsp-10": "0.064 15.213 46.427 0",
    "atsp-15": "4.009 14.411 59.275 0",
    "atsp-20": "0.013 13.438 73.875 0",
    "atsp-25": "25.712 22.147 72.986 0.255",
    "atsp-30": "36.678 28.803 77.375 3.733",
    "atsp-35": "45.888 35.647 81.762 13.393",
    "atsp-40": "51.849 42.407 83.971 23.987",
    "atsp-45": "57.116 47.843 86.743 33.227",
    "atsp-50": "62.150 53.233 90.010 43.797",
}


@pytest.mark.parametrize(("methods", "table"), [(PMSP_METHODS, PMSP), (ATSP_METHODS, ATSP)], ids=["pmsp", "atsp"])
def test_the_main_tables(methods: str, table: dict[str, str]) -> None:
    known = [(name, int(count or 1)) for name, _, count in (entry.partition("×") for entry in methods.split())]
    every = {name for name, _ in known} | {"random", "dp", "branch", "patching", "lpt"}
    for dataset, text in table.items():
        figures = dict(zip(known, map(float, text.split()), strict=True))
        asked = {(name, count) for name in every for count in (1, 8, 32, 64, 128)}
        assert {key: published(dataset, *key) for key in asked} == {key: figures.get(key) for key in asked}
        for count in (1, 8, 32, 128):  # the model alone is the paper's, whatever it is called
            assert published(dataset, "network", count) == figures["icdc", count]
            assert published(dataset, "network:steps=20", count) == figures["icdc", count]


def test_other_sizes() -> None:
    for dataset, text in OTHER_SIZES.items():
        found = [published_generalisation(dataset, method) for method in ("matnet", "sl", "rl", "icdc")]
        assert found == list(map(float, text.split())), dataset
    assert published_generalisation("atsp-100", "icdc") is None
    assert published_generalisation("atsp-20", "slrl") is None


def test_costs_of_navigation() -> None:
    assert published_cost("navigation-20", "random", 1) == 3.50
    assert published_cost("navigation-20", "matnet", 256) == 2.60
    assert published_cost("navigation-20", "icdc", 64) == 1.56
    assert published_cost("navigation-20", "icdc", 128) is None
    assert published_cost("atsp-20", "icdc", 64) is None


def test_gaps_of_one_kind_as_the_other() -> None:
    cost, optimum = 48.03, 42.63  # shortest job first, 20 jobs on 3 machines
    symmetric = 200 * (cost - optimum) / (cost + optimum)
    assert symmetric == pytest.approx(published("pmsp-20x3", "sjf", 1), abs=0.005)
    assert plain_gap(symmetric) == pytest.approx(100 * (cost - optimum) / optimum)
    assert symmetric_gap(plain_gap(symmetric)) == pytest.approx(symmetric)
