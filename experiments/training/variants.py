"""What is trained side by side: presets with a few settings changed, in groups that one command trains.

`cause` looks for what keeps the paper's own recipe from learning, one switch at a time; `readings` tries where the
paper leaves a choice; `ours` takes one part of our recipe away at a time; `presets` trains the paper's presets, their
repaired forms and the diffusion baselines; `features` compares what the network sees of instances of many families:
relations by dual prices, and relations in units of the mean; `learning` is for curves of
the two kinds of relations, and of networks that look at all columns or at each row's best ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """A preset with changes.

    name : of the run, and of its folder.
    words : what is changed, as the tables say it.
    preset : what it is a change of.
    data : the standard test set of its size.
    settings : the changes, as `icdc train --set` takes them.
    greedy : the last sample is decoded from row 0 on, as the paper's diffusion baselines are.
    """

    name: str
    words: str
    preset: str
    data: str
    settings: Settings = field(default_factory=dict)
    greedy: bool = False


NETWORK = "model.network."
ONE_HOT: Settings = {NETWORK + "identifier_kind": "one_hot", NETWORK + "identifiers": 32}
NORMAL: Settings = {NETWORK + "identifier_kind": "normal", NETWORK + "identifiers": 128}
DISTANCES: Settings = {NETWORK + "relations_in_denoiser": True, NETWORK + "products_in_denoiser": False}
PRODUCTS: Settings = {NETWORK + "relations_in_denoiser": True, NETWORK + "products_in_denoiser": True}
ALL_RELATIONS: Settings = {**PRODUCTS, NETWORK + "rich_relations": True}
BEST: Settings = {"targets.best_only": True, "targets.instances": 128}
AVERAGED: Settings = {"optimizer.average": 0.998}
MANY_DECODES: Settings = {"improvement.sampling.decodes": 16}
LAYER_NORM: Settings = {NETWORK + "norm": "layer"}

PAPER = {"atsp-20": "paper-atsp-20", "pmsp-20x4": "paper-pmsp-20x4"}
"""The paper's preset of each test set that the search is made on."""

BASELINES = ("paper-sl", "paper-rl", "paper-slrl")
"""The paper's diffusion baselines: by supervision, by reward, by reward after supervision."""

SWITCHES: dict[str, tuple[str, Settings]] = {
    "preset": ("nothing: normal identifiers, D in the encoder only, all samples as targets", {}),
    "onehot": ("one-hot identifiers, as MatNet's", ONE_HOT),
    "products": ("D and X_t · D in the denoiser", PRODUCTS),
    "all": ("all relations in encoder and denoiser", ALL_RELATIONS),
    "best": ("the best of 8 samples as target, 128 instances a round", BEST),
    "all-best": ("all relations, the best of 8 samples", {**ALL_RELATIONS, **BEST}),
    "all-layer": ("all relations, layer normalisation", {**ALL_RELATIONS, **LAYER_NORM}),
    "products-best": ("D and X_t · D in the denoiser, the best of 8 samples", {**PRODUCTS, **BEST}),
}
"""The search for the cause: what is changed in the paper's preset with normal identifiers, by a short name."""

PREDICTION: Settings = {"cloning.prd": 1.0}
PRINTED_LAMBDA: Settings = {"cloning.prd": 1e-3}
WARM: Settings = {"improvement.sampling.temperature": 2.0}
NO_IMPROVEMENT: Settings = {"improvement.weight": 1e-9}
READINGS: dict[str, tuple[str, Settings]] = {
    "fixed": ("nothing: all relations, the best sample of each instance as target", {}),
    "layer": ("layer normalisation", LAYER_NORM),
    "prd": ("λ₁ = 1", PREDICTION),
    "normal": ("normal identifiers", NORMAL),
    "raw": ("D and X_t · D in the denoiser, no other relations", {NETWORK + "rich_relations": False}),
    "distances": ("D alone in the denoiser, without X_t · D", {**DISTANCES, NETWORK + "rich_relations": False}),
    "phase-8": ("8 CLONING steps a phase", {"cloning.steps_first": 8, "cloning.steps_last": 8}),
    "phase-120": ("120 CLONING steps a phase", {"cloning.steps_first": 120, "cloning.steps_last": 120}),
    "rate-1e-3": ("learning rate 1e-3", {"optimizer.learning_rate": 1e-3}),
    "rate-1e-4": ("learning rate 1e-4", {"optimizer.learning_rate": 1e-4}),
    "mixture-0.9": ("α = 0.9", {"memory.mixture": 0.9}),
    "uniform": ("drawn from the memory uniformly", {"memory.reward_weighted": False}),
    "T-20": ("T = 20", {"model.diffusion.steps": 20, "improvement.sampling.steps": 20}),
    "printed": ("the reverse step as printed", {"model.diffusion.reverse_as_printed": True}),
    "bare": ("no clipping", {"optimizer.clip": 0.0}),
    "decay": ("cosine decay of the learning rate", {"optimizer.final_share": 0.02}),
    "warm": ("samples at temperature 2", WARM),
    "no-improvement": ("IMPROVEMENT's samples without its step", NO_IMPROVEMENT),
    "layer-prd": ("layer normalisation, λ₁ = 1", {**LAYER_NORM, **PREDICTION}),
    "layer-prd-warm": ("layer normalisation, λ₁ = 1, temperature 2", {**LAYER_NORM, **PREDICTION, **WARM}),
    "layer-prd-warm-no-improvement": (
        "layer normalisation, λ₁ = 1, temperature 2, no step of IMPROVEMENT",
        {**LAYER_NORM, **PREDICTION, **WARM, **NO_IMPROVEMENT},
    ),
}
"""What the paper leaves open, or might have meant, where all relations are seen and the best sample is the target."""

REMOVED: dict[str, tuple[str, Settings]] = {
    "whole": ("nothing", {}),
    "raw": ("raw relations only", {NETWORK + "rich_relations": False}),
    "paper-network": (
        "the paper's layers, 3 and 3, with all relations",
        {
            NETWORK + "encoder": "dual",
            NETWORK + "denoiser": "gated",
            NETWORK + "denoiser_layers": 3,
            NETWORK + "norm": "batch",
            NETWORK + "heads": 1,
        },
    ),
    "shallow": ("3 denoiser layers", {NETWORK + "denoiser_layers": 3}),
    "no-refinement": ("targets not refined", {"targets.refine_rounds": 0}),
    "no-drafts": ("no drafts", {"cloning.drafts": 0.0}),
    "improving": ("IMPROVEMENT to the end", {"improvement.weight": 0.5, "improvement.until": 2.0}),
    "long-memory": ("a memory of 128 rounds", {"memory.rounds": 128}),
    "no-average": ("no average of weights", {"optimizer.average": 0.0}),
}
"""Our own recipe, one part at a time taken away or turned back."""


FAMILIES = {"atsp-20": ("atsp-families", [[20]]), "pmsp-20x4": ("pmsp-families", [[20, 4]])}
"""The preset that learns many families, and the size that features are compared at, of each test set."""
FROM_NOTHING: Settings = {"init": "", "validation.every": 0.0, "mixture.most": 1.0}
"""Random weights, whatever the preset begins with; shares of families as they are; no validation of the run's own."""


def features() -> Iterator[Variant]:
    """Yield relations measured against dual prices, and relations in units of the mean."""
    for data, (preset, sizes) in FAMILIES.items():
        base: dict[str, Any] = {**FROM_NOTHING, "sizes": sizes, NETWORK + "candidates": 0}
        switches: dict[str, tuple[str, Settings]] = {
            "priced": ("all channels by prices", base),
            "mean": ("units of the mean instead of prices", {**base, NETWORK + "priced": False}),
        }
        yield from _of(data, preset, switches)


def learning() -> Iterator[Variant]:
    """Yield both kinds of relations on small instances, and both layouts on tours that are small enough for both."""
    yield from (variant for variant in features() if variant.name.endswith(("-priced", "-mean")))
    base: dict[str, Any] = {**FROM_NOTHING, "sizes": [[100]]}
    switches: dict[str, tuple[str, Settings]] = {
        "dense": ("all columns", {**base, NETWORK + "candidates": 0}),
        "sparse": ("16 candidate columns", {**base, NETWORK + "candidates": 16, NETWORK + "dense_up_to": 50}),
    }
    yield from _of("atsp-100", "atsp-families", switches)


def cause() -> Iterator[Variant]:
    """Yield the search for the cause, on tours and on schedules."""
    for data, preset in PAPER.items():
        base = {**NORMAL, **AVERAGED}
        yield from _of(data, preset, {name: (words, {**base, **more}) for name, (words, more) in SWITCHES.items()})


def readings() -> Iterator[Variant]:
    """Yield what learns, with one of the paper's silences filled in another way; averaged weights beside the others."""
    for data, preset in PAPER.items():
        base = {**ALL_RELATIONS, **BEST, **AVERAGED, **(MANY_DECODES if data == "pmsp-20x4" else {})}
        yield from _of(data, preset, {name: (words, {**base, **more}) for name, (words, more) in READINGS.items()})


def ours() -> Iterator[Variant]:
    """Yield our presets with one part taken away at a time, two seeds each."""
    for seed in (0, 1):
        for data, preset, more in (("atsp-20", "atsp-20", {}), ("pmsp-20x4", "pmsp-20", {"sizes": [[20, 4]]})):
            for name, (words, settings) in REMOVED.items():
                if (preset, name) == ("pmsp-20", "no-drafts"):  # it has none
                    continue
                changes = {**more, **settings, "seed": seed}
                yield _variant(data, preset, name, words, changes, f"-seed-{seed}")


def presets() -> Iterator[Variant]:
    """Yield the paper's presets, their repaired forms, and the diffusion baselines in the paper's form."""
    for data, preset in PAPER.items():
        yield Variant(preset, f"`{preset}`", preset, data)
        yield Variant(f"{preset}-fixed", f"`{preset}-fixed`", f"{preset}-fixed", data)
        if data == "pmsp-20x4":
            words = f"`{preset}-fixed`, λ₁ = 1e-3 as printed"
            yield Variant(f"{preset}-fixed-lambda", words, f"{preset}-fixed", data, PRINTED_LAMBDA)
        for method in BASELINES:
            yield Variant(f"{method}-{data}", f"`{method}-{data}`", f"{method}-{data}", data, greedy=True)


GROUPS = {
    "cause": cause, "readings": readings, "ours": ours, "presets": presets, "features": features, "learning": learning,
}  # fmt: skip
"""What can be trained by its name."""


def _of(data: str, preset: str, switches: Mapping[str, tuple[str, Settings]]) -> Iterator[Variant]:
    for name, (words, settings) in switches.items():
        yield _variant(data, preset, name, words, settings)


def _variant(data: str, preset: str, name: str, words: str, settings: Settings, end: str = "") -> Variant:
    return Variant(f"{data}-{name}{end}", words, preset, data, settings)
