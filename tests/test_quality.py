"""The quality of a model and its intervals: how much it explains, and what using no model would give."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, chisquare

from evencover import BySpread, Intervals, IntervalUnion, Marginal, Prediction, Residual, conformal_quantile
from evencover.diagnostics import Quality, quality
from evencover.studies import Plan, study
from evencover.words.answers import model_text, width_text
from tests.report_pages import result_data
from tests.synthetic import ONE_IN_A_MILLION

pytestmark = pytest.mark.usefixtures("few_trees")

Y = np.array([1.0, 2.0, 3.0, 6.0])
REFERENCE = np.arange(1.0, 40.0)  # 39 targets: at level 0.9 the ends are the 2nd and the 38th


def intervals_of_width(*widths):
    return Intervals(np.zeros(len(widths)), np.array(widths))


def measured(y=Y, intervals=None, **settings):
    return quality(y, intervals_of_width(1.0, 2.0, 3.0, 10.0) if intervals is None else intervals, **settings)


class TestPrediction:
    def test_measures_of_the_prediction(self):
        """By hand: the mean of y is 3, the squares around it sum to 14, the residuals are 1, 0, 0, 2."""
        found = measured(prediction=[0.0, 2.0, 3.0, 4.0])
        assert found.r2 == pytest.approx(1 - 5 / 14, rel=1e-15)
        assert found.mean_absolute_error == 0.75
        assert found.mean_prediction == 2.25
        assert not found.constant_prediction

    def test_a_full_prediction_is_read_by_its_center(self):
        full = Prediction([0.0, 2.0, 3.0, 4.0], spread=np.ones(4))
        assert measured(prediction=full) == measured(prediction=full.center)

    def test_without_a_prediction_nothing_is_known_about_it(self):
        found = measured()
        assert np.isnan([found.r2, found.mean_absolute_error, found.mean_prediction]).all()
        assert not found.constant_prediction
        assert not found.explains_nothing
        assert found.summary.startswith("Intervals are 4 wide on average (median 2.5)")

    def test_a_constant_target_has_nothing_to_explain(self):
        found = measured(np.full(4, 0.1), prediction=np.full(4, 0.3))
        assert math.isnan(found.r2)
        assert found.constant_prediction
        assert not found.explains_nothing
        assert "The target is the same for all these rows" in found.summary
        assert "off by 0.2 on average" in found.summary

    @pytest.mark.parametrize(
        ("prediction", "constant"),
        [
            (np.full(4, 21.4), True),
            (21.4 * (1 + 1e-15 * np.arange(4)), True),
            (np.zeros(4), True),
            (21.4 + 1e-5 * np.arange(4), False),
            (-1e-30 * np.arange(4), False),
        ],
    )
    def test_a_constant_prediction_is_found(self, prediction, constant):
        """Also if rounding makes the numbers differ; but not if small numbers differ."""
        assert measured(prediction=prediction).constant_prediction == constant

    def test_one_row_is_no_constant_prediction(self):
        found = quality([1.0], intervals_of_width(1.0), prediction=[2.0])
        assert not found.constant_prediction
        assert math.isnan(found.r2)

    @pytest.mark.parametrize("scale", [1e-200, 1e200])
    def test_r2_does_not_depend_on_the_unit(self, scale):
        prediction = np.array([0.0, 2.0, 3.0, 4.0])
        assert measured(scale * Y, prediction=scale * prediction).r2 == pytest.approx(1 - 5 / 14, rel=1e-12)


class TestWidths:
    def test_mean_and_median(self):
        found = measured()
        assert (found.mean_width, found.median_width, found.n_infinite) == (4.0, 2.5, 0)
        assert found.coverage == 1.0
        assert (found.rows, found.level) == (4, 0.9)

    def test_infinite_widths_are_counted(self):
        found = measured(intervals=intervals_of_width(1.0, 2.0, 3.0, np.inf), prediction=Y, reference_y=REFERENCE)
        assert (found.mean_width, found.median_width, found.n_infinite) == (np.inf, 2.5, 1)
        assert "1 of 4 intervals are infinite (median width: 2.5), against 36 without any model." in found.summary
        found = measured(intervals=intervals_of_width(1.0, np.inf, np.inf, np.inf))
        assert "3 of 4 intervals are infinite (median width: infinite)" in found.summary
        found = measured(intervals=Intervals(np.full(4, -np.inf), np.full(4, np.inf)))
        assert (found.mean_width, found.n_infinite) == (np.inf, 4)
        assert found.summary.startswith("All intervals are infinite, against")

    def test_empty_intervals_have_no_width_and_cover_nothing(self):
        found = measured(intervals=Intervals([1.0, 5.0, np.nan, 5.0], [3.0, 4.0, np.nan, 8.0]))
        assert (found.mean_width, found.median_width) == (1.25, 1.0)
        assert found.coverage == 0.5

    def test_plain_bounds_and_unions_are_taken(self):
        lower, upper = np.zeros(4), np.array([1.0, 2.0, 3.0, 10.0])
        assert quality(Y, (lower, upper)) == quality(Y, np.stack([lower, upper], axis=1)) == measured()
        union = IntervalUnion([Intervals(lower, upper), Intervals(lower + 20, upper + 20)])
        found = quality(Y, union, prediction=np.zeros(4))
        assert found.mean_width == 8.0
        assert math.isnan(found.interval_score)
        assert found.explains_nothing

    def test_the_interval_score(self):
        """By hand: widths 1, 2, 3, 4; the last misses by 2, which costs 2 / 0.1 times 2."""
        found = measured(intervals=intervals_of_width(1.0, 2.0, 3.0, 4.0), reference_y=REFERENCE)
        assert found.interval_score == pytest.approx((10 + 40) / 4)
        assert found.no_model_interval_score == pytest.approx(36 + 20 / 4)  # y = 1 is 1 below the interval

    def test_one_threshold(self):
        assert math.isnan(measured().one_threshold_width)
        found = measured(one_threshold=intervals_of_width(6.0, 6.0, 6.0, 7.0))
        assert found.one_threshold_width == 6.25
        assert "and 6.25 with one threshold for all rows." in found.summary
        same = intervals_of_width(1.0, 2.0, 3.0, 10.0)
        assert measured(one_threshold=same).one_threshold_width == 4.0
        assert "one threshold" not in measured(one_threshold=same).summary

    def test_the_level_is_that_of_the_intervals(self):
        stored = Intervals(np.zeros(4), np.ones(4), level=0.5)
        assert quality(Y, stored).level == 0.5
        assert quality(Y, stored, level=0.8).level == 0.8


class TestNoModel:
    def test_the_ends_are_order_statistics(self):
        found = measured(reference_y=REFERENCE[::-1])
        assert found.no_model_interval == (2.0, 38.0)
        assert found.no_model_width == 36.0
        assert found.no_model_coverage == 0.75  # 1 is outside, 2 is not

    @pytest.mark.parametrize("level", [0.9, 0.8, 0.7, 0.35, 0.05])
    @pytest.mark.parametrize("n", [1, 9, 19, 39, 99, 140])
    def test_the_ranks_are_exact(self, n, level):
        """The ends are the smallest rank whose probability suffices, and its mirror image, in exact arithmetic."""
        outside = (1 - Fraction(str(level))) / 2
        rank = next(k for k in range(1, n + 2) if 1 - Fraction(k, n + 1) <= outside)
        expected = (n + 1.0 - rank, float(rank)) if rank <= n else (-np.inf, np.inf)
        assert measured(reference_y=np.arange(1.0, n + 1), level=level).no_model_interval == expected

    @pytest.mark.parametrize("n", [0, 1, 18])
    def test_too_few_rows_give_an_infinite_interval(self, n):
        """At level 0.9, each end needs 19 rows."""
        found = measured(reference_y=np.arange(float(n)), prediction=np.zeros(4))
        assert found.no_model_interval == (-np.inf, np.inf)
        assert (found.no_model_width, found.no_model_coverage) == (np.inf, 1.0)
        assert "against infinite without any model (too few rows)" in found.summary
        assert "not narrower" not in found.summary
        assert found.explains_nothing  # finite intervals are not better than a comparison that could not be made

    def test_the_default_reference_is_the_target(self):
        assert quality(REFERENCE, (REFERENCE, REFERENCE)) == quality(
            REFERENCE, (REFERENCE, REFERENCE), reference_y=REFERENCE
        )

    @pytest.mark.parametrize(("n", "level", "repeats"), [(37, 0.9, 2000), (25, 0.5, 2000), (60, 0.8, 4000)])
    def test_coverage_has_its_exact_distribution(self, n, level, repeats):
        """Of m new rows, BetaBinomial(m, 2k - n - 1, 2 (n + 1 - k)) are covered, k the rank of the upper end.

        If the rank of one end were off by one, it would be found with probability 0.988 for 60 rows and 0.9999 for
        fewer; if both were, with certainty (noncentral chi-square).
        """
        rng, m = np.random.default_rng(n), 12
        rank = math.ceil((n + 1) * (1 + Fraction(str(level))) / 2)
        outside = (np.zeros(m), np.ones(m))
        shares = [
            quality(rng.normal(size=m), outside, reference_y=rng.normal(size=n), level=level).no_model_coverage
            for _ in range(repeats)
        ]
        observed = np.bincount(np.rint(np.array(shares) * m).astype(int), minlength=m + 1)
        exact = betabinom(m, 2 * rank - n - 1, 2 * (n + 1 - rank))
        assert exact.mean() >= m * level
        expected = exact.pmf(np.arange(m + 1)) * repeats
        bins = np.minimum(np.cumsum(expected) // 10, (repeats - 10) // 10)  # with at least about 10 expected counts
        _, bins = np.unique(bins, return_inverse=True)
        p_value = chisquare(np.bincount(bins, observed), np.bincount(bins, expected)).pvalue
        assert p_value > ONE_IN_A_MILLION

    def test_with_ties_coverage_is_at_least_the_level(self):
        """Exactly: over all positions of the new row among equal and different targets."""
        targets = np.array([0.0] * 5 + [1.0] * 14 + [2.0] * 20 + [7.0])
        covered = [
            quality([new], ([0.0], [1.0]), reference_y=np.delete(targets, i)).no_model_coverage
            for i, new in enumerate(targets)
        ]
        assert np.mean(covered) >= 0.9


class TestExplainsNothing:
    def test_r2_below_one_percent_explains_nothing(self):
        found = measured(prediction=Y, reference_y=REFERENCE)
        wide = replace(found, interval_score=100.0)
        assert not found.explains_nothing
        assert not replace(wide, r2=0.01).explains_nothing
        assert replace(wide, r2=0.0099).explains_nothing
        assert replace(wide, r2=-3.0).explains_nothing

    def test_intervals_that_know_the_noise_explain_something(self):
        """The mean is 0 for all rows, and the spread is known."""
        rng = np.random.default_rng(0)
        spread = rng.uniform(0.1, 2, size=1000)
        y, center = rng.normal(scale=spread), rng.normal(scale=0.01, size=1000)
        found = quality(y, (-1.645 * spread, 1.645 * spread), prediction=center)
        assert found.r2 < 0.01
        assert not found.explains_nothing
        assert found.summary.startswith("The predictions explain nothing: R2 is 0")
        assert "But the intervals show which rows are noisy: their interval score" in found.summary
        equal = np.full(1000, np.quantile(np.abs(y), 0.9))
        assert quality(y, (-equal, equal), prediction=center).explains_nothing

    def test_intervals_of_equal_widths_do_not_show_which_rows_are_noisy(self):
        """Their places differ, which is better than one for all rows; a few predictions are far off."""
        rng = np.random.default_rng(0)
        center = rng.normal(scale=3, size=1000)
        y = center + rng.normal(size=1000)
        y[:3], center[:3] = 0.0, 70.0
        for factor, differ in ((1.0, False), (1.19, False), (1.21, True)):
            reach = np.where(np.arange(1000) < 500, 2.0, 2.0 * factor)
            found = quality(y, (center - reach, center + reach), prediction=center)
            assert (found.r2 < 0, found.has_better_intervals, found.widths_differ) == (True, True, differ)
            assert ("show which rows are noisy" in found.summary) == differ
            assert ("the intervals are better than without any model: their interval" in found.summary) == (not differ)

    def test_a_constant_prediction_of_a_skewed_target_explains_nothing(self):
        """Although its intervals are narrower than the quantiles of the target."""
        y, reference = np.random.default_rng(0).exponential(size=(2, 2000))
        reach = conformal_quantile(np.abs(reference - 1), 0.9)
        found = quality(y, (np.full(2000, 1 - reach), np.full(2000, 1 + reach)), prediction=np.ones(2000))
        assert found.mean_width < 0.95 * found.no_model_width
        assert found.explains_nothing

    def test_few_rows_may_be_chance(self):
        found = measured(prediction=Y, reference_y=REFERENCE)
        assert not replace(found, r2=0.9).may_be_chance
        assert replace(found, r2=0.3).may_be_chance
        assert replace(found, r2=-0.5).may_be_chance
        assert "With only 4 rows, this may be chance." in replace(found, r2=0.3).summary
        assert "With only 4 rows, this may be chance." in replace(found, r2=-0.5).summary
        assert replace(found, r2=0.02, rows=100).may_be_chance
        assert not replace(found, r2=0.03, rows=100).may_be_chance
        assert not replace(found, r2=-0.5, rows=100).may_be_chance
        assert "chance" not in replace(found, r2=-0.5, rows=100).summary

    def test_an_unrelated_prediction_is_called_chance(self):
        """The worst case is a prediction whose scale makes R2 equal to the squared correlation."""
        rng, exceeded = np.random.default_rng(0), 0
        for _ in range(2000):
            y, x = rng.normal(size=(2, 40))
            x, r = x - x.mean(), max(np.corrcoef(x, y)[0, 1], 0.0)
            found = measured(y, (y, y), prediction=y.mean() + x / x.std() * y.std() * r)
            assert found.r2 == pytest.approx(r**2, abs=1e-12)
            exceeded += not (found.may_be_chance or found.r2 < 0.01)
        assert 60 < exceeded < 150  # about 5 % of 2000


class TestSummary:
    FOUND = Quality(
        rows=300,
        level=0.9,
        r2=0.912,
        mean_absolute_error=12_300.0,
        mean_prediction=200_000.0,
        constant_prediction=False,
        coverage=0.9,
        mean_width=51_200.0,
        median_width=44_000.0,
        n_infinite=0,
        no_model_interval=(100_000.0, 278_000.0),
        no_model_width=178_000.0,
        no_model_coverage=0.91,
        interval_score=60_000.0,
        no_model_interval_score=200_000.0,
        one_threshold_width=60_300.0,
    )

    def test_a_good_model(self):
        assert str(self.FOUND) == self.FOUND.summary
        assert self.FOUND.summary == (
            "The model explains 91 % of the variation of the target (R2 0.91); it is off by 12 300 on average (mean "
            "absolute error). Intervals are 51 200 wide on average (median 44 000), against 178 000 without any model "
            "and 60 300 with one threshold for all rows."
        )

    def test_a_constant_prediction(self):
        found = replace(
            self.FOUND,
            r2=-0.001,
            constant_prediction=True,
            mean_prediction=21.4,
            interval_score=2e5,
            median_width=5.12e4,
        )
        assert found.summary.startswith(
            "This model explains nothing: it predicts the same number, 21.4, for every row. The prediction is off by "
            "12 300 on average (mean absolute error). Intervals are 51 200 wide on average, against 178 000 without"
        )

    def test_wider_than_without_a_model(self):
        found = replace(self.FOUND, r2=-0.17, mean_width=892.0, no_model_width=352.0, interval_score=2e5)
        assert found.summary.startswith(
            "This model explains nothing: R2 is -0.17, so always predicting the mean would be better."
        )
        assert "Intervals are 892 wide on average (median 44 000), against 352 without any model and" in found.summary
        assert found.summary.endswith("So the intervals are not narrower than without any model.")
        assert "So the intervals are not narrower" in replace(found, r2=0.2).summary
        few_infinite = replace(found, mean_width=math.inf, n_infinite=1)  # their mean says nothing about the others
        assert "So the intervals" not in few_infinite.summary

    @pytest.mark.parametrize(
        ("r2", "text"),
        [
            (1.0, "explains 100 % of the variation of the target (R2 1.00)"),
            (0.99999, "explains more than 99 % of the variation of the target (R2 above 0.999)"),
            (0.9964, "explains more than 99 % of the variation of the target (R2 0.996)"),
            (0.014, "explains 1 % of the variation of the target (R2 0.01)"),
            (0.004, "R2 is 0.004, so always predicting the mean would be as good"),
            (-0.0001, "R2 is 0, so always predicting the mean would be as good"),
            (-0.004, "R2 is -0.004, so always predicting the mean would be as good"),
            (-123456.0, "R2 is -123 500, so always predicting the mean would be better"),
        ],
    )
    def test_r2_in_words(self, r2, text):
        assert text in replace(self.FOUND, r2=r2).summary

    def test_numbers_for_people(self):
        numbers = {0.95821: "0.9582", 9999.4: "9999", 9999.7: "10 000", -36_830.4: "-36 830", 3e12: "3 000 000 000 000"}
        numbers |= {2e15: "2e+15", np.inf: "infinite", -np.inf: "minus infinite"}
        for number, text in [*numbers.items(), (np.nan, "not known")]:
            assert f"against {text} without any model" in width_text(replace(self.FOUND, no_model_width=number))


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"y": Y[:3]}, ValueError, "y must have 4 rows, as many as the intervals; got 3"),
            ({"y": [1.0, np.nan, 2.0, 3.0]}, ValueError, "y must be finite; NaN or infinite values: 1 of 4"),
            ({"prediction": [1.0]}, ValueError, "prediction must have 4 rows, as many as y; got 1"),
            ({"prediction": np.full(4, np.nan)}, ValueError, "prediction must be finite; NaN or infinite values: 4"),
            ({"reference_y": [np.inf, 1.0]}, ValueError, "reference_y must be finite; NaN or infinite values: 1 of 2"),
            ({"reference_y": ["a"]}, TypeError, "reference_y must hold numbers"),
            ({"one_threshold": intervals_of_width(1.0)}, ValueError, r"one_threshold must have 4 rows.*shape \(1,\)"),
            ({"one_threshold": 3.0}, TypeError, "one_threshold must be Intervals.*got float"),
            ({"level": 90}, ValueError, "level must lie strictly between 0 and 1; got 90; did you mean 0.9?"),
            ({"intervals": Intervals(np.zeros((4, 2)), np.ones((4, 2)))}, ValueError, "for one level.*got 2 levels"),
            ({"y": [], "intervals": Intervals([], [])}, ValueError, "intervals must have at least one row; got 0"),
            ({"intervals": 3.0}, ValueError, "intervals must be Intervals, an array of shape"),
        ],
    )
    def test_invalid_input(self, change, error, message):
        with pytest.raises(error, match=message):
            measured(**change)


def table_of(y, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(len(y), 3)), columns=list("abc")).assign(y=y)


@pytest.fixture(scope="module")
def found():
    """The spread grows with a feature, so thresholds per group differ."""
    table = table_of(np.zeros(1500))
    noise = np.random.default_rng(1).normal(size=1500) * np.exp(table["b"])
    plan = Plan(model="linear", nonconformity=Residual(), taxonomy=BySpread(3))
    return study(table.assign(y=5 * table["a"] + noise), "y", plan=plan)


class TestStudy:
    def test_widths_are_those_of_the_model_and_scores_those_of_the_intervals_in_turn(self, found):
        calibration, n = found.regressor.calibration_rows_, len(found.test)
        threshold = conformal_quantile(np.abs(calibration.y - calibration.prediction.center), 0.9)
        of_model = quality(
            found.test.y,
            found.regressor.predict_interval(found.evidence.rows),
            prediction=found.prediction.center,
            reference_y=calibration.y,
            one_threshold=Intervals(np.zeros(n), np.full(n, 2 * threshold)),
        )
        halves = [rows.y for rows in found.evidence.turns.rows]
        in_turn = quality(found.test.y, found.intervals)
        without_model = [
            quality(own, np.zeros((len(own), 2)), reference_y=other) for own, other in (halves, halves[::-1])
        ]
        weights = [len(own) for own in halves]
        expected = replace(
            of_model,
            one_threshold_width=pytest.approx(2 * threshold),
            coverage=in_turn.coverage,
            interval_score=in_turn.interval_score,
            **{
                name: pytest.approx(np.average([getattr(each, name) for each in without_model], weights=weights))
                for name in ("no_model_coverage", "no_model_interval_score")
            },
        )
        assert expected == found.quality
        assert of_model.interval_score != in_turn.interval_score
        assert found.quality.mean_width == found.audit.overall.width
        assert 0.7 < found.quality.r2 < 0.9

    def test_widths_and_model_are_printed(self, found):
        (line,) = (line for line in str(found).splitlines() if line.startswith("How wide: "))
        assert line.startswith(f"How wide: {width_text(found.quality)} ")
        assert line.endswith(f" {model_text(found.quality)}")
        assert found.quality.summary == f"{model_text(found.quality)} {width_text(found.quality)}"
        assert "with one threshold for all rows" in found.quality.summary

    def test_the_summary_is_in_the_data(self, found):
        data = result_data(found)["quality"]
        assert data["summary"] == found.quality.summary
        assert data["explains_nothing"] is False
        assert data["r2"] == found.quality.r2
        assert data["no_model_interval"] == list(found.quality.no_model_interval)

    def test_one_threshold_is_not_compared_with_itself(self):
        y = np.random.default_rng(2).normal(size=600)
        found = study(table_of(y), "y", plan=Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal()))
        assert found.quality.one_threshold_width == found.quality.mean_width
        assert "one threshold" not in found.quality.summary

    def test_one_threshold_gives_new_rows_equal_widths(self):
        """Those of the test differ, because each half of the held-out rows has the threshold of the other half."""
        y = np.random.default_rng(2).normal(size=600)
        found = study(table_of(y), "y", plan=Plan(model="linear", nonconformity=Residual(), taxonomy=Marginal()))
        assert len(np.unique(found.intervals.width.round(9))) == 2
        assert "All intervals are equally wide." in str(found)

    @pytest.mark.parametrize("model", ["linear", "boosting"])
    def test_noise_is_called_noise(self, model):
        y = np.random.default_rng(3).normal(size=1500)
        plan = Plan(model=model, nonconformity=Residual(), taxonomy=BySpread(3))
        found = study(table_of(y), "y", plan=plan)
        assert found.quality.explains_nothing
        assert "This model explains nothing: R2 is " in str(found)

    def test_intervals_can_be_wider_than_without_a_model(self):
        """A few very large targets, as in medical expenses, mislead a flexible model that has few rows."""
        y = np.exp(6 + 2.5 * np.random.default_rng(4).normal(size=1500))
        found = study(table_of(y), "y", plan=Plan("boosting", Residual(), Marginal(), held_out=0.6))
        assert found.quality.mean_width > 1.2 * found.quality.no_model_width
        assert found.quality.explains_nothing
        assert "So the intervals are not narrower than without any model." in str(found)
