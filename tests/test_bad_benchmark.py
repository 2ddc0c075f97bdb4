"""Bad input to data sets and the benchmark: one clear error for each, before anything is trained."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LinearRegression

from evencover import Residual
from evencover.datasets import Dataset, cards, load_dataset, read_dataset
from evencover.datasets.loading import download_dataset
from evencover.models import QuantileForest, WithSpread
from evencover.reproduction.benchmark import Benchmark, BenchmarkModel, paper_models, run_benchmark
from tests.messages import facts

MODELS = {"linear": BenchmarkModel(WithSpread(LinearRegression()))}
ROWS = np.arange(200.0)


def data(n=100, name="mine"):
    return Dataset(name, ROWS[:n, None], ROWS[:n], ("a",), "y")


def csv(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return read_dataset(path, target="y")


def parquet_file(tmp_path, **columns):
    path = tmp_path / "mine.parquet"
    parquet.write_table(pa.table(columns), path)
    return read_dataset(path)


def benchmark(tmp_path, *datasets, models=MODELS, **settings):
    return run_benchmark(Benchmark(models, splits=[1]), datasets, tmp_path / "out", **settings)


CASES = {
    "name": (
        lambda folder: load_dataset("Turbines"),
        "unknown data set 'Turbines'; did you mean 'turbine'? ... concrete, turbine, puma32H",
    ),
    "name like none": (lambda folder: load_dataset("xyz"), "unknown data set 'xyz'; choose one of: concrete"),
    "target of a name": (
        lambda folder: load_dataset("concrete", target="age"),
        "target is for files ... compressive_strength_mpa ... got 'age'",
    ),
    "folder": (lambda folder: load_dataset("star", data_dir=folder / "no"), "data_dir must be a folder; "),
    "folder with another file": (
        lambda folder: [(folder / "star.csv").write_text("a,y\n1,2\n"), load_dataset("star", data_dir=folder)],
        "star.csv is not the data set star: its sha256 is ",
    ),
    "suffix": (
        lambda folder: read_dataset("mine.json"),
        ".csv ... .parquet ... .xlsx ... got 'mine.json'",
    ),
    "no file": (lambda folder: load_dataset(str(folder / "no.csv")), "there is no file "),
    "address": (
        lambda folder: download_dataset(replace(cards()["star"], urls=("ftp://x",)), folder),
        "url must begin with http:// or https://; got 'ftp",
    ),
    "target": (
        lambda folder: csv(folder, "a,b\n1,2\n"),
        "target of mine.csv: no column named 'y'; the columns are ['a', 'b']",
    ),
    "text": (
        lambda folder: csv(folder, "a,y\n1,2\nBerlin,3\n"),
        "mine.csv: column 'a' must hold numbers; got 'Berlin' in row 3 of the file",
    ),
    "target as text": (
        lambda folder: csv(folder, "a,y\n1,low\n"),
        "mine.csv: column 'y' must hold numbers; got 'low' in row 2 of the file",
    ),
    "time": (
        lambda folder: csv(folder, "a,y\n2020-01-01 10:00:00.5,1\n"),
        "mine.csv: column 'a' must hold numbers; got datetime.datetime(2020, 1, 1, 10, 0, 0, 500000) in row 2 of the file",
    ),
    "missing value": (
        lambda folder: csv(folder, "a,y\n1,2\n,3\n"),
        "mine.csv: column 'a' must hold a finite number ... 1 of 2 ... row 3 of the file",
    ),
    "NaN": (
        lambda folder: csv(folder, "a,y\n1,2\nnan,3\ninf,3\n"),
        "mine.csv: column 'a' must hold a finite number ... 2 of 3 ... row 3 of the file",
    ),
    "short line": (
        lambda folder: csv(folder, "a,b,y\n1,2,3\n1,2\n"),
        "mine.csv, line 3: must have 3 cells, one for each column; got 2",
    ),
    "long lines": (
        lambda folder: csv(folder, "a,y\n1,2,3,4\n"),
        "mine.csv, line 2: must have 2 cells, one for each column; got 4",
    ),
    "no header": (
        lambda folder: csv(folder, "1,2\n3,4\n"),
        "mine.csv must have column names (in CSV, the first line); got ['1', '2']",
    ),
    "no name": (
        lambda folder: csv(folder, "a,,y\n1,2,3\n"),
        "mine.csv must name every column; column 2 has no name",
    ),
    "no rows": (lambda folder: csv(folder, "a,y\n"), "mine.csv must have rows below its header; got none"),
    "header only": (lambda folder: csv(folder, "a,y"), "mine.csv must have rows below its header; got none"),
    "empty": (
        lambda folder: csv(folder, ""),
        "mine.csv must have a header and rows; the file is empty",
    ),
    "no feature": (
        lambda folder: csv(folder, "y\n1\n"),
        "mine.csv must have at least two columns ... got ['y']",
    ),
    "another delimiter": (
        lambda folder: csv(folder, "a^y\n1^2\n"),
        "mine.csv must have at least two columns ... got ['a^y']",
    ),
    "underscore": (
        lambda folder: csv(folder, "a,y\n1,5\n1,1_000\n"),
        "mine.csv: column 'y' must hold numbers; got '1_000' in row 3 of the file",
    ),
    "an encoding that is not clear": (
        lambda folder: [(folder / "x.csv").write_bytes(b"a,y\n\x81,1\n"), read_dataset(folder / "x.csv")],
        "x.csv must be text in UTF-8 ... --encoding NAME",
    ),
    "pandas' index": (
        lambda folder: parquet_file(folder, a=[1, 2], y=[1, 2], __index_level_0__=[0, 1]),
        "mine.parquet has a pandas index ... __index_level_0__ ... index=False",
    ),
    "text in Parquet": (
        lambda folder: parquet_file(folder, a=["x", "y"], y=[1, 2]),
        "mine.parquet: column 'a' must hold numbers; got 'x' in row 0 (counted from 0)",
    ),
    "lists in Parquet": (
        lambda folder: parquet_file(folder, a=[[1, 2], [3, 4]], y=[1, 2]),
        "mine.parquet: column 'a' must hold numbers; got array([1, 2]) in row 0 (counted from 0)",
    ),
    "null in Parquet": (
        lambda folder: parquet_file(folder, a=[1, None], y=[1, 2]),
        "mine.parquet: column 'a' must hold a finite number ... 1 of 2 ... row 1, counted from 0",
    ),
    "cache": (
        lambda folder: [(folder / "x").write_text(""), load_dataset("star", cache_dir=folder / "x")],
        "the cache must be a folder; ",
    ),
    "path": (lambda folder: load_dataset(str(folder / "mine.json")), ".xlsx or .xlsm; got 'mine.json'"),
    "old Excel file": (
        lambda folder: load_dataset(str(folder / "mine.xls")),
        "mine.xls must be an Excel file of the current format; save it as .xlsx",
    ),
    "rows of arrays": (
        lambda folder: Dataset("mine", np.ones((3, 2)), [1.0, 2.0]),
        "X of mine ... 2 targets ... 2 features; got shape (3, 2)",
    ),
    "names of arrays": (
        lambda folder: Dataset("mine", np.ones((2, 2)), [1, 2], ("a",)),
        "a column for each of 1 features",
    ),
    "NaN in arrays": (
        lambda folder: Dataset("mine", [[np.nan]], [1.0]),
        "X of mine must be finite; NaN or infinite values: 1 of 1",
    ),
    "constant": (
        lambda folder: benchmark(folder, replace(data(), y=np.full(100, 7.0))),
        "the response of mine must vary; y is 7 in every row",
    ),
    "one data set": (
        lambda folder: run_benchmark(Benchmark(MODELS), data(), folder / "out"),
        "datasets must be a sequence of Dataset objects, made by load_dataset or from arrays",
    ),
    "a bare estimator": (
        lambda folder: Benchmark({"x": LinearRegression()}),
        "models must be a mapping from name to BenchmarkModel; got a value of type LinearRegression",
    ),
    "a list of models": (
        lambda folder: Benchmark([]),
        "models must be a mapping from name to BenchmarkModel; got list",
    ),
    "a bare score": (
        lambda folder: Benchmark(MODELS, {"x": Residual()}),
        "variants must be a mapping from name to Variant; got a value of type Residual",
    ),
    "no models": (lambda folder: Benchmark({}), "models must not be empty"),
    "no variants": (lambda folder: Benchmark(MODELS, {}), "variants must not be empty"),
    "no splits": (lambda folder: Benchmark(MODELS, splits=[]), "splits must not be empty"),
    "a split twice": (
        lambda folder: Benchmark(MODELS, splits=[1, 1]),
        "splits must be distinct seeds, whole numbers of 0 or more; got [1, 1]",
    ),
    "level": (lambda folder: Benchmark(MODELS, level=90), "did you mean 0.9?"),
    "low level": (
        lambda folder: paper_models(level=0.5),
        "level must be above 0.5 ... got 0.5",
    ),
    "epochs": (lambda folder: Benchmark(paper_models(epochs=0)), "epochs must be a positive whole number; got 0"),
    "device": (lambda folder: Benchmark(paper_models(device="gpu")), 'device must be "auto", "cpu" or "cuda"; got'),
    "workers": (lambda folder: benchmark(folder, data(), workers=0), "workers must be a positive whole number; got 0"),
    "few rows": (
        lambda folder: benchmark(folder, data(40)),
        "mine must have at least 74 rows ... 3 groups ... level 0.9; got 40",
    ),
    "very few rows": (lambda folder: benchmark(folder, data(1)), "mine must have at least 74 rows"),
    "same names": (
        lambda folder: benchmark(folder, data(), data()),
        "datasets must have distinct names; got ['mine', 'mine']",
    ),
    "no data": (lambda folder: benchmark(folder), "datasets must not be empty"),
    "output": (
        lambda folder: [(folder / "out").write_text(""), benchmark(folder, data())],
        "output must be a folder; ",
    ),
    "a model without spread": (
        lambda folder: benchmark(folder, data(), models={"linear": BenchmarkModel(LinearRegression())}),
        "the benchmark needs a prediction with ",
    ),
    "a baseline at another level": (
        lambda folder: benchmark(folder, data(), models={"forest": BenchmarkModel(QuantileForest(level=0.8))}),
        "QuantileForest predicts bounds at level 0.8 ... 0.9 ... pass BenchmarkModel a baseline at level 0.9",
    ),
    "no cluster": (
        lambda folder: benchmark(folder, data(), cluster="scheduler"),
        "found no Dask scheduler at 'scheduler': missing port number in address 'scheduler'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_clear_error(case, tmp_path):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError, OSError, RuntimeError), match=facts(message)):
        call(tmp_path)


def test_the_minimum_number_of_rows_suffices(tmp_path):
    """With the number in the error, no threshold is infinite (which would also be a warning)."""
    noise = np.random.default_rng(0).normal(size=74)
    models = {"MV": paper_models(epochs=1)["MV"]}
    rows = benchmark(tmp_path, replace(data(74), y=ROWS[:74] * noise), models=models)
    assert np.isfinite([row["threshold"] for row in rows if row["variant"] == "NCP" and row["group"] != "all"]).all()
