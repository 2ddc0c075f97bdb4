"""Whether one threshold for all rows is even over the groups: the coverage to come, and an exact test."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import hypergeom

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.diagnostics._exact_tests import holm, lower_share, two_sided, upper_share
from evencover.diagnostics._verdict import Verdict, excludes, verdict
from evencover.groups import Groups, Label
from evencover.quantiles import Level, conformal_quantile, conformal_rank, level_fraction, thresholds

DRAWS = 9999  # of the joint test, with three groups or more
_ROUNDING = 1e-9


@dataclass(frozen=True)
class GroupForecast:
    """What one threshold for all rows will cover of a group.

    Parameters
    ----------
    group : label
        The group.
    rows : int
        Its calibration rows.
    coverage : float
        Share of them whose score is at most the threshold; NaN without rows.
    low, high : float
        Interval (95 %) for the probability that this very threshold covers a future row of the group.
    p_value, adjusted : float
        Exact test of this group against the others: by itself, and adjusted for the number of groups (Holm). NaN
        without rows.
    threshold : float
        The group's own, were it calibrated by itself; inf if it has too few rows.
    """

    group: Label
    rows: int
    coverage: float
    low: float
    high: float
    p_value: float
    adjusted: float
    threshold: float


@dataclass(frozen=True, eq=False)
class MarginalThreshold:
    """The calibration scores of some groups, divided by their marginal threshold.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    groups : Groups of n rows, G of them
        Their groups. Rows that are left out count for the threshold only; so does the single row that a learned edge
        is, since it is not there by chance.
    level : float
        Nominal coverage.
    """

    scores: FloatArray
    groups: Groups
    level: Level

    @cached_property
    def threshold(self) -> float:
        """The marginal one."""
        return float(conformal_quantile(self.scores, self.level))

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each group. Shape (G,)."""
        return self._counts(np.ones(len(self.scores), dtype=bool))

    @cached_property
    def covered(self) -> IntArray:
        """Rows of each group whose score is at most the threshold. Shape (G,)."""
        return self._counts(self.scores <= self.threshold)

    @property
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """The 95 % interval of each group's coverage by this very threshold. Shapes (G,).

        The threshold is where the count of all rows, seen from the smallest score up, reaches its rank. So, given the
        other groups, coverage lies beyond a Clopper-Pearson bound just where the group's count at one fixed point lies
        beyond its own: the bounds stay valid although the threshold was found on the same rows. Of rows tied with the
        threshold, the lower bound counts the group's own last.
        """
        if self.threshold == np.inf:
            return np.ones(len(self.sizes)), np.ones(len(self.sizes))
        tied = self.scores == self.threshold
        own, needed = self._counts(tied), self._rank - np.count_nonzero(self.scores < self.threshold)
        certain = self.covered - own + np.maximum(0, needed - (np.count_nonzero(tied) - own))
        return lower_share(certain, self.sizes), upper_share(self.covered, self.sizes)

    @cached_property
    def p_values(self) -> FloatArray:
        """Each group's exact p-value: its count is Hypergeometric, if scores do not depend on groups. Shape (G,)."""
        law = hypergeom(self.sizes.sum(), self.covered.sum(), self.sizes)
        found = two_sided(law.cdf(self.covered), law.sf(self.covered - 1))
        return np.where(self.sizes > 0, found, np.nan)

    def joint_p_value(self, seed: int) -> float:
        """Return the exact p-value of all groups together: of the squared deviations, Σ (x − E x)² / n.

        The counts are multivariate hypergeometric. With two groups that law is summed; with more, 9999 draws from it
        and the observation itself are ranked, which is exact too (1/10000 is the smallest possible). Drawn once.
        """
        if seed not in self._joint_p_values:
            self._joint_p_values[seed] = self._drawn_p_value(seed)
        return self._joint_p_values[seed]

    @cached_property
    def _joint_p_values(self) -> dict[int, float]:
        """The joint p-values that were asked for so far, by their seed."""
        return {}

    def _drawn_p_value(self, seed: int) -> float:
        sizes, covered = self.sizes[self.sizes > 0], self.covered[self.sizes > 0]
        n, k = int(sizes.sum()), int(covered.sum())
        if len(sizes) < 2:
            return 1.0
        if len(sizes) == 2:
            first = np.arange(max(0, k - sizes[1]), min(k, sizes[0]) + 1)
            tables = np.stack([first, k - first], axis=1)
            extreme = _at_least_as_uneven(tables, covered, sizes)
            return min(1.0, float(hypergeom(n, k, sizes[0]).pmf(first[extreme]).sum()))
        tables = np.random.default_rng(seed).multivariate_hypergeometric(sizes, k, size=DRAWS, method="marginals")
        return float(1 + np.count_nonzero(_at_least_as_uneven(tables, covered, sizes))) / (DRAWS + 1)

    def verdict(self, tolerance: float, seed: int) -> Verdict:
        """Return whether the threshold is even; an infinite one covers everything, which is not called so."""
        if self.threshold == np.inf:
            return "undecided"
        off = any(group.rows and excludes(group, self.level) for group in self.forecasts)
        joint_p_value = self.joint_p_value(seed) if off else 1.0  # which decides only where a group is off the level
        return verdict(self.forecasts, joint_p_value, self.level, tolerance)

    @cached_property
    def forecasts(self) -> tuple[GroupForecast, ...]:
        """The coverage to come in each group."""
        shares = np.divide(self.covered, self.sizes, out=np.full(len(self.sizes), np.nan), where=self.sizes > 0)
        columns = (shares, *self.intervals, self.p_values, holm(self.p_values), self.own_thresholds)
        rows = zip(self.groups.labels, self.sizes.tolist(), *(column.tolist() for column in columns), strict=True)
        return tuple(GroupForecast(*row) for row in rows)

    @cached_property
    def own_thresholds(self) -> FloatArray:
        """The threshold of each group by itself, without rows that stand apart. Shape (G,)."""
        found = np.full(len(self.sizes), np.inf)
        for (group, bits), rows in self.groups.cells():
            if not bits:
                found[group] = thresholds(self.scores[rows], (level_fraction(self.level),))[0]
        return found

    @property
    def _rank(self) -> int:
        return conformal_rank(len(self.scores), self.level)

    def _counts(self, rows: BoolArray) -> IntArray:
        """Return how many of these rows each group has."""
        codes = self._codes[rows]
        return np.bincount(codes[codes >= 0], minlength=len(self.groups.labels))

    @cached_property
    def _codes(self) -> IntArray:
        """The group of each row, -1 for rows that do not count."""
        codes = self.groups.codes.copy()
        for (_, bits), rows in self.groups.cells():
            if bits and len(rows) == 1:
                codes[rows] = -1
        return codes


def _at_least_as_uneven(tables: IntArray, covered: IntArray, sizes: IntArray) -> BoolArray:
    """Return which tables of counts deviate at least as much as the one observed. Shape (tables,)."""
    expected = covered.sum() * (sizes / sizes.sum())
    deviations = ((tables - expected) ** 2 / sizes).sum(axis=1)
    observed = ((covered - expected) ** 2 / sizes).sum()
    return np.asarray(deviations >= observed * (1 - _ROUNDING))
