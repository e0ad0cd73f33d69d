"""`icdc reproduce --page`: one page of everything in the folder, made again by every call."""

from pathlib import Path
from typing import Any

import pytest


def test_the_page_follows_the_tables(
    icdc: Any, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("icdc.model", "icdc.reproduce.session"):
        monkeypatch.setattr(f"{module}.models_folder", lambda: models["atsp"].parent)
    classical = {"random": "random", "branch": "branch and bound, exact"}
    monkeypatch.setattr("icdc.reproduce.methods.CLASSICAL", {"navigation": classical})
    folder, page = tmp_path / "results", tmp_path / "results.md"
    call = ["reproduce", "navigation-table", "--quick", "--limit", 1, "--out", folder, "--runs", tmp_path]
    assert icdc(*call).code == 0
    assert not page.exists()
    ran = icdc(*call, "--page", page, "--remark", "The machine was busy.")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == str(page)
    text = page.read_text()
    assert "\n\nThe machine was busy.\n\n" in text
    assert "navigation-20 (1 of 1,000)" in text
    assert "## Navigation: 20 cities" in text
    assert "not measured (ours: not trained here): navigation-20" in text
    assert "Not made yet: pmsp-table, atsp-table, generalisation" in text
