"""Unions of prediction intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray
from evencover.groups import shared_groups
from evencover.guarantees import Guarantee
from evencover.intervals import ROUNDING, Intervals, mean_width_text


@dataclass(frozen=True, eq=False)
class IntervalUnion:
    """For each row a union of disjoint intervals, from groups of the target, or from cross-conformal prediction.

    Parameters
    ----------
    pieces : sequence of Intervals of n rows
        The pieces, which must be disjoint in each row; some may be empty.
    """

    pieces: Sequence[Intervals]

    @property
    def level(self) -> float | tuple[float, ...] | None:
        """Nominal coverage."""
        return self.pieces[0].level

    @property
    def guarantee(self) -> Guarantee | None:
        """The coverage guarantee; for every group of the target, if there are such groups."""
        guarantee = self.pieces[0].guarantee
        if guarantee is None:
            return None
        every = [piece.guarantee for piece in self.pieces if piece.guarantee is not None]
        without, tied = (
            tuple(dict.fromkeys(label for each in every for label in getattr(each, name)))
            for name in ("without", "tied")
        )
        return replace(guarantee, without=without, tied=tied)

    @property
    def width(self) -> FloatArray:
        """Total length of each row's pieces; same shape as their bounds."""
        return sum((piece.width for piece in self.pieces), start=np.zeros_like(self.pieces[0].lower))

    @property
    def n_replaced(self) -> int:
        """Number of pieces that held no possible target, and were replaced by the nearest one."""
        return sum(piece.n_replaced for piece in self.pieces)

    def covers(self, y: Any) -> BoolArray:
        """Return whether one of a row's pieces contains its target; `y` has shape (n,)."""
        return reduce(np.logical_or, (piece.covers(y) for piece in self.pieces))

    def covers_inside(self, y: Any) -> BoolArray:
        """Return whether each target lies strictly inside its set, at one level; see `Intervals.covers_inside`.

        Numbers near it on both sides belong to the set, too, in the same piece or in the next one.
        """
        target, largest = np.asarray(y, dtype=float), np.finfo(float).max
        margin = ROUNDING * np.max([piece.magnitude for piece in self.pieces], axis=0)
        below, above = (np.clip(target + sign * margin, -largest, largest) for sign in (-1, 1))
        return self.covers(target) & self.covers(below) & self.covers(above)

    def hull(self) -> Intervals:
        """Return the smallest interval that contains all pieces of a row; empty if all of them are."""
        lower = np.min([np.where(piece.empty, np.inf, piece.lower) for piece in self.pieces], axis=0)
        upper = np.max([np.where(piece.empty, -np.inf, piece.upper) for piece in self.pieces], axis=0)
        guarantee = None if self.guarantee is None else replace(self.guarantee, exact=False)  # the hull covers more
        groups = shared_groups([piece.groups for piece in self.pieces])
        side = None if groups is None else self.pieces[0].side
        whole = replace(self.pieces[0], groups=groups, side=side, replaced=np.zeros_like(lower, dtype=bool))
        return replace(whole, lower=lower, upper=upper, guarantee=guarantee)

    def __len__(self) -> int:
        return len(self.pieces[0])

    def __repr__(self) -> str:
        pieces = f"{len(self.pieces)} piece{'s' * (len(self.pieces) != 1)}"
        return f"IntervalUnion({len(self)} rows, {pieces}, mean width {mean_width_text(self.width)})"
