"""How often the diagnostics are right: the size of every test, and the verdicts against rows and misspecification.

The world is the paper's toy model. The oracle's normalised score is pivotal there, so every test of evenness should
reject in 5 % of the repeats; other scores and models are uneven to a known degree.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evencover._internal.arrays import check_count
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._verdict import Verdict
from evencover.diagnostics.diagnosis import diagnose_scores
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.predictions import Prediction, Rows
from evencover.quantiles import conformal_quantile
from evencover.reproduction.simulation import LEVEL, seed_of
from evencover.scores import Normalized, Residual, Score
from evencover.synthetic.data import Sample, toy
from evencover.synthetic.misspecification import Misspecification, NoisyVariance, QuadraticVariance, misspecified
from evencover.taxonomies import BySpread

GROUPS = 3
TOLERANCE = 0.03
ROWS_A_GROUP = (20, 50, 100, 200, 500)
ROWS = (300, 1000, 3000, 10_000)
TESTS: Mapping[str, Callable[[Diagnosis], float]] = {
    "exact, a group (Holm)": lambda found: min(group.adjusted for group in found.table),
    "exact, all groups": lambda found: found.joint_p_value,
    "bootstrap (Holm)": lambda found: min(each.adjusted for each in found.quantile_differences),
    "Kolmogorov-Smirnov (Holm)": lambda found: min(each.adjusted for each in found.distribution_differences),
    "Anderson-Darling": lambda found: found.anderson_darling,
    "score against spread": lambda found: found.dependence.p_value if found.dependence else np.nan,
    "verdict `uneven`": lambda found: float(found.verdict != "uneven"),
}
_MANY = 400_000  # rows for the true coverage


@dataclass(frozen=True)
class Scenario:
    """A score of a model, right or wrong, of the toy model.

    Parameters
    ----------
    score : Score
        The nonconformity score.
    changes : tuple of Change
        What is wrong with the model.
    """

    score: Score
    changes: tuple[Misspecification, ...] = ()

    def drawn(self, n: int, rng: np.random.Generator) -> tuple[Sample, Prediction]:
        """Return n rows, and what the model says of them."""
        sample = toy().sample(n, seed=rng)
        return sample, misspecified(sample.oracle(), *self.changes, seed=rng) if self.changes else sample.oracle()

    def diagnosis(self, n: int, rng: np.random.Generator) -> Diagnosis:
        """Return the diagnosis of n rows."""
        sample, prediction = self.drawn(n, rng)
        groups, scores = BySpread(GROUPS).learn(Rows(prediction)), self.score(sample.y, prediction)
        return diagnose_scores(scores, groups, spread=prediction.spread, level=LEVEL, seed=int(rng.integers(2**31)))

    def verdict(self, n: int, rng: np.random.Generator) -> Verdict:
        """Return the verdict on n rows, without the evidence beside it."""
        sample, prediction = self.drawn(n, rng)
        divide = MarginalThreshold(self.score(sample.y, prediction), BySpread(GROUPS).learn(Rows(prediction)), LEVEL)
        return divide.verdict(TOLERANCE, int(rng.integers(2**31)))

    def true_coverage(self, rng: np.random.Generator) -> list[float]:
        """Return what one threshold from very many rows covers in each group, by the law of the target."""
        sample, prediction = self.drawn(_MANY, rng)
        intervals = self.score.interval(float(conformal_quantile(self.score(sample.y, prediction), LEVEL)), prediction)
        codes = BySpread(GROUPS).learn(Rows(prediction)).codes
        return [float(sample.coverage(intervals)[codes == group].mean()) for group in range(GROUPS)]


SCENARIOS: Mapping[str, Scenario] = {
    "normalised, oracle": Scenario(Normalized()),
    "residual, misspecified": Scenario(Residual(), (QuadraticVariance(),)),
    "normalised, noise 0.05 in the variance": Scenario(Normalized(), (NoisyVariance(0.05),)),
    "normalised, noise 0.1 in the variance": Scenario(Normalized(), (NoisyVariance(0.1),)),
    "normalised, noise 0.2 in the variance": Scenario(Normalized(), (NoisyVariance(0.2),)),
    "normalised, misspecified": Scenario(Normalized(), (QuadraticVariance(),)),
    "residual, oracle": Scenario(Residual()),
}


def rejections(rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, float]:
    """Return how often each test rejects at 5 % what is true, with this many rows a group.

    Parameters
    ----------
    rows, repeats, seed : int
        Rows of each of the three groups; how often; the seed of the draws.
    """
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed_of(seed, "rejections", str(rows)))
    found = [SCENARIOS["normalised, oracle"].diagnosis(GROUPS * rows, rng) for _ in range(repeats)]
    return {name: float(np.mean([test(each) < SIGNIFICANT for each in found])) for name, test in TESTS.items()}


def verdict_shares(scenario: str, rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, float]:
    """Return how often each verdict is given.

    Parameters
    ----------
    scenario : str
        A key of `SCENARIOS`.
    rows, repeats, seed : int
        Calibration rows; how often; the seed of the draws.
    """
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed_of(seed, scenario, str(rows)))
    counts = Counter(SCENARIOS[scenario].verdict(rows, rng) for _ in range(repeats))
    return {word: counts[word] / repeats for word in ("uneven", "even", "undecided")}


def true_coverage(scenario: str, *, seed: int = 0) -> list[float]:
    """Return the coverage of one threshold, from very many rows, in each group; `scenario` as in `verdict_shares`."""
    return SCENARIOS[scenario].true_coverage(np.random.default_rng(seed_of(seed, scenario, "truth")))
