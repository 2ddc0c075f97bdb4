"""What compiled code takes for granted about the objects in a file, checked before they predict anything.

skops restores only classes that are trusted, and does not look at their contents. Trees, neighbour searches and support
vectors index arrays without looking at their sizes: with a wrong index they would read foreign memory, crash or never
end. Code in Python, and numpy, raise an error in such cases, so its objects need no checks here.

A class of this package that relies on more than the types of its attributes has a method ``check_restored``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_JOBS = 1024
_OPTIONS_OF_CHECKS = {"dtype", "ensure_all_finite", "force_all_finite"}  # of the step that passes numbers to boosting
_ENCODING = "such an encoding of categories"
_PLAIN = (str, int, float, bool, bytes, type(None))


class UnsoundObjectError(ValueError):
    """An object in a file is not one that could have been written."""


def check_objects(objects: Any) -> None:
    """Raise UnsoundObjectError unless compiled code can use all objects, at any depth, without harm."""
    values = list(_parts(objects))
    for value in values:
        _check_attributes(value)
    for by_class in (_CHECKS, _TRIALS):
        found: dict[type, list[Callable[[Any], None]]] = {}
        for value in values:
            kind = type(value)
            if kind not in found:
                found[kind] = _checks_of(kind, by_class)
            for check in found[kind]:
                check(value)
    for value in values:
        if hasattr(type(value), "check_restored"):
            value.check_restored()


def _checks_of(kind: type, by_class: Mapping[str, Callable[[Any], None]]) -> list[Callable[[Any], None]]:
    """Return the checks of a class and of its base classes."""
    names = (f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__)
    return [by_class[name] for name in names if name in by_class]


def _parts(objects: Any) -> Iterator[Any]:
    """Yield every object but plain values and arrays of numbers, each once."""
    waiting, seen = [objects], set()
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _PLAIN or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            waiting.extend(value.ravel().tolist() if value.dtype.hasobject else ())
            continue
        yield value
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set):
            waiting.extend(value)
        elif kind is partial:
            waiting.extend((value.func, value.args, value.keywords))
        held = getattr(value, "__dict__", None)
        waiting.extend(held.values() if isinstance(held, dict) else ())


def _check_attributes(value: Any) -> None:
    """Check that an object keeps the methods of its class, and that it starts no thousands of threads."""
    if type(value) is partial and getattr(value.func, "__name__", "") == "check_array":
        _require(not value.args and value.keywords.keys() <= _OPTIONS_OF_CHECKS, "such options of check_array")
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict) or isinstance(value, type):
        return
    kind = type(value)
    for name, attribute in held.items():
        if callable(attribute) and callable(getattr(kind, name, None)):
            raise UnsoundObjectError(f"no model could have been saved with a method {name} of its own")
    n_jobs = held.get("n_jobs")
    _require(not isinstance(n_jobs, int | np.integer) or abs(int(n_jobs)) <= _MAX_JOBS, f"{n_jobs} jobs")


def _require(is_sound: Any, what: str) -> None:
    if not is_sound:
        raise UnsoundObjectError(f"no model could have been saved with {what}")


def _are_within(indices: NDArray[Any], low: Any, high: Any) -> bool:
    """Return whether low <= index < high for all indices."""
    return bool(np.all((indices >= low) & (indices < high)))


def _check_tree(tree: Any) -> None:
    """Check a decision tree of scikit-learn: children come after their parents, so no path is a cycle."""
    _require(0 < tree.node_count <= tree.capacity, "a tree without nodes")  # before any node is read
    nodes = tree.__getstate__()["nodes"]
    is_leaf = nodes["left_child"] == -1
    parents = np.flatnonzero(~is_leaf)
    for name in ("left_child", "right_child"):
        _require(_are_within(nodes[name][parents], parents + 1, len(nodes)), "such children in a tree")
    _require(_are_within(nodes["feature"][parents], 0, tree.n_features), "such features in a tree")
    _require(np.isfinite(tree.value).all(), "values in a tree that are not finite")


def _check_boosting(model: Any) -> None:
    """Check the trees of histogram gradient boosting, all at once."""
    rounds = vars(model).get("_predictors", ())
    trees = list(chain.from_iterable(rounds))
    if not trees:
        return
    n_features, mapper = model._n_features, model._bin_mapper
    _require({len(each) for each in rounds} == {model.n_trees_per_iteration_}, "so many trees a round")
    _require(n_features == _n_columns(model), "so many features of trees")
    is_categorical = np.asarray(mapper.is_categorical_, dtype=bool)
    _require(is_categorical.shape == (n_features,) == (len(mapper.bin_thresholds_),), "such bins of features")
    for tree in trees:
        _require(type(tree).__name__ == "TreePredictor" and tree.nodes.ndim == 1 and len(tree.nodes), "such trees")
        _require(tree.raw_left_cat_bitsets.shape[1:] == (8,), "such categories in trees")
    sizes = np.array([len(tree.nodes) for tree in trees])
    nodes = np.concatenate([tree.nodes for tree in trees])
    place, size = np.arange(len(nodes)) - np.repeat(np.cumsum(sizes) - sizes, sizes), np.repeat(sizes, sizes)
    _require(np.isfinite(nodes["value"]).all(), "values in a tree that are not finite")
    n_sets = np.repeat([len(tree.raw_left_cat_bitsets) for tree in trees], sizes)
    inner = nodes["is_leaf"] == 0
    nodes, place, size, n_sets = nodes[inner], place[inner], size[inner], n_sets[inner]
    for name in ("left", "right"):
        _require(_are_within(nodes[name].astype(np.int64), place + 1, size), "such children in a tree")
    _require(_are_within(nodes["feature_idx"], 0, n_features), "such features in a tree")
    splits = nodes["is_categorical"] != 0
    _require(is_categorical[nodes["feature_idx"][splits]].all(), "such categorical features in a tree")
    _require(_are_within(nodes["bitset_idx"][splits].astype(np.int64), 0, n_sets[splits]), "such categories in a tree")


def _n_columns(model: Any) -> int:
    """Return how many columns the trees of histogram gradient boosting get."""
    if (encoding := model._preprocessor) is None:
        return int(model.n_features_in_)
    steps = [each for each in encoding.transformers_ if each[1] != "drop"]
    _require({type(step).__name__ for _, step, _ in steps} <= {"OrdinalEncoder", "FunctionTransformer"}, _ENCODING)
    for function in (step.func for _, step, _ in steps if hasattr(step, "func")):
        _require(type(function) is partial and function.func.__name__ == "check_array", _ENCODING)
    masks = {name: np.asarray(mask) for name, _, mask in steps}
    _require(all(mask.dtype.kind == "b" for mask in masks.values()), _ENCODING)
    sizes = {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}
    _require(all(len(encoding._transformer_to_input_indices[name]) == sizes[name] for name in sizes), _ENCODING)
    return sum(sizes.values())


def _check_tree_features(model: Any) -> None:
    """Check that a model passes its tree as many features as the tree has."""
    if "tree_" in vars(model):
        _require(model.tree_.n_features == model.n_features_in_, "so many features of a tree")


def _check_members(model: Any) -> None:
    """Check that a forest, or gradient boosting, passes its trees as many features as they have."""
    members = np.asarray(vars(model).get("estimators_", ()), dtype=object)
    for member in members.ravel().tolist():
        _require(type(member.tree_).__module__ == "sklearn.tree._tree", "such members of a forest")
        _require(member.tree_.n_features == model.n_features_in_, "so many features of a tree")


def _check_gradient_boosting(model: Any) -> None:
    """Check that gradient boosting has one tree a round, as for one target, and the features of its trees."""
    _check_members(model)
    members = vars(model).get("estimators_")
    _require(members is None or members.shape[1:] == (1,), "several trees a round")


def _try_gradient_boosting(model: Any) -> None:
    """Check that what gradient boosting begins with has one column, to which its trees add.

    It may be any model, which need not accept any row: it is tried with three, and must accept one of them.
    """
    if "estimators_" not in vars(model):
        return
    shapes = set()
    for number in (0.0, 1.0, 0.5):
        with suppress(ValueError), np.errstate(all="ignore"):
            shapes.add(model._raw_predict_init(np.full((2, model.n_features_in_), number, dtype=np.float32)).shape)
    _require(shapes == {(2, 1)}, "such a first round")


def _check_neighbor_tree(tree: Any) -> None:
    """Check the balanced tree of a neighbour search: node i has the children 2i + 1 and 2i + 2, or rows."""
    data, order, nodes, bounds, leaf_size, n_levels, n_nodes, *_ = tree.__getstate__()
    n, place = len(data), np.arange(len(nodes))
    _require(leaf_size > 0 and 0 < n_levels < 64 and len(nodes) == 2**n_levels - 1, "such levels of a search tree")
    _require(n > 0 and len(nodes) == n_nodes > 0 and bounds.shape[1:] == (n_nodes, data.shape[1]), "such a search tree")
    _require(len(bounds) == (2 if type(tree).__name__.startswith("KD") else 1), "such bounds in a search tree")
    _require(order.shape == (n,) and _are_within(order, 0, n), "such rows in a search tree")
    _require((nodes["is_leaf"] | (2 * place + 2 < n_nodes)).all(), "such children in a search tree")
    start, end = nodes["idx_start"], nodes["idx_end"]
    _require(_are_within(start, 0, end + 1) and _are_within(end, 0, n + 1), "such rows in a search tree")


def _check_quantile_forest(forest: Any) -> None:
    """Check the leaves of a quantile forest: the numbers of training rows, counted from 1; 0 is no row."""
    targets, leaves = np.asarray(forest.y_train), np.asarray(forest.y_train_leaves)
    _require(targets.ndim == 2 and targets.size and leaves.ndim == 4, "such targets of a forest")
    _require(leaves.shape[2] == len(targets) and leaves.flags.c_contiguous, "such leaves of a forest")
    _require(_are_within(leaves, 0, targets.shape[1] + 1), "such rows in the leaves of a forest")
    _require(np.isfinite(targets).all(), "targets of a forest that are not finite")


def _check_quantile_forest_trees(model: Any) -> None:
    """Check that a quantile forest has leaves for each node of its trees."""
    if "forest_" not in vars(model):
        return
    leaves, trees = np.shape(model.forest_.y_train_leaves), model.estimators_
    _require(len(trees) == leaves[0], "so many trees of a forest")
    _require(max(each.tree_.node_count for each in trees) <= leaves[1], "such leaves of a forest")


def _check_support_vectors(model: Any) -> None:
    """Check the shapes of a support vector machine."""
    if "support_vectors_" not in vars(model):
        return
    weights, n, n_classes = model._dual_coef_, len(model.support_), len(model._n_support)
    if model.kernel == "precomputed" or callable(model.kernel):  # which looks up columns of the kernel, not rows
        _require(_are_within(model.support_, 0, model.shape_fit_[0]), "such support vectors")
        rows = vars(model).get("_BaseLibSVM__Xfit")
        _require(rows is None or rows.shape[0] == model.shape_fit_[0], "so many rows of a kernel")
    else:
        _require(model.support_vectors_.shape == (n, model.n_features_in_), "such support vectors")
    _require(weights.shape == (n_classes - 1, n), "such weights of support vectors")
    _require(weights.size == (n_classes - 1) * n, "so few weights of support vectors")  # a sparse matrix may have fewer
    _require(len(model._intercept_) == n_classes * (n_classes - 1) // 2, "such intercepts of support vectors")


def _check_rows_of_search(model: Any) -> None:
    """Check that the rows of a neighbour search have the features that new rows have, and one target each."""
    held = vars(model)
    if "_fit_X" in held:
        _check_metric(model)
        _require(model._fit_X.shape == (model.n_samples_fit_, model.n_features_in_), "such rows to search")
        _require(len(held.get("_y", model._fit_X)) == model.n_samples_fit_, "so many targets of rows to search")


def _check_metric(model: Any) -> None:
    """Check that a neighbour search does not bring the norms of rows, which belong to the rows of a prediction."""
    norms = {"X_norm_squared", "Y_norm_squared"} & {*(vars(model).get("effective_metric_params_") or {})}
    _require(not norms, "norms of rows in a metric")


def _check_hashing(model: Any) -> None:
    """Check that hashing divides by a positive number of features."""
    _require(isinstance(model.n_features, int | np.integer) and model.n_features > 0, "so few features of hashes")


def _check_centers(model: Any) -> None:
    """Check that the centers of clusters have the features that new rows have."""
    if "cluster_centers_" in vars(model):
        _require(np.shape(model.cluster_centers_)[1:] == (model.n_features_in_,), "such centers of clusters")


def _check_spline(spline: Any) -> None:
    """Check that a spline has a coefficient for each of its basis functions."""
    n = len(spline.t) - spline.k - 1
    _require(spline.k >= 0 and n > spline.k and len(spline.c) >= n, "such coefficients of a spline")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "quantile_forest._quantile_forest.BaseForestQuantileRegressor": _check_quantile_forest_trees,
    "quantile_forest._quantile_forest_fast.QuantileForest": _check_quantile_forest,
    "scipy.interpolate._bsplines.BSpline": _check_spline,
    "scipy.sparse._base._spbase": lambda matrix: matrix.check_format(full_check=True),
    "sklearn.cluster._kmeans._BaseKMeans": _check_centers,
    "sklearn.ensemble._forest.BaseForest": _check_members,
    "sklearn.ensemble._gb.BaseGradientBoosting": _check_gradient_boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": _check_boosting,
    "sklearn.feature_extraction._hash.FeatureHasher": _check_hashing,
    "sklearn.feature_extraction.text.HashingVectorizer": _check_hashing,
    "sklearn.neighbors._ball_tree.BallTree": _check_neighbor_tree,
    "sklearn.neighbors._base.NeighborsBase": _check_rows_of_search,
    "sklearn.neighbors._kd_tree.KDTree": _check_neighbor_tree,
    "sklearn.svm._base.BaseLibSVM": _check_support_vectors,
    "sklearn.tree._classes.BaseDecisionTree": _check_tree_features,
    "sklearn.tree._tree.Tree": _check_tree,
}
_TRIALS: dict[str, Callable[[Any], None]] = {  # they let models predict, so they come after all checks
    "sklearn.ensemble._gb.BaseGradientBoosting": _try_gradient_boosting,
}
