"""Networks: equal to plain PyTorch; joint training does not change what each network learns."""

import copy
import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom, ks_2samp, norm
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import QuantileRegressor

from evencover import ConformalRegressor
from evencover.models import DeepEnsemble, DropoutEnsemble, MeanVarianceNetwork, QuantileNetwork, fit_jointly, is_frozen
from evencover.models import network_training as training
from evencover.models.network_layers import (
    GaussianLikelihood,
    NonCrossingPinball,
    Pinball,
    TrainingSettings,
    TrainingTask,
)
from evencover.synthetic import heteroskedastic
from tests.synthetic import ONE_IN_A_MILLION

DATA = heteroskedastic(400, seed=0)
LOSSES = [
    GaussianLikelihood(),
    Pinball((0.05, 0.5, 0.95)),
    Pinball((0.1, 0.9), mean=True),
    NonCrossingPinball((0.05, 0.25, 0.5, 0.9)),
    NonCrossingPinball((0.1, 0.2, 0.9), mean=True),
]
QUICK = {"hidden": (16, 16), "epochs": 5, "random_state": 0}


def task(seed, loss=LOSSES[0], rows=slice(None)):
    return TrainingTask(DATA.X[rows].astype(np.float32), DATA.y[rows].astype(np.float32), loss, seed)


def assert_same(some, others, **tolerance):
    for mine, theirs in zip(some, others, strict=True):
        for part, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(part, other, **tolerance)


def outputs_of(layers, X):
    """Return the outputs of networks, shape (networks, n, outputs), layer by layer."""
    for layer in layers[:-1]:
        X = np.maximum(X @ layer.weight + layer.bias, 0)
    return X @ layers[-1].weight + layers[-1].bias


def eager_losses(loss, outputs, y):
    """Return each row's loss, from its formula, for autograd to differentiate."""
    if isinstance(loss, GaussianLikelihood):
        return torch.nn.GaussianNLLLoss(reduction="none")(outputs[..., 0], y[..., 0], outputs[..., 1].exp() + 1e-3)
    if isinstance(loss, NonCrossingPinball):
        outputs = ordered_quantiles(loss, outputs)
    error = y - outputs
    levels = torch.tensor([*loss.levels, *[0.5] * loss.mean], dtype=outputs.dtype)
    losses = torch.maximum(levels * error, (levels - 1) * error)
    if loss.mean:
        losses = torch.cat([losses[..., :-1], error[..., -1:] ** 2], -1)
    return losses.sum(-1)


def ordered_quantiles(loss, outputs):
    """Return the quantiles and the mean: one by one up and down from the level nearest to 1/2, from the formula."""
    n, middle = len(loss.levels), min(range(len(loss.levels)), key=lambda k: abs(loss.levels[k] - 0.5))
    steps = [
        torch.nn.functional.softplus(outputs[..., k], threshold=40)
        * float(np.diff(norm.ppf(loss.levels))[k - 1])
        / np.log(2)
        for k in range(1, n)
    ]
    values = {middle: outputs[..., 0]}
    for k in range(middle + 1, n):
        values[k] = values[k - 1] + steps[k - 1]
    for k in reversed(range(middle)):
        values[k] = values[k + 1] - steps[k]
    return torch.stack([*(values[k] for k in range(n)), *outputs[..., n:].unbind(-1)], -1)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_loss_and_its_gradient_agree(loss):
    torch.manual_seed(0)
    outputs, y = torch.randn(3, 7, loss.n_outputs, dtype=torch.float64), torch.randn(3, 7, 1, dtype=torch.float64)
    outputs.requires_grad_()
    losses = eager_losses(loss, outputs, y)
    losses.sum().backward()
    torch.testing.assert_close(loss.gradient(outputs.detach(), y, torch.empty_like(outputs)), outputs.grad)
    torch.testing.assert_close(loss.value(outputs.detach(), y), losses.detach().mean(1))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_backward_pass_equals_autograd(loss, dropout):
    """On the same batch, with the same dropped units."""
    settings = TrainingSettings.of(MeanVarianceNetwork(hidden=(8, 5), dropout=dropout, device="cpu"))
    with torch.no_grad():
        stack = training._Stack([task(1, loss), task(2, loss)], settings)
        stack.load_batch()
        before = stack.parameters.clone()
        stack.step()
    layers = training._as_layers(before.requires_grad_(), 2, stack.sizes)
    units = stack.batch_X
    for layer, kept in zip(layers[:-1], stack.kept, strict=True):
        units = (units @ layer.weight + layer.bias).relu() * (1 if kept is None else kept / (1 - dropout))
    outputs = units @ layers[-1].weight + layers[-1].bias
    eager_losses(loss, outputs, stack.batch_y).mean(1).sum().backward()
    torch.testing.assert_close(stack.parameters.grad, before.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_network_learns_the_same_with_any_others(dropout):
    """Also with networks of other rows, other losses and more outputs; up to rounding."""
    settings = {"epochs": 2, "dropout": dropout, "device": "cpu"}
    networks = [
        MeanVarianceNetwork(random_state=1, **settings),
        QuantileNetwork(random_state=2, **settings),
        MeanVarianceNetwork(random_state=3, **settings),
        QuantileNetwork(random_state=4, center="mean", **settings),
    ]
    some, others = np.arange(200), np.arange(200, 400)
    rows = [some, others, others, some]
    joint = fit_jointly([clone(network) for network in networks], DATA.X, DATA.y, rows=rows)
    for network, own, together in zip(networks, rows, joint, strict=True):
        assert_same(together.layers_, network.fit(DATA.X[own], DATA.y[own]).layers_, rtol=1e-3, atol=1e-5)


def test_networks_differ_by_their_seed():
    networks = [MeanVarianceNetwork(epochs=1, random_state=seed) for seed in (1, 2)]
    first, second = fit_jointly(networks, DATA.X, DATA.y)
    assert np.abs(first.layers_[0].weight - second.layers_[0].weight).max() > 0.1


def test_every_row_is_used_equally_often():
    """Batches are cyclic: after n steps with batch size b, each row was in exactly b batches."""
    settings = TrainingSettings.of(MeanVarianceNetwork(batch_size=64, device="cpu"))
    numbered = TrainingTask(np.arange(150, dtype=np.float32)[:, None], np.zeros(150, np.float32), LOSSES[0], 0)
    stack = training._Stack([numbered], settings)
    seen = np.zeros(150)
    for _ in range(150):
        stack.load_batch()
        np.add.at(seen, stack.batch_X[0, :, 0].numpy().astype(int), 1)
    assert np.all(seen == 64)
    assert stack.n_batches == 2


@pytest.mark.parametrize("dropout", [0.1, 0.2, 0.5])
def test_units_are_dropped_with_the_requested_probability(dropout):
    """Independently: the counts are binomial, for each network and each unit."""
    masks = training._DropoutMasks([1, 2], 1001, dropout, torch.device("cpu"))
    mask = torch.zeros(2, 1001)
    kept = np.zeros((2, 1001))
    for step in range(500):
        masks.draw(step, mask)
        kept += mask.numpy()
    counts = binom(500, 1 - dropout)
    tail = ONE_IN_A_MILLION / kept.size
    assert counts.ppf(tail) <= kept.min()
    assert kept.max() <= counts.isf(tail)
    total = binom(500 * 2002, 1 - dropout)
    assert total.ppf(ONE_IN_A_MILLION) <= kept.sum() <= total.isf(ONE_IN_A_MILLION)
    assert abs(np.corrcoef(kept)[0, 1]) < 0.2


def test_initial_weights_are_orthogonal_and_biases_zero():
    """With steps this small, the weights stay as they were."""
    network = MeanVarianceNetwork(hidden=(64, 64), learning_rate=1e-30, epochs=1, random_state=0)
    layers = network.fit(DATA.X, DATA.y).layers_
    assert [layer.weight.shape for layer in layers] == [(1, 3, 64), (1, 64, 64), (1, 64, 2)]
    for layer in layers:
        weight = layer.weight[0] if layer.weight.shape[1] >= layer.weight.shape[2] else layer.weight[0].T
        np.testing.assert_allclose(weight.T @ weight, np.eye(weight.shape[1]), atol=1e-6)
        np.testing.assert_allclose(layer.bias, 0, atol=1e-20)


def plain_pytorch(seed, X, y, *, epochs):
    """Return a network trained with PyTorch's modules, autograd and dropout, from orthogonal weights."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        *(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2)),
        *(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 2)),
    )
    for layer in network[::3]:
        torch.nn.init.orthogonal_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3, weight_decay=1e-6)
    order = torch.randperm(len(X))
    for _ in range(epochs):
        for start in range(0, len(X) - 63, 64):
            rows = order[start : start + 64]
            optimizer.zero_grad()
            eager_losses(LOSSES[0], network(X[rows]), y[rows, None]).mean().backward()
            optimizer.step()
    return network.eval()


@pytest.mark.slow
def test_losses_have_the_distribution_of_plain_pytorch():
    """Out of sample, over 20 seeds: two-sample Kolmogorov-Smirnov test."""
    training_rows, test = heteroskedastic(512, seed=1), heteroskedastic(2000, seed=2)
    mean, scale = training_rows.y.mean(), training_rows.y.std()
    own = fit_jointly(
        [MeanVarianceNetwork(hidden=(16, 16), learning_rate=5e-3, epochs=20, random_state=seed) for seed in range(20)],
        training_rows.X,
        training_rows.y,
    )
    X, X_test = (
        torch.tensor(own[0].scaling_.features(rows), dtype=torch.float32) for rows in (training_rows.X, test.X)
    )
    y, y_test = (torch.tensor((rows - mean) / scale, dtype=torch.float32) for rows in (training_rows.y, test.y))
    theirs = [plain_pytorch(seed, X, y, epochs=20) for seed in range(20)]
    with torch.no_grad():
        their_losses = [float(eager_losses(LOSSES[0], each(X_test), y_test[:, None]).mean()) for each in theirs]
        our_losses = [
            float(
                eager_losses(
                    LOSSES[0], torch.tensor(outputs_of(each.layers_, X_test.numpy())[0]), y_test[:, None]
                ).mean()
            )
            for each in own
        ]
    assert ks_2samp(our_losses, their_losses).pvalue > 0.01
    assert np.std(our_losses) > 0


def test_a_network_without_hidden_layers_finds_linear_quantiles():
    """The pinball loss then has one minimum, which linear programming also finds."""
    network = QuantileNetwork(hidden=(), dropout=0.0, learning_rate=0.01, epochs=400, random_state=0).fit(
        DATA.X, DATA.y
    )
    exact = QuantileRegressor(quantile=0.95, alpha=0).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(network.predict_full(DATA.X).upper, exact.predict(DATA.X), atol=0.15)


def test_quantiles_are_in_order_and_softened():
    network = QuantileNetwork(softening=2, quantiles=[0.25, 0.75], **QUICK).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(network.plan_.levels, [0.1, 0.25, 0.5, 0.75, 0.9])
    values = network.predict_quantiles(DATA.X)
    assert values.shape == (400, 5)
    assert np.all(np.diff(values, axis=1) >= 0)
    prediction = network.predict_full(DATA.X)
    assert prediction.level == pytest.approx(0.8)
    np.testing.assert_allclose(prediction.spread, (prediction.upper - prediction.lower) / (2 * 1.2815515655446004))


def test_early_stopping_keeps_the_best_weights_of_each_network():
    """With a learning rate that overfits soon, early stopping gives the better likelihood."""
    settings = {"hidden": (64, 64), "dropout": 0.0, "learning_rate": 0.01, "random_state": 0}
    stopped = MeanVarianceNetwork(epochs=500, patience=5, **settings).fit(DATA.X, DATA.y)
    full = MeanVarianceNetwork(epochs=500, **settings).fit(DATA.X, DATA.y)
    test = heteroskedastic(2000, seed=9)

    def likelihood(network):
        prediction = network.predict_full(test.X)
        return np.mean(np.log(prediction.spread) + ((test.y - prediction.center) / prediction.spread) ** 2 / 2)

    assert likelihood(stopped) < likelihood(full) - 1
    assert stopped.n_epochs_ < 500 == full.n_epochs_
    joint = fit_jointly([clone(stopped), clone(stopped).set_params(random_state=1)], DATA.X, DATA.y)[0]
    assert_same(joint.layers_, stopped.layers_, rtol=1e-2, atol=1e-3)


def test_validation_rows_are_never_trained_on():
    settings = TrainingSettings.of(MeanVarianceNetwork(batch_size=16, patience=1, validation_size=0.3, device="cpu"))
    numbered = TrainingTask(np.arange(100, dtype=np.float32)[:, None], np.zeros(100, np.float32), LOSSES[0], 0)
    stack = training._Stack([numbered], settings)
    validation, seen = set(stack.validation_X.ravel().tolist()), set()
    for _ in range(70):
        stack.load_batch()
        seen |= set(stack.batch_X.ravel().tolist())
    assert len(validation) == 30
    assert seen == set(range(100)) - validation


def test_patience_counts_epochs_since_the_best_one(monkeypatch):
    """Two networks with given losses: each keeps its best weights; training ends when both patiences have ended."""
    losses = iter([[5.0, 5.0], [4.0, 6.0], [4.5, 7.0], [3.0, 1.0], [3.5, 0.5], [3.6, 0.6]])
    settings = TrainingSettings.of(MeanVarianceNetwork(hidden=(3,), patience=2, device="cpu"))
    with torch.no_grad():
        stack = training._Stack([task(1), task(2)], settings)
        monkeypatch.setattr(stack, "validation_losses", lambda: torch.tensor(next(losses)))
        best, ends = training._EarlyStopping(stack, 2), []
        for epoch in range(6):
            stack.parameters.fill_(epoch)
            ends.append(best.ends_after_epoch(stack))
    assert ends == [False, False, False, False, False, True]
    assert best.layers[0].weight[:, 0, 0].tolist() == [
        3.0,
        0.0,
    ]  # the patience of the second ended before its best epoch
    assert best.best_epochs.tolist() == [4, 1]


@pytest.mark.parametrize("patience", [None, 3])
def test_a_diverged_training_is_an_error(patience):
    """Also with early stopping, where the initial weights could be kept; the error names the networks."""
    networks = [MeanVarianceNetwork(learning_rate=1e30, patience=patience, epochs=5) for _ in range(2)]
    with pytest.raises(ValueError, match=r"training of networks \[0, 1\] diverged: with learning_rate=1e\+30"):
        fit_jointly(networks, DATA.X, DATA.y)


def test_low_noise_is_learned():
    """The likelihood has a minimum: the mean is learned, and the spread is small."""
    train, test = (heteroskedastic(2000, seed=seed) for seed in (1, 2))
    y, y_test = (rows.mean + 0.03 * (rows.y - rows.mean) for rows in (train, test))
    network = MeanVarianceNetwork(dropout=0.0, learning_rate=3e-3, epochs=30, random_state=0).fit(train.X, y)
    assert network.score(test.X, y_test) > 0.99
    assert network.predict_full(test.X).interval().covers(y_test).mean() > 0.5


def test_the_default_dtype_of_torch_has_no_effect():
    torch.set_default_dtype(torch.float64)
    try:
        doubled = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same(doubled.layers_, MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y).layers_, rtol=0)


def test_a_failed_fit_does_not_change_a_fitted_network():
    network = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    before = network.predict(DATA.X)
    with pytest.raises(ValueError, match="y must be finite"):
        network.fit(DATA.X[:, :2], DATA.y * np.nan)
    np.testing.assert_array_equal(network.predict(DATA.X), before)


def test_equal_bounds_have_the_smallest_spread():
    """Bounds that cross are put in order and counted; all quantiles are sorted."""
    network = QuantileNetwork(**QUICK).fit(DATA.X, DATA.y)
    prediction, quantiles = network.predict_full(DATA.X), network.predict_quantiles(DATA.X)
    np.testing.assert_array_equal(prediction.center, quantiles[:, network.plan_.levels.index(0.5)])
    np.testing.assert_array_equal(np.column_stack([prediction.lower, prediction.upper]), quantiles[:, [0, -1]])
    assert network.spread_floor_ == pytest.approx(1e-3 * np.median(prediction.spread))
    network.layers_[-1].weight[:] = 0
    network.layers_[-1].bias[:] = 0
    assert set(network.predict_full(DATA.X).spread) == {network.spread_floor_}
    network.layers_[-1].bias[..., 0] = 1
    assert network.predict_full(DATA.X).crossings == 400


def wild_networks():
    """Return networks of many quantiles whose weights were never trained, or are very large, of either sign."""
    network = QuantileNetwork(quantiles=np.linspace(0.05, 0.95, 19), hidden=(16,), epochs=1, random_state=0)
    network.fit(DATA.X, DATA.y)
    for factor in (0, 1, -1, 1e3, -1e3, 1e10):
        scaled = copy.deepcopy(network)
        scaled.layers_ = tuple(type(layer)(factor * layer.weight, factor * layer.bias) for layer in network.layers_)
        yield scaled


@pytest.mark.parametrize("rows", [DATA.X, 1e6 * DATA.X, -1e100 * DATA.X], ids=["usual", "far", "very far"])
def test_many_quantiles_never_cross(rows):
    """By construction: whatever the weights, and for any row."""
    for network in wild_networks():
        prediction = network.predict_full(rows)
        assert prediction.crossings == 0
        assert prediction.quantiles.shape == (400, 19)
        assert np.all(np.diff(prediction.quantiles, axis=1) >= 0)
        np.testing.assert_array_equal(prediction.quantiles, network.predict_quantiles(rows))


def test_the_same_quantiles_cross_if_each_is_an_output_of_its_own():
    """The construction is needed: the paper's network with the same weights crosses."""
    for network in wild_networks():
        network.plan_ = dataclasses.replace(network.plan_, non_crossing=False)
        if np.any(network.layers_[-1].weight):
            assert network.predict_full(DATA.X).crossings > 200


def test_quantiles_of_new_rows_are_those_of_the_loss():
    """The quantiles at prediction, computed by numpy, equal those that the training minimises."""
    loss = NonCrossingPinball((0.05, 0.25, 0.5, 0.9), mean=True)
    outputs = torch.randn(1, 50, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 30
    np.testing.assert_allclose(
        loss.quantiles(outputs[0].numpy()), ordered_quantiles(loss, outputs)[0, :, :4], rtol=1e-12
    )


def test_many_quantiles_are_learned():
    """Without features, the quantiles are those of the targets."""
    levels = (0.1, 0.25, 0.75, 0.9)
    settings = {"hidden": (), "dropout": 0.0, "learning_rate": 0.02, "epochs": 150, "random_state": 0}
    X = np.zeros_like(DATA.X)
    network = QuantileNetwork(quantiles=levels, **settings).fit(X, DATA.y)
    found = network.predict_quantiles(X[:1])[0]
    np.testing.assert_allclose(found, np.quantile(DATA.y, network.plan_.levels), atol=0.15)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_pass_is_the_network_without_the_dropped_units(share):
    network = MeanVarianceNetwork(dropout=share, **QUICK).fit(DATA.X, DATA.y)
    ensemble = DropoutEnsemble(FrozenEstimator(network), passes=7, random_state=0).fit(DATA.X, DATA.y)
    for place, (thin, whole) in enumerate(zip(ensemble.layers_, network.layers_, strict=True)):
        kept = thin.weight.any(axis=2, keepdims=True)
        assert kept.all() == (place == 0)
        np.testing.assert_allclose(thin.weight, kept * whole.weight / (1 - share if place else 1), rtol=1e-6)
        np.testing.assert_array_equal(thin.bias, whole.bias)


def test_a_fitted_network_becomes_an_ensemble_without_training():
    """The variance of the mixture is the variance of the means plus the mean of the variances."""
    network = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    ensemble = DropoutEnsemble(FrozenEstimator(network), passes=7, random_state=0)
    assert is_frozen(ensemble)
    ensemble.fit(DATA.X[:5], DATA.y[:5])
    values = outputs_of(ensemble.layers_, network.scaling_.features(DATA.X)[None])
    means, variances = values[..., 0], np.exp(values[..., 1]) + 1e-3
    total = np.mean(variances + means**2, axis=0) - np.mean(means, axis=0) ** 2
    prediction = ensemble.predict_full(DATA.X)
    np.testing.assert_allclose(prediction.spread, network.scaling_.y_scale * np.sqrt(total), rtol=1e-6)
    conformal = ConformalRegressor(ensemble).fit(DATA.X, DATA.y)
    assert len(conformal.calibration_rows_) == 400


def test_passes_drop_their_own_units_with_the_probability_of_the_network():
    network = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    ensemble = DropoutEnsemble(FrozenEstimator(network), passes=500, random_state=0).fit(DATA.X, DATA.y)
    kept = np.stack([layer.weight.any(axis=2) for layer in ensemble.layers_[1:]])  # (layers, passes, units)
    counts = binom(kept.size, 0.8)
    assert counts.ppf(ONE_IN_A_MILLION) <= kept.sum() <= counts.isf(ONE_IN_A_MILLION)
    assert len(np.unique(kept[0], axis=0)) > 300
    assert np.abs(np.corrcoef(kept[0, :, 0], kept[1, :, 0])[0, 1]) < 0.3
    assert np.all(ensemble.predict_full(DATA.X).spread > 0)


def test_an_ensemble_trains_its_network():
    """With the seed of the ensemble, unless the network has its own."""
    own = DropoutEnsemble(MeanVarianceNetwork(**QUICK), random_state=1).fit(DATA.X, DATA.y)
    alone = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    assert_same(own.layers_[:1], alone.layers_[:1])
    unseeded = MeanVarianceNetwork(**{**QUICK, "random_state": None})
    first, second = (DropoutEnsemble(unseeded, random_state=1).fit(DATA.X, DATA.y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(DATA.X), second.predict(DATA.X))


def test_a_deep_ensemble_is_the_mixture_of_its_members():
    ensemble = DeepEnsemble(MeanVarianceNetwork(**QUICK), members=3, random_state=0).fit(DATA.X, DATA.y)
    seeds = np.random.RandomState(0).randint(2**31, size=3)
    members = [MeanVarianceNetwork(**{**QUICK, "random_state": int(seed)}).fit(DATA.X, DATA.y) for seed in seeds]
    predictions = [each.predict_full(DATA.X) for each in members]
    np.testing.assert_allclose(
        ensemble.predict(DATA.X), np.mean([each.center for each in predictions], axis=0), rtol=1e-3
    )
    variance = np.mean([each.spread**2 for each in predictions], axis=0) + np.var(
        [p.center for p in predictions], axis=0
    )
    np.testing.assert_allclose(ensemble.predict_full(DATA.X).spread, np.sqrt(variance), rtol=1e-3)


@pytest.mark.parametrize(
    "model",
    [
        QuantileNetwork(quantiles=(0.2,), center="mean", **QUICK),
        MeanVarianceNetwork(level=0.8, **QUICK),
        DropoutEnsemble(MeanVarianceNetwork(**QUICK), passes=5, random_state=np.random.RandomState(0)),
        DropoutEnsemble(FrozenEstimator(MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)), passes=5),
        DeepEnsemble(MeanVarianceNetwork(**QUICK), members=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_loaded_model_predicts_the_same(model, tmp_path, monkeypatch):
    """Its file is read without torch, with its settings."""
    model = clone(model).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model.evencover")
    assert [path.name for path in tmp_path.iterdir()] == ["model.evencover"]
    monkeypatch.setitem(sys.modules, "torch", None)
    loaded = type(model).load(tmp_path / "model.evencover")
    for part in ("center", "spread", "lower", "upper"):
        np.testing.assert_array_equal(
            getattr(loaded.predict_full(DATA.X), part), getattr(model.predict_full(DATA.X), part)
        )
    assert loaded.n_features_in_ == 3
    assert loaded.get_params()["random_state"] in (0, None)
    clone(loaded)


def test_a_loaded_model_checks_feature_names(tmp_path):
    frame = pd.DataFrame(DATA.X, columns=["a", "b", "c"])
    MeanVarianceNetwork(**QUICK).fit(frame, DATA.y).save(tmp_path / "model")
    with pytest.raises(ValueError, match="feature names should match"):
        MeanVarianceNetwork.load(tmp_path / "model").predict(frame[["c", "b", "a"]])


def test_a_file_of_another_class_is_an_error(tmp_path):
    MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y).save(tmp_path / "a")
    with pytest.raises(ValueError, match=r"the file holds a MeanVarianceNetwork: use MeanVarianceNetwork\.load"):
        QuantileNetwork.load(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"not a network")
    with pytest.raises(ValueError, match="is not a network file written by evencover, or it is corrupt"):
        QuantileNetwork.load(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        QuantileNetwork.load(tmp_path / "c")
    with pytest.raises(FileNotFoundError):
        MeanVarianceNetwork.load(tmp_path / "a").save(tmp_path / "nowhere" / "a")


def test_a_predictor_file_is_not_a_network_file(tmp_path):
    network = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    ConformalRegressor(FrozenEstimator(network)).fit(DATA.X, DATA.y).save(tmp_path / "predictor")
    with pytest.raises(ValueError, match=r"its format is 'evencover\.predictor'; expected 'evencover\.network'"):
        MeanVarianceNetwork.load(tmp_path / "predictor")


def test_a_corrupt_network_file_is_noticed(tmp_path):
    """Changing a byte gives one error that names the file, or changes no prediction."""
    network = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    network.save(tmp_path / "model")
    content, expected = (tmp_path / "model").read_bytes(), network.predict(DATA.X)
    for position in range(0, len(content), 397):
        corrupt = bytearray(content)
        corrupt[position] ^= 0xFF
        (tmp_path / "model").write_bytes(bytes(corrupt))
        try:
            predicted = MeanVarianceNetwork.load(tmp_path / "model").predict(DATA.X)
        except ValueError as error:
            assert str(tmp_path / "model") in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(predicted, expected)


class Subclass(MeanVarianceNetwork):
    """A user's own network."""


def test_a_subclass_is_saved_and_loaded_by_its_own_name(tmp_path):
    model = Subclass(**QUICK).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(Subclass.load(tmp_path / "model").predict(DATA.X), model.predict(DATA.X))
    with pytest.raises(ValueError, match=r"the file holds a Subclass: use Subclass\.load"):
        MeanVarianceNetwork.load(tmp_path / "model")


def test_unknown_settings_cannot_be_saved(tmp_path):
    model = MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    model.progress = Subclass()
    with pytest.raises(TypeError, match=r"settings must be numbers, text or sequences of them to be saved; got .*Sub"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_without_torch_the_error_tells_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"training a network needs torch: pip install 'evencover\[networks\]'"):
        QuantileNetwork().fit(DATA.X, DATA.y)


def test_progress_is_shown_on_request(capsys):
    MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
    assert capsys.readouterr().err == ""
    MeanVarianceNetwork(progress=True, **QUICK).fit(DATA.X, DATA.y)
    assert "5/5" in capsys.readouterr().err


def test_training_does_not_change_the_state_of_torch():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        MeanVarianceNetwork(**QUICK).fit(DATA.X, DATA.y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")
def test_training_on_a_gpu_is_reproducible_and_predicts_as_on_the_cpu():
    first, second = (MeanVarianceNetwork(device="cuda", **QUICK).fit(DATA.X, DATA.y) for _ in range(2))
    assert_same(first.layers_, second.layers_, rtol=0)
    on_gpu = first.predict_full(DATA.X)
    first.device_ = "cpu"
    np.testing.assert_allclose(first.predict_full(DATA.X).spread, on_gpu.spread, rtol=1e-12)
