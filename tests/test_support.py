"""Targets with limits and whole numbers: `Support`, `Bounded` in calibrations, and their guarantees."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from evencover import (
    Bounded,
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    Residual,
    Rows,
    Support,
    TwoTails,
    audit,
    calibrate,
    conformal_rank,
    diagnose,
    recommend,
)
from evencover.protocols import scores_of, threshold_intervals
from tests.guarantees.test_exact_distributions import M, N, counts_by_size, repeats_of, smallest_p_value
from tests.synthetic import ONE_IN_A_MILLION, Oracle, TwoLines, draw

COUNTS = Bounded(Normalized(), y_min=0, whole=True)


def count_rows(rng, n):
    """Return predictions and counts, whose mean is predicted and whose spread is the root of the mean."""
    mean = np.exp(rng.uniform(-2, 2, n))
    return Prediction(mean, np.sqrt(mean)), rng.poisson(mean).astype(float)


class TestArguments:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({}, "y_min, y_max or whole must be given; got none of them"),
            ({"y_min": 2, "y_max": 1}, "y_min must be at most y_max; got 2 and 1"),
            ({"y_min": np.nan}, "y_min must be a finite number or None; got nan"),
            ({"y_max": np.inf}, "y_max must be a finite number or None; got inf"),
            ({"y_max": 10**400}, f"y_max must be a finite number or None; got 1{'0' * 39}"),
            ({"y_min": "0"}, "y_min must be a finite number or None; got '0'"),
            ({"y_min": True}, "y_min must be a finite number or None; got True"),
            ({"y_max": 1.5, "whole": True}, "y_max must be a whole number, because whole=True; got 1.5"),
            ({"whole": 1}, "whole must be True or False; got 1"),
        ],
    )
    def test_wrong_ones_are_explained(self, settings, message):
        for made in (Support, Bounded):
            with pytest.raises(ValueError, match="must be") as error:
                made(**settings)
            assert str(error.value) == message

    def test_bounded_is_outermost(self):
        with pytest.raises(
            ValueError, match=r"must be the outermost score.*got Bounded\(Residual\(\), y_min=0\) in it"
        ):
            Bounded(Bounded(y_min=0), y_max=1)
        with pytest.raises(
            ValueError, match=r"use Bounded\(OneSided\(...\), ...\); got Bounded\(Residual\(\), y_min=0\)"
        ):
            OneSided(Bounded(y_min=0))
        with pytest.raises(TypeError, match="score must be a score"):
            Bounded(3, y_min=0)

    def test_numpy_numbers_print_as_numbers(self):
        assert repr(Bounded(y_min=np.float64(0), y_max=np.float32(0.5))) == "Bounded(Residual(), y_min=0, y_max=0.5)"
        assert Bounded(y_min=np.float64(0)) == Bounded(y_min=0)

    def test_the_scale_goes_to_the_inner_score(self):
        score = Bounded(Normalized(floor=0.1), y_min=0)
        assert score.needs_scale
        assert score.with_scale(2.0) == Bounded(Normalized(floor=0.1, scale=2.0), y_min=0)
        assert not COUNTS.needs_scale
        X = np.random.default_rng(0).uniform(size=(200, 3))
        fitted = ConformalRegressor(Oracle(), nonconformity=score, random_state=0).fit(X, X[:, 2])
        assert fitted.calibration_.nonconformity.score.scale == fitted.scale_ > 0


class TestSupportOfTargets:
    @pytest.mark.parametrize(
        ("y", "support"),
        [
            ([0.5, 2.0], Support(y_min=0)),
            ([0.0, 3.0], Support(y_min=0, whole=True)),
            ([-1.0, 3.0], Support(whole=True)),
            ([-1.0, 3.5], None),
            ([2.0, 2.0], Support(y_min=0)),
            ([1e17, 2e17], Support(y_min=0)),
            ([], None),
        ],
    )
    def test_the_rule(self, y, support):
        """Not negative: from 0; whole numbers of two different values or more: whole."""
        assert Support.of_targets(np.array(y)) == support

    @pytest.mark.parametrize(
        ("name", "y", "limit"),
        [
            ("prate", [*np.linspace(20, 99.5, 50), 100, 100, 100], 100),
            ("prate", [*np.linspace(20, 99.5, 50), 100, 100], None),  # a measurement may be 100 by chance
            ("prate", [*np.linspace(20, 99.5, 50), 100, 100, 100, 100.5], None),
            ("balance", [*np.linspace(-20, 99.5, 50), 100, 100, 100], None),
            ("age", [*np.repeat(np.arange(20, 100), 5), 100, 100, 100], None),  # fewer than of other ages
            ("gift", [*[5, 10, 20, 50] * 10, *[100] * 20], None),  # amounts
            ("x", [*np.linspace(0.2, 0.95, 50), 1, 1, 1], 1),
            ("count", [0] * 50 + [1] * 10, None),
            ("share of votes", [0.2, 0.9], 1),
            ("demvoteshare", [20.0, 73.5], 100),
            ("percent_urban", [3.0, 97.0], 100),
            ("pctUrban", [3.0, 97.0], 100),
            ("humidity %", [30.5, 88.0], 100),
            ("percent_change", [3.0, 97.0], None),
            ("percent", [3.0, 120.0], None),
            ("share_price", [3.0, 97.0], None),
            ("shares", [3.0, 97.0], None),
            ("mpg", [9.0, 46.6], None),
        ],
    )
    def test_the_upper_limit_of_shares(self, name, y, limit):
        """Enough targets lie on 1 or 100, or the name says what it is; in both cases, none is above or negative."""
        support = Support.of_targets(np.array(y), name)
        assert (None if support is None else support.y_max) == limit

    def test_the_text(self):
        texts = [str(each) for each in (Support(y_min=0), Support(0.5, 2), Support(whole=True), Support(0, 3, True))]
        assert texts == [
            "at least 0",
            "at least 0.5 and at most 2",
            "whole numbers",
            "whole numbers of at least 0 and at most 3",
        ]


class TestReplacedIntervals:
    def intervals(self, level=0.5):
        prediction = Prediction([-5.0, 0.4, 7.3, 3.0], [1.0, 0.1, 0.1, 2.0])
        return calibrate([1.0, 2.0], Prediction([0.0, 1.0], [1.0, 1.0]), nonconformity=COUNTS).interval(
            prediction, level=level
        )

    def test_they_become_the_nearest_possible_target(self):
        intervals = self.intervals()
        assert np.asarray(intervals).tolist() == [[0, 0], [0, 0], [7, 7], [1, 5]]
        assert intervals.replaced.tolist() == [True, True, True, False]
        assert intervals.n_replaced == 3
        assert not intervals.empty.any()
        assert repr(intervals).endswith("3 replaced by a point)")

    def test_an_empty_interval_becomes_its_middle(self):
        """Where the distance to the bounds is smallest."""
        prediction = Prediction([9.0, 9.0], lower=[2.0, 2.0], upper=[4.0, 5.0])
        intervals = Bounded(IntervalDistance(), y_min=0).interval(np.array([-3.0, -1.0]), prediction)
        assert np.asarray(intervals).round(9).tolist() == [[3, 3], [3, 4]]
        assert intervals.replaced.tolist() == [True, False]
        endless = Bounded(Residual(), y_min=0).interval(-np.inf, prediction)
        assert endless.lower.tolist() == endless.upper.tolist() == [9, 9]

    def test_rows_levels_and_frames_keep_them(self):
        intervals = self.intervals([0.1, 0.5])
        assert intervals.replaced.shape == (4, 2)
        assert intervals.replaced.sum(axis=0).tolist() == [3, 3]
        assert intervals[[0, 3]].n_replaced == 2
        assert intervals[3].n_replaced == 0
        frame = self.intervals().to_frame(like=pd.DataFrame({"x": range(4)}))
        assert frame.lower.tolist() == [0, 0, 7, 1]

    def test_marks_have_the_shape_of_the_bounds(self):
        with pytest.raises(ValueError, match=r"replaced must have the shape of the bounds, \(1,\); got \(2,\)"):
            Intervals([0.0], [1.0], replaced=[True, False])

    def test_an_audit_counts_them(self):
        rng = np.random.default_rng(0)
        y = rng.poisson(1.0, 200).astype(float)
        prediction = Prediction(np.where(np.arange(200) < 7, -9.0, 1.0), np.full(200, 0.5))
        intervals = calibrate(y, np.ones(200), nonconformity=Bounded(y_min=0)).interval(prediction)
        found = audit(y, intervals)
        assert found.n_replaced == 7
        assert "Intervals that held no possible value, and were replaced by the nearest one: 7." in str(found)
        assert "replaced" not in str(audit(y[7:], intervals[7:]))


class TestCalibrations:
    def test_the_same_whole_numbers_are_covered_with_and_without_rounding(self):
        rng = np.random.default_rng(1)
        prediction, y = count_rows(rng, 400)
        for score in (Residual(), Normalized(), IntervalDistance()):
            plain = calibrate(y[:200], prediction[:200], nonconformity=score)
            bounded = calibrate(y[:200], prediction[:200], nonconformity=Bounded(score, y_min=0, whole=True))
            levels = [0.3, 0.6, 0.9, 0.99]
            np.testing.assert_array_equal(plain.threshold(levels), bounded.threshold(levels))
            before, after = (each.interval(prediction[200:], level=levels) for each in (plain, bounded))
            kept = ~after.replaced
            np.testing.assert_array_equal(before.covers(y[200:])[kept], after.covers(y[200:])[kept])
            assert (after.covers(y[200:]) >= before.covers(y[200:])).all()
            assert (after.width <= before.width).all()

    def test_one_score_for_each_group(self):
        prediction, y = Prediction([0.5, 0.5, 9.0, 9.0], np.ones(4)), [0.0, 1.0, 7.5, 8.5]  # scores: 0.5, 0.5, 1.5, 0.5
        scores = {"counts": Bounded(y_min=0, whole=True), "others": Residual()}
        calibration = calibrate(y, prediction, nonconformity=scores, groups=["counts"] * 2 + ["others"] * 2)
        intervals = calibration.interval(Prediction([-4.0, 9.0]), groups=["counts", "others"], level=[0.3, 0.6])
        assert intervals.lower.round(6).tolist() == [[0, 0], [8.5, 7.5]]
        assert intervals.replaced.tolist() == [[True, True], [False, False]]
        assert "and all targets are whole numbers of at least 0 in group counts." in str(calibration.guarantee)

    def test_unseen_groups(self):
        calibration = calibrate([1.0, 2.0, 3.0], np.ones(3), nonconformity=Bounded(y_min=0), groups=["a"] * 3)
        new = {"groups": ["b"], "level": 0.5}
        assert calibration.interval([0.5], unseen="marginal", **new).lower.tolist() == [0]
        assert np.asarray(calibration.interval([0.5], unseen="inf", **new)).tolist() == [[0, np.inf]]

    def test_weights(self):
        rng = np.random.default_rng(2)
        prediction, y = count_rows(rng, 100)
        parts = [
            calibrate(y, prediction, nonconformity=score, weights=np.ones(100)) for score in (Normalized(), COUNTS)
        ]
        before, after = (each.interval(prediction, weights=np.ones(100)) for each in parts)
        kept = ~after.replaced
        np.testing.assert_array_equal(before.covers(y)[kept], after.covers(y)[kept])
        assert after.lower.min() == 0

    def test_p_values_and_intervals_agree(self):
        rng = np.random.default_rng(3)
        prediction, y = count_rows(rng, 99)
        calibration = calibrate(y, prediction, nonconformity=COUNTS)
        new, hypothetical = count_rows(rng, 500)
        p_values = calibration.p_values(hypothetical, new)
        intervals = calibration.interval(new, level=0.75)
        kept = ~intervals.replaced
        np.testing.assert_array_equal(intervals.covers(hypothetical)[kept], (p_values > 0.25)[kept])
        assert (calibration.p_values(hypothetical - 99, new) == 0.01).all()  # outside: the smallest p-value

    def test_groups_of_the_target(self):
        """The union of the pieces holds possible targets only."""
        rng = np.random.default_rng(4)
        X, _ = rng.uniform(size=(2, 400, 1))
        y = rng.poisson(4 * X[:, 0]).astype(float)
        model = LinearRegression().fit(X[:100], y[:100])
        taxonomy = ByTarget(edges=[2.0])
        bounded, plain = (
            ConformalRegressor(FrozenEstimator(model), nonconformity=score, taxonomy=taxonomy).calibrate(
                X[100:], y[100:]
            )
            for score in (Bounded(y_min=0, whole=True), Residual())
        )
        union = bounded.predict_union(X, level=[0.5, 0.9])
        for value in range(9):
            targets = np.full(400, float(value))
            covered = plain.predict_union(X, level=[0.5, 0.9]).covers(targets)
            assert (union.covers(targets) >= covered).all()
            if not union.n_replaced:
                np.testing.assert_array_equal(union.covers(targets), covered)
        assert bounded.predict_interval(X).lower.min() >= 0

    def test_one_sided_bounds(self):
        """An upper bound of counts is from 0 to a whole number; below 0, it becomes 0."""
        score = Bounded(OneSided(Residual(), "upper"), y_min=0, whole=True)
        intervals = score.interval(1.0, Prediction([2.3, -4.0]))
        assert np.asarray(intervals).tolist() == [[0, 3], [0, 0]]
        assert intervals.replaced.tolist() == [False, True]
        assert score([2.0, -1.0], Prediction([2.5, 0.0])).tolist() == [-0.5, np.inf]

    def test_separate_tails(self):
        """Both ends are possible targets, and hold the same counts as the ends without a support."""
        rng = np.random.default_rng(11)
        prediction, y = count_rows(rng, 300)
        X = np.column_stack([np.zeros(300), prediction.spread, prediction.center])
        plain, bounded = (
            ConformalRegressor(FrozenEstimator(Oracle().fit(X, y)), nonconformity=score, calibrator=TwoTails())
            .calibrate(X[:200], y[:200])
            .predict_interval(X[200:])
            for score in (Normalized(), COUNTS)
        )
        assert plain.lower.min() < 0 == bounded.lower.min()
        for value in range(30):
            covered = [each.covers(np.full(100, float(value))) for each in (plain, bounded)]
            np.testing.assert_array_equal(covered[0] | bounded.replaced, covered[1] | bounded.replaced)
        assert "all targets are whole numbers of at least 0" in str(bounded.guarantee)

    def test_functions_on_arrays(self):
        rows = Rows(Prediction([1.0, 1.0]), y=[-1.0, 3.0])
        assert scores_of(Bounded(y_min=0), rows).tolist() == [np.inf, 2]
        intervals = threshold_intervals(Bounded(y_min=0), np.array([[0.5, 3.0]]), rows.prediction)
        assert intervals.lower.round(9).tolist() == [[0.5, 0], [0.5, 0]]

    def test_targets_outside_are_counted_and_stay_a_part_of_the_calibration(self):
        """They score infinity, so the thresholds become larger, and the guarantee holds."""
        y = np.r_[np.arange(17.0), -1.0, -2.0]
        with pytest.warns(UserWarning, match="support of the score, which is at least 0: 2 of 19. They score infinity"):
            calibration = calibrate(y, np.zeros(19), nonconformity=Bounded(y_min=0))
        assert calibration.threshold([0.5, 0.85, 0.9]).tolist() == [[9, 16, np.inf]]

    def test_diagnose_with_infinite_scores(self):
        rng = np.random.default_rng(5)
        rows = draw(rng, 600)
        model = ConformalRegressor(FrozenEstimator(Oracle().fit(rows.X, rows.y)), nonconformity=Bounded(y_min=-3))
        with pytest.warns(UserWarning, match="targets outside the support"):
            model.calibrate(rows.X, rows.y)
        found = diagnose(model, level=0.5)
        assert {type(option.nonconformity) for option in found.options} == {Bounded}
        assert len({option.nonconformity.score for option in found.options}) >= 3
        assert "Bounded(Normalized(), y_min=-3)" in str(found) or "Verdict" in str(found)

    def test_the_guarantee_states_the_support(self):
        guarantee = calibrate([1.0], Prediction([1.0], [1.0]), nonconformity=COUNTS).guarantee
        assert guarantee.assumption.endswith(", and all targets are whole numbers of at least 0")
        assert guarantee.exact


def covered_counts(score, *, repeats, seed, levels=(0.05, 0.5, 0.9)):
    """Return the number covered among M positive new targets in each repeat, by (label, calibration size, level)."""
    rng, groups = np.random.default_rng(seed), [repeats_of(repeats, size) for size in (N, M)]
    centers = [rng.uniform(-1, 3, len(each)) for each in groups]
    y, new_y = (np.abs(center + rng.normal(size=len(center))) for center in centers)
    prediction, new = (Prediction(center, np.ones(len(center))) for center in centers)
    calibration = calibrate(y, prediction, nonconformity=score, groups=groups[0])
    covered = calibration.interval(new, groups=groups[1], level=levels).covers(new_y)
    return counts_by_size(covered, groups[1], calibration.sizes, levels)


class TestGuarantees:
    @pytest.mark.parametrize("score", [Residual(), IntervalDistance()], ids=repr)
    def test_continuous_targets_in_the_support_keep_the_exact_distribution(self, score):
        """Many predictions are negative, so many intervals are cut or replaced."""
        bounded = covered_counts(Bounded(score, y_min=0), repeats=1000, seed=6)
        assert bounded == covered_counts(score, repeats=1000, seed=6)
        assert smallest_p_value(bounded) > ONE_IN_A_MILLION

    def test_counts_are_covered_at_least_at_the_level(self):
        """Each group has one new row, so the rows are independent: an exact one-sided binomial test."""
        rng = np.random.default_rng(7)
        repeats, n, levels = 2000, 19, (0.3, 0.6, 0.9)
        (prediction, y), (new, new_y) = count_rows(rng, n * repeats), count_rows(rng, repeats)
        each = np.arange(repeats)
        calibration = calibrate(y, prediction, nonconformity=COUNTS, groups=np.repeat(each, n))
        covered = calibration.interval(new, groups=each, level=levels).covers(new_y).sum(axis=0)
        for level, hits in zip(levels, covered.tolist(), strict=True):
            assert binom.cdf(hits, repeats, conformal_rank(n, level) / (n + 1)) > ONE_IN_A_MILLION

    def test_targets_outside_the_support_do_not_break_the_guarantee(self):
        """Half of a percent of the targets is negative: they are never covered, and the others more often."""
        rng = np.random.default_rng(8)
        repeats, n, hits = 2000, 39, 0
        for _ in range(repeats):
            y = np.where(rng.random(n + 1) < 0.05, -1.0, rng.exponential(size=n + 1))
            scores = Bounded(y_min=0)(y, Prediction(np.ones(n + 1)))
            hits += scores[n] <= np.sort(scores[:n])[conformal_rank(n, 0.75) - 1]
        assert binom.cdf(hits, repeats, 0.75) > ONE_IN_A_MILLION


class TestRecommend:
    @pytest.mark.slow
    def test_widths_are_compared_after_clipping(self):
        rng = np.random.default_rng(9)
        X = rng.uniform(size=(600, 1))
        y = rng.exponential(scale=X[:, 0] + 0.05)
        plain = recommend(LinearRegression(), X, y, taxonomy=BySpread(3))
        bounded = recommend(LinearRegression(), X, y, taxonomy=BySpread(3), support=Support(y_min=0))
        before, after = (
            {each.name: each.width for each in found.recommendation_.candidates} for found in (plain, bounded)
        )
        assert before.keys() == after.keys()
        assert after["Residual() with BySpread(n_groups=3)"] < before["Residual() with BySpread(n_groups=3)"]
        assert all(width <= before[name] for name, width in after.items())
        assert all(isinstance(each.nonconformity, Bounded) for each in bounded.recommendation_.candidates)
        text = str(bounded.recommendation_)
        assert "All candidates hold only targets that are at least 0." in text
        assert "Bounded" not in text
        assert isinstance(bounded.nonconformity, Bounded)

    def test_a_given_score_is_bounded(self):
        rng = np.random.default_rng(10)
        X, y = rng.uniform(size=(300, 1)), rng.exponential(size=300)
        found = recommend(TwoLines(), X, y, nonconformity=Residual(), support=Support(y_min=0))
        assert found.nonconformity == Bounded(Residual(), y_min=0)
        given = Bounded(Residual(), y_min=-1)
        found = recommend(TwoLines(), X, y, nonconformity=given, support=Support(y_min=0))
        assert found.nonconformity == given
