"""Error rates of `audit`: how often each verdict is given, is wrong, or rests on intervals that miss the true coverage.

The data are the paper's toy model, with three groups by spread. Half as many test rows as calibration rows are audited.
The true coverage of each group is known, so the verdicts and the intervals of the groups can be checked. Verdicts are
those of `audit`, computed from counts of many repeats at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, ndtr, ndtri

from evencover._internal.arrays import BoolArray, FloatArray, IntArray, check_count
from evencover.diagnostics._coverage_intervals import (
    CalibrationCounts,
    clopper_pearson_intervals,
    combined_intervals,
    posterior_intervals,
)
from evencover.diagnostics._exact_tests import SIGNIFICANT, holm, two_sided_p_value
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._verdict import Verdict, verdict
from evencover.groups import Label
from evencover.quantiles import conformal_rank
from evencover.reproduction.simulation import LEVEL, seed_of
from evencover.reproduction.verdict_rates import GROUPS, SCENARIOS, TOLERANCE, Scenario
from evencover.rows import Rows
from evencover.taxonomies import BySpread

CALIBRATION_ROWS = (300, 1200, 2000, 4000, 20_000)  # for all groups together; half as many test rows
NO_DRIFT = "none"
DRIFTED_COVERAGES = (0.89, 0.88, 0.87, 0.86, 0.85, 0.8)
DRIFTS = {"one group": [GROUPS - 1], "all groups": list(range(GROUPS))}  # the groups whose noise grows
_PIVOTAL = "normalised, oracle"
_REFERENCE_ROWS = 100_000  # rows that give the true coverage with one threshold
_INTERPOLATED_LEVELS = np.linspace(0.7, 0.998, 13)
_BLOCK = 50  # repeats evaluated at once
_ROUNDING_MARGIN = 1e-9


@dataclass(frozen=True)
class AuditRates:
    """Shares of repeats of an audit.

    Parameters
    ----------
    uneven, even, undecided : float
        Share with each verdict.
    false_even : float
        Share with the verdict `even` although the true coverage of a group differs from the level by more than the
        tolerance.
    missed : float
        Share in which the interval of some group misses the group's true coverage.
    missed_if_combined : float
        The same, only counting intervals from calibration and test rows: those of repeats in which no test rejects.
    """

    uneven: float
    even: float
    undecided: float
    false_even: float
    missed: float
    missed_if_combined: float


@dataclass(frozen=True, eq=False)
class AuditCounts:
    """The counts of R repeats with G groups: all that their verdicts depend on, and the true coverages.

    Parameters
    ----------
    rows, covered : ndarray of shape (R, G)
        Number of test rows, and of covered ones.
    truth : ndarray of shape (R, G)
        True coverage.
    sizes : ndarray of shape (G,)
        Number of calibration scores behind the threshold of each group.
    calibration : CalibrationCounts, optional
        The calibration rows of each group, if one threshold serves all groups; counts of shape (R, G).
    """

    rows: IntArray
    covered: IntArray
    truth: FloatArray
    sizes: IntArray
    calibration: CalibrationCounts | None = None

    def intervals(self, agrees: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the intervals of the coverages, from calibration rows too in the selected repeats. Shapes (R, G)."""
        if self.calibration is None:
            combined = posterior_intervals(self.covered, self.rows, self.sizes, LEVEL)
        else:
            combined = combined_intervals(self.covered, self.rows, self.calibration)
        tested = clopper_pearson_intervals(self.covered, self.rows)
        low, high = (np.where(agrees[:, None], combined[end], tested[end]) for end in (0, 1))
        return low, high


@dataclass(frozen=True, eq=False)
class GuaranteedCounts:
    """The exact distributions of the covered rows of R repeats, under the guarantee: of each group, and of all rows.

    Parameters
    ----------
    groups : ndarray of shape (R, G, m + 1)
        Probability that at most 0, 1, ..., m rows of a group are covered.
    overall : ndarray of shape (R, 1, m + 1)
        The same for all m rows.
    """

    groups: FloatArray
    overall: FloatArray

    @classmethod
    def of(cls, rows: IntArray, sizes: IntArray, *, one_threshold: bool) -> "GuaranteedCounts":
        """Return the distributions for test rows of shape (R, G), and calibration scores behind each threshold."""
        total = int(rows[0].sum())
        by_group = [_covered_count_pmf(rows[:, [group]], int(n), total) for group, n in enumerate(sizes)]
        if one_threshold:
            overall = _covered_count_pmf(rows.sum(axis=1, keepdims=True), int(sizes[0]), total)
        else:
            length = next_fast_len(total + 1, real=True)
            product = np.prod([rfft(pmf, length, axis=1) for pmf in by_group], axis=0)
            overall = np.maximum(irfft(product, length, axis=1)[:, : total + 1], 0.0)
        return cls(np.stack(by_group, axis=1).cumsum(axis=2), overall[:, None, :].cumsum(axis=2))

    def p_values(self, covered: IntArray) -> FloatArray:
        """Return the two-sided p-values of the groups and of all rows, Holm-adjusted in each repeat. (R, G + 1)."""
        parts = ((self.groups, covered), (self.overall, covered.sum(axis=1, keepdims=True)))
        p_values = np.concatenate([_two_sided(cdf, counts) for cdf, counts in parts], axis=1)
        return np.stack([holm(each) for each in p_values])


@dataclass(frozen=True)
class _GroupResult:
    """The coverage of a group, as the rule of the verdict needs it."""

    group: Label
    rows: int
    coverage: float
    low: float
    high: float
    adjusted: float

    @property
    def estimate(self) -> float:
        """The measured coverage; the verdict does not depend on it."""
        return self.coverage


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of R repeats.

    Parameters
    ----------
    verdicts : list of str
        The verdicts.
    combined : ndarray of shape (R,)
        Whether the intervals use the calibration rows.
    off : ndarray of shape (R,)
        Whether the true coverage of a group differs from the level by more than the tolerance.
    missed : ndarray of shape (R,)
        Whether the interval of a group misses its true coverage.
    """

    verdicts: list[Verdict]
    combined: BoolArray
    off: BoolArray
    missed: BoolArray

    @classmethod
    def of(cls, counts: AuditCounts, guaranteed: GuaranteedCounts) -> "Outcomes":
        """Return the outcomes by the rule of `audit`.

        Calibration rows count in a repeat if its tests, of the groups and of all rows, do not reject.
        """
        adjusted = guaranteed.p_values(counts.covered)
        combined = np.all(adjusted >= SIGNIFICANT, axis=1)
        low, high = counts.intervals(combined)
        off = np.any(np.abs(counts.truth - LEVEL) > TOLERANCE + _ROUNDING_MARGIN, axis=1)
        missed = np.any((counts.truth < low) | (counts.truth > high), axis=1)
        return cls(list(_verdicts(counts, low, high, adjusted)), combined, off, missed)

    @classmethod
    def rates(cls, blocks: list["Outcomes"]) -> AuditRates:
        """Return the shares over the repeats of all blocks."""
        verdicts = np.concatenate([block.verdicts for block in blocks])
        combined, off, missed = (
            np.concatenate([getattr(block, name) for block in blocks]) for name in ("combined", "off", "missed")
        )
        shares = [*(verdicts == name for name in ("uneven", "even", "undecided"))]
        shares += [(verdicts == "even") & off, missed, missed & combined]
        return AuditRates(*(float(share.mean()) for share in shares))


@dataclass(frozen=True, eq=False)
class _Repeat:
    """One repeat: the calibration's scores and groups, the edges of the groups, the test rows' scores and groups."""

    edges: FloatArray
    marginal: MarginalThreshold
    scores: FloatArray
    codes: IntArray

    @classmethod
    def draw(cls, scenario: Scenario, rows: int, rng: np.random.Generator) -> "_Repeat":
        """Draw calibration rows, and half as many test rows."""
        sample, prediction = scenario.draw(rows + rows // 2, rng)
        scores = scenario.score(sample.y, prediction)
        taxonomy = BySpread(GROUPS)
        groups = taxonomy.learn(Rows(prediction[:rows]))
        codes = taxonomy.assign(Rows(prediction[rows:])).codes
        return cls(taxonomy.edges_, MarginalThreshold(scores[:rows], groups, LEVEL), scores[rows:], codes)

    def count(self, selected: BoolArray | None = None) -> IntArray:
        """Return the number of test rows of each group, or of selected ones. Shape (G,)."""
        return np.bincount(self.codes if selected is None else self.codes[selected], minlength=GROUPS)


def audit_rates(scenario: str, rows: int, *, repeats: int = 200, seed: int = 0) -> AuditRates:
    """Return how often the audit of one threshold for all rows is right, given the diagnosis of its calibration rows.

    Parameters
    ----------
    scenario : str
        A key of `SCENARIOS`.
    rows, repeats, seed : int
        Number of calibration rows, number of repeats, seed of the draws. There are half as many test rows.
    """
    truth = _true_coverage(scenario, _REFERENCE_ROWS, seed)
    outcomes = []
    for block in _blocks(scenario, rows, repeats, seed_of(seed, "audit", scenario, str(rows))):
        calibration = [repeat.marginal.counts for repeat in block]
        columns = (np.stack([getattr(each, name) for each in calibration]) for name in ("rows", "certain", "covered"))
        counts = AuditCounts(
            rows=np.stack([repeat.count() for repeat in block]),
            covered=np.stack([repeat.count(repeat.scores <= repeat.marginal.threshold) for repeat in block]),
            truth=np.stack([truth.of_groups(repeat.marginal.threshold, repeat.edges) for repeat in block]),
            sizes=np.full(GROUPS, rows),
            calibration=CalibrationCounts(*columns),
        )
        outcomes.append(Outcomes.of(counts, GuaranteedCounts.of(counts.rows, counts.sizes, one_threshold=True)))
    return Outcomes.rates(outcomes)


def group_threshold_rates(rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, AuditRates]:
    """Return how often the audit of thresholds per group is right, without drift and with it.

    The score is the normalised score of the oracle. Without drift, the key is `NO_DRIFT`. Coverage is then as
    guaranteed, and the verdict is `uneven` in at most 5 % of the repeats. With drift, the noise of the last group or of
    all groups grows after the calibration, by the factor that makes the true coverage in these groups exactly 0.89,
    0.88, ... The keys are such as `one group, 0.85`. Drift makes the calibration rows wrong as evidence. As long as no
    test rejects, they still count, and they outweigh few test rows. So with drift the verdict `even` can be wrong in
    more than 5 % of the repeats. Its share is returned, but nothing bounds it. All drifts are evaluated on the same
    rows.

    Parameters
    ----------
    rows, repeats, seed : int
        Number of calibration rows, number of repeats, seed of the draws. There are half as many test rows.
    """
    outcomes: dict[str, list[Outcomes]] = {}
    for block in _blocks(_PIVOTAL, rows, repeats, seed_of(seed, "thresholds per group", str(rows))):
        sizes, tested = block[0].marginal.sizes, np.stack([repeat.count() for repeat in block])
        guaranteed = GuaranteedCounts.of(tested, sizes, one_threshold=False)
        for name, limits in _score_limits(np.stack([repeat.marginal.group_thresholds for repeat in block])):
            covered = [
                repeat.count(repeat.scores <= limit[repeat.codes]) for repeat, limit in zip(block, limits, strict=True)
            ]
            counts = AuditCounts(tested, np.stack(covered), 2 * ndtr(limits) - 1, sizes)
            outcomes.setdefault(name, []).append(Outcomes.of(counts, guaranteed))
    return {name: Outcomes.rates(blocks) for name, blocks in outcomes.items()}


def _score_limits(thresholds: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield each drift with the largest covered score before the noise grows, shape (R, G).

    If the noise of a group grows by the factor threshold / z, then scores up to z stay below the threshold.
    """
    yield NO_DRIFT, thresholds
    for name, groups in DRIFTS.items():
        for coverage in DRIFTED_COVERAGES:
            limits = thresholds.copy()
            limits[:, groups] = ndtri((1 + coverage) / 2)
            yield f"{name}, {coverage:g}", limits


def _blocks(scenario: str, rows: int, repeats: int, seed: int) -> Iterator[list[_Repeat]]:
    """Yield the repeats in blocks. The first repeats do not depend on how many follow."""
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed)
    for start in range(0, repeats, _BLOCK):
        yield [_Repeat.draw(SCENARIOS[scenario], rows, rng) for _ in range(min(_BLOCK, repeats - start))]


@dataclass(frozen=True, eq=False)
class _TrueCoverage:
    """The true coverage of groups with one threshold: the exact coverage given the features, averaged over many rows.

    The rows are sorted by spread. `totals` has the sum of the coverages of the first 0, 1, ... rows, for each of some
    thresholds. Between these thresholds, the coverage is interpolated.
    """

    thresholds: FloatArray
    spread: FloatArray
    totals: FloatArray

    @classmethod
    def of(cls, scenario: Scenario, rows: int, rng: np.random.Generator) -> "_TrueCoverage":
        """Draw the rows, and compute their coverages."""
        sample, prediction = scenario.draw(rows, rng)
        thresholds = np.quantile(scenario.score(sample.y, prediction), _INTERPOLATED_LEVELS)
        spread = prediction.required("spread", by="audit_rates")
        order = np.argsort(spread)
        coverages = [sample.coverage(scenario.score.interval(float(t), prediction))[order] for t in thresholds]
        return cls(thresholds, spread[order], np.cumsum(np.pad(coverages, ((0, 0), (1, 0))), axis=1))

    def of_groups(self, threshold: float, edges: FloatArray) -> FloatArray:
        """Return the coverage of each group between some edges of the spread. Shape (G,)."""
        ends = [0, *np.searchsorted(self.spread, edges, side="right"), len(self.spread)]
        by_threshold = np.diff(self.totals[:, ends], axis=1) / np.diff(ends)
        return np.asarray(CubicSpline(self.thresholds, by_threshold)(threshold))


@lru_cache(maxsize=1)  # the next call is usually for the same scenario
def _true_coverage(scenario: str, rows: int, seed: int) -> _TrueCoverage:
    return _TrueCoverage.of(SCENARIOS[scenario], rows, np.random.default_rng(seed_of(seed, scenario, "audit truth")))


def _verdicts(counts: AuditCounts, low: FloatArray, high: FloatArray, adjusted: FloatArray) -> Iterator[Verdict]:
    """Yield the verdict of each repeat."""
    total, covered = (each.sum(axis=1, keepdims=True) for each in (counts.rows, counts.covered))
    ends = zip((low, high), clopper_pearson_intervals(covered, total)[:2], strict=True)
    columns = (
        np.concatenate([counts.rows, total], axis=1),
        np.concatenate([counts.covered / counts.rows, covered / total], axis=1),
        *(np.concatenate(parts, axis=1) for parts in ends),
        adjusted,
    )
    for repeat in zip(*(column.tolist() for column in columns), strict=True):
        *groups, overall = (_GroupResult(number, *values) for number, values in enumerate(zip(*repeat, strict=True)))
        yield verdict(groups, LEVEL, TOLERANCE, other_rows=[overall])


def _covered_count_pmf(rows: IntArray, n: int, total: int) -> FloatArray:
    """Return the probabilities that 0, 1, ..., total rows are covered. Shape (R, total + 1).

    With m rows, shape (R, 1), and a threshold from n calibration scores, the count is BetaBinomial(m, k, n + 1 − k),
    where k is the conformal rank.
    """
    log_factorial, k = _log_factorials(n + total + 1), conformal_rank(n, LEVEL)
    counts = np.arange(total + 1)
    rest = np.maximum(rows - counts, 0)
    log_pmf = log_factorial[rows] - log_factorial[counts] - log_factorial[rest]
    log_pmf += log_factorial[counts + k - 1] + log_factorial[rest + n - k] - log_factorial[rows + n]
    log_pmf += log_factorial[n] - log_factorial[k - 1] - log_factorial[n - k]
    return np.exp(np.where(counts <= rows, log_pmf, -np.inf))


@cache
def _log_factorials(n: int) -> FloatArray:
    """Return log 0!, log 1!, ..., log n!."""
    return np.asarray(gammaln(np.arange(n + 1) + 1.0))


def _two_sided(cdf: FloatArray, counts: IntArray) -> FloatArray:
    """Return the two-sided p-values of counts, shape (R, G), by their distributions, shape (R, G, m + 1)."""
    at_most = np.take_along_axis(cdf, counts[..., None], axis=2)[..., 0]
    below = np.take_along_axis(cdf, np.maximum(counts - 1, 0)[..., None], axis=2)[..., 0]
    return two_sided_p_value(at_most, 1 - np.where(counts > 0, below, 0.0))
