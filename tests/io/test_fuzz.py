"""A short run of the fuzzer; `make fuzz` runs it for an hour."""

import pytest

from tests import fuzz

EXAMPLES = {"options": 40, "damaged_models": 20, "workbooks": 40, "tables": 150, "damaged_files": 150}
"""Examples of the slower properties."""


@pytest.mark.parametrize("name", fuzz.PROPERTIES)
def test_property(name: str) -> None:
    examples = next((count for part, count in EXAMPLES.items() if name.startswith(part)), 80)
    fuzz.assert_holds(name, examples)
