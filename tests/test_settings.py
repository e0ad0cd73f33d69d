"""Settings are built and checked in one way, whether a preset, a file or Python says them."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from icdc.errors import UsageError
from icdc.settings import Settings, build, setting


@dataclass(frozen=True)
class Inner(Settings):
    rounds: int = setting(4, least=1)
    share: float = setting(0.5, above=0, most=1)
    kind: Literal["edge", "dual"] = "edge"
    saved: bool = True


@dataclass(frozen=True)
class Outer(Settings):
    REMOVED: ClassVar = {"schedule": "cosine", "hidden": ()}

    sizes: tuple[tuple[int, ...], ...] = ((20,),)
    inner: Inner = field(default_factory=lambda: Inner(rounds=8))


def test_tables_change_only_what_they_name() -> None:
    built = build(Outer, {"sizes": [[20, 4], [5]], "inner": {"share": 1}})
    assert built == Outer(((20, 4), (5,)), Inner(rounds=8, share=1.0))
    assert type(built.inner.share) is float
    assert build(Outer, {"inner": {"saved": False}}, built).sizes == built.sizes


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "a configuration must be a table of settings"),
        ({"inner": 3}, "'inner' must be a table of settings"),
        ({"colour": 1}, "unknown setting 'colour'; there are sizes, inner"),
        ({"inner": {"colour": 1}}, "unknown setting 'inner.colour'; there are rounds, share, kind, saved"),
        ({"sizes": 20}, "'sizes' must be a list, got 20"),
        ({"sizes": [["20"]]}, "'sizes' must be a whole number, got '20'"),
        ({"inner": {"rounds": 2.0}}, "'inner.rounds' must be a whole number, got 2.0"),
        ({"inner": {"rounds": True}}, "'inner.rounds' must be a whole number, got True"),
        ({"inner": {"rounds": 0}}, "'inner.rounds' must be at least 1, got 0"),
        ({"inner": {"share": 0}}, "'inner.share' must be more than 0, got 0.0"),
        ({"inner": {"share": 1.5}}, "'inner.share' must be at most 1, got 1.5"),
        ({"inner": {"share": float("nan")}}, "'inner.share' must be a number, got nan"),
        ({"inner": {"kind": "gated"}}, "'inner.kind' must be one of edge, dual, got 'gated'"),
        ({"inner": {"saved": 1}}, "'inner.saved' must be true or false, got 1"),
    ],
)
def test_a_mistake_is_a_sentence_that_names_the_setting(values: Any, words: str) -> None:
    with pytest.raises(UsageError) as error:
        build(Outer, values)
    assert str(error.value) == words


def test_what_python_makes_is_checked_too() -> None:
    assert Outer(sizes=[[3]]).sizes == ((3,),)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'rounds' must be at least 1, got 0"):
        Inner(rounds=0)
    with pytest.raises(UsageError, match="'share' must be a finite number"):
        build(_Unlimited, {"share": float("inf")})


@dataclass(frozen=True)
class _Unlimited(Settings):
    share: float = setting(0.5, above=0)


def test_a_setting_of_an_earlier_version_may_say_what_is_always_so_now() -> None:
    assert build(Outer, {"schedule": "cosine", "hidden": []}) == Outer()
    with pytest.raises(UsageError, match="the setting 'schedule' is gone: it can only be 'cosine' now, got 'linear'"):
        build(Outer, {"schedule": "linear"})
