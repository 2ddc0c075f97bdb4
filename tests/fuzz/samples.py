"""Small saved files of every kind, to be forged and damaged, with the answers that the whole files give."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from evencover import (
    BySpread,
    ConformalRegressor,
    CrossConformalRegressor,
    Normalized,
    ProbabilityDistance,
    calibrate,
)
from evencover.models import FromStd, QuantileForest, ResidualSpread, TableEncoder, WithSpread
from tests.saved_files import FILES, answers, load

_STORED = sorted(FILES.iterdir(), key=lambda folder: int(folder.name[1:]))[-1]
_STORED_SAMPLES = (
    *("network_deep", "network_dropout", "network_mean_variance", "network_quantile", "network_quantiles"),
    *("predictor_best", "predictor_codes", "predictor_columns", "predictor_cross_bootstrap", "predictor_cross_sets"),
    *("predictor_later", "predictor_limited", "predictor_network_quantiles", "predictor_product"),
    *("predictor_recognized", "predictor_table", "predictor_two_tails", "predictor_wide"),
    *("calibration_clusters", "calibration_edges", "calibration_histograms", "calibration_nested"),
    *("calibration_scores_by_group", "calibration_table", "calibration_weights"),
)
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(40, 3))
Y = X[:, 0] + _RNG.normal(size=40)
NEW = _RNG.normal(size=(5, 3))
_TABLE = pd.DataFrame({"x": X[:, 0], "size": np.where(X[:, 1] > 0, "big", "small")})
_NEW_TABLE = {"x": [0.1, -0.5, 0.9], "size": ["big", "small", "big"]}
_MODELS = {
    "tree": lambda: DecisionTreeRegressor(max_depth=3, random_state=0),
    "forest": lambda: RandomForestRegressor(3, max_depth=3, random_state=0),
    "extra_trees": lambda: ExtraTreesRegressor(3, max_depth=3, random_state=0),
    "gradient_boosting": lambda: GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=0),
    "histogram_boosting": lambda: HistGradientBoostingRegressor(
        max_iter=3, min_samples_leaf=2, categorical_features=[2], random_state=0
    ),
    "kd_tree": lambda: KNeighborsRegressor(3, algorithm="kd_tree", leaf_size=4),
    "ball_tree": lambda: KNeighborsRegressor(3, algorithm="ball_tree", leaf_size=4),
    "svr": lambda: SVR(),
    "process": lambda: FromStd(GaussianProcessRegressor(alpha=0.5)),
    "splines": lambda: make_pipeline(SplineTransformer(n_knots=3), LinearRegression()),
    "mlp": lambda: MLPRegressor(hidden_layer_sizes=(3,), max_iter=3, random_state=0),
    "spread": lambda: WithSpread(
        LinearRegression(), ResidualSpread(DecisionTreeRegressor(max_depth=2)), random_state=0
    ),
    "quantile_forest": lambda: QuantileForest(n_estimators=3, random_state=0),
}
_SCORES = {"process": Normalized(), "spread": Normalized(), "quantile_forest": ProbabilityDistance()}
NAMES = (
    *(f"predictor_{name}" for name in _MODELS),
    "predictor_cross",
    "predictor_encoded",
    "calibration",
    *_STORED_SAMPLES,
)


@cache
def sample(name):
    """Return the bytes of a file, the name of its class, rows to predict, and what it answers for them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        saved, rows = _stored(name) if name in _STORED_SAMPLES else _made(name)
        saved.save(path)
        kind = type(saved).__name__
        return path.read_bytes(), kind, rows, answers(load(path, kind), rows)


def _stored(name):
    """Return an object in tests/files; it is saved again, so that the file is as the current version writes it."""
    described = json.loads((_STORED / f"{name}.json").read_text(encoding="utf-8"))
    return load(_STORED / f"{name}.evencover", described["class"]), described["rows"]


def _made(name):
    if name == "calibration":
        return calibrate(Y, X[:, 0], groups=np.arange(40) % 2), None
    if name == "predictor_cross":
        return CrossConformalRegressor(_MODELS["tree"](), cv=3, random_state=0).fit(X, Y), NEW.tolist()
    if name == "predictor_encoded":
        model = make_pipeline(TableEncoder(), _MODELS["spread"]())
        regressor = ConformalRegressor(model, nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0)
        return regressor.fit(_TABLE, Y), _NEW_TABLE
    which = name.removeprefix("predictor_")
    data = np.column_stack([X[:, :2], (X[:, 2] > 0).astype(float)]) if which == "histogram_boosting" else X
    regressor = ConformalRegressor(_MODELS[which](), nonconformity=_SCORES.get(which), random_state=0)
    return regressor.fit(data, Y), NEW.tolist()
