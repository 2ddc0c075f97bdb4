"""Objects in saved files: written and read by skops, without pickle, and only of classes that are trusted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evencover._internal.optional import import_optional
from evencover._internal.saved_files import IncompatibleFileError, Kind, file_errors

_OWN_CLASSES = {
    "_internal.bins": "Bins",
    "calibrators.by_group": "ByGroup",
    "taxonomies": "ByFeature ByPrediction BySpread ByTarget Marginal Product",
    "models.adapters": "FromDistribution FromOutputs FromQuantiles FromStd",
    "models.encoding": "EncodedColumn TableEncoder",
    "models.forest": "QuantileForest",
    "models.networks.ensembles": "DeepEnsemble DropoutEnsemble",
    "models.networks._layers": "Layer",
    "models.networks.regressors": "MeanVarianceNetwork QuantileNetwork",
    "models._quantile_plan": "QuantilePlan",
    "models._scaling": "Scaling",
    "models.spread": "EnsembleSpread NeighborSpread ResidualSpread WithSpread",
}
TRUSTED = (  # classes that a file may hold without the user naming them; skops trusts further ones of scikit-learn
    *(f"evencover.{module}.{name}" for module, names in _OWN_CLASSES.items() for name in names.split()),
    "quantile_forest._quantile_forest.RandomForestQuantileRegressor",
    "quantile_forest._quantile_forest_fast.QuantileForest",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
)


def dump_objects(objects: Any, kind: Kind) -> tuple[bytes, list[str]]:
    """Return the objects as bytes, and the names of the classes in them that the reader has to trust explicitly."""
    skops = import_optional("skops.io", extra="files", purpose=f"saving a {kind}")
    content: bytes = skops.dumps(objects)
    untrusted = [name for name in skops.get_untrusted_types(data=content) if name not in TRUSTED]
    local = [name for name in untrusted if "<" in name]
    if local:
        raise TypeError(f"lambdas, and functions or classes defined in a function, cannot be saved; got {local[0]}")
    return content, untrusted


def load_objects(content: bytes, path: str | Path, kind: Kind, trusted: Sequence[str]) -> Any:
    """Return the objects that `dump_objects` wrote; raise ValueError if a class in them is not trusted."""
    skops = import_optional("skops.io", extra="files", purpose=f"loading a {kind}")
    with file_errors(path, kind):
        unknown = sorted(set(skops.get_untrusted_types(data=content)) - {*TRUSTED, *trusted})
        if unknown:
            raise IncompatibleFileError(
                f"the file holds classes that evencover does not know: {', '.join(unknown)}. If you trust the author "
                "of the file, name them as trusted=[...]"
            )
        return skops.loads(content, trusted=[*TRUSTED, *trusted])
