"""Write a result as one HTML file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.display.html import Markup, joined
from evencover.display.text import count_text
from evencover.files.archive import atomic_write
from evencover.inputs import Progress
from evencover.report import level_sections as sections
from evencover.report.first_screen import first_screen
from evencover.report.page import page
from evencover.report.slider import LevelRecorder
from evencover.report.snapshots import Contents, LevelSnapshot, contents_of
from evencover.report.static_sections import (
    assumptions_section,
    data_section,
    evaluation_section,
    glossary_section,
    reproduction_section,
    stack_section,
)
from evencover.scores.support import holds_whole_numbers, support_of
from evencover.studies import Study


def write_report(
    result: Study | Diagnosis | Audit,
    path: str | Path,
    *,
    command: str = "",
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
    progress : callable, optional
        Called with the number of finished levels and the number of all levels of the slider.

    Examples
    --------
    >>> import tempfile
    >>> from evencover import diagnose_scores
    >>> diagnosis = diagnose_scores([1.0, 2.0, 3.0], ["a", "b", "a"], level=0.5)
    >>> write_report(diagnosis, Path(tempfile.mkdtemp()) / "report.html")
    """
    text = report(result, command=command, progress=progress)
    with atomic_write(path) as file:
        file.write(text.encode())


def report(result: Study | Diagnosis | Audit, *, command: str = "", progress: Progress | None = None) -> str:
    """Return the page that `write_report` writes."""
    contents = contents_of(result, command, progress or (lambda *_: None))
    levels = []
    for snapshot in contents.snapshots:
        recorder = LevelRecorder(is_shown=snapshot is contents.own)
        first = first_screen(contents, snapshot, recorder)
        levels.append((recorder, first, joined(_level_parts(contents, snapshot, recorder))))
    title, subtitle = _title_and_subtitle(result)
    return page(title, subtitle, contents, levels, _static_parts(result, contents))


def _level_parts(contents: Contents, snapshot: LevelSnapshot, recorder: LevelRecorder) -> Iterator[Markup]:
    """Yield the parts that depend on the level, in the order of reading."""
    if snapshot.audit is not None:
        yield sections.coverage_section(contents, snapshot.audit, recorder, snapshot.misses)
    if contents.rows is not None and snapshot.intervals is not None:
        yield sections.rows_section(contents, contents.rows, snapshot.intervals, recorder)
    if snapshot.diagnosis is not None:
        yield sections.one_threshold_section(contents, snapshot.diagnosis, recorder)
        yield sections.distributions_section(contents, snapshot.diagnosis, recorder)
        if snapshot.diagnosis.options:
            yield sections.options_section(contents, snapshot.diagnosis, recorder)
    yield sections.rule_section(contents, snapshot, recorder)
    yield sections.tests_section(snapshot, recorder)
    if snapshot.audit is not None and snapshot.audit.by_feature:
        yield sections.features_section(contents, snapshot.audit, recorder)
    if contents.study is not None and contents.study.evidence.kind == "cross":
        yield sections.weaker_guarantee_section(contents.study, snapshot.level, recorder)
    elif contents.study is not None:
        yield sections.guarantee_section(contents.study.regressor.guarantee_, snapshot.level, recorder)


def _title_and_subtitle(result: Study | Diagnosis | Audit) -> tuple[str, str]:
    if isinstance(result, Study):
        are_intervals = result.quality.side is None
        return (
            f"{'Prediction intervals' if are_intervals else result.quality.noun.capitalize()} for {result.target}",
            f"{result.name}, {count_text(result.n_rows)} rows. Model: {result.model_text}.{_support_text(result)}",
        )
    if isinstance(result, Audit):
        return "Coverage of these intervals", f"An audit of {count_text(result.overall.rows)} rows."
    groups = f", with the groups {result.taxonomy}" if result.taxonomy else ""
    n = len(result.inputs.scores)
    return "Coverage of one threshold", f"A diagnosis of {n} calibration rows{groups}."


def _static_parts(result: Study | Diagnosis | Audit, contents: Contents) -> Markup:
    """Return the parts that do not depend on the level."""
    if not isinstance(result, Study):
        seed = result.seed if isinstance(result, Audit) else result.inputs.seed
        settings: dict[str, Any] = {"level": f"{result.level:g}", "tolerance": f"{result.tolerance:.2g}", "seed": seed}
        again = reproduction_section(settings, contents.command)
        return joined([assumptions_section(result), again, glossary_section()])
    plan = result.plan
    sizes = {"calibration_size": f"{plan.calibration_size:g}", "test_size": f"{plan.test_size:g}"}
    settings = {
        "level": f"{plan.level:g}",
        "tolerance": f"{result.audit.tolerance:.2g}",
        "seed": plan.seed,
        **({"calibration": "cross", "method": result.regressor.method} if result.evidence.kind == "cross" else sizes),
        "fitted model": repr(result.model),
        "model, score and groups": result.method,
    }
    return joined(
        [
            *([] if result.stack_report is None else [stack_section(result.stack_report)]),
            *([] if result.recommendation is None else [evaluation_section(result.recommendation)]),
            data_section(result, contents.style),
            reproduction_section(settings, contents.command),
            glossary_section(cross=result.evidence.kind == "cross"),
        ]
    )


def _support_text(study: Study) -> str:
    """Return which values the intervals can hold, as a sentence after a space; empty if all numbers are possible."""
    score = study.regressor.calibration_.nonconformity
    support = support_of(score)
    values = "" if holds_whole_numbers(score) else "values of "
    return "" if support is None else f" Intervals hold only {values}{support}."
