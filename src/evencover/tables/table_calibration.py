"""A calibration with the columns that it belongs to, and its file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evencover.calibration.calibration_files import described_nonconformity, restored_nonconformity
from evencover.calibration.histogram_calibration import HistogramCalibration, checked_bits
from evencover.calibration.histograms import (
    DEFAULT_BITS,
    MAX_BITS,
    Int64Array,
    ScoreCounter,
    ScoreHistogram,
    coarser,
    grid_index,
    grid_value,
)
from evencover.calibration.sql import ThresholdSQL, UnseenSQL
from evencover.calibration.table_columns import TableColumns
from evencover.display.text import number_text, text_table
from evencover.files.archive import atomic_write, check_header, file_errors, file_header
from evencover.groups import Label, json_label
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import IntArray
from evencover.quantiles import Level, Levels, conformal_rank, level_fractions
from evencover.scores.evaluation import scores_of
from evencover.scores.score import Score, checked_score
from evencover.tables.arrow_data import Progress
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


_MAX_PRINTED_GROUPS = 50


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
    progress: Progress | None = None,
) -> "TableCalibration":
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
    calibration = HistogramCalibration(score, tuple(counts), histograms, bits=bits)
    if exact:
        calibration = calibration.with_exact(exact_scores(source, columns, score, counts, levels))
    return TableCalibration(columns, calibration, tuple(float(each) for each in levels))


@dataclass(frozen=True, eq=False, repr=False)
class TableCalibration:
    """The thresholds of a table's groups, with the names of the columns. `evencover.tables.calibrate` makes it.

    Parameters
    ----------
    columns : TableColumns
        The columns of targets, predictions and groups.
    calibration : HistogramCalibration
        The histogram of each group's scores, and the exact thresholds at the given levels.
    levels : tuple of float
        The levels whose thresholds were found; `predict` uses the first by default.
    """

    columns: TableColumns
    calibration: HistogramCalibration
    levels: tuple[float, ...] = (0.9,)

    @property
    def sizes(self) -> dict[Label, int]:
        """Number of calibration rows of each group."""
        return self.calibration.sizes

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee at the levels of the calibration."""
        return self.calibration.guarantee_at(level_fractions(self.levels))

    def merge(self, *others: "TableCalibration") -> "TableCalibration":
        """Return one calibration of the rows of several, such as those of each day; groups may differ.

        The thresholds are those of the histograms: rounded up, until the data is calibrated again as a whole.
        """
        parts = (self, *others)
        for other in others:
            for name in ("columns", "levels"):
                expected, found = getattr(self, name), getattr(other, name)
                if expected != found:
                    raise ValueError(f"merge needs calibrations with the same {name}; got {expected} and {found}")
        found = {label for part in parts for label in part.calibration.labels}
        kinds = sorted({type(label).__name__ for label in found})
        if len(kinds) > 1:
            raise ValueError(f"merge needs calibrations with groups of one type; got {' and '.join(kinds)}")
        labels = tuple(sorted(found))
        first, *rest = (_with_labels(part.calibration, labels) for part in parts)
        return replace(self, calibration=first.merge(*rest))

    def to_sql(self, level: Level | None = None, *, dialect: str, unseen: UnseenSQL = "null") -> ThresholdSQL:
        """Return the thresholds as SQL, for new rows in a database with the same columns; see `Calibration.to_sql`.

        Parameters
        ----------
        level : float, optional
            Nominal coverage; by default the first level of the calibration.
        dialect, unseen
            As in `Calibration.to_sql`.
        """
        level = self.levels[0] if level is None else level
        return self.calibration.to_sql(level, columns=self.columns, dialect=dialect, unseen=unseen)

    def save(self, path: str | Path) -> None:
        """Save the calibration as a JSON file: the columns, and the counts of each group's scores."""
        with atomic_write(path) as file:
            file.write(_json_text(self._header())[:-1] + b', "groups": [')  # one group at a time, to save memory
            for code, label in enumerate(self.calibration.labels):
                group = {"label": json_label(label), **_counts_data(self.calibration.histograms[code, 0])}
                file.write((b",\n" if code else b"\n") + _json_text(group))
            file.write(b"\n]}\n")

    @classmethod
    def load(cls, path: str | Path, *, nonconformity: Score | None = None) -> "TableCalibration":
        """Load a calibration from a file that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.
        nonconformity : score, optional
            The score, if its class is your own: a file can store only scores of this package.
        """
        content = Path(path).read_bytes()
        with file_errors(path, "table calibration"):
            data = json.loads(content)
            check_header(data, "table calibration")
            bits = checked_bits(data["bits"])
            calibration = HistogramCalibration(
                restored_nonconformity(data["nonconformity"], nonconformity),
                tuple(group["label"] for group in data["groups"]),
                {(code, 0): _histogram(group, bits) for code, group in enumerate(data["groups"])},
                bits=bits,
            )
            if len(set(calibration.labels)) < len(calibration.labels):
                raise ValueError("two groups have the same label")
            levels = tuple(float(each) for each in level_fractions(data["levels"]))
            return cls(TableColumns(**data["columns"]), calibration, levels)

    def __str__(self) -> str:
        level = self.levels[0]
        thresholds, excess = (
            found.tolist() for found in (self.calibration.threshold(level), self.calibration.excess(level))
        )
        rows = [
            (
                str(label),
                f"{n}",
                number_text(threshold),
                "exact" if not share else f"rounded up, covers at most {100 * share:.2g} % more",
            )
            for (label, n), threshold, share in islice(
                zip(self.sizes.items(), thresholds, excess, strict=True), _MAX_PRINTED_GROUPS
            )
        ]
        table = text_table(("group", "rows", "threshold", "kind of threshold"), rows)
        n_more = len(thresholds) - len(rows)
        more = f"\n  and {n_more} more groups" if n_more else ""
        return f"Thresholds at level {level:g}\n{table}{more}\n{self.guarantee}"

    def __repr__(self) -> str:
        return f"TableCalibration({self.calibration!r}, levels: {', '.join(f'{level:g}' for level in self.levels)})"

    def _header(self) -> dict[str, Any]:
        """Return the contents of the file, but for the groups."""
        return {
            **file_header("table calibration"),
            "columns": asdict(self.columns),
            "levels": list(self.levels),
            "nonconformity": described_nonconformity(self.calibration.nonconformity),
            "bits": self.calibration.bits,
        }


def _json_text(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def _counts_data(histogram: ScoreHistogram) -> dict[str, Any]:
    """Return a histogram as JSON values; of the positions, all but the first as differences, which are short."""
    return {
        "rows": len(histogram),
        "first": int(histogram.indices[0]) if len(histogram.indices) else 0,
        "steps": [later - earlier for earlier, later in pairwise(histogram.indices.tolist())],
        "counts": histogram.counts.tolist(),
        "exact": [[rank, repr(score)] for rank, score in histogram.exact.items()],
    }


def _histogram(group: Mapping[str, Any], bits: int) -> ScoreHistogram:
    """Return the histogram from what `_counts_data` returned."""
    counts = np.array(group["counts"], dtype=np.int64)
    indices = np.array(list(accumulate([group["first"], *group["steps"]]))[: len(counts)], dtype=np.int64)
    valid = len(indices) == len(counts) and (counts > 0).all() and (indices[1:] > indices[:-1]).all()
    if not valid or counts.sum() != group["rows"]:
        raise ValueError(f"the counts of group {group['label']!r} do not belong together")
    return ScoreHistogram(bits, indices, counts, {rank: float(score) for rank, score in group["exact"]})


def _with_labels(calibration: HistogramCalibration, labels: tuple[Label, ...]) -> HistogramCalibration:
    """Return the calibration with all of these groups; those that it lacks have no rows."""
    empty = ScoreHistogram.empty(calibration.bits)
    codes = {label: code for code, label in enumerate(calibration.labels)}
    histograms = {
        (code, 0): calibration.histograms[codes[label], 0] if label in codes else empty
        for code, label in enumerate(labels)
    }
    return replace(calibration, labels=labels, histograms=histograms)
