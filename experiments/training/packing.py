"""Training runs packed into pieces of a limited size, and back: what they need to go on elsewhere."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icdc.errors import InputError
from icdc.training.checkpoint import METRICS, REFERENCES, STATE

PIECE = 16 * 2**20 - 2**16
"""Largest size of a piece, in bytes."""
NAME = "state"


def pack(root: Path, folders: Iterable[Path], out: Path, name: str = NAME) -> list[Path]:
    """Write the runs in `folders`, all under `root`, into out/state.00, state.01, … and return these.

    The optimizer's moments are stored in bfloat16: they are averages of gradients, whose last digits are noise. So is
    the average of the weights, which forgets what it was within the next rounds.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for folder in folders:
            if (folder / STATE).is_file():
                _add(archive, (folder / STATE).relative_to(root), _slim(folder / STATE))
            for path in (folder / METRICS, folder / REFERENCES, folder / "curve.csv"):
                if path.is_file():
                    _add(archive, path.relative_to(root), path.read_bytes())
    whole = packed.getvalue()
    pieces = []
    for number, start in enumerate(range(0, len(whole), PIECE)):
        piece = out / f"{name}.{number:02d}"
        piece.write_bytes(whole[start : start + PIECE])
        pieces.append(piece)
    return pieces


def unpack(folder: Path, root: Path, name: str = NAME) -> None:
    """Put the runs that `pack` wrote into a folder back under `root`."""
    pieces = sorted(folder.glob(f"{name}.[0-9][0-9]"))
    if not pieces:
        raise InputError(f"there are no packed runs in '{folder}'")
    whole = io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))
    with tarfile.open(fileobj=whole, mode="r") as archive:
        # the first releases of Python 3.11 know no filters
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(root, **safe)  # type: ignore[arg-type]


def _add(archive: tarfile.TarFile, name: Path, content: bytes) -> None:
    entry = tarfile.TarInfo(name.as_posix())
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _slim(path: Path) -> bytes:
    """Return a state with narrow moments and averages; copied into their tensors they widen again."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    for moments in state["optimizer"]["state"].values():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.dim() > 0:
                moments[name] = value.bfloat16()
    if isinstance(averages := state.get("average"), dict):
        narrow = {name: value.bfloat16() if value.is_floating_point() else value for name, value in averages.items()}
        state["average"] = narrow
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()
