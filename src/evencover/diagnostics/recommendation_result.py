"""The result of `recommend`: the evaluated candidates, and the chosen one."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evencover.diagnostics.verdicts import Verdict
from evencover.display.text import short_repr
from evencover.scores import Score
from evencover.scores.one_sided import is_one_sided
from evencover.scores.support import without_support
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
        """The score as text, with its scale, and without the support, which all candidates share."""
        scale = "" if self.transform is None else f" of the {self.transform} of the target"
        return f"{short_repr(without_support(self.nonconformity))}{scale}"


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
    def one_sided(self) -> bool:
        """Whether the candidates have one-sided bounds, which have no width and no interval score."""
        return is_one_sided(self.chosen.nonconformity)

    @property
    def summary(self) -> str:
        """What was chosen and why, then why not the others; a line for each."""
        from evencover.words.recommendations import recommendation_summary

        return recommendation_summary(self)

    def __repr__(self) -> str:
        return f"Recommendation({self.chosen.score_name}, {self.chosen.groups_name}, level={self.level:g})"

    def __str__(self) -> str:
        from evencover.words.recommendations import recommendation_text

        return recommendation_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.recommendations import recommendation_html

        return recommendation_html(self)
