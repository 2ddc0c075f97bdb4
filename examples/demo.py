"""Show on two embedded data sets where a marginal predictor has low coverage, and how to fix it.

Run it with ``make demo``. For each data set and several random splits, it fits a quantile model and calibrates it in
three ways on the same rows. Then it measures coverage and width on test rows, by predicted noise level.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator

from evencover import BySpread, ConformalRegressor, IntervalDistance, coverage_by_group, diagnose
from evencover.metrics import mean_width_by_group
from evencover.model_selection import three_way_split
from evencover.models import FromQuantiles
from evencover.synthetic import heteroskedastic

LEVEL = 0.9
METHODS = {
    "one threshold, residual": {},
    "one threshold, CQR": {"nonconformity": IntervalDistance()},
    "one per noise level, CQR": {"nonconformity": IntervalDistance(), "taxonomy": BySpread(3)},
}


def main() -> None:
    """Print the results on synthetic data and on the diabetes data."""
    sample = heteroskedastic(6000, seed=0)
    report("Synthetic data whose noise grows tenfold (6000 rows)", sample.X, sample.y, splits=3)
    X, y = load_diabetes(return_X_y=True)
    report("Diabetes progression (442 patients)", X, y, splits=30)


def report(title: str, X: Any, y: Any, *, splits: int) -> None:
    """Print each method's coverage and width by noise level, averaged over the splits."""
    print(f"\n{title}: coverage (mean width) at level {LEVEL}, {splits} random splits")
    print(f"{'':26}{'low noise':>16}{'medium':>16}{'high noise':>16}   largest gap")
    by_split = [dict(results(X, y, seed=seed)) for seed in range(splits)]
    for method in METHODS:
        table = np.nanmean([tables[method] for tables in by_split], axis=0)  # (2, groups): coverage, width
        cells = "".join(f"{f'{share:.3f} ({width:.3g})':>16}" for share, width in table.T)
        print(f"{method:26}{cells}   {np.abs(table[0] - LEVEL).max():.3f}")
    print("\n".join(summary_sentences(by_split)))
    print(forecast(X, y))


def summary_sentences(by_split: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each method: its coverage at the lowest and at the highest noise level."""
    for method in METHODS:
        low, *_, high = np.nanmean([tables[method][0] for tables in by_split], axis=0)
        shares = f"{100 * low:.1f} % of the rows with low noise, {100 * high:.1f} % of the rows with high noise"
        yield f"With {method}, the intervals cover {shares}."


def forecast(X: Any, y: Any) -> str:
    """Return the expected coverage of the first method on the first split, from the calibration rows only."""
    training, calibration, _ = three_way_split(X, y, random_state=0)
    model = FrozenEstimator(quantile_model(0).fit(training.X, training.y))
    diagnosis = diagnose(ConformalRegressor(model).fit(calibration.X, calibration.y), level=LEVEL)
    shares = ", ".join(f"{row.group} {100 * row.coverage:.1f} %" for row in diagnosis.table)
    return (
        f"Forecast of `diagnose` from {len(calibration)} calibration rows, for one threshold, residual: coverage "
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
