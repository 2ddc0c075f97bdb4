"""Load data sets by name: from a folder, from the cache, or from their public sources."""

import os
import sys
import time
from collections.abc import Callable
from hashlib import file_digest, sha256
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from evencover.datasets._originals import ORIGINALS
from evencover.datasets.dataset import Dataset, DatasetCard, card_of, is_path, read_dataset
from evencover.files.archive import atomic_write
from evencover.files.unfinished import temporary_folder
from evencover.inputs import AmountProgress
from evencover.inputs.arrays import warn_user
from evencover.tables.files import csv_text

_CHUNK = 2**16  # bytes
_TIMEOUT = 30.0  # seconds
_TEMPORARY_ERRORS = {408, 425, 429, 500, 502, 503, 504}


class DownloadError(OSError):
    """A file could not be downloaded; the message has its address and the reason."""


def download(
    url: str, path: Path, *, tries: int = 3, pause: float = 1.0, progress: AmountProgress | None = None
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


def _receive(url: str, file: BinaryIO, progress: AmountProgress | None) -> None:
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


Downloading = Callable[[str], AmountProgress]  # takes the name of a data set, returns its progress callback


def load_dataset(
    name: str,
    *,
    target: str | None = None,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    downloading: Downloading | None = None,
) -> Dataset:
    """Return a data set: one of the paper's six by name, or any table file by its path.

    A name is looked up in `data_dir`, then in the cache. If it is in neither, it is downloaded from its public source
    into the cache. Every file is compared with the checksum on the data set's card. Needs the extra `datasets`.

    Parameters
    ----------
    name : str
        A name (`evencover datasets` lists them), or the path of a file, as in `read_dataset`.
    target : str, optional
        The column of a file to predict; the last one by default.
    data_dir : str or Path, optional
        A folder of CSV files with the names of the data sets.
    cache_dir : str or Path, optional
        The cache; by default ``EVENCOVER_CACHE``, or the system's folder for caches.
    downloading : callable, optional
        Called with a name before its download; returns a function that is called with the number of bytes received and
        of all bytes.

    Examples
    --------
    >>> load_dataset("turbin")
    Traceback (most recent call last):
    ValueError: unknown data set 'turbin'; did you mean 'turbine'? ...
    """
    if is_path(name):
        return read_dataset(name, target=target)
    card = card_of(name)
    if target is not None and target != card.response:
        raise ValueError(f"target is for files; the response of {name} is {card.response}, got {target!r}")
    path = local_path(card, data_dir=data_dir, cache_dir=cache_dir)
    if path is None:
        path = download_dataset(card, cache_folder(cache_dir), downloading=downloading)
    if (checksum := _checksum(path)) != card.sha256:
        raise ValueError(
            f"{path} is not the data set {name}: its sha256 is {checksum}, that on the card is {card.sha256}. To use "
            f"this file, pass its path instead of the name; to use {name}, delete the file or omit data_dir"
        )
    return read_dataset(path, name=card.name)


def local_path(
    card: DatasetCard, *, data_dir: str | Path | None = None, cache_dir: str | Path | None = None
) -> Path | None:
    """Return the path of a data set in the folder, else in the cache, else None. Corrupt cached files are ignored.

    Parameters
    ----------
    card : DatasetCard
        The data set.
    data_dir, cache_dir : str or Path, optional
        As in `load_dataset`.
    """
    if data_dir is not None:
        folder = Path(data_dir).expanduser()
        if not folder.is_dir():
            raise ValueError(f"data_dir must be a folder; got {folder}")
        path = folder / f"{card.name}.csv"
        if path.is_file():
            return path
    path = cache_folder(cache_dir) / f"{card.name}.csv"
    if not path.is_file():
        return None
    if _checksum(path) == card.sha256:
        return path
    warn_user(f"corrupt file {path}: its checksum is not that of {card.name}; it is ignored")
    return None


def download_dataset(
    card: DatasetCard, folder: Path, *, tries: int = 3, pause: float = 1.0, downloading: Downloading | None = None
) -> Path:
    """Download a data set's original file, convert it to the table on its card, and return its path in the cache.

    The table is written to the cache only after its checksum was found right.

    Parameters
    ----------
    card : DatasetCard
        The data set.
    folder : Path
        The cache; created if it does not exist.
    tries, pause
        As in `download`, for each address of the card.
    downloading : callable, optional
        As in `load_dataset`.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the cache must be a folder; {folder} is a file")
    folder.mkdir(parents=True, exist_ok=True)
    progress = None if downloading is None else downloading(card.name)
    with temporary_folder(folder) as temporary:
        original = temporary / "original"
        reasons = []
        for url in card.urls:
            try:
                download(url, original, tries=tries, pause=pause, progress=progress)
                return _convert_original(card, url, original, folder)
            except DownloadError as error:
                reasons.append(str(error))
    raise DownloadError(
        f"{card.name}: {'; '.join(reasons)}. Without a network, put {card.name}.csv into a folder and name the folder "
        "by --data-dir (in Python: data_dir)"
    )


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """Return the given folder, else the folder in ``EVENCOVER_CACHE``, else the system's folder for caches."""
    if cache_dir is not None:
        return Path(cache_dir).expanduser()
    if from_environment := os.environ.get("EVENCOVER_CACHE"):
        return Path(from_environment).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "evencover" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "evencover"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "evencover"


def _checksum(path: Path) -> str:
    """Return a file's sha256."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _convert_original(card: DatasetCard, url: str, original: Path, folder: Path) -> Path:
    """Write the table in an original file to the cache if its checksum is that on the card."""
    try:
        content = csv_text(*ORIGINALS[card.name](original)).encode()
    except ImportError:
        raise
    except Exception as error:  # a reader may raise anything for a file of another kind
        raise DownloadError(f"the file from {url} cannot be read as {card.name} ({error!r})") from error
    if (checksum := sha256(content).hexdigest()) != card.sha256:
        raise DownloadError(
            f"the file from {url} is not {card.name}: its sha256 is {checksum}, that on the card is {card.sha256}"
        )
    path = folder / f"{card.name}.csv"
    with atomic_write(path) as file:
        file.write(content)
    return path
