"""The main job, from a table to intervals with a verdict."""

from collections.abc import Callable, Sequence
from typing import Any

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover.conformal import ConformalRegressor
from evencover.diagnostics.auditing import audit
from evencover.diagnostics.choosing import recommend
from evencover.diagnostics.diagnosing import diagnose
from evencover.splits import Part
from evencover.studies.columns import feature_columns, refuse_names, target_column
from evencover.studies.parts import three_parts
from evencover.studies.plan import Plan
from evencover.studies.results import Study
from evencover.taxonomies import ByPrediction, BySpread, Taxonomy

Tell = Callable[[str], None]


def study(
    table: Any,
    target: str,
    *,
    plan: Plan | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    split_by: str | None = None,
    name: str = "table",
    tell: Tell | None = None,
) -> Study:
    """Split a table's rows in three, fit and choose on one part, calibrate on the next, judge on the last.

    The score and the groups are chosen on the training part alone, by `recommend`, so that the calibration rows keep
    their guarantee; the verdict is on test rows that neither model nor calibration have seen.

    Parameters
    ----------
    table : DataFrame of n rows
        A pandas, polars or pyarrow table: features, numbers or text, some of them perhaps missing (see `TableEncoder`),
        and the target.
    target : str
        The column to predict.
    plan : Plan, optional
        Model, score, groups, level, parts, seed.
    drop : sequence of str
        Columns that are no features, such as names of rows; groups may be formed by them.
    categorical : sequence of str
        Columns of numbers that are codes of categories.
    split_by : str, optional
        A column that says which rows belong together, such as patients; no feature. None of these clusters has rows in
        two parts, and one row of each, drawn at random, calibrates or judges: rows of one cluster depend on each
        other, and the guarantee and the tests are exact for rows that do not (Dunn, Wasserman and Ramdas, 2022). The
        promise is then for a row of a new cluster.
    name : str
        What results call the table.
    tell : callable, optional
        Called with what is being done.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=2000)
    >>> table = pd.DataFrame({"x": x, "y": rng.normal(scale=0.1 + x)})
    >>> found = study(table, "y", plan=Plan(model="linear"))
    >>> found.sizes
    {'training': 800, 'calibration': 800, 'test': 400}
    """
    plan, tell = plan or Plan(), tell or (lambda _: None)
    refuse_names(table, target, drop, categorical, split_by)
    features, encoder = feature_columns(table, target, drop, categorical, split_by, plan.taxonomy)
    training, calibration, test = three_parts(table, features, target_column(table, target), split_by, plan)
    model = Pipeline([("table", encoder), ("model", clone(plan.estimator()))])
    regressor = _chosen(model, training, len(calibration), plan, tell)
    tell("calibrating")
    regressor.calibrate(calibration.X, calibration.y)
    tell("diagnosing on the calibration rows")
    taxonomy = _judged_by(regressor)
    settings: dict[str, Any] = {"level": plan.level, "tolerance": plan.tolerance, "seed": plan.seed}
    diagnosis = diagnose(regressor, taxonomy=taxonomy, **settings)
    tell("judging on the test rows")
    rows = regressor.rows(test.X, test.y)
    groups = taxonomy.assign(rows)
    intervals = regressor.predict_interval(rows, level=plan.level)
    return Study(
        name=name,
        target=target,
        plan=plan,
        split_by=split_by,
        regressor=regressor,
        recommendation=getattr(regressor, "recommendation_", None),
        training=training.positions,
        calibration=calibration.positions,
        test=test,
        test_rows=rows,
        intervals=intervals,
        groups=groups,
        diagnosis=diagnosis,
        audit=audit(test.y, intervals, X=test.X, groups=groups, **settings),
    )


def _judged_by(regressor: ConformalRegressor) -> Taxonomy:
    """Return the groups to judge by, learned from the calibration rows: the model's, or three where it has one."""
    if len(regressor.calibration_.labels) > 1:
        return regressor.taxonomy_
    taxonomy = ByPrediction(3) if regressor.calibration_rows_.prediction.spread is None else BySpread(3)
    taxonomy.learn(regressor.calibration_rows_)
    return taxonomy


def _chosen(model: Pipeline, training: Part, calibration_rows: int, plan: Plan, tell: Tell) -> ConformalRegressor:
    """Return the model, fitted and frozen, with the plan's score and groups, or those chosen on the training part."""
    if plan.nonconformity is not None and plan.taxonomy is not None:
        tell("fitting the model")
        fitted = FrozenEstimator(model.fit(training.X, training.y))
        return ConformalRegressor(fitted, nonconformity=plan.nonconformity, taxonomy=plan.taxonomy)
    return recommend(
        model,
        training.X,
        training.y,
        nonconformity=plan.nonconformity,
        taxonomy=plan.taxonomy,
        level=plan.level,
        tolerance=plan.tolerance,
        calibration_rows=calibration_rows,
        seed=plan.seed,
        progress=lambda done, fits: tell(f"choosing score and groups: {done} of {fits} fits"),
    )
