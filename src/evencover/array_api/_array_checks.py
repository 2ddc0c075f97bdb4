"""Checks of arrays of any library: the same sentences as for numpy's, and no array is copied to the host."""

from collections.abc import Mapping
from typing import Any

from evencover.inputs.arrays import check_count
from evencover.inputs.optional import import_optional


def common_namespace(arrays: Mapping[str, Any]) -> Any:
    """Return the array API of these arrays, by the name of the argument. Raise an error unless all have the same.

    All must also be on the same device.
    """
    compat = _compat()
    for name, array in arrays.items():
        if not compat.is_array_api_obj(array):
            raise TypeError(
                f"{name} must be an array of torch, CuPy, JAX, numpy or another library with the array API; got "
                f"{type(array).__name__}"
            )
    namespaces = {name: compat.array_namespace(array) for name, array in arrays.items()}
    xp = next(iter(namespaces.values()))
    if any(each is not xp for each in namespaces.values()):
        libraries = {name: _library(each) for name, each in namespaces.items()}
        raise TypeError(f"all arrays must be of one library; got {_by_name(libraries)}")
    devices = {name: compat.device(array) for name, array in arrays.items()}
    first = next(iter(devices.values()))
    if any(each != first for each in devices.values()):  # those of CuPy cannot be in a set
        raise ValueError(f"all arrays must be on one device; got {_by_name(devices)}")
    return xp


def _library(xp: Any) -> str:
    """Return the name of the library of an array API, such as torch."""
    return str(xp.__name__).removeprefix("array_api_compat.").partition(".")[0]


def _by_name(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def device_of(array: Any) -> Any:
    """Return the device of an array."""
    return _compat().device(array)


def on_cpu(array: Any) -> bool:
    """Return whether an array is in the memory of the processor, and not on a GPU."""
    return "cpu" in str(device_of(array)).lower()


def is_jax(xp: Any) -> bool:
    """Return whether an array API is that of JAX."""
    return bool(_compat().is_jax_namespace(xp))


def _compat() -> Any:
    return import_optional("array_api_compat", extra="arrays", purpose="evencover.array_api")


def count(xp: Any, mask: Any) -> int:
    """Return how many values of a mask are true."""
    return int(xp.count_nonzero(mask))


def checked_numbers(
    xp: Any, values: Any, name: str, *, length: int | None = None, matched: str = "", finite: bool = True
) -> Any:
    """Return an array of real numbers of shape (n,). Raise ValueError or TypeError if it is something else.

    Floating-point numbers keep their type; integers and booleans become float64, as everywhere in this package. The
    parameters are those of `checked_vector`.
    """
    if xp.isdtype(values.dtype, ("bool", "integral")):
        values = xp.astype(values, xp.float64)
    if not xp.isdtype(values.dtype, "real floating"):
        raise TypeError(f"{name} must hold numbers; got an array of dtype {values.dtype}")
    _check_shape(values, name, length, matched)
    bad = ~xp.isfinite(values) if finite else xp.isnan(values)
    if xp.any(bad):
        expected, problem = ("finite", "NaN or infinite") if finite else ("free of NaN", "NaN")
        raise ValueError(
            f"{name} must be {expected}; {problem} values: {count(xp, bad)} of {bad.shape[0]} "
            f"(the first in row {int(xp.nonzero(bad)[0][0])}, counted from 0)"
        )
    return values


def checked_codes(xp: Any, codes: Any, n_groups: int | None, *, length: int, matched: str) -> tuple[Any, int]:
    """Return group codes of shape (n,), and the number of groups: by default the largest code plus 1.

    Without codes, all rows are one group.
    """
    if n_groups is not None:
        check_count(n_groups, "n_groups")
    if codes is None:
        if n_groups is not None:
            raise ValueError(f"n_groups needs groups, the group of each row; got n_groups={n_groups} and no groups")
        return None, 1
    if not xp.isdtype(codes.dtype, "integral"):
        raise TypeError(f"groups must hold whole numbers 0, 1, 2, ...; got an array of dtype {codes.dtype}")
    _check_shape(codes, "groups", length, matched)
    if xp.isdtype(codes.dtype, "unsigned integer") and xp.iinfo(codes.dtype).bits > 8:
        codes = as_positions(xp, codes)  # torch has no maximum of these types
    if not length:
        if n_groups is None:
            raise ValueError("n_groups must be given if groups have no rows")
        return codes, int(n_groups)
    smallest, largest = int(xp.min(codes)), int(xp.max(codes))
    n_groups = largest + 1 if n_groups is None else int(n_groups)
    if smallest < 0 or largest >= n_groups:
        raise ValueError(f"groups must be whole numbers from 0 to {max(n_groups, 1) - 1}; got {smallest} to {largest}")
    return codes, n_groups


def as_positions(xp: Any, codes: Any) -> Any:
    """Return whole numbers in the default type of the library, which its arrays can be indexed by."""
    return xp.astype(codes, xp.asarray(0).dtype, copy=False)


def check_positive_spread(xp: Any, spread: Any) -> None:
    """Raise ValueError unless every spread is positive: scores divide by it."""
    bad = spread <= 0
    if xp.any(bad):
        raise ValueError(f"spread must be positive; zero or negative values: {count(xp, bad)} of {bad.shape[0]}")


def _check_shape(values: Any, name: str, length: int | None, matched: str) -> None:
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, of shape (n,); got shape {tuple(values.shape)}")
    if length is not None and values.shape[0] != length:
        raise ValueError(f"{name} must have {length} rows, as many as {matched}; got {values.shape[0]}")
