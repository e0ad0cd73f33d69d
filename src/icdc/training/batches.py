"""How many instances and items go together, and how much memory that takes.

Memory is planned before anything is allocated: what a network keeps of an item for its backward pass is counted, and a
run that needs more than there is says so at once.
"""

from ..errors import UsageError
from ..machine import available_memory, gibibytes
from ..networks import NetworkConfig
from ..problems.base import Problem
from .config import TrainingConfig

_KEPT = {"edge": (9, 12), "gated": (4, 8)}
"""Numbers that a layer keeps for its backward pass: so many for every edge and unit of its state, and so many for every
item and unit of its width. Counted with `saved_tensors_hooks`; see the test."""
PEAK = 1.5
"""What is in memory at the peak of a step, in units of what is kept."""
_FLOAT = 4


def check_memory(needed: int, smaller: str) -> None:
    """Refuse a run that would need more memory than there is, before any of it is taken.

    needed : bytes.
    smaller : the settings that need it.
    """
    there = available_memory()
    if there is not None and needed > there:
        raise UsageError(
            f"training with these settings needs about {gibibytes(needed)} of memory, and {gibibytes(there)} are free: "
            f"choose a smaller {smaller}"
        )


def memory_needed(config: TrainingConfig, problem: Problem) -> int:
    """Return about how many bytes a step of training takes at its peak, with what stays in memory all the time."""
    return max(_needed(config, *problem.shape(size)) for size in config.sizes)


def kept_bytes(network: NetworkConfig, rows: int, columns: int) -> int:
    """Return about how many bytes the network keeps of one matrix of so many rows and columns, until its gradient."""
    layers = network.encoder_layers + network.denoiser_layers
    state = network.edge_width if network.denoiser == "edge" else network.width
    each_edge, each_item = _KEPT[network.denoiser]
    edges, candidates = rows * columns, network.candidates_of(rows, columns)
    gathered = 0
    if candidates:  # what columns bring to the attention is copied to their edges
        edges, gathered = rows * candidates, rows * candidates * 2 * network.width
    return layers * _FLOAT * (each_edge * edges * state + gathered + each_item * (rows + columns) * network.width)


def batch_sizes(config: TrainingConfig, rows: int, columns: int, seen: int | None = None) -> tuple[int, int]:
    """Return how many instances a round has and how many items a CLONING step, for so many rows and columns.

    As many as are asked for, within the limits on entries and on memory; the network sees `seen` columns of each row.
    """
    seen = seen or config.model.network.candidates_of(rows, columns) or columns
    instances, batch = (
        config.batch_of(wanted, rows, seen) for wanted in (config.targets.instances, config.cloning.batch)
    )
    if config.most_memory:
        room = config.most_memory * 2**30 / PEAK
        generating, cloning = _item_bytes(config, rows, columns)
        instances = max(1, min(instances, int(room // generating)))
        batch = max(1, min(batch, int(room // cloning)))
    return instances, batch


def _item_bytes(config: TrainingConfig, rows: int, columns: int) -> tuple[int, int]:
    """Return the bytes that a step keeps of one instance while it generates, and of one item while it clones."""
    network, targets = config.model.network, config.targets
    kept = kept_bytes(network, rows, columns)
    decodes = max(targets.sampling.decodes, targets.refine_decodes)
    decodes *= rows * (network.candidates_of(rows, columns) or columns) * _FLOAT
    one_pass = kept // max(1, network.encoder_layers + network.denoiser_layers) + decodes
    generating = max(one_pass, kept if config.improvement.weight > 0 else 0) * targets.trajectories
    return generating, kept if config.clones else 1


def _needed(config: TrainingConfig, rows: int, columns: int) -> int:
    instances, batch = batch_sizes(config, rows, columns)
    generating, cloning = _item_bytes(config, rows, columns)
    cells = rows * (config.model.network.candidates_of(rows, columns) or columns)
    memory = config.memory.rounds * instances * cells * 16 * _FLOAT
    return int(PEAK * max(instances * generating, batch * cloning) + memory)
