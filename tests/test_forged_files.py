"""Files that are damaged, forged or too large: a saved file loads as it was written, or one error names it."""

import contextlib
import io
import json
import re
import warnings
from dataclasses import replace
from functools import partial
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, SplineTransformer, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import Bunch, check_array

from evencover import Calibration, ConformalRegressor, Prediction, calibrate
from evencover.conformal.predictor_files import texts_of_run
from evencover.files.checksums import add_checksum, check_checksum, with_checksum
from evencover.models import DeepEnsemble, MeanVarianceNetwork, QuantileForest, QuantileNetwork
from evencover.synthetic import heteroskedastic
from evencover.tables import calibrate as calibrate_table
from tests.archives import rewrite, sealed, zipped
from tests.command_line import run_command_line
from tests.saved_files import FILES, NETWORK

DATA = heteroskedastic(120, seed=0)
CODES = np.column_stack([np.zeros(120), np.arange(120) % 5])  # a constant, and a column of categories


def saved_predictor(path, model, change=None, X=DATA.X):
    """Save a calibrated model whose fitted parts were changed before: a forged file, with its checksum."""
    shift = X[:, 1] if X.dtype.kind == "f" else 0
    regressor = ConformalRegressor(model, random_state=0).fit(X, DATA.y + shift)
    if change is not None:
        change(regressor.estimator_)
    regressor.save(path)


class TestDamage:
    @pytest.fixture(params=["calibration", "predictor", "network", "results"])
    def saved(self, request, tmp_path):
        """A file of each kind, and a function that reads it and returns an answer."""
        path = tmp_path / {"results": "results.json"}.get(request.param, "saved")
        match request.param:
            case "calibration":
                center, spread = DATA.X[:, 0], 1 + DATA.X[:, 1]
                calibrate(DATA.y, Prediction(center, spread), groups=DATA.X[:, 2] > 0.5, weights=spread).save(path)
                return path, Calibration.load
            case "predictor":
                saved_predictor(path, LinearRegression())
                return path, ConformalRegressor.load
            case "network":
                MeanVarianceNetwork(**NETWORK).fit(DATA.X, DATA.y).save(path)
                return path, MeanVarianceNetwork.load
        path.write_text(json.dumps(with_checksum({"missing_values": ["?", "-"], "level": 0.9})))
        return path, lambda file: texts_of_run(file.parent, "missing_values")

    def test_a_flipped_bit_is_an_error(self, saved):
        """Only a bit in the name of the checksum of JSON data may change: without a sum, the data passes for older."""
        path, load = saved
        content, answer = path.read_bytes(), load(path)
        positions = np.unique(np.linspace(0, len(content) - 1, 80).astype(int))
        for position in positions.tolist():
            for bit in (0, 6):
                flipped = bytearray(content)
                flipped[position] ^= 1 << bit
                path.write_bytes(bytes(flipped))
                if path.name == "results.json" and b'"checksum"' not in path.read_bytes():
                    with contextlib.suppress(ValueError):
                        assert load(path) == answer
                    continue
                with pytest.raises(ValueError, match=re.escape(str(path))):
                    load(path)

    def test_a_file_that_ends_early_or_goes_on_is_an_error(self, saved):
        path, load = saved
        content = path.read_bytes()
        for damaged in (b"", content[:-1], content[: len(content) // 2], content + b"x", content + content):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=re.escape(str(path))):
                load(path)


def test_a_file_that_shrinks_while_it_is_read_has_another_checksum():
    class Shrinking(io.BytesIO):
        def seek(self, place, whence=0):
            return super().seek(place, whence) + 200 * (whence == 2)

    content = io.BytesIO(zipped({"a": b"1"}))
    add_checksum(content)
    check_checksum(content)
    with pytest.raises(ValueError, match="its content is not what was written"):
        check_checksum(Shrinking(content.getvalue()))


def first_tree(model):
    """Return the compiled tree of a tree or of the first one of a forest."""
    members = np.ravel(getattr(model, "estimators_", [model]))
    return members[0].tree_


def with_nodes(name, value, place=0):
    """Return a change of a value in the nodes of a tree."""

    def change(model):
        tree = first_tree(model)
        state = tree.__getstate__()
        state["nodes"][name][place] = value
        tree.__setstate__(state)

    return change


def with_predictor_nodes(name, value):
    """Return a change of a value in the nodes of boosted trees: in the first node of this kind."""

    def change(model):
        tree = model._predictors[0][0]
        is_used = tree.nodes["is_categorical"] if name == "bitset_idx" else tree.nodes["is_leaf"] == 0
        tree.nodes[name][np.flatnonzero(is_used)[0]] = value

    return change


def with_search(position, change_part):
    """Return a change of a part of the state of a neighbour search."""

    def change(model):
        state = list(model._tree.__getstate__())
        state[position] = change_part(state[position])
        model._tree.__setstate__(tuple(state))

    return change


def put(array, place, value):
    """Return a copy of an array with another value at a place."""
    changed = np.array(array)
    changed[place] = value
    return changed


def with_field(name, value):
    """Return the nodes of a neighbour search with another value in the last one."""

    def change(nodes):
        changed = np.array(nodes)
        changed[name][-1] = value
        return changed

    return change


def with_attribute(name, change_value):
    return lambda model: setattr(model, name, change_value(getattr(model, name)))


def with_leaves(change_leaves):
    """Return a change of the leaves of a quantile forest."""

    def change(model):
        forest = model.forest_
        kind, (targets, leaves, *rest), _ = forest.forest_.__reduce__()
        forest.forest_ = kind(targets, change_leaves(np.array(leaves)), *rest)

    return change


def with_spline(change_part):
    def change(pipeline):
        spline = pipeline[0].bsplines_[0]
        spline.c = change_part(spline.c)

    return change


def with_other_tree(model):
    member = model.estimators_[0, 0]
    member.tree_ = Bunch(n_features=member.tree_.n_features)


def with_first_round_without_columns(model):
    """Begin with predictions of no target: the trees would add their values to foreign memory."""
    model.init_ = LinearRegression()
    model.init_.coef_, model.init_.intercept_ = np.empty((0, 3)), np.empty(0)
    model.init_.n_features_in_ = 3


def with_constant_first_round(model):
    """Begin with two numbers for any number of rows: a function of trusted parts takes the place of a method."""
    model.init_.predict = partial(check_array, np.zeros((2, 1)))


def with_constant_columns(model):
    """Pass the same two rows to the trees, whatever the rows are."""
    step = model._preprocessor.transformers_[1][1]
    step.func = partial(check_array, np.zeros((2, 1)), **step.func.keywords)


def with_columns_of_a_kernel(model):
    """Look up columns of a kernel that has three."""
    model.kernel, model.shape_fit_ = "precomputed", (3, 3)


def with_other_encoding(model):
    """Pass fewer columns to the trees than they have features."""
    model._preprocessor._transformer_to_input_indices["numerical"] = []


def with_fewer_encoded_columns(model):
    (name, step, mask), *others = model._preprocessor.transformers_
    model._preprocessor.transformers_ = [(name, step, np.zeros_like(mask)), *others]


def with_fewer_center_columns(pipeline):
    pipeline[0].cluster_centers_ = pipeline[0].cluster_centers_[:, :2].copy()


CATEGORIES = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=2, categorical_features=[1])
KD = KNeighborsRegressor(3, algorithm="kd_tree", leaf_size=10)
BALL = KNeighborsRegressor(3, algorithm="ball_tree", leaf_size=10)
CLUSTERS = make_pipeline(KMeans(2, n_init=1, random_state=0), LinearRegression())
LEAVES = QuantileForest(n_estimators=2)
ROUNDS = GradientBoostingRegressor(n_estimators=2)
SPLINES = make_pipeline(SplineTransformer(n_knots=4), LinearRegression())
FORGED = {
    "a tree whose child is far out of range": (DecisionTreeRegressor(), with_nodes("left_child", 10**9)),
    "a tree whose child is itself": (DecisionTreeRegressor(), with_nodes("right_child", 0)),
    "a tree whose child is its parent": (DecisionTreeRegressor(), with_nodes("left_child", 0, place=1)),
    "a tree with a negative child": (DecisionTreeRegressor(), with_nodes("right_child", -7)),
    "a tree with a feature far out of range": (DecisionTreeRegressor(), with_nodes("feature", 10**9)),
    "a tree with the feature after the last": (DecisionTreeRegressor(), with_nodes("feature", 3)),
    "a tree with a negative feature": (DecisionTreeRegressor(), with_nodes("feature", -1)),
    "a forest with a cycle": (RandomForestRegressor(2), with_nodes("left_child", 0)),
    "a forest of fewer features": (ExtraTreesRegressor(2), with_attribute("n_features_in_", lambda _: 2)),
    "gradient boosting with a wrong child": (
        GradientBoostingRegressor(n_estimators=2),
        with_nodes("left_child", 10**6),
    ),
    "gradient boosting with several trees a round": (
        GradientBoostingRegressor(n_estimators=2),
        with_attribute("estimators_", lambda trees: np.repeat(trees, 3, axis=1)),
    ),
    "gradient boosting whose members hold no trees": (ROUNDS, with_other_tree),
    "gradient boosting that begins without columns": (ROUNDS, with_first_round_without_columns),
    "gradient boosting that begins with a constant": (ROUNDS, with_constant_first_round),
    "boosted trees with a wrong child": (CATEGORIES, with_predictor_nodes("left", 10**6)),
    "boosted trees with a cycle": (CATEGORIES, with_predictor_nodes("right", 0)),
    "boosted trees with a feature far out of range": (CATEGORIES, with_predictor_nodes("feature_idx", 10**9)),
    "boosted trees with the feature after the last": (CATEGORIES, with_predictor_nodes("feature_idx", 2)),
    "boosted trees with wrong categories": (CATEGORIES, with_predictor_nodes("bitset_idx", 10**6)),
    "boosted trees of fewer features": (CATEGORIES, with_attribute("_n_features", lambda _: 3)),
    "boosted trees with fewer trees than rounds": (CATEGORIES, with_attribute("n_trees_per_iteration_", lambda _: 9)),
    "boosted trees with another encoding": (CATEGORIES, with_other_encoding),
    "boosted trees that get the same rows": (CATEGORIES, with_constant_columns),
    "boosted trees with an encoding of fewer columns": (CATEGORIES, with_fewer_encoded_columns),
    "boosted trees with a value that is not finite": (
        CATEGORIES,
        lambda model: model._predictors[0][0].nodes["value"].fill(np.nan),
    ),
    "a search tree with a wrong row": (KD, with_search(1, lambda order: put(order, 3, 2**62))),
    "a search tree with a negative row": (BALL, with_search(1, lambda order: put(order, 3, -1))),
    "a search tree with rows after the last": (KD, with_search(2, with_field("idx_end", 10**9))),
    "a search tree without leaves": (KD, with_search(2, with_field("is_leaf", 0))),
    "a search tree with leaves of no rows": (KD, with_search(4, lambda _: 0)),
    "a search tree with another number of levels": (KD, with_search(5, lambda levels: levels + 1)),
    "a search tree with fewer bounds": (KD, with_search(3, lambda bounds: bounds[:, :1].copy())),
    "a search with fewer targets": (KD, with_attribute("_y", lambda targets: targets[:5])),
    "centers of clusters of fewer features": (CLUSTERS, with_fewer_center_columns),
    "a search for rows of fewer features": (KD, with_attribute("_fit_X", lambda rows: rows[:, :2])),
    "a quantile forest with a row far out of range": (LEAVES, with_leaves(lambda leaves: leaves + 10**9)),
    "a quantile forest with a negative row": (LEAVES, with_leaves(lambda leaves: leaves - 1)),
    "a quantile forest with fewer leaves": (LEAVES, with_leaves(lambda leaves: leaves[:, :2].copy())),
    "a quantile forest with fewer trees": (LEAVES, with_leaves(lambda leaves: leaves[:1])),
    "a quantile forest in another order": (LEAVES, with_leaves(np.asfortranarray)),
    "fewer support vectors": (SVR(), with_attribute("support_vectors_", lambda rows: rows[:5])),
    "support vectors beyond the columns of a kernel": (SVR(), with_columns_of_a_kernel),
    "norms of rows in the metric of a search": (
        KNeighborsRegressor(3, algorithm="brute"),
        with_attribute("effective_metric_params_", lambda _: {"Y_norm_squared": np.zeros(1)}),
    ),
    "thousands of threads": (KD, with_attribute("n_jobs", lambda _: 10**6)),
    "fewer weights of support vectors": (SVR(), with_attribute("_dual_coef_", lambda weights: weights[:, :5])),
    "support vectors of fewer features": (SVR(), with_attribute("support_vectors_", lambda rows: rows[:, :2])),
    "a spline with fewer coefficients": (SPLINES, with_spline(lambda coefficients: coefficients[:2])),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_models_are_errors_before_they_predict(case, tmp_path):
    """Each of these indices would make compiled code crash, read foreign memory or never end."""
    model, change = FORGED[case]
    X = CODES if model is CATEGORIES else DATA.X
    saved_predictor(tmp_path / "model", model, X=X)
    ConformalRegressor.load(tmp_path / "model").predict(X)
    saved_predictor(tmp_path / "model", model, change, X=X)
    with pytest.raises(ValueError, match=r"model is not a predictor file .* no model could have been saved with"):
        ConformalRegressor.load(tmp_path / "model")


def test_hashing_into_no_features_is_an_error(tmp_path):
    """It would divide by zero."""
    words = np.array([["a", "b"], ["c", "a"]] * 60, dtype=object)
    model = make_pipeline(FeatureHasher(4, input_type="string"), LinearRegression())
    saved_predictor(tmp_path / "model", model, lambda pipeline: pipeline[0].set_params(n_features=0), X=words)
    with pytest.raises(ValueError, match="no model could have been saved with so few features of hashes"):
        ConformalRegressor.load(tmp_path / "model")


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(n_estimators=2, init=make_pipeline(FunctionTransformer(np.log), LinearRegression())),
        GradientBoostingRegressor(n_estimators=2, init="zero"),
        SVR(kernel=laplacian_kernel),
        SVR(kernel="linear"),
        KNeighborsRegressor(1, algorithm="brute", metric="minkowski", p=3),
    ],
    ids=["logarithmic start", "start at zero", "kernel that is a function", "linear kernel", "brute search"],
)
def test_rare_settings_are_no_forgery(model, tmp_path):
    regressor = ConformalRegressor(model, random_state=0).fit(DATA.X + 1, DATA.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the names of classes
        regressor.save(tmp_path / "model")
    loaded = ConformalRegressor.load(tmp_path / "model", trusted=["sklearn.metrics.pairwise.laplacian_kernel"])
    np.testing.assert_array_equal(loaded.predict(DATA.X + 1), regressor.predict(DATA.X + 1))


@pytest.mark.parametrize("suffix", [".npy", ".bin"])
def test_a_tree_whose_nodes_have_no_axis_is_an_error_before_it_is_restored(suffix, tmp_path):
    """Restoring it would crash. Numbers of numpy have no axis either, and may stand next to trees."""

    def change(members):
        (nodes,) = (name for name, held in members.items() if b"left_child" in held[:200])
        np.save(scalar := io.BytesIO(), np.float64(1))
        del members[nodes]
        renamed = nodes.replace(".npy", suffix)
        members[renamed] = scalar.getvalue()
        members["schema.json"] = members["schema.json"].replace(nodes.encode(), renamed.encode())

    saved_predictor(tmp_path / "model", make_pipeline(StandardScaler(), DecisionTreeRegressor()))
    ConformalRegressor.load(tmp_path / "model").predict(DATA.X)
    rewrite(tmp_path / "model", objects=change)
    with pytest.raises(ValueError, match="a tree has an array without an axis"):
        ConformalRegressor.load(tmp_path / "model")


@pytest.mark.parametrize("column", [10**6, -1])
def test_forged_sparse_matrices_are_errors_also_if_they_are_trusted(column, tmp_path):
    def change(model):
        model.matrix_ = csr_matrix(np.eye(3))
        model.matrix_.indices[1] = column

    with pytest.warns(UserWarning, match="csr_matrix"):
        saved_predictor(tmp_path / "model", LinearRegression(), change)
    with pytest.raises(ValueError, match="model is not a predictor file"):
        ConformalRegressor.load(tmp_path / "model", trusted=["scipy.sparse._csr.csr_matrix"])


NETWORKS = {
    "a layer with fewer inputs": lambda model: model.layers_[0]._replace(weight=model.layers_[0].weight[:, :2]),
    "a layer with fewer outputs": lambda model: model.layers_[0]._replace(weight=model.layers_[0].weight[:, :, :2]),
    "a layer without networks": lambda model: model.layers_[0]._replace(weight=model.layers_[0].weight[0]),
    "a weight that is not finite": lambda model: model.layers_[0]._replace(bias=model.layers_[0].bias * np.inf),
}


class TestNetworks:
    @pytest.mark.parametrize("case", NETWORKS)
    def test_layers_that_do_not_fit_together_are_errors(self, case, tmp_path):
        model = MeanVarianceNetwork(**NETWORK).fit(DATA.X, DATA.y)
        model.layers_ = (NETWORKS[case](model), *model.layers_[1:])
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match=r"model is not a network file .* it is corrupt: .* network"):
            MeanVarianceNetwork.load(tmp_path / "model")

    def test_outputs_and_scales_must_be_those_of_the_network(self, tmp_path):
        model = QuantileNetwork(**NETWORK).fit(DATA.X, DATA.y)
        (*hidden, last), scaling = model.layers_, model.scaling_
        model.layers_ = (*hidden, last._replace(weight=last.weight[:, :, :1], bias=last.bias[:, :, :1]))
        model.save(tmp_path / "outputs")
        model.layers_, model.scaling_ = (*hidden, last), replace(scaling, X_mean=scaling.X_mean[:2])
        model.save(tmp_path / "scales")
        for name, message in {"outputs": "must have 3 outputs; got 1", "scales": "must be those of 3 features"}.items():
            with pytest.raises(ValueError, match=message):
                QuantileNetwork.load(tmp_path / name)

    def test_the_members_of_an_ensemble_must_be_as_many_in_each_layer(self, tmp_path):
        model = DeepEnsemble(MeanVarianceNetwork(**NETWORK), members=3, random_state=0).fit(DATA.X, DATA.y)
        first, *others = model.layers_
        model.layers_ = (first._replace(weight=first.weight[:2]), *others)
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match="the layers are those of different numbers of networks"):
            DeepEnsemble.load(tmp_path / "model")


def histogram_state(tmp_path):
    """Return the file of a calibration that keeps histograms, with an exact score in each."""
    path = tmp_path / "saved"
    table = pa.table({"y": DATA.y, "c": DATA.X[:, 0], "g": ["a", "b"] * 60})
    calibrate_table(table, target="y", center="c", group="g").save(path)
    with ZipFile(path) as archive:
        return path, {
            name: np.load(io.BytesIO(archive.read(f"arrays/{name}.npy")))
            for name in ("indices", "counts", "exact_ranks", "exact_scores", "cells", "lengths")
        }


COUNTED = {
    "an exact score outside of its count": ("exact_scores", lambda scores: scores * 1e6, "not where its histogram"),
    "exact scores in another order": ("exact_ranks", lambda ranks: ranks[:, ::-1], "other groups|lengths"),
    "a rank after the last": ("exact_ranks", lambda ranks: ranks + np.array([0, 999]), "not in the order of their"),
    "a score that is no number": ("exact_scores", lambda scores: scores * np.nan, "not in the order of their ranks"),
    "counts that are not whole": ("counts", lambda counts: counts + 0.5, "counts must be whole numbers"),
    "negative counts": ("counts", lambda counts: -counts, "are not those of scores"),
    "counts beyond all numbers": ("counts", lambda counts: counts + 2**62, "are not those of scores"),
    "positions beyond infinity": ("indices", lambda indices: indices + 2**60, "are not those of scores"),
    "positions in another order": ("indices", lambda indices: indices[::-1], "are not those of scores"),
    "histograms of another group": ("cells", lambda cells: cells + 1, "its histograms are of other groups"),
    "twice the same group": ("cells", lambda cells: cells * 0, "its histograms are of other groups"),
    "negative lengths": ("lengths", lambda lengths: -lengths, "the lengths of the histograms"),
    "other lengths": ("lengths", lambda lengths: lengths + 1, "the lengths of the histograms"),
}


class TestCalibrations:
    @pytest.mark.parametrize("case", COUNTED)
    def test_histograms_are_checked_against_themselves(self, case, tmp_path):
        name, change, message = COUNTED[case]
        path, state = histogram_state(tmp_path)
        rewrite(path, arrays={name: change(state[name])})
        with pytest.raises(ValueError, match=f"saved is not a calibration file .*({message})"):
            Calibration.load(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda group: group.update(first=2**60), "are not those of scores"),
            (lambda group: group.update(first=0.5), "indices must be whole numbers"),
            (lambda group: group["counts"].__setitem__(0, group["counts"][0] + 0.5), "do not belong together|whole"),
            (lambda group: group["exact"][0].__setitem__(1, 1e9), "not where its histogram|not in the order"),
        ],
    )
    def test_calibrations_of_version_4_are_checked_in_the_same_way(self, change, message, tmp_path):
        data = json.loads((FILES / "v4" / "calibration_table.evencover").read_text(encoding="utf-8"))
        change(data["groups"][0])
        (tmp_path / "saved").write_text(json.dumps(data))
        with pytest.raises(ValueError, match=f"saved is not a calibration file .*({message})"):
            Calibration.load(tmp_path / "saved")

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ({"nonconformity": []}, "nonconformity must have one score for each of the groups"),
            ({"nonconformity": [["a", 1]]}, "is not a calibration file"),
            ({"nonconformity": ["Residual"]}, "is not a calibration file"),
            ({"nonconformity": {"name": ["Residual"], "settings": {}}}, "is not a calibration file"),
            ({"values": {"labels": "ab", "rules": [], "n_edge_bits": 0}}, "labels must be a list"),
            ({"values": {"labels": [["a"]], "rules": [], "n_edge_bits": 0}}, "labels must be a list"),
            ({"values": {"n_edge_bits": 10**6}}, "n_edge_bits must be a whole number from 0 to 32"),
            ({"values": {"n_edge_bits": 0.5}}, "n_edge_bits must be a whole number from 0 to 32"),
        ],
    )
    def test_headers_are_checked(self, entries, message, tmp_path):
        calibrate(DATA.y, DATA.X[:, 0], groups=["a", "b"] * 60).save(tmp_path / "saved")
        rewrite(tmp_path / "saved", **entries)
        with pytest.raises(ValueError, match=f"saved.*{message}"):
            Calibration.load(tmp_path / "saved")


class TestSizes:
    def members(self, path):
        with ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def test_an_archive_must_not_unpack_to_much_more_than_it_has(self, tmp_path, monkeypatch):
        """The limit is 268 MB, or a thousand times the file; a setting replaces both."""
        path = tmp_path / "saved"
        calibrate(DATA.y, DATA.X[:, 0]).save(path)
        with ZipFile(content := io.BytesIO(), "w", ZIP_DEFLATED) as archive:
            for name, member in self.members(path).items():
                archive.writestr(name, member)
            archive.writestr("arrays/more.npy", bytes(2**28))
        path.write_bytes(sealed(content.getvalue()))
        message = r"saved: its content takes 268 MB of memory from 0\.26\d* MB in the file; the limit is 268 MB"
        with pytest.raises(ValueError, match=message + r" \(1000 times .* variable EVENCOVER_MAX_GB"):
            Calibration.load(path)
        monkeypatch.setenv("EVENCOVER_MAX_GB", "1")
        with pytest.raises(ValueError, match="saved is not a calibration file"):  # the member is no array
            Calibration.load(path)
        monkeypatch.setenv("EVENCOVER_MAX_GB", "much")
        with pytest.raises(ValueError, match=r"^the environment variable EVENCOVER_MAX_GB must .* number; got 'much'"):
            Calibration.load(path)

    def test_a_header_must_not_claim_more_than_its_member_has(self, tmp_path):
        """A member of a few bytes that claims 10^15 numbers is an error before memory is taken."""
        path = tmp_path / "saved"
        calibrate(DATA.y, DATA.X[:, 0]).save(path)
        np.lib.format.write_array_header_1_0(
            claim := io.BytesIO(), {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
        )
        members = self.members(path) | {"arrays/scores.npy": claim.getvalue() + bytes(8)}
        path.write_bytes(sealed(zipped(members)))
        with pytest.raises(ValueError, match="declares an array of 8000000000000000 bytes, and holds 8"):
            Calibration.load(path)

    def test_objects_must_not_be_compressed(self, tmp_path):
        """Skops does not compress; a file of 69 kB could unpack to 6 GB."""
        path = tmp_path / "saved"
        saved_predictor(path, LinearRegression())
        with ZipFile(io.BytesIO(self.members(path)["objects.skops"])) as held:
            objects = {name: held.read(name) for name in held.namelist()}
        with ZipFile(content := io.BytesIO(), "w", ZIP_DEFLATED) as archive:
            for name, member in objects.items():
                archive.writestr(name, member)
        path.write_bytes(sealed(zipped(self.members(path) | {"objects.skops": content.getvalue()})))
        with pytest.raises(ValueError, match=r"its member .* is compressed"):
            ConformalRegressor.load(path)


@pytest.mark.parametrize("content", ["[]", "null", "7", '{"missing_values": 3}', '{"missing_values": [1]}', "{"])
def test_results_that_are_no_results_are_one_error(content, tmp_path, capsys):
    """The folder of a run with other JSON in its results.json."""
    saved_predictor(tmp_path / "predictor.evencover", LinearRegression())
    (tmp_path / "results.json").write_text(content)
    (tmp_path / "new.csv").write_text("a,b,c\n1,2,3\n")
    status, _, error = run_command_line(capsys, "predict", str(tmp_path), str(tmp_path / "new.csv"))
    assert status == 1
    assert re.fullmatch(r"evencover: .*results\.json is not a results file .*", error)


def test_a_model_that_cannot_predict_is_one_error(tmp_path, capsys):
    """Code in Python finds a wrong index itself."""
    table = pd.DataFrame(DATA.X, columns=["a", "b", "c"])
    model = make_pipeline(BaggingRegressor(LinearRegression(), 2, random_state=0))
    saved = ConformalRegressor(model, random_state=0).fit(table, DATA.y)
    saved.estimator_[0].estimators_features_[0][:] = 9
    saved.save(tmp_path / "model", level=0.9)
    (tmp_path / "new.csv").write_text("a,b,c\n1,2,3\n")
    status, _, error = run_command_line(capsys, "predict", str(tmp_path / "model"), str(tmp_path / "new.csv"))
    assert status == 1
    assert re.fullmatch(r"evencover: the model in .*model cannot predict these rows \(IndexError: .*", error)
