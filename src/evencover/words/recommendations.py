"""Recommendations in sentences: what was chosen and why, and why not the others."""

from collections.abc import Sequence
from math import inf, isfinite

from evencover.diagnostics.recommendation_result import Candidate, Recommendation
from evencover.diagnostics.verdicts import Verdict
from evencover.display.html import Markup, html_table, tag
from evencover.display.text import join_first, number_text, text_table
from evencover.scores.support import support_of


def recommendation_text(found: Recommendation) -> str:
    """Return a recommendation as text: the reason, and a table of the candidates."""
    return f"{recommendation_summary(found)}\n\n{text_table(_header(found), _table_rows(found))}"


def recommendation_html(found: Recommendation) -> Markup:
    """Return a recommendation as HTML, for notebooks."""
    first, *others = (tag("p", line) for line in recommendation_summary(found).split("\n"))
    return tag("div", tag("b", first), *others, html_table(_header(found), _table_rows(found)))


def recommendation_summary(found: Recommendation) -> str:
    """Return what was chosen and why, then why not the others; a line for each."""
    lines = [f"Chosen: {found.chosen.name}. {_reason(found)}", *_reasons_against_others(found)]
    if (support := support_of(found.chosen.nonconformity)) is not None:
        lines.append(f"All candidates hold only targets that are {support}.")
    return "\n".join(lines)


def _reason(found: Recommendation) -> str:
    """Return why the chosen candidate was chosen."""
    chosen = found.chosen
    if len(found.candidates) == 1:
        return f"It was the only candidate; its verdict: {chosen.outcome}."
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
    same = [each for each in _others(found, "even") if each.has_one_threshold == one_threshold]
    if any(each.interval_score < chosen.interval_score for each in same):
        return f"{even}. Less simple ones have an interval score that is at most 1 % lower."
    with_groups = "" if one_threshold else " with groups"
    return f"{even}." if found.one_sided else f"{even}, and no even candidate{with_groups} has a lower interval score."


def _reasons_against_others(found: Recommendation) -> list[str]:
    """Return a sentence about the uneven, the undecided and the other even candidates; none if there are none."""
    verdict = found.chosen.verdict
    reasons = {
        "Uneven": _others(found, "uneven") if verdict != "uneven" else [],
        "Undecided, because the rows are too few": _others(found, "undecided") if verdict == "even" else [],
    }
    one_threshold = [each for each in _others(found, "even") if each.has_one_threshold]
    if verdict == "even" and not found.chosen.has_one_threshold:
        reasons["Even on the training rows, but not guaranteed"] = one_threshold
    listed = [each for others in reasons.values() for each in others]
    worse = [each for each in _others(found, verdict) if each.interval_score > found.chosen.interval_score]
    n_worse = sum(each not in listed for each in worse)
    return [f"{reason}: {_list(found, others)}." for reason, others in reasons.items() if others] + [
        f"Also {verdict}, but with a higher interval score: {n_worse} of the {len(found.candidates)} candidates."
    ] * (n_worse > 0)


def _others(found: Recommendation, verdict: Verdict) -> list[Candidate]:
    return [each for each in found.candidates if each.verdict == verdict and each is not found.chosen]


def _list(found: Recommendation, candidates: Sequence[Candidate]) -> str:
    return join_first(each.name + f" ({_difference(found, each)})" * (not found.one_sided) for each in candidates)


def _difference(found: Recommendation, candidate: Candidate) -> str:
    """Return how much higher or lower its interval score is than that of the chosen candidate: 4.2 % higher."""
    if not isfinite(candidate.interval_score) or not 0 < found.chosen.interval_score < inf:
        return f"interval score {number_text(candidate.interval_score)}"
    percent = 100 * (candidate.interval_score / found.chosen.interval_score - 1)
    return f"score {abs(percent):.1f} % {'lower' if percent < 0 else 'higher'}"


def _header(found: Recommendation) -> tuple[str, ...]:
    numbers = () if found.one_sided else (f"interval score at level {found.level:g}", "mean width")
    return "nonconformity", "taxonomy", "verdict", *numbers, ""


def _table_rows(found: Recommendation) -> list[tuple[str, ...]]:
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
