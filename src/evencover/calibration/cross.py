"""Calibration by folds: each score comes from a model that was fitted without its row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, floor
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from sklearn.base import BaseEstimator

from evencover.calibration.calibration import Calibration, Seed, Unseen, calibrate_rows
from evencover.calibration.cross_sets import (
    FoldScores,
    cells_of_folds,
    cells_of_means,
    depth_pieces,
    interval_ends,
    numbers_per_row,
    on_common_scale,
)
from evencover.calibration.group_thresholds import LearnedGroups
from evencover.calibration.stored_scores import warn_if_too_few
from evencover.groups import Groups, Label, rows_by_code
from evencover.guarantees import NEW_CLUSTERS, NEW_ROWS, FoldBound, Guarantee, numbered
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray
from evencover.intervals import Intervals, IntervalUnion, empty_intervals, infinite_intervals, stack_levels
from evencover.predictions import Prediction
from evencover.rows import Rows
from evencover.scores.evaluation import checked_scores, scores_by, scores_by_group
from evencover.scores.one_sided import side_of
from evencover.scores.score import Nonconformity, Score
from evencover.scores.support import Bounded, support_of, without_support
from evencover.taxonomies import Marginal, Taxonomy, fresh_taxonomy, is_by_features


@dataclass(frozen=True, eq=False)
class Folds:
    """Which models were fitted without which rows.

    Parameters
    ----------
    codes : ndarray of int, shape (R, n)
        The model that was fitted without a row, in each of R repetitions. After a bootstrap, the number of the row.
    n_models : int
        Number of models.
    left_out : ndarray of bool, shape (n, B), optional
        Whether a row is not in each of B bootstrap samples. The mean prediction of the models of these samples is that
        of the model without the row.
    clusters : ndarray of int, shape (n,), optional
        The cluster of each row, if rows of a cluster are left out together.
    complementary : bool
        Whether each model was fitted on all rows, or clusters, that are not in its fold.
    random : bool
        Whether the folds are known to depend neither on the features nor on the targets, as random ones do.
    """

    codes: IntArray
    n_models: int
    left_out: BoolArray | None = None
    clusters: IntArray | None = None
    complementary: bool = False
    random: bool = True

    def check(self, n: int) -> None:
        """Raise ValueError unless these are folds of n rows; for folds from a file."""
        n_codes = self.n_models if self.left_out is None else n
        codes, left_out, clusters = self.codes, self.left_out, self.clusters
        if codes.ndim != 2 or codes.shape[1] != n or not codes.size or codes.min() < 0 or codes.max() >= n_codes:
            raise ValueError(f"folds must be numbers below {n_codes} of {n} rows; got shape {codes.shape}")
        if left_out is not None and (left_out.shape != (n, self.n_models) or left_out.dtype != bool):
            raise ValueError(f"left_out must be true or false for {n} rows and {self.n_models} models")
        if clusters is not None and (clusters.shape != (n,) or clusters.dtype.kind not in "iu"):
            raise ValueError(f"clusters must be numbers of {n} rows")

    @property
    def weights(self) -> FloatArray:
        """The weight of each bootstrap model in the prediction without a row; all models if it is in all samples."""
        counted: BoolArray = np.asarray(self.left_out) | self.in_all_samples[:, None]
        return np.asarray(counted / counted.sum(axis=1, keepdims=True))

    @property
    def in_all_samples(self) -> BoolArray:
        """Whether no bootstrap sample leaves a row out. Shape (n,)."""
        if self.left_out is None:
            return np.zeros(self.codes.shape[1], dtype=bool)
        return np.asarray(~self.left_out.any(axis=1))

    def bound(self, members: IntArray) -> FoldBound | None:
        """Return the bound for a group that is a function of the features; None if nothing is proven.

        k is the number of folds with rows of the group. If each model is fitted on all other rows, in random order, k
        is also 1 if each model leaves out one row, and the number of rows in a fold if there are no groups and all
        folds have equal size. With clusters of m rows each, the numbers of folds and of left-out rows are multiplied by
        m; nothing is proven if the sizes of clusters differ. docs/cross_conformal_guarantee.md has the proofs.

        Parameters
        ----------
        members : ndarray of int
            Positions of the rows of the group.
        """
        size, repeats = self._cluster_size(members), len(self.codes)
        if size is None:
            return None
        k = max(Fraction(1), Fraction(len(np.unique(self.codes[:, members])), repeats)) * size
        block = self._symmetric_block(members, size)
        return FoldBound(len(members), k if block is None else min(k, Fraction(block)), repeats)

    def _cluster_size(self, members: IntArray) -> int | None:
        """Return the number of rows of each cluster in a group; None if clusters differ."""
        if self.clusters is None or not len(members):
            return 1
        sizes = np.unique(np.unique(self.clusters[members], return_counts=True)[1])
        return int(sizes[0]) if len(sizes) == 1 else None

    def _symmetric_block(self, members: IntArray, cluster_size: int) -> int | None:
        """Return the number of rows of the group that are left out at once, if it is the same for all models."""
        if self.left_out is not None or (self.complementary and self._leave_one_out):
            return cluster_size
        sizes = np.bincount(self.codes[0], minlength=self.n_models)
        is_balanced = len(self.codes) == 1 and len(members) == self.codes.shape[1] == len(sizes) * sizes.max()
        return int(sizes.max()) if self.complementary and is_balanced else None

    @property
    def _leave_one_out(self) -> bool:
        """Whether each model leaves out one row, or one cluster."""
        n_units = self.codes.shape[1] if self.clusters is None else len(np.unique(self.clusters))
        return all(len(np.unique(codes)) == n_units for codes in self.codes)


Method: TypeAlias = Literal["cv+", "jackknife+", "jackknife+-after-bootstrap", "cross-conformal"]

_MAX_NUMBERS = 1 << 20  # numbers in the predictions of new rows by the models that are evaluated at once


class CrossFolds(BaseEstimator):  # type: ignore[misc]
    """The settings of cross-conformal prediction; `CrossConformalRegressor` makes and uses it.

    Parameters
    ----------
    taxonomy : taxonomy, optional
        `Marginal()` by default.
    method : {"cv+", "jackknife+", "jackknife+-after-bootstrap", "cross-conformal"}
        How prediction sets follow from the scores; see `CrossConformalRegressor`.
    """

    def __init__(self, taxonomy: Taxonomy | None = None, method: Method = "cv+") -> None:
        self.taxonomy = taxonomy
        self.method = method

    def learn(
        self, repeats: Sequence[Rows], nonconformity: Nonconformity, folds: Folds, *, scale_from_rows: bool = False
    ) -> "FoldThresholds":
        """Return the scores of the rows, whose predictions are out of fold: one `Rows` for each repetition."""
        taxonomy = self.checked_taxonomy()
        groups = taxonomy.learn(repeats[0])
        calibration = calibrate_rows(repeats[0], nonconformity, groups)
        score = calibration.nonconformity
        others = (scores_by_group(score, rows, groups.codes, groups.labels) for rows in repeats[1:])
        scores = np.stack([calibration.scores, *(checked_scores(each, len(groups)) for each in others)])
        scores[:, folds.in_all_samples] = np.inf
        return FoldThresholds(taxonomy, calibration.with_scores(scores[0]), scores, folds, self.method, scale_from_rows)

    def checked_taxonomy(self) -> Taxonomy:
        """Return an unfitted copy of the taxonomy. Raise ValueError if it depends on the target."""
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        if getattr(taxonomy, "needs_target", False):
            raise ValueError(f"taxonomy must not depend on the target in cross-conformal prediction; got {taxonomy!r}")
        return taxonomy

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> "FoldThresholds":
        """Return the calibrated folds from what their `state` returned. Raise ValueError if its parts do not match."""
        if self.method not in get_args(Method):
            raise ValueError(f"method must be one of {get_args(Method)}; got {self.method!r}")
        calibration = Calibration.from_state(state, nonconformity)
        scores = checked_scores(np.ravel(state["fold_scores"]), np.size(state["folds"]), "folds")
        folds = Folds(
            np.asarray(state["folds"], dtype=np.intp),
            state["n_models"],
            state.get("left_out"),
            state.get("clusters"),
            state["complementary"],
            state.get("random_folds", self.method.startswith("jackknife+")),  # older files do not know it
        )
        folds.check(len(calibration.scores))
        return FoldThresholds(
            state["taxonomy"],
            calibration,
            scores.reshape(folds.codes.shape),
            folds,
            self.method,
            state["scale_from_rows"],
        )


@dataclass(frozen=True, eq=False)
class FoldThresholds(LearnedGroups):
    """Out-of-fold scores of n rows and the models they belong to, made by `CrossFolds`.

    For each calibration row i, [L_i, U_i] is the set of targets of a new row whose score, by the model that was fitted
    without row i, is at most the score of row i. Prediction sets and p-values compare a target with these n sets.

    Parameters
    ----------
    taxonomy, calibration
        The groups, by the mean prediction of all models, and the scores of the first repetition.
    fold_scores : ndarray of shape (R, n)
        The scores of each of R repetitions.
    folds : Folds
        The models they belong to.
    method : {"cv+", "jackknife+", "jackknife+-after-bootstrap", "cross-conformal"}
        How prediction sets follow from the scores.
    scale_from_rows : bool
        Whether the score has a scale that was computed from these rows.
    """

    fold_scores: FloatArray
    folds: Folds
    method: Method = "cv+"
    scale_from_rows: bool = False

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows of each group, rows on a learned edge included."""
        counts = self.calibration.groups.counts
        return {label: int(n) for label, n in zip(self.calibration.labels, counts, strict=True)}

    @cached_property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee: usually about the level, and at least the `FoldBound` of the group.

        Groups that depend on predictions have no lower bound, and neither have clusters of different sizes.
        """
        assumption = numbered(list(self._conditions()))
        bounds = {label: bound for label, bound in self._bounds.items() if bound is not None}
        proven = self._has_fixed_groups and len(bounds) == len(self.sizes)
        return Guarantee(
            "approximate",
            self.sizes,
            bound=bounds if proven else None,
            assumption=assumption,
            for_new_clusters=self.folds.clusters is not None,
        )

    def _conditions(self) -> Iterator[str]:
        """Yield the conditions of the guarantee."""
        yield NEW_ROWS if self.folds.clusters is None else NEW_CLUSTERS
        if not self.folds.random:
            yield "the folds depend neither on the targets nor on the features, also not by the order of the rows"
        if None in self._bounds.values():
            yield "there are many clusters, whose scores do not depend on their sizes"
        if not self._has_fixed_groups:
            yield "the models of the folds agree on the groups of nearly all rows"
        if self.scale_from_rows:
            yield "the scale in the score, the median spread of all rows, does not depend on a single row"
        if (support := support_of(self.nonconformity)) is not None:
            yield f"all targets are {support}"

    @cached_property
    def _bounds(self) -> dict[Label, FoldBound | None]:
        """Each group's bound, if groups depend on features alone; None if nothing is proven."""
        groups = enumerate(self.calibration.labels)
        return {label: self.folds.bound(np.flatnonzero(self._in_group(code))) for code, label in groups}

    @property
    def _has_fixed_groups(self) -> bool:
        """Whether the groups are the same for all models."""
        return len(self.calibration.labels) == 1 or is_by_features(self.taxonomy)

    def intervals(
        self, rows: Rows, levels: tuple[Fraction, ...], *, unseen: Unseen = "error"
    ) -> Intervals | IntervalUnion:
        """Return the prediction sets. Bounds of shape (m, L).

        With n calibration rows in a group and α = 1 − level, the upper bound is the ⌈(1 − α)(n + 1)⌉-th smallest U_i,
        and the lower bound is the ⌊α(n + 1)⌋-th smallest L_i. With "cross-conformal", the set is a union: the targets
        with a p-value above α.
        """
        groups = self._checked_groups(rows, unseen)
        codes = groups.codes_among(self.calibration.labels)
        unseen_labels = groups.labels_not_in(self.calibration.labels)
        known: dict[str, Any] = {
            "groups": groups,
            "guarantee": replace(self.guarantee, without=unseen_labels),
            "side": side_of(self.nonconformity),
        }
        warn_if_too_few(codes[codes >= 0], self.calibration.labels, list(self.sizes.values()), max(levels))
        by_level = [_Pieces(len(rows)) for _ in levels]
        for members, code in self._members(rows, codes, unseen):
            for pieces, found in zip(by_level, self._sets(rows[members], code, levels), strict=True):
                pieces.put(members, found)
        n_pieces = max(len(pieces.pieces) for pieces in by_level)
        stacked = [stack_levels([pieces.piece(i) for pieces in by_level], **known) for i in range(n_pieces)]
        return IntervalUnion(stacked) if self.method == "cross-conformal" else stacked[0]

    def p_values(self, rows: Rows, *, seed: Seed = None, unseen: Unseen = "error") -> FloatArray:
        """Return the p-value of each row's target, (1 + #{i : L_i <= y <= U_i}) / (n + 1). Shape (m,).

        P(p <= u) <= 1 − bound(1 − u) for every u, with the bound of the row's group in the guarantee; this is not
        proven for p-values with a `seed`. Repetitions count 1 / R each.
        """
        groups = self._checked_groups(rows, unseen)
        codes = groups.codes_among(self.calibration.labels)
        target = rows.required_target(by="a p-value")
        tie_shares = None if seed is None else np.random.default_rng(seed).random(len(rows))
        p_values = np.ones(len(rows))
        for members, code in self._members(rows, codes, unseen):
            own = self._fold_scores(code)
            at_least, larger = self._counts(rows[members], target[members], code, own)
            counted = 1 + at_least
            if tie_shares is not None:
                counted = larger + tie_shares[members] * (counted - larger)
            p_values[members] = counted / (1 + len(own) / len(self.fold_scores))
        return p_values

    def state(self) -> dict[str, Any]:
        """Return the taxonomy, the calibration, the scores and the folds, by name."""
        known = {"left_out": self.folds.left_out, "clusters": self.folds.clusters}
        return {
            "taxonomy": self.taxonomy,
            **self.calibration.state(),
            "fold_scores": self.fold_scores,
            "folds": self.folds.codes,
            "n_models": self.folds.n_models,
            "complementary": self.folds.complementary,
            "random_folds": self.folds.random,
            "scale_from_rows": self.scale_from_rows,
            **{name: values for name, values in known.items() if values is not None},
        }

    def _checked_groups(self, rows: Rows, unseen: Unseen) -> Groups:
        """Return the groups of new rows. Raise ValueError without fold predictions, or for unseen groups."""
        n_models = self.folds.n_models
        if len(rows.fold_predictions) != n_models:
            raise ValueError(
                f"rows must have the predictions of {n_models} models, from the method `rows` of this "
                f"CrossConformalRegressor; got {len(rows.fold_predictions)}"
            )
        groups = self.groups(rows)
        self.calibration.check_same_groups(groups, unseen)
        return groups

    def _members(self, rows: Rows, codes: IntArray, unseen: Unseen) -> Iterator[tuple[IntArray, int]]:
        """Yield the positions of rows of the same group, in blocks, with the code of the group.

        Unseen groups have the code -1, and are left out if their intervals are infinite.
        """
        numbers = numbers_per_row(rows.fold_predictions)
        for code, members in rows_by_code(codes + 1, len(self.calibration.labels) + 1):
            if code > 0 or unseen == "marginal":
                n_folds = max(1, len(self._fold_scores(code - 1).sizes))
                size = max(1, _MAX_NUMBERS // (n_folds * numbers))
                yield from ((members[start : start + size], code - 1) for start in range(0, len(members), size))

    def _score(self, code: int) -> Score:
        """Return the score of a group; of all rows for the code -1."""
        if not isinstance(self.nonconformity, Mapping):
            return self.nonconformity
        if code < 0:
            raise ValueError("unseen='marginal' needs one score for all groups; this calibration has one for each")
        return self.nonconformity[self.calibration.labels[code]]

    @cached_property
    def _fold_scores_cache(self) -> dict[int, FoldScores]:
        return {}

    def _fold_scores(self, code: int) -> FoldScores:
        """Return the scores of a group by fold; of all rows for the code -1."""
        if code not in self._fold_scores_cache:
            members = self._in_group(code)
            scores, folds = self.fold_scores[:, members].ravel(), self.folds.codes[:, members].ravel()
            n_folds = len(members) if self.folds.left_out is not None else self.folds.n_models
            self._fold_scores_cache[code] = FoldScores.of(scores, folds, n_folds)
        return self._fold_scores_cache[code]

    def _in_group(self, code: int) -> BoolArray:
        """Return whether calibration rows count for a group; all do for the code -1, or if there is one group."""
        codes = self.calibration.groups.codes
        return np.asarray((codes == code) | (code < 0 or len(self.calibration.labels) == 1))

    def _cells(self, rows: Rows, own: FoldScores, score: Score) -> Prediction:
        """Return the predictions of all models without a calibration row: K models of m rows, one after the other."""
        if self.folds.left_out is not None:
            return cells_of_means(rows.fold_predictions, self.folds.weights[own.folds], score)
        return cells_of_folds([rows.fold_predictions[fold] for fold in own.folds], score)

    def _sets(self, rows: Rows, code: int, levels: tuple[Fraction, ...]) -> Iterator[list[Intervals]]:
        """Yield for each level the pieces of the prediction sets of rows of one group, whose bounds have shape (m,)."""
        own, score, n_repeats = self._fold_scores(code), self._score(code), len(self.fold_scores)
        if not len(own):
            yield from ([infinite_intervals(len(rows))] for _ in levels)
            return
        cells, to_target = on_common_scale(self._cells(rows, own, score))
        ends = interval_ends(without_support(score), cells)
        for level in levels:
            if self.method == "cross-conformal":
                needed = floor((1 - level) * (len(own) + n_repeats) - n_repeats) + 1
                yield [_possible(score, to_target(piece)) for piece in depth_pieces(len(rows), own, ends, needed)]
            else:
                rank = ceil(level * (len(own) + n_repeats))
                negated_lower, upper = (own.smallest(rank, len(rows), values) for values in ends)
                intervals = to_target(Intervals(-negated_lower, upper))
                yield [_possible_or_nearest(score, intervals, rows.prediction)]

    def _counts(self, rows: Rows, y: FloatArray, code: int, own: FoldScores) -> tuple[FloatArray, FloatArray]:
        """Return how many calibration scores are at least that of each row's target, and larger; over repetitions."""
        if not len(own):
            return np.zeros(len(rows)), np.zeros(len(rows))
        score = self._score(code)
        scores = scores_by(score, np.tile(y, len(own.sizes)), self._cells(rows, own, score))
        counts = np.zeros((2, len(rows)))
        for fold, values in enumerate(scores.reshape(len(own.sizes), len(rows))):
            counts += own.counts_at_least(fold, values)
        at_least, larger = counts / len(self.fold_scores)
        return at_least, larger


class _Pieces:
    """The pieces of the prediction sets of m rows, filled group by group; rows without a piece have an empty one."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.pieces: list[Intervals] = [infinite_intervals(n_rows)]

    def put(self, members: IntArray, found: list[Intervals]) -> None:
        """Set the pieces of some rows."""
        empty = empty_intervals(len(members))
        while len(self.pieces) < len(found):
            self.pieces.append(empty_intervals(self.n_rows))
        for position, piece in enumerate(self.pieces):
            new = found[position] if position < len(found) else empty
            piece.lower[members], piece.upper[members] = new.lower, new.upper
            if new.replaced.any():
                replaced = piece.replaced.copy()
                replaced[members] = new.replaced
                self.pieces[position] = replace(piece, replaced=replaced)

    def piece(self, position: int) -> Intervals:
        """Return a piece, an empty one if there are fewer."""
        if position < len(self.pieces):
            return self.pieces[position]
        return empty_intervals(self.n_rows)


def _possible(score: Score, piece: Intervals) -> Intervals:
    """Return the possible targets of each interval, if the score has a support; it can be empty."""
    return Intervals(*score.support.restrict(piece.lower, piece.upper)) if isinstance(score, Bounded) else piece


def _possible_or_nearest(score: Score, intervals: Intervals, prediction: Prediction) -> Intervals:
    """Return the possible targets of each interval, or the nearest one, if the score has a support."""
    if not isinstance(score, Bounded):
        return intervals
    return score.restrict(intervals, prediction, partial(scores_by, score.score))
