"""Every odd or broken input of the corpus is read as what it means, or refused with a sentence that names it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.errors import InputError, Surface, UsageError, shown_on
from icdc.io import Instance, ReadOptions, read_instances
from icdc.problems import get_problem
from tests.io.corpus import CORPUS


def attempt(path: Path, *arguments: Any) -> tuple[list[Instance], str | None]:
    """Return the instances of a file, or the sentence that refuses it; any other exception is a finding."""
    try:
        return read_instances(path, *arguments), None
    except (InputError, UsageError) as error:
        with shown_on(Surface.SHELL):
            return [], str(error)


def shown(instance: Instance) -> list[list[object]]:
    """Return the matrix of an instance with None at its forbidden pairs."""
    matrix = instance.arrays[instance.problem.arrays[0]].tolist()
    if instance.forbidden is not None:
        for row, column in np.argwhere(instance.forbidden):
            matrix[row][column] = None
    return matrix


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 200
    assert len({(entry[0], entry[1], repr(entry[3:])) for entry in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("entry", CORPUS, ids=range(len(CORPUS)))
def test_corpus(tmp_path: Path, entry: tuple) -> None:
    name, content, wanted, options, problem = (*entry, *(ReadOptions(), None)[len(entry) - 3 :])
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    asked = None if problem is None else get_problem(problem)
    instances, refusal = attempt(path, asked, options)
    if isinstance(wanted, str):
        assert refusal is not None
        assert wanted in refusal
        assert refusal.startswith((str(path), "--range"))
        assert refusal.isprintable()
        return
    assert refusal is None
    (instance,) = instances
    assert instance.problem.name == wanted.problem
    assert shown(instance) == wanted.matrix
    if all(isinstance(value, int | None) for row in wanted.matrix for value in row):
        assert instance.integral
    assert (instance.rows, instance.columns) == (wanted.rows, wanted.columns)
    assert instance.understood is not None
    assert wanted.said in instance.understood
    assert instance.understood.isprintable()
