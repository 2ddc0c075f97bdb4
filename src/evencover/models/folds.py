"""Rows of folds and bootstrap samples, the models that are fitted on them, and predictions out of fold."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from threading import Lock, Thread
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import (
    BaseShuffleSplit,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.parallel import Parallel, delayed

from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, check_count, got_text, is_count, is_number
from evencover.inputs.frames import take
from evencover.models.estimators import fitted_clone, parts_of_arguments, predictions_of, structure_params
from evencover.predictions import ALL_PARTS, Prediction, averaged
from evencover.scores.target_scales import on_target_scale

_UNCHANGED = FunctionTransformer()
_CV_RULE = "cv must be at least 2 folds, a splitter, or pairs of training and test positions"


@dataclass(frozen=True, eq=False)
class Splits:
    """The rows that each model is fitted on, and the rows that it predicts, as positions.

    Parameters
    ----------
    training, test : tuple of ndarray of int
        The rows that each model is fitted on, and those that it predicts.
    random : bool
        Whether they were drawn at random or leave out every row in turn, so that they depend neither on the features
        nor on the targets, whatever the order of the rows is.
    left_out : ndarray of bool, shape (n, B), optional
        Which rows each of B bootstrap samples leaves out.
    """

    training: tuple[IntArray, ...]
    test: tuple[IntArray, ...]
    random: bool = True
    left_out: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.training)

    def shuffled(self, rng: np.random.Generator) -> "Splits":
        """Return the same splits, with the training rows of each model in random order.

        A model may depend on the order of its rows. In random order it treats all of them alike, which guarantees need.
        """
        return replace(self, training=tuple(map(rng.permutation, self.training)))

    def are_complementary(self, clusters: IntArray) -> bool:
        """Return whether each model is fitted on all rows of the clusters that it does not predict.

        `clusters` has shape (n,). Without clusters, these are the numbers of the rows.
        """
        return all(
            np.array_equal(np.sort(training), np.flatnonzero(~np.isin(clusters, clusters[test])))
            for training, test in zip(self.training, self.test, strict=True)
        )

    def by_repetition(self, n: int) -> tuple[IntArray, IntArray]:
        """Return for each of R repetitions and n rows the model that predicts it, and the place of the prediction.

        Places count the test rows of all models, one model after the other. Both have shape (R, n), and are -1 for rows
        that no model predicts. Raise ValueError if some rows are predicted more often than others.
        """
        rows = np.concatenate(self.test)
        models = np.repeat(np.arange(len(self.test)), [len(each) for each in self.test])
        times = np.bincount(rows, minlength=n)
        n_times = int(times.max(initial=0))
        if not np.isin(times, (0, n_times)).all():
            raise ValueError(
                "cv must have each row in the test part of the same number of folds, or of none; got rows in the test "
                f"parts of {', '.join(map(str, np.unique(times)))} folds"
            )
        order = np.argsort(rows, kind="stable")
        result = np.full((2, n_times, n), -1)
        result[:, :, times > 0] = np.stack([models[order], order]).reshape(2, -1, n_times).swapaxes(1, 2)
        return result[0], result[1]


class RandomPairs(list[tuple[IntArray, IntArray]]):
    """Pairs of training and test positions that were drawn at random, without looking at features or targets."""


def cross_validation_splits(cv: Any, X: Any, y: FloatArray, clusters: IntArray | None, random_state: Any) -> Splits:
    """Return the splits of a number of folds, a splitter, or given pairs of training and test positions.

    Raise ValueError if a model would be fitted on a row that it predicts, or on another row of its cluster.
    """
    splitter = _checked_folds(cv, len(y), clusters, random_state)
    pairs = [_checked_pair(pair, len(y)) for pair in _pairs(splitter, X, clusters)]
    if not pairs:
        raise ValueError(f"{_CV_RULE}; got {cv!r}")
    for training, test in pairs:
        if np.isin(test, training).any():
            raise ValueError(f"cv must have no row in the training and the test part of the same fold; got {_text(cv)}")
        if clusters is not None and np.isin(clusters[test], clusters[training]).any():
            raise ValueError(f"cv must leave out all rows of a cluster together, such as GroupKFold; got {_text(cv)}")
    return Splits(tuple(training for training, _ in pairs), tuple(test for _, test in pairs), _is_random(splitter))


def checked_splitter(
    cv: Any, n_units: int, random_state: Any, *, clustered: bool, shuffle_clusters: bool = False
) -> Any:
    """Return the splitter for a number of folds, or a given splitter or pairs, or scikit-learn's default for None.

    There are at most as many folds as rows, or clusters. Folds of rows are shuffled, those of clusters only if
    requested.
    """
    if not is_number(cv):
        is_splitter = cv is None or isinstance(cv, Iterable) or hasattr(cv, "split")
        if isinstance(cv, type | str) or not is_splitter:
            raise ValueError(f"{_CV_RULE}; got {got_text(cv)}")
        return check_cv(cv)
    if not is_count(cv) or cv < 2:
        raise ValueError(f"{_CV_RULE}; got {cv!r}")
    if n_units < 2:
        raise ValueError(f"cross-fitting needs at least 2 rows, to leave one out; got {n_units} sample")
    shuffled = {"shuffle": True, "random_state": random_state} if shuffle_clusters or not clustered else {}
    return (GroupKFold if clustered else KFold)(min(int(cv), n_units), **shuffled)


def fixed_folds(n: int, n_folds: int, clusters: Any = None) -> IntArray:
    """Return the fold of each row, drawn at random and always the same; clusters stay together. Shape (n,)."""
    codes = np.arange(n) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1].ravel()
    order = np.random.default_rng(0).permutation(codes.max(initial=0) + 1)
    return np.asarray(order[codes] % n_folds)


class ForwardSplit:
    """One fold in the order of time: the second half of the rows is predicted from the first half.

    So the rows that are predicted are as far ahead as later rows will be. With several blocks, each predicted from all
    rows before it, models that cannot continue a trend were chosen, and their intervals were too narrow later on.
    """

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return 1."""
        return 1

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:  # noqa: ARG002
        """Yield the positions of earlier and of later rows; `groups` are the times. Rows of one time stay together."""
        times = np.asarray(groups)
        distinct = np.unique(times)
        if len(distinct) < 2:
            raise ValueError(f"times must have at least 2 different values; got {len(distinct)}")
        middle = np.sort(times)[len(times) // 2]
        later = times >= (middle if middle > distinct[0] else distinct[1])
        yield np.flatnonzero(~later), np.flatnonzero(later)


@dataclass(frozen=True, eq=False)
class RowStructure:
    """Which rows belong together, or in which order they follow each other, so that folds ask what predictions ask.

    Parameters
    ----------
    clusters : array-like of shape (n,), optional
        Rows with the same entry are in the same fold.
    times : array-like of shape (n,), optional
        Later rows are predicted from earlier rows (`ForwardSplit`).
    """

    clusters: Any = None
    times: Any = None

    def folds(self, cv: Any, n: int, random_state: Any) -> tuple[Any, Any]:
        """Return a splitter of n rows, and its argument `groups`; a given splitter stays as it is.

        Rows that are all of one time, or of one cluster, as those of a fold may be, are split at random.
        """
        if self.times is not None and is_count(cv) and len(np.unique(self.times)) > 1:
            return ForwardSplit(), np.asarray(self.times)
        clusters = self.clusters if self.clusters is not None and len(np.unique(self.clusters)) > 1 else None
        n_units = n if clusters is None else len(np.unique(clusters))
        return checked_splitter(cv, n_units, random_state, clustered=clusters is not None), clusters

    def part(self, rows: Any) -> "RowStructure":
        """Return the structure of some rows."""
        return RowStructure(*(None if each is None else np.asarray(each)[rows] for each in (self.clusters, self.times)))

    def arguments_of(self, estimator: Any) -> dict[str, Any]:
        """Return the arguments of `fit` that tell an estimator the structure, as far as it has such arguments.

        There are none with metadata routing, where only requested arguments are passed on.
        """
        if get_config()["enable_metadata_routing"]:
            return {}
        return structure_params(estimator, {"clusters": self.clusters, "times": self.times})


INDEPENDENT = RowStructure()


def leave_one_out(clusters: IntArray | None) -> Any:
    """Return the splitter that leaves out one row, or one cluster, at a time."""
    return LeaveOneOut() if clusters is None else LeaveOneGroupOut()


def bootstrap_splits(n_bootstraps: Any, n: int, clusters: IntArray | None, rng: np.random.Generator) -> Splits:
    """Return bootstrap samples of the rows, or clusters.

    The number of samples is random, Binomial(n_bootstraps, (1 − 1 / (n + 1)) ** n): the theorem of
    jackknife+-after-bootstrap is about samples of n + 1 rows, of which only those without the new row are used.
    """
    check_count(n_bootstraps, "n_bootstraps")
    codes = np.arange(n) if clusters is None else clusters
    n_units = int(codes.max(initial=-1)) + 1
    if n_units < 2:
        raise ValueError(f"cross-fitting needs at least 2 rows, to leave one out; got {n_units} sample")
    n_samples = int(rng.binomial(n_bootstraps, (1 - 1 / (n_units + 1)) ** n_units))
    samples = rng.integers(n_units, size=(n_samples, n_units)).astype(np.intp)  # np.bincount takes no int64 on 32 bits
    times = np.stack([np.bincount(sample, minlength=n_units)[codes] for sample in samples]) if n_samples else None
    if times is None or (times > 0).all():
        raise ValueError(
            f"n_bootstraps must be larger, so that some samples leave out rows; got {n_bootstraps}, of which "
            f"{n_samples} were drawn"
        )
    training = tuple(np.repeat(np.arange(n), each) for each in times)
    return Splits(training, (np.arange(n),) * n_samples, left_out=(times == 0).T)


def _checked_folds(cv: Any, n: int, clusters: IntArray | None, random_state: Any) -> Any:
    """Return given pairs, or the splitter. Raise ValueError if its folds cannot be used."""
    if isinstance(cv, Iterable) and not isinstance(cv, type | str) and not hasattr(cv, "split"):
        return cv
    n_units = n if clusters is None else int(clusters.max()) + 1
    splitter = checked_splitter(cv, n_units, random_state, clustered=clusters is not None, shuffle_clusters=True)
    if isinstance(splitter, BaseShuffleSplit):
        raise ValueError(f"cv must have each row in the same number of folds, such as KFold; got {cv!r}")
    if isinstance(splitter, StratifiedKFold | StratifiedGroupKFold | RepeatedStratifiedKFold):
        raise ValueError(f"cv must not depend on the targets, which would cost the guarantee; got {cv!r}. Use KFold")
    return splitter


def _pairs(splitter: Any, X: Any, clusters: IntArray | None) -> list[Any]:
    """Return given pairs, or those of a splitter. Raise ValueError if it needs clusters, and there are none."""
    if not hasattr(splitter, "split"):
        return list(splitter)
    try:
        return list(splitter.split(X, None, clusters))
    except ValueError as error:
        if clusters is None and "'groups' parameter should not be None" in str(error):
            raise ValueError(f"cv={splitter!r} needs clusters; pass them to fit") from error
        raise


def _is_random(splitter: Any) -> bool:
    """Return whether folds are drawn at random, or leave out every row or cluster in turn.

    A class that inherits from these splitters can do something else.
    """
    if type(splitter) in (KFold, GroupKFold):
        return bool(splitter.shuffle)
    return type(splitter) in (RandomPairs, RepeatedKFold, LeaveOneOut, LeavePOut, LeaveOneGroupOut, LeavePGroupsOut)


def _checked_pair(pair: Any, n: int) -> tuple[IntArray, IntArray]:
    """Return the training and test positions of a fold. Raise ValueError unless both are positions of n rows."""
    try:
        training, test = (np.asarray(part) for part in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{_CV_RULE}; got {pair!r:.60} in place of a pair") from None
    if not training.size or not test.size:
        raise ValueError(f"cv must have training and test rows in each fold; got {training.size} and {test.size}")
    for part in (training, test):
        if part.ndim != 1 or part.dtype.kind not in "iu" or part.min() < 0 or part.max() >= n:
            raise ValueError(f"cv must have positions of rows from 0 to {n - 1} in each fold; got {part!r:.60}")
    if len(np.unique(test)) < len(test):
        raise ValueError(f"cv must have each row at most once in the test part of a fold; got {test!r:.60}")
    return training.astype(np.intp), test.astype(np.intp)


def _text(cv: Any) -> str:
    """Return a splitter as text; of pairs, only their type."""
    return repr(cv) if is_number(cv) or hasattr(cv, "split") else f"a {type(cv).__name__}"


_SECONDS_BETWEEN_CHECKS = 0.5
_lock = Lock()
_watched: set[int] = set()


def end_with_parent(parent: int) -> None:
    """End this worker process when its parent, given by its process id, is gone; call it in the worker.

    A killed parent cannot stop its workers. It may be gone before this is called: a worker needs seconds to import
    what it works with. This has no effect in the parent itself, and on Windows.
    """
    started_by = parent_process()
    if started_by is None or started_by.pid != parent or sys.platform == "win32":
        return
    with _lock:
        if parent in _watched:
            return
        _watched.add(parent)
    Thread(target=_exit_without_parent, args=(parent,), daemon=True).start()


def _exit_without_parent(parent: int) -> None:
    """Wait until the parent is gone, then exit at once: the main thread may be busy or blocked."""
    is_child = os.getppid() == parent  # not if a fork server started this process, or if the parent is already gone
    while os.getppid() == parent if is_child else _exists(parent):
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)


def _exists(process: int) -> bool:
    """Return whether there is a process with this id."""
    try:
        os.kill(process, 0)  # no signal is sent
    except (ProcessLookupError, PermissionError):  # no such process, or one of another user that has its number now
        return False
    return True


class FoldEnsemble(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fitted models of the same kind as one: it predicts the mean of their predictions.

    Parameters
    ----------
    estimators : list of fitted regressors
        The models.
    """

    def __init__(self, estimators: list[Any]) -> None:
        self.estimators = estimators

    def predict(self, X: Any) -> FloatArray:
        """Return the mean prediction. Shape (n,)."""
        return np.asarray(np.mean([np.ravel(each.predict(X)) for each in self.estimators], axis=0))

    def predict_full(self, X: Any) -> Prediction:
        """Return the mean of each part of the predictions."""
        return mean_prediction(self.fold_predictions(X))

    def fold_predictions(self, X: Any) -> tuple[Prediction, ...]:
        """Return the prediction of each model; all have a scale of the target, if one has."""
        return tuple(with_scales([predictions_of(each, X) for each in self.estimators]))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def with_scales(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return predictions of several models, all with a scale of the target if one has: that of the target itself.

    So they can be joined although only some of the models were fitted to transformed targets. Scores and intervals on
    the scale of the target itself are the same as without a scale.
    """
    if len({each.scale is None for each in predictions}) == 1:
        return list(predictions)
    return [on_target_scale(each, _UNCHANGED, 0.0) if each.scale is None else each for each in predictions]


def mean_prediction(predictions: Sequence[Prediction]) -> Prediction:
    """Return the mean center, spread and bounds, without quantiles, of the predictions of several models."""
    return averaged(predictions, lambda values: values.mean(axis=0), ALL_PARTS[:-1])


def fit_folds(
    estimator: Any, X: Any, y: FloatArray, splits: Splits, fit_params: Mapping[str, Any], n_jobs: int | None
) -> tuple[list[Any], list[Prediction]]:
    """Return a model for each split, and what it predicts for its test rows; fitted in parallel with `n_jobs`."""
    tasks = (
        delayed(_fit_fold)(estimator, X, y, training, test, fit_params, os.getpid())
        for training, test in zip(splits.training, splits.test, strict=True)
    )
    n_jobs = min(effective_n_jobs(n_jobs), len(splits))  # a process without a task would not watch its parent
    models, predictions = zip(*Parallel(n_jobs=n_jobs)(tasks), strict=True)
    return list(models), with_scales(predictions)


def _fit_fold(
    estimator: Any,
    X: Any,
    y: FloatArray,
    training: IntArray,
    test: IntArray,
    fit_params: Mapping[str, Any],
    caller: int,
) -> tuple[Any, Prediction]:
    """Return the model of one split, and its prediction for the test rows; `caller` is the process that asked."""
    end_with_parent(caller)
    fitted = fitted_clone(estimator, take(X, training), y[training], parts_of_arguments(fit_params, len(y), training))
    return fitted, predictions_of(fitted, take(X, test))


def out_of_fold_predictions(
    estimator: Any,
    X: Any,
    y: FloatArray,
    splitter: Any,
    groups: Any,
    fit_params: Mapping[str, Any],
    done: Callable[[], None] = lambda: None,
) -> tuple[FloatArray, IntArray]:
    """Return what clones predict for the rows that they were not fitted on, and the fold of each row. Shape (n,).

    Rows that are only trained on, as the first ones in the order of time, have the prediction NaN and the fold −1.
    `groups` are the clusters or times that the splitter needs. `done` is called after each fold.
    """
    n = len(y)
    predicted, folds, times_predicted = np.full(n, np.nan), np.full(n, -1), np.zeros(n, dtype=int)
    for fold, (training, held_out) in enumerate(splitter.split(X, y, groups)):
        params = parts_of_arguments(fit_params, n, training)
        fitted = fitted_clone(estimator, take(X, training), y[training], params)
        predicted[held_out] = np.ravel(fitted.predict(take(X, held_out)))
        folds[held_out] = fold
        times_predicted[held_out] += 1
        done()
    if not isinstance(splitter, ForwardSplit) and not np.all(times_predicted == 1):
        raise ValueError(f"cv must have each row in the test part of exactly one fold; got {splitter!r}")
    return predicted, folds
