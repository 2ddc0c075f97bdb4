"""The exact distribution of the misses of each tail, and of the coverage where the two tails are opposite numbers."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import betabinom, binom, kstest

from evencover import (
    BySpread,
    IntervalDistance,
    Marginal,
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
from tests.repeats import InEachRepeat, each_row_as_new
from tests.synthetic import ONE_IN_A_MILLION, draw

LEVEL, N, M, REPEATS = Fraction(4, 5), 60, 40, 600
OPPOSITE_TAILS = [Residual(), Normalized(), Standardized(), ProbabilityDistance()]


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


def outcomes(calibrator, score):
    """Return what happened to each of N + 1 rows as the new one, and what must happen to a share of them.

    Both are dictionaries by group and size of the numbers of rows below, above and covered, and of all rows.
    """
    found, expected = {}, {}
    for old, new in each_row_as_new(skewed(np.random.default_rng(1), N + 1)):
        learned = calibrator.learn(old, score)
        intervals, code = learned.intervals(new, (LEVEL,)), int(learned.groups(new).codes[0])
        below, above = new.y[0] < intervals.lower[0, 0], new.y[0] > intervals.upper[0, 0]
        n = list(learned.guarantee.sizes.values())[code]
        happened = [below, above, intervals.covers(new.y)[0, 0], True]
        found[code, n] = found.get((code, n), 0) + np.array(happened, dtype=int)
        expected[code, n] = [*expected_outcomes(n, calibrator.lower_share), n + 1]
    return found, expected


def expected_outcomes(n, share):
    """Return how many of n + 1 rows are below, above and covered: each tail misses the gaps beyond its rank."""
    lower, upper = tail_ranks(n, share)
    return n + 1 - lower, n + 1 - upper, lower + upper - n - 1


@pytest.mark.parametrize(
    ("taxonomy", "share"),
    [
        (None, 0.5),
        (BySpread(2), 0.2),
        pytest.param(None, 0.2, marks=pytest.mark.slow),
        pytest.param(BySpread(2), 0.5, marks=pytest.mark.slow),
    ],
    ids=repr,
)
@pytest.mark.parametrize("score", [*OPPOSITE_TAILS, IntervalDistance(), RelativeIntervalDistance()], ids=repr)
def test_each_tail_misses_exactly_its_share(score, taxonomy, share):
    """In each group of n rows, n + 1 − k of n + 1 new rows are beyond the end whose rank is k.

    Given the rows, each is equally likely to be the new one, so no chance is left. Opposite tails cover
    k_l + k_u − n − 1 of the n + 1 gaps between calibration scores. Those of asymmetric CQR may cover others, too.
    """
    found, expected = outcomes(TwoTails(taxonomy, lower_share=share), score)
    assert len(found) == (1 if taxonomy is None else 2)
    compared = [0, 1, 2, 3] if score in OPPOSITE_TAILS else [0, 1, 3]
    for group, numbers in found.items():
        np.testing.assert_array_equal(numbers[compared], np.array(expected[group])[compared], err_msg=str(group))


def count_pits(taxonomy, score, share, seed, gaps):
    """Return the randomized transforms of the numbers covered, below and above, of all groups of all repeats, by name.

    They are uniform if the numbers are BetaBinomial. `gaps` gives the numbers of gaps between calibration scores that a
    new score must hit, from n.
    """
    rng = np.random.default_rng(seed)
    old, new = skewed(rng, REPEATS * N), skewed(rng, REPEATS * M)
    learned = TwoTails(InEachRepeat(taxonomy, REPEATS), lower_share=share).learn(old, score)
    intervals, groups = learned.intervals(new, (LEVEL,)), learned.groups(new)
    below, above = new.y < intervals.lower[:, 0], new.y > intervals.upper[:, 0]
    m, sizes = groups.counts, np.array(list(learned.guarantee.sizes.values()))
    pits = {}
    for name, hits in {"below": below, "above": above, "covered": intervals.covers(new.y)[:, 0]}.items():
        count, gap = np.bincount(groups.codes, hits, len(m)), np.array([gaps(n)[name] for n in sizes])
        at_most, less = (betabinom.cdf(each, m, gap, sizes + 1 - gap) for each in (count, count - 1))
        pits[name] = (less + rng.random(len(m)) * (at_most - less))[m > 0]
    return pits


@pytest.mark.parametrize(("taxonomy", "share"), [(Marginal(), 0.5), (BySpread(2), 0.2)], ids=repr)
def test_the_numbers_below_above_and_covered_are_beta_binomial(taxonomy, share):
    """A rank off by one is found with certainty by the test of all rows as new ones."""

    def gaps(n):
        return dict(zip(("below", "above", "covered"), expected_outcomes(n, share), strict=True))

    pits = count_pits(taxonomy, Normalized(), share, 2, gaps)
    assert min(kstest(each, "uniform").pvalue for each in pits.values()) > ONE_IN_A_MILLION


def test_a_wrong_rank_is_detected():
    """The same test with the rank of the other tail."""

    def gaps(n):
        below, above, covered = expected_outcomes(n, 0.2)
        return {"below": above, "above": below, "covered": covered}

    pits = count_pits(Marginal(), Normalized(), 0.2, 2, gaps)
    for name in ("below", "above"):
        assert kstest(pits[name], "uniform").pvalue < ONE_IN_A_MILLION
    assert kstest(pits["covered"], "uniform").pvalue > ONE_IN_A_MILLION


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
    """P(p <= u) <= u: an exact one-sided test of one new row per repeat, at several u.

    If a row did not count itself, p <= 0.05 would have probability 0.097, which is found with probability 0.995.
    """
    rng, repeats = np.random.default_rng(4), 1500
    calibrator = TwoTails(InEachRepeat(Marginal(), repeats), lower_share=0.3)
    p_values = calibrator.learn(skewed(rng, 30 * repeats), score).p_values(skewed(rng, repeats), seed=seed)
    for u in (0.05, 0.1, 0.2, 0.5):
        assert binom.sf(np.count_nonzero(p_values <= u) - 1, repeats, u) > ONE_IN_A_MILLION
    assert np.mean(p_values <= 0.1) > 0.02
