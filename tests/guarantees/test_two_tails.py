"""The exact distribution of the misses of each tail, and of the coverage where the two tails are opposite numbers."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import betabinom, binom, kstest

from evencover import (
    BySpread,
    IntervalDistance,
    Normalized,
    Prediction,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
    TwoTails,
)
from evencover.quantiles import conformal_rank
from tests.synthetic import ONE_IN_A_MILLION, draw

LEVEL, N, M, REPEATS = Fraction(4, 5), 60, 40, 600


def skewed(rng, n):
    """Return rows with exponential noise; the model predicts the mean, the spread, and bounds that are too narrow."""
    data = draw(rng, n)
    center, spread = data.prediction.center, data.prediction.spread
    y = center + spread * (rng.exponential(size=n) - 1)
    return Rows(Prediction(center, spread, center - 0.7 * spread, center + 0.9 * spread), data.X, y)


def tail_ranks(n, share):
    """Return the conformal ranks of the lower and the upper tail."""
    share = Fraction(str(share))
    return conformal_rank(n, 1 - share * (1 - LEVEL)), conformal_rank(n, 1 - (1 - share) * (1 - LEVEL))


def randomized_pit(count, expected, rng):
    """Return a number that is uniform if the count has the expected distribution."""
    return expected.cdf(count - 1) + rng.random() * expected.pmf(count)


def count_pits(calibrator, score, share, seed, gaps):
    """Return the randomized transforms of the numbers covered, below and above, of a group of each repeat, by name.

    `gaps` gives the numbers of gaps between calibration scores that a new score must hit, from both ranks and n.
    """
    rng, pits = np.random.default_rng(seed), {}
    for repeat in range(REPEATS):
        old, new = skewed(rng, N), skewed(rng, M)
        learned = calibrator.learn(old, score)
        intervals = learned.intervals(new, (LEVEL,))
        codes = learned.groups(new).codes
        code = repeat % len(learned.guarantee.sizes)
        n, own = list(learned.guarantee.sizes.values())[code], codes == code
        below, above = new.y < intervals.lower[:, 0], new.y > intervals.upper[:, 0]
        counts = {"below": below, "above": above, "covered": intervals.covers(new.y)[:, 0]}
        for name, gap in gaps(*tail_ranks(n, share), n).items():
            if own.any():
                expected = betabinom(own.sum(), gap, n + 1 - gap)
                pits.setdefault(name, []).append(randomized_pit(counts[name][own].sum(), expected, rng))
    return pits


@pytest.mark.parametrize("share", [0.5, pytest.param(0.2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("taxonomy", [None, BySpread(2)], ids=repr)
@pytest.mark.parametrize("score", [Residual(), Normalized(), Standardized(), ProbabilityDistance()], ids=repr)
def test_coverage_between_two_order_statistics_is_beta_binomial(score, taxonomy, share):
    """For opposite tails, k_l + k_u − n − 1 of the n + 1 gaps between calibration scores are covered."""
    calibrator = TwoTails(taxonomy, lower_share=share)
    pits = count_pits(calibrator, score, share, 1, lambda lower, upper, n: {"covered": lower + upper - n - 1})
    assert kstest(pits["covered"], "uniform").pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("share", [0.2, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("taxonomy", [None, BySpread(2)], ids=repr)
@pytest.mark.parametrize("score", [IntervalDistance(), RelativeIntervalDistance(), Normalized()], ids=repr)
def test_the_misses_of_each_tail_are_beta_binomial(score, taxonomy, share):
    """Also for asymmetric CQR, whose two tails are not opposite."""
    calibrator = TwoTails(taxonomy, lower_share=share)
    gaps = count_pits(calibrator, score, share, 2, lambda low, up, n: {"below": n + 1 - low, "above": n + 1 - up})
    assert min(kstest(pits, "uniform").pvalue for pits in gaps.values()) > ONE_IN_A_MILLION


def test_a_wrong_rank_is_detected():
    """The same test with the rank of the other tail."""
    pits = count_pits(
        TwoTails(lower_share=0.2), IntervalDistance(), 0.2, 2, lambda low, up, n: {"below": n + 1 - up, "above": 1}
    )
    assert kstest(pits["below"], "uniform").pvalue < ONE_IN_A_MILLION


def test_one_threshold_for_both_tails_misses_more_above():
    """With skewed noise; separate tails miss about the same on both sides."""
    rng = np.random.default_rng(3)
    old, new = skewed(rng, 4000), skewed(rng, 4000)
    learned, level = TwoTails().learn(old, Normalized()), Fraction(9, 10)
    joint = learned.calibration.interval(new.prediction, level=level)
    assert ((new.y < joint.lower).mean(), (new.y > joint.upper).mean()) == (0.0, pytest.approx(0.1, abs=0.02))
    intervals = learned.intervals(new, (level,))
    for misses in (new.y < intervals.lower[:, 0], new.y > intervals.upper[:, 0]):
        assert misses.mean() == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("score", [IntervalDistance(), Normalized()], ids=repr)
@pytest.mark.parametrize("seed", [None, 0])
def test_p_values_are_valid(score, seed):
    """P(p <= u) <= u: an exact one-sided test of one new row per repeat, at several u."""
    rng, p_values = np.random.default_rng(4), []
    for repeat in range(1500):
        learned = TwoTails(lower_share=0.3).learn(skewed(rng, 30), score)
        p_values += learned.p_values(skewed(rng, 1), seed=None if seed is None else seed + repeat).tolist()
    for u in (0.05, 0.1, 0.2, 0.5):
        assert binom.sf(np.count_nonzero(np.array(p_values) <= u) - 1, len(p_values), u) > ONE_IN_A_MILLION
    assert np.mean(np.array(p_values) <= 0.1) > 0.02
