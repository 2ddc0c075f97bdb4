"""A verdict on anyone's intervals."""

from contextlib import ExitStack
from pathlib import Path

from evencover._cli.terminal import STATUS, command_text, labels_in, print_error, print_json, print_result, status


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
    """Judge anyone's intervals: where they missed, and whether that is chance.

    Parameters
    ----------
    file
        A CSV or Parquet file with a row for each interval.
    target
        The column of what came out.
    lower
        The column of lower bounds; an empty cell is an empty interval, -inf an open one.
    upper
        The column of upper bounds.
    group
        The column of groups that must each be covered; by default thirds by width.
    features
        A column to look for rows that are missed more often. Can be given again; `all` is every other column.
    level
        Nominal coverage of the intervals.
    tolerance
        Distance from the level that counts as even.
    calibration_rows
        How many rows the one threshold behind the intervals was calibrated on: with it, its own chance is allowed for.
    seed
        Of the halves, slabs and permutations that look at features.
    output
        A folder for report.html and results.json.
    json
        Print data.
    """
    from evencover._internal.arrays import check_count
    from evencover._internal.frames import columns_of
    from evencover._report.json_data import data_of
    from evencover._report.output_folders import REPORT, RESULTS, new_files, write_findings
    from evencover.datasets._table_files import check_column, number_column, read_table
    from evencover.diagnostics.audits import audit as judged

    typed = command_text(audit, locals())
    if calibration_rows is not None:
        check_count(calibration_rows, "calibration_rows")
    table = read_table(file)
    y = number_column(table, target, f"target of {file.name}")
    bounds = (
        number_column(table, lower, f"lower of {file.name}", finite=False),
        number_column(table, upper, f"upper of {file.name}", finite=False),
    )
    used = {target, lower, upper, group}
    names = (
        [name for name in table.column_names if name not in used] if "all" in (features or ()) else list(features or ())
    )
    for name in [*names, *([] if group is None else [group])]:
        check_column(table, name, f"{'group' if name == group else 'features'} of {file.name}")
    swapped = bounds[0] > bounds[1]
    if swapped.any() and not swapped.all():
        first = int(swapped.argmax())
        print_error(
            f"lower is above upper in {swapped.sum()} rows (the first in row {first}): these intervals are empty"
        )
    with ExitStack() as after:
        place = None if output is None else after.enter_context(new_files(output, "audit"))
        after.enter_context(status())("judging")
        found = judged(
            y,
            bounds,
            X=columns_of(table, names) if names else None,
            groups=None if group is None else labels_in(table, group, "group"),
            level=level,
            tolerance=tolerance,
            calibration_sizes=calibration_rows,
            seed=seed,
        )
        if place is not None:
            write_findings(found, place, command=typed)
    if json:
        print_json(data_of(found))
    else:
        print_result(str(found))
        if output is not None:
            print_result(f"\nWritten to {output}: {REPORT}, {RESULTS}.")
    return STATUS[found.verdict]
