"""One page of all tables and figures in a folder: the account of them first, then each in compact form."""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..data.standard import STANDARD_SETS
from ..errors import InputError
from ..files import write_atomically
from . import account, model_origins
from .compact import compact_tables
from .rows import Measured, Row
from .writing import read_csv


def write_page(page: Path, folder: Path, names: Sequence[str], runs: Path = Path("runs"), remark: str = "") -> Path:
    """Write a page that gathers the tables of a folder; return its path.

    Parameters
    ----------
    names : all tables and figures there can be; those whose CSV is not in the folder are named as not made yet.
    runs : folder of training runs, where cards are looked for of models that are not shipped.
    remark : what a reader should know of the circumstances, what else ran on the machine for example.
    """
    write_atomically(page, as_markdown(page, folder, names, runs, remark), make_folder=True)
    return page


def as_markdown(page: Path, folder: Path, names: Sequence[str], runs: Path, remark: str = "") -> str:
    """Return the whole page; see `write_page`."""
    tables = {name: read_table(folder / f"{name}.csv") for name in names if (folder / f"{name}.csv").is_file()}
    rows = [m for each in tables.values() for m in each]
    found = account.account(tables)
    parts = [
        "# Results",
        _made_by(page, folder, tables),
        *([remark] if remark else []),
        *_warnings(tables),
        "## Where we are better, equal or worse",
        account.as_markdown(found),
        "### Time beside the exact solvers",
        account.beside_exact(found),
        "## Why we think so",
        account.reasons(found) or "Nothing to explain yet.",
    ]
    for name in names:
        if name in tables:
            parts += _part(page, folder, name, tables[name])
    missing = [name for name in names if name not in tables]
    if missing:
        commands = [f"icdc reproduce {name} --out {folder} --page {page}" for name in missing]
        words = f"Not made yet: {', '.join(missing)}. To make them, and this page again:"
        parts += ["## What is missing", words, "```bash\n" + "\n".join(commands) + "\n```"]
    parts += ["## How the models were trained", model_origins.as_markdown(rows, runs)]
    return "\n\n".join(parts) + "\n"


def read_table(path: Path) -> list[Measured]:
    """Return the rows of what `as_csv` wrote, also those without figures, with the note that says why."""
    text = path.read_text(encoding="utf-8")
    try:
        measured = iter(read_csv(text))
        return [next(measured) if line["seconds"] else _missing(line) for line in csv.DictReader(text.splitlines())]
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: this is not a table of icdc reproduce ({error})") from error


def _missing(line: Mapping[str, str]) -> Measured:
    gap, cost = (float(line[name]) if line[name] else None for name in ("paper_symmetric_gap", "paper_cost"))
    row = Row(
        line["dataset"],
        line["method"],
        line["solver"],
        int(line["samples"]),
        line["model"] or None,
        line["train"].replace(" && ", "\n"),
        gap,
        cost,
    )
    return Measured(row, note=line["note"])


def _made_by(page: Path, folder: Path, tables: Mapping[str, Sequence[Measured]]) -> str:
    """Say how the numbers came about."""
    summaries = [m.summary for rows in tables.values() for m in rows if m.summary is not None]
    seeds = sorted({summary.seed for summary in summaries})
    devices = sorted({summary.device for summary in summaries})
    words = (
        f"Made by `icdc reproduce {' '.join(tables) or 'NAME...'} --out {folder} --page {page}`, the options "
        "of each table below its full form; no figure is written by hand. "
        f"Seed of the solvers: {', '.join(map(str, seeds)) or '–'}; the test sets have their own "
        f"(`icdc.data.standard`). Devices of the rows: {', '.join(devices) or '–'}."
    )
    meaning = (
        "The *gap* is the plain gap of mean costs to the proven optimum, 100·(a − b)/b in %; in brackets its 95 % "
        "bootstrap interval over instances. Where the paper's figure stands beside ours, both are symmetric gaps, "
        "200·(a − b)/(a + b), the paper's for its own draw of instances. ×n is n samples for each instance. Times are "
        "shares of the time for a whole batch. Rows that are not measured say why."
    )
    return f"{words}\n\n{meaning}"


def _warnings(tables: Mapping[str, Sequence[Measured]]) -> list[str]:
    """Return what a reader must know before believing a number."""
    words = []
    few = {name: _partly_solved(rows) for name, rows in tables.items()}
    if any(few.values()):
        listed = "; ".join(f"{', '.join(sets)} in `{name}`" for name, sets in few.items() if sets)
        words.append(f"**Not all instances of a test set were solved: {listed}.**")
    rows = [m for each in tables.values() for m in each]
    broken = sorted({m.row.method for m in rows if m.summary is not None and m.summary.below})
    if broken:
        words.append(f"**Below a proven optimum, so something is broken: {', '.join(broken)}.**")
    return words


def _partly_solved(rows: Sequence[Measured]) -> list[str]:
    """Return the test sets of which only some instances were solved, with how many."""
    return sorted(
        {
            f"{m.row.dataset} ({m.summary.instances} of {STANDARD_SETS[m.row.dataset].count:,})"
            for m in rows
            if m.summary is not None and m.summary.instances < STANDARD_SETS[m.row.dataset].count
        }
    )


def _part(page: Path, folder: Path, name: str, rows: Sequence[Measured]) -> list[str]:
    """Return one target: its title, its files, its figure, its tables."""
    full = folder / f"{name}.md"
    title = name
    if full.is_file():
        title = full.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    files = {"everything in one table": full, "CSV": folder / f"{name}.csv", "figure as SVG": folder / f"{name}.svg"}
    links = [f"[{words}]({_relative(path, page)})" for words, path in files.items() if path.is_file()]
    parts = [f"## {title}", f"`{name}`: {', '.join(links)}."]
    picture = folder / f"{name}.png"
    if picture.is_file():
        parts.append(f"![{title}]({_relative(picture, page)})")
    return [*parts, *compact_tables(name, rows)]


def _relative(path: Path, page: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()
