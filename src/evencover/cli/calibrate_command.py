"""The command `calibrate`: thresholds for predictions in Parquet files of any size."""

import os
import shlex
from pathlib import Path
from typing import Any

from evencover.cli.invocation import usage_errors
from evencover.cli.terminal import print_json, print_result, progress_bar


def calibrate(
    data: Path,
    /,
    *,
    target: str,
    output: Path,
    center: str | None = None,
    spread: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    group: str | None = None,
    level: float = 0.9,
    one_pass: bool = False,
    bits: int = 10,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Calibrate predictions that you already have, in Parquet files of any size, and save the thresholds.

    The data is read in small parts, so the memory does not grow with its size. `evencover predict` adds the intervals
    to new files.

    Parameters
    ----------
    data
        A Parquet file, or a folder of Parquet files, also with subfolders such as year=2024. The model must not have
        been fitted on these rows.
    target
        The column of targets.
    output
        The file for the calibration, such as calibration.evencover.
    center
        The column of predicted targets.
    spread
        The column of predicted noise, in the unit of the target, such as a standard deviation.
    lower
        The column of the model's own lower bounds, such as a quantile; with --upper, instead of --spread.
    upper
        The column of the model's own upper bounds.
    group
        The column of groups (text, whole numbers or booleans), each of which gets a threshold of its own.
    level
        Nominal coverage.
    one_pass
        Read the data only once: thresholds are upper bounds then, by default at most 0.1 % too large. Without it, a
        second pass makes the thresholds at --level exact.
    bits
        Binary digits of the rounded scores, 0 to 52; with 10, thresholds are at most 0.1 % too large after one pass.
    workers
        Number of threads; by default the number of cores.
    json
        Print the result as JSON.
    """
    use_little_memory()
    from evencover.calibration.histograms import checked_bits
    from evencover.calibration.table_columns import TableColumns
    from evencover.inputs.arrays import check_count
    from evencover.quantiles import level_fraction
    from evencover.tables.table_calibration import calibrate as calibrate_table

    with usage_errors():
        TableColumns(target, center, spread, lower, upper, group)
        level_fraction(level)
        checked_bits(bits)
        if workers is not None:
            check_count(workers, "workers")
        if output.suffix.lower() not in (".evencover", ".json"):
            raise ValueError(f"output must be a .evencover file; got {output}")
    if output.is_dir():
        raise ValueError(f"output must be a .evencover file; got the folder {output}")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"output must be in a folder that exists; there is no {output.parent}")
    if not os.access(output.parent, os.W_OK):
        raise PermissionError(f"output must be in a folder that can be written to; got {output.parent}")
    with progress_bar(f"Calibrating {data.name}") as progress:
        found = calibrate_table(
            data,
            target=target,
            center=center,
            spread=spread,
            lower=lower,
            upper=upper,
            group=group,
            level=level,
            exact=not one_pass,
            bits=bits,
            workers=workers,
            progress=progress,
        )
    found.save(output)
    if json:
        print_json({**_data(found, level), "output": str(output)})
        return
    print_result(str(found))
    saved = shlex.quote(str(output))
    print_result(f"Saved to {output}. For new rows: evencover predict NEW.parquet --calibration {saved} --output ...")


def _data(calibration: Any, level: float) -> dict[str, Any]:
    """Return a calibration as JSON values."""
    from evencover.files.archive import plain_value

    columns = calibration.sizes.items(), calibration.threshold(level).tolist(), calibration.excess(level).tolist()
    groups = [
        {"group": label, "rows": n, "threshold": threshold, "excess": excess}
        for (label, n), threshold, excess in zip(*columns, strict=True)
    ]
    data: dict[str, Any] = plain_value({"level": level, "groups": groups, "guarantee": str(calibration.guarantee)})
    return data


def use_little_memory() -> None:
    """Let pyarrow, before it is loaded, use the system's allocator: its own keeps much memory for each thread."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
