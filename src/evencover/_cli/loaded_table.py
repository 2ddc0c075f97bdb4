"""The table of the command `run`: from a file, from a folder, by the name of a data set, or the example."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evencover._cli.calibrate_command import use_little_memory
from evencover._cli.terminal import recorded_warnings

_EXAMPLE, _EXAMPLE_ROWS = "heteroskedastic", 20_000
_MAX_ROWS_IN_MEMORY = 500_000  # of a table that is fitted and calibrated at once


@dataclass(frozen=True)
class LoadedTable:
    """A table with its name and target, and notes on how its file was read.

    `large` is the table again, or its path, if it is studied in batches; of a path, `table` has only the columns.
    """

    table: Any
    name: str
    target: str
    notes: Sequence[str] = ()
    large: Any = None
    is_folder: bool = False

    @property
    def format(self) -> str:
        """The format of the file of intervals."""
        from evencover.datasets._table_files import TYPED_SUFFIXES

        is_typed = self.is_folder or Path(self.name).suffix.lower() in TYPED_SUFFIXES
        return "parquet" if is_typed else "csv"


def load_table(
    data: Path | None,
    target: str | None,
    categorical: Sequence[str],
    missing_values: Sequence[str],
    data_dir: Path | None,
    *,
    as_a_whole: bool,
) -> LoadedTable:
    """Return a table: from a file, by the name of a data set, or the example; of a large one only its columns."""
    from evencover._internal.optional import import_optional
    from evencover.datasets import load_dataset
    from evencover.datasets._table_files import check_column, column_named, file_name, read_table
    from evencover.datasets.dataset import Dataset, is_path
    from evencover.synthetic import heteroskedastic

    if data is not None and (is_path(str(data)) or data.is_dir()):
        in_batches, file = _is_read_in_batches(data, as_a_whole=as_a_whole), file_name(data)
        with recorded_warnings() as notes:
            if in_batches:
                table = _columns_of(data)
            elif data.is_dir():
                table = _table_in_folder(data, missing_values)
            else:
                table = read_table(data, text=categorical, missing=missing_values)
        if target is None:
            raise ValueError(f"target must name the column to predict; the columns of {file} are {table.column_names}")
        duplicates = [name for name in table.column_names if name.startswith(f"{target} (column ")]
        if duplicates:
            raise ValueError(f"target: several columns are named {target!r}; give the position of one, counted from 1")
        target = column_named(table, target)
        check_column(table, target, f"target of {file}")
        is_large = table.num_rows > _MAX_ROWS_IN_MEMORY and not as_a_whole
        large = data if in_batches else table if is_large else None
        return LoadedTable(table, file, target, notes, large, data.is_dir())
    if data is None:
        sample = heteroskedastic(_EXAMPLE_ROWS, seed=0)
        dataset = Dataset(_EXAMPLE, sample.X, sample.y)
    else:
        dataset = load_dataset(str(data), data_dir=data_dir)
    arrow = import_optional("pyarrow", extra="cli", purpose="a table of text and numbers")
    columns = dict(zip(dataset.features, dataset.X.T, strict=True)) | {dataset.response: dataset.y}
    if target not in (None, dataset.response):
        raise ValueError(f"target of {dataset.name} must be {dataset.response!r}; got {target!r}")
    return LoadedTable(arrow.table(columns), dataset.name, dataset.response)


def _is_read_in_batches(data: Path, *, as_a_whole: bool) -> bool:
    """Return whether data is a Parquet file or a folder with many rows, and need not be read as a whole."""
    if data.is_dir():
        if as_a_whole:
            raise ValueError("clusters, time and calibration=cross need one file, read as a whole; got a folder")
    elif as_a_whole or data.suffix.lower() != ".parquet" or not data.is_file():
        return False
    use_little_memory()
    from evencover.distributed._data_parts import parts_in_files

    return sum(part.n_rows for part in parts_in_files(data)) > _MAX_ROWS_IN_MEMORY


def _columns_of(data: Path) -> Any:
    """Return a table without rows that has the columns of a Parquet file, or of the first file in a folder."""
    from evencover.distributed._data_parts import parts_in_files

    return next(parts_in_files(data)).schema.empty_table()


def _table_in_folder(data: Path, missing_values: Sequence[str]) -> Any:
    """Return the table in all files of a folder."""
    from evencover.datasets._table_files import plain_table
    from evencover.distributed._arrow_data import arrow_data
    from evencover.distributed._batches import import_arrow
    from evencover.distributed._large_table import check_same_columns

    source = arrow_data(data)
    check_same_columns(source)
    batches = [import_arrow().Table.from_batches([batch.table]) for batch in source.batches()]
    whole = import_arrow().concat_tables(batches, promote_options="permissive").combine_chunks()
    return plain_table(whole, whole.column_names, missing_values)
