"""Tables of numbers with named columns, in CSV and Parquet files."""

import csv
import warnings
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kurtosis, skew

from evencover.extras import imported
from evencover.groups import first_few
from evencover.inputs import FloatArray, checked_vector

_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows to learn from: features and a response, all of them finite numbers.

    Parameters
    ----------
    name : str
        What results call it.
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
        X = np.asarray(self.X, dtype=np.float64)
        names = tuple(self.features) or tuple(f"x{place}" for place in range(X.shape[-1]))
        vars(self).update(X=X, y=y, features=names)
        if X.shape != (len(y), len(names)):
            raise ValueError(
                f"X of {self.name} must have a row for each of {len(y)} targets and a column for each of {len(names)} "
                f"features; got shape {X.shape}"
            )
        checked_vector(X.ravel(), f"X of {self.name}")

    @property
    def fingerprint(self) -> str:
        """A hash of its names and numbers: the same for the same data, from whatever file."""
        digest = sha256(repr((self.name, self.features, self.response, self.X.shape)).encode())
        for values in (self.X, self.y):
            digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
        return digest.hexdigest()

    @property
    def skewness(self) -> float:
        """Skewness of the response, as of a population."""
        return float(skew(self.y))

    @property
    def kurtosis(self) -> float:
        """Pearson's kurtosis of the response, as of a population; 3 for a normal one."""
        return float(kurtosis(self.y, fisher=False))

    def __repr__(self) -> str:
        return f"Dataset({self.name}: {len(self.y)} rows, {len(self.features)} features, response {self.response})"


def is_path(name: str) -> bool:
    """Return whether this is the path of a file, by its ending or its folder, and not the name of a data set."""
    return bool(Path(name).suffix) or Path(name).name != name


def read_dataset(path: str | Path, *, target: str | None = None, name: str | None = None) -> Dataset:
    r"""Read a data set from a CSV or Parquet file; every column but the target is a feature.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, with a header, commas and numbers; or in .parquet, of numeric columns.
    target : str, optional
        The column to predict; the last one by default.
    name : str, optional
        What to call it; the file's name without its ending by default.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rents.csv"
    >>> _ = path.write_text("area,rent\n50,700\n80,1000\n")
    >>> read_dataset(path, target="rent")
    Dataset(rents: 2 rows, 1 features, response rent)
    """
    path = Path(path)
    refuse_unless_file(path)
    try:
        columns, values = (_csv_table if path.suffix.lower() == ".csv" else _parquet_table)(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be text in UTF-8; {error}") from None
    if target is not None and target not in columns:
        raise ValueError(f"target names a column of {path.name}; it has no {target!r} but {first_few(columns)}")
    if not len(values):
        raise ValueError(f"{path.name} must have rows below its header; it has none")
    _refuse_gaps(path, columns, values)
    place = len(columns) - 1 if target is None else columns.index(target)
    features = tuple(column for column in columns if column != columns[place])
    X = np.ascontiguousarray(np.delete(values, place, axis=1))
    return Dataset(name or path.stem, X, values[:, place].copy(), features, columns[place])


def refuse_unless_file(path: Path) -> None:
    """Raise unless there is such a file, of a kind that is known by its ending."""
    refuse_unless_known(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")


def refuse_unless_known(path: Path) -> None:
    """Raise unless the ending of a file is known."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"a table is a file that ends in {' or '.join(_SUFFIXES)}; got {path.name!r}")


def checksum(path: Path) -> str:
    """Return a file's sha256."""
    with path.open("rb") as file:
        digest = sha256()
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def csv_text(columns: list[str], values: FloatArray) -> str:
    """Return a table as CSV whose numbers read back as they are; a column of whole numbers has no decimal point."""
    whole = (values == np.round(values)).all(axis=0)
    written = [
        [str(int(value)) if is_whole else repr(value) for value in column.tolist()]
        for column, is_whole in zip(values.T, whole, strict=True)
    ]
    lines = [columns, *zip(*written, strict=True)]
    return "".join(",".join(line) + "\n" for line in lines)


def _csv_table(path: Path) -> tuple[list[str], FloatArray]:
    """Return names and values, shape (n, columns), or say which cell is no number."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        columns = [name.strip() for name in next(csv.reader(file), [])]
        refuse_unless_named(path, columns)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of no rows, said by the caller
                values = np.loadtxt(file, delimiter=",", quotechar='"', comments=None, ndmin=2)
        except ValueError:
            _refuse_first_bad_cell(path, columns)
            raise
    if values.size and values.shape[1] != len(columns):
        _refuse_first_bad_cell(path, columns)
    return columns, values.reshape(-1, len(columns))


def _refuse_first_bad_cell(path: Path, columns: list[str]) -> None:
    """Raise for the first line of another length, and for the first cell that is no number."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, cells in enumerate(csv.reader(file), 1):
            if cells and len(cells) != len(columns):
                raise ValueError(f"{path.name}, line {number}: {len(cells)} cells under {len(columns)} columns")
            for column, cell in zip(columns, cells, strict=False) if number > 1 else ():
                if not _is_number(cell):
                    what = "nothing" if not cell.strip() else repr(cell)
                    raise ValueError(f"{path.name}, line {number}: column {column!r} must hold a number; got {what}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python reads as a number, and nobody else


def _parquet_table(path: Path) -> tuple[list[str], FloatArray]:
    """Return names and values, shape (n, columns), or say which column holds no numbers."""
    parquet = imported("pyarrow.parquet", extra="datasets", purpose="a Parquet file")
    table = parquet.read_table(path)
    columns: list[str] = list(table.column_names)
    refuse_unless_named(path, columns)
    values = np.empty((table.num_rows, len(columns)))
    for place, column in enumerate(columns):
        values[:, place] = _numbers(path, column, table.column(place))
    return columns, values


def _numbers(path: Path, column: str, held: Any) -> Any:
    """Return a Parquet column as numbers, missing ones as NaN."""
    types = imported("pyarrow.types", extra="datasets", purpose="a Parquet file")
    if types.is_boolean(held.type):
        held = held.cast("int8")
    if not (types.is_integer(held.type) or types.is_floating(held.type) or types.is_decimal(held.type)):
        raise ValueError(f"{path.name}: column {column!r} must hold numbers; got {held.type}")
    return held.cast("float64", safe=False).to_numpy()


def refuse_unless_named(path: Path, columns: list[str], *, least: int = 2) -> None:
    """Raise if the header is not one: names that are too few, missing, repeated, or all numbers."""
    if len(columns) < least:
        raise ValueError(f"{path.name} must have a feature and a target, with commas between in CSV; got {columns}")
    if all(map(_is_number, columns)):
        raise ValueError(f"{path.name} must begin with a line of column names; got {first_few(columns)}")
    indices = [column for column in columns if column.startswith("__index_level_")]
    if indices:
        raise ValueError(f"{path.name} has pandas' index as a column, {indices[0]}: write it with index=False")
    again = [first for first, second in pairwise(sorted(columns)) if first == second]
    if again or "" in columns:
        what = f"column {columns.index('') + 1} has no name" if "" in columns else f"{first_few(again)} are there twice"
        raise ValueError(f"{path.name} must name each column, differently; {what}")


def _refuse_gaps(path: Path, columns: list[str], values: FloatArray) -> None:
    """Raise if values are missing or infinite, naming the first column that has some."""
    bad = ~np.isfinite(values)
    if bad.any():
        place = int(bad.any(axis=0).argmax())
        raise ValueError(
            f"{path.name}: column {columns[place]!r} has {bad[:, place].sum()} NaN or infinite values (the first "
            f"in row {bad[:, place].argmax()}); nothing is filled in or dropped here"
        )
