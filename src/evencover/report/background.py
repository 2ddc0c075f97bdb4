"""The parts of a report that do not depend on the level: what was tried, the data, the promise, how to repeat it."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evencover.diagnostics.choosing import Recommendation
from evencover.diagnostics.words import in_code
from evencover.groups import first_few
from evencover.guarantees import Guarantee
from evencover.markup import Markup, html_table, tag
from evencover.models.encoding import EncodedColumn
from evencover.report.axes import short
from evencover.report.sections import section
from evencover.studies import Study

_PACKAGES = ("evencover", "numpy", "scipy", "scikit-learn", "quantile-forest", "torch")


def tried(found: Recommendation) -> Markup:
    """Return what was tried on the training part, and what was taken."""
    lines = [
        (
            in_code(each.nonconformity),
            repr(each.taxonomy),
            each.verdict,
            short(each.width),
            "taken" * (each is found.chosen),
        )
        for each in found.candidates
    ]
    table = html_table(
        ("score", "groups", "verdict", "mean width", ""), lines, caption=f"Tried at level {found.level:g}"
    )
    said = (
        "Scores and groups were tried on the training part, out of fold, before any calibration row was seen; of those "
        "that are even the narrowest was taken, and of equally narrow ones that with the fewest groups. Thresholds for "
        "each group are even by their guarantee."
    )
    return section("tried", "What was tried", tag("p", said), table)


def data(study: Study) -> Markup:
    """Return how the data was split, and how its columns became numbers."""
    total = sum(study.sizes.values())
    parts = [(part, n, f"{n / total:.0%}") for part, n in study.sizes.items()]
    split = html_table(("part", "rows", "share"), parts, caption="The parts")
    said = (
        f"{total} rows of {study.name}, split at random (seed {study.plan.seed}): the model was fitted, and score and "
        "groups were chosen, on the training part; thresholds come from the calibration part; the test part judged."
    )
    columns = html_table(
        ("column", "kind", "missing", "becomes"),
        [(each.name, _kind(each), each.missing, _becomes(each)) for each in study.columns],
        caption="The features, as they were in the training part",
    )
    return section("data", "The data", tag("p", said), split, tag("details", tag("summary", "The features"), columns))


def guarantee(promise: Guarantee, level: float) -> Markup:
    """Return the promise and what it rests on."""
    lines = [(group, promise.sizes[group], f"{float(share):.4f}") for group, share in promise.coverage(level).items()]
    table = html_table(
        ("group", "calibration rows", "probability"), lines, caption=f"Coverage that is promised, at level {level:g}"
    )
    note = (
        "The probability is over calibration rows and new row together, k / (n + 1), without ties between scores; for "
        "one calibration it scatters around that, the more the fewer its rows."
    )
    return section("guarantee", "What is promised", tag("p", str(promise)), table, tag("p", note, class_="note"))


def reproduction(settings: Mapping[str, Any], command: str) -> Markup:
    """Return how to get the same numbers again."""
    how = [tag("p", "The same numbers come out of:"), tag("pre", tag("code", command))] if command else []
    lines = [*settings.items(), ("Python", platform.python_version()), *versions().items()]
    table = html_table(("what", "value"), lines, caption="Settings and versions")
    return section("reproduction", "How to repeat it", *how, table)


def versions() -> dict[str, str]:
    """Return the versions of the packages that numbers depend on, where they are installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _kind(each: EncodedColumn) -> str:
    return "number" if each.categories is None else "category"


def _becomes(each: EncodedColumn) -> str:
    """Return in words what a column becomes."""
    marks = "; a column of its own marks missing ones" * (each.missing > 0)
    if each.categories is None:
        return f"itself{f', {short(each.fill)} where missing' * (each.missing > 0)}{marks}"
    others = f", one for rarer values ({each.others} rows)" * (each.others > 0)
    return f"a column for each of {first_few(each.categories)}{others}{marks}"
