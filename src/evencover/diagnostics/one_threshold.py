"""The marginal threshold (one for all rows): its coverage in each group, with exact tests, and the alternatives."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from scipy.stats import hypergeom

from evencover.calibration.group_thresholds import one_tail
from evencover.diagnostics.coverage_intervals import CalibrationCounts, farthest_distance, largest_distance
from evencover.diagnostics.exact_tests import (
    SIGNIFICANT,
    clopper_pearson,
    confidence_bounds,
    holm,
    lower_confidence_bound,
    tail_error,
    two_sided_p_value,
    upper_confidence_bound,
)
from evencover.diagnostics.verdicts import GroupForecast, Settings, Verdict, verdict
from evencover.groups import Groups, Label
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.intervals import Intervals, ending_at_whole_numbers
from evencover.metrics import interval_scores
from evencover.predictions import Prediction
from evencover.quantiles import Level, conformal_quantile, conformal_rank, level_fraction, thresholds
from evencover.rows import Rows
from evencover.scores import BUILTIN_SCORES, Bounded, Score, scores_of
from evencover.scores.evaluation import interval_by, scores_by
from evencover.scores.one_sided import Side, is_one_sided

N_DRAWS = 9999  # tables drawn by the joint test of three groups or more
MARGIN = 0.01  # relative difference of widths, or of interval scores, that is ignored
_SIDES: tuple[Side, Side] = ("lower", "upper")
_ROUNDING_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class MarginalThreshold:
    """The marginal threshold of calibration scores, and what it covers in each group.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    groups : Groups of n rows, G of them
        Their groups. Rows without a group count for the threshold only. So does a single row that is a learned edge,
        because it is not a random draw from its group.
    level : float
        Nominal coverage.
    rows, nonconformity : Rows of n rows and Score, optional
        The rows and their score, if they are known. Then rows count as the intervals treat them: points that replace
        empty intervals cover their target, and whole numbers can lie on a bound although their score is smaller.
    """

    scores: FloatArray
    groups: Groups
    level: Level
    rows: Rows | None = None
    nonconformity: Score | None = None

    @classmethod
    def of_rows(cls, rows: Rows, groups: Groups, score: Score, level: Level) -> Self:
        """Return the marginal threshold of rows with targets."""
        return cls(scores_of(score, rows), groups, level, rows, score)

    @cached_property
    def threshold(self) -> float:
        """The threshold of all rows."""
        return float(conformal_quantile(self.scores, self.level))

    @cached_property
    def sizes(self) -> IntArray:
        """Number of rows of each group. Shape (G,)."""
        return self._counts(np.ones(len(self.scores), dtype=bool))

    @cached_property
    def covered(self) -> IntArray:
        """Number of covered rows of each group: by their score, or by a point that replaces an interval. Shape (G,)."""
        return self._scored + self._counts(self._at_a_point)

    @cached_property
    def replaces_empty(self) -> bool:
        """Whether points replace empty intervals of these rows."""
        return self._intervals is not None and self._intervals.n_replaced > 0

    @property
    def coverage_intervals(self) -> tuple[FloatArray, FloatArray]:
        """The interval of each group's coverage with this threshold, as computed; jointly valid at 95 %. Shapes (G,).

        The bounds are Clopper-Pearson bounds. They are valid although the threshold was computed from the same rows:
        the threshold is the score at which the count of all rows reaches the conformal rank. Given the scores of the
        other groups, the coverage is beyond a bound exactly if the count of this group at one fixed score is beyond
        its own bound. With ties at the threshold, the lower bound counts rows of other groups first.
        """
        if self.threshold == np.inf:
            return np.ones(len(self.sizes)), np.ones(len(self.sizes))
        return self._bounds(tail_error(int(np.count_nonzero(self.sizes))))

    @property
    def distances(self) -> FloatArray:
        """The smallest distance from the level within which each group is shown to lie. Shape (G,).

        One-sided tests at 5 % reject, on both sides, that its coverage is farther off. They use the bounds of
        `coverage_intervals`, each at 5 %. The coverages are fixed numbers, so all of them are shown to be near the
        level if each is (intersection-union test).
        """
        if self.threshold == np.inf:
            return np.full(len(self.sizes), np.inf)
        return np.where(self.sizes > 0, farthest_distance(*self._bounds(SIGNIFICANT), self.level), np.inf)

    def _bounds(self, error: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of each group's coverage with a finite threshold, one-sided at this error. Shapes (G,).

        A row is missed if its score is above the threshold and, given that, no replaced point is its target. The rows
        above the threshold are independent, whatever the threshold is. So with points, each of the two shares gets
        bounds at half the error (Bonferroni), and the bounds of the missed share are their products.
        """
        counts, error = self.counts, error / (1 + self.replaces_empty)
        low = lower_confidence_bound(counts.certain, counts.rows, error)
        high = upper_confidence_bound(counts.covered, counts.rows, error)
        if not self.replaces_empty:
            return low, high
        points, above = self._counts(self._at_a_point), counts.rows - counts.covered
        fewest, most = confidence_bounds(points, above, error)
        return 1 - (1 - low) * (1 - fewest), 1 - (1 - high) * (1 - most)

    @property
    def shown_within(self) -> float:
        """The smallest distance from the level within which all groups that have rows are shown to lie."""
        return float(largest_distance(self.distances, self.sizes))

    @cached_property
    def inside(self) -> IntArray:
        """Number of rows of each group strictly inside: narrower intervals would cover them, too. Shape (G,).

        Their score is below the threshold, and below that of an end of their interval: of possible targets, the end
        with the larger score is the first that a narrower interval misses.
        """
        below = self.scores < self.threshold
        if self._intervals is None or self.rows is None or self.nonconformity is None:
            return self._counts(below)
        with np.errstate(all="ignore"):  # a score need not be defined at an infinite end
            ends = [
                scores_by(self.nonconformity, end, self.rows.prediction)
                for end in (self._intervals.lower, self._intervals.upper)
            ]
            return self._counts(below & ~(self.scores >= np.fmax(*ends)))

    @property
    def inside_low(self) -> FloatArray:
        """Lower ends of intervals for the shares of rows strictly inside. Shape (G,).

        A group is covered too often only if these rows are too many: with a smaller threshold, the others would be
        missed. Without ties in a group, it is the lower end of the interval of its coverage.
        """
        tied = self.covered - self.inside > 1  # the one score that the threshold comes from is no tie
        bounds, _ = clopper_pearson(self.inside, self.sizes, int(np.count_nonzero(self.sizes)))
        return np.where(tied, bounds, self.coverage_intervals[0])

    @property
    def counts(self) -> CalibrationCounts:
        """The rows of each group, and how many of them score at most a finite threshold."""
        tied = self.scores == self.threshold
        own, needed = self._counts(tied), self._rank - np.count_nonzero(self.scores < self.threshold)
        certain = self._scored - own + np.maximum(0, needed - (np.count_nonzero(tied) - own))
        return CalibrationCounts(self.sizes, certain, self._scored)

    @cached_property
    def p_values(self) -> FloatArray:
        """Exact p-value of each group: if scores do not depend on groups, its count is hypergeometric. Shape (G,)."""
        null = (self.sizes.sum(), self.covered.sum(), self.sizes)  # SciPy's frozen distributions are slow to make
        p_values = two_sided_p_value(hypergeom.cdf(self.covered, *null), hypergeom.sf(self.covered - 1, *null))
        return np.where(self.sizes > 0, p_values, np.nan)

    def joint_p_value(self, seed: int) -> float:
        """Return the exact p-value of all groups jointly; the statistic is Σ (x − E x)² / n over the groups.

        Under the null hypothesis the counts x are multivariate hypergeometric. With two groups, their probabilities are
        summed. With more, the observed table is ranked among 9999 random tables, which is also exact (the smallest
        possible p-value is 1/10000).
        """
        sizes, covered = self.sizes[self.sizes > 0], self.covered[self.sizes > 0]
        n, k = int(sizes.sum()), int(covered.sum())
        if len(sizes) < 2:
            return 1.0
        if len(sizes) == 2:
            first = np.arange(max(0, k - sizes[1]), min(k, sizes[0]) + 1)
            tables = np.stack([first, k - first], axis=1)
            extreme = _at_least_as_uneven(tables, covered, sizes)
            return min(1.0, float(hypergeom.pmf(first[extreme], n, k, sizes[0]).sum()))
        tables = np.random.default_rng(seed).multivariate_hypergeometric(sizes, k, size=N_DRAWS, method="marginals")
        return float(1 + np.count_nonzero(_at_least_as_uneven(tables, covered, sizes))) / (N_DRAWS + 1)

    def verdict(self, tolerance: float) -> Verdict:
        """Return the verdict on this threshold; `undecided` for an infinite one, which covers everything."""
        return verdict(self.forecasts, self.level, tolerance, shown_within=self.shown_within)

    @cached_property
    def forecasts(self) -> tuple[GroupForecast, ...]:
        """The expected coverage of future rows in each group."""
        columns = (
            *(self._share(self.covered), *self.coverage_intervals, self.p_values, holm(self.p_values)),
            *(self.group_thresholds, self.distances, self._share(self.inside), self.inside_low),
        )
        rows = zip(self.groups.labels, self.sizes.tolist(), *(column.tolist() for column in columns), strict=True)
        return tuple(GroupForecast(*row) for row in rows)

    @cached_property
    def group_thresholds(self) -> FloatArray:
        """The threshold from each group's own rows, without its edge rows. Shape (G,)."""
        own = np.full(len(self.sizes), np.inf)
        for (group, bits), rows in self.groups.cells():
            if not bits:
                own[group] = thresholds(self.scores[rows], (level_fraction(self.level),))[0]
        return own

    @property
    def row_thresholds(self) -> FloatArray:
        """The threshold of each row's own group; rows without a group have the marginal one. Shape (n,)."""
        return np.append(self.group_thresholds, self.threshold)[self.groups.codes]  # the code of no group is -1

    @property
    def _rank(self) -> int:
        return conformal_rank(len(self.scores), self.level)

    @cached_property
    def _scored(self) -> IntArray:
        """Number of rows of each group whose score is at most the threshold. Shape (G,)."""
        return self._counts(self.scores <= self.threshold)

    @cached_property
    def _intervals(self) -> Intervals | None:
        """The intervals of the rows, if they tell more than the scores: for targets with a support, or whole ones."""
        if self.rows is None or self.nonconformity is None or self.threshold == np.inf:
            return None
        whole = not np.any(self.rows.required_target(by="a score") % 1)
        if not (whole or isinstance(self.nonconformity, Bounded)):
            return None
        intervals = interval_by(self.nonconformity, self.threshold, self.rows.prediction)
        return ending_at_whole_numbers(intervals) if whole else intervals

    @cached_property
    def _at_a_point(self) -> BoolArray:
        """Whether each row is covered by a point that replaces an empty interval. Shape (n,)."""
        if self._intervals is None or self.rows is None:
            return np.zeros(len(self.scores), dtype=bool)
        covered = self._intervals.covers(self.rows.required_target(by="a score"))
        return self._intervals.replaced & covered & (self.scores > self.threshold)

    def _share(self, counts: IntArray) -> FloatArray:
        """Return a count of each group as a share of its rows; NaN without rows."""
        return np.where(self.sizes > 0, counts / np.maximum(self.sizes, 1), np.nan)

    def _counts(self, rows: BoolArray) -> IntArray:
        """Return how many of the selected rows each group has."""
        codes = self._codes[rows]
        return np.bincount(codes[codes >= 0], minlength=len(self.groups.labels))

    @cached_property
    def _codes(self) -> IntArray:
        """The group of each row; -1 for rows without a group, and for a single edge row."""
        if self.groups.edge is None:
            return self.groups.codes
        codes = self.groups.codes.copy()
        for (_, bits), rows in self.groups.cells():
            if bits and len(rows) == 1:
                codes[rows] = -1
        return codes


def _at_least_as_uneven(tables: IntArray, covered: IntArray, sizes: IntArray) -> BoolArray:
    """Return which tables of counts deviate at least as much as the observed table. Shape (tables,)."""
    expected = covered.sum() * (sizes / sizes.sum())
    deviations = ((tables - expected) ** 2 / sizes).sum(axis=1)
    observed = ((covered - expected) ** 2 / sizes).sum()
    return np.asarray(deviations >= observed * (1 - _ROUNDING_MARGIN))


@dataclass(frozen=True)
class Option:
    """A predictor that could be used, evaluated on the calibration rows.

    Parameters
    ----------
    nonconformity : Score
        The score.
    per_group : bool
        Whether every group has its own threshold.
    verdict : str
        Verdict on one threshold for all rows. With thresholds per group it is "even", which is guaranteed, if every
        threshold is finite.
    width : float
        Mean width of the intervals of these rows.
    interval_score : float
        Their mean interval score; infinite for one-sided bounds.
    widths : mapping from label to float
        Mean width in each group that has rows.
    """

    nonconformity: Score
    per_group: bool
    verdict: Verdict
    width: float
    interval_score: float
    widths: Mapping[Label, float]


def evaluate_options(
    current: MarginalThreshold, settings: Settings, *, per_group: bool = True, others: bool = True
) -> tuple[Option, ...]:
    """Return the options for the current score, then those for the other usable scores if `others`.

    There are none if the current score is not known.

    Each score has an option with one threshold for all rows and, if `per_group`, one with a threshold for each group.
    Pass `per_group=False` for groups of the target: the group of a new row is not known, so neither is its width.
    """
    rows, groups, nonconformity = current.rows, current.groups, current.nonconformity
    if rows is None or nonconformity is None:
        return ()
    result: list[Option] = []
    for score in usable_scores(rows.prediction, nonconformity) if others else [nonconformity]:
        marginal = current if score is nonconformity else MarginalThreshold.of_rows(rows, groups, score, settings.level)
        marginal_verdict = marginal.verdict(settings.tolerance)
        result.append(_option(rows, groups, score, marginal.threshold, marginal_verdict, settings.level))
        row_thresholds = marginal.row_thresholds
        group_verdict: Verdict = "even" if np.isfinite(row_thresholds).all() else "undecided"
        result += [_option(rows, groups, score, row_thresholds, group_verdict, settings.level)] * per_group
    return tuple(result)


def two_tails_quality(rows: Rows, groups: Groups, score: Score, level: Fraction) -> tuple[float, float]:
    """Return mean width and interval score with a threshold for each end and group, as `TwoTails` has them."""
    bounds = []
    for side in _SIDES:
        tail = one_tail(score, side)
        marginal = MarginalThreshold.of_rows(rows, groups, tail, (1 + level) / 2)
        bounds.append(interval_by(tail, marginal.row_thresholds, rows.prediction))
    lower, upper = bounds
    both = Intervals(np.maximum(lower.lower, upper.lower), np.minimum(lower.upper, upper.upper))
    return float(both.width.mean()), mean_score(rows, both, level)


def mean_score(rows: Rows, intervals: Intervals, level: Fraction) -> float:
    """Return the mean interval score of rows with targets."""
    return float(interval_scores(rows.y, intervals, level).mean())  # type: ignore[arg-type]


def usable_scores(prediction: Prediction, first: Score) -> Iterator[Score]:
    """Yield a score and, if it is among those that are compared, the others that the prediction supports.

    If the score is `Bounded`, so are the others, with the same support.
    """
    if isinstance(first, Bounded):
        yield first
        _, *inner_scores = usable_scores(prediction, first.score)
        yield from map(first.around, inner_scores)
        return
    yield first
    compared = [each for each in BUILTIN_SCORES if hasattr(each, "for_prediction")]
    if type(first) in compared:
        others = (each.for_prediction(prediction.scored) for each in compared if each is not type(first))
        yield from (score for score in others if score is not None)


def _option(
    rows: Rows, groups: Groups, score: Score, threshold: float | FloatArray, verdict: Verdict, level: Fraction
) -> Option:
    """Return the option for a score with one threshold, or with an array of one threshold for each row."""
    intervals = interval_by(score, threshold, rows.prediction)
    widths, interval_score = intervals.width, mean_score(rows, intervals, level)
    if is_one_sided(score):  # the width up to a limit of the target says nothing
        widths, interval_score = np.full(len(widths), np.inf), np.inf
    means = {label: float(own.mean()) for label, own in groups.split(widths).items()}
    return Option(score, np.ndim(threshold) > 0, verdict, float(widths.mean()), interval_score, means)
