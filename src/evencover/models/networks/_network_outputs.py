"""Predictions of fitted networks: their outputs for new rows, and the mixture of mean-variance networks."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover.models._validation import checked_rows
from evencover.models.networks._layers import layers_on, outputs, rows_at_a_time
from evencover.models.networks._losses import GaussianLikelihood
from evencover.models.predict import CenterMixin
from evencover.predictions import Prediction

_MAX_LOG_VARIANCE = 30.0  # e^30 is 10^13 times the variance of the target: a larger value is not an estimate


class MixtureMixin(CenterMixin):
    """The methods `predict` and `predict_full` of one or several mean-variance networks."""

    def predict_full(self, X: Any) -> Prediction:
        """Return mean, total standard deviation and normal bounds.

        The total variance is the mean of the networks' variances plus the variance of their means.
        """
        model: Any = self
        centers, variances = [], []
        for values in network_outputs(model, checked_rows(model, X)):
            means, log_variances = values[..., 0], values[..., 1]
            own = np.exp(np.minimum(log_variances, _MAX_LOG_VARIANCE)) + GaussianLikelihood.stabilizer
            centers.append(means.mean(0))
            variances.append(own.mean(0) + means.var(0))
        spread = model.scaling_.y_scale * np.sqrt(np.concatenate(variances))
        return Prediction(model.scaling_.to_target(np.concatenate(centers)), spread, level=model.level_)


def network_outputs(model: Any, X: FloatArray) -> Iterator[FloatArray]:
    """Yield the outputs of a model's networks, in standardised units: blocks of shape (networks, rows, outputs)."""
    n_rows = rows_at_a_time(model.layers_)
    layers = layers_on(model.device_, model.layers_)
    for start in range(0, len(X), n_rows):
        yield outputs(layers, model.scaling_.features(X[start : start + n_rows]))
