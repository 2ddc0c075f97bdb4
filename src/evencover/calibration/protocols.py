"""What a calibrator is, and the prediction sets and p-values that each gives, checked and in the requested shape."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from evencover.calibration.calibration import Seed, Unseen
from evencover.guarantees import Guarantee
from evencover.inputs.arrays import FloatArray, checked_vector, got_text
from evencover.inputs.frames import FrameKind
from evencover.intervals import Intervals, IntervalUnion, for_requested_level
from evencover.quantiles import Levels
from evencover.rows import Rows
from evencover.scores.score import Nonconformity


class Calibrated(Protocol):
    """What a calibrator has learned. It does not change, so several threads can use it at once.

    The contract, tested for every one in this package:

    - The results for a row do not depend on the other new rows, except through the random draws of a seed.
    - The results are the same after pickling, and after saving and loading.
    - The stated guarantee holds.
    - If it is `nested`, an interval contains those at smaller levels.

    Optional members:

    - ``scores``: the scores of all calibration rows in their order, shape (n,); `diagnose` then does not compute them
      again.
    - ``merge(*others)``: one object for the calibration rows of several.
    - ``takes_unseen = True``: it has groups, and its ``intervals`` and ``p_values`` take ``unseen=``.
    - ``taxonomy``, ``calibration`` and ``groups(rows)``: the taxonomy that has learned its groups, the `Calibration`
      with the scores of each, and the groups of new rows, for `diagnose`, audits and reports. `LearnedGroups` has them.
    - ``distribution_calibration``: the `Calibration` whose scores give predictive distributions.
    """

    @property
    def nonconformity(self) -> Nonconformity:
        """The score, or one for each group."""

    @property
    def guarantee(self) -> Guarantee:
        """The coverage guarantee."""

    @property
    def nested(self) -> bool:
        """Whether intervals at larger levels contain those at smaller levels."""

    def intervals(self, rows: Rows, levels: tuple[Fraction, ...], /) -> Intervals | IntervalUnion:
        """Return the prediction set of each of m rows at each of L levels. Bounds of shape (m, L)."""

    def p_values(self, rows: Rows, /, *, seed: Any = None) -> FloatArray:
        """Return the p-value of each row's target; with a seed, ties are broken at random. Shape (m,)."""

    def state(self) -> Mapping[str, Any]:
        """Return everything that was learned, by name: arrays, JSON values, and objects that skops can save."""


class Calibrator(Protocol):
    """An object that learns from calibration rows. It holds only settings, and `learn` does not change it.

    A calibrator that uses `rows.weights`, for covariate shift, sets ``takes_weights = True``; one that uses
    `rows.clusters` sets ``takes_clusters = True``. For all others, weights or clusters are an error.
    """

    def learn(self, rows: Rows, nonconformity: Nonconformity, /) -> Calibrated:
        """Learn from the calibration rows, whose targets are `rows.y`, and return the result.

        `calibrate` keeps the order of its rows; `fit` splits rows at random.
        """

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity, /) -> Calibrated:
        """Return the learned object from what its `state` returned."""


def checked_calibrator(calibrator: Any) -> Calibrator:
    """Return the calibrator. Raise TypeError unless it has the methods of one."""
    methods = (getattr(calibrator, name, None) for name in ("learn", "restore"))
    if isinstance(calibrator, type) or not all(map(callable, methods)):
        raise TypeError(
            "calibrator must be a calibrator such as ByGroup(BySpread(3)), with methods learn(rows, nonconformity) and "
            f"restore(state, nonconformity); got {got_text(calibrator)}"
        )
    return calibrator  # type: ignore[no-any-return]


def checked_learned(learned: Any) -> Calibrated:
    """Return what a calibrator learned. Raise TypeError unless it has all members of `Calibrated`."""
    members = ("nonconformity", "guarantee", "nested", "intervals", "p_values", "state")
    missing = [name for name in members if not hasattr(learned, name)]
    if missing:
        raise TypeError(
            f"learn of a calibrator must return an object with {', '.join(members)}; {learned!r:.80} lacks "
            f"{', '.join(missing)}"
        )
    return learned  # type: ignore[no-any-return]


def check_weights_are_used(weights: Any, calibrator: Any) -> None:
    """Raise if there are weights that the calibrator, or regressor, cannot use."""
    if weights is not None and not getattr(calibrator, "takes_weights", False):
        raise ValueError(f"{type(calibrator).__name__} takes no weights for covariate shift; leave weights out")


def check_clusters_are_used(clusters: Any, calibrator: Any) -> None:
    """Raise if there are clusters that the calibrator cannot use: rows of a cluster would count as independent."""
    if clusters is not None and not getattr(calibrator, "takes_clusters", False):
        raise ValueError(
            f"{type(calibrator).__name__} takes no clusters; use ByGroup or TwoTails, or calibrate on one row of "
            "each cluster, drawn at random, without clusters"
        )


def sets_at(
    calibrated: Calibrated, rows: Rows, levels: tuple[Fraction, ...], unseen: Unseen
) -> Intervals | IntervalUnion:
    """Return what a calibrator returns for rows. Raise an error unless bounds have the shape (m, L)."""
    sets = calibrated.intervals(rows, levels, **_unseen_argument(calibrated, unseen))
    shape = len(rows), len(levels)
    if isinstance(sets, IntervalUnion) and sets.pieces:
        return IntervalUnion([_checked_intervals(piece, shape, calibrated) for piece in sets.pieces])
    return _checked_intervals(sets, shape, calibrated)


def requested_sets(
    calibrated: Calibrated,
    sets: Intervals | IntervalUnion,
    level: Levels,
    center: FloatArray,
    kind: FrameKind | None,
) -> Intervals | IntervalUnion:
    """Return prediction sets in the shape that was requested, with the predictions and the kind of table."""
    known = center, kind, calibrated.guarantee
    if isinstance(sets, IntervalUnion):
        return IntervalUnion([for_requested_level(piece, level, *known) for piece in sets.pieces])
    return for_requested_level(sets, level, *known)


def target_p_values(calibrated: Calibrated, rows: Rows, unseen: Unseen, seed: Seed) -> FloatArray:
    """Return the p-value of each row's target. Shape (m,)."""
    rows.required_target(by="a p-value")
    p_values = calibrated.p_values(rows, seed=seed, **_unseen_argument(calibrated, unseen))
    return checked_vector(p_values, f"p-values of {type(calibrated).__name__}", length=len(rows), matched="the rows")


def _unseen_argument(calibrated: Calibrated, unseen: Unseen) -> dict[str, Any]:
    """Return `unseen` as a keyword argument. Raise ValueError if it is given, but the calibrator has no groups."""
    if unseen == "error":
        return {}
    if not getattr(calibrated, "takes_unseen", False):
        raise ValueError(
            f"unseen={unseen!r} works only with a calibrator that has groups; {type(calibrated).__name__} has no groups"
        )
    return {"unseen": unseen}


def _checked_intervals(intervals: Any, shape: tuple[int, int], calibrated: Calibrated) -> Intervals:
    """Return what a calibrator returned as intervals. Raise an error unless they are `Intervals` of this shape."""
    name = type(calibrated).__name__
    if not isinstance(intervals, Intervals):
        raise TypeError(
            f"{name}.intervals must return Intervals, or a union of one or more; got {type(intervals).__name__}"
        )
    if intervals.lower.shape != shape:
        raise ValueError(
            f"{name}.intervals must return bounds of shape {shape}, rows by levels; got {intervals.lower.shape}"
        )
    return intervals
