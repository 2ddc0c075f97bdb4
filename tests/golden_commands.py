"""Golden outputs of commands, saved files and large tables: what `tests.golden` does not record.

    python -m tests.golden_commands record build/golden_commands.npz      with the code as it is
    python -m tests.golden_commands compare build/golden_commands.npz     with the code as it became
    python -m tests.golden_commands compare --exact FILE                  the same, with every word of the texts
    python -m tests.golden_commands compare --only commands FILE          one section: commands, python, large or files

Commands run as processes in a temporary folder: their exit status, what they print, and the numbers in the files that
they write. In Python: cross-conformal regression, calibrators and scores that `tests.golden` leaves out, predictive
distributions, clusters, weights, arrays, SQL, models, studies, reports, tables in batches, and files in tests/files.

Arrays and rows of files are compared bit for bit. Of texts, the numbers are compared, in any order; of results in JSON,
all values but sentences. With --exact, texts must be the same, too. Compare on one machine, with OMP_NUM_THREADS=1.
"""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.model_selection import RepeatedKFold, cross_val_score
from threadpoolctl import threadpool_limits

import evencover
from evencover import (
    Bounded,
    ByFeature,
    ByGroup,
    ByPrediction,
    BySpread,
    ByTarget,
    Calibration,
    ConformalRegressor,
    CrossConformalRegressor,
    Groups,
    IntervalDistance,
    Marginal,
    Normalized,
    OneSided,
    Prediction,
    PredictiveDistribution,
    ProbabilityDistance,
    Product,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
    Support,
    TwoTails,
    audit,
    calibrate,
    conformal_quantile,
    conformal_rank,
    coverage,
    coverage_by_group,
    crps,
    diagnose,
    diagnose_scores,
    interval_score,
    mean_width,
    recommend,
    tables,
)
from evencover.diagnostics import max_groups, quality, rows_needed
from evencover.metrics import mean_width_by_group, misses_by_group, pinball_loss
from evencover.model_selection import CoverageScorer, IntervalScorer, intervals_of, three_way_split
from evencover.models import (
    AutoRegressor,
    DeepEnsemble,
    DropoutEnsemble,
    EnsembleSpread,
    FromOutputs,
    FromQuantiles,
    FromStd,
    MeanVarianceNetwork,
    NeighborSpread,
    QuantileForest,
    QuantileNetwork,
    ResidualSpread,
    WithSpread,
    predictions_of,
)
from evencover.protocols import scores_of, threshold_intervals
from evencover.studies import Plan, study
from evencover.synthetic import functional_dependence, skewed, two_subgroups
from evencover.tables import calibrate_sql
from tests.golden import Answers, Sample, facts, named, standardised, text
from tests.report_pages import report_page, result_data
from tests.saved_files import FILES
from tests.saved_files import answers as answers_of_saved
from tests.saved_files import load as load_saved

LEVELS = (0.5, 0.8, 0.9)
ROWS = 300
COMMAND = (sys.executable, "-m", "evencover")
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
PROGRESS = r"evencover: .*, (\d+ min )?\d+ s"  # how long a command takes is no answer
DIALECTS = ("bigquery", "duckdb", "postgres", "snowflake", "spark", "sqlite")
NO_FILE = {"lightgbm", "xgboost", "catboost"}  # libraries of saved files that need not be installed


# The commands


@dataclass(frozen=True)
class Run:
    """One `evencover run`: its data and options; the folder of its output has its name."""

    data: str
    options: str
    target: str = "y"

    def line(self, name: str) -> str:
        """Return the words after evencover."""
        target = f"--target {self.target}" if self.target else ""
        return f"run {self.data} {target} {self.options} --output {name}"


LINEAR = "--model linear"
RUNS = {
    "default": Run("sales240.csv", ""),
    "stack": Run("sales.csv", "--effort fast"),
    "linear": Run("sales.csv", LINEAR),
    "boosting": Run("sales240.csv", "--model boosting --level 0.8 --tolerance 0.1 --seed 3 --strict"),
    "forest": Run("sales240.csv", "--model forest --score interval"),
    "network": Run("sales240.csv", "--model quantile-network --score probability --json"),
    "one_threshold": Run("sales.csv", f"{LINEAR} --score residual --groups none"),
    "predictions": Run("sales.parquet", f"{LINEAR} --score relative-interval --groups prediction:4"),
    "column": Run("sales.csv", f"{LINEAR} --score normalized --groups column:word --drop patient day z"),
    "product": Run("sales.tsv.gz", f"{LINEAR} --score probability --groups spread:2 column:word"),
    "two_tails": Run("sales.csv", f"{LINEAR} --tails separate --groups spread:2 --level 0.8"),
    "time": Run("sales.csv", f"{LINEAR} --time day --held-out 0.6"),
    "clusters": Run("sales.csv", f"{LINEAR} --clusters patient"),
    "prices": Run("prices.xlsx", LINEAR, "price"),
    "prices_untransformed": Run("prices.csv", f"{LINEAR} --target-transform none --support none", "price"),
    "counts": Run("counts.csv", f"{LINEAR} --groups none", "count"),
    "messy": Run(
        "messy.csv",
        f"{LINEAR} --missing-values ? --missing-target drop --day-first --categorical code --keep id --seed 1",
    ),
    "cross": Run("sales60.csv", LINEAR),
    "cross_clusters": Run("sales60.csv", f"{LINEAR} --calibration cross --clusters patient --level 0.8"),
    "folder": Run("parts", f"{LINEAR} --intervals csv"),
    "standard_input": Run("-", f"{LINEAR} --groups spread:2 --json"),
    "large": Run("large.parquet", LINEAR),
    "example": Run("", f"{LINEAR} --level 0.95", ""),
}
BOUNDS = "--lower lower --upper upper"
AUDITS = {
    "group": f"column/intervals.csv --target y {BOUNDS} --group group",
    "clusters": f"column/intervals.csv --target y {BOUNDS} --clusters patient --features z",
    "level": f"two_tails/intervals.csv --target y {BOUNDS} --level 0.8 --tolerance 0.05 --strict",
    "wrong level": f"linear/intervals.csv --target y {BOUNDS} --level 0.5 --json",
    "positions": "linear/intervals.csv --target 7 --lower 3 --upper 4",
    "report": f"linear/intervals.csv --target y {BOUNDS} --calibration-rows 100 --features none --output audited",
    "no prediction": "bounds.csv --target y --lower low --upper high --group word --seed 4",
    "folder": "bounds --target y --lower low --upper high --group word --json",
    "folder without groups": "bounds --target y --lower low --upper high",
    "excel": "bounds.xlsx --target y --lower low --upper high --group z",
}
COLUMNS = "--target y --center c --spread s --group g"
CALIBRATIONS = {  # options of calibrate, and of predict
    "groups": (f"scored.parquet {COLUMNS}", "new_scored.parquet"),
    "one pass": (f"scored.parquet {COLUMNS} --one-pass --bits 4 --level 0.8 --json", "new_scored.parquet --level 0.5"),
    "center": ("scored.parquet --target y --center c --workers 1", "new_scored.parquet --json"),
    "bounds": ("scored.parquet --target y --lower l --upper u --level 0.7", "new_scored.parquet"),
    "unseen": (f"scored.parquet {COLUMNS}", "unseen.parquet --unseen marginal"),
    "unseen infinite": (f"scored.parquet {COLUMNS}", "unseen.parquet --unseen inf --json"),
    "few rows": (f"few_scored.parquet {COLUMNS}", "new_scored.parquet"),
    "folder": (f"scored_parts {COLUMNS} --json", "scored_parts"),
}
OTHERS = {
    "version": "--version",
    "predict columns": "predict column new.csv --keep id word --level 0.5",
    "predict as json": "predict two_tails new.csv --json",
    "predict to parquet": "predict predictions new.parquet --output predicted.parquet",
    "predict an unseen group": "predict column unseen.csv --unseen marginal --output predicted.csv",
    "predict an infinite interval": "predict column unseen.csv --unseen inf",
    "predict from a file": "predict linear/predictor.evencover new.csv --output predicted.tsv",
    "tables": "reproduce tables --json",
}
WRONG = (
    "",
    "rn sales.csv --target y",
    "run none.csv --target y",
    "run sales.csv",
    "run sales.csv --target nothing",
    "run sales.csv --target word",
    "run sales.csv --target y --level 90",
    "run sales.csv --target y --level abc",
    "run sales.csv --target y --level 1",
    "run sales.csv --target y --tolerance 2",
    "run sales.csv --target y --model nothing",
    "run sales.csv --target y --model linear --effort fast",
    "run sales.csv --target y --groups spread:x",
    "run sales.csv --target y --groups column:id",
    "run sales.csv --target y --groups column:nothing",
    "run sales.csv --target y --drop nothing",
    "run sales.csv --target y --held-out 90",
    "run sales.csv --target y --calibration cross --time day",
    "run sales.csv --target y --calibration cross --tails separate",
    "run sales.csv --target y --seed -1",
    "run sales.csv --target y --output linear/intervals.csv",
    "run sales.csv --target y --output parts",
    "run sales.csv --target y --nothing 1",
    "run messy.csv --target y",
    "run headless.csv --target y",
    "run empty.csv --target y",
    "run nowhere",
    "predict linear",
    "predict nowhere new.csv",
    "predict linear bounds.csv",
    "predict column unseen.csv",
    "predict linear new.csv --output out.doc",
    "predict linear new.csv --workers 2",
    "predict linear new.csv --level 0",
    f"audit linear/intervals.csv --target nothing {BOUNDS}",
    "audit linear/intervals.csv --target y --lower lower",
    f"audit linear/intervals.csv --target y {BOUNDS} --clusters y",
    f"audit linear/intervals.csv --target y {BOUNDS} --calibration-rows 0",
    "audit bounds --target y --lower low --upper high --clusters word",
    "calibrate scored.parquet --target y --output x.json",
    "calibrate scored.parquet --target z --center c --output x.json",
    "calibrate scored.parquet --target y --center c --output x.txt",
    "calibrate none.parquet --target y --center c --output x.json",
    "predict scored.parquet --calibration calibrated_groups.json",
    "predict unseen.parquet --calibration calibrated_groups.json --output x.parquet",
)


def of_commands() -> Answers:
    """Yield what commands answer, in a temporary folder; the tables of one part are those of the parts before it."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)  # so that all paths in outputs are the same
        try:
            write_tables()
            yield from of_runs()
            yield from of_audits()
            yield from of_calibrations()
            yield from of_other_commands()
        finally:
            os.chdir(before)


def of_runs() -> Answers:
    """Yield each run, the intervals of its predictor for new rows, and the audit of its intervals."""
    for name, run in RUNS.items():
        standard_input = Path("sales.csv").read_text(encoding="utf-8") if run.data == "-" else None
        yield from named_all(f"run/{name}", of_command(run.line(name), standard_input))
        yield from named_all(f"run/{name}", of_folder(Path(name)))
        if run.target:
            yield from named_all(f"predict/{name}", of_command(f"predict {name} new.csv --output {name}_new.csv"))
            yield from named_all(f"predict/{name}", of_file(Path(f"{name}_new.csv")))
            for intervals in Path(name).glob("intervals.*"):
                line = f"audit {intervals.as_posix()} --target {run.target} {BOUNDS}"
                yield from named_all(f"audit/{name}", of_command(line))
        print(f"run {name}", file=sys.stderr)  # noqa: T201


def of_audits() -> Answers:
    """Yield audits with other options."""
    for name, line in AUDITS.items():
        yield from named_all(f"audit/with {name}", of_command(f"audit {line}"))
    yield from named_all("audit/with report", of_folder(Path("audited")))


def of_calibrations() -> Answers:
    """Yield calibrations of Parquet files, intervals by them, and audits of these."""
    for name, (options, new) in CALIBRATIONS.items():
        prefix, output = f"calibrate/{name}", f"calibrated_{name.replace(' ', '_')}"
        saved, written = f"{output}.json", f"{output}_out" if name == "folder" else f"{output}.parquet"
        yield from named_all(prefix, of_command(f"calibrate {options} --output {saved}"))
        yield from named_all(prefix, of_file(Path(saved)))
        line = f"predict {new} --calibration {saved} --output {written}"
        yield from named_all(f"{prefix}/predict", of_command(line))
        for path in sorted(Path(written).glob("*")) if name == "folder" else [Path(written)]:
            yield from named_all(f"{prefix}/predict", of_file(path))
        yield from named_all(f"{prefix}/audit", of_command(f"audit {written} --target y {BOUNDS} --group g --json"))


def of_other_commands() -> Answers:
    """Yield further commands, then wrong ones and the files after them: they write nothing."""
    for name, line in OTHERS.items():
        yield from named_all(f"others/{name}", of_command(line))
    for path in ("predicted.csv", "predicted.tsv", "predicted.parquet"):
        yield from named_all("others", of_file(Path(path)))
    before = sorted(path.as_posix() for path in Path().rglob("*"))
    for line in WRONG:
        yield from named_all(f"wrong/{line}", of_command(line))
    yield "wrong/nothing is written", np.array(before == sorted(path.as_posix() for path in Path().rglob("*")))


def of_command(line: str, standard_input: str | None = None) -> Answers:
    """Yield the exit status of a command, and what it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "TERM": "dumb"}
    settings: dict[str, Any] = {"input": standard_input, "env": environment, "capture_output": True}
    done = subprocess.run([*COMMAND, *shlex.split(line)], text=True, encoding="utf-8", check=False, **settings)
    errors = [each for each in done.stderr.splitlines() if not re.fullmatch(PROGRESS, each)]
    yield "status", np.array(done.returncode)
    yield "output", text(without_versions(done.stdout))
    yield "errors", text("\n".join(errors))


def of_folder(folder: Path) -> Answers:
    """Yield what is in the files of a run or of an audit; its predictor is asked by `predict`."""
    if not folder.is_dir():
        return
    yield "files", np.array(sorted(path.name for path in folder.iterdir()))
    for path in sorted(folder.iterdir()):
        if path.suffix != ".evencover":
            yield from of_file(path)


def of_file(path: Path) -> Answers:
    """Yield the values in a file: of a table its columns or lines, of a page its numbers, of results the values."""
    name, suffix = path.as_posix(), path.suffix
    if not path.is_file():
        yield name, text("no file")
    elif suffix == ".parquet":
        for position, column in enumerate(pq.read_table(path).to_pandas().items()):
            yield f"{name}/column {position}", column_values(column[1])
    elif suffix in (".csv", ".tsv"):
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        yield f"{name}/header", text(header)
        yield f"{name}/lines", np.array(lines)
    elif suffix == ".html":
        yield from named_all(name, of_page(path.read_text(encoding="utf-8")))
    else:
        if path.read_bytes()[:2] != b"PK":  # an archive; up to version 4 of the format, calibrations were JSON
            yield name, text(without_versions(path.read_text(encoding="utf-8")))


def of_page(page: str) -> Answers:
    """Yield the sorted numbers of a page: those in the text that it shows at first, and all with those of drawings."""
    content = re.sub(r"<(style|script)\b(?![^>]*json).*?</\1>", "", page, flags=re.DOTALL)
    shown = re.sub(r"<script\b.*?</script>", "", content, flags=re.DOTALL)
    for name, part in (("shown", re.sub(r"<[^>]*>", " ", shown)), ("all", content)):
        yield f"{name} numbers", text(" ".join(sorted(re.findall(NUMBER, part))))


def without_versions(printed: str) -> str:
    """Return a text; if it is JSON, without the versions of libraries."""
    try:
        data = json.loads(printed)
    except ValueError:
        return printed
    return json.dumps({key: data[key] for key in data if key not in ("evencover", "versions")})


def column_values(column: pd.Series) -> np.ndarray:
    """Return the values of a column; text if they are not numbers."""
    return column.to_numpy() if column.dtype.kind in "biuf" else np.array([str(each) for each in column])


# The tables of the commands


def write_tables() -> None:
    """Write all files that commands read."""
    whole = sales(400)
    whole.to_csv("sales.csv", index=False)
    whole.to_csv("sales.tsv.gz", index=False, sep="\t")
    whole.to_parquet("sales.parquet")
    for rows in (60, 240):
        sales(rows, seed=rows).to_csv(f"sales{rows}.csv", index=False)
    write_parts(pa.Table.from_pandas(whole, preserve_index=False), "parts")
    new = sales(40, seed=1).drop(columns="y").assign(code=3, sold="05/04/2021", amount="$7.50")
    new.to_csv("new.csv", index=False)
    new.to_parquet("new.parquet")
    new.assign(word="other").to_csv("unseen.csv", index=False)
    features = sales(300, seed=2)[["x", "z", "word"]]
    rng = np.random.default_rng(3)
    prices = features.assign(price=np.exp(features["x"] + 0.4 * rng.normal(size=300)).round(2))
    prices.to_csv("prices.csv", index=False)
    prices.to_excel("prices.xlsx", index=False)
    features.assign(count=rng.poisson(np.exp(0.5 * features["x"] + 1))).to_csv("counts.csv", index=False)
    messy().to_csv("messy.csv", index=False)
    Path("headless.csv").write_text("1,2\n3,4\n5,6\n", encoding="utf-8")
    Path("empty.csv").write_text("", encoding="utf-8")
    write_bounds()
    write_scored()
    write_large()


def sales(n: int, seed: int = 0) -> pd.DataFrame:
    """Return rows with an id, numbers, words, patients with four rows each, days, and a target with uneven noise."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.random(n)
    word = rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2])
    noise = (0.3 + z) * rng.normal(size=n) + 0.2 * np.repeat(rng.normal(size=n // 4 + 1), 4)[:n]
    return pd.DataFrame(
        {
            "id": [f"row {row:04}" for row in range(n)],
            "x": x,
            "z": np.where(rng.random(n) < 0.03, np.nan, z),
            "word": word,
            "patient": [f"p{row // 4}" for row in range(n)],
            "day": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
            "y": x + (word == "u") + noise,
        }
    )


def messy() -> pd.DataFrame:
    """Return rows with codes, amounts of money, dates of two meanings, and missing values and targets."""
    table, rows = sales(320, seed=5).drop(columns=["patient", "day"]), np.arange(320)
    table["code"], table["amount"] = rows % 4, [f"${1000 + 7 * (row % 50):,}.50" for row in rows]
    table["sold"] = [f"{1 + row % 12:02}/{1 + row // 12 % 12:02}/2020" for row in rows]
    table["x"] = [("?" if row % 40 == 7 else repr(x)) for row, x in zip(rows, table["x"], strict=True)]
    return table.assign(y=table["y"].where(rows % 50 != 11))


def write_bounds() -> None:
    """Write intervals of an unnamed model, some empty and some infinite, whose coverage is not even."""
    table = sales(600, seed=6)[["x", "z", "word", "y"]].assign(z=lambda rows: rows["z"].fillna(0.5))
    table["low"], table["high"] = table["x"] - 1.2, table["x"] + 1.6
    table.loc[::97, ["low", "high"]] = np.nan
    table.loc[5::83, "high"] = np.inf
    table.to_csv("bounds.csv", index=False)
    table.to_excel("bounds.xlsx", index=False, inf_rep="inf")
    write_parts(pa.Table.from_pandas(table, preserve_index=False), "bounds")


def write_scored() -> None:
    """Write predictions: to calibrate, few to calibrate, new ones, and new ones of a group that was not calibrated."""
    pq.write_table(scored(900), "scored.parquet")
    pq.write_table(scored(12, seed=1), "few_scored.parquet")
    pq.write_table(scored(300, seed=2), "new_scored.parquet")
    pq.write_table(scored(90, seed=3, labels=("a", "b", "z")), "unseen.parquet")
    write_parts(scored(500, seed=4), "scored_parts")


def scored(n: int, seed: int = 0, labels: tuple[str, ...] = ("a", "b", "it's")) -> pa.Table:
    """Return predictions with spreads, bounds and groups, and their targets, some of which are tied."""
    rng = np.random.default_rng(seed)
    center, spread = rng.normal(size=n), np.exp(rng.normal(size=n))
    columns = {"y": (center + spread * rng.standard_t(4, n)).round(1), "c": center, "s": spread}
    columns |= {"l": center - spread, "u": center + 1.5 * spread}
    return pa.table({**columns, "g": np.array(labels)[rng.integers(0, len(labels), n)]})


def write_large() -> None:
    """Write a table with more rows than are read as a whole."""
    rng = np.random.default_rng(0)
    n = 500_100
    x, word = rng.normal(size=n).round(2), rng.choice(["u", "v"], n)
    target = (x + (1 + (word == "u")) * rng.normal(size=n)).round(2)
    pq.write_table(pa.table({"x": x, "word": word, "y": target}), "large.parquet")


def write_parts(table: pa.Table, folder: str) -> Path:
    """Write a table as two files with small row groups."""
    path, half = Path(folder), table.num_rows // 3
    path.mkdir(parents=True)
    pq.write_table(table.slice(0, half), path / "0.parquet", row_group_size=100)
    pq.write_table(table.slice(half), path / "1.parquet", row_group_size=100)
    return path


# Python


SCORES = {
    "upper": OneSided(Residual()),
    "lower": OneSided(Normalized(), "lower"),
    "upper interval": OneSided(IntervalDistance()),
    "lower probability": OneSided(ProbabilityDistance(), "lower"),
    "bounded": Bounded(Normalized(), y_min=-0.5, y_max=1.5),
    "whole": Bounded(Residual(), y_min=-2, whole=True),
    "bounded lower": Bounded(OneSided(Normalized(epsilon=0.1, scale=1.0), "lower"), y_max=2),
    "relative": RelativeIntervalDistance(),
    "relative floor": RelativeIntervalDistance(floor=0.4, scale=1.0),
    "probability": ProbabilityDistance(),
    "probability floor": ProbabilityDistance(floor=0.2, scale=1.0),
}
TAXONOMIES = {
    "marginal": Marginal(),
    "spread": BySpread(3),
    "feature": ByFeature(1, categories=[0.0, 1.0, 2.0]),
    "target": ByTarget([0.0]),
    "product": Product([BySpread(2), ByPrediction(2)]),
}
CALIBRATORS = {
    "by group": ByGroup(BySpread(2)),
    "two tails": TwoTails(),
    "two tails in groups": TwoTails(BySpread(2), lower_share=0.2),
    "two tails by target": TwoTails(ByTarget([0.0])),
    "histogram": ByGroup(bits=3),
    "histogram in groups": ByGroup(Product([BySpread(2), ByPrediction(2)]), bits=10),
}
CALIBRATED_SCORES = {
    "residual": Residual(),
    "normalized": Normalized(),
    "interval": IntervalDistance(),
    "bounded": Bounded(Normalized(), y_min=-0.5),
    "probability": ProbabilityDistance(),
}
FAST = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)
RIDGE = WithSpread(BayesianRidge(), ResidualSpread(LinearRegression()), random_state=0)


def of_python() -> Answers:
    """Yield what Python functions and classes answer."""
    for sample in samples():
        model = sample.model()
        for part in (of_scores, of_calibrators, of_clusters, of_distributions, of_measures):
            yield from named_all(sample.name, part(sample, model))
    for function in (of_split_regressors, of_cross, of_arrays, of_sql, of_sizes, of_models, of_studies):
        yield from function()
        print(function.__name__, file=sys.stderr)  # noqa: T201


def samples() -> list[Sample]:
    """Return three samples: with noise that depends on features, with subgroups and ties, and skewed."""
    drawn, grouped, tailed = (make().sample(ROWS, seed=5) for make in (functional_dependence, two_subgroups, skewed))
    return [
        standardised("functional", drawn.X, drawn.y),
        standardised("subgroups", grouped.X.round(1), grouped.y.round(1), digits=1),
        standardised("skewed", tailed.X, tailed.y),
    ]


def of_scores(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield what each further score answers in groups."""
    for score, taxonomy in ((score, taxonomy) for score in SCORES for taxonomy in TAXONOMIES):
        made = ConformalRegressor(model, nonconformity=SCORES[score], taxonomy=TAXONOMIES[taxonomy])
        yield from named_all(f"{score}/{taxonomy}", of_regressor(sample, made))


def of_calibrators(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield what each calibrator answers with some scores: at once, in parts, and from a file."""
    _, old, new = sample.thirds
    X, y = sample.X[old], sample.y[old]
    for name, score in ((name, score) for name in CALIBRATORS for score in CALIBRATED_SCORES):
        made = ConformalRegressor(model, nonconformity=CALIBRATED_SCORES[score], calibrator=CALIBRATORS[name])
        yield from named_all(f"{name}/{score}", of_regressor(sample, made))
        with TemporaryDirectory() as folder:
            made.save(Path(folder) / "predictor")
            loaded = ConformalRegressor.load(Path(folder) / "predictor")
        yield f"{name}/{score}/from a file", np.asarray(loaded.predict_interval(sample.X[new], level=LEVELS))
    for calibrator in (TwoTails(BySpread(edges=[1.0])), ByGroup(BySpread(edges=[1.0]), bits=10), None):
        made = ConformalRegressor(model, nonconformity=Normalized(), calibrator=calibrator).fit(X, y)
        made.calibrate_batches((X[part], y[part]) for part in (slice(0, 1), slice(1, 40), slice(40, None)))
        yield f"in parts/{calibrator}", np.asarray(made.predict_interval(sample.X[new], level=LEVELS))


def of_regressor(sample: Sample, regressor: ConformalRegressor) -> Answers:
    """Yield intervals, unions, p-values, thresholds, the guarantee and an audit."""
    _, old, new = sample.thirds
    X, y = sample.X[new], sample.y[new]
    regressor.fit(sample.X[old], sample.y[old])
    made = regressor.predict_interval(X, level=LEVELS)
    yield "intervals", np.asarray(made)
    yield "one level", np.asarray(regressor.predict_interval(X[:7], level=0.9))
    yield "replaced", np.array([made.n_replaced, made.n_moved])
    yield "columns", np.column_stack(list(made.columns().values()))
    union = regressor.predict_union(X, level=LEVELS)
    yield "union", np.stack([np.asarray(piece) for piece in union.pieces])
    yield "p-values", regressor.p_values(X, y)
    yield "smoothed", regressor.p_values(X, y, seed=3)
    yield "thresholds", regressor.calibration_.threshold(LEVELS)
    yield "guarantee", text(guarantee_facts(regressor.guarantee_))
    audited = audit(y, regressor.predict_interval(X, level=0.8), X=X)
    yield "audit", text([str(audited), result_data(audited)])


def guarantee_facts(guarantee: Any) -> list[object]:
    """Return a guarantee as text, and the coverage that it promises at each level."""
    promised = [{str(label): str(share) for label, share in guarantee.coverage(each).items()} for each in LEVELS]
    return [str(guarantee), guarantee.kind, {str(label): n for label, n in guarantee.sizes.items()}, promised]


def of_clusters(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield what calibrations, fits, diagnoses and audits answer if rows belong together."""
    _, old, new = sample.thirds
    third = len(sample.y) // 3
    clusters = np.arange(third) // 3 - np.arange(third) // 11  # of different sizes
    old_prediction, new_prediction = predictions_of(model, sample.X[old]), predictions_of(model, sample.X[new])
    groups, new_groups = sample.X[old, 1], sample.X[new, 1]
    found = calibrate(sample.y[old], old_prediction, nonconformity=Normalized(), groups=groups > 1, clusters=clusters)
    yield "clusters/thresholds", found.threshold(LEVELS)
    yield "clusters/sizes", text({str(label): n for label, n in found.sizes.items()})
    yield "clusters/guarantee", text(guarantee_facts(found.guarantee))
    made = found.interval(new_prediction, groups=new_groups > 1, level=LEVELS)
    yield "clusters/intervals", np.asarray(made)
    yield "clusters/p-values", found.p_values(sample.y[new], new_prediction, groups=new_groups > 1, seed=1)
    for calibrator in (ByGroup(BySpread(2)), TwoTails(BySpread(2)), TwoTails(lower_share=0.3)):
        regressor = ConformalRegressor(model, nonconformity=Normalized(), calibrator=calibrator)
        regressor.calibrate(sample.X[old], sample.y[old], clusters=clusters)
        intervals = regressor.predict_interval(sample.X[new], level=LEVELS)
        yield f"clusters/{calibrator}", np.asarray(intervals)
        yield f"clusters/{calibrator}/p-values", regressor.p_values(sample.X[new], sample.y[new], seed=2)
        diagnosed = diagnose(regressor, taxonomy=BySpread(2), level=0.8, seed=1)
        yield f"clusters/{calibrator}/diagnose", text([str(diagnosed), result_data(diagnosed)])
    one_level = regressor.predict_interval(sample.X[new], level=0.8)
    audited = audit(sample.y[new], one_level, X=sample.X[new], groups=new_groups, clusters=clusters, seed=2)
    yield "clusters/audit", text([str(audited), result_data(audited)])
    scores = diagnose_scores(found.scores, groups, spread=old_prediction.spread, level=0.8, clusters=clusters)
    yield "clusters/diagnose scores", text([str(scores), result_data(scores)])


def of_distributions(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield predictive distributions of several scores, groups and calibrators."""
    _, old, new = sample.thirds
    scores = {**CALIBRATED_SCORES, "standardized": Standardized(), "whole": Bounded(Residual(), whole=True)}
    groups = {"marginal": Marginal(), "spread": BySpread(3), "product": TAXONOMIES["product"]}
    for score, group in ((score, group) for score in scores for group in groups):
        regressor = ConformalRegressor(model, nonconformity=scores[score], taxonomy=groups[group])
        regressor.fit(sample.X[old], sample.y[old])
        for seed in (None, 4):
            distribution = regressor.predict_distribution(sample.X[new], seed=seed)
            yield from named_all(f"distribution/{score}/{group}/{seed}", of_distribution(distribution, sample.y[new]))
    tails = ConformalRegressor(model, nonconformity=Normalized(), calibrator=TwoTails(BySpread(2)))
    distribution = tails.fit(sample.X[old], sample.y[old]).predict_distribution(sample.X[new])
    yield from named_all("distribution/two tails", of_distribution(distribution, sample.y[new]))
    rows = Rows(predictions_of(model, sample.X[old]), y=sample.y[old])
    found = calibrate(sample.y[old], rows.prediction, nonconformity=Normalized())
    new_prediction = predictions_of(model, sample.X[new])
    distribution = PredictiveDistribution.from_calibration(found, new_prediction, calibration_rows=rows, seed=1)
    yield from named_all("distribution/arrays", of_distribution(distribution, sample.y[new]))


def of_distribution(distribution: PredictiveDistribution, y: np.ndarray) -> Answers:
    """Yield probabilities, quantiles, moments, draws and measures."""
    yield "cdf", np.stack([distribution.cdf(y), distribution.cdf(0.3)])
    yield "pit", distribution.pit(y)
    yield "ppf", distribution.ppf([0.01, 0.1, 0.5, 0.77, 0.99])
    yield "moments", np.stack([distribution.mean, distribution.median])
    yield "intervals", np.asarray(distribution.interval(level=LEVELS))
    yield "draws", distribution.rvs(7, size=5)
    yield "one draw", distribution.rvs(8)
    yield "crps", distribution.crps(y)
    yield "guarantee", text(str(distribution.guarantee))


def of_measures(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield measures of intervals, weighted calibrations, splits and merged parts."""
    _, old, new = sample.thirds
    X, y, center = sample.X[new], sample.y[new], predictions_of(model, sample.X[new]).center
    regressor = ConformalRegressor(model, nonconformity=Normalized(), taxonomy=BySpread(3))
    regressor.fit(sample.X[old], sample.y[old])
    made, groups = regressor.predict_interval(X, level=0.8), sample.X[new, 1]
    one = ConformalRegressor(model, nonconformity=Normalized()).fit(sample.X[old], sample.y[old])
    settings = {"prediction": center, "reference_y": sample.y[old], "one_threshold": one.predict_interval(X, level=0.8)}
    measured = (quality(y, made, **settings), quality(y, made), quality(y, regressor.predict_union(X, level=0.5)))
    yield "quality", text([[str(each), [str(value) for value in astuple(each)]] for each in measured])
    yield "coverage", np.array([coverage(y, made), mean_width(made), interval_score(y, made)])
    by_group = [coverage_by_group(y, made, groups), mean_width_by_group(made, groups), misses_by_group(y, made, groups)]
    yield "by group", text([{str(label): str(value) for label, value in each.items()} for each in by_group])
    quantiles = predictions_of(model, X).center[:, None] + np.array([-1.0, 0.0, 1.0])
    yield (
        "losses",
        np.array([pinball_loss(y, center, probability=0.3), crps(y, quantiles, probabilities=[0.2, 0.5, 0.8])]),
    )
    yield "clipped", np.asarray(made.clip(-0.5, 0.7))
    yield "intervals of a model", np.asarray(intervals_of(one, X, level=LEVELS))
    weights = 1 + np.abs(sample.X[:, 0])
    for calibrator in (ByGroup(BySpread(2)), TwoTails(BySpread(2), lower_share=0.3)):
        weighted = ConformalRegressor(model, nonconformity=IntervalDistance(), calibrator=calibrator)
        weighted.calibrate(sample.X[old], sample.y[old], weights=weights[old])
        yield f"weights/{calibrator}", np.asarray(weighted.predict_interval(X, level=LEVELS, weights=weights[new]))
        yield f"weights/{calibrator}/p-values", weighted.p_values(X, y, weights=weights[new], seed=1)
    parts = [regressor.rows(sample.X[rows], sample.y[rows]) for rows in (old, new)]
    for calibrator in (TwoTails(BySpread(edges=[1.0])), ByGroup(BySpread(edges=[1.0]), bits=5)):
        merged = calibrator.learn(parts[0], Normalized()).merge(calibrator.learn(parts[1], Normalized()))
        yield f"merged/{calibrator}", np.asarray(merged.intervals(parts[1], (0.5, 0.9)))
    yield "scores", np.stack([scores_of(score, parts[1]) for score in SCORES.values()])
    thresholds = np.array([[0.5, 1.5]])
    made_by_thresholds = [threshold_intervals(score, thresholds, parts[1].prediction) for score in SCORES.values()]
    yield "intervals of thresholds", np.stack([np.asarray(each) for each in made_by_thresholds])


def of_split_regressors() -> Answers:
    """Yield regressors that split, fit and calibrate: clusters, weights of rows, other scales, measures, splits."""
    sample = samples()[0]
    X, y = sample.X, sample.y
    clusters = np.arange(len(y)) // 3
    fits: dict[str, tuple[ConformalRegressor, np.ndarray, dict[str, Any]]] = {
        "plain": (ConformalRegressor(FAST, nonconformity=Normalized(floor=0.2)), y, {}),
        "clusters": (ConformalRegressor(LinearRegression(), taxonomy=ByPrediction(2)), y, {"clusters": clusters}),
        "weights": (ConformalRegressor(LinearRegression()), y, {"sample_weight": 1 + X[:, 0] ** 2}),
        "log": (ConformalRegressor(FAST, target_transform="log", nonconformity=Normalized()), np.exp(y), {}),
        "log1p": (ConformalRegressor(FAST, target_transform="log1p", taxonomy=BySpread(2)), y - y.min(), {}),
    }
    for name, (regressor, target, settings) in fits.items():
        fitted = regressor.set_params(random_state=0, calibration_size=0.4).fit(X, target, **settings)
        yield f"fit/{name}", np.asarray(fitted.predict_interval(X, level=LEVELS))
        yield f"fit/{name}/predictions", fitted.predict(X)
        yield f"fit/{name}/guarantee", text(guarantee_facts(fitted.guarantee_))
        yield f"fit/{name}/calibration", fitted.calibration_.scores
    yield "fit/log/distribution", fits["log"][0].predict_distribution(X).ppf([0.1, 0.5, 0.9])
    for scorer in (IntervalScorer(0.8), CoverageScorer(0.8), CoverageScorer(0.8, by=1)):
        made = ConformalRegressor(LinearRegression(), random_state=0)
        yield f"scorer/{scorer}", cross_val_score(made, X, y, scoring=scorer, cv=3)
    for name, settings in {"rows": {}, "clusters": {"clusters": clusters}, "strata": {"stratify": X[:, 1]}}.items():
        parts = three_way_split(X, y, random_state=2, test_size=0.3, **settings)
        yield f"split/{name}", text([part.positions.tolist() for part in parts])
    for name, settings in {
        "clusters": {"clusters": clusters},
        "tails": {"tails": "separate"},
        "level": {"level": 0.5},
    }.items():
        chosen = recommend(FAST, X, y, **settings)
        yield f"recommend/{name}", text(str(chosen.recommendation_))
    prices = recommend(LinearRegression(), X, np.exp(y), support=Support(y_min=0), taxonomy=BySpread(2))
    yield "recommend/prices", text(str(prices.recommendation_))


def of_cross() -> Answers:
    """Yield cross-conformal regression: each method, folds, groups, clusters, another scale, and its files."""
    sample = samples()[0]
    X, y, new = sample.X[:60], sample.y[:60], sample.X[60:120]
    repeated = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    groups = {"residual": {}, "spread": {"nonconformity": Normalized(floor=0.1), "taxonomy": BySpread(2)}}
    groups["feature"] = {"nonconformity": OneSided(Residual()), "taxonomy": ByFeature(0, edges=[0.0])}
    groups["interval"] = {"nonconformity": Bounded(IntervalDistance(), y_min=-1), "taxonomy": ByPrediction(2)}
    methods = {"cv": {"cv": 4}, "sets": {"cv": 5, "method": "cross-conformal"}, "jackknife": {"method": "jackknife+"}}
    methods["bootstrap"] = {"method": "jackknife+-after-bootstrap", "n_bootstraps": 40}
    methods["repeated"] = {"cv": repeated}
    made = {f"{way}/{kind}": {**methods[way], **groups[kind]} for way in methods for kind in groups}
    made["log"] = {"cv": 3, "target_transform": "log"}
    made["log bootstrap"] = {**methods["bootstrap"], "target_transform": "log"}
    for name, settings in made.items():
        model = CrossConformalRegressor(FAST, **settings, random_state=0)
        target = np.exp(y) if "log" in name else y
        yield from named_all(f"cross/{name}", of_cross_regressor(model.fit(X, target), new, sample.y[60:120]))
    for way, settings in methods.items():
        model = CrossConformalRegressor(FAST, **settings, random_state=0)
        if way != "repeated":
            model.fit(X, y, clusters=np.arange(60) // 3)
            yield from named_all(f"cross/{way}/clusters", of_cross_regressor(model, new, sample.y[60:120]))


def of_cross_regressor(model: CrossConformalRegressor, X: np.ndarray, y: np.ndarray) -> Answers:
    """Yield predictions, intervals, unions and p-values, also from a file."""
    yield "predictions", model.predict(X)
    made = model.predict_interval(X, level=LEVELS)
    yield "intervals", np.asarray(made)
    union = model.predict_union(X, level=LEVELS)
    yield "union", np.stack([np.asarray(piece) for piece in union.pieces])
    yield "p-values", np.stack([model.p_values(X, y), model.p_values(X, y, seed=3)])
    yield "scores", model.calibration_.scores
    yield "guarantee", text([*guarantee_facts(model.guarantee_), str(made.guarantee), str(union.guarantee)])
    found = diagnose(model, taxonomy=BySpread(2), level=0.8)
    yield "diagnose", text([str(found), result_data(found)])
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "predictor")
        loaded = CrossConformalRegressor.load(Path(folder) / "predictor")
    yield "from a file", np.asarray(loaded.predict_interval(X, level=LEVELS))


def of_arrays() -> Answers:
    """Yield what arrays of numpy and torch answer."""
    table = scored(500)
    columns = {name: table[name].to_numpy() for name in ("y", "c", "s", "l", "u")}
    codes = np.arange(500) % 3
    many = np.arange(500) % 90
    single = partial(torch.asarray, dtype=torch.float32)
    for library, array in (("numpy", np.asarray), ("torch", torch.asarray), ("torch float32", single)):
        y, c, s, lower, upper = (array(values) for values in columns.values())
        whole = np.asarray if library == "numpy" else torch.asarray
        inputs = {"center": (Residual(), Prediction(c)), "spread": (Normalized(), Prediction(c, s))}
        inputs["bounds"] = IntervalDistance(), Prediction.from_quantiles(lower, upper)
        for name, (score, given) in inputs.items():
            groups = Groups(whole(codes), (0, 1, 2, 3))
            found = calibrate(y, given, nonconformity=score, groups=groups)
            yield f"arrays/{library}/{name}/thresholds", np.asarray(found.threshold(LEVELS))
            made = found.interval(given, groups=groups, level=LEVELS)
            yield f"arrays/{library}/{name}/intervals", np.stack([np.asarray(made.lower), np.asarray(made.upper)])
            yield f"arrays/{library}/{name}/guarantee", text(guarantee_facts(found.guarantee))
            yield f"arrays/{library}/{name}/scores", np.asarray(score(y, given))
            marginal = calibrate(y, given, nonconformity=score).interval(given, level=0.9)
            both = np.stack([np.asarray(marginal.lower), np.asarray(marginal.upper)])
            yield f"arrays/{library}/{name}/marginal", both
        found = calibrate(y, Prediction(0 * abs(y), 0 * y + 1), nonconformity=Standardized(), groups=whole(many))
        with warnings.catch_warnings(action="ignore"):  # of groups with few rows
            yield f"arrays/{library}/many groups", np.asarray(found.threshold([0.1, 0.5, 0.9]))
        groups = BySpread(edges=[0.5, 1.0, 2.0]).learn(Rows(Prediction(c, s)))
        yield f"arrays/{library}/by edges", np.asarray(groups.codes)


def of_sql() -> Answers:
    """Yield SQL of every dialect as text, and what DuckDB and SQLite make of it."""
    table, new = scored(300), scored(80, seed=2, labels=("a", "it's", "z"))
    spread, bounds = {"center": "c", "spread": "s"}, {"lower": "l", "upper": "u"}
    roles: dict[str, tuple[Any, dict[str, str]]] = {
        "residual": (Residual(), {"center": "c"}),
        "normalized": (Normalized(floor=0.3, epsilon=0.1, scale=0.7), spread),
        "standardized": (Standardized(), spread),
        "interval": (IntervalDistance(), bounds),
        "relative": (RelativeIntervalDistance(), bounds),
        "bounded": (Bounded(Residual(), y_min=0), {"center": "c"}),
    }
    labels = np.array(table["g"].to_pylist())
    for name, (score, columns) in roles.items():
        used = {"center": "c", **columns}
        prediction = Prediction(**{role: table[column].to_numpy() for role, column in used.items()})
        found = calibrate(table["y"].to_numpy(), prediction, nonconformity=score, groups=labels)
        for dialect, unseen in ((dialect, unseen) for dialect in DIALECTS for unseen in ("null", "inf", "marginal")):
            sql = found.to_sql(0.8, dialect=dialect, unseen=unseen, group="g", **columns)
            yield f"sql/{name}/{dialect}/{unseen}", text([sql.table, sql.threshold, str(sql.lower), str(sql.upper)])
            if dialect in ("duckdb", "sqlite"):
                chosen = [each for each in (sql.threshold, sql.lower, sql.upper) if each is not None]
                yield f"sql/{name}/{dialect}/{unseen}/values", query(dialect, new, f"SELECT {', '.join(chosen)} FROM t")  # noqa: S608
                yield f"sql/{name}/{dialect}/table", query(dialect, new, f"SELECT threshold FROM ({sql.table})")  # noqa: S608
        for dialect in DIALECTS if name != "bounded" else ():
            for group in ("g", None):
                settings = {"target": "y", "group": group, "level": 0.8, "nonconformity": score, "dialect": dialect}
                asked = calibrate_sql("t", **settings, **columns)
                yield f"sql/{name}/{dialect}/calibrate/{group}", text(asked)
                if dialect in ("duckdb", "sqlite"):
                    asked = f'SELECT calibration_rows, threshold, missing_scores FROM ({asked}) ORDER BY "group"'  # noqa: S608
                    yield f"sql/{name}/{dialect}/calibrate/{group}/values", query(dialect, table, asked)


def query(dialect: str, table: pa.Table, asked: str) -> np.ndarray:
    """Return the numbers of a query to a database that holds a table t; missing values are NaN."""
    if dialect == "duckdb":
        connection: Any = duckdb.connect()
        connection.register("t", table)
    else:
        connection = sqlite3.connect(":memory:")
        table.to_pandas().to_sql("t", connection, index=False)
    return np.array(connection.execute(asked).fetchall(), dtype=float)


def of_sizes() -> Answers:
    """Yield numbers of rows and groups, ranks and quantiles."""
    levels, tolerances = (0.5, 0.8, 0.9, 0.99), (None, 0.01, 0.05)
    pairs = [(level, tolerance) for level in levels for tolerance in tolerances]
    yield "rows needed", np.array([rows_needed(level, tolerance, 0.9) for level, tolerance in pairs])
    numbers = [max_groups(n, level, tolerance) for n in (50, 500, 50_000) for level, tolerance in pairs]
    yield "groups affordable", np.array(numbers)
    yield "ranks", np.array([conformal_rank(n, level) for n in range(40) for level in levels])
    scores = np.random.default_rng(0).normal(size=37).round(1)
    yield "quantiles", np.asarray(conformal_quantile(scores, levels))
    yield "weighted quantiles", np.asarray(conformal_quantile(scores, levels, weights=np.abs(scores), test_weight=0.5))
    found = diagnose_scores(np.abs(scores), np.arange(37) % 2, level=0.8, seed=2)
    yield "diagnose scores", text([str(found), result_data(found)])


def of_models() -> Answers:
    """Yield what models predict."""
    sample = samples()[0]
    X, y, new = sample.X[:150], sample.y[:150], sample.X[150:200]
    network = {"hidden": (5,), "epochs": 5, "random_state": 0}
    quantiles = {p: QuantileRegressor(quantile=p, alpha=0) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
    forest = RandomForestRegressor(10, random_state=0)
    two = LinearRegression().fit(X, np.column_stack([y, y - 1, y + 1]))
    models = {
        "residual spread": RIDGE,
        "neighbour spread": FAST,
        "ensemble spread": WithSpread(forest, EnsembleSpread()),
        "std": FromStd(GaussianProcessRegressor(alpha=0.5, optimizer=None)),
        "quantiles": FromQuantiles(quantiles=quantiles),
        "outputs": FromOutputs(FrozenEstimator(two), [0.5, 0.1, 0.9], level=0.8),
        "forest": QuantileForest(n_estimators=10, random_state=0),
        "quantile network": QuantileNetwork(**network),
        "mean variance network": MeanVarianceNetwork(**network),
        "dropout": DropoutEnsemble(MeanVarianceNetwork(**network), passes=3, random_state=0),
        "deep": DeepEnsemble(MeanVarianceNetwork(**network), members=2, random_state=0),
        "auto": AutoRegressor(effort="fast", random_state=0),
    }
    for name, model in models.items():
        found = predictions_of(model.fit(X, y), new)
        for part in ("center", "spread", "lower", "upper", "quantiles"):
            values = getattr(found, part, None)
            yield f"model/{name}/{part}", text("none") if values is None else np.asarray(values)


def of_studies() -> Answers:
    """Yield studies: cross-fitted, by time, of clusters, with ids, separate tails, other scales; with reports."""
    table = sales(360).drop(columns="id")
    features = table[["x", "z", "word"]]
    prices = features.assign(y=np.exp(features["x"] + 0.3 * np.random.default_rng(0).normal(size=360)))
    counts = features.assign(y=np.random.default_rng(1).poisson(2, size=360))
    studied: dict[str, tuple[pd.DataFrame, Plan, dict[str, Any]]] = {
        "selected": (table, Plan(FAST), {}),
        "time": (table, Plan(FAST, level=0.8), {"time": "day"}),
        "clusters": (table, Plan(FAST, taxonomy=BySpread(2)), {"clusters": "patient"}),
        "ids": (sales(360), Plan(FAST, Residual(), Marginal()), {"drop": ["z"], "categorical": ["patient"]}),
        "kept ids": (sales(360), Plan(LinearRegression(), support="none"), {"keep": ["patient"]}),
        "two tails": (table, Plan(FAST, Normalized(), BySpread(2), tails="separate", level=0.8), {}),
        "column": (table, Plan(FAST, IntervalDistance(), ByFeature("word"), seed=3), {}),
        "target": (table, Plan(FAST, Normalized(), ByTarget([0.0])), {}),
        "prices": (prices, Plan(FAST), {}),
        "counts": (counts, Plan(FAST, Normalized(), Marginal(), tolerance=0.1), {}),
        "cross": (table[:80], Plan(FAST, calibration="cross"), {}),
        "cross clusters": (table[:80], Plan(FAST, level=0.8), {"clusters": "patient"}),
        "cross small": (features[:40].assign(y=table["y"]), Plan(LinearRegression(), level=0.8), {}),
    }
    for name, (rows, plan, settings) in studied.items():
        found = study(rows, "y", plan=plan, name=name, **settings)
        yield from named_all(f"study/{name}", of_study(found, rows))


def of_study(found: Any, rows: pd.DataFrame) -> Answers:
    """Yield a study's text, data, parts, intervals, report, and intervals for the first rows."""
    yield "data", text([str(found), result_data(found)])
    yield "training", found.training
    yield "calibration", found.calibration
    for place, values in enumerate(found.columns_of_intervals().values()):
        yield f"intervals/column {place}", column_values(pd.Series(np.asarray(values)))
    yield from named_all("report", of_page(report_page(found, command="a command")))
    names = list(found.regressor.feature_names_in_)
    yield "new rows", np.asarray(found.regressor.predict_interval(rows[names][:20], level=LEVELS))


# Large tables, and files


def of_large_tables() -> Answers:
    """Yield calibrations, predictions, audits and studies of tables in memory, in files and in partitions."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        pq.write_table(scored(900), path / "whole.parquet", row_group_size=200)
        write_parts(scored(900), folder + "/parts")
        sources: dict[str, Any] = {"file": path / "whole.parquet", "parts": path / "parts", "table": scored(900)}
        for name, data in sources.items():
            yield from named_all(f"large/{name}", of_table_calibration(data, path))
        with dask.config.set(scheduler="synchronous"):
            yield from named_all("large/dask", of_dask())
        yield from named_all("large/model", of_table_prediction(path))
        yield from named_all("large/study", of_large_studies(path))


def of_table_calibration(data: Any, folder: Path) -> Answers:
    """Yield thresholds, files and intervals of a table, and the audit of the intervals."""
    spread = {"target": "y", "center": "c", "spread": "s"}
    settings: dict[str, dict[str, Any]] = {
        "groups": {**spread, "group": "g", "level": [0.8, 0.9]},
        "one pass": {**spread, "group": "g", "exact": False, "bits": 4},
        "bounds": {"target": "y", "lower": "l", "upper": "u"},
        "score": {**spread, "nonconformity": Standardized(), "workers": 1},
        "relative": {"target": "y", "lower": "l", "upper": "u", "nonconformity": RelativeIntervalDistance()},
    }
    for name, each in settings.items():
        found = tables.calibrate(data, **each)
        found.save(folder / "calibration.json")
        yield f"{name}/data", text([str(found), guarantee_facts(found.guarantee)])
        for kind, part in (("", found), ("loaded ", Calibration.load(folder / "calibration.json"))):
            yield f"{name}/{kind}thresholds", part.threshold(LEVELS)
            yield f"{name}/{kind}excess", part.excess(LEVELS)
        sql = found.to_sql(0.9, dialect="duckdb", unseen="marginal")
        yield f"{name}/sql", text([sql.table, sql.threshold, str(sql.lower), str(sql.upper)])
    merged = tables.calibrate(data, **settings["groups"]).merge(tables.calibrate(scored(100, 8), **settings["groups"]))
    yield "merged", merged.threshold(LEVELS)
    output = folder / "intervals.parquet"
    pq.write_table(scored(300, 2), folder / "new.parquet")
    written = tables.predict(folder / "new.parquet", found, output=output, level=[0.5, 0.9])
    yield "predicted", text([str(value) for value in astuple(written)[:4]])
    yield from of_columns("predicted", pq.read_table(output))
    tables.predict(folder / "new.parquet", merged, output=output)
    audited = tables.audit(
        output, target="y", lower="lower", upper="upper", group="g", prediction="c", features=["s", "l"], level=0.8
    )
    yield "audit", text([str(audited), result_data(audited)])
    yield from named_all("audit/report", of_page(report_page(audited)))
    audited = tables.audit(data, target="y", lower="l", upper="u", calibration_sizes=100, level=0.8)
    yield "audit of all", text([str(audited), result_data(audited)])


def of_columns(name: str, table: pa.Table) -> Answers:
    """Yield the columns of a table, without their names."""
    for place, (_, values) in enumerate(table.to_pandas().items()):
        yield f"{name}/column {place}", column_values(values)


def of_dask() -> Answers:
    """Yield what a Dask DataFrame with three partitions answers."""
    frame = dd.from_pandas(scored(900).to_pandas(), npartitions=3)
    found = tables.calibrate(frame, target="y", center="c", spread="s", group="g")
    yield "thresholds", found.threshold(LEVELS)
    predicted = tables.predict(dd.from_pandas(scored(100, 2).to_pandas(), npartitions=2), found).compute()
    yield from of_columns("predicted", pa.Table.from_pandas(predicted, preserve_index=False))
    audited = tables.audit(frame, target="y", lower="l", upper="u", group="g", level=0.8)
    yield "audit", text([str(audited), result_data(audited)])


def of_table_prediction(folder: Path) -> Answers:
    """Yield intervals of files by models."""
    table = sales(300)[["x", "z", "word", "y"]].fillna(0.5)
    numbers, y = table[["x", "z"]], table["y"].to_numpy()
    sources = write_parts(pa.Table.from_pandas(numbers, preserve_index=False), str(folder / "features"))
    models: dict[str, Any] = {
        "split": ConformalRegressor(FAST, nonconformity=Normalized(), taxonomy=BySpread(2), random_state=0),
        "tails": ConformalRegressor(FAST, calibrator=TwoTails(BySpread(2)), random_state=0),
        "cross": CrossConformalRegressor(LinearRegression(), cv=3, random_state=0),
    }
    for name, model in models.items():
        tables.predict(sources, model.fit(numbers, y), output=folder / f"by {name}", level=0.8)
        for path in sorted((folder / f"by {name}").iterdir()):
            yield from of_columns(f"{name}/{path.name}", pq.read_table(path))


def of_large_studies(folder: Path) -> Answers:
    """Yield studies of a table in batches."""
    table = pa.Table.from_pandas(sales(3000, seed=9), preserve_index=False)
    counts = table.set_column(6, "y", pa.array(np.abs(table["y"].to_numpy()).round()))
    data = write_parts(table, str(folder / "studied"))
    plans: dict[str, tuple[Any, Plan, dict[str, Any]]] = {
        "groups": (data, Plan(FAST, Normalized(), BySpread(3), seed=3), {}),
        "one threshold": (table, Plan(FAST, Residual(), Marginal(), level=0.85), {"drop": ["z"]}),
        "separate tails": (data, Plan(FAST, Normalized(), BySpread(2), tails="separate"), {}),
        "column": (data, Plan(FAST, Normalized(), ByFeature("word")), {"keep": ["patient"]}),
        "product": (table, Plan(FAST, Normalized(), Product([ByPrediction(2), ByFeature("word")])), {}),
        "selected": (data, Plan(FAST), {}),
        "counts": (counts, Plan(FAST, Normalized(), BySpread(2)), {"categorical": ["patient"]}),
    }
    for name, (source, plan, settings) in plans.items():
        output = folder / f"{name}.{'csv' if name == 'column' else 'parquet'}"
        found = study(source, "y", plan=plan, output=output, training_rows=400, **settings)
        yield f"{name}/data", text([str(found), result_data(found)])
        yield f"{name}/thresholds", found.regressor.calibration_.threshold(LEVELS)
        yield from named_all(name, ((each.replace(folder.as_posix(), ""), values) for each, values in of_file(output)))
        yield from named_all(f"{name}/report", of_page(report_page(found)))
        names = list(found.regressor.feature_names_in_)
        new = sales(50, seed=4)[names]
        yield f"{name}/new rows", np.asarray(found.regressor.predict_interval(new, level=LEVELS))


def of_saved_files() -> Answers:
    """Yield what every saved file answers, and whether it answers more: guarantees, p-values, repr."""
    for path in sorted(FILES.glob("v*/*.evencover")):
        if any(library in path.stem for library in NO_FILE):
            continue
        expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        saved, name = load_saved(path, expected["class"]), f"file/{path.parent.name}/{path.stem}"
        for part, values in answers_of_saved(saved, expected["rows"]).items():
            yield f"{name}/{part}", np.asarray(values)
        guarantee = saved.guarantee if isinstance(saved, Calibration) else getattr(saved, "guarantee_", None)
        yield f"{name}/guarantee", text("none" if guarantee is None else guarantee_facts(guarantee))
        if not isinstance(saved, Calibration) and guarantee is not None and not saved.calibration_.weighted:
            X = pd.DataFrame(expected["rows"]) if isinstance(expected["rows"], dict) else np.array(expected["rows"])
            yield f"{name}/p-values", saved.p_values(X, np.linspace(0, 2, len(X)), seed=1)


# Recording and comparing


SECTIONS: Mapping[str, Callable[[], Answers]] = {
    "commands": of_commands,
    "python": of_python,
    "large": of_large_tables,
    "files": of_saved_files,
}


def main(action: str, path: Path, *, exact: bool, only: str | None) -> None:
    """Record the answers, or compare them with those recorded."""
    print(f"evencover of {Path(evencover.__file__).parent}", file=sys.stderr)  # noqa: T201
    names = list(SECTIONS) if only is None else [only]
    with threadpool_limits(1):  # more threads add up in another order
        torch.set_num_threads(1)
        found = dict(answers(names))
    if action == "record":
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found)
        print(f"{len(found)} answers recorded in {path}")  # noqa: T201
        return
    with np.load(path) as recorded:
        old = {key: recorded[key] for key in recorded if key.partition(":")[0] in names}
    every = sorted(set(old) | set(found))
    different = [name for name in every if not same(old.get(name), found.get(name), exact=exact)]
    print(f"{len(every) - len(different)} of {len(every)} answers are the same")  # noqa: T201
    if different:
        sys.exit("\n".join(["these differ, or are only on one side:", *different]))


def answers(names: list[str]) -> Answers:
    """Yield each answer of these sections with its name."""
    warnings.simplefilter("ignore")
    for name in names:
        began = time.monotonic()
        for answer, values in SECTIONS[name]():
            yield f"{name}: {answer}".replace("/", " | "), values  # names of files in the archive
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)  # noqa: T201


def same(old: np.ndarray | None, new: np.ndarray | None, *, exact: bool) -> bool:
    """Return whether both sides have an answer: texts with the same facts, or arrays equal in every bit."""
    if old is None or new is None:
        return False
    if not exact and old.dtype.kind == new.dtype.kind == "U" and old.ndim == new.ndim == 0:
        return facts(old) == facts(new)
    return (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())


def named_all(prefix: str, found: Iterator[tuple[str, np.ndarray]]) -> Answers:
    """Yield answers with longer names."""
    return (named(prefix, each) for each in found)


if __name__ == "__main__":
    parser = ArgumentParser(description="Record what commands, files and large tables answer, or compare it.")
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--exact", action="store_true", help="compare also the words of texts")
    parser.add_argument("--only", choices=tuple(SECTIONS), help="compare, or record, one section")
    main(**vars(parser.parse_args()))
