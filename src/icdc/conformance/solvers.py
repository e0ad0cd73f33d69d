"""The checks of what helps solvers, against lists of all solutions, and of what readers see.

Local search and constructed solutions, forbidden pairs, the structure that classical solvers rely on, words, pictures
and files.
"""

import io
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..io import Instance, read_solution, write_solution
from ..io.solutions import ENDINGS
from ..kernels import Noise, fold, root_key
from ..problems.base import Arrays, structure_of
from ..problems.decoding import Order, Starts, decode
from ..problems.forbidden import batch_with_stand_ins, may_forbid
from ..problems.rules import HamiltonianCycle
from ..problems.tensors import to_tensors
from .instances import InstanceChecks, Wrong, only

ENOUGH = 10_000
"""Changes after which every search on a tiny instance has ended."""
MOST_STARTS = 60
"""Solutions of an instance that are improved."""
MOST_OTHERS = 5
"""Solutions whose parts each of these may take over."""


class AllChecks(InstanceChecks):
    """All checks: those of instances and solutions, and those of what solvers and readers are given."""

    def cost_changes(self) -> None:
        for i, solutions in enumerate(self.solutions):
            instance = only(self.tensors, i)
            changes = self.problem.cost_changes(instance, solutions[None])
            if changes is None:
                return
            expected = (1, len(solutions), self.rows, self.columns)
            if changes.shape != expected:
                raise Wrong(f"it has shape {tuple(changes.shape)}, not {expected}")
            cost = self.problem.cost(instance, solutions[None])[0].double()
            # solutions that differ in one row are one change apart, there and back
            before, after = ((solutions[:, None] != solutions).sum(2) == 1).nonzero().unbind(1)
            row = (solutions[before] != solutions[after]).int().argmax(1)
            column = solutions[after, row]
            stated = changes[0, before, row, column].double()
            change = cost[after] - cost[before]
            wrong = ~torch.isclose(stated, change, rtol=1e-6, atol=1e-6 * float(cost.abs().max()))
            if bool(wrong.any()):
                at = int(wrong.int().argmax())
                raise Wrong(
                    f"row {int(row[at])} of {solutions[before[at]].tolist()} taking column {int(column[at])} adds "
                    f"{float(change[at]):.6g} to the cost, not {float(stated[at]):.6g}"
                )

    def improvement(self) -> None:
        starts = self._starts()
        if not torch.equal(self.problem.improve(self.tensors, starts, 0), starts):
            raise Wrong("with no rounds it changes something")
        for rounds in (1, 2, ENOUGH):

            def improve(instances: dict[str, Tensor], part: slice, step: int, rounds: int = rounds) -> Tensor:
                return self.problem.improve(instances, starts[part, ::step].clone(), rounds)

            improved = improve(self.tensors, slice(None), 1)
            self._no_worse(starts, improved)
            self._repeatable(improve, improved)
        self._local_optima(improved)

    def merging(self) -> None:
        starts = self._starts()
        shifts = range(min(MOST_OTHERS, starts.shape[1]))
        others = torch.stack([starts.roll(1 + shift, 1) for shift in shifts], 2)

        def merge(instances: dict[str, Tensor], part: slice, step: int) -> Tensor:
            given = starts[part, ::step].clone(), others[part, ::step].clone()
            better = self.problem.merge(instances, *given)
            if not (torch.equal(given[0], starts[part, ::step]) and torch.equal(given[1], others[part, ::step])):
                raise Wrong("it changes the solutions that it is given")
            return better

        merged = merge(self.tensors, slice(None), 1)
        self._no_worse(starts, merged)
        inherited = (merged == starts) | (merged[:, :, None] == others).any(2)
        if not bool(inherited.all()):
            at = (~inherited.all(2)).nonzero()[0].tolist()
            raise Wrong(f"{merged[tuple(at)].tolist()} has columns that neither the choice nor any of its others has")
        self._repeatable(merge, merged)

    def _no_worse(self, starts: Tensor, better: Tensor) -> None:
        """Refuse what is no batch of solutions, or has a worse one than that in its place before."""
        self._sound(better, tuple(starts.shape))
        old, new = (self.problem.cost(self.tensors, choice).double() for choice in (starts, better))
        worse = new > old + 1e-9 * old.abs()
        if bool(worse.any()):
            costs = f"{float(old[worse][0]):.10g} to {float(new[worse][0]):.10g}"
            raise Wrong(f"{starts[worse][0].tolist()} becomes {better[worse][0].tolist()}, from cost {costs}")

    def _repeatable(self, run: Callable[[dict[str, Tensor], slice, int], Tensor], better: Tensor) -> None:
        """Refuse other solutions in a second call, or of single instances and some of their solutions alone.

        run : takes instances, which of the batch they are, and a step: only every so many of their solutions.
        """
        if not torch.equal(better, run(self.tensors, slice(None), 1)):
            raise Wrong("the same solutions come out differently the second time")
        for i in range(self.count):
            if not torch.equal(run(only(self.tensors, i), slice(i, i + 1), 2)[0], better[i, ::2]):
                raise Wrong(f"solutions of instance {i} come out differently alone than in a batch")

    def _starts(self) -> Tensor:
        """Return equally many solutions of every instance, (count, samples, rows), spread over all there are."""
        samples = min(MOST_STARTS, max(map(len, self.solutions)))
        spread = torch.arange(samples)
        return torch.stack([solutions[spread * len(solutions) // samples] for solutions in self.solutions])

    def _sound(self, choice: Tensor, shape: tuple[int, ...]) -> None:
        """Refuse what is no batch of solutions that instances permit."""
        if choice.shape != shape or choice.dtype != torch.long:
            raise Wrong(f"it returns {choice.dtype} of shape {tuple(choice.shape)}, not int64 of {shape}")
        good = self.problem.feasible(self.tensors, choice)
        if not bool(good.all()):
            raise Wrong(f"it returns {choice[~good][0].tolist()}, which feasible refuses")
        mask = self.problem.mask(self.tensors)
        if mask is not None:
            spread = mask[:, None].expand(-1, choice.shape[1], -1, -1)
            if not bool(spread.gather(3, choice[..., None]).all()):
                raise Wrong("it returns a pair that the mask forbids")

    def _local_optima(self, ends: Tensor) -> None:
        """Refuse solutions with a cheaper one near, among all that there are.

        Near: one row differs; two differ and have exchanged their columns; or on a tour three, which is a segment that
        has moved.
        """
        for i, solutions in enumerate(self.solutions):
            differ = ends[i][:, None] != solutions
            rows = differ.sum(2)
            new = torch.where(differ, solutions, -1).sort(2).values
            old = torch.where(differ, ends[i][:, None].expand_as(differ), -1).sort(2).values
            near = (rows == 1) | ((rows == 2) & (new == old).all(2))
            if isinstance(self.problem.rule, HamiltonianCycle):
                near |= rows == 3
            instance = only(self.tensors, i)
            cost = self.problem.cost(instance, solutions[None])[0].double()
            own = self.problem.cost(instance, ends[i : i + 1])[0].double()
            better = near & (cost < own[:, None] - 1e-9 * own[:, None].abs())
            if bool(better.any()):
                at, to = better.nonzero()[0].tolist()
                raise Wrong(
                    f"it ends with {ends[i, at].tolist()} of cost {float(own[at]):.10g}, one change from "
                    f"{solutions[to].tolist()} of cost {float(cost[to]):.10g}"
                )

    def construction(self) -> None:
        costs = []
        for count in (1, 4):
            starts = self.problem.construct(self.tensors, count)
            if not isinstance(starts, Starts):
                raise Wrong(f"it returns {type(starts).__name__}, not Starts")
            self._sound(starts.choice, (self.count, count, self.rows))
            self._prices(starts)
            if not torch.equal(starts.choice, self.problem.construct(self.tensors, count).choice):
                raise Wrong("it returns other solutions the second time")
            for i in range(self.count):
                if not torch.equal(self.problem.construct(only(self.tensors, i), count).choice[0], starts.choice[i]):
                    raise Wrong(f"instance {i} gets other solutions alone than in a batch")
            costs.append(self.problem.cost(self.tensors, starts.choice).double().amin(1))
        for i, solutions in enumerate(self.solutions):
            average = self.problem.cost(only(self.tensors, i), solutions[None]).double().mean()
            if any(float(cost[i] - average) > 1e-9 * abs(float(average)) for cost in costs):
                raise Wrong(f"for instance {i} it finds nothing better than a solution at random")

    def _prices(self, starts: Starts) -> None:
        for name, shape in (
            ("row_prices", (self.count, self.rows)),
            ("column_prices", (self.count, self.columns)),
            ("bound", (self.count,)),
        ):
            tensor: Tensor | None = getattr(starts, name)
            if tensor is not None and (tensor.shape != shape or not bool(tensor.double().isfinite().all())):
                raise Wrong(f"{name} has shape {tuple(tensor.shape)}, not {shape}, or is not finite")
        if starts.bound is not None:
            self._check_bound(starts.bound.double().numpy())

    def permitted(self) -> None:
        self._keeps_optima(self.tensors)
        if not may_forbid(self.problem):
            return
        forbidden = self._some_forbidden()
        try:
            arrays = batch_with_stand_ins(self.problem, self.arrays, forbidden)
        except InputError:
            return  # its matrix does not say what pairs cost: its instances cannot forbid any
        self._follows(arrays, forbidden)

    def _keeps_optima(self, instances: dict[str, Tensor]) -> None:
        """Refuse permitted pairs that the mask forbids, and those without which no best solution is left."""
        permitted, mask = self.problem.permitted(instances), self.problem.mask(instances)
        if permitted is None:
            if mask is not None:
                raise Wrong("permitted says that all pairs are, mask that some are not")
            return
        if permitted.shape != (self.count, self.rows, self.columns) or permitted.dtype != torch.bool:
            raise Wrong(f"permitted returns {permitted.dtype} of shape {tuple(permitted.shape)}")
        if mask is not None and bool((permitted & ~mask).any()):
            raise Wrong("permitted has a pair that the mask forbids")
        for i, solutions in enumerate(self.solutions):
            cost = self.problem.cost(only(instances, i), solutions[None])[0].double()
            kept = permitted[i].expand(len(solutions), -1, -1).gather(2, solutions[..., None]).all(1).squeeze(1)
            if bool(kept.any()) and float(cost[kept].min()) > float(cost.min()):
                raise Wrong(f"without the pairs that instance {i} does not permit no best solution is left")

    def _some_forbidden(self) -> NDArray[np.bool_]:
        """Forbid a third of the pairs of every instance, but none of one of its solutions."""
        rng = np.random.default_rng(self.seed)
        forbidden = rng.random((self.count, self.rows, self.columns)) < 1 / 3
        for i, solutions in enumerate(self.solutions):
            forbidden[i, np.arange(self.rows), solutions[int(rng.integers(len(solutions)))].numpy()] = False
        if self.problem.feature_sizes.same_items:
            forbidden[:, np.arange(self.rows), np.arange(self.rows)] = False
        return forbidden

    def _follows(self, arrays: Arrays, forbidden: NDArray[np.bool_]) -> None:
        """Check that stand-ins for forbidden pairs are recognised as such."""
        problem, instances, allowed = self.problem, to_tensors(arrays), torch.from_numpy(~forbidden)
        permitted, some = problem.permitted(instances), torch.from_numpy(forbidden.any((1, 2)))
        if not bool(some.any()):
            return
        if permitted is None or not torch.equal(permitted[some], allowed[some]):
            raise Wrong("permitted does not say which pairs an instance forbids; see icdc.problems.forbidden")
        self._keeps_optima(instances)
        if not bool(problem.features(instances).relations.isfinite().all()):
            raise Wrong("with forbidden pairs some relations are not finite")
        bound = problem.lower_bound(arrays)
        for i, solutions in enumerate(self.solutions):
            kept = allowed[i].expand(len(solutions), -1, -1).gather(2, solutions[..., None]).all(1).squeeze(1)
            cost = problem.cost(only(instances, i), solutions[None])[0].double()
            if not bool((cost[kept].max() < cost[~kept]).all()):
                raise Wrong(f"a solution of instance {i} costs no more for using a forbidden pair")
            if bound is not None and bound[i] > float(cost[kept].min()) * (1 + 1e-9):
                raise Wrong(f"the lower bound of instance {i} is above its best permitted solution")
            start = solutions[kept][:1][None]
            better = problem.improve(only(instances, i), start, self.rows)
            if not bool(allowed[i].gather(1, better[0, 0][:, None]).all()):
                raise Wrong(f"improve takes instance {i} from permitted pairs to a forbidden one")
            total = float(self._log_probabilities(i, 0, allowed).double().exp().sum())
            if abs(total - 1.0) > 1e-4:
                raise Wrong(f"with forbidden pairs the probabilities of instance {i} sum to {total:.4f}")
        noise = Noise(fold(root_key(self.seed), torch.arange(self.count)))
        scores = noise.normal(self.rows, self.columns)
        orders: tuple[Order, ...] = ("rule", "confidence")
        for order in orders:
            choice = decode(problem.rule, scores, order=order, noise=noise, mask=allowed)
            if not bool(problem.feasible(instances, choice[:, None]).all()):
                raise Wrong(f"in the order '{order}' a mask makes the rule build what feasible refuses")

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
            cost = self.problem.cost(only(self.tensors, i), solutions[None])[0].double()
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
                    again = read_solution(path, instance)
                except InputError as error:
                    raise Wrong(f"{path.name} cannot be read back: {error}") from None
                if not np.array_equal(again, choice):
                    raise Wrong(f"{path.name} of {choice.tolist()} reads back as {again.tolist()}")

    def _instance(self, index: int, named: bool) -> Instance:
        """Return one of the instances, with or without names of its items."""
        row_count, column_count = self.problem.named(self.size)
        rows = tuple(f"r{row}" for row in range(row_count)) if named else None
        columns = tuple(f"c{column}" for column in range(column_count)) if named else None
        if self.problem.feature_sizes.same_items:
            rows = columns
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return Instance("instance", self.problem, arrays, rows, columns)
