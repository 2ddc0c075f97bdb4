"""The main job and what follows it: run, predict, audit."""

import json as json_files
import shlex
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evencover.cli.terminal import complain, say, say_data, status

if TYPE_CHECKING:
    from evencover.diagnostics.verdicts import Verdict
    from evencover.scores import Score
    from evencover.taxonomies import Taxonomy

STATUS: "dict[Verdict, int]" = {"even": 0, "uneven": 3, "undecided": 4}
_EMBEDDED, _EMBEDDED_ROWS = "heteroskedastic", 20_000
_MOST_GROUPS = 50


def run(
    data: str | None = None,
    /,
    *,
    target: str | None = None,
    output: Path | None = None,
    model: str = "boosting",
    score: Literal["auto", "residual", "interval", "normalized"] = "auto",
    groups: tuple[str, ...] | None = None,
    level: float = 0.9,
    tolerance: float = 0.03,
    calibration_size: float = 0.4,
    test_size: float = 0.2,
    split_by: str | None = None,
    drop: tuple[str, ...] | None = None,
    categorical: tuple[str, ...] | None = None,
    intervals: Literal["csv", "parquet"] | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    json: bool = False,
) -> int:
    """Fit a model to a table, calibrate it so that its coverage is even, and say whether it is.

    Splits the rows in three, fits and chooses on the first part, calibrates on the second, judges on the third. Writes
    a folder: report.html to read, intervals of the test part, results.json, and the predictor for `evencover predict`.

    Parameters
    ----------
    data
        A CSV or Parquet file, or the name of a data set (see `evencover datasets`); without it, an embedded one.
    target
        The column to predict.
    output
        The folder for what is found; by default evencover-NAME here.
    model
        boosting, linear, forest (extra `forest`), or with the extra `networks` quantile-network,
        mean-variance-network, dropout-ensemble.
    score
        What is calibrated; by default chosen on the training part.
    groups
        What is covered evenly: none, spread, spread:5, prediction:4, column:NAME; given twice, their combinations. By
        default chosen on the training part: none, or 3 to 10 levels of the spread.
    level
        Nominal coverage.
    tolerance
        Distance from the level that counts as even.
    calibration_size
        Share of the rows that calibrate.
    test_size
        Share of the rows that judge.
    split_by
        A column of clusters, such as patients, none of which has rows in two parts; no feature.
    drop
        A column that is no feature, such as a name; it is put beside the intervals. Can be given again.
    categorical
        A column of numbers that are codes. Can be given again.
    intervals
        The kind of the file of intervals; by default that of the data.
    seed
        Of the split, the model and the tests' draws.
    data_dir
        A folder of CSV files called after the data sets.
    json
        Print results.json instead of words.
    """
    from evencover.report.folders import INTERVALS, refuse_others_folder, write_study
    from evencover.studies import Plan, study
    from evencover.tables import column

    typed = as_typed(run, locals())
    table, name, target = _table(data, target, data_dir)
    folder = Path(f"evencover-{Path(name).stem}") if output is None else output
    refuse_others_folder(folder)
    plan = Plan(
        model=model,
        nonconformity=_score(score),
        taxonomy=_taxonomy(groups, table),
        level=level,
        tolerance=tolerance,
        calibration_size=calibration_size,
        test_size=test_size,
        seed=seed,
    )
    with status() as tell:
        found = study(
            table,
            target,
            plan=plan,
            drop=drop or (),
            categorical=categorical or (),
            clusters=split_by,
            name=name,
            tell=tell,
        )
        tell("writing the report")
        kind = INTERVALS[1] if (intervals or Path(name).suffix.lstrip(".")) == "parquet" else INTERVALS[0]
        beside = {each: column(table, each, "drop") for each in drop or ()}
        paths = write_study(found, folder, intervals=kind, beside=beside, command=typed)
    if json:
        say((folder / "results.json").read_text(encoding="utf-8"))
    else:
        say(str(found))
        say(f"\nWritten to {folder}: {', '.join(path.name for path in paths)}.")
    return STATUS[found.verdict]


def predict(
    folder: Path,
    new: Path,
    /,
    *,
    output: Path | None = None,
    level: float | None = None,
    unseen: Literal["error", "marginal", "inf"] = "error",
    keep: tuple[str, ...] | None = None,
    json: bool = False,
) -> None:
    """Give each row of a new table its interval, by the predictor that a run left in its folder.

    Parameters
    ----------
    folder
        The folder of a run, or a file that ConformalRegressor.save wrote.
    new
        A CSV or Parquet file with the same columns; further ones do not matter.
    output
        A CSV or Parquet file for the intervals; printed as CSV without it.
    level
        Nominal coverage; by default that of the run.
    unseen
        What a row gets whose group has no calibration: an error, the threshold of all rows, or an infinite interval.
    keep
        A column to put beside the intervals. Can be given again.
    json
        Print data: the intervals with what is promised.
    """
    from evencover.datasets.mixed import read_table, write_table
    from evencover.report.data import plain
    from evencover.tables import column

    regressor, own_level = _predictor(folder)
    table = read_table(new)
    features = _same_features(regressor, table, new)
    made = regressor.predict_interval(features, level=own_level if level is None else level, unseen=unseen)
    columns: dict[str, Any] = {each: column(table, each, "keep") for each in keep or ()}
    columns |= {"prediction": regressor.predict(features), "lower": made.lower, "upper": made.upper}
    if made.groups is not None and len(made.groups.labels) > 1:
        columns["group"] = [str(label) for label in made.groups.label_of_rows()]
    if output is not None:
        write_table(columns, output)
    if json:
        say_data({"level": made.level, "guarantee": str(made.guarantee), "intervals": plain(columns)})
    elif output is None:
        _say_csv(columns)
    else:
        say(f"{len(made)} intervals at level {made.level:g}, mean width {made.width.mean():.4g}, in {output}.")
        say(str(made.guarantee))


def audit(
    file: Path,
    /,
    *,
    target: str,
    lower: str,
    upper: str,
    group: str | None = None,
    features: tuple[str, ...] | None = None,
    level: float = 0.9,
    tolerance: float = 0.03,
    calibration_rows: int | None = None,
    seed: int = 0,
    output: Path | None = None,
    json: bool = False,
) -> int:
    """Judge anyone's intervals: where they missed, and whether that is chance.

    Parameters
    ----------
    file
        A CSV or Parquet file with a row for each interval.
    target
        The column of what came out.
    lower
        The column of lower bounds; an empty cell is an empty interval, -inf an open one.
    upper
        The column of upper bounds.
    group
        The column of groups that must each be covered; by default thirds by width.
    features
        A column to look for rows that are missed more often. Can be given again; `all` is every other column.
    level
        Nominal coverage of the intervals.
    tolerance
        Distance from the level that counts as even.
    calibration_rows
        How many rows the one threshold behind the intervals was calibrated on: with it, its own chance is allowed for.
    seed
        Of the halves, slabs and permutations that look at features.
    output
        A folder for report.html and results.json.
    json
        Print data.
    """
    from evencover.datasets.mixed import number_column, read_table, refuse_unless_column
    from evencover.diagnostics.auditing import audit as judged
    from evencover.report.data import data_of
    from evencover.report.folders import refuse_others_folder, write_findings
    from evencover.tables import column, columns_of

    typed = as_typed(audit, locals())
    if output is not None:
        refuse_others_folder(output)
    table = read_table(file)
    y = number_column(table, target, "target")
    bounds = (number_column(table, lower, "lower", finite=False), number_column(table, upper, "upper", finite=False))
    used = {target, lower, upper, group}
    names = (
        [name for name in table.column_names if name not in used] if "all" in (features or ()) else list(features or ())
    )
    for name in [*names, *([] if group is None else [group])]:
        refuse_unless_column(table, name, "group" if name == group else "features")
    with status() as tell:
        tell("judging")
        found = judged(
            y,
            bounds,
            X=columns_of(table, names) if names else None,
            groups=None if group is None else column(table, group, "group"),
            level=level,
            tolerance=tolerance,
            calibration_sizes=calibration_rows,
            seed=seed,
        )
    if output is not None:
        write_findings(found, output, command=typed)
    if json:
        say_data(data_of(found))
    else:
        say(str(found))
    return STATUS[found.verdict]


def as_typed(verb: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return the command that calls a verb with these arguments, without what is so by default."""
    words = ["evencover", verb.__name__]
    for name, parameter in signature(verb).parameters.items():
        value = given[name]
        if value == parameter.default:
            continue
        flag = f"--{name.replace('_', '-')}"
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            words.append(str(value))
        elif value is True:
            words.append(flag)
        else:
            words += [word for each in (value if isinstance(value, tuple) else [value]) for word in (flag, str(each))]
    return shlex.join(words)


def _table(data: str | None, target: str | None, data_dir: Path | None) -> tuple[Any, str, str]:
    """Return a table, what to call it, and its target: from a file, by name, or the embedded one."""
    from evencover.datasets import load_dataset
    from evencover.datasets.mixed import read_table
    from evencover.datasets.tables import Dataset, is_path
    from evencover.extras import imported
    from evencover.synthetic import heteroskedastic

    if data is not None and is_path(data):
        table = read_table(data)
        if target is None:
            raise ValueError(f"target must name the column to predict; {Path(data).name} has {table.column_names}")
        return table, Path(data).name, target
    if data is None:
        sample = heteroskedastic(_EMBEDDED_ROWS, seed=0)
        found = Dataset(_EMBEDDED, sample.X, sample.y)
    else:
        found = load_dataset(data, data_dir=data_dir)
    arrow = imported("pyarrow", extra="cli", purpose="a table of text and numbers")
    columns = dict(zip(found.features, found.X.T, strict=True)) | {found.response: found.y}
    if target not in (None, found.response):
        raise ValueError(f"target of {found.name} is {found.response!r}; got {target!r}")
    return arrow.table(columns), found.name, found.response


def _score(name: str) -> "Score | None":
    """Return the score of a name, None for the one to be chosen."""
    from evencover.scores import IntervalDistance, Normalized, Residual

    scores: dict[str, Score | None] = {
        "residual": Residual(),
        "interval": IntervalDistance(),
        "normalized": Normalized(),
    }
    return scores.get(name)


def _taxonomy(texts: Sequence[str] | None, table: Any) -> "Taxonomy | None":
    """Return the groups of some words, None for those to be chosen."""
    from evencover.taxonomies import Product

    if texts is None:
        return None
    factors = [_factor(text, table) for text in texts]
    return factors[0] if len(factors) == 1 else Product(factors)


def _factor(text: str, table: Any) -> "Taxonomy":
    """Return the groups of one word."""
    from evencover.taxonomies import ByPrediction, BySpread, Marginal

    kind, _, rest = text.partition(":")
    if kind == "column" and rest:
        return _by_column(rest, table)
    if text == "none":
        return Marginal()
    if kind in ("spread", "prediction") and (not rest or rest.isdecimal()):
        n_groups = int(rest) if rest else 3
        return BySpread(n_groups) if kind == "spread" else ByPrediction(n_groups)
    raise ValueError(f"groups must be none, spread, spread:5, prediction:4 or column:NAME; got {text!r}")


def _by_column(name: str, table: Any) -> "Taxonomy":
    """Return the groups of a column's values, all that the table has."""
    from evencover.datasets.mixed import refuse_unless_column
    from evencover.groups import Groups
    from evencover.tables import column
    from evencover.taxonomies import ByFeature

    refuse_unless_column(table, name, "groups")
    labels = Groups.from_labels(column(table, name, "groups"), name=f"groups: column {name!r}").labels
    if len(labels) > _MOST_GROUPS:
        raise ValueError(
            f"groups: column {name!r} has {len(labels)} values, too many for a threshold each; cut it into "
            f"{_MOST_GROUPS} or fewer first"
        )
    return ByFeature(name, categories=labels)


def _predictor(folder: Path) -> tuple[Any, float]:
    """Return the predictor of a run and the level it was made for."""
    from evencover.conformal import ConformalRegressor
    from evencover.report.folders import PREDICTOR, RESULTS

    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}")
    if folder.is_file():
        return ConformalRegressor.load(folder), 0.9
    if not (folder / PREDICTOR).exists():
        raise FileNotFoundError(f"{folder} is not the folder of a run: it has no {PREDICTOR}")
    level = json_files.loads((folder / RESULTS).read_text(encoding="utf-8"))["level"]
    return ConformalRegressor.load(folder / PREDICTOR), level


def _same_features(regressor: Any, table: Any, path: Path) -> Any:
    """Return the columns that a predictor was made with, or say which are missing; say what is new about them."""
    from evencover.models.encoding import TableEncoder
    from evencover.tables import columns_of

    names = list(getattr(regressor, "feature_names_in_", table.column_names))
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise ValueError(f"{path.name} must have the columns that the model was fitted on; it lacks {missing}")
    features = columns_of(table, names)
    pipeline = getattr(regressor.estimator_, "estimator", regressor.estimator_)
    first = pipeline[0] if hasattr(pipeline, "steps") else pipeline
    for surprise in first.surprises(features) if isinstance(first, TableEncoder) else ():
        complain(surprise)
    return features


def _say_csv(columns: Mapping[str, Any]) -> None:
    """Print columns as CSV."""
    from evencover.datasets.mixed import write_columns

    write_columns(columns, text := BytesIO(), csv=True)
    say(text.getvalue().decode().rstrip("\n"))
