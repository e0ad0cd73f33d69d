"""Solving with a trained model."""

from .solver import DiffusionSolver, Improvement

__all__ = ["DiffusionSolver", "Improvement"]
