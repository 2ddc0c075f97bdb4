"""`tables.calibrate`: thresholds of data of any size, from counts of scores in one or two passes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from evencover.calibration.calibration import Calibration
from evencover.calibration.histograms import (
    DEFAULT_BITS,
    MAX_BITS,
    Int64Array,
    ScoreCounter,
    ScoreHistogram,
    checked_bits,
    coarser,
    grid_index,
    grid_value,
)
from evencover.calibration.stored_scores import CountedScores
from evencover.calibration.table_columns import TableColumns
from evencover.groups import Label
from evencover.inputs import AmountProgress
from evencover.inputs.arrays import IntArray
from evencover.quantiles import Levels, conformal_rank, level_fractions
from evencover.scores.evaluation import scores_of
from evencover.scores.score import Score, checked_score
from evencover.tables.batches import Batch, TableData, codes_of, label_codes, named_errors, rows_of
from evencover.tables.engines import table_data

Counts: TypeAlias = dict[Label, ScoreHistogram]

_MAX_VALUES = 2**22  # scores that a further pass may keep
_MERGED_AT_ONCE = 16  # histograms of a group


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """A pass over batches that counts the scores of each group.

    Parameters
    ----------
    columns : TableColumns
        The columns of targets, predictions and groups.
    nonconformity : score
        The score.
    bits : int
        The binary digits of the grid.
    bins : mapping from label to ndarray, optional
        The bins of each group whose scores are counted, as positions on a grid of `bin_bits`; by default all are.
    bin_bits : int
        The binary digits of the grid of these bins.
    """

    columns: TableColumns
    nonconformity: Score
    bits: int
    bins: Mapping[Label, Int64Array] | None = None
    bin_bits: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.columns.names

    @property
    def searched(self) -> dict[str, str]:
        """All columns: each must have a value in every row."""
        return self.columns.by_role

    def __call__(self, batches: Iterable[Batch]) -> Counts:
        """Return the histogram of each group's scores in these batches."""
        codes, counter = label_codes(self.columns), ScoreCounter(self.bits)
        bins = self._bins_of(codes.labels)
        for batch in batches:
            with named_errors(batch.part):
                scores = scores_of(self.nonconformity, rows_of(batch, self.columns))
                groups = codes_of(batch, self.columns, codes)
            if self.bins is not None:
                bins = bins if len(bins) == len(codes.labels) else self._bins_of(codes.labels)
                chosen = _in_bins(grid_index(scores, self.bin_bits), groups, bins)
                scores, groups = scores[chosen], groups[chosen]
            counter.add(scores, groups, len(codes.labels))
        return dict(zip(codes.labels, counter.histograms(len(codes.labels)), strict=True))

    def merge(self, states: Iterable[Counts]) -> Counts:
        """Return the sums of counts by label; a few at a time, because thousands of them do not fit into memory."""
        by_label: dict[Label, list[ScoreHistogram]] = {}
        for counts in states:
            for label, histogram in counts.items():
                kept = by_label.setdefault(label, [])
                kept.append(histogram)
                if len(kept) == _MERGED_AT_ONCE:
                    kept[:] = [ScoreHistogram.concatenate(kept)]
        return {label: ScoreHistogram.concatenate(histograms) for label, histograms in by_label.items()}

    def _bins_of(self, labels: Sequence[Label]) -> Int64Array:
        """Return the bins of each of these groups, shape (n_groups, n); those with fewer are filled up."""
        found = [] if self.bins is None else [self.bins.get(label, ()) for label in labels]
        table = np.full((len(labels), max(map(len, found), default=0)), np.iinfo(np.int64).min)  # no score is there
        for code, each in enumerate(found):
            table[code, : len(each)] = each
        return table


def _in_bins(index: Int64Array, codes: IntArray, bins: Int64Array) -> IntArray:
    """Return the positions of the rows whose score is in one of the bins of its group."""
    chosen = np.zeros(len(index), dtype=bool)
    for column in bins.T:
        chosen |= index == column.take(codes)
    return np.flatnonzero(chosen)


def counted_scores(data: TableData, columns: TableColumns, nonconformity: Score, bits: int) -> Counts:
    """Return the histogram of each group's scores in all parts, in the order of the labels."""
    found = data.reduce(ScoreCounts(columns, nonconformity, bits))
    return {label: found[label] for label in sorted(found)}  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for scores by their ranks.

    Parameters
    ----------
    bits : int
        The binary digits of the grid.
    bins : mapping from label to a mapping from rank to _Bin
        The bin of each score that is searched.
    """

    bits: int
    bins: dict[Label, dict[int, "_Bin"]]

    @classmethod
    def of(cls, counts: Counts, levels: tuple[Fraction, ...]) -> "_Search":
        """Return the search for the thresholds that are finite."""
        bins: dict[Label, dict[int, _Bin]] = {}
        for label, histogram in counts.items():
            ranks = {conformal_rank(len(histogram), level) for level in levels}
            for rank in sorted(rank for rank in ranks if rank <= len(histogram)):
                bins.setdefault(label, {})[rank] = _Bin.of(histogram.indices, histogram.counts, rank)
        return cls(next(iter(counts.values())).bits if counts else MAX_BITS, bins)

    @property
    def next_bits(self) -> int:
        """The grid of the next pass: that of all numbers if there are not too many scores, else one in between."""
        all_bins = [each for by_rank in self.bins.values() for each in by_rank.values()]
        if sum(each.count for each in all_bins) <= _MAX_VALUES:
            return MAX_BITS
        return min(MAX_BITS, self.bits + max(4, (_MAX_VALUES // len(all_bins)).bit_length() - 1))

    def narrowed(self, finer: Counts, bits: int) -> "_Search":
        """Return the search with the bins of a finer grid. Raise RuntimeError if other scores were counted."""
        bins: dict[Label, dict[int, _Bin]] = {}
        for label, by_rank in self.bins.items():
            histogram = finer.get(label, ScoreHistogram.empty(bits))
            outer = coarser(histogram.indices, bits - self.bits)
            for rank, old in by_rank.items():
                inside = slice(*np.searchsorted(outer, [old.index, old.index + 1]))
                if histogram.counts[inside].sum() != old.count:
                    raise RuntimeError("the data changed while it was read; calibrate again")
                found = _Bin.of(histogram.indices[inside], histogram.counts[inside], old.rank)
                bins.setdefault(label, {})[rank] = found
        return _Search(bits, bins)

    def positions(self) -> dict[Label, Int64Array]:
        """Return the different bins of each group."""
        return {
            label: np.array(sorted({each.index for each in by_rank.values()}), dtype=np.int64)
            for label, by_rank in self.bins.items()
        }

    def scores(self) -> dict[Label, dict[int, float]]:
        """Return the scores by group and rank, once the grid holds all numbers."""
        return {
            label: {rank: float(grid_value(np.array([each.index]), self.bits)[0]) for rank, each in by_rank.items()}
            for label, by_rank in self.bins.items()
        }


@dataclass(frozen=True)
class _Bin:
    """A position on the grid, the number of scores there, and the rank of the searched score among these."""

    index: int
    count: int
    rank: int

    @classmethod
    def of(cls, indices: Int64Array, counts: Int64Array, rank: int) -> "_Bin":
        """Return the bin with the score of this rank, among all scores that were counted."""
        cumulative = np.cumsum(counts)
        position = int(np.searchsorted(cumulative, rank, side="left"))
        count = int(counts[position])
        return cls(int(indices[position]), count, rank - int(cumulative[position]) + count)


def exact_scores(
    data: TableData, columns: TableColumns, nonconformity: Score, counts: Counts, levels: tuple[Fraction, ...]
) -> dict[Label, dict[int, float]]:
    """Return the exact thresholds at these levels, as scores by group and rank, from further passes over the data."""
    search = _Search.of(counts, levels)
    while search.bits < MAX_BITS and search.bins:
        bits = search.next_bits
        one_pass = ScoreCounts(columns, nonconformity, bits, search.positions(), search.bits)
        search = search.narrowed(data.reduce(one_pass), bits)
    return search.scores()


def calibrate(
    data: Any,
    *,
    target: str,
    center: str | None = None,
    spread: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    group: str | None = None,
    level: Levels = 0.9,
    nonconformity: Score | None = None,
    exact: bool = True,
    bits: int = DEFAULT_BITS,
    workers: int | None = None,
    progress: AmountProgress | None = None,
) -> Calibration:
    """Calibrate predictions that are columns of a table of any size, part by part.

    The threshold of a group of n rows is its k-th smallest score, k = ceil((n + 1) level). A first pass over the data
    counts rounded scores, and gives an upper bound of each threshold that is at most a factor of 1 + 2**-bits too
    large. A second pass, over the scores next to the thresholds, makes them exact. The memory does not grow with the
    number of rows. The result is the same for any order and partition of the rows, and any number of workers.

    If calibration rows and new rows are exchangeable, an interval covers a new row of a group with probability at least
    the level.

    Parameters
    ----------
    data : str, Path, pyarrow dataset, Dask DataFrame or Spark DataFrame
        A Parquet file, a folder of Parquet files (also with subfolders such as ``year=2024``), a dataset or a
        DataFrame. The model must not have been fitted on these rows.
    target : str
        The column of targets.
    center, spread, lower, upper : str, optional
        The columns of predictions: a center, a center and a spread, or the model's own bounds.
    group : str, optional
        The column of groups: text, whole numbers or booleans. One group by default.
    level : float or sequence of floats
        Nominal coverage: the levels whose thresholds are made exact.
    nonconformity : score, optional
        By default `Residual`; with a spread `Normalized`; with bounds `IntervalDistance`.
    exact : bool
        Whether to pass over the data a second time. Without it, thresholds at all levels are upper bounds.
    bits : int
        The binary digits of the rounded scores after the leading one, 0 to 52.
    workers : int, optional
        For files: number of threads; by default the number of cores.
    progress : callable, optional
        For files: called with the number of rows that this pass has read, and the number of all rows.
    """
    columns = TableColumns(target, center, spread, lower, upper, group)
    levels, bits = level_fractions(level), checked_bits(bits)
    score = columns.nonconformity if nonconformity is None else checked_score(nonconformity)
    source = table_data(data, workers=workers, progress=progress)
    source.check_columns(columns)
    counts = counted_scores(source, columns, score, bits)
    if not any(len(histogram) for histogram in counts.values()):
        raise ValueError("data must have rows; got none")
    histograms = {(code, 0): histogram for code, histogram in enumerate(counts.values())}
    stored = CountedScores(tuple(counts), histograms, bits=bits)
    if exact:
        stored = stored.with_exact(exact_scores(source, columns, score, counts, levels))
    return Calibration(score, stored, columns=columns, levels=tuple(float(each) for each in levels))
