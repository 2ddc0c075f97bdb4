"""Synthetic worlds, which know their own truth, and ways of being wrong about them."""

from evencover.synthetic.features import Features, NormalFeatures, SubgroupFeatures, TwoModeFeatures, UniformFeatures
from evencover.synthetic.laws import Law, Mixture, Noisy
from evencover.synthetic.misspecification import (
    Change,
    NoisyCenter,
    NoisySpread,
    NoisyVariance,
    QuadraticVariance,
    ScaledSpread,
    ShiftedBySpread,
    ShiftedCenter,
    misspecified,
)
from evencover.synthetic.worlds import (
    Sample,
    World,
    constant_mean,
    functional_dependence,
    heteroskedastic,
    homoskedastic,
    low_dimensional,
    toy,
    two_modes,
    two_subgroups,
    unit_square,
)

__all__ = [
    "Change",
    "Features",
    "Law",
    "Mixture",
    "Noisy",
    "NoisyCenter",
    "NoisySpread",
    "NoisyVariance",
    "NormalFeatures",
    "QuadraticVariance",
    "Sample",
    "ScaledSpread",
    "ShiftedBySpread",
    "ShiftedCenter",
    "SubgroupFeatures",
    "TwoModeFeatures",
    "UniformFeatures",
    "World",
    "constant_mean",
    "functional_dependence",
    "heteroskedastic",
    "homoskedastic",
    "low_dimensional",
    "misspecified",
    "toy",
    "two_modes",
    "two_subgroups",
    "unit_square",
]
