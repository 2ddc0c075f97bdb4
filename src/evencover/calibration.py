"""Calibration: scores by group, from which thresholds, intervals and p-values follow at any level."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from evencover import calibration_files
from evencover.groups import Groups, Label, checked_groups, first_few
from evencover.guarantees import Guarantee
from evencover.inputs import FloatArray, checked_nonnegative, checked_vector
from evencover.intervals import Intervals
from evencover.pools import Answering, Pool
from evencover.predictions import as_prediction
from evencover.quantiles import Levels, is_several, level_fractions
from evencover.scores import Nonconformity, Residual, Score, intervals_by_group, scores_by_group
from evencover.tables import frame_kind

Unseen: TypeAlias = Literal["error", "marginal", "inf"]
Cell: TypeAlias = tuple[int, int]  # group, edge bits

_MARGINAL: tuple[Label, ...] = ("all",)


def calibrate(
    y: Any,
    prediction: Any,
    *,
    nonconformity: Nonconformity | None = None,
    groups: Any = None,
    weights: Any = None,
) -> "Calibration":
    """Return the calibration of a prediction on rows whose targets are known.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets. The model must not have been fitted on these rows.
    prediction : Prediction of n rows, or array-like of shape (n,)
        What the model says about them; a plain array is a center.
    nonconformity : score, or mapping from group label to score, optional
        `Residual()` by default. A mapping gives every group its own measure.
    groups : array-like of shape (n,) or Groups, optional
        The group of each row: labels of any kind, or what a taxonomy's `learn` returned. One group by default.
    weights : array-like of shape (n,), optional
        Weights for covariate shift; `Calibration.interval` then needs the new rows' weights.

    Examples
    --------
    >>> calibration = calibrate([1.0, 2.0, 4.0, 8.0], [0.0, 0.0, 0.0, 0.0])
    >>> calibration.threshold(0.5)
    array([4.])
    """
    prediction = as_prediction(prediction)
    y = checked_vector(y, "y", length=len(prediction))
    groups = _checked_groups(groups, len(y))
    nonconformity = _checked_nonconformity(nonconformity, groups.labels)
    scores = scores_by_group(nonconformity, groups.labels, y, prediction, groups.codes)
    scores = checked_vector(scores, "scores", length=len(y), finite=False)
    weights = None if weights is None else checked_nonnegative(weights, "weights", length=len(y))
    cells = {
        cell: Pool(scores.take(rows), None if weights is None else weights.take(rows)) for cell, rows in groups.cells()
    }
    return Calibration(nonconformity, groups.labels, cells, groups.rules, weights is not None)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """The calibration scores of every group. Made by `calibrate`; needs no model.

    The threshold of a group of n rows is its k-th smallest score, k = ceil((n + 1) level), inf where k > n.
    If calibration rows and new rows are exchangeable, an interval covers a new row of the group with
    probability at least the level; without ties the number covered among m of them is
    BetaBinomial(m, k, n + 1 − k).

    Parameters
    ----------
    nonconformity : score or mapping from label to score
        The measure, or each group's own.
    labels : tuple
        The groups.
    cells : mapping from (group, edge bits) to Pool
        The scores. Cells with edge bits hold rows that stand apart (see `Groups.edge`).
    rules : tuple of str
        What puts a row into each group.
    weighted : bool
        Whether rows have weights for covariate shift.
    """

    nonconformity: Nonconformity
    labels: tuple[Label, ...]
    cells: Mapping[Cell, Pool]
    rules: tuple[str, ...] = ()
    weighted: bool = False
    _pools: dict[Cell | None, Pool] = field(default_factory=dict, init=False)

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows behind each group's threshold."""
        return {label: len(self._pool((group, 0))) for group, label in enumerate(self.labels)}

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, in words."""
        return Guarantee(self.sizes, weighted=self.weighted)

    def threshold(self, level: Levels, *, test_weight: float | None = None) -> FloatArray:
        """Return each group's critical score. Shape (n_groups,), or (n_groups, L) for L levels.

        Parameters
        ----------
        level : float or sequence of L floats
            Nominal coverage.
        test_weight : float, optional
            Weight of the new row, if the calibration is weighted.
        """
        levels = level_fractions(level)
        every = np.arange(len(self.labels))
        same_weight = None if test_weight is None else np.full(len(every), test_weight)
        weights = self._checked_test_weights(same_weight, len(every))
        found = self._answering(Groups(every, self.labels), "error").thresholds(levels, weights)
        table = np.stack([np.broadcast_to(each, len(every)) for each in found], axis=-1)  # (n_groups, L)
        return table if is_several(level) else table[:, 0]

    def interval(
        self,
        prediction: Any,
        *,
        groups: Any = None,
        level: Levels = 0.9,
        weights: Any = None,
        unseen: Unseen = "error",
    ) -> Intervals:
        """Return the targets whose score is at most the threshold of their row's group.

        Parameters
        ----------
        prediction : Prediction of m rows, or array-like of shape (m,)
            What the model says about the new rows.
        groups : array-like of shape (m,) or Groups, optional
            Their groups; needed unless there is only one.
        level : float or sequence of L floats
            Nominal coverage.
        weights : array-like of shape (m,), optional
            Weights of the new rows, if the calibration is weighted.
        unseen : {"error", "marginal", "inf"}
            What a row gets whose group has no calibration: an error, the threshold of all rows together (for
            which nothing is promised), or an infinite interval.

        Returns
        -------
        Intervals of m rows
            Bounds of shape (m,), or (m, L) for L levels.
        """
        frame = frame_kind(prediction)
        prediction = as_prediction(prediction)
        levels = level_fractions(level)
        weights = self._checked_test_weights(weights, len(prediction))
        groups = self._checked_groups(groups, len(prediction), unseen)
        codes = groups.codes_among(self.labels)
        made = [
            intervals_by_group(self.nonconformity, self.labels, critical, prediction, codes)
            for critical in self._answering(groups, unseen).thresholds(levels, weights)
        ]
        several = is_several(level)
        names = tuple(float(each) for each in levels)
        return Intervals(
            np.stack([each.lower for each in made], axis=-1) if several else made[0].lower,
            np.stack([each.upper for each in made], axis=-1) if several else made[0].upper,
            level=names if several else names[0],
            groups=groups,
            guarantee=Guarantee(self.sizes, weighted=self.weighted, without=groups.labels_beyond(self.labels)),
            frame=frame,
        )

    def p_values(
        self,
        y: Any,
        prediction: Any,
        *,
        groups: Any = None,
        weights: Any = None,
        unseen: Unseen = "error",
        seed: int | np.random.Generator | None = None,
    ) -> FloatArray:
        """Return the share of scores, the row's own included, that are at least as large. Shape (m,).

        p = (1 + #{i : s_i >= s}) / (n + 1) within the row's group. If calibration and new rows are exchangeable,
        P(p <= u) <= u for every u. In exact arithmetic, an interval covers the target just where p > 1 − level.

        Parameters
        ----------
        y : array-like of shape (m,)
            Targets of the new rows, observed or hypothetical.
        prediction, groups, weights, unseen
            As in `interval`; a row of an unseen group answered with ``"inf"`` has the p-value 1.
        seed : int or Generator, optional
            Asks for smoothed p-values, ties broken by its draws: (#{s_i > s} + u (1 + #{s_i = s})) / (n + 1) with
            u uniform on (0, 1), which are exactly uniform.
        """
        prediction = as_prediction(prediction)
        y = checked_vector(y, "y", length=len(prediction))
        weights = self._checked_test_weights(weights, len(y))
        groups = self._checked_groups(groups, len(y), unseen)
        scores = scores_by_group(self.nonconformity, self.labels, y, prediction, groups.codes_among(self.labels))
        tie_shares = None if seed is None else np.random.default_rng(seed).random(len(y))
        return self._answering(groups, unseen).p_values(scores, tie_shares, weights)

    def merge(self, *others: "Calibration") -> "Calibration":
        """Return the calibration of all parts' rows together, equal to that of the whole: ``a.merge(b, c)``.

        The parts must have the same score, labels and rules (edges included): learn the groups once, and
        calibrate the parts with them.
        """
        for other in others:
            for part in ("nonconformity", "labels", "rules", "weighted"):
                mine, theirs = getattr(self, part), getattr(other, part)
                if mine != theirs:
                    raise ValueError(f"merge needs calibrations with the same {part}; got {mine} and {theirs}")
        parts = (self, *others)
        keys = sorted({cell for part in parts for cell in part.cells})
        cells = {key: Pool.joined([part.cells[key] for part in parts if key in part.cells]) for key in keys}
        return Calibration(self.nonconformity, self.labels, cells, self.rules, self.weighted)

    def save(self, path: str | Path) -> None:
        """Write the calibration to one file, without pickle: JSON and arrays in an npz archive."""
        calibration_files.write(path, self.parts)

    @property
    def parts(self) -> dict[str, Any]:
        """What it was made of, by the names of its parameters."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    @classmethod
    def load(cls, path: str | Path, *, nonconformity: Nonconformity | None = None) -> "Calibration":
        """Read a calibration that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score or mapping, optional
            The score, where it is of a class of your own: a file holds this package's scores only.
        """
        return cls(**calibration_files.read(path, nonconformity))

    def _checked_groups(self, groups: Any, length: int, unseen: Unseen) -> Groups:
        """Return the new rows' groups, sure to be known unless the caller allows for unseen ones."""
        if unseen not in ("error", "marginal", "inf"):
            raise ValueError(f"unseen must be 'error', 'marginal' or 'inf'; got {unseen!r}")
        if groups is None and self.labels != _MARGINAL:
            raise ValueError(f"groups must be given: the calibration has the groups {first_few(self.labels)}")
        checked = _checked_groups(groups, length)
        if length and checked.codes.min() < 0:
            raise ValueError(f"groups must hold every new row; {np.count_nonzero(checked.codes < 0)} are left out")
        _refuse_other_rules(self, checked)
        strange = checked.labels_beyond(self.labels)
        if strange and unseen == "error" and self.labels == _MARGINAL:
            raise ValueError("groups were given, but the calibration was made without: calibrate(..., groups=...)")
        if strange and unseen == "error":
            raise ValueError(
                f"groups holds {first_few(strange)}, never seen in calibration, which has {first_few(self.labels)}; "
                "unseen='marginal' or unseen='inf' would answer for them"
            )
        return checked

    def _checked_test_weights(self, weights: Any, length: int) -> FloatArray | None:
        """Return the new rows' weights: given if and only if the calibration has some."""
        if (weights is not None) != self.weighted:
            having, lacking = ("calibration", "new") if self.weighted else ("new", "calibration")
            raise ValueError(f"weights go together: the {having} rows have them and the {lacking} rows do not")
        return None if weights is None else checked_nonnegative(weights, "weights", length=length)

    def _answering(self, groups: Groups, unseen: Unseen) -> Answering:
        """Return which pool answers for each row: its group's, its edge's, or the one for unseen groups."""
        pools = [self._pool((group, 0)) for group in range(len(self.labels))]
        names: list[Label | None] = list(self.labels)
        codes = numbers = groups.codes_among(self.labels)
        if groups.edge is not None:
            numbers = codes.copy()
            for cell, rows in Groups(codes, self.labels, (), groups.edge, groups.n_edge_bits).cells():
                if cell[1]:
                    numbers[rows] = len(pools)
                    pools.append(self._pool(cell))
                    names.append(self.labels[cell[0]])
        if len(codes) and codes.min() < 0:
            numbers = np.where(codes < 0, len(pools), numbers)
            pools.append(self._pool(None) if unseen == "marginal" else self._nothing)
            names.append("all rows together" if unseen == "marginal" else None)
        return Answering(pools, names, numbers)

    def _pool(self, cell: Cell | None) -> Pool:
        """Return the scores that count for new rows of a cell, or those of all rows for None; joined once.

        A calibration row counts if it is of the same group and all its edge bits are the cell's too.
        """
        if cell not in self._pools:
            if cell is None and isinstance(self.nonconformity, Mapping):
                raise ValueError("unseen='marginal' needs one score for all groups; this calibration has one for each")
            if cell is None:
                members = [self.cells[each] for each in sorted(self.cells)]
            else:
                group, bits = cell
                members = [self.cells[group, each] for each in self._bits_of.get(group, ()) if not each & ~bits]
            self._pools[cell] = Pool.joined(members) if members else self._nothing
        return self._pools[cell]

    @cached_property
    def _bits_of(self) -> dict[int, list[int]]:
        """The edge bits of each group's cells, in order."""
        found: dict[int, list[int]] = {}
        for group, bits in sorted(self.cells):
            found.setdefault(group, []).append(bits)
        return found

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label} {n}" for label, n in self.sizes.items())
        return f"Calibration({self.nonconformity}; rows: {sizes}{'; weighted' * self.weighted})"

    @property
    def _nothing(self) -> Pool:
        return Pool(np.empty(0), np.empty(0) if self.weighted else None)


def _checked_groups(groups: Any, length: int) -> Groups:
    """Return what the caller calls groups as `Groups` of that many rows; one group for None."""
    if groups is None:
        return Groups(np.zeros(length, dtype=np.intp), _MARGINAL)
    return checked_groups(groups, length, "the prediction")


def _refuse_other_rules(calibration: Calibration, groups: Groups) -> None:
    """Raise if a label means something else to the new rows than it did to the calibration rows."""
    mine = dict(zip(calibration.labels, calibration.rules, strict=False))
    theirs = dict(zip(groups.labels, groups.rules, strict=False))
    for label in mine.keys() & theirs.keys():
        if mine[label] != theirs[label]:
            raise ValueError(
                f"groups must follow the calibration's rules: {label!r} was {mine[label]}, and is {theirs[label]} here"
            )


def _checked_nonconformity(nonconformity: Any, labels: tuple[Label, ...]) -> Nonconformity:
    """Return the score, or the mapping with exactly one score for each group."""
    if nonconformity is None:
        return Residual()
    if isinstance(nonconformity, Mapping):
        if set(nonconformity) != set(labels):
            raise ValueError(
                f"nonconformity must have one score for each group, {first_few(labels)}; got "
                f"{first_few(list(nonconformity))}"
            )
        return {label: checked_score(nonconformity[label]) for label in labels}
    return checked_score(nonconformity)


def checked_score(score: Any) -> Score:
    """Return the score if it is one: called on targets, with its inverse beside it."""
    if isinstance(score, type) or not (callable(score) and callable(getattr(score, "interval", None))):
        raise TypeError(
            "nonconformity must be a score such as Residual(), called as score(y, prediction) and with a method "
            f"interval(threshold, prediction); got {score!r}"
        )
    return score  # type: ignore[no-any-return]
