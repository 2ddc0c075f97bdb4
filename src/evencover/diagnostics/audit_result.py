"""The result of an audit."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evencover.diagnostics.exact_tests import SIGNIFICANT
from evencover.diagnostics.interval_quality import Quality
from evencover.diagnostics.regions import ExcessRisk
from evencover.diagnostics.verdicts import Verdict, excludes_level, is_as_even_as_possible, is_off
from evencover.groups import Label

Evidence: TypeAlias = Literal["calibration and test rows", "test rows"]


@dataclass(frozen=True)
class GroupAudit:
    """The coverage of intervals in a group of test rows.

    Parameters
    ----------
    group : label
        The group.
    rows : int
        Number of its test rows.
    coverage : float
        Share of these rows that is covered; NaN without rows.
    low, high : float
        Interval of the coverage in the group, for these intervals with their current calibration. The intervals of all
        groups of `Audit.table` hold at the same time with 95 % confidence; other rows have a 95 % Clopper-Pearson
        interval of their own.
    estimate : float
        Estimate of the coverage from the rows behind the interval (see `Audit.evidence`); NaN without rows.
    p_under, p_over : float
        One-sided exact p-values for under-coverage, and for over-coverage by the targets strictly inside. NaN without
        rows, or without a guarantee (groups unseen in calibration).
    adjusted : float
        Two-sided p-value, Holm-adjusted for the number of groups that are tested jointly.
    p_limit : float
        The limit of `adjusted` for infinitely many test rows with the same coverage. If it is at least 0.05, the
        randomness of the calibration rows alone can explain the coverage. NaN without rows; 0 if the number of
        calibration rows is not known.
    width : float
        Mean width; NaN without rows.
    score : float
        Mean interval (Winkler) score; NaN without rows, or for unions of intervals.
    within : float
        The smallest distance from the level within which the coverage of this group, by itself, is shown to lie.
        Infinite without rows, and if intervals are infinite.
    inside, inside_low : float
        Share of the targets strictly inside their intervals, not on a bound, and the lower end of an interval for it.
        A group is covered too often only if this share is shown to be larger than the level.
    """

    group: Label
    rows: int
    coverage: float
    low: float
    high: float
    estimate: float
    p_under: float
    p_over: float
    adjusted: float
    p_limit: float
    width: float
    score: float
    within: float
    inside: float
    inside_low: float


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The coverage of intervals on test rows: in each group, and by the features. Returned by `audit`.

    The verdict is `even` if all groups are shown to lie within the tolerance of the level (`shown_within`). It is
    `uneven` if a group is off: its coverage is shown to differ from the level (its adjusted p-value is below 0.05 and
    its interval excludes the level) and is not shown to lie within the tolerance. The verdict is also `uneven` if all
    rows are off, because coverage can be the same in every group and still be wrong; and if the worst region is off,
    unless each group has its own threshold: then the verdict is on these groups, and the advice names the region.
    Otherwise it is `undecided`. `print` shows a table, the test results, the verdict and the advice.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        Verdict on these intervals, for these groups, at this level.
    table : tuple of GroupAudit
        The result for each group.
    joint_p_value : float
        The smallest Holm-adjusted p-value of the groups, all rows and the worst region.
    overall : GroupAudit
        The result for all rows.
    by_width : tuple of GroupAudit
        The result for each third of the rows by interval width (size-stratified coverage).
    by_feature : tuple of GroupAudit
        The result for the rows by each feature (feature-stratified coverage), Holm-adjusted for all of them.
    worst_region : GroupAudit or None
        The values of the features with the lowest coverage, found by a decision tree on one half of the rows and
        tested on the other half, for under-coverage only. None without features, or if the tree finds no split.
    region_rule : str
        The worst region in columns and values, such as "carat > 1.02 and cut = Fair".
    excess_risk : ExcessRisk or None
        Whether the features predict which rows are covered.
    quality : Quality
        How wide the intervals are compared with those without any model, and what the predictions explain.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    sizes_known : bool
        Whether the numbers of calibration scores behind the thresholds are known.
    own_thresholds : bool
        Whether each of several groups has a threshold from known calibration rows of its own.
    evidence : {"calibration and test rows", "test rows"}
        The rows behind the intervals of the groups. It is the test rows alone if they contradict the calibration rows,
        or if the calibration rows of each group are not known.
    shown_within : float
        The smallest distance from the level within which all groups are shown to lie: the smallest tolerance for which
        they are even. Infinite if intervals are.
    split_at_random : bool
        Whether the test rows were split off at random from the same rows as the calibration rows; see `audit`.
    n_empty, n_infinite : int
        Number of empty intervals, and of infinite ones; of one-sided bounds, those that are infinite on both sides.
    seed : int
        Seed of the random draws.
    notes : tuple of str
        Sentences that tell what was tested and what was not.
    n_replaced : int
        Number of intervals that held no possible target, and were replaced by the nearest one; see `Bounded`.
    rows_needed : int, optional
        Number of calibration rows that finite intervals need, if some are infinite because a group has fewer.
    """

    verdict: Verdict
    table: tuple[GroupAudit, ...]
    joint_p_value: float
    overall: GroupAudit
    by_width: tuple[GroupAudit, ...]
    by_feature: tuple[GroupAudit, ...]
    worst_region: GroupAudit | None
    region_rule: str
    excess_risk: ExcessRisk | None
    quality: Quality
    level: float
    tolerance: float
    sizes_known: bool
    own_thresholds: bool
    evidence: Evidence
    shown_within: float
    split_at_random: bool
    n_empty: int
    n_infinite: int
    seed: int
    notes: tuple[str, ...] = ()
    n_replaced: int = 0
    rows_needed: int | None = None

    @property
    def explained_by_calibration(self) -> tuple[GroupAudit, ...]:
        """Groups whose interval excludes the level, possibly only because they have few calibration rows.

        More test rows cannot decide whether they are covered as guaranteed.
        """
        off = (row for row in self.table if excludes_level(row, self.level) and row.adjusted >= SIGNIFICANT)
        return tuple(row for row in off if row.within > self.tolerance and row.p_limit >= SIGNIFICANT)

    @property
    def off(self) -> tuple[GroupAudit, ...]:
        """The groups that are off, and the worst region if it is and groups have no thresholds of their own."""
        regions = [] if self.worst_region is None or self.own_thresholds else [self.worst_region]
        return tuple(row for row in (*self.table, *regions) if is_off(row, self.level, self.tolerance))

    @property
    def is_as_even_as_possible(self) -> bool:
        """Whether groups are not even only because some of them cannot be narrower."""
        return is_as_even_as_possible(self, self.overall)

    @property
    def features_off(self) -> tuple[GroupAudit, ...]:
        """Rows by feature that are off, smallest p-value first."""
        off = (row for row in self.by_feature if is_off(row, self.level, self.tolerance))
        return tuple(sorted(off, key=lambda row: row.adjusted))

    @property
    def headline(self) -> str:
        """The result in two sentences."""
        from evencover.words.answers import audit_headline

        return audit_headline(self)

    @property
    def advice(self) -> str:
        """What to do."""
        from evencover.words.advice import advice_on_audit

        return str(advice_on_audit(self))

    def __repr__(self) -> str:
        n = self.overall.rows
        return f"Audit({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        from evencover.words.results import audit_text

        return audit_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.results import audit_html

        return audit_html(self, self.advice)
