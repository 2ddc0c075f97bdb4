"""Networks that learn quantiles, or a mean and a variance; alone, or many in one pass."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover._internal.arrays import FloatArray
from evencover.models._quantile_plan import Center, QuantilePlan
from evencover.models._scaling import relative_floor
from evencover.models._validation import checked_rows
from evencover.models.networks._losses import GaussianLikelihood, Pinball
from evencover.models.networks._saving import SavingMixin
from evencover.models.networks.joint import fit_jointly, mixture_of, outputs_of
from evencover.predictions import Prediction
from evencover.quantiles import level_fraction


class QuantileNetwork(SavingMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A network that learns quantiles by the pinball loss (the paper's QR).

    Its bounds are the α/2 and 1 − α/2 quantiles with α = softening · (1 − level), and its spread is
    (upper − lower) / 2z, z being the normal quantile of 1 − α/2. Features and target are standardised inside. Rows are
    shuffled once and batches go round in that order.

    Parameters
    ----------
    level : float
        Nominal coverage of its own bounds, before softening.
    softening : float
        How many times as often its own bounds may miss. Inside a `ConformalRegressor`, which puts the level right, 2 is
        the paper's choice: less extreme quantiles are learned better. A baseline needs 1.
    quantiles : sequence of float
        Further quantiles to learn, for `predict_quantiles`.
    center : {"median", "mean"}
        What to predict; a mean is learned by a squared error beside the pinball losses.
    hidden : sequence of int
        Number of units of each hidden layer.
    dropout : float
        Share of hidden units left out at each step of the training.
    learning_rate, weight_decay : float
        Adam's.
    batch_size : int
        Rows a step; all where there are fewer.
    epochs : int
        Each has as many steps as whole batches fit into the rows.
    patience : int, optional
        Stop when the loss on rows set aside has not fallen for so many epochs, and take the best weights.
    validation_size : float
        Share of the rows to set aside for `patience`.
    device : {"auto", "cpu", "cuda"}
        Where to train; "auto" takes a GPU if there is one.
    random_state : int, RandomState or None
        Seed of initial weights, order of rows and dropout.
    progress : bool
        Whether to show a progress bar.

    Attributes
    ----------
    plan_ : QuantilePlan
        What it has learned; ``plan_.levels`` has all the quantile levels, in order.
    layers_ : tuple of layers
        Weights and biases, in float32.
    scaling_ : Scaling
        The units it learns in.
    spread_floor_ : float
        A thousandth of the median spread on the training rows; no spread is smaller.
    n_epochs_ : int
        After how many epochs the weights are from: all, or the best one with `patience`.
    device_ : str
        Where it was trained.

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
    Prediction(3 rows of center, spread, lower, upper; level=0.8)
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
        self.level = level
        self.softening = softening
        self.quantiles = quantiles
        self.center = center
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

    def predict(self, X: Any) -> FloatArray:
        """Return the center. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return center, spread and bounds; bounds that cross are put in order."""
        return self._prediction(checked_rows(self, X))

    def predict_quantiles(self, X: Any) -> FloatArray:
        """Return all the quantiles it has learned, each row in order. Shape (n, q), for the levels ``plan_.levels``."""
        X = checked_rows(self, X)
        return np.sort(self._values(X)[:, : len(self.plan_.levels)], axis=1)

    def _loss(self) -> Pinball:
        plan = self._plan()
        return Pinball(plan.levels, mean=plan.center == "mean")

    def _note(self, X: FloatArray, y: FloatArray) -> None:
        """Note what is learned beside the weights, on the training rows."""
        self.plan_, self.spread_floor_ = self._plan(), 0.0
        self.spread_floor_ = relative_floor(self._prediction(X).spread, y)

    def _plan(self) -> QuantilePlan:
        return QuantilePlan.of(self.level, self.softening, self.quantiles, self.center)

    def _values(self, X: FloatArray) -> FloatArray:
        """Return the quantiles, then the mean if it is the center, in the target's unit. Shape (n, outputs)."""
        values: FloatArray = self.scaling_.to_target(np.concatenate([block[0] for block in outputs_of(self, X)]))
        return values

    def _prediction(self, X: FloatArray) -> Prediction:
        values, q = self._values(X), len(self.plan_.levels)
        mean = values[:, q] if self.plan_.center == "mean" else None
        return self.plan_.prediction(values[:, :q], mean, self.spread_floor_)


class MeanVarianceNetwork(SavingMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A network that learns a mean μ and a log-variance s by the Gaussian likelihood (the paper's MV).

    The loss is log v + (y − μ)² / v with v = eˢ + 0.001, in units of the standardised target. The spread is the
    standard deviation √v, and the bounds are those of a normal target. Features and target are standardised inside.
    Rows are shuffled once and batches go round in that order.

    Parameters
    ----------
    level : float
        Nominal coverage of its own bounds.
    hidden : sequence of int
        Number of units of each hidden layer.
    dropout : float
        Share of hidden units left out at each step of the training.
    learning_rate, weight_decay : float
        Adam's.
    batch_size : int
        Rows a step; all where there are fewer.
    epochs : int
        Each has as many steps as whole batches fit into the rows.
    patience : int, optional
        Stop when the loss on rows set aside has not fallen for so many epochs, and take the best weights.
    validation_size : float
        Share of the rows to set aside for `patience`.
    device : {"auto", "cpu", "cuda"}
        Where to train; "auto" takes a GPU if there is one.
    random_state : int, RandomState or None
        Seed of initial weights, order of rows and dropout.
    progress : bool
        Whether to show a progress bar.

    Attributes
    ----------
    layers_ : tuple of layers
        Weights and biases, in float32.
    scaling_ : Scaling
        The units it learns in.
    n_epochs_ : int
        After how many epochs the weights are from: all, or the best one with `patience`.
    device_ : str
        Where it was trained.
    level_ : float
        Nominal coverage of its bounds.

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

    def predict(self, X: Any) -> FloatArray:
        """Return the mean. Shape (n,)."""
        return self.predict_full(X).center

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, standard deviation and normal bounds."""
        return mixture_of(self, X)

    def _loss(self) -> GaussianLikelihood:
        level_fraction(self.level)
        return GaussianLikelihood()

    def _note(self, X: FloatArray, y: FloatArray) -> None:  # noqa: ARG002
        """Note what is learned beside the weights: nothing, but a level that is later changed should change nothing."""
        self.level_ = self.level
