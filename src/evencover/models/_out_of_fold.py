"""Out-of-fold predictions: of each row by a model that was not fitted on it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, check_cv

from evencover._internal.arrays import FloatArray, IntArray, is_count, is_number
from evencover._internal.frames import take
from evencover.models._validation import fitted_clone, parts_of_arguments


def out_of_fold_predictions(
    estimator: Any, X: Any, y: FloatArray, splitter: Any, clusters: Any, fit_params: Mapping[str, Any]
) -> tuple[FloatArray, IntArray]:
    """Return what clones predict for the rows that they were not fitted on, and the fold of each row. Shape (n,)."""
    n = len(y)
    predicted, folds, times_predicted = np.empty(n), np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    for fold, (training, held_out) in enumerate(splitter.split(X, y, clusters)):
        params = parts_of_arguments(fit_params, n, training)
        fitted = fitted_clone(estimator, take(X, training), y[training], params)
        predicted[held_out] = np.ravel(fitted.predict(take(X, held_out)))
        folds[held_out] = fold
        times_predicted[held_out] += 1
    if not np.all(times_predicted == 1):
        raise ValueError(f"cv must have each row in the test part of exactly one fold; got {splitter!r}")
    return predicted, folds


def checked_splitter(cv: Any, n: int, *, clustered: bool, random_state: Any) -> Any:
    """Return the splitter for a number of folds, which are shuffled unless there are clusters, or a given splitter."""
    if not is_number(cv):
        return check_cv(cv)
    if not is_count(cv) or cv < 2:
        raise ValueError(f"cv must be at least 2 folds, or a splitter; got {cv!r}")
    if n < 2:
        raise ValueError(f"WithSpread needs at least 2 rows to cross-fit; got {n} sample")
    return GroupKFold(int(cv)) if clustered else KFold(min(int(cv), n), shuffle=True, random_state=random_state)
