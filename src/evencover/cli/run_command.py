"""The command `run`: from a table to a calibrated model and a folder with a report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evencover.cli.invocation import command_text, exit_status, usage_errors
from evencover.cli.terminal import print_result, status
from evencover.display.lines import Lines, Step, joined_lines

if TYPE_CHECKING:
    from evencover.studies import Study

Model: TypeAlias = Literal[
    "auto",
    "stack",
    "boosting",
    "linear",
    "best-of-three",
    "forest",
    "quantile-network",
    "mean-variance-network",
    "dropout-ensemble",
]


def run(
    data: Path | None = None,
    /,
    *,
    target: str | None = None,
    output: Path | None = None,
    model: Model = "auto",
    effort: Literal["fast", "normal", "best"] | None = None,
    score: str = "auto",
    groups: tuple[str, ...] | None = None,
    side: Literal["lower", "upper"] | None = None,
    tails: Literal["auto", "joint", "separate"] = "auto",
    target_transform: Literal["auto", "none"] = "auto",
    support: Literal["auto", "none"] = "auto",
    level: float = 0.9,
    tolerance: float | None = None,
    calibration: Literal["auto", "split", "cross"] = "auto",
    held_out: float | None = None,
    training_rows: int = 100_000,
    clusters: str | None = None,
    time: str | None = None,
    drop: tuple[str, ...] | None = None,
    keep: tuple[str, ...] | None = None,
    categorical: tuple[str, ...] | None = None,
    missing_values: tuple[str, ...] | None = None,
    sheet: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    header: str | None = None,
    missing_target: Literal["predict", "drop", "error"] = "predict",
    day_first: bool = False,
    copies: Literal["auto", "drop", "keep"] = "auto",
    intervals: Literal["csv", "parquet", "xlsx"] | None = None,
    exact_text: bool = False,
    seed: int = 0,
    data_dir: Path | None = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Fit a model to a table, calibrate its intervals for even coverage, and test them on held-out rows.

    Most rows, at most 100 000, fit the model and select score and groups. The others calibrate the intervals, and test
    them in turn: the thresholds of one half test the other half. In a small table, all rows take turns, by
    cross-validation. Of a table with more than 500 000 rows, a random sample fits the model; Parquet files are then
    read in batches. Writes a folder with report.html, the intervals of the test rows, results.json, and the predictor
    for `evencover predict`. Rows without a target get intervals in a file of their own.

    Options name a column by its name or, if no column has that name, by its position, counted from 1.

    Parameters
    ----------
    data
        A file (.csv, .tsv, .txt, also with .gz; .parquet, .feather, .xlsx), a folder of .parquet files, - for CSV from
        the standard input, or the name of a data set (see `evencover datasets`); by default an example table.
    target
        The column to predict.
    output
        Folder for the results; by default evencover-NAME in the current folder.
    model
        `auto` is `stack`, a weighted mean of several kinds of models; for small tables `best-of-three`: linear, kernel
        or trees. `forest` needs the extra `forest`; the networks and the ensemble need `networks`.
    effort
        How long fitting `stack` may take, in fits of boosting. fast: at most 15. normal (the default): 130. best: no
        limit. With each of them, at most --training-rows rows fit the model.
    score
        The score that is calibrated: residual, normalized, interval, relative-interval or probability. By default
        selected on the training rows.
    groups
        The groups that get even coverage: none, spread, spread:5, prediction:4 or column:NAME; several are combined. By
        default selected on the training rows.
    side
        lower or upper bounds instead of intervals: at most 1 - level of the targets lie beyond them.
    tails
        One threshold for both ends of the intervals (joint), or one for each. By default selected on the training rows.
    target_transform
        auto: also try a model of the log of the target, if targets are positive and skewed. none: the target itself.
    support
        The values that intervals can hold. auto: no negative numbers, no shares above 100 %, only whole numbers, if all
        training targets are like that. none: all numbers.
    level
        Nominal coverage.
    tolerance
        Largest distance from the level that counts as even. By default 0.03; less at levels above 0.9.
    calibration
        split: some rows fit the model, others calibrate and test it. cross: every row is used for all of it, by
        cross-validation, with a weaker guarantee. auto: cross for small tables.
    held_out
        Share of the rows that calibrate and test the model, for a split. By default a tenth, at most 20 000 rows, but
        enough for each threshold (100 at level 0.9), and at most a third; with a time, twice as many. It is larger if
        --training-rows fit the model.
    training_rows
        Largest number of rows that fit the model of a split: random ones or, with a time, the latest before the rows
        that are held out. It limits the time of large tables. With more rows, intervals are often narrower.
    clusters
        A column that says which rows belong together, such as a patient. They are never split up, and count as one row.
    time
        A column of dates or numbers. The rows are split in its order: later rows calibrate and test the model.
    drop
        Columns that are not features, such as names. They are written next to the intervals.
    keep
        Columns to use as features although they look like row numbers or ids.
    categorical
        Columns to treat as categories, such as numeric codes.
    missing_values
        Texts in the file that mean a missing value, such as '?', in addition to NA and other usual ones.
    sheet
        The sheet of an Excel file, by its name or its position, counted from 1; by default the first one.
    separator
        What separates the cells of a text file: one character, tab or space; by default recognised.
    encoding
        The encoding of a text file, such as cp1252; by default recognised: UTF-8, UTF-16 or Windows-1252 (Latin-1).
    header
        The row with the names of the columns in a text or Excel file, counted from 1; rows above it are not read. 0 or
        none: there is no header, and the columns are called column 1, column 2, ... By default recognised.
    missing_target
        What to do with rows without a target, which are never used to fit or to test. predict: write their intervals
        to a file of their own. drop: leave them out. error: stop.
    day_first
        Read 03/04/2020 as a day in April, if no other date of the column shows it.
    copies
        Rows that are equal to another row in all columns. drop: use one of each, so that no copy of a training row
        tests the model. keep: use all. auto: drop, unless rows can be equal by chance.
    intervals
        Format of the file of intervals; by default Parquet for Parquet and Feather data, otherwise CSV. xlsx (Excel) is
        not possible for a table that is read in batches.
    exact_text
        Write text to CSV as it is. By default, text that a spreadsheet would run as a formula, such as =A1, gets a
        single quote in front.
    seed
        Seed of the split, the model and the random draws of the tests.
    data_dir
        A folder of CSV files, named after the data sets.
    strict
        Exit with status 4 if the verdict is undecided.
    json
        Print the results as JSON, as in results.json.
    """
    from evencover.cli.run_inputs import Reading, TableFormat, check_options, load_table, score_named
    from evencover.report.writing import new_files, write_study
    from evencover.studies import Plan
    from evencover.tables.files import table_name

    command = command_text(run, locals())
    with usage_errors():
        check_options(groups, training_rows, both=clusters is not None and time is not None)
        reading = Reading(categorical or (), missing_values or (), TableFormat(sheet, separator, encoding, header))
        plan = Plan(
            model=model,
            effort=effort,
            nonconformity=score_named(score),
            side=side,
            tails=None if tails == "auto" else tails,
            level=level,
            tolerance=tolerance,
            calibration=calibration,
            held_out=held_out,
            target_transform=target_transform,
            support=support,
            seed=seed,
        )
    as_a_whole = clusters is not None or time is not None or calibration == "cross" or copies == "drop"
    loaded = load_table(data, target, reading, data_dir, as_a_whole=as_a_whole, training_rows=training_rows)
    columns = loaded.columns_named(drop=drop, keep=keep, categorical=categorical, clusters=clusters, time=time)
    folder = Path(f"evencover-{table_name(Path(loaded.name))}") if output is None else output
    plan = replace(plan, taxonomy=loaded.taxonomy(groups))
    interval_file = f"intervals.{intervals or loaded.format}"
    settings: dict[str, Any] = {"missing_target": missing_target, "day_first": day_first, "copies": copies, **columns}
    with new_files(folder, "study") as temporary, status() as report_progress:
        settings["progress"] = report_progress
        result = loaded.study(plan, temporary / interval_file, settings, exact_text=exact_text)
        kept = [*columns.get("drop", ()), *result.left_out]
        results = write_study(
            result,
            temporary,
            intervals=interval_file,
            names=loaded.values_next_to_intervals(kept),
            exact_text=exact_text,
            settings={**reading.for_new_rows, "kept_columns": kept},
            command=command,
            output=folder,
            progress=lambda done, levels: report_progress(Step("writing the report", done, levels, "levels")),
        )
        files = sorted(path.name for path in temporary.iterdir())
    print_result(results if json else _printed(result, folder, files))
    return exit_status(result.verdict, strict=strict)


def _printed(result: "Study", folder: Path, files: Sequence[str]) -> Lines:
    """Return a study as text, and the files that were written."""
    from evencover.words.settings import COMMAND_LINE
    from evencover.words.studies import study_text

    return joined_lines([study_text(result, COMMAND_LINE), "", f"Written to {folder}: {', '.join(files)}."])
