"""What the benchmark found: how many groups are covered as promised, against the number that chance allows.

A cell is a group of a split's test rows, for one model. With a threshold of its own, calibrated on n rows, m test rows
of the group are covered like BetaBinomial(m, k, n + 1 − k), k the conformal rank: the random split alone makes it so,
whatever the data and the model, if no scores are tied; tied scores cover more. A cell lies outside its 99 % band if so
few or so many covered have probability 0.5 % at most. The bands of all variants are these, to be compared by.

Cells of one model are independent, over its groups, its splits and data sets of different sizes. So the number of those
with too few covered has a law that is summed exactly; that of too many has not, where scores are tied.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray
from evencover.diagnostics._exact_tests import covered_count_pmf
from evencover.diagnostics._formatting import p_value_text
from evencover.reproduction.benchmark.trials import ALL, Row
from evencover.reproduction.benchmark.variants import VARIANTS, Variant

_TAIL = 0.005
_SIGNIFICANT = 0.01
_CUT = {"exact": "at calibration rows that then stand apart (exact)", "as run": "as the paper's code did (as run)"}
_COUNTED = (
    *("variant", "cells", "expected", "outside", "too few", "too many", "p-value"),
    *("least covered", "most covered"),
)


@dataclass(frozen=True)
class Extreme:
    """The coverage of a group, mean over the splits, that is farthest to one side."""

    coverage: float
    data: str
    model: str
    group: str


@dataclass(frozen=True)
class Count:
    """How many cells of a variant lie outside their bands.

    Parameters
    ----------
    variant, binning : str
        What was counted.
    by_group : bool
        Whether the variant promises to cover every group.
    cells, below, above : int
        Cells in all, and those with too few and with too many rows covered.
    expected : float
        How many lie outside on average, if every group is covered like one with a threshold of its own.
    p_value : float
        Probability of as many with too few covered in that case, for any model, times the number of models: small if
        it is not chance.
    lowest, highest : Extreme
        The groups covered least and most, on average over the splits.
    """

    variant: str
    binning: str
    by_group: bool
    cells: int
    below: int
    above: int
    expected: float
    p_value: float
    lowest: Extreme
    highest: Extreme

    @property
    def outside(self) -> int:
        """Cells outside their band."""
        return self.below + self.above


@dataclass(frozen=True)
class Summary:
    """What was found.

    Parameters
    ----------
    level : float
        Nominal coverage.
    counts : tuple of Count
        For each way of cutting groups and each variant.
    averages : mapping from measure to mapping from variant to mapping from data set to float
        Mean width and interval (Winkler) score, over models and splits.
    n_infinite : int
        Cells with too few calibration rows for a threshold, so with infinite intervals.
    """

    level: float
    counts: tuple[Count, ...]
    averages: Mapping[str, Mapping[str, Mapping[str, float]]]
    n_infinite: int

    @property
    def holds(self) -> bool:
        """Whether variants with a threshold for each group miss no more groups than chance allows (exact groups)."""
        promised = [count for count in self.counts if count.by_group and count.binning == "exact"]
        return all(count.p_value * len(promised) >= _SIGNIFICANT for count in promised)

    def as_data(self) -> dict[str, Any]:
        """Return plain values."""
        return {"holds": self.holds, **_finite(asdict(self))}


def summarize(rows: Sequence[Row], variants: Mapping[str, Variant] = VARIANTS) -> Summary:
    """Return the summary of a benchmark's rows.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    variants : mapping from name to Variant
        What the rows' variants are.
    """
    by_kind: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_kind.setdefault((row["binning"], row["variant"]), []).append(row)
    counts = (_count(variants[variant], some) for (_, variant), some in by_kind.items())
    averages = {measure: _averages(rows, measure) for measure in ("width", "winkler")}
    n_infinite = sum(row["threshold"] == np.inf and row["group"] != ALL for row in rows)
    return Summary(rows[0]["level"], tuple(counts), averages, n_infinite)


def _outside(n_test: int, n_calibration: int, level: float) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Return, for 0, 1, ..., m rows covered, whether that is too few, whether it is too many, and its probability."""
    law = _law(n_test, n_calibration, level)
    at_most, at_least = np.cumsum(law), np.cumsum(law[::-1])[::-1]
    return at_most <= _TAIL, at_least <= _TAIL, law


def in_words(summary: Summary) -> str:
    """Return a summary as text, in Markdown."""
    lines = [
        f"Cells (data set, model, group, split) outside their 99 % band at level {summary.level:g}. Bands, and the "
        "number expected outside by chance, are those of groups with a threshold of their own. The p-value is that of "
        "too few covered: whether that is chance.",
    ]
    for binning in dict.fromkeys(count.binning for count in summary.counts):
        lines += ["", f"Groups cut {_CUT[binning]}:", "", *_table(_COUNTED, map(_cells, _of(summary.counts, binning)))]
    for measure, title in (("width", "Mean width"), ("winkler", "Mean interval (Winkler) score, smaller is better")):
        found = summary.averages[measure]
        header = ("variant", *next(iter(found.values())))
        body = ([variant, *(f"{value:.3f}" for value in by_data.values())] for variant, by_data in found.items())
        lines += [
            "",
            f"{title}, over models and splits, in units of the target's deviation:",
            "",
            *_table(header, body),
        ]
    if summary.n_infinite:
        few = f"{summary.n_infinite} cells have too few calibration rows for a threshold: their intervals are infinite."
        lines += ["", few]
    return "\n".join([*lines, "", _verdict(summary)])


def _verdict(summary: Summary) -> str:
    """Say whether the paper's claim holds."""
    promised = [count for count in _of(summary.counts, "exact") if count.by_group]
    others = [count for count in _of(summary.counts, "exact") if not count.by_group]
    if not promised:
        return "No variant with a threshold for each group was run, so there is no claim to check."
    outside, cells, expected, few = (
        sum(getattr(count, part) for count in promised) for part in ("outside", "cells", "expected", "below")
    )
    said = f"{outside} of {cells} cells outside, {expected:.1f} expected; {few} of them with too few covered"
    rest = ", ".join(f"{count.variant} {count.outside / count.cells:.0%}" for count in others)
    claim = "Variants with a threshold for each group miss no more than promised in any, up to chance"
    beside = f" Outside of the others: {rest}." if rest else ""
    return f"{claim}: {'holds' if summary.holds else 'FAILS'} ({said}).{beside}"


def _cells(count: Count) -> tuple[str, ...]:
    """Return a count as the cells of a line."""
    ends = (f"{each.coverage:.3f} ({each.data} {each.model} {each.group})" for each in (count.lowest, count.highest))
    numbers = (count.cells, f"{count.expected:.1f}", count.outside, count.below, count.above)
    p_value = p_value_text(count.p_value) if count.by_group else "no promise"
    return count.variant, *map(str, numbers), p_value, *ends


def _finite(values: Any) -> Any:
    """Return plain values, None for numbers that JSON does not have."""
    if isinstance(values, Mapping):
        return {name: _finite(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not np.isfinite(values) else values


def _table(header: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Return a table's lines in Markdown."""
    lines = [header, ["---"] * len(header), *body]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |" for cells in lines]


def _of(counts: Sequence[Count], binning: str) -> list[Count]:
    return [count for count in counts if count.binning == binning]


def _count(variant: Variant, rows: Sequence[Row]) -> Count:
    """Count one variant's cells."""
    cells = [row for row in rows if row["group"] != ALL]
    by_model: dict[str, list[Row]] = {}
    for row in cells:
        by_model.setdefault(row["model"], []).append(row)
    found = {model: [_Cell.of(row) for row in some] for model, some in by_model.items()}
    every = [each for some in found.values() for each in some]
    p_values = [_tail(sum(cell.few for cell in some), [cell.p_few for cell in some]) for some in found.values()]
    means = _mean_coverages(cells)
    return Count(
        rows[0]["variant"],
        rows[0]["binning"],
        variant.by_group,
        len(cells),
        sum(cell.few for cell in every),
        sum(cell.many for cell in every),
        float(sum(cell.p_few + cell.p_many for cell in every)),
        min(1.0, len(p_values) * min(p_values)),
        min(means, key=lambda each: each.coverage),
        max(means, key=lambda each: each.coverage),
    )


class _Cell(NamedTuple):
    """Whether too few and whether too many rows of a cell are covered, and the probabilities of that."""

    few: bool
    many: bool
    p_few: float
    p_many: float

    @classmethod
    def of(cls, row: Row) -> "_Cell":
        few, many, law = _outside(row["n_test"], row["n_calibration"], row["level"])
        return cls(bool(few[row["covered"]]), bool(many[row["covered"]]), float(law[few].sum()), float(law[many].sum()))


@lru_cache(maxsize=10_000)
def _law(n_test: int, n_calibration: int, level: float) -> FloatArray:
    return covered_count_pmf([(n_test, n_calibration)], level)


def _tail(observed: int, probabilities: Sequence[float]) -> float:
    """Return the probability of so many events or more, of independent ones with these probabilities."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    return float(min(1.0, law[observed:].sum()))


def _mean_coverages(cells: Sequence[Row]) -> list[Extreme]:
    """Return each group's coverage, mean over the splits that have rows of it."""
    found = _grouped(cells, lambda row: (row["data"], row["model"], row["group"]), "coverage")
    return [Extreme(value, *names) for names, value in found]


def _averages(rows: Sequence[Row], measure: str) -> dict[str, dict[str, float]]:
    """Return a measure's mean over models and splits, by variant and data set; all rows of the exact binning."""
    every = [row for row in rows if row["group"] == ALL and row["binning"] == "exact"]
    found: dict[str, dict[str, float]] = {}
    for (variant, data), value in _grouped(every, lambda row: (row["variant"], row["data"]), measure):
        found.setdefault(variant, {})[data] = value
    return found


def _grouped(rows: Sequence[Row], key: Callable[[Row], Any], measure: str) -> Iterator[tuple[Any, float]]:
    """Yield each key with the mean of a measure, NaN left out."""
    values: dict[Any, list[float]] = {}
    for row in rows:
        if not np.isnan(row[measure]):
            values.setdefault(key(row), []).append(row[measure])
    yield from ((name, float(np.mean(some))) for name, some in values.items())
