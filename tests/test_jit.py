"""Compiled functions: same answers as they are written, and nothing imported before the first call."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from icdc.jit import Compiled, compiled, compiling, fast_here, in_background, plain


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


def test_functions_are_compiled() -> None:
    assert total.fast() is not total.plain
    assert type(total.fast()).__name__ == "CPUDispatcher"


def test_functions_run_as_written_until_the_compiler_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icdc.jit._compilers", {})
    go_on, seen = threading.Event(), []
    watched = Compiled(lambda number: None)
    watched._fast, watched._slow = (lambda number: seen.append("fast")), (lambda number: seen.append("plain"))

    def compile_it() -> None:
        go_on.wait(10)
        watched(1)  # here it is the compiled one that is called

    in_background(("search", "some"), compile_it)
    in_background(("search", "some"), lambda: seen.append("twice"))
    assert compiling()
    assert compiling("search")
    assert not compiling("something else")
    assert not fast_here()
    watched(1)
    go_on.set()
    while compiling():
        time.sleep(0.001)
    watched(1)
    assert fast_here()
    assert seen == ["plain", "fast", "fast"]
    go_on.clear()
    in_background(("other", "thing"), lambda: go_on.wait(10))
    watched(2)  # compiled already, whatever else is being compiled
    watched(2.0)  # not for such a number
    go_on.set()
    assert fast_here()
    assert seen[3:] == ["fast", "plain"]


def test_importing_the_search_imports_neither_numba_nor_torch_nor_scipy() -> None:
    modules = "icdc.search.structures, icdc.search.precompile"
    code = f"import sys, {modules}; print({{'numba', 'torch', 'scipy.optimize'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
