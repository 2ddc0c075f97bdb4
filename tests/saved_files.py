"""Saved files of every kind, kept in tests/files to show that later versions of evencover read them.

    python -m tests.saved_files     writes the files of the current version of the format to its folder, tests/files/v6

Run it when the version of the format rises, commit the new folder, and keep the older ones.
Before the first release, run it again if the format changes. Next to each file, a JSON file holds the class of the
object, rows to predict, and the answers that the object gave before it was saved.

The files must load with other versions of scikit-learn, too. So their models are those of this package, boosters,
whose libraries keep their formats readable, and models of scikit-learn whose fitted state is a few arrays: linear ones
and a Gaussian process. The state of trees, neighbours and `BayesianRidge` depends on the version of scikit-learn; the
files load with 1.6 and 1.9.
"""

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evencover
from evencover import (
    Bounded,
    ByFeature,
    ByGroup,
    ByPrediction,
    BySpread,
    ByTarget,
    Calibration,
    ConformalRegressor,
    CrossConformalRegressor,
    IntervalDistance,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    Product,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
    TwoTails,
    calibrate,
    models,
)
from evencover.models import (
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromOutputs,
    FromQuantiles,
    FromStd,
    LogTransform,
    MeanVarianceNetwork,
    QuantileNetwork,
    Recognition,
    ResidualSpread,
    TableEncoder,
    WithSpread,
)
from evencover.models.categories import OwnMeans, SomeColumns
from evencover.models.extremes import ExtremeLimiter
from evencover.models.linear import RidgeWithCategories, ScreenedColumns, SparseRegressor
from evencover.models.trends import BoostedTrend, LastValues
from evencover.studies import MODELS
from evencover.synthetic import heteroskedastic
from evencover.tables import calibrate as calibrate_table
from tests.archives import header

FILES = Path(__file__).parent / "files"
LEVELS = [0.5, 0.8]
DATA = heteroskedastic(80, seed=0)
NEW = np.array([[0.1, 0.9, 0.0], [0.3, 0.4, 1.0], [0.6, 0.2, 0.7], [0.9, 0.8, 0.5]])
TABLE = pd.DataFrame({"x": DATA.X[:, 0], "size": np.where(DATA.X[:, 1] > 0.5, "big", "small"), "sold": "2020-01-31"})
TABLE.loc[::3, "sold"] = "2021-12-01"
NEW_TABLE = {"x": [0.1, 0.5, 0.9], "size": ["big", "small", "big"], "sold": ["2020-02-01", "2021-01-01", "2022-03-01"]}
QUANTILES = [QuantileRegressor(quantile=quantile, alpha=0) for quantile in (0.05, 0.95)]
SPREAD = WithSpread(LinearRegression(), ResidualSpread(LinearRegression()), random_state=0)
BY_PROBABILITY = {p: QuantileRegressor(quantile=p, alpha=0) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
SHIFTED = LinearRegression().fit(DATA.X, np.column_stack([DATA.y + shift for shift in (0.0, -1.0, 3.0, -0.5)]))
COLUMNS = FromOutputs(FrozenEstimator(SHIFTED), [0.5, 0.1, 0.9, 0.25], level=0.8)
PROCESS = FrozenEstimator(GaussianProcessRegressor(RBF(0.3), alpha=0.5, optimizer=None).fit(DATA.X[:8], DATA.y[:8]))
BEST_OF_THREE = MODELS["best-of-three"](0.9, 0).estimator
KERNEL = clone(dict(BEST_OF_THREE.candidates)["kernel"]["kernelfeatures"]).set_params(n_components=5)
CURVED = make_pipeline(StandardScaler(), KERNEL, LinearRegression())
BEST = WithSpread(
    clone(BEST_OF_THREE).set_params(candidates=[("linear", LinearRegression()), ("kernel", CURVED)]),
    ResidualSpread(CURVED),
    random_state=0,
)
NETWORK = {"hidden": (3,), "epochs": 3, "random_state": 0}


@cache
def current_version():
    """Return the version of the format that files have now."""
    with TemporaryDirectory() as folder:
        calibrate([1.0], [0.0]).save(Path(folder) / "calibration")
        return header(Path(folder) / "calibration")["version"]


def load(path, kind):
    """Return the object in a file, by the name of its class."""
    return getattr(evencover if hasattr(evencover, kind) else models, kind).load(path)


def answers(saved, rows):
    """Return what an object answers, as JSON values: its thresholds, or its predictions for rows."""
    if isinstance(saved, Calibration):
        weight = {"test_weight": 1.0} if saved.weighted else {}
        return {"sizes": list(saved.sizes.values()), "thresholds": numbers(saved.threshold(LEVELS, **weight))}
    X = pd.DataFrame(rows) if isinstance(rows, dict) else np.array(rows)
    if isinstance(saved, ConformalRegressor | CrossConformalRegressor):
        weights = {"weights": np.ones(len(X))} if saved.calibration_.weighted else {}
        intervals = saved.predict_interval(X, level=LEVELS, **weights)
        return {"predictions": numbers(saved.predict(X)), "intervals": numbers(intervals)}
    prediction = saved.predict_full(X)
    return {part: numbers(getattr(prediction, part)) for part in ("center", "spread", "lower", "upper")}


def numbers(values):
    return np.asarray(values, dtype=float).tolist()


def calibrations():
    """Return a calibration for each score, with groups, weights, ties on edges, and a score for each group."""
    center, spread = DATA.X[:, 0], 1 + DATA.X[:, 1]
    full = Prediction(center, spread, center - spread, center + spread)
    by_spread = BySpread(3).learn(Rows(full))
    scores = {"low": Residual(), "medium": Normalized(), "high": Standardized(epsilon=0.5, scale=1.0)}
    return {
        "calibration": calibrate(DATA.y, center),
        "calibration_weights": calibrate(DATA.y, center, weights=spread),
        "calibration_clusters": calibrate(DATA.y, center, groups=np.arange(80) % 2, clusters=np.arange(80) // 3),
        "calibration_labels": calibrate(DATA.y, full, nonconformity=IntervalDistance(), groups=np.arange(80) % 3),
        "calibration_edges": calibrate(
            DATA.y, full, nonconformity=Normalized(epsilon=0.1, scale=2.0), groups=by_spread
        ),
        "calibration_scores_by_group": calibrate(DATA.y, full, nonconformity=scores, groups=by_spread),
        "calibration_histograms": calibrate(DATA.y, center, groups=np.arange(80) % 2, bits=6),
        "calibration_table": calibrate_table(
            pa.table({"y": DATA.y, "c": center, "g": ["a", "b"] * 40}), target="y", center="c", group="g", level=LEVELS
        ),
        "calibration_relative": calibrate(
            DATA.y, full, nonconformity=RelativeIntervalDistance(floor=0.1, scale=2.0), groups=by_spread
        ),
        "calibration_nested": calibrate(
            DATA.y,
            full,
            nonconformity=Bounded(OneSided(Normalized(epsilon=0.1, scale=2.0)), y_min=-10.0),
            groups=by_spread,
        ),
    }


def predictors():
    """Return a fitted predictor for each taxonomy, score, adapter and source of spread."""
    scores = {"low": Residual(), "high": Standardized(floor=0.1)}
    made = {
        "marginal": ConformalRegressor(LinearRegression()),
        "spread": ConformalRegressor(FromStd(PROCESS), nonconformity=Normalized(), taxonomy=BySpread(3)),
        "spread_edges": ConformalRegressor(SPREAD, nonconformity=Standardized(), taxonomy=BySpread(edges=[1.0])),
        "prediction": ConformalRegressor(
            make_pipeline(StandardScaler(), LinearRegression()), taxonomy=ByPrediction(2), nonconformity=Residual()
        ),
        "feature": ConformalRegressor(
            FromQuantiles(*QUANTILES), nonconformity=IntervalDistance(), taxonomy=ByFeature(0, edges=[0.5])
        ),
        "target": ConformalRegressor(LinearRegression(), taxonomy=ByTarget([2.0])),
        "product": ConformalRegressor(SPREAD, taxonomy=Product([BySpread(2), ByFeature(1, edges=[0.5])])),
        "scores_by_group": ConformalRegressor(SPREAD, nonconformity=scores, taxonomy=BySpread(2)),
        "ensemble": ConformalRegressor(
            WithSpread(BaggingRegressor(LinearRegression(), 3, random_state=0), EnsembleSpread()),
            nonconformity=Normalized(epsilon=0.1),
        ),
        "frozen": ConformalRegressor(FrozenEstimator(LinearRegression().fit(DATA.X, DATA.y))),
        "residual_quantiles": ConformalRegressor(SPREAD, nonconformity=ProbabilityDistance()),
        "quantiles": ConformalRegressor(FromQuantiles(quantiles=BY_PROBABILITY), nonconformity=ProbabilityDistance()),
        "columns": ConformalRegressor(COLUMNS, nonconformity=ProbabilityDistance(), taxonomy=BySpread(2)),
        "two_tails": ConformalRegressor(SPREAD, nonconformity=Normalized(), calibrator=TwoTails(BySpread(2))),
        "histograms": ConformalRegressor(SPREAD, nonconformity=Normalized(), calibrator=ByGroup(BySpread(2), bits=10)),
        "bounded": ConformalRegressor(SPREAD, nonconformity=Bounded(Normalized(), y_min=-10.0)),
        "best": ConformalRegressor(BEST, nonconformity=ProbabilityDistance()),
        "codes": ConformalRegressor(make_pipeline(SomeColumns((0, 2)), RidgeWithCategories(1))),
        "wide": ConformalRegressor(make_pipeline(ScreenedColumns(2, wide=2), SparseRegressor())),
        "later": ConformalRegressor(make_pipeline(OwnMeans(1, 1), BoostedTrend(LinearRegression(), LastValues(2, 2)))),
        "limited": ConformalRegressor(make_pipeline(ExtremeLimiter(), LinearRegression())),
    }
    fitted = {f"predictor_{name}": model.set_params(random_state=0).fit(DATA.X, DATA.y) for name, model in made.items()}
    weighted = ConformalRegressor(FrozenEstimator(LinearRegression().fit(DATA.X, DATA.y)))
    logarithmic = ConformalRegressor(
        TransformedTargetRegressor(LinearRegression(), transformer=LogTransform()), random_state=0
    )
    return {
        **fitted,
        "predictor_weights": weighted.calibrate(DATA.X, DATA.y, weights=1 + DATA.X[:, 0] ** 2),
        "predictor_log": logarithmic.fit(DATA.X, np.exp(DATA.y)),
        "predictor_clusters": ConformalRegressor(LinearRegression(), random_state=0).fit(
            DATA.X, DATA.y, clusters=np.arange(80) // 3
        ),
    }


def cross_predictors():
    """Return a fitted predictor for each method of cross-conformal prediction, also with groups and repetitions."""
    folds = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    made = {
        "cv": CrossConformalRegressor(SPREAD, cv=3, nonconformity=Normalized(floor=0.1), taxonomy=BySpread(2)),
        "repeated": CrossConformalRegressor(LinearRegression(), cv=folds, taxonomy=ByFeature(0, edges=[0.5])),
        "jackknife": CrossConformalRegressor(LinearRegression(), method="jackknife+"),
        "bootstrap": CrossConformalRegressor(
            LinearRegression(), method="jackknife+-after-bootstrap", n_bootstraps=40, target_transform="log"
        ),
        "sets": CrossConformalRegressor(LinearRegression(), cv=4, method="cross-conformal"),
    }
    X, y = DATA.X[:30], np.exp(DATA.y[:30])
    return {f"predictor_cross_{name}": model.set_params(random_state=0).fit(X, y) for name, model in made.items()}


def tables():
    """Return predictors of a table with text and dates: with groups of a column, and folds that recognise dates."""
    model = make_pipeline(TableEncoder(dates={"sold": "%Y-%m-%d"}), SPREAD)
    regressor = ConformalRegressor(model, nonconformity=Normalized(), taxonomy=ByFeature("size"), random_state=0)
    recognizing = TableEncoder(recognition=Recognition(keep=("size",), table_rows=len(TABLE)))
    folds = CrossConformalRegressor(make_pipeline(recognizing, LinearRegression()), cv=3, random_state=0)
    return {
        "predictor_table": regressor.fit(TABLE, DATA.y),
        "predictor_recognized": folds.fit(TABLE[:30], DATA.y[:30]),
        "predictor_categories": ConformalRegressor(
            make_pipeline(TableEncoder(max_categories=1), SPREAD), random_state=0
        ).fit(TABLE, DATA.y),
    }


def networks():
    """Return each class of network."""
    made = {
        "network_quantile": QuantileNetwork(**NETWORK),
        "network_quantiles": QuantileNetwork(quantiles=(0.2, 0.3, 0.7), center="mean", **NETWORK),
        "network_mean_variance": MeanVarianceNetwork(**NETWORK),
        "network_dropout": DropoutEnsemble(MeanVarianceNetwork(**NETWORK), passes=2, random_state=0),
        "network_deep": DeepEnsemble(MeanVarianceNetwork(**NETWORK), members=2, random_state=0),
    }
    fitted = {name: model.fit(DATA.X, DATA.y) for name, model in made.items()}
    predictor = ConformalRegressor(FrozenEstimator(fitted["network_mean_variance"]), nonconformity=Normalized())
    many = ConformalRegressor(FrozenEstimator(fitted["network_quantiles"]), nonconformity=ProbabilityDistance())
    return {
        **fitted,
        "predictor_network": predictor.fit(DATA.X, DATA.y),
        "predictor_network_quantiles": many.fit(DATA.X, DATA.y),
    }


def boosters():
    """Return a predictor of each boosting library; `make test-all` installs them."""
    lightgbm, xgboost, catboost = (import_module(name) for name in ("lightgbm", "xgboost", "catboost"))
    small = {"n_estimators": 3, "max_depth": 2}
    made = {
        "lightgbm": WithSpread(lightgbm.LGBMRegressor(**small, verbosity=-1), ResidualSpread(LinearRegression())),
        "xgboost": FromOutputs(
            xgboost.XGBRegressor(**small, objective="reg:quantileerror", quantile_alpha=[0.05, 0.5, 0.95])
        ),
        "catboost": FromOutputs(
            catboost.CatBoostRegressor(
                **small, loss_function="RMSEWithUncertainty", verbose=False, allow_writing_files=False
            ),
            ["center", "variance"],
        ),
    }
    return {
        f"predictor_{name}": ConformalRegressor(model, random_state=0).fit(DATA.X, DATA.y)
        for name, model in made.items()
    }


def main():
    """Write every object, and its answers, to the folder of the current version."""
    folder = FILES / f"v{current_version()}"
    folder.mkdir(parents=True, exist_ok=True)
    for objects, rows in [
        (calibrations(), None),
        ({**predictors(), **cross_predictors(), **networks(), **boosters()}, NEW.tolist()),
        (tables(), NEW_TABLE),
    ]:
        for name, saved in objects.items():
            saved.save(folder / f"{name}.evencover")
            expected = {"class": type(saved).__name__, "rows": rows, "answers": answers(saved, rows)}
            (folder / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
