"""What is promised: how far, under which assumption, from how many rows; in numbers and in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from evencover.groups import Label
from evencover.quantiles import Level, conformal_rank, level_fraction

Kind: TypeAlias = Literal["marginal", "per group", "conditional", "approximate", "none"]

_UNSEEN_ROWS = "the model was not fitted on the calibration rows"
EXCHANGEABLE = f"{_UNSEEN_ROWS}, and new rows are exchangeable with them (for example all independent, from one source)"
SHIFTED = f"{_UNSEEN_ROWS}, and the weights are the likelihood ratios of the new rows' features to theirs"
_OPENINGS: dict[Kind, str] = {
    "marginal": "Marginal coverage: over all rows together",
    "per group": "Coverage per group: in every group",
    "conditional": "Conditional coverage: given the features of a row",
    "approximate": "Approximate coverage: over all rows together",
}


@dataclass(frozen=True)
class LowerBound:
    """The probability of coverage that is promised at a level: 1 − factor (1 − level) − slack, but at least 0.

    Parameters
    ----------
    factor : int
        How many times 1 − level may be missed: 1 for split conformal prediction, 2 for CV+ and jackknife+.
    slack : Fraction
        What is lost besides, at every level.

    Examples
    --------
    >>> LowerBound()(0.9), LowerBound(factor=2)(0.9)
    (Fraction(9, 10), Fraction(4, 5))
    """

    factor: int = 1
    slack: Fraction = Fraction(0)

    def __call__(self, level: Level) -> Fraction:
        """Return the bound at a level."""
        return max(Fraction(0), 1 - self.factor * (1 - level_fraction(level)) - self.slack)

    def __str__(self) -> str:
        if self == LowerBound():
            return "the level"
        factor = f"{self.factor} " * (self.factor != 1)
        return f"1 − {factor}(1 − level)" + f" − {float(self.slack):.3g}" * (self.slack > 0)


NOTHING = LowerBound(slack=Fraction(1))


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """The coverage that is promised, the assumption behind it, and the rows it rests on.

    Parameters
    ----------
    kind : {"marginal", "per group", "conditional", "approximate", "none"}
        Over all rows together; in every group; given the features of a row; approximately; or nothing.
    sizes : mapping from label to int
        Number of calibration rows behind each group's threshold.
    bound : LowerBound, optional
        The probability of coverage that is promised, as a function of the level. By default the level itself, and 0 for
        the kinds "approximate" and "none".
    assumption : str
        What must hold for the promise to hold.
    exact : bool
        Whether, without ties, the number covered among m new rows of a group of n calibration rows is
        BetaBinomial(m, k, n + 1 − k), k the conformal rank: the law that an audit tests.
    without : tuple of labels
        Groups answered by a threshold that was not theirs: nothing is promised there.

    Examples
    --------
    >>> print(Guarantee("marginal", {"all": 99}))
    Marginal coverage: over all rows together, a target lies in its interval with probability at least the level, if the model was not fitted on the calibration rows, and new rows are exchangeable with them (for example all independent, from one source). Calibration rows: 99.
    """  # noqa: E501

    kind: Kind
    sizes: Mapping[Label, int]
    bound: LowerBound | None = field(default=None, kw_only=True)
    assumption: str = field(default=EXCHANGEABLE, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    without: tuple[Label, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in (*_OPENINGS, "none"):
            raise ValueError(f"kind must be one of {', '.join([*_OPENINGS, 'none'])}; got {self.kind!r}")

    @property
    def lower_bound(self) -> LowerBound:
        """The probability of coverage that is promised, a function of the level; its text says it in words."""
        if self.bound is not None:
            return self.bound
        return NOTHING if self.kind in ("approximate", "none") else LowerBound()

    def coverage(self, level: Level) -> dict[Label, Fraction]:
        """Return each group's exact probability k / (n + 1) of covering a new row, without ties; none if not `exact`.

        Examples
        --------
        >>> Guarantee("per group", {"low": 30, "high": 5}, exact=True).coverage(0.9)
        {'low': Fraction(28, 31), 'high': Fraction(1, 1)}
        """
        sizes = self.sizes if self.exact else {}
        return {label: Fraction(conformal_rank(n, level), n + 1) for label, n in sizes.items()}

    def __repr__(self) -> str:
        if self.kind == "none":
            return "Nothing is promised: there are no groups." if not self.sizes else "Nothing is promised."
        rows = ", ".join(f"{label} {n}" if self.kind == "per group" else str(n) for label, n in self.sizes.items())
        named = ", ".join(map(str, self.without))
        none = f" Nothing is promised for rows of unseen groups: {named}." if self.without else ""
        return (
            f"{_OPENINGS[self.kind]}, a target lies in its interval with probability {self._how_much}, "
            f"if {self.assumption}. Calibration rows: {rows}.{none}"
        )

    @property
    def _how_much(self) -> str:
        at_least = f"at least {self.lower_bound}"
        if self.kind != "approximate":
            return at_least
        return "about the level" + f", and {at_least}" * (self.lower_bound != NOTHING)


class TooFewRowsWarning(UserWarning):
    """A group has too few calibration rows for the level, so its intervals are infinite."""
