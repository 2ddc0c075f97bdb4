"""`audit`: test the coverage of intervals on test rows, by group and by feature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.audit_scope import Scope, by_width
from evencover.diagnostics.cluster_tests import THRESHOLDS_FROM_CLUSTERS, AuditInput
from evencover.diagnostics.coverage_tests import (
    GroupCounts,
    JointTests,
    RowResults,
    calibration_pool_of_rows,
    holm_adjusted,
    judged_groups,
)
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.interval_input import checked_intervals, level_of
from evencover.diagnostics.interval_quality import quality
from evencover.diagnostics.regions import ExcessRisk, FeatureSearch, excess_risk
from evencover.diagnostics.verdicts import checked_settings
from evencover.inputs.arrays import BoolArray, checked_vector
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Level


def audit(
    y: Any,
    intervals: Any,
    *,
    X: Any = None,
    groups: Any = None,
    clusters: Any = None,
    level: Level | None = None,
    tolerance: float | None = None,
    calibration_sizes: int | Mapping[Any, int] | None = None,
    diagnosis: Diagnosis | None = None,
    prediction: Any = None,
    tied_scores: bool | None = None,
    split_at_random: bool = False,
    seed: int = 0,
) -> Audit:
    """Test whether intervals cover their targets as often as they should, in each group.

    The coverage of a valid split conformal predictor varies with its calibration rows. Among m test rows of a group
    whose threshold comes from n calibration scores, the number of covered rows is BetaBinomial(m, k, n + 1 − k), where
    k is the conformal rank. A binomial test ignores this variation and rejects valid predictors too often. So the tests
    are BetaBinomial if n is known. If not, they are binomial, and do not include the random variation of the
    calibration rows. If the calibration had clusters, n is the number of clusters, at most, that the group's rows weigh
    as much as. The tests then allow for the higher coverage of few clusters, and the intervals of the coverages use the
    test rows alone.

    The intervals of the groups' coverages hold at the same time with 95 % confidence. If each group has its own
    threshold and n is known, calibration rows and test rows both count: the coverage of a group, of which x of m test
    rows are covered, has the distribution Beta(k + x, n + 1 − k + m − x) for independent rows and scores without ties.
    If the test rows contradict the calibration rows, the test rows count alone.

    Coverage is even if these distributions, taken together, put at least 95 % on all groups within the tolerance. With
    one threshold for all rows, or with test rows alone, the coverage of a group is a fixed number: it is even if
    one-sided tests at 5 % reject, for every group and on both sides, that it is off by the tolerance or more. Test rows
    that come later than the calibration rows may have changed, so the calibration rows must not outvote them: in
    addition, the test rows alone must reject this at 20 %. Only for test rows that were split off at random
    (`split_at_random`), as those of `study`, this is not needed.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets of test rows, used neither to train nor to calibrate.
    intervals : Intervals, array-like of shape (n, 2), or pair of arrays of shape (n,)
        Lower and upper bounds, from this package or any other. Infinite and empty intervals (lower > upper, NaN) are
        allowed.
    X : table of n rows, optional
        Features, to search for rows with low coverage: by each feature, in the worst region, with a classifier.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row. The default is the groups that the intervals were calibrated with, if there are several;
        otherwise thirds by width or, if all widths are equal, by the interval's center. In these two cases and without
        X, the center is also searched like a feature.
    clusters : array-like of shape (n,), optional
        Rows that belong together, for example rows of one patient. The tests need independent rows, so one random row
        of each cluster is used, for everything. The result is about random rows of clusters. If the calibration had
        clusters, and the test rows have none here, a note says so.
    level : float, optional
        Nominal coverage. The default is the level stored in the intervals, otherwise 0.9.
    tolerance : float, optional
        Largest distance from the level that counts as even; min(0.03, 0.1 √(level (1 − level))) by default.
    calibration_sizes : int or mapping from label to int, optional
        Number of calibration scores behind the threshold of all rows, or of each group. Intervals of this package
        store them.
    diagnosis : Diagnosis, optional
        For intervals with one threshold for all rows: the diagnosis of its calibration rows, with the same groups and
        level. The coverage of a group is then estimated from calibration and test rows.
    prediction : array-like of shape (n,), optional
        The point predictions, to measure how much they explain.
    tied_scores : bool, optional
        Whether several calibration scores equal a threshold. Ties push coverage up, so calibration rows are then used
        for the lower ends of the intervals only. Intervals of this package know it.
    split_at_random : bool
        Whether the test rows were split off at random from the same rows as the calibration rows. By default they may
        be later, and may have changed.
    seed : int
        Seed of the random halves and permutations of the search in features, and of the rows of clusters.

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
    checked = checked_intervals(intervals)
    settings = checked_settings(level_of(checked) if level is None else level, tolerance, seed)
    given = AuditInput(checked, y, X, groups, prediction)
    checked, y, X, groups, prediction, notes = given.one_row_of_each(clusters, settings.seed)
    _check_flags(split_at_random=split_at_random, tied_scores=False if tied_scores is None else tied_scores)
    scope = Scope.of(checked, groups, X)
    audited_groups = scope.groups
    without_group = np.count_nonzero(audited_groups.codes < 0)
    if without_group:
        raise ValueError(f"groups must have a group for every row; rows without one: {without_group} of {len(checked)}")
    target = checked_vector(y, "y", length=len(checked), matched="the intervals")
    results = RowResults.of(
        target, checked, calibration_pool_of_rows(checked, audited_groups, calibration_sizes), settings.level
    )
    clustered = results.pools.clustered
    findings = _feature_findings(results, scope, settings.seed)
    overall = results.audit_rows("all rows", np.arange(len(checked)))
    family = JointTests.of(results.audit_groups(audited_groups), overall, findings.region)
    counts = GroupCounts.of(
        results,
        audited_groups,
        diagnosis,
        raised=_is_raised(checked) if tied_scores is None else tied_scores,
        split_at_random=split_at_random,
    )
    return Audit(
        **judged_groups(family, counts, settings.tolerance),
        by_width=holm_adjusted(results.audit_groups(by_width(checked.width))),
        by_feature=holm_adjusted(findings.by_feature),
        region_rule=findings.region_rule,
        excess_risk=findings.risk,
        quality=quality(target, checked, prediction=prediction, level=settings.level),
        level=float(settings.level),
        tolerance=settings.tolerance,
        sizes_known=results.pools.known,
        n_empty=int(np.count_nonzero(_empty(checked))),
        n_replaced=checked.n_replaced,
        n_infinite=int(results.infinite.sum()),
        rows_needed=results.rows_needed if results.infinite.any() else None,
        seed=settings.seed,
        notes=(*scope.notes, *notes, *([THRESHOLDS_FROM_CLUSTERS] if clustered else [])),
    )


@dataclass(frozen=True)
class _FeatureFindings:
    """The results by the features."""

    by_feature: Sequence[GroupAudit] = ()
    region: GroupAudit | None = None
    region_rule: str = ""
    risk: ExcessRisk | None = None


def _feature_findings(results: RowResults, scope: Scope, seed: int) -> _FeatureFindings:
    """Return coverage by each feature; then the worst region and the excess risk, both on the second half of the rows.

    The excess risk needs given features: a classifier that sees only the center finds no more than the region does.
    """
    if scope.features is None:
        return _FeatureFindings()
    search = FeatureSearch.of(scope.features, len(results.covered), seed)
    features = search.features
    by_feature = [row for feature in features.columns for row in results.audit_groups(feature.strata)]
    risk = None
    if scope.features_given and features.columns:
        risk = excess_risk(features.matrix, results.covered, search.halves, float(results.level), search.generator())
    region = search.worst_region(results.covered)
    if region is None:
        return _FeatureFindings(by_feature, risk=risk)
    _, second = search.halves
    inside = results.audit_rows("worst region", second[region.contains()[second]])
    # Both halves share the calibration. With several thresholds, the search can select the one that is too low by
    # chance, so the p-value is multiplied by their number. Simulations in the tests show that this suffices.
    inside = replace(inside, adjusted=min(1.0, inside.p_under * len(results.pools.sizes)))
    return _FeatureFindings(by_feature, inside, region.rule(), risk)


def _check_flags(**flags: Any) -> None:
    """Raise TypeError unless each flag is True or False: a text such as "no" would count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be True or False; got {value!r}")


def _is_raised(intervals: Intervals | IntervalUnion) -> bool:
    """Return whether ties at a threshold, or points that replace empty intervals, raise the coverage."""
    tied = intervals.guarantee is not None and bool(intervals.guarantee.tied)
    return tied or intervals.n_replaced > 0


def _empty(intervals: Intervals | IntervalUnion) -> BoolArray:
    """Return which rows have an empty interval, or a union of empty intervals."""
    pieces = intervals.pieces if isinstance(intervals, IntervalUnion) else [intervals]
    return np.asarray(np.all([piece.empty for piece in pieces], axis=0))
