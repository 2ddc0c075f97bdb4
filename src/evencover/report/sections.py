"""The parts of a report, each made at one level."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evencover.diagnostics.audits import Audit, GroupAudit
from evencover.diagnostics.counts import SIGNIFICANT
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.verdicts import Covered
from evencover.diagnostics.words import in_code, probability
from evencover.intervals import Intervals
from evencover.markup import Markup, html_table, tag
from evencover.report.axes import short
from evencover.report.charts import ShownRows, color, coverage_chart, distribution_chart, rows_chart, widths_chart
from evencover.report.contents import Contents, Snapshot
from evencover.report.live import Live

VERDICTS = {
    "even": "Coverage is even.",
    "uneven": "Coverage is uneven.",
    "undecided": "There are too few rows to tell.",
}
_GROUP = ("group", "rows", "coverage", "95 % interval", "p, adjusted")


def section(identity: str, title: str, *content: Any) -> Markup:
    """Return a part of the page with a heading."""
    return tag(
        "section", tag("h2", title, id=f"{identity}-title"), *content, aria_labelledby=f"{identity}-title", id=identity
    )


def verdict(contents: Contents, shot: Snapshot, live: Live) -> Markup:
    """Return the verdict in words, and what to do."""
    judged = shot.judged
    word = live.mark(
        "div",
        tag("p", live.text(VERDICTS[judged.verdict]), class_="word"),
        tag("p", live.text(judged.advice)),
        moving={"class_": f"verdict {judged.verdict}"},
    )
    return section("verdict", "The verdict", word, tag("p", live.text(_what_it_is_on(contents, shot)), class_="note"))


def _what_it_is_on(contents: Contents, shot: Snapshot) -> str:
    """Return what the verdict was given on, and by what rule."""
    judged = shot.judged
    rule = (
        f"It is uneven where the groups differ from the level {shot.level:g} by more than chance (joint p-value under "
        f"{SIGNIFICANT:g}: {probability(judged.joint_p_value)} here), even where every group's interval lies within "
        f"{judged.tolerance:g} of the level, and undecided otherwise."
    )
    if contents.study is not None:
        n = contents.study.sizes["test"]
        return f"On the intervals of {n} test rows, which neither the model nor its calibration have seen. {rule}"
    if isinstance(judged, Audit):
        return f"On the intervals of {judged.overall.rows} rows. {rule}"
    n = sum(row.rows for row in judged.table)
    return f"On one threshold for all rows, judged by {n} calibration rows. {rule}"


def coverage(contents: Contents, found: Audit, live: Live) -> Markup:
    """Return each group's coverage on the test rows: a picture and a table."""
    rows = contents.shown(found.table)
    lines = [
        (row.group, row.rows, *_numbers(row, live), live.text(probability(row.adjusted)), live.text(short(row.width)))
        for row in [*rows, found.overall]
    ]
    picture = coverage_chart(rows, contents.places, level=found.level, tolerance=found.tolerance, live=live)
    table = html_table((*_GROUP, "mean width"), lines, caption="Coverage and mean width of each group")
    more = _left_out(contents, found)
    law = tag("p", f"The p-values hold {found.law}.", class_="note")
    return section("coverage", "What is covered in each group", tag("figure", picture), table, more, law)


def widths(contents: Contents, found: Audit, live: Live) -> Markup:
    """Return each group's mean width as a picture."""
    means = {row.group: row.width for row in contents.shown(found.table)}
    said = live.text(
        f"Mean width {short(found.overall.width)}. Empty intervals: {found.n_empty}; infinite ones: {found.n_infinite}."
    )
    picture = widths_chart(means, contents.places, most=contents.most_width, live=live)
    return section("widths", "How wide the intervals are", tag("figure", picture), tag("p", said))


def rows(contents: Contents, shown: ShownRows, made: Intervals, live: Live) -> Markup:
    """Return intervals and targets of test rows, sorted by spread."""
    inside = int(made.covers(shown.y).sum())
    said = live.text(f"{inside} of these {len(shown)} test rows are covered; diamonds are missed.")
    picture = rows_chart(shown, made, contents.places, live=live)
    return section("rows", "Intervals over the data", tag("figure", picture, tag("figcaption", said)))


def one_threshold(contents: Contents, found: Diagnosis, live: Live) -> Markup:
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
            live.text(probability(row.adjusted)),
            live.text(short(row.threshold)),
        )
        for row in rows
    ]
    picture = coverage_chart(rows, contents.places, level=found.level, tolerance=found.tolerance, live=live)
    table = html_table(
        (*_GROUP, "own threshold"), lines, caption="What one threshold will cover, and what each group's own would be"
    )
    advice = tag("p", live.text(found.advice)) if contents.own.audit is not None else ""
    return section("one-threshold", "Would one threshold do?", tag("p", said), advice, tag("figure", picture), table)


def distributions(contents: Contents, found: Diagnosis, live: Live) -> Markup:
    """Return the distributions of the groups' scores."""
    scores = {label: values for label, values in found.scores.items() if label in contents.places}
    said = (
        "Where the groups' lines cross the level (dashed, across) at the same score, one threshold is even at that "
        "level; where they coincide, at every level. The solid dark line is of all rows; upright, the threshold."
    )
    picture = distribution_chart(scores, contents.places, level=found.level, threshold=found.threshold, live=live)
    names = (
        tag("li", tag("span", class_=f"key {color(contents.places[label])}"), label, data_group=contents.places[label])
        for label in scores
    )
    legend = tag("ul", *names, class_="legend")
    return section("distributions", "The groups' scores", tag("figure", picture, legend, tag("figcaption", said)))


def tests(shot: Snapshot, live: Live) -> Markup:
    """Return every test with its p-value and what it means."""
    lines = [*_tests_before(shot.diagnosis, live), *_tests_after(shot.audit, live)]
    table = html_table(("test", "asks", "p, adjusted", "so"), lines, caption="All tests", class_="wide")
    note = (
        "A p-value is how often chance alone would make as much of a difference. Where several groups, pairs or strata "
        "are compared, it is adjusted for their number (Holm)."
    )
    return section("tests", "The tests", table, tag("p", note, class_="note"))


def _tests_before(found: Diagnosis | None, live: Live) -> list[tuple[Any, ...]]:
    """Return the tests on calibration rows."""
    if found is None:
        return []
    quantiles = min((each.adjusted for each in found.quantile_differences), default=np.nan)
    anywhere = min((each.adjusted for each in found.distribution_differences), default=np.nan)
    lines: list[tuple[Any, ...]] = [
        _line("calibration: exact, all groups", f"whether {found.null}", found.joint_p_value, live),
        _line("calibration: bootstrap", "whether some groups' quantiles at this level differ", quantiles, live),
        _line("calibration: Kolmogorov-Smirnov", "whether some groups' scores differ at any level", anywhere, live),
        _line("calibration: Anderson-Darling", "whether all groups' scores have one law", found.anderson_darling, live),
    ]
    if found.dependence is not None:
        p = found.dependence.p_value
        lines.append(_line("calibration: score and spread", "whether the score depends on the spread", p, live))
    return lines


def _tests_after(found: Audit | None, live: Live) -> list[tuple[Any, ...]]:
    """Return the tests on test rows."""
    if found is None:
        return []
    worst = min((row.adjusted for row in found.table if row.rows), default=np.nan)
    lines = [
        _line("test rows: exact, each group", "whether some group is off the level", worst, live),
        _line(
            "test rows: exact, all rows", "whether all rows together are off the level", found.overall.adjusted, live
        ),
    ]
    if found.slab is not None:
        lines.append(
            _line("test rows: worst slab", "whether a slab of the features is missed", found.slab.adjusted, live)
        )
    if found.excess_risk is not None:
        asks = "whether the features tell covered rows from missed ones"
        lines.append(_line("test rows: classifier", asks, found.excess_risk.p_value, live))
    return lines


def _line(name: str, asks: str, p: float, live: Live) -> tuple[Any, ...]:
    so = "too few rows to say" if np.isnan(p) else "yes, beyond chance" if p < SIGNIFICANT else "not beyond chance"
    return name, asks, live.text(probability(p)), live.text(so)


def features(found: Audit, live: Live) -> Markup:
    """Return coverage by each feature, the worst slab and the classifier."""
    risk = tag("p", "Features tell covered rows from missed ones: ", live.text(found.excess_risk), ".")
    slab = tag("p", live.text(_slab(found)))
    lines = [
        (row.group, row.rows, *_numbers(row, live), live.text(probability(row.adjusted))) for row in found.by_feature
    ]
    table = html_table(_GROUP, lines, caption="Coverage by each feature")
    whole = tag("details", tag("summary", f"Coverage by each feature ({len(lines)} strata)"), table)
    off = tag("p", "Off the level beyond chance: ", live.text(found.features_off_the_level or "none"), ".")
    return section("features", "Coverage by the features", slab, risk, off, whole)


def _slab(found: Audit) -> str:
    slab: GroupAudit | None = found.slab
    if slab is None or not slab.rows:
        return "No slab of the features was looked for."
    return (
        f"The worst slab, found on half of the rows and judged on the other half, is {found.slab_rule}: "
        f"{slab.coverage:.3f} of {slab.rows} rows are covered ({slab.low:.3f} to {slab.high:.3f}; p, adjusted, "
        f"{probability(slab.adjusted)})."
    )


def options(found: Diagnosis, live: Live) -> Markup:
    """Return what could be used instead, tried on the calibration rows."""
    lines = [
        (
            in_code(each.nonconformity),
            "one for each group" if each.per_group else "one for all",
            live.text(each.verdict),
            live.text(short(each.width)),
        )
        for each in found.options
    ]
    table = html_table(("score", "thresholds", "verdict", "mean width"), lines, caption="Tried on the calibration rows")
    return section("options", "What could be used instead", table)


def _numbers(row: Covered, live: Live) -> Sequence[Markup]:
    return live.text(f"{row.coverage:.3f}"), live.text(f"{row.low:.3f} to {row.high:.3f}")


def _left_out(contents: Contents, found: Audit) -> Markup | str:
    more = len(found.table) - len(contents.groups)
    if not more:
        return ""
    return tag("p", f"{more} more groups are not shown: they have no rows, or the largest p-values.", class_="note")
