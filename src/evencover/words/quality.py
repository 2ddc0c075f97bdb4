"""How good a model and its intervals are, in sentences."""

import math

from evencover.diagnostics.interval_quality import NEGLIGIBLE_R2, Quality
from evencover.display.text import number_text


def quality_text(found: Quality) -> str:
    """Return the quality in sentences, for readers who know no statistics."""
    return " ".join(filter(None, [model_text(found), width_text(found)]))


def covered_text(found: Quality) -> str:
    """Return what covered targets of one-sided bounds have in common; empty for two-sided intervals."""
    if found.side is None:
        return ""
    return f"are at or {'below' if found.side == 'upper' else 'above'} their {found.side} bound"


def model_text(found: Quality) -> str:
    """Return what the predictions explain, and how far they are off; empty without predictions."""
    if math.isnan(found.mean_absolute_error):
        return ""
    error = f"is off by {number_text(found.mean_absolute_error)} on average (mean absolute error)."
    if math.isnan(found.r2):
        return f"The target is the same for all these rows, so there is nothing to explain. The model {error}"
    chance = f" With only {found.rows} rows, this may be chance." if found.may_be_chance else ""
    if found.r2 < NEGLIGIBLE_R2:
        who = "This model explains" if found.explains_nothing else "The predictions explain"
        return f"{who} nothing: {_reason(found)}{chance} The prediction {error}"
    r2 = _r2_text(found.r2)
    return f"The model explains {_share_text(found.r2)} of the variation of the target (R2 {r2}); it {error}{chance}"


def width_text(found: Quality) -> str:
    """Return how wide the intervals are, next to the alternatives; how far one-sided bounds are from predictions."""
    if found.side is not None:
        return _distance_text(found)
    widths = f"{_own_width_text(found)}, {_alternatives_text(found)}."
    return " ".join(filter(None, [widths, _comparison_text(found)]))


def _reason(found: Quality) -> str:
    """Return why the prediction explains nothing."""
    if found.constant_prediction:
        who = "it" if found.explains_nothing else "the model"
        return f"{who} predicts the same number, {number_text(found.mean_prediction)}, for every row."
    better = "better" if found.r2 <= -NEGLIGIBLE_R2 else "as good"
    return f"R2 is {_r2_text(found.r2)}, so always predicting the mean would be {better}."


def _r2_text(r2: float) -> str:
    """Return R2 with two decimals, with more if it is close to 0 or 1: 0.91, 0.996, -0.004, 0."""
    if abs(r2) < 0.0005:
        return "0"
    if 0.99 <= r2 < 1:
        return "above 0.999" if r2 >= 0.9995 else f"{r2:.3f}"
    return f"{r2:.3f}" if abs(r2) < NEGLIGIBLE_R2 else f"{r2:.2f}" if abs(r2) < 100 else number_text(r2)


def _share_text(share: float) -> str:
    """Return a share as a whole percentage; only a perfect prediction gets 100 %."""
    return "more than 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def _distance_text(found: Quality) -> str:
    """Return how far one-sided bounds are from the predictions on average; how many are infinite, if some are."""
    if found.n_infinite:
        return f"{found.n_infinite} of {found.rows} {found.noun} are infinite."
    if math.isnan(found.mean_distance):
        return f"The {found.noun} are {number_text(found.mean_bound)} on average."
    where = "above" if found.mean_distance >= 0 else "below"
    return f"The {found.noun} are {number_text(abs(found.mean_distance))} {where} the prediction on average."


def _own_width_text(found: Quality) -> str:
    """Return the mean and median width; with infinite intervals, their number."""
    median = number_text(found.median_width)
    if found.n_infinite == found.rows:
        return "All intervals are infinite"
    if found.n_infinite:
        return f"{found.n_infinite} of {found.rows} intervals are infinite (median width: {median})"
    mean = number_text(found.mean_width)
    return f"Intervals are {mean} wide on average" + (f" (median {median})" if median != mean else "")


def _alternatives_text(found: Quality) -> str:
    """Return the widths without a model and with one threshold for all rows."""
    few = " (too few rows)" if math.isinf(found.no_model_width) else ""
    without = f"against {number_text(found.no_model_width)} without any model{few}"
    if math.isnan(found.one_threshold_width) or found.one_threshold_width == found.mean_width:
        return without
    return f"{without} and {number_text(found.one_threshold_width)} with one threshold for all rows"


def _comparison_text(found: Quality) -> str:
    """Return a remark if the widths and the prediction point in different directions, or the intervals are no use."""
    if found.r2 < NEGLIGIBLE_R2 and found.has_better_intervals:
        scores = [number_text(score) for score in (found.interval_score, found.no_model_interval_score)]
        return (
            "But the intervals show which rows are noisy: their interval score, which counts width and misses, is "
            f"{scores[0]}, against {scores[1]} without any model."
        )
    if math.isfinite(found.no_model_width) and found.mean_width >= found.no_model_width:
        return "So the intervals are not narrower than without any model."
    return ""
