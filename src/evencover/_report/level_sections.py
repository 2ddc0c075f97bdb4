"""The sections of a report that depend on the level, each made at one level."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evencover._internal.html import Markup, html_table, tag
from evencover._report.axes import format_number
from evencover._report.charts import (
    ShownRows,
    coverage_chart,
    distribution_chart,
    legend_line,
    rows_chart,
    widths_chart,
)
from evencover._report.contents import Contents, LevelSnapshot
from evencover._report.level_recorder import LevelRecorder
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import HasPValue, p_value_text, short_repr
from evencover.diagnostics._verdict import GroupCoverage
from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals

VERDICTS = {
    "even": "Coverage is even.",
    "uneven": "Coverage is uneven, or differs from the level.",
    "undecided": "Undecided: more rows are needed.",
}
_MAX_LINES = 7  # of distributions that a reader can distinguish
_GROUP = ("group", "rows", "coverage", "95 % interval", "p (Holm)")


def section(identity: str, title: str, *content: Any) -> Markup:
    """Return a part of the page with a heading."""
    heading = tag("h2", title, id=f"{identity}-title")
    return tag("section", heading, *content, aria_labelledby=f"{identity}-title", id=identity)


def scrolling_table(header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str) -> Markup:
    """Return a table that scrolls by itself if it is wider than the page."""
    table = html_table(header, rows, caption=caption)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def figure(*content: Any) -> Markup:
    """Return a picture with its caption, which scrolls by itself if it is wider than the page."""
    return tag("figure", *content, tabindex=0)


def verdict_section(contents: Contents, snapshot: LevelSnapshot, recorder: LevelRecorder) -> Markup:
    """Return the verdict, the advice, and the rule behind the verdict."""
    result = snapshot.result
    box = recorder.element(
        "div",
        tag("p", recorder.text(VERDICTS[result.verdict]), class_="verdict-text"),
        tag("p", recorder.text(result.advice)),
        varying={"class_": f"verdict {result.verdict}"},
    )
    level = tag("p", "At level ", recorder.text(f"{snapshot.level:g}"), ":", class_="note")
    rule = tag("p", recorder.text(_verdict_rule(contents, snapshot)), class_="note")
    return section("verdict", "Verdict", level, box, rule)


def _verdict_rule(contents: Contents, snapshot: LevelSnapshot) -> str:
    """Return which rows the verdict uses, and by what rule."""
    result = snapshot.result
    rule = (
        "It is uneven if coverage differs significantly from the level (joint p-value below "
        f"{SIGNIFICANT:g}; here {p_value_text(result.joint_p_value)}) and the interval of some group excludes the "
        f"level. It is even if the intervals of all groups lie within {result.tolerance:g} of the level. Otherwise it "
        "is undecided."
    )
    if contents.study is not None:
        n = contents.study.sizes["test"]
        return (
            f"The verdict uses the intervals of {n} test rows. Neither the model nor the calibration used these rows. "
            f"{rule}"
        )
    if isinstance(result, Audit):
        return f"The verdict uses the intervals of {result.overall.rows} rows. {rule}"
    n = sum(row.rows for row in result.table)
    return f"The verdict is on one threshold for all rows. It uses {n} calibration rows. {rule}"


def coverage_section(contents: Contents, audit: Audit, recorder: LevelRecorder) -> Markup:
    """Return each group's coverage on the test rows: a picture and a table."""
    rows = contents.shown(audit.table)
    lines = [
        (*_group_cells(row, recorder), recorder.text(format_number(row.width)))
        for row in [*rows, *([audit.overall] if len(audit.table) > 1 else [])]
    ]
    table = scrolling_table((*_GROUP, "mean width"), lines, "Coverage and mean width of each group")
    p_values = tag("p", f"The p-values {audit.p_value_scope}.", class_="note")
    return section(
        "coverage",
        "Coverage by group",
        figure(_coverage_picture(contents, audit, recorder)),
        table,
        *_groups_not_shown(contents, audit.table),
        p_values,
    )


def widths_section(contents: Contents, audit: Audit, recorder: LevelRecorder) -> Markup:
    """Return each group's mean width as a picture."""
    means = {row.group: row.width for row in contents.shown(audit.table)}
    text = recorder.text(
        f"Mean width: {format_number(audit.overall.width)}. Empty intervals: {audit.n_empty}. "
        f"Infinite intervals: {audit.n_infinite}."
    )
    picture = widths_chart(means, contents.group_numbers, max_width=contents.max_width, recorder=recorder)
    return section("widths", "Interval widths", figure(picture), tag("p", text))


def rows_section(contents: Contents, shown: ShownRows, intervals: Intervals, recorder: LevelRecorder) -> Markup:
    """Return intervals and targets of test rows, sorted by spread."""
    n_covered = int(intervals.covers(shown.y).sum())
    text = f"{n_covered} of these {len(shown)} test rows are covered. Diamonds are missed targets."
    picture = rows_chart(shown, intervals, contents.group_numbers, recorder=recorder)
    return section("rows", "Intervals of test rows", figure(picture, tag("figcaption", recorder.text(text))))


def one_threshold_section(contents: Contents, diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the expected coverage of one threshold for all rows, estimated on the calibration rows."""
    text = recorder.text(
        f"One threshold for all rows, {format_number(diagnosis.threshold)}, at level {diagnosis.level:g}. Verdict from "
        f"the calibration rows alone: {diagnosis.verdict}."
    )
    lines = [
        (*_group_cells(row, recorder), recorder.text(format_number(row.threshold)))
        for row in contents.shown(diagnosis.table)
    ]
    table = scrolling_table(
        (*_GROUP, "own threshold"), lines, "Expected coverage of one threshold, and the threshold of each group alone"
    )
    return section(
        "one-threshold",
        "Is one threshold enough?",
        tag("p", text),
        tag("p", recorder.text(diagnosis.advice)) if contents.own.audit is not None else "",
        figure(_coverage_picture(contents, diagnosis, recorder)),
        table,
        *_groups_not_shown(contents, diagnosis.table),
    )


def distributions_section(contents: Contents, diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the distributions of the groups' scores; of many groups, of those with the smallest p-values."""
    own = contents.own.diagnosis or diagnosis
    by_p_value = sorted(contents.shown(own.table), key=lambda row: (np.isnan(row.adjusted), row.adjusted))
    drawn = {row.group for row in by_p_value[:_MAX_LINES]}
    scores = {label: values for label, values in diagnosis.scores.items() if label in drawn}
    selection = f" Only the {_MAX_LINES} groups with the smallest p-values are drawn."
    caption = (
        "The score measures how far a target is from the prediction. Each line is the distribution of one group's "
        "scores; the line in the colour of the text is the distribution of all scores. The horizontal dashed line is "
        "the level, the vertical one is the threshold. If all lines cross the level at the same score, one threshold "
        "is even at this level. If the lines coincide, it is even at every level."
        f"{selection if len(contents.groups) > len(drawn) else ''}"
    )
    numbers = contents.group_numbers
    picture = distribution_chart(
        diagnosis.inputs.scores,
        scores,
        numbers,
        level=diagnosis.level,
        threshold=diagnosis.threshold,
        recorder=recorder,
    )
    names = (tag("li", legend_line(numbers[label]), " ", label, data_group=numbers[label]) for label in scores)
    legend = tag("ul", *names, class_="legend")
    return section("distributions", "Scores by group", figure(picture, legend, tag("figcaption", caption)))


def tests_section(snapshot: LevelSnapshot, recorder: LevelRecorder) -> Markup:
    """Return every test with its question, its p-value and the answer."""
    lines = [*_calibration_tests(snapshot.diagnosis, recorder), *_audit_tests(snapshot.audit, recorder)]
    table = scrolling_table(("test", "question", "p (Holm)", "answer"), lines, "All tests")
    note = (
        "A p-value is the probability of a difference at least this large if there were none in truth. Where several "
        "groups, pairs or strata are compared, it is adjusted for their number (Holm). Not tested: more rows or groups "
        "are needed, or there are more than 30 groups to compare in pairs. All levels are tested on the same rows, "
        "each as if it had been chosen beforehand. Do not choose a level by its verdict: such a verdict proves nothing."
    )
    return section("tests", "Statistical tests", table, tag("p", note, class_="note"))


def _calibration_tests(diagnosis: Diagnosis | None, recorder: LevelRecorder) -> list[tuple[Any, ...]]:
    """Return the tests on calibration rows."""
    if diagnosis is None:
        return []
    quantiles = min((each.adjusted for each in diagnosis.quantile_differences), default=np.nan)
    distances = min((each.adjusted for each in diagnosis.distribution_differences), default=np.nan)
    p_values = {
        ("exact, all groups", "Do scores depend on the group?"): diagnosis.joint_p_value,
        ("bootstrap", "Do score quantiles at this level differ between some groups?"): quantiles,
        ("Kolmogorov-Smirnov", "Do scores differ between some groups, at any level?"): distances,
        ("Anderson-Darling", "Do the distributions of the groups' scores differ?"): diagnosis.anderson_darling,
    }
    if diagnosis.dependence is not None:
        p_values["score and spread", "Does the score depend on the spread?"] = diagnosis.dependence.p_value
    return [_test_cells(f"calibration: {name}", question, p, recorder) for (name, question), p in p_values.items()]


def _audit_tests(audit: Audit | None, recorder: LevelRecorder) -> list[tuple[Any, ...]]:
    """Return the tests on test rows."""
    if audit is None:
        return []
    smallest = min((row.adjusted for row in audit.table if row.rows), default=np.nan)
    p_values = {
        ("exact, each group", "Does the coverage of some group differ from the level?"): smallest,
        ("exact, all rows", "Does the coverage of all rows differ from the level?"): audit.overall.adjusted,
    }
    if audit.slab is not None:
        p_values["worst slab", "Are rows of that slab missed too often?"] = audit.slab.adjusted
    if audit.excess_risk is not None:
        p_values["classifier", "Do the features predict which rows are missed?"] = audit.excess_risk.p_value
    return [_test_cells(f"test rows: {name}", question, p, recorder) for (name, question), p in p_values.items()]


def _test_cells(name: str, question: str, p: float, recorder: LevelRecorder) -> tuple[Any, ...]:
    answer = "not tested" if np.isnan(p) else "yes" if p < SIGNIFICANT else "not significant"
    return name, question, recorder.text("" if np.isnan(p) else p_value_text(p)), recorder.text(answer)


def features_section(audit: Audit, recorder: LevelRecorder) -> Markup:
    """Return the worst slab, and the coverage by each feature."""
    slab = tag("p", recorder.text(_slab_text(audit)))
    lines = [_group_cells(row, recorder) for row in audit.by_feature]
    table = scrolling_table(_GROUP, lines, "Coverage by each feature")
    details = tag("details", tag("summary", f"Coverage by each feature ({len(lines)} strata)"), table)
    off = recorder.text(audit.features_off_the_level or "none")
    return section(
        "features",
        "Coverage by feature",
        slab,
        tag("p", "Strata whose coverage differs significantly from the level: ", off, "."),
        details,
    )


def _slab_text(audit: Audit) -> str:
    slab: GroupAudit | None = audit.slab
    if slab is None or not slab.rows:
        return "No slab of the features was found."
    return (
        f"The worst slab was found on half of the rows and tested on the other half. It is {audit.slab_rule}. There, "
        f"{slab.coverage:.3f} of {slab.rows} rows are covered (interval {slab.low:.3f} to {slab.high:.3f}; p (Holm) "
        f"{p_value_text(slab.adjusted)})."
    )


def guarantee_section(guarantee: Guarantee, level: float, recorder: LevelRecorder) -> Markup:
    """Return the guarantee, its assumption, and the probability for each group."""
    lines = [
        (group, guarantee.sizes[group], recorder.text(f"{float(share):.4f}"))
        for group, share in guarantee.coverage(level).items()
    ]
    note = (
        "The probability is over the calibration rows and the new row jointly: k / (n + 1), or more if scores are "
        "tied. After one calibration, the coverage of new rows varies around it; the fewer the calibration rows, the "
        "more it varies."
    )
    table = scrolling_table(
        ("group", "calibration rows", "probability"), lines, "Probability that a new row of the group is covered"
    )
    return section("guarantee", "Guarantee", tag("p", str(guarantee)), table, tag("p", note, class_="note"))


def options_section(diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the alternatives that were evaluated on the calibration rows."""
    lines = [
        (
            short_repr(each.nonconformity),
            "one for each group" if each.per_group else "one for all rows",
            recorder.text(each.verdict),
            recorder.text(format_number(each.width)),
        )
        for each in diagnosis.options
    ]
    header = ("score", "thresholds", "verdict", "mean width")
    return section("options", "Alternatives", scrolling_table(header, lines, "Evaluated on the calibration rows"))


def _group_cells(row: HasPValue, recorder: LevelRecorder) -> tuple[Any, ...]:
    """Return a group, its rows, and the numbers that depend on the level: the columns `_GROUP`."""
    interval = f"{row.low:.3f} to {row.high:.3f}"
    by_level = (f"{row.coverage:.3f}", interval, p_value_text(row.adjusted))
    return row.group, row.rows, *(recorder.text(number) for number in by_level)


def _coverage_picture(contents: Contents, result: Diagnosis | Audit, recorder: LevelRecorder) -> Markup:
    return coverage_chart(
        contents.shown(result.table),
        contents.group_numbers,
        level=result.level,
        tolerance=result.tolerance,
        recorder=recorder,
    )


def _groups_not_shown(contents: Contents, table: Sequence[GroupCoverage]) -> list[Markup]:
    """Return how many groups are not shown, and why."""
    empty = sum(not row.rows for row in table)
    rest = len(table) - empty - len(contents.shown(table))
    sentences = [f"{empty} groups have no rows."] * (empty > 0)
    if rest > 0:
        level = f"{contents.own.level:g}"
        sentences.append(f"{rest} more groups are not shown. They have the largest p-values at level {level}.")
    return [tag("p", " ".join(sentences), class_="note")] if sentences else []
