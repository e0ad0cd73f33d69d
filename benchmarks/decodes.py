"""What it is worth to decode more solutions from every network pass: gap and seconds by decodes and temperature.

    python benchmarks/decodes.py --model pmsp --data validation.npz --samples 8 --decodes 32,128,512 --temperature 1.5,2

Prints a Markdown table, and with --out writes it. Settings are chosen by such tables, so take sets made for tuning,
never the standard test sets.
"""

import argparse
import json
from itertools import product
from pathlib import Path

from icdc.data.dataset import read_dataset
from icdc.evaluation import evaluate, summarise
from icdc.files import write_atomically
from icdc.model import load
from icdc.reproduce.compact import table
from icdc.reproduce.writing import hardware
from icdc.solving import DiffusionSolver

HEADINGS = ["set", "instances", "samples", "decodes", "temperature", "of reverse steps"]
HEADINGS += ["gap %", "95 % interval", "optimal %", "seconds"]


def main() -> None:
    """Measure row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, action="append", required=True, help="a dataset with references")
    parser.add_argument("--samples", default="8")
    parser.add_argument("--decodes", default="32,128,512")
    parser.add_argument("--temperature", default="1.5,2.0")
    parser.add_argument("--reverse", default="independent")
    parser.add_argument("--reverse-temperature", default="0", help="of independent reverse steps; 0 is as in decoding")
    parser.add_argument("--refine", type=int, default=0)
    parser.add_argument("--limit", type=int, help="only the first so many instances")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    model = load(options.model, options.device)
    rows: list[list[str]] = []
    numbers = ([int(text) for text in given.split(",")] for given in (options.samples, options.decodes))
    warmths = (
        [float(text) for text in given.split(",")] for given in (options.temperature, options.reverse_temperature)
    )
    for path, samples, decodes, temperature, warmer in product(options.data, *numbers, *warmths):
        dataset = read_dataset(path)
        dataset = dataset if options.limit is None else dataset.first(options.limit)
        solver = DiffusionSolver(
            model, order="rule", reverse=options.reverse, temperature=temperature, decodes=decodes,
            reverse_temperature=warmer, refine=options.refine, device=options.device,
        )  # fmt: skip
        found = summarise(evaluate(dataset, solver, "icdc", samples=samples, seed=options.seed, chunk=len(dataset)))
        how = [f"×{samples}", str(decodes), f"{temperature:g}", f"{warmer or temperature:g}"]
        gap = [f"{found.gap:.4f}", f"{found.gap_low:.4f} – {found.gap_high:.4f}", f"{found.optimal:.1f}"]
        rows.append([path.stem, str(found.instances), *how, *gap, f"{found.seconds:.2f}"])
        print(json.dumps(dict(zip(HEADINGS, rows[-1], strict=True)), ensure_ascii=False), flush=True)
        if options.out is not None:
            text = table(HEADINGS, rows) + f"\n\nOn {hardware()}; seed {options.seed}.\n"
            write_atomically(options.out, text.encode(), make_folder=True)
    print(table(HEADINGS, rows))


if __name__ == "__main__":
    main()
