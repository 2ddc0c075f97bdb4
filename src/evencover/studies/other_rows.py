"""The second question: what the method of a study gives on later rows, and on rows of units that it has not seen.

    later    the last rows in the order of a column test the model, which is fitted and calibrated on rows before them
    new      rows of some units, such as countries or patients, test a model of the other units

Score and groups are those of the study. The model is fitted again on some of the rows, a stack of regressors with less
effort. So the answers cost little, and they are about the method: the model of the study has seen all times and units.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtr
from scipy.stats import rankdata
from sklearn.frozen import FrozenEstimator

from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.cross_fitted_models import is_auto_regressor, structured_fit
from evencover.diagnostics.exact_tests import coverage_p_values
from evencover.diagnostics.interval_quality import r_squared
from evencover.inputs import StageProgress
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.inputs.frames import columns_of, take
from evencover.models.estimators import cloned, fitted_models, layers
from evencover.models.folds import INDEPENDENT, RowStructure
from evencover.models.members import least_effort
from evencover.quantiles import rows_for_finite_threshold
from evencover.studies.column_checks import RepeatedUnits, TimeOrder
from evencover.studies.cross_fitting import CrossSettings
from evencover.studies.evidence import Evidence
from evencover.studies.plan import Plan
from evencover.studies.table_preparation import PreparedTable

Question: TypeAlias = Literal["later", "new"]

_MAX_ROWS = 10_000  # the 2000 of them that test show any difference that counts
_MIN_UNITS = 50  # in a sample of the rows, if there are so many
_MIN_TRAINING_ROWS, _MIN_TEST_ROWS, _MIN_TEST_UNITS = 20, 10, 10
_TEST_SHARE, _MAX_TEST_SHARE = 0.2, 0.4  # of the rows or units; the latter if these are few
_MARGIN = 0.05  # coverage that is less than this below the level is no failure
_DEPENDENT = 1e-4  # p-value of the residuals of neighbouring rows
_ONE_WAY = 0.9  # share of the steps of the target in one direction, if the rows are sorted by it


@dataclass(frozen=True)
class _Limits:
    """When coverage fails: the p-value of so few covered rows, and standard errors of the mean over units."""

    p_value: float
    standard_errors: float


_FIRST, _SECOND = _Limits(0.001, 2.5), _Limits(0.05, 1.0)  # the second model has to agree


@dataclass(frozen=True)
class OtherRows:
    """How the intervals cover rows unlike those of the study: later ones, or those of new units.

    Parameters
    ----------
    question : {"later", "new"}
        Later rows, or rows of new units.
    column : str or None
        The column of times or units; None for the order of the rows in the table.
    of_dates : bool
        Whether the column holds dates.
    level : float
        Nominal coverage.
    rows : int
        Number of tested rows.
    units : int or None
        Number of tested units; None for later rows.
    coverage : float
        The share of tested rows that are covered; for units, the mean of their shares. It is the mean of two models, if
        the first covers too few.
    fails : bool
        Whether both models cover too few: more than 0.05 below the level, so few covered rows have a probability below
        0.001 if all rows are exchangeable, and units lie more than 2.5 standard errors of their mean below the level.
        The second model agrees if it covers too few, with a probability below 0.05 and one standard error.
    r2, r2_at_random : float
        R² of the model on the tested rows, and on random rows that it was not fitted on.
    in_order : OtherRows or None
        For later rows that fail, the results in the order of time: the first two fifths of the rows fit the model, the
        next two calibrate it, the last one tests it. Above, the rows that fit and calibrate are a random split of the
        others. With the setting `time`, more rows fit the model, and fewer calibrate and test it.
    """

    question: Question
    column: str | None
    of_dates: bool
    level: float
    rows: int
    units: int | None
    coverage: float
    fails: bool
    r2: float
    r2_at_random: float
    in_order: "OtherRows | None" = None

    @property
    def shown(self) -> "OtherRows":
        """The result that answers the question: that in order if it fails, too; the setting `time` is no help then."""
        return self.in_order if self.in_order is not None and self.in_order.fails else self

    @property
    def is_close(self) -> bool:
        """Whether the coverage is at most 0.05 below the level."""
        return self.coverage >= self.level - _MARGIN


def other_rows(table: PreparedTable, evidence: Evidence, plan: Plan, progress: StageProgress) -> tuple[OtherRows, ...]:
    """Return the answers of a table with times, with units, or with rows in an order that matters.

    A question is left out if the rows are too few for it, or if the model cannot be fitted to them.

    Parameters
    ----------
    table : PreparedTable
        The table of the study, with the columns that its model uses.
    evidence : Evidence
        The model, its score and its groups; its residuals show whether the order of the rows matters.
    plan : Plan
        The settings.
    progress : callable
        Called when the computation begins.
    """
    order, units = table.order, table.units
    if order is None and units is None and _is_running_order(table.y, evidence):
        order = TimeOrder(None, np.arange(len(table.y), dtype=float))
    if order is None and units is None:
        return ()
    progress(f"testing {' and '.join(['later rows'] * (order is not None) + ['new units'] * (units is not None))}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models that fit some of the rows, which are not the study's
        try:
            return tuple(_Questions.of(order, units, plan, len(table.y)).answers(_Recipe.of(table, evidence, plan)))
        except ValueError:  # some rows have values, or too few of them, that do not allow to fit the model
            return ()


def _is_running_order(y: FloatArray, evidence: Evidence) -> bool:
    """Return whether neighbouring rows of the table have residuals of similar size, so that their order matters.

    The rank version of von Neumann's ratio has mean 2 and variance 4/n for independent residuals. Rows that are sorted
    by the target have such residuals, too, but no order in time.
    """
    steps = np.sign(np.diff(y))
    n_steps = max(1, int(np.count_nonzero(steps)))
    rows, positions = evidence.rows, np.asarray(evidence.test.positions)
    n = len(positions)
    if n < _MIN_TEST_ROWS or abs(float(steps.sum())) / n_steps > 2 * _ONE_WAY - 1 or not evidence.at_random:
        return False
    residuals = (np.asarray(rows.y) - np.asarray(rows.prediction.center))[np.argsort(positions, kind="stable")]
    ranks = rankdata(residuals)
    variation = float(np.sum((ranks - ranks.mean()) ** 2))
    ratio = float(np.sum(np.diff(ranks) ** 2)) / variation if variation else 2.0
    return float(ndtr((ratio - 2) / (2 / sqrt(n)))) < _DEPENDENT


@dataclass(frozen=True, eq=False)
class _Tested:
    """The rows that tested a model, whether they are covered, and the calibration rows behind each threshold."""

    rows: IntArray
    covered: BoolArray
    pools: IntArray
    y: FloatArray
    center: FloatArray
    r2_at_random: float
    tail_shares: Any

    def among(self, rows: IntArray) -> "_Tested":
        """Return the results of some of the rows."""
        kept = np.isin(self.rows, rows)
        arrays = {name: getattr(self, name)[kept] for name in ("rows", "covered", "pools", "y", "center")}
        return replace(self, **arrays)

    def p_value(self, level: float) -> float:
        """Return the probability of at most so many covered rows, if these are exchangeable with all others."""
        pools = [(rows, size) for size, rows in sorted(Counter(self.pools.tolist()).items())]
        return coverage_p_values(pools, level, int(self.covered.sum()), self.tail_shares)[0]


@dataclass(frozen=True, eq=False)
class _Recipe:
    """What a study does with rows: a model, not fitted, and a regressor that has the score and the groups."""

    estimator: Any
    regressor: ConformalRegressor
    X: Any
    y: FloatArray
    plan: Plan

    @property
    def level(self) -> float:
        """Nominal coverage."""
        return self.plan.level

    @classmethod
    def of(cls, table: PreparedTable, evidence: Evidence, plan: Plan) -> "_Recipe":
        """Return what a study selected; a stack has the least effort, a cross-fitted study one model."""
        if evidence.kind == "cross":
            settings = CrossSettings.of(plan, table, len(evidence.test))
            score = settings.score_of(table.y)
            regressor = ConformalRegressor(settings.model, nonconformity=score, taxonomy=settings.taxonomy)
            return cls(settings.model, regressor, table.features, table.y, plan)
        regressor = cloned(evidence.regressor)
        fitted = fitted_models(evidence.regressor)[0]
        estimator = cloned(fitted)
        if is_auto_regressor(estimator):
            efforts = [name for name in estimator.get_params() if name.rpartition("__")[2] == "effort"]
            stack = next(each for each in layers(fitted) if hasattr(each, "stack_")).stack_
            estimator.set_params(**dict.fromkeys(efforts, least_effort(stack.members)))
        names = [str(name) for name in evidence.regressor.feature_names_in_]
        return cls(estimator, regressor, columns_of(table.features, names), table.y, plan)

    def tested(
        self, training: IntArray, calibration: IntArray, test: IntArray, structure: RowStructure = INDEPENDENT
    ) -> _Tested:
        """Return how intervals cover test rows, after a model was fitted and calibrated on others.

        `structure` has the times of the training rows, if the model is to predict later rows.
        """
        target = self.plan.training_target(self.y[training])
        fitted = structured_fit(self.estimator, take(self.X, training), target, structure)
        regressor = cloned(self.regressor).set_params(estimator=FrozenEstimator(fitted))
        regressor.calibrate(take(self.X, calibration), self.y[calibration])
        rows = regressor.rows(take(self.X, test), self.y[test])
        intervals = regressor.predict_interval(rows, level=self.level, unseen="marginal")
        at_random = np.asarray(regressor.predict(take(self.X, calibration)))
        return _Tested(
            test,
            np.asarray(intervals.covers(self.y[test])),
            _pool_sizes(intervals, regressor.guarantee_.sizes),
            self.y[test],
            np.asarray(regressor.predict(take(self.X, test))),
            r_squared(self.y[calibration], at_random),
            regressor.guarantee_.tail_shares,
        )


def _pool_sizes(intervals: Any, sizes: Any) -> IntArray:
    """Return the number of calibration rows behind the threshold of each row; all of them, if its group has none."""
    everything = sum(sizes.values())
    if intervals.groups is None or len(sizes) == 1:
        return np.full(len(intervals), everything)
    return np.array([sizes.get(label) or everything for label in intervals.groups.label_of_rows().tolist()])


@dataclass(frozen=True, eq=False)
class _Questions:
    """The rows of both questions, by position.

    Parameters
    ----------
    order, units : TimeOrder and RepeatedUnits, or None
        The columns.
    plan : Plan
        The level, and the seed.
    rows : ndarray of int
        All rows, or a sample of them; in the order of time, if there is one.
    late, of_new_units : ndarray of int
        The last of these rows, and those of some random units.
    """

    order: TimeOrder | None
    units: RepeatedUnits | None
    plan: Plan
    rows: IntArray
    late: IntArray
    of_new_units: IntArray

    @classmethod
    def of(cls, order: TimeOrder | None, units: RepeatedUnits | None, plan: Plan, n: int) -> "_Questions":
        """Return the questions about a table of n rows."""
        rng = np.random.default_rng([plan.seed, 7])
        rows = np.arange(n) if order is None else np.argsort(order.times, kind="stable")
        rows = _sample(rows, units, rng)
        late = rows[:0] if order is None else rows[_cut_in_time(order.times[rows], 1 - _TEST_SHARE) :]
        return cls(order, units, plan, rows, late, rows[:0] if units is None else _of_some(rows, units, rng))

    def answers(self, recipe: _Recipe) -> list[OtherRows]:
        """Return the answers to the questions that have enough rows.

        If later rows or new units are not covered, this is a failure only if another model agrees: the rows that fit
        and those that calibrate change places. A model can go wrong beyond the table by the chance of its rows.
        """
        others = np.setdiff1d(self.rows, np.concatenate([self.late, self.of_new_units]))
        others = np.random.default_rng([self.plan.seed, 8]).permutation(others)
        training, calibration = np.split(others, [round(len(others) / 2)])
        test = np.setdiff1d(
            np.concatenate([self.late, self.of_new_units]), np.intersect1d(self.late, self.of_new_units)
        )
        if not self._suffice(training, calibration, test):
            return []
        found = self._answers(recipe.tested(training, calibration, test), recipe, _FIRST)
        if not any(each.fails for each in found):
            return found
        again = self._answers(recipe.tested(calibration, training, test), recipe, _SECOND)
        found = [_agreed(first, second) for first, second in zip(found, again, strict=True)]
        return [replace(each, in_order=self._in_order(each, recipe)) for each in found]

    def _answers(self, tested: _Tested, recipe: _Recipe, limits: _Limits) -> list[OtherRows]:
        """Return the answers of one model, which was fitted and calibrated without the rows of both questions."""
        late, of_new_units = tested.among(self.late), tested.among(self.of_new_units)
        found = [self._later(late, recipe, limits)] if len(late.rows) >= _MIN_TEST_ROWS else []
        return [
            *found,
            *([self._new(of_new_units, recipe, limits)] if len(of_new_units.rows) >= _MIN_TEST_ROWS else []),
        ]

    def _suffice(self, training: IntArray, calibration: IntArray, test: IntArray) -> bool:
        needed = rows_for_finite_threshold(self.plan.level)
        enough = len(calibration) >= needed and len(test) >= _MIN_TEST_ROWS
        return enough and len(training) >= _MIN_TRAINING_ROWS

    def _in_order(self, later: OtherRows, recipe: _Recipe) -> OtherRows | None:
        """Return the results of the first, the next and the last rows, if later rows fail and the parts suffice."""
        if self.order is None or later.question == "new" or not later.fails:
            return None
        times = self.order.times[self.rows]
        cuts = [_cut_in_time(times, share) for share in ((1 - _TEST_SHARE) / 2, 1 - _TEST_SHARE)]
        training, calibration, test = np.split(self.rows, cuts)
        if not self._suffice(training, calibration, test):
            return None
        structure = RowStructure(times=self.order.times[training])
        found = self._later(recipe.tested(training, calibration, test, structure), recipe, _FIRST)
        return replace(found, r2_at_random=later.r2_at_random)

    def _later(self, tested: _Tested, recipe: _Recipe, limits: _Limits) -> OtherRows:
        coverage, order = float(tested.covered.mean()), self.order
        fails = coverage < recipe.level - _MARGIN and tested.p_value(recipe.level) < limits.p_value
        return self._answer("later", order.name, tested, recipe, coverage, fails)  # type: ignore[union-attr]

    def _new(self, tested: _Tested, recipe: _Recipe, limits: _Limits) -> OtherRows:
        units: RepeatedUnits = self.units  # type: ignore[assignment]
        codes = np.unique(units.codes[tested.rows], return_inverse=True)[1]
        shares = np.bincount(codes, weights=tested.covered) / np.bincount(codes)
        coverage, error = float(shares.mean()), float(shares.std(ddof=1)) / sqrt(len(shares))
        fails = coverage < recipe.level - _MARGIN and tested.p_value(recipe.level) < limits.p_value
        fails = fails and recipe.level - coverage > limits.standard_errors * error
        return replace(self._answer("new", units.name, tested, recipe, coverage, fails), units=len(shares))

    def _answer(
        self, question: Question, column: str | None, tested: _Tested, recipe: _Recipe, coverage: float, fails: bool
    ) -> OtherRows:
        return OtherRows(
            question=question,
            column=column,
            of_dates=question == "later" and self.order is not None and self.order.of_dates,
            level=recipe.level,
            rows=len(tested.rows),
            units=None,
            coverage=coverage,
            fails=bool(fails),
            r2=r_squared(tested.y, tested.center),
            r2_at_random=tested.r2_at_random,
        )


def _agreed(first: OtherRows, second: OtherRows) -> OtherRows:
    """Return the mean of two results of the same rows, which fails if both do."""
    means = {name: (getattr(first, name) + getattr(second, name)) / 2 for name in ("coverage", "r2", "r2_at_random")}
    return replace(first, **means, fails=first.fails and second.fails)


def _sample(rows: IntArray, units: RepeatedUnits | None, rng: np.random.Generator) -> IntArray:
    """Return at most 10 000 rows, in their order: all rows of random units, or rows at equal distances."""
    if len(rows) <= _MAX_ROWS:
        return rows
    if units is not None:
        shuffled = rng.permutation(int(units.codes.max()) + 1)
        n_units = np.searchsorted(np.cumsum(np.bincount(units.codes)[shuffled]), _MAX_ROWS, side="right")
        rows = rows[np.isin(units.codes[rows], shuffled[: max(int(n_units), _MIN_UNITS)])]
    return np.asarray(rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).astype(int))])


def _of_some(rows: IntArray, units: RepeatedUnits, rng: np.random.Generator) -> IntArray:
    """Return the rows of random units: a fifth of the units, or ten if these are more, but at most 40 %."""
    present = np.unique(units.codes[rows])
    n_units = max(round(_TEST_SHARE * len(present)), min(_MIN_TEST_UNITS, int(_MAX_TEST_SHARE * len(present))))
    return np.asarray(rows[np.isin(units.codes[rows], rng.permutation(present)[:n_units])])


def _cut_in_time(times: FloatArray, share: float) -> int:
    """Return the number of rows before a cut near a share of the rows, between two different times, in their order."""
    position = round(share * len(times))
    time = times[min(position, len(times) - 1)]
    ends = [int(np.searchsorted(times, time, side=side)) for side in ("left", "right")]
    return min(ends, key=lambda end: abs(end - position))
