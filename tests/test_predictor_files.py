"""Files of calibrated models: the same intervals in another process, and only trusted classes are loaded."""

import pickle
import subprocess
import sys
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression
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
    Intervals,
    Marginal,
    Normalized,
    Product,
    Residual,
    diagnose,
    models,
)
from evencover._internal import predictor_files, saved_files, saved_objects
from evencover.models import (
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromQuantiles,
    FromStd,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    TableEncoder,
    WithSpread,
)
from evencover.synthetic import heteroskedastic
from tests.calibrators import SlidingWindow, TwoTails

DATA, NEW = heteroskedastic(300, seed=0), heteroskedastic(50, seed=1)
QUICK = {"hidden": (8,), "epochs": 2, "random_state": 0}
MODELS = {
    "linear": LinearRegression(),
    "boosting": WithSpread(HistGradientBoostingRegressor(max_iter=5, random_state=0), random_state=0),
    "quantiles": FromQuantiles(
        *(HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=5, random_state=0) for q in (0.05, 0.95))
    ),
    "std": FromStd(BayesianRidge()),
    "neighbours": WithSpread(LinearRegression(), NeighborSpread()),
    "members": WithSpread(RandomForestRegressor(5, random_state=0), EnsembleSpread()),
    "forest": QuantileForest(n_estimators=5, random_state=0),
    "quantile network": QuantileNetwork(**QUICK),
    "mean-variance network": MeanVarianceNetwork(**QUICK),
    "dropout": DropoutEnsemble(MeanVarianceNetwork(**QUICK), passes=3, random_state=0),
    "deep": DeepEnsemble(MeanVarianceNetwork(**QUICK), members=2, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), WithSpread(LinearRegression(), random_state=0)),
}
TAXONOMIES = [
    Marginal(),
    BySpread(3),
    BySpread(edges=[0.5]),
    ByPrediction(2),
    ByFeature(0, edges=[0.0]),
    ByTarget([0.0]),
    Product([BySpread(2), ByFeature(0, edges=[0.0])]),
]


def bounds(model, X=NEW.X):
    return np.asarray(model.predict_interval(X, level=[0.5, 0.8]))


class Own(RegressorMixin, BaseEstimator):
    """A user's estimator."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@dataclass(frozen=True)
class Twice:
    """A user's score."""

    def __call__(self, y, prediction):
        return 2 * np.abs(y - prediction.center)

    def interval(self, threshold, prediction):
        return Intervals(prediction.center - threshold / 2, prediction.center + threshold / 2)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_restored(name, tmp_path):
    model = ConformalRegressor(MODELS[name], random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(bounds(loaded), bounds(model))
    np.testing.assert_array_equal(loaded.predict(NEW.X), model.predict(NEW.X))
    np.testing.assert_array_equal(loaded.p_values(NEW.X, NEW.y), model.p_values(NEW.X, NEW.y))


def test_every_model_class_is_tested():
    tested = {type(model).__name__ for model in MODELS.values()} | {"WithSpread"}
    estimators = {name for name in models.__all__ if hasattr(getattr(models, name), "predict_full")}
    assert estimators - tested == {"FromOutputs", "FromDistribution"}  # they wrap libraries that are not installed


@pytest.mark.parametrize("taxonomy", TAXONOMIES, ids=repr)
def test_every_taxonomy_is_restored(taxonomy, tmp_path):
    model = ConformalRegressor(MODELS["std"], nonconformity=Normalized(epsilon=0.1), taxonomy=taxonomy, random_state=0)
    model.fit(DATA.X, DATA.y).save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(bounds(loaded), bounds(model))
    assert loaded.calibration_.nonconformity == model.calibration_.nonconformity
    assert loaded.guarantee_.sizes == model.guarantee_.sizes
    assert loaded.scale_ == model.scale_


def test_another_process_reads_it(tmp_path):
    model = ConformalRegressor(MODELS["boosting"], taxonomy=BySpread(2), random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", NEW.X)
    code = (
        "import sys, numpy as np; from evencover import ConformalRegressor\n"
        "X = np.load(sys.argv[2]); made = ConformalRegressor.load(sys.argv[1]).predict_interval(X, level=[0.5, 0.8])\n"
        "np.save(sys.argv[3], np.asarray(made))"
    )
    subprocess.run(
        [sys.executable, "-c", code, *(tmp_path / name for name in ("model", "X.npy", "made.npy"))], check=True
    )
    np.testing.assert_array_equal(np.load(tmp_path / "made.npy"), bounds(model))


def test_a_loaded_model_can_be_calibrated_and_diagnosed(tmp_path):
    model = ConformalRegressor(MODELS["std"], taxonomy=BySpread(2), random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    with pytest.raises(ValueError, match="loaded from a file, which contains no calibration rows: pass X and y"):
        diagnose(loaded)
    expected = ConformalRegressor(FrozenEstimator(model.estimator_), taxonomy=BySpread(2)).fit(NEW.X, NEW.y)
    np.testing.assert_array_equal(bounds(loaded.calibrate(NEW.X, NEW.y)), bounds(expected))
    assert sum(row.rows for row in diagnose(loaded).table) == 48  # two are edge rows


def test_tables_with_text(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(size=300), "category": rng.choice(["a", "b", None], 300)})
    model = ConformalRegressor(make_pipeline(TableEncoder(), MODELS["boosting"]), random_state=0)
    model.fit(table, rng.normal(size=300)).save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(bounds(loaded, table), bounds(model, table))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table.rename(columns={"x": "z"}))


class TestTrust:
    def test_user_classes_must_be_trusted_by_name(self, tmp_path):
        name = f"{Own.__module__}.Own"
        model = ConformalRegressor(Own(), random_state=0).fit(DATA.X, DATA.y)
        with pytest.warns(
            UserWarning, match=rf"to load this file, pass the names of the classes in it: trusted=\['{name}'\]"
        ):
            model.save(tmp_path / "model")
        with pytest.raises(ValueError, match=rf"does not know: {name}. If you trust the author"):
            ConformalRegressor.load(tmp_path / "model")
        assert len(bounds(ConformalRegressor.load(tmp_path / "model", trusted=[name]))) == 50

    def test_a_user_defined_score_must_be_passed(self, tmp_path):
        model = ConformalRegressor(LinearRegression(), nonconformity=Twice(), random_state=0).fit(DATA.X, DATA.y)
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match="its score is of your class Twice: pass it as nonconformity="):
            ConformalRegressor.load(tmp_path / "model")
        loaded = ConformalRegressor.load(tmp_path / "model", nonconformity=Twice())
        np.testing.assert_array_equal(bounds(loaded), bounds(model))

    def test_trusted_classes_exist(self):
        """Every trusted name is that of an importable class."""
        for path in saved_objects.TRUSTED:
            module, _, name = path.rpartition(".")
            assert isinstance(getattr(__import__(module, fromlist=[name]), name), type)

    def test_a_file_contains_no_pickle(self, tmp_path):
        """Neither in the archive nor in the state of the forest."""
        ConformalRegressor(MODELS["forest"], random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
        with zipfile.ZipFile(tmp_path / "model") as archive:
            assert sorted(archive.namelist()) == [
                "arrays/codes.npy",
                "arrays/scores.npy",
                "header.json",
                "objects.skops",
            ]
            objects = archive.read("objects.skops")
        assert "builtins.bytes" not in str(skops.io.get_untrusted_types(data=objects))
        with zipfile.ZipFile(tmp_path / "model") as archive, zipfile.ZipFile(archive.open("objects.skops")) as inner:
            assert {name.rpartition(".")[2] for name in inner.namelist()} == {"json", "npy"}

    def test_a_lambda_cannot_be_saved(self, tmp_path):
        model = ConformalRegressor(LinearRegression(), taxonomy=ByFunction(lambda X: X[:, 0] > 0), random_state=0)
        model.fit(DATA.X, DATA.y)
        with pytest.raises(TypeError, match="cannot be saved"):
            model.save(tmp_path / "model")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"no archive", pickle.dumps({"a": 1})], ids=["empty", "text", "pickle"])
def test_corrupt_files(content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ValueError, match="is not a predictor file written by evencover, or it is corrupt"):
        ConformalRegressor.load(tmp_path / "model")


@pytest.mark.parametrize("member", ["header.json", "arrays/scores.npy", "objects.skops"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"format": "evencover.predictor", "version": "x"}',
        b'{"format": "evencover.predictor", "version": 1}',
        b"PK",
    ],
)
def test_a_corrupt_member(member, content, tmp_path):
    """Every kind of corruption gives one error that names the file."""
    ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | {member: content}
    with zipfile.ZipFile(tmp_path / "model", "w") as archive:
        for name, held in members.items():
            archive.writestr(name, held)
    with pytest.raises(ValueError, match="model is not a predictor file written by evencover, or it is corrupt"):
        ConformalRegressor.load(tmp_path / "model")


def test_a_changed_byte_never_changes_intervals_silently(tmp_path):
    """It gives an error that names the file, or does not change the intervals."""
    model = ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    n_safe = 0
    for position in range(0, len(content), 97):
        changed = bytes([content[position] ^ 0xFF])
        (tmp_path / "model").write_bytes(content[:position] + changed + content[position + 1 :])
        try:
            loaded = ConformalRegressor.load(tmp_path / "model")
        except ValueError as error:
            n_safe += str(tmp_path / "model") in str(error)
        else:
            n_safe += np.array_equal(bounds(loaded), bounds(model))
    assert n_safe == len(range(0, len(content), 97))


def test_the_level_is_saved(tmp_path):
    ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model", level=0.8)
    assert predictor_files.saved_level(tmp_path / "model") == 0.8


def test_another_version_of_scikit_learn_causes_a_warning(tmp_path, monkeypatch):
    ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
    monkeypatch.setattr(predictor_files, "sklearn_version", "0.1")
    with pytest.warns(UserWarning, match=r"was written with scikit-learn .*, and this is 0.1"):
        ConformalRegressor.load(tmp_path / "model")


@pytest.mark.parametrize("version", [1, 2, 4])
def test_another_version_of_the_format_is_an_error(version, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_files, "VERSION", version)
    ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=rf"in version {version} of the format; this evencover reads version 3"):
        ConformalRegressor.load(tmp_path / "model")


def test_a_user_defined_calibrator_must_be_passed(tmp_path):
    """A file contains the name and the state of the calibrator, not its class."""
    model = ConformalRegressor(LinearRegression(), calibrator=SlidingWindow(80), random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"its calibrator is of your class SlidingWindow: pass it as calibrator="):
        ConformalRegressor.load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"its calibrator is SlidingWindow; got TwoTails\(\)"):
        ConformalRegressor.load(tmp_path / "model", calibrator=TwoTails())
    loaded = ConformalRegressor.load(tmp_path / "model", calibrator=SlidingWindow(80))
    np.testing.assert_array_equal(bounds(loaded), bounds(model))
    assert (loaded.calibrator, loaded.taxonomy) == (SlidingWindow(80), None)
    assert not hasattr(loaded, "calibration_")
    loaded.calibrate(DATA.X, DATA.y)
    assert len(loaded.calibrator_.scores) == 80


def test_a_user_defined_score_with_a_user_defined_calibrator(tmp_path):
    model = ConformalRegressor(
        LinearRegression(), nonconformity=Twice(), calibrator=SlidingWindow(80), random_state=0
    ).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model", nonconformity=Twice(), calibrator=SlidingWindow(80))
    np.testing.assert_array_equal(bounds(loaded), bounds(model))


def test_by_group_is_restored_as_its_taxonomy(tmp_path):
    model = ConformalRegressor(MODELS["boosting"], calibrator=ByGroup(BySpread(3)), random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    assert (repr(loaded.taxonomy), loaded.calibrator) == ("BySpread(n_groups=3)", None)
    np.testing.assert_array_equal(bounds(loaded), bounds(model))


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        ConformalRegressor(LinearRegression(), nonconformity=Residual()).save(tmp_path / "model")
