"""The result of `recommend`: the evaluated candidates, the chosen one, and the reason in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, TypeAlias

from evencover.diagnostics.formatting import join_first, score_text
from evencover.diagnostics.verdicts import Verdict
from evencover.display.html import html_table, tag
from evencover.display.text import number_text, text_table
from evencover.scores import Score
from evencover.scores.one_sided import is_one_sided
from evencover.scores.support import support_of
from evencover.taxonomies import Taxonomy, has_one_group

Tails: TypeAlias = Literal["joint", "separate"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A score with a taxonomy, evaluated on out-of-fold predictions.

    Parameters
    ----------
    nonconformity : Score
        The score.
    taxonomy : Taxonomy
        The groups.
    verdict : {"even", "uneven", "undecided"}
        Verdict on one threshold, for five groups of the spread. With thresholds per group it is "even", which is
        guaranteed.
    interval_score : float
        Mean interval score, in the unit of the target: the width, plus 2 / (1 − level) times the distance of a missed
        target. Infinite for one-sided bounds.
    width : float
        Mean width, in the unit of the target.
    tails : {"joint", "separate"}
        Whether both ends of an interval have the same threshold, or each end its own (`TwoTails`). If all rows are one
        group, the verdict on separate tails is that on joint tails.
    transform : str, optional
        "log" if the model was fitted to the log of the target, and the score is computed on that scale.
    """

    nonconformity: Score
    taxonomy: Taxonomy
    verdict: Verdict
    interval_score: float
    width: float
    tails: Tails = "joint"
    transform: str | None = None

    @property
    def outcome(self) -> str:
        """The verdict as text; thresholds per group are even (guaranteed)."""
        return self.verdict + " (guaranteed)" * (self.verdict == "even" and not self.has_one_threshold)

    @property
    def has_one_threshold(self) -> bool:
        """Whether all rows have the same threshold."""
        return has_one_group(self.taxonomy)

    @property
    def name(self) -> str:
        """The score and the groups as text."""
        groups = "one threshold" if self.has_one_threshold else repr(self.taxonomy)
        return f"{self.score_name} with {groups}{self._ends}"

    @property
    def groups_name(self) -> str:
        """The groups as text, and whether each end of an interval has its own threshold."""
        return f"{self.taxonomy!r}{self._ends}"

    @property
    def _ends(self) -> str:
        return ", for each end" * (self.tails == "separate")

    @property
    def score_name(self) -> str:
        """The score as text, with the scale that it is computed on."""
        scale = "" if self.transform is None else f" of the {self.transform} of the target"
        return f"{score_text(self.nonconformity)}{scale}"


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """The candidates that were evaluated, and the one that was chosen. `print` shows the reason and a table.

    Parameters
    ----------
    candidates : tuple of Candidate
        The evaluated candidates, the one with the smallest interval score first.
    chosen : Candidate
        The even candidate with the smallest interval score. Among all even ones whose score is at most 1 % larger, the
        simplest: with the fewest groups, then without the log, then with joint tails. One threshold for all rows is
        chosen only if there are too few calibration rows for groups.
    level : float
        Nominal coverage of the comparison.
    """

    candidates: tuple[Candidate, ...]
    chosen: Candidate
    level: float

    @property
    def summary(self) -> str:
        """What was chosen and why, then why not the others; a line for each."""
        lines = [f"Chosen: {self.chosen.name}. {self._reason()}", *self._reasons_against_others()]
        if (support := support_of(self.chosen.nonconformity)) is not None:
            lines.append(f"All candidates hold only targets that are {support}.")
        return "\n".join(lines)

    def _reason(self) -> str:
        """Return why the chosen candidate was chosen."""
        if len(self.candidates) == 1:
            return f"It was the only candidate; its verdict: {self.chosen.outcome}."
        if self.chosen.verdict != "even":
            few = ": the rows are too few to show it" if self.chosen.verdict == "undecided" else ""
            which = "simplest" if self._one_sided else "best"
            return f"No candidate is even{few}. Of the {self.chosen.verdict} ones, this is the {which}."
        one_threshold = self.chosen.has_one_threshold
        even = (
            "It is even over five groups of the spread"
            if one_threshold
            else "Thresholds per group are even by their guarantee"
        )
        same = [each for each in self._others("even") if each.has_one_threshold == one_threshold]
        if any(each.interval_score < self.chosen.interval_score for each in same):
            return f"{even}. Less simple ones have an interval score that is at most 1 % lower."
        with_groups = "" if one_threshold else " with groups"
        return (
            f"{even}." if self._one_sided else f"{even}, and no even candidate{with_groups} has a lower interval score."
        )

    def _reasons_against_others(self) -> list[str]:
        """Return a sentence about the uneven, the undecided and the other even candidates; none if there are none."""
        verdict = self.chosen.verdict
        reasons = {
            "Uneven": self._others("uneven") if verdict != "uneven" else [],
            "Undecided, because the rows are too few": self._others("undecided") if verdict == "even" else [],
        }
        one_threshold = [each for each in self._others("even") if each.has_one_threshold]
        if verdict == "even" and not self.chosen.has_one_threshold:
            reasons["Even on the training rows, but not guaranteed"] = one_threshold
        listed = [each for others in reasons.values() for each in others]
        worse = [each for each in self._others(verdict) if each.interval_score > self.chosen.interval_score]
        n_worse = sum(each not in listed for each in worse)
        return [f"{reason}: {self._list(others)}." for reason, others in reasons.items() if others] + [
            f"Also {verdict}, but with a higher interval score: {n_worse} of the {len(self.candidates)} candidates."
        ] * (n_worse > 0)

    def _others(self, verdict: Verdict) -> list[Candidate]:
        return [each for each in self.candidates if each.verdict == verdict and each is not self.chosen]

    def _list(self, candidates: Sequence[Candidate]) -> str:
        return join_first(each.name + f" ({self._difference(each)})" * (not self._one_sided) for each in candidates)

    def _difference(self, candidate: Candidate) -> str:
        """Return how much higher or lower its interval score is than that of the chosen candidate: 4.2 % higher."""
        if not isfinite(candidate.interval_score) or not 0 < self.chosen.interval_score < inf:
            return f"interval score {number_text(candidate.interval_score)}"
        percent = 100 * (candidate.interval_score / self.chosen.interval_score - 1)
        return f"score {abs(percent):.1f} % {'lower' if percent < 0 else 'higher'}"

    def __repr__(self) -> str:
        return f"Recommendation({self.chosen.score_name}, {self.chosen.groups_name}, level={self.level:g})"

    def __str__(self) -> str:
        return f"{self.summary}\n\n{text_table(self._header, self._table_rows())}"

    def _repr_html_(self) -> str:
        first, *others = (tag("p", line) for line in self.summary.split("\n"))
        return tag("div", tag("b", first), *others, html_table(self._header, self._table_rows()))

    @property
    def _header(self) -> tuple[str, ...]:
        numbers = () if self._one_sided else (f"interval score at level {self.level:g}", "mean width")
        return "nonconformity", "taxonomy", "verdict", *numbers, ""

    @property
    def _one_sided(self) -> bool:
        """Whether the candidates have one-sided bounds, which have no width and no interval score."""
        return is_one_sided(self.chosen.nonconformity)

    def _table_rows(self) -> list[tuple[str, ...]]:
        return [
            (
                each.score_name,
                each.groups_name,
                each.outcome,
                *(() if self._one_sided else (number_text(each.interval_score), number_text(each.width))),
                "<- chosen" * (each is self.chosen),
            )
            for each in self.candidates
        ]
