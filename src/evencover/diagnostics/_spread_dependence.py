"""Whether the score is pivotal in the spread and, if not, what would make it so.

Score and spread are compared by rank: cubic polynomials of the one against those of the other. If they are independent,
(n − 1) times the sum of the squared correlations between the two orthonormal bases has mean 9, and is about chi-squared
with 9 degrees of freedom. It sees trends, bends, and scatter that grows or shrinks along the spread.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, rankdata

from evencover._internal.arrays import FloatArray
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import probability

_DEGREE = 3
_FEWEST = 20  # rows for the chi-squared law
_MOST = 50_000  # rows looked at: enough to see any dependence that matters
_NOTHING = 1e-8
_POWERS = np.linspace(-2.0, 3.0, 21)
_TERMS = np.concatenate([-np.linspace(0.9, 0.1, 9), [0.0], np.geomspace(0.1, 10.0, 11)])
_WORDS = {
    "power": "score / spread ** {value:.2f}",
    "term": "score / (spread {value:+.2f} × its median)",
    "term in the divisor": "score × spread / (spread {value:+.2f} × its median)",
}


@dataclass(frozen=True)
class Remedy:
    """A change of the score that would make it pivotal in the spread, if any of its kind does.

    Parameters
    ----------
    kind : {"power", "term", "term in the divisor"}
        Divide the score by spread ** value; by spread + value × the median spread; or by the latter instead of the
        spread that it is divided by already.
    value : float
        The one that leaves the least dependence.
    p_value : float
        Of what dependence is left: small if no value will do.
    """

    kind: str
    value: float
    p_value: float

    @property
    def enough(self) -> bool:
        """Whether what is left may be chance."""
        return self.p_value >= SIGNIFICANT

    def __str__(self) -> str:
        return _WORDS[self.kind].format(value=self.value)


@dataclass(frozen=True)
class Dependence:
    """Whether the score depends on the spread.

    Parameters
    ----------
    p_value : float
        Of independence; NaN if the spread is constant, or with fewer than 20 rows.
    correlation : float
        Rank correlation (Spearman) of score and spread: above 0, noisy rows score higher.
    remedies : tuple of Remedy
        Where they depend: changes that were tried, the simplest first.
    """

    p_value: float
    correlation: float
    remedies: tuple[Remedy, ...] = ()

    @property
    def cure(self) -> Remedy | None:
        """The simplest change of the score that leaves no more dependence than chance, if there is one."""
        return next((remedy for remedy in self.remedies if remedy.enough), None)

    def __str__(self) -> str:
        if np.isnan(self.p_value):
            return f"not compared (one of them is constant, or there are fewer than {_FEWEST} rows)"
        if self.p_value >= SIGNIFICANT:
            return f"no dependence seen (p {probability(self.p_value)})"
        none = "; no power of the spread nor additive term mends it" if self.remedies else ""
        instead = f"; {self.cure} would not be" if self.cure else none
        return f"dependent (p {probability(self.p_value)}, rank correlation {self.correlation:+.2f}){instead}"


def dependence(scores: FloatArray, spread: FloatArray, rng: np.random.Generator) -> Dependence:
    """Return whether the score depends on the spread, and what would help. At most 50 000 rows are looked at."""
    if len(scores) > _MOST:
        some = rng.choice(len(scores), _MOST, replace=False)
        scores, spread = scores[some], spread[some]
    if len(scores) < _FEWEST or spread.min() == spread.max() or scores.min() == scores.max():
        return Dependence(np.nan, np.nan)
    own, basis = _basis(scores), _basis(spread)
    p_value, correlation = _p_value(own, basis), float(own[:, 0] @ basis[:, 0])
    if p_value >= SIGNIFICANT or spread.min() <= 0:
        return Dependence(p_value, correlation)
    ratios = spread / np.median(spread)
    terms = _TERMS[ratios.min() + _TERMS > 0]
    remedies = [
        _remedy("power", _POWERS, basis, lambda power: scores / ratios**power),
        _remedy("term", terms, basis, lambda term: scores / (ratios + term)),
        _remedy("term in the divisor", terms, basis, lambda term: scores * ratios / (ratios + term)),
    ]
    return Dependence(p_value, correlation, tuple(remedies))


def _basis(values: FloatArray) -> FloatArray:
    """Return orthonormal polynomials of the ranks, without the constant; fewer if few values differ. Shape (n, 3)."""
    ranks = rankdata(values)
    centered = (ranks - ranks.mean()) / len(ranks)
    basis, triangle = np.linalg.qr(np.stack([centered**power for power in range(_DEGREE + 1)], axis=1))
    sizes = triangle.diagonal()
    kept = np.flatnonzero(np.abs(sizes) > _NOTHING * np.sqrt(len(ranks)))[1:]
    return np.asarray(basis[:, kept] * np.sign(sizes[kept]))


def _statistic(a: FloatArray, b: FloatArray) -> float:
    return float((len(a) - 1) * np.sum((a.T @ b) ** 2))


def _p_value(a: FloatArray, b: FloatArray, *, fitted: int = 0) -> float:
    """Return the p-value of independence of what the bases stand for, after fitting some parameters."""
    freedom = a.shape[1] * b.shape[1] - fitted
    return float(chi2.sf(_statistic(a, b), max(freedom, 1)))


def _remedy(kind: str, grid: FloatArray, basis: FloatArray, changed: Callable[[float], FloatArray]) -> Remedy:
    """Return the value of one parameter that leaves the least dependence: on a grid, then between its neighbours."""
    left = [_statistic(_basis(changed(value)), basis) for value in grid]
    best = int(np.argmin(left))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda value: _statistic(_basis(changed(value)), basis), bounds=ends, method="bounded", options={"xatol": 1e-3}
    )
    value = float(found.x) if found.fun <= left[best] else float(grid[best])
    return Remedy(kind, value, _p_value(_basis(changed(value)), basis, fitted=1))
