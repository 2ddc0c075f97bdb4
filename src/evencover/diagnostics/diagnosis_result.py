"""The result of a diagnosis."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from evencover.diagnostics.one_threshold import GroupForecast, MarginalThreshold
from evencover.diagnostics.options import Option
from evencover.diagnostics.score_tests import Dependence, DistributionDifference, QuantileDifference
from evencover.diagnostics.verdicts import Verdict, is_off
from evencover.groups import Groups, Label
from evencover.inputs.arrays import FloatArray
from evencover.quantiles import Level
from evencover.rows import Rows
from evencover.scores import Score
from evencover.taxonomies import Taxonomy


@dataclass(frozen=True, eq=False, repr=False)
class DiagnosisInputs:
    """The inputs of a diagnosis, which do not depend on the level.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    groups : Groups of n rows
        Their groups.
    spread : ndarray of shape (n,) or None
        The predicted difficulty of each row.
    seed : int
        Seed of the random draws.
    rows : Rows or None
        The calibration rows, if the model is known.
    nonconformity : Score or None
        The score, if the model is known.
    group_widths_known : bool
        Whether the widths with thresholds per group are known. They are not if the groups depend on the target.
    taxonomy : Taxonomy or None
        The taxonomy of the groups, if the model is known.
    several_models : bool
        Whether the scores are out of fold, so that they come from several models.
    clustered_rows : int
        Number of calibration rows in clusters, if these are one random row of each of them; otherwise 0.
    tolerance : float, optional
        The tolerance that the user gave; by default it depends on the level.
    """

    scores: FloatArray
    groups: Groups
    spread: FloatArray | None
    seed: int
    rows: Rows | None = None
    nonconformity: Score | None = None
    group_widths_known: bool = True
    taxonomy: Taxonomy | None = None
    several_models: bool = False
    clustered_rows: int = 0
    tolerance: float | None = None

    @property
    def groups_are_guaranteed(self) -> bool:
        """Whether thresholds per group guarantee the coverage of these groups, and not only approximately."""
        return not self.several_models and not (self.clustered_rows and self.groups.n_edge_bits)

    def marginal_threshold(self, level: Level) -> MarginalThreshold:
        """Return the threshold for all rows at a level."""
        return MarginalThreshold(self.scores, self.groups, level, self.rows, self.nonconformity)


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The coverage that one threshold for all rows will have in each group. Returned by `diagnose`.

    The verdict is `even` if every group is shown to lie within the tolerance of the level: one-sided tests at 5 %
    reject, on both sides, that it is off by the tolerance or more. It is `uneven` if a group is off: its coverage is
    shown to differ from the level (its adjusted p-value is below 0.05 and its interval excludes the level) and is not
    shown to lie within the tolerance. Otherwise it is `undecided`. The other tests are additional information. `print`
    shows a table, the test results, the verdict and the advice.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        Verdict on the marginal predictor, for these groups, at this level.
    table : tuple of GroupForecast
        The expected coverage of each group, with an exact interval and an exact test.
    joint_p_value : float
        p-value of the exact test of all groups jointly, under the `null_hypothesis`.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    shown_within : float
        The smallest distance from the level within which every group is shown to lie: the smallest tolerance for which
        they are even. Infinite if the threshold is.
    threshold : float
        The threshold for all rows.
    inputs : DiagnosisInputs
        The scores and the other inputs.
    quantile_differences : tuple of QuantileDifference
        The paper's bootstrap for each pair of groups; empty with too few rows for a quantile, or more than 30 groups.
    distribution_differences : tuple of DistributionDifference
        Kolmogorov-Smirnov test for each pair of groups, for differences at any level. Empty with more than 30 groups.
    anderson_darling : float
        p-value of the null hypothesis that the scores of all groups have the same distribution.
    dependence : Dependence or None
        Dependence of the score on the spread, if the spread is known.
    options : tuple of Option
        Predictors that could be used instead, if the model is known. The first is the marginal predictor itself.
    taxonomy : str
        The taxonomy of these groups as Python code, if the model is known.
    in_use : bool
        Whether the model is already calibrated per group with this taxonomy.
    """

    verdict: Verdict
    table: tuple[GroupForecast, ...]
    joint_p_value: float
    level: float
    tolerance: float
    shown_within: float
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
    def null_hypothesis(self) -> str:
        """The null hypothesis under which the exact tests are exact.

        Under the weaker hypothesis of equal coverage at this level only, they can reject more often than in 5 % of the
        cases. Therefore a group is off only if its interval excludes the level, too.
        """
        return "scores do not depend on the group"

    @property
    def off(self) -> tuple[GroupForecast, ...]:
        """The groups that are off."""
        return tuple(row for row in self.table if is_off(row, self.level, self.tolerance))

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        from evencover.words.answers import diagnosis_headline

        return diagnosis_headline(self)

    @property
    def advice(self) -> str:
        """What to do, how that was found, and at what cost."""
        from evencover.words.advice import advice_on_diagnosis

        return advice_on_diagnosis(self)

    def __repr__(self) -> str:
        n = sum(group.rows for group in self.table)
        return f"Diagnosis({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        from evencover.words.results import diagnosis_text

        return diagnosis_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.results import diagnosis_html

        return diagnosis_html(self)
