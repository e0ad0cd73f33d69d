"""A model that was trained on takes the place of the one that ships: what its card keeps, and what is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import successor
from icdc.errors import UsageError
from icdc.models.catalogue import card_of
from icdc.models.file import digest_of, write_card

OLD: dict[str, Any] = {
    "problem": "pmsp",
    "sizes": [[50, 5], [20, 3]],
    "ranges": {"ties": [0.1, 0.4], "spread": [0.0, 1.0]},
    "solving": [{"size": [20, 3], "samples": 1, "options": {"temperature": 0.3}}],
    "home": [{"family": "paper"}],
    "results": [{"set": "pmsp-20x3", "gap": 1.0}],
    "training": {"seconds": 496.5, "before": "345 s as `pmsp-20`", "rounds": 7},
    "data": "old",
}
NEW: dict[str, Any] = {
    "problem": "pmsp",
    "sizes": [[20, 3], [100, 10]],
    "ranges": {"ties": [0.2, 0.6], "forbidden": [0.0, 0.5]},
    "solving": [{"samples": 1, "options": {"decodes": 512}}],
    "training": {"seconds": 424.0, "rounds": 655},
    "data": "new",
}


def test_what_is_still_true_is_kept_and_results_go() -> None:
    card = successor.successor(NEW, OLD, "tours")
    assert card["sizes"] == [[20, 3], [50, 5], [100, 10]]
    assert card["ranges"] == {"ties": [0.1, 0.6], "spread": [0.0, 1.0], "forbidden": [0.0, 0.5]}
    assert (card["solving"], card["home"]) == (OLD["solving"], OLD["home"])
    assert (card["results"], card["data"]) == ([], "new")
    assert "improving" not in card
    assert card["training"] == {
        "seconds": 424.0,
        "rounds": 655,
        "before": "345 s as `pmsp-20`, and 496 s as the model before it",
        "shared": "the GPU was shared with tours",
    }
    assert "shared" not in successor.successor(NEW, OLD)["training"]
    assert "before" not in successor.successor(NEW, {**OLD, "training": {}})["training"]


def test_models_of_another_problem_do_not_follow() -> None:
    with pytest.raises(UsageError, match="a model of pmsp cannot take the place of one of atsp"):
        successor.successor(NEW, {**OLD, "problem": "atsp"})


def test_the_command_replaces_weights_card_and_index(
    save: Any, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(successor, "models_folder", lambda: shipped)
    place = shipped / "pmsp.safetensors"
    new = save(tmp_path / "new.safetensors", "pmsp", [[10, 2]], seed=1)
    write_card(place, {**card_of(str(place)), "solving": OLD["solving"]})
    before, wanted = digest_of(place), digest_of(new)
    assert before != wanted
    assert successor.main([str(new), "--name", "pmsp"]) == 0
    assert capsys.readouterr().out == f"pmsp: {wanted} instead of {before}\n"
    assert digest_of(place) == wanted
    card = card_of(str(place))
    assert (card["sizes"], card["solving"], card["results"]) == ([[10, 2], [20, 3]], OLD["solving"], [])
    assert json.loads((shipped / "index.json").read_text())["pmsp"]["sizes"] == [[10, 2], [20, 3]]
    whole = place.read_bytes()

    def killed(path: Path, card: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(successor, "write_card", killed)
    with pytest.raises(KeyboardInterrupt):
        successor.main([str(save(tmp_path / "third.safetensors", "pmsp", [[9, 2]], seed=2)), "--name", "pmsp"])
    assert place.read_bytes() == whole, "weights of one model with the card of another"
    other = save(tmp_path / "other.safetensors", "atsp", [[5]])
    assert successor.main([str(other), "--name", "pmsp"]) == UsageError.exit_code
    assert "cannot take the place" in capsys.readouterr().err
    assert digest_of(place) == wanted
