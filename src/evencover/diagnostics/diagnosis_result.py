"""The result of a diagnosis: frozen data, and its text."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import COLUMNS, cells, listed, probability, table_of, verdict_html
from evencover.diagnostics._marginal_threshold import GroupForecast
from evencover.diagnostics._options import Option
from evencover.diagnostics._quantile_differences import ROWS_BEYOND, QuantileDifference
from evencover.diagnostics._score_distributions import DistributionDifference
from evencover.diagnostics._spread_dependence import Dependence
from evencover.diagnostics._verdict import Verdict, rows_to_add
from evencover.groups import Groups, Label
from evencover.predictions import Rows
from evencover.scores import Score

_HEADER = (*COLUMNS, "p (Holm)")


@dataclass(frozen=True, eq=False, repr=False)
class DiagnosisInputs:
    """What a diagnosis rests on, at whatever level.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    groups : Groups of n rows
        Their groups.
    spread : ndarray of shape (n,) or None
        The predicted difficulty of each row.
    seed : int
        Of the draws.
    rows : Rows or None
        The calibration rows, where the model is known.
    nonconformity : Score or None
        The score, where the model is known.
    priced : bool
        Whether widths of thresholds per group are known: not where groups depend on the target.
    """

    scores: FloatArray
    groups: Groups
    spread: FloatArray | None
    seed: int
    rows: Rows | None = None
    nonconformity: Score | None = None
    priced: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What one threshold for all rows will cover in each group, and whether that is even. Made by `diagnose`.

    The verdict is `uneven` where the joint p-value is under 0.05 and some group's interval excludes the level; else
    `even` where every group's interval lies within the tolerance of the level; else `undecided`. All other tests are
    evidence beside it. Printed, a diagnosis is a page of text.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        On the marginal predictor, over these groups, at this level.
    advice : str
        What to do, how that was found, at what cost.
    table : tuple of GroupForecast
        The coverage to come in each group, with an exact interval and an exact test.
    joint_p_value : float
        The exact test of all groups together; `null` says what for.
    level, tolerance : float
        Nominal coverage, and the distance from it that counts as even.
    threshold : float
        The one for all rows.
    inputs : DiagnosisInputs
        The scores it rests on.
    quantile_differences : tuple of QuantileDifference
        The paper's bootstrap, pair by pair; empty with too few rows for a quantile, or more than 30 groups.
    distribution_differences : tuple of DistributionDifference
        Kolmogorov and Smirnov's test, pair by pair: differences at any level. Empty with more than 30 groups.
    anderson_darling : float
        The p-value of one distribution for all groups' scores.
    dependence : Dependence or None
        Of the score on the spread, where the spread is known.
    options : tuple of Option
        What could be used instead, where the model is known; the first is the marginal predictor itself.
    taxonomy : str
        How to ask for these groups, where the model is known.
    in_use : bool
        Whether the model is calibrated per group by this taxonomy already.
    """

    verdict: Verdict
    advice: str
    table: tuple[GroupForecast, ...]
    joint_p_value: float
    level: float
    tolerance: float
    threshold: float
    inputs: DiagnosisInputs
    quantile_differences: tuple[QuantileDifference, ...]
    distribution_differences: tuple[DistributionDifference, ...]
    anderson_darling: float
    dependence: Dependence | None = None
    options: tuple[Option, ...] = ()
    taxonomy: str = ""
    in_use: bool = False

    @cached_property
    def scores(self) -> Mapping[Label, FloatArray]:
        """The scores of each group that has rows."""
        return self.inputs.groups.split(self.inputs.scores)

    @property
    def null(self) -> str:
        """What the exact tests are exact for.

        Under the weaker null, equal coverage at this level only, they can reject more often than they say; so an
        interval has the last word in the verdict.
        """
        return "scores do not depend on the group"

    @property
    def rows_to_decide(self) -> dict[Label, int]:
        """Where undecided, and the threshold finite: about how many more rows groups need for a verdict."""
        decided = self.verdict != "undecided" or self.threshold == np.inf
        return {} if decided else rows_to_add(self.table, self.level, self.tolerance)

    def __repr__(self) -> str:
        n = sum(group.rows for group in self.table)
        return f"Diagnosis({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        return "\n".join([*self._evidence(), f"Verdict: {self.verdict}. {self.advice}"])

    def _repr_html_(self) -> str:
        return verdict_html(self, self.table, _cells, _HEADER)

    def _evidence(self) -> list[str]:
        """Return the evidence in lines of text."""
        by = f", by {self.taxonomy}" if self.taxonomy else ""
        lines = [
            f"Coverage to come by one threshold, {self.threshold:.4g}, at level {self.level:g}{by}:",
            table_of(self.table, _cells, _HEADER),
            f"Test that all groups are even: p {probability(self.joint_p_value)}, exact for the null that {self.null}.",
        ]
        if self.quantile_differences:
            lines.append(self._quantiles_text())
        if len(self.scores) > 1:
            lines.append(f"Test of equal scores at every level: p {probability(self.anderson_darling)}.")
        if self.dependence is not None:
            lines.append(f"Score and spread: {self.dependence}.")
        if self.in_use:
            lines.append("The model is calibrated per group by them; all this is about one threshold for all instead.")
        return lines

    def _quantiles_text(self) -> str:
        """Return which groups' quantiles differ, in a line of text."""
        differ = (each.groups for each in self.quantile_differences if each.adjusted < SIGNIFICANT)
        named = listed(f"{first} and {second}" for first, second in differ)
        beyond = min(len(scores) for scores in self.scores.values()) * (1 - self.level)
        few = " (too few rows to trust it)" if round(beyond, 9) < ROWS_BEYOND else ""
        return f"Groups whose quantiles differ, by bootstrap{few}: {named or 'none'}."


def _cells(row: GroupForecast) -> tuple[str, ...]:
    """Return the text of a line."""
    return *cells(row), probability(row.adjusted)
