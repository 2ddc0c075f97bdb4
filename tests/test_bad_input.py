"""Bad input raises one clear error with the argument, what is expected and what was passed. One case for each check."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evencover import (
    ByFeature,
    ByFunction,
    ByGroup,
    ByPrediction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    Groups,
    Guarantee,
    IntervalDistance,
    Intervals,
    Normalized,
    Prediction,
    Product,
    Residual,
    Rows,
    Standardized,
    calibrate,
    conformal_quantile,
    conformal_rank,
    coverage,
    coverage_by_group,
)
from evencover.model_selection import IntervalScorer
from evencover.models import FromQuantiles, FromStd
from evencover.tables import TableFormat
from tests.calibrators import SlidingWindow

ONES, ZEROS = np.ones(10), np.zeros(10)
X, Y = np.arange(60.0).reshape(20, 3), np.arange(20.0)
MODEL = ConformalRegressor(LinearRegression(), random_state=0)


class Pair(Residual):
    """A score whose inverse returns a tuple instead of Intervals."""

    def interval(self, threshold, prediction):
        return prediction.center - threshold, prediction.center + threshold


def with_value(value, at=3):
    array = np.ones(10)
    array[at] = value
    return array


def fitted(**arguments):
    return ConformalRegressor(LinearRegression(), random_state=0, **arguments).fit(X, Y)


CASES = {
    # levels
    "level 90": (lambda: conformal_rank(10, 90), "level must lie strictly between 0 and 1; got 90; did you mean 0.9?"),
    "level 99.5": (lambda: conformal_rank(10, 99.5), "got 99.5; did you mean 0.995?"),
    "level 0": (lambda: conformal_rank(10, 0), "level must lie strictly between 0 and 1; got 0"),
    "level 1": (lambda: fitted().predict_interval(X, level=1), "level must lie strictly between 0 and 1; got 1"),
    "level -0.1": (lambda: conformal_quantile(ONES, -0.1), "level must lie strictly between 0 and 1; got -0.1"),
    "level nan": (lambda: conformal_rank(10, np.nan), "level must lie strictly between 0 and 1; got nan"),
    "level as text": (
        lambda: conformal_rank(10, "0.9"),
        "level must be a number between 0 and 1, such as 0.9; got '0.9'",
    ),
    "level as a boolean": (
        lambda: conformal_rank(10, True),
        "level must be a number between 0 and 1, such as 0.9; got True",
    ),
    "level None": (lambda: calibrate(ONES, ZEROS).interval(ZEROS, level=None), "level must be a number"),
    "no levels": (lambda: calibrate(ONES, ZEROS).threshold([]), "level must be one level or several; got an empty"),
    "level of a prediction": (lambda: Prediction(ZEROS, level=90), "did you mean 0.9?"),
    # ranks and quantiles
    "rank of 1.5 rows": (lambda: conformal_rank(1.5, 0.9), "n must be a whole number; got 1.5"),
    "rank of -1 rows": (lambda: conformal_rank(-1, 0.9), "n must be 0 or more; got -1"),
    "NaN scores": (
        lambda: conformal_quantile(with_value(np.nan), 0.9),
        "scores must be free of NaN; NaN values: 1 of 10",
    ),
    "weights alone": (
        lambda: conformal_quantile(ONES, 0.9, weights=ONES),
        "weights and test_weight must be given together",
    ),
    "weights of another length": (
        lambda: conformal_quantile(ONES, 0.9, weights=ONES[:9], test_weight=1.0),
        "weights must have 10 rows, as many as scores; got 9",
    ),
    "negative weights": (
        lambda: conformal_quantile(ONES, 0.9, weights=-ONES, test_weight=1.0),
        "weights must not be negative; negative values: 10 of 10",
    ),
    # predictions
    "NaN center": (
        lambda: Prediction(with_value(np.nan)),
        "center must be finite; NaN or infinite values: 1 of 10 (the first in row 3, counted from 0)",
    ),
    "infinite spread": (
        lambda: Prediction(ZEROS, with_value(np.inf)),
        "spread must be finite; NaN or infinite values: 1 of 10",
    ),
    "NaN bound": (lambda: Prediction(ZEROS, None, with_value(np.nan), ONES), "lower must be finite"),
    "one bound": (
        lambda: Prediction(ZEROS, lower=ZEROS),
        "lower and upper must be given together; got only one of them",
    ),
    "2-D center": (
        lambda: Prediction(np.zeros((5, 2))),
        "center must be one-dimensional, of shape (n,); got shape (5, 2)",
    ),
    "a number as center": (lambda: Prediction(3.0), "center must be one-dimensional, of shape (n,); got shape ()"),
    "spread of another length": (lambda: Prediction(ZEROS, np.ones(9)), "spread must have 10 rows"),
    "a word among numbers": (
        lambda: Prediction(["0.23", "big", "0.5"]),
        "center must hold numbers; got an array of dtype <U4, with 'big' in row 1 (counted from 0)",
    ),
    "an object among numbers": (
        lambda: Prediction(np.array([0.23, 1, "2", [3]], dtype=object)),
        "center must hold numbers; got an array of dtype object, with [3] in row 3 (counted from 0)",
    ),
    "text as center": (lambda: Prediction(["a", "b"]), "center must hold numbers; got an array of dtype <U1"),
    "numbers as text": (lambda: Prediction(np.array(["1.5"], dtype=object)), "center must hold numbers"),
    "dates as center": (lambda: Prediction(np.array(["2020-01-01"], dtype="M8[D]")), "center must hold numbers"),
    "complex center": (
        lambda: Prediction(np.array([1j])),
        "center must hold numbers; got an array of dtype complex128",
    ),
    "quantiles of two lengths": (lambda: Prediction.from_quantiles(ZEROS, np.ones(9)), "upper must have 10 rows"),
    # scores
    "no spread": (lambda: Normalized()(ONES, Prediction(ZEROS)), "Normalized needs a prediction with a spread"),
    "no spread for one tail": (lambda: Standardized()(ONES, Prediction(ZEROS)), "Standardized needs a prediction"),
    "no bounds": (
        lambda: IntervalDistance()(ONES, Prediction(ZEROS)),
        "IntervalDistance needs a prediction with bounds (lower, upper)",
    ),
    "no baseline": (
        lambda: Prediction(ZEROS).interval(),
        "the model's own interval needs a prediction with bounds (lower, upper)",
    ),
    "zero spread": (
        lambda: Normalized()(ONES, Prediction(ZEROS, with_value(0.0))),
        "Normalized divides by the spread, which must be positive; zero or negative values: 1 of 10",
    ),
    "negative spread": (
        lambda: calibrate(ONES, Prediction(ZEROS, -ONES), nonconformity=Standardized()),
        "Standardized divides by the spread, which must be positive; zero or negative values: 10 of 10",
    ),
    "zero spread at prediction": (
        lambda: calibrate(ONES, Prediction(ZEROS, ONES), nonconformity=Normalized()).interval(
            Prediction(ZEROS, with_value(0.0)), level=0.5
        ),
        "zero or negative values: 1 of 10",
    ),
    "floor without scale": (
        lambda: Normalized(floor=0.1)(ONES, Prediction(ZEROS, ONES)),
        "its settings are fractions of a scale, and the scale is missing; pass scale=",
    ),
    "negative epsilon": (
        lambda: Normalized(epsilon=-1.0, scale=1.0)(ONES, Prediction(ZEROS, ONES)),
        "Normalized: epsilon must be a finite number, 0 or more; got -1.0",
    ),
    "targets of another length": (lambda: Residual()(ONES[:9], Prediction(ZEROS)), "y must have 10 rows"),
    # calibration
    "NaN target": (
        lambda: calibrate(with_value(np.nan), ZEROS),
        "y must be finite; NaN or infinite values: 1 of 10",
    ),
    "infinite target": (lambda: calibrate(with_value(-np.inf), ZEROS), "y must be finite"),
    "2-D target": (
        lambda: calibrate(np.ones((10, 2)), ZEROS),
        "y must be one-dimensional, of shape (n,); got shape (10, 2)",
    ),
    "a score's class": (
        lambda: calibrate(ONES, ZEROS, nonconformity=Residual),
        "nonconformity must be a score such as",
    ),
    "a score's class in a model": (
        lambda: fitted(nonconformity=Normalized),
        "nonconformity must be a score such as Residual()",
    ),
    "a score's class for a group": (
        lambda: fitted(nonconformity={"all": Normalized}),
        "nonconformity must be a score such as Residual()",
    ),
    "a score's name": (lambda: calibrate(ONES, ZEROS, nonconformity="residual"), "got 'residual'"),
    "a score for other groups": (
        lambda: calibrate(ONES, ZEROS, nonconformity={"a": Residual()}, groups=["a", "b"] * 5),
        "nonconformity must have one score for each of the groups ['a', 'b']; got scores for ['a']",
    ),
    "groups of another length": (lambda: calibrate(ONES, ZEROS, groups=[1, 2]), "groups must have 10 rows"),
    "2-D groups": (lambda: calibrate(ONES, ZEROS, groups=np.ones((10, 1))), "groups must have one label per row"),
    "groups forgotten": (
        lambda: calibrate(ONES, ZEROS, groups=["a", "b"] * 5).interval(ZEROS),
        "groups must be given: the calibration has the groups ['a', 'b']",
    ),
    "an unseen group": (
        lambda: calibrate(ONES, ZEROS, groups=["a", "b"] * 5).interval([0.0], groups=["z"]),
        "groups must be among those of the calibration, ['a', 'b']; got ['z']",
    ),
    "an unknown value of unseen": (
        lambda: calibrate(ONES, ZEROS).interval(ZEROS, unseen="drop"),
        "unseen must be 'error', 'marginal' or 'inf'; got 'drop'",
    ),
    "weights for new rows only": (
        lambda: calibrate(ONES, ZEROS).interval(ZEROS, weights=ONES),
        "or for neither; only the new rows have them, not the calibration rows",
    ),
    "an unknown keyword": (lambda: calibrate(ONES, ZEROS, score=Residual()), "unexpected keyword argument 'score'"),
    # intervals and metrics
    "NaN target to cover": (lambda: coverage(with_value(np.nan), Intervals(ZEROS, ONES)), "y must be finite"),
    "too few targets to cover": (lambda: Intervals(ZEROS, ONES).covers([1.0]), "y must have 10 rows"),
    "no groups": (lambda: coverage_by_group(ONES, Intervals(ZEROS, ONES)), "groups must be given"),
    "groups of few rows": (lambda: coverage_by_group(ONES, Intervals(ZEROS, ONES), ["a"]), "groups must have 10 rows"),
    # taxonomies
    "bins of an absent spread": (
        lambda: BySpread(3).learn(Rows(Prediction(ZEROS))),
        "BySpread needs a prediction with a spread",
    ),
    "no bins": (
        lambda: BySpread(0).learn(Rows(Prediction(ZEROS, ONES))),
        "n_groups must be a positive whole number; got 0",
    ),
    "half a bin": (
        lambda: ByPrediction(2.5).learn(Rows(Prediction(ZEROS))),
        "n_groups must be a positive whole number",
    ),
    "both n_groups and edges": (
        lambda: BySpread(3, edges=[1.0]).learn(Rows(Prediction(ZEROS, ONES))),
        "bins of the spread take either edges, or n_groups and min_rows; got edges together with n_groups",
    ),
    "decreasing edges": (
        lambda: ByTarget([2.0, 1.0]).learn(Rows(Prediction(ZEROS), y=ONES)),
        "edges must be strictly increasing; got [2.0, 1.0]",
    ),
    "both edges and categories": (
        lambda: ByFeature(0, edges=[1.0], categories=[1.0]).learn(Rows(Prediction(ZEROS), ONES[:, None])),
        "ByFeature takes either edges or categories; got both",
    ),
    "no features": (
        lambda: ByFeature(0).learn(Rows(Prediction(ZEROS))),
        "ByFeature(0) needs X, the features; got None",
    ),
    "a column name for an array": (
        lambda: ByFeature("age").learn(Rows(Prediction(ZEROS), ONES[:, None])),
        "ByFeature('age') names a column, but X is an array without column names; give the column's position",
    ),
    "a column position out of range": (
        lambda: ByFeature(3).learn(Rows(Prediction(ZEROS), ONES[:, None])),
        "ByFeature(3) needs X with a column 3; got X of shape (10, 1)",
    ),
    "a feature with NaN": (
        lambda: ByFeature(0, edges=[0.5]).learn(Rows(Prediction(ZEROS), with_value(np.nan)[:, None])),
        "column 0 must be finite; NaN or infinite values: 1 of 10",
    ),
    "a function that returns one label for all rows": (
        lambda: ByFunction(np.mean).learn(Rows(Prediction(ZEROS), ONES[:, None])),
        "ByFunction: the function 'mean' must return one label for each row, shape (10,); got shape ()",
    ),
    "an empty product": (
        lambda: Product([]).learn(Rows(Prediction(ZEROS))),
        "taxonomies of Product must hold at least one taxonomy",
    ),
    "features of another length": (lambda: Rows(Prediction(ZEROS), ONES[:9, None]), "X must have 10 rows"),
    "a taxonomy as groups": (
        lambda: calibrate(ONES, ZEROS, groups=BySpread(3)),
        "got the taxonomy BySpread(n_groups=3); pass what its learn(rows) returns",
    ),
    "duplicate categories": (
        lambda: ByFeature(0, categories=[1.0, 1.0]).learn(Rows(Prediction(ZEROS), ONES[:, None])),
        "the labels declared for column 0 must be distinct; got [1.0, 1.0]",
    ),
    "codes too large": (
        lambda: Groups(np.array([0, 2]), ("a", "b")),
        "codes must be positions in labels, at most 1, or -1 for no group; got 0 to 2",
    ),
    "duplicate labels": (
        lambda: Groups(np.array([0, 1]), ("a", "a")),
        "labels must be distinct, with one rule for each or no rules; got ['a', 'a'] and 0 rules",
    ),
    "a new row without a group": (
        lambda: calibrate(ONES, ZEROS).interval([0.0], groups=Groups(np.array([-1]), ("all",))),
        "every new row must have a group; rows without one: 1",
    ),
    "groups for a marginal calibration": (
        lambda: calibrate(ONES, ZEROS).interval([0.0], groups=["a"]),
        "groups were given, but the calibration has none",
    ),
    "missing dates": (
        lambda: Groups.from_labels(np.array(["2020-01-01", "NaT"], dtype="M8[D]")),
        "missing labels: 1 of 2",
    ),
    "masked targets": (
        lambda: calibrate(np.ma.masked_array(ONES, mask=ZEROS + 1), ZEROS),
        "y must not be masked; masked values: 10",
    ),
    "a huge whole number": (lambda: Prediction([10**400]), "center must hold numbers"),
    "negative spread for bounds": (
        lambda: Prediction(ZEROS, -ONES).interval(),
        "spread must not be negative if bounds are derived from it; negative values: 10 of 10",
    ),
    "intervals as an array": (
        lambda: coverage(ONES, np.zeros((10, 2))),
        "intervals must be Intervals, made from any bounds by Intervals(lower, upper); got ndarray",
    ),
    "a frame of another length": (
        lambda: Intervals(ZEROS, ONES).to_frame(like=pd.DataFrame({"x": [1]})),
        "the table 'like' must have 10 rows, as many as the intervals; got 1",
    ),
    "a score that returns a pair": (
        lambda: calibrate(ONES, ZEROS, nonconformity=Pair()).interval(ZEROS, level=0.5),
        "Pair.interval must return Intervals; got tuple",
    ),
    "a scorer for level 90": (lambda: IntervalScorer(90), "did you mean 0.9?"),
    "a scorer for a plain model": (
        lambda: IntervalScorer()(LinearRegression().fit(X, Y), X, Y),
        "estimator must be a ConformalRegressor or CrossConformalRegressor, or a pipeline or parameter search that "
        "contains one; got LinearRegression()",
    ),
    # how a file is read
    "a sheet 0": (
        lambda: TableFormat(sheet=0),
        "sheet must be the name of a sheet, or its position counted from 1; got 0",
    ),
    "a sheet without a name": (lambda: TableFormat(sheet=""), "sheet must be the name of a sheet"),
    "two separators": (lambda: TableFormat(separator=";;"), "separator must be one ASCII character such as ; or |"),
    "a letter as separator": (lambda: TableFormat(separator="x"), "or one of the words tab and space; got 'x'"),
    "a separator beyond ASCII": (lambda: TableFormat(separator="\u00a7"), "separator must be one ASCII character"),
    "a number as separator": (lambda: TableFormat(separator=5), "separator must be one ASCII character"),
    "an unknown encoding": (
        lambda: TableFormat(encoding="latin-99"),
        "encoding must be one that Python knows, such as utf-8, cp1252 (Windows), ",
    ),
    "an encoding of bytes": (lambda: TableFormat(encoding="hex"), "encoding must be one that Python knows"),
    "a number as encoding": (lambda: TableFormat(encoding=1252), "encoding must be one that Python knows"),
    "a header above the file": (
        lambda: TableFormat(header=-1),
        "header must be the row with the column names, counted from 1, or 0 or none if the file has no such row; got -1",
    ),
    "a header in words": (lambda: TableFormat(header="first"), "header must be the row with the column names"),
    "half a header": (lambda: TableFormat(header=1.5), "header must be the row with the column names"),
    # the estimator
    "a model's name": (
        lambda: ConformalRegressor("ridge").fit(X, Y),
        "estimator must be a regressor with scikit-learn's methods fit and predict",
    ),
    "a model's class": (
        lambda: FromStd(BayesianRidge).fit(X, Y),
        "estimator must be a regressor with scikit-learn's methods fit and predict",
    ),
    "a pipeline without a regressor": (
        lambda: ConformalRegressor(make_pipeline(StandardScaler())).fit(X, Y),
        "estimator must be a regressor with scikit-learn's methods fit and predict",
    ),
    "quantiles for models": (
        lambda: FromQuantiles(0.05, 0.95).fit(X, Y),
        "lower must be a regressor with scikit-learn's methods fit and predict",
    ),
    "a classifier": (
        lambda: ConformalRegressor(LogisticRegression()).fit(X, Y > 9),
        "estimator must be a regressor; got the classifier LogisticRegression",
    ),
    "a taxonomy's class": (lambda: fitted(taxonomy=BySpread), "taxonomy must be a taxonomy such as BySpread(3)"),
    "a share as text": (
        lambda: fitted(calibration_size="half"),
        "calibration_size must be a share of the rows, between 0 and 1; got 'half'",
    ),
    "weights of another length for the model": (
        lambda: MODEL.fit(X, Y, sample_weight=np.ones(5)),
        "sample_weight must have 20 rows, as many as X; got 5",
    ),
    "one cluster": (
        lambda: MODEL.fit(X, Y, clusters=["a"] * 20),
        "clusters must hold at least 2 different clusters; got 1",
    ),
    "missing clusters": (
        lambda: MODEL.fit(X, Y, clusters=[None, "a"] * 10),
        "clusters must have a label for every row; missing labels: 10 of 20",
    ),
    "clusters that are no labels": (
        lambda: MODEL.fit(X, Y, clusters=["a", {}] * 10),
        "clusters must be text, numbers or other hashable labels; got {} (the first in row 1, counted from 0)",
    ),
    "groups that are no labels": (
        lambda: calibrate(Y, Y, groups=pd.Series([[1], [2]] * 10)),
        "groups must be text, numbers or other hashable labels; got [1] (the first in row 0, counted from 0)",
    ),
    "no target": (lambda: MODEL.fit(X, None), "requires y to be passed, but the target y is None"),
    "two targets": (
        lambda: MODEL.fit(X, np.column_stack([Y, Y])),
        "y must be one target, of shape (n,); got shape (20, 2)",
    ),
    "a target with NaN": (
        lambda: MODEL.fit(X, np.append(Y[:-1], np.nan)),
        "y must be finite; NaN or infinite values: 1 of 20",
    ),
    "targets as text": (lambda: MODEL.fit(X, Y.astype(str)), "y must hold numbers"),
    "different numbers of rows": (lambda: MODEL.fit(X, Y[:-1]), "inconsistent numbers of samples: [20, 19]"),
    "other features": (
        lambda: fitted().predict_interval(X[:, :2]),
        "X has 2 features, but ConformalRegressor is expecting 3",
    ),
    "a one-dimensional row": (
        lambda: fitted().predict_interval(X[0]),
        "X must be two-dimensional, of shape (n, features); got shape (3,)",
    ),
    "all rows for calibration": (
        lambda: fitted(calibration_size=1.0),
        "calibration_size must be a share of the rows, between 0 and 1; got 1.0",
    ),
    "a score the model cannot give": (
        lambda: fitted(nonconformity=Normalized()),
        "Normalized needs a prediction with a spread",
    ),
    "an unknown fit argument": (
        lambda: MODEL.fit(X, Y, weight=Y),
        "fit arguments must be those of LinearRegression.fit; got weight, which it does not take",
    ),
    "clusters of another length": (
        lambda: MODEL.fit(X, Y, clusters=[1, 2]),
        "clusters must have 20 rows, as many as X; got 2",
    ),
    "an unknown constructor argument": (
        lambda: ConformalRegressor(Ridge(), score=Residual()),
        "unexpected keyword argument 'score'",
    ),
    "not a calibrator": (
        lambda: fitted(calibrator=BySpread(3)),
        "calibrator must be a calibrator such as ByGroup(BySpread(3)), with methods learn(rows, nonconformity) and "
        "restore(state, nonconformity); got BySpread(n_groups=3)",
    ),
    "a calibrator's class": (lambda: fitted(calibrator=ByGroup), "calibrator must be a calibrator such as"),
    "both a taxonomy and a calibrator": (
        lambda: fitted(taxonomy=BySpread(3), calibrator=ByGroup()),
        "taxonomy=T is short for calibrator=ByGroup(T); give one of them, not both",
    ),
    "a score for each group without groups": (
        lambda: fitted(calibrator=SlidingWindow(5), nonconformity={"all": Residual()}),
        "nonconformity must be one score for this calibrator; got a score for each group",
    ),
    "unseen for a calibrator without groups": (
        lambda: fitted(calibrator=SlidingWindow(5)).predict_interval(X, unseen="inf"),
        "unseen='inf' works only with a calibrator that has groups; Window has no groups",
    ),
    "rows to be scored without targets": (
        lambda: SlidingWindow(5).learn(Rows(Prediction(ZEROS)), Residual()),
        "a score needs y, the targets; these rows have none",
    ),
    "negative weights of rows": (lambda: Rows(Prediction(ZEROS), weights=-ONES), "weights must not be negative"),
    "an unknown kind of guarantee": (lambda: Guarantee("sure", {}), "kind must be one of marginal, per group,"),
    "not a taxonomy": (lambda: fitted(taxonomy="spread"), "taxonomy must be a taxonomy such as BySpread(3)"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_raises_a_clear_error(case):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    "taxonomy", [BySpread(3), ByPrediction(2), ByFeature(0), ByFunction(np.sign), Product([BySpread(2)])]
)
def test_assign_before_learn_raises(taxonomy):
    with pytest.raises(NotFittedError, match="has no groups yet; call learn with the calibration rows first"):
        taxonomy.assign(Rows(Prediction(ZEROS, ONES), ONES[:, None]))


@pytest.mark.parametrize("method", ["predict", "predict_interval", "predict_union"])
def test_predict_before_fit_raises(method):
    with pytest.raises(NotFittedError, match="ConformalRegressor instance is not fitted yet"):
        getattr(MODEL, method)(X)


def test_calibrate_and_p_values_before_fit_raise():
    for call in (lambda: MODEL.calibrate(X, Y), lambda: MODEL.p_values(X, Y), lambda: MODEL.guarantee_):
        with pytest.raises(NotFittedError, match="ConformalRegressor instance is not fitted yet"):
            call()


def test_error_counts_missing_labels():
    with pytest.raises(ValueError, match=r"groups must have a label for every row; missing labels: 2 of 3"):
        Groups.from_labels([1.0, np.nan, np.nan])
