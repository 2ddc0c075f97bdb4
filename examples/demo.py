"""The main job on two embedded data sets: where a marginal predictor misses, and what mends it.

Run it with ``make demo``. For each data set and each of several random splits, a quantile model is fitted, then
calibrated in three ways on the same rows; coverage and width are measured on test rows by predicted noise level.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator

from evencover import (
    BySpread,
    ConformalRegressor,
    IntervalDistance,
    coverage_by_group,
    diagnose,
    mean_width_by_group,
    three_way_split,
)
from evencover.models import FromQuantiles
from evencover.synthetic import heteroskedastic

LEVEL = 0.9
METHODS = {
    "one threshold, residual": {},
    "one threshold, CQR": {"nonconformity": IntervalDistance()},
    "one per noise level, CQR": {"nonconformity": IntervalDistance(), "taxonomy": BySpread(3)},
}


def main() -> None:
    """Print what was found on a synthetic world and on the diabetes data."""
    sample = heteroskedastic(6000, seed=0)
    report("A synthetic world whose noise grows tenfold (6000 rows)", sample.X, sample.y, splits=3)
    X, y = load_diabetes(return_X_y=True)
    report("Diabetes progression (442 patients)", X, y, splits=30)


def report(title: str, X: Any, y: Any, *, splits: int) -> None:
    """Print each method's coverage and width by noise level, averaged over the splits."""
    print(f"\n{title}: coverage (mean width) at level {LEVEL}, {splits} random splits")
    print(f"{'':26}{'low noise':>16}{'medium':>16}{'high noise':>16}   widest gap")
    found = [dict(results(X, y, seed=seed)) for seed in range(splits)]
    for method in METHODS:
        table = np.nanmean([each[method] for each in found], axis=0)  # (2, groups): coverage, width
        cells = "".join(f"{f'{share:.3f} ({width:.3g})':>16}" for share, width in table.T)
        print(f"{method:26}{cells}   {np.abs(table[0] - LEVEL).max():.3f}")
    print("\n".join(in_words(found)))
    print(foreseen(X, y))


def in_words(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield in words how each method covers the quietest and the noisiest rows."""
    for method in METHODS:
        low, *_, high = np.nanmean([each[method][0] for each in found], axis=0)
        yield f"With {method}: {low:.1%} of the quietest rows are covered, {high:.1%} of the noisiest."


def foreseen(X: Any, y: Any) -> str:
    """Return what the calibration rows of the first split told of the first method, before any test row."""
    training, calibration, _ = three_way_split(X, y, random_state=0)
    model = FrozenEstimator(quantile_model(0).fit(training.X, training.y))
    diagnosis = diagnose(ConformalRegressor(model).fit(calibration.X, calibration.y), level=LEVEL)
    shares = ", ".join(f"{row.group} {row.coverage:.1%}" for row in diagnosis.table)
    return (
        f"Foreseen by `diagnose` from {len(calibration)} calibration rows: one threshold, residual, will cover "
        f"{shares}. Verdict: {diagnosis.verdict}. {diagnosis.advice}"
    )


def results(X: Any, y: Any, *, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield each method's coverage and mean width by group of the predicted spread, on test rows."""
    training, calibration, test = three_way_split(X, y, random_state=seed)
    model = quantile_model(seed).fit(training.X, training.y)
    fitted = {
        name: ConformalRegressor(FrozenEstimator(model), **settings).fit(calibration.X, calibration.y)
        for name, settings in METHODS.items()
    }
    groups = fitted["one per noise level, CQR"].predict_interval(test.X, level=LEVEL).groups
    for name, regressor in fitted.items():
        intervals = regressor.predict_interval(test.X, level=LEVEL)
        shares, widths = coverage_by_group(test.y, intervals, groups), mean_width_by_group(intervals, groups)
        yield name, [list(shares.values()), list(widths.values())]


def quantile_model(seed: int) -> FromQuantiles:
    """Return two boosted quantile regressors as one model."""
    low, high = (
        HistGradientBoostingRegressor(
            loss="quantile", quantile=quantile, max_iter=60, max_leaf_nodes=8, min_samples_leaf=20, random_state=seed
        )
        for quantile in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    return FromQuantiles(low, high, level=LEVEL)


if __name__ == "__main__":
    main()
