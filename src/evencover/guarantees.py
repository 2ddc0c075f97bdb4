"""Coverage guarantees: their kind, lower bound, assumption and numbers of calibration rows, also as text."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from evencover.groups import Label
from evencover.quantiles import Level, conformal_rank, level_fraction

Kind: TypeAlias = Literal["marginal", "per group", "conditional", "approximate", "none"]
TailShares: TypeAlias = tuple[Fraction, Fraction] | None

_HELD_OUT = "(1) the model was not fitted on the calibration rows, and"
EXCHANGEABLE = (
    f"{_HELD_OUT} (2) new rows are exchangeable with the calibration rows, for example all rows are independent and "
    "from one source"
)
SHIFTED = f"{_HELD_OUT} (2) the weights are the likelihood ratios of the features: new rows against calibration rows"
_KIND_TEXTS: dict[Kind, str] = {
    "marginal": "Marginal coverage: over all rows together",
    "per group": "Coverage per group: in every group",
    "conditional": "Conditional coverage: given the features of a row",
    "approximate": "Approximate coverage: over all rows together",
}


@dataclass(frozen=True)
class LowerBound:
    """The guaranteed probability of coverage at a level: 1 − factor (1 − level) − slack, but at least 0.

    Parameters
    ----------
    factor : int
        Targets are missed with probability at most factor × (1 − level) + slack: the factor is 1 for split conformal
        prediction, 2 for CV+ and jackknife+.
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
        return f"1 − {factor}(1 − level)" + f" − {float(self.slack):.3g}" * (self.slack > 0)


NO_BOUND = LowerBound(slack=Fraction(1))


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """The guaranteed coverage, its assumption, and the number of calibration rows of each group.

    Parameters
    ----------
    kind : {"marginal", "per group", "conditional", "approximate", "none"}
        Over all rows; in every group; given the features of a row; approximately; or no guarantee.
    sizes : mapping from label to int
        Number of calibration rows behind each group's threshold.
    bound : LowerBound, optional
        The guaranteed probability of coverage, as a function of the level. By default it is the level itself, and 0 for
        the kinds "approximate" and "none".
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

    Examples
    --------
    >>> print(Guarantee("marginal", {"all": 99}))
    Marginal coverage: over all rows together, a target lies in its interval with probability at least the level. This holds if (1) the model was not fitted on the calibration rows, and (2) new rows are exchangeable with the calibration rows, for example all rows are independent and from one source. Calibration rows: 99.
    """  # noqa: E501

    kind: Kind
    sizes: Mapping[Label, int]
    bound: LowerBound | None = field(default=None, kw_only=True)
    assumption: str = field(default=EXCHANGEABLE, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    without: tuple[Label, ...] = field(default=(), kw_only=True)
    tail_shares: TailShares = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in (*_KIND_TEXTS, "none"):
            raise ValueError(f"kind must be one of {', '.join([*_KIND_TEXTS, 'none'])}; got {self.kind!r}")

    @property
    def lower_bound(self) -> LowerBound:
        """The guaranteed probability of coverage, a function of the level; ``str`` gives its formula."""
        if self.bound is not None:
            return self.bound
        return NO_BOUND if self.kind in ("approximate", "none") else LowerBound()

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
        rows = ", ".join(f"{label} {n}" if self.kind == "per group" else str(n) for label, n in self.sizes.items())
        unseen = ", ".join(map(str, self.without))
        exceptions = f" No guarantee for rows of unseen groups: {unseen}." if self.without else ""
        return (
            f"{_KIND_TEXTS[self.kind]}, a target lies in its interval with probability {self._probability_text}"
            f"{self._tails_text}. "
            f"This holds if {self.assumption}. Calibration rows: {rows}.{exceptions}"
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
    def _tails_text(self) -> str:
        if self.tail_shares is None:
            return ""
        below, above = (f"at most {float(share):g} (1 − level)" for share in self.tail_shares)
        return f", below its lower bound with probability {below}, and above its upper bound with {above}"

    @property
    def _probability_text(self) -> str:
        at_least = f"at least {self.lower_bound}"
        if self.kind != "approximate":
            return at_least
        return "about the level" + f", and {at_least}" * (self.lower_bound != NO_BOUND)


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
