"""How good the targets of a round are, and how long they take: ways of making them, on the same instances.

    python -m experiments.target_ways atsp-families --size 100 --each 6 \
        --way "before: trajectories=4 sampling.temperature=1.0 sampling.decodes=4 sampling.improve_best=1 \
               sampling.merge=0 refine_rounds=1 refine_decodes=4" --way "now:" --way "long: sampling.steps=20"

Every way is the preset with changes of its settings `targets.…`, and begins with the weights that the preset begins
with. Instances are of all families of the preset, as many of each, of a seed that neither training nor a test has. A
line for each way, in JSON: how far its targets are above the best that any way found, in % on average over families and
for each of them, and the seconds of the second of two runs, nothing being recorded or compiled. A way that is much
longer than the others is a good reference.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from icdc.cli.parameters import read_size
from icdc.errors import IcdcError, UsageError
from icdc.problems import get_problem
from icdc.problems.base import Arrays, Problem, Size
from icdc.problems.families import sample_family
from icdc.problems.tensors import to_tensors
from icdc.training import Trainer, TrainingConfig, load_config, parse_override
from icdc.training.sources import Batch, Source
from icdc.training.steps import Steps

SEED = 20_261_118
"""Of the instances."""


class Given(Source):
    """The same instances at every draw."""

    def __init__(self, instances: dict[str, torch.Tensor]) -> None:
        super().__init__(np.random.default_rng(0))
        self.instances = instances

    def draw(self, count: int) -> Batch:
        """Return all of them, whatever the count is: who asks wants as many."""
        return Batch(self.instances)


@dataclass(frozen=True)
class Way:
    """A name, and what is changed of the settings of targets."""

    name: str
    changes: dict[str, Any]


def way_of(text: str) -> Way:
    """Return a way from its words: a name, a colon, and changes with blanks between them."""
    name, colon, rest = text.partition(":")
    if not colon:
        raise UsageError(f"a way is a name, a colon and changes, such as 'long: sampling.steps=20'; got '{text}'")
    return Way(name.strip(), {f"targets.{key}": value for key, value in map(parse_override, rest.split())})


def instances_of(problem: Problem, families: Sequence[str], each: int, size: Size) -> Arrays:
    """Return as many instances of every family, one family after the other."""
    drawn = [sample_family(problem, family, each, size, np.random.default_rng([SEED, *size])) for family in families]
    return {name: np.concatenate([arrays[name] for arrays in drawn]) for name in drawn[0]}


def targets(
    preset: str, changes: dict[str, Any], size: Size, arrays: Arrays, device: str
) -> tuple[NDArray[np.float64], float]:
    """Make the targets of all instances, twice; return the costs of the second ones, and the seconds they took."""
    count = len(next(iter(arrays.values())))
    same = {
        "sizes": [list(size)], "targets.instances": count, "cloning.batch": 1, "memory.rounds": 1, "most_cells": 0,
        "most_memory": 0.0, "mixture.most": 1.0, "validation.every": 0.0,
    }  # fmt: skip
    config = load_config(preset, {**same, **changes})
    assert isinstance(config, TrainingConfig)
    trainer = Trainer(config, device=device, capture=False, compile_network=False)
    trainer.set_up()
    steps = Steps(trainer.weights, config, size, Given(to_tensors(arrays, trainer.device)))
    seconds = 0.0
    for _ in range(2):
        trainer.synchronise()
        began = time.perf_counter()
        steps.make_targets()
        trainer.synchronise()
        seconds = time.perf_counter() - began
    cost = steps.task().cost(steps.memory.rings["choice"]).squeeze(1)
    return cost.double().cpu().numpy(), seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--size", required=True, help="such as 100 or 200x50")
    parser.add_argument("--each", type=int, default=6, help="instances of each family")
    parser.add_argument("--way", action="append", required=True, metavar="NAME: CHANGE …")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all ways")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args(arguments)
    try:
        ways = [way_of(text) for text in asked.way]
        always = dict(map(parse_override, asked.set))
        config = load_config(asked.preset, always)
        families = list(dict.fromkeys(config.families))
        if not families:
            raise UsageError(f"the preset '{asked.preset}' has no families")
        problem = get_problem(config.problem)
        size = read_size(asked.size, problem)
        arrays = instances_of(problem, families, asked.each, size)
        found = [targets(asked.preset, {**always, **way.changes}, size, arrays, asked.device) for way in ways]
    except IcdcError as error:
        print(f"target_ways: {error}", file=sys.stderr)
        return error.exit_code
    best = np.min([cost for cost, _ in found], axis=0)
    for way, (cost, seconds) in zip(ways, found, strict=True):
        excess = (100 * (cost / best - 1)).reshape(len(families), asked.each).mean(1)
        each = {family: round(float(value), 3) for family, value in zip(families, excess, strict=True)}
        line = {"way": way.name, "excess %": round(float(excess.mean()), 3), "seconds": round(seconds, 3), **each}
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
