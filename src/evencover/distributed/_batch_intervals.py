"""The intervals of a batch: from a calibration and columns of predictions, or from a model and its features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover._internal.grouped_pools import Unseen
from evencover._internal.optional import import_optional
from evencover.distributed._batches import Batch, LabelCodes, codes_of, import_arrow, named_errors, rows_of
from evencover.distributed._interval_columns import BatchIntervals
from evencover.distributed._passes import TableData
from evencover.distributed.table_calibration import TableCalibration
from evencover.groups import first_few
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals, stack_levels
from evencover.quantiles import Levels, is_level_sequence, level_fractions
from evencover.scores.evaluation import interval_by
from evencover.table_columns import TableColumns


def batch_intervals(predictor: Any, level: Levels | None, unseen: Unseen) -> BatchIntervals:
    """Return what predicts batches. Raise TypeError unless the predictor is a calibration of a table or a model."""
    if unseen not in ("error", "marginal", "inf"):
        raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
    if isinstance(predictor, TableCalibration):
        found = CalibrationIntervals(predictor, predictor.levels[0] if level is None else level, unseen)
        _ = found.thresholds  # a wrong level is an error now; groups with too few rows are warned of
        return found
    if not hasattr(predictor, "predict_interval"):
        raise TypeError(
            "predictor must be what calibrate returned, or a calibrated model such as ConformalRegressor; got "
            f"{type(predictor).__name__}"
        )
    level = 0.9 if level is None else level
    level_fractions(level)
    model = ModelIntervals(predictor, level, unseen)
    _ = model.guarantee  # a model that is not calibrated is an error now
    return model


@dataclass(frozen=True, eq=False)
class CalibrationIntervals:
    """The intervals of columns of predictions.

    Parameters
    ----------
    calibration : TableCalibration
        The calibration.
    level : float or sequence of L floats
        Nominal coverage.
    unseen : {"error", "marginal", "inf"}
        For a row whose group was not in the calibration.
    """

    calibration: TableCalibration
    level: Levels
    unseen: Unseen = "error"

    @property
    def columns(self) -> TableColumns:
        """The columns of predictions and groups; targets are not needed."""
        return replace(self.calibration.columns, target=None)

    @property
    def outputs(self) -> list[str]:
        """The names of the bounds."""
        return _bound_names(self.level)

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""
        return self.calibration.calibration.guarantee_at(level_fractions(self.level))

    @property
    def searched(self) -> dict[str, str]:
        """All columns: each must have a value in every row."""
        return self.columns.by_role

    @cached_property
    def thresholds(self) -> FloatArray:
        """The threshold of each group and level; the last row is for unseen groups. Shape (n_groups + 1, L)."""
        return self.calibration.calibration.threshold_table(level_fractions(self.level), self.unseen)

    def check(self, data: TableData) -> None:
        """Raise ValueError unless the data has the columns of predictions and groups."""
        data.check_columns(self.columns)

    def needed(self, names: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Return the columns of predictions and groups."""
        return self.columns.names

    def codes(self) -> LabelCodes:
        """Return codes of labels, of which the groups of the calibration are the first."""
        return LabelCodes(self.calibration.calibration.labels)

    def __call__(self, batch: Batch, codes: LabelCodes) -> Intervals:
        """Return the intervals of the rows, with bounds of shape (m,), or (m, L) for L levels."""
        labels = self.calibration.calibration.labels
        with named_errors(batch.part):
            rows = rows_of(batch, self.columns)
            group = codes_of(batch, self.columns, codes)
            if len(codes.labels) > len(labels) and self.unseen == "error":
                raise ValueError(
                    f"groups must be among those of the calibration, {first_few(labels)}; got "
                    f"{first_few(codes.labels[len(labels) :])}. To predict for unseen groups, use unseen='marginal' or "
                    "unseen='inf'"
                )
            by_row = self.thresholds.take(np.minimum(group, len(labels)), axis=0)
            score: Any = self.calibration.calibration.nonconformity
            intervals = stack_levels([interval_by(score, column, rows.prediction) for column in by_row.T])
        levels = tuple(float(each) for each in level_fractions(self.level))
        if is_level_sequence(self.level):
            return replace(intervals, level=levels)
        return Intervals(intervals.lower[:, 0], intervals.upper[:, 0], level=levels[0])


@dataclass(frozen=True, eq=False)
class ModelIntervals:
    """The intervals of a calibrated model, whose features are columns.

    Parameters
    ----------
    model : ConformalRegressor, CrossConformalRegressor or another model with `predict_interval`
        The model. Its features are the columns that it was fitted on; all columns, if these had no names.
    level : float or sequence of L floats
        Nominal coverage.
    unseen : {"error", "marginal", "inf"}
        For a row whose group was not in the calibration.
    """

    model: Any
    level: Levels
    unseen: Unseen = "error"

    @property
    def outputs(self) -> list[str]:
        """The names of the model's prediction, and of the bounds."""
        return ["prediction", *_bound_names(self.level)]

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""
        guarantee: Guarantee = self.model.guarantee_
        return guarantee

    @property
    def searched(self) -> dict[str, str]:
        """No columns: the model says what is wrong with its features."""
        return {}

    def check(self, data: TableData) -> None:
        """Raise ValueError unless the data has the features of the model."""
        data.check_names(self.needed([]))

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return the columns that the model was fitted on; all columns, if these had no names."""
        return [str(name) for name in getattr(self.model, "feature_names_in_", names)]

    def codes(self) -> LabelCodes:
        """Return no codes."""
        return LabelCodes()

    def __call__(self, batch: Batch, codes: LabelCodes) -> Intervals:
        """Return the intervals of the rows, with bounds of shape (m,), or (m, L) for L levels."""
        with named_errors(batch.part):
            features = self._features(batch)
            intervals: Intervals = self.model.predict_interval(features, level=self.level, unseen=self.unseen)
        for label in () if intervals.guarantee is None else intervals.guarantee.without:
            codes.code(label)
        return intervals

    def _features(self, batch: Batch) -> Any:
        """Return the features as the model takes them: a table, or an array if the columns had no names in training."""
        from evencover.models.encoding import encoder_of

        table = import_arrow().Table.from_batches([batch.table.select(self.needed(batch.table.schema.names))])
        if not hasattr(self.model, "feature_names_in_"):
            return np.column_stack([column.to_numpy() for column in table.columns])
        if encoder_of(self.model) is not None:
            return table
        import_optional("pandas", extra="frames", purpose="a model that was fitted on a DataFrame")
        return table.to_pandas()


def _bound_names(level: Levels) -> list[str]:
    """Return the names of the columns of bounds, as `Intervals.columns` has them."""
    levels = [float(each) for each in level_fractions(level)]
    suffixes = [f"_{each}" for each in levels] if is_level_sequence(level) else [""]
    return [f"{side}{suffix}" for suffix in suffixes for side in ("lower", "upper")]
