"""Rows: what the model says about them, their features and their targets, side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.inputs import FloatArray, checked_vector, row_selection
from evencover.predictions import Prediction, as_prediction
from evencover.tables import n_rows, take


@dataclass(frozen=True, eq=False)
class Rows:
    """What a taxonomy may look at: the prediction for each row, its features and, where known, its target.

    Parameters
    ----------
    prediction : Prediction of n rows
        What the model says.
    X : table of n rows, optional
        The features, as they came.
    y : ndarray of shape (n,), optional
        The targets.
    """

    prediction: Prediction
    X: Any = None
    y: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prediction", as_prediction(self.prediction))
        if self.X is not None and n_rows(self.X) != len(self):
            raise ValueError(f"X must have {len(self)} rows, as many as the prediction; got {n_rows(self.X)}")
        if self.y is not None:
            object.__setattr__(self, "y", checked_vector(self.y, "y", length=len(self)))

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> "Rows":
        positions = np.arange(len(self))[row_selection(rows)]
        y = None if self.y is None else self.y[positions]
        return Rows(self.prediction[positions], take(self.X, positions), y)

    def __repr__(self) -> str:
        parts = [part for part in ("prediction", "X", "y") if getattr(self, part) is not None]
        return f"Rows({len(self)} rows of {', '.join(parts)})"
