"""What arrays users may hand in, and the one error each wrong one gets."""

import sys
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
Named = TypeVar("Named")


def checked_vector(values: Any, name: str, *, length: int | None = None, finite: bool = True) -> FloatArray:
    """Return `values` as a float64 array of shape (n,), by position, or say what is wrong with them.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers; a Series is read by position, its index plays no part.
    name : str
        What the caller calls them, for the error.
    length : int, optional
        The number of rows expected.
    finite : bool
        Whether infinities are refused too; NaN always is.
    """
    array = _as_float(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, of shape (n,); got shape {array.shape}")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} must have {length} rows, as many as the rest; got {len(array)}")
    # One pass without a temporary: a finite sum has only finite terms.
    with np.errstate(over="ignore", invalid="ignore"):
        sound = np.isfinite(array.sum())
    if not sound:
        _check_values(array, name, finite=finite)
    return array


def checked_nonnegative(values: Any, name: str, *, length: int | None = None) -> FloatArray:
    """Return `values` as by `checked_vector`, refusing negative ones."""
    array = checked_vector(values, name, length=length)
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must not be negative; got {(array < 0).sum()} negative of {array.size} values")
    return array


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number, 1 or more."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def check_count(value: Any, name: str) -> None:
    """Raise unless a value is a whole number, 1 or more."""
    if not is_count(value):
        raise ValueError(f"{name} must be a positive whole number; got {value!r}")


def generator(seed: Any) -> Any:
    """Return a new generator for a whole number; a generator, numpy's or its legacy one, as it is."""
    if isinstance(seed, np.random.Generator | np.random.RandomState):
        return seed
    check_seed(seed, ", or a numpy random generator")
    return np.random.default_rng(seed)


def check_seed(seed: Any, or_else: str = "") -> None:
    """Raise unless a seed is a whole number, 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number, 0 or more{or_else}; got {seed!r}")


def is_number(value: Any) -> bool:
    """Return whether a value is a real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_positive(value: Any, name: str) -> None:
    """Raise unless a value is a positive finite number."""
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive finite number; got {value!r}")


def lookup(name: Any, options: Mapping[str, Named], kind: str) -> Named:
    """Return what has this name, or say which names there are, the nearest first.

    Parameters
    ----------
    name : str
        What was asked for.
    options : mapping from name
        What there is.
    kind : str
        What it is a name of, for the error.
    """
    if isinstance(name, str) and name in options:
        return options[name]
    lowered = {each.lower(): each for each in options}
    near = get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.5)
    hint = f"did you mean {lowered[near[0]]!r}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}; {hint}there are {', '.join(options)}")


def row_selection(rows: Any) -> Any:
    """Return a selection of rows that keeps the rows' axis: one position becomes a list of one."""
    return [rows] if isinstance(rows, int | np.integer) else rows


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller outside this package, however deep inside it the reason was found."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "evencover":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _as_float(values: Any, name: str) -> FloatArray:
    """Return numbers as float64; text, dates and complex numbers are not numbers here."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked; got {np.ma.getmaskarray(values).sum()} masked values")
    array = np.asarray(values)
    numeric = array.dtype.kind in "biuf" or (
        array.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in array.ravel())
    )
    try:
        if numeric:
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"{name} must hold numbers; got {_described(values, array)}")


def _described(values: Any, array: NDArray[Any]) -> str:
    """Say what kind of thing came instead of numbers."""
    if array.ndim == 0:
        return f"{values!r} of type {type(values).__name__}"
    return f"an array of dtype {array.dtype}, its first value {array.ravel()[0]!r}"


def _check_values(array: FloatArray, name: str, *, finite: bool) -> None:
    """Raise if a value is NaN (or infinite, where that matters), with the count and the first place."""
    bad = ~np.isfinite(array) if finite else np.isnan(array)
    if bad.any():
        kind = "finite" if finite else "free of NaN"
        found = "NaN or infinite" if finite else "NaN"
        raise ValueError(
            f"{name} must be {kind}; {bad.sum()} of {bad.size} values are {found} (the first in row {bad.argmax()})"
        )
