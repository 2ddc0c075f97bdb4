"""Coverage guarantees: their kind, lower bound, assumption and numbers of calibration rows, also as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import floor
from typing import Literal, Protocol, TypeAlias

from evencover.groups import Label
from evencover.quantiles import Level, conformal_rank, level_fraction

Kind: TypeAlias = Literal["marginal", "per group", "conditional", "approximate", "none"]
TailShares: TypeAlias = tuple[Fraction, Fraction] | None

_HELD_OUT = "(1) the model was not fitted on the calibration rows, and"
EXCHANGEABLE = (
    f"{_HELD_OUT} (2) new rows are exchangeable with the calibration rows, for example all rows are independent and "
    "from one source"
)
CLUSTERED = (
    "(1) the model was not fitted on rows of the calibration clusters, and (2) the new row is a random row of a new "
    "cluster, which is exchangeable with the calibration clusters"
)
LEARNED_FROM_CLUSTERS = (
    "(3) there are many calibration clusters: the edges of the groups were learned from their rows, so the level is "
    "not guaranteed; with given edges it is, for example those of training rows in BySpread(edges=[...])"
)
SHIFTED = f"{_HELD_OUT} (2) the weights are the likelihood ratios of the features: new rows against calibration rows"
NEW_ROWS = (
    "new rows are exchangeable with the rows that were passed to fit, for example all rows are independent and from "
    "one source"
)
NEW_CLUSTERS = (
    "new rows are random rows of new clusters, which are exchangeable with the clusters that were passed to fit"
)
_KIND_TEXTS: dict[Kind, str] = {
    "marginal": "Marginal coverage: over all rows together",
    "per group": "Coverage per group: in every group",
    "conditional": "Conditional coverage: given the features of a row",
    "approximate": "Approximate coverage: over all rows together",
}


_OTHER_CLUSTERS = (
    "It is an average over new clusters: rows of one of them can be covered less often. Nothing is guaranteed for rows "
    "of clusters that the model was fitted or calibrated on."
)
_MAX_NAMED_GROUPS = 20  # a text names so many, and counts the others
_THREE_DIGITS_UP = Context(prec=3, rounding=ROUND_CEILING)


class Bound(Protocol):
    """A guaranteed probability of coverage, a function of the level. ``str`` gives its formula. It can be hashed."""

    def __call__(self, level: Level, /) -> Fraction:
        """Return the guaranteed probability at a level."""
        ...


@dataclass(frozen=True)
class LowerBound:
    """The guaranteed probability of coverage at a level: 1 − factor (1 − level) − slack, but at least 0.

    Parameters
    ----------
    factor : int
        Targets are missed with probability at most factor × (1 − level) + slack. Both have their default in split
        conformal prediction: the bound is the level.
    slack : Fraction
        The part of the bound that does not depend on the level.

    Examples
    --------
    >>> LowerBound()(0.9), LowerBound(factor=2)(0.9)
    (Fraction(9, 10), Fraction(4, 5))
    """

    factor: int = 1
    slack: Fraction = Fraction(0)

    def __call__(self, level: Level) -> Fraction:
        """Return the guaranteed probability at a level."""
        return max(Fraction(0), 1 - self.factor * (1 - level_fraction(level)) - self.slack)

    def __str__(self) -> str:
        if self == LowerBound():
            return "the level"
        factor = f"{self.factor} " * (self.factor != 1)
        slack = _THREE_DIGITS_UP.divide(Decimal(self.slack.numerator), Decimal(self.slack.denominator))
        return f"1 − {factor}(1 − level)" + f" − {float(slack):g}" * (self.slack > 0)


NO_BOUND = LowerBound(slack=Fraction(1))


@dataclass(frozen=True)
class FoldBound:
    """The guaranteed probability of coverage by CV+, jackknife+ and cross-conformal prediction, but at least 0:

        1 − (2 r + k − 2) / (n + k),   r = ⌊R (1 − level) (n + 1)⌋ / R,   and 1 if r < 1.

    docs/cross_conformal_guarantee.md has the proof.

    Parameters
    ----------
    n : int
        Number of calibration rows.
    k : Fraction
        Number of folds, or of rows that each model leaves out.
    repeats : int
        Number R of repetitions of the folds.

    Examples
    --------
    >>> FoldBound(18, Fraction(1))(0.9), FoldBound(100, Fraction(10))(0.9)
    (Fraction(18, 19), Fraction(41, 55))
    >>> print(FoldBound(100, Fraction(10)))
    1 − (2 r + 8) / 110 with r = ⌊101 (1 − level)⌋; the bound is 1 if r < 1
    """  # noqa: D400

    n: int
    k: Fraction
    repeats: int = 1

    def __call__(self, level: Level) -> Fraction:
        """Return the guaranteed probability at a level."""
        rank = Fraction(floor(self.repeats * (1 - level_fraction(level)) * (self.n + 1)), self.repeats)
        if rank < 1:  # the interval is infinite
            return Fraction(1)
        return max(Fraction(0), 1 - (2 * rank + self.k - 2) / (self.n + self.k))

    def __str__(self) -> str:
        over, added = self.k.denominator, self.k.numerator - 2 * self.k.denominator  # k = (added + 2 over) / over
        misses = f"{2 * over} r" if not added else f"({2 * over} r {'+' if added > 0 else '−'} {abs(added)})"
        rank = f"⌊{self.repeats * (self.n + 1)} (1 − level)⌋" + f" / {self.repeats}" * (self.repeats > 1)
        return f"1 − {misses} / {over * self.n + self.k.numerator} with r = {rank}; the bound is 1 if r < 1"


@dataclass(frozen=True)
class SmallestBound:
    """The smallest of several bounds at each level, such as those of groups.

    Parameters
    ----------
    bounds : tuple of bounds
        The bounds, functions of the level.

    Examples
    --------
    >>> SmallestBound((FoldBound(18, Fraction(1)), FoldBound(19, Fraction(1))))(0.9)
    Fraction(17, 20)
    """

    bounds: tuple[Bound, ...]

    def __call__(self, level: Level) -> Fraction:
        """Return the smallest guaranteed probability at a level."""
        return min(bound(level) for bound in self.bounds)

    def __str__(self) -> str:
        return f"the smallest of: {'; '.join(map(str, self.bounds))}"


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """The guaranteed coverage, its assumption, and the number of calibration rows of each group.

    Parameters
    ----------
    kind : {"marginal", "per group", "conditional", "approximate", "none"}
        Over all rows; in every group; given the features of a row; approximately; or no guarantee.
    sizes : mapping from label to int
        Number of calibration rows behind each group's threshold.
    bound : function of the level, or mapping from label to function, optional
        The guaranteed probability of coverage, such as `LowerBound` and `FoldBound`; or that of each group. By default
        it is the level itself, and 0 for the kinds "approximate" and "none".
    assumption : str
        The condition under which the guarantee holds.
    exact : bool
        Whether, without ties, the number covered among m new rows of a group of n calibration rows is
        BetaBinomial(m, k, n + 1 − k), where k is the conformal rank. `audit` tests this distribution. With
        `tail_shares`, k is k_l + k_u − n − 1, from the conformal ranks of the two tails. This is exact for scores whose
        tails are opposite numbers, and otherwise the mean is exact unless bounds cross; see `TwoTails`.
    without : tuple of labels
        Groups without a guarantee: they were not in the calibration and got the threshold of other rows.
    tail_shares : tuple of two Fraction, optional
        Shares of 1 − level, if each end of the interval has its own guarantee: a target lies below its lower bound with
        probability at most the first share of 1 − level, and above its upper bound with at most the second.
    tied : tuple of labels
        Groups in which several calibration scores equal the threshold, at the level of the intervals that this is the
        guarantee of. Ties raise coverage above that of the exact distribution.
    replaces_empty : bool
        Whether intervals without a possible target become the nearest possible target (`Bounded`), which also raises
        coverage.
    clusters : mapping from label to int, optional
        If the rows of a cluster weigh as much as one new row: the weight of each group's calibration rows, in clusters,
        rounded down. It is the number n of independent rows whose coverage varies at least as much; `audit` uses it.
    for_new_clusters : bool
        Whether nothing is guaranteed for rows of known clusters: those that the model was fitted or calibrated on. With
        `clusters`, it is always True.

    Examples
    --------
    >>> print(Guarantee("marginal", {"all": 99}))
    Marginal coverage: over all rows together, a target lies in its interval with probability at least the level. This holds if (1) the model was not fitted on the calibration rows, and (2) new rows are exchangeable with the calibration rows, for example all rows are independent and from one source. Calibration rows: 99.
    """  # noqa: E501

    kind: Kind
    sizes: Mapping[Label, int]
    bound: Bound | Mapping[Label, Bound] | None = field(default=None, kw_only=True)
    assumption: str = field(default=EXCHANGEABLE, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    without: tuple[Label, ...] = field(default=(), kw_only=True)
    tail_shares: TailShares = field(default=None, kw_only=True)
    tied: tuple[Label, ...] = field(default=(), kw_only=True)
    replaces_empty: bool = field(default=False, kw_only=True)
    clusters: Mapping[Label, int] | None = field(default=None, kw_only=True)
    for_new_clusters: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in (*_KIND_TEXTS, "none"):
            raise ValueError(f"kind must be one of {', '.join([*_KIND_TEXTS, 'none'])}; got {self.kind!r}")
        object.__setattr__(self, "for_new_clusters", self.for_new_clusters or self.clusters is not None)

    @property
    def lower_bound(self) -> Bound:
        """The guaranteed probability of coverage, a function of the level; ``str`` gives its formula.

        If groups have different ones, it is the smallest at each level.
        """
        if isinstance(self.bound, Mapping) and self.bound:
            bounds = tuple(dict.fromkeys(self.bound.values()))
            return bounds[0] if len(bounds) == 1 else SmallestBound(bounds)
        if self.bound is None or isinstance(self.bound, Mapping):
            return NO_BOUND if self.kind in ("approximate", "none") else LowerBound()
        return self.bound

    @property
    def lower_bounds(self) -> dict[Label, Bound]:
        """The guaranteed probability of coverage of each group, a function of the level."""
        bounds = self.bound if isinstance(self.bound, Mapping) else {}
        return {label: bounds.get(label, self.lower_bound) for label in self.sizes}

    def assuming(self, condition: str) -> "Guarantee":
        """Return the same guarantee under one more condition, such as ``all targets are at least 0``."""
        return replace(self, assumption=f"{self.assumption}, and {condition}")

    def coverage(self, level: Level) -> dict[Label, Fraction]:
        """Return each group's exact probability k / (n + 1) of covering a new row, without ties; empty if not `exact`.

        With `tail_shares`, it is 1 minus the exact probabilities of a miss below and above; larger if bounds cross.

        Examples
        --------
        >>> Guarantee("per group", {"low": 30, "high": 5}, exact=True).coverage(0.9)
        {'low': Fraction(28, 31), 'high': Fraction(1, 1)}
        """
        sizes = self.sizes if self.exact else {}
        return {label: Fraction(covered_rank(n, level, self.tail_shares), n + 1) for label, n in sizes.items()}

    def __repr__(self) -> str:
        if self.kind == "none":
            return "No guarantee." if self.sizes else "No guarantee: there are no groups."
        several = self.kind == "per group" or len(self.sizes) > 1
        rows = _first([f"{label} {n}" if several else str(n) for label, n in self.sizes.items()])
        clusters = _first([f"{label} {n}" if several else str(n) for label, n in (self.clusters or {}).items()])
        rows += f"; as clusters: {clusters}." if self.clusters else "."
        rows += f" {_OTHER_CLUSTERS}" * self.for_new_clusters
        unseen = _first(list(map(str, self.without)))
        exceptions = f" No guarantee for rows of unseen groups: {unseen}." if self.without else ""
        return (
            f"{self._kind_text}, a target lies in its interval with probability {self._probability_text}"
            f"{self._tails_text}. "
            f"This holds if {self.assumption}. Calibration rows: {rows}{exceptions}{self._raised_text}"
        )

    def misses(self, level: Level) -> tuple[Fraction, Fraction]:
        """Return the largest probabilities that a target lies below its lower bound, and above its upper bound.

        Examples
        --------
        >>> Guarantee("marginal", {"all": 99}, tail_shares=(Fraction(1, 2), Fraction(1, 2))).misses(0.9)
        (Fraction(1, 20), Fraction(1, 20))
        """
        largest = 1 - self.lower_bound(level)
        below, above = self.tail_shares or (1, 1)
        return below * largest, above * largest

    @property
    def _kind_text(self) -> str:
        if self.kind == "approximate" and len(self.sizes) > 1:
            return "Approximate coverage: in every group"
        return _KIND_TEXTS[self.kind]

    @property
    def _raised_text(self) -> str:
        """What raises coverage above the level, as sentences after a space."""
        groups = _first(list(map(str, self.tied)))
        tied = f" Tied scores raise the coverage of these groups: {groups}." if self.tied else ""
        return tied + " Points that replace empty intervals raise coverage." * self.replaces_empty

    @property
    def _tails_text(self) -> str:
        if self.tail_shares is None:
            return ""
        below, above = (f"at most {float(share):g} (1 − level)" for share in self.tail_shares)
        return f", below its lower bound with probability {below}, and above its upper bound with {above}"

    @property
    def _probability_text(self) -> str:
        if self.kind == "approximate" and self.lower_bound == NO_BOUND:
            return "about the level"
        usually = "usually about the level, and " * (self.kind == "approximate")
        return f"{usually}at least {self._bound_text}"

    @property
    def _bound_text(self) -> str:
        if not isinstance(self.lower_bound, SmallestBound):
            return str(self.lower_bound)
        listed = _first([f"{label}: {bound}" for label, bound in self.lower_bounds.items()], "; ")
        return f"the bound of its group ({listed})"


def numbered(conditions: Sequence[str]) -> str:
    """Return conditions as one text, with numbers if there are several.

    Examples
    --------
    >>> numbered(["A holds"]), numbered(["A holds", "B holds"])
    ('A holds', '(1) A holds, and (2) B holds')
    """
    if len(conditions) == 1:
        return conditions[0]
    *first, last = (f"({number}) {condition}" for number, condition in enumerate(conditions, start=1))
    return f"{', '.join(first)}, and {last}"


def covered_rank(n: int, level: Level, tail_shares: TailShares = None) -> int:
    """Return how many of the n + 1 ranks that a new score can have among n calibration scores are covered.

    It is the conformal rank, or with separate tails n + 1 less the ranks that each of them misses.

    Examples
    --------
    >>> covered_rank(30, 0.9), covered_rank(30, 0.9, (Fraction(1, 2), Fraction(1, 2)))
    (28, 29)
    """
    if tail_shares is None:
        return conformal_rank(n, level)
    misses = 1 - level_fraction(level)
    return n + 1 - sum(n + 1 - conformal_rank(n, 1 - share * misses) for share in tail_shares)


class TooFewRowsWarning(UserWarning):
    """A group has too few calibration rows for the level, so its intervals are infinite."""


def _first(texts: list[str], separator: str = ", ") -> str:
    """Return the first texts, and the number of the others."""
    more = f"{separator}and {len(texts) - _MAX_NAMED_GROUPS} more groups" if len(texts) > _MAX_NAMED_GROUPS else ""
    return f"{separator.join(texts[:_MAX_NAMED_GROUPS])}{more}"
