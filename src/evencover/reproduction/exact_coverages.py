"""Two coverages that can be computed exactly: a pooled threshold for two subgroups, and rows that share a secret."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.integrate import quad
from scipy.stats import beta, binom, halfnorm

from evencover._internal.arrays import FloatArray, IntArray
from evencover.reproduction.simulation import Design, Tally, blocks_of, thresholds


def pooled_coverage(spread: float, spreads: tuple[float, float], *, each: int, rank: int) -> float:
    """Return the coverage of new rows of one spread by the rank-th smallest residual of two pooled subgroups.

    A new residual a is covered if fewer than `rank` of the others lie below it. Given a, their number is the sum of
    two binomials; the result is the mean of that probability over a. Noise is normal, the mean is known.

    Parameters
    ----------
    spread : float
        Standard deviation of the new rows.
    spreads : tuple of two floats
        Standard deviation in the two subgroups.
    each : int
        Calibration rows in each subgroup.
    rank : int
        The rank of the threshold among all of them.

    Examples
    --------
    >>> round(pooled_coverage(1.0, (1.0, 1.0), each=10, rank=17), 6) == round(17 / 21, 6)  # one kind of rows
    True
    """
    counts = np.arange(each + 1)

    def covered(u: float) -> float:
        a = halfnorm.ppf(u, scale=spread)
        quiet, noisy = (binom.pmf(counts, each, halfnorm.cdf(a, scale=other)) for other in spreads)
        return float(np.convolve(quiet, noisy)[:rank].sum())

    # Where the others' residuals lie, however small a part of the new row's own range that is.
    reach = [halfnorm.cdf(times * other, scale=spread) for other in spreads for times in (0.5, 1, 2, 4)]
    points = sorted({float(u) for u in reach if 0 < u < 1})
    return float(quad(covered, 0.0, 1.0, points=points, limit=500)[0])


@dataclass(frozen=True)
class SharedLatentState:
    """Exchangeable rows that are not independent, although, by default, each row's score is independent of its group.

    A secret L, 0 or 1 with probability 1/2, is shared by all rows. Given L, rows are independent: the group is 1 with
    a probability that depends on L, and the score is uniform on (0, 1), plus 1 if it is *big*, which depends on group
    and L. With the default probabilities, big scores are, averaged over L, equally likely in both groups. Yet the
    calibration rows tell of L, and L of the group of the new row.

    Parameters
    ----------
    group_1 : tuple of two Fraction
        Probability of group 1, by L.
    big : tuple of two tuples of two Fraction
        Probability of a big score, by group and L.
    """

    group_1: tuple[Fraction, Fraction] = (Fraction(8, 10), Fraction(2, 10))
    big: tuple[tuple[Fraction, Fraction], ...] = (
        (Fraction(4, 10), Fraction(1, 10)),
        (Fraction(2, 10), Fraction(0)),
    )

    def probability(self, group: int, secret: int) -> Fraction:
        """Return the probability of a group, given L."""
        return self.group_1[secret] if group == 1 else 1 - self.group_1[secret]

    def big_given_group(self, group: int) -> Fraction:
        """Return the probability of a big score in a group: if equal in both, score and group are independent."""
        joint = [self.probability(group, secret) * self.big[group][secret] for secret in (0, 1)]
        return sum(joint, Fraction(0)) / sum(self.probability(group, secret) for secret in (0, 1))

    def coverage(self, group: int, design: Design) -> float:
        """Return the coverage of a new row of a group, by one threshold for all rows."""
        weights = [self.probability(group, secret) for secret in (0, 1)]
        each = [self._coverage_given(group, secret, design) for secret in (0, 1)]
        return float(np.average(each, weights=[float(weight) for weight in weights]))

    def sample(self, repeats: int, rows: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Return scores and groups, each of shape (repeats, rows); a secret for each repeat."""
        secret = rng.integers(0, 2, (repeats, 1))
        group = (rng.random((repeats, rows)) < np.array(self.group_1, dtype=float)[secret]).astype(np.intp)
        big = rng.random((repeats, rows)) < np.array(self.big, dtype=float)[group, secret]
        return rng.random((repeats, rows)) + big, group

    def _coverage_given(self, group: int, secret: int, design: Design) -> float:
        """Return the coverage given L: the group's share below a threshold whose probability in all is Beta."""
        all_big = float(sum(self.probability(c, secret) * self.big[c][secret] for c in (0, 1)))
        own_big = float(self.big[group][secret])
        law = beta(design.rank, design.n_calibration + 1 - design.rank)

        def share(p: float) -> float:
            if p <= 1 - all_big:  # the threshold p / (1 − big) is small
                return (1 - own_big) * p / (1 - all_big)
            return 1 - own_big + own_big * (p - 1 + all_big) / all_big

        low, high = (float(end) for end in law.ppf([1e-12, 1 - 1e-12]))
        points = [1 - all_big] if low < 1 - all_big < high else None
        return float(quad(lambda p: float(law.pdf(p)) * share(p), low, high, points=points, limit=200)[0])


def latent_state_tally(world: SharedLatentState, *, design: Design, repeats: int, seed: int) -> Tally:
    """Return what one threshold for all rows covers in each group of such a world."""
    blocks = (_tally_of(*world.sample(size, design.n_rows, rng), design) for size, rng in blocks_of(repeats, seed))
    return Tally.joined(blocks, repeats)


def _tally_of(scores: FloatArray, groups: IntArray, design: Design) -> Tally:
    """Return what is covered in one block of repeats."""
    n = design.n_calibration
    below = scores[:, n:] <= thresholds(scores[:, :n], design)[:, None]
    members = np.stack([groups[:, n:] == group for group in (0, 1)], axis=2)  # (repeats, tests, groups)
    covered = (below[:, :, None] & members).sum(axis=1)
    return Tally(covered, members.sum(axis=1), np.full(covered.shape, np.nan), design)
