"""Networks that learn quantiles, or a mean and a variance; alone, many in one pass, or as ensembles."""

from evencover.models.networks.ensembles import DeepEnsemble, DropoutEnsemble
from evencover.models.networks.regressors import MeanVarianceNetwork, QuantileNetwork
from evencover.models.networks.together import fit_together

__all__ = ["DeepEnsemble", "DropoutEnsemble", "MeanVarianceNetwork", "QuantileNetwork", "fit_together"]
