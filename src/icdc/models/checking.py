"""Model files come from anywhere: what they say is checked against their tensors before anything is built from it.

Only the header of a file is read here. A network that would need more numbers than the file has is refused before it is
built, so that a card that speaks of ten million units costs nothing; what is built is then compared with the file, name
by name and shape by shape, before any weight is read.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError, UsageError
from ..settings import build
from .base import TrainedModel, own_random_numbers

Shapes = Mapping[str, tuple[int, ...]]
Built = TypeVar("Built")
Made = TypeVar("Made", bound=TrainedModel)


def build_checked(kind: type[Built], values: Any, where: str) -> Built:
    """Build settings from what a file says; refuse unknown names, wrong types and impossible values."""
    try:
        return build(kind, values)
    except (UsageError, ZeroDivisionError) as error:
        raise InputError(f"{where} does not fit this version of icdc: {error}") from None


def build_fitting(make: Callable[[], Made], layers: int, products: Iterable[int], shapes: Shapes, path: Path) -> Made:
    """Return a model whose network is the one that a file has tensors of; refuse any other.

    Parameters
    ----------
    make : builds the model that the file describes.
    layers : how many layers it would have; each has at least one tensor.
    products : sizes of matrices that it would have: none can be more than all that is in the file.
    shapes : of the tensors in the file, by name.
    """
    wrong = InputError(f"the weights in {path} do not fit the network they are for")
    there = sum(math.prod(shape) for shape in shapes.values())
    if not 0 <= layers <= len(shapes) or max(products) > there:
        raise wrong
    try:
        with own_random_numbers():
            model = make()
    except (RuntimeError, TypeError, ValueError, ArithmeticError, MemoryError):
        raise wrong from None
    if {name: tuple(tensor.shape) for name, tensor in model.network.state_dict().items()} != dict(shapes):
        raise wrong
    return model


def checked_card(card: Any, where: str) -> dict[str, Any]:
    """Return what a file says about its model, where the parts that are used are of the kinds they should be."""
    if not isinstance(card, dict):
        raise InputError(f"{where}: its card must be a table")
    sizes = card.get("sizes", [])
    if not isinstance(sizes, list) or not all(_is_size(size) and len(size) == len(sizes[0]) for size in sizes):
        raise InputError(f"{where}: 'sizes' of its card must be a list of sizes, such as [[20]]")
    ranges = card.get("ranges")
    if ranges is not None and not (isinstance(ranges, dict) and all(map(_is_range, ranges.values()))):
        raise InputError(f"{where}: 'ranges' of its card must have two numbers for every name")
    for name in ("solving", "finetuning", "home", "improving"):
        entries = card.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InputError(f"{where}: '{name}' of its card must be a list of tables")
    for entry in card.get("solving", []):
        _check_advice(entry, f"{where}: 'solving' of its card")
    length = len(sizes[0]) if sizes else None
    for cell in card.get("home", []):
        _check_cell(cell, length, f"{where}: 'home' of its card")
    for entry in card.get("improving", []):
        _check_improving(entry, length, f"{where}: 'improving' of its card")
    return card


def _check_cell(cell: Mapping[str, Any], length: int | None, where: str) -> None:
    """Refuse a measurement that nobody could compare with."""
    numbers = cell.get("numbers")
    if not isinstance(cell.get("family"), str) or not _is_size(cell.get("size"), length):
        raise InputError(f"{where} must name a family and a size")
    if not all(_is_number(cell.get(name)) for name in ("alone", "with_search", "search")):
        raise InputError(f"{where} must have the gaps of the model alone, with search, and of search alone")
    if not isinstance(numbers, dict) or not all(map(_is_range, numbers.values())):
        raise InputError(f"{where} must have two numbers for every name")


def _check_improving(entry: Mapping[str, Any], length: int | None, where: str) -> None:
    """Refuse advice on local search inside the chain that nobody could follow."""
    options = entry.get("options")
    if not _is_size(entry.get("size"), length) or not isinstance(options, dict):
        raise InputError(f"{where} must name a size and options")
    if not options.keys() <= {"improve_rounds", "steps"} or not all(
        type(value) is int and 0 <= value < 2**31 for value in options.values()
    ):
        raise InputError(f"{where} may say improve_rounds and steps, whole numbers")
    if options.get("steps", 1) < 1:
        raise InputError(f"{where}: a trajectory has at least one step")


def _check_advice(entry: Mapping[str, Any], where: str) -> None:
    """Refuse advice on sampling that nobody could follow."""
    samples, size = entry.get("samples"), entry.get("size")
    if type(samples) is not int or samples < 1:
        raise InputError(f"{where} must say for how many samples it is")
    if size is not None and not _is_size(size):
        raise InputError(f"{where} names a size that is none")
    if type(entry.get("with_search", False)) is not bool:
        raise InputError(f"{where} must say true or false of with_search")
    from ..diffusion.sampler import SamplingOptions

    build_checked(SamplingOptions, entry.get("options"), where)


def _is_size(size: Any, length: int | None = None) -> bool:
    """Tell whether something is a size, of as many numbers as others have."""
    if not isinstance(size, list) or not all(type(n) is int and 0 < n < 2**31 for n in size):
        return False
    return bool(size) and length in (None, len(size))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_range(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair))
