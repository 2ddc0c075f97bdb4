"""Arrays and frames for public functions: their answers are compared with plain loops over exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from evencover import (
    ConformalRegressor,
    Intervals,
    audit,
    calibrate,
    conformal_quantile,
    conformal_rank,
    coverage,
    coverage_by_group,
    diagnose_scores,
    interval_score,
    mean_width,
)
from tests.fuzz.outcomes import WrongAnswerError, clear_errors

_EXTREMES = (0.0, -0.0, 1.0, -1.0, 0.1, 5e-324, 1e-300, 1e150, -1e160, 1e300, 1.7e308, -1.7e308)
_NOT_FINITE = (math.nan, math.inf, -math.inf)
_WHOLE = (0, 1, -1, 2, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))
_UNSIGNED = (0, 1, 2, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 1)
_TYPES = (
    "float64",
    "float64",
    "float64",
    "float32",
    "float16",
    "int64",
    "uint64",
    "int8",
    "bool",
    "object",
    "str",
    "complex",
)
_FORMS = ("array", "array", "array", "list", "series", "nullable", "masked", "column", "reversed", "0d")
_LEVELS = (0.9, 0.5, 0.1, 0.99, "0.9", 1 / 3, 0, 1, -0.5, 1.5, math.nan, None, "x", True)
_VALUES = {
    "float": st.one_of(
        st.floats(-10, 10, width=16), st.sampled_from(_EXTREMES), st.sampled_from((*_EXTREMES, *_NOT_FINITE))
    ),
    "int64": st.integers(-5, 5) | st.sampled_from(_WHOLE),
    "uint64": st.integers(0, 5) | st.sampled_from(_UNSIGNED),
    "int8": st.integers(-128, 127),
    "bool": st.booleans(),
    "object": st.sampled_from([1, 2.5, None, "x", "3", 10**400, True, math.nan]),
    "str": st.sampled_from(["1", "2.5", "x", "", "nan"]),
    "complex": st.sampled_from([1, 2, 3]),
}


# What an error may be about; scikit-learn does not name features that are no numbers.
_OTHER_NAMES = (
    *("level", "intervals", "center", "samples"),
    *("Complex data", "could not convert string to float", "arrays of bytes"),
)


def cases():
    """Return the strategy: a function, and arrays of mostly one length."""
    return st.one_of([_call(name) for name in FUNCTIONS])


@st.composite
def _call(draw, name):
    n = draw(st.integers(1, 8) if name != "audit" else st.integers(2, 30))
    names = FUNCTIONS[name].arrays
    kind = draw(st.sampled_from(["float64", "float64", "int64", "uint64", None, None]))
    described = {}
    for each in names:
        length = n if kind is not None or draw(st.integers(0, 7)) else draw(st.integers(0, 3))
        described[each] = draw(_array(length, kind))
    levels = _LEVELS if kind is None else _LEVELS[:4]
    return {"function": name, "level": draw(st.sampled_from(levels)), "arrays": described}


@st.composite
def _array(draw, n, kind):
    """Return the description of an array: its numbers, type and form; a given type comes in a plain array."""
    usual = kind is not None
    kind = draw(st.sampled_from(_TYPES)) if kind is None else kind
    values = draw(st.lists(_VALUES["float" if kind.startswith("float") else kind], min_size=n, max_size=n))
    form = "array" if usual else draw(st.sampled_from(_FORMS))
    described = {"type": kind, "form": form, "values": values}
    if form in ("masked", "nullable"):
        described["mask"] = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return described


def array_of(described):
    """Return the array that a case describes."""
    kind, form, values = described["type"], described["form"], described["values"]
    with np.errstate(all="ignore"):
        array = np.array(values, dtype=kind)
    mask = np.array(described.get("mask", []), dtype=bool)
    forms = {
        "array": lambda: array,
        "list": lambda: values,
        "series": lambda: pd.Series(array),
        "nullable": lambda: (
            pd.Series(array).astype(_nullable(kind)).mask(mask) if _nullable(kind) else pd.Series(array)
        ),
        "masked": lambda: np.ma.masked_array(array, mask),
        "column": lambda: array[:, None],
        "reversed": lambda: array[::-1][::-1],
        "0d": lambda: np.array(array[0]) if len(array) else array,
    }
    return forms[form]()


def _nullable(kind):
    return {"float64": "Float64", "int64": "Int64", "uint64": "UInt64", "bool": "boolean"}.get(kind)


_LARGEST = 1e305  # whose sums and products with a few others are floating-point numbers


class Function:
    """A public function: the arrays that it takes, how it is called, and how its answer is checked."""

    def __init__(self, arrays, call, check=lambda *_, **__: None):
        self.arrays, self.call, self.check = arrays.split(), call, check


def run(case):
    """Call a function; compare its answer with that of plain loops, or look at its error."""
    function = FUNCTIONS[case["function"]]
    arrays = {name: array_of(described) for name, described in case["arrays"].items()}
    with clear_errors(any_of=(*case["arrays"], *_OTHER_NAMES), one_line=False):
        answer = function.call(case["level"], *arrays.values())
    hidden = [name for name, each in arrays.items() if isinstance(each, np.ma.MaskedArray) and each.mask.any()]
    if hidden:
        raise WrongAnswerError(f"values under the mask of {hidden[0]} were used", f"mask of {case['function']}")
    exact = {name: _exact(each) for name, each in arrays.items()}
    if all(exact.values()):  # none is empty, or of other values than numbers
        function.check(answer, case["level"], **exact)


def _exact(array):
    """Return numbers as fractions, infinities and NaN as they are; None for other values, which are not checked.

    Nor are sums checked that are larger than the largest floating-point number.
    """
    values = array.tolist() if hasattr(array, "tolist") else list(array)
    if not isinstance(values, list) or not all(isinstance(each, int | float) for each in values):
        return None
    if any(_LARGEST < abs(each) < math.inf for each in values):
        return None
    return [Fraction(each) if math.isfinite(each) else each for each in values]


def _covered(y, lower, upper):
    return [low <= value <= high for value, low, high in zip(y, lower, upper, strict=True)]


def _equal(found, expected, what, *, tolerance=1e-9):
    """Raise unless a number is the expected one, up to rounding."""
    found, expected = float(found), float(expected) if math.isfinite(expected) else expected
    if not (found == expected or math.isclose(found, expected, rel_tol=tolerance, abs_tol=1e-300)):
        raise WrongAnswerError(f"{what}: {found!r} instead of {expected!r}", what)


def _check_coverage(answer, _level, y, lower, upper):
    covered = _covered(y, lower, upper)
    _equal(answer, Fraction(sum(covered), len(covered)), "coverage")


def _check_groups(answer, _level, y, lower, upper, groups):
    for label in set(groups):
        covered = [each for each, group in zip(_covered(y, lower, upper), groups, strict=True) if group == label]
        _equal(answer[label], Fraction(sum(covered), len(covered)), "coverage_by_group")


def _check_audit(answer, level, y, lower, upper):
    covered = _covered(y, lower, upper)
    _equal(answer.overall.coverage, Fraction(sum(covered), len(covered)), "audit")


def _check_width(answer, _level, lower, upper):
    if all(isinstance(each, Fraction) for each in (*lower, *upper)):
        widths = [max(high - low, Fraction(0)) for low, high in zip(lower, upper, strict=True)]
        _equal(answer, _rounded(sum(widths) / len(widths)), "mean_width")


def _check_score(answer, level, y, lower, upper):
    """Check the mean of width + 2 / (1 - level) x distance outside."""
    if all(isinstance(each, Fraction) for each in (*y, *lower, *upper)) and all(map(_in_order, lower, upper)):
        factor = 2 / (1 - _fraction(level))
        outside = [
            max(low - value, value - high, Fraction(0)) for value, low, high in zip(y, lower, upper, strict=True)
        ]
        total = sum(high - low + factor * far for low, high, far in zip(lower, upper, outside, strict=True))
        _equal(answer, _rounded(total / len(y)), "interval_score")


def _in_order(low, high):
    return low <= high


def _fraction(level):
    return Fraction(str(level))


def _rounded(number):
    """Return a fraction as the nearest float, inf if it is larger than all of them."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _check_rank_and_quantile(answer, level, scores):
    rank, threshold = answer
    n = len(scores)
    expected = math.ceil((n + 1) * _fraction(level))
    _equal(rank, expected, "conformal_rank")
    ordered = sorted(float(each) if isinstance(each, Fraction) else each for each in scores)
    _equal(threshold, ordered[expected - 1] if expected <= n else math.inf, "conformal_quantile", tolerance=0.0)


def _check_thresholds(answer, level, y, center):
    """Check the threshold of the rounded distances, as the score is defined for floating-point numbers."""
    scores = sorted(abs(float(value) - float(point)) for value, point in zip(y, center, strict=True))
    rank = math.ceil((len(y) + 1) * _fraction(level))
    _equal(answer, scores[rank - 1] if rank <= len(y) else math.inf, "calibrate", tolerance=1e-12)


def _fitted(level, X, y):
    """Return the intervals of a linear model for the rows that it was fitted on."""
    table = np.ma.column_stack([X, X]) if isinstance(X, np.ma.MaskedArray) else _table(X)
    return ConformalRegressor(LinearRegression(), random_state=0).fit(table, y).predict_interval(table, level=level)


def _table(values):
    return pd.DataFrame({"x": values}) if isinstance(values, pd.Series) else np.asarray(values).reshape(-1, 1)


def _check_finite(answer, *_, **__):
    if np.isnan(answer.lower).any() or np.isnan(answer.upper).any():
        raise WrongAnswerError("intervals with NaN", "ConformalRegressor")


def _diagnosed(level, scores, groups):
    found = diagnose_scores(scores, groups, level=level)
    return str(found), found


def _audited(level, y, lower, upper):
    found = audit(y, (lower, upper), level=level)
    str(found)
    return found


FUNCTIONS: dict[str, Function] = {
    "coverage": Function(
        "y lower upper", lambda level, y, lower, upper: coverage(y, Intervals(lower, upper)), _check_coverage
    ),
    "coverage_by_group": Function(
        "y lower upper groups",
        lambda level, y, lower, upper, groups: coverage_by_group(y, Intervals(lower, upper), groups),
        _check_groups,
    ),
    "mean_width": Function(
        "lower upper", lambda level, lower, upper: mean_width(Intervals(lower, upper)), _check_width
    ),
    "interval_score": Function(
        "y lower upper",
        lambda level, y, lower, upper: interval_score(y, Intervals(lower, upper), level=level),
        _check_score,
    ),
    "conformal_quantile": Function(
        "scores",
        lambda level, scores: (conformal_rank(np.size(scores), level), conformal_quantile(scores, level)),
        _check_rank_and_quantile,
    ),
    "calibrate": Function(
        "y center", lambda level, y, center: calibrate(y, center).threshold(level)[0], _check_thresholds
    ),
    "fit": Function("X y", _fitted, _check_finite),
    "audit": Function("y lower upper", _audited, _check_audit),
    "diagnose_scores": Function("scores groups", _diagnosed),
}
