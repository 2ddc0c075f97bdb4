"""The seam between scores and answers: what learns from calibration rows, and what it learned.

    calibrator.learn(rows, nonconformity) -> Calibrated     from calibration rows, whose targets are known
    calibrated.intervals(rows, levels) -> Intervals         for new rows
    calibrated.p_values(rows) -> (m,)                       for new rows and the targets they came with

A calibrator sees `Rows`: the model's prediction, the features, the targets, the weights. It scores them itself, since
groups may have a score each and two tails need two scores a row; `scores_of` does so for one score, and
`threshold_intervals` makes intervals of one threshold a row. Any objects with these methods work where `ByGroup` does.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from evencover._internal.arrays import FloatArray
from evencover.guarantees import Guarantee
from evencover.intervals import Intervals, IntervalUnion
from evencover.predictions import Rows
from evencover.scores import Nonconformity


class Calibrated(Protocol):
    """What a calibrator learned: frozen, so that several threads may ask it at once.

    The contract, tested for every one of them: a row's answer does not depend on the other new rows (but for the draws
    of a seed); it is the same after pickling and after its file; the guarantee that it states holds; where it is
    `nested`, an interval contains those at smaller levels.

    It may also have ``scores``, those of all calibration rows in their order, shape (n,), so that `diagnose` need not
    score again; ``merge(*others)``, if what parts of the rows teach can be joined to what the whole teaches; and
    ``takes_unseen = True``, if it has groups, and its ``intervals`` and ``p_values`` take ``unseen=``.
    """

    @property
    def nonconformity(self) -> Nonconformity:
        """The score, or one for each group."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""

    @property
    def nested(self) -> bool:
        """Whether intervals at larger levels contain those at smaller ones."""

    def intervals(self, rows: Rows, levels: tuple[Fraction, ...], /) -> Intervals | IntervalUnion:
        """Return the prediction set of each of m rows at each of L levels. Bounds of shape (m, L)."""

    def p_values(self, rows: Rows, /, *, seed: Any = None) -> FloatArray:
        """Return the p-value of each row's target, smoothed by the seed's draws where one is given. Shape (m,)."""

    def state(self) -> Mapping[str, Any]:
        """Return what was learned, by name: arrays, values that JSON knows, objects that skops can write."""


class Calibrator(Protocol):
    """What learns from calibration rows; it holds settings only, and stays as it is.

    One that uses `rows.weights`, for covariate shift, says so by ``takes_weights = True``; others are given none.
    """

    def learn(self, rows: Rows, nonconformity: Nonconformity, /) -> Calibrated:
        """Return what the calibration rows teach.

        Their targets are known: `rows.y`. They come in the order in which `calibrate` was given them; `fit` splits rows
        at random.
        """

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity, /) -> Calibrated:
        """Return what was learned before, from its state."""


def checked_calibrator(calibrator: Any) -> Calibrator:
    """Return the calibrator if it is one."""
    methods = (getattr(calibrator, name, None) for name in ("learn", "restore"))
    if isinstance(calibrator, type) or not all(map(callable, methods)):
        raise TypeError(
            "calibrator must be a calibrator such as ByGroup(BySpread(3)), with methods learn(rows, nonconformity) and "
            f"restore(state, nonconformity); got {calibrator!r}"
        )
    return calibrator  # type: ignore[no-any-return]


def checked_learned(learned: Any) -> Calibrated:
    """Return what a calibrator learned, if it can answer for new rows."""
    members = ("nonconformity", "guarantee", "nested", "intervals", "p_values", "state")
    lacking = [name for name in members if not hasattr(learned, name)]
    if lacking:
        raise TypeError(
            f"learn of a calibrator must return an object with {', '.join(members)}; {learned!r:.80} lacks "
            f"{', '.join(lacking)}"
        )
    return learned  # type: ignore[no-any-return]
