"""Families of distributions of the target, given its features."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import signature
from itertools import product
from typing import Any, Protocol

import numpy as np
from scipy import stats

from evencover.inputs.arrays import FloatArray, checked_vector, is_number

_METHODS = ("pdf", "cdf", "ppf", "rvs", "mean", "std")


class Distribution(Protocol):
    """Protocol of one member of a family. SciPy's frozen distributions satisfy it."""

    def cdf(self, y: Any, /) -> Any:
        """Return the probability of a value of at most y."""

    def ppf(self, p: Any, /) -> Any:
        """Return the quantile of probability p."""

    def mean(self) -> Any:
        """Return the mean."""

    def std(self) -> Any:
        """Return the standard deviation."""


@dataclass(frozen=True, eq=False)
class LocationScale:
    """The family of targets Y = mean + spread × noise, for noise of one distribution.

    The conditional density is ``f(y; mean, spread) = g((y − mean) / spread) / spread``. The *standardised density* g is
    the density of the noise after shifting and scaling it to mean 0 and standard deviation 1. So `mean` and `spread`
    are the mean and standard deviation of the target.

    Parameters
    ----------
    noise : SciPy distribution
        A continuous distribution with fixed shape parameters, such as ``scipy.stats.t(5)``.
    name : str
        Name of the family.
    location, scale : float, optional
        Only for noise without a finite mean or standard deviation: the values to use instead, as in
        ``LocationScale(scipy.stats.cauchy(), location=0, scale=1)``.

    Examples
    --------
    >>> student = LocationScale(stats.t(5), "Student's t")
    >>> student.quantile(0.5, mean=3.0, spread=2.0)
    np.float64(3.0)
    """

    noise: Any
    name: str = "a location-scale family"
    location: float | None = field(default=None, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_continuous(self.noise)
        for part, own in zip(("location", "scale"), _moments(self.noise), strict=True):
            given, moment = getattr(self, part), "standard deviation" if part == "scale" else "mean"
            if given is not None and np.isfinite(own):
                raise ValueError(f"{part} must be left out for noise with a finite {moment}; this noise has {own:g}")
            if given is None and not np.isfinite(own):
                raise ValueError(
                    f"the noise distribution must have a finite {moment}; got {own}. "
                    "For noise without a mean or variance, pass location= and scale= yourself"
                )
            value = own if given is None else given
            if not (is_number(value) and np.isfinite(value)) or (part == "scale" and value <= 0):
                raise ValueError(f"{part} must be a {'positive ' if part == 'scale' else ''}finite number; got {value}")
            object.__setattr__(self, part, float(value))

    def standard_density(self, x: Any) -> Any:
        """Return g(x), the density of the standardised target."""
        return self.scale * self.noise.pdf(self._raw(x))

    def density(self, y: Any, mean: Any, spread: Any) -> Any:
        """Return the conditional density at `y`."""
        return self.standard_density((y - mean) / spread) / spread

    def cdf(self, y: Any, mean: Any, spread: Any) -> Any:
        """Return the conditional probability that the target is at most `y`."""
        return self.noise.cdf(self._raw((y - mean) / spread))

    def quantile(self, p: Any, mean: Any, spread: Any) -> Any:
        """Return the conditional quantile of probability `p`."""
        return mean + spread * self._standard(self.noise.ppf(p))

    def sample(self, mean: FloatArray, spread: FloatArray, rng: Any) -> FloatArray:
        """Draw one target for each row's mean and spread. Shape (n,).

        `rng` is a numpy ``Generator`` or the legacy ``RandomState``.
        """
        shape = np.broadcast_shapes(np.shape(mean), np.shape(spread))
        drawn: FloatArray = mean + spread * self._standard(self.noise.rvs(size=shape, random_state=rng))
        return drawn

    def along(self, moments: Callable[..., tuple[Any, Any]], **values: Any) -> "Family":
        """Return the subfamily whose mean and spread are functions of other parameters.

        Parameters
        ----------
        moments : callable
            Takes the parameters by name and returns the pair (mean, spread). If it uses only arithmetic operators,
            `is_pivotal` can also use it in symbolic proofs.
        **values : sequences of float
            Two or more values of each parameter, for the numerical comparison.

        Examples
        --------
        >>> NORMAL.along(lambda mean: (mean, 1.0), mean=(-1.0, 0.0, 2.0))  # constant noise
        Family(normal, mean)
        """
        check_parameters(moments, "moments", values)

        def member(**theta: float) -> Distribution:
            pair = moments(**theta)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"moments must return a pair (mean, spread); got {pair!r}")
            mean, spread = pair
            if not spread > 0:
                raise ValueError(
                    f"spread must be positive at all values of the parameters; got {spread} for the parameters {theta}"
                )
            return _Member(self, mean, spread)

        return Family(member, values, self.name, moments=moments)

    def _raw(self, x: Any) -> Any:
        """Return standardised values in the units of the noise."""
        return self.location + self.scale * x

    def _standard(self, noise: Any) -> Any:
        """Return values of the noise, standardised to mean 0 and standard deviation 1."""
        return (noise - self.location) / self.scale

    def __repr__(self) -> str:
        return f"LocationScale({self.name})"


@dataclass(frozen=True)
class _Member:
    """The member of a location-scale family with one mean and spread."""

    family: LocationScale
    at_mean: float
    at_spread: float

    def cdf(self, y: Any) -> Any:
        return self.family.cdf(y, self.at_mean, self.at_spread)

    def ppf(self, p: Any) -> Any:
        return self.family.quantile(p, self.at_mean, self.at_spread)

    def mean(self) -> float:
        return self.at_mean

    def std(self) -> float:
        return self.at_spread


@dataclass(frozen=True, eq=False)
class Family:
    """Distributions f(y; θ) of the target, one for each value of the parameters θ.

    Parameters
    ----------
    distribution : callable
        Takes the parameters by name and returns a SciPy distribution: ``lambda shape: scipy.stats.gamma(shape)``.
    values : mapping of str to sequence of float
        Two or more values of each parameter. The members at all combinations of the values are compared.
    name : str
        Name of the family.
    moments : callable, optional
        Only for a subfamily of a location-scale family: mean and spread as functions of the parameters.
        `LocationScale.along` sets it.

    Examples
    --------
    >>> Family(lambda shape: stats.gamma(shape), {"shape": (1.0, 2.0, 5.0)}, "gamma")
    Family(gamma, shape)
    """

    distribution: Callable[..., Distribution]
    values: Mapping[str, Any]
    name: str = "a family"
    moments: Callable[..., tuple[Any, Any]] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise TypeError(
                "values must be a dict from parameter names to sequences of numbers, such as {'shape': (1, 2)}; got "
                f"{self.values!r}"
            )
        values = {name: checked_vector(given, f"values of {name}") for name, given in self.values.items()}
        if not values or any(len(np.unique(given)) < 2 for given in values.values()):
            raise ValueError(
                "values must contain one parameter or more, each with two or more different values; "
                f"got { ({name: given.tolist() for name, given in values.items()}) }"
            )
        object.__setattr__(self, "values", values)
        if self.moments is None:
            check_parameters(self.distribution, "distribution", values)

    def members(self) -> Iterator[tuple[dict[str, float], Distribution]]:
        """Yield every combination of the parameter values, with its distribution."""
        for combination in product(*self.values.values()):
            theta = {name: float(value) for name, value in zip(self.values, combination, strict=True)}
            member = self.distribution(**theta)
            _check_distribution(member)
            yield theta, member

    def __repr__(self) -> str:
        return f"Family({self.name}, {', '.join(self.values)})"


def check_parameters(function: Any, name: str, parameters: Mapping[str, Any]) -> None:
    """Raise TypeError unless a function takes a family's parameters by name."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of the family's parameters; got {function!r}")
    try:
        accepted = signature(function)
    except ValueError:  # a function written in C without a signature
        return
    try:
        accepted.bind(**parameters)
    except TypeError:
        raise TypeError(
            f"the arguments of {name} must have the names of the family's parameters, ({', '.join(parameters)}); "
            f"got {accepted}"
        ) from None


def _check_continuous(noise: Any) -> None:
    """Raise TypeError unless this is one of SciPy's continuous distributions."""
    missing = [method for method in _METHODS if not hasattr(noise, method)]
    if missing:
        raise TypeError(
            "noise must be one of SciPy's classic continuous distributions, such as scipy.stats.t(5); "
            f"got {noise!r}, which has no {', '.join(missing)}"
        )


def _moments(noise: Any) -> tuple[float, float]:
    """Return mean and standard deviation of the noise."""
    try:
        return float(noise.mean()), float(noise.std())
    except TypeError as error:  # a distribution without fixed shape parameters
        raise TypeError(f"noise must have fixed shape parameters, such as scipy.stats.t(5); {error}") from error


def _check_distribution(member: Any) -> None:
    """Raise TypeError unless a member has the methods of `Distribution` and fixed shape parameters."""
    missing = [method for method in ("cdf", "ppf", "mean", "std") if not hasattr(member, method)]
    open_shapes = isinstance(member, stats.rv_continuous | stats.rv_discrete) and member.shapes
    if missing or open_shapes:
        raise TypeError(
            "distribution must return a distribution with fixed shape parameters, such as scipy.stats.gamma(2.0); "
            f"got {member!r}"
        )


NORMAL = LocationScale(stats.norm(), "normal")
LAPLACE = LocationScale(stats.laplace(), "Laplace")
UNIFORM = LocationScale(stats.uniform(), "uniform")
TRIANGULAR = LocationScale(stats.triang(1), "triangular")  # density 2y / λ² on [0, λ], as in the paper
EXPONENTIAL = LocationScale(stats.expon(), "exponential")
