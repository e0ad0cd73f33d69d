"""A short run of the fuzzer; `make fuzz` runs it for an hour."""

from collections import Counter

import pytest

from tests import fuzz
from tests.io.generated import try_tables

EXAMPLES = {"options": 40, "damaged_models": 20, "workbooks": 40, "tables": 150, "damaged_files": 150}
"""Examples of the slower properties."""


@pytest.mark.parametrize("name", fuzz.PROPERTIES)
def test_property(name: str) -> None:
    examples = next((count for part, count in EXAMPLES.items() if name.startswith(part)), 80)
    fuzz.assert_holds(name, examples)


def test_tables_that_are_easily_misunderstood() -> None:
    counts: Counter[str] = Counter()
    assert try_tables(range(150), counts) == []
    assert counts["right"] > 200
    assert {"no such form", "refused", "refused, though readable"} < set(counts)
