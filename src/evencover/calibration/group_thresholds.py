"""Calibrators with a threshold for each group of a taxonomy (`ByGroup`), or for each group and tail (`TwoTails`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from evencover.calibration.calibration import Calibration, Seed, Unseen, calibrate_rows, scored_rows
from evencover.groups import Groups
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import BoolArray, FloatArray, is_on_device, on_host
from evencover.inputs.device_arrays import namespace
from evencover.intervals import Intervals, IntervalUnion
from evencover.quantiles import Levels, level_fraction, level_fractions
from evencover.rows import Rows
from evencover.scores.evaluation import with_nearest_targets
from evencover.scores.one_sided import OneSided, Side
from evencover.scores.score import Nonconformity, Score, states
from evencover.scores.support import Bounded, support_of
from evencover.taxonomies import Marginal, Taxonomy, fresh_taxonomy


class ByGroup(BaseEstimator):  # type: ignore[misc]
    """One threshold for each group of a taxonomy; ``ConformalRegressor(..., taxonomy=T)`` uses ``ByGroup(T)``.

    If calibration rows and new rows are exchangeable, then in every group an interval covers a new row with probability
    at least the level.

    Parameters
    ----------
    taxonomy : taxonomy, optional
        `Marginal()` by default: one threshold for all rows.
    bits : int, optional
        Keep only a histogram of each group's scores, rounded up to so many binary digits after the leading one, 0 to
        52: the file of a calibrated model does not grow with the calibration rows, and merged parts give the same
        thresholds as all rows at once. With 10, thresholds are at most 0.1 % too large; with 52, they are exact.
        Weights and clusters need the scores.

    Examples
    --------
    >>> from evencover import BySpread, Prediction, Residual
    >>> rows = Rows(Prediction(np.zeros(4), spread=[1.0, 1.0, 2.0, 2.0]), y=[1.0, 2.0, 3.0, 5.0])
    >>> ByGroup(BySpread(edges=[1.5])).learn(rows, Residual()).calibration
    Calibration(Residual(); rows: low 2, high 2)
    """

    takes_weights = takes_clusters = True
    bits: int | None = None  # of objects from files of version 4, which have none

    def __init__(self, taxonomy: Taxonomy | None = None, *, bits: int | None = None) -> None:
        self.taxonomy = taxonomy
        self.bits = bits

    def learn(self, rows: Rows, nonconformity: Nonconformity) -> "GroupThresholds":
        """Learn the groups from the calibration rows and return them with their scores."""
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        groups = learned_groups(taxonomy, rows)
        return GroupThresholds(taxonomy, calibrate_rows(rows, nonconformity, groups, bits=self.bits))

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> "GroupThresholds":
        """Return the calibrated groups from what their `state` returned."""
        return GroupThresholds(state["taxonomy"], Calibration.from_state(state, nonconformity))


def learned_groups(taxonomy: Taxonomy, rows: Rows) -> Groups:
    """Let a taxonomy learn from calibration rows, and return their groups."""
    if getattr(taxonomy, "needs_target", False) and is_on_device(rows.prediction.center):
        raise ValueError(f"groups of the target need arrays of numpy, and these are on a device; got {taxonomy!r}")
    return taxonomy.learn(rows)


@dataclass(frozen=True, eq=False)
class LearnedGroups:
    """The groups of a taxonomy and the calibration scores of each: what calibrators with groups have learned.

    Parameters
    ----------
    taxonomy : taxonomy
        The taxonomy, which has learned its groups.
    calibration : Calibration
        The scores of each group, or a histogram of them, which `diagnose` uses.
    """

    taxonomy: Taxonomy
    calibration: Calibration
    takes_unseen: ClassVar[bool] = True

    @property
    def nonconformity(self) -> Nonconformity:
        """The score, or one for each group."""
        return self.calibration.nonconformity

    @property
    def nested(self) -> bool:
        """Whether intervals at larger levels contain those at smaller levels: yes, unless the score is `Bounded`.

        The point that replaces an interval without possible targets can be outside the interval at a larger level.
        """
        return support_of(self.nonconformity) is None

    @property
    def scores(self) -> FloatArray:
        """The scores of the calibration rows, in the order of the rows; a histogram has none. Shape (n,)."""
        return self.calibration.scores

    def groups(self, rows: Rows) -> Groups:
        """Return the groups of new rows."""
        return self.taxonomy.assign(rows)

    def used_calibrations(self, levels: tuple[Fraction, ...]) -> list[tuple[Calibration, tuple[Fraction, ...]]]:
        """Return the calibrations whose thresholds intervals use, with their levels: one, or one for each tail."""
        return [(self.calibration, levels)]

    def infinite_thresholds(self, rows: Rows, level: Fraction, *, unseen: Unseen = "error") -> BoolArray:
        """Return which rows have an infinite threshold, if only in one tail. Shape (m,)."""
        groups, infinite = self.groups(rows), np.zeros(len(rows), dtype=bool)
        for calibration, levels in self.used_calibrations((level,)):
            (thresholds,) = calibration.assignment(groups, unseen).thresholds(levels, None)
            infinite |= np.isinf(thresholds)
        return infinite


@dataclass(frozen=True, eq=False)
class GroupThresholds(LearnedGroups):
    """One threshold for each group, made by `ByGroup`."""

    @property
    def distribution_calibration(self) -> Calibration:
        """The scores of predictive distributions."""
        return self.calibration

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""
        return self.calibration.guarantee

    def intervals(
        self, rows: Rows, levels: tuple[Fraction, ...], *, unseen: Unseen = "error"
    ) -> Intervals | IntervalUnion:
        """Return the targets whose score is at most the threshold of their group. Bounds of shape (m, L).

        If the taxonomy depends on the target, the result is a union. Each group contributes the targets that belong to
        it and whose score is at most its threshold.
        """
        if not getattr(self.taxonomy, "needs_target", False):
            return self.calibration.intervals_at(levels, rows, self.groups(rows), unseen)
        pieces = [self._piece(rows, levels, unseen, *bounds) for bounds in self._target_ranges()]
        return pieces[0] if len(pieces) == 1 else IntervalUnion(pieces)

    def p_values(self, rows: Rows, *, seed: Seed = None, unseen: Unseen = "error") -> FloatArray:
        """Return the p-value of each row's target in its group; see `Calibration.p_values`. Shape (m,)."""
        return self.calibration.p_values_of(rows, self.groups(rows), unseen, seed)

    def merge(self, *others: "GroupThresholds") -> "GroupThresholds":
        """Return one object for the calibration rows of all parts, which must have the same groups, edges included."""
        return replace(self, calibration=self.calibration.merge(*(other.calibration for other in others)))

    def state(self) -> dict[str, Any]:
        """Return the taxonomy, and the arrays and values of the calibration, by name."""
        return {"taxonomy": self.taxonomy, **self.calibration.state()}

    def _piece(self, rows: Rows, levels: tuple[Fraction, ...], unseen: Unseen, low: float, high: float) -> Intervals:
        """Return the part of each row's prediction set that lies between two targets, where the group is constant."""
        inside = replace(rows, y=np.full(len(rows), high if np.isfinite(high) else max(low, 0.0)))
        piece = self.calibration.intervals_at(levels, inside, self.groups(inside), unseen)
        lower, upper = np.maximum(piece.lower, low), np.minimum(piece.upper, high)
        return replace(piece, lower=lower, upper=upper, replaced=piece.replaced & (lower <= upper))

    def _target_ranges(self) -> list[tuple[float, float]]:
        """Return the closed ranges of the target, as (low, high), within which no row changes its group."""
        edges = self.taxonomy.target_edges_.tolist()
        lows = [-np.inf, *(float(np.nextafter(edge, np.inf)) for edge in edges)]
        return list(zip(lows, [*edges, np.inf], strict=True))


class TwoTails(BaseEstimator):  # type: ignore[misc]
    """One threshold for each tail and group, so that each end of the intervals misses its own share of the targets.

    One threshold for both tails guarantees how many targets the intervals miss, but not on which side: with skewed
    noise, nearly all of them can lie above. Here, the lower bound is that of `OneSided` at the level
    1 − lower_share (1 − level), and the upper bound that at the level 1 − (1 − lower_share) (1 − level). At level 0.9,
    at most 5 % of the targets are below their interval and at most 5 % above it.

    If calibration rows and new rows are exchangeable, this holds in every group. So an interval covers a new row of the
    group with probability at least the level. For scores whose tails are opposite numbers, such as `Residual` and
    `Normalized`, the interval lies between two order statistics of the signed score. If also no scores are tied, the
    number covered among m new rows is BetaBinomial(m, g, n + 1 − g) with g = k_l + k_u − n − 1, where k_l and k_u are
    the conformal ranks of the two tails in a group of n calibration rows. For other scores the coverage can be larger.
    An end is infinite if the group has too few rows for the level of its tail: at level 0.9 with equal shares, fewer
    than 19. The ends can cross. The interval is then empty or, with a score that is `Bounded`, the nearest possible
    target.

    With `IntervalDistance` this is asymmetric conformalized quantile regression; with `Normalized`, signed standardised
    residuals. `Standardized` is treated as `Normalized`. A score of your own without tails is used as in `OneSided`.

    Parameters
    ----------
    taxonomy : taxonomy, optional
        `Marginal()` by default: two thresholds for all rows.
    lower_share : float
        The share of 1 − level that may lie below the intervals; the other part may lie above them.

    References
    ----------
    Romano, Patterson, Candès (2019), Conformalized quantile regression, theorem 2.

    Linusson, Johansson, Löfström (2014), Signed-error conformal regression.

    Examples
    --------
    >>> from evencover import Prediction, Residual
    >>> rows = Rows(Prediction(np.zeros(9)), y=[-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0])
    >>> TwoTails().learn(rows, Residual()).intervals(rows[0], (Fraction(1, 2),))
    Intervals(1 rows, mean width 9)
    """

    takes_weights = takes_clusters = True

    def __init__(self, taxonomy: Taxonomy | None = None, *, lower_share: float = 0.5) -> None:
        self.taxonomy = taxonomy
        self.lower_share = lower_share

    def learn(self, rows: Rows, nonconformity: Nonconformity) -> "TailThresholds":
        """Learn the groups from the calibration rows and return them with the scores of both tails."""
        share = _checked_share(self.lower_share)
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        groups = learned_groups(taxonomy, rows)
        both = calibrate_rows(rows, _each_score(nonconformity, as_two_sided), groups)
        lower, upper = (scored_rows(rows, tail, groups) for tail in _tails(both.nonconformity))
        return TailThresholds(taxonomy, both, lower, upper, share)

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> "TailThresholds":
        """Return the calibrated tails from what their `state` returned."""
        parts = zip(("scores", "lower_scores", "upper_scores"), (nonconformity, *_tails(nonconformity)), strict=True)
        both, below, above = (Calibration.from_state({**state, "scores": state[name]}, score) for name, score in parts)
        return TailThresholds(state["taxonomy"], both, below, above, _checked_share(self.lower_share))


@dataclass(frozen=True, eq=False)
class TailThresholds(LearnedGroups):
    """One threshold for each group and tail, made by `TwoTails`; intervals do not depend on the two-sided scores.

    Parameters
    ----------
    taxonomy, calibration
        The groups, and the two-sided scores of each.
    lower, upper : Calibration
        The scores of each tail.
    lower_share : Fraction
        The share of 1 − level that may lie below the intervals.
    """

    lower: Calibration
    upper: Calibration
    lower_share: Fraction

    def __post_init__(self) -> None:
        for name, share in (("lower", self.lower_share), ("upper", 1 - self.lower_share)):
            object.__setattr__(self, name, replace(getattr(self, name), tail_share=share))

    @property
    def distribution_calibration(self) -> Calibration:
        """The scores of predictive distributions, which increase with the target."""
        return self.upper

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee, also for each tail."""
        return self._with_tails(self.calibration.guarantee)

    def thresholds(self, level: Levels) -> tuple[FloatArray, FloatArray]:
        """Return the thresholds of the lower and of the upper tail. Shape (n_groups,) or (n_groups, L) each.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage of the intervals.
        """
        lower, upper = self.tail_levels(level_fractions(level))
        tables = self.lower.threshold(lower), self.upper.threshold(upper)
        return tables if np.ndim(level) else (tables[0][:, 0], tables[1][:, 0])  # type: ignore[arg-type]

    def intervals(
        self, rows: Rows, levels: tuple[Fraction, ...], *, unseen: Unseen = "error"
    ) -> Intervals | IntervalUnion:
        """Return the targets with a score of at most the threshold in both tails. Bounds of shape (m, L).

        If the taxonomy depends on the target, the result is a union with one piece for each group.
        """
        lower, upper = (
            each.intervals(rows, own_levels, unseen=unseen)
            for each, own_levels in zip(self._sides(), self.tail_levels(levels), strict=True)
        )
        if isinstance(lower, IntervalUnion) and isinstance(upper, IntervalUnion):
            pairs = zip(lower.pieces, upper.pieces, strict=True)
            return IntervalUnion([self._intersection(*pair) for pair in pairs])
        intervals = self._intersection(lower, upper)  # type: ignore[arg-type]
        if support_of(self.nonconformity) is None:
            return intervals
        codes = self.groups(rows).codes_among(self.calibration.labels)
        return with_nearest_targets(self.nonconformity, self.calibration.labels, intervals, rows.prediction, codes)

    def p_values(self, rows: Rows, *, seed: Seed = None, unseen: Unseen = "error") -> FloatArray:
        """Return the p-value of each row's target, ``min(1, p_lower / share, p_upper / (1 − share))``. Shape (m,).

        p_lower and p_upper are the p-values of the two tails; see `Calibration.p_values`. If calibration and new rows
        are exchangeable, P(p <= u) <= u for every u.
        """
        lower, upper = (each.p_values(rows, seed=seed, unseen=unseen) for each in self._sides())
        xp = namespace(lower)
        smaller = xp.minimum(lower / float(self.lower_share), upper / float(1 - self.lower_share))
        return xp.where(smaller < 1.0, smaller, xp.ones_like(smaller))  # type: ignore[no-any-return]

    def merge(self, *others: "TailThresholds") -> "TailThresholds":
        """Return one object for the calibration rows of all parts, which must have the same groups and shares."""
        for other in others:
            if other.lower_share != self.lower_share:
                shares = f"{self.lower_share} and {other.lower_share}"
                raise ValueError(f"merge needs calibrations with the same lower_share; got {shares}")
        return replace(
            self,
            calibration=self.calibration.merge(*(other.calibration for other in others)),
            lower=self.lower.merge(*(other.lower for other in others)),
            upper=self.upper.merge(*(other.upper for other in others)),
        )

    def state(self) -> dict[str, Any]:
        """Return the taxonomy, the two-sided calibration and the scores of both tails, by name."""
        tails = {"lower_scores": on_host(self.lower.scores), "upper_scores": on_host(self.upper.scores)}
        return {"taxonomy": self.taxonomy, **self.calibration.state(), **tails}

    def _sides(self) -> tuple[GroupThresholds, GroupThresholds]:
        return GroupThresholds(self.taxonomy, self.lower), GroupThresholds(self.taxonomy, self.upper)

    def used_calibrations(self, levels: tuple[Fraction, ...]) -> list[tuple[Calibration, tuple[Fraction, ...]]]:
        """Return the calibration of the lower and of the upper tail, with their levels."""
        return list(zip((self.lower, self.upper), self.tail_levels(levels), strict=True))

    def tail_levels(self, levels: tuple[Fraction, ...]) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """Return the levels of the lower and of the upper tail: 1 − share × (1 − level)."""
        shares = self.lower_share, 1 - self.lower_share
        lower, upper = (tuple(1 - share * (1 - level) for level in levels) for share in shares)
        return lower, upper

    def _intersection(self, lower: Intervals, upper: Intervals) -> Intervals:
        """Return the targets in both of the one-sided intervals, with the guarantee for both tails."""
        xp = namespace(lower.lower)
        bounds = xp.maximum(lower.lower, upper.lower), xp.minimum(lower.upper, upper.upper)
        return replace(
            lower,
            lower=bounds[0],
            upper=bounds[1],
            replaced=(lower.replaced | upper.replaced) & (bounds[0] <= bounds[1]),
            guarantee=self._joined(lower.guarantee, upper.guarantee),
            side="both",
        )

    def _joined(self, lower: Guarantee | None, upper: Guarantee | None) -> Guarantee | None:
        """Return the guarantee of both tails; scores that are tied in one of them raise coverage."""
        if lower is None or upper is None:
            return None
        return self._with_tails(replace(lower, tied=tuple(dict.fromkeys([*lower.tied, *upper.tied]))))

    def _with_tails(self, guarantee: Guarantee) -> Guarantee:
        """Return the guarantee of one tail as that of both; groups of the target have none for each side."""
        by_target = getattr(self.taxonomy, "needs_target", False)
        shares = None if by_target else (self.lower_share, 1 - self.lower_share)
        return replace(guarantee, exact=guarantee.exact and not by_target, tail_shares=shares)


def _checked_share(share: Any) -> Fraction:
    """Return the share of the lower tail as a fraction. Raise ValueError unless it is between 0 and 1."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise ValueError(
            f"lower_share must be a number strictly between 0 and 1; got {share!r}. For bounds on one side only, use "
            "OneSided"
        )
    return level_fraction(share)


def _each_score(nonconformity: Nonconformity, change: Callable[[Score], Score]) -> Nonconformity:
    """Return the changed score, or the changed score of each group."""
    if isinstance(nonconformity, Mapping):
        return {label: change(score) for label, score in nonconformity.items()}
    return change(nonconformity)


def _tails(nonconformity: Nonconformity) -> tuple[Nonconformity, Nonconformity]:
    """Return the scores of the lower and of the upper tail."""
    return (
        _each_score(nonconformity, lambda score: one_tail(score, "lower")),
        _each_score(nonconformity, lambda score: one_tail(score, "upper")),
    )


def one_tail(score: Score, side: Side) -> Score:
    """Return one tail of a score; `Bounded` stays the outermost score."""
    return _inside(as_two_sided(score), lambda inner: OneSided(inner, side))


def as_two_sided(score: Score) -> Score:
    """Return the score; for `Standardized`, which has one tail only, `Normalized` with the same settings."""

    def change(inner: Score) -> Score:
        if isinstance(inner, OneSided):
            raise ValueError(
                f"nonconformity must be a two-sided score for separate tails, such as {inner.score!r}; got {inner!r}"
            )
        return inner.two_sided() if states(inner, "two_sided") else inner  # type: ignore[attr-defined]

    return _inside(score, change)


def _inside(score: Score, change: Callable[[Score], Score]) -> Score:
    """Return the changed score; the changed score inside `Bounded` if that is the outermost one."""
    return score.around(change(score.score)) if isinstance(score, Bounded) else change(score)
