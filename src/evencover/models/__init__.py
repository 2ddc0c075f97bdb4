"""Models that predict a spread and bounds in addition to a center."""

from evencover.models.adapters import FromDistribution, FromOutputs, FromQuantiles, FromStd
from evencover.models.auto import AutoRegressor
from evencover.models.categories import EncodedTable
from evencover.models.encoding import ColumnKind, Recognition, TableEncoder
from evencover.models.estimators import is_frozen, predictions_of
from evencover.models.forest import QuantileForest
from evencover.models.networks import DeepEnsemble, DropoutEnsemble, MeanVarianceNetwork, QuantileNetwork, fit_jointly
from evencover.models.ranges import Outside, OutsideColumn
from evencover.models.spread import EnsembleSpread, NeighborSpread, ResidualSpread, SpreadSource, WithSpread
from evencover.models.target_transforms import LogTransform

__all__ = [
    "AutoRegressor",
    "ColumnKind",
    "DeepEnsemble",
    "DropoutEnsemble",
    "EncodedTable",
    "EnsembleSpread",
    "FromDistribution",
    "FromOutputs",
    "FromQuantiles",
    "FromStd",
    "LogTransform",
    "MeanVarianceNetwork",
    "NeighborSpread",
    "Outside",
    "OutsideColumn",
    "QuantileForest",
    "QuantileNetwork",
    "Recognition",
    "ResidualSpread",
    "SpreadSource",
    "TableEncoder",
    "WithSpread",
    "fit_jointly",
    "is_frozen",
    "predictions_of",
]
