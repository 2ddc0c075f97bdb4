"""Print the accuracy of every model on synthetic data as a Markdown table: ``python -m benchmarks.models``.

The data are 10 000 training, 10 000 calibration and 10 000 test rows of `evencover.synthetic.heteroskedastic`, whose
noise is known; the models have the paper's settings. Coverage is at level 0.9: of all test rows, and of the thirds
with the lowest and with the highest true noise.
"""

from time import perf_counter
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from benchmarks.markdown import print_row
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
    """Print a row for each model as soon as it is fitted."""
    torch.set_num_threads(1)
    training, calibration, test = (heteroskedastic(10_000, seed=seed) for seed in (1, 2, 3))
    print_row(
        "model",
        "fit",
        "rank correlation",
        "log error",
        "own interval",
        "low, high noise",
        "calibrated",
        "low, high noise",
    )
    print_row(*["---"] * 8)
    for name, model in _MODELS.items():
        start = perf_counter()
        model.fit(training.X, training.y)
        seconds = perf_counter() - start
        spread, own = model.predict_full(test.X).spread, model.predict_full(test.X).interval()
        correlation = spearmanr(spread, test.spread).statistic
        error = np.median(np.abs(np.log(spread / test.spread)))
        both = (own, _calibrated_intervals(model, calibration, test))
        coverages = [text for intervals in both for text in _coverages(intervals, test)]
        print_row(name, f"{seconds:.0f} s", f"{correlation:.2f}", f"{error:.2f}", *coverages)


def _calibrated_intervals(model: Any, calibration: Sample, test: Sample) -> Intervals:
    """Return intervals calibrated in three groups of spread, by the score that suits the model."""
    score = IntervalDistance() if hasattr(model, "predict_quantiles") else Normalized()
    regressor = ConformalRegressor(FrozenEstimator(model), nonconformity=score, taxonomy=BySpread(3))
    return regressor.fit(calibration.X, calibration.y).predict_interval(test.X, level=0.9)


def _coverages(intervals: Intervals, test: Sample) -> tuple[str, str]:
    """Return the coverage of all rows, and of the thirds with the lowest and the highest noise."""
    covered = intervals.covers(test.y)
    low, high = (test.spread < np.quantile(test.spread, 1 / 3)), (test.spread > np.quantile(test.spread, 2 / 3))
    return f"{covered.mean():.3f}", f"{covered[low].mean():.3f}, {covered[high].mean():.3f}"


if __name__ == "__main__":
    main()
