"""The command `predict`: intervals for new rows, from the predictor of an earlier run or from a calibration."""

import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from evencover.cli.calibrate_command import use_little_memory
from evencover.cli.invocation import UsageError, usage_errors
from evencover.cli.terminal import print_error, print_json, print_result, progress_bar
from evencover.display.lines import Lines, joined_lines

_MAX_PRINTED_ROWS, _MAX_CELL, _MAX_DECIMALS = 20, 30, 12  # of a table in a terminal: rows, characters of a cell


def predict(
    folder: Path,
    new: Path | None = None,
    /,
    *,
    calibration: Path | None = None,
    output: Path | None = None,
    level: float | None = None,
    unseen: Literal["error", "marginal", "inf"] = "error",
    keep: tuple[str, ...] | None = None,
    missing_values: tuple[str, ...] | None = None,
    sheet: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    header: str | None = None,
    exact_text: bool = False,
    workers: int | None = None,
    strict: bool = False,
    json: bool = False,
) -> None:
    """Predict an interval for each row of a new table, with the predictor of an earlier run.

    With --calibration, the first argument is a table of predictions, a Parquet file or a folder of any size, and the
    intervals are added to its columns: evencover predict NEW.parquet --calibration cal.evencover --output OUT.parquet

    The column `row` numbers the rows as the file does: in a text or Excel file, the header is row 1; in other files,
    the first row is row 0. The columns that the run recognised as ids, or was told to drop, are written, too, so that
    the intervals can be joined to the table. The column `outside` names the columns in which a row is outside of what
    the model has seen in training: a number or a date far beyond the range, an unseen category, a value that was never
    missing. A warning counts such rows.

    Parameters
    ----------
    folder
        The folder of a run, or a file written by the method `save` of ConformalRegressor or CrossConformalRegressor.
        With --calibration: a Parquet file with predictions, or a folder of such files.
    new
        A file with the columns of the features, in a format that `run` reads, or - for CSV from the standard input.
        Other columns are ignored.
    calibration
        A file written by `evencover calibrate`: use its thresholds for predictions that you already have.
    output
        A file for the intervals: .csv, .tsv (also with .gz), .parquet, .feather or .xlsx. By default they are printed:
        in a terminal the first of them as a table to read, for another program all of them as CSV. With --calibration:
        a .parquet file, or a new folder if the data is a folder.
    level
        Nominal coverage; by default the level of the run, or of the calibration.
    unseen
        For rows in a group without calibration rows: an error, the threshold of all rows, or an infinite interval.
    keep
        Columns to write next to the intervals: names, positions or `all`. By default those that the run recognised as
        ids, or was told to drop, as far as the new file has them.
    missing_values
        Texts in the file that mean a missing value, such as '?', in addition to NA and other usual ones; by default
        those of the run.
    sheet
        The sheet of an Excel file, by its name or its position, counted from 1. This option and the next three are by
        default those of the run, for a file of the same kind, and a message says so; otherwise as in `run`.
    separator
        What separates the cells of a text file: one character, tab or space.
    encoding
        The encoding of a text file, such as cp1252.
    header
        The row with the names of the columns in a text or Excel file, counted from 1; 0 or none if there is no header.
    exact_text
        Write text to CSV as it is. By default, text of the table that a spreadsheet would run as a formula, such as
        =A1, gets a single quote in front.
    workers
        With --calibration: number of threads; by default the number of cores.
    strict
        Rows that are outside of what the model has seen are an error, and nothing is written.
    json
        Print the intervals and their guarantee as JSON.
    """
    if calibration is not None:
        _check_unused(new=new, keep=keep, missing_values=missing_values, exact_text=exact_text or None)
        _check_unused(sheet=sheet, separator=separator, encoding=encoding, header=header)
        if strict:
            raise UsageError("strict is for the predictor of a run; a calibration knows no training rows, leave it out")
        _predict_table(folder, calibration, output, level=level, unseen=unseen, workers=workers, json=json)
        return
    if new is None:
        raise UsageError("new must be given: a file with new rows, after the folder of the run")
    if workers is not None:
        raise UsageError("workers is used only with --calibration; leave it out")
    import numpy as np

    from evencover.conformal.predictor_files import texts_of_run
    from evencover.files.archive import plain_value
    from evencover.inputs.frames import column, join_columns, row_numbers
    from evencover.intervals import columns_of_new_rows, prediction_text
    from evencover.tables.files import read_table, write_table

    _check_values(level, output=output)
    file_format = _file_format(
        {"sheet": sheet, "separator": separator, "encoding": encoding, "header": header}, folder, new
    )
    regressor, own_level = _predictor(folder)
    missing = texts_of_run(folder, "missing_values") if missing_values is None else missing_values
    table = read_table(new, text=_text_columns(regressor), missing=missing, file_format=file_format)
    kept = _kept_columns(table, folder, keep)
    features = _feature_columns(regressor, table, new)
    outside = _outside(regressor, features, new, strict=strict)
    intervals = regressor.predict_interval(features, level=own_level if level is None else level, unseen=unseen)
    numbers = row_numbers(table).at(np.arange(table.num_rows))
    result = columns_of_new_rows(intervals, numbers, outside)
    columns = join_columns({each: column(table, each, "keep") for each in kept}, result)
    _print_notes(intervals)
    if output is not None:
        write_table(columns, output, exact_text=exact_text)
    if json:
        about = {
            "level": intervals.level,
            "guarantee": str(intervals.guarantee),
            "prediction": prediction_text(intervals),
            "outside": None if outside is None else _outside_counts(outside),
        }
        print_json({**about, "intervals": plain_value(columns)})
    elif output is None:
        _print_intervals(columns, intervals, len(result), exact_text=exact_text)
    else:
        _print_written(intervals, output)


def _print_written(intervals: Any, output: Path) -> None:
    """Print what was written, with the mean width of the finite intervals, and its guarantee."""
    import numpy as np

    from evencover.display.text import number_text

    widths = intervals.width[np.isfinite(intervals.width)]
    which = " of finite intervals" * (len(widths) < len(intervals))
    width = f" Mean width{which}: {number_text(float(widths.mean()))}." if len(widths) else ""
    print_result(f"Wrote {len(intervals)} intervals at level {intervals.level:g} to {output}.{width}")
    print_result(str(intervals.guarantee))


def _file_format(options: Mapping[str, Any], folder: Path, new: Path) -> Any:
    """Return how to read new rows: by the options and, for a file of the same kind, by those of the run."""
    from evencover.conformal.predictor_files import file_format_of
    from evencover.tables.files import file_kind, file_name
    from evencover.tables.table_format import TableFormat, setting_text

    given = {name: value for name, value in options.items() if value is not None}
    with usage_errors():
        TableFormat(**given)
    data, settings = file_format_of(folder)
    same_kind = bool(settings) and file_kind(data) == file_kind(new)
    saved = {name: settings[name] for name in options if same_kind and name in settings and name not in given}
    if saved:
        texts = [setting_text(name, value).partition(" (")[0] for name, value in saved.items()]
        print_error(f"{file_name(new)} is read as {data} was: {' '.join(texts)}; if it differs, give these options")
    return TableFormat(**given, **saved)


def _check_unused(**options: Any) -> None:
    """Raise UsageError if options are given that a prediction from a calibration does not use."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UsageError(f"with --calibration, all columns are kept; leave out: {', '.join(given)}")


def _check_values(level: float | None, *, output: Path | None = None, workers: int | None = None) -> None:
    """Raise UsageError if the value of an option is wrong."""
    from evencover.inputs.arrays import check_count
    from evencover.quantiles import level_fraction
    from evencover.tables.files import check_output_suffix

    with usage_errors():
        if level is not None:
            level_fraction(level)
        if output is not None:
            check_output_suffix(output)
        if workers is not None:
            check_count(workers, "workers")


def _predictor(folder: Path) -> tuple[Any, float]:
    """Return the predictor in the folder of a run, or in a file, and the level of the run."""
    from evencover.conformal import load_predictor
    from evencover.conformal.predictor_files import PREDICTOR, saved_level

    if not folder.exists():
        raise FileNotFoundError(f"folder must be the folder of a run; there is no {folder}")
    path = folder if folder.is_file() else folder / PREDICTOR
    if not path.exists():
        raise FileNotFoundError(f"folder must be the folder of a run; {folder} has no file {PREDICTOR}")
    return load_predictor(path), saved_level(path)


def _text_columns(regressor: Any) -> list[str]:
    """Return the columns to read as text: features that held text in training, and text columns that define groups."""
    from evencover.models.encoding import encoder_of
    from evencover.taxonomies import text_columns

    encoder = encoder_of(regressor)
    texts = [] if encoder is None else [known.name for known in encoder.columns_ if known.text]
    return [*texts, *text_columns(regressor.taxonomy_)]


def _feature_columns(regressor: Any, table: Any, path: Path) -> Any:
    """Return the columns of the features; raise ValueError if some are missing, or labels of groups."""
    from evencover.inputs.frames import column, columns_of, is_missing, row_numbers
    from evencover.tables.files import file_name
    from evencover.taxonomies import table_columns

    names = list(getattr(regressor, "feature_names_in_", table.column_names))
    absent = [name for name in names if name not in table.column_names]
    if absent:
        raise ValueError(
            f"{file_name(path)} must have the columns that the model was fitted on; missing columns: {absent}"
        )
    for name in table_columns(regressor.taxonomy_):
        missing = is_missing(column(table, name, "groups"))
        if missing.any():
            raise ValueError(
                f"{file_name(path)} must have a label of the group in every row; missing in column {name!r}: "
                f"{missing.sum()} of {len(missing)} {row_numbers(table).first(missing)}"
            )
    return columns_of(table, names)


def _outside(regressor: Any, features: Any, path: Path, *, strict: bool) -> Any:
    """Return which rows are outside of what the model has seen, with a warning or an error; None if it is not known."""
    from evencover.models.encoding import encoder_of
    from evencover.tables.files import file_name

    if encoder_of(regressor) is None and not strict:
        return None
    outside = regressor.outside(features)
    if outside and strict:
        raise ValueError(
            f"{file_name(path)} must hold only rows like those in training, because of --strict: {outside}"
        )
    if outside:
        print_error(str(outside))
    return outside


def _kept_columns(table: Any, folder: Path, keep: tuple[str, ...] | None) -> list[str]:
    """Return the columns of the table that are written next to the intervals; by default those of the run."""
    from evencover.conformal.predictor_files import texts_of_run
    from evencover.tables.files import check_column, column_named

    names: list[str] = table.column_names
    if keep is None:
        of_run = texts_of_run(folder, "kept_columns")
        return [name for name in names if name in of_run]
    if "all" in keep:
        return names
    kept = [column_named(table, each) for each in keep]
    for each in kept:
        check_column(table, each, "keep")
    return kept


def _outside_counts(outside: Any) -> dict[str, Any]:
    """Return how many rows are outside, by column and in total, for JSON."""
    return {
        "rows": int(outside.rows.sum()),
        "by_column": {each.name: each.count for each in outside.columns},
        "without_values": list(outside.without_values),
    }


def _print_notes(intervals: Any) -> None:
    """Print how many intervals are empty or were replaced, and whether many predictions lie outside."""
    from evencover.intervals import moved_note

    n = len(intervals)
    if (empty := int(intervals.empty.sum())) > 0:
        print_error(f"{empty} of {n} intervals are empty: they contain no value, and their bounds are missing")
    if intervals.n_replaced:
        print_error(f"{intervals.n_replaced} of {n} intervals held no possible value, and became the nearest one")
    if note := moved_note(intervals):
        print_error(note)


def _print_intervals(columns: Mapping[str, Any], intervals: Any, n_results: int, *, exact_text: bool) -> None:
    """Print the first intervals and their guarantee for a person; all intervals as CSV for another program."""
    from evencover.tables.files import write_columns

    if sys.stdout.isatty():
        print_result(joined_lines([_table_to_read(columns, n_results), str(intervals.guarantee)]))
        return
    write_columns(columns, text := BytesIO(), exact_text=exact_text)
    print_result(Lines(text.getvalue().decode().rstrip("\n")))


def _table_to_read(columns: Mapping[str, Any], n_results: int) -> Lines:
    """Return the first rows as a table, with the number of all rows if they are more.

    The first columns are results; the others, of the table itself, come after the first of them, the row.
    """
    from evencover.display.text import count_text, text_table

    n, (first, *results), kept = len(columns["row"]), list(columns)[:n_results], list(columns)[n_results:]
    decimals = _decimals(columns)
    texts = [
        [_cell_text(value, decimals if name in results else None) for value in columns[name][:_MAX_PRINTED_ROWS]]
        for name in (first, *kept, *results)
    ]
    table = text_table([first, *kept, *results], zip(*texts, strict=True))
    if n <= _MAX_PRINTED_ROWS:
        return table
    shown_rows = f"These are the first {_MAX_PRINTED_ROWS} of {count_text(n)} rows."
    return joined_lines([table, f"{shown_rows} To write all of them, add --output FILE.csv."])


def _decimals(columns: Mapping[str, Any]) -> int:
    """Return how many decimals show a typical width of the intervals, or a distance of a bound, with three digits."""
    import numpy as np

    pairs = (("lower", "upper"), ("lower", "prediction"), ("prediction", "upper"))
    for low, high in (pair for pair in pairs if columns.keys() >= set(pair)):
        widths = columns[high] - columns[low]
        if len(widths := widths[np.isfinite(widths) & (widths > 0)]):
            return int(np.clip(2 - np.floor(np.log10(np.median(widths))), 0, _MAX_DECIMALS))
    return _MAX_DECIMALS // 2


def _cell_text(value: Any, decimals: int | None) -> str:
    """Return a cell for a table to read: a result with so many decimals, and the beginning of a long text."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        text = f"{value:.10g}" if decimals is None else f"{value:,.{decimals}f}".replace(",", " ")
    else:
        text = str(value)
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 3]}..."


def _predict_table(
    data: Path,
    calibration: Path,
    output: Path | None,
    *,
    level: float | None,
    unseen: Literal["error", "marginal", "inf"],
    workers: int | None,
    json: bool,
) -> None:
    """Write the intervals of a table of any size, as columns next to its own; a part of the command `predict`."""
    use_little_memory()
    from evencover.calibration.calibration import Calibration
    from evencover.display.text import number_text
    from evencover.files.archive import plain_value
    from evencover.tables.table_prediction import predict

    _check_values(level, workers=workers)
    if output is None:
        raise UsageError("output must be given with --calibration: a .parquet file, or a folder if the data is one")
    if not calibration.is_file():
        raise FileNotFoundError(f"calibration must be a file written by evencover calibrate; there is no {calibration}")
    loaded = Calibration.load(calibration)
    used = (*loaded.levels, 0.9)[0] if level is None else level
    with progress_bar(f"Predicting {data.name}") as progress:
        written = predict(data, loaded, output=output, level=used, unseen=unseen, workers=workers, progress=progress)
    if written.n_empty:
        print_error(f"{written.n_empty} of {written.rows} intervals are empty, and their bounds are missing")
    if written.n_infinite:
        print_error(f"{written.n_infinite} of {written.rows} intervals are infinite")
    if json:
        counts = {name: getattr(written, name) for name in ("rows", "n_empty", "n_infinite", "mean_width")}
        result = {"level": used, **counts, "guarantee": str(written.guarantee), "output": str(output)}
        print_json(plain_value(result))
        return
    width = f" Mean width of finite intervals: {number_text(written.mean_width)}." * (written.n_infinite < written.rows)
    print_result(f"Wrote {written.rows} rows with intervals at level {used:g} to {output}.{width}")
    print_result(str(written.guarantee))
