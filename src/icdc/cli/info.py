"""`icdc info` and `icdc models`: versions, devices, solvers, presets and models, for a report or a quick look."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from typing import Annotated, Any

import typer

_PACKAGES = ("torch", "numpy", "scipy", "safetensors", "typer", "matplotlib")
_MODULES = {"exact": "ortools", "pyvrp": "pyvrp", "lkh": "elkai"}


def info(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show versions, the device that would be used, solvers that are installed or missing, models and presets."""
    about = gather()
    if as_json:
        print(json.dumps(about))
        return
    print(f"icdc {about['icdc']}, Python {about['python']} on {about['system']}")
    print("  " + ", ".join(f"{name} {version}" for name, version in about["packages"].items()))
    print(f"  device: {about['device']}; {about['processors']} processors, {about['threads']} threads")
    print("solvers:")
    width = max(map(len, about["solvers"]))
    for name, solver in about["solvers"].items():
        missing = f"  (missing: pip install 'icdc[{solver['extra']}]')" if not solver["available"] else ""
        print(f"  {name:<{width}}  {solver['summary']}{missing}")
    print("models: " + (", ".join(about["models"]) or "none"))
    print("presets of icdc train:")
    width = max(map(len, about["presets"]))
    for name, summary in about["presets"].items():
        print(f"  {name:<{width}}  {summary}")


def gather() -> dict[str, Any]:
    """Return everything `icdc info` shows."""
    import torch

    from .. import __version__
    from ..models.catalogue import available
    from ..solving.registry import SOLVERS
    from ..training import presets

    device = f"cuda ({torch.cuda.get_device_name()})" if torch.cuda.is_available() else "cpu"
    return {
        "icdc": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "device": device,
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "solvers": {
            name: {
                "problems": entry.problems,
                "summary": entry.summary,
                "extra": entry.extra,
                "available": entry.extra is None or importlib.util.find_spec(_MODULES[entry.extra]) is not None,
            }
            for name, entry in SOLVERS.items()
        },
        "models": available(),
        "presets": presets(),
    }


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List the shipped models: what they solve, which sizes they know, how large they are."""
    from ..models.catalogue import available, card_of, models_folder

    rows = []
    for name in available():
        size = (models_folder() / f"{name}.safetensors").stat().st_size
        rows.append({"model": name, **card_of(name), "bytes": size})
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    if not rows:
        print("no models ship with this installation; train one with icdc train", file=sys.stderr)
    table = [("model", "problem", "sizes", "size"), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    for line in table if rows else []:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return a model's line in the table."""
    sizes = ", ".join("×".join(map(str, size)) for size in row.get("sizes", []))
    return row["model"], str(row["problem"]), sizes, f"{row['bytes'] / 2**20:.1f} MiB"
