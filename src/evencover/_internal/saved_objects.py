"""Objects in saved files: written and read by skops, without pickle, and only of classes that are trusted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evencover._internal.booster_files import pack_boosters, unpack_boosters
from evencover._internal.optional import import_disabled, import_optional
from evencover._internal.saved_files import IncompatibleFileError, Kind, file_errors

_OWN_CLASSES = {
    "_internal.bins": "Bins",
    "_internal.booster_files": "SavedBooster",
    "calibrators.by_group": "ByGroup",
    "calibrators.cross": "CrossFolds",
    "calibrators.histogram": "HistogramByGroup",
    "calibrators.two_tails": "TwoTails",
    "taxonomies": "ByFeature ByPrediction BySpread ByTarget Marginal Product",
    "models._best_regressor": "BestRegressor KernelFeatures",
    "models._kernel_regressor": "KernelRegressor",
    "models._residual_distributions": "LeafDistribution ScaledShape",
    "models._ridge": "RidgeRegressor",
    "models._stack_members": "StackMember",
    "models._stack_report": "DistributionResult MemberResult StackReport",
    "models._stacking": "Mixture Stack",
    "models.adapters": "FromDistribution FromOutputs FromQuantiles FromStd",
    "models.auto": "AutoRegressor",
    "models.column_kinds": "Recognition",
    "models.encoding": "EncodedColumn EncodedDate TableEncoder",
    "models._fold_models": "FoldEnsemble",
    "models.forest": "QuantileForest",
    "models.networks.ensembles": "DeepEnsemble DropoutEnsemble",
    "models.networks._layers": "Layer",
    "models.networks.regressors": "MeanVarianceNetwork QuantileNetwork",
    "models._quantile_plan": "QuantilePlan",
    "models._scaling": "Scaling",
    "models.spread": "EnsembleSpread NeighborSpread ResidualSpread WithSpread",
    "models.target_transforms": "LogTransform",
}
_OTHER_CLASSES = {  # parts of common models; a file cannot use them to run code of its own
    "collections": "OrderedDict",
    "ngboost.api": "NGBRegressor",
    "ngboost.distns.exponential": "Exponential",
    "ngboost.distns.gamma": "Gamma",
    "ngboost.distns.laplace": "Laplace",
    "ngboost.distns.lognormal": "LogNormal",
    "ngboost.distns.normal": "Normal",
    "ngboost.distns.poisson": "Poisson",
    "ngboost.scores": "CRPScore LogScore",
    "quantile_forest._quantile_forest": "RandomForestQuantileRegressor",
    "quantile_forest._quantile_forest_fast": "QuantileForest",
    "scipy._lib.array_api_compat.numpy._aliases": "asarray",  # in a BSpline
    "scipy.interpolate._bsplines": "BSpline",
    "sklearn._loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.gaussian_process.kernels": (
        "ConstantKernel DotProduct ExpSineSquared Exponentiation Matern Product RBF RationalQuadratic Sum WhiteKernel"
    ),
    "sklearn.metrics._dist_metrics": "EuclideanDistance64 ManhattanDistance64",
    "sklearn.metrics._regression": (
        "mean_absolute_error mean_pinball_loss mean_squared_error r2_score root_mean_squared_error"
    ),
    "sklearn.metrics._scorer": "_PassthroughScorer _Scorer",
    "sklearn.model_selection._split": "GroupKFold KFold RepeatedKFold ShuffleSplit TimeSeriesSplit",
    "sklearn.neighbors._ball_tree": "BallTree",
    "sklearn.neighbors._kd_tree": "KDTree",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.tree._tree": "Tree",
    "sklearn.utils._bunch": "Bunch",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}
TRUSTED = (  # what a file may hold without the user naming it; skops trusts further classes of scikit-learn
    *(f"evencover.{module}.{name}" for module, names in _OWN_CLASSES.items() for name in names.split()),
    *(f"{module}.{name}" for module, names in _OTHER_CLASSES.items() for name in names.split()),
)
# When skops is imported, it lists scikit-learn's estimators. These modules have none, but load torch and dask.
_NOT_NEEDED_BY_SKOPS = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")]


def dump_objects(objects: Any, kind: Kind) -> tuple[bytes, list[str]]:
    """Return the objects as bytes, and the names of the classes in them that the reader has to trust explicitly."""
    skops = _import_skops(f"saving a {kind}")
    content: bytes = skops.dumps(pack_boosters(objects))
    untrusted = [name for name in skops.get_untrusted_types(data=content) if name not in TRUSTED]
    local = [name for name in untrusted if "<" in name]
    if local:
        raise TypeError(f"lambdas, and functions or classes defined in a function, cannot be saved; got {local[0]}")
    return content, untrusted


def load_objects(content: bytes, path: str | Path, kind: Kind, trusted: Sequence[str]) -> Any:
    """Return the objects that `dump_objects` wrote.

    Raise ValueError if a class in them is not trusted, and ImportError if a package that they need is not installed.
    """
    skops = _import_skops(f"loading a {kind}")
    with file_errors(path, kind), _missing_package_errors(path):
        unknown = set(skops.get_untrusted_types(data=content)) - {*TRUSTED, *trusted}
        if unknown:
            raise IncompatibleFileError(
                f"the file holds classes that evencover does not know. If you trust the author of the file, pass "
                f"trusted={sorted(unknown.union(trusted))}"
            )
        return unpack_boosters(skops.loads(content, trusted=[*TRUSTED, *trusted]))


def _import_skops(purpose: str) -> Any:
    with import_disabled(_NOT_NEEDED_BY_SKOPS):
        return import_optional("skops.io", extra="files", purpose=purpose)


@contextmanager
def _missing_package_errors(path: str | Path) -> Iterator[None]:
    """Turn the error of a missing module into one that names the package to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if find_spec(package) is not None:
            raise IncompatibleFileError(f"the installed version of {package} has no {error.name}") from error
        raise ImportError(f"{path} holds a model of {package}: pip install {package}", name=package) from error
