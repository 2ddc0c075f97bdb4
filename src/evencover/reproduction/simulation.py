"""Repeated simulation of conformal predictors with one threshold: counts of covered test rows in each group.

Repeats are vectorised. The rows of many repeats are drawn, predicted and scored as one long array, then reshaped to
(repeats, rows): the first rows of each repeat are for calibration, the others for the test. Repeats are drawn in blocks
of fixed size, each with its own seed. So only the counts need more memory as the number of repeats grows, and the first
repeats do not depend on how many follow.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count, check_seed, is_count
from evencover.predictions import Prediction
from evencover.quantiles import conformal_rank
from evencover.scores import Score
from evencover.synthetic.data import Sample, SyntheticData

Name = TypeVar("Name")

LEVEL = 0.9
_BLOCK = 50  # repeats drawn in one block


@dataclass(frozen=True)
class Design:
    """The settings of a repeat: its numbers of rows and its level.

    Parameters
    ----------
    n_calibration, n_test : int
        Number of calibration rows and of test rows.
    level : float
        Nominal coverage.
    """

    n_calibration: int = 1000
    n_test: int = 1000
    level: float = LEVEL

    def __post_init__(self) -> None:
        check_count(self.n_calibration, "n_calibration")
        check_count(self.n_test, "n_test")
        if self.rank > self.n_calibration:
            raise ValueError(
                f"n_calibration must be large enough for a threshold at level {self.level}; got {self.n_calibration}"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows of one repeat."""
        return self.n_calibration + self.n_test

    @property
    def rank(self) -> int:
        """Conformal rank of the threshold."""
        return conformal_rank(self.n_calibration, self.level)


@dataclass(frozen=True, eq=False)
class CoverageCounts:
    """Counts of covered test rows in each repeat and group, with the mean widths of the intervals.

    Parameters
    ----------
    covered, sizes : ndarray of shape (repeats, groups)
        Number of covered test rows, and number of test rows.
    widths : ndarray of shape (repeats, groups)
        Mean width of the intervals; NaN where a group has no rows.
    design : Design
        Settings of the repeats.
    """

    covered: IntArray
    sizes: IntArray
    widths: FloatArray
    design: Design

    @classmethod
    def concatenate(cls, parts: Iterable["CoverageCounts"], repeats: int) -> "CoverageCounts":
        """Return the first `repeats` repeats of several parts with the same design."""
        parts = list(parts)
        return cls(
            np.concatenate([part.covered for part in parts])[:repeats],
            np.concatenate([part.sizes for part in parts])[:repeats],
            np.concatenate([part.widths for part in parts])[:repeats],
            parts[0].design,
        )

    @property
    def coverage_by_repeat(self) -> FloatArray:
        """Coverage in each repeat and group; NaN where a group has no rows. Shape (repeats, groups)."""
        return _ratio(self.covered, self.sizes)

    @property
    def coverage(self) -> FloatArray:
        """Coverage in each group, over all repeats. Shape (groups,)."""
        return _ratio(self.covered.sum(axis=0), self.sizes.sum(axis=0))

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of `coverage`, estimated from the variation between repeats. Shape (groups,)."""
        deviation = (self.covered - self.coverage * self.sizes).std(axis=0, ddof=1)
        return _ratio(deviation * np.sqrt(len(self.sizes)), self.sizes.sum(axis=0))

    @property
    def z(self) -> FloatArray:
        """Distance of each group's count from its mean under even coverage, in standard errors. Shape (groups,).

        If the score does not depend on the group, the number covered among m rows of a group has exactly the
        distribution BetaBinomial(m, k, n + 1 − k), with k the conformal rank. Repeats are independent. A group without
        rows has z = 0.
        """
        k, total = self.design.rank, self.design.n_calibration + 1
        p = k / total
        variance = self.sizes * p * (1 - p) * (total + self.sizes) / (total + 1)
        excess = (self.covered - p * self.sizes).sum(axis=0)
        return np.nan_to_num(_ratio(excess, np.sqrt(variance.sum(axis=0))))

    @property
    def marginal(self) -> "CoverageCounts":
        """The counts over all groups, as one group."""
        sizes = self.sizes.sum(axis=1, keepdims=True)
        widths = np.nansum(self.widths * self.sizes, axis=1, keepdims=True) / sizes
        return CoverageCounts(self.covered.sum(axis=1, keepdims=True), sizes, widths, self.design)


def count_coverage(
    score: Score,
    y: FloatArray,
    prediction: Prediction,
    *,
    design: Design,
    by: FloatArray | None = None,
    edges: Callable[[FloatArray], FloatArray] | None = None,
) -> CoverageCounts:
    """Calibrate one threshold per repeat on its first rows, and count the covered rows among the others, by group.

    Parameters
    ----------
    score : Score
        The nonconformity score.
    y : ndarray of shape (repeats × rows,)
        Targets, one repeat after another.
    prediction : Prediction
        The model's prediction for the same rows.
    design : Design
        Settings of a repeat.
    by : ndarray of shape (repeats × rows,), optional
        Values that define the groups; by default the predicted variance.
    edges : callable, optional
        Function of the calibration rows' values, shape (repeats, n), that returns the edges of the groups, shape
        (repeats, groups − 1); by default the tertiles.
    """
    if not len(y) or len(y) % design.n_rows:
        raise ValueError(f"y must contain complete repeats of {design.n_rows} rows; got {len(y)} rows")
    values = prediction.required("spread", by="count_coverage") ** 2 if by is None else by
    if len(values) != len(y):
        raise ValueError(
            f"'by' (the values that define the groups) must have {len(y)} rows, as many as y; got {len(values)}"
        )
    is_calibration = np.tile(np.arange(design.n_rows) < design.n_calibration, len(y) // design.n_rows)
    is_test = ~is_calibration
    scores = score(y[is_calibration], prediction[is_calibration]).reshape(-1, design.n_calibration)
    intervals = score.interval(np.repeat(thresholds(scores, design), design.n_test), prediction[is_test])
    group_edges = (edges or tertiles)(values[is_calibration].reshape(-1, design.n_calibration))
    return _group_counts(intervals.covers(y[is_test]), intervals.width, values[is_test], group_edges, design)


def thresholds(scores: FloatArray, design: Design) -> FloatArray:
    """Return the threshold of each repeat, from its calibration scores of shape (repeats, n). Shape (repeats,)."""
    return np.partition(scores, design.rank - 1, axis=1)[:, design.rank - 1]


def tertiles(values: FloatArray) -> FloatArray:
    """Return the 1/3 and 2/3 quantiles of each repeat, by numpy's default method. Shape (repeats, 2)."""
    return np.quantile(values, [1 / 3, 2 / 3], axis=1).T


def fixed_edge(edge: float) -> Callable[[FloatArray], FloatArray]:
    """Return a function for `count_coverage` that makes two groups: values up to the edge, and values above it."""
    return lambda values: np.full((len(values), 1), edge)


def simulate(
    data: SyntheticData,
    count: Callable[[Sample, np.random.Generator], dict[Name, CoverageCounts]],
    *,
    design: Design,
    repeats: int,
    seed: int,
) -> dict[Name, CoverageCounts]:
    """Draw many repeats and return their counts by name.

    Parameters
    ----------
    data : SyntheticData
        Source of the rows.
    count : callable
        Takes the rows of a block of repeats and the generator that drew them. Returns coverage counts by name.
    design : Design
        Settings of a repeat.
    repeats, seed : int
        Number of repeats, and seed of the draws.
    """
    blocks = [count(data.sample(size * design.n_rows, seed=rng), rng) for size, rng in blocks_of(repeats, seed)]
    return {name: CoverageCounts.concatenate((block[name] for block in blocks), repeats) for name in blocks[0]}


def simulate_counts(
    data: SyntheticData, count: Callable[[Sample], CoverageCounts], *, design: Design, repeats: int, seed: int
) -> CoverageCounts:
    """Draw many repeats and return their counts, for one function of the rows that counts."""
    return simulate(data, lambda sample, _: {"": count(sample)}, design=design, repeats=repeats, seed=seed)[""]


def blocks_of(repeats: int, seed: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Yield the size and the generator of each block. The last block has full size too, so it may exceed `repeats`."""
    check_count(repeats, "repeats")
    check_seed(seed)
    for block in range(-(-repeats // _BLOCK)):
        yield _BLOCK, np.random.default_rng([seed, block])


def seed_of(seed: int, *names: str) -> int:
    """Return a seed derived from names by a hash, so that it does not depend on the order or number of simulations.

    A changed name gives other draws.
    """
    check_seed(seed)
    return int.from_bytes(sha256("/".join([str(seed), *names]).encode()).digest()[:8], "big")


def check_repeats(repeats: int) -> None:
    """Raise ValueError unless there are enough repeats for a standard error."""
    if not is_count(repeats) or repeats < 2:
        raise ValueError(f"repeats must be a whole number, 2 or more, for a standard error; got {repeats!r}")


def _group_counts(
    covered: BoolArray, width: FloatArray, values: FloatArray, edges: FloatArray, design: Design
) -> CoverageCounts:
    """Return the counts of test rows, given whether each is covered, its width, its value and the repeats' edges."""
    repeats, n_groups = len(edges), edges.shape[1] + 1
    cells = np.repeat(n_groups * np.arange(repeats), len(values) // repeats)  # index of each repeat's first group
    for edge in edges.T:
        cells += values > np.repeat(edge, len(values) // repeats)

    def total(weights: FloatArray) -> FloatArray:
        summed = np.bincount(cells, weights, minlength=repeats * n_groups)
        return np.asarray(summed.reshape(repeats, n_groups), dtype=float)

    sizes = np.bincount(cells, minlength=repeats * n_groups).reshape(repeats, n_groups)
    return CoverageCounts(total(covered.astype(float)).astype(np.intp), sizes, _ratio(total(width), sizes), design)


def _ratio(numerator: FloatArray | IntArray, denominator: FloatArray | IntArray) -> FloatArray:
    """Return the quotient, NaN where both numbers are 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numerator / denominator)
