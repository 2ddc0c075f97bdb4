"""Data sets by name: from a folder of yours, from the cache, or from their public sources."""

import os
import sys
from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from evencover._internal.arrays import warn_user
from evencover._internal.saved_files import atomic_write
from evencover.datasets._downloads import DownloadError, Received, download
from evencover.datasets._originals import ORIGINALS
from evencover.datasets._table_files import csv_text
from evencover.datasets.dataset import Dataset, is_path, read_dataset
from evencover.datasets.registry import Card, card

Downloading = Callable[[str], Received]  # takes what is being downloaded, returns where to report the bytes


def load_dataset(
    name: str,
    *,
    target: str | None = None,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    downloading: Downloading | None = None,
) -> Dataset:
    """Return a data set: one of the paper's six by name, or any CSV or Parquet file by its path.

    A name is looked up in `data_dir`, then in the cache; what is in neither is downloaded into the cache, from its
    public source. Every file is checked against the checksum on the data set's card. Reading takes the extra
    `datasets`.

    Parameters
    ----------
    name : str
        A name (`evencover datasets` lists them), or a path that ends in .csv or .parquet.
    target : str, optional
        The column of a file to predict; the last one by default.
    data_dir : str or Path, optional
        A folder of CSV files called after the names.
    cache_dir : str or Path, optional
        The cache; by default ``EVENCOVER_CACHE``, or the folder for caches of the system.
    downloading : callable, optional
        Called with a name before it is downloaded; returns a function of the bytes received and their number in all.

    Examples
    --------
    >>> load_dataset("turbin")
    Traceback (most recent call last):
    ValueError: unknown data set 'turbin'; did you mean 'turbine'? there are concrete, turbine, puma32H, ...
    """
    if is_path(name):
        return read_dataset(name, target=target)
    known = card(name)
    if target is not None and target != known.response:
        raise ValueError(f"target is for files; the response of {name} is {known.response}, got {target!r}")
    path = found(known, data_dir=data_dir, cache_dir=cache_dir)
    if path is None:
        path = obtained(known, cache_folder(cache_dir), downloading=downloading)
    if (came := _checksum(path)) != known.sha256:
        raise ValueError(
            f"{path} is not the data set {name}: its sha256 is {came}, the card says {known.sha256}. To use it "
            f"as it is, give its path instead of the name; to have {name}, delete it or leave data_dir out"
        )
    return read_dataset(path, name=known.name)


def found(known: Card, *, data_dir: str | Path | None = None, cache_dir: str | Path | None = None) -> Path | None:
    """Return where a data set is: in the folder, else in the cache, else None. Damaged files in the cache do not count.

    Parameters
    ----------
    known : Card
        The data set.
    data_dir, cache_dir : str or Path, optional
        As in `load_dataset`.
    """
    if data_dir is not None:
        folder = Path(data_dir).expanduser()
        if not folder.is_dir():
            raise ValueError(f"data_dir must be a folder; {folder} is none")
        path = folder / f"{known.name}.csv"
        if path.is_file():
            return path
    path = cache_folder(cache_dir) / f"{known.name}.csv"
    if not path.is_file():
        return None
    if _checksum(path) == known.sha256:
        return path
    warn_user(f"{path} is damaged: its checksum is not that of {known.name}; it is passed over")
    return None


def obtained(
    known: Card, folder: Path, *, tries: int = 3, pause: float = 1.0, downloading: Downloading | None = None
) -> Path:
    """Download a data set's original, turn it into the table on its card, and return the path of that in the cache.

    Nothing gets its name there before its checksum is right.

    Parameters
    ----------
    known : Card
        The data set.
    folder : Path
        The cache; made if it is not there.
    tries, pause
        As in `download`, for each address of the card.
    downloading : callable, optional
        As in `load_dataset`.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the cache must be a folder; {folder} is a file")
    folder.mkdir(parents=True, exist_ok=True)
    progress = None if downloading is None else downloading(known.name)
    with TemporaryDirectory(dir=folder) as temporary:
        original = Path(temporary) / "original"
        reasons = []
        for url in known.urls:
            try:
                download(url, original, tries=tries, pause=pause, progress=progress)
                return _converted(known, url, original, folder)
            except DownloadError as error:
                reasons.append(str(error))
    raise DownloadError(
        f"{known.name}: {'; '.join(reasons)}. Without a network, put {known.name}.csv into a folder and name it by "
        "--data-dir (in Python: data_dir)"
    )


def cache_folder(given: str | Path | None = None) -> Path:
    """Return the folder given, else what ``EVENCOVER_CACHE`` names, else the system's place for caches."""
    if given is not None:
        return Path(given).expanduser()
    if named := os.environ.get("EVENCOVER_CACHE"):
        return Path(named).expanduser()
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


def _converted(known: Card, url: str, original: Path, folder: Path) -> Path:
    """Write the table of an original to the cache, if it is the one on the card."""
    try:
        content = csv_text(*ORIGINALS[known.name](original)).encode()
    except ImportError:
        raise
    except Exception as error:  # whatever a reader says of a file that is not what it should be
        raise DownloadError(f"what came from {url} cannot be read as {known.name} ({error!r})") from error
    if (came := sha256(content).hexdigest()) != known.sha256:
        raise DownloadError(f"what came from {url} is not {known.name}: sha256 {came}, the card says {known.sha256}")
    path = folder / f"{known.name}.csv"
    with atomic_write(path) as file:
        file.write(content)
    return path
