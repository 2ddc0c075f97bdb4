"""The parts of a report, each made at one level."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evencover._internal.html import Markup, html_table, tag
from evencover._report.axes import short
from evencover._report.charts import ShownRows, coverage_chart, distribution_chart, key, rows_chart, widths_chart
from evencover._report.contents import Contents, LevelSnapshot
from evencover._report.level_recorder import LevelRecorder
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import p_value_text, short_repr
from evencover.diagnostics._verdict import GroupCoverage
from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals

VERDICTS = {"even": "Coverage is even.", "uneven": "Coverage is uneven, or off the level.", "undecided": "Undecided."}
_MOST_LINES = 7  # of distributions, which can be told apart
_GROUP = ("group", "rows", "coverage", "95 % interval", "p, adjusted")


def section(identity: str, title: str, *content: Any) -> Markup:
    """Return a part of the page with a heading."""
    heading = tag("h2", title, id=f"{identity}-title")
    return tag("section", heading, *content, aria_labelledby=f"{identity}-title", id=identity)


def numbers(header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str) -> Markup:
    """Return a table that scrolls by itself where it is too wide for the page."""
    table = html_table(header, rows, caption=caption)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def figure(*content: Any) -> Markup:
    """Return a picture, with what is said of it, that scrolls by itself where it is too wide for the page."""
    return tag("figure", *content, tabindex=0)


def verdict(contents: Contents, shot: LevelSnapshot, live: LevelRecorder) -> Markup:
    """Return the verdict in words, and what to do."""
    judged = shot.judged
    word = live.mark(
        "div",
        tag("p", live.text(VERDICTS[judged.verdict]), class_="word"),
        tag("p", live.text(judged.advice)),
        moving={"class_": f"verdict {judged.verdict}"},
    )
    at = tag("p", "At level ", live.text(f"{shot.level:g}"), ":", class_="note")
    return section("verdict", "The verdict", at, word, tag("p", live.text(_basis(contents, shot)), class_="note"))


def _basis(contents: Contents, shot: LevelSnapshot) -> str:
    """Return what the verdict was given on, and by what rule."""
    judged = shot.judged
    rule = (
        "It is uneven where coverage differs from the level by more than chance (joint p-value under "
        f"{SIGNIFICANT:g}; here {p_value_text(judged.joint_p_value)}) and some interval excludes the level; else even "
        f"where every group's interval lies within {judged.tolerance:g} of the level; else undecided."
    )
    if contents.study is not None:
        n = contents.study.sizes["test"]
        return f"On the intervals of {n} test rows, which neither the model nor its calibration have seen. {rule}"
    if isinstance(judged, Audit):
        return f"On the intervals of {judged.overall.rows} rows. {rule}"
    n = sum(row.rows for row in judged.table)
    return f"On one threshold for all rows, judged by {n} calibration rows. {rule}"


def coverage(contents: Contents, found: Audit, live: LevelRecorder) -> Markup:
    """Return each group's coverage on the test rows: a picture and a table."""
    rows = contents.shown(found.table)
    lines = [
        (row.group, row.rows, *_numbers(row, live), live.text(p_value_text(row.adjusted)), live.text(short(row.width)))
        for row in [*rows, *([found.overall] if len(found.table) > 1 else [])]
    ]
    picture = coverage_chart(rows, contents.places, level=found.level, tolerance=found.tolerance, live=live)
    table = numbers((*_GROUP, "mean width"), lines, "Coverage and mean width of each group")
    more = _left_out(contents, found.table)
    law = tag("p", f"The p-values hold {found.p_value_scope}.", class_="note")
    return section("coverage", "What is covered in each group", figure(picture), table, *more, law)


def widths(contents: Contents, found: Audit, live: LevelRecorder) -> Markup:
    """Return each group's mean width as a picture."""
    means = {row.group: row.width for row in contents.shown(found.table)}
    said = live.text(
        f"Mean width {short(found.overall.width)}. Empty intervals: {found.n_empty}; infinite ones: {found.n_infinite}."
    )
    picture = widths_chart(means, contents.places, most=contents.most_width, live=live)
    return section("widths", "How wide the intervals are", figure(picture), tag("p", said))


def rows(contents: Contents, shown: ShownRows, made: Intervals, live: LevelRecorder) -> Markup:
    """Return intervals and targets of test rows, sorted by spread."""
    inside = int(made.covers(shown.y).sum())
    said = live.text(f"{inside} of these {len(shown)} test rows are covered; diamonds are missed.")
    picture = rows_chart(shown, made, contents.places, live=live)
    return section("rows", "Intervals over the data", figure(picture, tag("figcaption", said)))


def one_threshold(contents: Contents, found: Diagnosis, live: LevelRecorder) -> Markup:
    """Return what one threshold for all rows would cover, from the calibration rows."""
    rows = contents.shown(found.table)
    said = live.text(
        f"One threshold for all rows, {short(found.threshold)}, is {found.verdict} at level {found.level:g}, "
        "by the calibration rows alone."
    )
    lines = [
        (
            row.group,
            row.rows,
            *_numbers(row, live),
            live.text(p_value_text(row.adjusted)),
            live.text(short(row.threshold)),
        )
        for row in rows
    ]
    picture = coverage_chart(rows, contents.places, level=found.level, tolerance=found.tolerance, live=live)
    table = numbers(
        (*_GROUP, "own threshold"), lines, "What one threshold will cover, and what each group's own would be"
    )
    more = _left_out(contents, found.table)
    advice = tag("p", live.text(found.advice)) if contents.own.audit is not None else ""
    return section("one-threshold", "Would one threshold do?", tag("p", said), advice, figure(picture), table, *more)


def distributions(contents: Contents, found: Diagnosis, live: LevelRecorder) -> Markup:
    """Return the distributions of the groups' scores; of many groups, of those with the smallest p-values."""
    own = contents.own.diagnosis or found
    surest = sorted(contents.shown(own.table), key=lambda row: (np.isnan(row.adjusted), row.adjusted))[:_MOST_LINES]
    drawn = {row.group for row in surest}
    scores = {label: values for label, values in found.scores.items() if label in drawn}
    some = (
        f" Drawn are the {_MOST_LINES} groups with the smallest p-values." if len(contents.groups) > len(drawn) else ""
    )
    said = (
        "The score is how far a target is from what the model says. Where the groups' lines cross the level (dashed, "
        "across) at the same score, one threshold is even at that level; where they coincide, at every level. The "
        f"line in the colour of the text is of all rows; dashed, upright, is the threshold.{some}"
    )
    picture = distribution_chart(
        found.inputs.scores, scores, contents.places, level=found.level, threshold=found.threshold, live=live
    )
    places = contents.places
    names = (tag("li", key(places[label]), " ", label, data_group=places[label]) for label in scores)
    caption = tag("figcaption", said)
    return section("distributions", "The groups' scores", figure(picture, tag("ul", *names, class_="legend"), caption))


def tests(shot: LevelSnapshot, live: LevelRecorder) -> Markup:
    """Return every test with its p-value and what it means."""
    lines = [*_tests_before(shot.diagnosis, live), *_tests_after(shot.audit, live)]
    table = numbers(("test", "asks whether", "p, adjusted", "answer"), lines, "All tests")
    note = (
        "A p-value is how often chance alone would make as much of a difference, or more. Where several groups, "
        "pairs or strata are compared, it is adjusted for their number (Holm). Not tested is what takes more rows or "
        "groups, and pairs of more than 30 groups. All levels are judged by the same rows, each as if it had been "
        "chosen beforehand: a level that is picked for its verdict proves nothing."
    )
    return section("tests", "The tests", table, tag("p", note, class_="note"))


def _tests_before(found: Diagnosis | None, live: LevelRecorder) -> list[tuple[Any, ...]]:
    """Return the tests on calibration rows."""
    if found is None:
        return []
    quantiles = min((each.adjusted for each in found.quantile_differences), default=np.nan)
    anywhere = min((each.adjusted for each in found.distribution_differences), default=np.nan)
    lines: list[tuple[Any, ...]] = [
        _line("calibration: exact, all groups", "scores depend on the group", found.joint_p_value, live),
        _line("calibration: bootstrap", "some groups' score quantiles at this level differ", quantiles, live),
        _line("calibration: Kolmogorov-Smirnov", "some groups' scores differ at any level", anywhere, live),
        _line(
            "calibration: Anderson-Darling", "the groups' scores differ in distribution", found.anderson_darling, live
        ),
    ]
    if found.dependence is not None:
        p = found.dependence.p_value
        lines.append(_line("calibration: score and spread", "the score depends on the spread", p, live))
    return lines


def _tests_after(found: Audit | None, live: LevelRecorder) -> list[tuple[Any, ...]]:
    """Return the tests on test rows."""
    if found is None:
        return []
    worst = min((row.adjusted for row in found.table if row.rows), default=np.nan)
    lines = [
        _line("test rows: exact, each group", "some group is off the level", worst, live),
        _line("test rows: exact, all rows", "all rows together are off the level", found.overall.adjusted, live),
    ]
    if found.slab is not None:
        lines.append(
            _line("test rows: worst slab", "rows of that slab are missed too often", found.slab.adjusted, live)
        )
    if found.excess_risk is not None:
        asks = "the features tell covered rows from missed ones"
        lines.append(_line("test rows: classifier", asks, found.excess_risk.p_value, live))
    return lines


def _line(name: str, asks: str, p: float, live: LevelRecorder) -> tuple[Any, ...]:
    answer = "not tested" if np.isnan(p) else "yes, beyond chance" if p < SIGNIFICANT else "not beyond chance"
    return name, asks, live.text("" if np.isnan(p) else p_value_text(p)), live.text(answer)


def features(found: Audit, live: LevelRecorder) -> Markup:
    """Return the worst slab, and coverage by each feature."""
    slab = tag("p", live.text(_slab(found)))
    lines = [
        (row.group, row.rows, *_numbers(row, live), live.text(p_value_text(row.adjusted))) for row in found.by_feature
    ]
    table = numbers(_GROUP, lines, "Coverage by each feature")
    whole = tag("details", tag("summary", f"Coverage by each feature ({len(lines)} strata)"), table)
    off = tag("p", "Off the level beyond chance: ", live.text(found.features_off_the_level or "none"), ".")
    return section("features", "Coverage by the features", slab, off, whole)


def _slab(found: Audit) -> str:
    slab: GroupAudit | None = found.slab
    if slab is None or not slab.rows:
        return "No slab of the features was found."
    return (
        f"The worst slab, found on half of the rows and judged on the other half, is {found.slab_rule}: "
        f"{slab.coverage:.3f} of {slab.rows} rows are covered ({slab.low:.3f} to {slab.high:.3f}; p, adjusted, "
        f"{p_value_text(slab.adjusted)})."
    )


def guarantee(promise: Guarantee, level: float, live: LevelRecorder) -> Markup:
    """Return the promise and what it rests on."""
    lines = [
        (group, promise.sizes[group], live.text(f"{float(share):.4f}"))
        for group, share in promise.coverage(level).items()
    ]
    said = "Probability that a new row of the group is covered"
    note = (
        "The probability is over calibration rows and new row together, k / (n + 1) or, where scores are tied, more; "
        "for one calibration it scatters around that, the more the fewer its rows."
    )
    table = numbers(("group", "calibration rows", "probability"), lines, said)
    return section("guarantee", "What is promised", tag("p", str(promise)), table, tag("p", note, class_="note"))


def options(found: Diagnosis, live: LevelRecorder) -> Markup:
    """Return what could be used instead, tried on the calibration rows."""
    lines = [
        (
            short_repr(each.nonconformity),
            "one for each group" if each.per_group else "one for all",
            live.text(each.verdict),
            live.text(short(each.width)),
        )
        for each in found.options
    ]
    table = numbers(("score", "thresholds", "verdict", "mean width"), lines, "Tried on the calibration rows")
    return section("options", "What could be used instead", table)


def _numbers(row: GroupCoverage, live: LevelRecorder) -> Sequence[Markup]:
    return live.text(f"{row.coverage:.3f}"), live.text(f"{row.low:.3f} to {row.high:.3f}")


def _left_out(contents: Contents, table: Sequence[GroupCoverage]) -> list[Markup]:
    """Return which groups are not shown, and why."""
    empty = sum(not row.rows for row in table)
    rest = len(table) - empty - len(contents.shown(table))
    said = [f"{empty} groups have no rows."] * (empty > 0)
    said += [f"{rest} more groups are not shown: they have the largest p-values at level {contents.own.level:g}."] * (
        rest > 0
    )
    return [tag("p", " ".join(said), class_="note")] if said else []
