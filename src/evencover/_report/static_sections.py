"""The parts of a report that do not depend on the level: what was tried, the data, the promise, how to repeat it."""

import platform
from collections.abc import Mapping
from typing import Any

from evencover._internal.html import Markup, tag
from evencover._internal.optional import package_versions
from evencover._report.axes import short
from evencover._report.level_sections import numbers, section
from evencover.diagnostics._formatting import short_repr
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.recommendations import Recommendation
from evencover.groups import first_few
from evencover.models.encoding import EncodedColumn
from evencover.studies import Study

_PACKAGES = ("evencover", "numpy", "scipy", "scikit-learn", "quantile-forest", "torch")

_WORDS = {
    "level": "The share of targets that intervals are asked to hold, such as 0.9.",
    "coverage": "The share that they do hold.",
    "group": "Rows that are to be covered alike, such as those with little, medium and much noise.",
    "spread": "How far off the model expects to be, row by row.",
    "score": "How strange a target is, given what the model says: its distance from the prediction (Residual), that in "
    "units of the spread (Normalized), or that from the model's own bounds (IntervalDistance).",
    "threshold": "The largest score that still passes: one for all rows (Marginal), or one for each group.",
    "calibration rows": "Rows that the model was not fitted on, whose scores set the thresholds.",
    "interval, 95 %": "Where the true coverage of a group lies, but for one time in twenty (Clopper and Pearson).",
    "slab": "The rows between two parallel planes in the space of features.",
    "BetaBinomial": "The law of the number of rows that a calibrated threshold covers, its own chance included.",
}


def tried(found: Recommendation) -> Markup:
    """Return what was tried on the training part, and what was taken."""
    lines = [
        (
            short_repr(each.nonconformity),
            short_repr(each.taxonomy),
            each.verdict,
            short(each.width),
            "taken" * (each is found.chosen),
        )
        for each in found.candidates
    ]
    table = numbers(("score", "groups", "verdict", "mean width", "taken"), lines, f"Tried at level {found.level:g}")
    said = (
        "Scores and groups were tried on the training part, out of fold, before any calibration row was seen. "
        "Thresholds for each group are even by their guarantee. Taken was the narrowest of those with the best "
        "verdict or, of any within 1 % of it, the one with the fewest groups."
    )
    return section("tried", "What was tried", tag("p", said), table)


def data(study: Study) -> Markup:
    """Return how the data was split, and how its columns became numbers."""
    total = sum(study.sizes.values())
    parts = [(part, n, f"{n / total:.0%}") for part, n in study.sizes.items()]
    split = numbers(("part", "rows", "share"), parts, "The parts, by the rows that are used")
    said = (
        f"{total} rows of {study.name}, split at random (seed {study.plan.seed}): the model was fitted, and score and "
        "groups were chosen, on the training part; thresholds come from the calibration part; the test part judged."
    )
    one_each = (
        f" No {study.clusters} has rows in two parts, and of each only one row, drawn at random, calibrates or judges: "
        "rows that belong together depend on each other."
    ) * (study.clusters is not None)
    columns = numbers(
        ("column", "kind", "missing", "becomes"),
        [(each.name, _kind(each), each.missing, _becomes(each)) for each in study.columns],
        "The features, as they were in the training part",
    )
    return section(
        "data", "The data", tag("p", said, one_each), split, tag("details", tag("summary", "The features"), columns)
    )


def assumptions(result: Diagnosis | Audit) -> Markup:
    """Return what a result on its own rests on."""
    if isinstance(result, Audit):
        said = (
            "The rows must be new to whatever made the intervals, its model and its calibration, and like those that "
            f"it is used for. The p-values hold {result.p_value_scope}."
        )
    else:
        said = (
            "The calibration rows must be new to the model, and like those that it will be used for (exchangeable, for "
            f"example all independent and from one source). The exact tests are exact for the null that "
            f"{result.null_hypothesis}."
        )
    return section("assumptions", "What this rests on", tag("p", said))


def reproduction(settings: Mapping[str, Any], command: str) -> Markup:
    """Return how to get the same numbers again."""
    how = [tag("p", "The same numbers come out of:"), tag("pre", tag("code", command))] if command else []
    lines = [*settings.items(), ("Python", platform.python_version()), *versions().items()]
    table = numbers(("what", "value"), lines, "Settings and versions")
    return section("reproduction", "How to repeat it", *how, table)


def glossary() -> Markup:
    """Return the words that a report takes for granted."""
    lines = (part for word, meaning in _WORDS.items() for part in (tag("dt", word), tag("dd", meaning)))
    return section("words", "The words", tag("details", tag("summary", "What they mean"), tag("dl", *lines)))


def versions() -> dict[str, str]:
    """Return the versions of the packages that numbers depend on, where they are installed."""
    return {name: version for name, version in package_versions(_PACKAGES).items() if version is not None}


def _kind(each: EncodedColumn) -> str:
    return "number" if each.categories is None else "category"


def _becomes(each: EncodedColumn) -> str:
    """Return in words what a column becomes."""
    marks = "; a column of its own marks missing ones" * (each.missing > 0)
    if each.categories is None:
        return f"itself{f', {short(each.fill)} where missing' * (each.missing > 0)}{marks}"
    others = f", one for {len(each.rare)} rarer values" * bool(each.rare)
    return f"a column for each of {first_few(each.categories)}{others}{marks}"
