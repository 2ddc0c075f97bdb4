"""Print times, memory and intervals of cross-conformal regression, next to those of MAPIE, as JSON.

Times are processor time of predicting intervals, in two ways, because a call that needs gigabytes is much faster if the
process has them already: the first call in a fresh process, and repeated calls, alternately with those of the peer.
Both are medians. ``python -m benchmarks.cross_conformal NAME`` prints the time of a first call, and the rise of the
peak memory above the fitted model and its input.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from statistics import median
from time import process_time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from benchmarks.memory import peak

Call: TypeAlias = Callable[[], Any]
Data: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

_LEVEL, _FEATURES, _FOLDS = 0.9, 10, 10
_SMALL, _LARGE, _BOOTSTRAP = (5000, 20_000), (100_000, 1_000_000), (2000, 5000)
_N_BOOTSTRAPS, _ROUNDS = 50, 3


def main() -> None:
    """Print the results, or the memory of the measurement that is named."""
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        print(json.dumps(_first_call(_MEASUREMENTS[sys.argv[1]]())))
        return
    found = {name: _in_fresh_processes(name) for name in _MEASUREMENTS}  # while the peak of this process is small
    for names in _ALTERNATELY:
        for name, seconds in _repeated_calls({name: _MEASUREMENTS[name]() for name in names}).items():
            found[name]["repeated"] = seconds
    print(json.dumps({"gap": _gap(), **found}))


def data(n: int, m: int) -> Data:
    """Return n rows with targets, and m new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, _FEATURES))
    y = X @ rng.normal(size=_FEATURES) + rng.normal(size=n)
    return X, y, rng.normal(size=(m, _FEATURES))


def evencover_intervals(sizes: tuple[int, int], **settings: Any) -> Call:
    """Return the prediction of intervals by this package, from a fitted model."""
    from evencover import CrossConformalRegressor

    X, y, new = data(*sizes)
    settings = {"random_state": 0} | settings
    model = CrossConformalRegressor(LinearRegression(), **settings).fit(X, y)
    model.predict_interval(new[:10], _LEVEL)  # loads what is loaded on first use
    return lambda: model.predict_interval(new, _LEVEL)


def mapie_folds() -> Call:
    """Return the prediction of CV+ intervals by MAPIE."""
    from mapie.regression import CrossConformalRegressor

    X, y, new = data(*_SMALL)
    model = CrossConformalRegressor(LinearRegression(), confidence_level=_LEVEL, method="plus", cv=_folds())
    fitted = model.fit_conformalize(X, y)
    return lambda: fitted.predict_interval(new)


def mapie_bootstrap() -> Call:
    """Return the prediction of jackknife+-after-bootstrap intervals by MAPIE."""
    from mapie.regression import JackknifeAfterBootstrapRegressor

    X, y, new = data(*_BOOTSTRAP)
    model = JackknifeAfterBootstrapRegressor(
        LinearRegression(), confidence_level=_LEVEL, method="plus", resampling=_N_BOOTSTRAPS, random_state=0
    )
    fitted = model.fit_conformalize(X, y)
    return lambda: fitted.predict_interval(new)


def _folds() -> KFold:
    return KFold(_FOLDS, shuffle=True, random_state=0)


_BOOTSTRAP_SETTINGS = {"method": "jackknife+-after-bootstrap", "n_bootstraps": round(_N_BOOTSTRAPS * np.e)}
_MEASUREMENTS: dict[str, Callable[[], Call]] = {
    "folds": lambda: evencover_intervals(_SMALL, cv=_folds()),
    "mapie_folds": mapie_folds,
    "union": lambda: evencover_intervals(_SMALL, cv=_folds(), method="cross-conformal"),
    "bootstrap": lambda: evencover_intervals(_BOOTSTRAP, **_BOOTSTRAP_SETTINGS),
    "mapie_bootstrap": mapie_bootstrap,
    "jackknife": lambda: evencover_intervals((300, 20_000), method="jackknife+"),
    "large": lambda: evencover_intervals(_LARGE),
}
_ALTERNATELY = (("folds", "mapie_folds", "union"), ("bootstrap", "mapie_bootstrap"), ("jackknife",), ("large",))


def _repeated_calls(calls: Mapping[str, Call]) -> dict[str, float]:
    """Return the median processor time of each call, after a round that is not counted."""
    rounds = [{name: _processor_time(call) for name, call in calls.items()} for _ in range(1 + _ROUNDS)]
    return {name: median(times[name] for times in rounds[1:]) for name in calls}


def _processor_time(call: Call) -> float:
    start = process_time()
    result = call()  # kept, so that its deletion is not timed
    elapsed = process_time() - start
    del result
    return elapsed


def _in_fresh_processes(name: str) -> dict[str, float]:
    """Return the median processor time and memory of a first call, each measured in a process of its own."""
    arguments = [sys.executable, "-m", "benchmarks.cross_conformal", name]
    runs = [subprocess.run(arguments, capture_output=True, text=True, check=True).stdout for _ in range(_ROUNDS)]
    found = [json.loads(run) for run in runs]
    return {key: median(each[key] for each in found) for key in found[0]}


def _first_call(call: Call) -> dict[str, float]:
    """Return the processor time of a call, and the megabytes by which the peak memory rises."""
    before, start = peak(), process_time()
    result = call()  # kept, so that it counts
    found = {"first": process_time() - start, "megabytes": (peak() - before) / 1e6}
    del result
    return found


def _gap() -> float:
    """Return the largest difference between the ends of the two packages. Exit with a message if it is not rounding."""
    ours = _MEASUREMENTS["folds"]()()
    _, theirs = mapie_folds()()
    gap = float(max(np.abs(ours.lower - theirs[:, 0, 0]).max(), np.abs(ours.upper - theirs[:, 1, 0]).max()))
    if not gap < 1e-9:
        sys.exit(f"the intervals of evencover and MAPIE differ by up to {gap}")
    return gap


if __name__ == "__main__":
    main()
