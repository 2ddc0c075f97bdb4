"""Prediction intervals, and unions of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover._internal.arrays import BoolArray, FloatArray, checked_vector, row_selection, warn_user
from evencover._internal.frames import FrameKind, frame_kind, n_rows, new_frame
from evencover._internal.html import html_table, tag
from evencover.groups import Groups
from evencover.guarantees import Guarantee
from evencover.quantiles import Levels, is_level_sequence, level_fractions

_MAX_HTML_ROWS = 10  # rows that a notebook shows


@dataclass(frozen=True, eq=False)
class Intervals:
    """One closed interval for each row, or one for each row and level.

    ``lower > upper`` is an empty interval: it covers nothing, and its width is 0. A bound is infinite if there were too
    few calibration rows, or if the interval is one-sided. Neither is an error.

    Parameters
    ----------
    lower, upper : ndarray of shape (n,), or (n, L) for L levels
        The bounds.
    level : float or tuple of L floats, optional
        Nominal coverage.
    groups : Groups of n rows, optional
        The group of each row.
    guarantee : Guarantee, optional
        The coverage guarantee.
    frame : FrameKind, optional
        The library and index of the table that the intervals were predicted for; `to_frame` uses them.

    Examples
    --------
    >>> import numpy as np
    >>> intervals = Intervals(np.array([0.0, 1.0]), np.array([2.0, 4.0]))
    >>> intervals.width, intervals.covers([3.0, 3.0])
    (array([2., 3.]), array([False,  True]))
    """

    lower: FloatArray
    upper: FloatArray
    level: float | tuple[float, ...] | None = field(default=None, kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)
    guarantee: Guarantee | None = field(default=None, kw_only=True)
    frame: FrameKind | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        lower, upper = np.asarray(self.lower, dtype=float), np.asarray(self.upper, dtype=float)
        if lower.shape != upper.shape or lower.ndim not in (1, 2):
            raise ValueError(
                "lower and upper must have the same shape, (n,) or (n, levels); "
                f"got {np.shape(self.lower)} and {np.shape(self.upper)}"
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def empty(self) -> BoolArray:
        """Whether each interval is empty; NaN bounds count as empty. Same shape as the bounds."""
        return ~(self.lower <= self.upper)

    @property
    def width(self) -> FloatArray:
        """Length of each interval: 0 if it is empty, inf if a bound is infinite. Same shape as the bounds."""
        width = np.zeros_like(self.lower)
        np.subtract(self.upper, self.lower, out=width, where=self.lower < self.upper)
        return width

    def covers(self, y: Any) -> BoolArray:
        """Return whether each interval contains its row's target; `y` has shape (n,), the result that of the bounds."""
        target = checked_vector(y, "y", length=len(self), matched="the intervals")
        target = target if self.lower.ndim == 1 else target[:, None]
        return (self.lower <= target) & (target <= self.upper)

    def to_frame(self, like: Any = None) -> Any:
        """Return the bounds as a frame, with the library and index of the frame that was passed to predict.

        The columns are ``lower`` and ``upper`` (with several levels ``lower_0.9`` and so on), and ``group`` if there
        are several groups. Empty intervals get NaN bounds, and a warning counts them.

        Parameters
        ----------
        like : DataFrame, optional
            A pandas, polars or pyarrow table of n rows whose library and index are used instead.
        """
        kind = self.frame if like is None else frame_kind(like)
        if kind is None:
            raise TypeError(
                "to_frame needs the pandas, polars or pyarrow table (or column) that was predicted for; the rows were "
                "plain arrays. Pass a table as to_frame(like=...), or use np.asarray(intervals)"
            )
        if like is not None and n_rows(like) != len(self):
            raise ValueError(
                f"the table 'like' must have {len(self)} rows, as many as the intervals; got {n_rows(like)}"
            )
        if (n_empty := int(self.empty.sum())) > 0:
            warn_user(f"empty intervals: {n_empty} of {self.lower.size}; their bounds are NaN")
        columns = self.columns()
        if self.groups is not None and len(self.groups.labels) > 1:
            columns["group"] = self.groups.label_of_rows()
        return new_frame(columns, kind)

    def columns(self) -> dict[str, FloatArray]:
        """Return the bounds as named columns; the bounds of empty intervals are NaN."""
        return {
            f"{side}{suffix}": np.where(lower <= upper, bound, np.nan)
            for suffix, lower, upper in self._by_level()
            for side, bound in (("lower", lower), ("upper", upper))
        }

    def _by_level(self) -> list[tuple[str, FloatArray, FloatArray]]:
        """Return for each level the suffix of its column names, and its bounds."""
        if self.lower.ndim == 1:
            return [("", self.lower, self.upper)]
        names = self.level if isinstance(self.level, tuple) else range(self.lower.shape[1])
        return [(f"_{name}", self.lower[:, i], self.upper[:, i]) for i, name in enumerate(names)]

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> "Intervals":
        """Return the intervals of some rows, selected by a slice, a mask, positions or one position."""
        rows = row_selection(rows)
        return Intervals(
            self.lower[rows],
            self.upper[rows],
            level=self.level,
            groups=None if self.groups is None else self.groups[rows],
            guarantee=self.guarantee,
            frame=None if self.frame is None else self.frame[rows],
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "copy=False is not possible: lower and upper are two arrays, so an array of both is a copy"
            )
        return np.stack([self.lower, self.upper], axis=-1).astype(dtype or float, copy=False)

    def __repr__(self) -> str:
        level = "" if self.level is None else f", level={self.level}"
        empty = f", {n} empty" if (n := int(self.empty.sum())) else ""
        return f"Intervals({len(self)} rows{level}, mean width {_mean_width(self.width)}{empty})"

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = [
            (row, *(f"{bound[row]:.6g}" for bound in columns.values())) for row in range(min(len(self), _MAX_HTML_ROWS))
        ]
        return tag("div", tag("p", repr(self)), html_table(("row", *columns), rows))


@dataclass(frozen=True, eq=False)
class IntervalUnion:
    """For each row a union of disjoint intervals: one piece for each range of the target.

    Parameters
    ----------
    pieces : sequence of Intervals of n rows
        The pieces, which must be disjoint in each row; some may be empty.
    """

    pieces: Sequence[Intervals]

    @property
    def level(self) -> float | tuple[float, ...] | None:
        """Nominal coverage."""
        return self.pieces[0].level

    @property
    def guarantee(self) -> Guarantee | None:
        """The coverage guarantee, for every group of the target."""
        guarantee = self.pieces[0].guarantee
        if guarantee is None:
            return None
        without = [label for piece in self.pieces if piece.guarantee for label in piece.guarantee.without]
        return replace(guarantee, without=tuple(dict.fromkeys(without)))

    @property
    def width(self) -> FloatArray:
        """Total length of each row's pieces; same shape as their bounds."""
        return sum((piece.width for piece in self.pieces), start=np.zeros_like(self.pieces[0].lower))

    def covers(self, y: Any) -> BoolArray:
        """Return whether one of a row's pieces contains its target; `y` has shape (n,)."""
        return reduce(np.logical_or, (piece.covers(y) for piece in self.pieces))

    def hull(self) -> Intervals:
        """Return the smallest interval that contains all pieces of a row; empty if all of them are."""
        lower = np.min([np.where(piece.empty, np.inf, piece.lower) for piece in self.pieces], axis=0)
        upper = np.max([np.where(piece.empty, -np.inf, piece.upper) for piece in self.pieces], axis=0)
        guarantee = None if self.guarantee is None else replace(self.guarantee, exact=False)  # the hull covers more
        return Intervals(lower, upper, level=self.level, guarantee=guarantee, frame=self.pieces[0].frame)

    def __len__(self) -> int:
        return len(self.pieces[0])

    def __repr__(self) -> str:
        return f"IntervalUnion({len(self)} rows, {len(self.pieces)} pieces, mean width {_mean_width(self.width)})"


def stack_levels(by_level: Sequence[Intervals]) -> Intervals:
    """Return the intervals of m rows at L levels, given level by level, as one object. Bounds of shape (m, L)."""
    if len(by_level) == 1:  # no copy
        return Intervals(by_level[0].lower[:, None], by_level[0].upper[:, None])
    lowers, uppers = [each.lower for each in by_level], [each.upper for each in by_level]
    return Intervals(np.stack(lowers, axis=-1), np.stack(uppers, axis=-1))


def for_requested_level(
    intervals: Intervals, level: Levels, frame: FrameKind | None, guarantee: Guarantee
) -> Intervals:
    """Return intervals of shape (m, L) with the requested level and frame; of shape (m,) if one level was requested.

    The guarantee is used only if the intervals do not have their own.
    """
    levels = tuple(float(each) for each in level_fractions(level))
    several, lower, upper = is_level_sequence(level), intervals.lower, intervals.upper
    return Intervals(
        lower if several else lower[:, 0],
        upper if several else upper[:, 0],
        level=levels if several else levels[0],
        groups=intervals.groups,
        guarantee=guarantee if intervals.guarantee is None else intervals.guarantee,
        frame=frame,
    )


def _mean_width(widths: FloatArray) -> str:
    """Return the mean width of each level, as text."""
    means = np.mean(widths, axis=0) if len(widths) else np.full(widths.shape[1:], np.nan)
    return ", ".join(f"{mean:.4g}" for mean in np.atleast_1d(means))
