"""The calibrator with one threshold for each group of a taxonomy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from evencover._internal.arrays import FloatArray
from evencover._internal.grouped_pools import Seed, Unseen
from evencover.calibration import Calibration, calibrate_rows
from evencover.groups import Groups
from evencover.guarantees import Guarantee
from evencover.histogram_calibration import HistogramCalibration
from evencover.interval_unions import IntervalUnion
from evencover.intervals import Intervals
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

    Examples
    --------
    >>> from evencover import BySpread, Prediction, Residual
    >>> rows = Rows(Prediction(np.zeros(4), spread=[1.0, 1.0, 2.0, 2.0]), y=[1.0, 2.0, 3.0, 5.0])
    >>> ByGroup(BySpread(edges=[1.5])).learn(rows, Residual()).calibration
    Calibration(Residual(); rows: low 2, high 2)
    """

    takes_weights = takes_clusters = True

    def __init__(self, taxonomy: Taxonomy | None = None) -> None:
        self.taxonomy = taxonomy

    def learn(self, rows: Rows, nonconformity: Nonconformity) -> "CalibratedGroups":
        """Learn the groups from the calibration rows and return them with their scores."""
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        return CalibratedGroups(taxonomy, calibrate_rows(rows, nonconformity, taxonomy.learn(rows)))

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> "CalibratedGroups":
        """Return the calibrated groups from what their `state` returned."""
        return CalibratedGroups(state["taxonomy"], Calibration.from_state(state, nonconformity))


@dataclass(frozen=True, eq=False)
class CalibratedGroups:
    """The groups of a taxonomy and their calibration scores, made by `ByGroup` and `HistogramByGroup`.

    Parameters
    ----------
    taxonomy : taxonomy
        The taxonomy, which has learned its groups.
    calibration : Calibration or HistogramCalibration
        The scores of each group, or a histogram of them.
    """

    taxonomy: Taxonomy
    calibration: Calibration | HistogramCalibration
    takes_unseen: ClassVar[bool] = True

    @property
    def nonconformity(self) -> Nonconformity:
        """The score, or one for each group."""
        return self.calibration.nonconformity

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""
        return self.calibration.guarantee

    @property
    def nested(self) -> bool:
        """Whether intervals at larger levels contain those at smaller levels: yes, unless the score is `Bounded`.

        The point that replaces an interval without possible targets can be outside the interval at a larger level.
        """
        return support_of(self.nonconformity) is None

    @property
    def scores(self) -> FloatArray:
        """The scores of the calibration rows, in the order of the rows; a histogram has none. Shape (n,)."""
        return self.calibration.scores  # type: ignore[union-attr]

    def groups(self, rows: Rows) -> Groups:
        """Return the groups of new rows."""
        return self.taxonomy.assign(rows)

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

    def merge(self, *others: "CalibratedGroups") -> "CalibratedGroups":
        """Return one object for the calibration rows of all parts, which must have the same groups, edges included."""
        return replace(self, calibration=self.calibration.merge(*(other.calibration for other in others)))  # type: ignore[arg-type]

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
