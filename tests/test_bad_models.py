"""Invalid input to the models: one error that names the argument, the expected and the given value."""

import re

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from evencover import BySpread, ConformalRegressor, Normalized
from evencover.models import (
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromDistribution,
    FromOutputs,
    FromQuantiles,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    ResidualSpread,
    WithSpread,
    fit_jointly,
)

X, Y = np.random.default_rng(0).random((40, 3)), np.arange(40.0)
QUICK = {"hidden": (4,), "epochs": 2}
NEGATIVE = LinearRegression().fit(X, np.column_stack([-Y - 1, Y]))
TWO = LinearRegression().fit(X, np.column_stack([Y - 1, Y + 1]))


def network(**settings):
    return MeanVarianceNetwork(**{**QUICK, **settings}).fit(X, Y)


def quantiles(**settings):
    return QuantileNetwork(**{**QUICK, **settings}).fit(X, Y)


def jointly(*networks, **arguments):
    return fit_jointly([MeanVarianceNetwork(**{**QUICK, **each}) for each in networks], X, Y, **arguments)


def with_value(value):
    array = X.copy()
    array[3, 1] = value
    return array


CASES = {
    # settings of networks
    "hidden as a number": (lambda: network(hidden=64), "hidden must be a sequence of positive whole numbers; got 64"),
    "an empty layer": (
        lambda: network(hidden=(64, 0)),
        "hidden must be a sequence of positive whole numbers; got (64, 0)",
    ),
    "dropout 1": (lambda: network(dropout=1), "dropout must be at least 0 and less than 1; got 1"),
    "dropout as text": (lambda: network(dropout="0.2"), "dropout must be at least 0 and less than 1; got '0.2'"),
    "no learning": (lambda: network(learning_rate=0), "learning_rate must be a positive number; got 0"),
    "NaN as a rate": (lambda: network(learning_rate=np.nan), "learning_rate must be a positive number; got nan"),
    "negative decay": (lambda: network(weight_decay=-1), "weight_decay must be zero or a positive number; got -1"),
    "half a batch": (lambda: network(batch_size=0.5), "batch_size must be a positive whole number; got 0.5"),
    "no epochs": (lambda: network(epochs=0), "epochs must be a positive whole number; got 0"),
    "no patience": (lambda: network(patience=0), "patience must be None or a positive whole number; got 0"),
    "all set aside": (
        lambda: network(validation_size=1.0),
        "validation_size must be strictly between 0 and 1; got 1.0",
    ),
    "one row to stop by": (
        lambda: MeanVarianceNetwork(patience=2, **QUICK).fit(X[:1], Y[:1]),
        "patience needs validation rows: validation_size=0.1 of 1 rows leaves no row to train on",
    ),
    "an unknown device": (lambda: network(device="gpu"), 'device must be "auto", "cpu" or "cuda"; got \'gpu\''),
    "a level of 90": (lambda: network(level=90), "level must lie strictly between 0 and 1; got 90; did you mean 0.9?"),
    "a rate that diverges": (
        lambda: network(learning_rate=1e30, epochs=5),
        "training diverged: with learning_rate=1e+30 some network weights are not finite",
    ),
    # quantiles
    "a quantile of 5": (lambda: quantiles(quantiles=[5]), "quantiles must lie strictly between 0 and 1; got [5]"),
    "a quantile as text": (lambda: quantiles(quantiles=["low"]), "quantiles must hold numbers; got"),
    "an unknown center": (lambda: quantiles(center="mode"), 'center must be "median" or "mean"; got \'mode\''),
    "too much softening": (lambda: quantiles(softening=10), "0 < softening * (1 - level) < 1; got 10 at level 0.9"),
    "no softening": (lambda: quantiles(softening=0), "softening must satisfy 0 < softening * (1 - level) < 1; got 0"),
    "a forest's quantile": (lambda: QuantileForest(quantiles=[0]).fit(X, Y), "quantiles must lie strictly between 0"),
    "a forest's level": (lambda: QuantileForest(level=1).fit(X, Y), "level must lie strictly between 0 and 1; got 1"),
    # rows
    "NaN in X": (lambda: MeanVarianceNetwork(**QUICK).fit(with_value(np.nan), Y), "Input X contains NaN"),
    "infinity in X": (lambda: network().predict(with_value(np.inf)), "Input X contains infinity"),
    "NaN in y": (
        lambda: MeanVarianceNetwork(**QUICK).fit(X, Y * np.nan),
        "y must be finite; NaN or infinite values: 40 of 40",
    ),
    "no y": (lambda: MeanVarianceNetwork(**QUICK).fit(X, None), "requires y to be passed, but the target y is None"),
    "two targets": (
        lambda: QuantileForest().fit(X, np.c_[Y, Y]),
        "y must be one target, of shape (n,); got shape (40, 2)",
    ),
    "fewer targets": (lambda: MeanVarianceNetwork(**QUICK).fit(X, Y[:9]), "inconsistent numbers of samples: [40, 9]"),
    "fewer features": (
        lambda: network().predict_full(X[:, :2]),
        "X has 2 features, but MeanVarianceNetwork is expecting 3",
    ),
    "one dimension": (lambda: QuantileForest().fit(X, Y).predict(X[0]), "Expected 2D array, got 1D array instead"),
    # networks trained jointly
    "no networks": (lambda: jointly(), "networks must not be empty"),
    "one network alone": (
        lambda: fit_jointly(MeanVarianceNetwork(), X, Y),
        "networks must be a sequence of networks; got",
    ),
    "a frozen network": (
        lambda: fit_jointly([FrozenEstimator(network())], X, Y),
        "networks must be QuantileNetwork or Mean",
    ),
    "another model": (lambda: fit_jointly([Ridge()], X, Y), "networks must be QuantileNetwork or MeanVarianceNetwork"),
    "one network twice": (lambda: fit_jointly([MeanVarianceNetwork()] * 2, X, Y), "number 1 is a duplicate: clone it"),
    "different epochs": (
        lambda: jointly({}, {"epochs": 3}),
        "networks that are trained jointly must have the same epochs; got 2 and 3",
    ),
    "rows for one": (lambda: jointly({}, {}, rows=[[0]]), "rows must have an array for each of the 2 networks; got 1"),
    "rows that differ in number": (
        lambda: jointly({}, {}, rows=[[0, 1], [0, 1, 2]]),
        "rows must hold the same number of row numbers, at least one, for each network; got [2, 3]",
    ),
    "a mask for rows": (
        lambda: jointly({}, rows=[Y > 3]),
        "rows must hold arrays of row numbers (integers); got an array of dtype bool",
    ),
    "rows out of reach": (lambda: jointly({}, rows=[[0, 40]]), "rows must hold row numbers from 0 to 39; got 0 to 40"),
    # ensembles
    "no passes": (
        lambda: DropoutEnsemble(passes=0).fit(X, Y),
        "'passes' (the number of predictions with dropout) must be a positive whole number; got 0",
    ),
    "half a member": (lambda: DeepEnsemble(members=2.5).fit(X, Y), "members must be a positive whole number; got 2.5"),
    "an ensemble without dropout": (
        lambda: DropoutEnsemble(MeanVarianceNetwork(dropout=0, **QUICK)).fit(X, Y),
        "network must have hidden layers and dropout above 0 for a DropoutEnsemble; got hidden=(4,), dropout=0",
    ),
    "an ensemble without hidden units": (
        lambda: DropoutEnsemble(MeanVarianceNetwork(hidden=())).fit(X, Y),
        "network must have hidden layers and dropout above 0 for a DropoutEnsemble; got hidden=(), dropout=0.2",
    ),
    "an ensemble of quantiles": (
        lambda: DropoutEnsemble(QuantileNetwork()).fit(X, Y),
        "network must be a MeanVarianceNetwork",
    ),
    "a frozen deep ensemble": (
        lambda: DeepEnsemble(FrozenEstimator(network())).fit(X, Y),
        "network must not be frozen",
    ),
    "a frozen network of other features": (
        lambda: DropoutEnsemble(FrozenEstimator(network())).fit(X[:, :2], Y),
        "X has 2 features, but MeanVarianceNetwork is expecting 3",
    ),
    # spread
    "no spread": (
        lambda: ConformalRegressor(Ridge(), nonconformity=Normalized()).fit(X, Y),
        "such as evencover.models.WithSpread(your_model)",
    ),
    "no groups without spread": (
        lambda: ConformalRegressor(Ridge(), taxonomy=BySpread(2)).fit(X, Y),
        "such as evencover.models.WithSpread(your_model)",
    ),
    "a classifier": (
        lambda: WithSpread(LogisticRegression()).fit(X, Y),
        "estimator must be a regressor; got the classifier",
    ),
    "a regressor as a source": (
        lambda: WithSpread(Ridge(), Ridge()).fit(X, Y),
        "spread must be an object such as ResidualSpread(...), Neigh",
    ),
    "a class as a source": (
        lambda: WithSpread(Ridge(), EnsembleSpread).fit(X, Y),
        "spread must be an object such as ResidualSpread(...), NeighborSpread",
    ),
    "a classifier of residuals": (
        lambda: WithSpread(Ridge(), ResidualSpread(LogisticRegression())).fit(X, Y),
        "regressor must be a regressor; got the classifier LogisticRegression",
    ),
    "no neighbours": (
        lambda: WithSpread(Ridge(), NeighborSpread(0)).fit(X, Y),
        "n_neighbors must be a positive whole number; got 0",
    ),
    "neighbours of something": (
        lambda: WithSpread(Ridge(), NeighborSpread(of="y")).fit(X, Y),
        'the option "of" must be "residuals", "targets" or "distance"; got \'y\'',
    ),
    "a level of 90 for a spread": (lambda: WithSpread(Ridge(), level=90).fit(X, Y), "got 90; did you mean 0.9?"),
    "a level of 90 for columns": (
        lambda: FromOutputs(FrozenEstimator(TWO), ["lower", "upper"], level=90).fit(X, Y),
        "got 90; did",
    ),
    "a floor of zero": (
        lambda: WithSpread(Ridge(), floor=0).fit(X, Y),
        "floor must lie strictly between 0 and 1; got 0",
    ),
    "one fold": (lambda: WithSpread(Ridge(), cv=1).fit(X, Y), "cv must be at least 2 folds, a splitter, or pairs"),
    "one row": (
        lambda: WithSpread(Ridge()).fit(X[:1], Y[:1]),
        "cross-fitting needs at least 2 rows, to leave one out; got 1 sample",
    ),
    # adapters
    "an unknown output": (
        lambda: FromOutputs(Ridge(), ["low", "high"]).fit(X, Y),
        "outputs must be a sequence with one name per column: lower, center, upper, spread, variance (each at most once), or '' for a column to ignore, or a probability between 0 and 1 for a quantile; got ['low', 'high']",
    ),
    "one bound": (
        lambda: FromOutputs(Ridge(), ["lower", "center"]).fit(X, Y),
        "outputs must have lower and upper, or center",
    ),
    "a spread alone": (
        lambda: FromOutputs(Ridge(), ["spread"]).fit(X, Y),
        "outputs must have lower and upper, or center",
    ),
    "one probability": (
        lambda: FromOutputs(Ridge(), [0.5, "center"]).fit(X, Y),
        "outputs must have lower and upper, or center and spread or variance, or two or more probabilities; got [0.5, 'center']",
    ),
    "a probability twice": (
        lambda: FromOutputs(Ridge(), [0.5, 0.5]).fit(X, Y),
        "outputs must be a sequence with one name per column",
    ),
    "a probability of 5": (
        lambda: FromOutputs(Ridge(), [5, 95]).fit(X, Y),
        "or a probability between 0 and 1 for a quantile; got [5, 95]",
    ),
    "quantiles in percent": (
        lambda: FromQuantiles(quantiles={5: Ridge(), 95: Ridge()}).fit(X, Y),
        "quantiles must map probabilities between 0 and 1 to regressors; got {5: Ridge(), 95: Ridge()}",
    ),
    "a list of quantiles": (
        lambda: FromQuantiles(quantiles=[Ridge(), Ridge()]).fit(X, Y),
        "quantiles must map probabilities between 0 and 1 to regressors; got [Ridge(), Ridge()]",
    ),
    "one quantile": (
        lambda: FromQuantiles(quantiles={0.5: Ridge()}).fit(X, Y),
        "quantiles must have two or more regressors if lower and upper are not given; got {0.5: Ridge()}",
    ),
    "a quantile that is no regressor": (
        lambda: FromQuantiles(quantiles={0.1: Ridge(), 0.9: 3}).fit(X, Y),
        "quantiles[0.9] must be a regressor with scikit-learn's methods fit and predict, such as Ridge(); got 3",
    ),
    "an upper bound alone": (
        lambda: FromQuantiles(upper=Ridge(), quantiles={0.1: Ridge(), 0.9: Ridge()}).fit(X, Y),
        "lower must be a regressor",
    ),
    "no quantiles at all": (lambda: FromQuantiles().fit(X, Y), "lower must be a regressor with scikit-learn's methods"),
    "too few outputs": (
        lambda: FromOutputs(FrozenEstimator(TWO), ("lower", "center", "upper")).fit(X, Y).predict(X),
        "outputs must have one name for each column that FrozenEstimator predicts; got 3 names ('lower', 'center', 'upper') "
        "for 2 columns",
    ),
    "one output without a name": (
        lambda: FromOutputs(Ridge()).fit(X, Y),
        "estimator must predict two or more columns, such as two or more quantiles; Ridge predicts one column. For a model "
        "that predicts one number, use WithSpread(model)",
    ),
    "a negative variance": (
        lambda: FromOutputs(FrozenEstimator(NEGATIVE), ["variance", "center"]).fit(X, Y),
        "variance must not be negative; negative values:",
    ),
    "outputs without names": (
        lambda: FromOutputs(Ridge(), 3).fit(X, Y),
        "outputs must be a sequence with one name per column",
    ),
    "no distribution": (
        lambda: FromDistribution(Ridge()).fit(X, Y),
        "estimator must have a method pred_dist(X); got Ridge()",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_input_is_one_clear_error(case):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    "model",
    [
        QuantileNetwork(),
        MeanVarianceNetwork(),
        DropoutEnsemble(),
        DeepEnsemble(),
        QuantileForest(),
        WithSpread(Ridge()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_unfitted_model_cannot_predict_or_save(model, tmp_path):
    for call in (model.predict, model.predict_full):
        with pytest.raises(NotFittedError, match="instance is not fitted yet"):
            call(X)
    if hasattr(model, "save"):
        with pytest.raises(NotFittedError, match="instance is not fitted yet"):
            model.save(tmp_path / "model")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is available")
def test_a_missing_gpu_is_an_error():
    with pytest.raises(ValueError, match='device="cuda" needs a GPU that PyTorch can use, and it finds none'):
        network(device="cuda")
