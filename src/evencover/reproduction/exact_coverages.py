"""Two exact coverages: one threshold for two subgroups, and exchangeable rows that share a latent state."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.integrate import quad
from scipy.stats import beta, binom, halfnorm

from evencover._internal.arrays import FloatArray, IntArray
from evencover.reproduction.simulation import CoverageCounts, Design, blocks_of, thresholds


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
