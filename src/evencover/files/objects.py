"""Objects in saved files: written and read by skops, without pickle, and only of classes that are trusted."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from evencover.files.archive import (
    ARRAY_MAGIC,
    IncompatibleFileError,
    Kind,
    checked_shape,
    file_errors,
    opened_zip,
    read_array,
)
from evencover.files.object_checks import check_objects
from evencover.files.unfinished import temporary_folder
from evencover.inputs.optional import import_disabled, import_optional


@dataclass(frozen=True, eq=False)
class SavedBooster:
    """A regressor of a boosting library, as it is in a file."""

    library: str
    version: str  # of the library
    name: str  # of the regressor's class
    params: dict[str, Any]
    attributes: dict[str, Any]  # further ones, such as the number of features
    content: bytes  # the model in the library's own format; empty if it is not fitted


@dataclass(frozen=True)
class _Library:
    """How the regressors of a library are written and read."""

    regressors: tuple[str, ...]
    write: Callable[[Any], bytes]  # of a fitted regressor
    read: Callable[[Any, SavedBooster], object]  # into a regressor that is not fitted
    is_fitted: Callable[[Any], bool]
    model_attributes: tuple[str, ...]  # the attributes that `write` and the parameters already hold


def pack_boosters(objects: Any) -> Any:
    """Return the objects with a `SavedBooster` for each regressor in them; what holds none is not copied."""
    return _replace(objects, _pack, {}) if any(library in sys.modules for library in _LIBRARIES) else objects


def unpack_boosters(objects: Any) -> Any:
    """Return the objects with the regressor of each `SavedBooster`; raise ModuleNotFoundError without its library."""
    return _replace(objects, lambda value: _unpack(value) if type(value) is SavedBooster else value, {})


def _pack(value: Any) -> Any:
    """Return a regressor of a known library as a `SavedBooster`, and any other value unchanged."""
    name, package = type(value).__name__, type(value).__module__.partition(".")[0]
    library = _LIBRARIES.get(package)
    if library is None or name not in library.regressors:
        return value
    module, params = import_module(package), value.get_params(deep=False)
    if type(value) is not getattr(module, name):
        return value
    held = {*params, *library.model_attributes}
    attributes = {key: attribute for key, attribute in vars(value).items() if key not in held}
    content = library.write(value) if library.is_fitted(value) else b""
    return SavedBooster(package, module.__version__, name, params, attributes, content)


def _unpack(saved: SavedBooster) -> Any:
    """Return the regressor of a `SavedBooster`."""
    library = _LIBRARIES.get(saved.library)
    if library is None or saved.name not in library.regressors:
        raise IncompatibleFileError(f"the file holds a {saved.library}.{saved.name}, which evencover does not know")
    _check_attributes(saved, library)
    module = import_module(saved.library)
    if _version_numbers(module.__version__) < _version_numbers(saved.version):
        raise IncompatibleFileError(
            f"its {saved.name} was written by {saved.library} {saved.version}, and this is {module.__version__}, which "
            f"could predict something else: upgrade {saved.library}"
        )
    try:
        model = getattr(module, saved.name)(**saved.params)
        if saved.content:
            library.read(model, saved)
        vars(model).update(saved.attributes)
    except Exception as error:
        raise IncompatibleFileError(
            f"its {saved.name} was written by {saved.library} {saved.version}, and {saved.library} "
            f"{module.__version__} cannot read it: {_first_line(error)}"
        ) from error
    return model


def _check_attributes(saved: SavedBooster, library: _Library) -> None:
    """Raise unless each attribute is one that `_pack` could have saved: not the model itself, and no special name."""
    for name in saved.attributes:
        is_name = isinstance(name, str) and name.isidentifier() and not name.startswith("__")
        if not is_name or name in library.model_attributes:
            raise IncompatibleFileError(
                f"its {saved.name} has the attribute {name!r}, which no file of evencover writes"
            )


def _first_line(error: Exception) -> str:
    """Return the first line of a message; XGBoost adds the stack of its own code."""
    return str(error).strip().partition("\n")[0]


def _version_numbers(version: str) -> list[int]:
    """Return the first two numbers of a version: [3, 2] of "3.2.0"; formats do not change with the third."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def _replace(value: Any, convert: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """Return a value in which `convert` has replaced parts at any depth; values without such parts are not copied."""
    if id(value) not in done:
        done[id(value)] = value  # ends cycles
        converted = convert(value)
        if converted is value:
            converted = _replace_parts(value, lambda part: _replace(part, convert, done))
        done[id(value)] = converted
    return done[id(value)]


def _replace_parts(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a list, tuple, mapping or object with its parts replaced, or itself if none changes."""
    if type(value) in (list, tuple):
        parts = [replace(part) for part in value]
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else type(value)(parts)
    held = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if not isinstance(held, dict) or isinstance(value, ModuleType):
        return value
    changed = {name: new for name, part in held.items() if (new := replace(part)) is not part}
    if not changed:
        return value
    copied = copy(value)
    (copied if held is value else vars(copied)).update(changed)
    return copied


def _write_lightgbm(model: Any) -> bytes:
    text: str = model.booster_.model_to_string(num_iteration=-1)  # all trees, also those after an early stop
    return text.encode()


def _read_lightgbm(model: Any, saved: SavedBooster) -> None:
    model._Booster = import_module("lightgbm").Booster(model_str=saved.content.decode())
    model._Booster.best_iteration = saved.attributes["_best_iteration"]


def _write_xgboost(model: Any) -> bytes:
    return bytes(model.get_booster().save_raw("ubj"))


def _read_xgboost(model: Any, saved: SavedBooster) -> None:
    model.load_model(bytearray(saved.content))
    model.set_params(**saved.params)  # load_model overwrites some of them


def _write_catboost(model: Any) -> bytes:
    with temporary_folder() as folder:
        path = folder / "model.cbm"
        model.save_model(str(path), format="cbm")
        return path.read_bytes()


_LIBRARIES = {
    "lightgbm": _Library(
        ("LGBMRegressor",),
        _write_lightgbm,
        _read_lightgbm,
        is_fitted=lambda model: model.__sklearn_is_fitted__(),
        model_attributes=("_Booster",),
    ),
    "xgboost": _Library(
        ("XGBRegressor", "XGBRFRegressor"),
        _write_xgboost,
        _read_xgboost,
        is_fitted=lambda model: model.__sklearn_is_fitted__(),
        model_attributes=("_Booster",),
    ),
    "catboost": _Library(
        ("CatBoostRegressor",),
        _write_catboost,
        read=lambda model, saved: model.load_model(blob=saved.content),
        is_fitted=lambda model: model.is_fitted(),
        model_attributes=("_object", "_init_params", "_canonized_params"),
    ),
}


_OWN_CLASSES = {  # where they are now; files name them by where they were, and they are found by their names
    "bins": "Bins",
    "calibration.cross": "CrossFolds",
    "calibration.group_thresholds": "ByGroup TwoTails",
    "files.objects": "SavedBooster",
    "models._outputs": "QuantilePlan Scaling",
    "models.adapters": "FromDistribution FromOutputs FromQuantiles FromStd",
    "models.auto": (
        "AutoRegressor DistributionResult LeafDistribution MemberResult Mixture ScaledShape Stack StackReport"
    ),
    "models.categories": "OwnMeans SomeColumns",
    "models.encoding": "EncodedCategories EncodedColumn EncodedDate Recognition TableEncoder",
    "models.extremes": "ExtremeLimiter",
    "models.folds": "FoldEnsemble",
    "models.forest": "QuantileForest",
    "models.linear": "RidgeRegressor RidgeWithCategories ScreenedColumns SparseRegressor",
    "models.members": "BestRegressor KernelFeatures KernelRegressor StackMember",
    "models.network_layers": "Layer",
    "models.networks": "DeepEnsemble DropoutEnsemble MeanVarianceNetwork QuantileNetwork",
    "models.spread": "EnsembleSpread NeighborSpread ResidualSpread WithSpread",
    "models.trends": "BoostedTrend LastValues",
    "models.target_transforms": "LogTransform",
    "taxonomies": "ByFeature ByPrediction BySpread ByTarget Marginal Product",
}
_MODULE_OF = {name: f"evencover.{module}" for module, names in _OWN_CLASSES.items() for name in names.split()}
_RENAMED = {"HistogramByGroup": "ByGroup"}  # from the names in older files
_OTHER_CLASSES = {  # parts of common models; what their compiled code takes for granted is in `object_checks`
    "collections": "OrderedDict",
    "functools": "partial",  # of a function that is trusted itself; in boosted trees with categories
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
    "sklearn.utils.validation": "check_array",
}
TRUSTED = (  # what a file may hold without the user naming it; skops trusts further classes of scikit-learn
    *(f"{module}.{name}" for name, module in _MODULE_OF.items()),
    *(f"{module}.{name}" for module, names in _OTHER_CLASSES.items() for name in names.split()),
)
_LONGEST_HEADER = 2**14  # of an array in numpy's format, in bytes
_ZIP_MAGIC = b"PK\x03\x04"
_SCHEMA = "schema.json"  # where skops describes the objects
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

    Raise ValueError if a class in them is not trusted or an object could not have been written, and ImportError if a
    package that they need is not installed.
    """
    skops = _import_skops(f"loading a {kind}")
    with file_errors(path, kind), _missing_package_errors(path):
        _check_sizes(content)
        content = _with_current_modules(content)
        known = [*TRUSTED, *trusted]
        try:
            objects = skops.loads(content, trusted=known)
        except skops.exceptions.UntrustedTypesFoundException:
            unknown = set(skops.get_untrusted_types(data=content)) - {*known}
            raise IncompatibleFileError(
                f"the file holds classes that evencover does not know. If you trust the author of the file, pass "
                f"trusted={sorted(unknown.union(trusted))}"
            ) from None
        check_objects(objects)
        return unpack_boosters(objects)


def _check_sizes(content: bytes) -> None:
    """Raise ValueError if the members of objects claim more than they hold, or unpack to more than is allowed.

    skops does not compress its members. Only sparse arrays are archives of their own, which are compressed.
    """
    without_axis: set[str] = set()
    with ZipFile(BytesIO(content)) as members:
        for each in members.infolist():
            if each.compress_type != ZIP_STORED or each.file_size != each.compress_size:
                raise ValueError(f"its member {each.filename} is compressed")
            beginning, size = _beginning(content, each)  # skops reads by it, whatever the name says
            if beginning.startswith(ARRAY_MAGIC) and checked_shape(beginning, size, each.filename) == ():
                without_axis.add(each.filename)
            if beginning.startswith(_ZIP_MAGIC):
                with opened_zip(BytesIO(members.read(each))) as arrays:
                    for name in (name for name in arrays.namelist() if name.endswith(".npy")):
                        read_array(arrays, name)
        schema = members.read(_SCHEMA)
    if without_axis and b"TreeNode" in schema:
        _check_tree_arrays(json.loads(schema), without_axis)


def _beginning(content: bytes, member: ZipInfo) -> tuple[bytes, int]:
    """Return the first bytes of a member that is not compressed, and how many it has; faster than opening it."""
    names = content[member.header_offset + 26 : member.header_offset + 30]  # the lengths of its name and extra field
    start = member.header_offset + 30 + int.from_bytes(names[:2], "little") + int.from_bytes(names[2:], "little")
    return content[start : start + min(member.file_size, _LONGEST_HEADER)], member.file_size


def _check_tree_arrays(schema: Any, without_axis: Set[str]) -> None:
    """Raise ValueError if an array of a tree of scikit-learn has no axis: restoring the tree would crash.

    The array may be one that another object has, too; it is then described there, and named by its id here.
    """
    described = list(_descriptions(schema))
    ids = {each.get("__id__") for each in described if each.get("file") in without_axis}
    for tree in (each for each in described if each.get("__loader__") == "TreeNode"):
        if any(each.get("__id__") in ids or each.get("file") in without_axis for each in _descriptions(tree)):
            raise ValueError("a tree has an array without an axis")


def _descriptions(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in a value, at any depth."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _with_current_modules(content: bytes) -> bytes:
    """Return objects that skops wrote, with this package's classes in the modules where they are now."""
    with ZipFile(BytesIO(content)) as members:
        described = members.read(_SCHEMA).decode()
        if set(re.findall(r'"__module__": "(evencover[^"]*)"', described)) <= set(_MODULE_OF.values()):
            return content
        schema, renewed = json.loads(described, object_hook=_with_current_module), BytesIO()
        with ZipFile(renewed, "w") as written:
            for name in members.namelist():
                written.writestr(name, json.dumps(schema) if name == _SCHEMA else members.read(name))
    return renewed.getvalue()


def _with_current_module(described: dict[str, Any]) -> dict[str, Any]:
    """Return how skops describes an object; if it is of this package, with the module that has its class now."""
    if not str(described.get("__module__")).startswith("evencover."):
        return described
    name = _RENAMED.get(described["__class__"], described["__class__"])
    return {**described, "__class__": name, "__module__": _MODULE_OF.get(name, described["__module__"])}


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
