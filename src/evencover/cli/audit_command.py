"""The command `audit`: test the coverage of given intervals."""

from contextlib import ExitStack
from pathlib import Path

from evencover.cli.invocation import command_text, exit_status, usage_errors
from evencover.cli.terminal import print_json, print_result
from evencover.display.lines import joined_lines


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
    sheet: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    header: str | None = None,
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
    sheet
        The sheet of an Excel file, by its name or its position, counted from 1; by default the first one.
    separator
        What separates the cells of a text file: one character, tab or space; by default recognised.
    encoding
        The encoding of a text file, such as cp1252; by default recognised: UTF-8, UTF-16 or Windows-1252 (Latin-1).
    header
        The row with the names of the columns in a text or Excel file, counted from 1; rows above it are not read. 0 or
        none: there is no header, and the columns are called column 1, column 2, ... By default recognised.
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
    from evencover.cli.run_inputs import Reading, TableFormat
    from evencover.cli.table_audits import audit_file
    from evencover.conformal.predictor_files import RESULTS
    from evencover.diagnostics.verdicts import checked_settings
    from evencover.inputs.arrays import check_count
    from evencover.report.writing import REPORT, data_of, new_files, write_result
    from evencover.words.results import audit_text
    from evencover.words.settings import COMMAND_LINE

    command = command_text(audit, locals())
    with usage_errors():
        checked_settings(level, tolerance, seed)
        reading = Reading((), missing_values or (), TableFormat(sheet, separator, encoding, header))
        if calibration_rows is not None:
            check_count(calibration_rows, "calibration_rows")
    optional = {"group": group, "prediction": prediction, "clusters": clusters}
    given = {role: name for role, name in optional.items() if name is not None}
    roles = {"target": target, "lower": lower, "upper": upper, **given}
    settings = {"level": level, "tolerance": tolerance, "calibration_sizes": calibration_rows, "seed": seed}
    with ExitStack() as stack:
        folder = None if output is None else stack.enter_context(new_files(output, "audit"))
        result = audit_file(file, roles, features, reading, settings)
        if folder is not None:
            write_result(result, folder, command=command)
    if json:
        print_json(data_of(result, COMMAND_LINE))
    else:
        written = [] if output is None else ["", f"Written to {output}: {REPORT}, {RESULTS}."]
        print_result(joined_lines([audit_text(result, COMMAND_LINE), *written]))
    return exit_status(result.verdict, strict=strict)
