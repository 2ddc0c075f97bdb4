"""What users get from anything calibrated: prediction sets and p-values of rows, in the shape that was asked for."""

from typing import Any

from evencover._internal.arrays import FloatArray, checked_vector
from evencover._internal.frames import frame_kind
from evencover.calibration import Seed, Unseen
from evencover.calibrators.protocols import Calibrated
from evencover.intervals import Intervals, IntervalUnion, for_requested_level
from evencover.predictions import Rows
from evencover.quantiles import Levels, level_fractions


def prediction_sets(learned: Calibrated, rows: Rows, level: Levels, unseen: Unseen) -> Intervals | IntervalUnion:
    """Return the prediction set of each row: bounds of shape (m,) for one level, (m, L) for L of them."""
    levels = level_fractions(level)
    made = learned.intervals(rows, levels, **_for_unseen(learned, unseen))
    frame, shape = frame_kind(rows.X), (len(rows), len(levels))
    if isinstance(made, IntervalUnion) and made.pieces:
        pieces = [_checked_intervals(piece, shape, learned) for piece in made.pieces]
        return IntervalUnion([for_requested_level(piece, level, frame, learned.guarantee) for piece in pieces])
    return for_requested_level(_checked_intervals(made, shape, learned), level, frame, learned.guarantee)


def target_p_values(learned: Calibrated, rows: Rows, unseen: Unseen, seed: Seed) -> FloatArray:
    """Return the p-value of each row's target. Shape (m,)."""
    rows.required_target(by="a p-value")
    found = learned.p_values(rows, seed=seed, **_for_unseen(learned, unseen))
    return checked_vector(found, f"p-values of {type(learned).__name__}", length=len(rows))


def _for_unseen(learned: Calibrated, unseen: Unseen) -> dict[str, Any]:
    """Return how rows of unseen groups are answered, as an argument for what has groups."""
    if unseen == "error":
        return {}
    if not getattr(learned, "takes_unseen", False):
        raise ValueError(
            f"unseen is for calibrators with groups, and {type(learned).__name__} has none; got {unseen!r}"
        )
    return {"unseen": unseen}


def _checked_intervals(made: Any, shape: tuple[int, int], learned: Calibrated) -> Intervals:
    """Return what `intervals` returned, if it is what it must be."""
    name = type(learned).__name__
    if not isinstance(made, Intervals):
        raise TypeError(f"{name}.intervals must return Intervals, or a union of one or more; got {type(made).__name__}")
    if made.lower.shape != shape:
        raise ValueError(
            f"{name}.intervals must return bounds of shape {shape}, rows by levels; got {made.lower.shape}"
        )
    return made
