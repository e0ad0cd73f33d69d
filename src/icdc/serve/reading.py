"""What the server understands of some content, for a page that shows it before anything is solved."""

from typing import Any

from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..problems import BUILT_IN, get_problem
from ..problems.base import main_matrix
from ..problems.instance import Instance
from .limits import Settings
from .options import read_options
from .orders import Source, one_instance, problem_named, refuse_halves


def read(source: Source, settings: Settings) -> dict[str, Any]:
    """Return the instance of some content as JSON; as each problem it may be, with a question, where it may be several.

    A request may name the problem, and the file the content came from, and say how it is to be read.
    """
    refuse_halves(source)
    named, options = problem_named(source.words.get("problem")), read_options(source.words)
    name, cells = source.words.get("name"), settings.limits.cells
    try:
        return described(one_instance(source.content, source.kind, name, named, cells, options))
    except UsageError as error:
        if named is not None:
            raise
        question = error
    fitting = []
    for candidate in BUILT_IN:
        try:
            fitting.append(one_instance(source.content, source.kind, name, get_problem(candidate), cells, options))
        except (InputError, UsageError):
            continue
    if not fitting:
        raise question
    readings = {instance.problem.name: described(instance) for instance in fitting}
    return {"problem": None, "question": str(question), "candidates": readings}


def described(instance: Instance) -> dict[str, Any]:
    """Return an instance as JSON: what it is, its names, its arrays, and one matrix to look at."""
    problem, batch = instance.problem, instance.batch()
    # of a sequence of jobs, the numbers that were given and not the tour that they become
    matrix = instance.arrays[problem.arrays[0]][None] if problem.restated else main_matrix(problem, batch)
    return {
        "problem": problem.name,
        "name": instance.name,
        "understood": instance.understood,
        "subject": problem.describe_size(problem.size(batch)),
        "rows": instance.rows,
        "columns": instance.columns,
        "matrix": None if matrix is None else _with_gaps(instance, matrix[0]),
        "arrays": {name: array.tolist() for name, array in instance.arrays.items()},
        "coordinates": None if instance.coordinates is None else instance.coordinates.tolist(),
    }


def _with_gaps(instance: Instance, matrix: NDArray[Any]) -> list[list[Any]]:
    """Return a matrix with None where a pair is forbidden."""
    if instance.forbidden is None:
        return list(matrix.tolist())
    gaps = matrix.astype(object)
    rows, columns = matrix.shape
    gaps[instance.forbidden[:rows, :columns]] = None
    return list(gaps.tolist())
