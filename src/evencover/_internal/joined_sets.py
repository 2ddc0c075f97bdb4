"""Prediction sets of blocks of rows as those of all rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evencover.groups import Groups, Label
from evencover.interval_unions import IntervalUnion
from evencover.intervals import Intervals


def joined_sets(blocks: Sequence[Intervals | IntervalUnion]) -> Intervals | IntervalUnion:
    """Return the sets of all rows, with the bounds and groups of the blocks; unions get as many pieces as needed."""
    if len(blocks) == 1:
        return blocks[0]
    if not any(isinstance(block, IntervalUnion) for block in blocks):
        return _joined_intervals(blocks)  # type: ignore[arg-type]
    by_block = [block.pieces if isinstance(block, IntervalUnion) else [block] for block in blocks]
    n_pieces = max(map(len, by_block))
    padded = [[*pieces, *([_empty_like(pieces[0])] * (n_pieces - len(pieces)))] for pieces in by_block]
    return IntervalUnion([_joined_intervals(pieces) for pieces in zip(*padded, strict=True)])


def _joined_intervals(blocks: Sequence[Intervals]) -> Intervals:
    """Return the intervals of all blocks as one object."""
    lower, upper, replaced = (
        np.concatenate([getattr(block, name) for block in blocks]) for name in ("lower", "upper", "replaced")
    )
    groups = [block.groups for block in blocks if block.groups is not None]
    guarantees = [block.guarantee for block in blocks if block.guarantee is not None]
    without = dict.fromkeys(label for each in guarantees for label in each.without)
    return replace(
        blocks[0],
        lower=lower,
        upper=upper,
        replaced=replaced,
        groups=_joined_groups(groups) if groups else None,
        guarantee=replace(guarantees[0], without=tuple(without)) if guarantees else None,
    )


def _joined_groups(blocks: Sequence[Groups]) -> Groups:
    """Return the groups of all blocks, which may have different unseen groups."""
    labels: tuple[Label, ...] = tuple(dict.fromkeys(label for block in blocks for label in block.labels))
    if all(block.labels == labels for block in blocks):
        return Groups.concatenate(blocks)
    return Groups(np.concatenate([block.codes_among(labels) for block in blocks]), labels)


def _empty_like(intervals: Intervals) -> Intervals:
    """Return empty intervals of the same shape."""
    lower, upper = np.full_like(intervals.lower, np.inf), np.full_like(intervals.upper, -np.inf)
    return replace(intervals, lower=lower, upper=upper, replaced=np.zeros_like(intervals.replaced))
