"""Before any test data: where will one threshold for all rows miss, is that chance, what should be used instead."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from evencover._internal.arrays import FloatArray, checked_vector
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._advice import advice
from evencover.diagnostics._formatting import short_repr
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._options import Option, options
from evencover.diagnostics._quantile_differences import quantile_differences
from evencover.diagnostics._score_distributions import anderson_darling_p_value, distribution_differences
from evencover.diagnostics._spread_dependence import dependence
from evencover.diagnostics._verdict import Settings, checked_settings
from evencover.diagnostics.diagnosis_result import Diagnosis, DiagnosisInputs
from evencover.groups import checked_groups
from evencover.models._validation import checked_target
from evencover.models.predict import is_frozen, predictions_of, unwrap
from evencover.predictions import Rows
from evencover.quantiles import Level
from evencover.scores import Residual, Score, scores_of
from evencover.taxonomies import ByPrediction, BySpread, Taxonomy, fresh_taxonomy


def diagnose(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    taxonomy: Taxonomy | None = None,
    level: Level = 0.9,
    tolerance: float = 0.03,
    seed: int = 0,
) -> Diagnosis:
    """Return where a model's marginal predictor will miss, whether that is chance, and what to use instead.

    The marginal predictor is the model with its score and one threshold for all rows, whatever it is calibrated by. No
    test data is needed: what it covers in a group is read off the calibration scores.

    Parameters
    ----------
    model : ConformalRegressor
        Calibrated; or, with `X` and `y`, around a frozen estimator. Also one inside a pipeline or a search.
    X : table of n rows, optional
        Features of rows to diagnose by instead of those the model was calibrated on, as the outermost estimator takes
        them. The model must not have been fitted on them. The threshold is then theirs, as if they calibrated; to judge
        the model's own intervals on new rows there is `audit`.
    y : array-like of shape (n,), optional
        Their targets.
    taxonomy : taxonomy, optional
        The groups to look at. By default `BySpread(3)`; `ByPrediction(3)` for a model that knows no spread.
    level : float
        Nominal coverage.
    tolerance : float
        Distance from the level that counts as even.
    seed : int
        Of the draws: the joint test of three groups or more, the bootstrap, the permutations of tied scores.

    Returns
    -------
    Diagnosis
        With `verdict`, `advice`, `table`; printed, it is a page of text.

    References
    ----------
    Dewolf, De Baets, Waegeman (2023), Conditional validity of heteroskedastic conformal regression.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from evencover.models import WithSpread
    >>> from evencover.synthetic import heteroskedastic
    >>> data = heteroskedastic(4000, seed=0)
    >>> model = ConformalRegressor(WithSpread(LinearRegression()), random_state=0).fit(data.X, data.y)
    >>> diagnose(model).verdict
    'uneven'
    """
    settings = checked_settings(level, tolerance, seed)
    regressor, rows = _regressor_and_rows(model, X, y)
    score, groups_by = _one_score(regressor), _taxonomy_for(rows, taxonomy)
    groups = groups_by.learn(rows)
    scores = _known_scores(regressor, rows)
    scores = scores_of(score, rows) if scores is None else scores
    priced = not getattr(groups_by, "needs_target", False)
    in_use = len(groups.labels) > 1 and _is_same(groups_by, getattr(regressor, "taxonomy_", None))
    inputs = DiagnosisInputs(scores, groups, rows.prediction.spread, settings.seed, rows, score, priced)
    return _diagnosis(inputs, settings, taxonomy=short_repr(groups_by), in_use=in_use)


def diagnose_scores(
    scores: Any,
    groups: Any,
    *,
    spread: Any = None,
    level: Level = 0.9,
    tolerance: float = 0.03,
    seed: int = 0,
) -> Diagnosis:
    """Return where one threshold for all rows will miss, from calibration scores and their groups alone.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Calibration scores by any measure; infinite ones are allowed.
    groups : array-like of shape (n,) or Groups
        The group of each row: labels of any kind, or what a taxonomy's `learn` returned.
    spread : array-like of shape (n,), optional
        The predicted difficulty of each row, to see whether the score is pivotal in it.
    level, tolerance, seed
        As in `diagnose`.

    Examples
    --------
    >>> scores = np.abs(np.random.default_rng(0).normal(size=3000)) * np.repeat([1.0, 2.0], 1500)
    >>> found = diagnose_scores(scores, np.repeat(["quiet", "noisy"], 1500))
    >>> found.verdict, {group.group: round(group.coverage, 2) for group in found.table}
    ('uneven', {'noisy': 0.81, 'quiet': 0.99})
    """
    settings = checked_settings(level, tolerance, seed)
    scores = checked_vector(scores, "scores", finite=False)
    groups = checked_groups(groups, len(scores), "the scores")
    spread = None if spread is None else checked_vector(spread, "spread", length=len(scores))
    return _diagnosis(DiagnosisInputs(scores, groups, spread, settings.seed), settings)


def at_level(diagnosis: Diagnosis, level: Level) -> Diagnosis:
    """Return the same diagnosis at another level."""
    settings = checked_settings(level, diagnosis.tolerance, diagnosis.inputs.seed)
    found = replace(diagnosis, **_parts_of_the_level(diagnosis.inputs, settings))
    return replace(found, advice=advice(found))


def _diagnosis(inputs: DiagnosisInputs, settings: Settings, *, taxonomy: str = "", in_use: bool = False) -> Diagnosis:
    """Return the diagnosis, with advice."""
    scores, groups, spread = inputs.scores, inputs.groups, inputs.spread
    if not len(scores):
        raise ValueError("scores must hold calibration rows to diagnose by; got none")
    rng = np.random.default_rng([settings.seed, 2])
    found = Diagnosis(
        advice="",
        inputs=inputs,
        distribution_differences=distribution_differences(scores, groups),
        anderson_darling=anderson_darling_p_value(scores, groups, rng),
        dependence=None if spread is None else dependence(scores, spread, rng),
        taxonomy=taxonomy,
        in_use=in_use,
        **_parts_of_the_level(inputs, settings),
    )
    return replace(found, advice=advice(found))


def _parts_of_the_level(inputs: DiagnosisInputs, settings: Settings) -> dict[str, Any]:
    """Return the parts of a diagnosis that depend on the level, by name."""
    divide = MarginalThreshold(inputs.scores, inputs.groups, settings.level)
    rng = np.random.default_rng([settings.seed, 1])
    return {
        "verdict": divide.verdict(settings.tolerance, settings.seed),
        "table": divide.forecasts,
        "joint_p_value": divide.joint_p_value(settings.seed),
        "level": float(settings.level),
        "tolerance": settings.tolerance,
        "threshold": divide.threshold,
        "quantile_differences": quantile_differences(inputs.scores, inputs.groups, settings.level, rng),
        "options": _options(inputs, divide, settings),
    }


def _options(inputs: DiagnosisInputs, divide: MarginalThreshold, settings: Settings) -> tuple[Option, ...]:
    """Return what could be used instead, where the model is known."""
    if inputs.rows is None or inputs.nonconformity is None:
        return ()
    return options(inputs.rows, inputs.nonconformity, divide, settings, priced=inputs.priced)


def _regressor_and_rows(model: Any, X: Any, y: Any) -> tuple[ConformalRegressor, Rows]:
    """Return the conformal regressor inside a model, and the rows to diagnose it by."""
    if (X is None) != (y is None):
        raise ValueError("X and y go together; got only one of them")
    regressor, X = unwrap(model, X)
    if isinstance(getattr(regressor, "estimator", None), ConformalRegressor):
        raise NotFittedError(f"model is not fitted yet: fit this {type(model).__name__} first")
    if not isinstance(regressor, ConformalRegressor):
        raise TypeError(
            "model must be a ConformalRegressor, or a pipeline or search of one; for scores of your own there is "
            f"diagnose_scores. Got {model!r}"
        )
    return regressor, _calibration_rows(regressor) if X is None else _fresh_rows(regressor, X, y)


def _calibration_rows(model: ConformalRegressor) -> Rows:
    """Return the rows a model was calibrated on."""
    if not hasattr(model, "calibrator_"):
        raise NotFittedError(
            "model is not calibrated yet, so there are no rows to diagnose by: fit it, or give X and y"
        )
    if not hasattr(model, "calibration_rows_"):
        raise ValueError("this model was loaded from a file, which holds no calibration rows: give X and y")
    if model.calibration_rows_.weights is not None:
        raise ValueError("diagnose knows no weights for covariate shift, and this model was calibrated with some")
    return model.calibration_rows_


def _fresh_rows(model: ConformalRegressor, X: Any, y: Any) -> Rows:
    """Return new rows with what the model says of them."""
    if hasattr(model, "calibrator_"):
        return model.rows(X, y)
    if is_frozen(model.estimator):
        target = checked_target(model, X, y)
        return Rows.with_checked_target(predictions_of(clone(model.estimator).fit(X, target), X), X, target)
    raise NotFittedError("model is not fitted yet: fit it, or give it a fitted estimator as FrozenEstimator(estimator)")


def _known_scores(model: ConformalRegressor, rows: Rows) -> FloatArray | None:
    """Return the scores of the calibration rows, if these are they and the calibrator has kept them all."""
    if rows is not getattr(model, "calibration_rows_", None):
        return None
    scores: FloatArray | None = getattr(model.calibrator_, "scores", None)
    return scores if scores is not None and len(scores) == len(rows) else None


def _one_score(model: ConformalRegressor) -> Score:
    """Return the model's score, with its scale; one for all groups."""
    learned = getattr(model, "calibrator_", None)
    score = model.nonconformity if learned is None else learned.nonconformity
    if isinstance(score, Mapping):
        raise ValueError(
            "diagnose judges one threshold for all rows, which takes one score; this model has one a group"
        )
    return Residual() if score is None else score


def _taxonomy_for(rows: Rows, taxonomy: Taxonomy | None) -> Taxonomy:
    """Return a fresh copy of the taxonomy asked for; by default bins of the spread, if there is one."""
    if taxonomy is None:
        return ByPrediction(3) if rows.prediction.spread is None else BySpread(3)
    return fresh_taxonomy(taxonomy)


def _is_same(taxonomy: Taxonomy, other: Taxonomy | None) -> bool:
    """Return whether two taxonomies that have learned are of one kind, with as many groups and the same settings."""
    if type(taxonomy) is not type(other) or taxonomy.labels_ != other.labels_:
        return False
    settings = [
        {name: value for name, value in each.get_params().items() if name != "n_groups"}  # as many as there are labels
        for each in (taxonomy, other)
        if hasattr(each, "get_params")
    ]
    return repr(settings[:1]) == repr(settings[1:])
