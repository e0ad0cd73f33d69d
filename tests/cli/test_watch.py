"""The live line: on a terminal only, best with bound and gap, removed before other words."""

import io

import numpy as np

from icdc.cli.batch import Group
from icdc.cli.watch import Watch
from icdc.data import Instance
from icdc.problems import Pmsp
from icdc.solving import Improvement


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def group(count: int) -> Group:
    durations = np.full((3, 2), 2)
    return Group(list(range(count)), [Instance("shop.csv", Pmsp(), {"durations": durations})] * count)


def improvement(*costs: float) -> Improvement:
    return Improvement(1.26, np.array(costs), np.zeros((len(costs), 3), dtype=np.int64))


def test_one_instance() -> None:
    stream = Terminal()
    watch = Watch(stream)
    watch.begin(group(1))
    watch(improvement(4.0))
    assert stream.getvalue() == "\r\x1b[Kshop.csv: best 4, bound 3, gap 33.33 %, 1.3 s"
    watch.clear()
    watch.clear()
    assert stream.getvalue().endswith("1.3 s\r\x1b[K")


def test_a_batch() -> None:
    stream = Terminal()
    watch = Watch(stream)
    watch.begin(group(2))
    watch(improvement(4.0, 5.0))
    assert stream.getvalue() == "\r\x1b[K2 × pmsp: mean of the best 4.5, 1.3 s"


def test_nothing_is_shown_off_a_terminal_but_the_best_is_remembered() -> None:
    stream = io.StringIO()
    watch = Watch(stream)
    watch.begin(group(1))
    watch(improvement(4.0))
    watch.clear()
    assert stream.getvalue() == ""
    assert watch.last is not None
    assert watch.last.cost.tolist() == [4.0]
    watch.begin(group(1))
    assert watch.last is None


def test_a_bar_for_several_instances() -> None:
    stream = Terminal()
    watch = Watch(stream, total=8)
    watch.finished(4, before=True)
    assert stream.getvalue() == "\r\x1b[K━━━━━━━━━━━━──────────── 4/8  "
    watch.begin(group(2))
    watch(improvement(4.0, 5.0))
    assert stream.getvalue().endswith("4/8  2 × pmsp: mean of the best 4.5, 1.3 s")
    watch.finished(2)
    assert stream.getvalue().endswith("━━━━━━━━━━━━━━━━━━────── 6/8  0:00:00 left  ")
    watch.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_no_bar_for_one_instance_or_off_a_terminal() -> None:
    for stream, total in ((Terminal(), 1), (io.StringIO(), 5)):
        watch = Watch(stream, total=total)
        watch.finished(1)
        watch.clear()
        assert stream.getvalue() == ""
