"""`icdc info`: versions, devices, solvers and models, for a report or a quick look."""

import importlib.metadata
import importlib.util
import json
import os
import platform
from typing import Annotated, Any

import typer

_PACKAGES = ("torch", "numpy", "scipy", "safetensors", "typer", "matplotlib")
_MODULES = {"exact": "ortools", "pyvrp": "pyvrp", "lkh": "elkai"}


def info(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show versions, the device that would be used, solvers that are installed or missing, and models."""
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


def gather() -> dict[str, Any]:
    """Return everything `icdc info` shows."""
    import torch

    from .. import __version__
    from ..model import available
    from ..solvers import SOLVERS

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
    }
