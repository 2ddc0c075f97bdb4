"""The score from the predicted distribution: how far its cdf at the target is from 1/2."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.predictions import ALL_PARTS, Prediction
from evencover.quantile_functions import QuantileFunction
from evencover.scores.score import FloorSettings, Symbols, checked_target, smallest_spread


@dataclass(frozen=True)
class ProbabilityDistance(FloorSettings):
    """Distance of F(y | x), the predicted probability of a target of at most y, from 1/2.

    The distance is max(1/2 − F(y), F(y−) − 1/2), where F(y−) is the probability of a target below y. It is measured on
    the scale of normal scores: the score is max(−Φ⁻¹(F(y)), Φ⁻¹(F(y−))), an increasing function of the distance that
    does not saturate in the tails. The interval of threshold t lies between the predicted quantiles at Φ(−t) and Φ(t),
    so it is as skewed as the prediction. Intervals at all levels come from the same model.

    If F is the true distribution and has no jumps, the score is the absolute value of a standard normal variable in
    every row: a pivotal quantity. Then one threshold gives the same coverage in all rows.

    A prediction with a center and a spread only is a normal distribution: then the score is that of `Normalized`.

    Parameters
    ----------
    floor : float
        Lower limit of the spread, as a fraction of the scale, for rows whose predicted quantiles are all equal.
        Without it, such rows are an error.
    scale : float, optional
        Unit of `floor`, fixed before calibration. `ConformalRegressor` uses the median spread of its training rows. For
        frozen models and plain arrays, give it yourself.

    References
    ----------
    Chernozhukov, Wüthrich and Zhu (2021), Distributional conformal prediction.

    Examples
    --------
    >>> skewed = Prediction(quantiles=[[0.0, 1.0, 4.0]], probabilities=[0.1, 0.5, 0.9])
    >>> ProbabilityDistance()([4.0], skewed).round(3), ProbabilityDistance().interval(1.0, skewed).upper.round(2)
    (array([1.282]), array([3.34]))
    """

    option: ClassVar[str] = "probability"
    prediction_parts: ClassVar[tuple[str, ...]] = ALL_PARTS
    unitless: ClassVar[bool] = True
    description: ClassVar[str] = (
        "A score: how far the probability that the model predicts for values up to the target is from 1/2. It follows "
        "the skewness of the noise that the model predicts."
    )

    @classmethod
    def for_prediction(cls, prediction: Prediction) -> Self | None:
        """Return the score if there are quantiles, and all spreads are positive."""
        return cls() if prediction.probabilities is not None and smallest_spread(prediction) > 0 else None

    def __call__(self, y: Any, prediction: Prediction) -> FloatArray:
        """Return ``max(−Φ⁻¹(F(y)), Φ⁻¹(F(y−)))``. Shape (n,)."""
        return self.formula(checked_target(y, prediction), prediction)

    def formula(self, y: FloatArray, prediction: Prediction) -> FloatArray:
        """Return ``max(−Φ⁻¹(F(y)), Φ⁻¹(F(y−)))`` of targets that were checked."""
        return np.maximum(*self.tails(y, prediction))

    def tails(self, y: FloatArray, prediction: Prediction) -> tuple[FloatArray, FloatArray]:
        """Return ``−Φ⁻¹(F(y))`` and ``Φ⁻¹(F(y−))``. Shape (n,) each."""
        below, at = self._quantile_function(prediction).normal_scores(y)
        return -at, below

    def interval(self, threshold: float | FloatArray, prediction: Prediction) -> Intervals:
        """Return the interval between the quantiles at Φ(−threshold) and Φ(threshold)."""
        function = self._quantile_function(prediction)
        return Intervals(function.values(-threshold, outward=-1), function.values(threshold, outward=1))

    def value_map(self, prediction: Prediction) -> QuantileFunction:
        """Return the predicted quantile functions."""
        return self._quantile_function(prediction)

    def symbolic_reach(self, symbols: Symbols) -> Any:
        """Return ``threshold × spread``, as for a normal distribution.

        For another distribution, the distances are q × spread with two other functions q of the threshold, which depend
        on the parameters of a location-scale family just as little.
        """
        return symbols.threshold * symbols.spread

    def _quantile_function(self, prediction: Prediction) -> QuantileFunction:
        """Return the predicted quantile functions. Raise ValueError unless every row has a positive spread."""
        self.divisor(prediction.required("spread", by=type(self).__name__), prediction, "spread")
        return prediction.quantile_function(self.smallest)
