"""Ensembles of mean-variance networks: one network thinned by dropout, or several."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from evencover._internal.arrays import FloatArray, check_count
from evencover.models._validation import checked_rows, checked_target, remember_features
from evencover.models.networks._layers import stacked, thinned
from evencover.models.networks._saving import SavingMixin
from evencover.models.networks.joint import fit_jointly, mixture_of
from evencover.models.networks.regressors import MeanVarianceNetwork
from evencover.predictions import Prediction


class DropoutEnsemble(SavingMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """One mean-variance network, its dropout left on (the paper's MVE).

    Each of the passes leaves out its own hidden units, the same for every row: a thinner network μ_k, σ_k, drawn
    once, so that a row's prediction is a function of the row. The mean is that of the μ_k, and the variance that of
    the mixture: the mean of the σ_k² plus the variance of the μ_k. The bounds are those of a normal target.

    Parameters
    ----------
    network : MeanVarianceNetwork, optional
        The network to train, by default one with the paper's settings. A fitted one in scikit-learn's
        `FrozenEstimator` is not trained again.
    passes : int
        Number of thinned networks.
    random_state : int, RandomState or None
        Seed of the passes, and of a network that has no `random_state` of its own.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases of the thinned networks.
    scaling_ : Scaling
        The units they learn in.
    level_ : float
        Nominal coverage of its bounds.
    device_ : str
        Where the network was trained.

    References
    ----------
    Gal and Ghahramani, "Dropout as a Bayesian approximation", ICML 2016. Kendall and Gal, "What uncertainties do we
    need in Bayesian deep learning for computer vision?", NeurIPS 2017.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> network = MeanVarianceNetwork(epochs=5, random_state=0).fit(sample.X, sample.y)
    >>> ensemble = DropoutEnsemble(FrozenEstimator(network), random_state=0).fit(sample.X, sample.y)
    >>> bool(np.all(ensemble.predict_full(sample.X).spread > 0))
    True
    """

    def __init__(self, network: Any = None, *, passes: int = 50, random_state: Any = None) -> None:
        self.network = network
        self.passes = passes
        self.random_state = random_state

    @property
    def wrapped_estimators(self) -> list[Any]:
        """The network inside, for `is_frozen`."""
        return [self.network]

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network unless it is frozen, and draw the passes."""
        check_count(self.passes, "passes")
        rng = check_random_state(self.random_state)
        network = _checked_network(self.network)
        if np.size(network.hidden) == 0 or not network.dropout:
            raise ValueError(
                "network must have hidden layers and dropout above 0 to make an ensemble of it; got "
                f"hidden={network.hidden!r}, dropout={network.dropout!r}"
            )
        if isinstance(self.network, FrozenEstimator):
            checked_rows(network, X)
            checked_target(self, X, y)
        else:
            network = fit_jointly([_seeded(network, rng)], X, y, progress=network.progress)[0]
        sizes = [layer.bias.shape[2] for layer in network.layers_[:-1]]
        kept = [(rng.random_sample((self.passes, size)) >= network.dropout).astype(np.float32) for size in sizes]
        _take_over(self, network, thinned(network.layers_, kept, network.dropout))
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, total standard deviation and normal bounds."""
        return mixture_of(self, X)


class DeepEnsemble(SavingMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Mean-variance networks that differ in initial weights, order of rows and dropout, trained in one pass.

    Mean and variance are those of the mixture: the mean of the means, and the mean of the variances plus the variance
    of the means. The bounds are those of a normal target.

    Parameters
    ----------
    network : MeanVarianceNetwork, optional
        What each member is, by default one with the paper's settings; its `random_state` plays no part.
    members : int
        Number of networks.
    random_state : int, RandomState or None
        Seed of the members' seeds.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases of the members.
    scaling_ : Scaling
        The units they learn in.
    level_ : float
        Nominal coverage of its bounds.
    device_ : str
        Where they were trained.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell, "Simple and scalable predictive uncertainty estimation using deep
    ensembles", NeurIPS 2017.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> ensemble = DeepEnsemble(MeanVarianceNetwork(epochs=5), random_state=0).fit(sample.X, sample.y)
    >>> ensemble.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper; level=0.9)
    """

    def __init__(self, network: Any = None, *, members: int = 5, random_state: Any = None) -> None:
        self.network = network
        self.members = members
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the members together."""
        check_count(self.members, "members")
        if isinstance(self.network, FrozenEstimator):
            raise TypeError("network must not be frozen: the members are trained from weights of their own")
        rng = check_random_state(self.random_state)
        network = _checked_network(self.network)
        seeds = rng.randint(2**31, size=self.members)
        members = [clone(network).set_params(random_state=int(seed)) for seed in seeds]
        fit_jointly(members, X, y, progress=network.progress)
        _take_over(self, members[0], stacked([member.layers_ for member in members]))
        remember_features(self, X)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, total standard deviation and normal bounds."""
        return mixture_of(self, X)


def _checked_network(network: Any) -> MeanVarianceNetwork:
    """Return the network, the one inside a frozen one, or one with the paper's settings where there is none."""
    inside = network.estimator if isinstance(network, FrozenEstimator) else network
    inside = MeanVarianceNetwork() if inside is None else inside
    if not isinstance(inside, MeanVarianceNetwork):
        raise TypeError(f"network must be a MeanVarianceNetwork; got {network!r}")
    return inside


def _seeded(network: MeanVarianceNetwork, rng: np.random.RandomState) -> MeanVarianceNetwork:
    """Return an unfitted copy, with a seed where it has none."""
    copy: MeanVarianceNetwork = clone(network)
    return copy.set_params(random_state=rng.randint(2**31)) if copy.random_state is None else copy


def _take_over(ensemble: Any, network: MeanVarianceNetwork, layers: Any) -> None:
    """Give an ensemble its networks' weights, and what else a member knows."""
    ensemble.layers_, ensemble.scaling_ = layers, network.scaling_
    ensemble.level_, ensemble.device_ = network.level_, network.device_
