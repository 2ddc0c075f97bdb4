"""Invalid input to the diagnostics raises an error that names the argument."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV

from evencover import (
    BySpread,
    ConformalRegressor,
    Groups,
    Intervals,
    Normalized,
    Prediction,
    Residual,
    audit,
    calibrate,
    diagnose,
    diagnose_scores,
    recommend,
)
from evencover.diagnostics import max_groups, rows_needed
from evencover.models import WithSpread
from evencover.plots import plot_diagnosis, plot_group_coverages
from evencover.reproduction.verdict_rates import SITUATIONS, audit_rates, rejections, situation_rates, verdict_shares
from evencover.synthetic import heteroskedastic

DATA = heteroskedastic(200, seed=0)
WITH_SPREAD = ConformalRegressor(WithSpread(LinearRegression()), random_state=0).fit(DATA.X, DATA.y)
MAPPED = ConformalRegressor(
    WithSpread(LinearRegression()),
    nonconformity={"low": Residual(), "high": Normalized()},
    taxonomy=BySpread(2),
    random_state=0,
).fit(DATA.X, DATA.y)
FROZEN = FrozenEstimator(LinearRegression().fit(DATA.X, DATA.y))
WEIGHTED = ConformalRegressor(FROZEN).calibrate(DATA.X, DATA.y, weights=np.ones(200))
INTERVALS = Intervals(np.zeros(4), np.ones(4))
SCORES, LABELS = np.arange(40.0), np.arange(40) % 2

CASES = {
    "scores, NaN": (
        lambda: diagnose_scores([1.0, np.nan], [0, 1]),
        "scores must be free of NaN; NaN values: 1 of 2",
    ),
    "scores, none": (lambda: diagnose_scores([], []), "scores must have at least one calibration row; got 0"),
    "scores, two-dimensional": (lambda: diagnose_scores(np.ones((3, 2)), [0, 1, 1]), "scores must be one-dimensional"),
    "groups, rows": (lambda: diagnose_scores(SCORES, [0, 1]), "groups must have 40 rows, as many as the scores; got 2"),
    "groups, missing": (
        lambda: diagnose_scores([1.0, 2.0], ["a", None]),
        "groups must have a label for every row; missing labels: 1 of 2",
    ),
    "spread, rows": (lambda: diagnose_scores(SCORES, LABELS, spread=[1.0]), "spread must have 40 rows"),
    "spread, infinite": (lambda: diagnose_scores(SCORES, LABELS, spread=np.full(40, np.inf)), "spread must be finite"),
    "level": (
        lambda: diagnose_scores(SCORES, LABELS, level=90),
        "level must lie strictly between 0 and 1; got 90; did you mean 0.9?",
    ),
    "tolerance": (
        lambda: diagnose_scores(SCORES, LABELS, tolerance=0),
        "tolerance must be a number between 0 and 1, such as 0.03; got 0",
    ),
    "tolerance, text": (
        lambda: audit(np.zeros(4), INTERVALS, tolerance="3 %"),
        "tolerance must be a number between 0 and 1, such as 0.03; got '3 %'",
    ),
    "seed": (lambda: diagnose_scores(SCORES, LABELS, seed=-1), "seed must be a whole number, 0 or more; got -1"),
    "seed of audit": (
        lambda: audit(np.zeros(4), INTERVALS, seed=None),
        "seed must be a whole number, 0 or more; got None",
    ),
    "model": (
        lambda: diagnose(LinearRegression()),
        "model must be a ConformalRegressor or a CrossConformalRegressor, or a pipeline or search that contains one; got "
        "LinearRegression()",
    ),
    "X without y": (lambda: diagnose(WITH_SPREAD, DATA.X), "X and y must be passed together; got only X"),
    "y, rows": (lambda: diagnose(WITH_SPREAD, DATA.X, DATA.y[:9]), "inconsistent numbers of samples: [200, 9]"),
    "X, features": (lambda: diagnose(WITH_SPREAD, DATA.X[:, :2], DATA.y), "X has 2 features, but"),
    "a score for each group": (
        lambda: diagnose(MAPPED),
        "diagnose evaluates one threshold for all rows, which needs one score; this model has one score per group",
    ),
    "weighted": (lambda: diagnose(WEIGHTED), "diagnose does not support weights for covariate shift"),
    "not calibrated": (lambda: diagnose(ConformalRegressor(LinearRegression())), "model is not calibrated yet"),
    "not fitted": (lambda: diagnose(ConformalRegressor(LinearRegression()), DATA.X, DATA.y), "model is not fitted yet"),
    "taxonomy": (lambda: diagnose(WITH_SPREAD, taxonomy=3), "taxonomy must be a taxonomy such as BySpread(3)"),
    "taxonomy, class": (
        lambda: diagnose(WITH_SPREAD, taxonomy=BySpread),
        "taxonomy must be a taxonomy such as BySpread(3)",
    ),
    "audit, y": (lambda: audit(np.zeros(3), INTERVALS), "y must have 4 rows, as many as the intervals; got 3"),
    "audit, NaN": (lambda: audit([0, 0, np.nan, 0], INTERVALS), "y must be finite; NaN or infinite values: 1 of 4"),
    "audit, groups": (
        lambda: audit(np.zeros(4), INTERVALS, groups=[1]),
        "groups must have 4 rows, as many as the intervals; got 1",
    ),
    "audit, shape": (
        lambda: audit(np.zeros(4), np.zeros((4, 3))),
        "intervals must be Intervals, an array of shape (n, 2) or a pair (lower, upper), for one level; got an array of shape (4, 3)",
    ),
    "audit, text": (
        lambda: audit(np.zeros(4), ["a"] * 4),
        "intervals must hold numbers; got an array of dtype <U1, with 'a' in row 0",
    ),
    "audit, levels": (
        lambda: audit(np.zeros(4), calibrate(np.arange(9.0), np.zeros(9)).interval(np.zeros(4), level=[0.5, 0.8])),
        "intervals must be for one level, such as Intervals(lower[:, 0], upper[:, 0]); got 2 levels",
    ),
    "audit, sizes": (
        lambda: audit(np.zeros(4), INTERVALS, calibration_sizes=0),
        "calibration_sizes must be a positive whole number; got 0",
    ),
    "audit, sizes by group": (
        lambda: audit(np.zeros(4), INTERVALS, groups=list("aabb"), calibration_sizes={"a": 3}),
        "calibration_sizes must have a positive whole number for each group; it has none for: ['b']",
    ),
    "audit, X": (
        lambda: audit(np.zeros(4), INTERVALS, X=np.zeros((3, 1))),
        "X must have 4 rows, as many as the intervals; got 3",
    ),
    "audit, swapped": (
        lambda: audit(np.zeros(4), (np.ones(4), np.zeros(4))),
        "intervals must have lower <= upper; in every row, lower is above upper: are the two swapped?",
    ),
    "audit, no rows": (lambda: audit([], np.empty((0, 2))), "intervals must have at least one row; got 0"),
    "audit, lengths of bounds": (
        lambda: audit(np.zeros(4), (np.zeros(4), np.ones(3))),
        "lower and upper must have the same shape",
    ),
    "audit, X a column": (
        lambda: audit(np.zeros(4), INTERVALS, X=pd.Series(np.zeros(4))),
        "X must be two-dimensional, of shape (n, features); got shape (4,)",
    ),
    "audit, duplicate column names": (
        lambda: audit(np.zeros(4), INTERVALS, X=pd.DataFrame(np.zeros((4, 2)), columns=["a", "a"])),
        "X must have unique column names; duplicate column names: ['a']",
    ),
    "search, not fitted": (
        lambda: diagnose(GridSearchCV(WITH_SPREAD, {})),
        "model is not fitted yet: fit this GridSearchCV first",
    ),
    "tolerance, percent": (lambda: diagnose_scores(SCORES, LABELS, tolerance=3), "got 3; did you mean 0.03?"),
    "plot of an audit": (
        lambda: plot_diagnosis(audit(np.zeros(4), INTERVALS)),
        "diagnosis must be a Diagnosis, the result of diagnose; got Audit",
    ),
    "plot of nothing": (
        lambda: plot_group_coverages(None),
        "result must be a Diagnosis or an Audit; got NoneType",
    ),
    "audit, X of one dimension": (lambda: audit(np.zeros(4), INTERVALS, X=np.zeros(4)), "X must be two-dimensional"),
    "audit, X infinite": (
        lambda: audit(np.zeros(4), INTERVALS, X=np.full((4, 1), np.inf)),
        "X must have finite or missing values; infinite values in column 0: 4",
    ),
    "audit, rows without a group": (
        lambda: audit(np.zeros(4), INTERVALS, groups=Groups(np.array([0, -1, 0, 0]), ("a",))),
        "groups must have a group for every row; rows without one: 1 of 4",
    ),
    "audit, level": (lambda: audit(np.zeros(4), INTERVALS, level=1.5), "level must lie strictly between 0 and 1"),
    "audit, prediction": (
        lambda: audit(np.zeros(4), Prediction(np.zeros(4))),
        "intervals must be an array; got Prediction",
    ),
    "rows needed, tolerance": (lambda: rows_needed(0.9, 1.5), "tolerance must be between 0 and 1; got 1.5"),
    "rows needed, confidence": (lambda: rows_needed(0.9, 0.1, 95), "confidence must be between 0 and 1; got 95"),
    "rows needed, level": (lambda: rows_needed(95), "did you mean 0.95?"),
    "rows needed, too many": (lambda: rows_needed(0.9, 1e-9), "tolerance must be larger: 1e-09 needs more than"),
    "groups affordable, n": (lambda: max_groups(-3), "n must be 0 or more; got -3"),
    "groups affordable, half a row": (lambda: max_groups(10.5), "n must be a whole number; got 10.5"),
    "recommend, classifier": (
        lambda: recommend(LogisticRegression(), DATA.X, DATA.y),
        "estimator must be a regressor; got the classifier LogisticRegression",
    ),
    "recommend, too few": (
        lambda: recommend(LinearRegression(), DATA.X[:7], DATA.y[:7]),
        "X must have at least 10 rows for 5 folds; got 7",
    ),
    "recommend, targets": (lambda: recommend(LinearRegression(), DATA.X, np.ones((200, 2))), "y must be one target"),
    "recommend, seed": (lambda: recommend(LinearRegression(), DATA.X, DATA.y, seed="a"), "seed must be a whole number"),
    "repeats of rejections": (lambda: rejections(20, repeats=0), "repeats must be a positive whole number; got 0"),
    "repeats of verdicts": (
        lambda: verdict_shares("residual, oracle", 100, repeats=2.5),
        "repeats must be a positive whole number; got 2.5",
    ),
    "repeats of audits": (
        lambda: audit_rates("residual, oracle", 100, repeats=0),
        "repeats must be a positive whole number; got 0",
    ),
    "split_at_random as text": (
        lambda: audit(np.zeros(9), (np.zeros(9), np.ones(9)), split_at_random="no"),
        "split_at_random must be True or False; got 'no'",
    ),
    "repeats of situations": (
        lambda: situation_rates(SITUATIONS["study, thresholds per group"], 0.9, 100, 3, repeats=-1),
        "repeats must be a positive whole number; got -1",
    ),
    "rows of situations": (
        lambda: situation_rates(SITUATIONS["study, thresholds per group"], 0.99, 200, 3),
        "rows must be enough for finite thresholds, at least 99 in each of 3 groups; got 200",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_input_raises_a_clear_error(case):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError, NotFittedError), match=re.escape(message)):
        call()
