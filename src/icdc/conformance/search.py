"""The checks of local search and of constructed solutions, against lists of all solutions."""

import torch
from torch import Tensor

from ..problems.decoding import Starts
from ..problems.rules import HamiltonianCycle
from .instances import Wrong, only
from .solutions import SolutionChecks

ENOUGH = 10_000
"""Changes after which every search on a tiny instance has ended."""
MOST_STARTS = 60
"""Solutions of an instance that are improved."""
MOST_OTHERS = 5
"""Solutions whose parts each of these may take over."""


class SearchChecks(SolutionChecks):
    """The checks of solutions, and those of what makes them better."""

    def cost_changes(self) -> None:
        for i, solutions in enumerate(self.solutions):
            instance = only(self.instances_, i)
            told = self.problem.cost_changes(instance, solutions[None])
            if told is None:
                return
            expected = (1, len(solutions), self.rows, self.columns)
            if told.shape != expected:
                raise Wrong(f"it has shape {tuple(told.shape)}, not {expected}")
            cost = self.problem.cost(instance, solutions[None])[0].double()
            # solutions that differ in one row are one change apart, there and back
            before, after = ((solutions[:, None] != solutions).sum(2) == 1).nonzero().unbind(1)
            row = (solutions[before] != solutions[after]).int().argmax(1)
            column = solutions[after, row]
            found = told[0, before, row, column].double()
            change = cost[after] - cost[before]
            wrong = ~torch.isclose(found, change, rtol=1e-6, atol=1e-6 * float(cost.abs().max()))
            if bool(wrong.any()):
                at = int(wrong.int().argmax())
                raise Wrong(
                    f"row {int(row[at])} of {solutions[before[at]].tolist()} taking column {int(column[at])} adds "
                    f"{float(change[at]):.6g} to the cost, not {float(found[at]):.6g}"
                )

    def improvement(self) -> None:
        problem, starts = self.problem, self._starts()
        if not torch.equal(problem.improve(self.instances_, starts, 0), starts):
            raise Wrong("with no rounds it changes something")
        for rounds in (1, 2, ENOUGH):
            found = problem.improve(self.instances_, starts.clone(), rounds)
            self._sound(found, tuple(starts.shape))
            self._never_worse(starts, found)
            if not torch.equal(found, problem.improve(self.instances_, starts.clone(), rounds)):
                raise Wrong("the same solutions come out differently the second time")
            for i in range(self.count):
                alone = problem.improve(only(self.instances_, i), starts[i : i + 1, ::2], rounds)
                if not torch.equal(alone[0], found[i, ::2]):
                    raise Wrong(f"solutions of instance {i} come out differently alone than in a batch")
        self._local_optima(found)

    def merging(self) -> None:
        problem, starts = self.problem, self._starts()
        shifts = range(min(MOST_OTHERS, starts.shape[1]))
        others = torch.stack([starts.roll(1 + shift, 1) for shift in shifts], 2)
        given = starts.clone(), others.clone()
        found = problem.merge(self.instances_, *given)
        self._sound(found, tuple(starts.shape))
        self._never_worse(starts, found)
        if not (torch.equal(given[0], starts) and torch.equal(given[1], others)):
            raise Wrong("it changes the solutions that it is given")
        theirs = (found == starts) | (found[:, :, None] == others).any(2)
        if not bool(theirs.all()):
            at = (~theirs.all(2)).nonzero()[0].tolist()
            raise Wrong(f"{found[tuple(at)].tolist()} has columns that neither the choice nor any of its others has")
        if not torch.equal(found, problem.merge(self.instances_, starts.clone(), others.clone())):
            raise Wrong("the same solutions come out differently the second time")
        for i in range(self.count):
            alone = problem.merge(only(self.instances_, i), starts[i : i + 1, ::2], others[i : i + 1, ::2])
            if not torch.equal(alone[0], found[i, ::2]):
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
        good = self.problem.feasible(self.instances_, choice)
        if not bool(good.all()):
            raise Wrong(f"it returns {choice[~good][0].tolist()}, which feasible refuses")
        mask = self.problem.mask(self.instances_)
        if mask is not None:
            spread = mask[:, None].expand(-1, choice.shape[1], -1, -1)
            if not bool(spread.gather(3, choice[..., None]).all()):
                raise Wrong("it returns a pair that the mask forbids")

    def _never_worse(self, before: Tensor, after: Tensor) -> None:
        old, new = (self.problem.cost(self.instances_, choice).double() for choice in (before, after))
        worse = new > old + 1e-9 * old.abs()
        if bool(worse.any()):
            costs = f"{float(old[worse][0]):.10g} to {float(new[worse][0]):.10g}"
            raise Wrong(f"{before[worse][0].tolist()} becomes {after[worse][0].tolist()}, from cost {costs}")

    def _local_optima(self, found: Tensor) -> None:
        """Refuse solutions with a cheaper one near, among all that there are.

        Near: one row differs; two differ and have exchanged their columns; or on a tour three, which is a segment that
        has moved.
        """
        for i, solutions in enumerate(self.solutions):
            differ = found[i][:, None] != solutions
            rows = differ.sum(2)
            taken = torch.where(differ, solutions, -1).sort(2).values
            given_up = torch.where(differ, found[i][:, None].expand_as(differ), -1).sort(2).values
            near = (rows == 1) | ((rows == 2) & (taken == given_up).all(2))
            if isinstance(self.problem.rule, HamiltonianCycle):
                near |= rows == 3
            instance = only(self.instances_, i)
            cost = self.problem.cost(instance, solutions[None])[0].double()
            own = self.problem.cost(instance, found[i : i + 1])[0].double()
            better = near & (cost < own[:, None] - 1e-9 * own[:, None].abs())
            if bool(better.any()):
                at, to = better.nonzero()[0].tolist()
                raise Wrong(
                    f"it ends with {found[i, at].tolist()} of cost {float(own[at]):.10g}, one change from "
                    f"{solutions[to].tolist()} of cost {float(cost[to]):.10g}"
                )

    def construction(self) -> None:
        costs = []
        for count in (1, 4):
            made = self.problem.construct(self.instances_, count)
            if not isinstance(made, Starts):
                raise Wrong(f"it returns {type(made).__name__}, not Starts")
            self._sound(made.choice, (self.count, count, self.rows))
            self._prices(made)
            if not torch.equal(made.choice, self.problem.construct(self.instances_, count).choice):
                raise Wrong("it returns other solutions the second time")
            for i in range(self.count):
                if not torch.equal(self.problem.construct(only(self.instances_, i), count).choice[0], made.choice[i]):
                    raise Wrong(f"instance {i} gets other solutions alone than in a batch")
            costs.append(self.problem.cost(self.instances_, made.choice).double().amin(1))
        for i, solutions in enumerate(self.solutions):
            anyhow = self.problem.cost(only(self.instances_, i), solutions[None]).double().mean()
            if any(float(cost[i] - anyhow) > 1e-9 * abs(float(anyhow)) for cost in costs):
                raise Wrong(f"for instance {i} it finds nothing better than a solution at random")

    def _prices(self, made: Starts) -> None:
        for name, shape in (
            ("row_prices", (self.count, self.rows)),
            ("column_prices", (self.count, self.columns)),
            ("bound", (self.count,)),
        ):
            tensor: Tensor | None = getattr(made, name)
            if tensor is not None and (tensor.shape != shape or not bool(tensor.double().isfinite().all())):
                raise Wrong(f"{name} has shape {tuple(tensor.shape)}, not {shape}, or is not finite")
        if made.bound is None:
            return
        for i, solutions in enumerate(self.solutions):
            best = float(self.problem.cost(only(self.instances_, i), solutions[None]).min())
            if float(made.bound[i]) > best + 1e-9 * abs(best):
                raise Wrong(
                    f"instance {i} has a solution of cost {best:.10g}, below its bound {float(made.bound[i]):.10g}"
                )
