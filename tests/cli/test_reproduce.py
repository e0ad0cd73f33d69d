"""`icdc reproduce` on the command line; what it makes is tested in tests/reproduce."""

from pathlib import Path
from typing import Any

import pytest


def test_files_on_stdout_and_words_on_stderr(icdc: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Several names in one call, and all of them."""
    asked: list[tuple[str, bool]] = []

    def make(name: str, out: Path, *, quick: bool, say: Any, **rest: Any) -> list[Path]:
        asked.append((name, quick))
        say(f"working on {name}")
        return [out / f"{name}.md"]

    monkeypatch.setattr("icdc.reproduce.reproduce", make)
    ran = icdc("reproduce", "atsp-table", "ablations", "--quick", "--out", tmp_path)
    assert ran.code == 0
    assert ran.out.splitlines() == [str(tmp_path / "atsp-table.md"), str(tmp_path / "ablations.md")]
    assert "working on ablations" in ran.err
    assert asked == [("atsp-table", True), ("ablations", True)]
    assert icdc("reproduce", "all", "--out", tmp_path).code == 0
    assert len(asked) == 2 + 7


def test_a_real_one(icdc: Any, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without any model the table still names every row, and how to train what is missing."""
    for module in ("icdc.model", "icdc.reproduce.session"):
        monkeypatch.setattr(f"{module}.models_folder", lambda: models["atsp"].parent)
    ran = icdc("reproduce", "navigation-table", "--quick", "--limit", 1, "--out", tmp_path, "--runs", tmp_path)
    assert ran.code == 0
    page = (tmp_path / "navigation-table.md").read_text()
    assert "**not trained here**" in page
    assert "icdc train navigation-20" in page
    assert "| navigation-20 | random | 1 | 1 |" in page


def test_an_unknown_name(icdc: Any) -> None:
    ran = icdc("reproduce", "table-7")
    assert ran.code == 2
    assert "sampling-steps" in ran.err


def test_an_unknown_part(icdc: Any) -> None:
    ran = icdc("reproduce", "atsp-table", "--only", "exact")
    assert ran.code == 2
    assert "learned, classical" in ran.err


def test_other_numbers_of_samples(icdc: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("icdc.reproduce.reproduce", lambda *names, counts, **rest: asked.append(counts) or [])
    for given in ([], ["--samples", "8,1"]):
        assert icdc("reproduce", "ablations", "--out", tmp_path, *given).code == 0
    assert asked == [None, (1, 8)]
    assert icdc("reproduce", "ablations", "--samples", "few").code == 2
