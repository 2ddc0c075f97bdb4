"""Prediction intervals, and unions of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce, wraps
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from evencover.display.drawing import draw_intervals
from evencover.display.html import html_table, tag
from evencover.groups import Groups, shared_groups
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    as_floats,
    check_count,
    check_not_masked,
    checked_vector,
    evenly_spaced_positions,
    is_number,
    is_on_device,
    on_host,
    plain_array,
    row_selection,
    warn_user,
)
from evencover.inputs.device_arrays import checked_column, device_of, namespace
from evencover.inputs.frames import FrameKind, check_same_index, frame_kind, n_rows, new_frame
from evencover.quantiles import Levels, is_level_sequence, level_fractions
from evencover.target_support import limits_text

Side: TypeAlias = Literal["lower", "upper"]
Method = TypeVar("Method", bound=Callable[..., Any])

ROUNDING = 1e-9  # relative distance from a bound that can come from rounding errors
_MAX_HTML_ROWS = 10  # rows that a notebook shows
_MANY_MOVED = 0.1  # a larger share of predictions outside their intervals is worth a note
_ARRAYS = ("lower", "upper", "replaced")  # parts of `Intervals` with a value for each row and level


def _with_numpy(method: Method) -> Method:
    """Let a method of intervals on a device be that of the same intervals with arrays of numpy."""

    @wraps(method)
    def on_host(intervals: "Intervals", *args: Any, **options: Any) -> Any:
        return method(intervals.on_host(), *args, **options)

    return on_host  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Intervals:
    """One closed interval for each row, or one for each row and level.

    ``lower > upper`` is an empty interval: it covers nothing, and its width is 0. A bound is infinite if there were too
    few calibration rows, or if the interval is one-sided. Neither is an error.

    Parameters
    ----------
    lower, upper : ndarray of shape (n,), or (n, L) for L levels
        The bounds; arrays of torch, CuPy or JAX stay on their device.
    level : float or tuple of L floats, optional
        Nominal coverage.
    groups : Groups of n rows, optional
        The group of each row.
    guarantee : Guarantee, optional
        The coverage guarantee.
    prediction : ndarray of shape (n,), optional
        The center that the model predicts for each row. It can lie outside the interval, such as the mean of a skewed
        target; frames and pictures show the nearest point of the interval, see `nearest`.
    frame : FrameKind, optional
        The library and index of the table that the intervals were predicted for; `to_frame` uses them.
    replaced : ndarray of bool, with the shape of the bounds, optional
        Whether each interval held no possible target, and was replaced by the nearest one; see `Bounded`. By default
        no interval was.
    side : {"lower", "upper", "both"}, optional
        Which ends are bounds; the others are infinite, or limits of the target. By default infinite ends show it.

    Examples
    --------
    >>> import numpy as np
    >>> intervals = Intervals(np.array([0.0, 1.0]), np.array([2.0, 4.0]))
    >>> intervals.width, intervals.covers([3.0, 3.0])
    (array([2., 3.]), array([False,  True]))
    >>> lower, upper = intervals.bounds
    >>> lower
    array([0., 1.])
    """

    lower: FloatArray
    upper: FloatArray
    level: float | tuple[float, ...] | None = field(default=None, kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)
    guarantee: Guarantee | None = field(default=None, kw_only=True)
    prediction: FloatArray | None = field(default=None, kw_only=True)
    frame: FrameKind | None = field(default=None, kw_only=True, repr=False)
    replaced: BoolArray = field(default=None, kw_only=True, repr=False)  # type: ignore[arg-type]
    side: Side | Literal["both"] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_same_index({"lower": self.lower, "upper": self.upper, "prediction": self.prediction})
        if self.frame is None:
            object.__setattr__(self, "frame", frame_kind(self.lower) or frame_kind(self.upper))
        lower, upper = (
            bound if is_on_device(bound) else as_floats(bound, name)
            for name, bound in (("lower", self.lower), ("upper", self.upper))
        )
        if lower.shape != upper.shape or lower.ndim not in (1, 2):
            raise ValueError(
                "lower and upper must have the same shape, (n,) or (n, levels); "
                f"got {np.shape(self.lower)} and {np.shape(self.upper)}"
            )
        check_not_masked(self.prediction, "prediction")
        if self.prediction is not None and np.shape(self.prediction) != lower.shape[:1]:
            raise ValueError(f"prediction must have shape {lower.shape[:1]}; got {np.shape(self.prediction)}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "replaced", _checked_marks(self.replaced, lower))

    def on_host(self) -> "Intervals":
        """Return the intervals with arrays of numpy."""
        if not is_on_device(self.lower):
            return self
        arrays = {name: on_host(getattr(self, name)) for name in (*_ARRAYS, "prediction")}
        return replace(self, **arrays, groups=None if self.groups is None else self.groups.on_host())

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper bounds as a pair: ``lower, upper = intervals.bounds``."""
        return self.lower, self.upper

    @property
    def n_replaced(self) -> int:
        """Number of intervals that held no possible target, and were replaced by the nearest one."""
        return int(namespace(self.replaced).count_nonzero(self.replaced))

    @property
    def empty(self) -> BoolArray:
        """Whether each interval is empty; NaN bounds count as empty. Same shape as the bounds."""
        return ~(self.lower <= self.upper)

    @property
    def width(self) -> FloatArray:
        """Length of each interval: 0 if it is empty, inf if a bound is infinite. Same shape as the bounds."""
        if is_on_device(self.lower):
            xp = namespace(self.lower)
            return xp.where(self.lower < self.upper, self.upper - self.lower, xp.zeros_like(self.lower))  # type: ignore[no-any-return]
        width = np.zeros_like(self.lower)
        np.subtract(self.upper, self.lower, out=width, where=self.lower < self.upper)
        return width

    def check_index(self, **columns: Any) -> None:
        """Raise ValueError if columns with an entry for each row have another index than the intervals."""
        check_same_index({"intervals": self.frame, **columns})

    def covers(self, y: Any) -> BoolArray:
        """Return whether each interval contains its row's target; `y` has shape (n,), the result that of the bounds."""
        self.check_index(y=y)
        target = checked_column(y, "y", like=self.lower, length=len(self), matched="the intervals")
        target = target if self.lower.ndim == 1 else target[:, None]
        return (self.lower <= target) & (target <= self.upper)  # type: ignore[no-any-return]

    @_with_numpy
    def covers_inside(
        self, y: Any, *, whole: bool = False, limits: tuple[float, float] = (-np.inf, np.inf)
    ) -> BoolArray:
        """Return whether each target lies strictly inside its interval, not on a bound; shapes as in `covers`.

        A target on a bound would be missed by any narrower interval. Bounds are computed with rounding errors, so
        targets up to a relative distance of 1e-9 from a bound count as on it.

        Parameters
        ----------
        y : array-like of shape (n,)
            Targets.
        whole : bool
            Whether all targets are whole numbers. Then an interval ends at the whole numbers in it.
        limits : tuple of two float
            The smallest and the largest possible target. An end there is no bound, unless the interval is one point.
        """
        if whole:
            return ending_at_whole_numbers(self).covers_inside(y, limits=limits)
        self.check_index(y=y)
        target = checked_vector(y, "y", length=len(self), matched="the intervals")
        target = target if self.lower.ndim == 1 else target[:, None]
        margin, several, (low, high) = ROUNDING * self.magnitude, self.lower < self.upper, limits
        above = (self.lower + margin < target) | (several & (self.lower <= low) & (target <= low))
        below = (target < self.upper - margin) | (several & (self.upper >= high) & (target >= high))
        return above & below & self.covers(y)

    @property
    def magnitude(self) -> FloatArray:
        """The larger absolute value of the two bounds, as far as they are finite. Same shape as the bounds."""
        sizes = (np.where(np.isfinite(bound), np.abs(bound), 0.0) for bound in (self.lower, self.upper))
        return np.maximum(*sizes)

    @_with_numpy
    def nearest(self, values: Any) -> FloatArray:
        """Return the point of each interval that is nearest to a number of its row. Shape (n,).

        A number in its interval stays, and so does that of an empty interval. With several levels, it is moved into the
        interval of the largest level first, and into that of the smallest level last; empty ones are skipped. So it
        lies in the last of them, and in all of them if they have a point in common, as nested intervals do.

        Parameters
        ----------
        values : array-like of shape (n,)
            A number for each row, such as the prediction.

        Examples
        --------
        >>> Intervals(np.array([0.0, 1.0]), np.array([2.0, 4.0])).nearest([3.0, 3.0])
        array([2., 3.])
        """
        self.check_index(values=values)
        moved = as_floats(values, "values")
        if moved.shape != (len(self),):
            raise ValueError(f"values must have shape ({len(self)},), as many rows as the intervals; got {moved.shape}")
        for lower, upper in self._bounds_from_largest_level():
            moved = np.where(lower <= upper, np.clip(moved, lower, upper), moved)
        return moved

    @property
    def n_moved(self) -> int:
        """Number of rows whose prediction is not a point of the interval, so that the nearest one is shown instead."""
        if self.prediction is None:
            return 0
        shown, center = self.nearest(self.prediction), np.asarray(self.prediction)
        return int(np.count_nonzero((shown < center) | (shown > center)))

    @_with_numpy
    def clip(self, low: float | None = None, high: float | None = None) -> "Intervals":
        """Return the part of each interval that lies between two numbers, for targets that cannot lie elsewhere.

        An interval without such a part becomes empty. If all targets lie between `low` and `high`, the same targets
        are covered as before, so the guarantee stays as it is. Its text then states this assumption. `prediction`
        is not changed. `Bounded` does the same as part of a score, without empty intervals, and for whole numbers.

        Parameters
        ----------
        low, high : float, optional
            The smallest and the largest possible target. ``clip(low=0)`` is for targets that are never negative, such
            as prices. None is no limit.

        Examples
        --------
        >>> intervals = Intervals(np.array([-1.0, 1.0]), np.array([2.0, 4.0]))
        >>> intervals.clip(low=0).lower, intervals.clip(high=3).upper
        (array([0., 1.]), array([2., 3.]))
        """
        given = [limit for limit in (low, high) if limit is not None]
        if not given or not all(is_number(limit) and not np.isnan(limit) for limit in given):
            raise ValueError(f"low and high must be numbers, at least one of them; got {low!r} and {high!r}")
        if given != sorted(given):
            raise ValueError(f"low must be at most high; got {low!r} and {high!r}")
        lower = self.lower if low is None else np.maximum(self.lower, low)
        upper = self.upper if high is None else np.minimum(self.upper, high)
        guarantee = (
            None if self.guarantee is None else self.guarantee.assuming(f"all targets are {limits_text(low, high)}")
        )
        return replace(self, lower=lower, upper=upper, guarantee=guarantee)

    @_with_numpy
    def plot(self, y: Any = None, *, by: Any = None, most: int = 200, ax: Any = None) -> Any:
        """Draw the interval of each row as a vertical line, and its prediction as a tick; return the matplotlib axes.

        A prediction outside its interval is drawn at the nearest bound. With targets, a dot is a target in its
        interval, and a diamond of another colour is a missed target.

        Parameters
        ----------
        y : array-like of shape (n,), optional
            Targets.
        by : array-like of shape (n,), optional
            Numbers to sort the rows by, such as a feature. By default they are sorted by their prediction.
        most : int
            Maximum number of rows to draw; if there are more, evenly spaced ones are drawn.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        """
        if self.lower.ndim > 1:
            raise TypeError(f"intervals must be Intervals for one level; got {self!r}")
        self.check_index(y=y, by=by)
        target = None if y is None else checked_vector(y, "y", length=len(self), matched="the intervals")
        check_count(most, "'most' (the maximum number of rows to draw)")
        numbers, name = self._sort_key(by)
        order = np.argsort(numbers, kind="stable")
        drawn = order[evenly_spaced_positions(len(order), most)]
        rows = f"{len(drawn)} of {len(self)} rows" if len(drawn) < len(self) else f"{len(self)} rows"
        part = self[drawn]
        targets = None if target is None else target[drawn]
        covered = None if targets is None else part.covers(targets)
        ax = draw_intervals(part.lower, part.upper, part._shown_prediction, targets, covered, ax)
        ax.set(xlabel=f"{rows}, sorted by {name}", ylabel="prediction interval" if y is None else "target and interval")
        return ax

    def _sort_key(self, by: Any) -> tuple[FloatArray, str]:
        """Return the numbers to sort rows by, and their name: the given ones, the prediction, or the interval's middle.

        An infinite interval has no middle: its finite bound is used, or 0.
        """
        if by is not None:
            numbers = checked_vector(by, "'by' (the numbers to sort by)", length=len(self), matched="the intervals")
            return numbers, str(getattr(by, "name", None) or "the given numbers")
        if self._shown_prediction is not None:
            return self._shown_prediction, "prediction"
        lower, upper = (np.where(np.isfinite(bound), bound, np.nan) for bound in (self.lower, self.upper))
        middle = np.where(np.isnan(lower), upper, np.where(np.isnan(upper), lower, (lower + upper) / 2))
        return np.nan_to_num(middle), "middle of the interval"

    def to_frame(self, like: Any = None) -> Any:
        """Return predictions and bounds as a frame, with the library and index of the frame that was passed to predict.

        The columns are ``prediction``, if it is known, ``lower`` and ``upper`` (with several levels ``lower_0.9`` and
        so on), and ``group`` if there are several groups. The prediction is a point of the interval: where the model's
        center lies outside, it is the nearest bound (see `nearest`). Empty intervals keep the center, get NaN bounds,
        and a warning counts them.

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

    @_with_numpy
    def columns(self) -> dict[str, FloatArray]:
        """Return predictions and bounds as named columns, as `to_frame` has them; bounds of empty intervals are NaN."""
        shown = self._shown_prediction
        prediction = {} if shown is None else {"prediction": shown}
        return prediction | {
            f"{side}{suffix}": np.where(lower <= upper, bound, np.nan)
            for suffix, lower, upper in self._by_level()
            for side, bound in (("lower", lower), ("upper", upper))
        }

    @property
    def _shown_prediction(self) -> FloatArray | None:
        """The prediction of each row as a point of its interval."""
        return None if self.prediction is None else self.nearest(self.prediction)

    def _by_level(self) -> list[tuple[str, FloatArray, FloatArray]]:
        """Return for each level the suffix of its column names, and its bounds."""
        if self.lower.ndim == 1:
            return [("", self.lower, self.upper)]
        return [(f"_{name}", self.lower[:, i], self.upper[:, i]) for i, name in enumerate(self._level_names)]

    def _bounds_from_largest_level(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return the bounds of each level, those of the largest level first."""
        if self.lower.ndim == 1:
            return [(self.lower, self.upper)]
        order = np.argsort(self._level_names)[::-1]
        return [(self.lower[:, i], self.upper[:, i]) for i in order]

    @property
    def _level_names(self) -> Sequence[float]:
        """The levels; their positions if they are not known."""
        return self.level if isinstance(self.level, tuple) else range(self.lower.shape[1])

    def __len__(self) -> int:
        return int(self.lower.shape[0])

    def __getitem__(self, rows: Any) -> "Intervals":
        """Return the intervals of some rows, selected by a slice, a mask, positions or one position."""
        rows = row_selection(rows)
        return replace(
            self,
            lower=self.lower[rows],
            upper=self.upper[rows],
            groups=None if self.groups is None else self.groups[rows],
            prediction=None if self.prediction is None else self.prediction[rows],
            frame=None if self.frame is None else self.frame[rows],
            replaced=self.replaced[rows],
        )

    def __iter__(self) -> Iterator["Intervals"]:
        """Raise TypeError: unpacked as a pair, the intervals of two rows would look like their bounds."""
        raise TypeError(
            "Intervals are not iterable; use lower, upper = intervals.bounds for the bounds of all rows, or "
            "np.asarray(intervals) for the bounds of one row after another"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "copy=False is not possible: lower and upper are two arrays, so an array of both is a copy"
            )
        return np.stack([on_host(self.lower), on_host(self.upper)], axis=-1).astype(dtype or float, copy=False)

    def __repr__(self) -> str:
        level = "" if self.level is None else f", level={self.level}"
        empty = f", {n} empty" if (n := int(namespace(self.empty).count_nonzero(self.empty))) else ""
        replaced = f", {self.n_replaced} replaced by a point" * (self.n_replaced > 0)
        return f"Intervals({len(self)} rows{level}, mean width {mean_width_text(self.width)}{empty}{replaced})"

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = [
            (row, *(f"{values[row]:.6g}" for values in columns.values()))
            for row in range(min(len(self), _MAX_HTML_ROWS))
        ]
        return tag("div", tag("p", repr(self)), html_table(("row", *columns), rows))


def columns_of_new_rows(intervals: Intervals, numbers: IntArray, outside: Any) -> dict[str, Any]:
    """Return the intervals of new rows as columns, the first of which joins them to their table.

    Parameters
    ----------
    intervals : Intervals
        The intervals; their groups are a column if there are several.
    numbers : ndarray of int, shape (n,)
        The numbers of the rows in their table.
    outside : Outside or None
        Which rows are outside of what the model has seen, if it is known.
    """
    columns: dict[str, Any] = {"row": numbers, **intervals.columns()}
    if intervals.groups is not None and len(intervals.groups.labels) > 1:
        columns["group"] = [str(label) for label in intervals.groups.label_of_rows()]
    if outside is not None:
        columns["outside"] = outside.column_names
    return columns


def bound_side(intervals: Any) -> Side | None:
    """Return "upper" if intervals for one level are upper bounds, "lower" if they are lower bounds, otherwise None.

    Without a `side`, they are upper bounds if all lower ends are −inf, no upper end is, and one of these is finite.
    """
    if not isinstance(intervals, Intervals) or intervals.lower.ndim > 1:
        return None
    if intervals.side == "both":
        return None
    if intervals.side is not None:
        return intervals.side if np.isfinite(getattr(intervals, intervals.side)).any() else None
    sides: tuple[tuple[Side, FloatArray, FloatArray], ...] = (
        ("upper", -intervals.lower, intervals.upper),
        ("lower", intervals.upper, -intervals.lower),
    )
    for side, other, bound in sides:
        if np.isposinf(other).all() and (bound > -np.inf).all() and np.isfinite(bound).any():
            return side
    return None


def limits_reached(y: FloatArray, intervals: Intervals) -> tuple[float, float]:
    """Return the smallest and the largest target, if intervals end there and not beyond; otherwise −inf and inf.

    Then they are limits of the target, such as 0 for prices, and not bounds that a threshold moves. If scores are tied
    at a threshold, it can be the bound of many equal targets at the limit, so no limit is returned.
    """
    if intervals.guarantee is not None and intervals.guarantee.tied:
        return -np.inf, np.inf
    low, high = y.min(initial=np.inf), y.max(initial=-np.inf)
    lowest, highest = np.fmin.reduce(intervals.lower, initial=np.inf), np.fmax.reduce(intervals.upper, initial=-np.inf)
    return float(low) if low == lowest else -np.inf, float(high) if high == highest else np.inf


def ending_at_whole_numbers(intervals: Intervals) -> Intervals:
    """Return intervals that hold the same whole numbers, and end at them."""
    return replace(intervals, lower=np.ceil(intervals.lower), upper=np.floor(intervals.upper))


def empty_intervals(n: int) -> Intervals:
    """Return an empty interval for each of n rows."""
    return Intervals(np.full(n, np.inf), np.full(n, -np.inf))


def infinite_intervals(n: int) -> Intervals:
    """Return the interval of all numbers for each of n rows."""
    return Intervals(np.full(n, -np.inf), np.full(n, np.inf))


def stack_levels(by_level: Sequence[Intervals], **known: Any) -> Intervals:
    """Return the intervals of m rows at L levels, given level by level, with what else is known of them.

    The bounds have shape (m, L).
    """
    lower, upper, replaced = (_stack([getattr(each, name) for each in by_level]) for name in _ARRAYS)
    return Intervals(lower, upper, replaced=replaced, **known)


def _stack(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return columns as a matrix; without a copy if there is only one."""
    return columns[0][:, None] if len(columns) == 1 else namespace(columns[0]).stack(columns, axis=-1)


def _checked_marks(replaced: Any, bound: Any) -> BoolArray:
    """Return which intervals were replaced; for None, that none was, without using memory for it."""
    if is_on_device(bound):  # where no score replaces intervals
        xp = namespace(bound)
        return xp.broadcast_to(xp.zeros((), dtype=xp.bool, device=device_of(bound)), bound.shape)  # type: ignore[no-any-return]
    if replaced is None:
        return np.broadcast_to(np.False_, bound.shape)
    marks = plain_array(replaced, "replaced").astype(bool, copy=False)
    if marks.shape != bound.shape:
        raise ValueError(f"replaced must have the shape of the bounds, {bound.shape}; got {marks.shape}")
    return marks


def for_requested_level(
    intervals: Intervals, level: Levels, prediction: FloatArray, frame: FrameKind | None, guarantee: Guarantee
) -> Intervals:
    """Return intervals of shape (m, L) with level, prediction and frame; of shape (m,) if one level was requested.

    The guarantee is used only if the intervals do not have their own.
    """
    levels = tuple(float(each) for each in level_fractions(level))
    several = is_level_sequence(level)
    arrays = (getattr(intervals, name) for name in _ARRAYS)
    lower, upper, replaced = (values if several else values[:, 0] for values in arrays)
    return Intervals(
        lower,
        upper,
        level=levels if several else levels[0],
        groups=intervals.groups,
        guarantee=guarantee if intervals.guarantee is None else intervals.guarantee,
        prediction=prediction,
        frame=frame,
        replaced=replaced,
        side=intervals.side,
    )


def prediction_text(intervals: Intervals) -> str:
    """Return what the column `prediction` of intervals holds, with the number of rows where it is not the model's."""
    n = f"{intervals.n_moved} of {len(intervals)} rows"
    return f"the model's center, moved to the nearest bound where it lies outside the interval ({n})"


def moved_note(intervals: Intervals, rows: str = "rows") -> str:
    """Return a sentence if more than a tenth of the predictions lie outside their intervals; otherwise nothing."""
    share = intervals.n_moved / max(len(intervals), 1)
    if share <= _MANY_MOVED:
        return ""
    return (
        f"The prediction lies outside the interval for {100 * share:.0f} % of the {rows}; the nearest bound is shown "
        "instead. A model that predicts the mean of a skewed or heavy-tailed target does this."
    )


def mean_width_text(widths: FloatArray) -> str:
    """Return the mean width of each level, as text."""
    means = on_host(namespace(widths).mean(widths, axis=0)) if widths.shape[0] else np.full(widths.shape[1:], np.nan)
    return ", ".join(f"{mean:.4g}" for mean in np.atleast_1d(means))


@dataclass(frozen=True, eq=False)
class IntervalUnion:
    """For each row a union of disjoint intervals, from groups of the target, or from cross-conformal prediction.

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
        """The coverage guarantee; for every group of the target, if there are such groups."""
        guarantee = self.pieces[0].guarantee
        if guarantee is None:
            return None
        every = [piece.guarantee for piece in self.pieces if piece.guarantee is not None]
        without, tied = (
            tuple(dict.fromkeys(label for each in every for label in getattr(each, name)))
            for name in ("without", "tied")
        )
        return replace(guarantee, without=without, tied=tied)

    @property
    def frame(self) -> FrameKind | None:
        """The library and index of the table that the union was predicted for."""
        return self.pieces[0].frame

    def check_index(self, **columns: Any) -> None:
        """Raise ValueError if columns with an entry for each row have another index than the intervals."""
        self.pieces[0].check_index(**columns)

    def on_host(self) -> "IntervalUnion":
        """Return the union with arrays of numpy."""
        return IntervalUnion([piece.on_host() for piece in self.pieces])

    @property
    def width(self) -> FloatArray:
        """Total length of each row's pieces; same shape as their bounds."""
        return sum((piece.width for piece in self.pieces), start=np.zeros_like(self.pieces[0].lower))

    @property
    def n_replaced(self) -> int:
        """Number of pieces that held no possible target, and were replaced by the nearest one."""
        return sum(piece.n_replaced for piece in self.pieces)

    def covers(self, y: Any) -> BoolArray:
        """Return whether one of a row's pieces contains its target; `y` has shape (n,)."""
        return reduce(np.logical_or, (piece.covers(y) for piece in self.pieces))

    def covers_inside(self, y: Any) -> BoolArray:
        """Return whether each target lies strictly inside its set, at one level; see `Intervals.covers_inside`.

        Numbers near it on both sides belong to the set, too, in the same piece or in the next one.
        """
        self.check_index(y=y)
        target, largest = as_floats(y, "y"), np.finfo(float).max
        margin = ROUNDING * np.max([piece.magnitude for piece in self.pieces], axis=0)
        below, above = (np.clip(target + sign * margin, -largest, largest) for sign in (-1, 1))
        return self.covers(target) & self.covers(below) & self.covers(above)

    def hull(self) -> Intervals:
        """Return the smallest interval that contains all pieces of a row; empty if all of them are."""
        lower = np.min([np.where(piece.empty, np.inf, piece.lower) for piece in self.pieces], axis=0)
        upper = np.max([np.where(piece.empty, -np.inf, piece.upper) for piece in self.pieces], axis=0)
        guarantee = None if self.guarantee is None else replace(self.guarantee, exact=False)  # the hull covers more
        groups = shared_groups([piece.groups for piece in self.pieces])
        side = None if groups is None else self.pieces[0].side
        whole = replace(self.pieces[0], groups=groups, side=side, replaced=np.zeros_like(lower, dtype=bool))
        return replace(whole, lower=lower, upper=upper, guarantee=guarantee)

    def __len__(self) -> int:
        return len(self.pieces[0])

    def __getitem__(self, rows: Any) -> "IntervalUnion":
        return IntervalUnion([piece[rows] for piece in self.pieces])

    def __repr__(self) -> str:
        pieces = f"{len(self.pieces)} piece{'s' * (len(self.pieces) != 1)}"
        return f"IntervalUnion({len(self)} rows, {pieces}, mean width {mean_width_text(self.width)})"
