"""The two conformal regressors, and their files."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evencover.conformal.cross import CrossConformalRegressor
    from evencover.conformal.split import ConformalRegressor


def load_predictor(path: str | Path) -> "ConformalRegressor | CrossConformalRegressor":
    """Return the `ConformalRegressor` or `CrossConformalRegressor` in a file; only its module is imported."""
    from evencover.conformal.predictor_files import saved_class

    if saved_class(path) == "CrossConformalRegressor":
        from evencover.conformal.cross import CrossConformalRegressor

        return CrossConformalRegressor.load(path)
    from evencover.conformal.split import ConformalRegressor

    return ConformalRegressor.load(path)
