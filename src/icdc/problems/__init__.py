"""Problems: what they are, and those that ship."""

from .atsp import Atsp
from .base import FeatureSizes, Problem
from .instance import Instance
from .navigation import Navigation
from .pmsp import Pmsp
from .registry import BUILT_IN, get_problem, is_named, problem_of_file, problem_path, problems_of_matrix
from .tours import TourProblem

__all__ = [
    "BUILT_IN",
    "Atsp",
    "FeatureSizes",
    "Instance",
    "Navigation",
    "Pmsp",
    "Problem",
    "TourProblem",
    "get_problem",
    "is_named",
    "problem_of_file",
    "problem_path",
    "problems_of_matrix",
]
