"""Repeated simulation of conformal predictors with one threshold: counts of covered test rows in each group.

Repeats are vectorised. The rows of many repeats are drawn, predicted and scored as one long array, then reshaped to
(repeats, rows): the first rows of each repeat are for calibration, the others for the test. Repeats are drawn in blocks
of fixed size, each with its own seed. So only the counts need more memory as the number of repeats grows, and the first
repeats do not depend on how many follow.

The paper's experiment has three scores under each misspecification, for each type of data. Its text and the code behind
its figures differ in two misspecifications. *As run* means the code: noise is added to the variance, and the mean is
shifted by σ. *As written* means the text: noise is added to σ, and the mean is shifted by normal noise with standard
deviation 0.1 σ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import TypeVar

import numpy as np
from scipy.integrate import quad
from scipy.stats import beta, binom, halfnorm

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count, check_seed, is_count
from evencover.predictions import Prediction
from evencover.quantiles import conformal_rank
from evencover.scores import IntervalDistance, Normalized, Residual, Score
from evencover.synthetic import (
    Misspecification,
    NoisyCenter,
    NoisySpread,
    NoisyVariance,
    Sample,
    ScaledSpread,
    ShiftedBySpread,
    ShiftedCenter,
    SyntheticData,
    constant_mean,
    functional_dependence,
    low_dimensional,
    misspecified,
)

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


SCORES: Mapping[str, Score] = {
    "residual": Residual(),
    "interval": IntervalDistance(),
    "normalised": Normalized(),
}
NOISE_ON_SPREAD = {"σ-shifted 0.01": 0.01, "σ-shifted 0.1": 0.1, "σ-shifted 1": 1.0}


def _misspecifications(
    noisy: Callable[[float], Misspecification], shifted: Misspecification
) -> dict[str, tuple[Misspecification, ...]]:
    """Return the seven columns of the figures, given the misspecifications that differ between code and text."""
    return {
        "oracle": (),
        **{name: (noisy(size),) for name, size in NOISE_ON_SPREAD.items()},
        "σ²-scaled 5": (ScaledSpread(5**0.5),),
        "μ-shifted 1": (ShiftedCenter(1.0),),
        "μ-shifted σ": (shifted,),
    }


# The names of types and variants enter the seeds: a changed name changes the draws.
VARIANTS: Mapping[str, Mapping[str, tuple[Misspecification, ...]]] = {
    "as run": _misspecifications(NoisyVariance, ShiftedBySpread(1.0)),
    "as written": _misspecifications(NoisySpread, NoisyCenter(0.1, in_spreads=True)),
}
TYPES = {"Type 1": constant_mean, "Type 2": functional_dependence, "Type 3": low_dimensional}
GROUPS = ("low", "medium", "high")


def coverages(
    data: SyntheticData,
    misspecifications: Mapping[str, tuple[Misspecification, ...]],
    *,
    repeats: int,
    seed: int,
    oracle: SyntheticData | None = None,
    design: Design | None = None,
) -> dict[tuple[str, str], CoverageCounts]:
    """Return the coverage counts of each score under each misspecification, by tertiles of the estimated variance.

    All misspecifications use the same rows, so the random draws cause no differences between them.

    Parameters
    ----------
    data : SyntheticData
        Source of the rows.
    misspecifications : mapping of str to tuple of Misspecification
        Misspecifications of the oracle's prediction.
    repeats, seed : int
        Number of repeats, and seed of the draws.
    oracle : SyntheticData, optional
        The synthetic data whose mean and spread the oracle predicts; by default `data`.
    design : Design, optional
        Settings of a repeat; by default 1000 calibration rows and 1000 test rows.
    """
    design = design or Design()

    def count(sample: Sample, rng: np.random.Generator) -> dict[tuple[str, str], CoverageCounts]:
        prediction = (oracle or data).oracle(sample.X)
        predictions = {name: misspecified(prediction, *each, seed=rng) for name, each in misspecifications.items()}
        return {
            (name, score): count_coverage(SCORES[score], sample.y, wrong, design=design)
            for name, wrong in predictions.items()
            for score in SCORES
        }

    return simulate(data, count, design=design, repeats=repeats, seed=seed)


def misspecification_and_contamination(
    data: SyntheticData,
    *misspecifications: Misspecification,
    score: Score,
    repeats: int,
    seed: int,
    design: Design | None = None,
) -> dict[tuple[str, str], CoverageCounts]:
    """Return coverage counts for scores and groups that come from the correct or from a wrong prediction.

    A key is a pair of "correct" or "wrong": the first is the prediction used for the scores ("wrong" means
    misspecification), the second is the prediction used for the groups ("wrong" means contamination).

    Parameters
    ----------
    data : SyntheticData
        Source of the rows.
    *misspecifications : Misspecification
        Misspecifications that turn the oracle's prediction into the wrong one.
    score : Score
        The nonconformity score.
    repeats, seed : int
        Number of repeats, and seed of the draws.
    design : Design, optional
        Settings of a repeat; by default 1000 calibration rows and 1000 test rows.
    """
    design = design or Design()

    def count(sample: Sample, rng: np.random.Generator) -> dict[tuple[str, str], CoverageCounts]:
        wrong = misspecified(sample.oracle(), *misspecifications, seed=rng)
        predictions = {"correct": sample.oracle(), "wrong": wrong}
        variance = {name: each.required("spread", by="a taxonomy") ** 2 for name, each in predictions.items()}
        return {
            (scored, grouped): count_coverage(score, sample.y, predictions[scored], design=design, by=variance[grouped])
            for scored in predictions
            for grouped in predictions
        }

    return simulate(data, count, design=design, repeats=repeats, seed=seed)


def pooled_coverage(spread: float, spreads: tuple[float, float], *, rows_per_subgroup: int, rank: int) -> float:
    """Return the coverage of new rows if the threshold is the `rank`-th smallest residual of two pooled subgroups.

    A new residual a is covered if fewer than `rank` calibration residuals lie below it. Given a, their number is the
    sum of two binomial variables. The result is the mean of that probability over a. The noise is normal, and the mean
    is known.

    Parameters
    ----------
    spread : float
        Standard deviation of the new rows.
    spreads : tuple of two floats
        Standard deviation in the two subgroups.
    rows_per_subgroup : int
        Number of calibration rows in each subgroup.
    rank : int
        Rank of the threshold among all calibration residuals.

    Examples
    --------
    >>> exact = pooled_coverage(1.0, (1.0, 1.0), rows_per_subgroup=10, rank=17)  # two equal subgroups
    >>> round(exact, 6) == round(17 / 21, 6)
    True
    """
    counts = np.arange(rows_per_subgroup + 1)

    def covered(u: float) -> float:
        a = halfnorm.ppf(u, scale=spread)
        quiet, noisy = (binom.pmf(counts, rows_per_subgroup, halfnorm.cdf(a, scale=other)) for other in spreads)
        return float(np.convolve(quiet, noisy)[:rank].sum())

    # Break points where the calibration residuals lie: they can be a very small part of the new row's range.
    reach = [halfnorm.cdf(times * other, scale=spread) for other in spreads for times in (0.5, 1, 2, 4)]
    points = sorted({float(u) for u in reach if 0 < u < 1})
    return float(quad(covered, 0.0, 1.0, points=points, limit=500)[0])


@dataclass(frozen=True)
class SharedLatentState:
    """Exchangeable rows that share a latent state, so they are not independent.

    All rows share a latent state L, which is 0 or 1 with probability 1/2. Given L, the rows are independent. The
    probability of group 1 depends on L. The score is uniform on (0, 1), plus 1 if it is *big*; the probability of a big
    score depends on the group and on L.

    With the default probabilities, score and group of a single row are independent: averaged over L, big scores are
    equally likely in both groups. But the calibration rows carry information about L, and so does the group of the
    new row.

    Parameters
    ----------
    group_1 : tuple of two Fraction
        Probability of group 1, for L = 0 and L = 1.
    big : tuple of two tuples of two Fraction
        Probability of a big score, by group and L.
    """

    group_1: tuple[Fraction, Fraction] = (Fraction(8, 10), Fraction(2, 10))
    big: tuple[tuple[Fraction, Fraction], ...] = (
        (Fraction(4, 10), Fraction(1, 10)),
        (Fraction(2, 10), Fraction(0)),
    )

    def probability(self, group: int, state: int) -> Fraction:
        """Return the probability of a group, given L."""
        return self.group_1[state] if group == 1 else 1 - self.group_1[state]

    def big_given_group(self, group: int) -> Fraction:
        """Return the probability of a big score in a group. If it is equal in both, score and group are independent."""
        joint = [self.probability(group, state) * self.big[group][state] for state in (0, 1)]
        return sum(joint, Fraction(0)) / sum(self.probability(group, state) for state in (0, 1))

    def coverage(self, group: int, design: Design) -> float:
        """Return the exact coverage of a new row of a group, with one threshold for all rows."""
        weights = [self.probability(group, state) for state in (0, 1)]
        coverages = [self._coverage_given(group, state, design) for state in (0, 1)]
        return float(np.average(coverages, weights=[float(weight) for weight in weights]))

    def sample(self, repeats: int, rows: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draw scores and groups, each of shape (repeats, rows), with one latent state per repeat."""
        state = rng.integers(0, 2, (repeats, 1))
        group = (rng.random((repeats, rows)) < np.array(self.group_1, dtype=float)[state]).astype(np.intp)
        big = rng.random((repeats, rows)) < np.array(self.big, dtype=float)[group, state]
        return rng.random((repeats, rows)) + big, group

    def _coverage_given(self, group: int, state: int, design: Design) -> float:
        """Return the coverage of a group given L, where the coverage of all rows has a Beta distribution."""
        all_big = float(sum(self.probability(c, state) * self.big[c][state] for c in (0, 1)))
        own_big = float(self.big[group][state])
        coverage_of_all = beta(design.rank, design.n_calibration + 1 - design.rank)

        def share(p: float) -> float:
            if p <= 1 - all_big:  # the threshold, p / (1 − all_big), is at most 1
                return (1 - own_big) * p / (1 - all_big)
            return 1 - own_big + own_big * (p - 1 + all_big) / all_big

        low, high = (float(end) for end in coverage_of_all.ppf([1e-12, 1 - 1e-12]))
        points = [1 - all_big] if low < 1 - all_big < high else None
        return float(quad(lambda p: float(coverage_of_all.pdf(p)) * share(p), low, high, points=points, limit=200)[0])


def latent_state_counts(source: SharedLatentState, *, design: Design, repeats: int, seed: int) -> CoverageCounts:
    """Simulate rows with a shared latent state, and count the rows of each group covered by one threshold."""
    blocks = (_block_counts(*source.sample(size, design.n_rows, rng), design) for size, rng in blocks_of(repeats, seed))
    return CoverageCounts.concatenate(blocks, repeats)


def _block_counts(scores: FloatArray, groups: IntArray, design: Design) -> CoverageCounts:
    """Return the coverage counts of one block of repeats."""
    n = design.n_calibration
    below = scores[:, n:] <= thresholds(scores[:, :n], design)[:, None]
    members = np.stack([groups[:, n:] == group for group in (0, 1)], axis=2)  # (repeats, tests, groups)
    covered = (below[:, :, None] & members).sum(axis=1)
    return CoverageCounts(covered, members.sum(axis=1), np.full(covered.shape, np.nan), design)
