"""The sections of a report that depend on the level, each made at one level."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.one_threshold import Option
from evencover.diagnostics.verdicts import GroupAudit, GroupCoverage
from evencover.display.html import Markup, html_table, tag
from evencover.display.text import join_first, p_value_text, short_repr
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals
from evencover.report.charts import (
    ShownRows,
    coverage_chart,
    distribution_chart,
    format_number,
    legend_line,
    rows_chart,
    widths_chart,
)
from evencover.report.slider import LevelRecorder
from evencover.report.snapshots import Contents, LevelSnapshot
from evencover.scores.one_sided import is_one_sided
from evencover.scores.support import without_support
from evencover.studies import Study
from evencover.words.advice import advice_on_diagnosis
from evencover.words.answers import coverage_text, width_text
from evencover.words.results import (
    AUDIT_COLUMNS,
    SEVERAL_MODELS,
    WITHOUT_SCORE,
    WITHOUT_WIDTH,
    audit_cells,
    diagnosis_notes,
    p_value_scope,
    replaced_text,
)
from evencover.words.studies import diagnosis_rows, guarantee_text, law_text, one_threshold_text

_MAX_LINES = 7  # of distributions that a reader can distinguish
_GROUP = ("group", "rows", "coverage", "95 % interval", "p (Holm)")


def section(identity: str, title: str, *content: Any) -> Markup:
    """Return a part of the page that is folded below its heading."""
    heading = tag("summary", tag("h2", title, id=f"{identity}-title"))
    return tag("details", heading, *content, aria_labelledby=f"{identity}-title", id=identity, class_="part")


def scrolling_table(header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str) -> Markup:
    """Return a table that scrolls by itself if it is wider than the page."""
    table = html_table(header, rows, caption=caption)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def figure(*content: Any) -> Markup:
    """Return a picture with its caption, which scrolls by itself if it is wider than the page."""
    return tag("figure", *content, tabindex=0)


def rule_section(contents: Contents, snapshot: LevelSnapshot, recorder: LevelRecorder) -> Markup:
    """Return the rule behind the verdict."""
    verdict = tag("p", "Verdict at level ", recorder.text(f"{snapshot.level:g}: {snapshot.result.verdict}"), ".")
    rule = tag("p", recorder.text(_verdict_rule(contents, snapshot)))
    return section("rule", "When is it even?", verdict, rule)


def _verdict_rule(contents: Contents, snapshot: LevelSnapshot) -> str:
    """Return which rows the verdict uses, and by what rule."""
    result = snapshot.result
    rule = (
        f"It is even if all groups are shown to lie within {result.tolerance:.2g} of the level. {_how_shown(result)} "
        "It is uneven if the coverage of some group, or of all rows, is shown to differ from the level (p-value below "
        f"{SIGNIFICANT:g}, and the interval excludes the level) and is not shown to lie within "
        f"{result.tolerance:.2g} of it. Otherwise it is undecided."
    )
    if isinstance(result, Audit):
        return (
            f"The verdict is on the intervals of {result.overall.rows} test rows.{_kept_text(contents)} The 95 % "
            f"intervals of the groups use {result.evidence}. {rule}"
        )
    n = sum(row.rows for row in result.table)
    return f"The verdict is on one threshold for all rows. It uses {n} calibration rows. {rule}"


def _how_shown(result: Diagnosis | Audit) -> str:
    """Return how groups are shown to lie within the tolerance, as a sentence."""
    if not isinstance(result, Audit) or not result.own_thresholds or result.evidence == "test rows":
        shown = (
            "This is shown if one-sided tests at 5 % reject, for each group, that it is farther away on either side."
        )
    else:
        shown = "This is shown if the joint distribution of their coverages gives it a probability of at least 95 %."
    if not isinstance(result, Audit) or result.split_at_random or result.evidence == "test rows":
        return shown
    return (
        f"{shown} The rows may have changed since the calibration, so tests of the test rows alone must reject this, "
        "too, at 20 %."
    )


def _kept_text(contents: Contents) -> str:
    """Return why the test rows are a fair test of a study's intervals, as sentences after a space."""
    if contents.study is None:
        return ""
    return f" {law_text(contents.study) or 'Neither the model nor the calibration used them.'}"


def coverage_section(contents: Contents, audit: Audit, recorder: LevelRecorder, misses: str = "") -> Markup:
    """Return each group's coverage and width on the test rows: a table, and a picture of the widths."""
    rows = contents.shown(audit.table)
    end = WITHOUT_SCORE if contents.side is None else WITHOUT_WIDTH
    lines = [
        (row.group, row.rows, *map(recorder.text, audit_cells(row)[2:end]))
        for row in [*rows, *([audit.overall] if len(audit.table) > 1 else [])]
    ]
    what = "Coverage and mean width" if contents.side is None else "Coverage"
    table = scrolling_table(AUDIT_COLUMNS[:end], lines, f"{what} of each group")
    note = (
        "Coverage is the share of the test rows that is covered. The estimates and intervals use "
        f"{audit.evidence}; the intervals of all groups hold at the same time with 95 % confidence. The p-values "
        f"{p_value_scope(audit)}."
    )
    unusual = f"Empty intervals: {audit.n_empty}. Infinite {contents.noun}: {audit.n_infinite}. {replaced_text(audit)}"
    summary = width_text(audit.quality) if contents.side else _widths_text(audit)
    return section(
        "coverage",
        "The groups in numbers",
        table,
        *_groups_not_shown(contents, audit.table),
        tag("p", recorder.text(note), class_="note"),
        tag("p", recorder.text(misses)) if misses else "",
        _widths_picture(contents, rows, recorder) if contents.side is None else "",
        tag("p", recorder.text(f"{summary} {unusual}".rstrip()), class_="note"),
    )


def _widths_text(audit: Audit) -> str:
    one = format_number(audit.quality.one_threshold_width)
    return f"Mean width of all rows: {format_number(audit.overall.width)}; with one threshold for all rows: {one}."


def _widths_picture(contents: Contents, rows: Sequence[GroupAudit], recorder: LevelRecorder) -> Markup:
    widths = {row.group: row.width for row in rows}
    return figure(widths_chart(widths, contents.group_numbers, max_width=contents.max_width, recorder=recorder))


def rows_section(contents: Contents, shown: ShownRows, intervals: Intervals, recorder: LevelRecorder) -> Markup:
    """Return intervals and targets of test rows, sorted by spread."""
    n_covered = int(intervals.covers(shown.y).sum())
    text = f"{n_covered} of these {len(shown)} test rows are covered. Diamonds are missed targets."
    picture = rows_chart(shown, intervals, contents.group_numbers, recorder=recorder)
    return section(
        "rows", f"{contents.noun.capitalize()} of test rows", figure(picture, tag("figcaption", recorder.text(text)))
    )


def one_threshold_section(contents: Contents, diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the expected coverage of one threshold for all rows, estimated on the calibration rows."""
    text = recorder.text(
        f"{one_threshold_text(contents.study).capitalize()}, {format_number(diagnosis.threshold)}, at level "
        f"{diagnosis.level:g}. Verdict from "
        f"the {diagnosis_rows(contents.study)} alone: {diagnosis.verdict}."
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
        *(tag("p", note) for note in diagnosis_notes(diagnosis)),
        tag("p", recorder.text(advice_on_diagnosis(diagnosis, contents.style))) if contents.own.audit else "",
        figure(_coverage_picture(contents, diagnosis, recorder)),
        table,
        *_groups_not_shown(contents, diagnosis.table),
    )


def distributions_section(contents: Contents, diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the distributions of the groups' scores; of many groups, of those with the smallest p-values."""
    own = contents.own.diagnosis or diagnosis
    by_p_value = sorted(contents.shown(own.table), key=_by_p_value)
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
        "A yes is no alarm by itself: the verdict uses only the exact tests of the groups and of all rows, and that of "
        "the worst region if the groups share a threshold. Not every difference matters. A p-value is the probability "
        "of a difference at least this large if there were none in truth. Where several groups, pairs or strata are "
        "compared, it is adjusted for their number (Holm). Not tested: more rows or groups are needed, or there are "
        "more than 30 groups to compare in pairs. All levels are tested on the same rows, each as if it had been "
        "chosen beforehand. Do not choose a level by its verdict: such a verdict proves nothing."
    )
    return section("tests", "Statistical tests", table, tag("p", note, class_="note"))


def _calibration_tests(diagnosis: Diagnosis | None, recorder: LevelRecorder) -> list[tuple[Any, ...]]:
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
    if audit is None:
        return []
    smallest = min((row.adjusted for row in audit.table if row.rows), default=np.nan)
    p_values = {
        ("exact, each group", "Does the coverage of some group differ from the level?"): smallest,
        ("exact, all rows", "Does the coverage of all rows differ from the level?"): audit.overall.adjusted,
    }
    if audit.by_feature:  # at some levels, all rows can be covered; then there is no worst region
        region = np.nan if audit.worst_region is None else audit.worst_region.adjusted
        p_values["worst region", "Are rows of that region missed too often?"] = region
    if audit.excess_risk is not None:
        p_values["classifier", "Do the features predict which rows are missed?"] = audit.excess_risk.p_value
    return [_test_cells(f"test rows: {name}", question, p, recorder) for (name, question), p in p_values.items()]


def _test_cells(name: str, question: str, p: float, recorder: LevelRecorder) -> tuple[Any, ...]:
    answer = "not tested" if np.isnan(p) else "yes" if p < SIGNIFICANT else "not significant"
    return name, question, recorder.text("" if np.isnan(p) else p_value_text(p)), recorder.text(answer)


def features_section(contents: Contents, audit: Audit, recorder: LevelRecorder) -> Markup:
    """Return the worst region, and the coverage by each feature."""
    region = tag("p", recorder.text(_region_text(audit)))
    own = {row.group: row for row in (contents.own.audit or audit).by_feature}
    order = sorted(range(len(audit.by_feature)), key=lambda index: _by_p_value(own[audit.by_feature[index].group]))
    lines = [_group_cells(audit.by_feature[index], recorder) for index in order]
    table = scrolling_table(_GROUP, lines, "Coverage by each feature; each 95 % interval holds by itself")
    details = tag("details", tag("summary", f"Coverage by each feature ({len(lines)} strata)"), table)
    off = recorder.text(join_first(map(coverage_text, audit.features_off)) or "none")
    return section(
        "features",
        "Coverage by feature",
        region,
        tag("p", "Strata whose coverage differs significantly from the level: ", off, "."),
        details,
    )


def _region_text(audit: Audit) -> str:
    region: GroupAudit | None = audit.worst_region
    if region is None or not region.rows:
        return "No region of the features was found."
    confirmed = region.adjusted < SIGNIFICANT
    found = "was confirmed" if confirmed else "was not confirmed: there, coverage is not significantly low"
    return (
        f"A search on half of the rows found low coverage for {audit.region_rule}. On the other half, it {found}. "
        f"There, {region.coverage:.3f} of {region.rows} rows are covered (interval "
        f"{region.low:.3f} to {region.high:.3f}; p (Holm) {p_value_text(region.adjusted)})."
    )


def guarantee_section(guarantee: Guarantee, level: float, recorder: LevelRecorder) -> Markup:
    """Return the guarantee, its assumption, and the probability for each group if it is known."""
    if not guarantee.exact:
        return section("guarantee", "Guarantee", tag("p", str(guarantee)))
    lines = [
        (group, guarantee.sizes[group], recorder.text(f"{float(share):.4f}"))
        for group, share in guarantee.coverage(level).items()
    ]
    note = (
        "The probability is over the calibration rows and the new row jointly: k / (n + 1), or more if scores are "
        "tied. A calibration row that is the edge between two groups is calibrated separately, and not counted here. "
        "After one calibration, the coverage of new rows varies around it; the fewer the calibration rows, the "
        "more it varies."
    )
    table = scrolling_table(
        ("group", "calibration rows", "probability"), lines, "Probability that a new row of the group is covered"
    )
    return section("guarantee", "Guarantee", tag("p", str(guarantee)), table, tag("p", note, class_="note"))


def weaker_guarantee_section(study: Study, level: float, recorder: LevelRecorder) -> Markup:
    """Return the guarantee of a cross-fitted study: what is guaranteed, what is usual, and why."""
    left_out = "it" if study.clusters is None else f"any row of its {study.clusters}"
    text = (
        "The rows took turns to fit models, to calibrate the intervals and to test them. A row is calibrated, and "
        f"tested, by models that were fitted without {left_out}. This uses all rows, which matters if there are few. "
        "The price is a weaker guarantee than that of rows which were kept aside."
    )
    guarantee = tag("p", recorder.text(guarantee_text(study, level)))
    return section("guarantee", "Guarantee", guarantee, tag("p", text), tag("p", str(study.regressor.guarantee_)))


def options_section(contents: Contents, diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the alternatives that were evaluated on the calibration rows."""
    exact = diagnosis.inputs.groups_are_guaranteed
    lines = [
        (
            short_repr(without_support(each.nonconformity)),
            "one for each group" if each.per_group else "one for all rows",
            recorder.text(_option_verdict(each, exact=exact)),
            *([] if is_one_sided(each.nonconformity) else [recorder.text(format_number(each.width))]),
        )
        for each in diagnosis.options
    ]
    one_sided = any(is_one_sided(each.nonconformity) for each in diagnosis.options)  # then there are no widths
    header = ("score", "thresholds", "verdict", *([] if one_sided else ["mean width"]))
    note = (
        "Guaranteed: on average over many calibrations, every group is covered at the level. After one calibration, "
        "its coverage can be a little lower or higher; that is what the verdict on the test rows is about."
    )
    tails = contents.study is not None and contents.study.tails == "separate"
    caption = (
        f"Evaluated on the {diagnosis_rows(contents.study)}"
        + ", with the same threshold for both ends of an interval" * tails
        + ", so widths differ from those of test rows" * (not one_sided)
    )
    table = scrolling_table(header, lines, caption)
    return section(
        "options",
        "Alternatives",
        table,
        tag("p", SEVERAL_MODELS if diagnosis.inputs.several_models else note, class_="note"),
    )


def _option_verdict(option: Option, *, exact: bool) -> str:
    """Return the verdict on an alternative; thresholds per group are even by their guarantee, if it is exact."""
    if not option.per_group or option.verdict != "even":
        return option.verdict
    return "even (guaranteed)" if exact else "undecided"


def _group_cells(row: GroupCoverage, recorder: LevelRecorder) -> tuple[Any, ...]:
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


def _by_p_value(row: GroupCoverage) -> tuple[bool, float]:
    """Return the key that sorts groups by p-value, those without one last."""
    return bool(np.isnan(row.adjusted)), row.adjusted


def _groups_not_shown(contents: Contents, table: Sequence[GroupCoverage]) -> list[Markup]:
    """Return how many groups are not shown, and why."""
    empty = sum(not row.rows for row in table)
    rest = len(table) - empty - len(contents.shown(table))
    sentences = [f"{empty} groups have no rows."] * (empty > 0)
    if rest > 0:
        level = f"{contents.own.level:g}"
        sentences.append(f"{rest} more groups are not shown. They have the largest p-values at level {level}.")
    return [tag("p", " ".join(sentences), class_="note")] if sentences else []
