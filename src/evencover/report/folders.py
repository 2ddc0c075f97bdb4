"""A study as a folder of files: for people, for spreadsheets, for machines, and the predictor itself."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evencover.datasets.mixed import write_table
from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.files import whole_file
from evencover.report.data import data_of
from evencover.report.writing import write_report
from evencover.studies import Study

REPORT, RESULTS, PREDICTOR = "report.html", "results.json", "predictor.evencover"
INTERVALS = ("intervals.csv", "intervals.parquet")


def refuse_others_folder(folder: Path) -> None:
    """Raise if a folder holds files, and none of a study's."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"output must be a folder; {folder} is a file")
    there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if there and not {RESULTS, PREDICTOR, *INTERVALS} & set(there):
        raise FileExistsError(f"output must be a new folder, or one of an earlier run; {folder} has {there[0]} in it")


def write_study(
    study: Study,
    folder: str | Path,
    *,
    intervals: str = INTERVALS[0],
    beside: Mapping[str, Any] | None = None,
    command: str = "",
) -> list[Path]:
    """Write a study to a folder, and return its files: intervals, predictor, report, results.

    Parameters
    ----------
    study : Study
        What was found.
    folder : str or Path
        A new folder, or one of an earlier run, whose files are replaced.
    intervals : {"intervals.csv", "intervals.parquet"}
        The name, and so the kind, of the file of intervals.
    beside : mapping from str to array, optional
        Columns of the whole table to put beside the intervals, such as names of rows.
    command : str
        What gave the result, for the report.
    """
    folder = Path(folder)
    refuse_others_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in INTERVALS:
        (folder / earlier).unlink(missing_ok=True)
    columns = study.columns_of_intervals()
    extra = {name: values[study.test.positions] for name, values in (beside or {}).items() if name not in columns}
    write_table({**columns, **extra}, folder / intervals)
    study.regressor.save(folder / PREDICTOR)
    return [folder / intervals, folder / PREDICTOR, *write_findings(study, folder, command=command)]


def write_findings(result: Study | Diagnosis | Audit, folder: str | Path, *, command: str = "") -> list[Path]:
    """Write a result's report and its data to a folder, new or of an earlier run, and return the files."""
    folder = Path(folder)
    refuse_others_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_report(result, folder / REPORT, command=command)
    with whole_file(folder / RESULTS) as file:
        file.write(json.dumps(data_of(result), indent=2, ensure_ascii=False).encode())
    return [folder / REPORT, folder / RESULTS]
