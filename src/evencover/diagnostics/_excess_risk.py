"""Whether the features tell covered rows from missed ones: a classifier that learns on some rows, judged on others."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import probability

_TRAINED = 100_000  # rows that the classifier learns from
_PERMUTED = 10_000  # rows up to which permutations are drawn
_PERMUTATIONS = 999


@dataclass(frozen=True)
class ExcessRisk:
    """Whether the features tell covered rows from missed ones: the excess risk of the target coverage (ERT).

    Parameters
    ----------
    value : float
        How much better a classifier of the features predicts whether a row is covered than the level does: the mean
        difference of squared errors. It estimates a lower bound of the mean squared distance of the conditional
        coverage from the level; below 0 where the classifier found nothing.
    p_value : float
        By permutation, or with more than 10 000 rows by its normal limit: for the null that coverage, given this
        calibration, does not depend on the features. Of a valid predictor calibrated per group it does, by chance.

    References
    ----------
    Braun, Holzmüller, Jordan, Bach (2025), Conditional coverage diagnostics for conformal prediction.
    """

    value: float
    p_value: float

    def __str__(self) -> str:
        told = "yes" if self.p_value < SIGNIFICANT else "not beyond chance"
        by = f"ERT {self.value:.4f}" if self.value > 0 else "ERT not above 0"
        return f"{told} (p {probability(self.p_value)} given this calibration; {by})"


def excess_risk(
    X: FloatArray, covered: BoolArray, halves: tuple[IntArray, IntArray], level: float, rng: np.random.Generator
) -> ExcessRisk:
    """Return the excess risk on the second half of the rows, by a classifier that learned from the first."""
    learned, judged = halves[0][:_TRAINED], halves[1]
    if len(np.unique(covered[learned])) < 2 or not len(judged):
        return ExcessRisk(0.0, 1.0)
    classifier = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=0)
    guesses = classifier.fit(X[learned], covered[learned]).predict_proba(X[judged])[:, 1]
    hits = covered[judged]
    value = float(np.mean((hits - level) ** 2 - (hits - guesses) ** 2))
    return ExcessRisk(value, _permutation_p_value(guesses, hits, rng))


def _permutation_p_value(guesses: FloatArray, hits: BoolArray, rng: np.random.Generator) -> float:
    """Return how often covered rows drawn at random would be guessed as well: only the sum over them matters."""
    observed, n, k = guesses[hits].sum(), len(hits), np.count_nonzero(hits)
    if n > _PERMUTED:
        scatter = np.sqrt(k * (n - k) / (n - 1)) * guesses.std()
        return float(ndtr(-(observed - k * guesses.mean()) / scatter)) if scatter > 0 else 1.0
    sums = _sums_of_random_rows(guesses, int(k), rng)
    return float(1 + sum(total >= observed * (1 - 1e-12) for total in sums)) / (_PERMUTATIONS + 1)


def _sums_of_random_rows(values: FloatArray, k: int, rng: np.random.Generator) -> Iterator[float]:
    for _ in range(_PERMUTATIONS):
        yield float(rng.permutation(values)[:k].sum())
