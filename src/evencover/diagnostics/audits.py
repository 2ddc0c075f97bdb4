"""After: where did these intervals miss, whoever made them, and is that chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, IntArray, check_count, checked_vector, is_count
from evencover.diagnostics._advice import advice_on_audit
from evencover.diagnostics._exact_tests import (
    covered_law,
    holm,
    limiting_p_value,
    lower_share,
    tails,
    two_sided,
    upper_share,
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

_DIGITS = 9  # to which widths are compared


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
    """Return where intervals missed, and whether that is chance.

    Intervals of a valid split predictor scatter with its calibration rows: among m rows of a group, with n calibration
    scores behind their threshold, BetaBinomial(m, k, n + 1 − k) are covered, k the conformal rank. A binomial test
    takes that scatter for a fault. So where n is known the tests are BetaBinomial; where not, the result says that its
    p-values are for this calibration as it is.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets that neither model nor calibration have seen.
    intervals : Intervals, array-like of shape (n, 2), or pair of arrays of shape (n,)
        From this package or any other: lower and upper bounds. Infinite and empty ones (lower > upper, NaN) are legal.
    X : table of n rows, optional
        Features, to look for rows that are missed more often: by each feature, in the worst slab, by a classifier.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row. By default those that the intervals were made with, if several; else thirds by width.
    level : float, optional
        Nominal coverage; by default the one the intervals carry, else 0.9.
    tolerance : float
        Distance from the level that counts as even.
    calibration_sizes : int or mapping from label to int, optional
        Calibration scores behind the threshold: of all rows, or of each group. Our own intervals carry them.
    seed : int
        Of the halves, slabs and permutations with X.

    Returns
    -------
    Audit
        With `verdict`, `advice`, `table`; printed, it is a page of text.

    Examples
    --------
    >>> from evencover import calibrate
    >>> from evencover.synthetic import heteroskedastic
    >>> old, new = heteroskedastic(2000, seed=0), heteroskedastic(2000, seed=1)
    >>> intervals = calibrate(old.y, old.mean).interval(new.mean)
    >>> audit(new.y, intervals, groups=new.spread > np.median(new.spread)).verdict
    'uneven'
    """
    made = _checked_intervals(intervals)
    settings = checked_settings(_level_of(made) if level is None else level, tolerance, seed)
    asked = _groups_of(made) if groups is None else checked_groups(groups, len(made), "the intervals")
    if (asked.codes < 0).any():
        raise ValueError(f"groups must hold every row; {np.count_nonzero(asked.codes < 0)} are left out")
    target = checked_vector(y, "y", length=len(made))
    evidence = _Evidence.of(target, made, _pools(made, asked, calibration_sizes), settings.level)
    told = _FeatureFindings() if X is None else _feature_findings(evidence, X, settings.seed)
    overall = evidence.of_rows("all rows", np.arange(len(made)))
    family = _Family.of(evidence.by(asked), overall, told.slab)
    found = Audit(
        verdict=verdict(
            family.groups, family.joint_p_value, settings.level, settings.tolerance, also=family.also(settings.level)
        ),
        advice="",
        table=family.groups,
        joint_p_value=family.joint_p_value,
        overall=family.overall,
        by_width=_adjusted(evidence.by(_by_width(made))),
        by_feature=_adjusted(told.by_feature),
        slab=family.slab,
        slab_rule=told.slab_rule,
        excess_risk=told.risk,
        level=float(settings.level),
        tolerance=settings.tolerance,
        sizes_known=evidence.pools.known,
        n_empty=int(np.count_nonzero(_empty(made))),
        n_infinite=int(np.count_nonzero(np.isinf(made.width))),
        seed=settings.seed,
    )
    return replace(found, advice=advice_on_audit(found))


@dataclass(frozen=True, eq=False)
class _Pools:
    """Which calibration scores are behind each row's threshold: the pool of each row, and the pools' sizes if known."""

    codes: IntArray
    sizes: tuple[int | None, ...]

    @property
    def known(self) -> bool:
        """Whether any is; rows of others, of which nothing is promised, are then not tested."""
        return any(size is not None for size in self.sizes)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What is known of each row: whether it is covered, the width and score of its interval, its pool."""

    covered: BoolArray
    widths: FloatArray
    scores: FloatArray
    pools: _Pools
    level: Fraction

    @classmethod
    def of(cls, y: FloatArray, made: Intervals | IntervalUnion, pools: _Pools, level: Fraction) -> "_Evidence":
        scores = interval_scores(y, made, level) if isinstance(made, Intervals) else np.full(len(y), np.nan)
        return cls(made.covers(y), made.width, scores, pools, level)

    def by(self, groups: Groups) -> list[GroupAudit]:
        """Return the audit of each group."""
        rows = dict(rows_by_code(groups.codes, len(groups.labels)))
        nothing = np.empty(0, dtype=np.intp)
        return [self.of_rows(label, rows.get(code, nothing)) for code, label in enumerate(groups.labels)]

    def of_rows(self, name: Label, rows: IntArray) -> GroupAudit:
        """Return the audit of some rows, as one group."""
        n, covered = len(rows), int(np.count_nonzero(self.covered[rows]))
        counts = np.bincount(self.pools.codes[rows], minlength=len(self.pools.sizes)).tolist()
        pools = [(m, size) for m, size in zip(counts, self.pools.sizes, strict=True) if m]
        promised = not self.pools.known or all(size is not None for _, size in pools)
        under, over = tails(covered_law(pools, self.level), covered) if n and promised else (np.nan, np.nan)
        share, width, score = (
            float(each[rows].mean()) if n else np.nan for each in (self.covered, self.widths, self.scores)
        )
        low, high = float(lower_share(covered, n)), float(upper_share(covered, n))
        limit = limiting_p_value(pools, self.level, share) if n and promised else np.nan
        return GroupAudit(name, n, share, low, high, under, over, float(two_sided(under, over)), limit, width, score)


@dataclass(frozen=True)
class _Family:
    """What is tested together: the groups; all rows, unless they are the one group; the worst slab, if there is one."""

    groups: tuple[GroupAudit, ...]
    overall: GroupAudit
    slab: GroupAudit | None

    @classmethod
    def of(cls, groups: Sequence[GroupAudit], overall: GroupAudit, slab: GroupAudit | None) -> "_Family":
        """Return the family, adjusted for its size."""
        alone = sum(row.rows > 0 for row in groups) < 2
        tested = _adjusted([*groups, *([] if slab is None else [slab]), *([] if alone else [overall])])
        n = len(groups)
        return cls(tested[:n], overall if alone else tested[-1], None if slab is None else tested[n])

    @property
    def joint_p_value(self) -> float:
        """The smallest of all."""
        every = [*self.groups, self.overall, *([] if self.slab is None else [self.slab])]
        return float(np.nanmin([1.0, *(row.adjusted for row in every)]))

    def also(self, level: Level) -> list[GroupAudit]:
        """Return what can show unevenness besides the groups; the slab, chosen as the worst, only if it is low."""
        low = [] if self.slab is None or self.slab.high >= level else [self.slab]
        return [self.overall, *low]


@dataclass(frozen=True)
class _FeatureFindings:
    """What the features tell."""

    by_feature: Sequence[GroupAudit] = ()
    slab: GroupAudit | None = None
    slab_rule: str = ""
    risk: ExcessRisk | None = None


def _feature_findings(evidence: _Evidence, X: Any, seed: int) -> _FeatureFindings:
    """Return coverage by each feature; and, found on one half of the rows and judged on the other, what all tell."""
    search = FeatureSearch.of(X, len(evidence.covered), seed)
    features = search.features
    by_feature = [row for feature in features.columns for row in evidence.by(feature.strata)]
    slab = search.worst_slab(evidence.covered)
    if slab is None:
        return _FeatureFindings(by_feature)
    _, second = search.halves
    inside = evidence.of_rows("worst slab", second[slab.holds(features.matrix)[second]])
    # Both halves share the calibration: with several thresholds, the first half finds the one that came out lowest.
    inside = replace(inside, adjusted=min(1.0, inside.p_under * len(evidence.pools.sizes)))
    risk = excess_risk(features.matrix, evidence.covered, search.halves, float(evidence.level), search.generator())
    return _FeatureFindings(by_feature, inside, slab.rule(features.columns), risk)


def _adjusted(rows: Sequence[GroupAudit]) -> tuple[GroupAudit, ...]:
    """Return rows with their p-values adjusted for the number of rows."""
    adjusted, limits = (holm(np.array([getattr(row, name) for row in rows])) for name in ("adjusted", "p_limit"))
    both = zip(rows, adjusted.tolist(), limits.tolist(), strict=True)
    return tuple(replace(row, adjusted=p, p_limit=limit) for row, p, limit in both)


def _checked_intervals(intervals: Any) -> Intervals | IntervalUnion:
    """Return anyone's intervals as ours, for one level."""
    if not isinstance(intervals, Intervals | IntervalUnion):
        intervals = _from_bounds(intervals)
    made: Intervals | IntervalUnion = intervals
    if made.width.ndim > 1:
        n_levels = made.width.shape[1]
        raise ValueError(
            f"intervals must be for one level, such as Intervals(lower[:, 0], upper[:, 0]); got {n_levels}"
        )
    if not len(made):
        raise ValueError("intervals must hold rows to audit; got none")
    return made


def _from_bounds(bounds: Any) -> Intervals:
    """Return the intervals of a pair of bounds, or of an array with a row for each."""
    pair = isinstance(bounds, tuple) and len(bounds) == 2
    try:
        arrays = [np.asarray(each, dtype=float) for each in (bounds if pair else [bounds])]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"intervals must hold numbers, in an array of shape (n, 2) or a pair (lower, upper): {error}"
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
    made = Intervals(*arrays)
    if len(made) and np.all(made.lower > made.upper):
        raise ValueError(f"intervals must have lower <= upper; all {len(made)} are the other way: swapped?")
    return made


def _level_of(made: Intervals | IntervalUnion) -> Level:
    """Return the level that intervals carry, else 0.9."""
    return 0.9 if made.level is None else made.level  # type: ignore[return-value]


def _groups_of(made: Intervals | IntervalUnion) -> Groups:
    """Return the groups that intervals were made with, if several; else thirds by width."""
    carried = getattr(made, "groups", None)
    return carried if carried is not None and len(carried.labels) > 1 else _by_width(made)


def _by_width(made: Intervals | IntervalUnion) -> Groups:
    """Return thirds by width, or the few widths there are; equal but for rounding is equal."""
    unit = np.max(made.width, initial=0.0, where=np.isfinite(made.width)) or 1.0
    return Feature("width", np.round(made.width / unit, _DIGITS) * unit).strata


def _pools(made: Intervals | IntervalUnion, groups: Groups, sizes: Any) -> _Pools:
    """Return the pool behind each row's threshold: as told, as the intervals carry it, or one of unknown size."""
    guarantee, carried = made.guarantee, getattr(made, "groups", None)
    if isinstance(sizes, Mapping):
        lacking = [label for label in groups.labels if not is_count(sizes.get(label))]
        if lacking:
            raise ValueError(f"calibration_sizes must have a positive whole number for each group; not for {lacking}")
        return _Pools(groups.codes, tuple(int(sizes[label]) for label in groups.labels))
    if sizes is not None:
        check_count(sizes, "calibration_sizes")
        return _Pools(np.zeros(len(made), dtype=np.intp), (int(sizes),))
    if guarantee is not None and guarantee.exact and carried is not None:
        return _Pools(carried.codes, tuple(guarantee.sizes.get(label) for label in carried.labels))
    if guarantee is not None and guarantee.exact and guarantee.kind == "marginal" and isinstance(made, Intervals):
        return _Pools(np.zeros(len(made), dtype=np.intp), tuple(guarantee.sizes.values()))
    return _Pools(np.zeros(len(made), dtype=np.intp), (None,))


def _empty(made: Intervals | IntervalUnion) -> BoolArray:
    pieces = made.pieces if isinstance(made, IntervalUnion) else [made]
    return np.asarray(np.all([piece.empty for piece in pieces], axis=0))
