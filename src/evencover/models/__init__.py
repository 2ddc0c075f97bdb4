"""Models whose predictions say more than a center."""

from evencover.models.adapters import FromDistribution, FromOutputs, FromQuantiles, FromStd
from evencover.models.encoding import TableEncoder
from evencover.models.forest import QuantileForest
from evencover.models.networks import (
    DeepEnsemble,
    DropoutEnsemble,
    MeanVarianceNetwork,
    QuantileNetwork,
    fit_together,
)
from evencover.models.speech import is_frozen, predictions_of
from evencover.models.spread import Members, Neighbors, ResidualModel, SpreadSource, WithSpread

__all__ = [
    "DeepEnsemble",
    "DropoutEnsemble",
    "FromDistribution",
    "FromOutputs",
    "FromQuantiles",
    "FromStd",
    "MeanVarianceNetwork",
    "Members",
    "Neighbors",
    "QuantileForest",
    "QuantileNetwork",
    "ResidualModel",
    "SpreadSource",
    "TableEncoder",
    "WithSpread",
    "fit_together",
    "is_frozen",
    "predictions_of",
]
