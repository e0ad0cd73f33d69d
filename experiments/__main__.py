"""Make the tables, figures and pages of results: `python -m experiments TARGET...`, from a checkout.

A target is one of the tables (`all` for all of them), `pages`, which writes docs/results.md, docs/models.md, the tables
of the README and docs/baselines.md, and the figures, all from the CSV files that are there, or `missing`, which prints
the commands that train what the tables lack. Stopped and called again, measuring goes on where it was.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from experiments.markdown import between_marks
from experiments.tables.figures import FIGURES, draw, training_curves
from experiments.tables.measure import LEFT_OUT, Measurement, Part
from experiments.tables.pages import baselines_table, models_page, readme_table, results_page, training_commands
from experiments.tables.rows import SAMPLES, TARGETS, Measured, Row, Scope, read_table, write_table
from experiments.training.pages import (
    FILES,
    features_table,
    learning_panels,
    learning_table,
    paper_page,
    take,
    training_panels,
)
from icdc.errors import IcdcError, UsageError
from icdc.evaluation.evaluate import OutcomeFile
from icdc.io.files import write_atomically
from icdc.models.catalogue import available, card_of

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        for path in run(options):
            print(path)
    except IcdcError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def run(options: argparse.Namespace) -> Iterable[Path | str]:
    """Make what was asked for, and yield the files that were written, or the lines to print."""
    names = list(dict.fromkeys(n for name in options.targets for n in (TARGETS if name == "all" else [name])))
    unknown = [name for name in names if name not in (*TARGETS, "pages", "missing")]
    if unknown:
        raise UsageError(f"unknown target '{unknown[0]}'; choose {', '.join(TARGETS)}, all, pages or missing")
    for name in (name for name in names if name in TARGETS):
        yield from make_table(name, options)
    for text in options.take:
        group, _, source = text.partition("=")
        if group not in FILES or not source:
            raise UsageError(f"'{text}' is not of the form GROUP=FOLDER with a group of {', '.join(FILES)}")
        yield take(group, Path(source), options.out)
    if "missing" in names:
        here = [options.out / f"{name}.csv" for name in TARGETS]
        yield from training_commands(m for path in here if path.is_file() for m in read_table(path))
    if "pages" in names:
        yield from write_pages(options.out, options.docs)


def make_table(name: str, options: argparse.Namespace) -> Iterable[Path]:
    """Measure one target, and write its CSV file and its figure."""
    counts = tuple(sorted({int(text) for text in options.samples.split(",")})) if options.samples else SAMPLES
    scope = Scope((1, 2) if options.quick and not options.samples else counts, options.quick)
    measurement = Measurement(
        store=OutcomeFile(options.out / ("quick.outcomes.jsonl" if options.quick else "outcomes.jsonl")),
        limit=2 if options.quick and options.limit is None else options.limit,
        seed=options.seed,
        runs=options.runs,
        device=options.device,
        only=options.only,
        methods=frozenset(filter(None, options.methods.split(","))),
        warm_up=not options.quick,
        say=lambda words: print(words, file=sys.stderr, flush=True),
    )
    rows = TARGETS[name](scope)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{name}.csv"
    known = read_table(path) if path.is_file() else []
    measured = keep_known(measurement.measure(rows), known if not options.quick else [])
    write_atomically(path, write_table(measured))
    for command in training_commands(measured):
        measurement.say(f"to train what is missing: {command}")
    yield path
    if name in FIGURES:
        yield _write_figure(options.out, name, measured)


def keep_known(measured: list[Measured], known: Sequence[Measured]) -> list[Measured]:
    """Return rows with what a table had of those that could not be measured this time.

    So a table can be made in parts, on machines that have other models and packages.
    """
    had = {_key(m.row): m for m in known}

    def better(m: Measured) -> Measured:
        old = had.get(_key(m.row), m)
        return old if m.summary is None and (old.summary is not None or m.note == LEFT_OUT) else m

    return [better(m) for m in measured]


def write_pages(folder: Path, docs: Path) -> list[Path]:
    """Write all pages and figures from the files of a folder, and return their paths."""
    written = []
    for path, text in pages(folder, docs).items():
        write_atomically(path, text)
        written.append(path)
    written += [_write_figure(folder, name, read_table(folder / f"{name}.csv")) for name in FIGURES]
    curves = {
        "matnet-training": training_curves(folder / "matnet-training.csv"),
        "paper-training": training_panels(folder),
        "learning": learning_panels(folder),
    }
    for name, panels in curves.items():
        if panels:
            write_atomically(folder / f"{name}.png", draw(panels))
            written.append(folder / f"{name}.png")
    return written


def pages(folder: Path, docs: Path) -> dict[Path, str]:
    """Return the text of every page that is generated, whole or in part, by its path."""
    cards = {name: card_of(name) for name in available()}
    parts = [
        (docs.parent / "README.md", "results", readme_table(cards, folder)),
        (docs / "baselines.md", "baselines", baselines_table(folder)),
        (docs / "training.md", "features", features_table(folder)),
        (docs / "training.md", "learning", learning_table(folder)),
    ]
    found = {path: path.read_text(encoding="utf-8") for path, _, _ in parts}
    for path, name, text in parts:
        found[path] = between_marks(found[path], name, text)
    whole = {
        docs / "results.md": results_page(folder),
        docs / "models.md": models_page(cards, folder),
        docs / "paper-recipe.md": paper_page(folder),
    }
    return {**whole, **found}


def _write_figure(folder: Path, name: str, rows: Sequence[Measured]) -> Path:
    path = folder / f"{name}.png"
    write_atomically(path, draw(FIGURES[name](rows)))
    return path


def _key(row: Row) -> tuple[object, ...]:
    return row.dataset, row.method, row.model, row.answer, row.samples, row.change, row.options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", help=f"{', '.join(TARGETS)}, all, pages or missing")
    parser.add_argument(
        "--take", action="append", default=[], metavar="GROUP=FOLDER",
        help="first take over the curves that experiments.training.side_by_side wrote into a folder",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="two instances and few samples: does everything work?")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "results", help="folder of the CSV files and figures"
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pages; the README is beside it")
    parser.add_argument("--limit", type=int, help="only the first so many instances of each test set")
    parser.add_argument("--samples", default="", help="numbers of samples instead of 1,8,32,128")
    parser.add_argument("--seed", type=int, default=0, help="of the solvers")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of training runs")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda, for models")
    parser.add_argument("--methods", default="", help="only rows of these methods, with commas, for example random")
    parser.add_argument("--only", choices=get_args(Part), default="all", help="rows of models, or of the others")
    return parser


if __name__ == "__main__":
    sys.exit(main())
