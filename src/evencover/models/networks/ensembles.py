"""Ensembles of mean-variance networks: one network with dropout at prediction, or several networks."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from evencover._internal.arrays import check_count
from evencover.models._validation import checked_rows, checked_target, remember_features
from evencover.models.networks._layers import stacked, thinned
from evencover.models.networks._network_outputs import MixtureMixin
from evencover.models.networks._saving import SavingMixin
from evencover.models.networks.joint import fit_jointly
from evencover.models.networks.regressors import MeanVarianceNetwork


class DropoutEnsemble(MixtureMixin, SavingMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ensemble by dropout: one mean-variance network whose dropout stays active at prediction (MVE in the paper).

    Each pass k drops its own hidden units, which gives a smaller network with mean μ_k and standard deviation σ_k.
    The units are drawn once in `fit` and are the same for every row, so the prediction of a row is deterministic. The
    center is the mean of the μ_k. The variance is that of the mixture: the mean of the σ_k² plus the variance of the
    μ_k. The bounds are those of a normal target.

    Parameters
    ----------
    network : MeanVarianceNetwork, optional
        The network to train; by default one with the settings of the paper. A fitted network in scikit-learn's
        `FrozenEstimator` is not trained again.
    passes : int
        Number of passes.
    random_state : int, RandomState or None
        Seed of the passes, and of the network if its own `random_state` is None.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases of the smaller networks, one for each pass.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    level_ : float
        Nominal coverage of the bounds.
    device_ : str
        The device of the training.

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
        """The wrapped network, for `is_frozen`."""
        return [self.network]

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network unless it is frozen, and draw the passes."""
        check_count(self.passes, "'passes' (the number of predictions with dropout)")
        rng = check_random_state(self.random_state)
        network = _checked_network(self.network)
        if np.size(network.hidden) == 0 or not network.dropout:
            raise ValueError(
                "network must have hidden layers and dropout above 0 for a DropoutEnsemble; got "
                f"hidden={network.hidden!r}, dropout={network.dropout!r}"
            )
        if isinstance(self.network, FrozenEstimator):
            checked_rows(network, X)
            checked_target(self, X, y)
        else:
            network = fit_jointly([_seeded(network, rng)], X, y, progress=network.progress)[0]
        sizes = [layer.bias.shape[2] for layer in network.layers_[:-1]]
        kept = [(rng.random_sample((self.passes, size)) >= network.dropout).astype(np.float32) for size in sizes]
        _set_learned(self, network, thinned(network.layers_, kept, network.dropout))
        remember_features(self, X)
        return self


class DeepEnsemble(MixtureMixin, SavingMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ensemble of mean-variance networks that differ in initial weights, order of rows and dropout.

    The members are trained jointly. The center is the mean of the members' means. The variance is that of the mixture:
    the mean of the members' variances plus the variance of their means. The bounds are those of a normal target.

    Parameters
    ----------
    network : MeanVarianceNetwork, optional
        The settings of each member; by default those of the paper. Its `random_state` is not used.
    members : int
        Number of networks.
    random_state : int, RandomState or None
        Seed from which the seeds of the members are drawn.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases of the members.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    level_ : float
        Nominal coverage of the bounds.
    device_ : str
        The device of the training.

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
        """Train the members jointly."""
        check_count(self.members, "members")
        if isinstance(self.network, FrozenEstimator):
            raise TypeError("network must not be frozen: each member is trained from its own initial weights")
        rng = check_random_state(self.random_state)
        network = _checked_network(self.network)
        seeds = rng.randint(2**31, size=self.members)
        members = [clone(network).set_params(random_state=int(seed)) for seed in seeds]
        fit_jointly(members, X, y, progress=network.progress)
        _set_learned(self, members[0], stacked([member.layers_ for member in members]))
        remember_features(self, X)
        return self


def _checked_network(network: Any) -> MeanVarianceNetwork:
    """Return the network without `FrozenEstimator` around it; for None, one with the settings of the paper."""
    unfrozen = network.estimator if isinstance(network, FrozenEstimator) else network
    unfrozen = MeanVarianceNetwork() if unfrozen is None else unfrozen
    if not isinstance(unfrozen, MeanVarianceNetwork):
        raise TypeError(f"network must be a MeanVarianceNetwork; got {network!r}")
    return unfrozen


def _seeded(network: MeanVarianceNetwork, rng: np.random.RandomState) -> MeanVarianceNetwork:
    """Return an unfitted copy, with a seed from the generator if its `random_state` is None."""
    copy: MeanVarianceNetwork = clone(network)
    return copy.set_params(random_state=rng.randint(2**31)) if copy.random_state is None else copy


def _set_learned(ensemble: Any, network: MeanVarianceNetwork, layers: Any) -> None:
    """Set the learned attributes of an ensemble: the weights, and the rest as in one of its networks."""
    ensemble.layers_, ensemble.scaling_ = layers, network.scaling_
    ensemble.level_, ensemble.device_ = network.level_, network.device_
