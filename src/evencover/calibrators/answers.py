"""What users get from anything calibrated: prediction sets and p-values of rows, in the shape that was asked for."""

from typing import Any

from evencover.calibration import Seed, Unseen
from evencover.calibrators.protocols import Calibrated
from evencover.inputs import FloatArray
from evencover.intervals import Intervals, IntervalUnion, as_asked
from evencover.quantiles import Levels, level_fractions
from evencover.rows import Rows
from evencover.tables import frame_kind


def prediction_sets(learned: Calibrated, rows: Rows, level: Levels, unseen: Unseen) -> Intervals | IntervalUnion:
    """Return the prediction set of each row: bounds of shape (m,) for one level, (m, L) for L of them."""
    made = learned.intervals(rows, level_fractions(level), **_for_unseen(learned, unseen))
    frame = frame_kind(rows.X)
    if isinstance(made, Intervals):
        return as_asked(made, level, frame, learned.guarantee)
    return IntervalUnion([as_asked(piece, level, frame, learned.guarantee) for piece in made.pieces])


def target_p_values(learned: Calibrated, rows: Rows, unseen: Unseen, seed: Seed) -> FloatArray:
    """Return the p-value of each row's target. Shape (m,)."""
    rows.required_target(by="a p-value")
    return learned.p_values(rows, seed=seed, **_for_unseen(learned, unseen))


def _for_unseen(learned: Calibrated, unseen: Unseen) -> dict[str, Any]:
    """Return how rows of unseen groups are answered, as an argument for what has groups."""
    if unseen == "error":
        return {}
    if not hasattr(learned, "groups"):
        raise ValueError(
            f"unseen is for calibrators with groups, and {type(learned).__name__} has none; got {unseen!r}"
        )
    return {"unseen": unseen}
