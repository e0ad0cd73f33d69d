"""What each of our choices is worth: in solving with the shipped model, and in training."""

from . import models
from .methods import PAPER_SAMPLING
from .rows import Report, Row
from .session import Session
from .tables import by_samples

SOLVING: dict[str, str] = {
    "solving: noised afresh, the base of the others": "reverse=fresh,order=rule,temperature=1.0,decodes=8",
    "solving: only the last solution counts": "reverse=fresh,order=rule,temperature=1.0,decodes=8,keep=last",
    "solving: one decode a step": "reverse=fresh,order=rule,temperature=1.0,decodes=1",
    "solving: 128 decodes a step": "reverse=fresh,order=rule,temperature=1.0,decodes=128",
    "solving: the posterior instead of fresh noise": "reverse=posterior,order=rule,temperature=1.0,decodes=8",
    "solving: elements denoised independently": "reverse=independent,order=rule,temperature=1.0,decodes=8",
    "solving: decoded by confidence": "reverse=fresh,order=confidence,temperature=1.0,decodes=8",
    "solving: temperature 0.5": "reverse=fresh,order=rule,temperature=0.5,decodes=8",
    "solving: 5 steps": "reverse=fresh,order=rule,temperature=1.0,decodes=8,steps=5",
    "solving: refined three times": "reverse=fresh,order=rule,temperature=1.0,decodes=8,refine=3",
    "solving: as in the paper": PAPER_SAMPLING,
}
TRAINING: dict[str, tuple[str, ...]] = {
    "no-refined-targets": ("targets.refine_rounds=0",),
    "constant-improvement": ("improvement.weight=0.5", "improvement.until=2.0"),
    "no-improvement": ("improvement.weight=0.0",),
    "no-decoder-loss": ("cloning.decoder=0.0",),
    "no-drafts": ("cloning.drafts=0.0",),
    "no-variational-bound": ("cloning.vb=0.0",),
    "long-memory": ("memory.rounds=64",),
    "no-relations-in-denoiser": ("model.network.relations_in_denoiser=false",),
    "raw-relations": ("model.network.rich_relations=false",),
    "gated-denoiser": ("model.network.denoiser=gated",),
    "dual-encoder": ("model.network.encoder=dual",),
    "three-layers": ("model.network.denoiser_layers=3",),
    "ten-steps": ("model.diffusion.steps=10",),
}
"""Switches of training, each turned alone, by the name of the run."""
TRAINED_ON = "atsp-20"
"""The test set whose preset the switches are turned in."""


def ablations(session: Session) -> Report:
    """One choice changed at a time."""
    rows: list[Row] = []
    sets = ("atsp-20", "pmsp-20x4")
    counts = session.samples[:3]
    for dataset in sets:
        solved_by, model = models.small_or_chosen(session, dataset), models.small(dataset)
        for words, options in SOLVING.items():
            spec = f"icdc:{options}"
            rows += [Row(dataset, words, spec, count, solved_by, f"icdc train {solved_by}") for count in counts]
        switches = TRAINING if dataset == TRAINED_ON else {}
        runs: dict[str, tuple[str, tuple[str, ...]]]
        runs = {"the default": (model, ()), "as in the paper": (f"paper-{model}", ())}
        runs |= {name.replace("-", " "): (f"ablation-{model}-{name}", changed) for name, changed in switches.items()}
        for words, (run, settings) in runs.items():
            command = f"icdc train {run}"
            if settings:
                changes = [f"--set {setting}" for setting in settings]
                command = " ".join([f"icdc train {model}", *changes, f"--out runs/{run}"])
            rows += [Row(dataset, f"training: {words}", "icdc", count, run, command) for count in counts]
    measured = session.measure(rows)
    words = (
        "*Solving* changes how the shipped model is run; *training* turns one switch of its preset, same time limit."
    )
    return Report("Ablations", [words], measured, [by_samples(dataset, measured) for dataset in sets])
