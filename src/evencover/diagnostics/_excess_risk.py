"""Excess risk of the target coverage (ERT): whether a classifier can predict which rows are covered."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import p_value_phrase

_MAX_TRAINING_ROWS = 100_000
_MAX_PERMUTED_ROWS = 10_000  # with more rows, the normal approximation replaces the permutations
_PERMUTATIONS = 999


@dataclass(frozen=True)
class ExcessRisk:
    """Whether the features predict which rows are covered: the excess risk of the target coverage (ERT).

    Parameters
    ----------
    value : float
        Mean squared error of predicting "covered" by the level, minus that of a classifier that sees the features. It
        estimates a lower bound of the mean squared distance between conditional coverage and level. It is below 0
        if the classifier found nothing.
    p_value : float
        Permutation p-value, or its normal limit with more than 10 000 rows. The null hypothesis is that coverage does
        not depend on the features, for this calibration. A valid predictor with one threshold per group can violate
        it, because each threshold has its own random error.

    References
    ----------
    Braun, Holzmüller, Jordan, Bach (2025), Conditional coverage diagnostics for conformal prediction.
    """

    value: float
    p_value: float

    def __str__(self) -> str:
        answer = "yes" if self.p_value < SIGNIFICANT else "not significantly"
        risk = f"ERT {self.value:.4f}" if self.value > 0 else "ERT not above 0"
        return f"{answer} ({p_value_phrase(self.p_value)} for these intervals; {risk})"


def excess_risk(
    X: FloatArray, covered: BoolArray, halves: tuple[IntArray, IntArray], level: float, rng: np.random.Generator
) -> ExcessRisk:
    """Return the excess risk on the second half of the rows, with a classifier trained on the first half.

    The classifier is trained on the first 100 000 rows of its half at most; the rows are in random order.
    """
    training, evaluation = halves[0][:_MAX_TRAINING_ROWS], halves[1]
    if len(np.unique(covered[training])) < 2 or not len(evaluation):
        return ExcessRisk(0.0, 1.0)
    classifier = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=0)
    probabilities = classifier.fit(X[training], covered[training]).predict_proba(X[evaluation])[:, 1]
    outcomes = covered[evaluation]
    value = float(np.mean((outcomes - level) ** 2 - (outcomes - probabilities) ** 2))
    return ExcessRisk(value, _permutation_p_value(probabilities, outcomes, rng))


def _permutation_p_value(probabilities: FloatArray, outcomes: BoolArray, rng: np.random.Generator) -> float:
    """Return how often randomly chosen covered rows get predictions at least as good.

    Only the sum of the predicted probabilities over the covered rows depends on the permutation.
    """
    observed, n, k = probabilities[outcomes].sum(), len(outcomes), np.count_nonzero(outcomes)
    if n > _MAX_PERMUTED_ROWS:
        deviation = np.sqrt(k * (n - k) / (n - 1)) * probabilities.std()
        return float(ndtr(-(observed - k * probabilities.mean()) / deviation)) if deviation > 0 else 1.0
    sums = _sums_of_random_rows(probabilities, int(k), rng)
    return float(1 + sum(total >= observed * (1 - 1e-12) for total in sums)) / (_PERMUTATIONS + 1)


def _sums_of_random_rows(values: FloatArray, k: int, rng: np.random.Generator) -> Iterator[float]:
    """Yield the sum of k randomly chosen values, for each permutation."""
    for _ in range(_PERMUTATIONS):
        yield float(rng.permutation(values)[:k].sum())
