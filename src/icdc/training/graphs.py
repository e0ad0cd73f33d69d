"""Running the steps of training as CUDA graphs; the steps themselves know nothing of it.

A step takes nothing, returns nothing, and changes tensors in place that exist before it is called, without ever looking
at a value. Recorded once and replayed, its thousands of kernels start without Python. Without a GPU, or where recording
fails, the same function simply runs.
"""

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

Step = Callable[[], None]


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compile each layer for the shapes it meets; one compilation serves all layers of a kind and shape."""
    import torch._dynamo.config as dynamo

    dynamo.cache_size_limit = max(dynamo.cache_size_limit, 64)
    for layer in layers:
        layer.compile(dynamic=False)


class Graphs:
    """Records steps and replays them.

    Parameters
    ----------
    state : returns every tensor that the steps change; recording runs the steps for real, and this is undone.
    device : graphs exist on CUDA devices only.
    enabled : False runs all steps eagerly.

    seconds : how long recording took so far.
    """

    def __init__(self, state: Callable[[], list[Tensor]], device: torch.device, enabled: bool = True) -> None:
        self.state = state
        self.enabled = enabled and device.type == "cuda"
        self.pool: Any = torch.cuda.graph_pool_handle() if self.enabled else None
        self.replays: dict[Step, Step] = {}
        self.waiting: set[Step] = set()
        self.seconds = 0.0

    def run(self, step: Step) -> None:
        """Do a step: replay its graph if there is one, else call it."""
        self.replays.get(step, step)()

    def record_later(self, steps: Iterable[Step]) -> None:
        """Name steps that are worth recording when they are first done."""
        if self.enabled:
            self.waiting |= set(steps)

    def waits(self, step: Step) -> bool:
        """Tell whether a step should be recorded before it is done."""
        return step in self.waiting

    def record(self, step: Step, warmups: int = 2) -> None:
        """Record a step, so that `run` replays it; without a GPU nothing happens."""
        self.waiting.discard(step)
        if not self.enabled:
            return
        began = time.perf_counter()
        # detached: a clone in the autograd graph would tie the parameters' gradients to the default stream
        before = [tensor.detach().clone() for tensor in self.state()]
        try:
            self.replays[step] = self._recorded(step, warmups)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"a step runs without a CUDA graph, since recording failed: {reason}", stacklevel=2)
        with torch.no_grad():
            for tensor, old in zip(self.state(), before, strict=False):
                tensor.copy_(old)
            for tensor in self.state()[len(before) :]:
                tensor.zero_()  # optimizer state that the warm-up brought into being
        torch.cuda.synchronize()
        self.seconds += time.perf_counter() - began

    def _recorded(self, step: Step, warmups: int) -> Step:
        stream = torch.cuda.Stream()  # the same for warm-up and recording, as autograd remembers streams
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(warmups):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=stream):
            step()
        return graph.replay
