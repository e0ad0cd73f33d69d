"""What the reverse process asks of a batch of instances."""

import pytest
import torch
from torch import Tensor

from icdc.errors import UsageError
from icdc.problems.atsp import Atsp
from icdc.problems.base import Instances
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task


class _Late(Pmsp):
    """Counts loads twice: no longer the problem its times are about."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return 2 * super().cost(instances, choice)


def test_only_schedules_have_times() -> None:
    durations = torch.randint(1, 9, (2, 4, 3))
    assert torch.equal(Task(Pmsp(), {"durations": durations}).times(), durations)
    for task in (Task(Atsp(), {"distances": torch.rand(2, 4, 4)}), Task(_Late(), {"durations": durations})):
        with pytest.raises(UsageError, match='cannot be decoded in the order "loads"'):
            task.times()
