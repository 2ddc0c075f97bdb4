"""What the columns of a table are by the rows that models are fitted on, and where all rows would say otherwise."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from evencover._internal.dates import date_format
from evencover.models.column_kinds import ColumnKind
from evencover.studies._messages import Message


@dataclass(frozen=True)
class Decision:
    """What a column is.

    Parameters
    ----------
    by_all : ColumnKind
        By all rows, which is for messages only.
    by_fits : tuple of ColumnKind
        By the rows that each model is fitted on; empty as long as these are not known.
    """

    by_all: ColumnKind
    by_fits: tuple[ColumnKind, ...] = ()

    def decided(self, kinds: Iterable[ColumnKind]) -> "Decision":
        """Return the decision with what the column is by the rows of each model."""
        return replace(self, by_fits=tuple(kinds))

    @property
    def _kinds(self) -> tuple[ColumnKind, ...]:
        return self.by_fits or (self.by_all,)

    @property
    def left_out(self) -> str:
        """Why no model uses the column; empty if one does."""
        if not all(kind.left_out for kind in self._kinds):
            return ""
        return self.by_all.left_out or f"in the rows that the model is fitted on, {self._kinds[0].left_out}"

    @property
    def used(self) -> tuple[ColumnKind, ...]:
        """What the column is for the models that use it."""
        return tuple(kind for kind in self._kinds if not kind.left_out)

    @property
    def unlike_all_rows(self) -> tuple[ColumnKind, ...]:
        """What the column is for models that use it in another way than all rows would suggest."""
        return tuple(dict.fromkeys(kind for kind in self.used if kind.use != self.by_all.use))

    @property
    def difference(self) -> str:
        """How models use the column, and how all rows suggest to use it, if these differ; otherwise empty."""
        uses = list(dict.fromkeys(kind.use for kind in self._kinds))
        return "" if uses == [self.by_all.use] else f"{' or '.join(uses)}; by all rows {self.by_all.use}"


USED = Decision(ColumnKind())


def decision_notes(decisions: Mapping[str, Decision]) -> Iterator[Message]:
    """Yield notes on columns that are read as dates or numbers, that are left out, and that all rows would change."""
    for kind, names in (
        ("dates", [name for name, each in decisions.items() if any(kind.pattern for kind in each.used)]),
        ("numbers", [name for name, each in decisions.items() if any(kind.numbers for kind in each.used)]),
    ):
        if names:
            text = f"read as {kind}: {', '.join(names)}. To use one as categories"
            yield Message(text, ({"categorical": "NAME"},), lead=", add")
    if ids := {name: each.left_out for name, each in decisions.items() if each.left_out}:
        described = ", ".join(f"{name} ({reason})" for name, reason in ids.items())
        yield Message(f"not used as features: {described}. To use one", ({"keep": "NAME"},), lead=", add")
    if differences := {name: each.difference for name, each in decisions.items() if each.difference}:
        described = ", ".join(f"{name} ({difference})" for name, difference in differences.items())
        text = (
            "the rows that a model is fitted on decide how it uses a column, so that other rows can calibrate it. All "
            f"rows suggest another use of: {described}. To decide it yourself"
        )
        yield Message(text, ({"keep": "NAME"}, {"drop": "NAME"}, {"categorical": "NAME"}), lead=", add")


def unreadable_value(name: str, kind: ColumnKind, values: NDArray[Any], value: Any, where: str) -> Message:
    """Return the problem of a value that a model cannot read, because the rows that it is fitted on have no such."""
    held = "numbers" if kind.pattern is None else f"dates in the format {kind.pattern}"
    text = f"column {name!r} holds {held} in the rows that the model is fitted on, and {value!r:.80} in {where}"
    remedies: list[Mapping[str, Any]] = [{"drop": [name]}, {"categorical": [name]}]
    spelled = None if kind.pattern is None else date_format(values, day_first=True)
    if spelled is not None and not ColumnKind(pattern=spelled.pattern).unreadable(values).any():
        remedies.insert(0, {"day_first": True})
    return Message(text, tuple(remedies))


def no_features(decisions: Mapping[str, Decision]) -> Message:
    """Return the problem that no column is left as a feature in the rows that a model is fitted on."""
    ids = ", ".join(f"{name} ({each.left_out})" for name, each in decisions.items())
    return Message(
        f"table must have at least one feature column; all look like ids: {ids}", ({"keep": list(decisions)},)
    )
