"""What every model finds in a world whose noise is known, as a Markdown table: ``python -m benchmarks.models``.

10 000 training rows of `evencover.synthetic.heteroskedastic`, 10 000 others for calibration and 10 000 for the test;
the paper's settings. Coverage is at level 0.9, over the rows with the lowest and the highest third of true noise.
"""

from time import perf_counter
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from evencover import BySpread, ConformalRegressor, IntervalDistance, Intervals, Normalized
from evencover.models import (
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    WithSpread,
)
from evencover.synthetic import Sample, heteroskedastic

_FOREST = RandomForestRegressor(min_samples_leaf=5, random_state=0)
_MODELS: dict[str, Any] = {
    "`QuantileNetwork()`": QuantileNetwork(random_state=0),
    "`QuantileForest()`": QuantileForest(random_state=0),
    "`MeanVarianceNetwork()`": MeanVarianceNetwork(random_state=0),
    "`DropoutEnsemble()`": DropoutEnsemble(random_state=0),
    "`DeepEnsemble()`": DeepEnsemble(random_state=0),
    "`WithSpread(forest)`": WithSpread(_FOREST, random_state=0),
    "`WithSpread(forest, NeighborSpread())`": WithSpread(_FOREST, NeighborSpread(), random_state=0),
    '`WithSpread(forest, NeighborSpread(of="targets"))`': WithSpread(
        _FOREST, NeighborSpread(of="targets"), random_state=0
    ),
    "`WithSpread(forest, EnsembleSpread())`": WithSpread(_FOREST, EnsembleSpread(), random_state=0),
}


def main() -> None:
    """Print a row for each model as soon as it is known."""
    torch.set_num_threads(1)
    training, calibration, test = (heteroskedastic(10_000, seed=seed) for seed in (1, 2, 3))
    _print_row(
        "model",
        "fit",
        "rank correlation",
        "log error",
        "own interval",
        "low, high noise",
        "calibrated",
        "low, high noise",
    )
    _print_row(*["---"] * 8)
    for name, model in _MODELS.items():
        start = perf_counter()
        model.fit(training.X, training.y)
        seconds = perf_counter() - start
        spread, own = model.predict_full(test.X).spread, model.predict_full(test.X).interval()
        correlation = spearmanr(spread, test.spread).statistic
        error = np.median(np.abs(np.log(spread / test.spread)))
        found = (own, _calibrated(model, calibration, test))
        coverages = [text for intervals in found for text in _coverages(intervals, test)]
        _print_row(name, f"{seconds:.0f} s", f"{correlation:.2f}", f"{error:.2f}", *coverages)


def _calibrated(model: Any, calibration: Sample, test: Sample) -> Intervals:
    """Return its intervals calibrated at three noise levels, by quantiles' own score or the normalised one."""
    score = IntervalDistance() if hasattr(model, "predict_quantiles") else Normalized()
    regressor = ConformalRegressor(FrozenEstimator(model), nonconformity=score, taxonomy=BySpread(3))
    return regressor.fit(calibration.X, calibration.y).predict_interval(test.X, level=0.9)


def _coverages(intervals: Intervals, test: Sample) -> tuple[str, str]:
    """Return the coverage over all rows, and over those of low and of high noise."""
    covered = intervals.covers(test.y)
    low, high = (test.spread < np.quantile(test.spread, 1 / 3)), (test.spread > np.quantile(test.spread, 2 / 3))
    return f"{covered.mean():.3f}", f"{covered[low].mean():.3f}, {covered[high].mean():.3f}"


def _print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
