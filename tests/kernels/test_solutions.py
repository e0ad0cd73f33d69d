"""Decoding and totals in plain operations; the rules' tests compare them with plain Python."""

import pytest
import torch

from icdc import kernels
from icdc.kernels import fold


def test_double_precision_is_not_rounded() -> None:
    """Two distances that float32 cannot tell apart decide, for a caller whose scores are such."""
    scores = torch.zeros(1, 3, 3, dtype=torch.float64)
    scores[0, :, 1], scores[0, :, 2] = 1.0, 1.0 + 1e-12
    first = torch.zeros(1, dtype=torch.long)
    assert kernels.pick_columns(scores).tolist() == [[2, 2, 2]]
    assert kernels.follow_tours(scores, first).tolist() == [[2, 0, 1]]
    assert kernels.join_tours(scores).tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("decodes", [1, 3])
def test_scores_are_log_odds_and_scaled_noise(decodes: int) -> None:
    """Every solution has its own key, and those of a matrix follow each other."""
    log_odds = torch.randn(2, 3, 4)
    keys = fold(torch.tensor(5), torch.arange(2 * decodes))
    scores = kernels.noisy_scores(log_odds, kernels.GumbelNoise(keys, 2, 0.25), decodes)
    noise = kernels.gumbel(keys, 2, 12).view(-1, 3, 4)
    for p in range(2 * decodes):
        torch.testing.assert_close(scores[p], log_odds[p // decodes] + 0.25 * noise[p])
    assert kernels.noisy_scores(log_odds.bfloat16(), None, 1).dtype == torch.float32


def test_what_is_found_is_kept_where_it_costs_no_more() -> None:
    """Cheaper or as cheap: what was found; dearer: what was given."""
    found, given = torch.tensor([[[1, 1], [2, 2], [3, 3]]]), torch.tensor([[[4, 0], [4, 0], [4, 1]]])
    kept = kernels.solutions.no_worse(found, given, lambda choice: choice.sum(-1).double())
    assert kept.tolist() == [[[1, 1], [2, 2], [4, 1]]]
