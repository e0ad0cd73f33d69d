"""The figures the paper prints, to stand beside ours: its gap is the symmetric one, 200·(a − b)/(a + b) %."""

MODEL_ALONE = "network"
"""The solver that is a diffusion model alone, where `icdc` is that model together with search."""

_PMSP = ("pmsp-20x3", "pmsp-20x4", "pmsp-20x5", "pmsp-50x3", "pmsp-50x4", "pmsp-50x5")
_ATSP = ("atsp-20", "atsp-50")

_BY_PMSP_SET: dict[tuple[str, int], tuple[float, ...]] = {
    ("cpsat", 1): (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("sjf", 1): (11.91, 19.70, 27.77, 6.06, 10.20, 14.69),
    ("ga", 1): (3.64, 7.21, 11.28, 2.37, 2.47, 7.08),
    ("pso", 1): (2.80, 5.82, 9.79, 2.55, 4.79, 7.53),
    ("icdc", 1): (1.00, 3.69, 2.80, 0.79, 1.17, 2.41),
    ("icdc", 8): (0.16, 0.67, 0.80, 0.21, 0.45, 0.87),
    ("icdc", 32): (0.02, 0.28, 0.39, 0.06, 0.24, 0.39),
    ("icdc", 128): (0.0, 0.14, 0.15, 0.01, 0.11, 0.17),
    ("matnet", 1): (2.67, 5.12, 3.70, 1.07, 1.79, 1.36),
    ("matnet", 8): (0.56, 1.35, 1.41, 0.34, 0.35, 0.59),
    ("matnet", 32): (0.24, 0.86, 1.12, 0.16, 0.31, 0.33),
    ("matnet", 128): (0.10, 0.62, 0.50, 0.08, 0.18, 0.18),
    ("sl", 128): (6.09, 10.16, 14.34, 5.54, 8.78, 13.15),
    ("rl", 128): (39.997, 57.74, 71.323, 39.858, 58.26, 78.435),
}
_BY_ATSP_SET: dict[tuple[str, int], tuple[float, ...]] = {
    ("cplex", 1): (0.0, 0.0),
    ("nn", 1): (26.099, 29.701),
    ("ni", 1): (15.477, 22.164),
    ("fi", 1): (10.770, 16.802),
    ("lkh", 1): (1.758, 0.0),
    ("icdc", 1): (4.802, 4.266),
    ("icdc", 8): (0.909, 1.243),
    ("icdc", 32): (0.779, 0.828),
    ("icdc", 128): (0.0, 0.113),
    ("matnet", 1): (0.456, 1.314),
    ("matnet", 8): (0.078, 0.317),
    ("matnet", 32): (0.033, 0.214),
    ("matnet", 128): (0.013, 0.111),
    ("sl", 128): (4.179, 8.215),
    ("rl", 128): (73.875, 94.579),
    ("slrl", 128): (3.508, 7.964),
}
_GENERALISATION_SETS = tuple(f"atsp-{cities}" for cities in range(10, 51, 5))
_GENERALISATION: dict[str, tuple[float, ...]] = {  # trained on 20 cities, 128 samples
    "icdc": (0.0, 0.0, 0.0, 0.255, 3.733, 13.393, 23.987, 33.227, 43.797),
    "matnet": (0.064, 4.009, 0.013, 25.712, 36.678, 45.888, 51.849, 57.116, 62.150),
    "sl": (15.213, 14.411, 13.438, 22.147, 28.803, 35.647, 42.407, 47.843, 53.233),
    "rl": (46.427, 59.275, 73.875, 72.986, 77.375, 81.762, 83.971, 86.743, 90.010),
}
_NAVIGATION_COSTS: dict[tuple[str, int], float] = {("random", 1): 3.50, ("matnet", 256): 2.60, ("icdc", 64): 1.56}


def published(dataset: str, solver: str, samples: int) -> float | None:
    """Return the symmetric gap, in %, that the paper prints for a solver on a test set, or None.

    Its diffusion baselines are "sl" (supervised), "rl" (by reward) and "slrl" (by reward after supervision).
    Only for classical solvers with their default options: with others they are not the paper's. Its figures for "icdc"
    are of a network alone, which is our "network", and our "icdc" where that searches, too (`report.kind_of`).
    """
    name, _, options = solver.partition(":")
    name = "icdc" if name == MODEL_ALONE else name
    own_setting = name == "icdc" or not options
    for sets, figures in ((_PMSP, _BY_PMSP_SET), (_ATSP, _BY_ATSP_SET)):
        if dataset in sets and own_setting and (name, samples) in figures:
            return figures[name, samples][sets.index(dataset)]
    return None


def published_generalisation(dataset: str, method: str) -> float | None:
    """Return the symmetric gap, in %, that the paper prints for a method trained on 20 cities, 128 samples, or None."""
    if dataset in _GENERALISATION_SETS and method in _GENERALISATION:
        return _GENERALISATION[method][_GENERALISATION_SETS.index(dataset)]
    return None


def published_cost(dataset: str, method: str, samples: int) -> float | None:
    """Return the mean cost that the paper prints where its gap is not to an optimum (navigation), or None."""
    return _NAVIGATION_COSTS.get((method, samples)) if dataset == "navigation-20" else None


def plain_gap(symmetric: float) -> float:
    """Return the plain gap, 100·(a − b)/b, that a symmetric one, 200·(a − b)/(a + b), stands for; both in %."""
    return 200.0 * symmetric / (200.0 - symmetric)


def symmetric_gap(plain: float) -> float:
    """Return the symmetric gap that a plain one stands for; both in %."""
    return 200.0 * plain / (200.0 + plain)
