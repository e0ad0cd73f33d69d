"""The checks of what a problem tells solvers and people: its structure, its words, its pictures, its files."""

import io
import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch

from ..errors import InputError
from ..io import Instance, read_solution, write_solution
from ..io.solutions import ENDINGS
from ..problems.base import structure_of
from .instances import Wrong, only
from .masks import MaskChecks


class PresentationChecks(MaskChecks):
    """All checks: those of instances, solutions and search, and those of what is told about them."""

    def structure(self) -> None:
        matrices = self.problem.cost_matrix(self.arrays)
        if matrices is None:
            if self.problem.structure is not None:
                raise Wrong(f"the structure '{self.problem.structure}' needs a cost_matrix")
            return
        if matrices.shape != (self.count, self.rows, self.columns) or not np.isfinite(matrices).all():
            expected = (self.count, self.rows, self.columns)
            raise Wrong(f"cost_matrix returns shape {matrices.shape}, or values that are not finite, for {expected}")
        if self.problem.structure is None:
            return
        choices = np.array(list(itertools.product(range(self.columns), repeat=self.rows)))
        for i, solutions in enumerate(self.solutions):
            feasible, costs = structure_of(self.problem.structure).judge(
                np.broadcast_to(matrices[i], (len(choices), self.rows, self.columns)), choices
            )
            expected_solutions = torch.from_numpy(choices[feasible])
            expected_cost = torch.from_numpy(costs[feasible]).double()
            if not torch.equal(solutions, expected_solutions):
                raise Wrong(f"instance {i} has other solutions than '{self.problem.structure}' promises")
            cost = self.problem.cost(only(self.instances_, i), solutions[None])[0].double()
            if not torch.allclose(cost, expected_cost, rtol=1e-9):
                raise Wrong(f"instance {i} has other costs than '{self.problem.structure}' promises")

    def presentation(self) -> None:
        problem = self.problem
        for word in (problem.row_words[1], problem.column_words[1]):
            if word in problem.arrays:
                raise Wrong(f"'{word}' is an array and the word for items; a JSON file could not tell them apart")
        about = problem.describe_size(self.size)
        if not isinstance(about, str) or not about or "\n" in about:
            raise Wrong(f"describe_size returns {about!r}, not a phrase")
        choice = self.solutions[0][0].numpy()
        for instance in (self._instance(0, named=False), self._instance(0, named=True)):
            lines = problem.describe_solution(instance, choice)
            if not isinstance(lines, list) or not all(isinstance(line, str) and "\n" not in line for line in lines):
                raise Wrong(f"describe_solution returns {lines!r}, not a list of lines")
        problem.draw_solution(instance, choice, bound=0.0).savefig(io.BytesIO(), format="png", dpi=30)

    def solution_file(self) -> None:
        endings = [ending for ending in ENDINGS if ending != ".tour" or self.problem.solution_is_tour]
        with tempfile.TemporaryDirectory() as folder:
            for index, named, ending in itertools.product(range(self.count), (False, True), endings):
                path = Path(folder) / f"solution{ending}"
                instance, choice = self._instance(index, named), self.solutions[index][-1].numpy()
                items = self.problem.solution(choice)
                if self.problem.solution_is_tour and sorted(items) != list(range(self.problem.named(self.size)[0])):
                    raise Wrong(f"{items} does not list every item once, as solution_is_tour says")
                write_solution(path, instance, choice)
                try:
                    found = read_solution(path, instance)
                except InputError as error:
                    raise Wrong(f"{path.name} cannot be read back: {error}") from None
                if not np.array_equal(found, choice):
                    raise Wrong(f"{path.name} of {choice.tolist()} reads back as {found.tolist()}")

    def _instance(self, index: int, named: bool) -> Instance:
        """Return one of the instances, with or without names of its items."""
        row_count, column_count = self.problem.named(self.size)
        rows = tuple(f"r{row}" for row in range(row_count)) if named else None
        columns = tuple(f"c{column}" for column in range(column_count)) if named else None
        if self.problem.feature_sizes.same_items:
            rows = columns
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return Instance("instance", self.problem, arrays, rows, columns)
