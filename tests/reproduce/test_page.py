"""The page of all results: verdicts by the rule, nothing left out silently, everything from the tables alone."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from icdc.errors import InputError
from icdc.evaluation import Summary
from icdc.model import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.outcomes import OutcomeFile
from icdc.problems import get_problem
from icdc.reproduce import TARGETS, account, comparisons, gather
from icdc.reproduce.compact import compact_tables, percent
from icdc.reproduce.gaps import symmetric_gap
from icdc.reproduce.page import read_table, write_page
from icdc.reproduce.reasons import WHY
from icdc.reproduce.rows import Measured, Row
from icdc.reproduce.session import NOT_TRAINED, Session
from icdc.reproduce.writing import as_csv

TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)


def measured(row: Row, gap: float, low: float, high: float, seconds: float = 0.001, instances: int = 1000) -> Measured:
    optimum = 1.5
    figures = Summary(
        dataset=row.dataset,
        solver=row.solver + (f" {row.model}@0123456789ab" if row.model else ""),
        samples=row.samples,
        seed=3,
        instances=instances,
        cost=optimum * (1.0 + gap / 100.0),
        reference=optimum,
        gap=gap,
        gap_low=low,
        gap_high=high,
        gap_at_most=None,
        symmetric_gap=symmetric_gap(gap),
        optimal=50.0,
        feasible=100.0,
        below=0,
        seconds=seconds * instances,
        seconds_per_instance=seconds,
        device="a GPU" if row.model else "cpu",
    )
    return Measured(row, figures)


def tours() -> list[Measured]:
    """A small table of tours: ours at two numbers of samples, one solver of each kind, something not trained."""
    ours = [
        Row("atsp-20", comparisons.OURS, "icdc", n, "atsp", "icdc train atsp", paper) for n, paper in ((1, 4.8), (8, 0))
    ]
    last = Row("atsp-20", comparisons.LAST, "icdc:decodes=1,keep=last", 8, "atsp", "icdc train atsp", 0.909)
    matnet = [Row("atsp-20", "MatNet", "matnet", n, "matnet-atsp-20", "icdc train m", 0.078) for n in (1, 8)]
    supervised = Row("atsp-20", "diffusion SL, as in the paper", "icdc:steps=20", 8, "paper-sl-atsp-20", "a\nb", 4.179)
    return [
        measured(Row("atsp-20", "branch and bound, exact", "branch", paper=0.0), 0.0, 0.0, 0.0, 0.0005),
        measured(Row("atsp-20", "nearest neighbour", "nn", paper=26.099), 30.0, 29.0, 31.0),
        measured(matnet[0], 2.5, 2.0, 3.0),
        measured(matnet[1], 0.3, 0.2, 0.4),
        Measured(supervised, note=NOT_TRAINED),
        measured(ours[0], 1.0, 0.5, 1.5),
        measured(ours[1], 0.2, 0.1, 0.3),
        measured(last, 2.0, 1.0, 3.0),
    ]


def routes() -> list[Measured]:
    mine = Row("navigation-20", comparisons.OURS, "icdc", 64, "navigation-20", paper_cost=1.56)
    blind = Row("navigation-20", "MatNet, blind to coordinates", "matnet", 256, "matnet-navigation-20", paper_cost=2.6)
    return [Measured(blind, note=NOT_TRAINED), measured(mine, 0.5, 0.4, 0.6)]


def verdict_of(rows: Iterable[Measured]) -> dict[tuple[str, int], str | None]:
    return {(c.against, c.theirs.row.samples): c.verdict for c in comparisons.compare(list(rows))}


def test_the_rule() -> None:
    assert comparisons.judge(0.1, 0.3, 0.2, 0.4) == comparisons.judge(0.2, 0.4, 0.1, 0.2) == "equal"
    assert comparisons.judge(0.0, 0.0, 0.0, 0.0) == "equal"
    assert comparisons.judge(0.1, 0.3, 0.31, 0.4) == "better"
    assert comparisons.judge(0.1, 0.3, 0.0, 0.09) == "worse"


def test_published_gaps_are_symmetric_ones() -> None:
    row = Row("atsp-20", comparisons.OURS, "icdc")
    summary = measured(row, 100.0, 50.0, 100.0).summary
    assert summary is not None
    assert symmetric_gap(100.0) == pytest.approx(200.0 / 3.0)
    # as plain gaps, 45 lies below 50 … 100 and 80 within; as symmetric ones the interval is 40 … 66.7
    assert comparisons.judge_published(summary, 45.0) == "equal"
    assert comparisons.judge_published(summary, 80.0) == "better"
    assert comparisons.judge_published(summary, 39.0) == "worse"


def test_published_costs_allow_for_another_draw() -> None:
    (mine,) = (m.summary for m in routes() if m.summary is not None)
    assert comparisons.judge_cost(mine, 1.51) == "equal"  # the same but for the digits that are not printed
    assert comparisons.judge_cost(mine, 1.53) == "equal"  # further than our interval, nearer than two draws differ by
    assert comparisons.judge_cost(mine, 1.60) == "better"
    assert comparisons.judge_cost(mine, 1.40) == "worse"


def test_every_competitor_has_its_verdict_or_the_reason_why_not() -> None:
    assert verdict_of(tours()) == {
        ("branch and bound, exact", 1): "worse",
        ("nearest neighbour", 1): "better",
        ("MatNet, trained here", 1): "better",
        ("MatNet, trained here", 8): "equal",
        ("diffusion SL, as in the paper, trained here", 8): None,
        ("MatNet, as published", 1): "worse",
        ("MatNet, as published", 8): "worse",
        ("diffusion SL, as published", 8): "better",
        (comparisons.ICDC_PUBLISHED, 1): "better",
        (comparisons.ICDC_PUBLISHED, 8): "worse",
        (comparisons.ICDC_PUBLISHED_LAST, 8): "worse",
    }
    (missing,) = (c for c in comparisons.compare(tours()) if c.verdict is None)
    assert missing.reason == f"theirs: {NOT_TRAINED}"


def test_fewer_samples_of_ours_and_other_instances() -> None:
    blind, mine = routes()
    (here, published) = (c for c in comparisons.compare([blind, mine]) if "MatNet" in c.against)
    assert here.verdict is None
    assert published.verdict == "better"
    assert published.mine is mine
    other = measured(blind.row, 70.0, 69.0, 71.0, instances=2)
    assert {c.reason for c in comparisons.compare([other, mine])} >= {"not the same instances"}
    without = Measured(mine.row, note=NOT_TRAINED)
    assert {c.reason for c in comparisons.compare([blind, without])} == {f"ours: {NOT_TRAINED}"}
    assert {c.reason for c in comparisons.compare([blind])} == {"ours: no such row"}


def test_counts_add_up_and_nothing_counts_twice() -> None:
    found = account.account({"atsp-table": tours(), "training-comparison": tours(), "navigation-table": routes()})
    assert [section.title for section in found] == ["tours", "navigation"]
    comparisons = [comparison for each in found.values() for comparison in each]
    number = account.counts(comparisons)
    assert sum(number.values()) == len(comparisons) == 14
    assert number["missing"] == 2
    text = account.as_markdown(found)
    assert "| all | 4 · 1 · 5 (1 not measured) | 2 · 0 · 0 (1 not measured) | 6 · 1 · 5 (2 not measured) |" in text
    line = "- **MatNet, trained here**: better in 1, equal in 1, worse in 0 of 2 comparisons"
    assert f"{line}; better: atsp-20 ×1; equal: atsp-20 ×8\n" in text
    assert f"0 of 0 comparisons; not measured (theirs: {NOT_TRAINED}): atsp-20 ×8" in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0005, "the exact solver wins"), (0.5, "ours takes less time, many at once")],
)
def test_time_beside_exact_solvers(seconds: float, words: str) -> None:
    exact = measured(Row("atsp-20", "CP-SAT, exact", "cpsat"), 0.0, 0.0, 0.0, seconds)
    text = account.beside_exact(account.account({"atsp-table": [exact, *tours()[1:]]}))
    assert text.endswith(f"| worse | {words} |")
    assert f"On {int(seconds < 0.001)} of 1 test sets" in text
    assert "0.200 with ×8, 1 ms, a GPU" in text


def test_reasons_are_for_families_and_have_no_figures() -> None:
    found = account.account({"atsp-table": tours()})
    families = {comparison.family for each in found.values() for comparison in each}
    assert re.findall(r"^- \*\*(.+?)\*\*", account.reasons(found), re.M) == [
        family for family in WHY if family in families
    ]
    assert not re.search(r"\d|%", "".join(WHY.values()).replace("LKH-3", ""))


def test_all_rows_of_the_real_tables_find_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every competitor of every table is compared, and belongs to a family that we have a reason for."""
    monkeypatch.setattr(Session, "measure", lambda self, rows: [measured(row, 1.0, 0.5, 1.5) for row in rows])
    session = Session(OutcomeFile(tmp_path / "o.jsonl"), runs=tmp_path)
    tables = {name: TARGETS[name](session).rows for name in {section.target for section in account.SECTIONS}}
    found = account.account(tables)
    assert list(found) == list(account.SECTIONS)
    assert {c.family for each in found.values() for c in each} == set(WHY)
    assert all(c.verdict for each in found.values() for c in each)
    for name in ("pmsp-table", "atsp-table", "navigation-table"):
        here = [c for section, each in found.items() if section.target == name for c in each if not c.published]
        others = [m for m in tables[name] if not m.row.method.startswith(comparisons.OURS)]
        assert [c.theirs for c in here] == others


def test_missing_rows_survive_the_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(as_csv(tours()))
    assert read_table(path) == tours()
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not a table of icdc reproduce"):
        read_table(path)


def test_the_page_gathers_what_is_there_and_names_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("icdc.model", "icdc.reproduce.session"):
        monkeypatch.setattr(f"{module}.models_folder", lambda: tmp_path / "models")
    training = {"seconds": 12.5, "hardware": "an abacus", "rounds": 7, "seed": 5, "shared": "with a cat"}
    model = Model(get_problem("atsp"), ModelConfig(network=TINY), card={"sizes": [[20]], "training": training})
    model.save(tmp_path / "runs" / "atsp" / "model.safetensors")
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    (folder / "atsp-table.csv").write_text(as_csv(tours()))
    (folder / "atsp-table.md").write_text("# Tours, and more\n\nwords\n")
    (folder / "navigation-table.csv").write_text(as_csv(routes()))
    (folder / "navigation-table.png").write_bytes(b"a picture")
    page = gather(tmp_path / "docs" / "results.md", folder, runs=tmp_path / "runs")
    text = page.read_text()
    assert "Seed of the solvers: 3;" in text
    assert "Devices of the rows: a GPU, cpu." in text
    assert "## Tours, and more\n\n`atsp-table`: [everything in one table](results/atsp-table.md), [CSV](" in text
    assert "![navigation-table](results/navigation-table.png)" in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (page.parent / target).is_file(), target
    assert "Not made yet: pmsp-table, generalisation, sampling-steps, training-comparison, ablations." in text
    assert f"icdc reproduce ablations --out {folder} --page {page}\n" in text
    assert "| `atsp` | 12.5 | an abacus | 1 | 7 | 5 | random weights | with a cat; trained again since" in text
    assert "| `navigation-20` | ? | ? | ? | ? | ? | ? | its card was not found" in text
    assert "| MatNet (`matnet-atsp-20`) | 2.50 [2.00 … 3.00]<br>*symmetric: 2.47, paper 0.078* | 0.300 [" in text
    assert f"|  | –<br>*symmetric: paper 4.179* | **{NOT_TRAINED}** |" in text
    assert "Not all instances" not in text
    before = text
    monkeypatch.setattr("icdc.reproduce.page.as_markdown", lambda *arguments: "\ud800")  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write_page(page, folder, tuple(TARGETS))
    assert page.read_text() == before
    assert sorted(path.name for path in page.parent.iterdir()) == ["results", "results.md"]


def test_a_page_of_nothing_and_a_page_of_a_few_instances(tmp_path: Path) -> None:
    empty = gather(tmp_path / "page.md", tmp_path).read_text()
    assert "Not made yet: " + ", ".join(TARGETS) in empty
    assert "No model has been measured yet." in empty
    row = Row("atsp-20", "nearest neighbour", "nn")
    (tmp_path / "atsp-table.csv").write_text(as_csv([measured(row, 1.0, 0.5, 1.5, instances=2)]))
    few = gather(tmp_path / "page.md", tmp_path).read_text()
    assert "**Not all instances of a test set were solved: atsp-20 (2 of 1,000) in `atsp-table`.**" in few


def test_steps_and_sizes_are_columns() -> None:
    steps = [
        measured(Row("pmsp-20x3", f"IC/DC {words} ×8, {n} steps", f"icdc:steps={n}{more}", 8, "pmsp"), n, 0.5, 1.5)
        for n in (1, 10, 2)
        for words, more in (("ours", ""), ("last sample alone", ",keep=last"))
    ]
    steps.append(measured(Row("pmsp-20x3", "MatNet", "matnet", 8, "matnet-pmsp-20"), 1.0, 0.5, 1.5))
    (text,) = compact_tables("sampling-steps", steps)
    assert "| method | without steps | 1 step | 2 steps | 10 steps | time" in text
    assert "| IC/DC ours ×8 (`pmsp`) |  | 1.00 [0.500 … 1.50] | 2.00 [" in text
    rows = [
        measured(Row(dataset, "MatNet", "matnet", 8, "m"), 1.0, 0.5, 1.5)
        for dataset in ("atsp-100", "atsp-20", "pmsp-20x3")
    ]
    cities, jobs = compact_tables("generalisation", rows)
    assert "| method | 20 | 100 | time" in cities
    assert "| method | 20×3 | time" in jobs


def test_figures_have_about_three_digits() -> None:
    figures = {
        None: "–",
        0.0: "0.000",
        0.0001: "<0.001",
        0.0216: "0.022",
        4.918: "4.92",
        47.47: "47.5",
        127.39: "127.4",
    }
    assert {value: percent(value) for value in figures} == figures
