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

LARGEST = 1e300  # of targets and weights: sums and differences of up to a hundred million of them are finite
LARGEST_EXACT = 2.0**53  # floating-point numbers up to this size hold every whole number
_LIBRARIES = ("torch", "cupy", "jax", "jaxlib")  # some of them, or older versions, lack __array_namespace__


def checked_vector(
    values: Any, name: str, *, length: int | None = None, matched: str = "", finite: bool = True, exact: bool = True
) -> FloatArray:
    """Return `values` as a float64 array of shape (n,). Raise ValueError or TypeError if they are not such numbers.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers. A pandas Series is read by position; `check_same_index` compares its index with those of others.
    name : str
        Name of the argument, for the error message.
    length : int, optional
        Expected number of rows.
    matched : str
        What has the same number of rows, for the error message.
    finite : bool
        Whether infinite values raise an error. NaN always does.
    exact : bool
        Whether whole numbers that float64 does not hold raise an error. Features and times are rounded.
    """
    array = as_floats(values, name, exact=exact)
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


def checked_summable(values: Any, name: str, *, length: int | None = None, matched: str = "") -> FloatArray:
    """Return targets or weights as `checked_vector` does. Raise ValueError if they are so large that sums overflow."""
    array = checked_vector(values, name, length=length, matched=matched)
    problem = too_large(array, name)
    if problem:
        raise ValueError(problem)
    return array


def too_large(values: FloatArray, name: str) -> str:
    """Return that finite numbers are so large that sums overflow, as an error message; empty if they are not."""
    if values.size and values.min() >= -LARGEST and values.max() <= LARGEST:  # without a temporary array
        return ""
    largest = np.max(np.abs(values), initial=0.0, where=np.isfinite(values))
    if largest <= LARGEST:
        return ""
    return (
        f"{name} must lie between -{LARGEST:g} and {LARGEST:g}, because sums of larger numbers are not finite; the "
        f"largest absolute value is {largest:.3g}. Use a larger unit: divide all of them by the same number first"
    )


def checked_for_each_row(values: Any, name: str, *, length: int, matched: str) -> FloatArray:
    """Return one finite number for each row, as `checked_vector` does; a single number stands for all rows."""
    vector = np.full(length, as_floats(values, name)) if is_number(values) else values
    return checked_vector(vector, name, length=length, matched=matched)


def checked_table(values: Any, name: str, *, n_columns: int, matched: str) -> FloatArray:
    """Return `values` as a float64 array of shape (n, n_columns). Raise an error unless they are finite numbers."""
    array = as_floats(values, name)
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(f"{name} must have shape (n, {n_columns}), as many columns as {matched}; got {array.shape}")
    if not np.isfinite(array).all():
        _check_values(array.sum(axis=1), name, finite=True)
    return array


def checked_nonnegative(values: Any, name: str, *, length: int | None = None, matched: str = "") -> FloatArray:
    """Return `values` as `checked_vector` does. Raise ValueError if one is negative."""
    array = checked_summable(values, name, length=length, matched=matched)
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


def check_not_masked(values: Any, name: str) -> None:
    """Raise ValueError if some values are masked: most functions would use the numbers under the mask.

    The parts of a list are looked at, too. A masked array without a masked value is allowed.
    """
    parts = [each for each in values if isinstance(each, np.ma.MaskedArray)] if type(values) in (list, tuple) else []
    n_masked = sum(int(np.ma.getmaskarray(each).sum()) for each in (values, *parts) if np.ma.is_masked(each))
    if n_masked:
        raise ValueError(f"{name} must not be masked; masked values: {n_masked}")


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """Return values of any type as an array of numpy. Raise ValueError if some are masked."""
    check_not_masked(values, name)
    try:
        return np.asarray(on_host(values))
    except (TypeError, ValueError) as error:  # rows of different lengths, or an object that is no array
        raise ValueError(f"{name} must be an array; got {type(values).__name__}: {error}") from None


def as_floats(values: Any, name: str, *, exact: bool = True) -> FloatArray:
    """Return numbers as float64, of any shape. Raise TypeError for text, dates and complex numbers.

    With `exact`, raise ValueError if a whole number is so large that float64 does not hold it.
    """
    array = plain_array(values, name)
    numeric = array.dtype.kind in "biuf" or (
        array.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in array.ravel())
    )
    if not numeric:
        raise _not_numbers(values, array, name)
    try:
        with np.errstate(over="ignore"):  # of numbers with more than 64 bits; they are infinite then
            floats: FloatArray = array.astype(np.float64, copy=False)
    except OverflowError:
        raise TypeError(f"{name} must hold numbers that float64 can represent; got one beyond 1.8e308") from None
    except (TypeError, ValueError):
        raise _not_numbers(values, array, name) from None
    if exact:
        check_not_rounded(array, floats, name)
    return floats


def check_not_rounded(values: NDArray[Any], floats: FloatArray, name: str) -> None:
    """Raise ValueError if `floats` are not the same whole numbers: what is compared would be other numbers."""
    positions = rounded_positions(values, floats)
    if len(positions):
        row = positions[0] * len(np.atleast_1d(values)) // values.size
        where = f" in row {row}, counted from 0" if values.ndim else ""
        first = f"(the first is {values.flat[positions[0]]!s}{where})"
        raise ValueError(rounding_text(name, f"{len(positions)} of {values.size} {first}"))


def rounding_text(name: str, found: str) -> str:
    """Return the error message for whole numbers that floating point rounds."""
    return (
        f"{name} must hold numbers that float64 can represent; whole numbers beyond 2**53 that it would round: "
        f"{found}. Subtract the same number from all targets, predictions and bounds first"
    )


def beyond_exact(floats: FloatArray) -> IntArray:
    """Return the positions, in the flat array, of numbers so large that floating point skips whole numbers."""
    if floats.size and floats.min() > -LARGEST_EXACT and floats.max() < LARGEST_EXACT:  # without a temporary array
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(np.abs(floats) >= LARGEST_EXACT)


def rounded_positions(values: NDArray[Any], floats: FloatArray) -> IntArray:
    """Return the positions, in the flat array, of whole numbers that differ from their floating-point numbers."""
    if values.dtype == np.float64 or values.dtype.itemsize < 8:  # smaller types fit
        return np.empty(0, dtype=np.intp)
    large = beyond_exact(floats)
    given, converted = values.ravel()[large], floats.ravel()[large]
    if values.dtype.kind == "O":
        differs = np.array([_differs(*each) for each in zip(given, converted.tolist(), strict=True)], dtype=bool)
    elif values.dtype.kind in "iu":
        too_large = converted >= float(np.iinfo(values.dtype).max)  # 2**63 or 2**64, to which the largest are rounded
        differs = too_large | (np.where(too_large, 0, converted).astype(values.dtype) != given)
    else:
        differs = (given != converted) & (given == np.trunc(given))
    positions: IntArray = large[differs]
    return positions


def _differs(value: Any, converted: float) -> bool:
    """Return whether a whole number of any type is not the floating-point number that it was converted to."""
    value = int(value) if isinstance(value, np.integer) else value  # numpy would compare after rounding
    return bool(value != converted) and bool(value == int(value))


def _not_numbers(values: Any, array: NDArray[Any], name: str) -> TypeError:
    return TypeError(f"{name} must hold numbers; got {_type_description(values, array)}")


def _type_description(values: Any, array: NDArray[Any]) -> str:
    """Return the type of values that are not numbers, with an example."""
    if array.ndim == 0:
        return f"{values!r:.80} of type {type(values).__name__}"
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
