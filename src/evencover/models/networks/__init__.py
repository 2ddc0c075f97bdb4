"""Neural networks that predict quantiles, or a mean and a variance: single, trained jointly, or as ensembles."""

from evencover.models.networks.joint import fit_jointly
from evencover.models.networks.regressors import DeepEnsemble, DropoutEnsemble, MeanVarianceNetwork, QuantileNetwork

__all__ = ["DeepEnsemble", "DropoutEnsemble", "MeanVarianceNetwork", "QuantileNetwork", "fit_jointly"]
