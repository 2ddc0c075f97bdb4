"""A calibration of arrays on any device."""

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from evencover.array_api._array_checks import as_positions, common_namespace
from evencover.array_api.array_scores import ArrayRows, checked_rows
from evencover.array_api.array_thresholds import group_sizes, threshold_table
from evencover.calibration.pools import warn_if_too_few
from evencover.groups import Label
from evencover.guarantees import Guarantee, Kind
from evencover.quantiles import Levels, is_level_sequence, level_fractions, rows_for_finite_threshold
from evencover.scores.score import Score

_MAX_CACHED_LEVELS = 100  # as many requests of different levels as a pool of scores keeps


def calibrate(
    y: Any,
    center: Any = None,
    *,
    spread: Any = None,
    lower: Any = None,
    upper: Any = None,
    groups: Any = None,
    n_groups: int | None = None,
) -> "ArrayCalibration":
    """Calibrate predictions that are arrays of torch, CuPy, JAX or numpy, on the device where they are.

    All arrays are of one library, on one device, and no array is copied to the host. With float64, thresholds and
    bounds equal those of `evencover.calibrate` bit for bit. If calibration rows and new rows are exchangeable, an
    interval covers a new row of a group with probability at least the level.

    Parameters
    ----------
    y : array of shape (n,)
        Targets. The model must not have been fitted on these rows.
    center, spread, lower, upper : arrays of shape (n,), optional
        The model's predictions: a center, a center and a spread, or the model's own bounds. The score is `Residual`,
        with a spread `Normalized`, with bounds `IntervalDistance`.
    groups : array of int, shape (n,), optional
        The group of each row, 0 to n_groups − 1, such as from `groups_by_edges`. One group by default.
    n_groups : int, optional
        Number of groups, by default the largest code plus 1.

    Examples
    --------
    >>> calibration = calibrate(np.array([1.0, 2.0, 4.0, 8.0]), np.zeros(4))
    >>> calibration.threshold(0.5)
    array([4.])
    >>> calibration.interval(np.array([10.0]), level=0.5)
    (array([6.]), array([14.]))
    """
    columns = {"y": y, "center": center, "spread": spread, "lower": lower, "upper": upper}
    rows = checked_rows(columns, groups=groups, n_groups=n_groups)
    return ArrayCalibration(rows.nonconformity, rows.scores(), rows.groups, rows.n_groups)


@dataclass(frozen=True, eq=False, repr=False)
class ArrayCalibration:
    """The calibration scores of every group, on a device. `evencover.array_api.calibrate` makes it.

    Parameters
    ----------
    nonconformity : score
        `Residual`, `Normalized` or `IntervalDistance`.
    scores : array of shape (n,)
        The scores of the calibration rows.
    groups : array of int, shape (n,), optional
        The group of each calibration row. One group by default.
    n_groups : int
        Number of groups.
    """

    nonconformity: Score
    scores: Any
    groups: Any = None
    n_groups: int = 1

    @cached_property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows of each group."""
        if self.groups is None:
            return {"all": self.scores.shape[0]}
        return dict(enumerate(group_sizes(self._xp, self.groups, self.n_groups)))

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee: marginal for one group, per group for several."""
        kind: Kind = "per group" if self.n_groups > 1 else "marginal"
        return Guarantee(kind, self.sizes, exact=True)

    def threshold(self, level: Levels) -> Any:
        """Return the threshold of each group. Shape (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        """
        table = self._threshold_table(level_fractions(level))
        return table if is_level_sequence(level) else table[:, 0]

    def interval(
        self,
        center: Any = None,
        *,
        spread: Any = None,
        lower: Any = None,
        upper: Any = None,
        groups: Any = None,
        level: Levels = 0.9,
    ) -> tuple[Any, Any]:
        """Return the lower and upper bounds of new rows: the targets whose score is at most the group's threshold.

        Parameters
        ----------
        center, spread, lower, upper : arrays of shape (m,), optional
            The same parts of predictions as in the calibration, for the new rows.
        groups : array of int, shape (m,), optional
            The group of each new row; required if the calibration has groups.
        level : float or sequence of L floats
            Nominal coverage.

        Returns
        -------
        lower, upper : arrays of shape (m,), or (m, L) for L levels
            A lower bound above the upper one is an empty interval. Infinite bounds: the group has too few rows.
        """
        levels = level_fractions(level)
        columns = {"center": center, "spread": spread, "lower": lower, "upper": upper}
        rows = self._new_rows(columns, groups)
        table = self._threshold_table(levels, rows.groups)
        bounds = [rows.interval(self._threshold_of_rows(table[:, each], rows)) for each in range(len(levels))]
        if not is_level_sequence(level):
            return bounds[0]
        lowers, uppers = zip(*bounds, strict=True)
        return rows.xp.stack(lowers, axis=-1), rows.xp.stack(uppers, axis=-1)

    def _new_rows(self, columns: dict[str, Any], groups: Any) -> ArrayRows:
        """Return checked new rows. Raise ValueError unless they have the score and the groups of the calibration."""
        if (groups is None) != (self.groups is None):
            raise ValueError(
                "groups were given, but the calibration has none; use calibrate(..., groups=...)"
                if self.groups is None
                else f"groups must be given: the calibration has {self.n_groups} groups"
            )
        n_groups = None if groups is None else self.n_groups
        rows = checked_rows(columns, groups=groups, n_groups=n_groups, scores=self.scores)
        if rows.nonconformity != self.nonconformity:
            raise ValueError(
                f"the calibration has the score {self.nonconformity}, but these predictions belong to "
                f"{rows.nonconformity}; give the same of center, spread, lower and upper as in calibrate"
            )
        return rows

    def _threshold_table(self, levels: tuple[Fraction, ...], new_groups: Any = None) -> Any:
        """Return the threshold of each group at each level, computed once. Warn of groups with too few rows.

        With the groups of new rows, only of theirs. Shape (n_groups, L).
        """
        self._warn_if_too_few(max(levels), new_groups)
        found = self._threshold_cache.get(levels)
        if found is None:
            if len(self._threshold_cache) >= _MAX_CACHED_LEVELS:
                self._threshold_cache.clear()
            found = threshold_table(self._xp, self.scores, self.groups, self.n_groups, levels)
            self._threshold_cache[levels] = found
        return found

    def _warn_if_too_few(self, level: Fraction, new_groups: Any) -> None:
        sizes = list(self.sizes.values())
        if min(sizes) < rows_for_finite_threshold(level):
            present = sizes if new_groups is None else group_sizes(self._xp, new_groups, self.n_groups)
            codes = [code for code, n in enumerate(present) if n or new_groups is None]
            warn_if_too_few(np.array(codes, dtype=np.intp), list(self.sizes), sizes, level)

    def _threshold_of_rows(self, by_group: Any, rows: ArrayRows) -> Any:
        """Return the threshold of each row's group. Shape (m,)."""
        if rows.groups is None:
            return rows.xp.broadcast_to(by_group, (len(rows),))
        return rows.xp.take(by_group, as_positions(rows.xp, rows.groups), axis=0)

    @cached_property
    def _xp(self) -> Any:
        return common_namespace({"scores": self.scores})

    @cached_property
    def _threshold_cache(self) -> dict[tuple[Fraction, ...], Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without the caches

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label} {n}" for label, n in self.sizes.items())
        return f"ArrayCalibration({self.nonconformity}; rows: {sizes})"
