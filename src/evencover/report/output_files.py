"""Results as files: the folder of a run, and the JSON data in it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from evencover._version import __version__
from evencover.calibration.two_tails import TailThresholds
from evencover.conformal.predictor_files import PREDICTOR, RESULTS
from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality
from evencover.display.text import short_repr
from evencover.files.archive import plain_value
from evencover.files.unfinished import moves_into_place, temporary_folder
from evencover.inputs import Progress
from evencover.inputs.frames import join_columns
from evencover.intervals import prediction_text
from evencover.report.snapshots import style_of
from evencover.report.static_sections import versions
from evencover.report.writing import write_report
from evencover.scores import BUILTIN_SCORES
from evencover.studies import Study
from evencover.tables.files import write_table
from evencover.words.advice import advice_on_audit, advice_on_diagnosis, advice_on_study
from evencover.words.answers import quality_text
from evencover.words.results import audit_notes
from evencover.words.settings import PYTHON, SettingStyle
from evencover.words.studies import study_notes, study_warnings

_LEFT_OUT = ("inputs", "facts")  # arrays with a value for each row, and what the notes tell


def data_of(result: Study | Diagnosis | Audit, style: SettingStyle = PYTHON) -> dict[str, Any]:
    """Return a result as JSON data: NaN becomes null, an infinite number the text inf or -inf.

    Parameters
    ----------
    result : Study, Diagnosis or Audit
        The result.
    style : SettingStyle
        How texts name settings.
    """
    head = {"evencover": __version__, "kind": type(result).__name__.lower()}
    if isinstance(result, Study):
        return {**head, **_study_data(result, style)}
    advice = str(advice_on_audit(result, style)) if isinstance(result, Audit) else advice_on_diagnosis(result, style)
    return {**head, **_judged_data(result, advice, style), **_summary(result, result, advice)}


def _judged_data(result: Diagnosis | Audit, advice: str, style: SettingStyle) -> dict[str, Any]:
    """Return the fields of a result, with what to do next to the verdict."""
    notes = {"notes": audit_notes(result, style)} if isinstance(result, Audit) else {}
    return {"verdict": result.verdict, "advice": advice, **json_value(result), **notes}


def _summary(result: Study | Diagnosis | Audit, judged: Diagnosis | Audit, advice: str) -> dict[str, Any]:
    """Return the verdict, what is shown in numbers, and what to do."""
    return {
        "verdict": judged.verdict,
        "headline": result.headline,
        "shown_within": json_value(judged.shown_within),
        "advice": advice,
        **({"quality": _quality_data(judged.quality)} if isinstance(judged, Audit) else {}),
    }


def json_value(value: Any) -> Any:
    """Return a value as JSON data; a dataclass becomes an object with its fields."""
    return plain_value(value, _object_value)


def _object_value(value: Any) -> Any:
    """Return an object as JSON data: a score as Python code, another dataclass as its fields."""
    if isinstance(value, BUILTIN_SCORES):
        return short_repr(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = (part.name for part in fields(value) if part.name not in _LEFT_OUT)
        return {name: json_value(getattr(value, name)) for name in parts}
    return repr(value)


def _study_data(study: Study, style: SettingStyle) -> dict[str, Any]:
    """Return the results of a study, the verdict first."""
    plan = study.plan
    recommendation, advice = study.recommendation, str(advice_on_study(study, style))
    return {
        **_summary(study, study.audit, advice),
        "data": study.name,
        "target": study.target,
        "rows": study.sizes,
        "clusters": study.clusters,
        "time": study.time,
        "warnings": study_warnings(study, style),
        "notes": study_notes(study, style),
        "left_out": list(study.left_out),
        "features": json_value(study.columns),
        "model": repr(study.model),
        "nonconformity": json_value(study.regressor.calibration_.nonconformity),
        "taxonomy": short_repr(study.taxonomy),
        "tails": study.tails,
        "support": json_value(getattr(study.regressor.calibrator_.nonconformity, "support", None)),
        "level": float(plan.level),
        "prediction": prediction_text(study.intervals),
        "tolerance": study.audit.tolerance,
        "seed": plan.seed,
        "calibration": "cross" if study.evidence.kind == "cross" else "split",
        "guarantee": str(study.regressor.guarantee_),
        "guaranteed_coverage": float(study.regressor.guarantee_.lower_bound(plan.level)),
        "thresholds": json_value(_thresholds(study)),
        "audit": _judged_data(study.audit, advice, style),
        "diagnosis": _judged_data(study.diagnosis, advice_on_diagnosis(study.diagnosis, style), style),
        "stack": json_value(study.stack_report),
        "tried": None if recommendation is None else json_value(recommendation.candidates),
        "versions": versions(),
    }


def _quality_data(quality: Quality) -> dict[str, Any]:
    """Return the measures, and what they mean."""
    return {"summary": quality_text(quality), "explains_nothing": quality.explains_nothing, **json_value(quality)}


def _thresholds(study: Study) -> dict[Any, Any] | None:
    """Return the threshold of each group, or those of its two tails; None if the study is cross-fitted."""
    if study.evidence.kind == "cross":  # each row's interval depends on the scores of all folds
        return None
    learned, level = study.regressor.calibrator_, study.plan.level
    if isinstance(learned, TailThresholds):
        pairs = zip(*learned.thresholds(level), strict=True)
        values: list[Any] = [{"lower": lower, "upper": upper} for lower, upper in pairs]
    else:
        values = study.regressor.calibration_.threshold(level).tolist()
    return dict(zip(study.regressor.calibration_.labels, values, strict=True))


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
    progress: Progress | None = None,
) -> str:
    """Write a study's intervals, predictor, report and results; a study of a large table has written its intervals.

    Return the text of results.json.

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
    if study.evidence.kind != "batches":
        table_columns = {name: values[study.test.positions] for name, values in (names or {}).items()}
        write_table(join_columns(table_columns, study.columns_of_intervals()), folder / intervals)
    study.regressor.save(folder / PREDICTOR, level=study.plan.level)
    return write_result(study, folder, settings=settings, command=command, progress=progress)


def write_result(
    result: Study | Audit,
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> str:
    """Write a result's report and its JSON data to the temporary folder of `new_files`; return the data as text."""
    write_report(result, folder / REPORT, command=command, progress=progress)
    text = json.dumps({**data_of(result, style_of(command)), **(settings or {})}, indent=2, ensure_ascii=False)
    (folder / RESULTS).write_text(f"{text}\n", encoding="utf-8")
    return text


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
