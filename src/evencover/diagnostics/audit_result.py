"""The result of an audit: frozen data, and its text."""

from dataclasses import dataclass

from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._excess_risk import ExcessRisk
from evencover.diagnostics._formatting import COLUMNS, cells, listed, probability, table_of, verdict_html
from evencover.diagnostics._verdict import Verdict, excludes, rows_to_add
from evencover.groups import Label

_HEADER = (*COLUMNS, "p (Holm)", "mean width", "Winkler score")


@dataclass(frozen=True)
class GroupAudit:
    """What intervals covered of a group.

    Parameters
    ----------
    group : label
        The group.
    rows : int
        Its test rows.
    coverage : float
        Share of them that is covered; NaN without rows.
    low, high : float
        Exact (Clopper-Pearson) 95 % interval of the coverage that these intervals, calibrated as they are, have in the
        group.
    p_under, p_over : float
        Exact p-values of so few, or so many, rows covered, if coverage is what was promised, and no more: ties between
        scores can make it more. NaN without rows, or where nothing was promised (groups unseen in calibration).
    adjusted : float
        Both sides together, adjusted for the number of groups that are tested together (Holm).
    p_limit : float
        What `adjusted` would become with ever more test rows, covered as often as these: what calibration leaves to
        chance. NaN without rows; 0 where the number of calibration rows is not known.
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
    """What intervals covered, in each group and against the features. Made by `audit`.

    The verdict is `uneven` where the joint p-value is under 0.05 and some interval excludes the level: a group's, the
    worst slab's, or that of all rows together, since coverage that is evenly off the level is no better. Else it is
    `even` where every group's interval lies within the tolerance of the level; else `undecided`. Printed, an audit is a
    page of text.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        On these intervals, over these groups, at this level.
    advice : str
        What to do.
    table : tuple of GroupAudit
        The groups.
    joint_p_value : float
        The smallest p-value of the groups, all rows together and the worst slab, adjusted for their number (Holm).
    overall : GroupAudit
        All rows together.
    by_width : tuple of GroupAudit
        Rows by the width of their intervals (size-stratified coverage), thirds of them.
    by_feature : tuple of GroupAudit
        Rows by each feature (feature-stratified coverage), adjusted for all of these together.
    slab : GroupAudit or None
        The worst slab of the features: found on one half of the rows, judged on the other, for too few covered only.
    slab_rule : str
        Where it is.
    excess_risk : ExcessRisk or None
        Whether the features tell covered rows from missed ones.
    level, tolerance : float
        Nominal coverage, and the distance from it that counts as even.
    sizes_known : bool
        Whether it is known how many calibration scores are behind the thresholds.
    n_empty, n_infinite : int
        Intervals that are empty, and those of infinite width.
    seed : int
        Of the draws.
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
    def law(self) -> str:
        """What the p-values hold for: calibration rows drawn anew, or this calibration as it is."""
        known, given = "for calibration rows drawn anew (BetaBinomial)", "given this calibration (Binomial)"
        return known if self.sizes_known else given

    @property
    def left_to_chance(self) -> tuple[GroupAudit, ...]:
        """Groups off the level for certain, but not beyond what their calibration rows leave to chance."""
        off = (row for row in self.table if excludes(row, self.level) and row.adjusted >= SIGNIFICANT)
        return tuple(row for row in off if row.p_limit >= SIGNIFICANT)

    @property
    def features_off_the_level(self) -> str:
        """Which rows by feature are off the level beyond chance, in words, the surest first; empty if none are."""
        off = sorted((row for row in self.by_feature if row.adjusted < SIGNIFICANT), key=lambda row: row.adjusted)
        return listed(f"{row.group} ({row.coverage:.3f})" for row in off)

    @property
    def rows_to_decide(self) -> dict[Label, int]:
        """Where undecided: about how many more rows groups need, were their coverage what was seen."""
        if self.verdict != "undecided":
            return {}
        open_groups = [row for row in self.table if row not in self.left_to_chance]
        return rows_to_add(open_groups, self.level, self.tolerance)

    def __repr__(self) -> str:
        n = self.overall.rows
        return f"Audit({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        lines = [
            f"Coverage at level {self.level:g}, p-values {self.law}:",
            table_of([*self.table, *([self.slab] if self.slab else []), self.overall], _cells, _HEADER),
        ]
        if self.n_empty or self.n_infinite:
            lines.append(f"Empty intervals: {self.n_empty}; infinite ones: {self.n_infinite}.")
        return "\n".join([*lines, *self._by_features(), f"Verdict: {self.verdict}. {self.advice}"])

    def _repr_html_(self) -> str:
        return verdict_html(self, [*self.table, self.overall], _cells, _HEADER)

    def _by_features(self) -> list[str]:
        """Return what the features show, in lines of text."""
        if self.excess_risk is None:
            return []
        lines = [
            f"Features with rows off the level: {self.features_off_the_level or 'none'}.",
            f"Features tell covered rows from missed ones: {self.excess_risk}.",
        ]
        return [f"The worst slab is {self.slab_rule}.", *lines] if self.slab else lines


def _cells(row: GroupAudit) -> tuple[str, ...]:
    """Return the text of a line."""
    return *cells(row), probability(row.adjusted), f"{row.width:.4g}", f"{row.score:.4g}"
