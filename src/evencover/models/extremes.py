"""Numbers that lie extremely far from all others: which they are, and models that they do not ruin."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from evencover.inputs.arrays import BoolArray, FloatArray
from evencover.models.categories import EncodedTable
from evencover.models.estimators import checked_features, checked_rows, remember_features

MAX_EXTREMES = 3  # of a column; more are a part of its distribution
_FAR = 20.0  # interquartile ranges from the median
_FAR_ON_LOG_SCALE = 5.0  # the same for the logarithms of positive numbers
_GAP = 4.0  # how many times further than all other numbers
_GAP_WITHOUT_RANGE = 1000.0  # the same if half of the numbers are equal, so that their interquartile range is 0
_MIN_VALUES = 10
_DIFFERENCES_OVERFLOW, _UNIT = 1e307, 8.0


@dataclass(frozen=True)
class OrdinaryRange:
    """The range of the ordinary numbers of a column, and the limits beyond which a number is extreme.

    A number is extreme if it lies more than 20 interquartile ranges from the median, and at least four times further
    than all ordinary ones. For positive numbers this is not enough: it must also lie 5 interquartile ranges from the
    median on the scale of logarithms. If half of the numbers are equal, it must lie a thousand times further than all
    others. At most three numbers are extreme: a heavy tail has large numbers, too, but not such a gap before them.

    Parameters
    ----------
    median : float
        The median.
    lowest, highest : float
        The outermost ordinary numbers.
    lower, upper : float
        The limits; infinite if no number is extreme, whatever it is.

    Examples
    --------
    >>> masses = [20, 45, 50, 66, 74, 75, 77, 79, 80, 82, 84, 90, 112, 136, 1358]
    >>> OrdinaryRange.of(np.array(masses)).highest
    136.0
    """

    median: float = 0.0
    lowest: float = -np.inf
    highest: float = np.inf
    lower: float = -np.inf
    upper: float = np.inf

    @classmethod
    def of(cls, values: FloatArray) -> "OrdinaryRange":
        """Return the range for numbers of shape (n,); without limits if they are fewer than ten."""
        if len(values) < _MIN_VALUES:
            return cls()
        with np.errstate(over="ignore"):  # a limit may be infinite
            return cls._within_limits(values)

    @classmethod
    def _within_limits(cls, values: FloatArray) -> "OrdinaryRange":
        unit = _UNIT if np.abs(values).max() > _DIFFERENCES_OVERFLOW else 1.0
        scaled, log_limit = values / unit, _log_limit(values)
        first, median, third = np.quantile(scaled, (0.25, 0.5, 0.75))
        distances = np.abs(scaled - median)
        far, gap = _FAR * (third - first), _GAP if third > first else _GAP_WITHOUT_RANGE
        outermost = np.argpartition(distances, -MAX_EXTREMES - 1)[-MAX_EXTREMES - 1 :]
        outermost = outermost[np.argsort(-distances[outermost], kind="stable")]
        is_far = (distances > far) & ((scaled < median) | (values > log_limit))
        n_extreme = max((n for n in range(MAX_EXTREMES + 1) if _is_gap(distances[outermost], n, gap)), default=0)
        if not is_far[outermost[:n_extreme]].all():
            n_extreme = 0
        ordinary = np.delete(values, outermost[:n_extreme])
        border = max(far, gap * distances[outermost[n_extreme]]) or np.inf
        limits = unit * (median - border), max(unit * (median + border), log_limit)
        return cls(*map(float, (unit * median, ordinary.min(), ordinary.max(), *limits)))

    def is_extreme(self, values: FloatArray) -> BoolArray:
        """Return which numbers are extreme. Shape (n,)."""
        return np.asarray((values <= self.lower) | (values >= self.upper))

    def limited(self, values: FloatArray) -> FloatArray:
        """Return the numbers with the outermost ordinary ones instead of extreme ones. Shape (n,)."""
        extreme = self.is_extreme(values)
        return np.where(extreme, np.clip(values, self.lowest, self.highest), values) if extreme.any() else values


def _is_gap(distances: FloatArray, n: int, gap: float) -> bool:
    """Return whether there is a gap after the first n of some distances, in decreasing order; none if they are 0."""
    return n == 0 or bool(distances[n - 1] >= gap * distances[n] > 0)


def _log_limit(values: FloatArray) -> float:
    """Return up to which size positive numbers are ordinary on the scale of logarithms; if some are not positive, 0."""
    if values.min() <= 0:
        return 0.0
    first, median, third = np.quantile(np.log(values), (0.25, 0.5, 0.75))
    with np.errstate(over="ignore"):
        return float(np.exp(median + _FAR_ON_LOG_SCALE * (third - first)))


class ExtremeLimiter(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features with the outermost ordinary number of the training rows instead of each extreme one (`OrdinaryRange`).

    One cell such as 1e300 would otherwise decide the mean and the scale of its column. All other numbers stay as they
    are, bit for bit.

    Attributes
    ----------
    limits_, outermost_ : ndarray of shape (2, features)
        The limits beyond which a number is extreme; the lowest and the highest ordinary number.
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the limits."""
        ranges = [OrdinaryRange.of(values) for values in checked_features(self, X).T]
        self.limits_ = np.array([(each.lower, each.upper) for each in ranges]).T
        self.outermost_ = np.array([(each.lowest, each.highest) for each in ranges]).T
        remember_features(self, X)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features, shape (n, features); those of an `EncodedTable` with its codes."""
        rows = checked_rows(self, X)
        extreme = (rows <= self.limits_[0]) | (rows >= self.limits_[1])
        if extreme.any():
            rows = np.where(extreme, np.clip(rows, *self.outermost_), rows)
        if not isinstance(X, EncodedTable):
            return rows
        n_numbers = X.numbers.shape[1]
        return EncodedTable(rows[:, :n_numbers], rows[:, n_numbers:], X.codes)

    def check_restored(self) -> None:
        """Raise ValueError unless there are two limits of each feature: a check of objects in files."""
        held = [vars(self)[name] for name in ("limits_", "outermost_") if name in vars(self)]
        if any(np.shape(limits) != (2, self.n_features_in_) for limits in held):
            raise ValueError(f"its limits must have shape (2, {self.n_features_in_})")
