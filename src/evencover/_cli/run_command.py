"""The main job: from a table to a folder with a report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evencover._cli.terminal import STATUS, command_text, labels_in, print_result, status

if TYPE_CHECKING:
    from evencover.scores import Score
    from evencover.taxonomies import Taxonomy

Model: TypeAlias = Literal[
    "boosting", "linear", "forest", "quantile-network", "mean-variance-network", "dropout-ensemble"
]
_EMBEDDED, _EMBEDDED_ROWS = "heteroskedastic", 20_000
_MOST_GROUPS = 50


def run(
    data: Path | None = None,
    /,
    *,
    target: str | None = None,
    output: Path | None = None,
    model: Model = "boosting",
    score: Literal["auto", "residual", "interval", "normalized"] = "auto",
    groups: tuple[str, ...] | None = None,
    level: float = 0.9,
    tolerance: float = 0.03,
    calibration_size: float = 0.4,
    test_size: float = 0.2,
    clusters: str | None = None,
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
        The forest takes the extra `forest`, networks and the ensemble `networks`.
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
    clusters
        A column of clusters, such as patients: none has rows in two parts, and one row of each calibrates or judges.
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
    from evencover._internal.frames import column
    from evencover._report.output_folders import INTERVALS, RESULTS, new_files, write_study
    from evencover.studies import Plan, study

    typed = command_text(run, locals())
    table, name, target = _table(data, target, categorical or (), data_dir)
    folder = Path(f"evencover-{Path(name).stem}") if output is None else output
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
    kind = INTERVALS[1] if (intervals or Path(name).suffix.lstrip(".")) == "parquet" else INTERVALS[0]
    with new_files(folder, "study") as place, status() as tell:
        found = study(
            table,
            target,
            plan=plan,
            drop=drop or (),
            categorical=categorical or (),
            clusters=clusters,
            name=name,
            progress=tell,
        )
        tell("writing the report")
        names = {each: column(table, each, "drop") for each in drop or ()}
        write_study(found, place, intervals=kind, names=names, command=typed)
        files = sorted(path.name for path in place.iterdir())
    if json:
        print_result((folder / RESULTS).read_text(encoding="utf-8").rstrip())
    else:
        print_result(str(found))
        print_result(f"\nWritten to {folder}: {', '.join(files)}.")
    return STATUS[found.verdict]


def _table(
    data: Path | None, target: str | None, categorical: Sequence[str], data_dir: Path | None
) -> tuple[Any, str, str]:
    """Return a table, what to call it, and its target: from a file, by name, or the embedded one."""
    from evencover._internal.optional import import_optional
    from evencover.datasets import load_dataset
    from evencover.datasets._table_files import check_column, read_table
    from evencover.datasets.dataset import Dataset, is_path
    from evencover.synthetic import heteroskedastic

    if data is not None and is_path(str(data)):
        table = read_table(data, text=categorical)
        if target is None:
            raise ValueError(f"target must name the column to predict; {data.name} has {table.column_names}")
        check_column(table, target, f"target of {data.name}")
        return table, data.name, target
    if data is None:
        sample = heteroskedastic(_EMBEDDED_ROWS, seed=0)
        found = Dataset(_EMBEDDED, sample.X, sample.y)
    else:
        found = load_dataset(str(data), data_dir=data_dir)
    arrow = import_optional("pyarrow", extra="cli", purpose="a table of text and numbers")
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
    n_groups = int(rest) if rest.isdecimal() else 0 if rest else 3
    if kind in ("spread", "prediction") and n_groups:
        return BySpread(n_groups) if kind == "spread" else ByPrediction(n_groups)
    raise ValueError(f"groups must be none, spread, spread:5, prediction:4 or column:NAME; got {text!r}")


def _by_column(name: str, table: Any) -> "Taxonomy":
    """Return the groups of a column's values, all that the table has."""
    from evencover.datasets._table_files import check_column
    from evencover.taxonomies import ByFeature

    check_column(table, name, "groups")
    labels = labels_in(table, name, "groups").labels
    if len(labels) > _MOST_GROUPS:
        raise ValueError(
            f"groups: column {name!r} has {len(labels)} values, too many for a threshold each; cut it into "
            f"{_MOST_GROUPS} or fewer first"
        )
    return ByFeature(name, categories=labels)
