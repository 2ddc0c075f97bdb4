"""The split of a table's rows into training, calibration and test parts: at random, by cluster, or by time."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evencover.groups import Groups, Label, one_row_of_each
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import column, take
from evencover.model_selection import Part, three_way_split
from evencover.predictions import Prediction
from evencover.quantiles import rows_for_finite_threshold
from evencover.rows import Rows
from evencover.studies.messages import Message
from evencover.studies.plan import Plan
from evencover.studies.table_preparation import PreparedTable
from evencover.taxonomies import Taxonomy, fresh_taxonomy, has_known_sizes

_MIN_TRAINING_ROWS = 10  # two for each fold


def split_table(table: PreparedTable, plan: Plan) -> tuple[Part, Part, Part]:
    """Return the training, calibration and test parts; their positions are those in the given table.

    With clusters, the test part has one row of each cluster. With times, the parts follow each other.
    """
    _check_size(table, plan)
    parts = _split_by_time(table, plan) if table.times is not None else _split_at_random(table, plan)
    return tuple(Part(part.X, part.y, table.rows[part.positions]) for part in parts)  # type: ignore[return-value]


def clusters_of(table: PreparedTable, part: Part) -> IntArray | None:
    """Return the cluster of each row of a part of `split_table`, as a number; None without clusters."""
    return None if table.clusters is None else table.clusters.codes[table.places(part.positions)]


def time_notes(table: Any, time: str | None, parts: Sequence[Part]) -> list[Message]:
    """Return a note on a split by time: when each part ends, and what is guaranteed."""
    if time is None:
        return []
    values = column(table, time, "time")
    training, calibration, test = (_last_time(values, part.positions) for part in parts)
    text = (
        f"split by {time!r}. The model was fitted on rows up to {training}, calibrated on the rows after these up to "
        f"{calibration}, and tested on the rows after these up to {test}. The guarantee holds for later rows as far as "
        "they are like the calibration rows; the test shows whether this was so for the latest rows"
    )
    return [Message(text)]


def _last_time(values: NDArray[Any], positions: IntArray) -> str:
    """Return the time of the last of the rows at these positions, which are in the order of time."""
    last = values[positions[-1]]
    if isinstance(last, np.datetime64):
        last = np.datetime_as_string(last.astype("datetime64[s]"))
    return str(last).removesuffix("T00:00:00")


def has_rows_for_split(table: PreparedTable, plan: Plan) -> bool:
    """Return whether there are enough rows or clusters for the three parts."""
    n = _n_units(table)
    return n * plan.training_size >= _MIN_TRAINING_ROWS and n * min(plan.calibration_size, plan.test_size) >= 1


def _n_units(table: PreparedTable) -> int:
    """Return the number of rows or, if rows belong together, of clusters."""
    return len(table.y) if table.clusters is None else len(table.clusters.labels)


def _check_size(table: PreparedTable, plan: Plan) -> None:
    """Raise ValueError if there are too few rows or clusters for the three parts."""
    n = _n_units(table)
    if not has_rows_for_split(table, plan):
        needed = max(_MIN_TRAINING_ROWS / plan.training_size, 1 / min(plan.calibration_size, plan.test_size))
        units = "rows" if table.clusters is None else "clusters"
        raise ValueError(
            f"table must have at least {ceil(round(needed, 9))} {units}, of which {_MIN_TRAINING_ROWS} are for "
            f"training; got {n}"
        )


def _split_at_random(table: PreparedTable, plan: Plan) -> tuple[Part, Part, Part]:
    codes = None if table.clusters is None else table.clusters.codes
    training, calibration, test = three_way_split(
        table.features,
        table.y,
        calibration_size=plan.calibration_size,
        test_size=plan.test_size,
        clusters=codes,
        random_state=plan.seed,
    )
    if codes is None:
        return training, calibration, test
    return training, calibration, one_row_per_cluster(test, codes[test.positions], plan.seed)


def one_row_per_cluster(part: Part, clusters: IntArray | None, seed: int) -> Part:
    """Return one random row of each cluster, in the order of the rows; all rows without clusters."""
    if clusters is None:
        return part
    rows = one_row_of_each(clusters, np.random.default_rng([seed, 3]))
    return Part(take(part.X, rows), take(part.y, rows), part.positions[rows])


def _split_by_time(table: PreparedTable, plan: Plan) -> tuple[Part, Part, Part]:
    """Return three parts in the order of time; rows of the same time are in the same part."""
    times: FloatArray = np.asarray(table.times)
    order = np.argsort(times, kind="stable")
    shares = (plan.training_size, 1 - plan.test_size)
    first, second = (_cut(times[order], share) for share in shares)
    pieces = np.split(order, [first, second])
    if not all(len(piece) for piece in pieces) or first >= second:
        raise ValueError(
            f"time must have rows at enough different times for three parts; got {len(np.unique(times))} different "
            f"times, and parts of {', '.join(str(len(piece)) for piece in pieces)} rows"
        )
    return tuple(_part(table, piece) for piece in pieces)  # type: ignore[return-value]


def _cut(times: FloatArray, share: float) -> int:
    """Return the number of rows before a cut near a share of the rows, between two different times."""
    position = round(share * len(times))
    time = times[min(position, len(times) - 1)]
    ends = [int(np.searchsorted(times, time, side=side)) for side in ("left", "right")]
    return min(ends, key=lambda end: abs(end - position))


def _part(table: PreparedTable, rows: IntArray) -> Part:
    return Part(take(table.features, rows), table.y[rows], rows)


_MAX_ROWS = 1000  # cross-fitting takes about a hundred fits
_MIN_GROUPS = 3  # of the spread, which a split should allow


def note_on_cross(table: PreparedTable, plan: Plan) -> Message | None:
    """Return a note on why the rows are not split, and how to split them if that is possible; None if they are."""
    if plan.needs_split is not None or table.times is not None or len(table.y) > _MAX_ROWS:
        return None
    text = "the rows take turns to train, to calibrate and to test, because"
    if not has_rows_for_split(table, plan):
        return Message(f"{text} they are too few for three parts")
    reason = _too_few_for_groups(table, plan)
    if reason is None:
        return None
    return Message(f"{text} {reason}. To split them into three parts, use", ({"calibration": "split"},), lead="")


def _too_few_for_groups(table: PreparedTable, plan: Plan) -> str | None:
    """Return why a split leaves too few rows to calibrate groups, as the end of a sentence; None if it does not."""
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
    if not has_known_sizes(taxonomy):
        return None
    learned = fresh_taxonomy(taxonomy)
    counts = _counts(learned.learn(_stand_in(calibration)))
    in_table = _counts(learned.assign(_stand_in(Part(table.features, table.y, table.rows))))
    small = {label: counts.get(label, 0) for label, n in in_table.items() if counts.get(label, 0) < needed <= n}
    if not small:
        return None
    label = min(small, key=lambda each: small[each])
    return f"a split would leave {small[label]} rows to calibrate the group {label}, and finite intervals need {needed}"


def _counts(groups: Groups) -> dict[Label, int]:
    """Return the number of rows of each group that has rows."""
    return {label: len(rows) for label, rows in groups.split(np.arange(len(groups))).items()}


def _stand_in(part: Part) -> Rows:
    """Return rows with random numbers instead of predictions."""
    numbers = np.random.default_rng(0).permutation(len(part)) + 1.0
    return Rows(Prediction(numbers, spread=numbers[::-1]), part.X, part.y)
