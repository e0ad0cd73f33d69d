"""Problems: the contract they keep, the rules by which solutions are built, and the three that ship."""

from .atsp import Atsp
from .contract import Features, FeatureSizes, Problem
from .instance import Instance
from .navigation import Navigation
from .pmsp import Pmsp
from .registry import BUILT_IN, get_problem, is_named, problem_of_file, problem_path, problems_of_matrix
from .rules import HamiltonianCycle, OneColumnPerRow, Rule
from .starts import Starts
from .tours import TourProblem

__all__ = [
    "BUILT_IN",
    "Atsp",
    "FeatureSizes",
    "Features",
    "HamiltonianCycle",
    "Instance",
    "Navigation",
    "OneColumnPerRow",
    "Pmsp",
    "Problem",
    "Rule",
    "Starts",
    "TourProblem",
    "get_problem",
    "is_named",
    "problem_of_file",
    "problem_path",
    "problems_of_matrix",
]
