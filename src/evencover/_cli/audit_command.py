"""The command `audit`: test the coverage of given intervals."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evencover._cli.invocation import command_text, exit_status
from evencover._cli.terminal import print_error, print_json, print_result, status

if TYPE_CHECKING:
    from evencover._internal.arrays import FloatArray
    from evencover._internal.frames import RowNumbers
    from evencover.diagnostics.audit_result import Audit


def audit(
    file: Path,
    /,
    *,
    target: str,
    lower: str,
    upper: str,
    group: str | None = None,
    prediction: str | None = None,
    features: tuple[str, ...] | None = None,
    missing_values: tuple[str, ...] | None = None,
    level: float = 0.9,
    tolerance: float = 0.03,
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
        A file with one row per interval, in a format that `run` reads, or - for CSV from the standard input.
    target
        The column of observed targets.
    lower
        The column of lower bounds. An empty cell means an empty interval, -inf an unbounded one.
    upper
        The column of upper bounds. An empty cell means an empty interval, inf an unbounded one.
    group
        The column of groups whose coverage is tested. Numbers with more than 10 different values are split into
        thirds. By default three groups by interval width or, if all widths are equal, by the interval's center.
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
        Largest distance from the level that counts as even.
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
    from evencover._internal.arrays import check_count
    from evencover._internal.frames import row_numbers
    from evencover._internal.predictor_files import RESULTS
    from evencover._report.json_data import data_of
    from evencover._report.output_folders import REPORT, new_files, write_result
    from evencover.datasets._table_files import check_column, column_named, file_name, number_column, read_table

    command = command_text(audit, locals())
    if calibration_rows is not None:
        check_count(calibration_rows, "calibration_rows")
    table, name_of_file = read_table(file, missing=missing_values or ()), file_name(file)
    target, lower, upper = (column_named(table, name) for name in (target, lower, upper))
    group, prediction = (name and column_named(table, name) for name in (group, prediction))
    features = features and tuple(column_named(table, name) for name in features)
    y = number_column(table, target, f"target of {name_of_file}")
    bounds = (
        number_column(table, lower, f"lower of {name_of_file}", finite=False),
        number_column(table, upper, f"upper of {name_of_file}", finite=False),
    )
    if prediction is not None:
        number_column(table, prediction, f"prediction of {name_of_file}")
    elif "prediction" in table.column_names and "prediction" not in (target, lower, upper, group):
        prediction = "prediction"
    named = [("features", name) for name in features or () if name not in ("all", "none")]
    for role, name in [("group", group), ("prediction", prediction), *named]:
        if name is not None:
            check_column(table, name, f"{role} of {name_of_file}")
    _warn_of_swapped_bounds(*bounds, row_numbers(table))
    with ExitStack() as stack:
        folder = None if output is None else stack.enter_context(new_files(output, "audit"))
        stack.enter_context(status())("testing the coverage")
        roles = {"target": target, "lower": lower, "upper": upper, "group": group, "prediction": prediction}
        settings = {"level": level, "tolerance": tolerance, "calibration_sizes": calibration_rows, "seed": seed}
        result = _audit_table(table, y, bounds, roles, features, settings)
        if folder is not None:
            write_result(result, folder, command=command)
    if json:
        print_json(data_of(result))
    else:
        print_result(str(result))
        if output is not None:
            print_result(f"\nWritten to {output}: {REPORT}, {RESULTS}.")
    return exit_status(result.verdict, strict=strict)


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

    from evencover._cli.audit_columns import Outcomes, grouped_rows, searched_columns
    from evencover._internal.frames import as_numbers, column
    from evencover.diagnostics._audit_advice import advice_on_audit
    from evencover.diagnostics._spelling import COMMAND_LINE
    from evencover.diagnostics.audits import audit as audit_intervals

    lower, upper = bounds
    predicted = roles["prediction"]
    prediction = None if predicted is None else as_numbers(column(table, predicted, "prediction"))
    outcomes = Outcomes(y, (lower <= y) & (y <= upper), (lower + upper) / 2 if prediction is None else prediction)
    groups, group_notes = (None, []) if roles["group"] is None else grouped_rows(table, roles["group"])
    X, notes = searched_columns(table, features, roles.values(), outcomes)
    known = prediction if prediction is not None and np.isfinite(prediction).all() else None
    result = audit_intervals(y, bounds, X=X, groups=groups, prediction=known, **settings)
    advice = str(advice_on_audit(result, COMMAND_LINE))
    return replace(result, advice=advice, notes=(*group_notes, *result.notes, *notes))


def _warn_of_swapped_bounds(lower: "FloatArray", upper: "FloatArray", rows: "RowNumbers") -> None:
    """Print a warning if the lower bound is above the upper one in some rows, but not in all."""
    swapped = lower > upper
    if swapped.any() and not swapped.all():
        print_error(
            f"rows with lower above upper: {swapped.sum()} {rows.first(swapped)}; their intervals count as empty"
        )
