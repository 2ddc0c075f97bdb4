"""Pools: the calibration scores that one kind of new row is compared with, and which pool answers for whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, warn_user
from evencover.groups import Label, first_few, rows_by_code
from evencover.guarantees import TooFewRowsWarning
from evencover.quantiles import rows_for_finite_threshold, thresholds, weighted_thresholds

_NAMED = 5  # groups that a warning names before it counts the rest
_REMEMBERED = 100  # choices of levels whose thresholds are kept


@dataclass(frozen=True, eq=False)
class Pool:
    """Scores of shape (n,), with weights where new rows come from a shifted source."""

    scores: FloatArray
    weights: FloatArray | None = None

    def thresholds(self, levels: tuple[Fraction, ...], test_weights: FloatArray | None = None) -> FloatArray:
        """Return the critical score at each level: shape (1, L) for all rows, (m, L) for m weights."""
        if self.weights is None or test_weights is None:
            return self._known_thresholds(levels)[None, :]
        return weighted_thresholds(self.scores, levels, self.weights, test_weights)

    def _known_thresholds(self, levels: tuple[Fraction, ...]) -> FloatArray:
        """Return the thresholds, found once for each choice of levels: rows are often asked for one by one."""
        found = self._known.get(levels)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[levels] = thresholds(self.scores, levels)
        return found

    def p_values(
        self, scores: FloatArray, tie_shares: FloatArray | None = None, test_weights: FloatArray | None = None
    ) -> FloatArray:
        """Return the weight of scores at least as large, the row's own included, over all weight; 1 without any.

        With tie shares, only that share of the ties' and the row's own weight counts.
        """
        own = 1.0 if test_weights is None else test_weights / self._unit
        counted = self._weights_from[np.searchsorted(self._sorted, scores, side="left")] + own
        if tie_shares is not None:
            larger = self._weights_from[np.searchsorted(self._sorted, scores, side="right")]
            counted = larger + tie_shares * (counted - larger)
        total = np.broadcast_to(self._weights_from[0] + own, scores.shape)
        found = np.ones(scores.shape)
        np.divide(counted, total, out=found, where=total > 0)
        return found

    @cached_property
    def _known(self) -> dict[tuple[Fraction, ...], FloatArray]:
        return {}

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.scores, kind="stable")

    @cached_property
    def _sorted(self) -> FloatArray:
        return np.sort(self.scores) if self.weights is None else self.scores[self._order]

    @cached_property
    def _unit(self) -> float:
        """The weight that all rows have, if they do and it is not 0: counted in it, their sums are exact."""
        if self.weights is None or not len(self) or not 0 < self.weights.min() == self.weights.max():
            return 1.0
        return float(self.weights[0])

    @cached_property
    def _weights_from(self) -> FloatArray:
        """Weight of the i-th smallest score and all above it, in units. Shape (n + 1,)."""
        if self.weights is None:
            return np.arange(len(self), -1.0, -1.0)
        return np.append(np.cumsum(self.weights[self._order][::-1] / self._unit)[::-1], 0.0)

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, pools: Sequence["Pool"]) -> "Pool":
        """Return the pool of all these pools' rows."""
        if len(pools) == 1:
            return pools[0]
        weights = [pool.weights for pool in pools if pool.weights is not None]
        return cls(np.concatenate([pool.scores for pool in pools]), np.concatenate(weights) if weights else None)


@dataclass(frozen=True, eq=False)
class PoolAssignment:
    """Which pool answers for each of m new rows.

    Parameters
    ----------
    pools : list of Pool
        The pools.
    names : list of labels
        The group each pool stands for; None for the empty pool that was asked for, which is no reason to warn.
    numbers : ndarray of int, shape (m,)
        Position of each row's pool.
    """

    pools: list[Pool]
    names: list[Label | None]
    numbers: IntArray

    def thresholds(self, levels: tuple[Fraction, ...], weights: FloatArray | None) -> list[float | FloatArray]:
        """Return, for each level, the rows' thresholds: shape (m,), or one number for all. Warn of infinite ones."""
        if weights is not None:
            return self._weighted_thresholds(levels, weights)
        self._warn_if_too_few(max(levels))
        found = [pool.thresholds(levels) for pool in self.pools]
        table = np.concatenate([np.empty((0, len(levels))), *found])  # (pools, L)
        if len(table) == 1:
            return list(table[0])
        return [column.take(self.numbers) for column in table.T]

    def p_values(self, scores: FloatArray, tie_shares: FloatArray | None, weights: FloatArray | None) -> FloatArray:
        """Return each row's p-value in its pool. Shape (m,)."""
        found = np.empty(len(scores))
        for number, rows in rows_by_code(self.numbers, len(self.pools)):
            shares, own = (None if each is None else each[rows] for each in (tie_shares, weights))
            found[rows] = self.pools[number].p_values(scores[rows], shares, own)
        return found

    def _weighted_thresholds(self, levels: tuple[Fraction, ...], weights: FloatArray) -> list[float | FloatArray]:
        """Return the thresholds for each row's own weight."""
        found = np.empty((len(self.numbers), len(levels)))
        outweighed = []
        for number, rows in rows_by_code(self.numbers, len(self.pools)):
            found[rows] = self.pools[number].thresholds(levels, weights[rows])
            if self.names[number] is not None and np.isinf(found[rows]).any():
                outweighed.append(self.names[number])
        if outweighed:
            warn_user(
                f"some new rows outweigh the calibration rows of their group at level {float(max(levels))}, so their "
                f"intervals are infinite; groups: {first_few(outweighed)}",
                TooFewRowsWarning,
            )
        return list(found.T)

    def _warn_if_too_few(self, level: Fraction) -> None:
        """Warn once, naming the groups in use whose threshold is infinite, and the rows they would need."""
        needed = rows_for_finite_threshold(level)
        if all(len(pool) >= needed for pool in self.pools):
            return
        few: dict[Label, int] = {}
        for number in np.unique(self.numbers):
            name, n = self.names[number], len(self.pools[number])
            if n < needed and name is not None:
                few[name] = min(n, few.get(name, n))
        if few:
            named = ", ".join(f"group {name!r} has {n}" for name, n in islice(few.items(), _NAMED))
            more = f", {len(few) - _NAMED} more groups" if len(few) > _NAMED else ""
            warn_user(
                f"too few calibration rows at level {float(level)}, so intervals are infinite: {named}{more}, "
                f"and {needed} are needed",
                TooFewRowsWarning,
            )
