"""A file of answers, one JSON object a line: written as they come, taken up again where it stopped."""

import json
import math
import os
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..data import Instance
from ..data.solutions import choice_of
from ..errors import InputError, UsageError
from ..problem import to_tensors
from ..solving.report import Answer, json_line

Line = dict[str, Any]


class AnswersFile:
    """Answers on disk.

    Every call of `append` is on the disk when it returns, so a kill loses at most the answers that were being
    written; a line it cut short is removed when the file is taken up again.

    Parameters
    ----------
    path : the file.
    resume : go on with a file that is there; otherwise such a file is refused.
    """

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path = path
        if path.exists() and path.stat().st_size and not resume:
            raise UsageError(f"{path} holds answers already; go on with --resume, or choose another --out")

    def read(self, instances: Sequence[Instance], run: Line) -> dict[int, Line]:
        """Return the answers on file by place of their instance, after checking each against its instance.

        Parameters
        ----------
        instances : all of the batch.
        run : entries that every line must have, such as the seed: a file has answers of one run only.
        """
        waiting: dict[str, deque[int]] = {}
        for place, instance in enumerate(instances):
            waiting.setdefault(instance.name, deque()).append(place)
        found: dict[int, Line] = {}
        for number, line in enumerate(self._lines(), 1):
            where = f"{self.path}: line {number}"
            for key, value in run.items():
                if line.get(key) != value:
                    raise UsageError(f"{where} was made with {key} {line.get(key)}, not {value}; resume with the same")
            places = waiting.get(str(line.get("instance")))
            if not places:
                raise InputError(f"{where} answers '{line.get('instance')}', which is not among these instances")
            place = places.popleft()
            _check(line, instances[place], where)
            found[place] = line
        return found

    def append(self, answers: Iterable[Answer]) -> None:
        """Add answers at the end, and see them onto the disk."""
        text = "".join(json_line(answer) + "\n" for answer in answers)
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from None

    def _lines(self) -> list[Line]:
        """Read the lines; a last one without an end was cut short, and goes, in the file too."""
        if not self.path.exists():
            return []
        try:
            content = self.path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                os.truncate(self.path, len(whole))
        except OSError as error:
            raise InputError(f"{self.path}: cannot be taken up again ({error.strerror or error})") from None
        lines = []
        for number, text in enumerate(whole.splitlines(), 1):
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            if not isinstance(line, dict):
                raise InputError(f"{self.path}: line {number} is not an answer in JSON")
            lines.append(line)
        return lines


def _check(line: Line, instance: Instance, where: str) -> None:
    """Refuse an answer that its instance does not bear out: one of the two was changed."""
    if line.get("feasible") is False:
        return
    if line.get("feasible") is not True:
        raise InputError(f"{where} is not an answer of icdc solve")
    changed = InputError(f"{where} does not fit {instance.name}: it seems that one of them was changed")
    solution, objective = line.get("solution"), line.get("objective")
    if not isinstance(solution, list) or not all(type(item) is int for item in solution):
        raise changed
    if not isinstance(objective, int | float):
        raise changed
    try:
        choice = to_tensors({"choice": choice_of(solution, instance)})["choice"][None, None]
    except InputError:
        raise changed from None
    arrays = to_tensors(instance.batch())
    cost = instance.problem.cost(arrays, choice).item()
    if not instance.problem.feasible(arrays, choice).item() or not math.isclose(cost, objective, rel_tol=1e-9):
        raise changed
