"""Results as files: the HTML report, its data as JSON, and the folder of a run or an audit."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from evencover._version import __version__
from evencover.conformal.predictor_files import PREDICTOR, RESULTS
from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.interval_quality import Quality
from evencover.display.html import Markup, joined, tag
from evencover.display.lines import Lines, json_text
from evencover.display.text import count_text, short_repr
from evencover.files.archive import atomic_write, plain_value
from evencover.files.checksums import with_checksum
from evencover.files.unfinished import is_temporary, output_folder
from evencover.inputs import Progress
from evencover.inputs.arrays import IntArray
from evencover.inputs.frames import join_columns
from evencover.intervals import prediction_text
from evencover.quantiles import level_fractions
from evencover.report.first_screen import first_screen
from evencover.report.sections import (
    level_sections,
    static_sections,
    versions,
)
from evencover.report.snapshots import Contents, LevelRecorder, contents_of, level_differences, style_of
from evencover.scores import BUILTIN_SCORES
from evencover.scores.support import holds_whole_numbers, support_of
from evencover.studies import Study
from evencover.studies.study_result import without_target_path
from evencover.tables.files import write_table
from evencover.words.advice import advice_on_audit, advice_on_diagnosis, advice_on_study
from evencover.words.answers import quality_text
from evencover.words.other_rows import other_rows_text
from evencover.words.results import audit_notes
from evencover.words.settings import PYTHON, SettingStyle
from evencover.words.studies import study_notes, study_warnings


def write_report(
    result: Study | Diagnosis | Audit,
    path: str | Path,
    *,
    command: str = "",
    folder: str | Path = "",
    progress: Progress | None = None,
) -> None:
    """Write a result to one HTML file: the answers first, then numbers, tests and assumptions, folded.

    The file needs no network. It can be read without JavaScript, and printed. With JavaScript, the report on a study
    or a diagnosis has a slider that changes the level; all its numbers are computed when the file is written.

    Parameters
    ----------
    result : Study, Diagnosis or Audit
        The result.
    path : str or Path
        The file. It is written atomically, and replaces an earlier one.
    command : str
        The command that gave the result; the report shows it, so that readers can reproduce the numbers. Its texts
        then name settings as options of the command line.
    folder : str or Path
        The folder of the result and its predictor, if a command gave it; for the command that predicts new rows.
    progress : callable, optional
        Called with the number of finished levels and the number of all levels of the slider.

    Examples
    --------
    >>> import tempfile
    >>> from evencover import diagnose_scores
    >>> diagnosis = diagnose_scores([1.0, 2.0, 3.0], ["a", "b", "a"], level=0.5)
    >>> write_report(diagnosis, Path(tempfile.mkdtemp()) / "report.html")
    """
    text = report(result, command=command, folder=folder, progress=progress)
    with atomic_write(path) as file:
        file.write(text.encode())


def report(
    result: Study | Diagnosis | Audit,
    *,
    command: str = "",
    folder: str | Path = "",
    progress: Progress | None = None,
) -> str:
    """Return the page that `write_report` writes."""
    contents = replace(contents_of(result, command, progress or (lambda *_: None)), folder=str(folder))
    levels = []
    for snapshot in contents.snapshots:
        recorder = LevelRecorder(is_shown=snapshot is contents.own)
        first = first_screen(contents, snapshot, recorder)
        levels.append((recorder, first, joined(level_sections(contents, snapshot, recorder))))
    title, subtitle = _title_and_subtitle(result)
    return page(title, subtitle, contents, levels, static_sections(result, contents))


def _title_and_subtitle(result: Study | Diagnosis | Audit) -> tuple[str, str]:
    if isinstance(result, Study):
        are_intervals = result.quality.side is None
        return (
            f"{'Prediction intervals' if are_intervals else result.quality.noun.capitalize()} for {result.target}",
            f"{result.name}, {count_text(result.n_rows)} rows{_without_target_text(result)}. Model: "
            f"{result.model_text}.{_support_text(result)}",
        )
    if isinstance(result, Audit):
        return "Coverage of these intervals", f"An audit of {count_text(result.overall.rows)} rows."
    groups = f", with the groups {result.taxonomy}" if result.taxonomy else ""
    n = len(result.inputs.scores)
    return "Coverage of one threshold", f"A diagnosis of {n} calibration rows{groups}."


def _without_target_text(study: Study) -> str:
    """Return how many rows have no target; empty if all have one."""
    return f", and {count_text(study.n_without_target)} without a target" * (study.n_without_target > 0)


def _support_text(study: Study) -> str:
    """Return which values the intervals can hold, as a sentence after a space; empty if all numbers are possible."""
    score = study.regressor.calibration_.nonconformity
    support = support_of(score)
    values = "" if holds_whole_numbers(score) else "values of "
    return "" if support is None else f" Intervals hold only {values}{support}."


_NO_LOADING = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_MANY_GROUPS = 9  # more choices are folded away


def page(
    title: str,
    subtitle: str,
    contents: Contents,
    levels: Sequence[tuple[LevelRecorder, Markup, Markup]],
    static_parts: Markup,
) -> str:
    """Return the whole page.

    Parameters
    ----------
    title, subtitle : str
        The heading and the line below it.
    contents : Contents
        The result.
    levels : sequence of (LevelRecorder, Markup, Markup)
        The first screen and the other parts that depend on the level, made at every level.
    static_parts : Markup
        The parts that do not.
    """
    script = _resource("page.js") if len(levels) > 1 else ""
    _, answers, details = levels[contents.start]
    return "<!DOCTYPE html>\n" + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_security_policy(script)),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", title),
            tag("style", Markup(_resource("page.css") + _group_styles(len(contents.groups)))),
        ),
        tag(
            "body",
            tag("a", "Skip to the answers", href="#verdict", class_="skip"),
            tag("header", tag("h1", title), tag("p", subtitle, class_="sub")),
            tag(
                "main",
                answers,
                *([_level_control(contents, len(levels))] if len(levels) > 1 else []),
                tag("h2", "Details", class_="details-title"),
                *([_group_control(contents)] if len(contents.groups) > 1 else []),
                details,
                static_parts,
            ),
            *_script(contents, [recorder for recorder, *_ in levels], script),
        ),
        lang="en",
    )


def _level_control(contents: Contents, n_levels: int) -> Markup:
    """Return the slider of levels, which only JavaScript makes visible."""
    slider = tag("input", type="range", id="level", min=0, max=n_levels - 1, step=1, value=contents.start)
    output = tag("output", _level_caption(contents, contents.start), id="level-caption", for_="level")
    label = tag("label", tag("b", "How often should they be right? "), slider, for_="level")
    note = tag("p", "Decide on the share before you look at its verdict.", class_="note")
    return tag("section", label, " ", output, note, id="level-control", aria_label="Level", hidden=True)


def _level_caption(contents: Contents, index: int) -> str:
    """Return the text next to the slider at a level: the level and the verdict."""
    snapshot = contents.snapshots[index]
    return f"{100 * snapshot.level:g} % ({snapshot.result.verdict}). All numbers on this page follow the slider."


def _group_control(contents: Contents) -> Markup:
    """Return the buttons that choose a group, which need no JavaScript."""
    choices = [("All", "all"), *((str(label), str(number)) for label, number in contents.group_numbers.items())]
    radios = (
        tag("label", tag("input", type="radio", name="group", id=f"show-{value}", checked=value == "all"), " ", text)
        for text, value in choices
    )
    fields = tag("fieldset", tag("legend", "Highlight a group"), *radios)
    folded = tag("details", tag("summary", "Highlight a group"), fields) if len(choices) > _MANY_GROUPS else fields
    return tag("section", folded, id="group-control", aria_label="Group")


def _group_styles(n_groups: int) -> str:
    """Return the CSS rules that fade the other groups when one is chosen."""
    return "".join(
        f'body:has(#show-{number}:checked) [data-group]:not([data-group="{number}"]) {{ opacity: .12; }}\n'
        for number in range(n_groups)
    )


def _script(contents: Contents, recorders: Sequence[LevelRecorder], script: str) -> list[Markup]:
    """Return the texts and attributes at all levels, and the script that shows those of one level."""
    if not script:
        return []
    values: dict[str, Any] = {
        "levels": [f"{snapshot.level:g}" for snapshot in contents.snapshots],
        "captions": [_level_caption(contents, index) for index in range(len(recorders))],
        **level_differences(recorders),
    }
    text = json_text(values, separators=(",", ":")).replace("<", "\\u003c")
    return [tag("script", Markup(text), type="application/json", id="levels"), tag("script", Markup(script))]


def _security_policy(script: str) -> str:
    """Return the policy that lets a browser run this script only, and load nothing."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"{_NO_LOADING}; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return files("evencover.report").joinpath(name).read_text(encoding="utf-8")


_LEFT_OUT = ("inputs",)  # arrays with a value for each row


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
    """Return the fields of a result, with what to do next to the verdict, and notes in the place of facts."""
    data = {"verdict": result.verdict, "advice": advice, **json_value(result)}
    if not isinstance(result, Audit):
        return data
    notes = audit_notes(result, style)
    return dict(("notes", notes) if name == "facts" else (name, value) for name, value in data.items())


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
        "other_rows": [{"summary": other_rows_text(each), **json_value(each)} for each in study.other_rows],
        "warnings": study_warnings(study, style),
        "notes": study_notes(study, style),
        "without_target": study.n_without_target,
        "left_out": list(study.left_out),
        "copies": study.n_copies,
        "extremes": [{**json_value(each), "row": study.row_numbers[each.row]} for each in study.extremes],
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
    used = study.regressor.calibrator_.used_calibrations(level_fractions(study.plan.level))
    by_tail = [calibration.threshold(levels)[:, 0].tolist() for calibration, levels in used]
    values: list[Any] = by_tail[0]
    if len(by_tail) > 1:
        values = [{"lower": lower, "upper": upper} for lower, upper in zip(*by_tail, strict=True)]
    return dict(zip(study.regressor.calibration_.labels, values, strict=True))


REPORT = "report.html"
INTERVALS = ("intervals.csv", "intervals.parquet", "intervals.xlsx")
WITHOUT_TARGET = tuple(without_target_path(Path(name)).name for name in INTERVALS)

Kind = Literal["study", "audit"]
_FILES = {
    "audit": (REPORT, RESULTS),
    "study": (*INTERVALS, *WITHOUT_TARGET, REPORT, RESULTS, PREDICTOR),  # `predict` reads the last one
}


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
    with output_folder(folder, partial(_check_output, folder, kind), order=_FILES[kind]) as temporary:
        yield temporary


def write_study(
    study: Study,
    folder: Path,
    *,
    intervals: str = INTERVALS[0],
    names: Mapping[str, Any] | None = None,
    exact_text: bool = False,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    output: str | Path = "",
    progress: Progress | None = None,
) -> Lines:
    """Write a study's intervals, predictor, report and results; a study of a large table has written its intervals.

    Intervals of rows without a target are in a file of their own. Return the text of results.json.

    Parameters
    ----------
    study : Study
        The study.
    folder : Path
        The temporary folder of `new_files`.
    intervals : {"intervals.csv", "intervals.parquet", "intervals.xlsx"}
        The name of the file of intervals, and so its format.
    names : mapping from str to array, optional
        Columns of the whole table to write next to the intervals, such as row names.
    exact_text : bool
        Whether intervals.csv holds text as it is; otherwise formulas get a quote.
    settings : mapping from str to JSON value, optional
        Further settings for results.json, which `evencover predict` uses again.
    command : str
        The command that gave the result, for the report.
    output : str or Path
        The output folder that the files are moved to, for the report.
    progress : callable, optional
        Called with the number of finished levels and the number of all levels of the report.
    """
    path = folder / intervals

    def write(columns: Mapping[str, Any], positions: IntArray, path: Path) -> None:
        table_columns = {name: values[positions] for name, values in (names or {}).items()}
        write_table(join_columns(table_columns, columns), path, exact_text=exact_text)

    if study.evidence.kind != "batches":
        write(study.columns_of_intervals(), study.test.positions, path)
    if study.without_target is not None:
        write(study.without_target.columns(), study.without_target.positions, without_target_path(path))
    study.regressor.save(folder / PREDICTOR, level=study.plan.level)
    return write_result(study, folder, settings=settings, command=command, output=output, progress=progress)


def write_result(
    result: Study | Audit,
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    output: str | Path = "",
    progress: Progress | None = None,
) -> Lines:
    """Write a result's report and its JSON data to the temporary folder of `new_files`; return the data as text."""
    write_report(result, folder / REPORT, command=command, folder=output, progress=progress)
    text = json_text(with_checksum({**data_of(result, style_of(command)), **(settings or {})}), indent=2)
    with atomic_write(folder / RESULTS) as file:
        file.write(f"{text}\n".encode())
    return text


def _check_output(folder: Path, kind: Kind) -> None:
    """Raise if a folder holds anything but an earlier result of this kind."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"output must be a folder; {folder} is a file")
    names = sorted(path.name for path in folder.iterdir() if not is_temporary(path)) if folder.exists() else []
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
