"""A calibration with the columns that it belongs to, and its file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from evencover._internal.calibration_files import described_nonconformity, restored_nonconformity
from evencover._internal.saved_files import atomic_write, check_header, file_errors, file_header
from evencover._internal.score_histograms import DEFAULT_BITS, ScoreHistogram
from evencover._internal.text_output import number_text, text_table
from evencover.distributed._arrow_data import Progress
from evencover.distributed._engines import table_data
from evencover.distributed._score_counts import counted_scores, exact_scores
from evencover.groups import Label, json_label
from evencover.guarantees import Guarantee
from evencover.histogram_calibration import HistogramCalibration, checked_bits
from evencover.quantiles import Level, Levels, level_fractions
from evencover.scores.score import Score, checked_score
from evencover.sql import ThresholdSQL, UnseenSQL
from evencover.table_columns import TableColumns

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
    """The thresholds of a table's groups, with the names of the columns. `evencover.distributed.calibrate` makes it.

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
