"""`recommend`: choose the score and the groups on out-of-fold predictions, before calibration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import FloatArray, check_count
from evencover._internal.frames import n_rows, take
from evencover.calibrators.two_tails import TwoTails, as_two_sided
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._options import WIDTH_MARGIN, Option, evaluate_options, two_tails_width
from evencover.diagnostics._verdict import Settings, Verdict, checked_settings
from evencover.diagnostics.recommendation_result import Candidate as Candidate
from evencover.diagnostics.recommendation_result import Recommendation as Recommendation
from evencover.diagnostics.recommendation_result import Tails
from evencover.diagnostics.sample_sizes import groups_affordable, groups_judged
from evencover.models._validation import check_regressor, checked_target, cloned, fitted_clone
from evencover.models.predict import is_frozen, predictions_of
from evencover.models.spread import WithSpread
from evencover.models.target_transforms import check_target_transform, with_target_transform
from evencover.predictions import Prediction
from evencover.quantiles import Level, rows_for_finite_threshold
from evencover.rows import Rows
from evencover.scores import IntervalDistance, Normalized, Residual, Score, scores_of
from evencover.scores.one_sided import is_one_sided
from evencover.scores.score import checked_score, needs_scale, with_scale
from evencover.scores.support import with_support, without_support
from evencover.target_support import Support
from evencover.taxonomies import BySpread, Marginal, Taxonomy, fresh_taxonomy

_FOLDS = 5
_N_GROUPS = (3, 5, 10)  # groups of the spread that can be chosen; the first if the rows suffice for a finite threshold
_N_COMPARED_GROUPS = 5  # groups of the spread, for which one threshold must be even
_SKEWED = 1.0  # skewness above which a model of the log of the target is evaluated
_BEST_FIRST: tuple[Verdict, ...] = ("even", "undecided", "uneven")


def recommend(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    nonconformity: Score | None = None,
    taxonomy: Taxonomy | None = None,
    level: Level = 0.9,
    tolerance: float = 0.03,
    calibration_rows: int | None = None,
    test_rows: int | None = None,
    support: Support | None = None,
    tails: Tails | None = None,
    target_transform: Literal["auto", "none"] = "auto",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ConformalRegressor:
    """Return a fitted conformal regressor with the score and the groups that give the narrowest even intervals.

    Scores and taxonomies are evaluated on out-of-fold predictions (five folds): `Residual`, `IntervalDistance` and
    `Normalized`, and for a model that predicts quantiles also `RelativeIntervalDistance` and `ProbabilityDistance`,
    whose intervals follow the skewness of the noise. One threshold for all rows must be even for five groups of the
    spread, by the rule of `diagnose`. Thresholds per group are even by their guarantee. The even candidate with the
    smallest mean width is chosen. Among all that are at most 1 % wider, it is the simplest: the one with the fewest
    groups, then without the log, then with joint tails. If no candidate is even because there are too few rows, the
    same rule is applied to the undecided ones.

    For positive, skewed targets, a second model is evaluated, which is fitted to the log of the target. Its scores are
    computed on the log scale, and its intervals are mapped back, so widths are comparable. It is evaluated if all
    targets are positive, their skewness is more than 1, and the skewness of their logs is at most half as large.

    The model is then fitted on all rows and frozen. It is not calibrated yet. Calibrate it on *other* rows: if
    the choice and the calibration used the same rows, coverage would be too low.

    Parameters
    ----------
    estimator : regressor
        A scikit-learn regressor. `WithSpread` is added if it predicts no spread. A frozen regressor is not fitted, and
        needs rows that it was not fitted on.
    X : table of n rows
        Features.
    y : array-like of shape (n,)
        Targets.
    nonconformity : score, optional
        The score, if only the groups are to be chosen.
    taxonomy : taxonomy, optional
        The groups, if only the score is to be chosen. Groups of the target are not allowed, because their widths are
        not known.
    level : float
        Nominal coverage at which the candidates are compared.
    tolerance : float
        Largest distance from the level that counts as even.
    calibration_rows : int, optional
        Number of rows that will calibrate the model. It limits the number of groups. The default is the number of rows
        in X.
    test_rows : int, optional
        Number of rows that will test the model. If given, more than three groups are chosen only if calibration and
        test rows will probably show that the coverage of each group is within the tolerance.
    support : Support, optional
        The values that the target can have, such as ``Support(y_min=0)``. All scores are then `Bounded` by it, and the
        widths are compared after the intervals were cut at its limits.
    tails : {"joint", "separate"}, optional
        Whether both ends of the intervals have the same threshold, or each end its own (`TwoTails`). By default, both
        are evaluated for `IntervalDistance` and `Normalized`.
    target_transform : {"auto", "none"}
        Whether a model of the log of the target is evaluated for positive, skewed targets.
    seed : int
        Seed of the folds and of the random draws of the tests.
    progress : callable, optional
        Called with the number of finished fits and the number of all fits.

    Returns
    -------
    ConformalRegressor
        The model with the frozen estimator; `calibrate` it on other rows. ``print(model.recommendation_)`` says what
        was chosen and why, and lists the evaluated candidates. A notebook shows this with the model.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from evencover.synthetic import heteroskedastic
    >>> old, new = heteroskedastic(2000, seed=0), heteroskedastic(1000, seed=1)
    >>> model = recommend(LinearRegression(), old.X, old.y).calibrate(new.X, new.y)
    >>> print(model.recommendation_.summary.partition(".")[0])
    Chosen: Normalized() with BySpread(n_groups=3), for each end
    """
    settings = checked_settings(level, tolerance, seed)
    if support is not None and not isinstance(support, Support):
        raise TypeError(f"support must be a support such as Support(y_min=0), or None; got {support!r}")
    check_regressor(estimator, "estimator")
    target = checked_target(ConformalRegressor(estimator), X, y)
    if len(target) < 2 * _FOLDS:
        raise ValueError(f"X must have at least {2 * _FOLDS} rows for {_FOLDS} folds; got {len(target)}")
    for name, count in (("calibration_rows", calibration_rows), ("test_rows", test_rows)):
        if count is not None:
            check_count(count, name)
    choices = _Choices(
        None if nonconformity is None else with_support(checked_score(nonconformity), support),
        None if taxonomy is None else fresh_taxonomy(taxonomy),
        calibration_rows or len(target),
        test_rows,
        support,
        tails,
        target_transform,
    )
    check_target_transform(estimator, target)
    with_log = _is_log_evaluated(estimator, target, choices)
    n_fits = (1 + with_log) * _FOLDS + 1
    report_progress = progress or (lambda *_: None)
    model, prediction = _out_of_fold(estimator, X, target, settings.seed, lambda done: report_progress(done, n_fits))
    models: dict[str | None, Any] = {None: model}
    candidates = list(_candidates(Rows(prediction, X, target), choices, settings))
    if with_log:
        models["log"], prediction = _out_of_fold(
            _fitted_to_log(model), X, target, settings.seed, lambda done: report_progress(_FOLDS + done, n_fits)
        )
        on_log_scale = _candidates(Rows(prediction, X, target), choices, settings)
        candidates += [replace(each, transform="log") for each in on_log_scale]
    candidates.sort(key=lambda each: each.width)
    chosen = _narrowest_even(candidates)
    fitted = FrozenEstimator(fitted_clone(models[chosen.transform], X, target))
    report_progress(n_fits, n_fits)
    regressor = ConformalRegressor(fitted, nonconformity=chosen.nonconformity, **_calibration_settings(chosen))
    regressor.recommendation_ = Recommendation(tuple(candidates), chosen, float(settings.level))
    return regressor


def _calibration_settings(chosen: Candidate) -> dict[str, Any]:
    """Return the arguments of `ConformalRegressor` for the groups and tails of a candidate."""
    return {"calibrator": TwoTails(chosen.taxonomy)} if chosen.tails == "separate" else {"taxonomy": chosen.taxonomy}


def _narrowest_even(candidates: list[Candidate]) -> Candidate:
    """Return the simplest candidate among the even ones that are at most 1 % wider than the narrowest.

    If none is even, the undecided ones are used instead; if there are none, the uneven ones.
    """
    best = min((each.verdict for each in candidates), key=_BEST_FIRST.index)
    even = [each for each in candidates if each.verdict == best]
    limit = even[0].width * (1 + WIDTH_MARGIN)
    return min((each for each in even if each.width <= limit), key=_complexity)


def _complexity(candidate: Candidate) -> tuple[int, bool, bool]:
    """Return the number of groups, whether the target is transformed, and whether each end has its own threshold."""
    n_groups = getattr(candidate.taxonomy, "n_groups", 1)
    return n_groups, candidate.transform is not None, candidate.tails == "separate"


@dataclass(frozen=True, eq=False)
class _Choices:
    """What can be chosen: score and taxonomy are given or None; calibration and test rows limit the groups.

    A given score has the support already.
    """

    nonconformity: Score | None
    taxonomy: Taxonomy | None
    calibration_rows: int
    test_rows: int | None = None
    support: Support | None = None
    tails: Tails | None = None
    target_transform: Literal["auto", "none"] = "auto"

    def __post_init__(self) -> None:
        if self.target_transform not in ("auto", "none"):
            raise ValueError(f"target_transform must be 'auto' or 'none'; got {self.target_transform!r}")
        if self.tails not in (None, "joint", "separate"):
            raise ValueError(f"tails must be 'joint', 'separate' or None; got {self.tails!r}")
        if self.tails == "separate" and self.nonconformity is not None:
            as_two_sided(self.nonconformity)
        if getattr(self.taxonomy, "needs_target", False):
            raise ValueError(
                "taxonomy must not depend on the target, because the interval widths cannot be compared then; got "
                f"{self.taxonomy!r}. Use for example BySpread(3)"
            )

    def with_scale_of(self, prediction: Prediction) -> "_Choices":
        """Return the same choices; if the given score needs a scale, it is the median spread of a prediction."""
        if self.nonconformity is None or not needs_scale(self.nonconformity):
            return self
        spread = prediction.required("spread", by=type(self.nonconformity).__name__)
        return replace(self, nonconformity=with_scale(self.nonconformity, float(np.median(spread))))  # type: ignore[arg-type]

    def taxonomies(self, settings: Settings) -> list[Taxonomy]:
        """Return the taxonomies to evaluate: the given one, or three groups of the spread, and more if rows allow.

        With few calibration rows there are two groups or none: each threshold gets twice the rows that it needs to be
        finite.
        """
        if self.taxonomy is not None:
            return [] if isinstance(self.taxonomy, Marginal) else [self.taxonomy]
        few, *more = _N_GROUPS
        finite = self.calibration_rows // (2 * rows_for_finite_threshold(settings.level) + 1)
        if finite < few:
            return [BySpread(finite)] if finite > 1 else []
        affordable = groups_affordable(self.calibration_rows, settings.level, settings.tolerance)
        if self.test_rows is not None:
            judged = groups_judged(self.calibration_rows, self.test_rows, settings.level, settings.tolerance)
            affordable = min(affordable, judged)
        return [BySpread(n_groups) for n_groups in (few, *(n for n in more if n <= affordable))]

    @property
    def with_one_threshold(self) -> bool:
        """Whether one threshold for all rows can be chosen."""
        return self.taxonomy is None or isinstance(self.taxonomy, Marginal)


def _candidates(rows: Rows, choices: _Choices, settings: Settings) -> Iterator[Candidate]:
    """Yield each score with one threshold, and with each taxonomy, for both ends jointly and for each end."""
    joint = list(_joint_candidates(rows, choices.with_scale_of(rows.prediction.scored), settings))
    if choices.tails != "separate":
        yield from joint
    for each in joint:
        inner = without_support(each.nonconformity)
        tried = not each.has_one_threshold and isinstance(inner, IntervalDistance | Normalized)
        if choices.tails == "separate" or (choices.tails is None and tried):
            groups = fresh_taxonomy(each.taxonomy).learn(rows)
            width = two_tails_width(rows, groups, each.nonconformity, settings.level)
            verdict = each.verdict if np.isfinite(width) else "undecided"
            yield replace(each, width=width, verdict=verdict, tails="separate")


def _joint_candidates(rows: Rows, choices: _Choices, settings: Settings) -> Iterator[Candidate]:
    """Yield each score with one threshold, and with each taxonomy."""
    for option in _options(rows, BySpread(_N_COMPARED_GROUPS), choices, settings):
        if choices.with_one_threshold and not option.per_group:
            yield Candidate(option.nonconformity, Marginal(), option.verdict, option.width)
    for taxonomy in choices.taxonomies(settings):
        for option in _options(rows, taxonomy, choices, settings):
            if option.per_group:
                yield Candidate(option.nonconformity, taxonomy, option.verdict, option.width)


def _options(rows: Rows, taxonomy: Taxonomy, choices: _Choices, settings: Settings) -> Iterator[Option]:
    """Yield the options of the scores that can be chosen, with the groups of a taxonomy."""
    score = choices.nonconformity or with_support(Residual(), choices.support)
    marginal = MarginalThreshold(scores_of(score, rows), fresh_taxonomy(taxonomy).learn(rows), settings.level)
    for option in evaluate_options(rows, score, marginal, settings):
        if choices.nonconformity in (None, option.nonconformity):
            yield option


def _out_of_fold(
    estimator: Any, X: Any, y: FloatArray, seed: int, report_progress: Callable[[int], None]
) -> tuple[Any, Prediction]:
    """Return the estimator, with a spread model if it had none, and its out-of-fold predictions."""
    folds = KFold(_FOLDS, shuffle=True, random_state=seed).split(np.arange(n_rows(X)))
    parts, positions = [], []
    for done, (training, held_out) in enumerate(folds):
        report_progress(done)
        part = _fold_prediction(estimator, X, y, training, held_out)
        if part.spread is None:
            estimator = with_spread_model(estimator, seed)
            part = _fold_prediction(estimator, X, y, training, held_out)
        parts.append(part)
        positions.append(held_out)
    report_progress(_FOLDS)
    return estimator, Prediction.concatenate(parts)[np.argsort(np.concatenate(positions))]


def with_spread_model(estimator: Any, seed: int) -> Any:
    """Return the estimator with `WithSpread` around its regressor."""
    if isinstance(estimator, TransformedTargetRegressor):
        return cloned(estimator).set_params(
            regressor=with_spread_model(estimator.regressor or LinearRegression(), seed)
        )
    if isinstance(estimator, Pipeline) and isinstance(estimator[-1], TransformedTargetRegressor):
        return _wrapped(estimator, lambda regressor: with_spread_model(regressor, seed))
    return _wrapped(estimator, lambda regressor: WithSpread(regressor, random_state=seed))


def _fitted_to_log(estimator: Any) -> Any:
    """Return the estimator whose regressor is fitted to the log of the target."""
    return _wrapped(estimator, lambda regressor: with_target_transform(regressor, "log"))


def _wrapped(estimator: Any, wrapper: Callable[[Any], Any]) -> Any:
    """Return a wrapper around the estimator, or around the last step of a pipeline, unless it is frozen."""
    if not isinstance(estimator, Pipeline) or is_frozen(estimator):
        return wrapper(estimator)
    name, last = estimator.steps[-1]
    return cloned(estimator).set_params(**{name: wrapper(last)})


def _is_log_evaluated(estimator: Any, y: FloatArray, choices: _Choices) -> bool:
    """Return whether a model of the log of the target is evaluated: for positive, skewed targets.

    A frozen model cannot be fitted again, and the given scale of a score is in the unit of the target. One-sided bounds
    have no width by which the two models could be compared.
    """
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    given = choices.target_transform == "none" or is_frozen(last) or isinstance(last, TransformedTargetRegressor)
    if given or y.min() <= 0:
        return False
    if choices.nonconformity is not None:
        has_scale = getattr(without_support(choices.nonconformity), "scale", None) is not None
        if has_scale or is_one_sided(choices.nonconformity):
            return False
    return _skewness(y) > max(_SKEWED, 2 * abs(_skewness(np.log(y))))


def _skewness(values: FloatArray) -> float:
    """Return the mean cube of the standardised values; 0 if all are equal."""
    deviations = values - values.mean()
    return float(np.mean(deviations**3) / np.std(values) ** 3) if np.ptp(values) else 0.0


def _fold_prediction(estimator: Any, X: Any, y: FloatArray, training: Any, held_out: Any) -> Prediction:
    """Return the prediction for held-out rows of the estimator fitted on the training rows."""
    return predictions_of(fitted_clone(estimator, take(X, training), y[training]), take(X, held_out))
