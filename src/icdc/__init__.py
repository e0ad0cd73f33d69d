"""IC/DC: feasible solutions of matrix-shaped combinatorial problems, from diffusion trained without examples."""

__version__ = "0.1.0"
