"""Rows: what the model says about them, their features and their targets, side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.inputs import FloatArray, checked_nonnegative, checked_vector, row_selection
from evencover.predictions import Prediction, as_prediction
from evencover.tables import n_rows, take


@dataclass(frozen=True, eq=False)
class Rows:
    """What calibrators and taxonomies may look at: each row's prediction, features and, where known, target and weight.

    `ConformalRegressor.rows` makes them from features and predicts each row once; intervals, p-values and groups then
    follow from the rows without predicting again.

    Parameters
    ----------
    prediction : Prediction of n rows
        What the model says.
    X : table of n rows, optional
        The features, as they came.
    y : ndarray of shape (n,), optional
        The targets.
    weights : ndarray of shape (n,), optional
        Weights for covariate shift, not negative.
    """

    prediction: Prediction
    X: Any = None
    y: FloatArray | None = None
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prediction", as_prediction(self.prediction))
        if self.X is not None and n_rows(self.X) != len(self):
            raise ValueError(f"X must have {len(self)} rows, as many as the prediction; got {n_rows(self.X)}")
        if self.y is not None:
            object.__setattr__(self, "y", checked_vector(self.y, "y", length=len(self)))
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_nonnegative(self.weights, "weights", length=len(self)))

    @classmethod
    def with_checked_target(cls, prediction: Prediction, X: Any, y: FloatArray | None, weights: Any = None) -> "Rows":
        """Return rows with targets that were checked before, so that they are not looked through again."""
        rows = cls(prediction, X, weights=weights)
        if y is not None and len(y) != len(rows):
            raise ValueError(f"y must have {len(rows)} rows, as many as the prediction; got {len(y)}")
        vars(rows).update(y=y)
        return rows

    def required_target(self, *, by: str) -> FloatArray:
        """Return the targets, or say who needs them."""
        if self.y is None:
            raise ValueError(f"{by} needs y, the targets; these rows have none")
        return self.y

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> "Rows":
        positions = np.arange(len(self))[row_selection(rows)]
        y, weights = (None if each is None else each[positions] for each in (self.y, self.weights))
        return Rows.with_checked_target(self.prediction[positions], take(self.X, positions), y, weights)

    def __repr__(self) -> str:
        parts = [part for part in ("prediction", "X", "y", "weights") if getattr(self, part) is not None]
        return f"Rows({len(self)} rows of {', '.join(parts)})"
