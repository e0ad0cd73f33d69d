"""Solvers on datasets: how good, how fast, and beside what others report."""
