"""A marginal conformal predictor, many times over: what it covers in each class, and whether that is chance.

Repeats are vectorised: the rows of all of them are drawn, predicted and scored as one long array, then seen as an
array of shape (repeats, rows) in which the first rows calibrate and the others test. They come in blocks of fixed
size, each with a seed of its own, so that memory does not grow with the number of repeats and the first repeats
are the same however many follow.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np

from evencover.inputs import BoolArray, FloatArray, IntArray, generator, is_count, refuse_unless_count
from evencover.predictions import Prediction
from evencover.quantiles import conformal_rank
from evencover.scores import Score
from evencover.synthetic.worlds import Sample, World

Name = TypeVar("Name")

LEVEL = 0.9
_BLOCK = 50  # repeats drawn at once


def blocks(repeats: int, seed: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Yield the number of repeats in each block, with the block's own generator."""
    refuse_unless_count(repeats, "repeats")
    generator(seed)  # refused here if it is none
    for block, start in enumerate(range(0, repeats, _BLOCK)):
        yield min(_BLOCK, repeats - start), np.random.default_rng([seed, block])


def refuse_without_scatter(repeats: int) -> None:
    """Raise unless there are repeats enough for a standard error."""
    if not is_count(repeats) or repeats < 2:
        raise ValueError(f"repeats must be a whole number, 2 or more, to have a scatter; got {repeats!r}")


@dataclass(frozen=True)
class Design:
    """How many rows a repeat has, and for which level it is calibrated."""

    n_calibration: int = 1000
    n_test: int = 1000
    level: float = LEVEL

    @property
    def n_rows(self) -> int:
        """Rows of one repeat."""
        return self.n_calibration + self.n_test

    @property
    def rank(self) -> int:
        """The conformal rank of the threshold."""
        return conformal_rank(self.n_calibration, self.level)

    def samples(self, world: World, repeats: int, seed: int) -> Iterator[tuple[Sample, np.random.Generator]]:
        """Yield all repeats' rows, some repeats at a time, with the generator that drew them."""
        for size, rng in blocks(repeats, seed):
            yield world.sample(size * self.n_rows, seed=rng), rng


@dataclass(frozen=True, eq=False)
class Tally:
    """Test rows covered in each repeat and class, of how many, with the widths of their intervals.

    Parameters
    ----------
    covered, sizes : ndarray of shape (repeats, classes)
        Rows covered, and rows.
    widths : ndarray of shape (repeats, classes)
        Mean width; NaN where a class has no rows.
    design : Design
        What was repeated.
    """

    covered: IntArray
    sizes: IntArray
    widths: FloatArray
    design: Design

    @property
    def shares(self) -> FloatArray:
        """Share covered in each repeat and class. Shape (repeats, classes)."""
        with np.errstate(invalid="ignore"):
            return self.covered / self.sizes

    @property
    def coverage(self) -> FloatArray:
        """Share covered in each class, all repeats together. Shape (classes,)."""
        return np.asarray(self.covered.sum(axis=0) / self.sizes.sum(axis=0))

    @property
    def error(self) -> FloatArray:
        """Standard error of `coverage`, from the scatter over the repeats. Shape (classes,)."""
        scatter = (self.covered - self.coverage * self.sizes).std(axis=0, ddof=1)
        return np.asarray(scatter * np.sqrt(len(self.sizes)) / self.sizes.sum(axis=0))

    @cached_property
    def z(self) -> FloatArray:
        """How far each class is from even coverage, in standard errors. Shape (classes,).

        If the score does not depend on the class, the number covered among m rows of a class is
        BetaBinomial(m, k, n + 1 − k), k the conformal rank; exactly, and independently over the repeats.
        """
        k, total = self.design.rank, self.design.n_calibration + 1
        p = k / total
        variance = self.sizes * p * (1 - p) * (total + self.sizes) / (total + 1)
        excess = (self.covered - p * self.sizes).sum(axis=0)
        return np.asarray(excess / np.sqrt(variance.sum(axis=0)))

    @property
    def marginal(self) -> "Tally":
        """The same with all classes together: one class."""
        sizes = self.sizes.sum(axis=1, keepdims=True)
        widths = np.nansum(self.widths * self.sizes, axis=1, keepdims=True) / sizes
        return Tally(self.covered.sum(axis=1, keepdims=True), sizes, widths, self.design)

    def __add__(self, other: "Tally") -> "Tally":
        """Return both tallies' repeats, one after the other."""
        return Tally(
            np.concatenate([self.covered, other.covered]),
            np.concatenate([self.sizes, other.sizes]),
            np.concatenate([self.widths, other.widths]),
            self.design,
        )


def tally(
    score: Score,
    y: FloatArray,
    prediction: Prediction,
    *,
    design: Design,
    by: FloatArray | None = None,
    edges: Callable[[FloatArray], FloatArray] | None = None,
) -> Tally:
    """Calibrate each repeat's first rows together, and count what is covered of its other rows, by class.

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
        What the classes are cut by; the predicted variance by default.
    edges : callable, optional
        From the calibration rows' values, shape (repeats, n), to the edges of the classes, shape
        (repeats, classes − 1); thirds by default.
    """
    values = prediction.required("spread", by="classes of the variance") ** 2 if by is None else by
    calibrates = np.tile(np.arange(design.n_rows) < design.n_calibration, len(y) // design.n_rows)
    test = ~calibrates
    scores = score(y[calibrates], prediction[calibrates]).reshape(-1, design.n_calibration)
    thresholds = np.partition(scores, design.rank - 1, axis=1)[:, design.rank - 1]  # (repeats,)
    intervals = score.interval(np.repeat(thresholds, design.n_test), prediction[test])
    cuts = (edges or thirds)(values[calibrates].reshape(-1, design.n_calibration))
    return _counted(intervals.covers(y[test]), intervals.width, values[test], cuts, design)


def thirds(values: FloatArray) -> FloatArray:
    """Return the 1/3 and 2/3 quantiles of each repeat, numpy's default ones. Shape (repeats, 2)."""
    return np.quantile(values, [1 / 3, 2 / 3], axis=1).T


def cut_at(edge: float) -> Callable[[FloatArray], FloatArray]:
    """Return the rule of two classes: up to a fixed edge, and above it."""
    return lambda values: np.full((len(values), 1), edge)


def simulated(
    world: World,
    tallies: Callable[[Sample, np.random.Generator], dict[Name, Tally]],
    *,
    design: Design,
    repeats: int,
    seed: int,
) -> dict[Name, Tally]:
    """Return what `tallies` counts in one block after another, added up."""
    counted = (tallies(*drawn) for drawn in design.samples(world, repeats, seed))
    return reduce(lambda one, other: {name: one[name] + other[name] for name in one}, counted)


def _counted(covered: BoolArray, width: FloatArray, values: FloatArray, cuts: FloatArray, design: Design) -> Tally:
    """Return the tally of test rows, given whether each is covered, its width, its value and the repeats' edges."""
    repeats, n_classes = len(cuts), cuts.shape[1] + 1
    cells = np.repeat(n_classes * np.arange(repeats), len(values) // repeats)  # of the first class in each repeat
    for cut in cuts.T:
        cells += values > np.repeat(cut, len(values) // repeats)

    def total(weights: FloatArray) -> FloatArray:
        summed = np.bincount(cells, weights, minlength=repeats * n_classes)
        return np.asarray(summed.reshape(repeats, n_classes), dtype=float)

    sizes = np.bincount(cells, minlength=repeats * n_classes).reshape(repeats, n_classes)
    with np.errstate(invalid="ignore"):
        return Tally(total(covered.astype(float)).astype(np.intp), sizes, total(width) / sizes, design)
