"""What `AutoRegressor` compared and chose, as data and as text."""

from dataclasses import dataclass

from evencover._internal.html import html_table, tag
from evencover._internal.text_output import number_text, text_table


@dataclass(frozen=True)
class MemberResult:
    """A regressor of the stack: its root mean squared error out of fold, in the unit of the target, and its weight."""

    name: str
    error: float
    weight: float


@dataclass(frozen=True)
class DistributionResult:
    """A distribution of the residuals: its interval score out of fold after calibration, and its weight."""

    name: str
    interval_score: float
    weight: float


@dataclass(frozen=True)
class StackReport:
    """The regressors and distributions that `AutoRegressor` compared, and their weights. `print` shows two tables.

    Parameters
    ----------
    members : tuple of MemberResult
        The regressors, in the order in which they were fitted.
    error : float
        The root mean squared error of their combination, out of fold.
    distributions : tuple of DistributionResult
        The distributions of the residuals.
    interval_score : float
        The interval score of their combination, out of fold after calibration.
    level : float
        The level of the interval scores.
    notes : tuple of str
        Sentences on what differs from the usual procedure, such as a choice on some of the rows.
    """

    members: tuple[MemberResult, ...]
    error: float
    distributions: tuple[DistributionResult, ...]
    interval_score: float
    level: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The regressors with weight, the largest first: slow boosting 0.61, network 0.25, trees 0.14."""
        used = sorted((each for each in self.members if each.weight), key=lambda each: -each.weight)
        return ", ".join(f"{each.name} {each.weight:.2f}" for each in used) if len(used) > 1 else used[0].name

    def __str__(self) -> str:
        tables = (text_table(header, rows) for header, rows in self.tables())
        return "\n\n".join([*tables, *self.notes])

    def _repr_html_(self) -> str:
        tables = (html_table(header, rows) for header, rows in self.tables())
        return tag("div", *tables, *(tag("p", note) for note in self.notes))

    def tables(self) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Return the header and the rows of both tables."""
        members = [_cells(each.name, each.error, each.weight) for each in self.members]
        distributions = [_cells(each.name, each.interval_score, each.weight) for each in self.distributions]
        score = f"interval score at level {self.level:g}"
        return [
            (("regressor", "error", "weight"), [*members, _cells("combined", self.error)]),
            (("distribution", score, "weight"), [*distributions, _cells("combined", self.interval_score)]),
        ]


def _cells(name: str, value: float, weight: float | None = None) -> tuple[str, ...]:
    return name, number_text(value), "" if weight is None else f"{weight:.2f}"
