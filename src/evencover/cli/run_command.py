"""The command `run`: from a table to a calibrated model and a folder with a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evencover.cli.calibrate_command import use_little_memory
from evencover.cli.invocation import command_text, exit_status
from evencover.cli.terminal import print_result, recorded_warnings, status

if TYPE_CHECKING:
    from evencover.groups import Label
    from evencover.scores import Score
    from evencover.studies import Plan, Study
    from evencover.taxonomies import Taxonomy


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
        from evencover.tables.files import TYPED_SUFFIXES

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
    from evencover.datasets import load_dataset
    from evencover.datasets.dataset import Dataset, is_path
    from evencover.inputs.optional import import_optional
    from evencover.studies.large_table import table_in_folder
    from evencover.synthetic import heteroskedastic
    from evencover.tables.files import check_column, column_named, file_name, read_table

    if data is not None and (is_path(str(data)) or data.is_dir()):
        in_batches, file = _is_read_in_batches(data, as_a_whole=as_a_whole), file_name(data)
        with recorded_warnings() as notes:
            if in_batches:
                table = _columns_of(data)
            elif data.is_dir():
                table = table_in_folder(data, missing_values)
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
    from evencover.tables.arrow_data import parts_in_files

    return sum(part.n_rows for part in parts_in_files(data)) > _MAX_ROWS_IN_MEMORY


def _columns_of(data: Path) -> Any:
    """Return a table without rows that has the columns of a Parquet file, or of the first file in a folder."""
    from evencover.tables.arrow_data import parts_in_files

    return next(parts_in_files(data)).schema.empty_table()


Model: TypeAlias = Literal[
    "auto",
    "stack",
    "boosting",
    "linear",
    "best-of-three",
    "forest",
    "quantile-network",
    "mean-variance-network",
    "dropout-ensemble",
]
_MAX_GROUPS = 50


def run(
    data: Path | None = None,
    /,
    *,
    target: str | None = None,
    output: Path | None = None,
    model: Model = "auto",
    effort: Literal["fast", "normal", "best"] | None = None,
    score: str = "auto",
    groups: tuple[str, ...] | None = None,
    side: Literal["lower", "upper"] | None = None,
    tails: Literal["auto", "joint", "separate"] = "auto",
    target_transform: Literal["auto", "none"] = "auto",
    support: Literal["auto", "none"] = "auto",
    level: float = 0.9,
    tolerance: float | None = None,
    calibration: Literal["auto", "split", "cross"] = "auto",
    calibration_size: float = 0.4,
    test_size: float = 0.2,
    clusters: str | None = None,
    time: str | None = None,
    drop: tuple[str, ...] | None = None,
    keep: tuple[str, ...] | None = None,
    categorical: tuple[str, ...] | None = None,
    missing_values: tuple[str, ...] | None = None,
    missing_target: Literal["error", "drop"] = "error",
    day_first: bool = False,
    intervals: Literal["csv", "parquet"] | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Fit a model to a table, calibrate its intervals for even coverage, and test them on held-out rows.

    Splits the rows into three parts: the first fits the model and selects score and groups, the second calibrates the
    intervals, the third tests their coverage. In a small table, the rows take turns, by cross-validation. Of a table
    with more than 500 000 rows, a random sample fits the model, and all other rows calibrate it and test it; Parquet
    files are then read in batches, so that the table need not fit into memory. Writes a folder with report.html, the
    intervals of the test rows, results.json, and the predictor for `evencover predict`.

    Parameters
    ----------
    data
        A file (.csv, .tsv, .txt, also with .gz; .parquet, .feather, .xlsx), a folder of .parquet files, - for CSV from
        the standard input, or the name of a data set (see `evencover datasets`); by default an example table.
    target
        The column to predict.
    output
        Folder for the results; by default evencover-NAME in the current folder.
    model
        The model. `auto` is `stack`, a weighted mean of boosting, trees, smooth models and a network; or
        `best-of-three` for tables with fewer than 300 rows: a linear model, a kernel model or extra trees. `forest`
        needs the extra `forest`; the networks and the ensemble need `networks`.
    effort
        How long fitting the model `stack` may take, in units of one fit of boosting: fast, at most 15; normal (the
        default), at most 120; best, as long as it takes.
    score
        The score that is calibrated; by default selected on the training part. residual: distance from the prediction.
        normalized: the same in units of the spread. interval: distance outside the model's own bounds.
        relative-interval: the same in units of their width. probability: distance of the predicted cdf from 1/2.
    groups
        The groups that get even coverage: none, spread, spread:5, prediction:4 or column:NAME. Give several for
        combinations. By default selected on the training part: none, or 3 to 10 levels of the spread.
    side
        lower or upper bounds instead of intervals: at most 1 - level of the targets lie beyond them. The score is one
        tail of --score; by default of normalized.
    tails
        joint: one threshold for both ends of the intervals. separate: one for each end, so that at most half of
        1 - level lies below the intervals, and at most half above. By default selected on the training part.
    target_transform
        auto: also try a model of the log of the target, if all training targets are positive and they are skewed. none:
        the target itself.
    support
        The values that intervals can hold. auto: if no training target is negative, no negative numbers; if all are
        whole numbers, whole numbers only. none: all numbers.
    level
        Nominal coverage.
    tolerance
        Largest distance from the level that counts as even. By default 0.03; less at levels above 0.9, such as 0.01 at
        0.99.
    calibration
        split: three parts of the rows, to train, to calibrate and to test. cross: every row is used for all three, by
        cross-validation; for small tables. Its guarantee is weaker. auto: cross if a split would leave too few rows to
        calibrate the groups.
    calibration_size
        Share of the rows for calibration. Only for a split.
    test_size
        Share of the rows for testing. Only for a split.
    clusters
        A column of clusters, such as patients. All rows of a cluster are in the same part. In the calibration, each
        cluster counts as one row; the test uses one row of each.
    time
        A column of dates or numbers. The rows are split in its order: the first to fit, the last to test.
    drop
        Columns that are not features, such as names. They are written next to the intervals. Options name a column by
        its name or, if no column has that name, by its position, counted from 1.
    keep
        Columns to use as features although they look like row numbers or ids.
    categorical
        Columns to treat as categories, such as numeric codes.
    missing_values
        Texts in the file that mean a missing value, such as '?', in addition to NA and other usual ones.
    missing_target
        What to do with rows without a target.
    day_first
        Read 03/04/2020 as a day in April, if no other date of the column shows it.
    intervals
        Format of the file of intervals; by default Parquet for Parquet and Feather data, otherwise CSV.
    seed
        Seed of the split, the model and the random draws of the tests.
    data_dir
        A folder of CSV files, named after the data sets.
    strict
        Exit with status 4 if the verdict is undecided.
    json
        Print the results as JSON, as in results.json.
    """
    from evencover.report.writing import new_files, write_study
    from evencover.studies import Plan
    from evencover.tables.files import table_name
    from evencover.words.settings import COMMAND_LINE
    from evencover.words.studies import study_text

    command = command_text(run, locals())
    as_a_whole = clusters is not None or time is not None or calibration == "cross"
    loaded = load_table(data, target, categorical or (), missing_values or (), data_dir, as_a_whole=as_a_whole)
    table, name = loaded.table, loaded.name
    columns = _columns_named(table, drop=drop, keep=keep, categorical=categorical, clusters=clusters, time=time)
    folder = Path(f"evencover-{table_name(Path(name))}") if output is None else output
    plan = Plan(
        model=model,
        effort=effort,
        nonconformity=_score(score),
        taxonomy=_taxonomy(groups, loaded, missing_values or ()),
        side=side,
        tails=None if tails == "auto" else tails,
        level=level,
        tolerance=tolerance,
        calibration=calibration,
        calibration_size=calibration_size,
        test_size=test_size,
        target_transform=target_transform,
        support=support,
        seed=seed,
    )
    interval_file = f"intervals.{intervals or loaded.format}"
    settings: dict[str, Any] = {"missing_target": missing_target, "day_first": day_first, "name": name, **columns}
    with new_files(folder, "study") as temporary, status() as report_progress:
        settings["progress"] = report_progress
        result = _studied(loaded, plan, temporary / interval_file, missing_values or (), settings)
        kept = [*columns.get("drop", ()), *result.left_out] if loaded.large is None else []
        results = write_study(
            result,
            temporary,
            intervals=interval_file,
            names=_values_of(table, kept),
            settings={"missing_values": list(missing_values or ())},
            command=command,
            progress=lambda done, levels: report_progress(f"writing the report: {done} of {levels} levels"),
        )
        files = sorted(path.name for path in temporary.iterdir())
    if json:
        print_result(results)
    else:
        print_result(f"{study_text(result, COMMAND_LINE)}\n\nWritten to {folder}: {', '.join(files)}.")
    return exit_status(result.verdict, strict=strict)


def _studied(
    loaded: LoadedTable, plan: "Plan", intervals: Path, missing_values: Sequence[str], settings: Mapping[str, Any]
) -> "Study":
    """Return the study of a table; a large one is studied in batches, and its intervals are written at once."""
    from evencover.studies import study
    from evencover.studies.messages import Message

    in_batches: dict[str, Any] = {} if loaded.large is None else {"output": intervals, "missing_values": missing_values}
    table = loaded.table if loaded.large is None else loaded.large
    found = study(table, loaded.target, plan=plan, **in_batches, **settings)
    return replace(found, table_notes=(*map(Message, loaded.notes), *found.table_notes))


def _values_of(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of columns that are written next to the intervals, by name."""
    from evencover.inputs.frames import column

    return {name: column(table, name, "drop") for name in names}


def _columns_named(table: Any, **options: str | Sequence[str] | None) -> dict[str, Any]:
    """Return the names of the columns that options mean, by option; an option that is not used is left out."""
    from evencover.tables.files import column_named

    return {
        option: column_named(table, texts) if isinstance(texts, str) else [column_named(table, each) for each in texts]
        for option, texts in options.items()
        if texts is not None
    }


def _score(name: str) -> "Score | None":
    """Return the score with this name; None if it is to be selected."""
    from evencover.inputs.arrays import lookup
    from evencover.scores import BUILTIN_SCORES
    from evencover.scores.score import from_option

    scores = {each.option: each for each in BUILTIN_SCORES if hasattr(each, "option")}
    found = lookup(name, {"auto": None, **scores}, "score")
    return None if found is None else from_option(found)


def _taxonomy(texts: Sequence[str] | None, loaded: LoadedTable, missing_values: Sequence[str]) -> "Taxonomy | None":
    """Return the taxonomy of the option --groups; None if it is to be selected."""
    from evencover.taxonomies import Product, taxonomy_from_option

    if texts is None:
        return None
    column = partial(_column, loaded=loaded, missing_values=missing_values)
    taxonomies = [taxonomy_from_option(text, column) for text in texts]
    return taxonomies[0] if len(taxonomies) == 1 else Product(taxonomies)


def _column(text: str, *, loaded: LoadedTable, missing_values: Sequence[str]) -> "tuple[str, tuple[Label, ...]]":
    """Return the name and the different values of a column that an option names. Raise ValueError if they are many."""
    from evencover.studies.table_preparation import column_groups
    from evencover.tables.files import check_column, column_named

    name = column_named(loaded.table, text)
    check_column(loaded.table, name, "groups")
    if loaded.large is None:
        labels = column_groups(loaded.table, name, "groups").labels
    else:
        from evencover.studies.large_table import column_labels
        from evencover.tables.arrow_data import arrow_data

        labels = column_labels(arrow_data(loaded.large), name, missing_values)
    if len(labels) > _MAX_GROUPS:
        raise ValueError(
            f"groups: column {name!r} must have at most {_MAX_GROUPS} different values, because each gets its own "
            f"threshold; got {len(labels)}; bin them first"
        )
    return name, labels
