"""Regressors of boosting libraries inside objects to save, with a library that is made up here."""

import dataclasses
import sys
from types import SimpleNamespace
from zipfile import ZipFile

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from evencover import ConformalRegressor, CrossConformalRegressor
from evencover.files import objects

X, Y = np.arange(40.0)[:, None], np.arange(40.0)


class Shift(RegressorMixin, BaseEstimator):
    """A regressor of the library; its model is the text of one number."""

    def __init__(self, shift=1.0):
        self.shift = shift

    def fit(self, X, y):
        self.model_, self.rows_ = np.mean(y) + self.shift, len(X)
        return self

    def predict(self, X):
        return X[:, 0] + self.model_


class Subclass(Shift):
    """A user's class is not one of the library."""


def write(model):
    return repr(float(model.model_)).encode()


def read(model, saved):
    model.model_ = float(saved.content)


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setitem(sys.modules, "shiftboost", SimpleNamespace(Shift=Shift, __version__="2.0"))
    monkeypatch.setattr(Shift, "__module__", "shiftboost.sklearn")
    entry = objects._Library(("Shift",), write, read, lambda model: hasattr(model, "model_"), ("model_",))
    monkeypatch.setattr(objects, "_LIBRARIES", {"shiftboost": entry})


@pytest.fixture
def save(tmp_path):
    """Save a model that holds some object, and return the file."""

    def save_with(held):
        line = LinearRegression().fit(X, Y)
        line.held_ = held
        ConformalRegressor(FrozenEstimator(line)).fit(X, Y).save(tmp_path / "file")
        return tmp_path / "file"

    return save_with


def load(path):
    """Return the object that the model in a file holds."""
    return ConformalRegressor.load(path).estimator_.estimator.held_


def saved_booster(version="2.0", content=b"", *, library="shiftboost", name="Shift", attributes=None):
    return objects.SavedBooster(library, version, name, {}, attributes or {}, content)


def test_a_regressor_is_replaced_by_its_own_format(save):
    saved = objects.pack_boosters(Shift(2.0).fit(X, Y))
    assert (saved.library, saved.version, saved.name) == ("shiftboost", "2.0", "Shift")
    assert (saved.params, saved.attributes, saved.content) == ({"shift": 2.0}, {"rows_": 40}, b"21.5")
    restored = load(save(Shift(2.0).fit(X, Y)))
    assert type(restored) is Shift
    assert vars(restored) == {"shift": 2.0, "model_": 21.5, "rows_": 40}


def test_a_regressor_that_is_not_fitted_stays_so(save):
    assert vars(load(save(Shift(3.0)))) == {"shift": 3.0}


@pytest.mark.parametrize(
    "hold",
    [
        lambda model: model,
        lambda model: [1, (model, {"a": model})],
        lambda model: make_pipeline(FrozenEstimator(model)),
        lambda model: {"estimator": LinearRegression(), "other": [FrozenEstimator(FrozenEstimator(model))]},
    ],
    ids=["alone", "containers", "pipeline", "mapping"],
)
def test_regressors_at_any_depth(hold, save):
    """They are restored, and the original is not changed."""
    model = Shift().fit(X, Y)
    held = hold(model)
    before = repr(held)
    path = save(held)
    assert "SavedBooster" in description(path)
    assert repr(load(path)) == before == repr(held)
    assert model.predict(X[:1]) == 20.5


def description(path):
    """Return how a file describes the objects in it."""
    with ZipFile(path) as archive, ZipFile(archive.open("objects.skops")) as objects:
        return objects.read("schema.json").decode()


def test_one_regressor_in_two_places_stays_one(save):
    model = Shift().fit(X, Y)
    first, second = load(save([model, FrozenEstimator(model)]))
    assert second.estimator is first


def test_objects_without_such_regressors_are_not_copied():
    held = {"a": [LinearRegression().fit(X, Y)], "b": (1, "text", np.arange(3)), "c": Subclass(), "d": sys}
    held["itself"] = held
    assert objects.pack_boosters(held) is held


def test_a_predictor(tmp_path):
    model = ConformalRegressor(Shift(), random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X).lower, model.predict_interval(X).lower)
    assert type(loaded.estimator_) is Shift


def test_the_models_of_folds(tmp_path):
    model = CrossConformalRegressor(make_pipeline(Shift()), cv=4, random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = CrossConformalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X).lower, model.predict_interval(X).lower)
    assert [vars(each[0]) for each in loaded.estimators_] == [vars(each[0]) for each in model.estimators_]
    assert type(loaded.estimator[0]) is Shift
    assert len(loaded.fit(X, Y).estimators_) == 4


@pytest.mark.parametrize(("library", "name"), [("os", "system"), ("shiftboost", "Other")])
def test_nothing_outside_the_table_is_imported(library, name, save):
    path = save(saved_booster("1", library=library, name=name))
    with pytest.raises(ValueError, match=rf"file: the file holds a {library}\.{name}, which evencover does not know"):
        load(path)


def test_a_missing_library_is_named(monkeypatch, save):
    path = save(Shift().fit(X, Y))
    monkeypatch.setitem(sys.modules, "shiftboost", None)
    with pytest.raises(ImportError, match=r"file holds a model of shiftboost: pip install shiftboost$"):
        load(path)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("2.1.1", r"its Shift was written by shiftboost 2\.1\.1, and this is 2\.0, .*: upgrade shiftboost"),
        ("10.0", r"written by shiftboost 10\.0, and this is 2\.0, which could predict something else: upgrade"),
        (
            "1.9rc1",
            r"its Shift was written by shiftboost 1\.9rc1, and shiftboost 2\.0 cannot read it: could not convert",
        ),
    ],
)
def test_a_model_that_the_library_cannot_read(version, message, save):
    """An earlier version is not asked at all: it might read the model wrongly."""
    path = save(saved_booster(version, b"new"))
    with pytest.raises(ValueError, match=message):
        load(path)


@pytest.mark.parametrize("name", ["model_", "__class__", "__dict__", "not a name", "", 3])
def test_only_attributes_that_a_library_adds_are_restored(name, save):
    """A file cannot replace the model in the library's own format, or the class."""
    path = save(saved_booster(attributes={name: 5}))
    with pytest.raises(ValueError, match=rf"file: its Shift has the attribute {name!r}, which no file .* writes$"):
        load(path)


def test_only_the_first_line_of_an_error_of_the_library_is_printed(monkeypatch, save):
    def fail(model, saved):
        raise RuntimeError("\ncheck failed\nStack trace:\n  [bt] (0) main")

    entry = dataclasses.replace(objects._LIBRARIES["shiftboost"], read=fail)
    monkeypatch.setattr(objects, "_LIBRARIES", {"shiftboost": entry})
    path = save(Shift().fit(X, Y))
    with pytest.raises(ValueError, match=r"file: its Shift .* cannot read it: check failed\Z"):
        load(path)
