"""Saved predictors of either class."""

from pathlib import Path
from typing import TYPE_CHECKING

from evencover._internal.predictor_files import saved_class

if TYPE_CHECKING:
    from evencover.conformal import ConformalRegressor
    from evencover.cross_conformal import CrossConformalRegressor


def load_predictor(path: str | Path) -> "ConformalRegressor | CrossConformalRegressor":
    """Return the `ConformalRegressor` or `CrossConformalRegressor` in a file; only its module is imported."""
    if saved_class(path) == "CrossConformalRegressor":
        from evencover.cross_conformal import CrossConformalRegressor

        return CrossConformalRegressor.load(path)
    from evencover.conformal import ConformalRegressor

    return ConformalRegressor.load(path)
