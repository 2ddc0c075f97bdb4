"""The sections of a report that do not depend on the level."""

import platform
from collections.abc import Mapping
from typing import Any

from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.recommendations import Recommendation
from evencover.display.html import Markup, tag
from evencover.display.text import short_repr
from evencover.groups import first_few
from evencover.inputs.optional import package_versions
from evencover.models.auto import StackReport
from evencover.models.encoding import Encoded, EncodedDate
from evencover.report.charts import format_number
from evencover.report.level_sections import scrolling_table, section
from evencover.scores import BUILTIN_SCORES
from evencover.studies import Study
from evencover.words.results import p_value_scope
from evencover.words.settings import SettingStyle
from evencover.words.studies import study_notes

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
    """Return the regressors and distributions that were compared on the training part, and their weights."""
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
        "distributions of the residuals. All were compared on the training part, out of fold: each row was predicted "
        "by models that were fitted without it. A regressor with weight 0.00 would improve the mean little or not at "
        "all, so it is not used. A distribution that is nearly as good as the best keeps some weight, because the "
        "best one may be so by chance."
    )
    notes = (tag("p", note) for note in report.notes)
    return section("model", "How the model was chosen", tag("p", text), *tables, *notes)


def evaluation_section(recommendation: Recommendation) -> Markup:
    """Return the scores and groups that were evaluated on the training part, and which of them was selected."""
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
        "These scores and groups were evaluated on the training part, out of fold, before any calibration row was "
        "used. Thresholds per group give even coverage by their guarantee, so they are preferred if there are enough "
        "calibration rows. "
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
        f"The features in the {'rows of the first model' if study.evidence.kind == 'cross' else 'training part'}",
    )
    details = tag("details", tag("summary", "The features"), columns)
    texts = study_notes(study, style)
    notes = [tag("ul", *(tag("li", text) for text in texts))] if texts else []
    models, used = study.evidence.models, _parts(study)
    if models is not None:
        used = [tag("p", _fold_text(study, len(models.rows)))]
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
    """Return how the rows were split into three parts: a paragraph and a table."""
    total = study.n_rows
    parts = [(part, n, f"{n / total:.0%}") for part, n in study.sizes.items()]
    split = scrolling_table(("part", "rows", "share"), parts, "Rows used in each part")
    selected = "" if study.recommendation is None else ", and to select the score and the groups"
    split_text = f"split at random (seed {study.plan.seed})" if study.time is None else f"split by {study.time}"
    text = (
        f"{total} rows of {study.name}, {split_text}. The training part was used to fit the model{selected}. The "
        "calibration part set the thresholds. The verdict uses the test part."
    )
    large = (
        " The diagnosis part is the rest of the random sample: with it, this report shows how one threshold for all "
        "rows would cover, single rows, and coverage by feature."
    ) * (study.evidence.kind == "batches")
    clusters = (
        f" All rows with the same {study.clusters} are in the same part. Rows that belong together depend on each "
        f"other. So in the calibration, all rows with the same {study.clusters} count as much as one new row, and the "
        f"test part has one random row of each {study.clusters}."
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
    return "number" if column.categories is None else "category"


def _encoding_text(column: Encoded) -> str:
    marks = "; one more column marks missing values" * (column.missing > 0)
    if isinstance(column, EncodedDate):
        spelled = f", read as {column.pattern}" if column.text else ""
        return f"{', '.join(column.parts) or 'nothing, because it does not vary'}{spelled}{marks}"
    if column.categories is None:
        fill = f"; missing values become {format_number(column.fill)}" * (column.missing > 0)
        return f"the number itself{fill}{marks}"
    others = f", one for {len(column.rare)} rarer values" * bool(column.rare)
    return f"one column for each of {first_few(column.categories)}{others}{marks}"
