"""Everything to compare with: exact, heuristic and metaheuristic solvers behind the one solver protocol.

One solver a module; `icdc.solvers` knows them by name. They see the contract of a problem and its arrays,
nothing of networks or training.
"""
