"""A few kills of every command; `make kills` does fifty of each."""

from pathlib import Path

import pytest

from tests import kills


@pytest.mark.parametrize("name", ["finetune", "generate", "evaluate"])
def test_a_killed_command_ends_like_an_unbroken_one(name: str, tmp_path: Path) -> None:
    runs = list(kills.kill_often(name, 1, tmp_path, effort=0.1, seed=1))
    assert [wrong for _, wrong in runs] == [None]


def test_what_is_lost_or_different_is_noticed(tmp_path: Path) -> None:
    """The program itself: a command that forgets, and one that ends differently."""

    class Forgetful(kills.Evaluate):
        def finished(self, folder: Path) -> list[str]:
            self.asked = getattr(self, "asked", 0) + 1
            return [str(self.asked)]

        def first(self, folder: Path) -> list[object]:
            return ["--version"]

        def result(self, folder: Path) -> object:
            return "a result"

    command = Forgetful(tmp_path, 0.01)
    assert kills.killed(command, tmp_path / "one", [0.0], "a result") == "something that was finished is lost"
    command.finished = lambda folder: []  # type: ignore[method-assign]
    wrong = kills.killed(command, tmp_path / "two", [0.0], "another result")
    assert wrong == "the result differs from that of an unbroken run"
    command.first = lambda folder: ["nothing"]  # type: ignore[method-assign]
    failed = kills.killed(command, tmp_path / "three", [0.0], "a result")
    assert failed is not None
    assert failed.startswith("the resumed call ended with 2")
