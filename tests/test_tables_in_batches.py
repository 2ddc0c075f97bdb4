"""Calibration and prediction of Parquet files: equal to arrays in memory, in any partition, with clear errors."""

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from evencover import (
    Calibration,
    Normalized,
    Prediction,
    Residual,
    Standardized,
    TooFewRowsWarning,
    calibrate,
    conformal_quantile,
)
from evencover.tables import calibrate as calibrate_table
from evencover.tables import predict
from tests.archives import rewrite
from tests.large_tables import COLUMNS, HOSTILE, in_memory, table
from tests.messages import facts
from tests.saved_files import FILES


def write_files(folder, whole, *, sizes=(1000, 0, 1, 1500, 499), row_group_size=400):
    """Write a table as several files of different sizes, one of them without rows."""
    folder.mkdir(exist_ok=True)
    start = 0
    for position, size in enumerate(sizes):
        pq.write_table(whole.slice(start, size), folder / f"part-{position}.parquet", row_group_size=row_group_size)
        start += size
    assert start == whole.num_rows
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path / "data", table())


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("levels", [0.9, [0.5, 0.9, 0.91, 0.995]])
def test_exact_thresholds_equal_those_in_memory(folder, workers, levels):
    """Bit by bit, for any number of threads and several levels."""
    found = calibrate_table(folder, **COLUMNS, level=levels, workers=workers)
    expected = in_memory(table())
    assert found.sizes == expected.sizes
    np.testing.assert_array_equal(found.threshold(levels), expected.threshold(levels))
    assert (found.excess(levels) == 0).all()
    assert found.guarantee.exact


def test_one_pass_gives_an_upper_bound(folder):
    """At most 0.1 % larger, and the share of scores next to it is known."""
    found = calibrate_table(folder, **COLUMNS, exact=False)
    exact = in_memory(table()).threshold(0.9)
    assert (found.threshold(0.9) >= exact).all()
    assert (found.threshold(0.9) <= exact * (1 + 2**-10)).all()
    assert (found.excess(0.9) > 0).all()
    assert (found.excess(0.9) < 0.01).all()


@pytest.mark.parametrize("labels", [HOSTILE, [3, -1, 2**40], [True, False]], ids=["text", "whole numbers", "booleans"])
def test_groups_can_have_any_name_and_type(tmp_path, labels):
    """Thresholds, file and intervals keep each of them apart."""
    whole = table(groups=labels)
    folder = write_files(tmp_path / "data", whole)
    found = calibrate_table(folder, **COLUMNS)
    found.save(tmp_path / "cal.evencover")
    loaded = Calibration.load(tmp_path / "cal.evencover")
    expected = in_memory(whole)
    thresholds = dict(zip(expected.labels, expected.threshold(0.9).tolist(), strict=True))
    for each in (found, loaded):
        assert list(map(type, each.labels)) == [type(label) for label in sorted(labels)]
        assert dict(zip(each.labels, each.threshold(0.9).tolist(), strict=True)) == thresholds
    predict(folder, loaded, output=tmp_path / "out")
    bounds = read(tmp_path / "out")
    intervals = expected.interval(
        Prediction(whole["c"].to_numpy(), spread=whole["s"].to_numpy()), groups=whole["g"].to_pylist()
    )
    np.testing.assert_array_equal(bounds["lower"], intervals.lower)
    np.testing.assert_array_equal(bounds["upper"], intervals.upper)


def read(folder):
    """Return the files of a folder as one table, in the order of their names."""
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))])


@pytest.mark.parametrize(
    ("columns", "score"),
    [
        ({"center": "c"}, Residual()),
        ({"lower": "low", "upper": "high"}, None),
        ({"center": "c", "spread": "s"}, Standardized()),
    ],
    ids=["center", "bounds", "own score"],
)
def test_every_kind_of_prediction(tmp_path, columns, score):
    """A center, bounds of the model (also crossed ones), and another score."""
    whole = table(500)
    c, s = whole["c"].to_numpy(), whole["s"].to_numpy()
    low, high = c - s, np.where(np.arange(500) % 50, c + s, c - 2 * s)
    pq.write_table(
        whole.append_column("low", pa.array(low)).append_column("high", pa.array(high)), tmp_path / "d.parquet"
    )
    found = calibrate_table(tmp_path / "d.parquet", target="y", **columns, nonconformity=score)
    prediction = Prediction.from_quantiles(low, high) if "lower" in columns else Prediction(c, spread=s)
    own = found.nonconformity
    assert found.threshold(0.9)[0] == conformal_quantile(own(whole["y"].to_numpy(), prediction), 0.9)
    predict(tmp_path / "d.parquet", found, output=tmp_path / "out.parquet", level=[0.9, 0.5])
    bounds = pq.read_table(tmp_path / "out.parquet")
    exact = calibrate(whole["y"].to_numpy(), prediction, nonconformity=own).interval(prediction, level=0.9)
    rounded = found.interval(prediction, level=0.5)
    for name, expected in (("lower_0.9", exact.lower), ("upper_0.9", exact.upper), ("lower_0.5", rounded.lower)):
        empty = (rounded if name == "lower_0.5" else exact).empty
        assert bounds[name].null_count == empty.sum()
        np.testing.assert_array_equal(bounds[name].to_numpy()[~empty], expected[~empty])


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("kind", ["close", "ties", "infinite", "zero", "negative", "tiny"])
def test_thresholds_of_difficult_scores_are_exact(tmp_path, kind, monkeypatch):
    """Also if so many scores lie in one bin that a second pass cannot keep them, and more passes are needed."""
    rng, n = np.random.default_rng(0), 2000
    y = {
        "close": 1 + rng.random(n) * 1e-9,
        "ties": rng.integers(1, 4, n).astype(float),
        "infinite": np.where(rng.random(n) < 0.5, 1e308, rng.normal(size=n)),
        "zero": np.where(rng.random(n) < 0.95, 0.0, rng.normal(size=n)),
        "negative": -rng.random(n),
        "tiny": rng.integers(0, 99, n) * 5e-324,
    }[kind]
    center = np.full(n, -1e308 if kind == "infinite" else 0.0)
    score = Standardized() if kind == "negative" else Residual()
    pq.write_table(pa.table({"y": y, "c": center, "s": np.ones(n)}), tmp_path / "d.parquet", row_group_size=300)
    options = {"target": "y", "center": "c", "nonconformity": score, "level": [0.5, 0.9, 0.9001]}
    options |= {"spread": "s"} if kind == "negative" else {}
    expected = conformal_quantile(score(y, Prediction(center, spread=np.ones(n))), options["level"])
    for limit in (2**22, 10):
        monkeypatch.setattr("evencover.tables.table_calibration._MAX_VALUES", limit)
        found = calibrate_table(tmp_path / "d.parquet", **options)
        np.testing.assert_array_equal(found.threshold(options["level"])[0], expected)


def test_groups_with_few_rows_are_infinite_and_named(tmp_path):
    whole = pa.concat_tables([table(500), table(5, groups=("rare",))])
    pq.write_table(whole, tmp_path / "d.parquet")
    found = calibrate_table(tmp_path / "d.parquet", **COLUMNS)
    with pytest.warns(TooFewRowsWarning, match="group 'rare' has 5"):
        assert found.threshold(0.9)[-1] == np.inf
    with pytest.warns(TooFewRowsWarning, match="group 'rare' has 5"):
        written = predict(tmp_path / "d.parquet", found, output=tmp_path / "out.parquet")
    assert (written.rows, written.n_infinite) == (505, 5)
    assert np.isinf(pq.read_table(tmp_path / "out.parquet")["upper"].to_numpy()[-5:]).all()


def test_columns_in_paths_can_be_groups(tmp_path):
    """Folders such as region=a%20b/year=2024; the output has the same folders, and the columns stay in the path."""
    whole = table(900)
    for label, part in (("a b", whole.slice(0, 400)), ("é/x", whole.slice(400, 500))):
        for year, half in ((2024, part.slice(0, 150)), (2025, part.slice(150))):
            path = tmp_path / "data" / f"region={label.replace(' ', '%20').replace('/', '%2F')}" / f"year={year}"
            path.mkdir(parents=True)
            pq.write_table(half, path / "x.parquet")
    by_text = calibrate_table(tmp_path / "data", target="y", center="c", group="region")
    assert by_text.sizes == {"a b": 400, "é/x": 500}
    by_year = calibrate_table(tmp_path / "data", target="y", center="c", group="year")
    assert by_year.sizes == {2024: 300, 2025: 600}
    predict(tmp_path / "data", by_year, output=tmp_path / "out")
    names = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet"))
    assert names == sorted(
        path.relative_to(tmp_path / "data").as_posix() for path in (tmp_path / "data").rglob("*.parquet")
    )
    assert pq.ParquetFile(tmp_path / "out" / names[0]).schema_arrow.names == ["y", "c", "s", "g", "lower", "upper"]


@pytest.mark.parametrize("kind", ["dataset", "table", "feather"])
def test_arrow_datasets_are_data(folder, tmp_path, kind):
    """Datasets of any format, and tables."""
    whole = table()
    if kind == "feather":
        ds.write_dataset(whole, tmp_path / "feather", format="feather", max_rows_per_file=1000, max_rows_per_group=1000)
    data = {
        "dataset": lambda: ds.dataset(folder),
        "table": lambda: whole,
        "feather": lambda: ds.dataset(tmp_path / "feather", format="feather"),
    }[kind]()
    found = calibrate_table(data, **COLUMNS)
    np.testing.assert_array_equal(found.threshold(0.9), in_memory(whole).threshold(0.9))
    output = tmp_path / ("out.parquet" if kind == "table" else "out")
    assert predict(data, found, output=output).rows == 3000
    written = pq.read_table(output) if kind == "table" else read(output)
    assert written.column_names == ["y", "c", "s", "g", "lower", "upper"]
    np.testing.assert_array_equal(written["y"], whole["y"])


def test_all_columns_and_rows_are_kept(tmp_path):
    """Lists, dates, missing values and metadata too; columns with the name of a bound get a prefix."""
    whole = table(1200).append_column("lower", pa.array([None, "x", "y"] * 400))
    whole = whole.append_column("when", pa.array(np.arange(1200), pa.timestamp("us")))
    whole = whole.append_column("list", pa.array([[1], None, []] * 400)).replace_schema_metadata({"made": "here"})
    folder = write_files(tmp_path / "data", whole, sizes=(700, 500))
    found = calibrate_table(folder, **COLUMNS)
    predict(folder, found, output=tmp_path / "out")
    written = read(tmp_path / "out")
    assert written.column_names == ["y", "c", "s", "g", "table_lower", "when", "list", "lower", "upper"]
    assert written.schema.metadata[b"made"] == b"here"
    for name in ("y", "g", "when", "list"):
        assert written[name].combine_chunks() == whole[name].combine_chunks()
    assert written["table_lower"].combine_chunks() == whole["lower"].combine_chunks()


def test_targets_are_not_needed_to_predict(folder, tmp_path):
    found = calibrate_table(folder, **COLUMNS)
    pq.write_table(table(200, seed=5).drop_columns(["y"]), tmp_path / "new.parquet")
    assert predict(tmp_path / "new.parquet", found, output=tmp_path / "out.parquet").rows == 200


def test_a_new_group_is_an_error_unless_requested(folder, tmp_path):
    found = calibrate_table(folder, **COLUMNS)
    pq.write_table(table(20, groups=("a", "new", "other")), tmp_path / "new.parquet")
    with pytest.raises(ValueError, match=re.escape("new.parquet: groups must be among those of the calibration")):
        predict(tmp_path / "new.parquet", found, output=tmp_path / "out.parquet")
    predict(tmp_path / "new.parquet", found, output=tmp_path / "inf.parquet", unseen="inf")
    written = pq.read_table(tmp_path / "inf.parquet")
    assert (np.isinf(written["upper"].to_numpy()) == (written["g"].to_numpy() != "a")).all()
    predict(tmp_path / "new.parquet", found, output=tmp_path / "all.parquet", unseen="marginal")
    written = pq.read_table(tmp_path / "all.parquet")
    marginal = calibrate_table(folder, target="y", center="c", spread="s", exact=False).threshold(0.9)[0]
    half = (written["upper"].to_numpy() - written["lower"].to_numpy()) / 2 / written["s"].to_numpy()
    np.testing.assert_allclose(half[written["g"].to_numpy() != "a"], marginal)


def with_cell(whole, name, row, value):
    values = whole[name].to_pylist()
    values[row] = value
    return whole.set_column(whole.column_names.index(name), name, pa.array(values))


BAD = {
    "missing group": (lambda t: with_cell(t, "g", 3, None), "column 'g' (group) must have a label ... 1 of 1500 rows ... row 3"),
    "NaN target": (lambda t: with_cell(t, "y", 700, np.nan), "column 'y' (target) must hold a finite number ... 1 of 1500 rows ... row 700"),
    "missing center": (lambda t: with_cell(t, "c", 9, None), "column 'c' (center) must hold a finite number ... 1 of 1500"),
    "infinite center": (lambda t: with_cell(t, "c", 9, np.inf), "column 'c' (center) must hold a finite number"),
    "zero spread": (lambda t: with_cell(t, "s", 0, 0.0), "column 's' (spread) must be positive and finite ... 1 of 1500 rows ... row 0"),
    "several": (lambda t: with_cell(with_cell(t, "s", 5, -1.0), "y", 6, None), "column 'y' (target) must hold a finite number ... 1 of 1500 rows ... row 6 ... column 's' (spread) must"),
    "no column": (lambda t: t.rename_columns(["y", "C", "s", "g"]), "center ... 'c' ... did you mean 'C'? ... ['y', 'C', 's', 'g']"),
    "text target": (lambda t: t.set_column(0, "y", pa.array(["1"] * 1500)), "column 'y' (target) must hold numbers ... text (string)"),
    "other groups": (lambda t: t.set_column(3, "g", pa.array([1] * 1500)), "column 'g' (group) holds whole numbers, but in part-0.parquet it holds text"),
    "date groups": (lambda t: t.set_column(3, "g", pa.array([1] * 1500, pa.date32())), "column 'g' (group) must hold text or whole numbers or booleans ... date32[day]"),
}  # fmt: skip


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_wrong_values_are_one_error_that_names_the_file(tmp_path, change, message, workers):
    """All problems of the file are listed, with the number of rows and the first of them. Nothing is written."""
    folder = write_files(tmp_path / "data", table())
    pq.write_table(change(table().slice(1001, 1500)), folder / "part-3.parquet", row_group_size=300)
    with pytest.raises(ValueError, match=facts(f"part-3.parquet: {message}")):
        calibrate_table(folder, **COLUMNS, workers=workers)
    if "target" not in message:
        good = calibrate_table(table(), **COLUMNS)
        with pytest.raises(ValueError, match=facts(f"part-3.parquet: {message}")):
            predict(folder, good, output=tmp_path / "out", workers=workers)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_of_several_files_with_errors_the_first_is_reported(tmp_path):
    """In every run, whichever thread is faster: the error of the first file comes late in it."""
    whole = table(60_000)
    folder = write_files(tmp_path / "data", whole, sizes=(59_000, 1000), row_group_size=5000)
    for name, part, row in (("part-0", whole.slice(0, 59_000), 58_000), ("part-1", whole.slice(59_000), 0)):
        pq.write_table(with_cell(part, "c", row, None), folder / f"{name}.parquet", row_group_size=5000)
    good = calibrate_table(whole, **COLUMNS)
    message = "part-0.parquet: column 'c' (center) must hold a finite number ... 1 of 59000 rows ... row 58000"
    for _ in range(5):
        with pytest.raises(ValueError, match=facts(message)):
            predict(folder, good, output=tmp_path / "out", workers=2)
        with pytest.raises(ValueError, match=facts(message)):
            calibrate_table(folder, **COLUMNS, workers=2)


def test_files_that_cannot_be_read_are_named(folder):
    (folder / "part-2.parquet").write_bytes(b"PAR1 this is not Parquet")
    with pytest.raises(ValueError, match=r"part-2\.parquet: cannot be read: .*Parquet"):
        calibrate_table(folder, **COLUMNS)
    content = (folder / "part-3.parquet").read_bytes()
    (folder / "part-2.parquet").unlink()
    middle = len(content) // 2
    (folder / "part-3.parquet").write_bytes(content[:200] + b"\xff" * (middle - 200) + content[middle:])
    with pytest.raises(ValueError, match=r"part-3\.parquet: "):
        calibrate_table(folder, **COLUMNS)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: path / "none.parquet", FileNotFoundError, "there is no file or folder"),
        (lambda path: path, ValueError, "must hold Parquet files; it holds none"),
        (lambda path: (path / "x.csv", (path / "x.csv").write_text("y\n1\n"))[0], ValueError, "must be a .parquet file or a folder of such files; got 'x.csv'"),
        (lambda path: table(0), ValueError, "data must have rows; got none"),
        (lambda path: [1, 2], TypeError, "data must be a Parquet file ... folder ... pyarrow dataset or table ... Dask or Spark DataFrame ... got builtins.list"),
    ],
)  # fmt: skip
def test_data_must_have_rows(tmp_path, make, error, message):
    with pytest.raises(error, match=facts(message)):
        calibrate_table(make(tmp_path), **COLUMNS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"center": None, "spread": None}, "predictions must have a center, or lower and upper; got neither"),
        ({"lower": "c"}, "lower and upper must be given together"),
        ({"lower": "c", "upper": "y"}, "predictions must have a spread, or lower and upper; got both"),
        ({"group": 3}, "group must be the name of a column; got 3"),
        ({"level": 90}, "did you mean 0.9?"),
        ({"bits": 60}, "bits must be a whole number from 0 to 52; got 60"),
        ({"workers": 0}, "workers must be a positive whole number; got 0"),
    ],
)
def test_wrong_options_are_errors(folder, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        calibrate_table(folder, **{**COLUMNS, **options})


@pytest.mark.parametrize("factor", [1.5, 1 + 1e-4, 0.99])
def test_data_that_changes_between_the_passes_is_an_error(folder, factor):
    """Thresholds from two versions of the data would be wrong. Those of files are known; those of a dataset are not."""

    def change_at_the_end(done, total):
        if done < total:
            return
        part = table().slice(0, 1000)
        part = part.set_column(
            0, "y", pa.array(part["c"].to_numpy() + factor * (part["y"].to_numpy() - part["c"].to_numpy()))
        )
        pq.write_table(part, folder / "part-0.parquet", row_group_size=400)

    with pytest.raises(RuntimeError, match="the data changed while it was read; calibrate again"):
        calibrate_table(ds.dataset(folder), **COLUMNS, level=[0.1, 0.5, 0.9], progress=change_at_the_end)


def test_links_to_folders_are_followed_once(folder, tmp_path):
    """A folder behind a link is data; a link to a folder that was read already would count its rows twice."""
    other = write_files(tmp_path / "other", table(seed=4))
    (folder / "more").symlink_to(other)
    assert sum(calibrate_table(folder, **COLUMNS).sizes.values()) == 6000
    (folder / "loop").symlink_to(folder)
    with pytest.raises(ValueError, match="must hold each folder once"):
        calibrate_table(folder, **COLUMNS)


def test_the_file_of_a_dataset_is_named(folder):
    pq.write_table(with_cell(table().slice(1001, 1500), "y", 3, None), folder / "part-3.parquet")
    with pytest.raises(
        ValueError, match=re.escape("data/part-3.parquet: column 'y' (target) must hold a finite number")
    ):
        calibrate_table(ds.dataset(folder), **COLUMNS)


def test_hidden_files_are_not_data(folder):
    """Names that begin with a dot or an underscore, and other formats."""
    pq.write_table(table(50, groups=("other",)), folder / "_hidden.parquet")
    (folder / "_delta_log").mkdir()
    pq.write_table(table(50, groups=("other",)), folder / "_delta_log" / "1.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.parquet.crc").write_text("x")
    (folder / "notes.txt").write_text("x")
    assert sum(calibrate_table(folder, **COLUMNS).sizes.values()) == 3000


def test_an_interrupted_prediction_leaves_nothing_behind(folder, tmp_path):
    """Neither the output, nor temporary files, nor threads."""
    found = calibrate_table(folder, **COLUMNS)

    def interrupt(done, total):
        raise KeyboardInterrupt

    n_threads = threading.active_count()
    for data, output in ((folder, tmp_path / "out"), (folder / "part-0.parquet", tmp_path / "out.parquet")):
        with pytest.raises(KeyboardInterrupt):
            predict(data, found, output=output, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        calibrate_table(folder, **COLUMNS, progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert threading.active_count() == n_threads


def test_progress_counts_all_rows(folder, tmp_path):
    seen = []
    found = calibrate_table(folder, **COLUMNS, progress=lambda *each: seen.append(each))
    assert seen.count((3000, 3000)) == 2  # two passes
    seen.clear()
    predict(folder, found, output=tmp_path / "out", progress=lambda *each: seen.append(each))
    assert seen[-1] == (3000, 3000)


def test_existing_output_is_not_overwritten_by_a_folder(folder, tmp_path):
    found = calibrate_table(folder, **COLUMNS)
    (tmp_path / "out").mkdir()
    predict(folder, found, output=tmp_path / "out")  # an empty folder may exist
    with pytest.raises(FileExistsError, match="output must be a new folder"):
        predict(folder, found, output=tmp_path / "out")
    with pytest.raises(ValueError, match=re.escape("output must be a .parquet file, because the data is one")):
        predict(folder / "part-0.parquet", found, output=tmp_path / "out2")


@dataclass(frozen=True)
class Watched:
    """A score that notes the sizes of the batches, and the threads that compute it."""

    sizes: list = field(default_factory=list)
    threads: set = field(default_factory=set)

    def __call__(self, y, prediction):
        self.sizes.append(len(y))
        self.threads.add(threading.get_ident())
        return Normalized()(y, prediction)

    def interval(self, threshold, prediction):
        return Normalized().interval(threshold, prediction)


def test_files_are_read_in_batches(tmp_path):
    """Also a file with one large row group: of 100 000 rows, at most 32 768 are in memory for each batch."""
    pq.write_table(table(100_000), tmp_path / "large.parquet", row_group_size=100_000)
    score = Watched()
    calibrate_table(tmp_path / "large.parquet", **COLUMNS, nonconformity=score, exact=False, workers=1)
    assert sum(score.sizes) == 100_000
    assert max(score.sizes) == 2**15


def test_one_thread_counts_and_the_others_read(folder, monkeypatch):
    score, reading, iter_batches = Watched(), set(), pq.ParquetFile.iter_batches

    def read(self, *arguments, **options):
        reading.add(threading.get_ident())
        return iter_batches(self, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read)
    calibrate_table(folder, **COLUMNS, nonconformity=score, exact=False, workers=3)
    counting = score.threads
    assert counting == {threading.get_ident()}
    assert counting.isdisjoint(reading)
    assert 1 <= len(reading) <= 2


def test_calibrations_of_several_days_merge():
    """Also if a group is missing on some days; thresholds are upper bounds then."""
    days = [table(700, seed=1), table(800, seed=2, groups=("b", "d"))]
    first, second = (calibrate_table(day, **COLUMNS) for day in days)
    merged, whole = first.merge(second), calibrate_table(pa.concat_tables(days), **COLUMNS, exact=False)
    assert merged.sizes == whole.sizes
    np.testing.assert_array_equal(merged.threshold(0.9), whole.threshold(0.9))
    with pytest.raises(ValueError, match="merge needs calibrations with the same columns"):
        first.merge(calibrate_table(days[1], target="y", center="c"))


def test_a_guarantee_excludes_unseen_groups(folder, tmp_path):
    """Also if they are in several files."""
    found = calibrate_table(folder, **COLUMNS)
    new = write_files(tmp_path / "new", table(groups=("a", "x", "y")))
    guarantee = predict(new, found, output=tmp_path / "out", unseen="marginal").guarantee
    assert guarantee.without == ("x", "y")
    assert str(guarantee).endswith("No guarantee for rows of unseen groups: x, y.")


def test_only_labels_that_occur_are_groups(tmp_path):
    """Not the other categories of pandas or polars."""
    whole = table(900)
    codes = pa.array(np.searchsorted(["a", "b", "c"], whole["g"].to_pylist()).astype(np.int32) + 1)
    categories = pa.DictionaryArray.from_arrays(codes, pa.array(["zz", "a", "b", "c", "unused"]))
    pq.write_table(whole.set_column(3, "g", categories), tmp_path / "d.parquet")
    found = calibrate_table(tmp_path / "d.parquet", **COLUMNS)
    assert found.sizes == in_memory(whole).sizes
    plain = calibrate_table(whole, **COLUMNS)
    assert predict(tmp_path / "d.parquet", plain, output=tmp_path / "out.parquet").rows == 900
    missing = pa.DictionaryArray.from_arrays(codes, pa.array(["zz", None, "b", "c", "unused"]))
    with pytest.raises(ValueError, match=re.escape("column 'g' (group) must have a label in every row")):
        calibrate_table(whole.set_column(3, "g", missing), **COLUMNS)


def test_files_without_row_groups_are_empty(folder, tmp_path):
    """As polars writes them."""
    with pq.ParquetWriter(folder / "part-9.parquet", table().schema):
        pass
    found = calibrate_table(folder, **COLUMNS)
    assert sum(found.sizes.values()) == 3000
    predict(folder, found, output=tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "part-9.parquet").num_rows == 0


def test_the_output_never_replaces_the_data(folder, tmp_path):
    found = calibrate_table(folder, **COLUMNS)
    one = folder / "part-0.parquet"
    before = one.read_bytes()
    (tmp_path / "link.parquet").symlink_to(one)
    for output in (one, tmp_path / "link.parquet"):
        with pytest.raises(ValueError, match="output must not be a file of the data"):
            predict(one, found, output=output)
    for output in (folder, folder / "out"):
        with pytest.raises((ValueError, FileExistsError), match="output must"):
            predict(folder, found, output=output)
    assert one.read_bytes() == before


def test_a_file_is_written_through_a_link(folder, tmp_path):
    """The link stays, and its target has the content. Other things than files are not replaced."""
    found = calibrate_table(folder, **COLUMNS)
    (tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    found.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert Calibration.load(tmp_path / "target.json").sizes == found.sizes
    with pytest.raises(OSError, match="a file can be written only in place of a file"):
        found.save("/dev/null")


@pytest.mark.parametrize("bits", [0, 10, 52])
def test_files_hold_scores_of_all_sizes(tmp_path, bits):
    """The steps between rounded scores can be larger than 64 bits."""
    y = np.array([-3.0, 3.0, -1e300, 1e300, 0.0, 5e-324])
    data = pa.table({"y": y, "c": np.zeros(6), "s": np.ones(6)})
    found = calibrate_table(
        data, target="y", center="c", spread="s", nonconformity=Standardized(), bits=bits, level=0.5
    )
    found.save(tmp_path / "cal.evencover")
    loaded = Calibration.load(tmp_path / "cal.evencover")
    levels = [0.2, 0.5, 0.8]
    np.testing.assert_array_equal(loaded.threshold(levels), found.threshold(levels))


def test_missing_values_in_paths_are_missing(tmp_path):
    """As Hive and Spark write them; 01 is text."""
    for name in ("1", "2", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "data" / f"g={name}").mkdir(parents=True)
        pq.write_table(table(300).drop_columns(["g"]), tmp_path / "data" / f"g={name}" / "x.parquet")
    with pytest.raises(
        ValueError, match=r"g=__HIVE_DEFAULT_PARTITION__/x\.parquet: column 'g' \(group\) must have a label"
    ):
        calibrate_table(tmp_path / "data", **COLUMNS)
    (tmp_path / "data" / "g=__HIVE_DEFAULT_PARTITION__").rename(tmp_path / "data" / "g=01")
    assert calibrate_table(tmp_path / "data", **COLUMNS).sizes == {"01": 300, "1": 300, "2": 300}


def test_calibrations_with_labels_of_two_types_do_not_merge():
    first, second = (calibrate_table(table(100, groups=groups), **COLUMNS) for groups in (("1", "2"), (1, 2)))
    with pytest.raises(ValueError, match="merge needs calibrations with groups of one type; got int and str"):
        first.merge(second)


def test_duplicate_column_names_are_one_error(tmp_path):
    whole = table(100)
    pq.write_table(
        pa.Table.from_arrays([*whole.columns, whole["s"]], names=["y", "c", "s", "g", "s"]), tmp_path / "d.parquet"
    )
    with pytest.raises(ValueError, match=re.escape("d.parquet: duplicate column names: ['s']")):
        calibrate_table(tmp_path / "d.parquet", target="y", center="c")


def test_large_whole_numbers_are_targets():
    n = 50
    y = 1024 * np.arange(n) + 2**60
    found = calibrate_table(pa.table({"y": y, "c": np.full(n, 2**60)}), target="y", center="c")
    assert found.threshold(0.9)[0] == 1024 * 45


def test_a_text_names_some_of_many_groups():
    """Of a thousand groups, with their numbers of rows."""
    groups = [f"{number:04}" for number in range(1000)]
    rng = np.random.default_rng(0)
    whole = pa.table({"y": rng.normal(size=10_000), "c": np.zeros(10_000), "g": groups * 10})
    found = calibrate_table(whole, target="y", center="c", group="g", level=0.5)
    text = str(found)
    assert "0000     10" in text
    assert "and 950 more groups" in text
    assert "and 980 more groups" in text
    assert len(text) < 5000
    expected = calibrate(whole["y"].to_numpy(), whole["c"].to_numpy(), groups=groups * 10).threshold(0.5)
    np.testing.assert_array_equal(found.threshold(0.5), expected)


def test_a_file_keeps_everything(folder, tmp_path):
    """Exact thresholds, other levels, the score with its settings, infinite scores."""
    found = calibrate_table(folder, **COLUMNS, level=[0.9, 0.5], nonconformity=Normalized(floor=0.1, scale=2.0))
    found.save(tmp_path / "cal.evencover")
    loaded = Calibration.load(tmp_path / "cal.evencover")
    assert (loaded.columns, loaded.levels, loaded.sizes) == (found.columns, found.levels, found.sizes)
    assert loaded.nonconformity == found.nonconformity
    levels = [0.9, 0.5, 0.77]
    np.testing.assert_array_equal(loaded.threshold(levels), found.threshold(levels))
    np.testing.assert_array_equal(loaded.excess(levels), found.excess(levels))
    assert str(loaded) == str(found)


class Own(Residual):
    """A score of the user's."""


def test_a_score_of_the_users_own_is_passed_to_load(folder, tmp_path):
    calibrate_table(folder, target="y", center="c", nonconformity=Own()).save(tmp_path / "cal.evencover")
    with pytest.raises(ValueError, match="its score is of your class Own: pass it as nonconformity="):
        Calibration.load(tmp_path / "cal.evencover")
    assert Calibration.load(tmp_path / "cal.evencover", nonconformity=Own()).nonconformity == Own()


def changed_json(content, change):
    data = json.loads(content)
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("groups"), "is not a calibration file written by evencover, or it is corrupt"),
        (lambda data: data["groups"][0]["counts"].pop(), "the counts of group 'a' do not belong together"),
        (lambda data: data["groups"][0]["counts"].__setitem__(0, -5), "the counts of group 'a' do not belong together"),
        (lambda data: data.update(version=99), "written by a newer evencover"),
        (lambda data: data.update(format="evencover.network"), "its format is 'evencover.network'"),
        (lambda data: data["columns"].update(center=None), "predictions must have a center"),
        (lambda data: data.update(bits=60), "bits must be a whole number from 0 to 52"),
        (lambda data: data.update(levels=[]), "level must be one level or several"),
        (lambda data: data["groups"].append(data["groups"][0]), "labels must be distinct"),
    ],
)
def test_damaged_files_of_version_4_are_errors(tmp_path, change, message):
    path = tmp_path / "cal.json"
    path.write_text(changed_json((FILES / "v4" / "calibration_table.evencover").read_bytes(), change))
    with pytest.raises(ValueError, match=re.escape(message)):
        Calibration.load(path)
    path.write_text("{not JSON")
    with pytest.raises(ValueError, match="is not a calibration file"):
        Calibration.load(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bits": None}, "bits must be a whole number from 0 to 52; got None"),
        ({"bits": 60}, "bits must be a whole number from 0 to 52; got 60"),
        ({"labels": ["a", "b"]}, "its histograms are of other groups than .'a', 'b'"),
        ({"labels": ["a", "b", "a"]}, "labels must be distinct"),
        ({"columns": {"target": "y"}}, "predictions must have a center"),
        ({"levels": []}, "level must be one level or several"),
    ],
)
def test_damaged_files_are_errors(folder, tmp_path, values, message):
    path = tmp_path / "cal.evencover"
    calibrate_table(folder, **COLUMNS).save(path)
    rewrite(path, values=values)
    with pytest.raises(ValueError, match=rf"cal\.evencover is not a calibration file .*{message}"):
        Calibration.load(path)


def test_damaged_counts_are_errors(folder, tmp_path):
    path = tmp_path / "cal.evencover"
    calibrate_table(folder, **COLUMNS).save(path)
    rewrite(path, arrays={"lengths": np.array([1, 2, 3])})
    with pytest.raises(ValueError, match=r"cal\.evencover is not a calibration file"):
        Calibration.load(path)


def test_calibration_loads_numpy_and_pyarrow_only(tmp_path):
    """So it needs little memory: pyarrow.dataset would load pandas."""
    pq.write_table(table(100), tmp_path / "d.parquet")
    code = (
        "import sys\nfrom evencover.tables import calibrate\n"
        f"calibrate({os.fspath(tmp_path / 'd.parquet')!r}, target='y', center='c', spread='s', group='g')\n"
        "print([name for name in ('pandas', 'sklearn', 'scipy', 'pyarrow.dataset') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_calibration_of_arrays_does_not_know_the_columns(folder, tmp_path):
    with pytest.raises(ValueError, match="predictor must know the columns of a table; got a calibration of arrays"):
        predict(folder, calibrate([1.0, 2.0], [0.0, 0.0]), output=tmp_path / "out")
