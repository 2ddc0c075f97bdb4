"""A study as a folder of files: for people, for spreadsheets, for machines, and the predictor itself."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from evencover._report.json_data import data_of
from evencover._report.writing import write_report
from evencover.datasets._table_files import write_table
from evencover.diagnostics.audit_result import Audit
from evencover.studies import Study
from evencover.studies.table_study import join_columns

REPORT, RESULTS, PREDICTOR = "report.html", "results.json", "predictor.evencover"
INTERVALS = ("intervals.csv", "intervals.parquet")

Kind = Literal["study", "audit"]


@contextmanager
def new_files(folder: Path, kind: Kind) -> Iterator[Path]:
    """Yield a place to write files to, all of which come to a folder at the end, or none if anything goes wrong.

    Parameters
    ----------
    folder : Path
        A new folder, or one of an earlier result of the same kind, whose files are replaced.
    kind : {"study", "audit"}
        What is written.
    """
    _refuse_others(folder, kind)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = TemporaryDirectory(dir=folder.parent, prefix=".evencover-")
    except OSError as error:
        raise OSError(f"output must be a folder that can be written to; {folder}: {error.strerror}") from None
    with unfinished as place:
        yield Path(place)
        folder.mkdir(exist_ok=True)
        for earlier in INTERVALS:
            (folder / earlier).unlink(missing_ok=True)
        for path in Path(place).iterdir():
            path.replace(folder / path.name)


def write_study(
    study: Study,
    place: Path,
    *,
    intervals: str = INTERVALS[0],
    names: Mapping[str, Any] | None = None,
    command: str = "",
) -> None:
    """Write a study's intervals, predictor, report and results.

    Parameters
    ----------
    study : Study
        What was found.
    place : Path
        A folder, from `new_files`.
    intervals : {"intervals.csv", "intervals.parquet"}
        The name, and so the kind, of the file of intervals.
    names : mapping from str to array, optional
        Columns of the whole table to put beside the intervals, such as names of rows.
    command : str
        What gave the result, for the report.
    """
    theirs = {name: values[study.test.positions] for name, values in (names or {}).items()}
    write_table(join_columns(theirs, study.columns_of_intervals()), place / intervals)
    study.regressor.save(place / PREDICTOR, level=study.plan.level)
    write_findings(study, place, command=command)


def write_findings(result: Study | Audit, place: Path, *, command: str = "") -> None:
    """Write a result's report and its data to a folder, from `new_files`."""
    write_report(result, place / REPORT, command=command)
    text = json.dumps(data_of(result), indent=2, ensure_ascii=False)
    (place / RESULTS).write_text(f"{text}\n", encoding="utf-8")


def _refuse_others(folder: Path, kind: Kind) -> None:
    """Raise if a folder holds anything but an earlier result of this kind."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"output must be a folder; {folder} is a file")
    there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if there and _kind_in(folder) != kind:
        raise FileExistsError(
            f"output must be a new folder, or that of an earlier {kind}; {folder} has something else in it, such as "
            f"{there[0]}"
        )


def _kind_in(folder: Path) -> str | None:
    """Return the kind of result that a folder holds, None for anything else."""
    try:
        found = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        kind: str | None = found["evencover"] and found["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kind
