"""What a network sees of a batch of instances."""

import torch

from icdc.problems.features import Features


def test_features_repeat_instance_by_instance() -> None:
    """Each instance several times in a row, in every part that is there."""
    features = Features(torch.randn(2, 3, 4, 1), rows=torch.randn(2, 3, 2))
    twice = features.repeat(2)
    assert torch.equal(twice.relations[1], features.relations[0])
    assert torch.equal(twice.relations[2], features.relations[1])
    assert twice.rows is not None
    assert features.rows is not None
    assert torch.equal(twice.rows[3], features.rows[1])
    assert twice.columns is None
    assert features.repeat(1) is features
