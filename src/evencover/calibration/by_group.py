"""One threshold for each group of a taxonomy, from scores or from a histogram of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from evencover.calibration.calibration import Calibration, Seed, Unseen, calibrate_rows
from evencover.groups import Groups
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals, IntervalUnion
from evencover.rows import Rows
from evencover.scores.score import Nonconformity
from evencover.scores.support import support_of
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
        return GroupThresholds(taxonomy, calibrate_rows(rows, nonconformity, taxonomy.learn(rows), bits=self.bits))

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> "GroupThresholds":
        """Return the calibrated groups from what their `state` returned."""
        return GroupThresholds(state["taxonomy"], Calibration.from_state(state, nonconformity))


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


@dataclass(frozen=True, eq=False)
class GroupThresholds(LearnedGroups):
    """One threshold for each group, made by `ByGroup`."""

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
