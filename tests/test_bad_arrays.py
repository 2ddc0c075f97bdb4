"""Arrays whose numbers would be read wrongly: masked, too large for floating point, or of another kind than numbers."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from evencover import (
    AutoRegressor,
    ByFeature,
    ConformalRegressor,
    CrossConformalRegressor,
    Groups,
    Intervals,
    IntervalUnion,
    Prediction,
    Residual,
    Rows,
    WithSpread,
    audit,
    calibrate,
    conformal_quantile,
    coverage,
    coverage_by_group,
    crps,
    diagnose,
    diagnose_scores,
    interval_score,
    recommend,
    study,
)
from evencover.diagnostics import quality
from evencover.metrics import misses_by_group, pinball_loss
from evencover.model_selection import IntervalScorer, three_way_split
from evencover.models import (
    FromQuantiles,
    LogTransform,
    MeanVarianceNetwork,
    QuantileForest,
    TableEncoder,
    fit_jointly,
    predictions_of,
)
from evencover.tables import audit as audit_table
from evencover.tables import calibrate as calibrate_table
from tests.command_line import run_command_line

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + RNG.normal(size=N)
LABELS, CLUSTERS = np.arange(N) % 2, np.arange(N) // 2
HIDDEN = np.arange(N) == 5
INTERVALS = Intervals(Y - 1, Y + 1)
MODEL = ConformalRegressor(LinearRegression(), random_state=0).fit(X, Y)
CROSS = CrossConformalRegressor(LinearRegression(), random_state=0).fit(X, Y)
DISTRIBUTION = MODEL.predict_distribution(X)


def unfitted(**parameters):
    return ConformalRegressor(LinearRegression(), random_state=0, **parameters)


def masked(values):
    """Return the same numbers with one masked value, or one masked row."""
    return np.ma.masked_array(
        values, mask=np.broadcast_to(HIDDEN if np.ndim(values) == 1 else HIDDEN[:, None], np.shape(values))
    )


MASKED_Y, MASKED_X, MASKED_LABELS = masked(Y), masked(X), masked(LABELS)
POSITIVE = masked(np.abs(Y))
PAIR = np.ma.masked_array([0.1, 0.5], mask=[False, True])

MASKED = {
    "y of fit": (lambda: unfitted().fit(X, MASKED_Y), "y", 1),
    "X of fit": (lambda: unfitted().fit(MASKED_X, Y), "X", 2),
    "X of fit as a list of rows": (lambda: unfitted().fit(list(MASKED_X), Y), "X", 2),
    "y of fit as a list": (lambda: unfitted().fit(X, list(MASKED_Y)), "y", 1),
    "clusters of fit": (lambda: unfitted().fit(X, Y, clusters=masked(CLUSTERS)), "clusters", 1),
    "sample_weight of fit": (lambda: unfitted().fit(X, Y, sample_weight=POSITIVE), "sample_weight", 1),
    "y of calibrate": (lambda: MODEL.calibrate(X, MASKED_Y), "y", 1),
    "X of calibrate": (lambda: MODEL.calibrate(MASKED_X, Y), "X", 2),
    "weights of calibrate": (lambda: MODEL.calibrate(X, Y, weights=POSITIVE), "weights", 1),
    "X of a frozen model": (
        lambda: ConformalRegressor(FrozenEstimator(LinearRegression().fit(X, Y))).calibrate(MASKED_X, Y),
        "X",
        2,
    ),
    "y of batches": (lambda: MODEL.calibrate_batches([(X, MASKED_Y)]), "y", 1),
    "X of predict": (lambda: MODEL.predict(MASKED_X), "X", 2),
    "X of predict_interval": (lambda: MODEL.predict_interval(MASKED_X), "X", 2),
    "y of p_values": (lambda: MODEL.p_values(X, MASKED_Y), "y", 1),
    "X of predict_distribution": (lambda: MODEL.predict_distribution(MASKED_X), "X", 2),
    "y of a cross-conformal fit": (lambda: CrossConformalRegressor(LinearRegression()).fit(X, MASKED_Y), "y", 1),
    "X of a cross-conformal fit": (lambda: CrossConformalRegressor(LinearRegression()).fit(MASKED_X, Y), "X", 2),
    "X of a cross-conformal prediction": (lambda: CROSS.predict_interval(MASKED_X), "X", 2),
    "targets": (lambda: calibrate(MASKED_Y, Y), "y", 1),
    "predictions": (lambda: calibrate(Y, MASKED_Y), "center", 1),
    "weights": (lambda: calibrate(Y, Y, weights=POSITIVE), "weights", 1),
    "groups": (lambda: calibrate(Y, Y, groups=MASKED_LABELS), "groups", 1),
    "codes": (lambda: Groups(PAIR.astype(int), ("a",)), "codes", 1),
    "spread": (lambda: Prediction(Y, POSITIVE), "spread", 1),
    "quantiles": (lambda: Prediction(quantiles=MASKED_X, probabilities=[0.1, 0.9]), "quantiles", 2),
    "p of ppf": (lambda: Prediction(Y, np.abs(Y)).ppf(PAIR), "p", 1),
    "y of cdf": (lambda: DISTRIBUTION.cdf(MASKED_Y), "y", 1),
    "p of a distribution": (lambda: DISTRIBUTION.ppf(PAIR), "p", 1),
    "y of a score": (lambda: Residual()(MASKED_Y, Prediction(Y)), "y", 1),
    "X of rows": (lambda: Rows(Prediction(Y), MASKED_X), "X", 2),
    "weights of rows": (lambda: Rows(Prediction(Y), X, Y, POSITIVE), "weights", 1),
    "lower": (lambda: Intervals(MASKED_Y, Y), "lower", 1),
    "upper": (lambda: Intervals(Y, MASKED_Y), "upper", 1),
    "prediction of intervals": (lambda: Intervals(Y, Y, prediction=MASKED_Y), "prediction", 1),
    "replaced": (lambda: Intervals(Y, Y, replaced=masked(HIDDEN)), "replaced", 1),
    "values of nearest": (lambda: INTERVALS.nearest(MASKED_Y), "values", 1),
    "y of covers_inside": (lambda: IntervalUnion([INTERVALS]).covers_inside(MASKED_Y), "y", 1),
    "y of coverage": (lambda: coverage(MASKED_Y, INTERVALS), "y", 1),
    "groups of coverage": (lambda: coverage_by_group(Y, INTERVALS, MASKED_LABELS), "groups", 1),
    "y of misses": (lambda: misses_by_group(MASKED_Y, INTERVALS, LABELS), "y", 1),
    "y of a score of intervals": (lambda: interval_score(MASKED_Y, INTERVALS, level=0.9), "y", 1),
    "a quantile": (lambda: pinball_loss(Y, MASKED_Y, probability=0.5), "quantile", 1),
    "quantiles of crps": (lambda: crps(Y, MASKED_X, probabilities=[0.1, 0.9]), "quantiles", 2),
    "y of audit": (lambda: audit(MASKED_Y, INTERVALS), "y", 1),
    "a pair of bounds": (lambda: audit(Y, (MASKED_Y, Y)), "lower", 1),
    "an array of bounds": (lambda: audit(Y, MASKED_X), "intervals", 2),
    "X of audit": (lambda: audit(Y, INTERVALS, X=MASKED_X), "X", 2),
    "groups of audit": (lambda: audit(Y, INTERVALS, groups=MASKED_LABELS), "groups", 1),
    "clusters of audit": (lambda: audit(Y, INTERVALS, clusters=masked(CLUSTERS)), "clusters", 1),
    "prediction of audit": (lambda: audit(Y, INTERVALS, prediction=MASKED_Y), "prediction", 1),
    "reference_y": (lambda: quality(Y, INTERVALS, reference_y=MASKED_Y), "reference_y", 1),
    "scores": (lambda: conformal_quantile(MASKED_Y, 0.9), "scores", 1),
    "test_weight": (
        lambda: conformal_quantile(Y, 0.9, weights=np.ones(N), test_weight=PAIR),
        "test_weight",
        1,
    ),
    "X of diagnose": (lambda: diagnose(MODEL, MASKED_X, Y), "X", 2),
    "scores of diagnose_scores": (lambda: diagnose_scores(MASKED_Y, LABELS), "scores", 1),
    "y of recommend": (lambda: recommend(LinearRegression(), X, MASKED_Y), "y", 1),
    "X of recommend": (lambda: recommend(LinearRegression(), MASKED_X, Y), "X", 2),
    "times": (lambda: recommend(LinearRegression(), X, Y, times=MASKED_Y), "times", 1),
    "stratify": (lambda: three_way_split(X, Y, stratify=MASKED_LABELS), "stratify", 1),
    "X of a scorer": (lambda: IntervalScorer()(MODEL, MASKED_X, Y), "X", 2),
    "X of predictions_of": (lambda: predictions_of(LinearRegression().fit(X, Y), MASKED_X), "X", 2),
    "X of networks": (lambda: fit_jointly([MeanVarianceNetwork()], MASKED_X, Y), "X", 2),
    "X of an encoder": (lambda: TableEncoder().fit(MASKED_X), "X", 2),
    "X of a fitted encoder": (lambda: TableEncoder().fit(X).transform(MASKED_X), "X", 2),
    "X of a logarithm": (lambda: LogTransform().fit(masked(np.abs(X))), "X", 2),
    "X of its inverse": (lambda: LogTransform().fit(np.abs(X)).inverse_transform(MASKED_X), "X", 2),
}


@pytest.mark.parametrize("case", MASKED)
def test_masked_values_are_the_same_error_everywhere(case):
    """Most functions would use the numbers under the mask."""
    call, name, n_masked = MASKED[case]
    with pytest.raises(ValueError, match=f"{name} must not be masked; masked values: {n_masked}$"):
        call()


MODELS = [
    AutoRegressor(effort="fast"),
    FromQuantiles(LinearRegression(), LinearRegression()),
    MeanVarianceNetwork(),
    QuantileForest(),
    WithSpread(LinearRegression()),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_take_no_masked_values(model):
    with pytest.raises(ValueError, match="y must not be masked; masked values: 1"):
        model.fit(X, MASKED_Y)
    with pytest.raises(ValueError, match="X must not be masked; masked values: 2"):
        model.fit(MASKED_X, Y)


def test_masked_predictions_of_a_model_are_an_error():
    class Masking(LinearRegression):
        def predict(self, X):
            return np.ma.masked_less(super().predict(X), 0)

    with pytest.raises(ValueError, match="the prediction must not be masked"):
        ConformalRegressor(Masking(), random_state=0).fit(X, Y)


def test_masked_arrays_without_masked_values_are_arrays():
    no_mask = np.ma.masked_array(X), np.ma.masked_array(Y, mask=np.zeros(N, dtype=bool))
    found = unfitted().fit(*no_mask).predict_interval(no_mask[0])
    np.testing.assert_array_equal(found.lower, MODEL.predict_interval(X).lower)
    assert audit(no_mask[1], INTERVALS).overall.coverage == 1.0


# Whole numbers that float64 does not hold

ODD = 2**53 + 1 + 2 * np.arange(N)  # each lies between two floating-point numbers
FLOATS = np.arange(N, dtype=float)
FIRST = "9007199254740993 in row 0, counted from 0"

ROUNDED = {
    "y of audit": (
        lambda: audit(ODD, (ODD - 1.0, ODD + 1.0)),
        f"y must hold numbers .* 60 of 60 .the first is {FIRST}",
    ),
    "a lower bound of audit": (lambda: audit(FLOATS, (ODD, FLOATS)), f"lower must .* {FIRST}"),
    "bounds of audit": (lambda: audit(FLOATS, np.column_stack([ODD, ODD])), f"intervals must .* {FIRST}"),
    "uint64": (lambda: audit(ODD.astype(np.uint64) + np.uint64(2**63), INTERVALS), "y must .* 9232379236109516801 in"),
    "the largest int64": (lambda: audit(np.full(N, 2**63 - 1), INTERVALS), "y must .* 9223372036854775807 in row 0"),
    "the largest uint64": (
        lambda: audit(np.full(N, 2**64 - 1, dtype=np.uint64), INTERVALS),
        "y must .* 18446744073709551615 in row 0",
    ),
    "one of many": (lambda: audit([*range(N - 1), -(2**53) - 1], INTERVALS), "1 of 60 .*-9007199254740993 in row 59"),
    "whole numbers of Python": (lambda: audit([2**70 + 1] * N, INTERVALS), "the first is 1180591620717411303425"),
    "objects of numpy": (lambda: audit(np.array(list(ODD), dtype=object), INTERVALS), FIRST),
    "Decimal": (lambda: audit([Decimal(int(each)) for each in ODD], INTERVALS), FIRST),
    "Fraction": (lambda: audit([Fraction(int(each)) for each in ODD], INTERVALS), FIRST),
    "another byte order": (lambda: audit(ODD.astype(">i8"), INTERVALS), FIRST),
    "pandas": (lambda: audit(pd.Series(ODD, dtype="Int64"), INTERVALS), FIRST),
    "polars": (lambda: audit(pl.Series(ODD), INTERVALS), FIRST),
    "pyarrow": (lambda: audit(pa.array(ODD), INTERVALS), FIRST),
    "coverage": (lambda: coverage(ODD, INTERVALS), FIRST),
    "covers": (lambda: INTERVALS.covers(ODD), FIRST),
    "intervals": (lambda: Intervals(FLOATS, ODD), f"upper must .* {FIRST}"),
    "misses": (lambda: misses_by_group(ODD, INTERVALS, LABELS), FIRST),
    "fit": (lambda: unfitted().fit(X, ODD), FIRST),
    "calibrate": (lambda: calibrate(ODD, FLOATS), FIRST),
    "a prediction": (lambda: calibrate(FLOATS, ODD), f"center must .* {FIRST}"),
    "p-values": (lambda: MODEL.p_values(X, ODD), FIRST),
}


@pytest.mark.parametrize("case", ROUNDED)
def test_whole_numbers_that_would_be_rounded_are_an_error(case):
    """The comparison of targets and bounds would be one of other numbers."""
    call, message = ROUNDED[case]
    with pytest.raises(ValueError, match=message) as raised:
        call()
    assert "Subtract the same number" in str(raised.value)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="longdouble is float64 here")
def test_numbers_with_more_digits_than_float64():
    with pytest.raises(ValueError, match=r"the first is 9007199254740993.0 in row 0"):
        audit(ODD.astype(np.longdouble), INTERVALS)
    with pytest.raises(ValueError, match="the first is 1e\\+600 in row 0"):
        Intervals(np.full(N, np.longdouble("1e600")), FLOATS)
    assert audit(FLOATS.astype(np.longdouble) / 10, INTERVALS).overall.rows == N


@pytest.mark.parametrize("y", [2**53 - np.arange(N), np.full(N, 10**18), np.full(N, -(2**63)), [2**70] * N])
def test_large_whole_numbers_that_float64_holds_are_targets(y):
    exact = Intervals(np.array(y, dtype=float), np.array(y, dtype=float))
    assert exact.covers(y).all()
    assert audit(y, exact).overall.coverage == 1.0


def test_features_and_times_are_rounded():
    """As models do. Ids and times in nanoseconds are such numbers."""
    ids = np.column_stack([ODD, np.arange(N)])
    groups = ByFeature(0, edges=[2.0**53 + 50])
    found = unfitted(taxonomy=groups).fit(ids, Y).predict_interval(ids, level=0.5)
    assert found.groups.counts.tolist() == [25, 35]
    assert recommend(LinearRegression(), X, Y, times=ODD) is not None


def bounds_table(**changes):
    return pa.table({"y": FLOATS, "low": FLOATS - 1, "high": FLOATS + 1, **changes})


@pytest.mark.parametrize(
    ("name", "values", "n"),
    [
        ("y", pa.array(ODD), 60),
        ("low", pa.array(ODD), 60),
        ("high", pa.array([None, *ODD[1:].tolist()]), 59),
        ("y", pa.array([Decimal(int(each)) for each in ODD], pa.decimal128(38, 0)), 60),
        ("y", pa.array(ODD).dictionary_encode(), 60),
    ],
)
def test_tables_with_numbers_that_would_be_rounded_are_an_error(tmp_path, capsys, name, values, n):
    """In memory, in parts and on the command line; also where pyarrow turns a column with missing values into floats."""
    table = bounds_table(**{name: values})
    (tmp_path / "parts").mkdir()
    for file in ("d.parquet", "parts/d.parquet"):
        pq.write_table(table, tmp_path / file)
    first = "9007199254740995" if n == 59 else "9007199254740993"
    found = f"would round: {n} (the first is {first}"
    with pytest.raises(ValueError, match=re.escape(f"column {name!r} (")) as raised:
        audit_table(tmp_path / "parts", target="y", lower="low", upper="high")
    assert found in str(raised.value)
    for file in ("d.parquet", "parts"):
        status, text, errors = run_command_line(
            capsys, "audit", str(tmp_path / file), "--target", "y", "--lower", "low", "--upper", "high"
        )
        assert (status, text) == (1, "")
        assert found in errors
        assert f"column {name!r}" in errors


def test_calibrations_of_tables_with_numbers_that_would_be_rounded_are_an_error():
    with pytest.raises(
        ValueError, match=r"column 'y' \(target\) must .* would round: 60 \(the first is 9007199254740993"
    ):
        calibrate_table(bounds_table(y=ODD), target="y", center="low")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_studies_of_targets_that_would_be_rounded_are_an_error(frame):
    """Only the targets: other columns are features."""
    table = frame({"id": ODD, "a": X[:, 0], "y": ODD})
    with pytest.raises(ValueError, match=r"target: column 'y' must hold .* 60 .the first is 9007199254740993 in row 0"):
        study(table, target="y")
    nullable = pd.DataFrame({"a": X[:, 0], "y": pd.array([None, *ODD[1:].tolist()], dtype="Int64")})
    with pytest.raises(ValueError, match=r"would round: 59 .the first is 9007199254740995 in row 1"):
        study(nullable, target="y", missing_target="drop")


# Targets whose sums overflow

HUGE = Y * 1e307

TOO_LARGE = {
    "fit": lambda: unfitted().fit(X, HUGE),
    "calibrate": lambda: MODEL.calibrate(X, HUGE),
    "p_values": lambda: MODEL.p_values(X, HUGE),
    "a cross-conformal fit": lambda: CrossConformalRegressor(LinearRegression()).fit(X, HUGE),
    "audit": lambda: audit(HUGE, INTERVALS),
    "quality": lambda: quality(HUGE, INTERVALS),
    "interval_score": lambda: interval_score(HUGE, INTERVALS, level=0.9),
    "misses": lambda: misses_by_group(HUGE, INTERVALS, LABELS),
    "pinball_loss": lambda: pinball_loss(HUGE, Y, probability=0.5),
    "crps": lambda: crps(HUGE, X, probabilities=[0.1, 0.9]),
    "recommend": lambda: recommend(LinearRegression(), X, HUGE),
    "study": lambda: study(pd.DataFrame({"a": X[:, 0], "y": HUGE}), target="y"),
    **{type(model).__name__: lambda model=model: model.fit(X, HUGE) for model in MODELS},
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_targets_whose_sums_overflow_are_an_error(case):
    with pytest.raises(ValueError, match=r"must lie between -1e\+300 and 1e\+300") as raised:
        TOO_LARGE[case]()
    assert f"the largest absolute value is {np.abs(HUGE).max():.3g}" in str(raised.value)
    assert "y" in str(raised.value).partition(" must")[0]


@pytest.mark.parametrize("unit", [1e150, 1e-150, 1e-310])
def test_huge_and_tiny_targets_are_targets(unit):
    """The intervals have the unit of the targets, up to the digits that tiny numbers have."""
    found = unfitted().fit(X, Y * unit).predict_interval(X)
    np.testing.assert_allclose(found.lower / unit, MODEL.predict_interval(X).lower, rtol=1e-9)
    assert audit(Y * unit, found).overall.coverage == audit(Y, MODEL.predict_interval(X)).overall.coverage


def test_weights_whose_sum_overflows_are_an_error():
    with pytest.raises(ValueError, match=r"weights must lie between -1e\+300 and 1e\+300"):
        calibrate(Y, Y, weights=np.full(N, 1.7e308))


# Other kinds of arrays


def one_value(value):
    values = Y.astype(object)
    values[3] = value
    return values


KINDS = {
    "complex": (Y + 0j, "y must hold real numbers"),
    "a number": (1.0, r"y must be one-dimensional, of shape \(n,\); got shape \(\)"),
    "text": ("abc", "y must hold numbers; got 'abc' of type str"),
    "a mapping": (dict(enumerate(Y)), "y must hold numbers; got {.* of type dict"),
    "a generator": ((each for each in Y), "y must hold numbers; got .* of type generator"),
    "three dimensions": (Y[:, None, None], r"y must be one-dimensional, of shape \(n,\); got shape \(60, 1, 1\)"),
    "rows of different lengths": ([[1.0], [1.0, 2.0]] * 30, "y must be an array; got list: .*inhomogeneous"),
    "a number beyond float64": (one_value(10**400), "y must hold numbers that float64 can represent"),
    "structured": (np.zeros(N, dtype=[("a", float)]), "y must hold numbers; got an array of dtype"),
    "missing": (one_value(pd.NA), "y must hold numbers; .*<NA> in row 3"),
}


@pytest.mark.parametrize("case", KINDS)
def test_targets_of_other_kinds_are_an_error_that_names_them(case):
    y, message = KINDS[case]
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        unfitted().fit(X, y)
    assert len(str(raised.value)) < 250


def test_bounds_that_are_no_numbers_are_an_error():
    """They would be read otherwise: text as numbers, dates as days, complex numbers without their imaginary part."""
    for bound in (Y.astype(str), np.arange(N).astype("M8[D]"), Y + 0j):
        with pytest.raises(TypeError, match="upper must hold numbers"):
            Intervals(Y, bound)


def test_labels_that_differ_by_nanoseconds_are_an_error():
    """Labels are Python objects, with microseconds: different labels would become one group."""
    times = np.arange(N).astype("M8[ns]")
    with pytest.raises(
        ValueError, match=r"groups must not be finer than microseconds; got 1970.*01 \(the first in row 1"
    ):
        calibrate(Y, Y, groups=times)
    assert len(Groups.from_labels((np.arange(N) * 1000).astype("M8[ns]")).labels) == N
    with pytest.raises(ValueError, match="missing labels: 1 of 2"):
        Groups.from_labels(np.array(["2020-01-01", "NaT"], dtype="M8[ns]"))
