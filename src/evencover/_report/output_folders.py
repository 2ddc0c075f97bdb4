"""The output folders of `evencover run` and `evencover audit`."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from evencover._internal.frames import join_columns
from evencover._internal.predictor_files import PREDICTOR, RESULTS
from evencover._internal.unfinished_files import moves_into_place, temporary_folder
from evencover._report.json_data import data_of
from evencover._report.writing import write_report
from evencover.datasets._table_files import write_table
from evencover.diagnostics.audit_result import Audit
from evencover.studies import Study

REPORT = "report.html"
INTERVALS = ("intervals.csv", "intervals.parquet")

Kind = Literal["study", "audit"]


@contextmanager
def new_files(folder: Path, kind: Kind) -> Iterator[Path]:
    """Yield a temporary folder; its files are moved to the output folder at the end, but not after an error.

    Parameters
    ----------
    folder : Path
        A new folder, or the folder of an earlier result of the same kind, whose files are replaced.
    kind : {"study", "audit"}
        The kind of the result.
    """
    _check_output(folder, kind)
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(temporary_folder(folder.parent))
        except OSError as error:
            raise OSError(f"output must be a folder that can be written to; {folder}: {error.strerror}") from None
        yield temporary
        with moves_into_place():
            folder.mkdir(parents=True, exist_ok=True)
            for earlier in INTERVALS:
                (folder / earlier).unlink(missing_ok=True)
            for path in temporary.iterdir():
                path.replace(folder / path.name)


def write_study(
    study: Study,
    folder: Path,
    *,
    intervals: str = INTERVALS[0],
    names: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a study's intervals, predictor, report and results; a study of a large table has written its intervals.

    Parameters
    ----------
    study : Study
        The study.
    folder : Path
        The temporary folder of `new_files`.
    intervals : {"intervals.csv", "intervals.parquet"}
        The name of the file of intervals, and so its format.
    names : mapping from str to array, optional
        Columns of the whole table to write next to the intervals, such as row names.
    settings : mapping from str to JSON value, optional
        Further settings for results.json, which `evencover predict` uses again.
    command : str
        The command that gave the result, for the report.
    progress : callable, optional
        Called with the number of finished levels and the number of all levels of the report.
    """
    if study.all_rows is None:
        table_columns = {name: values[study.test.positions] for name, values in (names or {}).items()}
        write_table(join_columns(table_columns, study.columns_of_intervals()), folder / intervals)
    study.regressor.save(folder / PREDICTOR, level=study.plan.level)
    write_result(study, folder, settings=settings, command=command, progress=progress)


def write_result(
    result: Study | Audit,
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a result's report and its JSON data to the temporary folder of `new_files`."""
    write_report(result, folder / REPORT, command=command, progress=progress)
    text = json.dumps({**data_of(result), **(settings or {})}, indent=2, ensure_ascii=False)
    (folder / RESULTS).write_text(f"{text}\n", encoding="utf-8")


def _check_output(folder: Path, kind: Kind) -> None:
    """Raise if a folder holds anything but an earlier result of this kind."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"output must be a folder; {folder} is a file")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if names and _kind_in(folder) != kind:
        raise FileExistsError(
            f"output must be a new folder, or the folder of an earlier {kind}; {folder} contains other files, such as "
            f"{names[0]}"
        )


def _kind_in(folder: Path) -> str | None:
    """Return the kind of result that a folder holds; None if it holds no result."""
    try:
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        kind: str | None = results["evencover"] and results["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kind
