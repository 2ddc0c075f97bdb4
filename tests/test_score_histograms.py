"""Histograms of scores: rounding up to the grid, counting in any order and partition, thresholds and p-values."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import betabinom, kstest
from sklearn.frozen import FrozenEstimator

from evencover import (
    Bounded,
    ByFeature,
    ByGroup,
    ByPrediction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Marginal,
    Normalized,
    OneSided,
    Product,
    calibrate,
    conformal_quantile,
    conformal_rank,
)
from evencover.calibration.histograms import ScoreCounter, ScoreHistogram
from evencover.groups import Groups
from evencover.scores import Residual
from tests.rounding import rounded_up
from tests.synthetic import ALL_SCORES, ONE_IN_A_MILLION, Oracle, draw

LARGEST, SMALLEST = np.finfo(float).max, 5e-324
SPECIAL = [0.0, -0.0, np.inf, -np.inf, SMALLEST, -SMALLEST, LARGEST, -LARGEST, 2.2e-308, 1.0, -1.0, 1.0 + 2**-52]
LEVELS = [0.01, 0.29, 0.5, 0.9, 0.99]
HISTOGRAM_TAXONOMIES = [
    *(Marginal(), BySpread(3), ByPrediction(2), ByFeature(0), ByTarget([0.0])),
    Product([BySpread(2), ByFeature(0)]),
]
numbers = st.floats(allow_nan=False) | st.sampled_from(SPECIAL)
arrays_of_scores = npst.arrays(float, st.integers(1, 60), elements=numbers)
bits_of_grid = st.sampled_from([0, 1, 4, 10, 51, 52])


def on_grid(scores, bits):
    """Return the number of the grid to which each score is rounded."""
    return np.array([ScoreHistogram.of(np.array([score]), bits).threshold(1) for score in scores])


@example(np.array(SPECIAL), 10)
@given(arrays_of_scores, bits_of_grid)
def test_rounding_up_keeps_the_order_and_is_the_nearest_number_of_the_grid_above(scores, bits):
    """Rounding again changes nothing."""
    found = on_grid(scores, bits)
    assert (found >= scores).all()
    np.testing.assert_array_equal(found, rounded_up(scores, bits))
    order = np.argsort(scores)
    assert (found[order][1:] >= found[order][:-1]).all()
    np.testing.assert_array_equal(on_grid(found, bits), found)


@example(np.array(SPECIAL), 10)
@given(arrays_of_scores, bits_of_grid)
def test_the_relative_error_of_rounding_is_at_most_one_bin(scores, bits):
    """Except below the smallest normal number, where the absolute error is as small, and above the largest number."""
    found = on_grid(scores, bits)
    inside = np.isfinite(found) & np.isfinite(scores)
    limit = np.maximum(np.abs(scores[inside]), 2.0**-1022) * 2.0**-bits
    assert (found[inside] - scores[inside] <= limit).all()


def test_all_numbers_are_on_the_finest_grid_and_small_whole_numbers_on_coarse_ones():
    values = np.array([*SPECIAL, np.pi, -np.e])
    np.testing.assert_array_equal(on_grid(values, 52), values)
    whole = np.arange(-256.0, 257.0)
    np.testing.assert_array_equal(on_grid(whole, 8), whole)
    assert not np.array_equal(on_grid(whole, 6), whole)


def test_zero_has_no_sign():
    """Both zeros are one number of the grid, and a tiny negative score is rounded up to it."""
    found = ScoreHistogram.of(np.array([0.0, -0.0, -SMALLEST]), 10)
    assert (found.counts.tolist(), found.threshold(3)) == ([3], 0.0)


@given(arrays_of_scores, bits_of_grid, st.sampled_from(LEVELS))
def test_the_threshold_is_the_exact_threshold_rounded_up(scores, bits, level):
    """Brute force agrees: never smaller, and equal to the quantile of the rounded scores."""
    found = ScoreHistogram.of(scores, bits).thresholds((Fraction(str(level)),))[0, 0]
    exact = conformal_quantile(scores, level)
    assert found >= exact
    assert found == (np.inf if exact == np.inf else rounded_up([exact], bits)[0])
    assert found == conformal_quantile(rounded_up(scores, bits), level)


@given(arrays_of_scores, bits_of_grid, st.sampled_from(LEVELS))
def test_the_excess_bounds_the_rows_between_the_two_thresholds(scores, bits, level):
    histogram, fraction = ScoreHistogram.of(scores, bits), Fraction(str(level))
    found, exact = histogram.thresholds((fraction,))[0, 0], conformal_quantile(scores, level)
    between = np.count_nonzero((scores > exact) & (scores <= found))
    assert between / len(scores) <= histogram.excess(fraction)


@given(arrays_of_scores, arrays_of_scores, bits_of_grid)
def test_p_values_are_at_least_the_exact_ones(old, new, bits):
    """They equal those of the rounded scores, smoothed or not; with all bits they are exact."""
    histogram = ScoreHistogram.of(old, bits)
    at_least = (old[None, :] >= new[:, None]).sum(axis=1)
    exact = (1 + at_least) / (len(old) + 1)
    assert (histogram.p_values(new) >= exact).all()
    old_rounded, new_rounded = rounded_up(old, bits), rounded_up(new, bits)
    expected = (1 + (old_rounded[None, :] >= new_rounded[:, None]).sum(axis=1)) / (len(old) + 1)
    np.testing.assert_array_equal(histogram.p_values(new), expected)
    shares = np.linspace(0.1, 0.9, len(new))
    larger = (old_rounded[None, :] > new_rounded[:, None]).sum(axis=1)
    smoothed = (larger + shares * (expected * (len(old) + 1) - larger)) / (len(old) + 1)
    np.testing.assert_allclose(histogram.p_values(new, shares), smoothed, rtol=1e-12)


def test_without_scores_the_threshold_is_infinite_and_the_p_value_is_1():
    empty = ScoreHistogram.empty(10)
    assert (len(empty), empty.thresholds((Fraction(1, 2),))[0, 0], empty.excess(Fraction(1, 2))) == (0, np.inf, 0.0)
    assert empty.p_values(np.array([3.0])).tolist() == [1.0]


def orders(scores):
    """Return scores in orders that are bad for a counter: sorted both ways, outliers first, alternating."""
    ascending = np.sort(scores)
    return {
        "random": scores,
        "ascending": ascending,
        "descending": ascending[::-1],
        "outliers first": scores[np.argsort(-np.abs(np.log(np.abs(scores) + 1e-300)))],
        "from both ends": np.concatenate(list(zip(ascending, ascending[::-1], strict=True)))[: len(scores)],
    }


def spread_out_scores(kind, n=4000):
    rng = np.random.default_rng(0)
    return {
        "usual": np.abs(rng.standard_t(3, n)),
        "signed": rng.normal(size=n),
        "all sizes": rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-320, 308, n),
        "ties": rng.integers(0, 4, n).astype(float),
        "constant": np.full(n, 0.1),
        "with infinity": np.where(rng.random(n) < 0.3, np.inf, rng.normal(size=n)),
        "denormal": rng.integers(-9, 9, n) * SMALLEST,
        "very close": 1.0 + rng.random(n) * 1e-12,
    }[kind]


KINDS = ["usual", "signed", "all sizes", "ties", "constant", "with infinity", "denormal", "very close"]


@pytest.mark.parametrize("n_codes", [1, 7, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_counting_in_batches_equals_counting_at_once(kind, n_codes):
    """For any order of the rows and any size of the batches, with few groups and with many, some of them empty."""
    scores = spread_out_scores(kind)
    for order in orders(scores).values():
        codes = np.random.default_rng(1).integers(0, n_codes, len(order)) // 2 * 2  # every second group has no rows
        for size in (1000, 2999, len(order)):
            counter = ScoreCounter(10)
            for start in range(0, len(order), size):
                part = slice(start, start + size)
                counter.add(order[part], codes[part], n_codes)
            found = counter.histograms(n_codes)
            assert sum(map(len, found)) == len(order)
            for code in (0, n_codes // 2, n_codes - 1):
                expected = ScoreHistogram.of(order[codes == code], 10)
                np.testing.assert_array_equal(found[code].indices, expected.indices)
                np.testing.assert_array_equal(found[code].counts, expected.counts)


def test_groups_may_appear_late():
    """The number of groups grows while scores are counted, also beyond what is counted in an array."""
    rng, counter, seen = np.random.default_rng(0), ScoreCounter(6), []
    for n_codes in (1, 3, 60, 200):
        scores, codes = rng.normal(size=500), rng.integers(0, n_codes, 500)
        counter.add(scores, codes, n_codes)
        seen.append((scores, codes))
    scores, codes = (np.concatenate(each) for each in zip(*seen, strict=True))
    for code, found in enumerate(counter.histograms(200)):
        expected = ScoreHistogram.of(scores[codes == code], 6)
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_array_equal(found.indices, expected.indices)


def test_groups_and_scores_that_do_not_fit_in_one_integer_are_counted_too():
    """The finest grid has nearly 2**64 numbers."""
    counter = ScoreCounter(52)
    for _ in range(2):
        counter.add(np.array([LARGEST, -LARGEST, LARGEST, 1.0]), np.array([3, 0, 3, 0]), 100)
    found = counter.histograms(100)
    assert {code: each.counts.tolist() for code, each in enumerate(found) if len(each)} == {0: [2, 2], 3: [4]}
    assert [found[0].threshold(rank) for rank in (1, 2, 3, 4)] == [-LARGEST, -LARGEST, 1.0, 1.0]
    assert found[3].threshold(1) == LARGEST


@given(st.lists(arrays_of_scores, min_size=1, max_size=5), bits_of_grid)
def test_histograms_of_parts_add_up(parts, bits):
    merged = ScoreHistogram.concatenate([ScoreHistogram.of(part, bits) for part in parts])
    whole = ScoreHistogram.of(np.concatenate(parts), bits)
    np.testing.assert_array_equal(merged.indices, whole.indices)
    np.testing.assert_array_equal(merged.counts, whole.counts)


def test_a_million_scores_have_about_ten_thousand_rounded_values():
    """Ten times as many rows have hardly more of them; each takes 16 bytes; few scores share one with the threshold."""
    rng = np.random.default_rng(0)
    few, many = (ScoreHistogram.of(np.abs(rng.normal(size=n)), 10) for n in (100_000, 1_000_000))
    assert 5000 < len(many.indices) < 15_000
    assert len(many.indices) < 1.6 * len(few.indices)
    assert many.indices.nbytes + many.counts.nbytes == 16 * len(many.indices)
    assert max(many.excess(Fraction(level)) for level in ("0.5", "0.9", "0.99")) < 0.001


def test_known_order_statistics_replace_the_rounded_ones_and_merging_forgets_them():
    scores = np.random.default_rng(0).normal(size=99)
    calibration = calibrate(scores, np.zeros(99), bits=2)
    exact = float(conformal_quantile(np.abs(scores), 0.9))
    assert calibration.threshold(0.9)[0] > exact
    assert calibration.excess(0.9)[0] > 0
    assert not calibration.guarantee_at((Fraction(9, 10),)).exact
    stored = calibration.stored.with_exact({"all": {conformal_rank(99, 0.9): exact}})
    known = replace(calibration, stored=stored)
    assert known.threshold([0.9, 0.8]).tolist() == [[exact, calibration.threshold(0.8)[0]]]
    assert known.excess(0.9)[0] == 0
    assert known.guarantee_at((Fraction(9, 10),)).exact
    assert not known.guarantee_at((Fraction(9, 10), Fraction(4, 5))).exact
    merged = known.merge(known)
    assert conformal_rank(198, 0.45) == conformal_rank(99, 0.9)
    assert merged.threshold(0.45)[0] == rounded_up([conformal_quantile(np.abs([*scores, *scores]), 0.45)], 2)[0]


def test_a_histogram_calibration_with_all_bits_equals_a_calibration():
    """Thresholds, intervals and p-values, with groups, unseen groups and several levels."""
    rng = np.random.default_rng(0)
    y, center, group = rng.normal(size=300), np.zeros(300), rng.integers(0, 3, 300)
    groups = Groups.from_labels(group)
    scores = calibrate(y, center, groups=groups)
    histograms = calibrate(y, center, groups=groups, bits=52)
    assert histograms.bits == 52
    np.testing.assert_array_equal(histograms.threshold(LEVELS[1:4]), scores.threshold(LEVELS[1:4]))
    new_groups = np.array([0, 1, 2, 9])
    for unseen in ("marginal", "inf"):
        found, expected = (
            np.asarray(each.interval(np.arange(4.0), groups=new_groups, level=[0.5, 0.9], unseen=unseen))
            for each in (histograms, scores)
        )
        np.testing.assert_array_equal(found, expected)
        found, expected = (
            each.p_values(np.arange(4.0), np.zeros(4), groups=new_groups, unseen=unseen)
            for each in (histograms, scores)
        )
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="groups must be among those of the calibration"):
        histograms.interval(np.arange(4.0), groups=new_groups)


@pytest.mark.parametrize("taxonomy", HISTOGRAM_TAXONOMIES, ids=repr)
@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
def test_a_regressor_with_histograms_equals_one_with_scores(taxonomy):
    """For every score, with all bits: also groups of the target, and learned groups with their edge rows."""
    old, new = (draw(np.random.default_rng(seed), n) for seed, n in ((0, 150), (1, 40)))
    oracle = FrozenEstimator(Oracle().fit(old.X, old.y))
    for score in (*ALL_SCORES, Bounded(Residual(), y_min=-100), OneSided(Normalized(), "lower")):
        scores, histograms = (
            ConformalRegressor(oracle, nonconformity=score, calibrator=each).fit(old.X, old.y)
            for each in (ByGroup(taxonomy), ByGroup(taxonomy, bits=52))
        )
        expected, found = (model.predict_union(new.X, level=[0.5, 0.9]) for model in (scores, histograms))
        for piece, other in zip(found.pieces, expected.pieces, strict=True):
            np.testing.assert_array_equal(np.asarray(piece), np.asarray(other))
        np.testing.assert_array_equal(histograms.p_values(new.X, new.y), scores.p_values(new.X, new.y))


@pytest.mark.parametrize("bits", [-1, 53, 2.5, True, "ten"])
def test_bits_must_be_a_whole_number_from_0_to_52(bits):
    with pytest.raises(ValueError, match="bits must be a whole number from 0 to 52"):
        calibrate([1.0], [0.0], bits=bits)


def test_rounded_scores_of_new_rows_follow_the_exact_distribution():
    """Coarse rounding makes ties, but a new row's smoothed p-value stays uniform, and coverage is not too low.

    The number covered by the exact threshold is BetaBinomial; the rounded threshold covers at least as many.
    """
    rng, n, m, level = np.random.default_rng(5), 37, 50, Fraction(4, 5)
    k = conformal_rank(n, level)
    law, p_values, pits = betabinom(m, k, n + 1 - k), [], []
    for _ in range(800):
        old, new = np.abs(rng.normal(size=n)), np.abs(rng.normal(size=m))
        histogram = ScoreHistogram.of(old, 3)
        p_values.append(histogram.p_values(new[:1], rng.random(1))[0])
        exact = np.sort(old)[k - 1]
        covered = np.count_nonzero(new <= exact)
        pits.append(law.cdf(covered - 1) + rng.random() * law.pmf(covered))
        assert np.count_nonzero(new <= histogram.threshold(k)) >= covered
    assert kstest(p_values, "uniform").pvalue > ONE_IN_A_MILLION
    assert kstest(pits, "uniform").pvalue > ONE_IN_A_MILLION
