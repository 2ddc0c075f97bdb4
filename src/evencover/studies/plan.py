"""The plan of a study: its model, score, groups, level, split and seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline

from evencover.calibration.group_thresholds import as_two_sided, one_tail
from evencover.diagnostics.recommendations import Tails
from evencover.diagnostics.verdicts import checked_settings
from evencover.inputs.arrays import FloatArray, lookup
from evencover.intervals import Side
from evencover.model_selection import check_share
from evencover.models import (
    AutoRegressor,
    DropoutEnsemble,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    WithSpread,
)
from evencover.models.estimators import check_regressor, cloned
from evencover.models.extremes import ExtremeLimiter, OrdinaryRange
from evencover.models.linear import linear_regressor
from evencover.models.members import EFFORTS, EffortName, small_table_regressor
from evencover.quantiles import Level, rows_for_finite_threshold, rows_for_precise_thresholds
from evencover.scores import Bounded, Normalized, ProbabilityDistance, Score
from evencover.scores.one_sided import is_one_sided, side_of
from evencover.scores.score import checked_score
from evencover.target_support import Support
from evencover.taxonomies import BySpread, Marginal, Taxonomy, fresh_taxonomy

SMALL_TABLE_ROWS = 100  # tables with fewer rows get a model that can learn from few
_SMALL_CROSS_FITTED_ROWS = 300  # the same if the model is fitted a hundred times
_N_GROUPS = 3
_MIN_GROUP_ROWS = 100  # with 50 to 70 rows in a group, intervals were wider and no more even than with one group


def small_table_choice(n_rows: int, level: Level) -> tuple[Score, Taxonomy]:
    """Return the score and the groups of a table whose rows are all used to fit and to calibrate.

    A choice that looks at the calibration rows would cost their guarantee, so this one depends on their number alone.
    On 26 tables of 25 to 210 rows, the distance in probability with one threshold had the best mean interval score: 3
    to 8 % lower than with residuals. Two groups of the spread raised it by 1 % at 100 and 200 rows and by 15 % at 50
    rows, and did not raise the coverage of the least covered third of the rows. One group also has a proven bound,
    which groups of a predicted spread do not have.

    Parameters
    ----------
    n_rows : int
        Number of rows; of clusters, if rows belong together.
    level : float
        Nominal coverage. Each of three groups has at least 100 rows, and twice the rows that a finite interval needs.

    Examples
    --------
    >>> small_table_choice(100, 0.9)
    (ProbabilityDistance(floor=0.0, scale=None), Marginal())
    >>> small_table_choice(500, 0.9)[1]
    BySpread(n_groups=3)
    """
    needed = max(_MIN_GROUP_ROWS, 2 * rows_for_finite_threshold(level))
    return ProbabilityDistance(), BySpread(_N_GROUPS) if n_rows >= _N_GROUPS * needed else Marginal()


_SEED_LIMIT = 2**32  # seeds of scikit-learn are smaller
_HELD_OUT_SHARE, _MAX_HELD_OUT, _MAX_HELD_OUT_SHARE = 10, 20_000, 3  # a tenth of the rows; never more than a third


def held_out_rows(n_rows: int, *, level: Level = 0.9, n_thresholds: int = 1) -> int:
    """Return how many rows of a table the model does not see, so that they calibrate and test it.

    It is a tenth of the rows, at most 20 000. But each threshold gets at least 10 / (1 − level) rows, which is 100 at
    level 0.9, unless that is more than a third of the table.

    Parameters
    ----------
    n_rows : int
        Number of rows; of clusters, if rows belong together.
    level : float
        Nominal coverage.
    n_thresholds : int
        Number of thresholds: one for each given group, and two with separate tails.

    Examples
    --------
    >>> [held_out_rows(n) for n in (200, 500, 5000, 1_000_000)]
    [66, 100, 500, 20000]
    """
    needed = rows_for_precise_thresholds(n_thresholds, level)
    wanted = max(min(n_rows // _HELD_OUT_SHARE, _MAX_HELD_OUT), needed)
    return min(wanted, n_rows // _MAX_HELD_OUT_SHARE)


def _boosting(level: float, seed: int) -> Any:  # noqa: ARG001
    return WithSpread(HistGradientBoostingRegressor(random_state=seed), random_state=seed)


def _linear(level: float, seed: int) -> Any:  # noqa: ARG001
    return WithSpread(linear_regressor(), random_state=seed)


def _best_of_three(level: float, seed: int) -> Any:  # noqa: ARG001
    return WithSpread(small_table_regressor(seed), NeighborSpread(), random_state=seed)


MODELS: Mapping[str, Callable[[float, int], Any]] = {  # functions of level and seed
    "stack": lambda level, seed: AutoRegressor(level=level, random_state=seed),
    "boosting": _boosting,
    "linear": _linear,
    "best-of-three": _best_of_three,
    "forest": lambda level, seed: QuantileForest(level=level, random_state=seed),
    "quantile-network": lambda level, seed: QuantileNetwork(level=level, random_state=seed),
    "mean-variance-network": lambda level, seed: MeanVarianceNetwork(level=level, random_state=seed),
    "dropout-ensemble": lambda level, seed: DropoutEnsemble(
        MeanVarianceNetwork(level=level, random_state=seed), random_state=seed
    ),
}


@dataclass(frozen=True)
class Plan:
    """The settings of a study.

    Parameters
    ----------
    model : str or regressor
        A name, or any regressor with scikit-learn's interface. The names are stack (`AutoRegressor`), boosting, linear,
        best-of-three (a linear model, a kernel model or extra trees, whichever has the smallest error in
        cross-validation; also the lasso with more than 30 columns, and last values in the order of time), forest,
        quantile-network, mean-variance-network, dropout-ensemble, and auto: stack; best-of-three for tables with fewer
        than 100 rows. If the calibration is "cross", the model is fitted a hundred times, so auto is best-of-three for
        tables with fewer than 300 rows, and boosting for the others.
    effort : {"fast", "normal", "best"}, optional
        How much the model "stack" fits, in units of one fit of scikit-learn's boosting on the same rows: at most 15, at
        most 130 (the default), or as much as it takes. Only for the models "stack" and "auto"; no effect where "auto"
        is another model.
    nonconformity : score, optional
        The score; by default selected on the training rows.
    taxonomy : taxonomy, optional
        The groups; by default selected on the training rows.
    side : {"lower", "upper"}, optional
        Bounds on one side instead of intervals: the score is one tail (`OneSided`) of the given one, or of
        `Normalized()`. At most 1 − level of the targets lie beyond the bounds.
    tails : {"joint", "separate"}, optional
        One threshold for both ends of the intervals; or one for each end (`TwoTails`), so that at most half of
        1 − level lies below the intervals, and at most half above. By default selected on the training rows; joint if
        the score and the groups are given.
    level : float
        Nominal coverage.
    tolerance : float, optional
        Largest distance from the level that counts as even; min(0.03, 0.1 √(level (1 − level))) by default.
    calibration : {"auto", "split", "cross"}
        "split" fits the model on some rows, and calibrates and tests it on the others. "cross" uses every row for all
        three, by cross-validation (`CrossConformalRegressor`): better for small tables, but its guarantee is weaker.
        "auto" is "cross" if a split would leave too few calibration rows: a given group too few for a finite threshold,
        or all groups (three if none are given) fewer than twice that number on average.
        It is always "split" for tables of more than 1000 rows, in the order of time, with a share `held_out` of your
        own, with separate tails and with groups of the target.
    held_out : float, optional
        The share of the rows that the model does not see, so that they can calibrate and test it; see `study`. The
        default is a tenth of the rows, at most 20 000, but at least 10 / (1 − level) for each threshold; in the order
        of time, twice as many. The default is never more than a third. More are held out if all others would be more
        than the `training_rows` of `study`. Of a table in batches, the share of the sample. Only for "split".
    target_transform : {"auto", "none"}
        Whether a model of the log of the target is evaluated, too, if all training targets are positive and they are
        skewed. Not if the score and the groups are given. If the calibration is "cross", each of its models decides on
        its own training rows; only models with `WithSpread` do, with at least 20 rows and a score without a unit.
    support : {"auto", "none"} or Support
        The values that the target can have; the score is `Bounded` by it. "auto" decides it on the training targets:
        if none of them is negative, the limit is 0; if they are shares, the upper limit is 1 or 100 (see
        `Support.of_targets`); if all are whole numbers, intervals hold whole numbers only.
        "none" is no support. If the calibration is "cross", all rows are training rows, and the guarantee assumes that
        new targets have the support, too. It does not apply to a score that is `Bounded` already.
    seed : int
        Seed of the split, the model and the random draws of the tests.

    Examples
    --------
    >>> Plan(model="linear", level=0.8).estimator()
    WithSpread(...)
    """

    model: Any = "auto"
    nonconformity: Score | None = None
    taxonomy: Taxonomy | None = None
    side: Side | None = field(default=None, kw_only=True)
    tails: Tails | None = field(default=None, kw_only=True)
    level: float = 0.9
    tolerance: float | None = None
    held_out: float | None = None
    support: Support | Literal["auto", "none"] = "auto"
    target_transform: Literal["auto", "none"] = field(default="auto", kw_only=True)
    calibration: Literal["auto", "split", "cross"] = field(default="auto", kw_only=True)
    effort: EffortName | None = field(default=None, kw_only=True)
    seed: int = 0

    def __post_init__(self) -> None:
        settings = checked_settings(self.level, self.tolerance, self.seed)
        object.__setattr__(self, "level", float(settings.level))
        if self.seed >= _SEED_LIMIT:
            raise ValueError(f"seed must be a whole number below {_SEED_LIMIT}; got {self.seed}")
        if self.held_out is not None:
            check_share("held_out", self.held_out)
        if isinstance(self.model, str):
            lookup(self.model, {"auto": None, **MODELS}, "model")
        else:
            check_regressor(self.model, "model")
        self._check_effort()
        if self.tails not in (None, "joint", "separate"):
            raise ValueError(f"tails must be 'joint', 'separate' or None; got {self.tails!r}")
        self._take_side()
        if self.nonconformity is not None:
            checked_score(self.nonconformity)
            if self.tails == "separate":
                as_two_sided(self.nonconformity)
        if self.target_transform not in ("auto", "none"):
            raise ValueError(f"target_transform must be 'auto' or 'none'; got {self.target_transform!r}")
        if not isinstance(self.support, Support) and self.support not in ("auto", "none"):
            raise ValueError(
                f"support must be 'auto', 'none' or a support such as Support(y_min=0); got {self.support!r}"
            )
        if self.taxonomy is not None:
            fresh_taxonomy(self.taxonomy)
        if self.calibration not in ("auto", "split", "cross"):
            raise ValueError(f"calibration must be 'auto', 'split' or 'cross'; got {self.calibration!r}")
        if self.calibration == "cross" and self.needs_split is not None:
            raise ValueError(f"calibration must be 'split' or 'auto' for {self.needs_split}; got 'cross'")

    def _take_side(self) -> None:
        """Let the score be one tail, if bounds on one side are requested; it may be one already, in a changed plan."""
        if self.side is None:
            return
        if self.side not in ("lower", "upper"):
            raise ValueError(f"side must be 'lower', 'upper' or None; got {self.side!r}")
        if self.tails == "separate":
            raise ValueError(f"tails must be 'joint' or None for {self.side} bounds; got 'separate'")
        score = Normalized() if self.nonconformity is None else checked_score(self.nonconformity)
        if not is_one_sided(score):
            object.__setattr__(self, "nonconformity", one_tail(score, self.side))
        elif side_of(score) != self.side:
            raise ValueError(f"side must be that of the score {score!r}; got {self.side!r}")

    @property
    def needs_split(self) -> str | None:
        """The first setting that only a split can have, as text; None if there is none."""
        own = None if self.held_out is None else f"held_out={self.held_out!r}"
        tails = "tails='separate'" if self.tails == "separate" else None
        target = "groups of the target" if getattr(self.taxonomy, "needs_target", False) else None
        return next(filter(None, (own, tails, target)), None)

    def n_held_out(self, n_rows: int, *, n_groups: int = 1, in_order: bool = False) -> int:
        """Return how many rows, or clusters, the model does not see; each group has a threshold or, with tails, two.

        In the order of time, twice as many: half of them calibrate, and half of them test.
        """
        if self.held_out is not None:
            return round(self.held_out * n_rows)
        tails = 2 if self.tails == "separate" else 1
        wanted = held_out_rows(n_rows, level=self.level, n_thresholds=tails * n_groups)
        return min(2 * wanted, n_rows // _MAX_HELD_OUT_SHARE) if in_order else wanted

    def target_support(self, y: FloatArray, name: str = "") -> Support | None:
        """Return the support of the target, for training targets `y`; None if it has none.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets of the training rows.
        name : str
            The name of the target, which may say that it is a share.
        """
        if isinstance(self.nonconformity, Bounded):
            return self.nonconformity.support
        if isinstance(self.support, Support):
            return self.support
        return Support.of_targets(y, name) if self.support == "auto" else None

    def for_table(self, n_rows: int, *, cross: bool = False) -> "Plan":
        """Return the plan with a model instead of "auto", for a table of this many rows.

        Parameters
        ----------
        n_rows : int
            Number of rows with a target.
        cross : bool
            Whether every row trains and calibrates, which takes about a hundred fits of the model.
        """
        if not isinstance(self.model, str) or self.model != "auto":
            return self
        few, larger = (_SMALL_CROSS_FITTED_ROWS, "boosting") if cross else (SMALL_TABLE_ROWS, "stack")
        model = "best-of-three" if n_rows < few else larger
        return replace(self, model=model, effort=self.effort if model == "stack" else None)

    @property
    def used_effort(self) -> EffortName | None:
        """The effort of the model "stack"; None for other models, and for "auto" before `for_table`."""
        return (self.effort or "normal") if isinstance(self.model, str) and self.model == "stack" else None

    def estimator(self, n_rows: int = SMALL_TABLE_ROWS) -> Any:
        """Return the model, not yet fitted.

        Parameters
        ----------
        n_rows : int
            Number of rows of the table, for the model "auto".
        """
        model = self.for_table(n_rows).model
        if not isinstance(model, str):
            return model
        chosen = MODELS[model](float(self.level), self.seed)
        return chosen.set_params(effort=self.effort) if self.effort is not None else chosen

    def pipeline(self, encoder: Any) -> Pipeline:
        """Return the model behind the encoder of a table, not yet fitted; models by name do not see extreme features.

        Parameters
        ----------
        encoder : TableEncoder
            Encodes the features as numbers.
        """
        limiter = [("limits", ExtremeLimiter())] if isinstance(self.model, str) else []
        return Pipeline([("table", encoder), *limiter, ("model", cloned(self.estimator()))])

    def training_target(self, y: FloatArray) -> FloatArray:
        """Return training targets for the model: one by name is fitted without extreme ones (`OrdinaryRange`).

        Parameters
        ----------
        y : ndarray of shape (n,)
            The targets of its training rows.
        """
        return OrdinaryRange.of(y).limited(y) if isinstance(self.model, str) else y

    def _check_effort(self) -> None:
        """Raise ValueError if the effort is unknown, or if the model has none."""
        if self.effort is None:
            return
        lookup(self.effort, EFFORTS, "effort")
        if not isinstance(self.model, str) or self.model not in ("auto", "stack"):
            name = repr(self.model) if isinstance(self.model, str) else type(self.model).__name__
            raise ValueError(f"effort is for the models 'stack' and 'auto'; got {self.effort!r} with the model {name}")
