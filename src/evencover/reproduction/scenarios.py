"""The synthetic experiment: three scores under each way of being wrong, in worlds of each type.

The paper's text and the code behind its figures differ in two of the ways. *As run*: noise is added to the variance,
and the mean is shifted by σ. *As written*: noise is added to σ, and the mean is shifted by noise in units of σ.
"""

from collections.abc import Callable, Mapping

import numpy as np

from evencover.reproduction.simulation import Design, Tally, simulated, tally
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
SHIFTED = {"σ-shifted 0.01": 0.01, "σ-shifted 0.1": 0.1, "σ-shifted 1": 1.0}


def _ways(
    noisy: Callable[[float], Misspecification], shifted: Misspecification
) -> dict[str, tuple[Misspecification, ...]]:
    """Return the figures' seven columns, given what noise on σ and a shift by σ are."""
    return {
        "oracle": (),
        **{name: (noisy(size),) for name, size in SHIFTED.items()},
        "σ²-scaled 5": (ScaledSpread(5**0.5),),
        "μ-shifted 1": (ShiftedCenter(1.0),),
        "μ-shifted σ": (shifted,),
    }


VARIANTS: Mapping[str, Mapping[str, tuple[Misspecification, ...]]] = {
    "as run": _ways(NoisyVariance, ShiftedBySpread(1.0)),
    "as written": _ways(NoisySpread, NoisyCenter(0.1, in_spreads=True)),
}
TYPES = {"Type 1": constant_mean, "Type 2": functional_dependence, "Type 3": low_dimensional}
GROUPS = ("low", "medium", "high")


def coverages(
    world: SyntheticData,
    changes: Mapping[str, tuple[Misspecification, ...]],
    *,
    repeats: int,
    seed: int,
    oracle: SyntheticData | None = None,
    design: Design | None = None,
) -> dict[tuple[str, str], Tally]:
    """Return what each score covers under each change, by thirds of the estimated variance.

    Every change sees the same rows, so differences between changes are not those of the draws.

    Parameters
    ----------
    world : World
        Where rows come from.
    changes : mapping of str to tuple of Change
        What is done to the oracle's prediction.
    repeats, seed : int
        How often, and the seed of the draws.
    oracle : World, optional
        The world whose mean and spread the oracle believes in; the true one by default.
    design : Design, optional
        The rows of a repeat; 1000 for calibration and 1000 for the test by default.
    """
    design = design or Design()

    def tallies(sample: Sample, rng: np.random.Generator) -> dict[tuple[str, str], Tally]:
        believed = (oracle or world).oracle(sample.X)
        said = {name: misspecified(believed, *change, seed=rng) for name, change in changes.items()}
        return {
            (change, name): tally(score, sample.y, prediction, design=design)
            for change, prediction in said.items()
            for name, score in SCORES.items()
        }

    return simulated(world, tallies, design=design, repeats=repeats, seed=seed)


def right_and_wrong_parts(
    world: SyntheticData,
    *changes: Misspecification,
    score: Score,
    repeats: int,
    seed: int,
    design: Design | None = None,
) -> dict[tuple[str, str], Tally]:
    """Return what a score covers when it is right or wrong, in groups that are right or wrong.

    The first name of a key says whether the score was computed from the right or the wrong prediction (the wrong
    one: misspecification), the second the same of the groups (contamination).

    Parameters
    ----------
    world : World
        Where rows come from.
    *changes : Change
        What makes the wrong prediction of the right one.
    score : Score
        The nonconformity score.
    repeats, seed : int
        How often, and the seed of the draws.
    design : Design, optional
        The rows of a repeat; 1000 for calibration and 1000 for the test by default.
    """
    design = design or Design()

    def tallies(sample: Sample, rng: np.random.Generator) -> dict[tuple[str, str], Tally]:
        said = {"right": sample.oracle(), "wrong": misspecified(sample.oracle(), *changes, seed=rng)}
        variance = {name: each.required("spread", by="a taxonomy") ** 2 for name, each in said.items()}
        return {
            (scored, grouped): tally(score, sample.y, said[scored], design=design, by=variance[grouped])
            for scored in said
            for grouped in said
        }

    return simulated(world, tallies, design=design, repeats=repeats, seed=seed)
