"""The test of a model on all test rows of a large table, at several levels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray, warn_user
from evencover._internal.text_output import count_text
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._scope import width_feature
from evencover.diagnostics.audit_result import Audit
from evencover.distributed._audit_totals import AuditTotals, Strata
from evencover.distributed._coverage_counts import Cell, CoverageCounts, RowTotals
from evencover.distributed._large_table import UsedRows
from evencover.groups import Groups, Label
from evencover.guarantees import TooFewRowsWarning
from evencover.intervals import Intervals, bound_side, limits_reached
from evencover.model_selection import Part
from evencover.quantiles import level_fraction
from evencover.studies import Study, TableWarning
from evencover.studies._calibrated_models import warn_of_groups_with_few_rows
from evencover.studies._messages import Message
from evencover.studies._targets import outside_warnings
from evencover.studies.table_study import audit_of_study, audit_taxonomy
from evencover.table_columns import TableColumns
from evencover.taxonomies import ByFeature, ByPrediction, BySpread, Marginal, Product, Taxonomy

OUTSIDE_SUPPORT = "outside the support"  # in warnings of batches and of the sample
WITHOUT_TARGET = "rows without a target"
_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)  # of the report, besides the plan's own
_COLUMNS = TableColumns("target", lower="lower", upper="upper", group="group")  # of the counts


@dataclass(frozen=True, eq=False)
class BatchWarnings:
    """The warnings of batches, of which the first of each kind is given at the end.

    Those of targets outside the support, and of groups with too few rows, are about all rows together, and not kept.
    """

    texts: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the warnings of a batch."""
        with catch_warnings(record=True) as caught:
            simplefilter("always")
            yield
        for each in caught:
            text = str(each.message)
            if not isinstance(each.message, TooFewRowsWarning) and OUTSIDE_SUPPORT not in text:
                self.texts.setdefault(text.partition(":")[0], text)

    def give(self) -> None:
        """Give the warnings."""
        for text in self.texts.values():
            warn_user(f"{text} (in the first batch of the table that has such rows)")


def fixed_taxonomy(taxonomy: Taxonomy) -> Taxonomy:
    """Return a taxonomy with the groups that another one has learned, whatever rows it is used for."""
    if isinstance(taxonomy, Product):
        return Product([fixed_taxonomy(each) for each in taxonomy.taxonomies_])
    if isinstance(taxonomy, BySpread | ByPrediction):
        edges = np.unique(taxonomy.edges_[np.isfinite(taxonomy.edges_)]).tolist()
        return type(taxonomy)(edges=edges) if edges else Marginal()
    if isinstance(taxonomy, ByFeature) and taxonomy.edges is None:
        return ByFeature(taxonomy.column, categories=taxonomy.labels_)
    return taxonomy


@dataclass(frozen=True, eq=False)
class RowUses:
    """Counts of rows by their use, and of targets outside the support, if there is one."""

    support: Any
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, use: str, y: FloatArray) -> None:
        """Count some targets."""
        n, total = self.counts.get(use, (0, 0))
        outside = 0 if self.support is None else int(np.count_nonzero(~self.support.contains(y)))
        self.counts[use] = n + outside, total + len(y)

    def warnings(self) -> list[Message]:
        """Return a warning if targets were outside; it is also given."""
        found = [] if self.support is None else outside_warnings(self.support, self.counts)
        for each in found:
            warn_user(TableWarning(each))
        return found


@dataclass(frozen=True, eq=False)
class ModelTest:
    """The test of a calibrated model: counts of all test rows at several levels.

    Parameters
    ----------
    sampled : Study
        The study of the sample.
    regressor : ConformalRegressor
        The model, calibrated on all calibration rows.
    taxonomy : taxonomy
        The groups of the audit.
    by_level : mapping from float to _LevelCounts
        The counts at each level, the plan's own included.
    outside : RowUses
        The counts of rows, and of targets outside the support.
    warnings : BatchWarnings
        The warnings of batches.
    """

    sampled: Study
    regressor: ConformalRegressor
    taxonomy: Taxonomy
    by_level: Mapping[float, "_LevelCounts"]
    outside: RowUses
    warnings: BatchWarnings

    @classmethod
    def of(
        cls, sampled: Study, regressor: ConformalRegressor, outside: RowUses, warnings: BatchWarnings
    ) -> "ModelTest":
        """Return the test, with the intervals of the sample's test rows at all levels."""
        levels = sorted({*_LEVELS, sampled.plan.level})
        warn_of_groups_with_few_rows(regressor, sampled.plan.level)
        with catch_warnings():
            simplefilter("ignore", TooFewRowsWarning)  # of other levels
            intervals = [regressor.predict_interval(sampled.test_rows, level=level) for level in levels]
        several = len(regressor.calibration_.labels) > 1
        taxonomy = regressor.taxonomy_ if several else fixed_taxonomy(audit_taxonomy(sampled.regressor))
        labels, y = taxonomy.assign(sampled.test_rows).labels, sampled.test_rows.required_target(by="a test")
        by_level = {
            level: _LevelCounts.of(y, each, level, labels) for level, each in zip(levels, intervals, strict=True)
        }
        return cls(sampled, regressor, taxonomy, by_level, outside, warnings)

    @property
    def features(self) -> list[str]:
        """The columns that the model needs."""
        return [str(name) for name in self.regressor.feature_names_in_]

    def counted(self, batch: UsedRows) -> tuple[Intervals, Groups]:
        """Count rows at all levels. Return their intervals at the plan's own level, and their groups."""
        self.outside.add("test", batch.y)
        with self.warnings.collected(), batch.named_errors():
            rows = self.regressor.rows(batch.table.select(self.features), batch.y)
            at_all_levels = self.regressor.predict_interval(rows, level=list(self.by_level))
            groups = self.taxonomy.assign(rows)
        intervals = {level: _at(at_all_levels, position) for position, level in enumerate(self.by_level)}
        for level, counts in self.by_level.items():
            counts.add(batch.y, intervals[level], groups)
        return intervals[self.sampled.plan.level], groups

    def study(self, positions: IntArray, without_target: Sequence[Message]) -> Study:
        """Return the study of the whole table, and give the warnings.

        Parameters
        ----------
        positions : ndarray of int
            The positions of the sample's rows in the table.
        without_target : sequence of Message
            The note on all rows without a target, if there are any.
        """
        self.warnings.give()
        sampled, plan = self.sampled, self.sampled.plan
        intervals, groups = self.by_level[plan.level].sampled, self.taxonomy.assign(sampled.test_rows)
        all_rows = _CountedRows(self)
        audited = audit_of_study(
            self.regressor,
            sampled.test_rows,
            intervals,
            groups,
            sampled.diagnosis,
            X=sampled.test.X,
            level=plan.level,
            tolerance=plan.tolerance,
            seed=plan.seed,
            split_at_random=True,
        )
        result = replace(
            sampled,
            regressor=self.regressor,
            training=positions[sampled.training],
            calibration=positions[sampled.calibration],
            test=Part(sampled.test.X, sampled.test.y, positions[sampled.test.positions]),
            intervals=intervals,
            groups=groups,
            audit=all_rows.audit(audited),
            table_warnings=(*_without(sampled.table_warnings, OUTSIDE_SUPPORT), *self.outside.warnings()),
            table_notes=(all_rows.note, *without_target, *_without(sampled.table_notes, WITHOUT_TARGET)),
            all_rows=all_rows,
        )
        return result.spelled(sampled.spelling)


def _without(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Return the messages about the sample, except those that are about all rows of a table."""
    return tuple(each for each in messages if text not in each.text)


@dataclass(frozen=True, eq=False)
class _LevelCounts:
    """The counts of test rows at one level.

    Parameters
    ----------
    sampled : Intervals
        The intervals of the sample's test rows.
    counter : CoverageCounts
        What counts rows; its strata of widths are those of the sample.
    labels : tuple of labels
        The groups.
    tied : bool
        Whether several calibration scores equal a threshold.
    cells : dict
        The totals of each group and stratum.
    n_replaced : list of int
        For each batch, the number of intervals without a possible target, which became the nearest one.
    """

    sampled: Intervals
    counter: CoverageCounts
    labels: tuple[Label, ...]
    tied: bool
    cells: dict[Cell, RowTotals] = field(default_factory=dict)
    n_replaced: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, y: FloatArray, sampled: Intervals, level: float, labels: tuple[Label, ...]) -> "_LevelCounts":
        """Return counts without rows, for targets and intervals like those of the sample."""
        widths = Strata.of(width_feature(sampled.width), "width")
        side, limits = bound_side(sampled), limits_reached(y, sampled)
        counter = CoverageCounts(_COLUMNS, level_fraction(level), widths, _no_groups, side, limits)
        return cls(sampled, counter, labels, sampled.guarantee is not None and bool(sampled.guarantee.tied))

    def add(self, y: FloatArray, intervals: Intervals, groups: Groups) -> None:
        """Count some rows."""
        self.counter.add(self.cells, y, intervals, groups.codes, groups.labels)
        self.n_replaced.append(intervals.n_replaced)

    def totals(self, tails: tuple[Fraction, Fraction] | None) -> AuditTotals:
        """Return the totals of all rows."""
        strata = self.counter.strata.labels_among({stratum for _, stratum in self.cells})  # type: ignore[attr-defined]
        return AuditTotals(self.cells, self.labels, strata, tails, self.tied or sum(self.n_replaced) > 0)


def _no_groups(intervals: Intervals) -> IntArray:
    """Return no groups; they are given."""
    raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _CountedRows:
    """All rows of the table, as a `Study` needs them."""

    test: ModelTest

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels at which all test rows were counted."""
        return tuple(self.test.by_level)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows that were used, by their use."""
        sampled = self.test.sampled
        used = {use: total for use, (_, total) in self.test.outside.counts.items()}
        return {
            "training": len(sampled.training),
            "diagnosis": len(sampled.calibration) + len(sampled.test),
            **{use: used.get(use, 0) for use in ("calibration", "test")},
        }

    @property
    def note(self) -> Message:
        """How the rows were used, in a sentence."""
        sizes = {use: count_text(n) for use, n in self.sizes.items()}
        sample = count_text(self.sizes["training"] + self.sizes["diagnosis"])
        return Message(
            f"the table is large, so a random sample of {sample} rows was used to choose the method and to fit the "
            f"model ({sizes['training']} rows) and to diagnose it ({sizes['diagnosis']} rows). Of all other rows, "
            f"{sizes['calibration']} calibrate the intervals and {sizes['test']} test them"
        )

    def audit(self, sampled: Audit) -> Audit:
        """Return the audit of the sample's test rows with the counts of all test rows, at the level of the audit."""
        guarantee = self.test.regressor.guarantee_
        counts = self.test.by_level[sampled.level]
        audited = counts.totals(guarantee.tail_shares).audit(sampled, tuple(guarantee.sizes.values()))
        judged = audited.quality
        return replace(
            audited,
            n_replaced=sum(counts.n_replaced),
            quality=replace(sampled.quality, rows=judged.rows, coverage=judged.coverage),  # same rows for all widths
            notes=(*audited.notes, self._audit_note(sampled, audited)),
        )

    def _audit_note(self, sampled: Audit, audited: Audit) -> str:
        return (
            f"All {count_text(audited.overall.rows)} test rows were counted. Features were searched, widths compared "
            f"and predictions judged in {count_text(sampled.overall.rows)} rows of the random sample."
        )

    def misses(self, level: float) -> dict[Label, tuple[float, float]]:
        """Return the shares of all test rows below and above their intervals, by group and of all rows."""
        counts = self.test.by_level[level].totals(None)
        found = {label: _shares(totals) for label, totals in counts.by_group.items()}
        return found | ({"all rows": _shares(counts.everything)} if len(found) > 1 else {})


def _shares(totals: RowTotals) -> tuple[float, float]:
    """Return the shares of rows below and above their intervals; NaN without rows."""
    return (totals.below / totals.rows, totals.above / totals.rows) if totals.rows else (np.nan, np.nan)


def _at(intervals: Intervals, position: int) -> Intervals:
    """Return the intervals at one of several levels."""
    arrays = {name: getattr(intervals, name)[:, position] for name in ("lower", "upper", "replaced")}
    return replace(intervals, **arrays, level=intervals.level[position])  # type: ignore[index]
