"""What a solver is asked, and what it tells."""

import numpy as np

from icdc.problems.pmsp import Pmsp
from icdc.solving import Improvement, Request

ARRAYS = {"durations": np.full((1, 2, 2), 2)}


def test_a_callback_may_end_the_search() -> None:
    improvement = Improvement(0.1, np.array([4.0]), np.array([[0, 0]]))
    for wish, ends in ((True, True), (False, False), (None, False)):
        request = Request(Pmsp(), ARRAYS, callback=lambda _, wish=wish: wish)  # type: ignore[misc]
        assert request.tell(improvement) is ends
        assert request.last is not None
        assert request.last.choice is improvement.choice
    assert Request(Pmsp(), ARRAYS).tell(improvement) is False
