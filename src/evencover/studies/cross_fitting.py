"""Cross-fitted studies: one model for new rows, and models that test each row of the table out of sample."""

from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from evencover.conformal.cross import CrossConformalRegressor
from evencover.diagnostics.cross_fitted_models import structured_fit, with_spread_model
from evencover.diagnostics.recommendations import fitted_on_better_scale
from evencover.diagnostics.verdicts import checked_settings
from evencover.display.lines import Step
from evencover.groups import Groups
from evencover.guarantees import Guarantee
from evencover.inputs import StageProgress
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.frames import take
from evencover.intervals import Intervals
from evencover.model_selection import Part
from evencover.models.estimators import fitted_clone, predictions_of
from evencover.models.folds import FoldEnsemble, RandomPairs, RowStructure
from evencover.models.spread import WithSpread
from evencover.quantiles import rows_for_finite_threshold
from evencover.rows import Rows
from evencover.scores import Score
from evencover.scores.score import is_unitless, needs_scale
from evencover.scores.support import with_support, without_support
from evencover.studies.evidence import Turns, audit_taxonomy
from evencover.studies.plan import Plan, small_table_choice
from evencover.studies.table_preparation import PreparedTable
from evencover.taxonomies import Taxonomy, fresh_taxonomy, has_one_group, is_by_features

_FOLDS = 10
_MAX_FOLDS = 100  # of one row each; more take too long
_MAX_HELD_OUT_FOLDS = 30
_MIN_TRAINING_ROWS = 10  # two for each of the five folds that learn a spread


@dataclass(frozen=True, eq=False)
class Units:
    """The units that folds keep together, single rows or clusters, and the row of each unit that counts.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        The unit of each row, from 0 to the number of units − 1.
    rows : ndarray of int, shape (number of units,)
        The row of each unit that calibrates and is tested: rows of one cluster depend on each other.
    """

    codes: IntArray
    rows: IntArray

    @classmethod
    def of(cls, n: int, clusters: IntArray | None, rng: np.random.Generator) -> "Units":
        """Return single rows as units or, with the cluster of each row, clusters with one random row of each."""
        if clusters is None:
            return cls(np.arange(n), np.arange(n))
        order = rng.permutation(n)
        _, first = np.unique(clusters[order], return_index=True)
        return cls(np.unique(clusters, return_inverse=True)[1], order[first])

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, units: IntArray) -> tuple["Units", IntArray]:
        """Return the other units, numbered anew, and the positions of their rows."""
        kept = np.setdiff1d(np.arange(len(self)), units)
        positions = np.flatnonzero(np.isin(self.codes, kept))
        rows = np.searchsorted(positions, self.rows[kept])
        return Units(np.searchsorted(kept, self.codes[positions]), rows), positions

    def folds(self, held_out: list[IntArray]) -> RandomPairs:
        """Return the folds that hold out these units, which were drawn at random.

        All rows of the other units train, and one row of each of these counts.
        """
        return RandomPairs(
            (np.flatnonzero(~np.isin(self.codes, units)), np.sort(self.rows[units])) for units in held_out
        )


def held_out_units(n_units: int, needed: int, rng: np.random.Generator) -> list[IntArray]:
    """Return the units of ten random folds, of about the same size, that hold every unit once.

    There are up to 30 folds if fewer would leave less than the `needed` units of a finite interval for calibration.
    """
    most = min(_MAX_HELD_OUT_FOLDS, n_units)
    enough = (n for n in range(_FOLDS, most) if n_units - -(-n_units // n) >= needed)
    n_folds = min(_FOLDS, n_units) if needed >= n_units else next(enough, most)
    return [np.sort(part) for part in np.array_split(rng.permutation(n_units), n_folds)]


def calibration_units(n_units: int, needed: int, rng: np.random.Generator, *, alone: bool = False) -> list[IntArray]:
    """Return the units of ten folds or a few more, all of the same size; the units that are left over only train.

    The guarantee of cross-conformal prediction is best for folds of equal size. Fewer units are left over than a fold
    has, at most every tenth. With `alone`, each of up to 100 units is a fold: several folds in a group weaken the
    guarantee of the group, but not folds of one row.

    Parameters
    ----------
    n_units : int
        Number of rows, or clusters.
    needed : int
        Number of units that a finite interval needs; none is left over if there would be fewer.
    rng : Generator
        Source of randomness.
    alone : bool
        Whether each unit should be a fold of its own.
    """
    size = 1 if alone and n_units <= _MAX_FOLDS else max(1, n_units // _FOLDS)
    if n_units - n_units % size < needed <= n_units <= _MAX_FOLDS:
        size = 1
    n_folds = n_units // size
    return [np.sort(part) for part in rng.permutation(n_units)[: n_folds * size].reshape(n_folds, size)]


def check_number_of_units(n_units: int, *, are_clusters: bool) -> None:
    """Raise ValueError if there are too few rows or clusters for folds inside of folds."""
    if n_units < MIN_UNITS:
        units = "clusters" if are_clusters else "rows with a target"
        raise ValueError(
            f"table must have at least {MIN_UNITS} {units}: some are left out to test, others to calibrate, and "
            f"{_MIN_TRAINING_ROWS} remain to train; got {n_units}"
        )


def _training_units(n_units: int) -> int:
    """Return how many units train the smallest model of a study."""
    rest = n_units - -(-n_units // min(_FOLDS, n_units))
    return rest - max(1, rest // _FOLDS)


MIN_UNITS = next(n for n in count(2) if _training_units(n) >= _MIN_TRAINING_ROWS)


def tested_groups(regressor: CrossConformalRegressor, intervals: Intervals, rows: Rows) -> Groups:
    """Return the groups of rows that were tested out of sample, with intervals of the models that tested them."""
    if intervals.groups is not None and len(regressor.calibration_.labels) > 1:
        return intervals.groups
    learned = fresh_taxonomy(audit_taxonomy(regressor)).learn(rows)
    return Groups(learned.codes, learned.labels)


@dataclass(frozen=True, eq=False)
class CrossSettings:
    """The settings of all models of a cross-fitted study. They depend on the plan and the number of rows alone.

    Nothing is selected on the rows that calibrate, but for the support of the target: `fitted` decides it on the rows
    that it gets. So their guarantee holds, under the condition that all targets have this support. Each model decides
    on its own training rows whether it is fitted to the log of the target (`OnBetterScale`).

    Parameters
    ----------
    plan : Plan
        The plan.
    model : regressor
        The model with the encoder of the table, not fitted.
    nonconformity : score
        The score.
    taxonomy : taxonomy
        The groups.
    target : str
        The name of the target.
    """

    plan: Plan
    model: Any
    nonconformity: Score
    taxonomy: Taxonomy
    target: str = ""

    @classmethod
    def of(cls, plan: Plan, table: PreparedTable, n_units: int) -> "CrossSettings":
        """Return the settings for a table of this many rows or, if rows belong together, clusters."""
        model = plan.pipeline(table.encoder)
        if not isinstance(plan.model, str) and (plan.nonconformity is None or plan.taxonomy is None):
            fitted = fitted_clone(model, table.features, table.y)  # only to see what it predicts
            first = take(table.features, np.arange(1))
            model = with_spread_model(model, plan.seed) if predictions_of(fitted, first).spread is None else model
        score, taxonomy = small_table_choice(n_units, plan.level)
        return cls(
            plan,
            model,
            score if plan.nonconformity is None else plan.nonconformity,
            taxonomy if plan.taxonomy is None else plan.taxonomy,
            table.target,
        )

    @property
    def needed(self) -> int:
        """Number of calibration rows that a finite interval needs."""
        return rows_for_finite_threshold(self.plan.level)

    @property
    def _has_groups_of_features(self) -> bool:
        """Whether there are groups that depend on features alone, so that coverage is guaranteed in each of them."""
        return is_by_features(self.taxonomy) and not has_one_group(self.taxonomy)

    def folds(self, units: Units) -> RandomPairs:
        """Return the rows that train and that calibrate, for each fold."""
        rng = np.random.default_rng([self.plan.seed, 4])
        return units.folds(calibration_units(len(units), self.needed, rng, alone=self._has_groups_of_features))

    def held_out(self, units: Units) -> list[IntArray]:
        """Return the units that each fold of the test leaves out."""
        return held_out_units(len(units), self.needed, np.random.default_rng([self.plan.seed, 5]))

    def test_fits(self, units: Units) -> list[IntArray]:
        """Return the rows of each model that tests rows out of sample."""
        parts = [units.without(left_out) for left_out in self.held_out(units)]
        return [training[rows] for others, training in parts for rows, _ in self.folds(others)]

    @property
    def tries_log(self) -> bool:
        """Whether models of the log of the target are tried.

        They are compared with other models by their own out-of-fold predictions, which `WithSpread` has: further fits
        would multiply the time by ten. Scores of models on different scales are comparable if they have no unit. A
        given score with given groups stays as it is, as in a split.
        """
        plan, score = self.plan, without_support(self.nonconformity)
        given = plan.target_transform == "none" or (plan.nonconformity is not None and plan.taxonomy is not None)
        return not given and isinstance(self.model[-1], WithSpread) and is_unitless(score) and not needs_scale(score)

    def score_of(self, y: FloatArray) -> Score:
        """Return the score, with the support of these targets."""
        return with_support(self.nonconformity, self.plan.target_support(y, self.target))

    def fitted(self, X: Any, y: FloatArray, units: Units) -> CrossConformalRegressor:
        """Return the model, fitted and calibrated on these rows."""
        decides = self.tries_log or self.plan.training_target(y) is not y
        regressor = CrossConformalRegressor(
            OnBetterScale(self) if decides else self.model,
            cv=self.folds(units),
            nonconformity=self.score_of(y),
            taxonomy=self.taxonomy,
            random_state=self.plan.seed,
        )
        regressor.fit(X, y, clusters=units.codes if len(units) < len(y) else None)
        if decides:  # a file holds the models alone: predictions need no code that compares models
            regressor.estimator_ = FoldEnsemble([each.best_estimator_ for each in regressor.estimators_])
        return regressor


class OnBetterScale(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The model of a fold, fitted to the log of the target if its intervals are better on the training rows.

    Extreme targets of the training rows are limited before (`Plan.training_target`). All of this is a part of `fit`. So
    the guarantee of cross-conformal regression holds: calibration and test rows of the fold have no influence on it.

    Parameters
    ----------
    settings : CrossSettings
        The model, the score and the groups.

    Attributes
    ----------
    best_estimator_ : fitted regressor
        The model, or the model of the log of the target.
    """

    def __init__(self, settings: CrossSettings) -> None:
        self.settings = settings

    def fit(self, X: Any, y: FloatArray, *, clusters: Any = None) -> Self:
        """Fit the model and, if targets are positive and skewed, a model of their log; keep the better one."""
        settings, plan = self.settings, self.settings.plan
        y = plan.training_target(y)
        if not settings.tries_log:
            self.best_estimator_ = structured_fit(settings.model, X, y, RowStructure(clusters))
            return self
        comparison = checked_settings(plan.level, plan.tolerance, plan.seed)
        self.best_estimator_ = fitted_on_better_scale(
            settings.model, X, y, settings.score_of(y), settings.taxonomy, comparison, RowStructure(clusters)
        )
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions, in the unit of the target. Shape (n,)."""
        return np.asarray(self.best_estimator_.predict(X))


def units_of(table: PreparedTable, plan: Plan) -> Units:
    """Return the rows or clusters of a table; raise ValueError if there are too few of them."""
    codes = None if table.clusters is None else table.clusters.codes
    units = Units.of(len(table.y), codes, np.random.default_rng([plan.seed, 3]))
    check_number_of_units(len(units), are_clusters=codes is not None)
    return units


def cross_fitted(
    settings: CrossSettings, table: PreparedTable, units: Units, guarantee: Guarantee, progress: StageProgress
) -> tuple[Turns, Part]:
    """Return the models that test the rows of a table, and these rows in the order of the table."""
    held_out = settings.held_out(units)
    regressors, rows = [], []
    for number, (_, tested) in enumerate(folds := units.folds(held_out)):
        progress(Step("testing the rows out of sample", number, len(folds), "folds", effort=settings.plan.used_effort))
        others, training = units.without(held_out[number])
        regressor = settings.fitted(take(table.features, training), table.y[training], others)
        regressors.append(regressor)
        rows.append(regressor.rows(take(table.features, tested), table.y[tested]))
    tested = np.concatenate([positions for _, positions in folds])
    order = np.argsort(tested)
    found = Turns(tuple(regressors), tuple(rows), order, guarantee)
    positions = tested[order]
    return found, Part(take(table.features, positions), table.y[positions], table.rows[positions])
