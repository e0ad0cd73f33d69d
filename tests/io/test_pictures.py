"""Pictures as files: every problem that ships, and the animation of a trajectory."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from icdc.errors import UsageError
from icdc.io import Instance, save_animation, save_solution
from icdc.plots import Frame
from icdc.problems import Atsp, Navigation, Pmsp

RNG = np.random.default_rng(0)
DURATIONS = RNG.integers(2, 20, (12, 3))
MACHINE_OF = RNG.integers(0, 3, 12)
POINTS = RNG.random((9, 2))
DISTANCES = np.hypot(*(POINTS[:, None] - POINTS[None]).transpose(2, 0, 1))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_as_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"p.{ending}"
    save_solution(path, Instance("p", Pmsp(), {"durations": DURATIONS}), MACHINE_OF)
    first = path.read_bytes()
    assert first[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_picture_shows_the_bound_and_no_date(tmp_path: Path) -> None:
    instance = Instance("p", Pmsp(), {"durations": DURATIONS})
    for name, bound in (("with.svg", 20.0), ("without.svg", None)):
        save_solution(tmp_path / name, instance, MACHINE_OF, bound)
    shown, plain = ((tmp_path / name).read_text() for name in ("with.svg", "without.svg"))
    assert "<!-- makespan" in plain
    assert ", bound 20 -->" in shown
    assert ", bound" not in plain
    assert "date>" not in shown


def test_tours_as_files(tmp_path: Path) -> None:
    choice = Atsp().choice(list(range(9)))
    save_solution(tmp_path / "a.png", Instance("a", Atsp(), {"distances": DISTANCES}, coordinates=POINTS), choice)
    drawn = Navigation().sample(1, (9,), RNG)
    instance = Instance("n", Navigation(), {name: array[0] for name, array in drawn.items()})
    save_solution(tmp_path / "n.png", instance, choice)
    with Image.open(tmp_path / "a.png") as with_map, Image.open(tmp_path / "n.png") as without:
        assert with_map.size == without.size == (1800, 840)


def frames(count: int) -> list[Frame]:
    return [Frame(t, RNG.random((9, 9)) < 0.1, RNG.random((9, 9)), 3.5) for t in range(count, 0, -1)]


def test_animation_has_a_picture_for_each_step_and_the_solution(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    save_animation(path, frames(4), order=range(9), final=np.eye(9), seconds=3.0)
    with Image.open(path) as gif:
        assert gif.n_frames == 5
        assert gif.info["loop"] == 0
        gif.seek(4)
        assert gif.info["duration"] == 1500
    with pytest.raises(UsageError, match="no step"):
        save_animation(path, [])
