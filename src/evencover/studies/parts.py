"""The three parts of a study."""

from typing import Any

import numpy as np

from evencover.groups import Groups
from evencover.inputs import FloatArray, IntArray
from evencover.splits import Part, three_way_split
from evencover.studies.plan import Plan
from evencover.tables import column, take

_FEWEST = 10  # training rows: two for each fold


def three_parts(table: Any, features: Any, y: FloatArray, split_by: str | None, plan: Plan) -> tuple[Part, Part, Part]:
    """Return the three parts; of clusters, one row each for calibration and for the verdict."""
    clusters = None if split_by is None else _clusters(table, split_by)
    n = len(y) if clusters is None else len(clusters.labels)
    if n * plan.training_size < _FEWEST or n * min(plan.calibration_size, plan.test_size) < 1:
        what = "rows" if clusters is None else f"clusters by {split_by!r}"
        raise ValueError(
            f"table must have more {what}: {n} leave about {n * plan.training_size:.0f} for training, which takes "
            f"{_FEWEST}, {n * plan.calibration_size:.0f} to calibrate and {n * plan.test_size:.0f} to judge"
        )
    codes = None if clusters is None else clusters.codes
    training, calibration, test = three_way_split(
        features,
        y,
        calibration_size=plan.calibration_size,
        test_size=plan.test_size,
        groups=codes,
        random_state=plan.seed,
    )
    if codes is None:
        return training, calibration, test
    rng = np.random.default_rng([plan.seed, 3])
    return training, _one_each(calibration, codes, rng), _one_each(test, codes, rng)


def _clusters(table: Any, split_by: str) -> Groups:
    """Return the cluster of each row."""
    return Groups.from_labels(column(table, split_by, "split_by"), name=f"split_by: column {split_by!r}")


def _one_each(part: Part, codes: IntArray, rng: np.random.Generator) -> Part:
    """Return a row of each cluster, at random, in the order of the rows."""
    order = rng.permutation(len(part))
    rows = np.sort(order[np.unique(codes[part.positions][order], return_index=True)[1]])
    return Part(take(part.X, rows), take(part.y, rows), part.positions[rows])
