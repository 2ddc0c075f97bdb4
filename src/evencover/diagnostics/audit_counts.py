"""The counts of an audit, which add up: rows in memory are one batch, a table of any size is read in many."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from evencover.diagnostics.regions import Feature
from evencover.groups import Groups, Label, rows_by_code
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.intervals import Intervals, IntervalUnion, Side, bound_side, limits_reached
from evencover.metrics import interval_scores

_SMALLEST = 1074  # every floating-point number is a whole multiple of 2**-1074
_UNIT = 2.0**-64  # of sums in a batch, so that they do not overflow
_NO_LIMITS = (-np.inf, np.inf)
_DIGITS = 9  # widths, or centers, that agree to so many digits count as equal
_EQUAL_WIDTHS = 1e-3  # widths that differ by a smaller share come from rounded bounds


@dataclass(frozen=True)
class RowTotals:
    """The totals of some rows. The sums of batches are added exactly, so their order does not matter.

    Parameters
    ----------
    rows, covered, n_empty, n_infinite, n_replaced : int
        Number of rows, of covered targets, of empty intervals, of infinite ones, and of those that held no possible
        target and were replaced by the nearest one.
    inside, inside_whole : int
        Number of targets strictly inside their intervals, and inside intervals that end at the whole numbers in them.
    n_fractional : int
        Number of targets that are not whole numbers. If all rows together have none, `inside_whole` counts.
    n_untested : int
        Number of rows whose intervals are infinite in the test, while those of the model are finite. They are covered
        and inside, which says nothing about the model.
    covered_by_model : int
        Number of rows that the model itself covers, if they calibrate it and are tested in turn; otherwise 0.
    below, above : int
        Number of targets below the lower bound, and above the upper one.
    widths, scores : int
        Sums of the finite widths and interval scores, in units of 2**-1074.
    n_infinite_widths, n_infinite_scores : int
        Number of the others.
    by_pool : Counter
        Number of rows by the pool of calibration scores behind their threshold; empty if the pools are not known yet.
    by_stratum : Counter
        Number of rows by stratum, if rows are tested in turn; see `CalibrationPools`.
    means : pair of float, optional
        Mean width and mean score of rows in memory, as numpy computes them: the last digit can differ from that of the
        exact sums, which are used without them. They are lost if totals are added.
    """

    rows: int = 0
    covered: int = 0
    inside: int = 0
    inside_whole: int = 0
    n_fractional: int = 0
    n_empty: int = 0
    n_infinite: int = 0
    n_replaced: int = 0
    n_untested: int = 0
    covered_by_model: int = 0
    below: int = 0
    above: int = 0
    n_infinite_widths: int = 0
    n_infinite_scores: int = 0
    widths: int = 0
    scores: int = 0
    by_pool: Counter[int] = field(default_factory=Counter)
    by_stratum: Counter[int] = field(default_factory=Counter)
    means: tuple[float, float] | None = None

    def __add__(self, other: "RowTotals") -> "RowTotals":
        return RowTotals(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)[:-1]))

    @property
    def most_covered(self) -> int:
        """The number of covered rows for upper ends of the coverage of the model."""
        return max(self.covered, self.covered_by_model)

    @property
    def coverage(self) -> float:
        """The share of tested rows that is covered; NaN without any."""
        return self._share(self.covered)

    @property
    def share_inside(self) -> float:
        """The share of tested rows whose target is strictly inside its interval; NaN without any."""
        return self._share(self.inside)

    def _share(self, count: int) -> float:
        tested = self.rows - self.n_untested
        return (count - self.n_untested) / tested if tested else np.nan

    @property
    def width(self) -> float:
        """The mean width; infinite if one is, NaN without rows."""
        return _mean(self.widths, self.rows, self.n_infinite_widths) if self.means is None else self.means[0]

    @property
    def score(self) -> float:
        """The mean interval score of tested rows; infinite if one is, NaN without any."""
        tested = self.rows - self.n_untested
        return _mean(self.scores, tested, self.n_infinite_scores) if self.means is None else self.means[1]

    @property
    def misses(self) -> tuple[float, float]:
        """The shares of rows below and above their intervals; NaN without rows."""
        return (self.below / self.rows, self.above / self.rows) if self.rows else (np.nan, np.nan)


def mean_or_nan(values: FloatArray | BoolArray) -> float:
    """Return the mean; NaN without values."""
    return float(values.mean()) if len(values) else np.nan


def _mean(total: int, rows: int, n_infinite: int) -> float:
    if n_infinite or not rows:
        return np.inf if n_infinite else np.nan
    return float(Fraction(total, rows << _SMALLEST))


@dataclass(frozen=True, eq=False)
class RowResults:
    """The results of the rows of a batch.

    Parameters
    ----------
    counted : mapping from str to ndarray of bool, shape (n,)
        Which rows are counted, by field of `RowTotals`.
    widths, scores : ndarray of shape (n,)
        Width and score of each interval; the score is NaN for unions of intervals.
    """

    counted: Mapping[str, BoolArray]
    widths: FloatArray
    scores: FloatArray

    @classmethod
    def of(
        cls,
        y: FloatArray,
        intervals: Intervals | IntervalUnion,
        level: Fraction,
        *,
        side: Side | None = None,
        limits: tuple[float, float] = _NO_LIMITS,
    ) -> "RowResults":
        """Return the results of the intervals for the targets.

        Parameters
        ----------
        y : ndarray of shape (n,)
            The targets.
        intervals : Intervals or IntervalUnion of n rows
            Their intervals.
        level : Fraction
            Nominal coverage, for interval scores.
        side : {"lower", "upper"}, optional
            The side of one-sided bounds.
        limits : tuple of two float
            The smallest and the largest possible target, where intervals end that are not bounds.
        """
        widths, scores, pieces = intervals.width, np.full(len(y), np.nan), getattr(intervals, "pieces", [intervals])
        if isinstance(intervals, Intervals):
            scores = interval_scores(y, intervals, level)
            inside, inside_whole = (intervals.covers_inside(y, whole=each, limits=limits) for each in (False, True))
        else:
            inside = inside_whole = intervals.covers_inside(y)
        infinite = infinite_rows(intervals, side)
        counted = {
            "covered": intervals.covers(y),
            "inside": inside & ~infinite,  # an infinite interval cannot be too wide by choice
            "inside_whole": inside_whole & ~infinite,
            "n_fractional": y % 1 != 0,
            "n_empty": np.all([piece.empty for piece in pieces], axis=0),
            "n_infinite": infinite,
            "n_replaced": np.any([piece.replaced for piece in pieces], axis=0),
            "below": np.all([y < piece.lower for piece in pieces], axis=0),
            "above": np.all([y > piece.upper for piece in pieces], axis=0),
            "n_infinite_widths": ~np.isfinite(widths),
            "n_infinite_scores": ~np.isfinite(scores),
        }
        return cls(counted, widths, scores)

    def totals(self, codes: IntArray) -> Iterator[tuple[int, RowTotals]]:
        """Yield each code of the rows with the totals of its rows."""
        rows = np.bincount(codes)
        columns = {"rows": rows}
        columns |= {name: np.bincount(codes[each], minlength=len(rows)) for name, each in self.counted.items()}
        found = np.flatnonzero(rows)
        counts = {name: column[found].tolist() for name, column in columns.items()}
        for name in ("widths", "scores"):
            values = getattr(self, name)
            finite = np.where(np.isfinite(values), values, 0.0) * _UNIT
            counts[name] = [_in_smallest_units(each) for each in np.bincount(codes, weights=finite)[found].tolist()]
        for code, *numbers in zip(found.tolist(), *counts.values(), strict=True):
            yield code, RowTotals(**dict(zip(counts, numbers, strict=True)))

    def with_widths_of(self, model: "RowResults", untested: BoolArray, *, in_turn: bool) -> "RowResults":
        """Return these results of rows that other thresholds tested, with the widths of the intervals of the model."""
        counted, own = self.counted, model.counted
        about_widths = ("n_empty", "n_infinite", "n_replaced", "n_infinite_widths")
        changed = {name: own[name] for name in about_widths} | {"n_untested": untested}
        changed |= {name: counted[name] | untested for name in ("inside", "inside_whole")}
        changed["n_infinite_scores"] = counted["n_infinite_scores"] & ~untested
        if in_turn:
            changed["covered_by_model"] = own["covered"]
        return RowResults({**counted, **changed}, model.widths, np.where(untested, np.nan, self.scores))

    def __getitem__(self, rows: IntArray) -> "RowResults":
        counted = {name: column[rows] for name, column in self.counted.items()}
        return RowResults(counted, self.widths[rows], self.scores[rows])


def _in_smallest_units(value: float) -> int:
    """Return 2**64 times a number as a whole multiple of 2**-1074, exactly."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_SMALLEST - denominator.bit_length() + 1 + 64)


def infinite_rows(intervals: Intervals | IntervalUnion, side: Side | None) -> BoolArray:
    """Return which intervals are infinite or, of one-sided bounds, which bounds are. Shape (n,)."""
    return np.isinf(intervals.width if side is None else getattr(intervals, side))


@dataclass(frozen=True, eq=False)
class OtherThresholds:
    """What an audit needs to know of rows that were tested by thresholds of some of the calibration rows of a model.

    Parameters
    ----------
    intervals : Intervals
        The intervals of the model itself, whose thresholds come from all calibration rows.
    untested : ndarray of bool, shape (n,)
        The rows that the test says nothing about: its interval is infinite, that of the model is finite.
    strata : ndarray of int, shape (n,), optional
        The stratum of each row, if the rows are the calibration rows, tested in turn: rows of a stratum were tested by
        the same threshold. None if they are later rows.
    """

    intervals: Intervals
    untested: BoolArray
    strata: IntArray | None = None


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """All rows of an audit as one batch, with the pool of calibration scores behind the threshold of each row.

    Rows that other thresholds tested have the widths of the model's own intervals and, in turn, a stratum each.
    """

    results: RowResults
    pools: IntArray
    strata: IntArray | None = None

    @classmethod
    def of(
        cls,
        y: FloatArray,
        intervals: Intervals | IntervalUnion,
        level: Fraction,
        pools: IntArray,
        others: OtherThresholds | None = None,
    ) -> "RowsInMemory":
        """Return the rows of these targets and intervals."""
        limits = limits_reached(y, intervals) if isinstance(intervals, Intervals) else _NO_LIMITS
        results = RowResults.of(y, intervals, level, side=bound_side(intervals), limits=limits)
        strata = None if others is None else others.strata
        if others is not None:
            own = RowResults.of(y, others.intervals, level, side=bound_side(others.intervals), limits=limits)
            results = results.with_widths_of(own, others.untested, in_turn=strata is not None)
        inside = results.counted["inside" if np.any(y % 1) else "inside_whole"]
        return cls(replace(results, counted={**results.counted, "inside": inside}), pools, strata)

    @property
    def covered(self) -> BoolArray:
        """Whether each row is covered. Shape (n,)."""
        return self.results.counted["covered"]

    def tested_among(self, rows: IntArray) -> IntArray:
        """Return those of some rows that were tested."""
        untested = self.results.counted.get("n_untested")
        return rows if untested is None else rows[~untested[rows]]

    def totals(self, rows: IntArray) -> RowTotals:
        """Return the totals of some rows."""
        if not len(rows):
            return RowTotals()
        part = self.results[rows]
        ((_, totals),) = part.totals(np.zeros(len(rows), dtype=np.intp))
        return replace(
            totals,
            by_pool=_counted(self.pools[rows]),
            by_stratum=Counter() if self.strata is None else _counted(self.strata[rows]),
            means=(float(part.widths.mean()), mean_or_nan(self.results.scores[self.tested_among(rows)])),
        )

    def strata_among(self, rows: IntArray) -> dict[int, RowTotals] | None:
        """Return the totals of each stratum among some rows; None if rows are not tested in turn."""
        if self.strata is None:
            return None
        return dict(self.results[rows].totals(self.strata[rows]))

    def by_group(self, groups: Groups) -> dict[Label, RowTotals]:
        """Return the totals of each group."""
        rows = dict(rows_by_code(groups.codes, len(groups.labels)))
        no_rows = np.empty(0, dtype=np.intp)
        return {label: self.totals(rows.get(code, no_rows)) for code, label in enumerate(groups.labels)}


def _counted(codes: IntArray) -> Counter[int]:
    """Return how many rows have each code."""
    return +Counter(dict(enumerate(np.bincount(codes).tolist())))


def width_feature(width: FloatArray) -> Feature:
    """Return the widths as a feature; rounding errors are ignored."""
    return Feature("width", _rounded(width))


def default_feature(intervals: Intervals | IntervalUnion) -> tuple[Feature, str]:
    """Return what defines the default groups, and its name: width, center, lower or upper (a one-sided bound).

    It is the width; the center if the widths are equal; or the one-sided bound.
    """
    width, center, side = intervals.width, center_feature(intervals), bound_side(intervals)
    if center is not None and (side is not None or are_equal(width)):
        return center, side or "center"
    return width_feature(width), "width"


def center_feature(intervals: Intervals | IntervalUnion) -> Feature | None:
    """Return the center of each interval, or the one-sided bound, as a feature; None if it does not vary.

    It is missing if it is not finite.
    """
    if not isinstance(intervals, Intervals):
        return None
    side = bound_side(intervals)
    center = _rounded(stratified_values(intervals, side or "center"))
    name = "center" if side is None else f"{side} bound"
    return Feature(name, center) if len(np.unique(center[~np.isnan(center)])) > 1 else None


def stratified_values(intervals: Intervals, kind: str) -> FloatArray:
    """Return the widths, the centers or the bounds of intervals; centers and bounds are NaN if they are not finite."""
    if kind == "width":
        return intervals.width
    with np.errstate(invalid="ignore"):
        center = intervals.lower / 2 + intervals.upper / 2 if kind == "center" else getattr(intervals, kind)
    return np.where(intervals.empty | ~np.isfinite(center), np.nan, center)


def are_equal(width: FloatArray) -> bool:
    """Return whether all widths are equal and finite, up to the rounding of the bounds."""
    return bool(np.isfinite(width).all() and np.ptp(width) <= _EQUAL_WIDTHS * width.max())


def _rounded(values: FloatArray) -> FloatArray:
    """Return values rounded to nine digits of the largest finite one."""
    unit = np.max(np.abs(values), initial=0.0, where=np.isfinite(values)) or 1.0
    return np.asarray(np.round(values / unit, _DIGITS) * unit)


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata of intervals by a feature of a sample: the last one is for intervals without that feature."""

    labels: tuple[str, ...]
    edges: FloatArray
    kind: str

    @classmethod
    def of(cls, feature: Feature, kind: str) -> "Strata":
        """Return the strata of a feature of the sample."""
        labels, edges = feature.labels_and_edges
        return cls((*labels, f"{feature.name} missing"), edges, kind)

    def labels_among(self, found: Collection[Label]) -> tuple[str, ...]:
        """Return the labels; the last one only if it is among the labels that were found."""
        return self.labels if self.labels[-1] in found else self.labels[:-1]

    def __call__(self, intervals: Intervals) -> IntArray:
        """Return the code of each interval's stratum. Shape (n,)."""
        values = stratified_values(intervals, self.kind)
        return np.where(np.isnan(values), len(self.labels) - 1, np.searchsorted(self.edges, values))


Cells: TypeAlias = dict[tuple[Any, str], RowTotals]  # by the labels of a group and of a stratum of widths


@dataclass(frozen=True, eq=False)
class CellCounter:
    """Counts of the rows of batches by cell: a group, and a stratum of widths.

    Parameters
    ----------
    level : Fraction
        Nominal coverage, for interval scores.
    strata : Strata
        The strata of widths.
    side : {"lower", "upper"}, optional
        The side of one-sided bounds.
    limits : tuple of two float
        The smallest and the largest possible target, where intervals end that are not bounds.
    cells : dict
        The totals of the rows that were counted so far.
    """

    level: Fraction
    strata: Strata
    side: Side | None
    limits: tuple[float, float]
    cells: Cells = field(default_factory=dict)

    @classmethod
    def like(cls, y: FloatArray, sampled: Intervals, level: Fraction) -> "CellCounter":
        """Return counts without rows, for targets and intervals like those of a sample."""
        widths = Strata.of(width_feature(sampled.width), "width")
        return cls(level, widths, bound_side(sampled), limits_reached(y, sampled))

    def add(self, y: FloatArray, intervals: Intervals, codes: IntArray, labels: Sequence[Label]) -> None:
        """Add the totals of some rows; the codes are positions in the labels of groups."""
        n_strata = len(self.strata.labels)
        results = RowResults.of(y, intervals, self.level, side=self.side, limits=self.limits)
        for code, totals in results.totals(codes * n_strata + self.strata(intervals)):
            group, stratum = divmod(code, n_strata)
            cell = labels[group], self.strata.labels[stratum]
            self.cells[cell] = self.cells.get(cell, RowTotals()) + totals

    def counts(self, labels: Sequence[Label], n_pools: int) -> "AuditCounts":
        """Return the counts of these groups; there is a pool of calibration scores for each group, or one for all."""
        whole = not any(each.n_fractional for each in self.cells.values())
        pools = {label: code if n_pools == len(labels) else 0 for code, label in enumerate(labels)}
        strata = self.strata.labels_among({stratum for _, stratum in self.cells})
        by_group: dict[Label, list[tuple[int, RowTotals]]] = {label: [] for label in labels}
        by_stratum: dict[Label, list[tuple[int, RowTotals]]] = {stratum: [] for stratum in strata}
        for (label, stratum), totals in self.cells.items():
            counted = pools[label], replace(totals, inside=totals.inside_whole) if whole else totals
            by_group[label].append(counted)
            by_stratum[stratum].append(counted)
        return AuditCounts(
            {label: _in_pools(parts) for label, parts in by_group.items()},
            {stratum: _in_pools(parts) for stratum, parts in by_stratum.items()},
            _in_pools(part for parts in by_group.values() for part in parts),
        )


def _in_pools(parts: Iterable[tuple[int, RowTotals]]) -> RowTotals:
    """Return the sum of totals that each belong to one pool."""
    total, by_pool = RowTotals(), Counter[int]()
    for pool, totals in parts:
        total += totals
        by_pool[pool] += totals.rows
    return replace(total, by_pool=by_pool)


@dataclass(frozen=True, eq=False)
class AuditCounts:
    """The totals of each group, of each stratum of widths, and of all rows."""

    groups: Mapping[Label, RowTotals]
    strata: Mapping[Label, RowTotals]
    all_rows: RowTotals
