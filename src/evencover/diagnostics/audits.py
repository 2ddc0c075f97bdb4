"""`audit`: test the coverage of intervals on test rows, by group and by feature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, IntArray, check_count, checked_vector, is_count
from evencover.diagnostics._advice import advice_on_audit
from evencover.diagnostics._exact_tests import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    covered_count_pmf,
    holm,
    large_sample_p_value,
    one_sided_p_values,
    two_sided_p_value,
)
from evencover.diagnostics._excess_risk import ExcessRisk, excess_risk
from evencover.diagnostics._feature_strata import Feature
from evencover.diagnostics._slabs import FeatureSearch
from evencover.diagnostics._verdict import checked_settings, verdict
from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.groups import Groups, Label, checked_groups, rows_by_code
from evencover.intervals import Intervals, IntervalUnion
from evencover.metrics import interval_scores
from evencover.quantiles import Level

_WIDTH_DIGITS = 9  # widths that agree to so many digits count as equal


def audit(
    y: Any,
    intervals: Any,
    *,
    X: Any = None,
    groups: Any = None,
    level: Level | None = None,
    tolerance: float = 0.03,
    calibration_sizes: int | Mapping[Any, int] | None = None,
    seed: int = 0,
) -> Audit:
    """Test whether intervals cover their targets as often as they should, in each group.

    The coverage of a valid split conformal predictor varies with its calibration rows. Among m test rows of a group
    whose threshold comes from n calibration scores, the number of covered rows is BetaBinomial(m, k, n + 1 − k), where
    k is the conformal rank. A binomial test ignores this variation and rejects valid predictors too often. So the tests
    are BetaBinomial if n is known. If not, they are binomial, and do not include the random variation of the
    calibration rows.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets of test rows, used neither to train nor to calibrate.
    intervals : Intervals, array-like of shape (n, 2), or pair of arrays of shape (n,)
        Lower and upper bounds, from this package or any other. Infinite and empty intervals (lower > upper, NaN) are
        allowed.
    X : table of n rows, optional
        Features, to search for rows with low coverage: by each feature, in the worst slab, with a classifier.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row. The default is the groups that the intervals were calibrated with, if there are several;
        otherwise thirds by width.
    level : float, optional
        Nominal coverage. The default is the level stored in the intervals, otherwise 0.9.
    tolerance : float
        Largest distance from the level that counts as even.
    calibration_sizes : int or mapping from label to int, optional
        Number of calibration scores behind the threshold of all rows, or of each group. Intervals of this package
        store them.
    seed : int
        Seed of the random halves, slabs and permutations, which are used if X is given.

    Returns
    -------
    Audit
        The result, with `verdict`, `advice` and `table`. `print` shows it as text.

    Examples
    --------
    >>> from evencover import calibrate
    >>> from evencover.synthetic import heteroskedastic
    >>> old, new = heteroskedastic(2000, seed=0), heteroskedastic(2000, seed=1)
    >>> intervals = calibrate(old.y, old.mean).interval(new.mean)
    >>> audit(new.y, intervals, groups=new.spread > np.median(new.spread)).verdict
    'uneven'
    """
    checked = _checked_intervals(intervals)
    settings = checked_settings(_level_of(checked) if level is None else level, tolerance, seed)
    audited_groups = _groups_of(checked) if groups is None else checked_groups(groups, len(checked), "the intervals")
    without_group = np.count_nonzero(audited_groups.codes < 0)
    if without_group:
        raise ValueError(f"groups must have a group for every row; rows without one: {without_group} of {len(checked)}")
    target = checked_vector(y, "y", length=len(checked), matched="the intervals")
    results = _RowResults.of(
        target, checked, _calibration_pool_of_rows(checked, audited_groups, calibration_sizes), settings.level
    )
    findings = _FeatureFindings() if X is None else _feature_findings(results, X, settings.seed)
    overall = results.audit_rows("all rows", np.arange(len(checked)))
    family = _TestFamily.of(results.audit_groups(audited_groups), overall, findings.slab)
    audited = Audit(
        verdict=verdict(
            family.groups,
            family.joint_p_value,
            settings.level,
            settings.tolerance,
            other_rows=family.other_rows(settings.level),
        ),
        advice="",
        table=family.groups,
        joint_p_value=family.joint_p_value,
        overall=family.overall,
        by_width=_holm_adjusted(results.audit_groups(_by_width(checked))),
        by_feature=_holm_adjusted(findings.by_feature),
        slab=family.slab,
        slab_rule=findings.slab_rule,
        excess_risk=findings.risk,
        level=float(settings.level),
        tolerance=settings.tolerance,
        sizes_known=results.pools.known,
        n_empty=int(np.count_nonzero(_empty(checked))),
        n_infinite=int(np.count_nonzero(np.isinf(checked.width))),
        seed=settings.seed,
    )
    return replace(audited, advice=advice_on_audit(audited))


@dataclass(frozen=True, eq=False)
class _CalibrationPools:
    """The pool of calibration scores behind the threshold of each row, and the size of each pool (None: not known)."""

    codes: IntArray
    sizes: tuple[int | None, ...]

    @property
    def known(self) -> bool:
        """Whether any size is known; if so, rows of other pools have no guarantee and are not tested."""
        return any(size is not None for size in self.sizes)


@dataclass(frozen=True, eq=False)
class _RowResults:
    """The result of each row: whether it is covered, the width and score of its interval, its pool."""

    covered: BoolArray
    widths: FloatArray
    scores: FloatArray
    pools: _CalibrationPools
    level: Fraction

    @classmethod
    def of(
        cls, y: FloatArray, intervals: Intervals | IntervalUnion, pools: _CalibrationPools, level: Fraction
    ) -> "_RowResults":
        """Return the results of the intervals for the targets."""
        scores = interval_scores(y, intervals, level) if isinstance(intervals, Intervals) else np.full(len(y), np.nan)
        return cls(intervals.covers(y), intervals.width, scores, pools, level)

    def audit_groups(self, groups: Groups) -> list[GroupAudit]:
        """Return the audit of each group."""
        rows = dict(rows_by_code(groups.codes, len(groups.labels)))
        no_rows = np.empty(0, dtype=np.intp)
        return [self.audit_rows(label, rows.get(code, no_rows)) for code, label in enumerate(groups.labels)]

    def audit_rows(self, name: Label, rows: IntArray) -> GroupAudit:
        """Return the audit of some rows as one group, not yet adjusted for other tests."""
        n, covered = len(rows), int(np.count_nonzero(self.covered[rows]))
        counts = np.bincount(self.pools.codes[rows], minlength=len(self.pools.sizes)).tolist()
        pools = [(m, size) for m, size in zip(counts, self.pools.sizes, strict=True) if m]
        testable = n and (not self.pools.known or all(size is not None for _, size in pools))
        under, over = np.nan, np.nan
        if testable:
            under, over = one_sided_p_values(covered_count_pmf(pools, self.level), covered)
        share, width, score = (
            float(each[rows].mean()) if n else np.nan for each in (self.covered, self.widths, self.scores)
        )
        low, high = float(clopper_pearson_lower(covered, n)), float(clopper_pearson_upper(covered, n))
        both = float(two_sided_p_value(under, over))
        limit = large_sample_p_value(pools, self.level, share) if testable else np.nan
        return GroupAudit(name, n, share, low, high, under, over, both, limit, width, score)


@dataclass(frozen=True)
class _TestFamily:
    """Tests with a joint Holm adjustment: the groups, the worst slab if any, all rows if there are several groups."""

    groups: tuple[GroupAudit, ...]
    overall: GroupAudit
    slab: GroupAudit | None

    @classmethod
    def of(cls, groups: Sequence[GroupAudit], overall: GroupAudit, slab: GroupAudit | None) -> "_TestFamily":
        """Return the family with Holm-adjusted p-values."""
        one_group = sum(row.rows > 0 for row in groups) < 2
        tested = _holm_adjusted([*groups, *([] if slab is None else [slab]), *([] if one_group else [overall])])
        n = len(groups)
        return cls(tested[:n], overall if one_group else tested[-1], None if slab is None else tested[n])

    @property
    def joint_p_value(self) -> float:
        """The smallest adjusted p-value of the family."""
        every = [*self.groups, self.overall, *([] if self.slab is None else [self.slab])]
        return float(np.nanmin([1.0, *(row.adjusted for row in every)]))

    def other_rows(self, level: Level) -> list[GroupAudit]:
        """Return the tests that, in addition to the groups, can show uneven coverage.

        The slab was selected for its low coverage, so it counts only if it lies below the level.
        """
        low_slab = [] if self.slab is None or self.slab.high >= level else [self.slab]
        return [self.overall, *low_slab]


@dataclass(frozen=True)
class _FeatureFindings:
    """The results by the features."""

    by_feature: Sequence[GroupAudit] = ()
    slab: GroupAudit | None = None
    slab_rule: str = ""
    risk: ExcessRisk | None = None


def _feature_findings(results: _RowResults, X: Any, seed: int) -> _FeatureFindings:
    """Return coverage by each feature; then the worst slab and the excess risk, both on the second half of the rows."""
    search = FeatureSearch.of(X, len(results.covered), seed)
    features = search.features
    by_feature = [row for feature in features.columns for row in results.audit_groups(feature.strata)]
    slab = search.worst_slab(results.covered)
    if slab is None:
        return _FeatureFindings(by_feature)
    _, second = search.halves
    inside = results.audit_rows("worst slab", second[slab.contains(features.matrix)[second]])
    # Both halves share the calibration. With several thresholds, the search can select the one that is too low by
    # chance, so the p-value is multiplied by their number (Bonferroni).
    inside = replace(inside, adjusted=min(1.0, inside.p_under * len(results.pools.sizes)))
    risk = excess_risk(features.matrix, results.covered, search.halves, float(results.level), search.generator())
    return _FeatureFindings(by_feature, inside, slab.rule(features.columns), risk)


def _holm_adjusted(rows: Sequence[GroupAudit]) -> tuple[GroupAudit, ...]:
    """Return audits with Holm-adjusted p-values."""
    adjusted, limits = (holm(np.array([getattr(row, name) for row in rows])) for name in ("adjusted", "p_limit"))
    columns = zip(rows, adjusted.tolist(), limits.tolist(), strict=True)
    return tuple(replace(row, adjusted=p, p_limit=limit) for row, p, limit in columns)


def _checked_intervals(intervals: Any) -> Intervals | IntervalUnion:
    """Return intervals of any kind as `Intervals` or `IntervalUnion`. Raise if they are not for one level."""
    if not isinstance(intervals, Intervals | IntervalUnion):
        intervals = _from_bounds(intervals)
    checked: Intervals | IntervalUnion = intervals
    if checked.width.ndim > 1:
        n_levels = checked.width.shape[1]
        raise ValueError(
            f"intervals must be for one level, such as Intervals(lower[:, 0], upper[:, 0]); got {n_levels} levels"
        )
    if not len(checked):
        raise ValueError("intervals must have at least one row; got 0")
    return checked


def _from_bounds(bounds: Any) -> Intervals:
    """Return intervals from a pair (lower, upper), or from an array of shape (n, 2)."""
    pair = isinstance(bounds, tuple) and len(bounds) == 2
    try:
        arrays = [np.asarray(each, dtype=float) for each in (bounds if pair else [bounds])]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"intervals must be numbers, in an array of shape (n, 2) or a pair (lower, upper): {error}"
        ) from None
    if not pair:
        (array,) = arrays
        array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(
                "intervals must be Intervals, an array of shape (n, 2) or a pair (lower, upper), for one level; got an "
                f"array of shape {array.shape}"
            )
        arrays = [array[:, 0], array[:, 1]]
    intervals = Intervals(*arrays)
    if len(intervals) and np.all(intervals.lower > intervals.upper):
        raise ValueError("intervals must have lower <= upper; in every row, lower is above upper: are the two swapped?")
    return intervals


def _level_of(intervals: Intervals | IntervalUnion) -> Level:
    """Return the level stored in the intervals, otherwise 0.9."""
    return 0.9 if intervals.level is None else intervals.level  # type: ignore[return-value]


def _groups_of(intervals: Intervals | IntervalUnion) -> Groups:
    """Return the groups that the intervals were calibrated with, if several; otherwise thirds by width."""
    stored = getattr(intervals, "groups", None)
    return stored if stored is not None and len(stored.labels) > 1 else _by_width(intervals)


def _by_width(intervals: Intervals | IntervalUnion) -> Groups:
    """Return thirds by width, or one group for each width if there are few; rounding errors are ignored."""
    unit = np.max(intervals.width, initial=0.0, where=np.isfinite(intervals.width)) or 1.0
    return Feature("width", np.round(intervals.width / unit, _WIDTH_DIGITS) * unit).strata


def _calibration_pool_of_rows(intervals: Intervals | IntervalUnion, groups: Groups, sizes: Any) -> _CalibrationPools:
    """Return the pool behind each row's threshold: from the argument, from the intervals, or one of unknown size."""
    guarantee, stored = intervals.guarantee, getattr(intervals, "groups", None)
    if isinstance(sizes, Mapping):
        invalid = [label for label in groups.labels if not is_count(sizes.get(label))]
        if invalid:
            raise ValueError(
                f"calibration_sizes must have a positive whole number for each group; it has none for: {invalid}"
            )
        return _CalibrationPools(groups.codes, tuple(int(sizes[label]) for label in groups.labels))
    if sizes is not None:
        check_count(sizes, "calibration_sizes")
        return _CalibrationPools(np.zeros(len(intervals), dtype=np.intp), (int(sizes),))
    if guarantee is not None and guarantee.exact and stored is not None:
        return _CalibrationPools(stored.codes, tuple(guarantee.sizes.get(label) for label in stored.labels))
    if guarantee is not None and guarantee.exact and guarantee.kind == "marginal" and isinstance(intervals, Intervals):
        return _CalibrationPools(np.zeros(len(intervals), dtype=np.intp), tuple(guarantee.sizes.values()))
    return _CalibrationPools(np.zeros(len(intervals), dtype=np.intp), (None,))


def _empty(intervals: Intervals | IntervalUnion) -> BoolArray:
    """Return which rows have an empty interval, or a union of empty intervals."""
    pieces = intervals.pieces if isinstance(intervals, IntervalUnion) else [intervals]
    return np.asarray(np.all([piece.empty for piece in pieces], axis=0))
