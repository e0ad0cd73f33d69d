"""Instances by their values."""

import numpy as np

from icdc.solving.fingerprints import fingerprints


def test_fingerprints_depend_on_values_alone() -> None:
    arrays = {"distances": np.arange(18).reshape(2, 3, 3)}
    assert np.array_equal(fingerprints(arrays), fingerprints({"distances": arrays["distances"].astype(float)}))
    assert len(set(fingerprints(arrays))) == 2
