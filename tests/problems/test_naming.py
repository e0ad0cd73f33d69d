"""Items and pairs in sentences: in the problem's words, by name where there are names, with nothing invisible."""

import numpy as np

from icdc.problems import Atsp, Instance, Pmsp
from icdc.problems.flow_shop import FlowShop
from icdc.problems.naming import column_text, pair_text, row_text

MATRIX = np.ones((2, 2), dtype=np.int64)
SHOP = Instance("t", Pmsp(), {"durations": MATRIX}, rows=("cut", "\x1b[2Jdrill"), columns=("M1", "M2"))
TOUR = Instance("t", Atsp(), {"distances": MATRIX})
FLOW = Instance("t", FlowShop(), {"durations": MATRIX}, rows=("cut", "drill"), columns=("M1", "M2"))


def test_what_an_item_is_called() -> None:
    assert (row_text(SHOP, 0), column_text(SHOP, 1)) == ("job 'cut'", "machine 'M2'")
    assert (row_text(TOUR, 0), column_text(TOUR, 1)) == ("city 0", "city 1")


def test_what_a_pair_is_called() -> None:
    assert pair_text(SHOP, (1, 0)) == r"job '\x1b[2Jdrill' with machine 'M1'"
    assert pair_text(TOUR, (0, 1)) == "from city 0 to city 1"
    assert pair_text(FLOW, (0, 1)) == "job 'drill' after job 'cut'"
