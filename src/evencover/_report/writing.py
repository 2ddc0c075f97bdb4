"""One file for people to read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evencover._internal.html import Markup, joined
from evencover._internal.saved_files import atomic_write
from evencover._report import level_sections as sections
from evencover._report.contents import Contents, LevelSnapshot, contents_of
from evencover._report.level_recorder import LevelRecorder
from evencover._report.page import page
from evencover._report.static_sections import assumptions, data, glossary, reproduction, tried
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.studies import Study


def write_report(result: Study | Diagnosis | Audit, path: str | Path, *, command: str = "") -> None:
    """Write a result to one HTML file: the verdict first, then pictures, numbers, tests, and what they rest on.

    The file loads nothing from anywhere, can be read without JavaScript, and printed. With it, a slider changes the
    level, where the result knows others: every number was computed when the file was written.

    Parameters
    ----------
    result : Study, Diagnosis or Audit
        What to report on.
    path : str or Path
        The file, replaced as a whole.
    command : str
        What gave the result, for whoever wants to repeat it.

    Examples
    --------
    >>> import tempfile
    >>> from evencover import diagnose_scores
    >>> diagnosis = diagnose_scores([1.0, 2.0, 3.0], ["a", "b", "a"], level=0.5)
    >>> write_report(diagnosis, Path(tempfile.mkdtemp()) / "report.html")
    """
    text = report(result, command=command)
    with atomic_write(path) as file:
        file.write(text.encode())


def report(result: Study | Diagnosis | Audit, *, command: str = "") -> str:
    """Return the page that `write_report` writes."""
    contents = contents_of(result)
    made = []
    for shot in contents.snapshots:
        live = LevelRecorder(written=shot is contents.own)
        made.append((live, joined(_moving_parts(contents, shot, live))))
    title, subtitle = _titles(result)
    return page(title, subtitle, contents, made, _after(result, command))


def _moving_parts(contents: Contents, shot: LevelSnapshot, live: LevelRecorder) -> Iterator[Markup]:
    """Yield the parts that depend on the level, in the order of reading."""
    yield sections.verdict(contents, shot, live)
    if shot.audit is not None:
        yield sections.coverage(contents, shot.audit, live)
        yield sections.widths(contents, shot.audit, live)
    if contents.rows is not None and shot.intervals is not None:
        yield sections.rows(contents, contents.rows, shot.intervals, live)
    if shot.diagnosis is not None:
        yield sections.one_threshold(contents, shot.diagnosis, live)
        yield sections.distributions(contents, shot.diagnosis, live)
        if shot.diagnosis.options:
            yield sections.options(shot.diagnosis, live)
    yield sections.tests(shot, live)
    if shot.audit is not None and shot.audit.excess_risk is not None:
        yield sections.features(shot.audit, live)
    if contents.study is not None:
        yield sections.guarantee(contents.study.regressor.guarantee_, shot.level, live)


def _titles(result: Study | Diagnosis | Audit) -> tuple[str, str]:
    if isinstance(result, Study):
        return f"Prediction intervals for {result.target}", f"{result.name}. {result.how}."
    if isinstance(result, Audit):
        return "What these intervals cover", f"An audit of {result.overall.rows} rows."
    by = f", by {result.taxonomy}" if result.taxonomy else ""
    n = len(result.inputs.scores)
    return "What one threshold will cover", f"A diagnosis from {n} calibration rows{by}."


def _after(result: Study | Diagnosis | Audit, command: str) -> Markup:
    """Return the parts that do not depend on the level."""
    if not isinstance(result, Study):
        seed = result.seed if isinstance(result, Audit) else result.inputs.seed
        settings: dict[str, Any] = {"level": f"{result.level:g}", "tolerance": f"{result.tolerance:g}", "seed": seed}
        return joined([assumptions(result), reproduction(settings, command), glossary()])
    plan = result.plan
    settings = {
        "level": f"{plan.level:g}",
        "tolerance": f"{plan.tolerance:g}",
        "seed": plan.seed,
        "calibration_size": f"{plan.calibration_size:g}",
        "test_size": f"{plan.test_size:g}",
        "model": repr(result.model),
        "score and groups": result.how,
    }
    return joined(
        [
            *([] if result.recommendation is None else [tried(result.recommendation)]),
            data(result),
            reproduction(settings, command),
            glossary(),
        ]
    )
