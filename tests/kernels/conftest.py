"""What the tests of kernels share."""

import pytest

from icdc.kernels import choosing
from tests.kernels.ways import needs_numba


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_numba)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation that a CPU has."""
    monkeypatch.setattr(choosing, "_only_plain", request.param == "plain")
    monkeypatch.setattr(choosing, "INSTALLED", False)
    return str(request.param)
