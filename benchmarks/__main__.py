"""Speed, memory and import time, and what the models find, as Markdown tables: ``python -m benchmarks``.

Needs what `requirements-bench.txt` lists. The status is 0 whether or not a target is met, and 1 if the ways that
are compared give different answers. Everything is measured in processes of its own, and this one stays small: on
Linux a child's peak memory starts at its parent's.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

_ROOT = Path(__file__).resolve().parent.parent
_SIZES = (100_000, 1_000_000, 10_000_000)
_LAZY = "import evencover"
_USED = "from evencover import ConformalRegressor"
_PEER = "import sklearn.base"


@dataclass(frozen=True)
class Line:
    """One line of the table; a bound of None is no target."""

    what: str
    ours: str
    theirs: str
    ratio: float
    bound: float | None
    at_least: bool = False

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the line."""
        if self.bound is None:
            return self.what, self.ours, self.theirs, f"{self.ratio:.2f}", "none", ""
        met = self.ratio >= self.bound if self.at_least else self.ratio <= self.bound
        target = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        return self.what, self.ours, self.theirs, f"{self.ratio:.2f}", target, "met" if met else "**not met**"


def main() -> None:
    """Print the machine and the tables."""
    print(f"{_machine()}\n")
    _print_row(("what", "evencover", "floor or peer", "ratio", "target", "met"))
    _print_row(("---",) * 6)
    for lines in (
        *(import_lines(), memory_lines(), speed_lines()),
        *(repeat_lines(), diagnostic_lines(), main_job_lines(), network_lines(), real_data_lines()),
    ):
        for line in lines:
            _print_row(line.cells())
    print(f"\n{_output('-m', 'benchmarks.models')}")


def speed_lines() -> Iterator[Line]:
    """Yield the lines on seconds; the ratio is ours to the floor's, and the peer's to ours."""
    found = json.loads(_output("-m", "benchmarks.speed"))
    what = "intervals, 1 000 000 + 1 000 000 rows, 3 groups"
    times = found["intervals"]
    ours = times["evencover"]
    for floor, name, bound in (("numpy", "numpy by hand", 1.25), ("fastest_numpy", "the same, tuned", None)):
        theirs = f"{name} {_milliseconds(times[floor])}"
        yield Line(f"{what}: time", _milliseconds(ours), theirs, ours / times[floor], bound)
    yield _times_as_fast(what, times, 1.7)
    yield _times_as_fast("p-values, 20 000 + 20 000 rows", found["p_values"], 50)
    yield _times_as_fast("p-values, the same in 3 groups", found["p_values_by_group"], None)


def repeat_lines() -> Iterator[Line]:
    """Yield the lines on the synthetic experiment: repeats all at once, one by one, and their drawing alone."""
    times = json.loads(_output("-m", "benchmarks.repeats"))
    what, ours = "100 repeats of 1000 + 1000 rows, two scores, three groups", times["vectorised"]
    one_by_one = f"one by one, by `calibrate` {_milliseconds(times['one_by_one'])}"
    drawing = f"drawing the rows alone {_milliseconds(times['drawing'])}"
    yield Line(
        f"{what}: times as fast", _milliseconds(ours), one_by_one, times["one_by_one"] / ours, None, at_least=True
    )
    yield Line(f"{what}: time", _milliseconds(ours), drawing, ours / times["drawing"], 4)


def diagnostic_lines() -> Iterator[Line]:
    """Yield the lines on the bootstrap of quantiles, and on a million rows."""
    found = json.loads(_output("-m", "benchmarks.diagnostics"))
    times = found["bootstrap"]
    theirs = f"SciPy's estimator on resamples {_milliseconds(times['estimate_by_scipy'])}"
    yield Line(
        "Harrell-Davis bootstrap, 1000 resamples of 1500 rows: times as fast",
        _milliseconds(times["count_in_window"]),
        theirs,
        times["estimate_by_scipy"] / times["count_in_window"],
        8,
        at_least=True,
    )
    whole, sorting = found["diagnosis"], found["sorting"]
    beside = f"sorting the scores {_milliseconds(sorting)}"
    yield Line("`diagnose_scores`, 1 000 000 rows, 3 groups: time", _milliseconds(whole), beside, whole / sorting, None)


def main_job_lines() -> Iterator[Line]:
    """Yield the lines on the main job: a study, its report, its table as numbers, its file."""
    found = json.loads(_output("-m", "benchmarks.main_job"))
    what = "a study, 10 000 rows of 10 features"
    for name, ours, theirs, beside, bound in (
        (f"{what}: time", "study", "six_fits", "the six fits of its model", 2.0),
        ("its report, at 22 levels: time", "report", "study", "the study", 0.2),
        ("one row's interval: time", "one_interval", "one_prediction", "its model's `predict`", None),
        ("one row's interval: time", "one_interval", "one_full_prediction", "center and spread alone", 1.5),
        ("numbers and text as numbers, 200 000 rows: time", "encoder", "scikit_learn", "scikit-learn", None),
        ("its predictor, written and read: time", "file", "pickle", "pickle by joblib", None),
    ):
        seconds = found[ours], found[theirs]
        yield Line(
            name, _milliseconds(seconds[0]), f"{beside} {_milliseconds(seconds[1])}", seconds[0] / seconds[1], bound
        )
    yield Line("its report: megabytes", f"{found['megabytes']:.2f}", "none", found["megabytes"], 3.0)


def network_lines() -> Iterator[Line]:
    """Yield the lines on training: ten networks on one thread; the paper's 240 where there are a GPU and its data."""
    found = json.loads(_output("-m", "benchmarks.networks"))
    times = found["ten_networks"]
    what, ours = "ten networks trained together, 4000 x 32 rows, 5 epochs: times as fast", times["together"]
    for peer, name, bound in (
        ("one_by_one", "one by one in PyTorch", 4),
        ("one_by_one_fused", "the same, Adam fused", None),
    ):
        theirs = f"{name} {_milliseconds(times[peer])}"
        yield Line(what, _milliseconds(ours), theirs, times[peer] / ours, bound, at_least=True)
    for run in found.get("paper", []):
        seconds = sum(run.values())
        yield Line(f"240 networks of the paper on an {found['gpu']}: seconds", f"{seconds:.2f}", "none", seconds, 12)


def real_data_lines() -> Iterator[Line]:
    """Yield the line on the real-data benchmark, where its data are."""
    if "EVENCOVER_DATA" not in os.environ:
        print(
            "EVENCOVER_DATA names no folder with the paper's data sets: the real-data benchmark is left out",
            file=sys.stderr,
        )
        return
    found = json.loads(_output("-m", "benchmarks.real_data"))
    where = f" on an {found['gpu']}" if found["gpu"] else ""
    theirs = f"its networks one by one in PyTorch, on the CPU {found['one_by_one']:.0f} s"
    yield Line(
        f"the whole real-data benchmark{where}: times as fast",
        f"{found['command']:.0f} s",
        theirs,
        found["one_by_one"] / found["command"],
        5,
        at_least=True,
    )


def memory_lines() -> Iterator[Line]:
    """Yield the lines on bytes per row, each size against the smallest."""
    per_row = {n: _peak_bytes(n) / n for n in _SIZES}
    first = _SIZES[0]
    for n in _SIZES[1:]:
        what = f"peak memory beyond the input, {_spaced(n)} + {_spaced(n)} rows: bytes per row"
        theirs = f"{per_row[first]:.0f} at {_spaced(first)}"
        yield Line(what, f"{per_row[n]:.0f}", theirs, per_row[n] / per_row[first], 1.25)


def import_lines() -> Iterator[Line]:
    """Yield the lines on import time, the statements timed in turn."""
    statements = (_LAZY, _USED, _PEER)
    rounds = [{each: _import_seconds(each) for each in statements} for _ in range(15)]
    times = {each: median(found[each] for found in rounds) for each in statements}
    for each, bound in ((_LAZY, 1.0), (_USED, None)):
        theirs = f"`{_PEER}` {_milliseconds(times[_PEER])}"
        yield Line(f"`{each}`: time", _milliseconds(times[each]), theirs, times[each] / times[_PEER], bound)


def _times_as_fast(what: str, times: Mapping[str, float], bound: float | None) -> Line:
    """Return the line that says how many times as fast as crepes we are."""
    ours, theirs = times["evencover"], times["crepes"]
    beside = f"crepes {_milliseconds(theirs)}"
    return Line(f"{what}: times as fast", _milliseconds(ours), beside, theirs / ours, bound, at_least=True)


def _import_seconds(statement: str) -> float:
    """Return how long an import takes in a fresh process."""
    timed = f"from time import perf_counter as now; start = now(); {statement}; print(now() - start)"
    return float(_output("-c", timed))


def _peak_bytes(n: int) -> float:
    """Return the median peak over three fresh processes."""
    return median(int(_output("-m", "benchmarks.memory", str(n))) for _ in range(3))


def _output(*arguments: str) -> str:
    """Return what a fresh interpreter prints; end with its message if it fails."""
    done = subprocess.run([sys.executable, *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def _machine() -> str:
    """Say in general terms where this runs, and with which versions."""
    names = ("numpy", "scikit-learn", "crepes", "torch", "quantile-forest", "evencover")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    machine = f"{os.cpu_count()} cores, {_processor()}, {platform.system()}"
    return f"{machine}; Python {platform.python_version()}, {packages}. Medians."


def _processor() -> str:
    """Return the processor's name as far as the system tells it."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, to three digits."""
    return f"{float(f'{seconds * 1000:.3g}'):g} ms"


def _spaced(number: int) -> str:
    """Return a whole number with spaces between the thousands."""
    return f"{number:,}".replace(",", " ")


def _print_row(cells: tuple[str, ...]) -> None:
    """Print one row of the table at once: the next ones take a while."""
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
