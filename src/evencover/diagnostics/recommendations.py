"""`recommend`: choose the score and the groups on out-of-fold predictions, before calibration; and its result."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evencover.calibration.group_thresholds import TwoTails, as_two_sided
from evencover.conformal.split import ConformalRegressor
from evencover.diagnostics.cross_fitted_models import (
    FOLDS,
    CrossFittedModel,
    cross_fitted_model,
    is_auto_regressor,
    structured_fit,
    wrapped,
)
from evencover.diagnostics.one_threshold import MARGIN, MarginalThreshold, evaluate_options, two_tails_quality
from evencover.diagnostics.sample_sizes import groups_judged, max_groups
from evencover.diagnostics.verdicts import Settings, Verdict, checked_settings
from evencover.display.text import short_repr
from evencover.groups import cluster_codes
from evencover.inputs import Finished, Progress
from evencover.inputs.arrays import FloatArray, check_count, checked_vector
from evencover.models.estimators import (
    check_regressor,
    checked_target,
    is_frozen,
    out_of_fold_prediction,
)
from evencover.models.folds import INDEPENDENT, RowStructure
from evencover.models.target_transforms import check_target_transform, with_target_transform
from evencover.predictions import Prediction
from evencover.quantiles import Level, rows_for_finite_threshold, rows_for_precise_thresholds
from evencover.rows import Rows
from evencover.scores import Residual, Score
from evencover.scores.one_sided import is_one_sided
from evencover.scores.score import checked_score, needs_scale, with_scale
from evencover.scores.support import with_support, without_support
from evencover.target_support import Support
from evencover.taxonomies import BySpread, Marginal, Taxonomy, fresh_taxonomy, has_one_group

Tails: TypeAlias = Literal["joint", "separate"]

_N_GROUPS = (3, 5, 10)  # groups of the spread that can be chosen
_MIN_GROUP_ROWS = 100  # with 30 to 50 calibration rows, groups were wider and no more even than one threshold
_LARGEST_COST_OF_EVENNESS = 0.1  # of the interval score, among candidates with one threshold
_N_COMPARED_GROUPS = 5  # groups of the spread, for which one threshold must be even
_SKEWED = 1.0  # skewness above which a model of the log of the target is evaluated
_BEST_FIRST: tuple[Verdict, ...] = ("even", "undecided", "uneven")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A score with a taxonomy, evaluated on out-of-fold predictions.

    Parameters
    ----------
    nonconformity : Score
        The score.
    taxonomy : Taxonomy
        The groups.
    verdict : {"even", "uneven", "undecided"}
        Verdict on one threshold, for five groups of the spread. With thresholds per group it is "even", which is
        guaranteed.
    interval_score : float
        Mean interval score, in the unit of the target: the width, plus 2 / (1 − level) times the distance of a missed
        target. Infinite for one-sided bounds.
    width : float
        Mean width, in the unit of the target.
    tails : {"joint", "separate"}
        Whether both ends of an interval have the same threshold, or each end its own (`TwoTails`). If all rows are one
        group, the verdict on separate tails is that on joint tails.
    transform : str, optional
        "log" if the model was fitted to the log of the target, and the score is computed on that scale.
    """

    nonconformity: Score
    taxonomy: Taxonomy
    verdict: Verdict
    interval_score: float
    width: float
    tails: Tails = "joint"
    transform: str | None = None

    @property
    def outcome(self) -> str:
        """The verdict as text; thresholds per group are even (guaranteed)."""
        return self.verdict + " (guaranteed)" * (self.verdict == "even" and not self.has_one_threshold)

    @property
    def has_one_threshold(self) -> bool:
        """Whether all rows have the same threshold."""
        return has_one_group(self.taxonomy)

    @property
    def name(self) -> str:
        """The score and the groups as text."""
        groups = "one threshold" if self.has_one_threshold else repr(self.taxonomy)
        return f"{self.score_name} with {groups}{self._ends}"

    @property
    def groups_name(self) -> str:
        """The groups as text, and whether each end of an interval has its own threshold."""
        return f"{self.taxonomy!r}{self._ends}"

    @property
    def _ends(self) -> str:
        return ", for each end" * (self.tails == "separate")

    @property
    def score_name(self) -> str:
        """The score as text, with its scale, and without the support, which all candidates share."""
        scale = "" if self.transform is None else f" of the {self.transform} of the target"
        return f"{short_repr(without_support(self.nonconformity))}{scale}"


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """The candidates that were evaluated, and the one that was chosen. `print` shows the reason and a table.

    Parameters
    ----------
    candidates : tuple of Candidate
        The evaluated candidates, the one with the smallest interval score first.
    chosen : Candidate
        The even candidate with the smallest interval score. Among all even ones whose score is at most 1 % larger, the
        simplest: with the fewest groups, then without the log, then with joint tails. One threshold is chosen only if
        its score is at most 10 % above the smallest with one threshold.
    level : float
        Nominal coverage of the comparison.
    calibration_rows : int, optional
        Number of rows that will calibrate the model; None if the groups were given.
    """

    candidates: tuple[Candidate, ...]
    chosen: Candidate
    level: float
    calibration_rows: int | None = None

    @property
    def tails(self) -> Tails | None:
        """The tails of all candidates; None if some have joint and others separate ones."""
        tails = {each.tails for each in self.candidates}
        return tails.pop() if len(tails) == 1 else None

    @property
    def needed_for_groups(self) -> int | None:
        """How many calibration rows groups would have needed; None if this is not why there are none."""
        if self.calibration_rows is None or not self.chosen.has_one_threshold:
            return None
        needed = rows_for_groups(self.level, self.tails)
        return needed if self.calibration_rows < needed else None

    @property
    def one_sided(self) -> bool:
        """Whether the candidates have one-sided bounds, which have no width and no interval score."""
        return is_one_sided(self.chosen.nonconformity)

    @property
    def summary(self) -> str:
        """What was chosen and why, then why not the others; a line for each."""
        from evencover.words.results import recommendation_summary

        return recommendation_summary(self)

    def __repr__(self) -> str:
        return f"Recommendation({self.chosen.score_name}, {self.chosen.groups_name}, level={self.level:g})"

    def __str__(self) -> str:
        from evencover.words.results import recommendation_text

        return recommendation_text(self)

    def _repr_html_(self) -> str:
        from evencover.words.results import recommendation_html

        return recommendation_html(self)


def recommend(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    nonconformity: Score | None = None,
    taxonomy: Taxonomy | None = None,
    level: Level = 0.9,
    tolerance: float | None = None,
    calibration_rows: int | None = None,
    test_rows: int | None = None,
    support: Support | None = None,
    tails: Tails | None = None,
    target_transform: Literal["auto", "none"] = "auto",
    clusters: Any = None,
    times: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ConformalRegressor:
    """Return a fitted conformal regressor with the score and the groups that give the best even intervals.

    Scores and taxonomies are evaluated on out-of-fold predictions (five folds): `Residual`, `IntervalDistance` and
    `Normalized`, and for a model that predicts quantiles also `RelativeIntervalDistance` and `ProbabilityDistance`,
    whose intervals follow the skewness of the noise. Their thresholds are computed on the same predictions. The even
    candidate with the smallest interval score is chosen: the mean width, plus 2 / (1 − level) times the distance of
    missed targets. So intervals are not chosen for missing targets cheaply, as they would be by their width alone.
    Among all whose score is at most 1 % larger, it is the simplest: the one with the fewest groups, then without the
    log, then with joint tails.

    Thresholds per group are even by their guarantee, and are preferred if there will be at least 300 calibration rows
    (30 / (1 − level) at levels above 0.9), or twice as many with `tails` "separate". The thresholds of fewer rows vary
    by chance, so groups would make intervals wider and coverage not more even. Then all rows have one threshold, unless
    the score is given and its threshold is uneven. `diagnose` says for each score whether one threshold is uneven for
    five groups of the spread. Of the candidates with one threshold whose interval score is at most 10 % above the
    smallest, the best verdict decides. Where no candidate is even because there are too few rows, the undecided ones
    are compared.

    For positive, skewed targets, a second model is evaluated, which is fitted to the log of the target. Its scores are
    computed on the log scale, and its intervals are mapped back, so they are comparable. It is evaluated if all
    targets are positive, their skewness is more than 1, and the skewness of their logs is at most half as large.

    The model is then fitted on all rows and frozen. It is not calibrated yet. Calibrate it on *other* rows: if
    the choice and the calibration used the same rows, coverage would be too low.

    Parameters
    ----------
    estimator : regressor
        A scikit-learn regressor. `WithSpread` is added if it predicts no spread. A frozen regressor is not fitted, and
        needs rows that it was not fitted on. An `AutoRegressor` is fitted once: it has out-of-fold predictions of its
        own.
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
    tolerance : float, optional
        Largest distance from the level that counts as even; min(0.03, 0.1 √(level (1 − level))) by default.
    calibration_rows : int, optional
        Number of rows that will calibrate the model. It limits the number of groups. The default is the number of rows
        in X.
    test_rows : int, optional
        Number of other rows that will test the model. If given, more than three groups are chosen only if calibration
        and test rows will probably show that the coverage of each group is within the tolerance. With 0, as in a study,
        the calibration rows must show it.
    support : Support, optional
        The values that the target can have, such as ``Support(y_min=0)``. All scores are then `Bounded` by it, and the
        candidates are compared after the intervals were cut at its limits.
    tails : {"joint", "separate"}, optional
        Whether both ends of the intervals have the same threshold, or each end its own (`TwoTails`). By default, both
        are evaluated for `IntervalDistance` and `Normalized` if there will be 60 / (1 − level) calibration rows.
    target_transform : {"auto", "none"}
        Whether a model of the log of the target is evaluated for positive, skewed targets.
    clusters : array-like of shape (n,), optional
        Rows with the same entry belong together, such as several visits of a patient: they are in the same fold, so
        out-of-fold predictions are those for new clusters.
    times : array-like of shape (n,), optional
        The times of the rows, as numbers, if the model will predict later rows: everything is then compared on the
        second half of the rows, predicted from the first half.
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
    target = checked_target(ConformalRegressor(estimator), X, y, clusters=clusters, times=times)
    if len(target) < 2 * FOLDS:
        raise ValueError(f"X must have at least {2 * FOLDS} rows for {FOLDS} folds; got {len(target)}")
    if calibration_rows is not None:
        check_count(calibration_rows, "calibration_rows")
    if test_rows not in (None, 0):
        check_count(test_rows, "test_rows")
    choices = _Choices(
        None if nonconformity is None else with_support(checked_score(nonconformity), support),
        None if taxonomy is None else fresh_taxonomy(taxonomy),
        calibration_rows or len(target),
        test_rows,
        support,
        tails,
        target_transform,
    )
    codes = None if clusters is None else cluster_codes(clusters, len(target))
    times = None if times is None else checked_vector(times, "times", length=len(target), matched="X", exact=False)
    structure = RowStructure(codes, times)
    check_target_transform(estimator, target)
    with_log = _is_log_evaluated(estimator, target, choices)
    n_last_fits = 0 if is_auto_regressor(estimator) else 1
    report = _PassProgress(progress or (lambda *_: None), 1 + with_log, n_last_fits)
    models: dict[str | None, CrossFittedModel] = {}
    for transform in (None, "log") if with_log else (None,):
        report.n_finished = len(models)
        model = estimator if transform is None else _fitted_to_log(models[None].estimator)
        models[transform] = cross_fitted_model(model, X, target, structure, settings.seed, report)
    candidates, chosen = _compared({transform: model.rows for transform, model in models.items()}, choices, settings)
    fitted = FrozenEstimator(models[chosen.transform].fitted(X, target))
    report.progress(report.n_all, report.n_all)
    groups = {"calibrator": TwoTails(chosen.taxonomy)} if chosen.tails == "separate" else {"taxonomy": chosen.taxonomy}
    regressor = ConformalRegressor(fitted, nonconformity=chosen.nonconformity, **groups)
    rows = choices.calibration_rows if taxonomy is None else None
    regressor.recommendation_ = Recommendation(tuple(candidates), chosen, float(settings.level), rows)
    return regressor


def fitted_on_better_scale(
    estimator: Any,
    X: Any,
    y: FloatArray,
    nonconformity: Score,
    taxonomy: Taxonomy,
    settings: Settings,
    structure: RowStructure = INDEPENDENT,
) -> Any:
    """Return a model, fitted to the log of the target if `recommend` would choose this for a given score and groups.

    The two models are compared on their own out-of-fold predictions, so each of them is fitted only once. Without such
    predictions, the model is fitted to the target itself.

    Parameters
    ----------
    estimator : regressor
        A pipeline whose last step is `WithSpread`.
    X, y : table and ndarray of n rows
        Training rows.
    nonconformity, taxonomy : score and taxonomy
        The score, with the support of the target, and the groups.
    settings : Settings
        Level and tolerance of the comparison, and seed of its random draws.
    structure : RowStructure
        Which rows belong together.
    """
    fitted: dict[str | None, Any] = {None: structured_fit(estimator, X, y, structure)}
    choices = _Choices(nonconformity, fresh_taxonomy(taxonomy), len(y), tails="joint")
    if out_of_fold_prediction(fitted[None])[0] is None or not _is_log_evaluated(estimator, y, choices):
        return fitted[None]
    fitted["log"] = structured_fit(_fitted_to_log(estimator), X, y, structure)
    rows = {transform: Rows(out_of_fold_prediction(model)[0], X, y) for transform, model in fitted.items()}
    return fitted[_compared(rows, choices, settings)[1].transform]


def _compared(
    rows: Mapping[str | None, Rows], choices: "_Choices", settings: Settings
) -> tuple[list[Candidate], Candidate]:
    """Return the candidates, the one with the smallest interval score first, and the one to choose.

    `rows` has training rows with out-of-fold predictions, of the model of each transform of the target.
    """
    candidates = [
        replace(each, transform=transform)
        for transform, predicted in rows.items()
        for each in _candidates(predicted, choices, settings)
    ]
    candidates.sort(key=lambda each: each.interval_score)
    prefer_groups = choices.rows_suffice_for_groups(settings.level, choices.tails)
    return candidates, _best_even(candidates, prefer_groups=prefer_groups)


@dataclass
class _PassProgress:
    """Progress of several passes with the same number of fits, and of the fits after them, as one."""

    progress: Progress
    n_passes: int
    n_last_fits: int
    n_finished: int = 0  # passes
    n_all: int = 0  # fits, which are known when the first pass begins

    def __call__(self, done: int, n_fits: int) -> None:
        self.n_all = self.n_passes * n_fits + self.n_last_fits
        share = done.share if isinstance(done, Finished) else done / n_fits
        fits = self.n_finished * n_fits + done
        self.progress(Finished(fits, (self.n_finished + share) * n_fits / self.n_all), self.n_all)


def _best_even(candidates: list[Candidate], *, prefer_groups: bool) -> Candidate:
    """Return the simplest candidate among the even ones whose interval score is at most 1 % above the smallest.

    If none is even, the undecided ones are used instead; if there are none, the uneven ones. If there are any preferred
    ones, only they are considered: those with groups, then those with one threshold whose score is at most 10 % above
    the smallest. With few calibration rows, the latter come first, unless all of them are uneven.
    """
    grouped = [each for each in candidates if not each.has_one_threshold and each.verdict == "even"]
    single = [each for each in candidates if each.has_one_threshold]
    largest = min((each.interval_score for each in single), default=inf) * (1 + _LARGEST_COST_OF_EVENNESS)
    single = [each for each in single if each.interval_score <= largest]
    not_uneven = [] if prefer_groups else [each for each in single if each.verdict != "uneven"]
    eligible = not_uneven or grouped or single or candidates
    best = min((each.verdict for each in eligible), key=_BEST_FIRST.index)
    even = [each for each in eligible if each.verdict == best]
    limit = min(each.interval_score for each in even) * (1 + MARGIN)
    return min((each for each in even if each.interval_score <= limit), key=_complexity)


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

        With few calibration rows there are none, because another score serves better. If the score is given, groups are
        the only remedy for uneven coverage, provided that their thresholds will be finite.
        """
        if self.taxonomy is not None:
            return [] if has_one_group(self.taxonomy) else [self.taxonomy]
        few, *more = _N_GROUPS
        if not self.rows_suffice_for_groups(settings.level, self.tails):
            finite = self.calibration_rows >= few * (2 * rows_for_finite_threshold(settings.level) + 1)
            return [BySpread(few)] if finite and self.nonconformity is not None else []
        affordable = max_groups(self.calibration_rows, settings.level, settings.tolerance)
        if self.test_rows is not None:
            judged = groups_judged(self.calibration_rows, self.test_rows, settings.level, settings.tolerance)
            affordable = min(affordable, judged)
        return [BySpread(n_groups) for n_groups in (few, *(n for n in more if n <= affordable))]

    def rows_suffice_for_groups(self, level: Level, tails: Tails | None) -> bool:
        """Return whether three groups will have enough calibration rows for precise thresholds."""
        return self.calibration_rows >= rows_for_groups(level, tails)

    @property
    def with_one_threshold(self) -> bool:
        """Whether one threshold for all rows can be chosen."""
        return self.taxonomy is None or has_one_group(self.taxonomy)


def rows_for_groups(level: Level, tails: Tails | None) -> int:
    """Return from how many calibration rows on groups are preferred: enough for three, and for each tail of them."""
    n_thresholds = _N_GROUPS[0] * (2 if tails == "separate" else 1)
    return max(rows_for_precise_thresholds(n_thresholds, level), _MIN_GROUP_ROWS * n_thresholds)


def _candidates(rows: Rows, choices: _Choices, settings: Settings) -> Iterator[Candidate]:
    """Yield each score with one threshold, and with each taxonomy, for both ends jointly and for each end."""
    suffice_for_tails = choices.rows_suffice_for_groups(settings.level, "separate")
    joint = list(_joint_candidates(rows, choices.with_scale_of(rows.prediction.scored), settings))
    if choices.tails != "separate":
        yield from joint
    for each in joint:
        tries_tails = getattr(without_support(each.nonconformity), "tries_separate_tails", False)
        tried = not each.has_one_threshold and tries_tails and suffice_for_tails
        if choices.tails == "separate" or (choices.tails is None and tried):
            groups = fresh_taxonomy(each.taxonomy).learn(rows)
            width, interval_score = two_tails_quality(rows, groups, each.nonconformity, settings.level)
            verdict = each.verdict if np.isfinite(width) else "undecided"
            yield replace(each, width=width, interval_score=interval_score, verdict=verdict, tails="separate")


def _joint_candidates(rows: Rows, choices: _Choices, settings: Settings) -> Iterator[Candidate]:
    """Yield each score that can be chosen, with one threshold, which is compared in groups, and with each taxonomy."""
    score = choices.nonconformity or with_support(Residual(), choices.support)
    pairs: list[tuple[Taxonomy, Taxonomy]] = [(each, each) for each in choices.taxonomies(settings)]
    if choices.with_one_threshold:
        pairs.insert(0, (BySpread(_N_COMPARED_GROUPS), Marginal()))
    for compared, taxonomy in pairs:
        per_group = not has_one_group(taxonomy)
        marginal = MarginalThreshold.of_rows(rows, fresh_taxonomy(compared).learn(rows), score, settings.level)
        options = evaluate_options(marginal, settings, per_group=per_group, others=choices.nonconformity is None)
        for option in options:
            if option.per_group == per_group:
                yield Candidate(option.nonconformity, taxonomy, option.verdict, option.interval_score, option.width)


def _fitted_to_log(estimator: Any) -> Any:
    """Return the estimator whose regressor is fitted to the log of the target."""
    return wrapped(estimator, lambda regressor: with_target_transform(regressor, "log"))


def _is_log_evaluated(estimator: Any, y: FloatArray, choices: _Choices) -> bool:
    """Return whether a model of the log of the target is evaluated: for positive, skewed targets.

    A frozen model cannot be fitted again, and the given scale of a score is in the unit of the target. One-sided bounds
    have no interval score by which the two models could be compared. The distribution of an `AutoRegressor` can have
    any skewness and depend on the center, and a second one would take twice the time.
    """
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    given = choices.target_transform == "none" or is_frozen(last) or isinstance(last, TransformedTargetRegressor)
    given = given or is_auto_regressor(last)
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
