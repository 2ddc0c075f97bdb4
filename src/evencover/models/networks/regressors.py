"""Neural networks that predict quantiles, or a mean and a variance."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover._internal.arrays import FloatArray
from evencover.models._quantile_plan import Center, QuantilePlan
from evencover.models._scaling import relative_floor
from evencover.models._validation import checked_rows
from evencover.models.networks._losses import GaussianLikelihood, NonCrossingPinball, Pinball
from evencover.models.networks._network_outputs import MixtureMixin, network_outputs
from evencover.models.networks._saving import SavingMixin
from evencover.models.networks.joint import fit_jointly
from evencover.models.predict import CenterMixin
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction


class _NetworkMixin(SavingMixin):
    """The settings of a network and its training, shared by the two networks; see `MeanVarianceNetwork`."""

    def __init__(
        self,
        *,
        level: float = 0.9,
        hidden: Sequence[int] = (64, 64, 64),
        dropout: float = 0.2,
        learning_rate: float = 5e-4,
        weight_decay: float = 1e-6,
        batch_size: int = 64,
        epochs: int = 300,
        patience: int | None = None,
        validation_size: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.level = level
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.epochs = epochs
        self.patience = patience
        self.validation_size = validation_size
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network."""
        fit_jointly([self], X, y, progress=self.progress)
        return self


class QuantileNetwork(CenterMixin, _NetworkMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Neural network that learns quantiles by the pinball loss (QR in the paper).

    The bounds are the α/2 and 1 − α/2 quantiles, where α = softening · (1 − level). The spread is
    (upper − lower) / 2z, where z is the normal quantile of 1 − α/2. Features and target are standardised internally.
    Rows are shuffled once, and batches go through them in this order.

    Without additional quantiles, this is the paper's network: each quantile is an output of its own, and quantiles may
    cross in some rows. With additional quantiles, the network learns the steps between neighbouring quantiles, which
    are positive, so its quantiles never cross.

    Parameters
    ----------
    level : float
        Nominal coverage of the network's own bounds, before softening.
    softening : float
        Factor on the error rate 1 − level of the network's own bounds. The paper uses 2 inside a `ConformalRegressor`:
        less extreme quantiles are easier to learn, and the calibration corrects the level. Without calibration use 1.
    quantiles : sequence of float
        Additional quantile levels to learn, such as ``np.linspace(0.05, 0.95, 19)`` for a whole distribution.
    center : {"median", "mean"}
        What `predict` returns. The mean is learned by a squared error, which is added to the pinball losses.
    hidden : sequence of int
        Number of units of each hidden layer.
    dropout : float
        Share of hidden units that are dropped in each training step.
    learning_rate, weight_decay : float
        Parameters of the optimiser, Adam.
    batch_size : int
        Number of rows in a training step; all rows if there are fewer.
    epochs : int
        Number of epochs. An epoch has as many steps as complete batches fit into the rows.
    patience : int, optional
        Stop early if the validation loss has not fallen for this number of epochs, and keep the best weights. By
        default there is no early stopping.
    validation_size : float
        Share of the rows for validation, if there is a `patience`.
    device : {"auto", "cpu", "cuda"}
        Where to train; "auto" uses a GPU if there is one.
    random_state : int, RandomState or None
        Seed of initial weights, order of rows and dropout.
    progress : bool
        Whether to show a progress bar.

    Attributes
    ----------
    plan_ : QuantilePlan
        The quantiles that were learned; ``plan_.levels`` are all their levels, in order.
    layers_ : tuple of layers
        Weights and biases, in float32.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    spread_floor_ : float
        The smallest spread that is predicted: 0.001 times the median spread on the training rows.
    n_epochs_ : int
        Number of epochs that the weights were trained for: all, or up to the best one with `patience`.
    device_ : str
        The device of the training.

    References
    ----------
    Koenker and Hallock, "Quantile regression", Journal of Economic Perspectives, 2001. Romano, Patterson and Candès,
    "Conformalized quantile regression", NeurIPS 2019.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> model = QuantileNetwork(softening=2, epochs=5, random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper, 3 quantiles; level=0.8)
    """

    def __init__(
        self,
        *,
        level: float = 0.9,
        softening: float = 1.0,
        quantiles: Sequence[float] = (),
        center: Center = "median",
        hidden: Sequence[int] = (64, 64, 64),
        dropout: float = 0.2,
        learning_rate: float = 5e-4,
        weight_decay: float = 1e-6,
        batch_size: int = 64,
        epochs: int = 300,
        patience: int | None = None,
        validation_size: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        super().__init__(
            level=level,
            hidden=hidden,
            dropout=dropout,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            batch_size=batch_size,
            epochs=epochs,
            patience=patience,
            validation_size=validation_size,
            device=device,
            random_state=random_state,
            progress=progress,
        )
        self.softening = softening
        self.quantiles = quantiles
        self.center = center

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread, bounds and quantiles. Quantiles that cross are put in order."""
        return self._prediction(checked_rows(self, X))

    def predict_quantiles(self, X: Any) -> FloatArray:
        """Return all learned quantiles, sorted in each row. Shape (n, q), for the levels ``plan_.levels``."""
        X = checked_rows(self, X)
        return np.sort(self._values(X)[:, : len(self.plan_.levels)], axis=1)

    def _loss(self) -> Pinball | NonCrossingPinball:
        return _loss_of(self._plan())

    def _finish_fit(self, X: FloatArray, y: FloatArray) -> None:
        """Set the learned attributes other than the weights, from the training rows."""
        self.plan_, self.spread_floor_ = self._plan(), 0.0
        self.spread_floor_ = relative_floor(self._prediction(X).spread, y)

    def _plan(self) -> QuantilePlan:
        plan = QuantilePlan.of(self.level, self.softening, self.quantiles, self.center)
        return replace(plan, non_crossing=len(self.quantiles) > 0)

    def _values(self, X: FloatArray) -> FloatArray:
        """Return the quantiles, and the mean if it is the center, in units of the target. Shape (n, outputs)."""
        outputs, loss = np.concatenate([block[0] for block in network_outputs(self, X)]), _loss_of(self.plan_)
        if isinstance(loss, NonCrossingPinball):
            outputs[:, : len(loss.levels)] = loss.quantiles(outputs)
        values: FloatArray = self.scaling_.to_target(outputs)
        return values

    def _prediction(self, X: FloatArray) -> Prediction:
        values, q = self._values(X), len(self.plan_.levels)
        mean = values[:, q] if self.plan_.center == "mean" else None
        return self.plan_.prediction(values[:, :q], mean, self.spread_floor_)


def _loss_of(plan: QuantilePlan) -> Pinball | NonCrossingPinball:
    """Return the loss of a network that learns these quantiles."""
    loss = NonCrossingPinball if plan.non_crossing else Pinball
    return loss(plan.levels, mean=plan.center == "mean")


class MeanVarianceNetwork(MixtureMixin, _NetworkMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Neural network that learns a mean μ and a log-variance s by the Gaussian likelihood (MV in the paper).

    The loss is log v + (y − μ)² / v with v = eˢ + 0.001, for the standardised target. The spread is the standard
    deviation √v, and the bounds are those of a normal target. Features and target are standardised internally. Rows
    are shuffled once, and batches go through them in this order.

    Parameters
    ----------
    level : float
        Nominal coverage of the network's own bounds.
    hidden : sequence of int
        Number of units of each hidden layer.
    dropout : float
        Share of hidden units that are dropped in each training step.
    learning_rate, weight_decay : float
        Parameters of the optimiser, Adam.
    batch_size : int
        Number of rows in a training step; all rows if there are fewer.
    epochs : int
        Number of epochs. An epoch has as many steps as complete batches fit into the rows.
    patience : int, optional
        Stop early if the validation loss has not fallen for this number of epochs, and keep the best weights. By
        default there is no early stopping.
    validation_size : float
        Share of the rows for validation, if there is a `patience`.
    device : {"auto", "cpu", "cuda"}
        Where to train; "auto" uses a GPU if there is one.
    random_state : int, RandomState or None
        Seed of initial weights, order of rows and dropout.
    progress : bool
        Whether to show a progress bar.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases, in float32.
    scaling_ : Scaling
        Means and standard deviations of features and target.
    n_epochs_ : int
        Number of epochs that the weights were trained for: all, or up to the best one with `patience`.
    device_ : str
        The device of the training.
    level_ : float
        Nominal coverage of the bounds.

    References
    ----------
    Nix and Weigend, "Estimating the mean and variance of the target probability distribution", ICNN 1994.

    Examples
    --------
    >>> from evencover.synthetic import heteroskedastic
    >>> sample = heteroskedastic(500, seed=0)
    >>> model = MeanVarianceNetwork(epochs=5, random_state=0).fit(sample.X, sample.y)
    >>> model.predict_full(sample.X[:3])
    Prediction(3 rows of center, spread, lower, upper; level=0.9)
    """

    def _loss(self) -> GaussianLikelihood:
        level_fraction(self.level)
        return GaussianLikelihood()

    def _finish_fit(self, X: FloatArray, y: FloatArray) -> None:  # noqa: ARG002
        """Keep the level, so that changing the parameter later has no effect before the next `fit`."""
        self.level_ = self.level
