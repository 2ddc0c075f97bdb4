"""The details of a report: sections that depend on the level, each made at every level, and those that do not."""

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evencover.diagnostics.audits import Audit
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.one_threshold import Option
from evencover.diagnostics.recommendations import Recommendation, rows_for_groups
from evencover.diagnostics.verdicts import GroupAudit, GroupCoverage, by_p_value
from evencover.display.html import Markup, html_table, joined, tag
from evencover.display.text import join_first, p_value_text, share_number, short_repr
from evencover.groups import first_few
from evencover.guarantees import Guarantee
from evencover.inputs.optional import package_versions
from evencover.intervals import Intervals
from evencover.models.auto import StackReport
from evencover.models.encoding import Encoded, EncodedCategories, EncodedDate
from evencover.report.charts import (
    coverage_chart,
    distribution_chart,
    format_number,
    legend_line,
    rows_chart,
    widths_chart,
)
from evencover.report.snapshots import Contents, LevelRecorder, LevelSnapshot, ShownRows
from evencover.scores import BUILTIN_SCORES
from evencover.scores.one_sided import is_one_sided
from evencover.scores.support import without_support
from evencover.studies import Study
from evencover.words.answers import also_text, coverage_text, diagnosis_headline, width_text
from evencover.words.results import (
    AUDIT_COLUMNS,
    SEVERAL_MODELS,
    WITHOUT_SCORE,
    WITHOUT_WIDTH,
    audit_cells,
    compared_with,
    diagnosis_notes,
    evidence_text,
    p_value_scope,
    replaced_text,
)
from evencover.words.settings import SettingStyle
from evencover.words.studies import diagnosis_rows, guarantee_text, law_text, one_threshold_text, study_notes

_MAX_LINES = 7  # of distributions that a reader can distinguish
_GROUP = ("group", "rows", "coverage", "95 % interval", "p (Holm)")


def level_sections(contents: Contents, snapshot: LevelSnapshot, recorder: LevelRecorder) -> Iterator[Markup]:
    """Yield the parts that depend on the level, in the order of reading."""
    if snapshot.audit is not None:
        yield coverage_section(contents, snapshot.audit, recorder, snapshot.misses)
    if contents.rows is not None and snapshot.intervals is not None:
        yield rows_section(contents, contents.rows, snapshot.intervals, recorder)
    if snapshot.diagnosis is not None:
        yield one_threshold_section(contents, snapshot.diagnosis, recorder)
        yield distributions_section(contents, snapshot.diagnosis, recorder)
        if snapshot.diagnosis.options:
            yield options_section(contents, snapshot.diagnosis, recorder)
    yield rule_section(contents, snapshot, recorder)
    yield tests_section(snapshot, recorder)
    if snapshot.audit is not None and snapshot.audit.by_feature:
        yield features_section(contents, snapshot.audit, recorder)
    if contents.study is not None and contents.study.evidence.kind == "cross":
        yield weaker_guarantee_section(contents.study, snapshot.level, recorder)
    elif contents.study is not None:
        yield guarantee_section(contents.study.regressor.guarantee_, snapshot.level, recorder)


def static_sections(result: Study | Diagnosis | Audit, contents: Contents) -> Markup:
    """Return the parts that do not depend on the level."""
    if not isinstance(result, Study):
        seed = result.seed if isinstance(result, Audit) else result.inputs.seed
        settings: dict[str, Any] = {"level": f"{result.level:g}", "tolerance": f"{result.tolerance:.2g}", "seed": seed}
        again = reproduction_section(settings, contents.command)
        return joined([assumptions_section(result), again, glossary_section()])
    plan = result.plan
    n_held_out = len(result.calibration) + len(result.test) * (result.evidence.kind == "order")
    sizes = {"held_out": f"{n_held_out} rows, by default" if plan.held_out is None else f"{plan.held_out:g}"}
    settings = {
        "level": f"{plan.level:g}",
        "tolerance": f"{result.audit.tolerance:.2g}",
        "seed": plan.seed,
        **({"calibration": "cross", "method": result.regressor.method} if result.evidence.kind == "cross" else sizes),
        "fitted model": " ".join(repr(result.model).split()),
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
        f"{_how_off(result)} Otherwise it is undecided."
    )
    if isinstance(result, Audit):
        return (
            f"The verdict is on the intervals of {result.overall.rows} test rows.{_kept_text(contents)} The 95 % "
            f"intervals of the groups use {result.evidence}. {rule}"
        )
    n = sum(row.rows for row in result.table)
    return f"The verdict is on one threshold for all rows. It uses {n} calibration rows. {rule}"


def _how_off(result: Diagnosis | Audit) -> str:
    """Return how groups are shown to be off, as a sentence."""
    off, other = "some group, or of all rows,", "the level"
    if isinstance(result, Audit) and result.in_turn:
        if result.own_thresholds and result.evidence == "calibration rows":
            return "It cannot be uneven: the coverage of these groups follows from the law of their own thresholds."
        if result.own_thresholds:
            return "It cannot be uneven: each group has a threshold of its own, so groups are not compared."
        off, other = "some group, or of the worst region,", compared_with(result)
    return (
        f"It is uneven if the coverage of {off} is shown to differ from {other} (p-value below {SIGNIFICANT:g}, and "
        f"the interval excludes the level) and is not shown to lie within {result.tolerance:.2g} of the level."
    )


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
    return f" {law_text(contents.study) or 'The model did not see them, nor did the thresholds that test them.'}"


def coverage_section(contents: Contents, audit: Audit, recorder: LevelRecorder, misses: str = "") -> Markup:
    """Return each group's coverage and width on the test rows: a table, and a picture of the widths."""
    rows = contents.shown(audit.table)
    end = WITHOUT_SCORE if contents.side is None else WITHOUT_WIDTH
    lines = [
        (row.group, row.rows, *map(recorder.text, audit_cells(row)[2:end]))
        for row in [*rows, *([audit.overall] if len(audit.table) > 1 else [])]
    ]
    widths = {row.group: row.width for row in rows}
    what = "Coverage and mean width" if contents.side is None else "Coverage"
    table = scrolling_table(AUDIT_COLUMNS[:end], lines, f"{what} of each group")
    note = (
        "Coverage is the share of the test rows that is covered. The estimates and intervals use "
        f"{evidence_text(audit)}; the intervals of all groups hold at the same time with 95 % confidence. The p-values "
        f"{p_value_scope(audit)}."
    )
    untested = f" Infinite only in the test: {audit.n_untested}." * (audit.n_untested > 0)
    unusual = (
        f"Empty intervals: {audit.n_empty}. Infinite {contents.noun}: {audit.n_infinite}.{untested} "
        f"{replaced_text(audit)}"
    )
    summary = width_text(audit.quality) if contents.side else _widths_text(audit)
    return section(
        "coverage",
        "The groups in numbers",
        table,
        *_groups_not_shown(contents, audit.table),
        tag("p", recorder.text(note), class_="note"),
        tag("p", recorder.text(misses)) if misses else "",
        figure(widths_chart(widths, contents.group_numbers, max_width=contents.max_width, recorder=recorder))
        if contents.side is None
        else "",
        tag("p", recorder.text(f"{summary} {unusual}".rstrip()), class_="note"),
    )


def _widths_text(audit: Audit) -> str:
    one = format_number(audit.quality.one_threshold_width)
    return f"Mean width of all rows: {format_number(audit.overall.width)}; with one threshold for all rows: {one}."


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
        tag("p", recorder.text(diagnosis_headline(diagnosis))) if contents.own.audit else "",
        figure(_coverage_picture(contents, diagnosis, recorder)),
        table,
        *_groups_not_shown(contents, diagnosis.table),
    )


def distributions_section(contents: Contents, diagnosis: Diagnosis, recorder: LevelRecorder) -> Markup:
    """Return the distributions of the groups' scores; of many groups, of those with the smallest p-values."""
    own = contents.own.diagnosis or diagnosis
    drawn = {row.group for row in sorted(contents.shown(own.table), key=by_p_value)[:_MAX_LINES]}
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
        "compared, it is adjusted for their number (Holm). Not tested: more rows or groups are needed, there are more "
        "than 30 groups to compare in pairs, or the answer follows from the thresholds. All levels are tested on the "
        "same rows, each as if it had been chosen beforehand. Do not choose a level by its verdict: such a verdict "
        "proves nothing."
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
        ("exact, each group", f"Does the coverage of some group differ from {compared_with(audit)}?"): smallest,
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
    order = sorted(range(len(audit.by_feature)), key=lambda index: by_p_value(own[audit.by_feature[index].group]))
    lines = [_group_cells(audit.by_feature[index], recorder) for index in order]
    table = scrolling_table(_GROUP, lines, "Coverage by each feature; each 95 % interval holds by itself")
    details = tag("details", tag("summary", f"Coverage by each feature ({len(lines)} strata)"), table)
    off = recorder.text(join_first(map(coverage_text, audit.features_off)) or "none")
    return section(
        "features",
        "Coverage by feature",
        region,
        tag("p", f"Strata whose coverage differs significantly from {compared_with(audit)}: ", off, "."),
        details,
    )


def _region_text(audit: Audit) -> str:
    region: GroupAudit | None = audit.worst_region
    if region is None or not region.rows:
        return "No region of the features was found."
    lower = "lower than that of the other rows with the same threshold" if audit.in_turn else "low"
    confirmed = region.adjusted < SIGNIFICANT
    found = "it is" if confirmed else "it is not shown to be"
    return (
        f"A search on half of the rows found low coverage for {audit.region_rule}. On the other half, {found} {lower}: "
        f"there, {share_number(region.coverage)} of {region.rows} rows are covered (interval "
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
        "its coverage can be a little lower or higher; the verdict is about that."
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
    by_level = (share_number(row.coverage), interval, p_value_text(row.adjusted))
    group = f"{row.group} ({also})" if (also := also_text(row)) else row.group
    return group, row.rows, *(recorder.text(number) for number in by_level)


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
    sentences = [f"{empty} {'group has' if empty == 1 else 'groups have'} no rows."] * (empty > 0)
    if rest > 0:
        level = f"{contents.own.level:g}"
        sentences.append(f"{rest} more groups are not shown. They have the largest p-values at level {level}.")
    return [tag("p", " ".join(sentences), class_="note")] if sentences else []


_PACKAGES = ("evencover", "numpy", "scipy", "scikit-learn", "quantile-forest", "torch")

_GLOSSARY = {
    "right": "An interval is right if it contains the true value of its row.",
    "even": "All groups are right equally often: their true shares lie within the tolerance of the level.",
    "undecided": "No group is shown to be off, but the rows are too few to show that all groups are within the "
    "tolerance.",
    "tolerance": "The largest distance between a group's share and the level that counts as even, such as 0.03 (three "
    "percentage points).",
    "exchangeable": "The order of the rows carries no information, for example because all rows are independent and "
    "come from one source. Rows of another country, or of a later year, may differ.",
    "strata": "Groups of rows by the values of one feature.",
    "R2": "The share of the target's variation that the predictions explain: 1 is perfect, 0 is no better than always "
    "predicting the mean.",
    "level": "The share of targets that the intervals should contain, such as 0.9 (nominal coverage).",
    "coverage": "The share of targets that the intervals do contain.",
    "group": "Rows that should be covered equally often, such as rows with low, medium and high noise.",
    "spread": "The size of the error that the model expects, row by row.",
    "score": "How unusual a target is, given the prediction: its distance from the prediction (Residual), this "
    "distance divided by the spread (Normalized), or its distance from the model's own bounds (IntervalDistance).",
    **{each.__name__: each.description for each in BUILTIN_SCORES if hasattr(each, "description")},
    "log of the target": "The model was fitted to the logarithm of the target. Scores are computed on this scale, and "
    "intervals are mapped back to the unit of the target. So they are usually wider above the prediction than below.",
    "threshold": "An interval contains the targets whose score is at most the threshold. There is one threshold for "
    "all rows (Marginal), or one for each group. With separate tails, each end of the intervals has its own.",
    "calibration rows": "Rows that were not used to fit the model. Their scores set the thresholds.",
    "interval, 95 %": "Where the true coverage of a group lies. In about nineteen of twenty cases, the intervals of "
    "all groups contain the true coverages.",
    "p (Holm)": "A p-value, adjusted for the number of comparisons. If it is small, chance hardly explains the "
    "difference.",
    "worst region": "The values of the features with the lowest coverage, found by a decision tree.",
    "Hypergeometric": "The exact distribution of the number of covered rows with some property, if the property has "
    "nothing to do with coverage, given how many rows are covered in all.",
    "BetaBinomial": "The exact distribution of the number of rows that a calibrated threshold covers. It includes the "
    "chance of the calibration.",
}

_CROSS_TERMS = {
    "fold": "A part of the rows that is left out when a model is fitted. The model then predicts these rows.",
    "calibration rows": "Rows that set the intervals: their errors show how wide intervals must be. Each of them was "
    "predicted by a model that was fitted without it.",
    "test rows": "Rows that show how often the intervals are right. Each of them was tested by models that were fitted "
    "and calibrated without it.",
}


def stack_section(report: StackReport) -> Markup:
    """Return the regressors and distributions that were compared on the training rows, and their weights."""
    captions = (
        "Root mean squared errors out of fold, in the unit of the target",
        "Interval scores out of fold, after calibration",
    )
    tables = (
        scrolling_table(header, rows, caption)
        for (header, rows), caption in zip(report.tables(), captions, strict=True)
    )
    text = (
        "The prediction is the weighted mean of regressors with the smallest error, and its distribution is a mean of "
        "distributions of the residuals. All were compared on the training rows, out of fold: each row was predicted "
        "by models that were fitted without it. A regressor with weight 0.00 would improve the mean little or not at "
        "all, so it is not used. A distribution that is nearly as good as the best keeps some weight, because the "
        "best one may be so by chance."
    )
    notes = (tag("p", note) for note in report.notes)
    return section("model", "How the model was chosen", tag("p", text), *tables, *notes)


def evaluation_section(recommendation: Recommendation) -> Markup:
    """Return the scores and groups that were evaluated on the training rows, and which of them was selected."""
    one_sided = recommendation.one_sided  # then there are no widths
    lines = [
        (
            each.score_name,
            short_repr(each.taxonomy),
            each.outcome,
            *([] if one_sided else [format_number(each.interval_score), format_number(each.width)]),
            "selected" * (each is recommendation.chosen),
        )
        for each in recommendation.candidates
    ]
    header = ("score", "groups", "verdict", *([] if one_sided else ["interval score", "mean width"]), "selected")
    table = scrolling_table(header, lines, f"Evaluated at level {recommendation.level:g}")
    text = (
        "These scores and groups were evaluated on the training rows, out of fold, before any calibration row was "
        "used. Thresholds per group give even coverage by their guarantee, so they are preferred if there are at "
        f"least {rows_for_groups(recommendation.level, recommendation.tails)} calibration rows"
        + f"; here there are {recommendation.calibration_rows}" * (recommendation.needed_for_groups is not None)
        + ". "
        + "The interval score is the width plus a penalty for missed targets. " * (not one_sided)
        + "Of the candidates with the best verdict, "
        + "those within 1 % of the lowest score were kept; of these, " * (not one_sided)
        + "the one with the fewest groups was selected."
    )
    return section("evaluated", "Evaluated scores and groups", tag("p", text), table)


def data_section(study: Study, style: SettingStyle) -> Markup:
    """Return how the rows were split, and how the columns became numbers."""
    columns = scrolling_table(
        ("column", "kind", "missing", "encoded as"),
        [(each.name, _kind(each), each.missing, _encoding_text(each)) for each in study.columns],
        f"The features in the {'rows of the first model' if study.evidence.kind == 'cross' else 'training rows'}",
    )
    details = tag("details", tag("summary", "The features"), columns)
    texts = study_notes(study, style)
    notes = [tag("ul", *(tag("li", text) for text in texts))] if texts else []
    turns, used = study.evidence.turns, _parts(study)
    if study.evidence.kind == "cross" and turns is not None:
        used = [tag("p", _fold_text(study, len(turns.rows)))]
    return section("data", "Data", used[0], *notes, *used[1:], details)


def _fold_text(study: Study, n_tests: int) -> str:
    """Return how the rows of a cross-fitted study were used; `n_tests` is the number of folds of test rows."""
    clusters = (
        f" All rows with the same {study.clusters} are in the same fold. One random row of each {study.clusters} "
        "calibrates and is tested, because rows that belong together depend on each other."
    ) * (study.clusters is not None)
    return (
        f"{study.n_rows} rows of {study.name}, divided at random into folds (seed {study.plan.seed}). The predictor "
        f"consists of {len(study.regressor.estimators_)} models. Each was fitted without one fold, and the errors of "
        f"all folds calibrate the intervals. For the test, the same was done {n_tests} times without one fold of test "
        f"rows, which then got intervals. Score and groups were not selected on these rows.{clusters}"
    )


def _parts(study: Study) -> list[Markup]:
    """Return how the rows were split: a paragraph and a table."""
    total = study.n_rows
    parts = [(part.replace("_", " "), n, f"{n / total:.0%}") for part, n in study.sizes.items()]
    split = scrolling_table(("part", "rows", "share"), parts, "Rows used in each part")
    selected = "" if study.recommendation is None else ", and to select the score and the groups"
    split_text = f"split at random (seed {study.plan.seed})" if study.time is None else f"split by {study.time}"
    used = (
        "The model did not see the rows that were held out: they set its thresholds. They also tested it in turn: "
        "those of one half by the thresholds of the other half, and the reverse."
    )
    if study.evidence.kind != "turns":
        used = (
            "Thresholds of the calibration rows were tested on the test rows, which the verdict uses. Then the model "
            "was calibrated on both."
        )
    text = f"{total} rows of {study.name}, {split_text}. The training rows were used to fit the model{selected}. {used}"
    large = (
        " The diagnosis part is the rest of the random sample: with it, this report shows how one threshold for all "
        "rows would cover, single rows, and coverage by feature."
    ) * (study.evidence.kind == "batches")
    clusters = (
        f" All rows with the same {study.clusters} are in the same part. Rows that belong together depend on each "
        f"other. So in the calibration, all rows with the same {study.clusters} count as much as one new row, and one "
        f"random row of each {study.clusters} is tested."
    ) * (study.clusters is not None)
    return [tag("p", text, large, clusters), split]


def assumptions_section(result: Diagnosis | Audit) -> Markup:
    """Return the assumptions of a diagnosis or an audit."""
    if isinstance(result, Audit):
        text = (
            "The rows must not have been used to fit or to calibrate the model that made the intervals. They must be "
            "exchangeable with the rows that it is used for (for example, all independent and from one source). The "
            f"p-values {p_value_scope(result)}."
        )
    else:
        text = (
            "The calibration rows must not have been used to fit the model. They must be exchangeable with the rows "
            "that it will be used for (for example, all independent and from one source). The exact tests are exact "
            f"for the null hypothesis that {result.null_hypothesis}."
        )
    return section("assumptions", "Assumptions", tag("p", text))


def reproduction_section(settings: Mapping[str, Any], command: str) -> Markup:
    """Return the command, the settings and the versions that give the same numbers again."""
    lines = [*settings.items(), ("Python", platform.python_version()), *versions().items()]
    table = scrolling_table(("setting", "value"), lines, "Settings and versions")
    shown = [tag("p", "This command gives the same numbers:"), tag("pre", tag("code", command))] if command else []
    return section("reproduction", "How to reproduce", *shown, table)


def glossary_section(*, cross: bool = False) -> Markup:
    """Return the terms that a report uses, with their meaning; `cross` for a cross-fitted study."""
    terms = {**_GLOSSARY, **(_CROSS_TERMS if cross else {})}
    lines = (part for term, meaning in terms.items() for part in (tag("dt", term), tag("dd", meaning)))
    return section("glossary", "Glossary", tag("details", tag("summary", "What the terms mean"), tag("dl", *lines)))


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that the numbers depend on."""
    return {name: version for name, version in package_versions(_PACKAGES).items() if version is not None}


def _kind(column: Encoded) -> str:
    if isinstance(column, EncodedDate):
        return "date"
    return "number" if column.values is None else "category"


def _encoding_text(column: Encoded) -> str:
    marks = "; one more column marks missing values" * (column.missing > 0)
    if isinstance(column, EncodedDate):
        spelled = f", read as {column.pattern}" if column.text else ""
        return f"{', '.join(column.parts) or 'nothing, because it does not vary'}{spelled}{marks}"
    if isinstance(column, EncodedCategories):
        missing = ", and of missing ones" * (column.missing > 0)
        return f"the mean target of each of {len(column.categories)} different values{missing}"
    if column.categories is None:
        fill = f"; missing values become {format_number(column.fill)}" * (column.missing > 0)
        unit = f" of {column.unit}" if column.unit else ""
        return f"the number itself{unit}{fill}{marks}"
    others = f", one for {len(column.rare)} rarer values" * bool(column.rare)
    return f"one column for each of {first_few(column.categories)}{others}{marks}"
