"""The models that `benchmarks.table_peers` compares evencover with: one-hot ridge, LightGBM, and LightGBM with CQR.

They get the columns that evencover uses. Dates are numbers (year, month, weekday, hour, elapsed days), text is
categories: indicators for ridge, and LightGBM's own categories for LightGBM. LightGBM has two settings, ridge has six
penalties; a fifth of the rows that a model is fitted on decides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_pinball_loss, mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evencover.inputs.arrays import FloatArray
from evencover.inputs.frames import as_numbers, column, is_missing
from evencover.models.encoding import Recognition, date_parts
from evencover.quantiles import conformal_quantile

Predict: TypeAlias = Callable[[FloatArray], FloatArray]
_PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_BOOSTING: Sequence[Mapping[str, Any]] = (
    {"n_estimators": 100, "learning_rate": 0.1},  # the default
    {"n_estimators": 300, "learning_rate": 0.05},
)
_HOLDOUT = 0.2


@dataclass(frozen=True, eq=False)
class Features:
    """The features as numbers: `values` of shape (n, d), and the positions of the columns that are codes of text."""

    values: FloatArray
    categories: tuple[int, ...]

    @classmethod
    def of_table(cls, table: Any, names: Sequence[str]) -> "Features":
        """Return these columns of a table; missing values are NaN, and so are missing categories."""
        blocks: list[FloatArray] = []
        categories: list[int] = []
        for name in names:
            values = column(table, name, "peers")
            numbers = as_numbers_or_dates(name, values)
            if numbers is None:
                categories.append(sum(block.shape[1] for block in blocks))
                numbers = _codes(values)[:, np.newaxis]
            blocks.append(numbers)
        return cls(np.concatenate(blocks, axis=1), tuple(categories))


def as_numbers_or_dates(name: str, values: Any) -> FloatArray | None:
    """Return a column of numbers or dates as numbers of shape (n, parts); None for text."""
    found = Recognition(keep=[name]).read(name, values)
    if found.dates is not None and found.converted is not None:
        return _date_numbers(found.dates)
    numbers = found.converted if found.converted is not None else as_numbers(values)
    return None if numbers is None else np.where(np.isfinite(numbers), numbers, np.nan)[:, np.newaxis]


def _date_numbers(dates: Any) -> FloatArray:
    """Return the parts of dates that are not constant; NaN where a date is missing."""
    missing = np.isnat(dates)
    start = dates[~missing].min()
    parts = np.column_stack([*date_parts(np.where(missing, start, dates), start).values()])
    return np.where(missing[:, np.newaxis], np.nan, parts)[:, np.ptp(parts, axis=0) > 0]


def _codes(values: Any) -> FloatArray:
    """Return the number of each text among the different ones, in order; NaN where a value is missing."""
    missing = is_missing(values)
    codes = np.full(len(values), np.nan)
    codes[~missing] = np.unique(values[~missing].astype(str), return_inverse=True)[1]
    return codes


def ridge(features: Features, rows: Any, y: FloatArray) -> Predict:
    """Return the predictions of one-hot ridge, fitted on these rows of the table, whose targets are y."""

    def fitted(penalty: float, rows: Any, y: FloatArray) -> Predict:
        numbers = [place for place in range(features.values.shape[1]) if place not in features.categories]
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        encoder = make_column_transformer(
            (make_pipeline(imputer, StandardScaler()), numbers),
            (OneHotEncoder(handle_unknown="ignore"), list(features.categories)),
        )
        center = float(np.mean(y))
        model = make_pipeline(encoder, Ridge(penalty, max_iter=2000)).fit(features.values[rows], y - center)
        return lambda X: np.asarray(model.predict(X)) + center

    return _best(features, rows, y, [(fitted, penalty) for penalty in _PENALTIES], mean_squared_error)


def boosting(features: Features, rows: Any, y: FloatArray, *, quantile: float | None = None) -> Predict:
    """Return the predictions of LightGBM with its own categories: of the mean, or of a quantile."""
    from lightgbm import LGBMRegressor

    loss = {} if quantile is None else {"objective": "quantile", "alpha": quantile}

    def fitted(settings: Mapping[str, Any], rows: Any, y: FloatArray) -> Predict:
        model = LGBMRegressor(**settings, **loss, random_state=0, n_jobs=1, verbose=-1)
        model.fit(features.values[rows], y, categorical_feature=list(features.categories))
        return lambda X: np.asarray(model.booster_.predict(X, num_threads=1))

    def error(y_true: FloatArray, predicted: FloatArray) -> float:
        if quantile is None:
            return float(mean_squared_error(y_true, predicted))
        return float(mean_pinball_loss(y_true, predicted, alpha=quantile))

    return _best(features, rows, y, [(fitted, settings) for settings in _BOOSTING], error)


def _best(
    features: Features,
    rows: Any,
    y: FloatArray,
    candidates: Sequence[tuple[Callable[[Any, Any, FloatArray], Predict], Any]],
    error: Callable[[FloatArray, FloatArray], float],
) -> Predict:
    """Return the candidate with the smallest error on a fifth of the rows, fitted on all of them."""
    first, held_out, y_first, y_held_out = train_test_split(rows, y, test_size=_HOLDOUT, random_state=0)
    X = features.values[held_out]
    errors = [error(y_held_out, fit(setting, first, y_first)(X)) for fit, setting in candidates]
    fit, setting = candidates[int(np.argmin(errors))]
    return fit(setting, rows, y)


@dataclass(frozen=True, eq=False)
class QuantilePair:
    """The predictions of two quantiles; the score of a row is how far its target is outside of them."""

    lower: Predict
    upper: Predict

    @classmethod
    def fitted(cls, features: Features, rows: Any, y: FloatArray, level: float) -> "QuantilePair":
        """Return quantiles by LightGBM."""
        tail = (1 - level) / 2
        lower, upper = (boosting(features, rows, y, quantile=quantile) for quantile in (tail, 1 - tail))
        return cls(lower, upper)

    def bounds(self, X: FloatArray) -> FloatArray:
        """Return the two quantiles. Shape (2, n)."""
        return np.stack([self.lower(X), self.upper(X)])


def split_cqr(
    features: Features, training: Any, turns: Sequence[tuple[Any, Any]], y: FloatArray, level: float
) -> FloatArray:
    """Return bounds by conformalized quantile regression. Shape (2, n); those of rows that are not tested are NaN.

    `turns` are pairs of calibration rows and the rows that they test, and `y` has the targets of all rows of the table.
    """
    pair, bounds = QuantilePair.fitted(features, training, y[training], level), np.full((2, len(y)), np.nan)
    for calibration, test in turns:
        scores = outside(y[calibration], pair.bounds(features.values[calibration]))
        bounds[:, test] = widened(pair.bounds(features.values[test]), float(conformal_quantile(scores, level)))
    return bounds


def cross_cqr(features: Features, folds: Sequence[tuple[Any, Any]], y: FloatArray, level: float) -> Any:
    """Return CQR fitted and calibrated by cross-validation: a function from rows to bounds of shape (2, n).

    The scores are those of rows that did not fit their model. The bounds are means over the models of the folds.
    """
    pairs = [QuantilePair.fitted(features, rest, y[rest], level) for rest, _ in folds]
    held_out = zip(pairs, folds, strict=True)
    scores = [outside(y[rows], pair.bounds(features.values[rows])) for pair, (_, rows) in held_out]
    threshold = float(conformal_quantile(np.concatenate(scores), level))

    def bounds(rows: Any) -> FloatArray:
        return widened(np.mean([pair.bounds(features.values[rows]) for pair in pairs], axis=0), threshold)

    return bounds


def outside(y: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return how far targets are outside of their bounds; negative inside. Shape (n,)."""
    return np.maximum(bounds[0] - y, y - bounds[1])


def widened(bounds: FloatArray, threshold: float) -> FloatArray:
    """Return bounds moved outwards by a threshold; if it is negative and they would cross, both are their middle."""
    lower, upper = bounds[0] - threshold, bounds[1] + threshold
    middle, crossed = (lower + upper) / 2, lower > upper
    return np.stack([np.where(crossed, middle, lower), np.where(crossed, middle, upper)])
