"""What is promised, in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from evencover.groups import Label
from evencover.quantiles import Level, conformal_rank

_EXCHANGEABLE = "new rows are exchangeable with them (for example all independent, from one source)"
_SHIFTED = "the weights are the likelihood ratios of the new rows' features to theirs"


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """The coverage that is promised, the assumption behind it, and the rows it rests on.

    Parameters
    ----------
    sizes : mapping from label to int
        Number of calibration rows behind each group's threshold.
    weighted : bool
        Whether rows are weighted for covariate shift.
    without : tuple of labels
        Groups answered by a threshold that was not theirs: nothing is promised there.

    Examples
    --------
    >>> print(Guarantee({"all": 99}))
    Marginal coverage: over all rows together, a target lies in its interval with probability at least the level, if the model was not fitted on the calibration rows, and new rows are exchangeable with them (for example all independent, from one source). Calibration rows: 99.
    """  # noqa: E501

    sizes: Mapping[Label, int]
    weighted: bool = field(default=False, kw_only=True)
    without: tuple[Label, ...] = field(default=(), kw_only=True)

    @property
    def kind(self) -> str:
        """``"marginal"`` with one group, ``"per group"`` with several, ``"none"`` without any."""
        return {0: "none", 1: "marginal"}.get(len(self.sizes), "per group")

    @property
    def assumption(self) -> str:
        """What must hold for the promise to hold."""
        return f"the model was not fitted on the calibration rows, and {_SHIFTED if self.weighted else _EXCHANGEABLE}"

    def coverage(self, level: Level) -> dict[Label, Fraction]:
        """Return each group's exact probability k / (n + 1) of covering a new row, without ties or weights.

        Examples
        --------
        >>> Guarantee({"low": 30, "high": 5}).coverage(0.9)
        {'low': Fraction(28, 31), 'high': Fraction(1, 1)}
        """
        return {label: Fraction(conformal_rank(n, level), n + 1) for label, n in self.sizes.items()}

    def __repr__(self) -> str:
        if self.kind == "none":
            return "Nothing is promised: there are no groups."
        if self.kind == "marginal":
            whom, rows = "Marginal coverage: over all rows together", str(*self.sizes.values())
        else:
            whom, rows = (
                "Coverage per group: in every group",
                ", ".join(f"{g} {n}" for g, n in self.sizes.items()),
            )
        named = ", ".join(map(str, self.without))
        none = f" Nothing is promised for rows of unseen groups: {named}." if self.without else ""
        return (
            f"{whom}, a target lies in its interval with probability at least the level, "
            f"if {self.assumption}. Calibration rows: {rows}.{none}"
        )
