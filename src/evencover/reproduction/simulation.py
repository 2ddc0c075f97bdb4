"""A marginal conformal predictor, many times over: what it covers in each group, and whether that is chance.

Repeats are vectorised: the rows of many of them are drawn, predicted and scored as one long array, then seen as an
array of shape (repeats, rows) in which the first rows calibrate and the others test. They come in blocks of fixed
size, each with a seed of its own: beyond the counts, memory does not grow with the number of repeats, and the first
repeats are the same however many follow.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np

from evencover._internal.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_count,
    check_seed,
    is_count,
)
from evencover.predictions import Prediction
from evencover.quantiles import conformal_rank
from evencover.scores import Score
from evencover.synthetic.data import Sample, SyntheticData

Name = TypeVar("Name")

LEVEL = 0.9
_BLOCK = 50  # repeats drawn at once


@dataclass(frozen=True)
class Design:
    """How many rows a repeat has, and for which level it is calibrated.

    Parameters
    ----------
    n_calibration, n_test : int
        Rows that calibrate, and rows that test.
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
            raise ValueError(f"{self.n_calibration} calibration rows are too few for a threshold at level {self.level}")

    @property
    def n_rows(self) -> int:
        """Rows of one repeat."""
        return self.n_calibration + self.n_test

    @property
    def rank(self) -> int:
        """The conformal rank of the threshold."""
        return conformal_rank(self.n_calibration, self.level)


@dataclass(frozen=True, eq=False)
class Tally:
    """Test rows covered in each repeat and group, of how many, with the widths of their intervals.

    Parameters
    ----------
    covered, sizes : ndarray of shape (repeats, groups)
        Rows covered, and rows.
    widths : ndarray of shape (repeats, groups)
        Mean width; NaN where a group has no rows.
    design : Design
        What was repeated.
    """

    covered: IntArray
    sizes: IntArray
    widths: FloatArray
    design: Design

    @classmethod
    def joined(cls, tallies: Iterable["Tally"], repeats: int) -> "Tally":
        """Return the first repeats of some tallies of one design, one after another."""
        parts = list(tallies)
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
        """Coverage in each group, all repeats together. Shape (groups,)."""
        return _ratio(self.covered.sum(axis=0), self.sizes.sum(axis=0))

    @property
    def error(self) -> FloatArray:
        """Standard error of `coverage`, from the scatter over the repeats. Shape (groups,)."""
        scatter = (self.covered - self.coverage * self.sizes).std(axis=0, ddof=1)
        return _ratio(scatter * np.sqrt(len(self.sizes)), self.sizes.sum(axis=0))

    @property
    def z(self) -> FloatArray:
        """How far each group is from even coverage, in standard errors; 0 for one without rows. Shape (groups,).

        If the score does not depend on the group, the number covered among m rows of a group is
        BetaBinomial(m, k, n + 1 − k), k the conformal rank; exactly, and independently over the repeats.
        """
        k, total = self.design.rank, self.design.n_calibration + 1
        p = k / total
        variance = self.sizes * p * (1 - p) * (total + self.sizes) / (total + 1)
        excess = (self.covered - p * self.sizes).sum(axis=0)
        return np.nan_to_num(_ratio(excess, np.sqrt(variance.sum(axis=0))))

    @property
    def marginal(self) -> "Tally":
        """The same with all groups together: one group."""
        sizes = self.sizes.sum(axis=1, keepdims=True)
        widths = np.nansum(self.widths * self.sizes, axis=1, keepdims=True) / sizes
        return Tally(self.covered.sum(axis=1, keepdims=True), sizes, widths, self.design)


def tally(
    score: Score,
    y: FloatArray,
    prediction: Prediction,
    *,
    design: Design,
    by: FloatArray | None = None,
    edges: Callable[[FloatArray], FloatArray] | None = None,
) -> Tally:
    """Calibrate each repeat's first rows together, and count what is covered of its other rows, by group.

    Parameters
    ----------
    score : Score
        The nonconformity score.
    y : ndarray of shape (repeats × rows,)
        Targets, repeat after repeat.
    prediction : Prediction of as many rows
        What the model says.
    design : Design
        The rows of a repeat.
    by : ndarray of shape (repeats × rows,), optional
        What the groups are cut by; the predicted variance by default.
    edges : callable, optional
        From the calibration rows' values, shape (repeats, n), to the edges of the groups, shape
        (repeats, groups − 1); thirds by default.
    """
    if not len(y) or len(y) % design.n_rows:
        raise ValueError(f"y must hold whole repeats of {design.n_rows} rows; got {len(y)} rows")
    values = prediction.required("spread", by="groups of the variance") ** 2 if by is None else by
    if len(values) != len(y):
        raise ValueError(f"by must have {len(y)} rows, as many as y; got {len(values)}")
    calibrates = np.tile(np.arange(design.n_rows) < design.n_calibration, len(y) // design.n_rows)
    test = ~calibrates
    scores = score(y[calibrates], prediction[calibrates]).reshape(-1, design.n_calibration)
    intervals = score.interval(np.repeat(thresholds(scores, design), design.n_test), prediction[test])
    cuts = (edges or thirds)(values[calibrates].reshape(-1, design.n_calibration))
    return _counted(intervals.covers(y[test]), intervals.width, values[test], cuts, design)


def thresholds(scores: FloatArray, design: Design) -> FloatArray:
    """Return the threshold of each repeat, from its calibration scores of shape (repeats, n). Shape (repeats,)."""
    return np.partition(scores, design.rank - 1, axis=1)[:, design.rank - 1]


def thirds(values: FloatArray) -> FloatArray:
    """Return the 1/3 and 2/3 quantiles of each repeat, numpy's default ones. Shape (repeats, 2)."""
    return np.quantile(values, [1 / 3, 2 / 3], axis=1).T


def cut_at(edge: float) -> Callable[[FloatArray], FloatArray]:
    """Return the rule of two groups: up to a fixed edge, and above it."""
    return lambda values: np.full((len(values), 1), edge)


def simulated(
    world: SyntheticData,
    tallies: Callable[[Sample, np.random.Generator], dict[Name, Tally]],
    *,
    design: Design,
    repeats: int,
    seed: int,
) -> dict[Name, Tally]:
    """Return what `tallies` counts in many repeats.

    Parameters
    ----------
    world : World
        Where rows come from.
    tallies : callable
        Takes the rows of a block of repeats and the generator that drew them, returns tallies by name.
    design : Design
        The rows of a repeat.
    repeats, seed : int
        How often, and the seed of the draws.
    """
    blocks = [tallies(world.sample(size * design.n_rows, seed=rng), rng) for size, rng in blocks_of(repeats, seed)]
    return {name: Tally.joined((block[name] for block in blocks), repeats) for name in blocks[0]}


def simulated_tally(
    world: SyntheticData, tallied: Callable[[Sample], Tally], *, design: Design, repeats: int, seed: int
) -> Tally:
    """Return what one way of counting, a function of the rows alone, finds in many repeats."""
    return simulated(world, lambda sample, _: {"": tallied(sample)}, design=design, repeats=repeats, seed=seed)[""]


def blocks_of(repeats: int, seed: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Yield, until there are repeats enough, the size of a block and its generator; the last block is whole too."""
    check_count(repeats, "repeats")
    check_seed(seed)
    for block in range(-(-repeats // _BLOCK)):
        yield _BLOCK, np.random.default_rng([seed, block])


def seed_of(seed: int, *names: str) -> int:
    """Return the seed of something with a name: by a hash, so that no order or number of things changes it."""
    check_seed(seed)
    return int.from_bytes(sha256("/".join([str(seed), *names]).encode()).digest()[:8], "big")


def check_repeats(repeats: int) -> None:
    """Raise unless there are repeats enough for a standard error."""
    if not is_count(repeats) or repeats < 2:
        raise ValueError(f"repeats must be a whole number, 2 or more, to have a scatter; got {repeats!r}")


def _counted(covered: BoolArray, width: FloatArray, values: FloatArray, cuts: FloatArray, design: Design) -> Tally:
    """Return the tally of test rows, given whether each is covered, its width, its value and the repeats' edges."""
    repeats, n_groups = len(cuts), cuts.shape[1] + 1
    cells = np.repeat(n_groups * np.arange(repeats), len(values) // repeats)  # of the first group in each repeat
    for cut in cuts.T:
        cells += values > np.repeat(cut, len(values) // repeats)

    def total(weights: FloatArray) -> FloatArray:
        summed = np.bincount(cells, weights, minlength=repeats * n_groups)
        return np.asarray(summed.reshape(repeats, n_groups), dtype=float)

    sizes = np.bincount(cells, minlength=repeats * n_groups).reshape(repeats, n_groups)
    return Tally(total(covered.astype(float)).astype(np.intp), sizes, _ratio(total(width), sizes), design)


def _ratio(numerator: FloatArray | IntArray, denominator: FloatArray | IntArray) -> FloatArray:
    """Return a quotient, NaN where both numbers are 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numerator / denominator)
