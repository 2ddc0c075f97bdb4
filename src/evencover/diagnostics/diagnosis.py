"""`diagnose`: find the groups that one threshold for all rows would under- or over-cover, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import NotFittedError

from evencover.conformal.cross import CrossConformalRegressor
from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.one_threshold import MarginalThreshold, Option, evaluate_options
from evencover.diagnostics.score_tests import (
    Dependence,
    DistributionDifference,
    QuantileDifference,
    anderson_darling_p_value,
    dependence,
    distribution_differences,
    quantile_differences,
)
from evencover.diagnostics.verdicts import GroupForecast, Settings, Verdict, checked_settings, is_off
from evencover.display.text import short_repr
from evencover.groups import Groups, Label, checked_groups, cluster_codes, one_row_of_each
from evencover.inputs.arrays import FloatArray, IntArray, checked_vector
from evencover.inputs.frames import check_same_index
from evencover.models.estimators import checked_target, cloned, is_frozen, predictions_of, unwrap
from evencover.quantiles import Level
from evencover.rows import Rows
from evencover.scores import Residual, Score, scores_of
from evencover.taxonomies import Taxonomy, default_taxonomy, fresh_taxonomy

Conformal: TypeAlias = ConformalRegressor | CrossConformalRegressor
_MODELS = (ConformalRegressor, CrossConformalRegressor)


@dataclass(frozen=True, eq=False, repr=False)
class DiagnosisInputs:
    """The inputs of a diagnosis, which do not depend on the level.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    groups : Groups of n rows
        Their groups.
    spread : ndarray of shape (n,) or None
        The predicted difficulty of each row.
    seed : int
        Seed of the random draws.
    rows : Rows or None
        The calibration rows, if the model is known.
    nonconformity : Score or None
        The score, if the model is known.
    group_widths_known : bool
        Whether the widths with thresholds per group are known. They are not if the groups depend on the target.
    taxonomy : Taxonomy or None
        The taxonomy of the groups, if the model is known.
    several_models : bool
        Whether the scores are out of fold, so that they come from several models.
    clustered_rows : int
        Number of calibration rows in clusters, if these are one random row of each of them; otherwise 0.
    tolerance : float, optional
        The tolerance that the user gave; by default it depends on the level.
    """

    scores: FloatArray
    groups: Groups
    spread: FloatArray | None
    seed: int
    rows: Rows | None = None
    nonconformity: Score | None = None
    group_widths_known: bool = True
    taxonomy: Taxonomy | None = None
    several_models: bool = False
    clustered_rows: int = 0
    tolerance: float | None = None

    @property
    def groups_are_guaranteed(self) -> bool:
        """Whether thresholds per group guarantee the coverage of these groups, and not only approximately."""
        return not self.several_models and not (self.clustered_rows and self.groups.n_edge_bits)

    def marginal_threshold(self, level: Level) -> MarginalThreshold:
        """Return the threshold for all rows at a level."""
        return MarginalThreshold(self.scores, self.groups, level, self.rows, self.nonconformity)


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The coverage that one threshold for all rows will have in each group. Returned by `diagnose`.

    The verdict is `even` if every group is shown to lie within the tolerance of the level: one-sided tests at 5 %
    reject, on both sides, that it is off by the tolerance or more. It is `uneven` if a group is off: its coverage is
    shown to differ from the level (its adjusted p-value is below 0.05 and its interval excludes the level) and is not
    shown to lie within the tolerance. Otherwise it is `undecided`. The other tests are additional information. `print`
    shows a table, the test results, the verdict and the advice.

    Parameters
    ----------
    verdict : {"even", "uneven", "undecided"}
        Verdict on the marginal predictor, for these groups, at this level.
    table : tuple of GroupForecast
        The expected coverage of each group, with an exact interval and an exact test.
    joint_p_value : float
        p-value of the exact test of all groups jointly, under the `null_hypothesis`.
    level, tolerance : float
        Nominal coverage, and the largest distance from it that counts as even.
    shown_within : float
        The smallest distance from the level within which every group is shown to lie: the smallest tolerance for which
        they are even. Infinite if the threshold is.
    threshold : float
        The threshold for all rows.
    inputs : DiagnosisInputs
        The scores and the other inputs.
    quantile_differences : tuple of QuantileDifference
        The paper's bootstrap for each pair of groups; empty with too few rows for a quantile, or more than 30 groups.
    distribution_differences : tuple of DistributionDifference
        Kolmogorov-Smirnov test for each pair of groups, for differences at any level. Empty with more than 30 groups.
    anderson_darling : float
        p-value of the null hypothesis that the scores of all groups have the same distribution.
    dependence : Dependence or None
        Dependence of the score on the spread, if the spread is known.
    options : tuple of Option
        Predictors that could be used instead, if the model is known. The first is the marginal predictor itself.
    taxonomy : str
        The taxonomy of these groups as Python code, if the model is known.
    in_use : bool
        Whether the model is already calibrated per group with this taxonomy.
    """

    verdict: Verdict
    table: tuple[GroupForecast, ...]
    joint_p_value: float
    level: float
    tolerance: float
    shown_within: float
    threshold: float
    inputs: DiagnosisInputs
    quantile_differences: tuple[QuantileDifference, ...]
    distribution_differences: tuple[DistributionDifference, ...]
    anderson_darling: float
    dependence: Dependence | None = None
    options: tuple[Option, ...] = ()
    taxonomy: str = ""
    in_use: bool = False

    @cached_property
    def scores(self) -> Mapping[Label, FloatArray]:
        """The scores of each group that has rows."""
        return self.inputs.groups.split(self.inputs.scores)

    @property
    def null_hypothesis(self) -> str:
        """The null hypothesis under which the exact tests are exact.

        Under the weaker hypothesis of equal coverage at this level only, they can reject more often than in 5 % of the
        cases. Therefore a group is off only if its interval excludes the level, too.
        """
        return "scores do not depend on the group"

    @property
    def off(self) -> tuple[GroupForecast, ...]:
        """The groups that are off."""
        return tuple(row for row in self.table if is_off(row, self.level, self.tolerance))

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        from evencover.words.answers import diagnosis_headline

        return diagnosis_headline(self)

    @property
    def advice(self) -> str:
        """What to do, how that was found, and at what cost."""
        from evencover.words.advice import advice_on_diagnosis

        return advice_on_diagnosis(self)

    def __repr__(self) -> str:
        n = sum(group.rows for group in self.table)
        return f"Diagnosis({self.verdict}; groups: {len(self.table)}, rows: {n}, level: {self.level:g})"

    def __str__(self) -> str:
        from evencover.words.results import diagnosis_text

        return diagnosis_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.results import diagnosis_html

        return diagnosis_html(self)


def diagnose(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    taxonomy: Taxonomy | None = None,
    level: Level = 0.9,
    tolerance: float | None = None,
    clusters: Any = None,
    seed: int = 0,
) -> Diagnosis:
    """Diagnose a model: find where one threshold for all rows under- or over-covers, test it, and give advice.

    The diagnosis is about the marginal predictor: the model with its score and one threshold for all rows, even if the
    model is calibrated per group. No test data is needed, because the coverage of a group is estimated from its
    calibration scores.

    Parameters
    ----------
    model : ConformalRegressor or CrossConformalRegressor
        A calibrated model, also inside a pipeline or a search. With `X` and `y`, it can be an uncalibrated model of a
        frozen estimator. The scores of a `CrossConformalRegressor` are out of fold: they come from several models that
        share most of their training rows, so the exact tests are approximations.
    X : table of n rows, optional
        Features of new rows, to be used instead of the calibration rows; in the form that the outermost estimator
        takes. The model must not be fitted on them. The threshold is then computed from these rows, as if they were the
        calibration rows. To test the model's own intervals on new rows, use `audit`.
    y : array-like of shape (n,), optional
        Targets of these rows.
    taxonomy : taxonomy, optional
        The groups to compare. The default is `BySpread(3)`, or `ByPrediction(3)` for a model that predicts no spread
        or the same for all rows.
    level : float
        Nominal coverage.
    tolerance : float, optional
        Largest distance from the level that counts as even; min(0.03, 0.1 √(level (1 − level))) by default.
    clusters : array-like of shape (n,), optional
        The clusters of the rows of X, if rows belong together. The exact tests need exchangeable rows, so the diagnosis
        is that of one random row of each cluster; so it is for a model that was calibrated with clusters.
    seed : int
        Seed of the random draws: the joint test of three groups or more, the bootstrap, the permutations of tied
        scores, the rows of clusters.

    Returns
    -------
    Diagnosis
        The result, with `verdict`, `advice` and `table`. `print` shows it as text.

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
    regressor, all_rows = _regressor_and_rows(model, X, y, clusters)
    rows, scores = _one_row_of_each_cluster(all_rows, _stored_scores(regressor, all_rows), settings.seed)
    score = _single_score(regressor)
    learned = default_taxonomy(rows) if taxonomy is None else fresh_taxonomy(taxonomy)
    groups = learned.learn(rows)
    scores = scores_of(score, rows) if scores is None else scores
    widths_known = not getattr(learned, "needs_target", False)
    in_use = len(groups.labels) > 1 and _is_same(learned, getattr(regressor, "taxonomy_", None))
    spread = rows.prediction.scored.spread
    several = isinstance(regressor, CrossConformalRegressor) and rows is regressor.calibration_rows_
    n_clustered = 0 if rows is all_rows else len(all_rows)
    inputs = DiagnosisInputs(
        scores, groups, spread, settings.seed, rows, score, widths_known, learned, several, n_clustered, tolerance
    )
    return _diagnosis(inputs, settings, taxonomy=short_repr(learned), in_use=in_use)


def diagnose_scores(
    scores: Any,
    groups: Any,
    *,
    spread: Any = None,
    level: Level = 0.9,
    tolerance: float | None = None,
    clusters: Any = None,
    seed: int = 0,
) -> Diagnosis:
    """Diagnose one threshold for all rows from calibration scores and their groups alone.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Calibration scores of any nonconformity measure; infinite scores are allowed.
    groups : array-like of shape (n,) or Groups
        The group of each row: labels of any kind, or the `Groups` that a taxonomy's `learn` returns.
    spread : array-like of shape (n,), optional
        The predicted spread of each row, to test whether the score depends on it.
    level, tolerance, clusters, seed
        See `diagnose`.

    Examples
    --------
    >>> scores = np.abs(np.random.default_rng(0).normal(size=3000)) * np.repeat([1.0, 2.0], 1500)
    >>> found = diagnose_scores(scores, np.repeat(["quiet", "noisy"], 1500))
    >>> found.verdict, {group.group: round(group.coverage, 2) for group in found.table}
    ('uneven', {'noisy': 0.81, 'quiet': 0.99})
    """
    settings = checked_settings(level, tolerance, seed)
    check_same_index({"scores": scores, "groups": groups, "spread": spread, "clusters": clusters})
    scores = checked_vector(scores, "scores", finite=False)
    groups = checked_groups(groups, len(scores), "the scores")
    spread = None if spread is None else checked_vector(spread, "spread", length=len(scores), matched="scores")
    inputs = DiagnosisInputs(scores, groups, spread, settings.seed, tolerance=tolerance)
    if clusters is not None:
        codes = cluster_codes(clusters, len(scores), matched="the scores")
        rows = random_row_of_each(codes, settings.seed)
        spread = None if spread is None else spread[rows]
        inputs = replace(inputs, scores=scores[rows], groups=groups[rows], spread=spread, clustered_rows=len(scores))
    return _diagnosis(inputs, settings)


def at_level(diagnosis: Diagnosis, level: Level) -> Diagnosis:
    """Return the same diagnosis at another level."""
    settings = checked_settings(level, diagnosis.inputs.tolerance, diagnosis.inputs.seed)
    return replace(diagnosis, **_level_parts(diagnosis.inputs, settings))


def _diagnosis(inputs: DiagnosisInputs, settings: Settings, *, taxonomy: str = "", in_use: bool = False) -> Diagnosis:
    scores, groups, spread = inputs.scores, inputs.groups, inputs.spread
    if not len(scores):
        raise ValueError("scores must have at least one calibration row; got 0")
    rng = np.random.default_rng([settings.seed, 2])
    return Diagnosis(
        inputs=inputs,
        distribution_differences=distribution_differences(scores, groups),
        anderson_darling=anderson_darling_p_value(scores, groups, rng),
        dependence=None if spread is None else dependence(scores, spread, rng),
        taxonomy=taxonomy,
        in_use=in_use,
        **_level_parts(inputs, settings),
    )


def _level_parts(inputs: DiagnosisInputs, settings: Settings) -> dict[str, Any]:
    """Return the parts of a diagnosis that depend on the level, by name."""
    marginal = inputs.marginal_threshold(settings.level)
    rng = np.random.default_rng([settings.seed, 1])
    return {
        "verdict": marginal.verdict(settings.tolerance),
        "table": marginal.forecasts,
        "joint_p_value": marginal.joint_p_value(settings.seed),
        "level": float(settings.level),
        "tolerance": settings.tolerance,
        "shown_within": marginal.shown_within,
        "threshold": marginal.threshold,
        "quantile_differences": quantile_differences(inputs.scores, inputs.groups, settings.level, rng),
        "options": evaluate_options(marginal, settings, per_group=inputs.group_widths_known),
    }


def random_row_of_each(clusters: IntArray, seed: int) -> IntArray:
    """Return one random row of each cluster: the tests need independent rows."""
    return one_row_of_each(clusters, np.random.default_rng([seed, 3]))


def _one_row_of_each_cluster(rows: Rows, scores: FloatArray | None, seed: int) -> tuple[Rows, FloatArray | None]:
    """Return one random row of each cluster of calibration rows, and its scores if they are known."""
    if rows.clusters is None:
        return rows, scores
    chosen = random_row_of_each(rows.clusters, seed)
    if len(chosen) == len(rows):
        return rows, scores
    return replace(rows[chosen], clusters=None), None if scores is None else scores[chosen]


def _regressor_and_rows(model: Any, X: Any, y: Any, clusters: Any) -> tuple[Conformal, Rows]:
    """Return the conformal regressor inside a model, and the rows for its diagnosis."""
    if (X is None) != (y is None):
        raise ValueError(f"X and y must be passed together; got only {'y' if X is None else 'X'}")
    if X is None and clusters is not None:
        raise ValueError("clusters are those of the rows of X; got clusters without X and y")
    check_same_index({"X": X, "y": y, "clusters": clusters})
    regressor, X = unwrap(model, X)
    if isinstance(getattr(regressor, "estimator", None), _MODELS):
        raise NotFittedError(f"model is not fitted yet: fit this {type(model).__name__} first")
    if not isinstance(regressor, _MODELS):
        raise TypeError(
            "model must be a ConformalRegressor or a CrossConformalRegressor, or a pipeline or search that contains one"
            f"; got {model!r}. For scores of another model, use diagnose_scores"
        )
    if X is None:
        return regressor, _calibration_rows(regressor)
    rows = _new_rows(regressor, X, y)
    return regressor, rows if clusters is None else replace(rows, clusters=cluster_codes(clusters, len(rows)))


def _calibration_rows(model: Conformal) -> Rows:
    """Return the rows a model was calibrated on."""
    if not hasattr(model, "calibrator_"):
        raise NotFittedError(
            "model is not calibrated yet, so it has no calibration rows to diagnose: fit it, or pass X and y"
        )
    if not hasattr(model, "calibration_rows_"):
        raise ValueError(
            "model has no calibration rows, because it was loaded from a file or calibrated in parts: pass X and y"
        )
    if model.calibration_rows_.weights is not None:
        raise ValueError(
            "diagnose does not support weights for covariate shift; this model was calibrated with weights"
        )
    return model.calibration_rows_


def _new_rows(model: Conformal, X: Any, y: Any) -> Rows:
    """Return new rows with the predictions of the model."""
    if hasattr(model, "calibrator_"):
        return model.rows(X, y)
    if is_frozen(model.estimator):
        target = checked_target(model, X, y)
        return Rows.with_checked_target(predictions_of(cloned(model.estimator).fit(X, target), X), X, target)
    raise NotFittedError(
        "model is not fitted yet: fit it, or pass a fitted estimator to it as FrozenEstimator(estimator)"
    )


def _stored_scores(model: Conformal, rows: Rows) -> FloatArray | None:
    """Return the scores that the calibrator stores, if the rows are the calibration rows and it stores them all."""
    if rows is not getattr(model, "calibration_rows_", None):
        return None
    scores: FloatArray | None = getattr(model.calibrator_, "scores", None)
    return scores if scores is not None and len(scores) == len(rows) else None


def _single_score(model: Conformal) -> Score:
    """Return the score of the model, with its learned scale. Raise ValueError if groups have different scores."""
    calibrator = getattr(model, "calibrator_", None)
    score = model.nonconformity if calibrator is None else calibrator.nonconformity
    if isinstance(score, Mapping):
        raise ValueError(
            "diagnose evaluates one threshold for all rows, which needs one score; this model has one score per group"
        )
    return Residual() if score is None else score


def _is_same(taxonomy: Taxonomy, other: Taxonomy | None) -> bool:
    """Return whether two fitted taxonomies have the same class, labels and settings."""
    if type(taxonomy) is not type(other) or taxonomy.labels_ != other.labels_:
        return False
    settings = [
        {
            name: value for name, value in each.get_params().items() if name != "n_groups"
        }  # the labels have been compared
        for each in (taxonomy, other)
        if hasattr(each, "get_params")
    ]
    return repr(settings[:1]) == repr(settings[1:])
