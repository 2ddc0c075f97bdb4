"""Download files: the complete file, or an error with the reason."""

import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from evencover._internal.saved_files import atomic_write

DownloadProgress = Callable[[int, int | None], None]  # takes the bytes received, and all bytes if known

_CHUNK = 2**16  # bytes
_TIMEOUT = 30.0  # seconds
_TEMPORARY_ERRORS = {408, 425, 429, 500, 502, 503, 504}


class DownloadError(OSError):
    """A file could not be downloaded; the message has its address and the reason."""


def download(
    url: str, path: Path, *, tries: int = 3, pause: float = 1.0, progress: DownloadProgress | None = None
) -> None:
    """Download a file atomically: the file at the path is complete, or as it was before.

    Parameters
    ----------
    url : str
        Address that begins with http:// or https://.
    path : Path
        Where to write; an existing file is replaced once the new one is complete.
    tries : int
        Maximum number of tries; only errors that may be temporary are tried again.
    pause : float
        Seconds to wait before the second try, doubled before each further one.
    progress : callable, optional
        Called with the number of bytes received and, if known, of all bytes.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url must begin with http:// or https://; got {url!r}")
    for attempt in range(1, tries + 1):
        try:
            with atomic_write(path) as part:
                _receive(url, part, progress)
        except (OSError, HTTPException) as error:  # no route, unknown host, timeout, connection closed or refused
            permanent = isinstance(error, HTTPError) and error.code not in _TEMPORARY_ERRORS
            if permanent or attempt == tries:
                raise DownloadError(f"could not download {url}: {_reason(error)}") from error
            time.sleep(pause * 2 ** (attempt - 1))
        else:
            return


def _receive(url: str, file: BinaryIO, progress: DownloadProgress | None) -> None:
    """Copy the content at an address to a file; raise ConnectionError if it ends early."""
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
    """Return the cause of a failed download as text."""
    if isinstance(error, HTTPError):
        return f"the server answered {error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error or type(error).__name__)
