"""Diagnoses and audits as text: tables, test results, the verdict and the advice."""

from evencover.diagnostics.audit_result import Audit, GroupAudit
from evencover.diagnostics.cluster_tests import one_row_note
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.one_threshold import GroupForecast
from evencover.diagnostics.score_tests import MIN_ROWS_ABOVE
from evencover.display.html import Markup, tag
from evencover.display.text import join_first, number_text, p_value_phrase, p_value_text
from evencover.words.advice import advice_on_audit, advice_on_diagnosis
from evencover.words.answers import audit_headline, diagnosis_headline
from evencover.words.groups import (
    COVERAGE_COLUMNS,
    audit_columns,
    coverage_cells,
    coverage_text,
    group_table,
    html_group_table,
)
from evencover.words.quality import quality_text
from evencover.words.settings import PYTHON, SettingStyle

SEVERAL_MODELS = (
    "The scores are out of fold: they come from several models that share most of their training rows. So the exact "
    "tests are approximations here."
)
_FORECAST_COLUMNS = (*COVERAGE_COLUMNS, "p (Holm)")


def audit_text(audit: Audit, style: SettingStyle = PYTHON) -> str:
    """Return an audit as text."""
    regions = [] if audit.worst_region is None else [audit.worst_region]
    lines = [
        f"Coverage of the test rows at level {audit.level:g}. Estimates and intervals use {audit.evidence}; the "
        f"intervals hold for all groups jointly. The p-values {p_value_scope(audit)}.",
        group_table([*audit.table, *regions, audit.overall], *audit_columns(audit, score=True)),
        *audit.notes,
    ]
    if audit.n_empty or audit.n_infinite:
        lines.append(f"Empty intervals: {audit.n_empty}; infinite {audit.quality.noun}: {audit.n_infinite}.")
    lines += filter(None, [replaced_text(audit)])
    advice = f"Verdict: {audit.verdict}. {advice_on_audit(audit, style)}"
    return "\n".join([*lines, *_feature_lines(audit), quality_text(audit.quality), audit_headline(audit), advice])


def audit_html(audit: Audit, advice: str) -> Markup:
    """Return an audit with its table as HTML, for notebooks."""
    sentence = tag("p", tag("b", f"Verdict: {audit.verdict}. "), f"{audit_headline(audit)} {advice}")
    return tag("div", sentence, *html_group_table([*audit.table, audit.overall], *audit_columns(audit, score=True)))


def p_value_scope(audit: Audit) -> str:
    """Return whether p-values include the variation of the calibration rows; continues "The p-values ..."."""
    verb, distribution = ("include", "BetaBinomial") if audit.sizes_known else ("do not include", "Binomial")
    return f"{verb} the random variation of the calibration rows ({distribution})"


def replaced_text(audit: Audit) -> str:
    """Return how many intervals were replaced by the nearest possible target; empty if none was."""
    if not audit.n_replaced:
        return ""
    return f"Intervals that held no possible value, and were replaced by the nearest one: {audit.n_replaced}."


def _feature_lines(audit: Audit) -> list[str]:
    lines = [] if audit.worst_region is None else [_region_line(audit, audit.worst_region)]
    if audit.by_feature:
        off = join_first(map(coverage_text, audit.features_off)) or "none"
        lines.append(f"Rows by feature whose coverage differs from the level: {off}.")
    if audit.excess_risk is not None:
        lines.append(f"Features predict which rows are covered: {audit.excess_risk}.")
    return lines


def _region_line(audit: Audit, region: GroupAudit) -> str:
    """Return where coverage is lowest, as the first half of the rows has it and the second half tests it."""
    if region.coverage < audit.level:
        return f"Worst region (lowest coverage by the features): {audit.region_rule}."
    found = f"Worst region of one half of the rows, by the features: {audit.region_rule}"
    return f"{found}; in the other half, it is covered often enough."


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as text."""
    return "\n".join([*_test_lines(diagnosis), f"Verdict: {diagnosis.verdict}. {_finding(diagnosis)}"])


def diagnosis_html(diagnosis: Diagnosis) -> Markup:
    """Return a diagnosis with its table as HTML, for notebooks."""
    sentence = tag("p", tag("b", f"Verdict: {diagnosis.verdict}. "), _finding(diagnosis))
    return tag("div", sentence, *html_group_table(diagnosis.table, _forecast_cells, _FORECAST_COLUMNS))


def diagnosis_notes(diagnosis: Diagnosis) -> list[str]:
    """Return what else is to know about the calibration rows, in sentences."""
    n = diagnosis.inputs.clustered_rows
    clusters = [one_row_note(n, len(diagnosis.inputs.scores))] if n else []
    return [*([SEVERAL_MODELS] if diagnosis.inputs.several_models else []), *clusters]


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
