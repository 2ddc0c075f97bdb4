"""The command `audit`: test the coverage of given intervals."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evencover.cli.calibrate_command import use_little_memory
from evencover.cli.invocation import command_text, exit_status
from evencover.cli.terminal import print_error, print_json, print_result, progress_bar, status

if TYPE_CHECKING:
    from evencover.diagnostics.audits import Audit
    from evencover.inputs.arrays import FloatArray
    from evencover.inputs.frames import RowNumbers


_MAX_ROWS_IN_MEMORY = 1_000_000  # a larger Parquet file is read in parts


def audit(
    file: Path,
    /,
    *,
    target: str,
    lower: str,
    upper: str,
    group: str | None = None,
    clusters: str | None = None,
    prediction: str | None = None,
    features: tuple[str, ...] | None = None,
    missing_values: tuple[str, ...] | None = None,
    level: float = 0.9,
    tolerance: float | None = None,
    calibration_rows: int | None = None,
    seed: int = 0,
    output: Path | None = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Test intervals from any model: find the groups that they cover too rarely or too often.

    Parameters
    ----------
    file
        A file with one row per interval, in a format that `run` reads, or - for CSV from the standard input. A folder
        of Parquet files, or a Parquet file with more than a million rows, is read in parts: every row is counted, and
        features are searched in a sample of 100 000 rows.
    target
        The column of observed targets.
    lower
        The column of lower bounds. An empty cell means an empty interval, -inf an unbounded one.
    upper
        The column of upper bounds. An empty cell means an empty interval, inf an unbounded one.
    group
        The column of groups whose coverage is tested. Numbers with more than 10 different values are split into
        thirds, except in data that is read in parts. By default three groups by interval width or, if all widths are
        equal, by the interval's center.
    clusters
        A column that says which rows belong together, such as a patient. One random row of each is tested, because rows
        that belong together depend on each other. Not for data that is read in parts.
    prediction
        The column of point predictions, which is no feature; by default the column named prediction, if there is one.
    features
        Columns in which to look for rows that are missed more often. By default every column without another role,
        except ids and row numbers; `none` for no column.
    missing_values
        Texts in the file that mean a missing value, such as '?', in addition to NA and other usual ones.
    level
        Nominal coverage of the intervals.
    tolerance
        Largest distance from the level that counts as even. By default 0.03; less at levels above 0.9, such as 0.01 at
        0.99.
    calibration_rows
        If all intervals have one threshold: the number of its calibration rows. The tests then include the random
        variation of the calibration rows.
    seed
        Seed of the random halves and permutations that look at features.
    output
        Folder for report.html and results.json.
    strict
        Exit with status 4 if the verdict is undecided.
    json
        Print the results as JSON.
    """
    from evencover.conformal.predictor_files import RESULTS
    from evencover.inputs.arrays import check_count
    from evencover.report.writing import REPORT, data_of, new_files, write_result
    from evencover.words.results import audit_text
    from evencover.words.settings import COMMAND_LINE

    command = command_text(audit, locals())
    if calibration_rows is not None:
        check_count(calibration_rows, "calibration_rows")
    roles = {"target": target, "lower": lower, "upper": upper, "group": group, "prediction": prediction}
    roles["clusters"] = clusters
    settings = {"level": level, "tolerance": tolerance, "calibration_sizes": calibration_rows, "seed": seed}
    with ExitStack() as stack:
        folder = None if output is None else stack.enter_context(new_files(output, "audit"))
        audit_file = _audit_in_parts if is_read_in_parts(file) else _audit_in_memory
        result = audit_file(file, roles, features, missing_values or (), settings)
        if folder is not None:
            write_result(result, folder, command=command)
    if json:
        print_json(data_of(result, COMMAND_LINE))
    else:
        print_result(audit_text(result, COMMAND_LINE))
        if output is not None:
            print_result(f"\nWritten to {output}: {REPORT}, {RESULTS}.")
    return exit_status(result.verdict, strict=strict)


def is_read_in_parts(file: Path) -> bool:
    """Return whether a file is too large for memory: a folder, or a Parquet file with more than a million rows."""
    if file.is_dir() or file.suffix.lower() != ".parquet" or not file.is_file():
        return file.is_dir()
    use_little_memory()
    from evencover.tables.arrow_data import n_rows_of

    return n_rows_of(file) > _MAX_ROWS_IN_MEMORY


def _audit_in_memory(
    file: Path,
    given: Mapping[str, str | None],
    features: Sequence[str] | None,
    missing_values: Sequence[str],
    settings: Mapping[str, Any],
) -> "Audit":
    """Return the audit of a file that is read as a whole."""
    from evencover.cli.audit_columns import grouped_rows
    from evencover.inputs.frames import column, row_numbers
    from evencover.tables.files import check_column, column_named, file_name, number_column, read_table

    table, name_of_file = read_table(file, missing=missing_values), file_name(file)
    roles = {role: name and column_named(table, name) for role, name in given.items()}
    features = features and tuple(column_named(table, name) for name in features)
    y = number_column(table, roles["target"] or "", f"target of {name_of_file}")
    lower, upper = (
        number_column(table, roles[role] or "", f"{role} of {name_of_file}", finite=False)
        for role in ("lower", "upper")
    )
    roles["prediction"] = _prediction_column(roles, table.column_names)
    if given["prediction"] is not None and roles["prediction"] is not None:
        number_column(table, roles["prediction"], f"prediction of {name_of_file}")
    _check_clusters(roles)
    named = [("features", name) for name in features or () if name not in ("all", "none")]
    for role, name in [("group", roles["group"]), ("clusters", roles["clusters"]), *named]:
        if name is not None:
            check_column(table, name, f"{role} of {name_of_file}")
    _warn_of_swapped_bounds(lower, upper, row_numbers(table))
    with status() as show:
        show("testing the coverage")
        groups, notes = (None, []) if roles["group"] is None else grouped_rows(table, roles["group"])
        clusters = None if roles["clusters"] is None else column(table, roles["clusters"], "clusters")
        by_row = {"groups": groups, "clusters": clusters}
        result = _audit_table(table, y, (lower, upper), roles, features, {**settings, **by_row})
        return replace(result, facts=(*notes, *result.facts))


def _audit_in_parts(
    file: Path,
    given: Mapping[str, str | None],
    features: Sequence[str] | None,
    missing_values: Sequence[str],
    settings: Mapping[str, Any],
) -> "Audit":
    """Return the audit of a Parquet file, or a folder of such files, that is read in parts."""
    from evencover.calibration.table_columns import TableColumns
    from evencover.tables.arrow_data import arrow_data
    from evencover.tables.batches import import_arrow
    from evencover.tables.table_audit import audit_all_rows, targets_and_intervals

    if missing_values:
        raise ValueError("missing_values is for text in a table that is read at once; leave it out for large data")
    if given["clusters"] is not None:
        raise ValueError("clusters is for a table that is read at once; keep one row of each cluster of large data")
    columns = TableColumns(**{role: name for role, name in given.items() if role not in ("prediction", "clusters")})
    with progress_bar(f"Auditing {file.name}") as progress:
        source = arrow_data(file, progress=progress)
        names = [
            name for name in source.parts[0].schema.names if all(name in part.schema.names for part in source.parts)
        ]
        roles = {**given, "prediction": _prediction_column(given, names)}
        searched = [name for name in features or names if name not in ("all", "none") or name in names]
        others = [name for name in [roles["prediction"], *searched] if name is not None]

        def audit_sample(sample: Any) -> "Audit":
            y, intervals = targets_and_intervals(sample, columns)
            groups = None if columns.group is None else sample.column(columns.group).to_pylist()
            table = import_arrow().Table.from_batches([sample])
            bounds = intervals.lower, intervals.upper
            return _audit_table(table, y, bounds, roles, features, {**settings, "groups": groups})

        return audit_all_rows(source, columns, others, audit_sample, settings["calibration_sizes"])


def _check_clusters(roles: Mapping[str, str | None]) -> None:
    """Raise ValueError if the column of clusters has another role, whose numbers say nothing about clusters."""
    others = {"target": "target", "lower": "lower bounds", "upper": "upper bounds", "prediction": "predictions"}
    for role, text in others.items():
        if roles["clusters"] is not None and roles["clusters"] == roles[role]:
            raise ValueError(f"clusters must not name the {text}; got {roles[role]!r}")


def _prediction_column(roles: Mapping[str, str | None], names: Sequence[str]) -> str | None:
    """Return the column of predictions: the given one, or the one with that name, if it has no other role."""
    if roles["prediction"] is not None:
        return roles["prediction"]
    return "prediction" if "prediction" in names and "prediction" not in roles.values() else None


def _audit_table(
    table: Any,
    y: "FloatArray",
    bounds: "tuple[FloatArray, FloatArray]",
    roles: Mapping[str, str | None],
    features: Sequence[str] | None,
    settings: Mapping[str, Any],
) -> "Audit":
    """Return the audit of a table's columns, with notes on the columns that were used."""
    import numpy as np

    from evencover.cli.audit_columns import Outcomes, searched_columns
    from evencover.diagnostics.audits import audit as audit_intervals
    from evencover.inputs.frames import as_numbers, column

    lower, upper = bounds
    predicted = roles["prediction"]
    prediction = None if predicted is None else as_numbers(column(table, predicted, "prediction"))
    outcomes = Outcomes(y, (lower <= y) & (y <= upper), (lower + upper) / 2 if prediction is None else prediction)
    X, notes = searched_columns(table, features, roles.values(), outcomes)
    known = prediction if prediction is not None and np.isfinite(prediction).all() else None
    result = audit_intervals(y, bounds, X=X, prediction=known, **settings)
    return replace(result, facts=(*result.facts, *notes))


def _warn_of_swapped_bounds(lower: "FloatArray", upper: "FloatArray", rows: "RowNumbers") -> None:
    """Print a warning if the lower bound is above the upper one in some rows, but not in all."""
    swapped = lower > upper
    if swapped.any() and not swapped.all():
        print_error(
            f"rows with lower above upper: {swapped.sum()} {rows.first(swapped)}; their intervals count as empty"
        )
