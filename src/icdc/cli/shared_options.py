"""Options that several commands share, said once: a dataclass whose fields are options is one parameter of a command.

typer knows the options of a command by its signature, and nothing of groups; so `spread` gives it a signature in which
every field of a group is a parameter of its own, where the group was.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its groups one by one, by name, and is called with the groups."""
    taken = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: one.annotation for name, one in taken.parameters.items() if is_dataclass(one.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, one in taken.parameters.items():
        own = inspect.signature(groups[name]).parameters.values() if name in groups else [one]
        parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]

    @wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called
