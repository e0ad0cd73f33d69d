"""The binary process against explicit products of its 2 × 2 matrices, and its reverse by enumeration."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from icdc.diffusion.process import Diffusion, DiffusionConfig, strided_times, survival_table
from icdc.errors import UsageError
from icdc.kernels import Noise, fold, root_key
from icdc.settings import build

DENSITIES = (0.05, 0.25, 0.5)
STEPS = 7


def keys(count: int) -> Tensor:
    return fold(root_key(0), torch.arange(count))


def transition(t: int, density: float, steps: int = STEPS) -> Tensor:
    """Q_t = α_t I + β_t 1 q̄ᵀ, from α_t = ᾱ_t / ᾱ_{t−1} and β_t = 1 − α_t; row: from, column: to."""
    table = survival_table(steps)
    alpha = table[t] / table[t - 1]
    limit = torch.tensor([[1 - density, density]], dtype=torch.float64)
    return alpha * torch.eye(2, dtype=torch.float64) + (1 - alpha) * torch.ones(2, 1).double() @ limit


def product(after: int, until: int, density: float, steps: int = STEPS) -> Tensor:
    """Q_{after+1} ⋯ Q_until, multiplied out."""
    result = torch.eye(2, dtype=torch.float64)
    for t in range(after + 1, until + 1):
        result = result @ transition(t, density, steps)
    return result


def at(value: int) -> Tensor:
    return torch.tensor([value])


@pytest.mark.parametrize("density", DENSITIES)
def test_transitions_are_stochastic_and_keep_the_limit(density: float) -> None:
    """Every Q_t has rows that sum to one, entries in [0, 1], and q̄ as its stationary distribution."""
    limit = torch.tensor([1 - density, density], dtype=torch.float64)
    for t in range(1, STEPS + 1):
        q = transition(t, density)
        assert (q >= 0).all()
        torch.testing.assert_close(q.sum(1), torch.ones(2).double())
        torch.testing.assert_close(limit @ q, limit)


@pytest.mark.parametrize("density", DENSITIES)
def test_marginals_are_products_of_transitions(density: float) -> None:
    """q(x_t | x_0) for every t and both values of x_0."""
    diffusion = Diffusion(DiffusionConfig(STEPS))
    for t, x0 in itertools.product(range(STEPS + 1), (0, 1)):
        expected = product(0, t, density)[x0, 1].item()
        found = diffusion.q_marginal(torch.full((1, 1, 1), float(x0)), at(t), density).item()
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("density", DENSITIES)
def test_posteriors_of_every_stride(density: float) -> None:
    """q(x_s | x_t, x_0) = (x_t Qᵀ ⊙ x_0 Q_{1:s}) / (x_0 Q_{1:t} x_tᵀ) for every s < t, x_t and x_0."""
    diffusion = Diffusion(DiffusionConfig(STEPS))
    for t in range(1, STEPS + 1):
        for s, x0, xt in itertools.product(range(t), (0, 1), (0, 1)):
            through, before = product(s, t, density), product(0, s, density)
            reach = product(0, t, density)[x0, xt]
            expected = (through[1, xt] * before[x0, 1] / reach).item()
            found = diffusion.posterior(
                torch.full((1, 1, 1), float(xt)), torch.full((1, 1, 1), float(x0)), at(t), at(s), density
            ).item()
            assert found == pytest.approx(expected, abs=2e-5), (t, s, x0, xt)


@given(
    st.integers(1, 30),
    st.floats(0.01, 0.99),
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0]),
    st.data(),
)
def test_posterior_is_linear_in_the_prediction(
    steps: int, density: float, p0: float, xt: float, data: st.DataObject
) -> None:
    """Any prediction mixes the two posteriors, and the result is a probability."""
    diffusion = Diffusion(DiffusionConfig(steps))
    t = data.draw(st.integers(1, steps))
    s = data.draw(st.integers(0, t - 1))

    def posterior(p: float) -> float:
        return diffusion.posterior(torch.full((1, 1, 1), xt), torch.full((1, 1, 1), p), at(t), at(s), density).item()

    mixed = posterior(p0)
    assert mixed == pytest.approx(p0 * posterior(1.0) + (1 - p0) * posterior(0.0), abs=1e-6)
    assert 0 <= mixed <= 1
    if s == 0:
        assert mixed == pytest.approx(p0, abs=1e-6)


@pytest.mark.parametrize("stride", [1, 3])
def test_reverse_step_by_enumeration(stride: int) -> None:
    """p_θ(X_s | X_t) of a whole 2 × 2 matrix: sum over all 16 X_0 and compare all 16 X_s."""
    density, t = 0.3, 5
    diffusion = Diffusion(DiffusionConfig(STEPS))
    p0 = torch.tensor([[[0.9, 0.2], [0.4, 0.7]]])
    xt = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    s = t - stride
    through, before, whole = (product(a, b, density).tolist() for a, b in ((s, t), (0, s), (0, t)))
    noisy = [int(v) for v in xt.flatten()]
    matrices = list(itertools.product((0, 1), repeat=4))
    exact = dict.fromkeys(matrices, 0.0)
    for x0 in matrices:
        chance = math.prod(p if v else 1 - p for p, v in zip(p0.flatten().tolist(), x0, strict=True))
        for xs in matrices:
            exact[xs] += chance * math.prod(
                before[a][b] * through[b][c] / whole[a][c] for a, b, c in zip(x0, xs, noisy, strict=True)
            )
    found = diffusion.posterior(xt, p0, at(t), at(s), density).flatten().tolist()
    assert sum(exact.values()) == pytest.approx(1, abs=1e-9)
    for xs, chance in exact.items():
        assert math.prod(p if v else 1 - p for p, v in zip(found, xs, strict=True)) == pytest.approx(chance, abs=1e-6)


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("noisy", [0, 1])
def test_the_reverse_step_as_printed_weighs_by_how_likely_x_t_is(stride: int, noisy: int) -> None:
    """Equation 7 to the letter: Σ_{x_0} q(x_s, x_t | x_0) p(x_0), normalised over x_s."""
    density, t, p0 = 0.3, 5, 0.2
    s = t - stride
    through, before = (product(a, b, density).tolist() for a, b in ((s, t), (0, s)))
    joint = [
        sum((p0 if x0 else 1 - p0) * before[x0][xs] * through[xs][noisy] for x0 in (0, 1)) for xs in (0, 1)
    ]  # fmt: skip
    for printed in (True, False):
        diffusion = Diffusion(DiffusionConfig(STEPS, reverse_as_printed=printed))
        xt = torch.full((1, 1, 1), float(noisy))
        found = diffusion.posterior(xt, torch.full((1, 1, 1), p0), at(t), at(s), density).item()
        assert (found == pytest.approx(joint[1] / sum(joint), abs=1e-5)) == printed


def test_strides_compose() -> None:
    """Two exact strides with the true posterior of x_0 lead where one long stride leads (Bayes' rule)."""
    density, prior = 0.2, 0.35  # x_0 = 1 with this chance
    diffusion = Diffusion(DiffusionConfig(STEPS))

    def truth(x: int, t: int) -> float:
        reach = product(0, t, density)
        return (prior * reach[1, x] / (prior * reach[1, x] + (1 - prior) * reach[0, x])).item()

    def step(x: int, t: int, s: int) -> float:
        full = torch.full((1, 1, 1), float(x))
        return diffusion.posterior(full, torch.full((1, 1, 1), truth(x, t)), at(t), at(s), density).item()

    for x in (0, 1):
        one = step(x, 6, 3)
        two = one * step(1, 3, 1) + (1 - one) * step(0, 3, 1)
        assert two == pytest.approx(step(x, 6, 1), abs=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 5, 10, 20, 50, 1000])
def test_the_schedule_goes_from_clean_to_noise(steps: int) -> None:
    """ᾱ starts at one, never rises, and ends so near zero that x_T has forgotten x_0: q̄ is the limit."""
    table = survival_table(steps)
    assert table.shape == (steps + 1,)
    assert table[0] == 1
    assert (table.diff() <= 0).all()
    assert table[-1] == 1e-4  # where it is held: a stride from T divides by it
    for density in DENSITIES:
        end = product(0, steps, density, steps)
        torch.testing.assert_close(end, torch.tensor([[1 - density, density]] * 2).double(), atol=1e-3, rtol=0)


def test_the_schedule_is_that_of_the_literature() -> None:
    """cos²((t/T + .008)/1.008 · π/2), scaled to one at 0."""
    table = survival_table(20)
    for t in (1, 7, 19):
        curve = [math.cos((u / 20 + 0.008) / 1.008 * math.pi / 2) ** 2 for u in (t, 0)]
        assert table[t].item() == pytest.approx(curve[0] / curve[1])


def test_bad_settings_are_refused() -> None:
    """No steps, or the schedule of an earlier version, is a usage error that names what is wrong."""
    with pytest.raises(UsageError, match="'steps' must be at least 1"):
        DiffusionConfig(0)
    assert build(DiffusionConfig, {"steps": 7, "schedule": "cosine"}) == DiffusionConfig(7)
    with pytest.raises(UsageError, match="'schedule' is gone"):
        build(DiffusionConfig, {"schedule": "linear"})


def test_samples_follow_the_marginal_at_every_items_own_step() -> None:
    """q_sample: each item of a batch is noised to its own t; shares of ones match P(x_t = 1 | x_0)."""
    diffusion = Diffusion(DiffusionConfig(10))
    t = torch.arange(11)
    x0 = torch.zeros(11, 100, 200)
    x0[:, :, :100] = 1.0
    x = diffusion.q_sample(x0, t, 0.2, Noise(keys(11)))
    assert set(x.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(x[0], x0[0])
    expected = diffusion.q_marginal(x0, t, 0.2)
    for half in (slice(0, 100), slice(100, 200)):
        share, chance = x[:, :, half].mean((1, 2)), expected[:, 0, half][:, 0]
        assert (share - chance).abs().max() < 5 * 0.5 / math.sqrt(10000)


def test_prior_and_reverse_samples_follow_their_probabilities() -> None:
    """prior draws from q̄; p_sample from the posterior; a prediction of zeros and ones is met at s = 0."""
    diffusion = Diffusion(DiffusionConfig(10))
    noise = Noise(keys(20))
    x = diffusion.prior(40, 50, 0.1, noise)
    assert x.shape == (20, 40, 50)
    assert abs(x.mean() - 0.1) < 5 * 0.3 / math.sqrt(x.numel())
    p0, t, s = torch.full_like(x, 0.3), torch.full((20,), 8), torch.full((20,), 4)
    chance = diffusion.posterior(x, p0, t, s, 0.1)
    drawn = diffusion.p_sample(x, p0, t, s, 0.1, noise)
    for value in (0.0, 1.0):
        where = x == value
        error = 5 * 0.5 / math.sqrt(int(where.sum()))
        assert abs(drawn[where].mean() - chance[where].mean()) < error
    clean = (p0.cumsum(2) % 2 > 1).float()
    assert torch.equal(diffusion.p_sample(x, clean, t, t * 0, 0.1, noise), clean)


def test_one_machine_has_density_one() -> None:
    """With q̄ = (0, 1) every matrix is full of ones and every step is defined."""
    diffusion = Diffusion(DiffusionConfig(4))
    assert (diffusion.prior(3, 1, 1.0, Noise(keys(5))) == 1).all()
    for t in range(1, 5):
        for s in range(t):
            for p0 in (0.3, 1.0):
                p = diffusion.posterior(torch.ones(1, 3, 1), torch.full((1, 3, 1), p0), at(t), at(s), 1.0)
                assert torch.isfinite(p).all()
                assert (p >= p0 - 1e-6).all()
            # a state that cannot be: no chance of it comes from a one, and nothing is divided by zero
            impossible = diffusion.posterior(torch.zeros(1, 3, 1), torch.ones(1, 3, 1), at(t), at(s), 1.0)
            assert (impossible == 0).all()


def test_strided_times_are_distinct_even_and_complete() -> None:
    """From start to 0, strictly falling, at most `start` strides, none longer than the mean plus one."""
    for start in range(1, 41):
        for count in range(1, 45):
            times = strided_times(start, count)
            strides = [a - b for a, b in itertools.pairwise(times)]
            assert times[0] == start
            assert times[-1] == 0
            assert len(strides) == min(count, start)
            assert min(strides) >= 1
            assert max(strides) < start / len(strides) + 1 + 1e-9


def test_strided_times_are_rounded_to_the_nearest() -> None:
    """Answers of saved models depend on which steps are visited."""
    assert strided_times(20, 6) == [20, 17, 13, 10, 7, 3, 0]
    assert strided_times(20, 8) == [20, 18, 15, 12, 10, 8, 5, 2, 0]
    assert strided_times(3, 9) == [3, 2, 1, 0]
