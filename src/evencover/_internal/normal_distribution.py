"""The standard normal distribution. SciPy is loaded on first use: loading it takes longer than most predictions."""

from typing import Any


def normal_cdf(z: Any) -> Any:
    """Return the probability of at most z, of any shape."""
    from scipy.special import ndtr

    return ndtr(z)


def normal_quantile(probability: Any) -> Any:
    """Return the quantile of each probability, of any shape."""
    from scipy.special import ndtri

    return ndtri(probability)
