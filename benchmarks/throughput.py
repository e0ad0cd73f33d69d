"""How long a whole test set takes, by the number of reverse steps: gap and seconds of the shipped models.

    python benchmarks/throughput.py --set atsp-50 --set pmsp-50x5 --steps 5,20 --out results

Times every set after a warm-up on one of its instances, alone on the device, and writes throughput.md and .csv after
every row. What else ran on the device at the time would make the seconds meaningless: run nothing beside it.
"""

import argparse
from itertools import product
from pathlib import Path

from icdc.data.standard import standard_set
from icdc.evaluation import evaluate, summarise
from icdc.files import write_atomically
from icdc.reproduce.rows import Measured, Row
from icdc.reproduce.writing import as_csv, hardware
from icdc.solving import DiffusionSolver


def as_table(rows: list[Measured]) -> str:
    """Return the rows as Markdown, with the machine below."""
    lines = ["| test set | instances | samples | steps | gap % | 95 % interval | seconds |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | --- | ---: |")
    for measured in rows:
        found = measured.summary
        assert found is not None
        interval = "–" if found.gap_low is None else f"{found.gap_low:.4f} … {found.gap_high:.4f}"
        gap = "–" if found.gap is None else f"{found.gap:.4f}"
        cells = [found.dataset, found.instances, found.samples, f"{measured.row.at:g}", gap, interval]
        lines.append("| " + " | ".join(map(str, cells)) + f" | {found.seconds:.2f} |")
    return "\n".join(lines) + f"\n\nOn {hardware()}; seed {rows[0].summary.seed if rows[0].summary else 0}.\n"


def main() -> None:
    """Measure row by row, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", required=True, help="a standard test set; several times")
    parser.add_argument("--steps", default="5,20")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--limit", type=int, help="only the first so many instances")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    rows: list[Measured] = []
    for name, steps in product(options.set, map(int, options.steps.split(","))):
        dataset = standard_set(name)
        dataset = dataset if options.limit is None else dataset.first(options.limit)
        spec = f"icdc:steps={steps}"
        solver = DiffusionSolver(steps=steps, device=options.device)
        outcomes = evaluate(dataset, solver, spec, samples=options.samples, chunk=len(dataset))
        rows.append(
            Measured(Row(name, f"IC/DC, ours, {steps} steps", spec, options.samples, at=steps), summarise(outcomes))
        )
        write_atomically(options.out / "throughput.md", as_table(rows), make_folder=True)
        write_atomically(options.out / "throughput.csv", as_csv(rows))
        print(as_table(rows[-1:]).splitlines()[2], flush=True)


if __name__ == "__main__":
    main()
