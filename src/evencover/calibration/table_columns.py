"""Which columns of a table hold targets, predictions and groups, and the score that goes with them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from evencover.groups import first_few
from evencover.inputs.arrays import similar_name
from evencover.scores.bounds import IntervalDistance
from evencover.scores.residuals import Normalized, Residual
from evencover.scores.score import Score


@dataclass(frozen=True)
class TableColumns:
    """The names of the columns that hold targets, predictions and groups.

    Predictions are a center, a center and a spread, or two bounds, to which a center may be added.

    Parameters
    ----------
    target : str, optional
        The targets; only calibration and audits need them.
    center : str, optional
        The predicted targets.
    spread : str, optional
        The predicted noise, in the unit of the target.
    lower, upper : str, optional
        The model's own bounds, such as two quantiles.
    group : str, optional
        The groups; without it, all rows are one group.
    """

    target: str | None = None
    center: str | None = None
    spread: str | None = None
    lower: str | None = None
    upper: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        problems = [*self._type_problems(), *self._missing_parts()]
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def nonconformity(self) -> Score:
        """The score of these columns: `Residual`, with a spread `Normalized`, with bounds `IntervalDistance`."""
        if self.lower is not None:
            return IntervalDistance()
        return Residual() if self.spread is None else Normalized()

    @property
    def numeric(self) -> dict[str, str]:
        """The names of the columns of numbers, by role."""
        return {role: name for role, name in self.by_role.items() if role != "group"}

    @property
    def by_role(self) -> dict[str, str]:
        """The names of all given columns, by role."""
        return {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}

    @property
    def names(self) -> list[str]:
        """The names of all given columns, each once."""
        return list(dict.fromkeys(self.by_role.values()))

    def missing_from(self, names: Sequence[str]) -> list[str]:
        """Return a sentence for each column that a table with these column names lacks."""
        return [
            f"{role}: no column named {name!r}; {similar_name(name, names)}the columns are {first_few(list(names))}"
            for role, name in self.by_role.items()
            if name not in names
        ]

    def _type_problems(self) -> list[str]:
        given: dict[str, Any] = self.by_role
        return [
            f"{role} must be the name of a column; got {name!r}" for role, name in given.items() if not _named(name)
        ]

    def _missing_parts(self) -> list[str]:
        """Return what is wrong with the columns of the predictions: nothing, or one sentence."""
        if (self.lower is None) != (self.upper is None):
            return ["lower and upper must be given together; got only one of them"]
        if self.lower is not None and self.spread is not None:
            return ["predictions must have a spread, or lower and upper; got both"]
        if self.lower is None and self.center is None:
            return ["predictions must have a center, or lower and upper; got neither"]
        return []


def _named(name: Any) -> bool:
    return isinstance(name, str) and name != ""
