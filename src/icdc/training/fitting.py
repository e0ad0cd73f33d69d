"""Runs that fit the machine: presets are made for a GPU, and a CPU takes smaller batches and fewer steps a round.

Memory is planned before anything is allocated: what a network keeps of an item for its backward pass is counted, and a
run that needs more than there is says so at once.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from ..errors import UsageError
from ..machine import available_memory, gibibytes
from ..networks import NetworkConfig
from ..problems.base import Problem
from .config import TrainingConfig

CPU_SETTINGS: dict[str, Any] = {
    "most_cells": 6_400,
    "targets.instances": 8,
    "targets.trajectories": 2,
    "targets.refine_decodes": 32,
    "targets.sampling.decodes": 32,
    "cloning.batch": 16,
    "cloning.steps_first": 6,
    "cloning.steps_last": 6,
    "batch": 8,
}
"""The most that presets take of each setting on a CPU: a round of 20 × 20 matrices then takes a few seconds on two
cores, and less than 1 GiB. `most_cells` divides batches of larger ones; `batch` is that of MatNet."""

_KEPT = {"edge": (9, 12), "gated": (4, 8)}
"""Numbers that a layer keeps for its backward pass: so many for every edge and unit of its state, and so many for every
item and unit of its width. Counted with `saved_tensors_hooks`; see the test."""
PEAK = 1.5
"""What is in memory at the peak of a step, in units of what is kept."""
_FLOAT = 4


def fit_to_cpu(config: Any, kept: Collection[str] = ()) -> tuple[Any, str | None]:
    """Return a preset's configuration with sizes that suit a CPU, and a line that says what was changed, if anything.

    Parameters
    ----------
    kept : settings that somebody asked for, such as "cloning.batch": they stay.
    """
    values, changes = asdict(config), []
    for name, most in CPU_SETTINGS.items():
        *tables, last = name.split(".")
        table: Any = values
        for part in tables:
            table = table.get(part, {})
        asked = any(key == name or name.startswith(f"{key}.") for key in kept)
        unlimited = name == "most_cells" and table.get(last) == 0
        if last in table and not asked and (table[last] > most or unlimited):
            if name != "most_cells":
                changes.append(f"{name} {most} instead of {table[last]}")
            table[last] = most
    if values == asdict(config):
        return config, None
    words = ", ".join(changes) if changes else f"batches of at most {CPU_SETTINGS['most_cells']} matrix entries"
    return _with(config, values), f"on this CPU: {words}"


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


def batches(config: TrainingConfig, rows: int, columns: int, seen: int | None = None) -> tuple[int, int]:
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
    instances, batch = batches(config, rows, columns)
    generating, cloning = _item_bytes(config, rows, columns)
    cells = rows * (config.model.network.candidates_of(rows, columns) or columns)
    memory = config.memory.rounds * instances * cells * 16 * _FLOAT
    return int(PEAK * max(instances * generating, batch * cloning) + memory)


def _with(config: Any, values: Mapping[str, Any]) -> Any:
    """Return a configuration with the changed values of its nested dictionary."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        old = getattr(config, name)
        if isinstance(value, Mapping):
            changed[name] = _with(old, value)
        elif value != old and type(value) is type(old):
            changed[name] = value
    return replace(config, **changed)
