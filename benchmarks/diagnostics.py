"""Print the run times of the diagnostics as JSON: the bootstrap compared with SciPy, and a diagnosis of a million rows.

The bootstrap is that of one group's 0.9 quantile, with 1000 resamples of 1500 rows. The time of SciPy is that of its
Harrell-Davis estimator alone, on resamples that were drawn before. The time of this package includes the resampling.
"""

import json
import sys
from statistics import median

import numpy as np
from scipy.stats import ks_2samp, quantile

from benchmarks.timing import seconds
from evencover import BySpread, Residual, Rows, diagnose_scores
from evencover.diagnostics.score_tests import resampled_quantiles
from evencover.synthetic import toy

_RESAMPLES, _ROWS, _MANY_ROWS, _ROUNDS = 1000, 1500, 1_000_000, 7
_VALUES = np.abs(np.random.default_rng(0).normal(size=_ROWS))
_RESAMPLED_VALUES = _VALUES[np.random.default_rng(1).integers(0, _ROWS, (_RESAMPLES, _ROWS))]


def main() -> None:
    """Print the median seconds of each method, after a check that both give the same distribution."""
    if ks_2samp(count_in_window(), estimate_by_scipy()).pvalue < 1e-6:
        sys.exit("the two bootstraps give different distributions")
    rounds = [
        {method.__name__: seconds(method) for method in (count_in_window, estimate_by_scipy)} for _ in range(_ROUNDS)
    ]
    bootstrap = {name: median(times[name] for times in rounds) for name in rounds[0]}
    sample = toy().sample(_MANY_ROWS, seed=0)
    prediction = sample.oracle()
    scores, groups = Residual()(sample.y, prediction), BySpread(3).learn(Rows(prediction))
    diagnosis = [seconds(lambda: diagnose_scores(scores, groups, spread=prediction.spread)) for _ in range(3)]
    sorting = [seconds(lambda: np.sort(scores)) for _ in range(3)]
    print(json.dumps({"bootstrap": bootstrap, "diagnosis": median(diagnosis), "sorting": median(sorting)}))


def count_in_window() -> np.ndarray:
    """Return the quantiles of the resamples, computed from the counts in a window of ranks."""
    return resampled_quantiles(_VALUES, 0.9, _RESAMPLES, np.random.default_rng(2))


def estimate_by_scipy() -> np.ndarray:
    """Return the quantiles of the resamples, computed by one vectorised call of SciPy."""
    return quantile(_RESAMPLED_VALUES, 0.9, method="harrell-davis", axis=1)


if __name__ == "__main__":
    main()
