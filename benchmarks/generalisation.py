"""Gap against size: models on the standard sets of 10 to 100 cities, and of 20×3 to 100×10 jobs and machines.

    python benchmarks/generalisation.py --model atsp-20 --model atsp --model pmsp --refine 3 --out results
    python benchmarks/generalisation.py --model runs/new/model.safetensors --matnet matnet-atsp-20 --limit 32

Models are names of shipped ones, names of runs or files; each is run on the sets of its problem, with 20 reverse
steps unless told otherwise. Writes generalisation.csv and .md after every row, and .png and .svg in the end. Stopped
and called again, it goes on where it was (generalisation.outcomes.jsonl); rows of other models that the table has
already stay in it.
`icdc reproduce generalisation` has the same rows for the shipped models, beside the baselines.
"""

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from icdc.model import card_of
from icdc.outcomes import OutcomeFile
from icdc.reproduce.rows import Measured, Report, Row
from icdc.reproduce.session import Session
from icdc.reproduce.sizes import SETS, as_report, published_at
from icdc.reproduce.writing import read_csv, write_figure, write_table

NAME = "generalisation"


def rows_of(session: Session, model: str, name: str, samples: int, solver: str, refine: int = 0) -> list[Row]:
    """Return the rows of a model on every set of its problem: plain and, with rounds of it, refined.

    name : how the table calls it.
    solver : with its options, as `make_solver` reads it.
    """
    path = session.model_file(model)
    # what is nowhere is listed as not trained; its name tells the problem
    problem = str(card_of(path)["problem"]) if path is not None else model.removeprefix("matnet-").partition("-")[0]
    if problem not in SETS:
        raise SystemExit(f"'{model}' is for '{problem}', and there are sets of several sizes for {', '.join(SETS)}")
    ways = [(name, solver)]
    if refine:
        ways.append((f"{name}, refined", f"{solver},refine={refine}"))
    train = f"icdc train {model}" if path is None else ""
    rows = [Row(dataset, words, spec, samples, model, train) for dataset in SETS[problem] for words, spec in ways]
    return [replace(row, paper=published_at(row) if samples == 128 else None) for row in rows]


def short_names(models: list[str]) -> dict[str, str]:
    """Return a short name for each model: of its run or its file, or all it was given by where that is not unique."""
    paths = {model: Path(model) for model in models}
    short = {
        model: path.parent.name if path.name == "model.safetensors" else path.stem for model, path in paths.items()
    }
    return {m: name if name and list(short.values()).count(name) == 1 else m for m, name in short.items()}


def merged(earlier: list[Measured], now: list[Measured]) -> list[Measured]:
    """Return what is measured now and the other rows that the table had, by size and name."""
    places = {dataset: place for place, dataset in enumerate(name for sets in SETS.values() for name in sets)}
    fresh = {_key(m) for m in now}
    rows = [m for m in earlier if _key(m) not in fresh and m.row.dataset in places] + now
    return sorted(rows, key=lambda m: (places[m.row.dataset], m.row.method, m.row.samples))


def _key(measured: Measured) -> tuple[str, str, int]:
    row = measured.row
    return row.dataset, row.method, row.samples


def report_of(measured: list[Measured]) -> Report:
    """Return the report, with the paper's line for IC/DC."""
    words = (
        "A row solves the instances of a standard set with so many trajectories and keeps the best solution of all; "
        "*refined* noises it again and denoises it. Settings other than the number of steps come from a model's card "
        "for the sizes it was trained on, and are the default ones for others (*how*). The paper's line is its "
        "IC/DC trained on 20 cities, ×128, its symmetric gaps turned into plain ones."
    )
    return as_report(measured, [words], ["icdc"])


def main() -> None:
    """Measure row by row, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], help="a shipped model, a run or a file; several times")
    parser.add_argument("--matnet", action="append", default=[], metavar="MODEL", help="a trained MatNet to run beside")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20, help="network passes of a trajectory")
    parser.add_argument("--refine", type=int, default=0, metavar="ROUNDS", help="a second row for each set, refined")
    parser.add_argument("--limit", type=int, help="only the first so many instances of each set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    if not options.model and not options.matnet:
        parser.error("give at least one --model or --matnet")
    store = OutcomeFile(options.out / f"{NAME}.outcomes.jsonl")
    session = Session(store, limit=options.limit, seed=options.seed, runs=options.runs, device=options.device)
    names = short_names([*options.model, *options.matnet])
    rows: list[Row] = []
    for model in options.model:
        spec = f"icdc:steps={options.steps}"
        rows += rows_of(session, model, names[model], options.samples, spec, options.refine)
    for model in options.matnet:
        rows += rows_of(session, model, names[model], options.samples, "matnet")
    table = options.out / f"{NAME}.csv"
    earlier = read_csv(table.read_text(encoding="utf-8")) if table.exists() else []
    session.used |= {m.row.model for m in earlier if m.row.model and session.model_file(m.row.model)}
    command = shlex.join(["python", "benchmarks/generalisation.py", *sys.argv[1:]])  # the last of several calls
    measured: list[Measured] = []
    for row in rows:
        (found,) = session.measure([row])
        measured.append(found)
        gap = found.note if found.summary is None else f"{found.gap:.3f} % in {found.summary.seconds:.1f} s"
        print(f"{row.dataset}: {row.method} ×{row.samples}: {gap}", flush=True)
        report = report_of(merged(earlier, measured))
        write_table(options.out, NAME, report, session, command)
    write_figure(options.out, NAME, report_of(merged(earlier, measured)))


if __name__ == "__main__":
    main()
