"""Error rates of the diagnostics: how often each test rejects, and how often each verdict is given.

The data are the paper's toy model. Its normalised score of the oracle is pivotal, so each test of even coverage should
reject in at most 5 % of the repeats. Other scores and models are uneven, with known coverages.
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
from evencover.predictions import Prediction
from evencover.quantiles import conformal_quantile
from evencover.reproduction.simulation import LEVEL, seed_of
from evencover.rows import Rows
from evencover.scores import Normalized, Residual, Score
from evencover.synthetic.data import Sample, toy
from evencover.synthetic.misspecification import Misspecification, NoisyVariance, QuadraticVariance, misspecified
from evencover.taxonomies import BySpread

GROUPS = 3
TOLERANCE = 0.03
ROWS_PER_GROUP = (20, 50, 100, 200, 500)
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
_MANY = 400_000  # rows that estimate the true coverage


@dataclass(frozen=True)
class Scenario:
    """A score and a model for the toy data.

    Parameters
    ----------
    score : Score
        The nonconformity score.
    misspecifications : tuple of Misspecification
        Misspecifications of the model; none for the oracle.
    """

    score: Score
    misspecifications: tuple[Misspecification, ...] = ()

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Sample, Prediction]:
        """Draw n rows, and return them with the model's prediction."""
        sample = toy().sample(n, seed=rng)
        return sample, misspecified(sample.oracle(), *self.misspecifications, seed=rng)

    def diagnosis(self, n: int, rng: np.random.Generator) -> Diagnosis:
        """Draw n calibration rows and return their diagnosis."""
        sample, prediction = self.draw(n, rng)
        groups, scores = BySpread(GROUPS).learn(Rows(prediction)), self.score(sample.y, prediction)
        return diagnose_scores(scores, groups, spread=prediction.spread, level=LEVEL, seed=int(rng.integers(2**31)))

    def verdict(self, n: int, rng: np.random.Generator) -> Verdict:
        """Draw n calibration rows and return the verdict only, which is faster than the diagnosis."""
        sample, prediction = self.draw(n, rng)
        marginal = MarginalThreshold(self.score(sample.y, prediction), BySpread(GROUPS).learn(Rows(prediction)), LEVEL)
        return marginal.verdict(TOLERANCE)

    def true_coverage(self, rng: np.random.Generator) -> list[float]:
        """Return the coverage in each group for one threshold from 400 000 rows, by the target's exact distribution."""
        sample, prediction = self.draw(_MANY, rng)
        intervals = self.score.interval(float(conformal_quantile(self.score(sample.y, prediction), LEVEL)), prediction)
        codes = BySpread(GROUPS).learn(Rows(prediction)).codes
        coverage = sample.coverage(intervals)
        return [float(coverage[codes == group].mean()) for group in range(GROUPS)]


SCENARIOS: Mapping[str, Scenario] = {  # the names enter the seeds: a changed name changes the draws
    "normalised, oracle": Scenario(Normalized()),
    "residual, misspecified": Scenario(Residual(), (QuadraticVariance(),)),
    "normalised, noise 0.05 in the variance": Scenario(Normalized(), (NoisyVariance(0.05),)),
    "normalised, noise 0.1 in the variance": Scenario(Normalized(), (NoisyVariance(0.1),)),
    "normalised, noise 0.2 in the variance": Scenario(Normalized(), (NoisyVariance(0.2),)),
    "normalised, misspecified": Scenario(Normalized(), (QuadraticVariance(),)),
    "residual, oracle": Scenario(Residual()),
}


def rejections(rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, float]:
    """Return the share of repeats in which each test at 5 % rejects although the coverage is even.

    Parameters
    ----------
    rows, repeats, seed : int
        Number of rows in each of the three groups, number of repeats, seed of the draws.
    """
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed_of(seed, "rejections", str(rows)))
    found = [SCENARIOS["normalised, oracle"].diagnosis(GROUPS * rows, rng) for _ in range(repeats)]
    return {name: float(np.mean([test(each) < SIGNIFICANT for each in found])) for name, test in TESTS.items()}


def verdict_shares(scenario: str, rows: int, *, repeats: int = 200, seed: int = 0) -> dict[str, float]:
    """Return the share of repeats with each verdict.

    Parameters
    ----------
    scenario : str
        A key of `SCENARIOS`.
    rows, repeats, seed : int
        Number of calibration rows, number of repeats, seed of the draws.
    """
    check_count(repeats, "repeats")
    rng = np.random.default_rng(seed_of(seed, scenario, str(rows)))
    counts = Counter(SCENARIOS[scenario].verdict(rows, rng) for _ in range(repeats))
    return {verdict: counts[verdict] / repeats for verdict in ("uneven", "even", "undecided")}


def true_coverage(scenario: str, *, seed: int = 0) -> list[float]:
    """Return the coverage in each group for one threshold from 400 000 rows. `scenario` is a key of `SCENARIOS`."""
    return SCENARIOS[scenario].true_coverage(np.random.default_rng(seed_of(seed, scenario, "truth")))
