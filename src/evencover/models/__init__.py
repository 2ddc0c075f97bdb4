"""Models whose predictions say more than a center."""

from evencover.models.adapters import FromQuantiles, FromStd
from evencover.models.ensembles import DeepEnsemble, DropoutEnsemble
from evencover.models.networks import MeanVarianceNetwork, QuantileNetwork
from evencover.models.speech import is_frozen, predictions_of
from evencover.models.together import fit_together

__all__ = [
    "DeepEnsemble",
    "DropoutEnsemble",
    "FromQuantiles",
    "FromStd",
    "MeanVarianceNetwork",
    "QuantileNetwork",
    "fit_together",
    "is_frozen",
    "predictions_of",
]
