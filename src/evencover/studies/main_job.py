"""`study`: the main job on a table, in memory or of any size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evencover.inputs import StageProgress
from evencover.inputs.arrays import got_text, is_count
from evencover.inputs.frames import check_same_index, column_names, frame_kind
from evencover.studies.large_study import BatchSettings, study_in_batches
from evencover.studies.large_table import table_in_folder
from evencover.studies.plan import Plan
from evencover.studies.row_checks import Copies
from evencover.studies.study_result import Study
from evencover.studies.table_preparation import ColumnRoles, MissingTarget
from evencover.studies.table_study import MIN_TRAINING_ROWS, study_in_memory
from evencover.tables.files import file_kind, file_name, read_table
from evencover.tables.table_format import ANY_FORMAT, FileKind, TableFormat
from evencover.taxonomies import table_columns


def study(
    table: Any,
    target: str,
    *,
    plan: Plan | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    categorical: Sequence[str] = (),
    clusters: str | None = None,
    time: str | None = None,
    missing_target: MissingTarget = "predict",
    day_first: bool = False,
    copies: Copies = "auto",
    missing_values: Sequence[str] = (),
    file_format: TableFormat = ANY_FORMAT,
    name: str | None = None,
    output: str | Path | None = None,
    exact_text: bool = False,
    training_rows: int = 100_000,
    progress: StageProgress | None = None,
) -> Study:
    """Fit a model to most rows of a table, calibrate it on the others, and test it on these in turn.

    All that the model sees is decided on the training rows alone: which columns are ids, dates, or numbers as text, and
    which categories they have. There, `recommend` also selects the score and the groups. The other rows are held out:
    the model is calibrated on all of them, so its guarantee is exact, and they pass through it as new rows do. All rows
    together are looked at for messages only; a note says where they suggest another use of a column.

    The held-out rows also test the model. They are divided at random into two halves. The thresholds of each half give
    the intervals of the other half, so each row is tested once, by thresholds that have not seen it. By construction,
    the share of all covered rows is then near the level: it is reported, not tested. If one threshold serves all rows,
    groups are tested; a region of the features is found in some of the rows and tested in the others. Groups with
    thresholds of their own need no test. With n independent held-out rows in a group, and no ties, the coverage of its
    threshold has the distribution Beta(k, n + 1 − k), k = ⌈(n + 1) level⌉, and the audit says how near the level all
    groups are by it. With clusters, there is no such law, and the test rows show what is known.

    A small table is not split (see `calibration` of `Plan`). A `CrossConformalRegressor` is fitted on all rows. To test
    it, the same model is fitted without each of ten folds and gives intervals for the rows of the fold, so that every
    row is tested once out of sample. What a model sees is decided in each fold, on the rows that it is fitted on. The
    score and the groups depend on the plan and the number of rows alone, so the guarantee of `CrossConformalRegressor`
    holds. Only the support of the target is decided on all rows: that all targets have it is a condition of the
    guarantee, and suffices.

    With `output`, a table of any size is read in batches. A random sample of it is studied as above: the model is
    fitted on most of it, and score and groups are selected. Then every other row is predicted once: a random half of
    them calibrates the model, and the other half tests it. Then the test rows calibrate the model, too. Of each row,
    only its scores and its group stay in memory; nothing else grows with the table. All choices, also the edges of the
    groups, are made on the sample. So if calibration rows and new rows are exchangeable, an interval covers a new row
    of a group with probability at least the level.

    Parameters
    ----------
    table : DataFrame of n rows, str or Path; with `output` also a pyarrow dataset
        A pandas, polars or pyarrow table with the target and the features; a file, such as .csv, .parquet or .xlsx; or
        a folder of .parquet files. In batches: a Parquet file or folder, a dataset, or a pyarrow table. Features are
        numbers, text or dates, and may have missing values (see `TableEncoder`). Dates as text are recognised. So are
        row numbers and ids, which are not used as features (see `Recognition`).
    target : str
        The name of the column to predict. Of features X and targets y, make one table:
        ``study(X.assign(price=y), "price")``.
    plan : Plan, optional
        Model, score, groups, level, split, seed.
    drop : sequence of str
        Columns that are not features, such as row names. They may still define groups.
    keep : sequence of str
        Columns to use as features although they look like row numbers or ids.
    categorical : sequence of str
        Columns to treat as categories, such as numeric codes.
    clusters : str, optional
        A column that says which rows belong together, such as a patient; it is not a feature. All rows of a cluster are
        in the same part. All held-out rows calibrate the model, and each cluster counts as much as one new row, so the
        guarantee holds for a random row of a new cluster (see `Calibration`). It is approximate for groups whose
        edges are learned from the calibration rows, such as those of the spread. The tests need independent rows, so
        they use one random row of each cluster.
    time : str, optional
        A column of dates or numbers in whose order the rows are split: the model is fitted on the first rows,
        calibrated on the next ones and tested on the last ones. Rows of the same time are in the same part. Then the
        model is calibrated again, on all rows after the first. The guarantee holds for later rows that are exchangeable
        with these. Over time this is an assumption, and the test shows how well it held for the latest rows.
    missing_target : {"predict", "drop", "error"}
        What to do with rows without a target. They are never used to fit, to calibrate or to test. "predict" gives them
        intervals, in `Study.without_target`; with `output`, in a second file next to it, whose name ends in
        ``_without_target``. These are intervals of new rows: their guarantee holds if targets are missing at random, so
        that rows without a target are like the others. "drop" leaves them out.
    day_first : bool
        Whether 03/04/2020 is in April, if no other date of the column shows it.
    copies : {"auto", "drop", "keep"}
        What to do with rows that are equal to another row in all columns, row numbers and ids excepted. "drop" uses one
        row of each set of equal rows: then no copy of a row that fits the model calibrates or tests it. This is what
        clusters of copies would give, because equal rows have equal scores. The guarantee is for new rows that are no
        copies. "keep" uses all rows. "auto" is "drop", with a warning, unless rows can be equal by chance. Of a table
        in batches, all rows are used; a warning says if its sample has copies.
    missing_values : sequence of str
        Texts that mean a missing value, in addition to NA and other usual ones; for files.
    file_format : TableFormat
        For text and Excel files: sheet, separator, encoding and header, as far as they shall not be recognised.
    name : str, optional
        The name of the table in the results; by default that of the file.
    output : str or Path, optional
        A .parquet or .csv file for the intervals of the test rows of a table that is read in batches. It is complete,
        or absent after an error. Columns that are not features are written next to the intervals.
    exact_text : bool
        For a .csv file in `output`: whether it holds all text as it is. By default, text of the table that a
        spreadsheet would run as a formula, such as ``=A1``, gets a single quote in front.
    training_rows : int
        Largest number of rows that fit the model of a split. It limits the time of large tables: with more rows, random
        ones fit the model (random clusters until they have so many rows, at least ten), and all others are held out. In
        the order of time, these are the latest rows before those that are held out; earlier ones are not used, and a
        note says how many. In batches, at most half of the table is sampled. Rows that take turns all fit the model.
    progress : callable, optional
        Called with the name of each step when it begins; in batches also with the number of rows that were read.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=2000)
    >>> table = pd.DataFrame({"x": x, "y": rng.normal(scale=0.1 + x)})
    >>> found = study(table, "y", plan=Plan(model="linear"))
    >>> found.sizes
    {'training': 1800, 'held_out': 200}
    """
    _check_arguments(table, target, plan, {"clusters": clusters, "time": time}, in_batches=output is not None)
    plan, progress = plan or Plan(), progress or (lambda _: None)
    check_training_rows(training_rows)
    roles = ColumnRoles(
        target=target,
        drop=drop,
        keep=keep,
        categorical=categorical,
        clusters=clusters,
        time=time,
        grouping=table_columns(plan.taxonomy),
        missing_target=missing_target,
        day_first=day_first,
        copies=copies,
    )
    is_file = isinstance(table, str | Path)
    name = (file_name(Path(table)) if is_file else "table") if name is None else name
    kind: FileKind = "table" if not is_file else "folder" if Path(table).is_dir() else file_kind(table)
    file_format.check_applies(kind, name)
    if output is not None:
        batches = BatchSettings(Path(output), training_rows, missing_values, exact_text)
        return study_in_batches(table, roles, plan, name, progress, batches)
    if is_file:
        table = _table_in_file(Path(table), categorical, missing_values, file_format)
    elif missing_values:
        raise ValueError(
            f"missing_values is for files, or with output; got {list(missing_values)} for a table in memory"
        )
    return study_in_memory(table, roles, plan, name, progress, training_rows=training_rows)


def check_training_rows(training_rows: Any) -> None:
    """Raise ValueError unless this is a number of rows that can fit a model."""
    if not is_count(training_rows) or training_rows < MIN_TRAINING_ROWS:
        raise ValueError(f"training_rows must be a whole number, {MIN_TRAINING_ROWS} or more; got {training_rows!r}")


def _check_arguments(table: Any, target: Any, plan: Any, columns: Mapping[str, Any], *, in_batches: bool) -> None:
    """Raise TypeError, with all problems, unless there is one table, names of its columns and a plan.

    `columns` are other arguments that name a column or are None.
    """
    problems = []
    if not (in_batches or _is_table_or_file(table)):
        problems.append(
            "table must be a pandas, polars or pyarrow table, or a file, with the features and the target; got "
            f"{_shape_text(table)}"
        )
    if not _is_name(target):
        problems.append(f"target must be the name of a column of the table; got {_shape_text(target)}")
    problems += [
        f"{argument} must be the name of a column of the table, such as {argument}={argument!r}; got "
        f"{_shape_text(name)}"
        for argument, name in columns.items()
        if name is not None and not _is_name(name)
    ]
    if not isinstance(plan, Plan | None):
        problems.append(f"plan must be a Plan, such as Plan(level=0.8); got {got_text(plan)}")
    if problems:
        raise TypeError("; ".join(problems) + _one_table(table, target))


def _is_table_or_file(table: Any) -> bool:
    return isinstance(table, str | Path) or (frame_kind(table) is not None and len(getattr(table, "shape", ())) == 2)


def _is_name(value: Any) -> bool:
    """Return whether a value can name a column; pandas allows numbers and tuples."""
    return np.isscalar(value) or isinstance(value, tuple)


def _shape_text(value: Any) -> str:
    """Return a wrong argument as text; of an array or a table, its type and shape."""
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {value.shape}"
    plain = value is None or isinstance(value, type | str | list | dict)
    return f"{got_text(value):.60}" if plain else f"an object of type {type(value).__name__}"


def _one_table(table: Any, target: Any) -> str:
    """Return how to pass the arguments of `study` if these are usual ones of other functions; otherwise nothing."""
    if isinstance(target, Plan):
        return ". Pass the plan by its name, after the target: study(table, target, plan=Plan(...))"
    if isinstance(table, str | Path) or len(getattr(table, "shape", ())) != 2 or target is None:
        return ""
    kind, names = frame_kind(table), column_names(table) or ()
    if _is_name(target):
        return "" if kind else f". With an array, use study(pandas.DataFrame(array, columns=[...]), {target!r})"
    name = _name_of(target)
    if name in names:
        return f". The table has this column, so use study(table, {name!r})"
    try:
        check_same_index({"X": table, "y": target})
    except ValueError as error:
        return f". Before X and y can be one table: {error}"
    assigned = f"assign({name}=y)" if name.isidentifier() else f"assign(**{{{name!r}: y}})"
    one_table = {
        "": f"pandas.DataFrame(X).add_prefix('x').{assigned}",
        "pandas": f"X.{assigned}",
        "polars": f"X.with_columns(polars.Series({name!r}, y))",
        "pyarrow": f"X.append_column({name!r}, [y])",
    }[kind.library if kind else ""]
    return f". With features X and targets y, use study({one_table}, {name!r})"


def _name_of(target: Any) -> str:
    """Return the name of a column that was passed instead of its name, or in a list; "target" if it has none."""
    if isinstance(target, list):
        name = target[0] if len(target) == 1 and isinstance(target[0], str) else None
    else:
        name = (column_names(target) or [None])[0] if hasattr(target, "columns") else getattr(target, "name", None)
    return str(name or "target")


def _table_in_file(
    path: Path, categorical: Sequence[str], missing_values: Sequence[str], file_format: TableFormat
) -> Any:
    """Return the table in a file, or in all Parquet files of a folder."""
    if path.is_dir():
        return table_in_folder(path, missing_values)
    return read_table(path, text=categorical, missing=missing_values, file_format=file_format)
