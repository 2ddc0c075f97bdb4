"""Data sets: their cards, their tables, and how a table becomes features and targets."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kurtosis, skew

from evencover.inputs.arrays import FloatArray, as_floats, checked_vector, lookup
from evencover.tables.files import STDIN, check_column, file_name, number_column, read_table, table_name
from evencover.tables.text_files import columns_of_file


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and a response, all of them finite numbers.

    Parameters
    ----------
    name : str
        Its name in results.
    X : ndarray of shape (n, features)
        Features.
    y : ndarray of shape (n,)
        Response.
    features : tuple of str, optional
        Names of the features; x0, x1, ... by default.
    response : str
        Name of the response.
    """

    name: str
    X: FloatArray
    y: FloatArray
    features: tuple[str, ...] = ()
    response: str = "y"

    def __post_init__(self) -> None:
        y = checked_vector(self.y, f"y of {self.name}")
        X = as_floats(self.X, f"X of {self.name}", exact=False)
        names = tuple(self.features) or tuple(f"x{index}" for index in range(X.shape[-1]))
        vars(self).update(X=X, y=y, features=names)
        if X.shape != (len(y), len(names)):
            raise ValueError(
                f"X of {self.name} must have a row for each of {len(y)} targets and a column for each of {len(names)} "
                f"features; got shape {X.shape}"
            )
        checked_vector(X.ravel(), f"X of {self.name}")

    @property
    def fingerprint(self) -> str:
        """A hash of its names and numbers: the same for the same data, whatever file they come from."""
        digest = sha256(repr((self.name, self.features, self.response, self.X.shape)).encode())
        for values in (self.X, self.y):
            digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
        return digest.hexdigest()

    @property
    def skewness(self) -> float:
        """Skewness of the response (population formula)."""
        return float(skew(self.y))

    @property
    def kurtosis(self) -> float:
        """Pearson's kurtosis of the response (population formula); 3 for a normal distribution."""
        return float(kurtosis(self.y, fisher=False))

    def __repr__(self) -> str:
        return f"Dataset({self.name}: {len(self.y)} rows, {len(self.features)} features, response {self.response})"


def is_path(name: str) -> bool:
    """Return whether this is the path of a file, with a suffix or a folder, or of the standard input."""
    return name == STDIN or bool(Path(name).suffix) or Path(name).name != name


def read_dataset(path: str | Path, *, target: str | None = None, name: str | None = None) -> Dataset:
    r"""Read a data set from a file; every column but the target is a feature.

    Every column must hold a finite number in every row: nothing is filled in or dropped. Needs the extra `datasets`.

    Parameters
    ----------
    path : str or Path
        A text file (.csv, .tsv, .txt, also with .gz) in UTF-8, with a header, delimited by commas, semicolons or tabs;
        a .parquet, .feather or .arrow file; or an Excel file (.xlsx), of which the first sheet is read.
    target : str, optional
        The column to predict; the last one by default.
    name : str, optional
        The name of the data set; the file name without its suffixes by default.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rents.csv"
    >>> _ = path.write_text("area,rent\n50,700\n80,1000\n")
    >>> read_dataset(path, target="rent")
    Dataset(rents: 2 rows, 1 features, response rent)
    """
    path = Path(path)
    table, file = read_table(path), file_name(path)
    if len(table.column_names) < 2:
        raise ValueError(
            f"{file} must have at least two columns, a feature and the target (in CSV, delimited by commas, "
            f"semicolons or tabs); got {table.column_names}"
        )
    _check_names(columns_of_file(table), file, used=table.column_names)
    response = table.column_names[-1] if target is None else target
    check_column(table, response, f"target of {file}")
    columns = {name: number_column(table, name, file, exact=name == response) for name in table.column_names}
    y = columns.pop(response)
    return Dataset(name or table_name(path), np.column_stack(list(columns.values())), y, tuple(columns), response)


def _check_names(names: list[str], file: str, *, used: Collection[str]) -> None:
    """Raise ValueError for a used column without a name and for a pandas index, which are no features."""
    for position, name in enumerate(names, start=1):
        if name == f"column {position}" and name in used:
            raise ValueError(f"{file} must name every column; column {position} has no name")
        if name.startswith("__index_level_"):
            raise ValueError(f"{file} has a pandas index as a column, {name}; write the file with index=False")


@dataclass(frozen=True)
class PaperStatistics:
    """The statistics of a data set in the paper's table.

    Parameters
    ----------
    rows, features : int
        Number of rows and of features.
    skewness, kurtosis : float
        Skewness and kurtosis of the response; a normal distribution has kurtosis 3.
    """

    rows: int
    features: int
    skewness: float
    kurtosis: float


@dataclass(frozen=True)
class DatasetCard:
    """The description of a data set: source, licence, preparation, shape and checksum.

    Parameters
    ----------
    name, title : str
        Short and long name.
    page : str
        Web page that describes it.
    urls : tuple of str
        Addresses of the original file, tried in this order.
    licence : str
        The licence that the source states.
    reference : str
        The publication to cite.
    rows, features : int
        Number of rows and of features of the prepared table.
    response : str
        Name of the response, the last column of the prepared table.
    dropped : str
        Rows and columns of the original that are left out, and why.
    sha256 : str
        Checksum of the prepared table as a CSV file.
    paper : PaperStatistics
        The statistics in the paper's table.
    """

    name: str
    title: str
    page: str
    urls: tuple[str, ...]
    licence: str
    reference: str
    rows: int
    features: int
    response: str
    dropped: str
    sha256: str
    paper: PaperStatistics


_NAMES = ("concrete", "turbine", "puma32H", "residential", "crime2", "star")  # in the order of the paper's table


@cache
def cards() -> dict[str, DatasetCard]:
    """Return the cards by name, in the order of the paper's table."""
    return {name: _read_card(name) for name in _NAMES}


def card_of(name: str) -> DatasetCard:
    """Return a data set's card; raise ValueError with the known names if there is none.

    Parameters
    ----------
    name : str
        Name of the data set, such as "concrete".
    """
    return lookup(name, cards(), "data set")


def _read_card(name: str) -> DatasetCard:
    text = (files("evencover.datasets") / "cards" / f"{name}.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return DatasetCard(**{**values, "urls": tuple(values["urls"]), "paper": PaperStatistics(**values["paper"])})
