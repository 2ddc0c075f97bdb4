"""A threshold for each group of a taxonomy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from evencover._internal.arrays import FloatArray
from evencover.calibration import Calibration, Seed, Unseen, calibrated
from evencover.groups import Groups
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals, IntervalUnion
from evencover.predictions import Rows
from evencover.scores import Nonconformity
from evencover.taxonomies import Marginal, Taxonomy, fresh_taxonomy


class ByGroup(BaseEstimator):  # type: ignore[misc]
    """A threshold for each group of a taxonomy: what ``ConformalRegressor(..., taxonomy=...)`` stands for.

    If calibration rows and new rows are exchangeable, an interval covers a new row with probability at least the level
    in every group.

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

    takes_weights = True

    def __init__(self, taxonomy: Taxonomy | None = None) -> None:
        self.taxonomy = taxonomy

    def learn(self, rows: Rows, nonconformity: Nonconformity) -> "CalibratedGroups":
        """Return the groups that the calibration rows teach, with their scores."""
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        return CalibratedGroups(taxonomy, calibrated(rows, nonconformity, taxonomy.learn(rows)))

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> "CalibratedGroups":
        """Return what was learned before, from its state."""
        return CalibratedGroups(state["taxonomy"], Calibration.restored(state, nonconformity))


@dataclass(frozen=True, eq=False)
class CalibratedGroups:
    """The groups of a taxonomy and their scores. Made by `ByGroup`.

    Parameters
    ----------
    taxonomy : taxonomy
        With what it learned.
    calibration : Calibration
        The scores by group.
    """

    taxonomy: Taxonomy
    calibration: Calibration
    takes_unseen: ClassVar[bool] = True

    @property
    def nonconformity(self) -> Nonconformity:
        """The score, or each group's own."""
        return self.calibration.nonconformity

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return self.calibration.guarantee

    @property
    def nested(self) -> bool:
        """Intervals at larger levels contain those at smaller ones."""
        return True

    @property
    def scores(self) -> FloatArray:
        """Those of the calibration rows, in their order. Shape (n,)."""
        return self.calibration.scores

    def groups(self, rows: Rows) -> Groups:
        """Return the groups of new rows."""
        return self.taxonomy.assign(rows)

    def intervals(
        self, rows: Rows, levels: tuple[Fraction, ...], *, unseen: Unseen = "error"
    ) -> Intervals | IntervalUnion:
        """Return the targets that score at most the threshold of their group. Bounds of shape (m, L).

        If the taxonomy depends on the target, that is a union: over the target's groups, of the targets that fall in
        the group and pass its threshold.
        """
        if not getattr(self.taxonomy, "needs_target", False):
            return self.calibration.intervals_at(levels, rows, self.groups(rows), unseen)
        pieces = [self._piece(rows, levels, unseen, *cell) for cell in self._target_cells()]
        return pieces[0] if len(pieces) == 1 else IntervalUnion(pieces)

    def p_values(self, rows: Rows, *, seed: Seed = None, unseen: Unseen = "error") -> FloatArray:
        """Return the p-value of each row's target in its group; see `Calibration.p_values`. Shape (m,)."""
        return self.calibration.p_values_of(rows, self.groups(rows), unseen, seed)

    def merge(self, *others: "CalibratedGroups") -> "CalibratedGroups":
        """Return what all parts' rows teach together; the parts must have the same groups, edges included."""
        return replace(self, calibration=self.calibration.merge(*(other.calibration for other in others)))

    def state(self) -> dict[str, Any]:
        """Return what was learned, by name."""
        return {"taxonomy": self.taxonomy, **self.calibration.state()}

    def _piece(self, rows: Rows, levels: tuple[Fraction, ...], unseen: Unseen, low: float, high: float) -> Intervals:
        """Return the part of each row's prediction set that lies in a cell of the target."""
        inside = replace(rows, y=np.full(len(rows), high if np.isfinite(high) else max(low, 0.0)))
        made = self.calibration.intervals_at(levels, inside, self.groups(inside), unseen)
        return replace(made, lower=np.maximum(made.lower, low), upper=np.minimum(made.upper, high))

    def _target_cells(self) -> list[tuple[float, float]]:
        """Return the closed cells of the target between which no group changes."""
        edges = self.taxonomy.target_edges_.tolist()
        lows = [-np.inf, *(float(np.nextafter(edge, np.inf)) for edge in edges)]
        return list(zip(lows, [*edges, np.inf], strict=True))
