"""Studies in sentences: the data, the answers, the guarantee, and what the groups are."""

from math import floor, isnan

from evencover.diagnostics.audit_counts import infinite_rows
from evencover.display.html import Markup, joined, tag
from evencover.display.lines import Lines, joined_lines
from evencover.display.text import count_text, join_first
from evencover.guarantees import NO_BOUND, Guarantee
from evencover.intervals import Intervals, moved_note
from evencover.quantiles import level_fraction
from evencover.studies.column_checks import too_good
from evencover.studies.study_result import Study
from evencover.taxonomies import group_meaning
from evencover.words.advice import advice_on_study
from evencover.words.answers import (
    HOW_OFTEN,
    WHAT_TO_DO,
    answer_lines,
    answers,
    audit_headline,
    diagnosis_headline,
    quality_text,
)
from evencover.words.other_rows import BEYOND_THE_TABLE, other_rows_text
from evencover.words.results import audit_columns, audit_html, evidence_text, group_table
from evencover.words.settings import PYTHON, SettingStyle, message_sentence


def study_text(study: Study, style: SettingStyle = PYTHON) -> Lines:
    """Return a study as text."""
    audit, diagnosis = study.audit, study.diagnosis
    scores = "out-of-fold scores of several models" if study.evidence.kind == "cross" else diagnosis_rows(study)
    lines = [
        f"Data: {study.name}, target {study.target}; {_rows_text(study)}.",
        f"Model: {study.method}.",
        *(f"Warning: {text}" for text in study_warnings(study, style)),
        *(f"Note: {text}" for text in study_notes(study, style)),
        "",
        *answer_lines(study.verdict, study_answers(study, style)),
        f"Coverage of the test rows at level {study.plan.level:g}; estimates and intervals use {evidence_text(audit)}:",
        group_table([*audit.table, audit.overall], *audit_columns(audit)),
        *filter(None, [law_text(study), study_group_meaning(study), misses_text(study, study.intervals)]),
        f"With {one_threshold_text(study)}, from the {scores}: {diagnosis.verdict}. {diagnosis_headline(diagnosis)}",
    ]
    return joined_lines(lines)


def study_html(study: Study) -> Markup:
    """Return a study as HTML, for notebooks."""
    model = tag("p", f"{study!r}. Model: {study.method}. {quality_text(study.quality)}")
    others = map(other_rows_text, study.other_rows)
    remarks = (tag("p", text) for text in (*others, *study_warnings(study), *study_notes(study)))
    return joined([model, *remarks, audit_html(study.audit, str(advice_on_study(study)))])


def study_headline(study: Study) -> str:
    """Return the result in two sentences, that of other rows, and the guarantee of a cross-fitted study, a weaker one.

    Other rows that are not covered come first.
    """
    own = " ".join(filter(None, [audit_headline(study.audit), guarantee_text(study, study.plan.level)]))
    failing = [other_rows_text(each) for each in study.other_rows if each.shown.fails]
    holding = [other_rows_text(each) for each in study.other_rows if not each.shown.fails]
    return " ".join([*failing, own, *holding])


def study_answers(study: Study, style: SettingStyle = PYTHON) -> dict[str, str]:
    """Return the four answers, in the order of reading, and that about other rows: first, if these are not covered."""
    found = answers(study.audit, str(advice_on_study(study, style)))
    how_often = " ".join(filter(None, [found[HOW_OFTEN], guarantee_text(study, study.plan.level)]))
    found = {**found, HOW_OFTEN: how_often}
    if not study.other_rows:
        return found
    beyond = {BEYOND_THE_TABLE: " ".join(map(other_rows_text, study.other_rows))}
    what_to_do = {WHAT_TO_DO: found.pop(WHAT_TO_DO)}
    parts = (beyond, found) if any(each.shown.fails for each in study.other_rows) else (found, beyond)
    return {**parts[0], **parts[1], **what_to_do}


def study_warnings(study: Study, style: SettingStyle = PYTHON) -> list[str]:
    """Return what may be wrong with the table, or too good to be true; the first ones matter most."""
    messages = study.table_warnings or too_good(study.quality.r2)
    return [message_sentence(message, style) for message in messages]


def study_notes(study: Study, style: SettingStyle = PYTHON) -> list[str]:
    """Return what else a reader should know about the table, and about predictions outside intervals."""
    moved = moved_note(study.intervals, "test rows")
    texts = [moved, _infinite_without_target(study)]
    return [*(message_sentence(message, style) for message in study.table_notes), *filter(None, texts)]


def _infinite_without_target(study: Study) -> str:
    """Return how many rows without a target have infinite intervals, and why; nothing if none has."""
    found = study.without_target
    n = 0 if found is None else int(infinite_rows(found.intervals, study.quality.side).sum())
    if found is None or not n:
        return ""
    return (
        f"{n} of the {len(found)} rows without a target have infinite {study.quality.noun}, because their group has "
        "too few calibration rows."
    )


def law_text(study: Study) -> str:
    """Return which models tested the rows, and by which law; nothing if these are test rows as usual."""
    if study.evidence.kind == "turns":
        return _turns_text(study)
    if study.evidence.kind != "cross":
        return ""
    tested, without, units = "Every row", "it", "rows"
    if study.clusters is not None:
        tested, without, units = "One row of each cluster", "any row of its cluster", "clusters"
    return (
        f"{tested} was tested once, by models that were fitted and calibrated without {without}. They had fewer "
        f"{units} than the model for new rows, so their intervals can be wider, above all in tables of fewer than 50 "
        f"{units}. The tests use the binomial law, as if the tests of different rows were independent. This is an "
        f"approximation, because the models share most of their {units}."
    )


def _turns_text(study: Study) -> str:
    """Return how held-out rows took turns, and what is known of the model for new rows."""
    audit = study.audit
    n, tested = count_text(len(study.calibration)), "Every held-out row was"
    if study.clusters is not None:
        tested = f"One held-out row of each {study.clusters} was"
    if audit.n_untested:
        tested = f"Of the held-out rows, {count_text(audit.n_tested)} were"
    turns = f"{tested} tested once: those of one half by the thresholds of the other half, and the reverse."
    if not audit.n_tested:
        turns = "None of these rows was tested."
    sizes = "widths" if audit.quality.side is None else "distances"
    turns += f" The model for new rows has the thresholds of all {n}; {sizes} are those of its {audit.quality.noun}."
    if not audit.own_thresholds:
        return turns
    if audit.evidence == "calibration rows":
        right = f"How often its {audit.quality.noun} are right in each group"
        return f"{turns} {right} follows from the number of rows of the group, so it needs no test."
    return f"{turns} Each group has a threshold of its own, so groups are not compared with each other."


def guarantee_text(study: Study, level: float) -> str:
    """Return what a cross-fitted study guarantees at a level, and what is usual; otherwise nothing."""
    if study.evidence.kind != "cross":
        return ""
    guarantee: Guarantee = study.regressor.guarantee_
    usual = f"usually it is close to {100 * level:g} %"
    new = "For rows of new clusters" if guarantee.for_new_clusters else "For new rows"
    known = " For rows of known clusters, nothing is guaranteed." * guarantee.for_new_clusters
    if guarantee.lower_bound == NO_BOUND:
        return f"{new}, no share is guaranteed, because the groups depend on predictions; {usual}."
    bound = guarantee.lower_bound(level)
    percent, where = floor(100 * bound), " in every group" * (len(guarantee.sizes) > 1)
    if not percent:
        return f"{new}, nothing is guaranteed at so low a level; {usual}."
    if bound == 1:
        return f"{new}, the intervals are infinite{where}, so that no target is missed."
    if bound >= level_fraction(level):  # few rows: the next narrower interval would miss too often
        return f"{new}, at least {percent} % is guaranteed{where}.{known}"
    return f"{new}, at least {percent} % is guaranteed{where}; {usual}.{known}"


def study_group_meaning(study: Study) -> str:
    """Return what the groups are; empty if their names say it. Also why requested groups are one group."""
    rows, labels = {row.group: row.rows for row in study.audit.table}, study.groups.labels
    meaning = group_meaning(study.diagnosis.inputs.taxonomy, labels, [rows.get(label, 0) for label in labels])
    own = None if study.per_group else study.regressor.taxonomy_
    return " ".join(dict.fromkeys(filter(None, [getattr(own, "merged_text", ""), meaning])))


def misses_text(study: Study, intervals: Intervals) -> str:
    """Return the shares of test rows below and above their intervals, if each end has its own threshold."""
    if study.tails == "joint":
        return ""
    texts = [
        f"{label} {below:.1%} and {above:.1%}".replace("%", " %")
        for label, (below, above) in study.evidence.misses(intervals).items()
        if not isnan(below)  # a group without tested rows
    ]
    return f"Test rows below and above their intervals: {join_first(texts) or 'not tested'}."


def one_threshold_text(study: Study | None) -> str:
    """Return what the diagnosis of a study, or one by itself, is about, in words: it has no separate tails."""
    separate = study is not None and study.tails == "separate"
    return "one threshold for all rows" + " and both ends of their intervals" * separate


def diagnosis_rows(study: Study | None) -> str:
    """Return what the rows of the diagnosis are called: the calibration rows, or others if the table is large."""
    return "diagnosis rows" if study is not None and study.evidence.kind == "batches" else "calibration rows"


def _rows_text(study: Study) -> str:
    """Return how many rows there are, and what they were used for."""
    if study.evidence.kind == "cross":
        return _cross_rows_text(study, len(study.test), len(study.calibration))
    sizes, clusters = study.sizes, study.clusters
    text = ", ".join(f"{n} {part}" for part, n in sizes.items()) + " rows"
    if study.evidence.kind == "turns":
        text = f"{sizes['training']} rows to train, {sizes['held_out']} held out to calibrate and to test in turn"
    if clusters is None:
        return text
    return f"{text} (calibration: each {clusters} counts as one row; test: one row of each {clusters})"


def _cross_rows_text(study: Study, n_tested: int, n_calibration: int) -> str:
    n_rows = study.n_rows
    if study.clusters is not None:
        same = n_calibration == n_tested
        uses = "to calibrate and to test" if same else f"to test, and {n_calibration} to calibrate,"
        return f"{n_rows} rows to train; {n_tested} of them, one of each {study.clusters}, also {uses} in turn"
    if n_calibration < n_rows:
        return f"{n_rows} rows, each used to train and to test in turn, and {n_calibration} of them to calibrate"
    return f"{n_rows} rows, each used to train, to calibrate and to test in turn"
