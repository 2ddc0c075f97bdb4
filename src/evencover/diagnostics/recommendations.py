"""`recommend`: choose the score and the groups on out-of-fold predictions, before calibration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import FloatArray, check_count
from evencover._internal.frames import n_rows, take
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._options import Option, evaluate_options
from evencover.diagnostics._verdict import Settings, Verdict, checked_settings
from evencover.diagnostics.recommendation_result import WIDTH_MARGIN
from evencover.diagnostics.recommendation_result import Candidate as Candidate
from evencover.diagnostics.recommendation_result import Recommendation as Recommendation
from evencover.diagnostics.sample_sizes import groups_affordable, groups_judged
from evencover.models._validation import check_regressor, checked_target, cloned, fitted_clone
from evencover.models.predict import is_frozen, predictions_of
from evencover.models.spread import WithSpread
from evencover.predictions import Prediction, Rows
from evencover.quantiles import Level, rows_for_finite_threshold
from evencover.scores import Residual, Score, checked_score, scores_of
from evencover.taxonomies import BySpread, Marginal, Taxonomy, fresh_taxonomy

_FOLDS = 5
_N_GROUPS = (3, 5, 10)  # groups of the spread that can be chosen; the first if the rows suffice for a finite threshold
_N_COMPARED_GROUPS = 5  # groups of the spread, for which one threshold must be even
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
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ConformalRegressor:
    """Return a fitted conformal regressor with the score and the groups that give the narrowest even intervals.

    Scores and taxonomies are evaluated on out-of-fold predictions (five folds). One threshold for all rows must be even
    for five groups of the spread, by the rule of `diagnose`. Thresholds per group are even by their guarantee. The
    even candidate with the smallest mean width is chosen. Among all that are at most 1 % wider, it is the one with the
    fewest groups. If no candidate is even because there are too few rows, the same rule is applied to the undecided
    ones. The model is then fitted on all rows and frozen. It is not calibrated yet. Calibrate it on *other* rows: if
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
    Chosen: Normalized() with BySpread(n_groups=3)
    """
    settings = checked_settings(level, tolerance, seed)
    check_regressor(estimator, "estimator")
    target = checked_target(ConformalRegressor(estimator), X, y)
    if len(target) < 2 * _FOLDS:
        raise ValueError(f"X must have at least {2 * _FOLDS} rows for {_FOLDS} folds; got {len(target)}")
    for name, count in (("calibration_rows", calibration_rows), ("test_rows", test_rows)):
        if count is not None:
            check_count(count, name)
    choices = _Choices(
        None if nonconformity is None else checked_score(nonconformity),
        None if taxonomy is None else fresh_taxonomy(taxonomy),
        calibration_rows or len(target),
        test_rows,
    )
    report_progress = progress or (lambda *_: None)
    model, prediction = _out_of_fold(estimator, X, target, settings.seed, report_progress)
    candidates = sorted(_candidates(Rows(prediction, X, target), choices, settings), key=lambda each: each.width)
    chosen = _narrowest_even(candidates)
    fitted = FrozenEstimator(fitted_clone(model, X, target))
    report_progress(_FOLDS + 1, _FOLDS + 1)
    regressor = ConformalRegressor(fitted, nonconformity=chosen.nonconformity, taxonomy=chosen.taxonomy)
    regressor.recommendation_ = Recommendation(tuple(candidates), chosen, float(settings.level))
    return regressor


def _narrowest_even(candidates: list[Candidate]) -> Candidate:
    """Return the candidate with the fewest groups among the even ones that are at most 1 % wider than the narrowest.

    If none is even, the undecided ones are used instead; if there are none, the uneven ones.
    """
    best = min((each.verdict for each in candidates), key=_BEST_FIRST.index)
    even = [each for each in candidates if each.verdict == best]
    limit = even[0].width * (1 + WIDTH_MARGIN)
    return min((each for each in even if each.width <= limit), key=lambda each: getattr(each.taxonomy, "n_groups", 1))


@dataclass(frozen=True, eq=False)
class _Choices:
    """What can be chosen: score and taxonomy are given or None; calibration and test rows limit the groups."""

    nonconformity: Score | None
    taxonomy: Taxonomy | None
    calibration_rows: int
    test_rows: int | None = None

    def __post_init__(self) -> None:
        if getattr(self.taxonomy, "needs_target", False):
            raise ValueError(
                "taxonomy must not depend on the target, because the interval widths cannot be compared then; got "
                f"{self.taxonomy!r}. Use for example BySpread(3)"
            )

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
    score = choices.nonconformity or Residual()
    marginal = MarginalThreshold(scores_of(score, rows), fresh_taxonomy(taxonomy).learn(rows), settings.level)
    for option in evaluate_options(rows, score, marginal, settings):
        if choices.nonconformity in (None, option.nonconformity):
            yield option


def _out_of_fold(
    estimator: Any, X: Any, y: FloatArray, seed: int, report_progress: Callable[[int, int], None]
) -> tuple[Any, Prediction]:
    """Return the estimator, with a spread model if it had none, and its out-of-fold predictions."""
    folds = KFold(_FOLDS, shuffle=True, random_state=seed).split(np.arange(n_rows(X)))
    parts, positions = [], []
    for done, (training, held_out) in enumerate(folds):
        report_progress(done, _FOLDS + 1)
        part = _fold_prediction(estimator, X, y, training, held_out)
        if part.spread is None:
            estimator = _with_spread(estimator, seed)
            part = _fold_prediction(estimator, X, y, training, held_out)
        parts.append(part)
        positions.append(held_out)
    report_progress(_FOLDS, _FOLDS + 1)
    return estimator, _concatenate(parts)[np.argsort(np.concatenate(positions))]


def _with_spread(estimator: Any, seed: int) -> Any:
    """Return the estimator, or the last step of a pipeline, wrapped in `WithSpread`."""
    if not isinstance(estimator, Pipeline) or is_frozen(estimator):
        return WithSpread(estimator, random_state=seed)
    name, last = estimator.steps[-1]
    return cloned(estimator).set_params(**{name: WithSpread(last, random_state=seed)})


def _fold_prediction(estimator: Any, X: Any, y: FloatArray, training: Any, held_out: Any) -> Prediction:
    """Return the prediction for held-out rows of the estimator fitted on the training rows."""
    return predictions_of(fitted_clone(estimator, take(X, training), y[training]), take(X, held_out))


def _concatenate(parts: list[Prediction]) -> Prediction:
    """Return several predictions as one, in their order."""
    columns = ([getattr(part, name) for part in parts] for name in ("center", "spread", "lower", "upper"))
    return Prediction(*(np.concatenate(column) for column in columns), level=parts[0].level)
