"""Intervals for new rows, by a predictor that was written before."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evencover._cli.terminal import print_error, print_json, print_result

if TYPE_CHECKING:
    from evencover.models.encoding import TableEncoder


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
    from evencover._internal.frames import column
    from evencover._report.json_data import plain
    from evencover.datasets._table_files import check_column, check_suffix, read_table, write_table
    from evencover.studies.table_study import join_columns

    if output is not None:
        check_suffix(output)
    regressor, own_level = _predictor(folder)
    table = read_table(new, text=_text_columns(regressor))
    for each in keep or ():
        check_column(table, each, "keep")
    features = _same_features(regressor, table, new)
    rows = regressor.rows(features)
    made = regressor.predict_interval(rows, level=own_level if level is None else level, unseen=unseen)
    ours = {"prediction": rows.prediction.center, **made.columns()}
    if made.groups is not None and len(made.groups.labels) > 1:
        ours["group"] = [str(label) for label in made.groups.label_of_rows()]
    columns = join_columns({each: column(table, each, "keep") for each in keep or ()}, ours)
    if (empty := int(made.empty.sum())) > 0:
        print_error(f"{empty} of {len(made)} intervals are empty, and have no bounds")
    if output is not None:
        write_table(columns, output)
    if json:
        print_json({"level": made.level, "guarantee": str(made.guarantee), "intervals": plain(columns)})
    elif output is None:
        _say_csv(columns)
    else:
        print_result(f"{len(made)} intervals at level {made.level:g}, mean width {made.width.mean():.4g}, in {output}.")
        print_result(str(made.guarantee))


def _predictor(folder: Path) -> tuple[Any, float]:
    """Return the predictor of a run, or in a file, and the level it was made for."""
    from evencover._internal.predictor_files import saved_level
    from evencover._report.output_folders import PREDICTOR
    from evencover.conformal import ConformalRegressor

    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}")
    path = folder if folder.is_file() else folder / PREDICTOR
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not the folder of a run: it has no {PREDICTOR}")
    return ConformalRegressor.load(path), saved_level(path)


def _encoder(regressor: Any) -> "TableEncoder | None":
    """Return what makes numbers of the columns, where there is such a step."""
    from evencover.models.encoding import TableEncoder

    pipeline = getattr(regressor.estimator_, "estimator", regressor.estimator_)
    first = pipeline[0] if hasattr(pipeline, "steps") else pipeline
    return first if isinstance(first, TableEncoder) else None


def _text_columns(regressor: Any) -> list[str]:
    """Return the columns that held text when the model was fitted, and those of text that its groups are formed by."""
    encoder = _encoder(regressor)
    texts = [] if encoder is None else [known.name for known in encoder.columns_ if known.text]
    return [*texts, *_text_groups(regressor.taxonomy_)]


def _text_groups(taxonomy: Any) -> list[str]:
    """Return the columns of text that groups are formed by."""
    from evencover.taxonomies import ByFeature

    if isinstance(taxonomy, ByFeature):
        is_text = taxonomy.edges is None and any(isinstance(label, str) for label in taxonomy.labels_)
        return [taxonomy.column] if is_text and isinstance(taxonomy.column, str) else []
    return [name for each in getattr(taxonomy, "taxonomies_", ()) for name in _text_groups(each)]


def _same_features(regressor: Any, table: Any, path: Path) -> Any:
    """Return the columns that a predictor was made with, or say which are missing; say what is new about them."""
    from evencover._internal.frames import columns_of

    names = list(getattr(regressor, "feature_names_in_", table.column_names))
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise ValueError(f"{path.name} must have the columns that the model was fitted on; it lacks {missing}")
    features = columns_of(table, names)
    encoder = _encoder(regressor)
    for surprise in [] if encoder is None else encoder.unseen_values(features):
        print_error(surprise)
    return features


def _say_csv(columns: Mapping[str, Any]) -> None:
    """Print columns as CSV."""
    from evencover.datasets._table_files import write_columns

    write_columns(columns, text := BytesIO(), csv=True)
    print_result(text.getvalue().decode().rstrip("\n"))
