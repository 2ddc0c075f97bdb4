"""The result of an audit, and its text."""

from dataclasses import dataclass

from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._excess_risk import ExcessRisk
from evencover.diagnostics._formatting import (
    COVERAGE_COLUMNS,
    coverage_cells,
    coverage_text,
    group_table,
    join_first,
    number_text,
    p_value_text,
    verdict_html,
)
from evencover.diagnostics._verdict import Verdict, excludes_level, rows_to_add
from evencover.groups import Label

_HEADER = (*COVERAGE_COLUMNS, "p (Holm)", "mean width", "Winkler score")


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
        95 % Clopper-Pearson interval of the coverage in the group, for these intervals with their current calibration.
    p_under, p_over : float
        One-sided exact p-values for under- and over-coverage. They assume that the guaranteed coverage is exact; ties
        between scores can increase it. NaN without rows, or without a guarantee (groups unseen in calibration).
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
    """

    group: Label
    rows: int
    coverage: float
    low: float
    high: float
    p_under: float
    p_over: float
    adjusted: float
    p_limit: float
    width: float
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The coverage of intervals on test rows: in each group, and by the features. Returned by `audit`.

    The verdict is `uneven` if the joint p-value is below 0.05 and some 95 % interval excludes the level: that of a
    group, of the worst slab, or of all rows. (All rows are tested as well because coverage can be the same in every
    group and still be wrong.) Otherwise it is `even` if the interval of every group lies within the tolerance of the
    level. Otherwise it is `undecided`. `print` shows a table, the test results, the verdict and the advice.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        Verdict on these intervals, for these groups, at this level.
    advice : str
        What to do.
    table : tuple of GroupAudit
        The result for each group.
    joint_p_value : float
        The smallest Holm-adjusted p-value of the groups, all rows and the worst slab.
    overall : GroupAudit
        The result for all rows.
    by_width : tuple of GroupAudit
        The result for each third of the rows by interval width (size-stratified coverage).
    by_feature : tuple of GroupAudit
        The result for the rows by each feature (feature-stratified coverage), Holm-adjusted for all of them.
    slab : GroupAudit or None
        The worst slab, which is the region between two parallel planes in the space of the features with the lowest
        coverage. It is found on one half of the rows and tested on the other half, for under-coverage only.
    slab_rule : str
        The inequality that defines the slab.
    excess_risk : ExcessRisk or None
        Whether the features predict which rows are covered.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    sizes_known : bool
        Whether the numbers of calibration scores behind the thresholds are known.
    n_empty, n_infinite : int
        Number of empty intervals, and of intervals with infinite width.
    seed : int
        Seed of the random draws.
    """

    verdict: Verdict
    advice: str
    table: tuple[GroupAudit, ...]
    joint_p_value: float
    overall: GroupAudit
    by_width: tuple[GroupAudit, ...]
    by_feature: tuple[GroupAudit, ...]
    slab: GroupAudit | None
    slab_rule: str
    excess_risk: ExcessRisk | None
    level: float
    tolerance: float
    sizes_known: bool
    n_empty: int
    n_infinite: int
    seed: int

    @property
    def p_value_scope(self) -> str:
        """Whether the p-values include the random variation of the calibration rows; continues "The p-values ..."."""
        verb, distribution = ("include", "BetaBinomial") if self.sizes_known else ("do not include", "Binomial")
        return f"{verb} the random variation of the calibration rows ({distribution})"

    @property
    def explained_by_calibration(self) -> tuple[GroupAudit, ...]:
        """Groups whose interval excludes the level, possibly only because they have few calibration rows.

        More test rows cannot decide whether they are covered as guaranteed.
        """
        off = (row for row in self.table if excludes_level(row, self.level) and row.adjusted >= SIGNIFICANT)
        return tuple(row for row in off if row.p_limit >= SIGNIFICANT)

    @property
    def features_off_the_level(self) -> str:
        """Rows by feature whose coverage differs significantly from the level, as text, smallest p-value first."""
        off = sorted((row for row in self.by_feature if row.adjusted < SIGNIFICANT), key=lambda row: row.adjusted)
        return join_first(map(coverage_text, off))

    @property
    def rows_to_decide(self) -> dict[Label, int]:
        """If undecided: about how many more test rows each group needs, if coverage stays near its current value."""
        if self.verdict != "undecided":
            return {}
        open_groups = [row for row in self.table if row not in self.explained_by_calibration]
        return rows_to_add(open_groups, self.level, self.tolerance)

    def __repr__(self) -> str:
        n = self.overall.rows
        return f"Audit({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        lines = [
            f"Coverage at level {self.level:g}. The p-values {self.p_value_scope}.",
            group_table([*self.table, *([self.slab] if self.slab else []), self.overall], _cells, _HEADER),
        ]
        if self.n_empty or self.n_infinite:
            lines.append(f"Empty intervals: {self.n_empty}; infinite intervals: {self.n_infinite}.")
        return "\n".join([*lines, *self._feature_lines(), f"Verdict: {self.verdict}. {self.advice}"])

    def _repr_html_(self) -> str:
        return verdict_html(self, [*self.table, self.overall], _cells, _HEADER)

    def _feature_lines(self) -> list[str]:
        """Return the results by the features, as lines of text."""
        if self.excess_risk is None:
            return []
        lines = [
            f"Rows by feature whose coverage differs from the level: {self.features_off_the_level or 'none'}.",
            f"Features predict which rows are covered: {self.excess_risk}.",
        ]
        return [f"Worst slab (lowest coverage by the features): {self.slab_rule}.", *lines] if self.slab else lines


def _cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the text of a table row."""
    return *coverage_cells(row), p_value_text(row.adjusted), number_text(row.width), number_text(row.score)
