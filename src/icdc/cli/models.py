"""`icdc models`: what ships."""

import json
import sys
from typing import Annotated, Any

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List the shipped models: what they solve, which sizes they know, how large they are."""
    from ..model import available, card_of, models_folder

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
