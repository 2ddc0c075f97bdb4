"""Calibrators as users write them, from public names only: a sliding window, two tails, a linear threshold."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import QuantileRegressor

from evencover import Guarantee, Intervals, Prediction, conformal_quantile
from evencover.protocols import scores_of, threshold_intervals


@dataclass(frozen=True)
class SlidingWindow:
    """One threshold, from the most recent rows."""

    size: int

    def learn(self, rows, nonconformity):
        return Window(nonconformity, scores_of(nonconformity, rows)[-self.size :])

    def restore(self, state, nonconformity):
        return Window(nonconformity, state["scores"])


@dataclass(frozen=True, eq=False)
class Window:
    """The scores of the most recent rows."""

    nonconformity: Any
    scores: np.ndarray
    nested: ClassVar[bool] = True

    @property
    def guarantee(self):
        return Guarantee("marginal", {"window": len(self.scores)}, exact=True)

    def intervals(self, rows, levels):
        thresholds = conformal_quantile(self.scores, levels)[None, :]
        return threshold_intervals(self.nonconformity, thresholds, rows.prediction)

    def p_values(self, rows, *, seed=None):
        scores, old = scores_of(self.nonconformity, rows), np.sort(self.scores)
        tie_share = 1.0 if seed is None else np.random.default_rng(seed).random(len(scores))
        larger, at_least = (len(old) - np.searchsorted(old, scores, side=side) for side in ("right", "left"))
        return (larger + tie_share * (1 + at_least - larger)) / (len(old) + 1)

    def state(self):
        return {"scores": self.scores}


@dataclass(frozen=True)
class SignedTails:
    """A threshold for each tail, each missing (1 − level) / 2; for scores whose interval is (−inf, u(t)]."""

    def learn(self, rows, nonconformity):
        return Tails(nonconformity, scores_of(nonconformity, rows))

    def restore(self, state, nonconformity):
        return Tails(nonconformity, state["scores"])


@dataclass(frozen=True, eq=False)
class Tails:
    """The signed scores."""

    nonconformity: Any
    scores: np.ndarray
    nested: ClassVar[bool] = True

    @property
    def guarantee(self):
        return Guarantee("marginal", {"all": len(self.scores)})

    def intervals(self, rows, levels):
        mirrored = Prediction(-rows.prediction.center, rows.prediction.spread)
        lower = -self._upper(-self.scores, mirrored, levels)
        return Intervals(lower, self._upper(self.scores, rows.prediction, levels))

    def p_values(self, rows, *, seed=None):
        above = Window(self.nonconformity, self.scores).p_values(rows, seed=seed)
        below = [np.count_nonzero(self.scores <= score) for score in scores_of(self.nonconformity, rows)]
        return np.minimum(1.0, 2 * np.minimum(above, (1 + np.array(below)) / (len(self.scores) + 1)))

    def state(self):
        return {"scores": self.scores}

    def _upper(self, scores, prediction, levels):
        thresholds = conformal_quantile(scores, [(1 + level) / 2 for level in levels])[None, :]
        return threshold_intervals(self.nonconformity, thresholds, prediction).upper


@dataclass(frozen=True)
class ThresholdLine:
    """A threshold that is linear in the spread, by quantile regression of the scores for each level."""

    def learn(self, rows, nonconformity):
        return Lines(nonconformity, scores_of(nonconformity, rows), rows.prediction.spread)

    def restore(self, state, nonconformity):
        return Lines(nonconformity, state["scores"], state["spread"])


@dataclass(frozen=True, eq=False)
class Lines:
    """The scores, and the spreads that they are regressed on."""

    nonconformity: Any
    scores: np.ndarray
    spread: np.ndarray
    nested: ClassVar[bool] = False  # lines may cross

    @property
    def guarantee(self):
        return Guarantee("approximate", {"all": len(self.scores)})

    def intervals(self, rows, levels):
        thresholds = [self._linear_threshold(float(level), rows.prediction.spread) for level in levels]
        return threshold_intervals(self.nonconformity, np.stack(thresholds, axis=-1), rows.prediction)

    def p_values(self, rows, *, seed=None):
        levels = np.arange(1, 10) / 10
        covered = self.intervals(rows, tuple(levels)).covers(rows.y)
        return 1 - np.where(covered.any(axis=1), levels[covered.argmax(axis=1)], 1.0)

    def state(self):
        return {"scores": self.scores, "spread": self.spread}

    def _linear_threshold(self, level, spread):
        model = QuantileRegressor(quantile=level, alpha=0).fit(self.spread[:, None], self.scores)
        return model.intercept_ + model.coef_[0] * spread
