"""Results as text and as HTML: tables, test results, notes, the verdict and the advice."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from typing import Any, TypeAlias, TypeVar

from evencover.diagnostics.audits import Audit, Note
from evencover.diagnostics.diagnosis import Diagnosis
from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.recommendations import Candidate, Recommendation
from evencover.diagnostics.score_tests import MIN_ROWS_ABOVE
from evencover.diagnostics.verdicts import GroupAudit, GroupCoverage, GroupForecast, Verdict, by_p_value
from evencover.display.html import Markup, html_table, tag
from evencover.display.lines import Lines, joined_lines
from evencover.display.text import (
    count_text,
    join_first,
    number_text,
    p_value_phrase,
    p_value_text,
    share_number,
    text_table,
)
from evencover.scores.support import support_of
from evencover.words.advice import advice_on_audit, advice_on_diagnosis
from evencover.words.answers import answer_lines, answers, audit_headline, coverage_text, diagnosis_headline
from evencover.words.settings import PYTHON, SettingStyle, message_sentence

COVERAGE_COLUMNS = ("group", "rows", "coverage", "95 % interval")
AUDIT_COLUMNS = (*COVERAGE_COLUMNS[:3], "estimate", *COVERAGE_COLUMNS[3:], "p (Holm)", "mean width", "Winkler score")
WITHOUT_SCORE, WITHOUT_WIDTH = -1, -2  # where the columns end; one-sided bounds have neither score nor width
_MAX_TABLE_ROWS = 30

RowType = TypeVar("RowType", bound=GroupCoverage)
AuditColumns: TypeAlias = tuple[Callable[[GroupAudit], tuple[str, ...]], tuple[str, ...]]
SEVERAL_MODELS = (
    "The scores are out of fold: they come from several models that share most of their training rows. So the exact "
    "tests are approximations here."
)
_NOTES = {  # the sentence of each kind of `Note`
    "groups by bound": "The intervals are {side} bounds, so the groups are thirds by the bound.",
    "equal widths, one group": "All intervals have the same width ({width}), so the rows are one group.",
    "equal widths, groups by center": "All intervals have the same width ({width}), so the groups are thirds by the "
    "interval's center.",
    "noise not assessed": "Coverage by expected noise cannot be assessed: the intervals do not say which rows are "
    "harder.",
    "center searched": "No features were given, so the search for low coverage used only the interval's center.",
    "bound searched": "No features were given, so the search for low coverage used only the {side} bound.",
    "one row of each cluster": "One random row of each of {clusters} clusters was tested, of {rows} rows: rows of a "
    "cluster depend on each other.",
    "treated as independent": "The calibration had clusters, but the test rows were treated as independent: pass their "
    "clusters (clusters=, on the command line --clusters), unless each row is of another cluster.",
    "thresholds from clusters": "The thresholds come from clusters of calibration rows, so numbers of calibration rows "
    "are numbers of clusters. With few of them, coverage can be above the level, which the tests allow for.",
    "table sampled": "All {rows} rows were counted. Features, the median width and what the predictions explain are "
    "those of {sampled} random rows.",
    "study sampled": "All {rows} test rows were counted. Features were searched, widths compared and predictions "
    "judged in {sampled} rows of the random sample.",
    "groups by thirds": "Column {column} has {values} different values, so the groups are: {groups}.",
    "features searched": "Features searched for low coverage ({number}): {features}.",
    "columns left out": "Columns left out: {columns}.",
}
_FORECAST_COLUMNS = (*COVERAGE_COLUMNS, "p (Holm)")


def audit_text(audit: Audit, style: SettingStyle = PYTHON) -> Lines:
    """Return an audit as text."""
    regions = [] if audit.worst_region is None else [audit.worst_region]
    lines = [
        *answer_lines(audit.verdict, answers(audit, str(advice_on_audit(audit, style)))),
        f"Coverage of the test rows at level {audit.level:g}. Estimates and intervals use {evidence_text(audit)}; the "
        f"intervals hold for all groups jointly. The p-values {p_value_scope(audit)}.",
        group_table([*audit.table, *regions, audit.overall], *audit_columns(audit, score=True)),
        *audit_notes(audit, style),
    ]
    if audit.n_empty or audit.n_infinite:
        lines.append(f"Empty intervals: {audit.n_empty}; infinite {audit.quality.noun}: {audit.n_infinite}.")
    lines += filter(None, [replaced_text(audit)])
    return joined_lines([*lines, *_feature_lines(audit)])


def audit_notes(audit: Audit, style: SettingStyle = PYTHON) -> list[str]:
    """Return what was tested and what was not, in sentences."""
    return [_note_text(fact, style) for fact in audit.facts]


def _note_text(note: Note, style: SettingStyle) -> str:
    if note.kind == "message":
        return message_sentence(note.values["message"], style)
    return _NOTES[note.kind].format(**{name: _value_text(value) for name, value in note.values.items()})


def _value_text(value: Any) -> str:
    if isinstance(value, int | float):
        return count_text(value) if isinstance(value, int) else number_text(value)
    return value if isinstance(value, str) else join_first(value)


def audit_html(audit: Audit, advice: str) -> Markup:
    """Return an audit with its table as HTML, for notebooks."""
    sentence = tag("p", tag("b", f"Verdict: {audit.verdict}. "), f"{audit_headline(audit)} {advice}")
    return tag("div", sentence, *html_group_table([*audit.table, audit.overall], *audit_columns(audit, score=True)))


def evidence_text(audit: Audit) -> str:
    """Return which rows, or which law, the estimates and intervals of groups and of all rows use."""
    law = " (for all rows together, the law of the thresholds)" * (
        audit.overall_by_law and audit.evidence == "test rows"
    )
    return f"{audit.evidence}{law}"


def p_value_scope(audit: Audit) -> str:
    """Return which law the p-values are those of; continues "The p-values ..."."""
    if audit.in_turn:
        return "compare rows with the other rows that were tested by the same threshold (Hypergeometric)"
    verb, distribution = ("include", "BetaBinomial") if audit.sizes_known else ("do not include", "Binomial")
    return f"{verb} the random variation of the calibration rows ({distribution})"


def compared_with(audit: Audit) -> str:
    """Return what the coverage of rows is compared with."""
    return "that of other rows with the same threshold" if audit.in_turn else "the level"


def replaced_text(audit: Audit) -> str:
    """Return how many intervals were replaced by the nearest possible target; empty if none was."""
    if not audit.n_replaced:
        return ""
    return f"Intervals that held no possible value, and were replaced by the nearest one: {audit.n_replaced}."


def _feature_lines(audit: Audit) -> list[str]:
    lines = [] if audit.worst_region is None else [_region_line(audit, audit.worst_region)]
    if audit.by_feature:
        off = join_first(map(coverage_text, audit.features_off)) or "none"
        lines.append(f"Rows by feature whose coverage differs from {compared_with(audit)}: {off}.")
    if audit.excess_risk is not None:
        lines.append(f"Features predict which rows are covered: {audit.excess_risk}.")
    return lines


def _region_line(audit: Audit, region: GroupAudit) -> str:
    """Return where coverage is lowest, as the first half of the rows has it and the second half tests it."""
    if region.coverage < audit.level:
        return f"Worst region (lowest coverage by the features): {audit.region_rule}."
    found = f"Worst region of one half of the rows, by the features: {audit.region_rule}"
    return f"{found}; in the other half, it is covered often enough."


def diagnosis_text(diagnosis: Diagnosis) -> Lines:
    """Return a diagnosis as text."""
    return joined_lines([*_test_lines(diagnosis), f"Verdict: {diagnosis.verdict}. {_finding(diagnosis)}"])


def diagnosis_html(diagnosis: Diagnosis) -> Markup:
    """Return a diagnosis with its table as HTML, for notebooks."""
    sentence = tag("p", tag("b", f"Verdict: {diagnosis.verdict}. "), _finding(diagnosis))
    return tag("div", sentence, *html_group_table(diagnosis.table, _forecast_cells, _FORECAST_COLUMNS))


def diagnosis_notes(diagnosis: Diagnosis) -> list[str]:
    """Return what else is to know about the calibration rows, in sentences."""
    n = diagnosis.inputs.clustered_rows
    clusters = Note("one row of each cluster", {"rows": n, "clusters": len(diagnosis.inputs.scores)})
    return [SEVERAL_MODELS] * diagnosis.inputs.several_models + [_note_text(clusters, PYTHON)] * (n > 0)


def _finding(diagnosis: Diagnosis) -> str:
    return f"{diagnosis_headline(diagnosis)} {advice_on_diagnosis(diagnosis)}"


def _test_lines(diagnosis: Diagnosis) -> list[str]:
    groups = f", groups by {diagnosis.taxonomy}" if diagnosis.taxonomy else ""
    threshold, joint = number_text(diagnosis.threshold), p_value_phrase(diagnosis.joint_p_value)
    lines = [
        f"Expected coverage with one threshold ({threshold}) at level {diagnosis.level:g}{groups}:",
        group_table(diagnosis.table, _forecast_cells, _FORECAST_COLUMNS),
        f"All groups jointly: {joint} (exact test of the null hypothesis that {diagnosis.null_hypothesis}).",
    ]
    if diagnosis.quantile_differences:
        lines.append(_quantiles_text(diagnosis))
    if len(diagnosis.scores) > 1:
        differ = "different" if diagnosis.anderson_darling < SIGNIFICANT else "no significant difference"
        p_value = p_value_phrase(diagnosis.anderson_darling)
        lines.append(f"Score distributions of the groups: {differ} (Anderson-Darling test, {p_value}).")
    if diagnosis.dependence is not None:
        lines.append(f"Score and spread: {diagnosis.dependence}.")
    lines += diagnosis_notes(diagnosis)
    if diagnosis.in_use:
        lines.append(
            "The model is already calibrated per group with these groups. The results above are for one threshold "
            "for all rows instead."
        )
    return lines


def _quantiles_text(diagnosis: Diagnosis) -> str:
    """Return which groups have different score quantiles, as a line of text."""
    differ = (each.groups for each in diagnosis.quantile_differences if each.adjusted < SIGNIFICANT)
    named = join_first(f"{first} and {second}" for first, second in differ)
    rows_above = min(len(scores) for scores in diagnosis.scores.values()) * (1 - diagnosis.level)
    few = ", not reliable with so few rows" if round(rows_above, 9) < MIN_ROWS_ABOVE else ""
    return f"Groups with different score quantiles (bootstrap{few}): {named or 'none'}."


def _forecast_cells(row: GroupForecast) -> tuple[str, ...]:
    return *coverage_cells(row), p_value_text(row.adjusted)


def coverage_cells(row: GroupCoverage) -> tuple[str, ...]:
    """Return the text of a group's `COVERAGE_COLUMNS`."""
    if not row.rows:
        return str(row.group), "0", "not known", "not known"
    return str(row.group), str(row.rows), share_number(row.coverage), f"{row.low:.3f} to {row.high:.3f}"


def audit_cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the text of a group's `AUDIT_COLUMNS`."""
    *counts, interval = coverage_cells(row)
    estimate = share_number(row.estimate) if row.rows else "not known"
    return *counts, estimate, interval, p_value_text(row.adjusted), number_text(row.width), number_text(row.score)


def audit_columns(audit: Audit, *, score: bool = False) -> AuditColumns:
    """Return the cells of a group as a function, and the header; one-sided bounds have neither width nor score."""
    end = WITHOUT_WIDTH if audit.quality.side else None if score else WITHOUT_SCORE
    return lambda row: audit_cells(row)[:end], AUDIT_COLUMNS[:end]


def group_table(rows: Sequence[RowType], cells: Callable[[RowType], Sequence[str]], header: Sequence[str]) -> Lines:
    """Return a table of groups as text; with more than 30 groups, only those with the smallest p-values."""
    more = [f"  and {len(rows) - _MAX_TABLE_ROWS} more groups"] if len(rows) > _MAX_TABLE_ROWS else []
    return joined_lines([text_table(header, map(cells, _rows_with_smallest_p_values(rows))), *more])


def html_group_table(
    rows: Sequence[RowType], cells: Callable[[RowType], Sequence[str]], header: Sequence[str]
) -> list[Markup]:
    """Return the same table as HTML, for notebooks."""
    more = [tag("p", f"And {len(rows) - _MAX_TABLE_ROWS} more groups.")] if len(rows) > _MAX_TABLE_ROWS else []
    return [html_table(header, map(cells, _rows_with_smallest_p_values(rows))), *more]


def _rows_with_smallest_p_values(rows: Sequence[RowType]) -> list[RowType]:
    if len(rows) <= _MAX_TABLE_ROWS:
        return list(rows)
    return sorted(rows, key=by_p_value)[:_MAX_TABLE_ROWS]


def recommendation_text(found: Recommendation) -> Lines:
    """Return a recommendation as text: the reason, and a table of the candidates."""
    return joined_lines(
        [recommendation_summary(found), "", text_table(_candidates_header(found), _candidate_rows(found))]
    )


def recommendation_html(found: Recommendation) -> Markup:
    """Return a recommendation as HTML, for notebooks."""
    first, *others = (tag("p", line) for line in recommendation_summary(found).split("\n"))
    return tag("div", tag("b", first), *others, html_table(_candidates_header(found), _candidate_rows(found)))


def recommendation_summary(found: Recommendation) -> Lines:
    """Return what was chosen and why, then why not the others; a line for each."""
    lines = [f"Chosen: {found.chosen.name}. {_reason_for_choice(found)}", *_reasons_against_others(found)]
    if (support := support_of(found.chosen.nonconformity)) is not None:
        lines.append(f"All candidates hold only targets that are {support}.")
    return joined_lines(lines)


_OVER_GROUPS: Mapping[Verdict, str] = {
    "even": "even",
    "undecided": "not shown to be uneven",
    "uneven": "uneven",
}


def _reason_for_choice(found: Recommendation) -> str:
    """Return why the chosen candidate was chosen."""
    chosen = found.chosen
    if len(found.candidates) == 1:
        return f"It was the only candidate; its verdict: {chosen.outcome}."
    if found.needed_for_groups is not None:
        return (
            f"There will be {found.calibration_rows} calibration rows. Groups need {found.needed_for_groups}, because "
            "thresholds of fewer rows vary by chance. So all rows have one threshold; over five groups of the spread "
            f"it is {_OVER_GROUPS[chosen.verdict]}."
        )
    if chosen.verdict != "even":
        few = ": the rows are too few to show it" if chosen.verdict == "undecided" else ""
        which = "simplest" if found.one_sided else "best"
        return f"No candidate is even{few}. Of the {chosen.verdict} ones, this is the {which}."
    one_threshold = chosen.has_one_threshold
    even = (
        "It is even over five groups of the spread"
        if one_threshold
        else "Thresholds per group are even by their guarantee"
    )
    same = [each for each in _other_candidates(found, "even") if each.has_one_threshold == one_threshold]
    if any(each.interval_score < chosen.interval_score for each in same):
        return f"{even}. Less simple ones have an interval score that is at most 1 % lower."
    with_groups = "" if one_threshold else " with groups"
    return f"{even}." if found.one_sided else f"{even}, and no even candidate{with_groups} has a lower interval score."


def _reasons_against_others(found: Recommendation) -> list[str]:
    """Return a sentence about the uneven, the undecided and the other even candidates; none if there are none."""
    verdict = found.chosen.verdict
    reasons = {
        "Uneven": _other_candidates(found, "uneven") if verdict != "uneven" else [],
        "Undecided, because the rows are too few": _other_candidates(found, "undecided") if verdict == "even" else [],
    }
    one_threshold = [each for each in _other_candidates(found, "even") if each.has_one_threshold]
    if verdict == "even" and not found.chosen.has_one_threshold:
        reasons["Even on the training rows, but not guaranteed"] = one_threshold
    listed = [each for others in reasons.values() for each in others]
    worse = [each for each in _other_candidates(found, verdict) if each.interval_score > found.chosen.interval_score]
    n_worse = sum(each not in listed for each in worse)
    return [f"{reason}: {_listed(found, others)}." for reason, others in reasons.items() if others] + [
        f"Also {verdict}, but with a higher interval score: {n_worse} of the {len(found.candidates)} candidates."
    ] * (n_worse > 0)


def _other_candidates(found: Recommendation, verdict: Verdict) -> list[Candidate]:
    return [each for each in found.candidates if each.verdict == verdict and each is not found.chosen]


def _listed(found: Recommendation, candidates: Sequence[Candidate]) -> str:
    return join_first(each.name + f" ({_score_difference(found, each)})" * (not found.one_sided) for each in candidates)


def _score_difference(found: Recommendation, candidate: Candidate) -> str:
    """Return how much higher or lower its interval score is than that of the chosen candidate: 4.2 % higher."""
    if not isfinite(candidate.interval_score) or not 0 < found.chosen.interval_score < inf:
        return f"interval score {number_text(candidate.interval_score)}"
    percent = 100 * (candidate.interval_score / found.chosen.interval_score - 1)
    return f"score {abs(percent):.1f} % {'lower' if percent < 0 else 'higher'}"


def _candidates_header(found: Recommendation) -> tuple[str, ...]:
    numbers = () if found.one_sided else (f"interval score at level {found.level:g}", "mean width")
    return "nonconformity", "taxonomy", "verdict", *numbers, ""


def _candidate_rows(found: Recommendation) -> list[tuple[str, ...]]:
    return [
        (
            each.score_name,
            each.groups_name,
            each.outcome,
            *(() if found.one_sided else (number_text(each.interval_score), number_text(each.width))),
            "<- chosen" * (each is found.chosen),
        )
        for each in found.candidates
    ]
