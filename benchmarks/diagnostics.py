"""Seconds that the diagnostics take: the bootstrap against SciPy's estimator on resamples, and a million rows; as JSON.

The bootstrap is of one group's 0.9 quantile, 1000 resamples of 1500 rows. SciPy's share is its Harrell-Davis estimator
alone, on resamples that are there already; ours is everything.
"""

import json
import sys
from statistics import median

import numpy as np
from scipy.stats import ks_2samp, quantile

from benchmarks.timing import seconds
from evencover import BySpread, Residual, Rows, diagnose_scores
from evencover.diagnostics._quantile_differences import resampled_quantiles
from evencover.synthetic import toy

_RESAMPLES, _ROWS, _MANY, _ROUNDS = 1000, 1500, 1_000_000, 7
_VALUES = np.abs(np.random.default_rng(0).normal(size=_ROWS))
_DRAWN = _VALUES[np.random.default_rng(1).integers(0, _ROWS, (_RESAMPLES, _ROWS))]


def main() -> None:
    """Print the median seconds of each way, after a first round that compares their distributions."""
    if ks_2samp(counted(), sorted_by_scipy()).pvalue < 1e-6:
        sys.exit("the two bootstraps differ")
    rounds = [{way.__name__: seconds(way) for way in (counted, sorted_by_scipy)} for _ in range(_ROUNDS)]
    bootstrap = {name: median(found[name] for found in rounds) for name in rounds[0]}
    sample = toy().sample(_MANY, seed=0)
    prediction = sample.oracle()
    scores, groups = Residual()(sample.y, prediction), BySpread(3).learn(Rows(prediction))
    whole = [seconds(lambda: diagnose_scores(scores, groups, spread=prediction.spread)) for _ in range(3)]
    sorting = [seconds(lambda: np.sort(scores)) for _ in range(3)]
    print(json.dumps({"bootstrap": bootstrap, "diagnosis": median(whole), "sorting": median(sorting)}))


def counted() -> np.ndarray:
    """Return the resamples' quantiles by counting ranks in a window."""
    return resampled_quantiles(_VALUES, 0.9, _RESAMPLES, np.random.default_rng(2))


def sorted_by_scipy() -> np.ndarray:
    """Return the resamples' quantiles by one vectorised call."""
    return quantile(_DRAWN, 0.9, method="harrell-davis", axis=1)


if __name__ == "__main__":
    main()
