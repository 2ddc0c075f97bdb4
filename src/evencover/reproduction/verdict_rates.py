"""How often the verdicts of `diagnose` and `audit` are right."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline

from evencover.diagnostics.coverage_intervals import CalibrationCounts, CoverageEstimates, binomial_coverage
from evencover.diagnostics.coverage_tests import CalibrationPools, GroupCounts
from evencover.diagnostics.diagnosis import Diagnosis, diagnose_scores
from evencover.diagnostics.exact_tests import SIGNIFICANT, covered_count_pmf, holm, two_sided_p_value
from evencover.diagnostics.one_threshold import MarginalThreshold
from evencover.diagnostics.verdicts import GroupForecast, Verdict, default_tolerance, verdict
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count
from evencover.predictions import Prediction
from evencover.quantiles import Level, conformal_quantile, conformal_rank, level_fraction, rows_for_finite_threshold
from evencover.reproduction.simulation import LEVEL, seed_of
from evencover.rows import Rows
from evencover.scores import Normalized, Residual, Score
from evencover.synthetic import Misspecification, NoisyVariance, QuadraticVariance, Sample, misspecified, toy
from evencover.taxonomies import BySpread

GROUPS = 3
TOLERANCE = 0.03
ROWS_PER_GROUP = (20, 50, 100, 200, 500)
ROWS = (300, 1000, 3000, 10_000)
TESTS: Mapping[str, Callable[[Diagnosis], float]] = {
    "exact, a group (Holm)": lambda found: min(group.adjusted for group in found.table),
    "exact, all groups": lambda found: found.joint_p_value,
    "bootstrap (Holm)": lambda found: min(each.adjusted for each in found.quantile_differences),
    "Kolmogorov-Smirnov (Holm)": lambda found: min(each.adjusted for each in found.distribution_differences),
    "Anderson-Darling": lambda found: found.anderson_darling,
    "score against spread": lambda found: found.dependence.p_value if found.dependence else np.nan,
    "verdict `uneven`": lambda found: float(found.verdict != "uneven"),
}
_MANY = 400_000  # rows that estimate the true coverage


@dataclass(frozen=True)
class Scenario:
    """A score and a model for the toy data.

    Parameters
    ----------
    score : Score
        The nonconformity score.
    misspecifications : tuple of Misspecification
        Misspecifications of the model; none for the oracle.
    """

    score: Score
    misspecifications: tuple[Misspecification, ...] = ()

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Sample, Prediction]:
        """Draw n rows, and return them with the model's prediction."""
        sample = toy().sample(n, seed=rng)
        return sample, misspecified(sample.oracle(), *self.misspecifications, seed=rng)

    def diagnosis(self, n: int, rng: np.random.Generator) -> Diagnosis:
        """Draw n calibration rows and return their diagnosis."""
        sample, prediction = self.draw(n, rng)
        groups, scores = BySpread(GROUPS).learn(Rows(prediction)), self.score(sample.y, prediction)
        return diagnose_scores(scores, groups, spread=prediction.spread, level=LEVEL, seed=int(rng.integers(2**31)))

    def verdict(self, n: int, rng: np.random.Generator) -> Verdict:
        """Draw n calibration rows and return the verdict only, which is faster than the diagnosis."""
        sample, prediction = self.draw(n, rng)
        marginal = MarginalThreshold(self.score(sample.y, prediction), BySpread(GROUPS).learn(Rows(prediction)), LEVEL)
        return marginal.verdict(TOLERANCE)

    def true_coverage(self, rng: np.random.Generator) -> list[float]:
        """Return the coverage in each group for one threshold from 400 000 rows, by the target's exact distribution."""
        sample, prediction = self.draw(_MANY, rng)
        intervals = self.score.interval(float(conformal_quantile(self.score(sample.y, prediction), LEVEL)), prediction)
        codes = BySpread(GROUPS).learn(Rows(prediction)).codes
        coverage = sample.coverage(intervals)
        return [float(coverage[codes == group].mean()) for group in range(GROUPS)]


SCENARIOS: Mapping[str, Scenario] = {  # the names enter the seeds: a changed name changes the draws
    "normalised, oracle": Scenario(Normalized()),
    "residual, misspecified": Scenario(Residual(), (QuadraticVariance(),)),
    "normalised, noise 0.05 in the variance": Scenario(Normalized(), (NoisyVariance(0.05),)),
    "normalised, noise 0.1 in the variance": Scenario(Normalized(), (NoisyVariance(0.1),)),
    "normalised, noise 0.2 in the variance": Scenario(Normalized(), (NoisyVariance(0.2),)),
    "normalised, misspecified": Scenario(Normalized(), (QuadraticVariance(),)),
    "residual, oracle": Scenario(Residual()),
}


def rejections(rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, float]:
    """Return the share of repeats in which each test at 5 % rejects although the coverage is even.

    Parameters
    ----------
    rows, repeats, seed : int
        Number of rows in each of the three groups, number of repeats, seed of the draws.
    """
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed_of(seed, "rejections", str(rows)))
    found = [SCENARIOS["normalised, oracle"].diagnosis(GROUPS * rows, rng) for _ in range(repeats)]
    return {name: float(np.mean([test(each) < SIGNIFICANT for each in found])) for name, test in TESTS.items()}


def verdict_shares(scenario: str, rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, float]:
    """Return the share of repeats with each verdict.

    Parameters
    ----------
    scenario : str
        A key of `SCENARIOS`.
    rows, repeats, seed : int
        Number of calibration rows, number of repeats, seed of the draws.
    """
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed_of(seed, scenario, str(rows)))
    counts = Counter(SCENARIOS[scenario].verdict(rows, rng) for _ in range(repeats))
    return {verdict: counts[verdict] / repeats for verdict in ("uneven", "even", "undecided")}


def true_coverage(scenario: str, *, seed: int = 0) -> list[float]:
    """Return the coverage in each group for one threshold from 400 000 rows. `scenario` is a key of `SCENARIOS`."""
    return SCENARIOS[scenario].true_coverage(np.random.default_rng(seed_of(seed, scenario, "truth")))


CALIBRATION_ROWS = (1200, 2000, 4000, 20_000)  # for all groups together; half as many test rows
LEVELS = (0.5, 0.9, 0.99)
NUMBERS_OF_GROUPS = (3, 10)
SHIFTS = (0.0, -0.01, -0.03, -0.04, -0.05, 0.01, 0.03, 0.04, 0.05)  # of the coverage of one group
_REFERENCE_ROWS = 100_000  # rows that give the true coverage with one threshold
_INTERPOLATED_LEVELS = np.linspace(0.7, 0.998, 13)
_BLOCK = 50  # repeats evaluated at once
_ROUNDING_MARGIN = 1e-9


@dataclass(frozen=True)
class Situation:
    """What is audited, and what is known of the calibration.

    Parameters
    ----------
    later : bool
        Whether the test rows come later, and may have changed. Otherwise they were split off at random.
    own_thresholds : bool
        Whether each group has a threshold of its own.
    known : bool
        Whether the calibration rows are known.
    """

    later: bool
    own_thresholds: bool
    known: bool = True

    @property
    def shifts(self) -> tuple[float, ...]:
        """By how much the coverage of one group can differ from the level.

        In a study with thresholds per group it differs by chance alone: the test rows cannot have changed.
        """
        return SHIFTS if self.later or not self.own_thresholds else SHIFTS[:1]


SITUATIONS = {
    "study, thresholds per group": Situation(later=False, own_thresholds=True),
    "study, one threshold": Situation(later=False, own_thresholds=False),
    "later rows, thresholds per group": Situation(later=True, own_thresholds=True),
    "later rows, one threshold": Situation(later=True, own_thresholds=False),
    "later rows, calibration not known": Situation(later=True, own_thresholds=False, known=False),
}


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
        The same, only counting intervals from calibration and test rows: those of repeats in which the test rows do not
        contradict the calibration rows.
    """

    uneven: float
    even: float
    undecided: float
    false_even: float
    missed: float
    missed_if_combined: float


@dataclass(frozen=True, eq=False)
class AuditOutcomes:
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
    def of(cls, counts: GroupCounts, truth: FloatArray, size: int | None) -> "AuditOutcomes":
        """Return the outcomes by the rule of `audit`, for counts and true coverages of shape (R, G).

        `size` is the number of calibration scores behind each threshold, None if it is not known.
        """
        adjusted = guaranteed_p_values(counts, size)
        combined = counts.calibration_known & (adjusted.min(axis=1) >= counts.contradiction)
        known = _selected_estimates(counts, combined)
        level = counts.pools.level
        off = np.any(np.abs(truth - float(level)) > default_tolerance(level) + _ROUNDING_MARGIN, axis=1)
        missed = np.any((truth < known.low) | (truth > known.high), axis=1)
        return cls(list(_verdicts(counts, known, adjusted)), combined, off, missed)

    @classmethod
    def rates(cls, blocks: list["AuditOutcomes"]) -> AuditRates:
        """Return the shares over the repeats of all blocks."""
        verdicts = np.concatenate([block.verdicts for block in blocks])
        combined, off, missed = (
            np.concatenate([getattr(block, name) for block in blocks]) for name in ("combined", "off", "missed")
        )
        shares = [*(verdicts == name for name in ("uneven", "even", "undecided"))]
        shares += [(verdicts == "even") & off, missed, missed & combined]
        return AuditRates(*(float(share.mean()) for share in shares))


def guaranteed_p_values(counts: GroupCounts, size: int | None) -> FloatArray:
    """Return the two-sided p-values of the groups and of all rows under the guarantee, Holm-adjusted in each repeat.

    The groups share one threshold, or each has its own, from so many calibration scores. Shape (R, G + 1).
    """
    tails = []
    for tested, covered in zip(counts.rows.tolist(), counts.covered.tolist(), strict=True):
        pools = tuple((m, size) for m in tested)
        every = ((sum(tested), size),) if counts.sizes is None else pools
        cdfs = (_covered_count_cdf(each, counts.pools.level) for each in (*((pool,) for pool in pools), every))
        found = zip(cdfs, (*covered, sum(covered)), strict=True)
        tails.append([(cdf[x], 1 - (cdf[x - 1] if x else 0)) for cdf, x in found])
    at_most, at_least = np.moveaxis(np.array(tails), 2, 0)
    return np.stack([holm(each) for each in two_sided_p_value(at_most, at_least)])


@lru_cache(maxsize=64)  # repeats of groups of fixed sizes have the same distributions
def _covered_count_cdf(pools: tuple[tuple[int, int | None], ...], level: Level) -> FloatArray:
    return covered_count_pmf(pools, level).cumsum()


def _selected_estimates(counts: GroupCounts, combined: BoolArray) -> CoverageEstimates:
    """Return what is known in each repeat: from calibration and test rows where they are combined, else from tests."""
    tested = counts.estimates("test rows")
    if not combined.any():
        return tested
    both = counts.estimates("calibration and test rows")
    columns = {
        name: np.where(combined[:, None], getattr(both, name), getattr(tested, name))
        for name in ("low", "high", "estimate", "within")
    }
    return CoverageEstimates(**columns, all_within=np.where(combined, both.all_within, tested.all_within))


def _verdicts(counts: GroupCounts, known: CoverageEstimates, adjusted: FloatArray) -> Iterator[Verdict]:
    level, tolerance = float(counts.pools.level), default_tolerance(counts.pools.level)
    total, covered = (each.sum(axis=1, keepdims=True) for each in (counts.rows, counts.covered))
    overall = binomial_coverage(covered, total, level)
    overall = replace(overall, within=np.minimum(overall.within, known.all_within[:, None]))
    pairs = [(counts.rows, total), (counts.covered / counts.rows, covered / total)]
    pairs += [(getattr(known, name), getattr(overall, name)) for name in ("low", "high", "within")]
    columns = [known.all_within, *(np.concatenate(pair, axis=1) for pair in pairs), adjusted]
    for shown_within, *repeat in zip(*(column.tolist() for column in columns), strict=True):
        *groups, last = (
            GroupForecast(group, rows, share, low, high, p, p, np.nan, within, inside=share, inside_low=low)
            for group, (rows, share, low, high, within, p) in enumerate(zip(*repeat, strict=True))
        )
        yield verdict(groups, level, tolerance, shown_within=shown_within, overall=last)


def situation_rates(
    situation: Situation,
    level: Level,
    rows: int,
    groups: int,
    *,
    shift: float = 0.0,
    repeats: int = 1000,
    seed: int = 0,
) -> AuditRates:
    """Return how often the audit of equal groups is right.

    Parameters
    ----------
    situation : Situation
        One of `SITUATIONS`.
    level : float
        Nominal coverage.
    rows, groups : int
        Number of calibration rows, and of groups. There are half as many test rows.
    shift : float
        The distance from the level of the coverage of the first group, for test rows. If they come later, the rows have
        changed since the calibration. Otherwise the other groups differ as well, so that all rows are as asked.
    repeats, seed : int
        Number of repeats, and seed of the draws.
    """
    check_count(repeats, "repeats")
    needed = rows_for_finite_threshold(level)
    if rows // groups < needed:
        raise ValueError(
            f"rows must be enough for finite thresholds, at least {needed} in each of {groups} groups; got {rows}"
        )
    name = f"{situation} {float(level):g} {rows} {groups} {shift:g}"
    rng = np.random.default_rng(seed_of(seed, "situation", name))
    n, m = rows // groups, rows // 2 // groups
    size = n if situation.own_thresholds else n * groups if situation.known else None
    tested = np.full((1, groups), m)
    outcomes = []
    for start in range(0, repeats, _BLOCK):
        truth, calibration = _drawn_coverage(situation, level, (min(_BLOCK, repeats - start), groups), n, shift, rng)
        counts = GroupCounts(
            rows=np.broadcast_to(tested, truth.shape),
            covered=rng.binomial(m, truth),
            pools=CalibrationPools(level_fraction(level), (None,), calibration=calibration),
            sizes=np.full(groups, size) if situation.own_thresholds else None,
            split_at_random=not situation.later,
        )
        outcomes.append(AuditOutcomes.of(counts, truth, size))
    return AuditOutcomes.rates(outcomes)


def _drawn_coverage(
    situation: Situation, level: Level, shape: tuple[int, int], n: int, shift: float, rng: np.random.Generator
) -> tuple[FloatArray, CalibrationCounts | None]:
    """Draw the true coverage of each group, and how many of its n calibration rows one threshold covers.

    Scores are uniform. If a group is off although all rows share a threshold, its scores are smaller by the shift.
    """
    repeats, groups = shape
    if situation.own_thresholds:
        rank = conformal_rank(n, level)
        truth, calibration = rng.beta(rank, n + 1 - rank, size=shape), None
    elif situation.known:
        shifts = np.zeros(groups) if situation.later else np.append(shift, np.full(groups - 1, -shift / (groups - 1)))
        scores = rng.random((repeats, groups, n)) - shifts[:, None]
        rank = conformal_rank(n * groups, level)
        threshold = np.partition(scores.reshape(repeats, -1), rank - 1, axis=1)[:, rank - 1]
        covered = np.count_nonzero(scores <= threshold[:, None, None], axis=2)
        truth = np.clip(threshold[:, None] + shifts, 0.0, 1.0)
        calibration = CalibrationCounts(np.full(shape, n), covered, covered)
    else:
        truth, calibration = np.full(shape, float(level)), None
    if situation.later and shift:
        truth[:, 0] = min(float(level) + shift, 1.0)
    return truth, calibration


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
    """Return how often the audit of a study with one threshold for all rows is right.

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
        counts = GroupCounts(
            rows=np.stack([repeat.count() for repeat in block]),
            covered=np.stack([repeat.count(repeat.scores <= repeat.marginal.threshold) for repeat in block]),
            pools=CalibrationPools(level_fraction(LEVEL), (None,), calibration=CalibrationCounts(*columns)),
            split_at_random=True,
        )
        found = np.stack([truth.of_groups(repeat.marginal.threshold, repeat.edges) for repeat in block])
        outcomes.append(AuditOutcomes.of(counts, found, rows))
    return AuditOutcomes.rates(outcomes)


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
