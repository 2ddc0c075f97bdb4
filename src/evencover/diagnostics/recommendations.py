"""Which score and which groups: tried out of fold, before any calibration row is spent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline

from evencover._internal.arrays import FloatArray, check_count
from evencover._internal.frames import n_rows, take
from evencover._internal.html import html_table
from evencover.conformal import ConformalRegressor
from evencover.diagnostics._formatting import short_repr, text_table
from evencover.diagnostics._marginal_threshold import MarginalThreshold
from evencover.diagnostics._options import Option, options
from evencover.diagnostics._verdict import Settings, Verdict, checked_settings
from evencover.diagnostics.sample_sizes import groups_affordable
from evencover.models._validation import check_regressor, checked_target
from evencover.models.predict import is_frozen, predictions_of
from evencover.models.spread import WithSpread
from evencover.predictions import Prediction, Rows
from evencover.quantiles import Level
from evencover.scores import Residual, Score, checked_score, scores_of
from evencover.taxonomies import BySpread, Marginal, Taxonomy, fresh_taxonomy

_FOLDS = 5
_JUDGED_BY = 3  # groups of the spread over which one threshold must be even
_MORE_GROUPS = (5, 10)
_BEST_FIRST: tuple[Verdict, ...] = ("even", "undecided", "uneven")
_ABOUT = 0.01  # widths are equal but for chance


@dataclass(frozen=True, eq=False)
class Candidate:
    """A score with a taxonomy, tried out of fold.

    Parameters
    ----------
    nonconformity : Score
        The score.
    taxonomy : Taxonomy
        The groups.
    verdict : {"even", "uneven", "undecided"}
        Of one threshold, over three groups of the spread; calibrated per group it is even, by its guarantee.
    width : float
        Mean width.
    """

    nonconformity: Score
    taxonomy: Taxonomy
    verdict: Verdict
    width: float


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """What was tried, and what was chosen. Printed, it is a table.

    Parameters
    ----------
    candidates : tuple of Candidate
        What was tried, the narrowest first.
    chosen : Candidate
        The narrowest that is even; the one with the fewest groups of any that are within 1 % of it.
    level : float
        Nominal coverage it was chosen for.
    """

    candidates: tuple[Candidate, ...]
    chosen: Candidate
    level: float

    def __repr__(self) -> str:
        return (
            f"Recommendation({short_repr(self.chosen.nonconformity)}, {self.chosen.taxonomy!r}, level={self.level:g})"
        )

    def __str__(self) -> str:
        return text_table(self._header, self._lines())

    def _repr_html_(self) -> str:
        return html_table(self._header, self._lines())

    @property
    def _header(self) -> tuple[str, ...]:
        return "nonconformity", "taxonomy", "verdict", f"mean width at {self.level:g}", ""

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            (
                short_repr(each.nonconformity),
                repr(each.taxonomy),
                each.verdict
                + ", by its guarantee" * (each.verdict == "even" and not isinstance(each.taxonomy, Marginal)),
                f"{each.width:.4g}",
                "<-" * (each is self.chosen),
            )
            for each in self.candidates
        ]


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
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ConformalRegressor:
    """Return a fitted conformal regressor with the score and groups that give the narrowest even intervals.

    Scores and taxonomies are tried on out-of-fold predictions (five folds). One threshold for all rows must be even
    over three groups of the spread, by the rule of `diagnose`; thresholds per group are even by their guarantee. Of
    those the narrowest on average is taken; of any within 1 % of it, the one with the fewest groups. With too few rows
    for any to be even, the same goes for those that are undecided. The model is then
    fitted on all rows and frozen, and has yet to be calibrated: on *other* rows, since a choice made on the calibration
    rows would cost coverage.

    Parameters
    ----------
    estimator : regressor
        Of scikit-learn's kind. One that knows no spread is given one, by `WithSpread`; a frozen one is not fitted, and
        takes rows that are new to it.
    X : table of n rows
        Features.
    y : array-like of shape (n,)
        Targets.
    nonconformity : score, optional
        The score to take, where only the groups are to be chosen.
    taxonomy : taxonomy, optional
        The groups to take, where only the score is to be chosen; not groups of the target, which cannot be priced.
    level : float
        Nominal coverage to choose for.
    tolerance : float
        Distance from the level that counts as even.
    calibration_rows : int, optional
        How many rows will calibrate it, and have to bear its groups; as many as there are here by default.
    seed : int
        Of the folds, and of the draws of the tests.
    progress : callable, optional
        Called with the number of fits done, and of all of them.

    Returns
    -------
    ConformalRegressor
        Around the frozen model; `calibrate` it on other rows. Its `recommendation_` says what was tried.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from evencover.synthetic import heteroskedastic
    >>> old, new = heteroskedastic(2000, seed=0), heteroskedastic(1000, seed=1)
    >>> model = recommend(LinearRegression(), old.X, old.y).calibrate(new.X, new.y)
    >>> model.recommendation_.chosen.verdict
    'even'
    """
    settings = checked_settings(level, tolerance, seed)
    check_regressor(estimator, "estimator")
    target = checked_target(ConformalRegressor(estimator), X, y)
    if len(target) < 2 * _FOLDS:
        raise ValueError(f"X must have {2 * _FOLDS} rows or more, to be tried in {_FOLDS} folds; got {len(target)}")
    if calibration_rows is not None:
        check_count(calibration_rows, "calibration_rows")
    asked = _Asked(
        None if nonconformity is None else checked_score(nonconformity),
        None if taxonomy is None else fresh_taxonomy(taxonomy),
        calibration_rows or len(target),
    )
    report = progress or (lambda *_: None)
    model, prediction = _out_of_fold(estimator, X, target, settings.seed, report)
    found = sorted(_candidates(Rows(prediction, X, target), asked, settings), key=lambda each: each.width)
    chosen = _narrowest_even(found)
    fitted = FrozenEstimator(clone(model).fit(X, target))
    report(_FOLDS + 1, _FOLDS + 1)
    regressor = ConformalRegressor(fitted, nonconformity=chosen.nonconformity, taxonomy=chosen.taxonomy)
    regressor.recommendation_ = Recommendation(tuple(found), chosen, float(settings.level))
    return regressor


def _narrowest_even(candidates: list[Candidate]) -> Candidate:
    """Return the candidate with the fewest groups among the even ones that are about as narrow as the narrowest.

    If none is even, the same of the undecided ones; one threshold is always there.
    """
    best = min((each.verdict for each in candidates), key=_BEST_FIRST.index)
    even = [each for each in candidates if each.verdict == best]
    limit = even[0].width * (1 + _ABOUT)
    return min((each for each in even if each.width <= limit), key=lambda each: getattr(each.taxonomy, "n_groups", 1))


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is not left to choose."""

    nonconformity: Score | None
    taxonomy: Taxonomy | None
    calibration_rows: int

    def __post_init__(self) -> None:
        if getattr(self.taxonomy, "needs_target", False):
            raise ValueError(f"taxonomy must not depend on the target to be priced; got {self.taxonomy!r}")

    def taxonomies(self, settings: Settings) -> list[Taxonomy]:
        """Return the groups to try: those asked for, else three of the spread, and more where rows can bear them."""
        if self.taxonomy is not None and not isinstance(self.taxonomy, Marginal):
            return [self.taxonomy]
        affordable = groups_affordable(self.calibration_rows, settings.level, settings.tolerance)
        return [
            BySpread(n_groups) for n_groups in (_JUDGED_BY, *_MORE_GROUPS) if n_groups <= max(affordable, _JUDGED_BY)
        ]

    def allows(self, option: Option) -> bool:
        """Return whether an option has the score that was asked for, and as many thresholds."""
        one_or_many = self.taxonomy is None or option.per_group != isinstance(self.taxonomy, Marginal)
        return one_or_many and self.nonconformity in (None, option.nonconformity)


def _candidates(rows: Rows, asked: _Asked, settings: Settings) -> Iterator[Candidate]:
    """Yield each score with each of the taxonomies, and with one threshold, judged over the first of them."""
    for place, taxonomy in enumerate(asked.taxonomies(settings)):
        score = asked.nonconformity or Residual()
        at_hand = MarginalThreshold(scores_of(score, rows), fresh_taxonomy(taxonomy).learn(rows), settings.level)
        for option in filter(asked.allows, options(rows, score, at_hand, settings)):
            if option.per_group:
                yield Candidate(option.nonconformity, taxonomy, option.verdict, option.width)
            elif place == 0:
                yield Candidate(option.nonconformity, Marginal(), option.verdict, option.width)


def _out_of_fold(
    estimator: Any, X: Any, y: FloatArray, seed: int, report: Callable[[int, int], None]
) -> tuple[Any, Prediction]:
    """Return the estimator, with a spread if it had none, and what it says of rows that it was not fitted on."""
    folds = KFold(_FOLDS, shuffle=True, random_state=seed).split(np.arange(n_rows(X)))
    parts, places = [], []
    for done, (training, held_out) in enumerate(folds):
        report(done, _FOLDS + 1)
        part = _predicted(estimator, X, y, training, held_out)
        if part.spread is None:
            estimator = _with_spread(estimator, seed)
            part = _predicted(estimator, X, y, training, held_out)
        parts.append(part)
        places.append(held_out)
    report(_FOLDS, _FOLDS + 1)
    return estimator, _joined(parts)[np.argsort(np.concatenate(places))]


def _with_spread(estimator: Any, seed: int) -> Any:
    """Return the estimator with a spread learned beside it: of a pipeline, beside its last step."""
    if not isinstance(estimator, Pipeline) or is_frozen(estimator):
        return WithSpread(estimator, random_state=seed)
    name, last = estimator.steps[-1]
    return clone(estimator).set_params(**{name: WithSpread(last, random_state=seed)})


def _predicted(estimator: Any, X: Any, y: FloatArray, training: Any, held_out: Any) -> Prediction:
    """Return what the estimator, fitted on some rows, says of others."""
    return predictions_of(clone(estimator).fit(take(X, training), y[training]), take(X, held_out))


def _joined(parts: list[Prediction]) -> Prediction:
    """Return several predictions as one."""
    columns = ([getattr(part, name) for part in parts] for name in ("center", "spread", "lower", "upper"))
    return Prediction(*(np.concatenate(column) for column in columns), level=parts[0].level)
