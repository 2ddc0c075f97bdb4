"""Rows: predictions with features, targets, and weights or clusters, the input of calibrators and taxonomies."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover.groups import cluster_codes
from evencover.inputs.arrays import FloatArray, IntArray, check_not_masked, checked_nonnegative, row_selection
from evencover.inputs.device_arrays import checked_column
from evencover.inputs.frames import check_same_index, n_rows, take
from evencover.predictions import Prediction, as_prediction


@dataclass(frozen=True, eq=False)
class Rows:
    """The input of calibrators and taxonomies: each row's prediction and, if available, features, target and weight.

    `ConformalRegressor.rows` makes them from features and predicts each row once. Intervals, p-values and groups are
    then computed from the rows without predicting again.

    Parameters
    ----------
    prediction : Prediction of n rows
        The model's predictions.
    X : table of n rows, optional
        The features, in the type that the user passed.
    y : ndarray of shape (n,), optional
        The targets.
    weights : ndarray of shape (n,), optional
        Weights for covariate shift, 0 or more.
    fold_predictions : tuple of Predictions of n rows
        The prediction of each model, if there are several: those of the folds of `CrossConformalRegressor`.
    clusters : array-like of shape (n,), optional
        The cluster of each calibration row, such as a patient; kept as codes.
    """

    prediction: Prediction
    X: Any = None
    y: FloatArray | None = None
    weights: FloatArray | None = None
    fold_predictions: tuple[Prediction, ...] = ()
    clusters: IntArray | None = None

    def __post_init__(self) -> None:
        names = ("X", "prediction", "y", "weights", "clusters")
        check_same_index({name: getattr(self, name) for name in names})
        object.__setattr__(self, "prediction", as_prediction(self.prediction))
        check_not_masked(self.X, "X")
        if self.X is not None and n_rows(self.X) != len(self):
            raise ValueError(f"X must have {len(self)} rows, as many as the prediction; got {n_rows(self.X)}")
        if self.y is not None:
            y = checked_column(self.y, "y", like=self.prediction.center, length=len(self), matched="the prediction")
            object.__setattr__(self, "y", y)
        if self.weights is not None:
            weights = checked_nonnegative(self.weights, "weights", length=len(self), matched="the prediction")
            object.__setattr__(self, "weights", weights)
        if self.clusters is not None:
            codes = cluster_codes(self.clusters, len(self), matched="the prediction", min_clusters=0)
            object.__setattr__(self, "clusters", codes)
        if self.weights is not None and self.clusters is not None:
            raise ValueError("weights for covariate shift and clusters cannot be combined; got both")

    @classmethod
    def with_checked_target(
        cls, prediction: Prediction, X: Any, y: FloatArray | None, weights: Any = None, clusters: Any = None
    ) -> "Rows":
        """Return rows with targets that were already checked, without checking them again."""
        rows = cls(prediction, X, weights=weights, clusters=clusters)
        if y is not None and len(y) != len(rows):
            raise ValueError(f"y must have {len(rows)} rows, as many as the prediction; got {len(y)}")
        vars(rows).update(y=y)
        return rows

    def with_folds(self, predictions: tuple[Prediction, ...]) -> "Rows":
        """Return the same rows, with the prediction of each model."""
        rows = copy(self)
        vars(rows).update(fold_predictions=predictions)
        return rows

    def required_target(self, *, by: str) -> FloatArray:
        """Return the targets. Raise ValueError, with who needs them, if there are none."""
        if self.y is None:
            raise ValueError(f"{by} needs y, the targets; these rows have none")
        return self.y

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> "Rows":
        positions = np.arange(len(self))[row_selection(rows)]
        y, weights, clusters = (
            None if each is None else each[positions] for each in (self.y, self.weights, self.clusters)
        )
        part = Rows.with_checked_target(self.prediction[positions], take(self.X, positions), y, weights, clusters)
        return part.with_folds(tuple(each[positions] for each in self.fold_predictions))

    def __repr__(self) -> str:
        parts = [part for part in ("prediction", "X", "y", "weights", "clusters") if getattr(self, part) is not None]
        return f"Rows({len(self)} rows of {', '.join(parts)})"
