"""Files of calibrated models: the same intervals in another process, and only trusted classes are loaded."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.svm import SVR

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
    TwoTails,
    __version__,
    diagnose,
    models,
)
from evencover.files.objects import TRUSTED
from evencover.models import (
    AutoRegressor,
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromQuantiles,
    FromStd,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    ResidualSpread,
    TableEncoder,
    WithSpread,
)
from evencover.studies import MODELS as STUDIED_MODELS
from evencover.synthetic import heteroskedastic
from tests.archives import rewrite, sealed, zipped
from tests.calibrators import SlidingWindow
from tests.canonical_studies import use_small_stack
from tests.command_line import run_command_line

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
    "best of three": STUDIED_MODELS["best-of-three"](0.9, 0),
    "forest": QuantileForest(n_estimators=5, random_state=0),
    "stack": AutoRegressor(effort="normal", random_state=0),
    "quantile network": QuantileNetwork(**QUICK),
    "mean-variance network": MeanVarianceNetwork(**QUICK),
    "dropout": DropoutEnsemble(MeanVarianceNetwork(**QUICK), passes=3, random_state=0),
    "deep": DeepEnsemble(MeanVarianceNetwork(**QUICK), members=2, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), WithSpread(LinearRegression(), random_state=0)),
}
LINEAR_SPREAD = ResidualSpread(LinearRegression())
COMMON = {  # models whose parts skops does not trust: those of our documentation, and similar ones
    "process": FromStd(GaussianProcessRegressor(RBF() + WhiteKernel(), alpha=0.1)),
    "splines": make_pipeline(SplineTransformer(), WithSpread(LinearRegression(), LINEAR_SPREAD, random_state=0)),
    "network": MLPRegressor(hidden_layer_sizes=(2,), max_iter=300, tol=0.1, random_state=0),
    "search": GridSearchCV(LinearRegression(), {"positive": [True, False]}, cv=2),
    "scored search": GridSearchCV(
        LinearRegression(), {"positive": [True, False]}, scoring="neg_mean_absolute_error", cv=KFold(2)
    ),
    "vote": VotingRegressor([("line", LinearRegression()), ("ridge", BayesianRidge())]),
    "stack": StackingRegressor([("line", LinearRegression()), ("ridge", BayesianRidge())]),
    "spread of a stack": WithSpread(StackingRegressor([("line", LinearRegression())]), LINEAR_SPREAD, random_state=0),
    "stack in a pipeline": make_pipeline(StandardScaler(), StackingRegressor([("line", LinearRegression())])),
    "spread of a vote": WithSpread(VotingRegressor([("line", LinearRegression())]), LINEAR_SPREAD, random_state=0),
    "ball tree": KNeighborsRegressor(algorithm="ball_tree", metric="manhattan"),
    "transformed": TransformedTargetRegressor(LinearRegression(), func=np.sinh, inverse_func=np.arcsinh),
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
def test_every_model_is_restored(name, tmp_path, monkeypatch):
    use_small_stack(monkeypatch)
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


@pytest.mark.slow
def test_another_process_reads_it(tmp_path):
    """By default, `test_saved_files` reads files that other processes wrote."""
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
    with pytest.raises(ValueError, match="model has no calibration rows, because it was loaded from a file or calib"):
        diagnose(loaded)
    expected = ConformalRegressor(FrozenEstimator(model.estimator_), taxonomy=BySpread(2)).fit(NEW.X, NEW.y)
    np.testing.assert_array_equal(bounds(loaded.calibrate(NEW.X, NEW.y)), bounds(expected))
    assert sum(row.rows for row in diagnose(loaded).table) == 48  # two are edge rows


def test_tables_with_text(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(size=300), "category": rng.choice(["a", "b", None], 300)})
    model = ConformalRegressor(make_pipeline(TableEncoder(), MODELS["neighbours"]), random_state=0)
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
        with pytest.raises(ValueError, match=rf"If you trust the author of the file, pass trusted=\['{name}'\]$"):
            ConformalRegressor.load(tmp_path / "model")
        with pytest.raises(ValueError, match=rf"pass trusted=\['other.Class', '{name}'\]$"):
            ConformalRegressor.load(tmp_path / "model", trusted=["other.Class"])
        assert len(bounds(ConformalRegressor.load(tmp_path / "model", trusted=[name]))) == 50

    def test_a_user_defined_score_must_be_passed(self, tmp_path):
        model = ConformalRegressor(LinearRegression(), nonconformity=Twice(), random_state=0).fit(DATA.X, DATA.y)
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match="its score is of your class Twice: pass it as nonconformity="):
            ConformalRegressor.load(tmp_path / "model")
        loaded = ConformalRegressor.load(tmp_path / "model", nonconformity=Twice())
        np.testing.assert_array_equal(bounds(loaded), bounds(model))

    @pytest.mark.parametrize("name", COMMON)
    def test_common_models_need_no_trust(self, name, tmp_path):
        """`save` does not warn, and `load` needs no list."""
        model = ConformalRegressor(COMMON[name], random_state=0).fit(DATA.X, DATA.y)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(bounds(ConformalRegressor.load(tmp_path / "model")), bounds(model))

    def test_an_ordered_dict_needs_no_trust(self, tmp_path):
        line = LinearRegression().fit(DATA.X, DATA.y)
        line.notes_ = OrderedDict(b=1, a=OrderedDict)
        ConformalRegressor(FrozenEstimator(line)).fit(DATA.X, DATA.y).save(tmp_path / "model")
        loaded = ConformalRegressor.load(tmp_path / "model").estimator_.estimator
        assert loaded.notes_ == OrderedDict(b=1, a=OrderedDict)

    def test_trusted_classes_exist(self):
        """Every trusted name of an installed package is that of an importable class or function."""
        installed = [path for path in TRUSTED if find_spec(path.partition(".")[0])]
        for module, _, name in (path.rpartition(".") for path in installed):
            assert callable(getattr(__import__(module, fromlist=[name]), name))

    def test_a_missing_package_is_named(self, tmp_path, monkeypatch):
        ConformalRegressor(MODELS["forest"], random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
        for module in [name for name in sys.modules if name.startswith("quantile_forest")]:
            monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setitem(sys.modules, "quantile_forest", None)
        with pytest.raises(ImportError, match="model holds a model of quantile_forest: pip install quantile_forest"):
            ConformalRegressor.load(tmp_path / "model")

    def test_a_module_that_a_package_no_longer_has_is_named(self, tmp_path, monkeypatch):
        ConformalRegressor(MODELS["boosting"], random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
        module = "sklearn.ensemble._hist_gradient_boosting.predictor"
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ValueError, match=f"model: the installed version of sklearn has no {module}"):
            ConformalRegressor.load(tmp_path / "model")

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


def saved_arrays(path):
    """Return all arrays in a file, also those of the objects in it."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(archive.open("objects.skops")) as objects:
        members = [(each, name) for each in (archive, objects) for name in each.namelist() if name.endswith(".npy")]
        return [np.load(io.BytesIO(each.read(name)), allow_pickle=False) for each, name in members]


class TestPrivateData:
    """What docs/howto/saved_files.md says about the contents of a file."""

    def test_a_file_holds_scores_but_no_features_and_no_targets(self, tmp_path):
        model = ConformalRegressor(MODELS["pipeline"], taxonomy=BySpread(2), random_state=0).fit(DATA.X, DATA.y)
        model.save(tmp_path / "model")
        held = np.concatenate([array.ravel() for array in saved_arrays(tmp_path / "model") if array.dtype.kind == "f"])
        assert np.isin(model.calibration_.scores, held).all()
        assert not np.isin(np.concatenate([DATA.X.ravel(), DATA.y]), held).any()

    @pytest.mark.parametrize(
        ("name", "features", "targets"), [("neighbours", True, True), ("process", True, True), ("support", True, False)]
    )
    def test_some_models_hold_training_rows(self, name, features, targets, tmp_path):
        estimators = {
            "neighbours": KNeighborsRegressor(),
            "process": GaussianProcessRegressor(alpha=1),
            "support": SVR(),
        }
        model = ConformalRegressor(estimators[name], random_state=0).fit(DATA.X, DATA.y)
        model.save(tmp_path / "model")
        held = np.concatenate([array.ravel() for array in saved_arrays(tmp_path / "model") if array.dtype.kind == "f"])
        assert (np.isin(DATA.X[:, 0], held).mean() > 0.4, np.isin(DATA.y, held).mean() > 0.4) == (features, targets)

    @pytest.mark.parametrize("weights", [None, np.linspace(1, 2, 300)], ids=["plain", "weights"])
    def test_the_members_and_the_header_are_those_of_the_documentation(self, weights, tmp_path):
        page = (Path(__file__).parent.parent / "docs" / "howto" / "saved_files.md").read_text(encoding="utf-8")
        model = ConformalRegressor(FrozenEstimator(FromStd(BayesianRidge()).fit(DATA.X, DATA.y)), taxonomy=BySpread(2))
        model.calibrate(DATA.X, DATA.y, weights=weights).save(tmp_path / "model")
        with zipfile.ZipFile(tmp_path / "model") as archive:
            assert all(f"| `{name}` |" in page for name in archive.namelist())
            header = json.loads(archive.read("header.json"))
        assert header.keys() == {
            *("format", "version", "evencover", "nonconformity", "values", "scikit-learn"),
            *("calibrator", "level", "scale", "n_features", "features"),
        }
        assert header["values"].keys() == {"labels", "rules", "n_edge_bits"}


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
    (tmp_path / "model").write_bytes(sealed(zipped(members)))
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


def test_predict_uses_the_saved_level_and_reads_the_model_once(capsys, tmp_path, monkeypatch):
    old, new = (pd.DataFrame(sample.X).add_prefix("x") for sample in (DATA, NEW))
    model = ConformalRegressor(LinearRegression(), random_state=0).fit(old, DATA.y)
    model.save(tmp_path / "model", level=0.8)
    new.to_csv(tmp_path / "new.csv", index=False)
    opened, members = zipfile.ZipFile.open, []
    monkeypatch.setattr(
        zipfile.ZipFile, "open", lambda file, name, *rest: members.append(name) or opened(file, name, *rest)
    )
    _, text, _ = run_command_line(capsys, "predict", str(tmp_path / "model"), str(tmp_path / "new.csv"))
    np.testing.assert_allclose(pd.read_csv(io.StringIO(text))["lower"], model.predict_interval(new, level=0.8).lower)
    assert members.count("objects.skops") == 1


def test_another_version_of_scikit_learn_causes_a_warning(tmp_path):
    ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
    rewrite(tmp_path / "model", **{"scikit-learn": "0.1"})
    with pytest.warns(UserWarning, match=rf"was written with scikit-learn 0\.1, and this is {sklearn.__version__}"):
        ConformalRegressor.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (1, rf"written by evencover {__version__} in version 1 of the format, before its first release; fit"),
        (2, "in version 2 of the format, before its first release"),
        (7, rf"written by a newer evencover {__version__} in version 7 of the format; .* up to version 6: upgrade"),
    ],
)
def test_another_version_of_the_format_is_an_error(version, message, tmp_path):
    ConformalRegressor(LinearRegression(), random_state=0).fit(DATA.X, DATA.y).save(tmp_path / "model")
    rewrite(tmp_path / "model", version=version)
    with pytest.raises(ValueError, match=message):
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
    model = ConformalRegressor(MODELS["std"], calibrator=ByGroup(BySpread(3)), random_state=0).fit(DATA.X, DATA.y)
    model.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model")
    assert (repr(loaded.taxonomy), loaded.calibrator) == ("BySpread(n_groups=3)", None)
    np.testing.assert_array_equal(bounds(loaded), bounds(model))


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        ConformalRegressor(LinearRegression(), nonconformity=Residual()).save(tmp_path / "model")
