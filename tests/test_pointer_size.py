"""Platforms whose pointers have 32 bits, such as Pyodide: numpy takes counts and codes as `np.intp`, and not as int64.

Here both have 64 bits. So int64 is replaced by `np.longlong`, which is a type of its own, and `np.repeat` and
`np.bincount` by functions that take `np.intp` alone.
"""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

from evencover import CrossConformalRegressor, diagnose_scores
from evencover.groups import Groups
from evencover.tables.batches import LabelCodes


class Int64Generator(np.random.Generator):
    """A generator whose whole numbers are int64 and not `np.intp`, as on 32 bits."""

    def binomial(self, *args, **options):
        return np.asarray(super().binomial(*args, **options)).astype(np.longlong)[()]

    def integers(self, *args, **options):
        return np.asarray(super().integers(*args, **options)).astype(np.longlong)[()]


def strict(function, position):
    """Return a function of numpy that raises if one of its arguments is an array of int64."""

    def checked(*args, **options):
        if getattr(args[position], "dtype", np.dtype(np.intp)).char == np.dtype(np.longlong).char:
            raise TypeError("Cannot cast array data from int64 to int32 according to the rule 'safe'")
        return function(*args, **options)

    return checked


@pytest.fixture
def of_32_bits(monkeypatch):
    """Return a function that makes numpy behave as on 32 bits."""

    def change():
        monkeypatch.setattr(np, "int64", np.longlong)
        monkeypatch.setattr(np, "repeat", strict(np.repeat, 1))
        monkeypatch.setattr(np, "bincount", strict(np.bincount, 0))
        monkeypatch.setattr(np.random, "default_rng", lambda seed=None: Int64Generator(np.random.PCG64(seed)))

    return change


pytestmark = pytest.mark.skipif(
    np.dtype(np.longlong).char == np.dtype(np.intp).char, reason="int64 has one type here, that of pointers"
)


def test_quantiles_of_resamples(of_32_bits):
    scores, groups = np.arange(200.0), ["a", "b"] * 100
    expected = diagnose_scores(scores, groups).quantile_differences
    of_32_bits()
    assert diagnose_scores(scores, groups).quantile_differences == expected
    assert len(expected) == 1


@pytest.mark.parametrize("clusters", [None, np.arange(36) // 3])
def test_bootstrap_samples(of_32_bits, clusters):
    model = CrossConformalRegressor(
        LinearRegression(), method="jackknife+-after-bootstrap", n_bootstraps=50, random_state=0
    )
    X, y = np.arange(36.0)[:, None], np.sin(np.arange(36.0))
    expected = model.fit(X, y, clusters=clusters).predict_interval(X, level=0.5)
    of_32_bits()
    np.testing.assert_array_equal(model.fit(X, y, clusters=clusters).predict_interval(X, level=0.5), expected)


def test_codes_of_labels_can_be_counted(of_32_bits):
    of_32_bits()
    codes = LabelCodes().encode(pa.array(["b", "a", "b"]))
    assert np.bincount(codes).tolist() == [2, 1]


def test_labels_above_32_bits(monkeypatch):
    monkeypatch.setattr(np, "intp", np.int32)
    labels = [2**40 + 2, 2**40, 2**40 + 2]
    groups = Groups.from_labels(labels)
    assert groups.labels == (2**40, 2**40 + 2)
    assert groups.codes.tolist() == [1, 0, 1]
