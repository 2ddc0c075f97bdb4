"""The columns of a table: the target, the features, and columns with another role. All problems are raised at once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from evencover.groups import Groups, first_few
from evencover.inputs.arrays import BoolArray, FloatArray, IntArray, got_text, is_number, lookup, similar_name
from evencover.inputs.dates import date_format
from evencover.inputs.frames import (
    FROM_ZERO,
    RowNumbers,
    as_numbers,
    column,
    column_names,
    columns_of,
    is_missing,
    n_rows,
    row_numbers,
    take,
    with_columns,
)
from evencover.inputs.number_texts import are_missing_cells
from evencover.model_selection import Part
from evencover.models.encoding import ColumnKind, Recognition, TableEncoder
from evencover.studies.column_checks import (
    CheckedColumn,
    RepeatedUnits,
    TimeOrder,
    checked_column,
    leak_warnings,
    mixed_problem,
    panel_unit,
    read_target,
    repeated_units,
    time_numbers,
    time_order,
    type_problem,
    unit_notes,
)
from evencover.studies.doubtful_values import (
    OddCells,
    class_code_warning,
    missing_value_codes,
    odd_cells_note,
)
from evencover.studies.messages import Message, TableError
from evencover.studies.row_checks import (
    Copies,
    EqualRows,
    ExtremeValue,
    copies_message,
    extreme_values,
    extremes_messages,
)


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


def decision_notes(decisions: Mapping[str, Decision], odd: Mapping[str, OddCells]) -> Iterator[Message]:
    """Yield notes on columns that are read as dates or numbers, that are left out, and that all rows would change.

    `odd` are the cells, by column, that are no numbers.
    """
    dates = [name for name, each in decisions.items() if any(kind.pattern for kind in each.used)]
    units = {name: kind.unit for name, each in decisions.items() for kind in each.used if kind.numbers}
    numbers = [f"{name} (unit {unit!r})" if unit else name for name, unit in units.items() if name not in odd]
    for what, names in (("dates", dates), ("numbers", numbers)):
        if names:
            text = f"read as {what}: {', '.join(names)}. To use one as categories"
            yield Message(text, ({"categorical": "NAME"},), lead=", add")
    yield from odd_cells_note({name: each for name, each in odd.items() if name in units})
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
    numbers = f"numbers with the unit {kind.unit}" if kind.unit else "numbers"
    held = numbers if kind.pattern is None else f"dates in the format {kind.pattern}"
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


MissingTarget: TypeAlias = Literal["predict", "drop", "error"]


@dataclass(frozen=True)
class ColumnRoles:
    """The columns that the user names, by role, and how to read some of them.

    Parameters
    ----------
    target : str
        The column to predict.
    drop, keep, categorical : sequence of str
        Columns that are not features; that are features although they look like ids; that are categories.
    clusters, time : str or None
        The column of clusters; the column in whose order the rows are split.
    grouping : tuple of str
        Columns that define groups.
    missing_target : {"predict", "drop", "error"}
        What to do with rows without a target.
    day_first : bool
        Whether 03/04/2020 is in April, if no other date of the column shows it.
    copies : {"auto", "drop", "keep"}
        What to do with rows that are equal to another row.
    """

    target: str
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    categorical: Sequence[str] = ()
    clusters: str | None = None
    time: str | None = None
    grouping: tuple[str, ...] = ()
    missing_target: MissingTarget = "predict"
    day_first: bool = False
    copies: Copies = "auto"

    def __post_init__(self) -> None:
        for argument in ("drop", "keep", "categorical"):
            given = getattr(self, argument)
            if isinstance(given, str) or not isinstance(given, Iterable):
                got = f"the text {given!r}" if isinstance(given, str) else got_text(given)
                raise TypeError(f"{argument} must be a sequence of column names; got {got}")
        lookup(self.missing_target, dict.fromkeys(get_args(MissingTarget)), "missing_target")
        lookup(self.copies, {"auto": None, "drop": None, "keep": None}, "copies")

    def of_sample(self) -> "ColumnRoles":
        """Return the roles in a sample, whose rows without a target get no intervals there."""
        return replace(self, missing_target="drop") if self.missing_target == "predict" else self

    def by_argument(self) -> dict[str, Sequence[str]]:
        """Return the names of columns that the user gave, by argument."""
        single = {"target": self.target, "clusters": self.clusters, "time": self.time}
        several = {"drop": self.drop, "keep": self.keep, "categorical": self.categorical}
        return {**{name: [] if value is None else [value] for name, value in single.items()}, **several}


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """The parts of a table that a study uses.

    What the columns are is decided by the encoder, from the rows that a model is fitted on. What they are by all rows
    is for messages to the user, and for the search of the audit.

    Parameters
    ----------
    features : table of n rows
        The columns that the model and its groups may need, as they are in the table.
    y : ndarray of shape (n,)
        The targets.
    rows : ndarray of int, shape (n,)
        The positions of the rows in the given table: all, or those with a target, or one of each set of copies.
    encoder : TableEncoder
        The encoder of the features, which recognises in `fit` what they are.
    decisions : mapping from str to Decision
        What each column is.
    converted : mapping from str to ndarray of shape (n,)
        The dates and numbers of columns that hold them as text.
    target : str
        The name of the target.
    clusters : Groups or None
        The clusters of the rows.
    times : ndarray of shape (n,) or None
        The times of the rows, as numbers.
    warnings : tuple of Message
        What may be wrong.
    without_target : Part
        The rows without a target that get intervals, with the same columns.
    target_notes : tuple of Message
        Notes on rows without a target, and on the target.
    order, units : TimeOrder and RepeatedUnits, or None
        The column of times, and that of units with several rows; None if the user has said how to split the rows.
    odd : mapping from str to OddCells
        The cells of columns of numbers that are no numbers, by all rows.
    row_numbers : RowNumbers
        How messages number the rows of the given table.
    n_without_target, n_copies : int
        Number of rows without a target; of rows that were left out because they are copies of other rows.
    extremes : tuple of ExtremeValue
        The values that lie extremely far from all others of their columns.
    """

    features: Any
    y: FloatArray
    rows: IntArray
    encoder: TableEncoder
    decisions: Mapping[str, Decision]
    converted: Mapping[str, NDArray[Any]]
    target: str
    without_target: Part
    clusters: Groups | None = None
    times: FloatArray | None = None
    warnings: tuple[Message, ...] = ()
    order: TimeOrder | None = None
    units: RepeatedUnits | None = None
    target_notes: tuple[Message, ...] = ()
    odd: Mapping[str, OddCells] = field(default_factory=dict)
    row_numbers: RowNumbers = FROM_ZERO
    n_without_target: int = 0
    n_copies: int = 0
    extremes: tuple[ExtremeValue, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that are recognised as row numbers or ids, so that no model uses them."""
        return tuple(name for name, decision in self.decisions.items() if decision.left_out)

    @property
    def notes(self) -> tuple[Message, ...]:
        """What else the user should know."""
        decided = decision_notes(self.decisions, self.odd)
        return (*self.target_notes, *decided)

    def decided_by(self, fits: Sequence[IntArray]) -> "PreparedTable":
        """Return the table with the columns that models use which are fitted on these rows each.

        Raise TableError if rows have values that such a model cannot read, or if no column is left.

        Parameters
        ----------
        fits : sequence of ndarray of int
            The rows of each model, as positions among the rows that are used.
        """
        columns = {name: column(self.features, name, "table") for name in self.decisions}
        decisions = {
            name: decision.decided(self.encoder.kind(name, columns[name][rows]) for rows in fits)
            for name, decision in self.decisions.items()
        }
        pairs = [(name, kind) for name, each in decisions.items() for kind in each.unlike_all_rows]
        unreadable = [(*pair, bad) for pair in pairs if (bad := pair[1].unreadable(self._cells(pair[0]))).any()]
        problems = [self._unreadable(*each) for each in unreadable if not self._counts_as_missing(*each)]
        if all(each.left_out for each in decisions.values()):
            problems.append(no_features(decisions))
        if problems:
            raise TableError(problems)
        names = [name for name in column_names(self.features) or () if not decisions.get(name, USED).left_out]
        odd = {
            name: OddCells.of(self._cells(name), bad, self.row_numbers, self._positions) for name, _, bad in unreadable
        }
        return replace(
            self,
            features=columns_of(self.features, names),
            without_target=replace(self.without_target, X=columns_of(self.without_target.X, names)),
            decisions=decisions,
            odd={**odd, **self.odd},
        )

    @property
    def fixed_encoder(self) -> TableEncoder:
        """The encoder with the decisions of one model, so that folds inside its rows do not decide otherwise."""
        kinds = {name: each.by_fits[0] for name, each in self.decisions.items() if not each.left_out}
        encoder, plain = clone(self.encoder), [name for name, kind in kinds.items() if kind == ColumnKind()]
        unchanged = (*encoder.recognition.unchanged, *plain)
        recognition = replace(encoder.recognition, keep=tuple(kinds), unchanged=unchanged)
        dates = {name: kind.pattern for name, kind in kinds.items() if kind.pattern is not None}
        numbers = {name: kind.unit for name, kind in kinds.items() if kind.numbers}
        units = tuple(name for name in encoder.panel_units if name in kinds)
        fixed: TableEncoder = encoder.set_params(
            dates=dates, numbers=numbers, panel_units=units, recognition=recognition
        )
        return fixed

    def _cells(self, name: str) -> NDArray[Any]:
        """Return the values of a column in the rows that are used, then in those without a target."""
        return np.concatenate([column(each, name, "table") for each in (self.features, self.without_target.X)])

    @property
    def _positions(self) -> IntArray:
        """The positions of these rows in the given table."""
        return np.concatenate([self.rows, self.without_target.positions])

    def _counts_as_missing(self, name: str, kind: ColumnKind, bad: BoolArray) -> bool:
        """Return whether a model takes the values that it cannot read for missing ones: few text among numbers."""
        return kind.numbers and are_missing_cells(bad, self._cells(name))

    def _unreadable(self, name: str, kind: ColumnKind, bad: BoolArray) -> Message:
        """Return the problem of a column with values that a model cannot read."""
        values, row = self._cells(name), int(bad.argmax())
        where = self.row_numbers.text(self._positions[row])
        return unreadable_value(name, kind, values, values.tolist()[row], where)

    def places(self, positions: IntArray) -> IntArray:
        """Return where rows with these positions in the given table are among the rows that are used."""
        return np.searchsorted(self.rows, positions)

    def shown(self, rows: IntArray) -> Any:
        """Return the features of some rows, with text as the dates or numbers that it is by all rows."""
        names = column_names(self.features) or ()
        converted = {name: values[rows] for name, values in self.converted.items() if name in names}
        return with_columns(take(self.features, rows), converted)


def prepare_table(table: Any, roles: ColumnRoles) -> PreparedTable:
    """Return the features and targets of a table; raise `TableError` with all problems if it has any."""
    names, rows = _checked_names(table), row_numbers(table)
    y, target_problems = _target(table, roles, rows) if roles.target in names else (np.empty(0), [])
    columns = {name: column(table, name, "table") for name in names if name not in {roles.target, roles.clusters}}
    found = {
        name: _checked_column(name, values, roles, rows) for name, values in columns.items() if name not in roles.drop
    }
    order = _order(columns, roles, found)
    times = None if order is None else time_numbers(_values_used(columns[str(roles.time)], order))
    problems = [
        *_role_problems(roles, names),
        *target_problems,
        *(each.problem for each in found.values() if each.problem is not None),
        *_split_problems(table, roles, rows, times, np.isnan(y) if len(y) else np.zeros(n_rows(table), dtype=bool)),
    ]
    if all(each.left_out for each in found.values()):
        problems.append(_no_features(roles, found))
    if problems:
        raise TableError(problems)
    used = {name: _values_used(columns[name], each) for name, each in found.items()}
    prepared = _prepared(table, roles, y, {**columns, **used}, found)
    if order is None or times is None:
        return prepared
    prepared = replace(prepared, encoder=_with_unit(prepared, roles, times[prepared.rows]))
    ambiguous = [order.warning] if order.warning is not None and order.warning not in prepared.warnings else []
    return replace(prepared, times=times[prepared.rows], warnings=(*prepared.warnings, *ambiguous))


def _with_unit(table: PreparedTable, roles: ColumnRoles, times: FloatArray) -> TableEncoder:
    """Return the encoder of a table in the order of time, which knows the column of units if there is one."""
    others = [name for name, each in table.decisions.items() if not each.left_out and name != roles.time]
    columns = {name: column(table.features, name, "table") for name in others}
    given = {name: columns[name].astype(str) for name in roles.categorical if name in columns}
    unit = panel_unit({**columns, **given}, times)
    if unit is None:
        return table.encoder
    encoder: TableEncoder = clone(table.encoder).set_params(panel_units=(unit,))
    return encoder


def _prepared(
    table: Any,
    roles: ColumnRoles,
    y: FloatArray,
    columns: Mapping[str, NDArray[Any]],
    found: Mapping[str, CheckedColumn],
) -> PreparedTable:
    """Return the parts of a table without problems; `columns` are its columns, with text as dates or numbers."""
    ignored = [name for name in roles.grouping if name not in found and name != roles.target]
    names = [name for name in columns if name in ignored or name in found]
    known, n, numbering = np.flatnonzero(~np.isnan(y)), n_rows(table), row_numbers(table)
    columns = {name: values[known] for name, values in columns.items()} if len(known) < len(y) else columns
    numbers = _numbers(found, columns, roles)
    leaks = leak_warnings(numbers, roles.target, y[known])
    clusters = None if roles.clusters is None else column_groups(take(table, known), roles.clusters, "clusters")
    distinct, copies = _without_copies(found, columns, roles, y[known], clusters, target_is_known=bool(leaks))
    used = known[distinct]
    table = with_columns(table, _objects_as_text(table, found))
    predicted = np.flatnonzero(np.isnan(y)) if roles.missing_target == "predict" else np.empty(0, dtype=np.intp)
    without_target = Part(columns_of(take(table, predicted), names), y[predicted], predicted)
    if len(used) < len(y):
        table, columns = take(table, used), {name: values[distinct] for name, values in columns.items()}
    extremes = _extremes(numbers, roles.target, y[known], known)
    return PreparedTable(
        columns_of(table, names),
        y[used],
        used,
        TableEncoder(
            categorical=tuple(name for name in roles.categorical if name in names),
            ignored=tuple(ignored),
            recognition=Recognition(tuple(roles.keep), roles.grouping, roles.day_first, n),
        ),
        {name: Decision(each.read.kind) for name, each in found.items()},
        {name: columns[name] for name, each in found.items() if each.read.converted is not None},
        roles.target,
        without_target,
        clusters=None if roles.clusters is None else column_groups(table, roles.clusters, "clusters"),
        warnings=(
            *leaks,
            *_warnings(found, numbers, roles.target, y[known]),
            *copies,
            *extremes_messages(extremes, numbering),
        ),
        **_dependence(found, columns, roles),
        target_notes=(
            *missing_target_notes(len(y) - len(known), len(y), roles.missing_target, roles.clusters),
            *unit_notes(roles.target, column(table, roles.target, "target")),
        ),
        odd={name: each.odd for name, each in found.items() if each.odd is not None},
        row_numbers=numbering,
        n_without_target=len(y) - len(known),
        n_copies=len(known) - len(used),
        extremes=extremes,
    )


def _objects_as_text(table: Any, found: Mapping[str, CheckedColumn]) -> dict[str, NDArray[Any]]:
    """Return the columns of Python objects, numbers and a few texts, as text, which they also are in the rows of a fit.

    The type of a column is that of the whole table, as in a file.
    """
    objects = {name: column(table, name, "table") for name, each in found.items() if each.odd is not None}
    return {
        name: np.where(is_missing(values), None, values.astype(str)).astype(object)  # type: ignore[call-overload]
        for name, values in objects.items()
        if values.dtype.kind == "O" and any(map(is_number, values.tolist()))
    }


def _without_copies(
    found: Mapping[str, CheckedColumn],
    columns: Mapping[str, NDArray[Any]],
    roles: ColumnRoles,
    y: FloatArray,
    clusters: Groups | None,
    *,
    target_is_known: bool,
) -> tuple[Any, list[Message]]:
    """Return the positions of the rows without copies, as an array or a slice of all rows, and a message on copies.

    Copies may differ in columns of row numbers and ids, also in those that the user drops, and in the cluster.
    """
    if roles.copies == "keep":
        return slice(None), []
    ids = {name for name, each in found.items() if each.left_out}
    ids |= {name for name, values in columns.items() if name not in found and Recognition().kind(name, values).left_out}
    ids.discard(str(roles.time))  # the same at another time is no copy
    equal = EqualRows.of({name: values for name, values in columns.items() if name not in ids}, y)
    kept = equal.kept(None if clusters is None else clusters.codes)
    if kept.all() or (roles.copies == "auto" and not equal.are_copies(target_is_known=target_is_known)):
        return slice(None), []
    not_compared = [name for name in columns if name in ids]
    return np.flatnonzero(kept), [copies_message(len(y) - int(kept.sum()), len(y), not_compared)]


def _extremes(
    numbers: Mapping[str, FloatArray], target: str, y: FloatArray, rows: IntArray
) -> tuple[ExtremeValue, ...]:
    """Return the extreme values of all columns, the target first; `rows` are positions in the table."""
    columns = [extreme_values(target, y, is_target=True), *(extreme_values(*each) for each in numbers.items())]
    return tuple(replace(each, row=int(rows[each.row])) for found in columns for each in found)


def _checked_names(table: Any) -> list[str]:
    """Return the column names of a table; raise if it is no table, or if names occur more than once."""
    names = column_names(table) if hasattr(table, "shape") else None
    if names is None:
        raise TypeError(f"table must be a pandas, polars or pyarrow table; got {type(table).__name__}")
    duplicates = sorted({str(name) for name, count in Counter(names).items() if count > 1})
    if duplicates:
        raise ValueError(f"table has duplicate column names: {first_few(duplicates)}")
    return names


def _role_problems(roles: ColumnRoles, names: Sequence[str]) -> Iterator[Message]:
    """Yield a problem for each name that is not a column, and for each role that the target cannot have."""
    for argument, given in roles.by_argument().items():
        for name in given:
            if name not in names:
                hint = similar_name(name, names)
                yield Message(f"{argument}: no column named {name!r}; {hint}the columns are {first_few(names)}")
            elif name == roles.target and argument != "target":
                yield Message(f"{argument} must not name the target; got {name!r}")
    for name in set(roles.keep) & {*roles.drop, roles.clusters}:
        yield Message(f"keep must not name a column that is dropped or holds the clusters; got {name!r}")


def _checked_column(name: str, values: NDArray[Any], roles: ColumnRoles, rows: RowNumbers) -> CheckedColumn:
    """Return what a column is that may be a feature, and what may be wrong with it."""
    if name in roles.categorical:
        return CheckedColumn(problem=type_problem(name, values, rows) if as_numbers(values) is None else None)
    found = checked_column(name, values, Recognition(keep=roles.keep, day_first=roles.day_first), rows)
    if name not in roles.grouping:
        return found
    # Groups have the values as they are.
    mixed = mixed_problem(name, values, found.read.kind, rows) if found.odd is not None else None
    return CheckedColumn(problem=found.problem or mixed)


def _order(
    columns: Mapping[str, NDArray[Any]], roles: ColumnRoles, found: Mapping[str, CheckedColumn]
) -> CheckedColumn | None:
    """Return what the column of times is; None if there is no such column."""
    if roles.time is None or roles.time not in columns:
        return None
    if roles.time in found and roles.time not in (*roles.categorical, *roles.grouping):
        return found[roles.time]
    return checked_column(roles.time, columns[roles.time], Recognition(day_first=roles.day_first))


def _values_used(values: NDArray[Any], found: CheckedColumn) -> NDArray[Any]:
    """Return the values of a column, text as dates or numbers."""
    return values if found.read.converted is None else found.read.converted


def _split_problems(
    table: Any, roles: ColumnRoles, rows: RowNumbers, times: FloatArray | None, without_target: BoolArray
) -> Iterator[Message]:
    """Yield the problems of the columns of clusters, of times and of groups.

    Rows without a target need a label of a group only if they get an interval.
    """
    for each in roles.grouping:
        yield from _label_problems(table, each, roles, rows, without_target)
    if roles.clusters is not None and roles.time is not None:
        yield Message("clusters and time cannot be combined; got both")
        return
    for role, name in (("clusters", roles.clusters), ("time", roles.time)):
        if name is None or name not in (column_names(table) or ()):
            continue
        values = column(table, name, role)
        missing = np.isnan(times) if role == "time" and times is not None else is_missing(values)
        missing &= ~without_target
        if missing.any():
            found = f"missing: {missing.sum()} of {len(missing)} {rows.first(missing)}"
            label = "a label" if role == "clusters" else "a time"
            yield Message(f"{role}: column {name!r} must have {label} in every row; {found}")
        elif role == "time" and times is None:
            yield Message(f"time: column {name!r} must hold dates in one format, or numbers; got {values[0]!r:.80}")


def _label_problems(
    table: Any, name: str, roles: ColumnRoles, rows: RowNumbers, without_target: BoolArray
) -> Iterator[Message]:
    """Yield the problem of rows without a label of a group, if there are any."""
    if name == roles.target or name not in (column_names(table) or ()):
        return
    missing = is_missing(column(table, name, "groups"))
    only_without_target = not (missing & ~without_target).any()
    if not missing.any() or (only_without_target and roles.missing_target != "predict"):
        return
    text = f"groups: column {name!r} must have a label in every row; missing: {missing.sum()} of {len(missing)} "
    where = " and no target in these rows" * only_without_target
    remedies = ({"missing_target": "drop"},) if only_without_target else ()
    yield Message(f"{text}{rows.first(missing)}{where}", remedies)


def _no_features(roles: ColumnRoles, found: Mapping[str, CheckedColumn]) -> Message:
    """Return the problem that no column is left as a feature."""
    dropped = sorted({roles.target, *roles.drop, *filter(None, [roles.clusters])})
    text = f"table must have at least one feature column; none is left after dropping the columns {dropped}"
    ids = [f"{name} ({each.left_out})" for name, each in found.items() if each.left_out]
    return Message(f"{text}{', and as ids: ' * bool(ids)}{', '.join(ids)}", ({"keep": list(found)},) if ids else ())


def _target(table: Any, roles: ColumnRoles, rows: RowNumbers) -> tuple[FloatArray, list[Message]]:
    """Return the targets, with NaN for missing ones, and the problems of the column."""
    return read_target(roles.target, table, rows, needs_all=roles.missing_target == "error")


def _numbers(
    found: Mapping[str, CheckedColumn], columns: Mapping[str, NDArray[Any]], roles: ColumnRoles
) -> dict[str, FloatArray]:
    """Return the features that are numbers, with NaN for missing ones."""
    unchanged = (name for name, each in found.items() if not each.left_out and each.read.dates is None)
    candidates = {name: as_numbers(columns[name]) for name in unchanged if name not in roles.categorical}
    return {name: each for name, each in candidates.items() if each is not None}


def _warnings(
    found: Mapping[str, CheckedColumn], numbers: Mapping[str, FloatArray], target: str, y: FloatArray
) -> Iterator[Message]:
    """Yield what may be wrong: ambiguous dates, numbers that mean a missing value, a target that is a class."""
    yield from (each.warning for each in found.values() if each.warning is not None)
    yield from missing_value_codes(numbers, target, y)
    yield from class_code_warning(target, y)


def _dependence(
    found: Mapping[str, CheckedColumn], columns: Mapping[str, NDArray[Any]], roles: ColumnRoles
) -> dict[str, Any]:
    """Return the columns of times and of units by field, unless the user has said how to split the rows."""
    if roles.clusters is not None or roles.time is not None:
        return {}
    candidates = {name: columns[name] for name in found}
    return {"order": time_order(candidates), "units": repeated_units(candidates)}


def missing_target_notes(
    missing: int, n: int, missing_target: MissingTarget, clusters: str | None = None
) -> list[Message]:
    """Return a note on rows without a target, if there are any: what became of them."""
    if not missing:
        return []
    text = f"rows without a target: {missing} of {n}. "
    text += (
        "They neither fitted nor tested the model, and got intervals. These are guaranteed only if targets are missing "
        "at random, so that these rows are like those that calibrate the model"
        + f", and only if no row of the same {clusters} fitted it"
        * (clusters is not None)
        if missing_target == "predict"
        else "They were left out, and the guarantee is for rows whose target can be known"
    )
    return [Message(text, kind="missing target")]


def column_groups(table: Any, name: str, role: str) -> Groups:
    """Return the groups of rows with equal values in a column; `role` names the argument in errors."""
    return Groups.from_labels(column(table, name, role), name=f"{role}: column {name!r}")
