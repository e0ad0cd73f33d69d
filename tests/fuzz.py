"""A fuzzer of everything that reads: a truth is written in many ways and read back, files are damaged, options drawn.

    python -m tests.fuzz --minutes 60 [--seed 1] [part of a property's name …]
    python -m tests.fuzz --service --minutes 10    # requests to a service on this machine
    python -m tests.fuzz --tables --minutes 10     # tables that are easily misunderstood

No property may see an internal error, another meaning than the writer's, or more than four gigabytes of memory. The
test suite runs the same properties for half a minute. With `--tables` tables are drawn that are easily misunderstood
(`tests.io.generated`): none may be read as anything but what it means.
"""

import argparse
import contextlib
import io
import itertools
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from icdc.cli import run
from icdc.errors import IcdcError
from icdc.io import Instance, ReadOptions, read_instances
from icdc.io.cells import tidy
from icdc.problems import get_problem
from tests.io.corpus import CORPUS
from tests.io.generated import try_tables
from tests.io.test_corpus import attempt
from tests.io.writers import WRITERS, Truth, Written
from tests.serve.fuzzing import requests_never_end_in_an_internal_error
from tests.serve.process import running_service

LARGEST_MEMORY = 4 * 2**30
PLACES = st.integers(0, 2**20)
"""Where a file is damaged, modulo its length, which need not be the same each time: packed files hold the time."""
FOLDER = Path(tempfile.gettempdir()) / f"fuzz-{os.getpid()}"


def saved(name: str, content: bytes) -> Path:
    """Write a file of this process, in place of the last of that name."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    path.write_bytes(content)
    return path


def assert_means(instance: Instance, truth: Truth) -> None:
    """Check that what was read is what was meant, number by number and name by name."""
    assert instance.problem.name == truth.problem
    found = instance.arrays[instance.problem.arrays[0]]
    forbidden = np.zeros(found.shape, dtype=bool) if instance.forbidden is None else instance.forbidden
    np.testing.assert_array_equal(forbidden, truth.forbidden)
    np.testing.assert_array_equal(np.where(forbidden, 0, found), truth.matrix)
    names = [None if group is None else tuple(map(tidy, group)) for group in (truth.rows, truth.columns)]
    if truth.problem == "atsp":  # one set of names is enough
        names = [names[0] or names[1]] * 2
    assert [instance.rows, instance.columns] == names


def another_meaning(truth: Truth, problem: str | None) -> bool:
    """Tell whether a square table has, by the documented rules, another meaning where a problem is said, or none is.

    An empty diagonal, or an empty half beside a diagonal of nothing, makes it distances.
    """
    rows, columns = truth.matrix.shape
    if rows != columns or rows == 1 or problem == "pmsp":
        return False
    if truth.problem == "pmsp" and truth.forbidden.diagonal().all():
        return True
    nothing = (truth.forbidden | (truth.matrix == 0)).diagonal().all()
    halves = [truth.forbidden[np.triu_indices(rows, 1)].all(), truth.forbidden[np.tril_indices(rows, -1)].all()]
    return bool(nothing) and any(halves)


def vanishes(truth: Truth, written: Written) -> bool:
    """Tell whether a row or a column is all empty, so that a file of cells does not show it, or is refused."""
    if not written.name.startswith(("t.csv", "t.tsv", "t.xlsx")) or not truth.forbidden.any():
        return False
    return bool(truth.forbidden.all(1).any() or truth.forbidden.all(0).any())


def truth_is_read(kind: str) -> Callable[..., None]:
    """Return the property that what a writer writes is read as what it means, or refused with the option it needs."""

    def check(data: st.DataObject) -> None:
        writer, meant = WRITERS[kind]
        truth = data.draw(meant)
        written = data.draw(writer(truth))
        path = saved(written.name, written.content)
        if vanishes(truth, written) or another_meaning(truth, truth.problem):
            return
        (told,) = read_instances(path, get_problem(truth.problem), written.options)
        assert_means(told, truth)
        if another_meaning(truth, None):
            return
        guessed, refusal = attempt(path)
        if refusal is None:
            assert_means(guessed[0], truth)
        else:
            assert refusal.isprintable()

    check.__name__ = f"{kind}_mean_what_was_written"
    return check


def damaged_files_are_read_or_refused(data: st.DataObject) -> None:
    """Whatever bytes a file is made of, it is read, or refused with one printable sentence that names it."""
    if data.draw(st.booleans()):
        entry = data.draw(st.sampled_from(CORPUS))
        name, content = entry[0], entry[1] if isinstance(entry[1], bytes) else entry[1].encode()
    else:
        writer, meant = WRITERS[data.draw(st.sampled_from(sorted(WRITERS)))]
        written = data.draw(writer(data.draw(meant)))
        name, content = written.name, written.content
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(PLACES) % (len(damaged) + 1)
        piece = data.draw(st.binary(max_size=4) | st.sampled_from([b",", b"\n", b'"', b"#", b"\xff", b"9" * 30, b"[["]))
        damaged[place : place + data.draw(st.integers(0, 4))] = piece
    if data.draw(st.booleans()):
        del damaged[data.draw(PLACES) % (len(damaged) + 1) :]
    ending = data.draw(st.sampled_from(["", "", "", ".csv", ".json", ".atsp", ".npz", ".xlsx", ".gz", ".txt"]))
    path = saved("damaged" + (ending or "".join(Path(name).suffixes)), bytes(damaged))
    problem = data.draw(st.sampled_from([None, "atsp", "pmsp", "navigation"]))
    asked = None if problem is None else get_problem(problem)
    instances, refusal = attempt(path, asked, data.draw(OPTIONS))
    if refusal is not None:
        assert refusal.isprintable()
        assert str(path) in refusal or refusal.startswith("--range")
    for instance in instances:
        assert instance.understood is not None
        assert instance.understood.isprintable()


OPTIONS: st.SearchStrategy[ReadOptions] = st.just(ReadOptions()) | st.builds(
    ReadOptions,
    labels=st.sampled_from([None, True, False]),
    comments=st.sampled_from([None, True, False]),
    decimal=st.sampled_from([None, ".", ","]),
    id_column=st.sampled_from([None, None, "0", "1", "2", "99", "job", "m1"]),
    metric=st.sampled_from([None, None, None, "euclidean", "geo"]),
    sheet=st.sampled_from([None, None, None, "Sheet", "Other"]),
    range=st.sampled_from([None, None, None, "A1:B2", "B2:ZZ9", "B2"]),
    nan_forbidden=st.booleans(),
    skip=st.sampled_from([(), (), (), ("job",), ("row 2", "column 1"), ("m1",)]),
    transpose=st.sampled_from([None, None, True, False]),
    hidden=st.sampled_from([None, None, True, False]),
)

WORDS = st.sampled_from(
    "--labels --no-labels --comments --decimal=, --decimal=. --decimal=x --id-column=1 --id-column=z --metric=geo "
    "--metric=euclidean --metric=moon --skip=job --skip= --transpose --no-transpose --hidden "
    "--sheet=S --range=A1:B2 --forbidden=nan --forbidden=x --problem=pmsp "
    "--problem=atsp --problem=none --json --seed=-1 --seed=99999999999999999999 --samples=0 --samples=2 "
    "--time-limit=nan --time-limit=-1 --time-limit=1e9".split(" ")
)


def options_never_end_in_an_internal_error(data: st.DataObject) -> None:
    """`icdc solve` with drawn options ends with an answer or one sentence, and with the exit code of its kind."""
    entry = data.draw(st.sampled_from([entry for entry in CORPUS if len(entry[1]) < 300]))
    content = entry[1] if isinstance(entry[1], bytes) else entry[1].encode()
    path = saved("options" + "".join(Path(entry[0]).suffixes), content)
    solver = data.draw(st.sampled_from(["ect", "nn", "random"]))
    words = data.draw(st.lists(WORDS, max_size=4))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["solve", str(path), "--solver", solver, *words])
    assert code in (0, 2, 3, 4), (code, err.getvalue())
    assert all(line.isprintable() for line in out.getvalue().splitlines())


def damaged_models_are_refused(data: st.DataObject) -> None:
    """A model file with bytes changed is loaded, or refused with a sentence."""
    from icdc.models.catalogue import models_folder
    from icdc.models.diffusion import load

    source = min(models_folder().glob("*.safetensors"), key=lambda path: path.stat().st_size)
    content = bytearray(source.read_bytes())
    length = int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(PLACES) % (8 + length)
        content[place : place + 1] = data.draw(st.binary(min_size=0, max_size=2))
    if data.draw(st.booleans()):
        del content[data.draw(PLACES) % (len(content) + 1) :]
    path = saved("model.safetensors", bytes(content))
    with contextlib.suppress(IcdcError):
        load(str(path))


PROPERTIES: dict[str, Callable[[st.DataObject], None]] = {
    **{check.__name__: check for check in map(truth_is_read, WRITERS)},
    **{
        check.__name__: check
        for check in (
            damaged_files_are_read_or_refused,
            options_never_end_in_an_internal_error,
            damaged_models_are_refused,
        )
    },
}


def assert_holds(
    name: str, examples: int, start: int | None = None, check: Callable[[st.DataObject], None] | None = None
) -> None:
    """Try a property on so many examples: always the same ones without a `start`, else those of that seed."""
    check = check or PROPERTIES[name]

    def with_data(data: Any) -> None:
        check(data)

    tried = settings(
        max_examples=examples,
        deadline=None,
        derandomize=start is None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )(given(st.data())(with_data))
    (tried if start is None else seed(start)(tried))()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak < LARGEST_MEMORY, f"{name}: {peak / 2**30:.1f} GiB of memory were taken"


def tables(minutes: float, start: int | None) -> int:
    """Read drawn tables until the time is over, and count what became of them; print the first that are misread."""
    seeds = itertools.count(random.randrange(2**32) if start is None else start)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end and len(wrong) < 20:
        wrong += try_tables(itertools.islice(seeds, 20), counts)
    print("\n\n".join(wrong[:20]))
    print(f"{sum(counts.values())} readings: {dict(counts)}; {len(wrong)} wrong")
    return 1 if wrong else 0


def main() -> int:
    """Fuzz until the time is over; stop at the first property that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--service", action="store_true", help="send requests to a service on this machine instead")
    parser.add_argument("names", nargs="*", help="parts of the names of properties; by default all")
    parser.add_argument("--tables", action="store_true", help="tables that are easily misunderstood, and nothing else")
    asked = parser.parse_args()
    if asked.tables:
        return tables(asked.minutes, asked.seed)
    if asked.service:
        with running_service() as url:
            fuzz({"requests": partial(requests_never_end_in_an_internal_error, url=url)}, asked.minutes, asked.seed)
    else:
        names = [name for name in PROPERTIES if not asked.names or any(part in name for part in asked.names)]
        fuzz({name: PROPERTIES[name] for name in names}, asked.minutes, asked.seed)
    return 0


def fuzz(properties: dict[str, Callable[[st.DataObject], None]], minutes: float, first: int | None) -> None:
    """Try properties, 100 examples of each in turn, until the time is over."""
    rng = random.Random(first)
    end = time.monotonic() + 60 * minutes
    rounds = 0
    while time.monotonic() < end:
        for name, check in properties.items():
            start = rng.randrange(2**32)
            try:
                assert_holds(name, 100, start, check)
            except BaseException:
                print(f"{name} failed with the examples of seed {start}", file=sys.stderr)
                raise
            if time.monotonic() > end:
                break
        rounds += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rounds} rounds of {len(properties)} properties, 100 examples each; at most {peak:.2f} GiB of memory")


if __name__ == "__main__":
    sys.exit(main())
