"""What a solver did on one instance, and files of that, which an interrupted evaluation takes up again."""

import csv
import io
import json
import types
import typing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import InputError, UsageError
from ..io.files import LockedFile


@dataclass(frozen=True)
class Outcome:
    """One solver on one instance.

    dataset, instances_sha256, solver, samples, seed, time_limit : which run it belongs to.
    cost : None where the answer was not feasible; computed by the evaluation, not by the solver.
    proven : whether the solver claims to have proven its answer optimal.
    bound : the problem's lower bound, where there is no reference.
    seconds : the instance's share of the time its chunk took.
    """

    dataset: str
    instances_sha256: str
    solver: str
    samples: int
    seed: int
    time_limit: float | None
    instance: int
    cost: float | None
    feasible: bool
    proven: bool
    bound: float | None
    reference: float | None
    reference_proven: bool
    seconds: float
    device: str


RUN = ("dataset", "instances_sha256", "solver", "samples", "seed", "time_limit")
"""The entries of an outcome that say which run it belongs to."""


class OutcomeFile:
    """Outcomes in a `.jsonl` or `.csv`, one a line, appended chunk by chunk; one process at a time has the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in (".jsonl", ".csv"):
            raise UsageError(f"per-instance results go to a .jsonl or a .csv, not to '{self.path}'")
        self._runs: dict[tuple[Any, ...], dict[int, Outcome]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error})") from None
        self._file = LockedFile(self.path)
        self._keep(self._read())

    def outcomes_of(self, run: dict[str, Any]) -> dict[int, Outcome]:
        """Return the outcomes on file, by instance, of the run with these entries, all of `RUN`."""
        return dict(self._runs.get(tuple(run[name] for name in RUN), {}))

    def append(self, outcomes: list[Outcome]) -> None:
        """Add outcomes at the end and make sure that they are on disk."""
        if self.path.suffix == ".jsonl":
            self._file.append("".join(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes))
        else:
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, [field.name for field in fields(Outcome)])
            if not self._file.size:
                writer.writeheader()
            writer.writerows(asdict(outcome) for outcome in outcomes)
            self._file.append(text.getvalue())
        self._keep(outcomes)

    def close(self) -> None:
        """Let go of the file, so that others may take it."""
        self._file.close()

    def _keep(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            run = tuple(getattr(outcome, name) for name in RUN)
            self._runs.setdefault(run, {})[outcome.instance] = outcome

    def _read(self) -> list[Outcome]:
        # a last line that was cut short when a run was stopped is dropped, in the file too
        try:
            lines = self._file.read().decode().splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"'{self.path}' does not hold results of an evaluation: {error}") from None
        try:
            if self.path.suffix == ".jsonl":
                return [Outcome(**json.loads(line)) for line in lines]
            return [_from_text(row) for row in csv.DictReader(lines)]
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"'{self.path}' does not hold results of an evaluation: {error}") from error


def _from_text(row: dict[str, str]) -> Outcome:
    """Read a line of a CSV file back."""
    hints = typing.get_type_hints(Outcome)
    return Outcome(**{name: _value(row[name], hint) for name, hint in hints.items()})


def _value(text: str, hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        if text == "":
            return None
        hint = typing.get_args(hint)[0]
    return text == "True" if hint is bool else hint(text)
