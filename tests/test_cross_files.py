"""Files of cross-conformal models: the same intervals, unions and p-values, and a model that can be fitted again."""

import json
import re
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import make_pipeline

from evencover import (
    Bounded,
    ByFeature,
    ByPrediction,
    BySpread,
    ConformalRegressor,
    CrossConformalRegressor,
    IntervalDistance,
    Normalized,
    OneSided,
    Product,
    Residual,
)
from evencover.models import FromStd, NeighborSpread, TableEncoder, WithSpread
from evencover.models.encoding import joined_encoder
from evencover.synthetic import heteroskedastic
from tests.archives import rewrite
from tests.command_line import run_command_line
from tests.test_predictor_files import Own, Twice

DATA, NEW = heteroskedastic(60, seed=0), heteroskedastic(30, seed=1)
STD = FromStd(BayesianRidge())
METHODS = ["cv+", "jackknife+", "jackknife+-after-bootstrap", "cross-conformal"]
MODELS = {
    **{
        method: CrossConformalRegressor(LinearRegression(), method=method, n_bootstraps=60, random_state=0)
        for method in METHODS
    },
    "groups": CrossConformalRegressor(
        STD, nonconformity=Normalized(floor=0.1), taxonomy=ByFeature(0, edges=[0.5]), cv=4, random_state=0
    ),
    "spread": CrossConformalRegressor(STD, nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0),
    "product": CrossConformalRegressor(STD, taxonomy=Product([ByPrediction(2), ByFeature(1, edges=[0.5])]), cv=3),
    "repeated": CrossConformalRegressor(LinearRegression(), cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)),
    "quantiles": CrossConformalRegressor(STD, nonconformity=IntervalDistance(), cv=3),
    "log": CrossConformalRegressor(LinearRegression(), target_transform="log", cv=3, random_state=0),
    "learned spread": CrossConformalRegressor(
        WithSpread(LinearRegression(), NeighborSpread(5), random_state=0), cv=3, random_state=0
    ),
}
Y = np.exp(DATA.y / 10)


@cache
def fitted(name):
    """Return a fitted model, for tests that do not change it."""
    return clone(MODELS[name]).fit(DATA.X, Y)


def answers(model, X=NEW.X, y=None):
    """Return the intervals, the pieces of the unions and the p-values of new rows."""
    y = np.exp(NEW.y[: len(X)] / 10) if y is None else y
    options = {"level": [0.5, 0.8], "unseen": "inf"}
    union = model.predict_union(X, **options)
    return [
        model.predict(X),
        np.asarray(model.predict_interval(X, **options)),
        *(np.asarray(piece) for piece in union.pieces),
        model.p_values(X, y, unseen="inf"),
    ]


def assert_same(first, second):
    assert len(first) == len(second)
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)


def loaded(model, tmp_path, **options):
    model.save(tmp_path / "model")
    return CrossConformalRegressor.load(tmp_path / "model", **options)


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_gives_the_same_answers(name, tmp_path):
    model = fitted(name)
    result = loaded(model, tmp_path)
    assert_same(answers(result), answers(model))
    assert str(result.guarantee_) == str(model.guarantee_)
    assert (result.scale_, result.n_features_in_) == (model.scale_, model.n_features_in_)
    assert len(result.estimators_) == len(model.estimators_)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("repeated", "product", "quantiles")])
def test_a_loaded_model_can_be_fitted_again(name, tmp_path):
    """It has the parameters of the saved model, so that it learns the same from the same rows."""
    model = fitted(name)
    result = loaded(model, tmp_path)
    names = ("cv", "method", "n_bootstraps", "random_state")
    assert [getattr(result, each) for each in names] == [getattr(model, each) for each in names]
    assert result.nonconformity == (Residual() if model.nonconformity is None else model.nonconformity)
    assert not hasattr(result.taxonomy, "labels_")
    assert not hasattr(result.estimator, "n_features_in_")
    assert_same(answers(result.fit(DATA.X, Y)), answers(model))


def test_a_splitter_is_not_saved(tmp_path):
    result = loaded(fitted("repeated"), tmp_path)
    assert result.cv == 10
    assert len(result.fit(DATA.X, Y).estimators_) == 10


def test_the_other_class_is_named(tmp_path):
    ConformalRegressor(LinearRegression()).fit(DATA.X, DATA.y).save(tmp_path / "split")
    CrossConformalRegressor(LinearRegression()).fit(DATA.X, DATA.y).save(tmp_path / "cross")
    with pytest.raises(ValueError, match="cross: a CrossConformalRegressor was saved to this file; load it by Cross"):
        ConformalRegressor.load(tmp_path / "cross")
    with pytest.raises(ValueError, match="split: a ConformalRegressor was saved to this file; load it by Conf"):
        CrossConformalRegressor.load(tmp_path / "split")


def test_user_classes_must_be_trusted_or_passed(tmp_path):
    model = CrossConformalRegressor(Own(), nonconformity=Twice(), cv=3).fit(DATA.X, Y)
    with pytest.warns(UserWarning, match=r"to load this file, pass the names of the classes in it"):
        model.save(tmp_path / "model")
    name = f"{Own.__module__}.Own"
    with pytest.raises(ValueError, match="its score is of your class Twice: pass it as nonconformity="):
        CrossConformalRegressor.load(tmp_path / "model")
    with pytest.raises(ValueError, match="If you trust the author of the file"):
        CrossConformalRegressor.load(tmp_path / "model", nonconformity=Twice())
    result = CrossConformalRegressor.load(tmp_path / "model", nonconformity=Twice(), trusted=[name])
    assert_same(answers(result), answers(model))


FOLDS = np.zeros((1, 60), dtype=int)
CORRUPT = {
    "too large": ("cv+", {"arrays": {"folds": FOLDS + 10}}, "folds must be numbers below 10 of 60 rows"),
    "negative": ("cv+", {"arrays": {"folds": FOLDS - 1}}, "folds must be numbers below 10 of 60 rows"),
    "fewer rows": (
        "cv+",
        {"arrays": {"folds": FOLDS[:, 1:], "fold_scores": np.ones((1, 59))}},
        "of 60 rows; got shape (1, 59)",
    ),
    "one dimension": ("cv+", {"arrays": {"folds": FOLDS[0]}}, "of 60 rows; got shape (60,)"),
    "models": ("cv+", {"values": {"n_models": 12}}, "it must have 12 models; got 10"),
    "clusters": ("cv+", {"arrays": {"clusters": FOLDS[0, 1:]}}, "clusters must be numbers of 60 rows"),
    "samples": (
        METHODS[2],
        {"arrays": {"left_out": np.ones((60, 2), bool)}},
        "left_out must be true or false for 60 rows and",
    ),
    "method": ("cv+", {"texts": {"cv+": "other"}}, "method must be one of ('cv+', "),
}


@pytest.mark.parametrize("case", CORRUPT)
def test_a_corrupt_file_is_one_error(case, tmp_path):
    name, changes, message = CORRUPT[case]
    path = tmp_path / "model"
    fitted(name).save(path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=f"is not a predictor file .*{re.escape(message)}"):
        CrossConformalRegressor.load(path)


def test_a_file_holds_scores_but_no_features_and_no_targets(tmp_path):
    model = clone(MODELS["cv+"]).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive, zipfile.ZipFile(archive.open("objects.skops")) as objects:
        members = [(each, name) for each in (archive, objects) for name in each.namelist() if name.endswith(".npy")]
        arrays = [np.load(BytesIO(each.read(name)), allow_pickle=False) for each, name in members]
    held = np.concatenate([array.ravel() for array in arrays if array.dtype.kind == "f"])
    assert np.isin(model.calibration_.scores, held).all()
    assert not np.isin(np.concatenate([DATA.X.ravel(), DATA.y]), held).any()


@pytest.mark.parametrize("name", ["spread", "repeated", "jackknife+-after-bootstrap"])
def test_the_members_and_the_header_are_those_of_the_documentation(name, tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "howto" / "saved_files.md").read_text(encoding="utf-8")
    fitted(name).save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        assert all(f"| `{name}` |" in page for name in archive.namelist())
        assert json.loads(archive.read("header.json"))["parameters"].keys() <= {"cv", "n_bootstraps", "random_state"}


@pytest.mark.parametrize(
    "score",
    [
        Bounded(OneSided(Normalized(floor=0.1)), y_min=-99.0),
        Bounded(OneSided(Normalized(floor=0.1, scale=2.0)), y_min=-99.0),
        {"low": Residual(), "high": Normalized(epsilon=1.0)},
    ],
    ids=["learned", "given", "by group"],
)
def test_a_loaded_score_has_a_scale_only_if_it_was_given_one(score, tmp_path):
    """At any depth; the scale that `fit` learned is an attribute of its own."""
    model = CrossConformalRegressor(STD, cv=3, nonconformity=score, taxonomy=BySpread(2)).fit(DATA.X, DATA.y)
    assert loaded(model, tmp_path).nonconformity == score


class TestTables:
    """`evencover predict` with a cross-conformal predictor of a table with text."""

    TABLE = pd.DataFrame({"x": DATA.X[:, 0], "size": [*["rare"], *["big", "small"] * 29, "big"]})
    MODEL = CrossConformalRegressor(make_pipeline(TableEncoder(), LinearRegression()), cv=3, random_state=0)

    def test_a_loaded_model_knows_its_columns(self, tmp_path):
        model = clone(self.MODEL).fit(self.TABLE, Y)
        result = loaded(model, tmp_path)
        assert_same(answers(result, self.TABLE, Y), answers(model, self.TABLE, Y))
        with pytest.raises(ValueError, match="feature names"):
            result.predict(self.TABLE.rename(columns={"x": "z"}))

    def test_the_command_predicts_intervals(self, tmp_path, capsys):
        model = clone(self.MODEL).fit(self.TABLE, Y)
        model.save(tmp_path / "model", level=0.8)
        new = pd.DataFrame({"x": [0.2, 0.4, 0.5], "size": ["big", "rare", "new"]})
        new.to_csv(tmp_path / "new.csv", index=False)
        words = [str(tmp_path / name) for name in ("model", "new.csv", "out.csv")]
        _, printed, errors = run_command_line(capsys, "predict", *words[:2], "--output", words[2])
        written = pd.read_csv(tmp_path / "out.csv")
        np.testing.assert_allclose(written[["lower", "upper"]], np.asarray(model.predict_interval(new, level=0.8)))
        assert "at level 0.8" in printed
        assert "1 of 3 rows are outside" in errors  # "rare" was in two folds
        assert "size (1, such as 'new')" in errors
        assert written["outside"].fillna("").tolist() == ["", "", "size"]

    def test_joined_encoders_know_what_any_of_them_saw(self):
        tables = [
            pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0], "d": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
            pd.DataFrame({"a": ["x", None], "b": [None, 2.0], "d": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
        ]
        joined = joined_encoder([TableEncoder().fit(table) for table in tables])
        assert not any(joined.outside(table) for table in tables)
        assert TableEncoder().fit(tables[0]).outside(tables[1])
        new = tables[0].assign(a=["z", "y"], d=pd.to_datetime([None, "2020-01-01"]))
        assert [(each.name, each.example) for each in joined.outside(new).columns] == [("a", "z"), ("d", None)]
        assert joined.n_rows_ == 4
