"""What `evencover run` works on: the table, and the columns, score and groups that options name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from evencover.cli.calibrate_command import use_little_memory
from evencover.cli.invocation import UsageError
from evencover.cli.terminal import recorded_warnings
from evencover.datasets import load_dataset
from evencover.datasets.dataset import Dataset, is_path
from evencover.groups import Groups, Label
from evencover.inputs.arrays import lookup
from evencover.inputs.frames import column, is_missing
from evencover.inputs.optional import import_optional
from evencover.scores import BUILTIN_SCORES, Score
from evencover.scores.score import from_option
from evencover.studies import Plan, Study, study
from evencover.studies.large_table import column_labels, table_in_folder
from evencover.studies.main_job import check_training_rows
from evencover.studies.messages import Message
from evencover.synthetic import heteroskedastic
from evencover.tables.arrow_data import arrow_data, parts_in_files
from evencover.tables.files import TYPED_SUFFIXES, check_column, column_named, file_kind, file_name, read_table
from evencover.tables.table_format import ANY_FORMAT
from evencover.tables.table_format import TableFormat as TableFormat  # commands import it from here
from evencover.taxonomies import Product, Taxonomy, taxonomy_from_option

_EXAMPLE, _EXAMPLE_ROWS = "heteroskedastic", 20_000
_MAX_ROWS_IN_MEMORY = 500_000  # of a table that is fitted and calibrated at once
_ROWS_PER_TRAINING_ROW = 3  # a larger table has as many training rows in half of it, even if a third is held out
_MAX_GROUPS = 50


@dataclass(frozen=True)
class Reading:
    """How the file is read: the columns that stay text, the texts that mean a missing value, and its format."""

    text: Sequence[str] = ()
    missing_values: Sequence[str] = ()
    file_format: TableFormat = ANY_FORMAT

    @property
    def for_new_rows(self) -> dict[str, Any]:
        """What `evencover predict` uses again, as JSON values."""
        given = self.file_format.given
        return {"missing_values": list(self.missing_values), **({"file_format": given} if given else {})}


@dataclass(frozen=True)
class LoadedTable:
    """A table with its name and target, the texts that mean a missing value, and notes on how its file was read.

    `large` is the table again, or its path, if it is studied in batches; of a path, `table` has only the columns. At
    most `training_rows` fit the model.
    """

    table: Any
    name: str
    target: str
    missing_values: Sequence[str] = ()
    notes: Sequence[str] = ()
    large: Any = None
    is_folder: bool = False
    training_rows: int = 100_000

    @property
    def format(self) -> str:
        """The format of the file of intervals."""
        is_typed = self.is_folder or Path(self.name).suffix.lower() in TYPED_SUFFIXES
        return "parquet" if is_typed else "csv"

    def columns_named(self, **options: str | Sequence[str] | None) -> dict[str, Any]:
        """Return the names of the columns that options mean, by option; an option that is not used is left out."""
        return {
            option: self._name(texts) if isinstance(texts, str) else [self._name(each) for each in texts]
            for option, texts in options.items()
            if texts is not None
        }

    def _name(self, text: str) -> str:
        return column_named(self.table, text)

    def taxonomy(self, texts: Sequence[str] | None) -> Taxonomy | None:
        """Return the taxonomy of the option --groups; None if it is to be selected."""
        taxonomies = [taxonomy_from_option(text, self._labels) for text in texts or ()]
        return Product(taxonomies) if len(taxonomies) > 1 else next(iter(taxonomies), None)

    def _labels(self, text: str) -> tuple[str, tuple[Label, ...]]:
        """Return a column of groups, and its different values in rows with a target; in a large table, in all rows.

        Raise ValueError if they are many.
        """
        name = self._name(text)
        check_column(self.table, name, "groups")
        if self.large is None:
            with_target = ~is_missing(column(self.table, self.target, "target"))
            values = column(self.table, name, "groups")
            known = values[with_target & ~is_missing(values)]  # missing labels are a problem of the table
            labels = Groups.from_labels(known, name=f"groups: column {name!r}").labels
        else:
            labels = column_labels(arrow_data(self.large), name, self.missing_values)
        if len(labels) > _MAX_GROUPS:
            raise ValueError(
                f"groups: column {name!r} must have at most {_MAX_GROUPS} different values, because each gets its own "
                f"threshold; got {len(labels)}; bin them first"
            )
        return name, labels

    def study(self, plan: Plan, intervals: Path, settings: Mapping[str, Any], *, exact_text: bool) -> Study:
        """Return the study of the table; a large one is studied in batches, and its intervals are written at once."""
        table: Any = self.table
        in_batches: dict[str, Any] = {}
        if self.large is not None:
            if intervals.suffix == ".xlsx":
                raise ValueError("intervals must be csv or parquet for a table that is read in batches; got xlsx")
            table = self.large
            in_batches = {"output": intervals, "exact_text": exact_text, "missing_values": self.missing_values}
        of_table: dict[str, Any] = {"plan": plan, "name": self.name, "training_rows": self.training_rows, **in_batches}
        found = study(table, self.target, **of_table, **settings)
        return replace(found, table_notes=(*map(Message, self.notes), *found.table_notes))

    def values_next_to_intervals(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of columns by name; a large table has written its intervals already."""
        return {name: column(self.table, name, "drop") for name in names if self.large is None}


def load_table(
    data: Path | None,
    target: str | None,
    reading: Reading,
    data_dir: Path | None,
    *,
    as_a_whole: bool,
    training_rows: int,
) -> LoadedTable:
    """Return a table: from a file, by the name of a data set, or the example; of a large one only its columns."""
    max_rows = inf if as_a_whole else max(_MAX_ROWS_IN_MEMORY, _ROWS_PER_TRAINING_ROW * training_rows)
    if data is not None and (is_path(str(data)) or data.is_dir()):
        file = file_name(data)
        reading.file_format.check_applies("folder" if data.is_dir() else file_kind(data), file)
        in_batches = _is_read_in_batches(data, max_rows)
        with recorded_warnings() as notes:
            if in_batches:
                table = next(parts_in_files(data)).schema.empty_table()
            elif data.is_dir():
                table = table_in_folder(data, reading.missing_values)
            else:
                table = read_table(
                    data, text=reading.text, missing=reading.missing_values, file_format=reading.file_format
                )
        if target is None:
            raise UsageError(f"target must name the column to predict; the columns of {file} are {table.column_names}")
        duplicates = [name for name in table.column_names if name.startswith(f"{target} (column ")]
        if duplicates:
            raise ValueError(f"target: several columns are named {target!r}; give the position of one, counted from 1")
        target = column_named(table, target)
        check_column(table, target, f"target of {file}")
        large = data if in_batches else table if table.num_rows > max_rows else None
        return LoadedTable(table, file, target, reading.missing_values, notes, large, data.is_dir(), training_rows)
    reading.file_format.check_applies("data set", _EXAMPLE if data is None else str(data))
    if data is None:
        sample = heteroskedastic(_EXAMPLE_ROWS, seed=0)
        dataset = Dataset(_EXAMPLE, sample.X, sample.y)
    else:
        dataset = load_dataset(str(data), data_dir=data_dir)
    arrow = import_optional("pyarrow", extra="cli", purpose="a table of text and numbers")
    columns = dict(zip(dataset.features, dataset.X.T, strict=True)) | {dataset.response: dataset.y}
    if target not in (None, dataset.response):
        raise ValueError(f"target of {dataset.name} must be {dataset.response!r}; got {target!r}")
    return LoadedTable(arrow.table(columns), dataset.name, dataset.response, training_rows=training_rows)


def _is_read_in_batches(data: Path, max_rows: float) -> bool:
    """Return whether data is a Parquet file or a folder with more rows; infinitely many are read as a whole."""
    if data.is_dir():
        if max_rows == inf:
            raise ValueError(
                "clusters, time, calibration=cross and copies=drop need one file, read as a whole; got a folder"
            )
    elif max_rows == inf or data.suffix.lower() != ".parquet" or not data.is_file():
        return False
    use_little_memory()
    return sum(part.n_rows for part in parts_in_files(data)) > max_rows


def check_options(groups: Sequence[str] | None, training_rows: int, *, both: bool) -> None:
    """Raise ValueError for options that are wrong whatever the table holds.

    Parameters
    ----------
    groups : sequence of str or None
        The values of the option --groups; whether their columns exist is not known yet.
    training_rows : int
        That of --training-rows.
    both : bool
        Whether --clusters and --time are given.
    """
    for text in groups or ():
        taxonomy_from_option(text, lambda name: (name, ()))
    check_training_rows(training_rows)
    if both:
        raise ValueError("clusters and time cannot be combined; got both")


def score_named(name: str) -> Score | None:
    """Return the score with this name; None if it is to be selected."""
    scores = {each.option: each for each in BUILTIN_SCORES if hasattr(each, "option")}
    found = lookup(name, {"auto": None, **scores}, "score")
    return None if found is None else from_option(found)
