"""Functions compiled where numba is installed: same answers plainly, and nothing imported before the first call."""

import subprocess
import sys

import numpy as np
import pytest

from icdc.search.compiled import Compiled, available, compiled, plain


@compiled
def double(values, at):  # type: ignore[no-untyped-def]
    """Twice one value."""
    return 2 * values[at]


@compiled
def total(values):  # type: ignore[no-untyped-def]
    result = 0.0
    for at in range(len(values)):
        result += double(values, at)
    return result


def test_calls_other_compiled_functions_and_plain_gives_the_same() -> None:
    values = np.linspace(0, 1, 7)
    assert total(values) == pytest.approx(7.0)
    with plain():
        assert total(values) == pytest.approx(7.0)
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice one value."


def test_plain_ends_with_its_block_even_after_an_error() -> None:
    seen = []
    watched = Compiled(lambda: seen.append("plain"))
    watched._fast = lambda: seen.append("fast")

    def fail() -> None:
        with plain():
            watched()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    watched()
    assert seen == ["plain", "fast"]


def test_without_numba_functions_run_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icdc.search.compiled.available", lambda: False)
    function = compiled(lambda: 3)
    assert function() == 3
    assert function.fast() is function.plain


@pytest.mark.skipif(not available(), reason="numba is not installed")
def test_with_numba_functions_are_compiled() -> None:
    assert total.fast() is not total.plain
    assert type(total.fast()).__name__ == "CPUDispatcher"


def test_importing_the_search_imports_neither_numba_nor_torch() -> None:
    modules = "icdc.search.schedules, icdc.search.schedule_mip, icdc.search.schedule_bound"
    code = f"import sys, {modules}; print({{'numba', 'torch'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
