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
from evencover.quantiles import Levels, is_several, level_fractions

_SHOWN = 10  # rows, in a notebook


@dataclass(frozen=True, eq=False)
class Intervals:
    """One closed interval for each row, or one for each row and level.

    ``lower > upper`` is an empty interval: it covers nothing and its width is 0. An infinite bound means that
    the calibration rows were too few, or that the interval has one tail. Neither is an error.

    Parameters
    ----------
    lower, upper : ndarray of shape (n,), or (n, L) for L levels
        The bounds.
    level : float or tuple of L floats, optional
        Nominal coverage they were made for.
    groups : Groups of n rows, optional
        The group whose threshold each row got.
    guarantee : Guarantee, optional
        What is promised, under which assumption, from how many rows.
    frame : FrameKind, optional
        The library and index of the table that was predicted on, for `to_frame`.

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
                "lower and upper must have one shape, (n,) or (n, levels); "
                f"got {np.shape(self.lower)} and {np.shape(self.upper)}"
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def empty(self) -> BoolArray:
        """Whether each interval is empty, NaN bounds included; shaped as the bounds."""
        return ~(self.lower <= self.upper)

    @property
    def width(self) -> FloatArray:
        """Length of each interval: 0 where empty, inf where a bound is infinite; shaped as the bounds."""
        width = np.zeros_like(self.lower)
        np.subtract(self.upper, self.lower, out=width, where=self.lower < self.upper)
        return width

    def covers(self, y: Any) -> BoolArray:
        """Return whether each interval holds its row's target `y` of shape (n,); shaped as the bounds."""
        target = checked_vector(y, "y", length=len(self))
        target = target if self.lower.ndim == 1 else target[:, None]
        return (self.lower <= target) & (target <= self.upper)

    def to_frame(self, like: Any = None) -> Any:
        """Return the bounds as a frame of the library, and with the index, of the frame that was predicted on.

        Columns are ``lower`` and ``upper`` (``lower_0.9`` ... with several levels), and ``group`` where there
        are several. Empty intervals have NaN bounds, and a warning counts them.

        Parameters
        ----------
        like : DataFrame, optional
            A pandas, polars or pyarrow table of n rows to take the library and index from instead.
        """
        kind = self.frame if like is None else frame_kind(like)
        if kind is None:
            raise TypeError(
                "to_frame needs a pandas, polars or pyarrow table (or column) to be like, and the rows came as plain "
                "arrays; pass one as to_frame(like=...), or use np.asarray(intervals)"
            )
        if like is not None and n_rows(like) != len(self):
            raise ValueError(f"like must have {len(self)} rows, as many as the intervals; got {n_rows(like)}")
        if (n_empty := int(self.empty.sum())) > 0:
            warn_user(f"{n_empty} of {self.lower.size} intervals are empty; their bounds are NaN")
        columns = self.columns()
        if self.groups is not None and len(self.groups.labels) > 1:
            columns["group"] = self.groups.label_of_rows()
        return new_frame(columns, kind)

    def columns(self) -> dict[str, FloatArray]:
        """Return the bounds as columns of a file or frame, by name: NaN where an interval is empty."""
        return {
            f"{side}{suffix}": np.where(lower <= upper, bound, np.nan)
            for suffix, lower, upper in self._by_level()
            for side, bound in (("lower", lower), ("upper", upper))
        }

    def _by_level(self) -> list[tuple[str, FloatArray, FloatArray]]:
        """Return the name's suffix and the bounds of each level."""
        if self.lower.ndim == 1:
            return [("", self.lower, self.upper)]
        names = self.level if isinstance(self.level, tuple) else range(self.lower.shape[1])
        return [(f"_{name}", self.lower[:, i], self.upper[:, i]) for i, name in enumerate(names)]

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> "Intervals":
        """Return the intervals of some rows, given by a slice, a mask, positions or one position."""
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
            raise ValueError("an array of intervals is a copy: lower and upper are kept apart")
        return np.stack([self.lower, self.upper], axis=-1).astype(dtype or float, copy=False)

    def __repr__(self) -> str:
        level = "" if self.level is None else f", level={self.level}"
        empty = f", {n} empty" if (n := int(self.empty.sum())) else ""
        return f"Intervals({len(self)} rows{level}, mean width {_mean_width(self.width)}{empty})"

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = [(row, *(f"{bound[row]:.6g}" for bound in columns.values())) for row in range(min(len(self), _SHOWN))]
        return tag("div", tag("p", repr(self)), html_table(("row", *columns), rows))


@dataclass(frozen=True, eq=False)
class IntervalUnion:
    """For each row a union of disjoint intervals: one piece per cell of the target.

    Parameters
    ----------
    pieces : sequence of Intervals of n rows
        Disjoint by construction; a row's piece may be empty.
    """

    pieces: Sequence[Intervals]

    @property
    def level(self) -> float | tuple[float, ...] | None:
        """Nominal coverage."""
        return self.pieces[0].level

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised, for every group of the target."""
        guarantee = self.pieces[0].guarantee
        if guarantee is None:
            return None
        without = [label for piece in self.pieces if piece.guarantee for label in piece.guarantee.without]
        return replace(guarantee, without=tuple(dict.fromkeys(without)))

    @property
    def width(self) -> FloatArray:
        """Total length of each row's pieces; shaped as their bounds."""
        return sum((piece.width for piece in self.pieces), start=np.zeros_like(self.pieces[0].lower))

    def covers(self, y: Any) -> BoolArray:
        """Return whether some piece holds the row's target `y` of shape (n,)."""
        return reduce(np.logical_or, (piece.covers(y) for piece in self.pieces))

    def hull(self) -> Intervals:
        """Return the smallest interval that holds each row's pieces; empty where all are."""
        lower = np.min([np.where(piece.empty, np.inf, piece.lower) for piece in self.pieces], axis=0)
        upper = np.max([np.where(piece.empty, -np.inf, piece.upper) for piece in self.pieces], axis=0)
        guarantee = None if self.guarantee is None else replace(self.guarantee, exact=False)  # it covers more
        return Intervals(lower, upper, level=self.level, guarantee=guarantee, frame=self.pieces[0].frame)

    def __len__(self) -> int:
        return len(self.pieces[0])

    def __repr__(self) -> str:
        return f"IntervalUnion({len(self)} rows, {len(self.pieces)} pieces, mean width {_mean_width(self.width)})"


def stacked(by_level: Sequence[Intervals]) -> Intervals:
    """Return the intervals of m rows at each of L levels as one, bounds of shape (m, L)."""
    if len(by_level) == 1:  # without a copy
        return Intervals(by_level[0].lower[:, None], by_level[0].upper[:, None])
    lowers, uppers = [each.lower for each in by_level], [each.upper for each in by_level]
    return Intervals(np.stack(lowers, axis=-1), np.stack(uppers, axis=-1))


def for_requested_level(made: Intervals, level: Levels, frame: FrameKind | None, guarantee: Guarantee) -> Intervals:
    """Return intervals of shape (m, L) as the user asked for them: of shape (m,) for one level, called by their level.

    The guarantee is what holds unless the intervals carry their own.
    """
    names = tuple(float(each) for each in level_fractions(level))
    lower, upper = (made.lower, made.upper) if is_several(level) else (made.lower[:, 0], made.upper[:, 0])
    return Intervals(
        lower,
        upper,
        level=names if is_several(level) else names[0],
        groups=made.groups,
        guarantee=guarantee if made.guarantee is None else made.guarantee,
        frame=frame,
    )


def _mean_width(widths: FloatArray) -> str:
    """Return the mean width in words, of each level."""
    means = np.mean(widths, axis=0) if len(widths) else np.full(widths.shape[1:], np.nan)
    return ", ".join(f"{mean:.4g}" for mean in np.atleast_1d(means))
