"""Test whether the score depends on the spread and, if so, which change of the score would remove the dependence.

The test uses ranks: cubic polynomials of the ranks of the scores against those of the spread. If score and spread are
independent, (n − 1) times the sum of the squared correlations between the two orthonormal bases has mean 9, and is
approximately chi-squared with 9 degrees of freedom. The test detects trends, curvature, and variance that changes along
the spread.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, rankdata

from evencover._internal.arrays import FloatArray
from evencover.diagnostics._exact_tests import SIGNIFICANT
from evencover.diagnostics._formatting import p_value_phrase

_DEGREE = 3
_MIN_ROWS = 20  # for the chi-squared approximation
_MAX_ROWS = 50_000  # enough to find any dependence that matters
_NEGLIGIBLE_SIZE = 1e-8
_POWERS = np.linspace(-2.0, 3.0, 21)
_TERMS = np.concatenate([-np.linspace(0.9, 0.1, 9), [0.0], np.geomspace(0.1, 10.0, 11)])
_ACTIONS = {
    "power": "dividing the score by spread**{value:.2f}",
    "term": "dividing the score by (spread {sign} {size:.2f} × median spread)",
    "term in the divisor": "multiplying the score by spread / (spread {sign} {size:.2f} × median spread)",
}


@dataclass(frozen=True)
class Remedy:
    """The best change of one kind to make the score independent of the spread.

    Parameters
    ----------
    kind : {"power", "term", "term in the divisor"}
        Divide the score by spread**value; divide it by spread + value × median spread; or, for a score that is already
        divided by the spread, divide by spread + value × median spread instead.
    value : float
        The value that leaves the least dependence.
    p_value : float
        p-value of independence after the change: small if no value removes the dependence.
    """

    kind: str
    value: float
    p_value: float

    @property
    def removes_dependence(self) -> bool:
        """Whether the changed score shows no significant dependence on the spread."""
        return self.p_value >= SIGNIFICANT

    def __str__(self) -> str:
        sign = "-" if self.value < 0 else "+"
        return _ACTIONS[self.kind].format(value=self.value, sign=sign, size=abs(self.value))


@dataclass(frozen=True)
class Dependence:
    """Whether the score depends on the spread.

    Parameters
    ----------
    p_value : float
        p-value of independence; NaN if the score or the spread is constant, or with fewer than 20 rows.
    correlation : float
        Rank correlation (Spearman) of score and spread. If it is positive, noisy rows have larger scores.
    remedies : tuple of Remedy
        If they are dependent: the changes of the score that were evaluated, the simplest first.
    """

    p_value: float
    correlation: float
    remedies: tuple[Remedy, ...] = ()

    @property
    def sufficient_remedy(self) -> Remedy | None:
        """The simplest change of the score that removes the dependence, if there is one."""
        return next((remedy for remedy in self.remedies if remedy.removes_dependence), None)

    def __str__(self) -> str:
        if np.isnan(self.p_value):
            return f"not tested (one of them is constant, or there are fewer than {_MIN_ROWS} rows)"
        if self.p_value >= SIGNIFICANT:
            return f"no significant dependence ({p_value_phrase(self.p_value)})"
        found = f"dependent ({p_value_phrase(self.p_value)}, rank correlation {self.correlation:+.2f})"
        if self.sufficient_remedy:
            return f"{found}; {self.sufficient_remedy} would remove the dependence"
        none = "; dividing by a power of the spread or adding a term to it would not remove the dependence"
        return found + none * bool(self.remedies)


def dependence(scores: FloatArray, spread: FloatArray, rng: np.random.Generator) -> Dependence:
    """Return whether the score depends on the spread, and which changes of the score were evaluated.

    With more than 50 000 rows, a random sample of so many is used.
    """
    if len(scores) > _MAX_ROWS:
        sample = rng.choice(len(scores), _MAX_ROWS, replace=False)
        scores, spread = scores[sample], spread[sample]
    if len(scores) < _MIN_ROWS or spread.min() == spread.max() or scores.min() == scores.max():
        return Dependence(np.nan, np.nan)
    score_basis, basis = _rank_polynomials(scores), _rank_polynomials(spread)
    p_value, correlation = _p_value(score_basis, basis), float(score_basis[:, 0] @ basis[:, 0])
    if p_value >= SIGNIFICANT or spread.min() <= 0:
        return Dependence(p_value, correlation)
    ratios = spread / np.median(spread)
    terms = _TERMS[ratios.min() + _TERMS > 0]
    remedies = [
        _best_remedy("power", _POWERS, basis, lambda power: scores / ratios**power),
        _best_remedy("term", terms, basis, lambda term: scores / (ratios + term)),
        _best_remedy("term in the divisor", terms, basis, lambda term: scores * ratios / (ratios + term)),
    ]
    return Dependence(p_value, correlation, tuple(remedies))


def _rank_polynomials(values: FloatArray) -> FloatArray:
    """Return orthonormal polynomials of the ranks, without the constant; fewer if few values differ. Shape (n, 3)."""
    ranks = rankdata(values)
    centered = (ranks - ranks.mean()) / len(ranks)
    basis, triangle = np.linalg.qr(np.stack([centered**power for power in range(_DEGREE + 1)], axis=1))
    sizes = triangle.diagonal()
    kept = np.flatnonzero(np.abs(sizes) > _NEGLIGIBLE_SIZE * np.sqrt(len(ranks)))[1:]
    return np.asarray(basis[:, kept] * np.sign(sizes[kept]))


def _statistic(a: FloatArray, b: FloatArray) -> float:
    """Return the test statistic of two bases: (n − 1) times the sum of their squared correlations."""
    return float((len(a) - 1) * np.sum((a.T @ b) ** 2))


def _p_value(a: FloatArray, b: FloatArray, *, fitted: int = 0) -> float:
    """Return the p-value of independence, given the two bases and the number of fitted parameters."""
    freedom = a.shape[1] * b.shape[1] - fitted
    return float(chi2.sf(_statistic(a, b), max(freedom, 1)))


def _best_remedy(kind: str, grid: FloatArray, basis: FloatArray, changed: Callable[[float], FloatArray]) -> Remedy:
    """Return the remedy whose parameter leaves the least dependence: best on a grid, then refined between neighbours.

    `changed` returns the changed scores for a value of the parameter. `basis` is that of the spread.
    """

    def statistic(value: float) -> float:
        return _statistic(_rank_polynomials(changed(value)), basis)

    on_grid = [statistic(value) for value in grid]
    best = int(np.argmin(on_grid))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = minimize_scalar(statistic, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    value = float(refined.x) if refined.fun <= on_grid[best] else float(grid[best])
    return Remedy(kind, value, _p_value(_rank_polynomials(changed(value)), basis, fitted=1))
