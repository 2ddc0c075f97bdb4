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
from evencover.groups import Groups, first_few
from evencover.inputs import FloatArray, checked_vector
from evencover.models.encoding import TableEncoder
from evencover.models.speech import predictions_of
from evencover.models.validation import refuse_unless_regressor
from evencover.rows import Rows
from evencover.splits import Part, three_way_split
from evencover.studies.plan import Plan
from evencover.studies.results import Study
from evencover.tables import as_numbers, column, column_names, columns_of, is_missing
from evencover.taxonomies import BySpread, Taxonomy

_MOST_VALUES = 30  # of a text column before it is asked what it is

Tell = Callable[[str], None]


def study(
    table: Any,
    target: str,
    *,
    plan: Plan | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    clusters: str | None = None,
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
        Columns to leave out, such as row numbers and names.
    categorical : sequence of str
        Columns of numbers that are codes of categories.
    clusters : str, optional
        A column that says which rows belong together, such as patients: none has rows in two parts. No feature.
    name : str
        What results call the table.
    tell : callable, optional
        Called with what is being done.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=2000)
    >>> table = pd.DataFrame({"x": x, "y": rng.normal(scale=0.1 + x)})
    >>> found = study(table, "y", plan=Plan(model="linear"))
    >>> found.sizes
    {'training': 800, 'calibration': 800, 'test': 400}
    """
    plan, tell = plan or Plan(), tell or (lambda _: None)
    y = _target(table, target)
    features = _features(table, [target, *drop, *([] if clusters is None else [clusters])], categorical)
    training, calibration, test = three_way_split(
        features,
        y,
        calibration_size=plan.calibration_size,
        test_size=plan.test_size,
        groups=None if clusters is None else column(table, clusters, "clusters"),
        random_state=plan.seed,
    )
    encoder = TableEncoder(categorical=tuple(categorical))
    regressor = _chosen(Pipeline([("table", encoder), ("model", _model(plan))]), training, plan, tell)
    tell("calibrating")
    regressor.calibrate(calibration.X, calibration.y)
    tell("diagnosing on the calibration rows")
    groups_by = regressor.taxonomy_ if len(regressor.calibration_.labels) > 1 else BySpread(3)
    settings: dict[str, Any] = {"level": plan.level, "tolerance": plan.tolerance, "seed": plan.seed}
    diagnosis = diagnose(regressor, taxonomy=groups_by, **settings)
    tell("judging on the test rows")
    groups = _groups(groups_by, regressor, test)
    intervals = regressor.predict_interval(test.X, level=plan.level)
    return Study(
        name=name,
        target=target,
        plan=plan,
        regressor=regressor,
        recommendation=getattr(regressor, "recommendation_", None),
        training=training.positions,
        calibration=calibration.positions,
        test=test,
        groups=groups,
        diagnosis=diagnosis,
        audit=audit(test.y, intervals, X=test.X, groups=groups, **settings),
    )


def _target(table: Any, target: str) -> FloatArray:
    """Return the targets: numbers, every one of them."""
    names = column_names(table)
    if names is None:
        raise TypeError(f"table must be a pandas, polars or pyarrow table; got {type(table).__name__}")
    if target not in names:
        raise ValueError(f"target must name a column; there is no {target!r} but {first_few(names)}")
    values = as_numbers(column(table, target, "target"))
    if values is None:
        raise ValueError(f"target: column {target!r} must hold numbers, and holds something else")
    return checked_vector(values, f"target: column {target!r}")


def _features(table: Any, left_out: Sequence[str], categorical: Sequence[str]) -> Any:
    """Return the table without some columns, or say which of the others cannot be features as they are."""
    names = column_names(table) or []
    missing = [name for name in (*left_out, *categorical) if name not in names]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r} but {first_few(names)}")
    kept = [name for name in names if name not in left_out]
    if not kept:
        raise ValueError(f"no column is left to predict from, without {list(left_out)}")
    for name in kept:
        if name not in categorical:
            _refuse_puzzle(name, column(table, name, "table"))
    return columns_of(table, kept)


def _refuse_puzzle(name: str, values: Any) -> None:
    """Raise for a text column that is nearly all numbers, or nearly all different: no categories, it seems."""
    if as_numbers(values) is not None:
        return
    texts = [str(value) for value in values[~is_missing(values)].tolist()]
    distinct = len(set(texts))
    if distinct <= _MOST_VALUES:
        return
    strange = [text for text in texts if not _is_number(text)]
    if len(strange) < len(texts) / 2:
        raise ValueError(
            f"column {name!r} holds numbers, and in {len(strange)} of {len(texts)} rows something else, such as "
            f"{(strange or texts)[0]!r}: mend these, drop the column, or name it as categorical"
        )
    if distinct > len(texts) / 2:
        raise ValueError(
            f"column {name!r} is text with {distinct} different values in {len(texts)} rows, like a name or free text: "
            "drop it, or name it as categorical"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _model(plan: Plan) -> Any:
    """Return the plan's model, not fitted."""
    model = plan.estimator()
    refuse_unless_regressor(model, "model")
    return clone(model)


def _chosen(model: Pipeline, training: Part, plan: Plan, tell: Tell) -> ConformalRegressor:
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
        seed=plan.seed,
        progress=lambda done, fits: tell(f"choosing score and groups: {done} of {fits} fits"),
    )


def _groups(taxonomy: Taxonomy, regressor: ConformalRegressor, test: Part) -> Groups:
    """Return the test rows' groups, by a taxonomy that has learned from the calibration rows or does so now."""
    if taxonomy is not regressor.taxonomy_:
        taxonomy.learn(regressor.calibration_rows_)
    return taxonomy.assign(Rows(predictions_of(regressor.estimator_, test.X), test.X, checked_vector(test.y, "y")))
