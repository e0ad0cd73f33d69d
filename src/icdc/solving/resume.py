"""A file of answers, one JSON object a line: written as they come, taken up again where it stopped."""

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, UsageError
from ..io.files import LockedFile
from ..io.solutions import choice_of
from ..problems.instance import Instance
from ..problems.restating import restate
from .answer import Answer, gap, json_line, value_of
from .jobs import Job

Line = dict[str, Any]


class AnswersFile:
    """Answers on disk.

    Every call of `append` is on the disk when it returns, so a kill loses at most the answers that were being
    written; a line it cut short is removed when the file is taken up again. One process at a time has the file.

    Parameters
    ----------
    path : the file.
    resume : go on with a file that is there; otherwise such a file is refused.

    Attributes
    ----------
    lines : the answers by place of their instance.
    before : how many of them were on file before.
    taken_up : whether what was on file has been read and found to belong to this run.
    """

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path = path
        self.before, self.taken_up = 0, False
        self.lines: dict[int, Line] = {}
        self._file = LockedFile(path)
        if self._file.size and not resume:
            self._file.close()
            raise UsageError(f"{path} holds answers already; go on with --resume, or choose another --out")

    def take_up(self, instances: Sequence[Instance], jobs: Sequence[Job], limited: bool = False) -> set[int]:
        """Read the answers on file, check each against its instance, and return the places that have one.

        A file has answers of one run only: solver, model, samples and seed of every line must be those of the jobs.
        Where time is `limited`, an answer may have had fewer samples than were asked for.
        """
        run = _run_of(jobs)
        waiting: dict[str, deque[int]] = {}
        answered: dict[str, int] = {}
        for place, instance in enumerate(instances):
            waiting.setdefault(instance.name, deque()).append(place)
        for number, line in enumerate(self._lines(), 1):
            where = f"{self.path}: line {number}"
            name = str(line.get("instance"))
            places = waiting.get(name)
            if places is None:
                raise InputError(f"{where} answers '{name}', which is not among these instances")
            if not places:
                raise InputError(f"{where} answers '{name}' again, as line {answered[name]} does: remove one of them")
            answered[name] = number
            for key, value in run.items():
                used = line.get(key)
                if key == "model" and isinstance(used, str):
                    used = used.removesuffix(", adapted")  # as versions that adapted models wrote it
                cut_short = limited and key == "samples" and type(used) is int and 0 <= used < value
                if used != value and not cut_short and not (key == "model" and used is None):  # it may have needed none
                    raise UsageError(f"{where} was made with {key} {line.get(key)}, not {value}; resume with the same")
            place = places.popleft()
            _same_question(line, instances[place], where)
            _check(line, instances[place], where)
            self.lines[place] = line
        self.before, self.taken_up = len(self.lines), True
        return set(self.lines)

    def append(self, answers: Mapping[int, Answer]) -> None:
        """Add answers, by place, at the end, and see them onto the disk."""
        text = "".join(json_line(answer) + "\n" for answer in answers.values())
        self._file.append(text)
        self.lines.update({place: answer.as_dict() for place, answer in answers.items()})

    def close(self) -> None:
        """Let go of the file, so that others may take it."""
        self._file.close()

    def summary(self, count: int) -> str:
        """Say in a line how many of so many instances are answered, and how well."""
        words = f"{self.path}: {len(self.lines)} of {count} instances answered"
        words += f", {self.before} of them before" if self.before else ""
        gaps = [line["gap"] for line in self.lines.values() if line.get("gap") is not None]
        if gaps:
            some = "" if len(gaps) == len(self.lines) else f" of the {len(gaps)} with a bound"
            words += f"; mean gap{some} {100 * sum(gaps) / len(gaps):.2f} %, {sum(gap == 0 for gap in gaps)} optimal"
        return words

    def _lines(self) -> list[Line]:
        """Read the lines; a last one without an end was cut short, and goes, in the file too."""
        lines = []
        for number, text in enumerate(self._file.read().split(b"\n")[:-1], 1):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                line = None
            if not isinstance(line, dict):
                raise InputError(f"{self.path}: line {number} is not an answer in JSON")
            lines.append(line)
        return lines


def _run_of(jobs: Sequence[Job]) -> Line:
    """Return the entries that every answer of a run has alike."""
    if not jobs:
        return {}
    job = jobs[0]
    models = {job.solver.model_name for job in jobs}  # None: whichever suits an instance, or none
    run = {"solver": job.solver.name, "samples": job.samples, "seed": job.seed}
    return run | ({"model": models.pop()} if len(models) == 1 and None not in models else {})


def _same_question(line: Line, instance: Instance, where: str) -> None:
    """Refuse an answer of which something else was asked."""
    now = {} if instance.conditions is None else instance.conditions.as_dict()
    before = line.get("conditions")
    before = before if isinstance(before, dict) else {}
    for key in sorted({*now, *before}):
        if now.get(key) != before.get(key):
            old, new = (_shown(value.get(key)) for value in (before, now))
            raise UsageError(f"{where} was asked for with {key} {old}, not {new}; resume with the same")


def _shown(value: Any) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


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
        value = value_of(instance, restate(instance), choice_of(solution, instance))
        fits = value is not None and math.isclose(value, objective, rel_tol=1e-9)
    except (InputError, OverflowError):
        raise changed from None
    if not fits:
        raise changed
    bound, percent = line.get("bound"), line.get("gap")
    if not all(value is None or (type(value) in (int, float) and math.isfinite(value)) for value in (bound, percent)):
        raise changed
    # what is said about the optimum must agree with itself: the gap follows from the two others
    wanted = gap(objective, bound)
    if (wanted is None) != (percent is None) or not math.isclose(wanted or 0.0, percent or 0.0, rel_tol=1e-6):
        raise InputError(f"{where}: objective, bound and gap of {instance.name} contradict each other: one was changed")
    if bound is not None and bound > objective + 1e-9 * max(1.0, abs(objective)):
        raise InputError(f"{where}: the bound of {instance.name} is above its objective: one of them was changed")
