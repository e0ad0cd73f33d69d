"""The figures the paper prints, to stand beside ours: its gap is the symmetric one, 200·(a − b)/(a + b) %."""

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
}


def published(dataset: str, solver: str, samples: int) -> float | None:
    """Return the symmetric gap, in %, that the paper prints for a solver on a test set, or None.

    Only for classical solvers with their default options: with others they are not the paper's.
    """
    name, _, options = solver.partition(":")
    own_setting = name == "icdc" or not options
    for sets, figures in ((_PMSP, _BY_PMSP_SET), (_ATSP, _BY_ATSP_SET)):
        if dataset in sets and own_setting and (name, samples) in figures:
            return figures[name, samples][sets.index(dataset)]
    return None
