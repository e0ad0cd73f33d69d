"""Several processes, one model: what `torchrun` starts, and how they agree."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """This process's number and how many there are."""

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
        """Return the first process's value on every process, so that all stop in the same round."""
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
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Ranks(dist.get_rank(), world)
