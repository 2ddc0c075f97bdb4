"""Check what the README says about MAPIE and crepes: ``python -m benchmarks.peers``. Exit status 1 if it is not so.

Memory and time are measured by ``python -m benchmarks``.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from crepes import WrapRegressor
from mapie.regression import CrossConformalRegressor, JackknifeAfterBootstrapRegressor, SplitConformalRegressor
from sklearn.base import clone
from sklearn.linear_model import Ridge

from benchmarks.machine import machine

_ESTIMATORS = (SplitConformalRegressor, CrossConformalRegressor, JackknifeAfterBootstrapRegressor, WrapRegressor)


def main() -> int:
    """Print each statement and whether it holds; return the exit status."""
    print(machine(("mapie", "crepes", "scikit-learn")))
    statements: Mapping[str, Callable[[], bool]] = {
        "clone raises an error": lambda: not any(_is_cloned(each(Ridge())) for each in _ESTIMATORS),
        "MAPIE takes the level when the object is created": lambda: all(
            "confidence_level" in inspect.signature(each).parameters for each in _ESTIMATORS[:-1]
        ),
        "crepes takes the level at prediction": lambda: (
            "confidence" in inspect.signature(WrapRegressor.predict_int).parameters
        ),
        "methods of MAPIE: base, plus, minmax": lambda: all(
            _is_accepted(method) for method in ("base", "plus", "minmax")
        ),
    }
    found = {statement: holds() for statement, holds in statements.items()}
    for statement, holds in found.items():
        print(f"{statement}: {'yes' if holds else 'NO'}")
    return 0 if all(found.values()) else 1


def _is_cloned(estimator: Any) -> bool:
    try:
        clone(estimator)
    except TypeError:
        return False
    return True


def _is_accepted(method: str) -> bool:
    try:
        CrossConformalRegressor(Ridge(), method=method, cv=10)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
