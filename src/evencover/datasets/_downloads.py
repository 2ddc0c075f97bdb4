"""Downloads: the whole file, or none and a reason."""

import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from evencover._internal.saved_files import atomic_write

Received = Callable[[int, int | None], None]

_CHUNK = 2**16
_TIMEOUT = 30.0
_WORTH_ANOTHER_TRY = {408, 425, 429, 500, 502, 503, 504}


class DownloadError(OSError):
    """A file could not be had: which, from where, and why."""


def download(url: str, path: Path, *, tries: int = 3, pause: float = 1.0, progress: Received | None = None) -> None:
    """Write what is at an address to a path: the whole of it, or nothing.

    Parameters
    ----------
    url : str
        The address, http or https.
    path : Path
        Where to; a file that is there already is replaced when the new one is complete.
    tries : int
        How often to try, if what went wrong can go right the next time.
    pause : float
        Seconds before the second try, doubled before each further one.
    progress : callable, optional
        Called with the bytes received and, where it is known, their number in all.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url must begin with http:// or https://; got {url!r}")
    for number in range(1, tries + 1):
        try:
            with atomic_write(path) as part:
                _receive(url, part, progress)
        except (OSError, HTTPException) as error:  # of the network: no route, no name, time out, cut off, refused
            hopeless = isinstance(error, HTTPError) and error.code not in _WORTH_ANOTHER_TRY
            if hopeless or number == tries:
                raise DownloadError(f"could not download {url}: {_reason(error)}") from error
            time.sleep(pause * 2 ** (number - 1))
        else:
            return


def _receive(url: str, file: BinaryIO, progress: Received | None) -> None:
    """Copy an address to a file, or raise where it ends early."""
    request = Request(url, headers={"User-Agent": "evencover", "Accept-Encoding": "identity"})  # noqa: S310
    with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
        length = response.headers.get("Content-Length")
        total, received = (int(length) if length else None), 0
        while block := response.read(_CHUNK):
            file.write(block)
            received += len(block)
            if progress is not None:
                progress(received, total)
    if total is not None and received < total:
        raise ConnectionError(f"the connection ended after {received} of {total} bytes")


def _reason(error: Exception) -> str:
    """Return in words what went wrong."""
    if isinstance(error, HTTPError):
        return f"the server answered {error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error or type(error).__name__)
