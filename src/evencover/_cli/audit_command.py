"""The command `audit`: test the coverage of given intervals."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from evencover._cli.invocation import EXIT_STATUS, command_text
from evencover._cli.terminal import print_error, print_json, print_result, status

if TYPE_CHECKING:
    from evencover._internal.arrays import FloatArray


def audit(
    file: Path,
    /,
    *,
    target: str,
    lower: str,
    upper: str,
    group: str | None = None,
    features: tuple[str, ...] | None = None,
    level: float = 0.9,
    tolerance: float = 0.03,
    calibration_rows: int | None = None,
    seed: int = 0,
    output: Path | None = None,
    json: bool = False,
) -> int:
    """Test intervals from any model: find the groups that they cover too rarely or too often.

    Parameters
    ----------
    file
        A CSV or Parquet file with one row per interval.
    target
        The column of observed targets.
    lower
        The column of lower bounds. An empty cell means an empty interval, -inf an unbounded one.
    upper
        The column of upper bounds. An empty cell means an empty interval, inf an unbounded one.
    group
        The column of groups whose coverage is tested; by default three groups by interval width.
    features
        A column in which to look for rows that are missed more often. Can be repeated; `all` means every other column.
    level
        Nominal coverage of the intervals.
    tolerance
        Largest distance from the level that counts as even.
    calibration_rows
        If all intervals have one threshold: the number of its calibration rows. The tests then include the random
        variation of the calibration rows.
    seed
        Seed of the random splits, slabs and permutations that look at features.
    output
        Folder for report.html and results.json.
    json
        Print the results as JSON.
    """
    from evencover._internal.arrays import check_count
    from evencover._internal.frames import columns_of
    from evencover._report.json_data import data_of
    from evencover._report.output_folders import REPORT, RESULTS, new_files, write_result
    from evencover.datasets._table_files import check_column, number_column, read_table
    from evencover.diagnostics.audits import audit as audit_intervals
    from evencover.studies._columns import column_groups

    command = command_text(audit, locals())
    if calibration_rows is not None:
        check_count(calibration_rows, "calibration_rows")
    table = read_table(file)
    y = number_column(table, target, f"target of {file.name}")
    bounds = (
        number_column(table, lower, f"lower of {file.name}", finite=False),
        number_column(table, upper, f"upper of {file.name}", finite=False),
    )
    used = {target, lower, upper, group}
    feature_names = (
        [name for name in table.column_names if name not in used] if "all" in (features or ()) else list(features or ())
    )
    for name in [*feature_names, *([] if group is None else [group])]:
        check_column(table, name, f"{'group' if name == group else 'features'} of {file.name}")
    _warn_of_swapped_bounds(*bounds)
    with ExitStack() as stack:
        folder = None if output is None else stack.enter_context(new_files(output, "audit"))
        stack.enter_context(status())("testing the coverage")
        result = audit_intervals(
            y,
            bounds,
            X=columns_of(table, feature_names) if feature_names else None,
            groups=None if group is None else column_groups(table, group, "group"),
            level=level,
            tolerance=tolerance,
            calibration_sizes=calibration_rows,
            seed=seed,
        )
        if folder is not None:
            write_result(result, folder, command=command)
    if json:
        print_json(data_of(result))
    else:
        print_result(str(result))
        if output is not None:
            print_result(f"\nWritten to {output}: {REPORT}, {RESULTS}.")
    return EXIT_STATUS[result.verdict]


def _warn_of_swapped_bounds(lower: "FloatArray", upper: "FloatArray") -> None:
    """Print a warning if the lower bound is above the upper one in some rows, but not in all."""
    swapped = lower > upper
    if swapped.any() and not swapped.all():
        print_error(
            f"rows with lower above upper: {swapped.sum()} (the first is row {swapped.argmax()}, counted from 0); "
            "their intervals count as empty"
        )
