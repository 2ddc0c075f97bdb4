"""`audit`: test the coverage of intervals on test rows, by group and by feature, and its result."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from evencover.diagnostics.audit_counts import (
    AuditCounts,
    OtherThresholds,
    RowsInMemory,
    are_equal,
    center_feature,
    default_feature,
    width_feature,
)
from evencover.diagnostics.coverage_intervals import CalibrationCounts
from evencover.diagnostics.coverage_tests import (
    CalibrationPools,
    RowsOfEvidence,
    calibration_pool_of_rows,
    holm_adjusted,
    judged,
)
from evencover.diagnostics.diagnosis import Diagnosis, random_row_of_each
from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.interval_quality import Quality, checked_intervals, level_of, quality
from evencover.diagnostics.regions import ExcessRisk, Feature, FeatureSearch, excess_risk, features_of
from evencover.diagnostics.verdicts import (
    GroupAudit,
    Settings,
    Verdict,
    checked_settings,
    excludes_level,
    is_as_even_as_possible,
    is_off,
)
from evencover.groups import Groups, Label, checked_groups, cluster_codes, rows_by_code
from evencover.inputs.arrays import FloatArray, IntArray, checked_summable
from evencover.inputs.frames import take
from evencover.intervals import Intervals, IntervalUnion, bound_side
from evencover.quantiles import Level


class Note(NamedTuple):
    """A fact about what was tested, and what was not; `words` has a sentence for each kind."""

    kind: str
    values: Mapping[str, Any] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The coverage of intervals on test rows: in each group, and by the features. Returned by `audit`.

    The verdict is `even` if all groups are shown to lie within the tolerance of the level (`shown_within`). It is
    `uneven` if a group is off: its coverage is shown to differ from the level (its adjusted p-value is below 0.05 and
    its interval excludes the level) and is not shown to lie within the tolerance. The verdict is also `uneven` if all
    rows are off, because coverage can be the same in every group and still be wrong; and if the worst region is off,
    unless each group has its own threshold: then the verdict is on these groups, and the advice names the region.
    Otherwise it is `undecided`. `print` shows a table, the test results, the verdict and the advice.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        Verdict on these intervals, for these groups, at this level.
    table : tuple of GroupAudit
        The result for each group.
    joint_p_value : float
        The smallest Holm-adjusted p-value of the groups, all rows and the worst region.
    overall : GroupAudit
        The result for all rows.
    by_width : tuple of GroupAudit
        The result for each third of the rows by interval width (size-stratified coverage).
    by_feature : tuple of GroupAudit
        The result for the rows by each feature (feature-stratified coverage), Holm-adjusted for all of them. Rows that
        are a group by several features, such as a country and its code, are there once; see `GroupAudit.also`.
    worst_region : GroupAudit or None
        The values of the features with the lowest coverage, found by a decision tree on one half of the rows and
        tested on the other half, for under-coverage only. None without features, or if the tree finds no split.
    region_rule : str
        The worst region in columns and values, such as "carat > 1.02 and cut = Fair".
    excess_risk : ExcessRisk or None
        Whether the features predict which rows are covered.
    quality : Quality
        How wide the intervals are compared with those without any model, and what the predictions explain.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    sizes_known : bool
        Whether the numbers of calibration scores behind the thresholds are known.
    own_thresholds : bool
        Whether each of several groups has a threshold from known calibration rows of its own.
    evidence : {"calibration and test rows", "calibration rows", "test rows"}
        The rows behind the intervals of the groups. It is the test rows alone if they contradict the calibration rows,
        or if the calibration rows of each group are not known; and the calibration rows alone if these were tested in
        turn, as in a study.
    shown_within : float
        The smallest distance from the level within which all groups are shown to lie: the smallest tolerance for which
        they are even. Infinite if intervals are.
    split_at_random : bool
        Whether the test rows were split off at random from the same rows as the calibration rows; see `audit`.
    in_turn : bool
        Whether the test rows are the calibration rows, tested in turn, as in a study. Then the number of all covered
        rows is near the level by construction, and is not tested; nor are groups with thresholds of their own, whose
        law is known. Other rows are compared with those that have the same threshold. Coverage and scores are of the
        intervals in turn, widths of those of the model.
    raised : bool
        Whether tied scores, or points that replace empty intervals, raise the coverage. Then the law of the thresholds
        gives lower ends only.
    overall_by_law : bool
        Whether the estimate and the interval of all rows follow from the law of the thresholds.
    n_empty, n_infinite : int
        Number of empty intervals, and of infinite ones; of one-sided bounds, those that are infinite on both sides.
    n_untested : int
        Number of rows of a study whose intervals are infinite only in the test: the calibration rows behind it are too
        few, while all of them suffice for the model.
    seed : int
        Seed of the random draws.
    facts : tuple of Note
        What was tested and what was not; `notes` are their sentences.
    n_replaced : int
        Number of intervals that held no possible target, and were replaced by the nearest one; see `Bounded`.
    rows_needed : int, optional
        Number of calibration rows that finite intervals need, if some are infinite because a group has fewer.
    guaranteed : bool
        Whether the intervals are known to be calibrated: those of this package carry their guarantee.
    """

    verdict: Verdict
    table: tuple[GroupAudit, ...]
    joint_p_value: float
    overall: GroupAudit
    by_width: tuple[GroupAudit, ...]
    by_feature: tuple[GroupAudit, ...]
    worst_region: GroupAudit | None
    region_rule: str
    excess_risk: ExcessRisk | None
    quality: Quality
    level: float
    tolerance: float
    sizes_known: bool
    own_thresholds: bool
    evidence: RowsOfEvidence
    shown_within: float
    split_at_random: bool
    in_turn: bool
    raised: bool
    overall_by_law: bool
    n_empty: int
    n_infinite: int
    n_untested: int
    seed: int
    facts: tuple[Note, ...] = ()
    n_replaced: int = 0
    rows_needed: int | None = None
    guaranteed: bool = False

    @property
    def n_tested(self) -> int:
        """The number of rows that were tested."""
        return self.overall.rows - self.n_untested

    @property
    def explained_by_calibration(self) -> tuple[GroupAudit, ...]:
        """Groups whose interval excludes the level, possibly only because they have few calibration rows.

        More test rows cannot decide whether they are covered as guaranteed.
        """
        off = (row for row in self.table if excludes_level(row, self.level) and row.adjusted >= SIGNIFICANT)
        return tuple(row for row in off if row.within > self.tolerance and row.p_limit >= SIGNIFICANT)

    @property
    def off(self) -> tuple[GroupAudit, ...]:
        """The groups that are off, and the worst region if it is and groups have no thresholds of their own."""
        regions = [] if self.worst_region is None or self.own_thresholds else [self.worst_region]
        return tuple(row for row in (*self.table, *regions) if is_off(row, self.level, self.tolerance))

    @property
    def is_as_even_as_possible(self) -> bool:
        """Whether groups are not even only because some of them cannot be narrower."""
        return is_as_even_as_possible(self, self.overall)

    @property
    def is_off_everywhere(self) -> bool:
        """Whether all rows are off, and all groups about equally, as it is if intervals were never calibrated.

        Equally means that each group is nearer to the coverage of all rows than half of the distance between this
        coverage and the level, or is not shown to differ from it.
        """
        coverage, margin = self.overall.coverage, abs(self.overall.coverage - self.level) / 2
        near = (
            abs(row.coverage - coverage) <= margin or row.low <= coverage <= row.high for row in self.table if row.rows
        )
        return is_off(self.overall, self.level, self.tolerance) and all(near)

    @property
    def features_off(self) -> tuple[GroupAudit, ...]:
        """Rows by feature that are off, smallest p-value first."""
        off = (row for row in self.by_feature if is_off(row, self.level, self.tolerance))
        return tuple(sorted(off, key=lambda row: row.adjusted))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that tell what was tested and what was not."""
        from evencover.words.results import audit_notes

        return tuple(audit_notes(self))

    @property
    def headline(self) -> str:
        """The result in two sentences."""
        from evencover.words.answers import audit_headline

        return audit_headline(self)

    @property
    def advice(self) -> str:
        """What to do."""
        from evencover.words.advice import advice_on_audit

        return str(advice_on_audit(self))

    def __repr__(self) -> str:
        n = self.overall.rows
        return f"Audit({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        from evencover.words.results import audit_text

        return audit_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.results import audit_html

        return audit_html(self, self.advice)


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
        allowed. Bounds and targets are compared as float64: whole numbers that it would round raise an error.
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
    checked.check_index(y=y, X=X, groups=groups, clusters=clusters, prediction=prediction)
    _check_flags(split_at_random=split_at_random, tied_scores=False if tied_scores is None else tied_scores)
    n, guarantee, facts = len(checked), checked.guarantee, []
    if clusters is None and guarantee is not None and guarantee.for_new_clusters:
        facts.append(Note("treated as independent"))
    if clusters is not None:
        chosen = random_row_of_each(cluster_codes(clusters, n, matched="the intervals"), settings.seed)
        if len(chosen) < n:
            facts.append(Note("one row of each cluster", {"rows": n, "clusters": len(chosen)}))
            y = checked_summable(y, "y", length=n, matched="the intervals")[chosen]
            groups = None if groups is None else checked_groups(groups, n, "the intervals")[chosen]
            checked, X, prediction = checked[chosen], take(X, chosen), take(prediction, chosen)
    scope = Scope.of(checked, groups, X, settings.seed)
    target = checked_summable(y, "y", length=len(checked), matched="the intervals")
    return audit_rows(
        target,
        checked,
        replace(scope, facts=(*scope.facts, *facts)),
        settings,
        quality=quality(target, checked, prediction=prediction, level=settings.level),
        calibration_sizes=calibration_sizes,
        diagnosis=diagnosis,
        tied_scores=tied_scores,
        split_at_random=split_at_random,
    )


@dataclass(frozen=True, eq=False)
class Scope:
    """The groups and features of an audit.

    Parameters
    ----------
    groups : Groups of n rows
        The groups.
    search : FeatureSearch or None
        The features to search.
    features_given : bool
        Whether the user gave the features; otherwise they are the interval's center.
    facts : tuple of Note
        What was chosen by default.
    """

    groups: Groups
    search: FeatureSearch | None = None
    features_given: bool = False
    facts: tuple[Note, ...] = ()

    @classmethod
    def of(cls, intervals: Intervals | IntervalUnion, groups: Any, X: Any, seed: int) -> "Scope":
        """Return the given groups, those stored in the intervals, or else thirds by width or by center.

        X is a table, or a `FeatureSearch` that serves several audits of the same rows.
        """
        n, stored, search = len(intervals), getattr(intervals, "groups", None), X
        if X is not None and not isinstance(X, FeatureSearch):
            search = FeatureSearch.of(features_of(X), n, seed)
        if groups is not None:
            return cls(checked_groups(groups, n, "the intervals"), search, X is not None)
        if stored is not None and len(stored.labels) > 1:
            return cls(stored, search, X is not None)
        return cls._by_default(intervals, search, seed)

    @classmethod
    def _by_default(cls, intervals: Intervals | IntervalUnion, search: FeatureSearch | None, seed: int) -> "Scope":
        """Return the strata of the default feature. Without features, the center or the bound is searched."""
        center, side, (feature, kind) = center_feature(intervals), bound_side(intervals), default_feature(intervals)
        facts = []
        if kind == side:
            facts = [Note("groups by bound", {"side": side})]
        elif are_equal(intervals.width):
            kind = "equal widths, one group" if center is None else "equal widths, groups by center"
            facts = [Note(kind, {"width": float(np.median(intervals.width))}), Note("noise not assessed")]
        if center is None or search is not None:
            return cls(feature.strata, search, search is not None, tuple(facts))
        facts.append(Note("center searched") if side is None else Note("bound searched", {"side": side}))
        return cls(feature.strata, FeatureSearch.of([center], len(intervals), seed), facts=tuple(facts))


def audit_rows(
    y: FloatArray,
    intervals: Intervals | IntervalUnion,
    scope: Scope,
    settings: Settings,
    *,
    quality: Quality,
    calibration_sizes: Any = None,
    diagnosis: Diagnosis | None = None,
    tied_scores: bool | None = None,
    split_at_random: bool = False,
    others: OtherThresholds | None = None,
) -> Audit:
    """Return the audit of checked rows, whose quality was measured; see `audit` for the other parameters.

    If other thresholds tested the rows than those of the model, coverage and scores are those of the given intervals,
    and widths those of the model.
    """
    groups = scope.groups
    without_group = np.count_nonzero(groups.codes < 0)
    if without_group:
        raise ValueError(f"groups must have a group for every row; rows without one: {without_group} of {len(y)}")
    codes, pools = calibration_pool_of_rows(intervals, groups, calibration_sizes, settings.level)
    of_model = intervals if others is None else others.intervals
    rows = RowsInMemory.of(y, intervals, settings.level, codes, others)
    pools = replace(pools, strata=rows.strata_among(np.arange(len(y))))
    by_feature, region, region_rule, risk = _feature_findings(rows, pools, scope)
    pools = replace(
        pools,
        raised=is_raised(of_model, of_model.n_replaced) if tied_scores is None else tied_scores,
        calibration=None if diagnosis is None else calibration_counts(diagnosis, groups, pools),
    )
    all_rows = rows.totals(np.arange(len(y)))
    by_width = width_feature(of_model.width).strata
    counts = AuditCounts(rows.by_group(groups), rows.by_group(by_width), all_rows)
    return Audit(
        **judged(counts, pools, region, tolerance=settings.tolerance, split_at_random=split_at_random),
        by_feature=() if scope.search is None else _once_each(holm_adjusted(by_feature), scope.search.features),
        region_rule=region_rule,
        excess_risk=risk,
        quality=quality,
        level=float(settings.level),
        tolerance=settings.tolerance,
        sizes_known=pools.known,
        n_replaced=of_model.n_replaced,
        rows_needed=pools.rows_needed(all_rows),
        guaranteed=intervals.guarantee is not None,
        seed=settings.seed,
        facts=(*scope.facts, *([Note("thresholds from clusters")] if pools.clustered else [])),
    )


def _feature_findings(
    rows: RowsInMemory, pools: CalibrationPools, scope: Scope
) -> tuple[Sequence[GroupAudit], GroupAudit | None, str, ExcessRisk | None]:
    """Return coverage by each feature; then the worst region with its rule, and the excess risk, on half of the rows.

    The excess risk needs given features: a classifier that sees only the center finds no more than the region does.
    """
    search = scope.search
    if search is None:
        return (), None, "", None
    by_feature = [row for each in search.features for row in pools.audits(rows.by_group(each.strata))]
    risk = None
    if scope.features_given and search.features:
        first, second = map(rows.tested_among, search.halves)
        risk = excess_risk(search.matrix, rows.covered, (first, second), float(pools.level), search.generator())
    region = search.worst_region(rows.covered)
    if region is None:
        return by_feature, None, "", risk
    _, second = search.halves
    compared = replace(pools, strata=rows.strata_among(second))  # rows that the search has seen do not count
    inside = compared.audit("worst region", rows.totals(second[region.contains()[second]]))
    return by_feature, inside, region.rule(), risk


def _once_each(by_feature: Sequence[GroupAudit], features: Sequence[Feature]) -> tuple[GroupAudit, ...]:
    """Return the first group of each set of rows, with the others that hold the same rows; empty groups stay."""
    first: dict[Any, GroupAudit] = {}
    also: dict[Any, list[Label]] = {}
    members = [each for feature in features for each in _members(feature.strata)]
    for row, rows in zip(by_feature, members, strict=True):
        key = blake2b(rows.tobytes()).digest() if len(rows) else row.group
        if key in first:
            also[key].append(row.group)
        else:
            first[key], also[key] = row, []
    return tuple(replace(row, also=tuple(also[key])) if also[key] else row for key, row in first.items())


def _members(groups: Groups) -> Iterator[IntArray]:
    """Yield the positions of the rows of each group."""
    rows = dict(rows_by_code(groups.codes, len(groups.labels)))
    return (rows.get(code, np.empty(0, dtype=np.intp)) for code in range(len(groups.labels)))


def _check_flags(**flags: Any) -> None:
    """Raise TypeError unless each flag is True or False: a text such as "no" would count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be True or False; got {value!r}")


def is_raised(intervals: Intervals | IntervalUnion, n_replaced: int) -> bool:
    """Return whether ties at a threshold, or points that replace empty intervals, raise the coverage."""
    return n_replaced > 0 or (intervals.guarantee is not None and bool(intervals.guarantee.tied))


def audit_of_counts(sampled: Audit, counts: AuditCounts, pools: CalibrationPools) -> Audit:
    """Return the audit of a sample with the counts of all rows, and the tests and the verdict from them."""
    found = judged(
        counts,
        pools,
        sampled.worst_region,
        tolerance=sampled.tolerance,
        split_at_random=sampled.split_at_random,
    )
    everything = counts.all_rows
    measured = replace(
        sampled.quality,
        rows=everything.rows,
        coverage=everything.covered / everything.rows,
        mean_width=everything.width,
        n_infinite=everything.n_infinite,
        interval_score=everything.score,
    )
    return replace(sampled, **found, quality=measured)


def calibration_counts(diagnosis: Diagnosis, groups: Groups, pools: CalibrationPools) -> CalibrationCounts | None:
    """Return the calibration rows of the audited groups; None if they do not tell the coverage.

    That is so if the threshold is infinite, or if points replace empty intervals, which raises the coverage.

    Raise TypeError if it is no diagnosis, and ValueError if it cannot be that of the intervals: other groups, another
    level, other thresholds.
    """
    if not isinstance(diagnosis, Diagnosis):
        raise TypeError(f"diagnosis must be a Diagnosis, the result of diagnose; got {type(diagnosis).__name__}")
    if pools.clustered:
        raise ValueError("diagnosis must be left out: these thresholds come from clusters, which it does not know")
    level, sizes, n = pools.level, pools.sizes, len(diagnosis.inputs.scores)
    if len(sizes) > 1 or sizes[0] not in (None, n):
        raise ValueError(
            "diagnosis must be that of the one threshold of these intervals; it has "
            f"{n} calibration rows, the thresholds have {', '.join(map(str, sizes))}"
        )
    own, other = tuple(groups.labels), tuple(diagnosis.inputs.groups.labels)
    if own != other:
        raise ValueError(f"diagnosis must have the groups of the audit: {list(own)}; got {list(other)}")
    if diagnosis.level != float(level):
        raise ValueError(f"diagnosis must have the level of the audit, {float(level):g}; got {diagnosis.level:g}")
    marginal = diagnosis.inputs.marginal_threshold(level)
    return marginal.counts if np.isfinite(marginal.threshold) and not marginal.replaces_empty else None
