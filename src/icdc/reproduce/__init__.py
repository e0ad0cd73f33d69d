"""Every table and figure of the paper by one command: ours, the paper's beside it, and how to make it again."""

from collections.abc import Callable
from pathlib import Path

from ..errors import UsageError
from ..outcomes import OutcomeFile
from .ablations import ablations
from .page import write_page
from .rows import Report
from .session import Part, Session
from .sizes import generalisation
from .steps import sampling_steps
from .tables import atsp_table, navigation_table, pmsp_table, training_comparison
from .writing import write

TARGETS: dict[str, Callable[[Session], Report]] = {
    "pmsp-table": pmsp_table,
    "atsp-table": atsp_table,
    "navigation-table": navigation_table,
    "generalisation": generalisation,
    "sampling-steps": sampling_steps,
    "training-comparison": training_comparison,
    "ablations": ablations,
}


def reproduce(
    name: str,
    out: str | Path,
    *,
    quick: bool = False,
    limit: int | None = None,
    seed: int = 0,
    runs: str | Path = "runs",
    device: str = "auto",
    only: Part = "all",
    counts: tuple[int, ...] | None = None,
    cards: bool = False,
    say: Callable[[str], None] = lambda words: None,
) -> list[Path]:
    """Make one table or figure and return its files; see `Session` for the parameters.

    Outcomes of single instances are kept in one file for all tables of a folder, since tables share rows (a quick
    run's in a file of its own); a run that was stopped goes on where it was, and rows whose models are trained later
    join those that are there.
    """
    if name not in TARGETS:
        raise UsageError(f"unknown table or figure '{name}'; choose {', '.join(TARGETS)}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    store = OutcomeFile(folder / ("quick.outcomes.jsonl" if quick else "outcomes.jsonl"))
    session = Session(store, quick, limit, seed, Path(runs), device, only, counts, cards, say)
    return write(folder, name, TARGETS[name](session), session)


def gather(page: str | Path, out: str | Path, *, runs: str | Path = "runs", remark: str = "") -> Path:
    """Write one page of all tables and figures in a folder; see `write_page`."""
    return write_page(Path(page), Path(out), tuple(TARGETS), Path(runs), remark)
