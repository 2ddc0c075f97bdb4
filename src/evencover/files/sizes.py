"""How large the content of a file may be: checked before memory is taken for it.

A few kilobytes can claim to hold terabytes, or unpack to gigabytes. Real tables and models shrink to a tenth when they
are compressed, seldom to a hundredth.
"""

import os

MAX_GB = "EVENCOVER_MAX_GB"  # an environment variable, which replaces both limits
_DEFAULT_GB = 16.0
_MAX_RATIO = 100
_SMALL = 2**26  # bytes that any file may unpack to, whatever its own size
_GB = 10**9


class ContentTooLargeError(ValueError):
    """The content of a file would take more memory than is allowed."""


def max_content(packed: int | None = None) -> int:
    """Return how many bytes a file may unpack to.

    Parameters
    ----------
    packed : int, optional
        The size of the file. Without it, only the absolute limit counts.
    """
    if (setting := os.environ.get(MAX_GB)) is not None:
        return int(_checked_gigabytes(setting) * _GB)
    limit = int(_DEFAULT_GB * _GB)
    return limit if packed is None else min(limit, max(_SMALL, _MAX_RATIO * packed))


def check_content(size: int, packed: int | None = None) -> None:
    """Raise ContentTooLargeError if a content of so many bytes is too large for a file of the size `packed`."""
    if size > max_content(packed):
        raise too_large(size, packed)


def too_large(size: int, packed: int | None = None, *, at_least: bool = False) -> ContentTooLargeError:
    """Return the error for a content of so many bytes, or, if not all of it was read, of at least so many."""
    amount = f"{'at least ' * at_least}{size / _GB:.3g} GB"
    from_size = "" if packed is None else f" from {packed / 1e6:.3g} MB in the file"
    return ContentTooLargeError(
        f"its content takes {amount} of memory{from_size}; the limit is {max_content(packed) / _GB:.3g} GB. If you "
        f"trust the file, set the environment variable {MAX_GB} to a larger limit"
    )


def _checked_gigabytes(setting: str) -> float:
    """Return a limit in gigabytes; raise ValueError unless it is a positive number."""
    try:
        number = float(setting)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ValueError(f"the environment variable {MAX_GB} must be a positive number; got {setting!r}")
    return number
