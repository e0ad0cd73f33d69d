"""One curve of gap against training seconds from the pieces of a run, each begun with the weights of the one before.

    python benchmarks/learning_curve.py runs/first/quality.jsonl runs/second/quality.jsonl --out curve.jsonl

Writes the lines with the seconds of all pieces together, and draws them beside it (curve.png). Of the lines that
`time_to_quality.py` wrote, those of `--way` and `--samples` are kept; all unless given.
"""

import argparse
import json
from pathlib import Path

from time_to_quality import plot

from icdc.files import write_atomically


def joined(pieces: list[list[dict[str, object]]]) -> list[dict[str, object]]:
    """Return the lines of all pieces, the seconds of earlier ones added."""
    lines, before = [], 0.0
    for piece in pieces:
        lines += [{**line, "at": round(before + float(str(line["at"])), 1)} for line in piece]
        before = float(str(lines[-1]["at"]))
    return lines


def main() -> None:
    """Join, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", nargs="+", type=Path)
    parser.add_argument("--way", action="append", help="options of the solver, as they were given")
    parser.add_argument("--samples", type=int, action="append")
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl; the picture has the same name")
    options = parser.parse_args()
    lines = joined([[json.loads(text) for text in path.read_text().splitlines()] for path in options.pieces])
    kept = [
        line
        for line in lines
        if (not options.way or line["way"] in options.way)
        and (not options.samples or line["samples"] in options.samples)
    ]
    write_atomically(options.out, "".join(json.dumps(line) + "\n" for line in kept), make_folder=True)
    plot(kept, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
