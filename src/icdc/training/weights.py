"""What is learned: the weights, their running average, the optimizer, the randomness, and the processes that share it.

Nothing here depends on the size of instances or on the kind of network.
"""

import atexit
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..kernels import Noise, fold, root_key
from ..models.file import TrainedModel, own_random_numbers
from .config import OptimizerConfig

ModelT = TypeVar("ModelT", bound=TrainedModel)


@dataclass(frozen=True)
class Ranks:
    """This process's number, and how many processes train the same weights."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Return whether this process is the one that writes."""
        return self.rank == 0

    def average(self, tensors: list[Tensor]) -> None:
        """Replace tensors by their mean over all processes, in one exchange."""
        if self.world == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.world
        offset = 0
        for tensor in tensors:
            tensor.copy_(flat[offset : offset + tensor.numel()].view_as(tensor))
            offset += tensor.numel()

    def agree(self, value: float, device: torch.device) -> float:
        """Return the first process's value on every process, so that all decide alike."""
        if self.world == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=device)
        dist.broadcast(shared, 0)
        return float(shared)


def join_processes(device: torch.device) -> Ranks:
    """Join the group that `torchrun` describes in the environment, or stand alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return Ranks()
    if not dist.is_initialized():
        # Optimizers import this module at their first step. It keeps the group there is by then as a default argument,
        # and a group that somebody keeps does not end its threads when it is left.
        import_module("torch.distributed.nn.functional")
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(leave_processes)
    return Ranks(dist.get_rank(), world)


def leave_processes() -> None:
    """End the threads that talk to other processes: an interpreter that ends under them may abort."""
    if dist.is_initialized():
        dist.destroy_process_group()


class Weights(Generic[ModelT]):
    """The weights in training, and everything that moves with them.

    Parameters
    ----------
    make : returns a new model on the device.
    optimizer : its settings.
    seed : of the first weights and of all later randomness.
    device : where everything lies.
    ranks : the processes that train together.

    Attributes
    ----------
    model : what is trained.
    average : the same model with the running average of its weights; this is what a run returns.
    between_passes : called between passes of the network; may raise to break off a step.
    """

    between_passes: Callable[[], None]

    def __init__(
        self, make: Callable[[], ModelT], optimizer: OptimizerConfig, seed: int, device: torch.device, ranks: Ranks
    ) -> None:
        self.settings, self.ranks, self.device = optimizer, ranks, device
        self.between_passes = lambda: None
        with own_random_numbers(seed):  # the first weights; all later randomness comes from keys
            self.model, self.average = make(), make()
        self.average.network.load_state_dict(self.model.network.state_dict())
        self.average.network.requires_grad_(False).eval()
        self.model.network.train()
        cuda = device.type == "cuda"
        self.rate = torch.tensor(optimizer.learning_rate, device=device)
        self.parameters = [p for p in self.model.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=self.rate if cuda else optimizer.learning_rate,
            weight_decay=optimizer.weight_decay,
            fused=cuda,
            capturable=cuda,
        )
        self.root = fold(root_key(seed, device), 0x1CDC)
        self.draws = torch.zeros((), dtype=torch.long, device=device)  # advances with every use of randomness

    def noise(self, count: int) -> Noise:
        """Return fresh noise for `count` items of this process; items of all processes are numbered through."""
        self.draws += 1
        item = torch.arange(count, device=self.device) + self.ranks.rank * count
        return Noise(fold(self.root, self.draws, item))

    def update(self, loss: Tensor | Iterable[Tensor]) -> None:
        """Take one optimizer step on a loss, averaged over all processes.

        The parts of a loss that come one after the other are summed; only one of them is in memory at a time.
        """
        self.optimizer.zero_grad(set_to_none=True)  # gradients are then written, not added to zeros
        for part in [loss] if isinstance(loss, Tensor) else loss:
            part.backward()
        self.ranks.average([p.grad for p in self.parameters if p.grad is not None])
        if self.settings.clip > 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        self.optimizer.step()

    def set_rate(self, rate: float) -> None:
        """Set the learning rate, where a captured optimizer step finds it too."""
        self.rate.fill_(rate)
        if self.device.type != "cuda":
            for group in self.optimizer.param_groups:
                group["lr"] = rate

    @torch.no_grad()
    def update_average(self, rounds: int, statistics: bool = True) -> None:
        """Move the running average towards the weights; faster at first, so that it forgets the start.

        Parameters
        ----------
        rounds : how many rounds of the run are done, at least 1.
        statistics : copy those of batch normalisation. They belong to the weights as they are: averaged weights give
            other activations, and are of no use with them unless both are nearly the same.
        """
        keep = min(self.settings.average, rounds / (9 + rounds))
        old: list[Tensor] = list(self.average.network.parameters())
        new: list[Tensor] = list(self.model.network.parameters())
        torch._foreach_lerp_(old, new, 1 - keep)
        if statistics:
            for mine, theirs in zip(self.average.network.buffers(), self.model.network.buffers(), strict=True):
                mine.copy_(theirs)

    @torch.no_grad()
    def finite(self) -> bool:
        """Tell whether all weights and buffers are finite numbers."""
        network = self.model.network
        numbers = [t for t in (*network.parameters(), *network.buffers()) if t.is_floating_point()]
        return bool(torch.stack(torch._foreach_norm(numbers, torch.inf)).isfinite().all())

    def tensors(self) -> list[Tensor]:
        """Return every tensor that training changes, in a fixed order; optimizer state, which appears later, last."""
        fixed = [*self.model.network.parameters(), *self.model.network.buffers(), *self.average.network.parameters()]
        fixed += [*self.average.network.buffers(), self.draws]
        return fixed + [v for s in self.optimizer.state.values() for v in s.values() if isinstance(v, Tensor)]

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs again."""
        return {
            "network": self.model.network.state_dict(),
            "average": self.average.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "draws": self.draws,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Copy a saved state into the tensors that recorded graphs already know."""
        self.model.network.load_state_dict(state["network"])
        self.average.network.load_state_dict(state["average"])
        self.draws.copy_(state["draws"])
        saved = state["optimizer"]["state"]
        with torch.no_grad():
            if not self.optimizer.state:
                self.optimizer.load_state_dict(state["optimizer"])
            for index, parameter in enumerate(self.parameters):
                for name, value in self.optimizer.state[parameter].items():
                    value.copy_(saved[index][name])
