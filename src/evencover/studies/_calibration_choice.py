"""Whether a study splits the rows into three parts, or uses every row for training, calibration and testing."""

from typing import Any

import numpy as np

from evencover.groups import Groups, Label
from evencover.model_selection import Part
from evencover.predictions import Prediction
from evencover.quantiles import rows_for_finite_threshold
from evencover.rows import Rows
from evencover.studies._columns import PreparedTable
from evencover.studies._messages import Message
from evencover.studies._splits import clusters_of, has_rows_for_split, one_row_per_cluster, split_table
from evencover.studies.plan import Plan
from evencover.taxonomies import (
    ByFeature,
    ByFunction,
    ByPrediction,
    BySpread,
    Marginal,
    Product,
    Taxonomy,
    fresh_taxonomy,
)

_MAX_ROWS = 1000  # cross-fitting takes about a hundred fits
_TOO_FEW = "they are too few for three parts"
_MIN_GROUPS = 3  # of the spread, which a split should allow


def reason_for_cross(table: PreparedTable, plan: Plan) -> str | None:
    """Return why the rows of a table should not be split, as the end of a sentence; None if they should be."""
    if plan.needs_split is not None or table.times is not None or len(table.y) > _MAX_ROWS:
        return None
    if not has_rows_for_split(table, plan):
        return _TOO_FEW
    _, calibration, _ = split_table(table, plan)
    calibration = one_row_per_cluster(calibration, clusters_of(table, calibration), plan.seed)
    needed = rows_for_finite_threshold(plan.level)
    if plan.taxonomy is not None:
        return _small_group(plan.taxonomy, table, calibration, needed)
    if len(calibration) >= _MIN_GROUPS * (2 * needed + 1):
        return None
    return f"a split would leave {len(calibration)} rows for calibration, too few for groups"


def _small_group(taxonomy: Taxonomy, table: PreparedTable, calibration: Part, needed: int) -> str | None:
    """Return that a group would have too few calibration rows, if one would, and the whole table has enough.

    Predictions are not known yet. Random numbers stand in for them, which gives bins with the same numbers of rows.
    """
    if not _has_known_sizes(taxonomy):
        return None
    learned = fresh_taxonomy(taxonomy)
    counts = _counts(learned.learn(_stand_in(calibration)))
    in_table = _counts(learned.assign(_stand_in(Part(table.features, table.y, table.rows))))
    small = {label: counts.get(label, 0) for label, n in in_table.items() if counts.get(label, 0) < needed <= n}
    if not small:
        return None
    label = min(small, key=lambda each: small[each])
    return f"a split would leave {small[label]} rows to calibrate the group {label}, and finite intervals need {needed}"


def _has_known_sizes(taxonomy: Any) -> bool:
    """Return whether the sizes of the groups can be known before anything is predicted."""
    if isinstance(taxonomy, Product):
        return all(_has_known_sizes(each) for each in taxonomy.taxonomies)
    if isinstance(taxonomy, BySpread | ByPrediction):
        return taxonomy.edges is None
    return isinstance(taxonomy, Marginal | ByFeature | ByFunction)


def _counts(groups: Groups) -> dict[Label, int]:
    """Return the number of rows of each group that has rows."""
    return {label: len(rows) for label, rows in groups.split(np.arange(len(groups))).items()}


def _stand_in(part: Part) -> Rows:
    """Return rows with random numbers instead of predictions."""
    numbers = np.random.default_rng(0).permutation(len(part)) + 1.0
    return Rows(Prediction(numbers, spread=numbers[::-1]), part.X, part.y)


def cross_notes(reason: str | None) -> list[Message]:
    """Return a note on why no rows were set aside, if this was decided here, and how to split them if they can be."""
    if reason is None:
        return []
    text = f"the rows take turns to train, to calibrate and to test, because {reason}"
    if reason == _TOO_FEW:
        return [Message(text)]
    return [Message(f"{text}. To split them into three parts, use", ({"calibration": "split"},), lead="")]
