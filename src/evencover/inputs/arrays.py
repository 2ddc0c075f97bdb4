"""Checks of the arrays and numbers that users pass; each kind of mistake has one error message."""

import sys
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
Option = TypeVar("Option")

_LIBRARIES = ("torch", "cupy", "jax", "jaxlib")  # some of them, or older versions, lack __array_namespace__


def checked_vector(
    values: Any, name: str, *, length: int | None = None, matched: str = "", finite: bool = True
) -> FloatArray:
    """Return `values` as a float64 array of shape (n,). Raise ValueError or TypeError if they are not such numbers.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers. A pandas Series is read by position; its index is ignored.
    name : str
        Name of the argument, for the error message.
    length : int, optional
        Expected number of rows.
    matched : str
        What has the same number of rows, for the error message.
    finite : bool
        Whether infinite values raise an error. NaN always does.
    """
    array = _as_float(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, of shape (n,); got shape {array.shape}")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} must have {length} rows, as many as {matched}; got {len(array)}")
    # One pass without a temporary array: if the sum is finite, every term is.
    with np.errstate(over="ignore", invalid="ignore"):
        all_finite = np.isfinite(array.sum())
    if not all_finite:
        _check_values(array, name, finite=finite)
    return array


def is_on_device(values: Any) -> bool:
    """Return whether values are an array of another library than numpy: these stay where they are."""
    if isinstance(values, np.ndarray | np.generic):
        return False
    return hasattr(values, "__array_namespace__") or type(values).__module__.partition(".")[0] in _LIBRARIES


def on_host(values: Any) -> Any:
    """Return an array as one of numpy; None stays None."""
    if not is_on_device(values):
        return values
    if hasattr(values, "detach"):  # of torch
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values  # which numpy does not have
    return np.asarray(values.get() if hasattr(values, "get") else values)  # CuPy's have get


def checked_for_each_row(values: Any, name: str, *, length: int, matched: str) -> FloatArray:
    """Return one finite number for each row, as `checked_vector` does; a single number stands for all rows."""
    vector = np.full(length, values) if is_number(values) else values
    return checked_vector(vector, name, length=length, matched=matched)


def checked_table(values: Any, name: str, *, n_columns: int, matched: str) -> FloatArray:
    """Return `values` as a float64 array of shape (n, n_columns). Raise an error unless they are finite numbers."""
    array = _as_float(values, name)
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(f"{name} must have shape (n, {n_columns}), as many columns as {matched}; got {array.shape}")
    if not np.isfinite(array).all():
        _check_values(array.sum(axis=1), name, finite=True)
    return array


def checked_nonnegative(values: Any, name: str, *, length: int | None = None, matched: str = "") -> FloatArray:
    """Return `values` as `checked_vector` does. Raise ValueError if one is negative."""
    array = checked_vector(values, name, length=length, matched=matched)
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must not be negative; negative values: {(array < 0).sum()} of {array.size}")
    return array


def is_count(value: Any) -> bool:
    """Return whether a value is a positive whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def check_count(value: Any, name: str) -> None:
    """Raise ValueError unless a value is a positive whole number."""
    if not is_count(value):
        raise ValueError(f"{name} must be a positive whole number; got {value!r}")


def generator(seed: Any) -> Any:
    """Return a new random generator for a whole number; return a numpy generator, new or legacy, unchanged."""
    if isinstance(seed, np.random.Generator | np.random.RandomState):
        return seed
    check_seed(seed, ", or a numpy random generator")
    return np.random.default_rng(seed)


def check_seed(seed: Any, alternative: str = "") -> None:
    """Raise ValueError unless a seed is a whole number, 0 or more; the message ends with the `alternative`."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number, 0 or more{alternative}; got {seed!r}")


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; booleans are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def got_text(value: Any) -> str:
    """Return a wrong argument as text; of a class, that an object is needed."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not an object {value.__name__}(...)"
    return repr(value)


def check_positive(value: Any, name: str) -> None:
    """Raise ValueError unless a value is a positive finite number."""
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive finite number; got {value!r}")


def lookup(name: Any, options: Mapping[str, Option], kind: str) -> Option:
    """Return the option with this name. Raise ValueError with the most similar name, and all names, if there is none.

    Parameters
    ----------
    name : str
        The requested name.
    options : mapping from name
        All options.
    kind : str
        Kind of the options, such as "data set", for the error message.
    """
    if isinstance(name, str) and name in options:
        return options[name]
    hint = similar_name(name, options, cutoff=0.5)
    raise ValueError(f"unknown {kind} {name!r}; {hint}choose one of: {', '.join(options)}")


def similar_name(name: Any, names: Iterable[Any], *, cutoff: float = 0.6) -> str:
    """Return the question whether the most similar name was meant; empty if none is similar."""
    by_lower_case = {str(each).lower(): each for each in names}
    similar = get_close_matches(str(name).lower(), by_lower_case, n=1, cutoff=cutoff)
    return f"did you mean {by_lower_case[similar[0]]!r}? " if similar else ""


def row_selection(rows: Any) -> Any:
    """Return an index that keeps the axis of the rows: a single position becomes a list of one."""
    return [rows] if isinstance(rows, int | np.integer) else rows


def evenly_spaced_positions(n: int, limit: int) -> IntArray:
    """Return all positions from 0 to n - 1 or, if these are more than the limit, so many evenly spaced ones."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).astype(int))


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn; the warning points to the user's line, the nearest caller outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "evencover":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def reads_as_number(value: Any) -> bool:
    """Return whether a value is a number, or text that can be read as one."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return "_" not in str(value)  # only Python reads 1_000 as a number


def _as_float(values: Any, name: str) -> FloatArray:
    """Return numbers as float64. Raise TypeError for text, dates and complex numbers."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked; masked values: {np.ma.getmaskarray(values).sum()}")
    array = np.asarray(on_host(values))
    numeric = array.dtype.kind in "biuf" or (
        array.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in array.ravel())
    )
    try:
        if numeric:
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"{name} must hold numbers; got {_type_description(values, array)}")


def _type_description(values: Any, array: NDArray[Any]) -> str:
    """Return the type of values that are not numbers, with an example."""
    if array.ndim == 0:
        return f"{values!r} of type {type(values).__name__}"
    example = "".join(f", with {value!r} in row {row} (counted from 0)" for row, value in _first_non_number(array))
    return f"an array of dtype {array.dtype}{example}"


def _first_non_number(array: NDArray[Any]) -> list[tuple[int, Any]]:
    """Return the row and value of the first value that is no number; empty if there are no values.

    One word among numbers makes text of an array. So values that cannot be read as a number come first.
    """
    values = array.ravel() if array.dtype.kind in "mM" else array.ravel().tolist()
    others = [row for row, value in enumerate(values) if not isinstance(value, int | float)]
    words = [row for row in others if not reads_as_number(values[row])]
    return [(row * len(array) // array.size, values[row]) for row in [*words, *others][:1]]


def _check_values(array: FloatArray, name: str, *, finite: bool) -> None:
    """Raise ValueError if a value is NaN (or, with `finite`, infinite), with the count and the first such row."""
    bad = ~np.isfinite(array) if finite else np.isnan(array)
    if bad.any():
        expected = "finite" if finite else "free of NaN"
        problem = "NaN or infinite" if finite else "NaN"
        raise ValueError(
            f"{name} must be {expected}; {problem} values: {bad.sum()} of {bad.size} "
            f"(the first in row {bad.argmax()}, counted from 0)"
        )


def selected_rows(values: Any, rows: Any) -> Any:
    """Return some rows of an array, or of each of several arrays; None stays None."""
    if isinstance(values, tuple):
        return tuple(each[rows] for each in values)
    return None if values is None else values[rows]
