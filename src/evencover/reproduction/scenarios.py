"""The paper's synthetic experiment: three scores under each misspecification, for each type of data.

The paper's text and the code behind its figures differ in two misspecifications. *As run* means the code: noise is
added to the variance, and the mean is shifted by σ. *As written* means the text: noise is added to σ, and the mean is
shifted by normal noise with standard deviation 0.1 σ.
"""

from collections.abc import Callable, Mapping

import numpy as np

from evencover.reproduction.simulation import CoverageCounts, Design, count_coverage, simulate
from evencover.scores import IntervalDistance, Normalized, Residual, Score
from evencover.synthetic.data import Sample, SyntheticData, constant_mean, functional_dependence, low_dimensional
from evencover.synthetic.misspecification import (
    Misspecification,
    NoisyCenter,
    NoisySpread,
    NoisyVariance,
    ScaledSpread,
    ShiftedBySpread,
    ShiftedCenter,
    misspecified,
)

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
