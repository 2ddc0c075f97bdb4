"""Many repeats of an experiment in one calibration, and every row of a table as the new one."""

import numpy as np
from sklearn.base import BaseEstimator, clone

from evencover import Groups


class InEachRepeat(BaseEstimator):
    """A taxonomy that learns the groups of another one in each repeat, from the calibration rows of this repeat alone.

    The rows of the repeats follow each other, with the same number of rows in each. Labels are (repeat, label). So one
    calibration holds all repeats: a new row is compared only with calibration rows of its own repeat.
    """

    needs_target = False

    def __init__(self, taxonomy, n_repeats):
        self.taxonomy = taxonomy
        self.n_repeats = n_repeats

    def learn(self, rows):
        self.taxonomies_ = [clone(self.taxonomy) for _ in range(self.n_repeats)]
        groups = joined([taxonomy.learn(part) for taxonomy, part in self._with_rows(rows)])
        self.labels_ = groups.labels
        return groups

    def assign(self, rows):
        return joined([taxonomy.assign(part) for taxonomy, part in self._with_rows(rows)])

    def _with_rows(self, rows):
        """Return the taxonomy of each repeat with its rows."""
        size = len(rows) // self.n_repeats
        parts = (rows[start : start + size] for start in range(0, len(rows), size))
        return zip(self.taxonomies_, parts, strict=True)


def joined(parts):
    """Return the groups of all repeats as groups of one table, with their edge rows; labels are (repeat, label)."""
    first_codes = np.cumsum([0, *(len(part.labels) for part in parts)])
    codes = np.concatenate([part.codes + first for part, first in zip(parts, first_codes, strict=False)])
    edge = np.concatenate([np.zeros(len(part), dtype=int) if part.edge is None else part.edge for part in parts])
    labels = tuple((repeat, label) for repeat, part in enumerate(parts) for label in part.labels)
    return Groups(codes, labels, (), edge, max(part.n_edge_bits for part in parts))


def each_row_as_new(rows):
    """Yield the other rows, and the new row, for each row: if rows are exchangeable, all are equally likely to be it.

    A statement that holds for the new row with probability p, given the set of all rows, is true for the share p of
    these pairs. So an exact guarantee can be checked by counting.
    """
    for new in range(len(rows)):
        yield rows[np.delete(np.arange(len(rows)), new)], rows[[new]]
