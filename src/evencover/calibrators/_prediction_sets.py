"""Prediction sets and p-values of any calibrator, checked and in the shape that the user requested."""

from fractions import Fraction
from typing import Any

from evencover._internal.arrays import FloatArray, checked_vector
from evencover._internal.frames import FrameKind, frame_kind
from evencover._internal.grouped_pools import Seed, Unseen
from evencover.calibrators.protocols import Calibrated
from evencover.interval_unions import IntervalUnion
from evencover.intervals import Intervals, for_requested_level
from evencover.quantiles import Levels, level_fractions
from evencover.rows import Rows


def prediction_sets(calibrated: Calibrated, rows: Rows, level: Levels, unseen: Unseen) -> Intervals | IntervalUnion:
    """Return the prediction set of each row: bounds of shape (m,) for one level, (m, L) for L levels."""
    sets = sets_at(calibrated, rows, level_fractions(level), unseen)
    return requested_sets(calibrated, sets, level, rows.prediction.center, frame_kind(rows.X))


def sets_at(
    calibrated: Calibrated, rows: Rows, levels: tuple[Fraction, ...], unseen: Unseen
) -> Intervals | IntervalUnion:
    """Return what a calibrator returns for rows. Raise an error unless bounds have the shape (m, L)."""
    sets = calibrated.intervals(rows, levels, **_unseen_argument(calibrated, unseen))
    shape = len(rows), len(levels)
    if isinstance(sets, IntervalUnion) and sets.pieces:
        return IntervalUnion([_checked_intervals(piece, shape, calibrated) for piece in sets.pieces])
    return _checked_intervals(sets, shape, calibrated)


def requested_sets(
    calibrated: Calibrated,
    sets: Intervals | IntervalUnion,
    level: Levels,
    center: FloatArray,
    kind: FrameKind | None,
) -> Intervals | IntervalUnion:
    """Return prediction sets in the shape that was requested, with the predictions and the kind of table."""
    known = center, kind, calibrated.guarantee
    if isinstance(sets, IntervalUnion):
        return IntervalUnion([for_requested_level(piece, level, *known) for piece in sets.pieces])
    return for_requested_level(sets, level, *known)


def target_p_values(calibrated: Calibrated, rows: Rows, unseen: Unseen, seed: Seed) -> FloatArray:
    """Return the p-value of each row's target. Shape (m,)."""
    rows.required_target(by="a p-value")
    p_values = calibrated.p_values(rows, seed=seed, **_unseen_argument(calibrated, unseen))
    return checked_vector(p_values, f"p-values of {type(calibrated).__name__}", length=len(rows), matched="the rows")


def _unseen_argument(calibrated: Calibrated, unseen: Unseen) -> dict[str, Any]:
    """Return `unseen` as a keyword argument. Raise ValueError if it is given, but the calibrator has no groups."""
    if unseen == "error":
        return {}
    if not getattr(calibrated, "takes_unseen", False):
        raise ValueError(
            f"unseen={unseen!r} works only with a calibrator that has groups; {type(calibrated).__name__} has no groups"
        )
    return {"unseen": unseen}


def _checked_intervals(intervals: Any, shape: tuple[int, int], calibrated: Calibrated) -> Intervals:
    """Return what a calibrator returned as intervals. Raise an error unless they are `Intervals` of this shape."""
    name = type(calibrated).__name__
    if not isinstance(intervals, Intervals):
        raise TypeError(
            f"{name}.intervals must return Intervals, or a union of one or more; got {type(intervals).__name__}"
        )
    if intervals.lower.shape != shape:
        raise ValueError(
            f"{name}.intervals must return bounds of shape {shape}, rows by levels; got {intervals.lower.shape}"
        )
    return intervals
