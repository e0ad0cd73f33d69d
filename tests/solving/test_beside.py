"""What goes on beside the main thread of a search."""

import threading
import time

import numpy as np
import pytest

from icdc.solving.beside import aside


def test_work_is_waited_for_and_its_error_is_heard() -> None:
    done: list[int] = []

    def work() -> None:
        time.sleep(0.05)
        done.append(1)

    aside(work, np.inf)
    assert done == [1]

    def fail() -> None:
        raise ValueError("in vain")

    with pytest.raises(ValueError, match="in vain"):
        aside(fail, np.inf)


def test_work_that_is_late_is_not_waited_for() -> None:
    go_on = threading.Event()
    begun = time.perf_counter()
    aside(lambda: bool(go_on.wait(20)), begun + 0.2)  # type: ignore[arg-type, return-value]
    took = time.perf_counter() - begun
    go_on.set()
    assert 0.2 <= took < 5
