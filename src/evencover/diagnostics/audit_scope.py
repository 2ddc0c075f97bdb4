"""What an audit looks at: the groups, and the features in which it searches for low coverage."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.diagnostics.regions import Feature, Features
from evencover.display.text import number_text
from evencover.groups import Groups, checked_groups
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals, IntervalUnion, bound_side

_DIGITS = 9  # widths, or centers, that agree to so many digits count as equal
_EQUAL_WIDTHS = 1e-3  # widths that differ by a smaller share come from rounded bounds


@dataclass(frozen=True, eq=False)
class Scope:
    """The groups and features of an audit.

    Parameters
    ----------
    groups : Groups of n rows
        The groups.
    features : table, Features, FeatureSearch or None
        The features to search.
    features_given : bool
        Whether the user gave the features; otherwise they are the interval's center.
    notes : tuple of str
        What was chosen by default, in sentences.
    """

    groups: Groups
    features: Any = None
    features_given: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, intervals: Intervals | IntervalUnion, groups: Any, X: Any) -> "Scope":
        """Return the given groups, those stored in the intervals, or else thirds by width or by center."""
        stored = getattr(intervals, "groups", None)
        if groups is not None:
            return cls(checked_groups(groups, len(intervals), "the intervals"), X, X is not None)
        if stored is not None and len(stored.labels) > 1:
            return cls(stored, X, X is not None)
        return _default_scope(intervals, X)


def by_width(width: FloatArray) -> Groups:
    """Return thirds by width, or one group for each width if there are few; rounding errors are ignored."""
    return width_feature(width).strata


def width_feature(width: FloatArray) -> Feature:
    """Return the widths as a feature; rounding errors are ignored."""
    return Feature("width", _rounded(width))


def default_feature(intervals: Intervals | IntervalUnion) -> tuple[Feature, str]:
    """Return what defines the default groups, and its name: width, center, lower or upper (a one-sided bound).

    It is the width; the center if the widths are equal; or the one-sided bound.
    """
    width, center, side = intervals.width, _center(intervals), bound_side(intervals)
    if center is not None and (side is not None or _all_equal(width)):
        return center, side or "center"
    return width_feature(width), "width"


def _default_scope(intervals: Intervals | IntervalUnion, X: Any) -> Scope:
    """Return the strata of the default feature. Without X, the center or the bound is searched."""
    center, side = _center(intervals), bound_side(intervals)
    feature, kind = default_feature(intervals)
    notes = []
    if kind in ("lower", "upper"):
        notes = [f"The intervals are {side} bounds, so the groups are thirds by the bound."]
    elif _all_equal(intervals.width):
        by_center = "the rows are one group" if center is None else "the groups are thirds by the interval's center"
        notes = [
            f"All intervals have the same width ({number_text(float(np.median(intervals.width)))}), so {by_center}.",
            "Coverage by expected noise cannot be assessed: the intervals do not say which rows are harder.",
        ]
    if center is None:
        return Scope(feature.strata, X, X is not None, tuple(notes))
    if X is not None:
        return Scope(feature.strata, X, features_given=True, notes=tuple(notes))
    what = "interval's center" if side is None else f"{side} bound"
    notes.append(f"No features were given, so the search for low coverage used only the {what}.")
    return Scope(feature.strata, Features([center]), notes=tuple(notes))


def _center(intervals: Intervals | IntervalUnion) -> Feature | None:
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


def _all_equal(width: FloatArray) -> bool:
    """Return whether all widths are equal and finite, up to the rounding of the bounds."""
    return bool(np.isfinite(width).all() and np.ptp(width) <= _EQUAL_WIDTHS * width.max())


def _rounded(values: FloatArray) -> FloatArray:
    """Return values rounded to nine digits of the largest finite one."""
    unit = np.max(np.abs(values), initial=0.0, where=np.isfinite(values)) or 1.0
    return np.asarray(np.round(values / unit, _DIGITS) * unit)
