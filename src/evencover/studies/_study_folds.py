"""The folds of a cross-fitted study: which rows train, and which row of each cluster calibrates or is tested."""

from dataclasses import dataclass
from itertools import count

import numpy as np

from evencover._internal.arrays import IntArray
from evencover.models._row_splits import RandomPairs

_FOLDS = 10
_MAX_FOLDS = 100  # of one row each; more take too long
_MAX_HELD_OUT_FOLDS = 30
_MIN_TRAINING_ROWS = 10  # two for each of the five folds that learn a spread


@dataclass(frozen=True, eq=False)
class Units:
    """The units that folds keep together, single rows or clusters, and the row of each unit that counts.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        The unit of each row, from 0 to the number of units − 1.
    rows : ndarray of int, shape (number of units,)
        The row of each unit that calibrates and is tested: rows of one cluster depend on each other.
    """

    codes: IntArray
    rows: IntArray

    @classmethod
    def of(cls, n: int, clusters: IntArray | None, rng: np.random.Generator) -> "Units":
        """Return single rows as units or, with the cluster of each row, clusters with one random row of each."""
        if clusters is None:
            return cls(np.arange(n), np.arange(n))
        order = rng.permutation(n)
        _, first = np.unique(clusters[order], return_index=True)
        return cls(np.unique(clusters, return_inverse=True)[1], order[first])

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, units: IntArray) -> tuple["Units", IntArray]:
        """Return the other units, numbered anew, and the positions of their rows."""
        kept = np.setdiff1d(np.arange(len(self)), units)
        positions = np.flatnonzero(np.isin(self.codes, kept))
        rows = np.searchsorted(positions, self.rows[kept])
        return Units(np.searchsorted(kept, self.codes[positions]), rows), positions

    def folds(self, held_out: list[IntArray]) -> RandomPairs:
        """Return the folds that hold out these units, which were drawn at random.

        All rows of the other units train, and one row of each of these counts.
        """
        return RandomPairs(
            (np.flatnonzero(~np.isin(self.codes, units)), np.sort(self.rows[units])) for units in held_out
        )


def held_out_units(n_units: int, needed: int, rng: np.random.Generator) -> list[IntArray]:
    """Return the units of ten random folds, of about the same size, that hold every unit once.

    There are up to 30 folds if fewer would leave less than the `needed` units of a finite interval for calibration.
    """
    most = min(_MAX_HELD_OUT_FOLDS, n_units)
    enough = (n for n in range(_FOLDS, most) if n_units - -(-n_units // n) >= needed)
    n_folds = min(_FOLDS, n_units) if needed >= n_units else next(enough, most)
    return [np.sort(part) for part in np.array_split(rng.permutation(n_units), n_folds)]


def calibration_units(n_units: int, needed: int, rng: np.random.Generator, *, alone: bool = False) -> list[IntArray]:
    """Return the units of ten folds or a few more, all of the same size; the units that are left over only train.

    The guarantee of cross-conformal prediction is best for folds of equal size. Fewer units are left over than a fold
    has, at most every tenth. With `alone`, each of up to 100 units is a fold: several folds in a group weaken the
    guarantee of the group, but not folds of one row.

    Parameters
    ----------
    n_units : int
        Number of rows, or clusters.
    needed : int
        Number of units that a finite interval needs; none is left over if there would be fewer.
    rng : Generator
        Source of randomness.
    alone : bool
        Whether each unit should be a fold of its own.
    """
    size = 1 if alone and n_units <= _MAX_FOLDS else max(1, n_units // _FOLDS)
    if n_units - n_units % size < needed <= n_units <= _MAX_FOLDS:
        size = 1
    n_folds = n_units // size
    return [np.sort(part) for part in rng.permutation(n_units)[: n_folds * size].reshape(n_folds, size)]


def check_number_of_units(n_units: int, *, are_clusters: bool) -> None:
    """Raise ValueError if there are too few rows or clusters for folds inside of folds."""
    if n_units < MIN_UNITS:
        units = "clusters" if are_clusters else "rows"
        raise ValueError(
            f"table must have at least {MIN_UNITS} {units}: some are left out to test, others to calibrate, and "
            f"{_MIN_TRAINING_ROWS} remain to train; got {n_units}"
        )


def _training_units(n_units: int) -> int:
    """Return how many units train the smallest model of a study."""
    rest = n_units - -(-n_units // min(_FOLDS, n_units))
    return rest - max(1, rest // _FOLDS)


MIN_UNITS = next(n for n in count(2) if _training_units(n) >= _MIN_TRAINING_ROWS)
