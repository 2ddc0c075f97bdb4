"""Compare evencover with ridge and LightGBM on the same rows of a table: ``python -m benchmarks.table_peers NAME``.

It prints a line per table: the R2 of evencover's model, of one-hot ridge and of LightGBM on the test rows, and
evencover's interval score divided by that of LightGBM with conformalized quantile regression (CQR). The peers are
fitted on the training rows of evencover's study, and calibrated on its other rows: if these are tested in turn, one
half of them calibrates the intervals of the other half, and the reverse. If the study is cross-fitted, the peers are,
too. Numbers of peers are kept in the output folder for the next time, as long as the rows and columns are the same.
Needs the packages in `requirements-bench.txt`.
"""

import json
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold

from benchmarks.markdown import print_row, spaced
from benchmarks.peer_models import Features, as_numbers_or_dates, boosting, cross_cqr, ridge, split_cqr
from benchmarks.table_sources import TABLES, Table, read_frame
from evencover import Intervals, coverage, interval_score, mean_width
from evencover.files.archive import atomic_write
from evencover.groups import Groups
from evencover.inputs.arrays import FloatArray
from evencover.inputs.frames import as_numbers, column, column_names
from evencover.models.encoding import Recognition
from evencover.studies import Plan, Study, TableError, study
from evencover.studies.evidence import EvidenceKind
from evencover.studies.table_preparation import ColumnRoles, prepare_table
from evencover.tables.files import read_table

LEVEL = 0.9
COLUMNS = (
    *(
        "table",
        "rows",
        "columns of 50 or more texts",
        "seconds",
        "R2",
        "R2 ridge",
        "R2 LightGBM",
        "short of the better",
    ),
    *("score / LightGBM-CQR", "coverage", "coverage CQR", "mean width", "mean width CQR", "how"),
)
FOLDS, INNER_FOLDS = 10, 5
_MANY_VALUES = 50


@dataclass(frozen=True, eq=False)
class UsedRows:
    """The rows that a study used, by position in the table.

    Parameters
    ----------
    kind : {"turns", "order", "cross", "batches"}
        How the study used them; see `Evidence`.
    training, calibration, test : ndarray of int
        The positions. Rows that are tested in turn are calibration and test rows; in a cross-fitted study, all rows are
        training and test rows.
    clusters : ndarray of shape (n,), optional
        What belongs together, and is in one half or fold.
    """

    kind: EvidenceKind
    training: Any
    calibration: Any
    test: Any
    clusters: Any = None

    @classmethod
    def of(cls, found: Study, table: Any) -> "UsedRows":
        """Return the rows of a study of this table."""
        clusters = None if found.clusters is None else column(table, found.clusters, "clusters")
        return cls(found.evidence.kind, found.training, found.calibration, found.test.positions, clusters)

    @classmethod
    def of_run(cls, results: Mapping[str, Any], table: Any, test: Any) -> "UsedRows":
        """Return the rows of a run of the command, from its results and its test rows.

        A cluster has one test row, but all of its rows were held out. The sample of a large table is not known, so that
        as many other rows are training rows.
        """
        rows, sizes = _rows_of_run(results, table), results["rows"]
        together, time = results["clusters"], results["time"]
        clusters = None if together is None else column(table, together, "clusters")
        if results["calibration"] == "cross":
            return cls("cross", rows, rows, test, clusters)
        if "held_out" in sizes:
            units = rows if clusters is None else Groups.from_labels(clusters[rows]).codes
            held_out = np.isin(units, units[np.isin(rows, test)])
            used = cls("turns", rows[~held_out], rows[held_out], test, clusters)
            _check_sizes(sizes, training=len(used.training), held_out=len(used.calibration))
            return used
        others = np.setdiff1d(rows, test)
        if time is None:
            kind, others = "batches", np.random.default_rng(results["seed"]).permutation(others)
        else:
            kind, others = "order", others[np.argsort(_times(table, time)[others], kind="stable")]
        return cls(kind, *np.split(others, [sizes["training"]]), test)

    def digest(self, names: Sequence[str], target: str) -> str:
        """Return a hash of the rows and of the columns, which says whether numbers of peers are still right."""
        rows = (np.asarray(part, dtype=np.int64).tobytes() for part in (self.training, self.calibration, self.test))
        content = "\n".join([*names, target, self.kind, *(sha256(part).hexdigest() for part in rows)])
        return sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PeerScores:
    """What the peers reach on the test rows: R2 of both, and the intervals of LightGBM with CQR."""

    ridge_r2: float
    boosting_r2: float
    interval_score: float
    coverage: float
    mean_width: float
    seconds: float

    @property
    def r2(self) -> float:
        """R2 of the better one."""
        return max(self.ridge_r2, self.boosting_r2)


def peer_scores(
    table: Any, names: Sequence[str], target: FloatArray, used: UsedRows, level: float = LEVEL
) -> PeerScores:
    """Fit the peers on the training rows, calibrate them, and return what they reach on the test rows.

    Parameters
    ----------
    table : DataFrame of n rows
        The table.
    names : sequence of str
        The columns that are features.
    target : ndarray of shape (n,)
        The targets of all rows; those of rows that are not used may be NaN.
    used : UsedRows
        The training, calibration and test rows.
    level : float
        Nominal coverage.
    """
    start, features = perf_counter(), Features.of_table(table, names)
    outputs = _cross_fitted if used.kind == "cross" else _on_parts
    by_ridge, by_boosting, bounds = outputs(features, target, used, level)
    y, intervals = target[used.test], Intervals(bounds[0], bounds[1])
    return PeerScores(
        float(r2_score(y, by_ridge)),
        float(r2_score(y, by_boosting)),
        interval_score(y, intervals, level=level),
        coverage(y, intervals),
        mean_width(intervals),
        perf_counter() - start,
    )


def _on_parts(features: Features, y: FloatArray, used: UsedRows, level: float) -> tuple[FloatArray, ...]:
    """Return the predictions of both peers, and the bounds, for the test rows."""
    X = features.values[used.test]
    predictions = [peer(features, used.training, y[used.training])(X) for peer in (ridge, boosting)]
    return *predictions, split_cqr(features, used.training, turns(used), y, level)[:, used.test]


def turns(used: UsedRows) -> list[tuple[Any, Any]]:
    """Return calibration rows and the rows that they test: all, or one half of the held-out rows and the other half."""
    if used.kind != "turns":
        return [(used.calibration, used.test)]
    return _folds(used.calibration, used.clusters, 2)


def _cross_fitted(features: Features, y: FloatArray, used: UsedRows, level: float) -> tuple[FloatArray, ...]:
    """Return the same for rows of ten folds, each by models of the other folds, with cross-validated thresholds."""
    outputs = np.full((4, len(y)), np.nan)  # ridge, boosting, lower and upper bound
    for rest, rows in _folds(used.training, used.clusters, FOLDS):
        for place, peer in enumerate((ridge, boosting)):
            outputs[place, rows] = peer(features, rest, y[rest])(features.values[rows])
        outputs[2:, rows] = cross_cqr(features, _folds(rest, used.clusters, INNER_FOLDS), y, level)(rows)
    by_ridge, by_boosting, *bounds = outputs[:, used.test]
    return by_ridge, by_boosting, np.stack(bounds)


def _folds(rows: Any, clusters: Any, n_folds: int) -> list[tuple[Any, Any]]:
    """Return the other rows and the rows of each fold; clusters stay together."""
    folds = KFold(n_folds, shuffle=True, random_state=0) if clusters is None else GroupKFold(n_folds)
    split = folds.split(rows, groups=None if clusters is None else clusters[rows])
    return [(rows[rest], rows[held_out]) for rest, held_out in split]


def peers_of_run(file: Path, output: Path) -> PeerScores:
    """Return what the peers reach on the rows of a run of the command.

    Parameters
    ----------
    file : Path
        The table.
    output : Path
        The folder that the command wrote.
    """
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    features = results["features"]
    codes = [each["name"] for each in features if each.get("categories") is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the command has given them
        table = read_table(file, text=codes, missing=results.get("missing_values", ()))
    used = UsedRows.of_run(results, table, column(read_table(output / "intervals.csv"), "row", "intervals"))
    names = [each["name"] for each in features]
    return peer_scores(table, names, _targets(table, results["target"]), used, level=results["level"])


def _check_sizes(expected: Mapping[str, int], **sizes: int) -> None:
    """Raise ValueError unless there are as many rows of each use as in a run."""
    if expected != sizes:
        raise ValueError(f"results must be of this table; they have {dict(expected)} rows, and the table has {sizes}")


def _rows_of_run(results: Mapping[str, Any], table: Any) -> Any:
    """Return the positions of the rows with a target that a run used; of copies of a row, it uses one."""
    if not results.get("copies"):
        return np.flatnonzero(~np.isnan(_targets(table, results["target"])))
    roles = ColumnRoles(results["target"], clusters=results["clusters"], missing_target="drop", copies="drop")
    prepared = prepare_table(table, roles)
    if prepared.n_copies != results["copies"]:
        raise ValueError(
            f"table must have {results['copies']} copies of rows, as the run says; got {prepared.n_copies}"
        )
    return prepared.rows


def _targets(table: Any, name: str) -> FloatArray:
    """Return the target of all rows, NaN where it is missing."""
    y = as_numbers(column(table, name, "target"))
    if y is None:
        raise ValueError(f"target must hold numbers; got text in the column {name!r}")
    return y


def _times(table: Any, name: str) -> Any:
    """Return a column of dates or numbers, in whose order a table was split."""
    values = column(table, name, "time")
    dates = Recognition().read(name, values).dates
    return values if dates is None else dates


def kept_scores(path: Path, table: Any, names: Sequence[str], target: str, used: UsedRows) -> PeerScores:
    """Return the scores of the peers from a file, if they are for these rows and columns; otherwise fit the peers."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    key = used.digest(names, target)
    if key not in known:
        known[key] = asdict(peer_scores(table, names, _targets(table, target), used))
        with atomic_write(path) as file:
            file.write(json.dumps(known, indent=1).encode())
    return PeerScores(**known[key])


def feature_names(table: Any, target: str, unused: Sequence[str | None]) -> list[str]:
    """Return the columns of a table except the target and those that evencover does not use."""
    return [name for name in column_names(table) or [] if name not in {target, *unused}]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The study of a table, how long it took, and what its peers reach on the same rows."""

    table: Table
    many_valued: Mapping[str, int]
    found: Study
    seconds: float
    peers: PeerScores

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table's row."""
        ours, peers = self.found.quality, self.peers
        return (
            *(self.table.name, spaced(self.found.n_rows)),
            ", ".join(f"{name} {spaced(n)}" for name, n in self.many_valued.items()),
            f"{self.seconds:.0f}",
            *(f"{value:.3f}" for value in (ours.r2, peers.ridge_r2, peers.boosting_r2, peers.r2 - ours.r2)),
            f"{ours.interval_score / peers.interval_score:.3f}",
            *(f"{value:.3f}" for value in (ours.coverage, peers.coverage)),
            *(f"{value:.4g}" for value in (ours.mean_width, peers.mean_width)),
            f"{self.found.evidence.kind}; {self.found.method}; left out: {', '.join(self.found.left_out)}",
        )


def compare(table: Table, folder: Path, plan: Plan, *, max_rows: int | None = None) -> Comparison:
    """Study a table as the command line does, with the settings that its messages name, and compare it with peers."""
    frame = read_frame(table)
    if max_rows is not None and len(frame) > max_rows:
        frame = frame.sample(max_rows, random_state=0).sort_index()
    file = folder / f"{table.name}.csv"
    frame.to_csv(file)
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, settings = studied(file, table.target, plan)
        seconds = perf_counter() - start
        values = read_table(file, text=settings.get("categorical", ()))
    unused = [*found.left_out, *settings.get("drop", ()), found.clusters]
    names = feature_names(values, table.target, unused)
    peers = kept_scores(folder / f"{table.name}.json", values, names, table.target, UsedRows.of(found, values))
    return Comparison(table, _many_valued(values, names), found, seconds, peers)


def studied(file: Path, target: str, plan: Plan) -> tuple[Study, Mapping[str, Any]]:
    """Return the study of a file and its settings: none or, if that is an error, the first remedies of all problems."""
    try:
        return study(file, target, plan=plan), {}
    except TableError as error:
        settings: dict[str, Any] = {}
        for problem in error.problems:
            for name, value in problem.remedies[0].items() if problem.remedies else ():
                settings[name] = [*settings.get(name, []), *value] if isinstance(value, list | tuple) else value
        if not settings:
            raise
    return study(file, target, plan=plan, **settings), settings


def _many_valued(table: Any, names: Sequence[str]) -> dict[str, int]:
    """Return the columns of text, but not of dates, with at least 50 values, and their number of values."""
    columns = {name: column(table, name, "table") for name in names}
    texts = {name: values for name, values in columns.items() if as_numbers_or_dates(name, values) is None}
    counts = {name: len(set(values.tolist())) for name, values in texts.items()}
    return {name: n for name, n in counts.items() if n >= _MANY_VALUES}


def main(arguments: Sequence[str] | None = None, *, tables: Sequence[Table] = TABLES) -> int:
    """Print a row for each table, and return the exit status."""
    options = _options(arguments, [table.name for table in tables])
    options.output.mkdir(parents=True, exist_ok=True)
    print_row(*COLUMNS)
    print_row(*["---"] * len(COLUMNS))
    for comparison in _comparisons(options, tables):
        print_row(*comparison.cells())
    return 0


def _comparisons(options: Namespace, tables: Sequence[Table]) -> Iterator[Comparison]:
    plan = Plan(level=LEVEL, effort=options.effort, seed=options.seed)
    by_name = {table.name: table for table in tables}
    for name in options.names:
        yield compare(by_name[name], options.output, plan, max_rows=options.max_rows)


def _options(arguments: Sequence[str] | None, known: Sequence[str]) -> Namespace:
    """Return the parsed options; exit with an error if a table is unknown."""
    parser = ArgumentParser(prog="python -m benchmarks.table_peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", choices=known, help=f"tables: {', '.join(known)}")
    parser.add_argument("--effort", choices=("fast", "normal", "best"), help="effort of evencover's model")
    parser.add_argument("--max-rows", type=int, help="draw so many rows of larger tables, to be quick")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the model (default: 0)")
    parser.add_argument(
        "--output", type=Path, default=Path("build/table_peers"), help="folder (default: build/table_peers)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
