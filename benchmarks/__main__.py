"""Print speed, memory and import time, and the models' accuracy, as Markdown tables: ``python -m benchmarks``.

Needs the packages in `requirements-bench.txt`. The exit status is 0 whether or not a target is met, and 1 if the
compared implementations give different answers. Every measurement runs in its own process, and this process stays
small: on Linux the peak memory of a child process starts at that of its parent.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.machine import machine
from benchmarks.markdown import print_row, spaced

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("numpy", "scikit-learn", "crepes", "mapie", "torch", "quantile-forest", "duckdb", "evencover")
_SIZES = (100_000, 1_000_000, 10_000_000)
_LAZY = "import evencover"
_USED = "from evencover import ConformalRegressor"
_PEER = "import sklearn.base"


@dataclass(frozen=True)
class Comparison:
    """One row of the table: a measurement of evencover next to a reference; without a bound it has no target."""

    what: str
    ours: str
    theirs: str
    ratio: float
    bound: float | None
    at_least: bool = False

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row."""
        if self.bound is None:
            return self.what, self.ours, self.theirs, f"{self.ratio:.2f}", "none", ""
        met = self.ratio >= self.bound if self.at_least else self.ratio <= self.bound
        target = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        return self.what, self.ours, self.theirs, f"{self.ratio:.2f}", target, "met" if met else "**not met**"


def main() -> None:
    """Print the machine and the tables."""
    print(f"{machine(_PACKAGES)}. Medians.\n")
    print_row("measurement", "evencover", "compared with", "ratio", "target", "met")
    print_row(*["---"] * 6)
    for comparisons in (
        *(import_times(), start(), memory(), speed()),
        *(cross_conformal(), repeats(), diagnostics(), main_job(), large_files(), large_run(), networks()),
        real_data(),
    ):
        for comparison in comparisons:
            print_row(*comparison.cells())
    for module in ("benchmarks.steps", "benchmarks.models"):
        print(f"\n{_output('-m', module)}")


def speed() -> Iterator[Comparison]:
    """Yield the times of intervals, p-values and CRPS: the ratio to numpy, and how many times as fast as crepes."""
    found = json.loads(_output("-m", "benchmarks.speed"))
    what = "intervals, 1 000 000 + 1 000 000 rows, 3 groups"
    times = found["intervals"]
    ours = times["evencover"]
    for floor, name, bound in (("numpy", "numpy by hand", 1.25), ("fastest_numpy", "the same, tuned", None)):
        theirs = f"{name} {_milliseconds(times[floor])}"
        yield Comparison(f"{what}: time", _milliseconds(ours), theirs, ours / times[floor], bound)
    yield _times_as_fast(what, times, 1.7)
    yield _times_as_fast("p-values, 20 000 + 20 000 rows", found["p_values"], 50)
    yield _times_as_fast("p-values, the same in 3 groups", found["p_values_by_group"], None)
    what, times = "mean CRPS of predictive distributions, 20 000 + 20 000 rows", found["crps"]
    sorting = f"sorting the scores {_milliseconds(times['sorting'])}"
    ratio = times["evencover"] / times["sorting"]
    yield Comparison(f"{what}: time", _milliseconds(times["evencover"]), sorting, ratio, 10)
    yield _times_as_fast(what, times, None)


def cross_conformal() -> Iterator[Comparison]:
    """Yield processor times and memory of cross-conformal intervals, compared with MAPIE."""
    found = json.loads(_output("-m", "benchmarks.cross_conformal"))
    for ours, theirs, what, bounds in (
        ("folds", "mapie_folds", "CV+, 5000 + 20 000 rows, ten folds", (50, 100)),
        ("union", "mapie_folds", "the same, cross-conformal sets", (None, 100)),
        ("bootstrap", "mapie_bootstrap", "jackknife+-after-bootstrap, 2000 + 5000 rows, about 50 samples", (None, 100)),
    ):
        own, peer = found[ours], found[theirs]
        for kind, words in (("first", "first call"), ("repeated", "repeated calls")):
            yield Comparison(
                f"{what}, {words}: times as fast",
                _milliseconds(own[kind]),
                f"MAPIE {_milliseconds(peer[kind])}",
                peer[kind] / own[kind],
                bounds[0],
                at_least=True,
            )
        memory = own["megabytes"]
        yield Comparison(
            f"{what}: megabytes beyond the input", f"{memory:.0f}", f"MAPIE {peer['megabytes']:.0f}", memory, bounds[1]
        )
    for name, what in (
        ("jackknife", "jackknife+, 300 + 20 000 rows"),
        ("large", "CV+, 100 000 + 1 000 000 rows, ten folds"),
    ):
        seconds, megabytes = found[name]["first"], found[name]["megabytes"]
        yield Comparison(f"{what}: seconds", f"{seconds:.2f}", "none", seconds, None)
        yield Comparison(f"{what}: megabytes beyond the input", f"{megabytes:.0f}", "none", megabytes, 100)


def repeats() -> Iterator[Comparison]:
    """Yield the times of the synthetic experiment: vectorised repeats, repeats one by one, and drawing alone."""
    times = json.loads(_output("-m", "benchmarks.repeats"))
    what, ours = "100 repeats of 1000 + 1000 rows, two scores, three groups", times["vectorised"]
    one_by_one = f"one by one, by `calibrate` {_milliseconds(times['one_by_one'])}"
    drawing = f"drawing the rows alone {_milliseconds(times['drawing'])}"
    yield Comparison(
        f"{what}: times as fast", _milliseconds(ours), one_by_one, times["one_by_one"] / ours, None, at_least=True
    )
    yield Comparison(f"{what}: time", _milliseconds(ours), drawing, ours / times["drawing"], 4)


def diagnostics() -> Iterator[Comparison]:
    """Yield the times of the bootstrap of quantiles, and of a diagnosis of a million rows."""
    found = json.loads(_output("-m", "benchmarks.diagnostics"))
    times = found["bootstrap"]
    theirs = f"SciPy's estimator on resamples {_milliseconds(times['estimate_by_scipy'])}"
    yield Comparison(
        "Harrell-Davis bootstrap, 1000 resamples of 1500 rows: times as fast",
        _milliseconds(times["count_in_window"]),
        theirs,
        times["estimate_by_scipy"] / times["count_in_window"],
        8,
        at_least=True,
    )
    diagnosis, sorting = found["diagnosis"], found["sorting"]
    theirs = f"sorting the scores {_milliseconds(sorting)}"
    yield Comparison(
        "`diagnose_scores`, 1 000 000 rows, 3 groups: time", _milliseconds(diagnosis), theirs, diagnosis / sorting, None
    )


def main_job() -> Iterator[Comparison]:
    """Yield the times of the main task: a study, its report, one interval, the encoder and the predictor file."""
    found = json.loads(_output("-m", "benchmarks.main_job"))
    what = "a study, 10 000 rows of 10 features"
    for name, ours, theirs, reference, bound in (
        (f"{what}: time", "study", "fit", "the fit of its model", 2.0),
        ("the study's report, at 22 levels: time", "report", "study", "the study", 0.2),
        ("one row's interval: time", "one_interval", "one_prediction", "its model's `predict`", None),
        ("one row's interval: time", "one_interval", "one_full_prediction", "center and spread alone", 1.5),
        ("encoding numbers and text, 200 000 rows: time", "encoder", "scikit_learn", "scikit-learn", None),
        ("writing and reading the study's predictor: time", "file", "pickle", "pickle by joblib", None),
    ):
        seconds = found[ours], found[theirs]
        yield Comparison(
            name, _milliseconds(seconds[0]), f"{reference} {_milliseconds(seconds[1])}", seconds[0] / seconds[1], bound
        )
    yield Comparison("the study's report: megabytes", f"{found['megabytes']:.2f}", "none", found["megabytes"], 3.0)


def large_files() -> Iterator[Comparison]:
    """Yield the times and the peak memory of calibrating Parquet files, compared with DuckDB."""
    found = json.loads(_output("-m", "benchmarks.large_files"))
    peer, rows = found["duckdb"], spaced(found["rows"])
    for name, what, bounds in (("one pass", "in one pass", (0.8, 0.4)), ("exact", "exactly", (None, None))):
        own = found[name]
        for key, unit, bound in zip(("seconds", "megabytes"), ("time", "peak memory"), bounds, strict=True):
            ours, theirs = (
                _milliseconds(each[key]) if key == "seconds" else f"{each[key]:.0f} MB" for each in (own, peer)
            )
            yield Comparison(
                f"calibrating {rows} rows of Parquet {what}: {unit}",
                ours,
                f"DuckDB's quantiles {theirs}",
                own[key] / peer[key],
                bound,
            )
    large, small = found["one pass"]["megabytes"], found["megabytes_at_a_tenth"]
    yield Comparison(
        f"peak memory for {rows} rows of Parquet",
        f"{large:.0f} MB",
        f"a tenth of them {small:.0f} MB",
        large / small,
        1.25,
    )


def large_run() -> Iterator[Comparison]:
    """Yield the time and the peak memory of `evencover run` on a large file."""
    found = json.loads(_output("-m", "benchmarks.large_run"))
    what = f"`evencover run` on {spaced(found['rows'])} rows of 20 features"
    fit, time = found["fit"], found["seconds"]
    yield Comparison(
        f"{what}: time", f"{time:.0f} s", f"one fit of boosting on its training rows {fit:.2f} s", time / fit, None
    )
    fewer = json.loads(_output("-m", "benchmarks.large_run", "--rows", "373000"))
    ours, theirs = fewer["seconds"], f"on {spaced(found['rows'])} rows {time:.0f} s"
    yield Comparison("the same on 373 000 rows: time", f"{ours:.0f} s", theirs, ours / time, 1.0)
    megabytes = found["megabytes"]
    yield Comparison(f"{what}: peak memory", f"{megabytes:.0f} MB", "3 GiB", megabytes * 1e6 / (3 * 2**30), 1.0)


def networks() -> Iterator[Comparison]:
    """Yield the times of training: ten networks on one thread; with a GPU and the data, the paper's 240 networks."""
    found = json.loads(_output("-m", "benchmarks.networks"))
    times = found["ten_networks"]
    what, ours = "ten networks trained jointly, 4000 x 32 rows, 5 epochs: times as fast", times["jointly"]
    for peer, name, bound in (
        ("one_by_one", "one by one in PyTorch", 4),
        ("one_by_one_fused", "the same, Adam fused", None),
    ):
        theirs = f"{name} {_milliseconds(times[peer])}"
        yield Comparison(what, _milliseconds(ours), theirs, times[peer] / ours, bound, at_least=True)
    for run in found.get("paper", []):
        seconds = sum(run.values())
        yield Comparison(
            f"240 networks of the paper on an {found['gpu']}: seconds", f"{seconds:.2f}", "none", seconds, 12
        )


def real_data() -> Iterator[Comparison]:
    """Yield the time of the real-data benchmark, if its data are available."""
    if "EVENCOVER_DATA" not in os.environ:
        print(
            "the real-data benchmark is skipped: EVENCOVER_DATA does not name a folder with the paper's data sets",
            file=sys.stderr,
        )
        return
    found = json.loads(_output("-m", "benchmarks.real_data"))
    where = f" on an {found['gpu']}" if found["gpu"] else ""
    theirs = f"its networks one by one in PyTorch, on the CPU {found['one_by_one']:.0f} s"
    yield Comparison(
        f"the complete real-data benchmark{where}: times as fast",
        f"{found['command']:.0f} s",
        theirs,
        found["one_by_one"] / found["command"],
        5,
        at_least=True,
    )


def memory() -> Iterator[Comparison]:
    """Yield the bytes per row for each size, compared with the smallest size."""
    per_row = {n: _peak_bytes(n) / n for n in _SIZES}
    first = _SIZES[0]
    for n in _SIZES[1:]:
        what = f"peak memory beyond the input, {spaced(n)} + {spaced(n)} rows: bytes per row"
        theirs = f"{per_row[first]:.0f} at {spaced(first)}"
        yield Comparison(what, f"{per_row[n]:.0f}", theirs, per_row[n] / per_row[first], 1.25)


def import_times() -> Iterator[Comparison]:
    """Yield the import times; the statements are timed alternately."""
    statements = (_LAZY, _USED, _PEER)
    rounds = [{each: _import_seconds(each) for each in statements} for _ in range(15)]
    times = {each: median(found[each] for found in rounds) for each in statements}
    for each, bound in ((_LAZY, 1.0), (_USED, None)):
        theirs = f"`{_PEER}` {_milliseconds(times[_PEER])}"
        yield Comparison(f"`{each}`: time", _milliseconds(times[each]), theirs, times[each] / times[_PEER], bound)


def start() -> Iterator[Comparison]:
    """Yield the time of the command `predict` for six rows, from the start of its process to the end."""
    times = json.loads(_output("-m", "benchmarks.start"))
    theirs = f"`python -c 'import sklearn'` {_milliseconds(times['sklearn'])}"
    ratio = times["predict"] / times["sklearn"]
    yield Comparison("`evencover predict`, six rows: time", _milliseconds(times["predict"]), theirs, ratio, 4)


def _times_as_fast(what: str, times: Mapping[str, float], bound: float | None) -> Comparison:
    """Return the row with the factor by which evencover is faster than crepes."""
    ours, theirs = times["evencover"], times["crepes"]
    reference = f"crepes {_milliseconds(theirs)}"
    return Comparison(f"{what}: times as fast", _milliseconds(ours), reference, theirs / ours, bound, at_least=True)


def _import_seconds(statement: str) -> float:
    """Return the seconds that an import takes in a fresh process."""
    timed = f"from time import perf_counter as now; start = now(); {statement}; print(now() - start)"
    return float(_output("-c", timed))


def _peak_bytes(n: int) -> float:
    """Return the median peak memory over three fresh processes."""
    return median(int(_output("-m", "benchmarks.memory", str(n))) for _ in range(3))


def _output(*arguments: str) -> str:
    """Return the output of a fresh interpreter; exit with its error if it fails."""
    done = subprocess.run([sys.executable, *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def _milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, to three digits."""
    return f"{float(f'{seconds * 1000:.3g}'):g} ms"


if __name__ == "__main__":
    main()
