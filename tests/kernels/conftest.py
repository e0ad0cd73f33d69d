"""What the tests of kernels share."""

import pytest

from icdc.kernels import dispatch


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what a CPU runs, in Triton's interpreter, too."""
    monkeypatch.setattr(dispatch, "INSTALLED", False)
