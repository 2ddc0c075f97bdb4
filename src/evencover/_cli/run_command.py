"""The command `run`: from a table to a calibrated model and a folder with a report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evencover._cli.invocation import command_text, exit_status
from evencover._cli.terminal import print_result, status

if TYPE_CHECKING:
    from evencover.scores import Score
    from evencover.taxonomies import Taxonomy

Model: TypeAlias = Literal[
    "boosting", "linear", "forest", "quantile-network", "mean-variance-network", "dropout-ensemble"
]
_EXAMPLE, _EXAMPLE_ROWS = "heteroskedastic", 20_000
_MAX_GROUPS = 50


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
    strict: bool = False,
    json: bool = False,
) -> int:
    """Fit a model to a table, calibrate its intervals for even coverage, and test them on held-out rows.

    Splits the rows into three parts: the first fits the model and selects score and groups, the second calibrates the
    intervals, the third tests their coverage. Writes a folder with report.html, the intervals of the test rows,
    results.json, and the predictor for `evencover predict`.

    Parameters
    ----------
    data
        A CSV or Parquet file, or the name of a data set (see `evencover datasets`); by default an example table.
    target
        The column to predict.
    output
        Folder for the results; by default evencover-NAME in the current folder.
    model
        The model. `forest` needs the extra `forest`; the networks and the ensemble need the extra `networks`.
    score
        The score that is calibrated; by default selected on the training part.
    groups
        The groups that get even coverage: none, spread, spread:5, prediction:4 or column:NAME. Can be repeated for
        combinations. By default selected on the training part: none, or 3 to 10 levels of the spread.
    level
        Nominal coverage.
    tolerance
        Largest distance from the level that counts as even.
    calibration_size
        Share of the rows for calibration.
    test_size
        Share of the rows for testing.
    clusters
        A column of clusters, such as patients. All rows of a cluster are in the same part; calibration and test use
        one row of each.
    drop
        A column that is not a feature, such as a name. It is written next to the intervals. Can be repeated.
    categorical
        A column to treat as categories, such as numeric codes. Can be repeated.
    intervals
        Format of the file of intervals; by default the format of the data.
    seed
        Seed of the split, the model and the random draws of the tests.
    data_dir
        A folder of CSV files, named after the data sets.
    strict
        Exit with status 4 if the verdict is undecided.
    json
        Print the results as JSON, as in results.json.
    """
    from evencover._internal.frames import column
    from evencover._report.output_folders import INTERVALS, RESULTS, new_files, write_study
    from evencover.diagnostics._spelling import COMMAND_LINE
    from evencover.studies import Plan, study

    command = command_text(run, locals())
    table, name, target = _load_table(data, target, categorical or (), data_dir)
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
    intervals_file = INTERVALS[1] if (intervals or Path(name).suffix.lstrip(".")) == "parquet" else INTERVALS[0]
    with new_files(folder, "study") as temporary, status() as report_progress:
        result = study(
            table,
            target,
            plan=plan,
            drop=drop or (),
            categorical=categorical or (),
            clusters=clusters,
            name=name,
            progress=report_progress,
        ).spelled(COMMAND_LINE)
        report_progress("writing the report")
        names = {each: column(table, each, "drop") for each in drop or ()}
        write_study(result, temporary, intervals=intervals_file, names=names, command=command)
        files = sorted(path.name for path in temporary.iterdir())
    if json:
        print_result((folder / RESULTS).read_text(encoding="utf-8").rstrip())
    else:
        print_result(str(result))
        print_result(f"\nWritten to {folder}: {', '.join(files)}.")
    return exit_status(result.verdict, strict=strict)


def _load_table(
    data: Path | None, target: str | None, categorical: Sequence[str], data_dir: Path | None
) -> tuple[Any, str, str]:
    """Return a table, its name and its target: from a file, by the name of a data set, or the example."""
    from evencover._internal.optional import import_optional
    from evencover.datasets import load_dataset
    from evencover.datasets._table_files import check_column, read_table
    from evencover.datasets.dataset import Dataset, is_path
    from evencover.synthetic import heteroskedastic

    if data is not None and is_path(str(data)):
        table = read_table(data, text=categorical)
        if target is None:
            raise ValueError(
                f"target must name the column to predict; the columns of {data.name} are {table.column_names}"
            )
        check_column(table, target, f"target of {data.name}")
        return table, data.name, target
    if data is None:
        sample = heteroskedastic(_EXAMPLE_ROWS, seed=0)
        dataset = Dataset(_EXAMPLE, sample.X, sample.y)
    else:
        dataset = load_dataset(str(data), data_dir=data_dir)
    arrow = import_optional("pyarrow", extra="cli", purpose="a table of text and numbers")
    columns = dict(zip(dataset.features, dataset.X.T, strict=True)) | {dataset.response: dataset.y}
    if target not in (None, dataset.response):
        raise ValueError(f"target of {dataset.name} must be {dataset.response!r}; got {target!r}")
    return arrow.table(columns), dataset.name, dataset.response


def _score(name: str) -> "Score | None":
    """Return the score with this name; None if it is to be selected."""
    from evencover.scores import IntervalDistance, Normalized, Residual

    scores: dict[str, Score | None] = {
        "residual": Residual(),
        "interval": IntervalDistance(),
        "normalized": Normalized(),
    }
    return scores.get(name)


def _taxonomy(texts: Sequence[str] | None, table: Any) -> "Taxonomy | None":
    """Return the taxonomy of the option --groups; None if it is to be selected."""
    from evencover.taxonomies import Product

    if texts is None:
        return None
    taxonomies = [_parse_taxonomy(text, table) for text in texts]
    return taxonomies[0] if len(taxonomies) == 1 else Product(taxonomies)


def _parse_taxonomy(text: str, table: Any) -> "Taxonomy":
    """Return the taxonomy of one text, such as spread:5."""
    from evencover.taxonomies import ByPrediction, BySpread, Marginal

    kind, _, rest = text.partition(":")
    if kind == "column" and rest:
        return _column_taxonomy(rest, table)
    if text == "none":
        return Marginal()
    n_groups = int(rest) if rest.isdecimal() else 0 if rest else 3
    if kind in ("spread", "prediction") and n_groups:
        return BySpread(n_groups) if kind == "spread" else ByPrediction(n_groups)
    raise ValueError(f"groups must be none, spread, spread:5, prediction:4 or column:NAME; got {text!r}")


def _column_taxonomy(name: str, table: Any) -> "Taxonomy":
    """Return one group for each value that a column of the table has."""
    from evencover.datasets._table_files import check_column
    from evencover.studies._columns import column_groups
    from evencover.taxonomies import ByFeature

    check_column(table, name, "groups")
    labels = column_groups(table, name, "groups").labels
    if len(labels) > _MAX_GROUPS:
        raise ValueError(
            f"groups: column {name!r} must have at most {_MAX_GROUPS} different values, because each gets its own "
            f"threshold; got {len(labels)}; bin them first"
        )
    return ByFeature(name, categories=labels)
