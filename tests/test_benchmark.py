"""The benchmark: the same numbers in one process, in several, on a cluster and after an interruption; its summary."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from pyarrow import parquet
from scipy.stats import betabinom, ks_2samp
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from evencover import Prediction, Residual, Standardized, TooFewRowsWarning
from evencover.datasets import Dataset, load_dataset
from evencover.models import DropoutEnsemble, MeanVarianceNetwork, QuantileNetwork, WithSpread
from evencover.reproduction.benchmark import (
    VARIANTS,
    Benchmark,
    BenchmarkModel,
    Trial,
    Variant,
    model_fits,
    paper_models,
    run_benchmark,
    run_trial,
)
from evencover.reproduction.benchmark.results import benchmark_figure, summarize, summary_text, write_results
from evencover.reproduction.benchmark.runs import run_task, unfinished_trials
from evencover.reproduction.benchmark.trials import BINNING_METHODS, SplitPredictions
from evencover.reproduction.benchmark.workers import ProgressFile, progress_files, report_progress
from evencover.reproduction.simulation import seed_of
from evencover.synthetic import heteroskedastic
from tests.archives import sealed, zipped
from tests.messages import facts
from tests.processes import descendants, parents, still_there
from tests.synthetic import ONE_IN_A_MILLION

LEVEL = 0.9
SPLITS = (13, 2)


def synthetic(n=150, name="mine", seed=0):
    sample = heteroskedastic(n, seed=seed)
    return Dataset(name, sample.X, sample.y, tuple(f"x{i}" for i in range(sample.X.shape[1])), "y")


def write_csv(folder, data):
    """Write a data set to a CSV file, and return its path."""
    path = folder / f"{data.name}.csv"
    header = ",".join([*data.features, data.response])
    np.savetxt(path, np.column_stack([data.X, data.y]), delimiter=",", header=header, comments="", fmt="%.17g")
    return path


def small(**settings):
    return Benchmark(**{"models": paper_models(epochs=2), "splits": SPLITS, **settings})


def imagined_predictions(n=300, m=200, seed=0):
    """Return the predictions of an imagined model for n calibration rows and m test rows."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 3.0, n + m)
    center = rng.normal(size=n + m)
    prediction = Prediction(center, spread, center - 0.8 * spread, center + spread, level=0.8)
    y = center + spread * rng.normal(size=n + m)
    return SplitPredictions(y, n, prediction, Prediction(center + 0.1, 1.1 * spread, level=LEVEL))


def trial(variant, binning="as run"):
    return Trial("mine", "QR", 13, variant, binning, LEVEL)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Return a data set's file, the folder of an uninterrupted run on it, and its rows."""
    folder = tmp_path_factory.mktemp("whole")
    path = write_csv(folder, synthetic())
    return path, folder / "out", run_benchmark(small(), [load_dataset(str(path))], folder / "out")


@pytest.fixture(scope="module")
def whole_run_with_files(whole_run):
    """Return the same, with the table, the summary and the figures in the folder."""
    _, folder, rows = whole_run
    list(write_results(rows, summarize(rows), folder))
    return whole_run


def test_the_key_of_a_trial_never_changes():
    """A new key would discard the results of older versions."""
    one = Trial("concrete", "QR", 13, "mNCP", "exact", 0.9)
    assert one.key == "2fd96cff158583a54f8d"
    keys = {replace(one, **{name: value}).key for name, value in (("data", "x"), ("split", 2), ("binning", "as run"))}
    assert len(keys | {one.key}) == 4


def test_splits_are_those_of_the_paper():
    """A fifth of the rows test, the rest is halved; both random splits use the same seed."""
    rows = np.arange(1030)
    rest, test = train_test_split(rows, test_size=0.2, random_state=13)
    training, calibration = train_test_split(rest, test_size=0.5, random_state=13)
    split = model_fits.Split.of(1030, 13)
    for found, expected in ((split.training, training), (split.calibration, calibration), (split.test, test)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_a_trial_equal_a_plain_numpy_computation(variant):
    """Groups as in the paper's code; scores, ranks and measures written out."""
    predictions, n = imagined_predictions(), 300
    y, prediction = predictions.y, predictions.prediction
    edges = np.quantile(prediction.spread[:n] ** 2, [1 / 3, 2 / 3])
    codes = np.searchsorted(edges, prediction.spread**2)
    scores = {
        "Point": np.abs(y - prediction.center),
        "Int": np.maximum(prediction.lower - y, y - prediction.upper),
        "N": np.abs(y - prediction.center) / prediction.spread,
    }
    low, high, center = predictions.baseline.lower, predictions.baseline.upper, predictions.baseline.center
    thresholds = np.full(4, np.nan)
    score = None
    if variant != "baseline":
        kind = variant.removeprefix("m").removesuffix("CP")
        score, center = scores[kind], prediction.center
        own = (lambda group: codes[:n] == group) if not variant.startswith("m") else (lambda group: np.full(n, True))
        pools = [np.sort(score[:n][own(group)]) for group in range(3)]
        limits = np.array([pool[int(np.ceil(0.9 * (len(pool) + 1))) - 1] for pool in pools])
        t = limits[codes]
        low = {"Point": center - t, "Int": prediction.lower - t, "N": center - t * prediction.spread}[kind]
        high = {"Point": center + t, "Int": prediction.upper + t, "N": center + t * prediction.spread}[kind]
        thresholds = np.append(limits[0] if variant.startswith("m") else np.nan, limits)
    found = run_trial(trial(variant), predictions)
    assert [row["group"] for row in found] == ["all", "low", "medium", "high"]
    new = np.arange(len(y)) >= n
    for place, row in enumerate(found):
        rows = new if place == 0 else new & (codes == place - 1)
        missed = np.maximum(low - y, 0) + np.maximum(y - high, 0)
        expected = {
            "n_test": rows.sum(),
            "n_calibration": n if place == 0 else (codes[:n] == place - 1).sum(),
            "covered": ((low <= y) & (y <= high))[rows].sum(),
            "coverage": ((low <= y) & (y <= high))[rows].mean(),
            "width": (high - low)[rows].mean(),
            "winkler": (high - low + 20 * missed)[rows].mean(),
            "r2": r2_score(y[rows], center[rows]),
            "threshold": thresholds[place],
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, nan_ok=True)
        pairs = {"ks_low_medium": (0, 1), "ks_low_high": (0, 2), "ks_medium_high": (1, 2)}
        for name, (a, b) in pairs.items():
            two = None if score is None else [score[:n][codes[:n] == group] for group in (a, b)]
            assert row[name] == pytest.approx(np.nan if two is None else ks_2samp(*two).pvalue, nan_ok=True)


def test_exact_groups_do_not_count_edge_rows():
    sizes = {row["group"]: row["n_calibration"] for row in run_trial(trial("NCP", "exact"), imagined_predictions())}
    assert sizes == {"all": 300, "low": 99, "medium": 99, "high": 100}


def test_a_group_without_test_rows_has_no_measures():
    predictions = imagined_predictions()
    calm = np.flatnonzero(predictions.prediction.spread[300:] < 1.0) + 300  # all of the lowest third
    rows = np.concatenate([np.arange(300), calm])
    few = SplitPredictions(predictions.y[rows], 300, predictions.prediction[rows], predictions.baseline[rows])
    for row in run_trial(trial("NCP"), few)[2:]:
        assert (row["n_test"], row["covered"]) == (0, 0)
        assert np.isnan([row[name] for name in ("coverage", "width", "winkler", "r2")]).all()
        assert np.isfinite(row["threshold"])


def test_a_trial_is_a_pure_function():
    predictions = imagined_predictions()
    assert json.dumps(run_trial(trial("NCP"), predictions)) == json.dumps(run_trial(trial("NCP"), predictions))


def test_the_networks_of_all_splits_are_trained_jointly(tmp_path, monkeypatch):
    """Quantile networks at two levels, and one mean-variance network for both models that use it."""
    stacks, seeds = [], []

    def recording(networks, *rest, **settings):
        stacks.append([type(network) for network in networks])
        seeds.extend(network.random_state for network in networks)
        return fit_jointly(networks, *rest, **settings)

    fit_jointly = model_fits.fit_jointly
    monkeypatch.setattr(model_fits, "fit_jointly", recording)
    monkeypatch.setattr("evencover.models.networks.fit_jointly", None)  # it would train another network
    run_benchmark(small(), [synthetic()], tmp_path)
    assert stacks == [[QuantileNetwork] * 4 + [MeanVarianceNetwork] * 2]
    kinds = ["QuantileNetwork"] * 2 + ["MeanVarianceNetwork"]
    assert seeds == [seed_of(0, "mine", str(split), kind) % 2**32 for kind in kinds for split in SPLITS]


def measures(rows, model, *, splits=SPLITS):
    """Return the thresholds, widths and interval scores of a model, which depend on its predictions."""
    names = ("threshold", "width", "winkler")
    return np.array([[row[name] for name in names] for row in rows if row["model"] == model and row["split"] in splits])


def test_a_networks_seed_depends_only_on_data_set_split_and_class(whole_run, tmp_path):
    """Not on the models that share the network, nor on the networks that are trained jointly with it."""
    path, _, every = whole_run
    one = Benchmark({"MVE": paper_models(epochs=2)["MVE"]}, splits=SPLITS)
    alone = run_benchmark(one, [load_dataset(str(path))], tmp_path)
    np.testing.assert_allclose(measures(alone, "MVE"), measures(every, "MVE"), rtol=1e-4)
    first, second = (measures(every, "MV", splits=[split]) for split in SPLITS)
    assert not np.allclose(first, second, equal_nan=True)
    assert not np.allclose(measures(every, "MV"), measures(every, "MVE"), equal_nan=True)


def test_the_device_is_resolved_before_training(whole_run):
    """So the configuration in the folder names it, and all processes use the same."""
    _, folder, _ = whole_run
    models = (folder / "benchmark.json").read_text()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert models.count("Network(") == models.count(f"Network(device='{device}', ") == 4


def test_baselines_are_at_the_level_and_calibrated_quantiles_have_twice_the_miss_rate():
    """As in the paper; units are those of the training targets."""
    data, models = synthetic(), paper_models(epochs=2)
    predictions = {}
    for job in model_fits.training_jobs("mine", models, SPLITS[:1]):
        predictions |= dict(model_fits.fit_and_predict(job, data, models, LEVEL))
    assert {
        name: (of_model.baseline.level, of_model.prediction.level) for (_, name), of_model in predictions.items()
    } == {
        "QR": (0.9, 0.8),
        "QRF": (0.9, 0.8),
        "MV": (0.9, 0.9),
        "MVE": (0.9, 0.9),
    }
    forest = predictions[13, "QRF"]
    assert (forest.baseline.lower <= forest.prediction.lower).all()
    assert (forest.baseline.upper >= forest.prediction.upper).all()
    split = model_fits.Split.of(len(data.y), 13)
    learned = data.y[split.training]
    rows = np.concatenate([split.calibration, split.test])
    for of_model in predictions.values():
        np.testing.assert_allclose(of_model.y, (data.y[rows] - learned.mean()) / learned.std())
        assert of_model.n_calibration == len(split.calibration)


def test_results_do_not_depend_on_the_targets_unit(whole_run, tmp_path):
    path, _, rows = whole_run
    data = load_dataset(str(path))
    scaled = replace(data, y=1e3 * data.y + 5e3)
    of_scaled = run_benchmark(small(splits=SPLITS[:1]), [scaled], tmp_path)
    for model in paper_models():
        np.testing.assert_allclose(
            measures(of_scaled, model), measures(rows, model, splits=SPLITS[:1]), rtol=1e-4, atol=1e-4
        )


def test_rows_come_in_the_order_of_the_trials(whole_run):
    _, _, rows = whole_run
    assert [Trial(**{name: row[name] for name in Trial.__annotations__}) for row in rows[::4]] == small().trials("mine")
    assert len(rows) == 4 * 7 * 2 * 2 * 4


def test_finished_trials_do_not_run_again(whole_run, monkeypatch):
    """Nothing is trained, and nothing is written twice."""
    path, folder, rows = whole_run
    before = (folder / "trials.jsonl").read_bytes()
    monkeypatch.setattr("evencover.reproduction.benchmark.runs.run_task", None)
    data = load_dataset(str(path))
    assert unfinished_trials(small(), [data], folder) == {"mine": 0}
    assert json.dumps(run_benchmark(small(), [data], folder)) == json.dumps(rows)
    assert (folder / "trials.jsonl").read_bytes() == before


def test_an_incomplete_line_runs_again_from_saved_predictions(whole_run, tmp_path, monkeypatch):
    """Without training, and to the same bytes; so does a new variant."""
    path, _, rows = whole_run
    data = load_dataset(str(path))
    some = small(variants={name: VARIANTS[name] for name in ("baseline", "NCP")})
    run_benchmark(some, [data], tmp_path)
    complete = (tmp_path / "trials.jsonl").read_bytes()
    (tmp_path / "trials.jsonl").write_bytes(complete[:-100])
    monkeypatch.setattr("evencover.reproduction.benchmark.runs.fit_and_predict", None)
    assert unfinished_trials(some, [data], tmp_path) == {"mine": 1}
    run_benchmark(some, [data], tmp_path)
    assert (tmp_path / "trials.jsonl").read_bytes() == complete
    assert json.dumps(run_benchmark(small(), [data], tmp_path)) == json.dumps(rows)


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="attempts are forked, so that none imports anything")
def test_a_run_killed_at_any_write_continues_to_the_same_bytes(whole_run_with_files, tmp_path):
    """Attempt i is killed at its i-th file or lines, once they are written but before they are on the disk."""
    path, reference, _ = whole_run_with_files
    output = tmp_path / "out"
    done = run_driver(tmp_path, KILLED_AGAIN_AND_AGAIN, path, output)
    *saved, n_kills = map(int, done.stdout.split())
    assert n_kills >= 6
    assert 0 < saved[3] < saved[-1]
    assert all(before <= after for before, after in pairwise(saved))
    assert sorted_lines(output) == sorted_lines(reference)
    rows = run_benchmark(small(), [load_dataset(str(path))], output)
    assert not list(output.rglob(".evencover-*"))
    for written in islice(write_results(rows, summarize(rows), output), 5):  # the table, the summary and one figure
        assert written.read_bytes() == (reference / written.relative_to(output)).read_bytes()


KILLED_AGAIN_AND_AGAIN = """
import itertools, os, signal, sys, traceback
from pathlib import Path
import numpy as np, quantile_forest, torch
from evencover.datasets import Dataset
from evencover.reproduction.benchmark import Benchmark, paper_models, run_benchmark

def n_saved(output):  # files and lines
    try:
        return len(list((output / "predictions").iterdir())) + (output / "trials.jsonl").read_bytes().count(b"\\n")
    except FileNotFoundError:
        return 0

def die_at_write(number):
    def sync(descriptor, count=itertools.count(1), really_sync=os.fsync):
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        really_sync(descriptor)
    os.fsync = sync

def fork_attempt(number, benchmark, data, output):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        die_at_write(number)
        run_benchmark(benchmark, [data], output)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)

def main(path, output):
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    data = Dataset("mine", table[:, :-1], table[:, -1])
    benchmark, saved = Benchmark(paper_models(epochs=2), splits=(13, 2)), []
    for number in itertools.count(1):
        status = fork_attempt(number, benchmark, data, Path(output))
        saved.append(n_saved(Path(output)))
        if not os.WIFSIGNALED(status):
            break
    print(*saved, number - 1)
    sys.exit(os.waitstatus_to_exitcode(status))

main(*sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="a run is killed with all its processes")
def test_a_run_with_two_workers_killed_at_any_moment_continues_to_the_same_bytes(whole_run_with_files, tmp_path):
    """As above, in fresh interpreters: each attempt is killed with its workers, and every file is compared."""
    path, reference, _ = whole_run_with_files
    driver, output = tmp_path / "driver.py", tmp_path / "out"
    driver.write_text(TWO_WORKERS.replace("[600, 0]", "[0, 0]"))
    saved, n_kills = [0], 0
    for _ in range(30):
        process = subprocess.Popen([sys.executable, driver, path, output], start_new_session=True)
        while process.poll() is None and n_saved(output) <= saved[-1]:
            time.sleep(0.002)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        n_kills += 1
        saved.append(n_saved(output))
    assert process.returncode == 0
    assert n_kills >= 3
    assert all(before <= after for before, after in pairwise(saved))
    assert sorted_lines(output) == sorted_lines(reference)
    rows = run_benchmark(small(), [load_dataset(str(path))], output)
    assert not list(output.rglob(".evencover-*"))
    for written in write_results(rows, summarize(rows), output):
        assert written.read_bytes() == (reference / written.relative_to(output)).read_bytes()


def n_saved(output):
    """Return the number of saved files and lines."""
    try:
        return len(list((output / "predictions").iterdir())) + (output / "trials.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def run_driver(folder, code, *arguments):
    """Return the finished process of a script, which must succeed."""
    driver = folder / "driver.py"
    driver.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", driver, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def sorted_lines(output):
    return sorted((output / "trials.jsonl").read_bytes().splitlines())


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows a process keeps the id of its dead parent")
@pytest.mark.system
def test_two_workers_give_the_same_bytes_and_end_when_their_parent_is_killed(whole_run, tmp_path):
    """At the end one worker is busy and one is idle; the resource trackers that joblib starts must end as well."""
    path, reference, _ = whole_run
    driver = tmp_path / "driver.py"
    driver.write_text(TWO_WORKERS)
    with subprocess.Popen(
        [sys.executable, driver, path, tmp_path / "out"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "finished\n"
        workers = descendants(process.pid, parents())
        assert process.stdout.readline() == "one is busy, one is idle\n"
        assert workers <= descendants(process.pid, parents())
        process.kill()
    assert sorted_lines(tmp_path / "out") == sorted_lines(reference)
    assert len(workers) >= 3
    assert not still_there(workers)


# The second call reuses the processes of the first. Tasks start in their order: the long one runs when the short ends.
TWO_WORKERS = """
import sys, time
from evencover.datasets import read_dataset
from evencover.reproduction.benchmark import Benchmark, paper_models, run_benchmark
from evencover.reproduction.benchmark.workers import map_unordered

def main(path, output):
    run_benchmark(Benchmark(paper_models(epochs=2), splits=(13, 2)), [read_dataset(path)], output, workers=2)
    print("finished", flush=True)
    for _ in map_unordered(time.sleep, [600, 0], workers=2):
        print("one is busy, one is idle", flush=True)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_cluster_gives_the_same_numbers_and_survives_the_death_of_a_worker(whole_run, tmp_path, n_workers):
    """Workers are separate processes. One is killed while it trains; the cluster starts another one."""
    path, reference, _ = whole_run
    assert run_driver(tmp_path, CLUSTER, path, tmp_path / "out", str(n_workers)).stdout.split() == ["killed"]
    assert sorted_lines(tmp_path / "out") == sorted_lines(reference)


CLUSTER = """
import os, signal, sys
from threading import Thread
from time import sleep
from distributed import LocalCluster

def main(path, output, n_workers):
    from evencover.datasets import read_dataset  # here, since a worker imports this file at its start
    from evencover.reproduction.benchmark import Benchmark, paper_models, run_benchmark

    settings = {"threads_per_worker": 2, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=int(n_workers), **settings) as cluster:
        def kill():
            scheduler = cluster.scheduler
            while not any(worker.processing for worker in scheduler.workers.values()):
                sleep(0.001)
            victim = next(name for name, worker in scheduler.workers.items() if worker.processing)
            nanny = next(nanny for nanny in cluster.workers.values() if nanny.worker_address == victim)
            os.kill(nanny.pid, signal.SIGKILL)
            print("killed")
        killer = Thread(target=kill)
        killer.start()
        run_benchmark(Benchmark(paper_models(epochs=2), splits=(13, 2)), [read_dataset(path)], output,
                      cluster=cluster.scheduler_address)
        killer.join()

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def test_progress_grows_to_the_end(tmp_path, monkeypatch):
    """A task that has written its progress waits here for a report that began after it, on any machine."""
    monkeypatch.setattr("evencover.reproduction.benchmark.workers._SECONDS_BETWEEN_REPORTS", 0.001)
    reports, write = [], ProgressFile.__call__

    def write_and_wait(*progress):
        write(*progress)
        enough = len(reports) + 2
        while len(reports) < enough:
            time.sleep(0.001)

    monkeypatch.setattr(ProgressFile, "__call__", write_and_wait)
    run_benchmark(small(), [synthetic()], tmp_path, progress=lambda done, total: reports.append((done, total)))
    shares = [done / total for done, total in reports]
    assert all(before <= after for before, after in pairwise(shares))
    assert shares[0] < 0.5
    assert len(set(shares)) >= 4
    assert shares[-1] == pytest.approx(1.0)


def test_progress_never_goes_back(monkeypatch):
    """Not even if it is read while it is being written."""
    monkeypatch.setattr("evencover.reproduction.benchmark.workers._SECONDS_BETWEEN_REPORTS", 0.001)
    reports = []
    with progress_files(1) as (progress_file,), report_progress({progress_file: 10.0}, reports.append):
        progress_file(1, 2)
        while 5.0 not in reports:
            time.sleep(0.001)
        progress_file.path.write_bytes(b"")
    assert reports[-1] == max(reports) == 5.0


def test_the_longest_tasks_come_first(tmp_path, monkeypatch):
    sizes = []

    def recording(task, *rest, **settings):
        sizes.append(len(task.data.y))
        return run_task(task, *rest, **settings)

    monkeypatch.setattr("evencover.reproduction.benchmark.runs.run_task", recording)
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=[1])
    run_benchmark(few, [synthetic(100), synthetic(400, "large"), synthetic(200, "larger")], tmp_path)
    assert sizes == [400, 200, 100]


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path, monkeypatch):
    """A second run that starts while the first one trains is an error."""
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=[1])

    def another_run(*_, **__):
        with pytest.raises(ValueError, match="another run is writing to"):
            run_benchmark(few, [synthetic()], tmp_path)
        raise KeyboardInterrupt

    monkeypatch.setattr("evencover.reproduction.benchmark.runs.run_task", another_run)
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(few, [synthetic()], tmp_path)


def test_data_sets_can_be_added_to_a_folder(tmp_path):
    """Earlier results stay, and no other setting may change."""
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    first, second = synthetic(), synthetic(name="other", seed=1)
    rows = run_benchmark(few, [first], tmp_path)
    both = run_benchmark(few, [first, second], tmp_path)
    assert json.dumps(both[: len(rows)]) == json.dumps(rows)
    assert json.dumps(run_benchmark(few, [second], tmp_path)) == json.dumps(both[len(rows) :])
    assert set(json.loads((tmp_path / "benchmark.json").read_text())["datasets"]) == {"mine", "other"}
    for other, data, message in (
        (replace(few, splits=(13,)), first, r"splits is \[13, 2\] in the folder and \[13\] in this run"),
        (
            replace(few, models={**few.models, "more": few.models["linear"]}),
            first,
            "models.more is None in the folder and",
        ),
        (replace(few, level=0.8), first, "level is 0.9 in the folder and 0.8 in this run"),
        (replace(few, models={"linear": BenchmarkModel(LinearRegression())}), first, "models.linear is .*WithSpread"),
        (few, replace(first, y=-first.y), "datasets.mine is .* in the folder and .* in this run"),
        (replace(few, variants={"NCP": Variant(Residual())}), first, r"variants.NCP is Variant\(nonconformity=Normal"),
    ):
        with pytest.raises(ValueError, match=message):
            run_benchmark(other, [data], tmp_path)


class Broken(LinearRegression):
    """A model that cannot be fitted."""

    def fit(self, X, y):
        raise ZeroDivisionError("no luck")


def test_a_failed_training_does_not_stop_the_others(tmp_path):
    """The error names it; only its trials remain to be run."""
    models = {"broken": BenchmarkModel(WithSpread(Broken())), "linear": BenchmarkModel(WithSpread(LinearRegression()))}
    both = Benchmark(models, splits=SPLITS)
    message = "2 of 4 tasks failed; the results of the others are saved. mine, broken: ZeroDivisionError: no luck"
    with pytest.raises(RuntimeError, match=message) as raised:
        run_benchmark(both, [synthetic()], tmp_path)
    assert 'raise ZeroDivisionError("no luck")' in raised.value.__notes__[0]
    assert unfinished_trials(both, [synthetic()], tmp_path) == {"mine": len(both.trials("mine", ["broken"]))}


def test_a_worker_with_other_package_versions_is_an_error(tmp_path, monkeypatch):
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=[1])

    def in_old_process(task, *rest, **settings):
        return run_task(replace(task, versions={"numpy": "0.1"}), *rest, **settings)

    monkeypatch.setattr("evencover.reproduction.benchmark.runs.run_task", in_old_process)
    message = "ValueError: a worker must have the package versions of the main process, {'numpy': '0.1'}"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        run_benchmark(few, [synthetic()], tmp_path)


def test_networks_with_different_seeds_are_trained_separately(tmp_path):
    models = {
        name: BenchmarkModel(MeanVarianceNetwork(epochs=2, random_state=seed)) for name, seed in (("a", 1), ("b", 2))
    }
    rows = run_benchmark(small(splits=SPLITS[:1], models=models), [synthetic()], tmp_path)
    assert not np.allclose(measures(rows, "a"), measures(rows, "b"), equal_nan=True)


def test_the_sizes_of_a_split_are_known_without_drawing_it():
    for n in [*range(5, 300), 1030, 9568]:
        split = model_fits.Split.of(n, 1)
        assert model_fits.Split.sizes(n) == (len(split.training), len(split.calibration), len(split.test))


def test_corrupt_files_are_named_in_the_error(tmp_path):
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    run_benchmark(few, [synthetic()], tmp_path)
    (tmp_path / "trials.jsonl").write_text("")
    (first, *_) = (tmp_path / "predictions").iterdir()
    content = first.read_bytes()
    first.write_bytes(content[:100])
    with pytest.raises(ValueError, match=f"corrupt file .*{first.name} .* delete it to train this model again"):
        run_benchmark(few, [synthetic()], tmp_path)
    (tmp_path / "benchmark.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"benchmark.json is not the configuration of a benchmark"):
        run_benchmark(few, [synthetic()], tmp_path)


def test_predictions_that_claim_more_rows_than_the_file_holds_are_an_error(tmp_path):
    """No memory is taken for them."""
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    run_benchmark(few, [synthetic()], tmp_path)
    (tmp_path / "trials.jsonl").write_text("")
    (first, *_) = (tmp_path / "predictions").iterdir()
    with ZipFile(first) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    digits = re.search(rb"'shape': \((\d+)", parts["y.npy"])[1]
    parts["y.npy"] = parts["y.npy"].replace(b"(" + digits + b",), }" + b" " * 15, b"(" + digits + b"0" * 15 + b",), }")
    first.write_bytes(sealed(zipped(parts)))
    with pytest.raises(ValueError, match=facts(f"corrupt file ... {first.name} (y.npy declares ... 000000 bytes")):
        run_benchmark(few, [synthetic()], tmp_path)


def test_a_changed_bit_of_results_is_an_error(tmp_path):
    """In the configuration, a finished trial, and predictions: each has a checksum."""
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    run_benchmark(few, [synthetic()], tmp_path)
    trials = tmp_path / "trials.jsonl"
    for path, text in ((tmp_path / "benchmark.json", b"splits"), (trials, b"coverage")):
        written = path.read_bytes()
        path.write_bytes(written.replace(text, text.upper(), 1))
        with pytest.raises(ValueError, match=rf"{path.name}.* \(its content is not what was written"):
            run_benchmark(few, [synthetic()], tmp_path)
        path.write_bytes(written)
    trials.write_text("")
    (first, *_) = (tmp_path / "predictions").iterdir()
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 2
    first.write_bytes(content)
    with pytest.raises(ValueError, match=f"corrupt file .*{first.name} .*its content is not what was written"):
        run_benchmark(few, [synthetic()], tmp_path)


def test_the_configuration_has_no_memory_addresses():
    """The address of a function in a model differs from process to process."""
    models = {"piped": BenchmarkModel(make_pipeline(FunctionTransformer(np_log), WithSpread(LinearRegression())))}
    (text, _) = Benchmark(models).configuration([synthetic()])["models"]["piped"]
    assert "<function np_log>" in text


def np_log(X):
    return np.log1p(np.abs(X))


def test_the_fingerprint_of_a_data_set_depends_on_its_names_and_numbers():
    data = synthetic()
    others = [
        replace(data, y=data.y[::-1]),
        replace(data, X=data.X[:, ::-1]),
        replace(data, response="z"),
        replace(data, features=("c", "b", "a")),
    ]
    assert len({each.fingerprint for each in [data, replace(data, y=data.y.copy()), *others]}) == 5
    assert Dataset("plain", data.X.tolist(), data.y.tolist()).features == ("x0", "x1", "x2")


def test_a_corrupt_line_is_named_in_the_error(tmp_path):
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    run_benchmark(few, [synthetic()], tmp_path)
    lines = (tmp_path / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "trials.jsonl").write_text("".join([*lines[:2], "{\n", *lines[3:]]))
    with pytest.raises(ValueError, match=r"corrupt line 3 in .*trials.jsonl .* delete the line to run its trial again"):
        run_benchmark(few, [synthetic()], tmp_path)


def test_users_can_bring_their_own_models_and_variants(tmp_path):
    """Any regressor with a spread, any score: a few lines each."""
    mine = Benchmark(
        {
            "linear": BenchmarkModel(WithSpread(LinearRegression())),
            "MVE": BenchmarkModel(DropoutEnsemble(MeanVarianceNetwork(epochs=1))),
        },
        {"own": Variant(), "one-sided": Variant(Standardized(), by_group=True)},
        splits=[1, 2, 3],
    )
    rows = run_benchmark(mine, [synthetic()], tmp_path)
    assert {(row["model"], row["variant"]) for row in rows} == {
        (model, variant) for model in ("linear", "MVE") for variant in ("own", "one-sided")
    }
    summary = summarize(rows, mine.variants)
    assert {count.variant: count.by_group for count in summary.counts} == {"own": False, "one-sided": True}
    assert np.isinf(summary.averages["width"]["one-sided"]["mine"])
    paths = list(write_results(rows, summary, tmp_path))
    assert all(path.stat().st_size for path in paths)


def test_results_are_a_tidy_table(whole_run_with_files):
    _, folder, rows = whole_run_with_files
    table = parquet.read_table(folder / "results.parquet").to_pylist()
    assert json.dumps(table) == json.dumps(rows)
    assert list(table[0]) == [
        *("data", "model", "split", "variant", "binning", "level", "group", "n_calibration", "n_test", "covered"),
        *("coverage", "width", "winkler", "r2", "threshold", "ks_low_medium", "ks_low_high", "ks_medium_high"),
    ]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["holds"] is summarize(rows).holds
    assert (folder / "summary.md").read_text() == summary_text(summarize(rows)) + "\n"
    assert sorted(path.name for path in (folder / "figures").iterdir()) == [
        *("mine_as_run.png", "mine_as_run.svg", "mine_exact.png", "mine_exact.svg"),
    ]
    drawn = (folder / "figures" / "mine_exact.svg").read_text()
    assert drawn.count("<use") > 2 * 7 * 4 * 2 * 4  # a point for each variant, model, split and group


@cache
def tails(m, n):
    """Return which counts of m covered rows are too few and too many, and the probabilities of both, by SciPy.

    Each region has a probability of at most half a percent; with one more count it would have more.
    """
    k = int(np.ceil(0.9 * (n + 1)))
    exact = betabinom.pmf(np.arange(m + 1), m, k, n + 1 - k)
    at_most, at_least = np.cumsum(exact), np.cumsum(exact[::-1])[::-1]
    few, many = at_most <= 0.005, at_least <= 0.005
    return few, many, at_most[few].max(initial=0.0), at_least[many].max(initial=0.0)


def probability_of_at_least(observed, probabilities):
    """Return the probability that at least so many of independent events happen."""
    distribution = np.ones(1)
    for p in probabilities:
        distribution = np.append((1 - p) * distribution, 0.0) + p * np.append(0.0, distribution)
    return distribution[observed:].sum()


@pytest.mark.parametrize(("m", "n"), [(60, 45), (200, 300), (3, 9)])
def test_each_tail_region_has_at_most_half_a_percent(m, n):
    """By the exact distribution of the count."""
    few, many, p_few, p_many = tails(m, n)
    for covered in range(m + 1):
        count = cell_count(("one", covered), n_test=m, n_calibration=n)
        assert (count.below, count.above) == (few[covered], many[covered])
        assert count.expected == pytest.approx(p_few + p_many, rel=1e-9, abs=1e-12)
        assert count.p_value == pytest.approx(p_few if few[covered] else 1.0)


@pytest.mark.parametrize("seen", [0, 1, 2, 3])
def test_the_tail_of_a_sum_of_independent_events_is_exact(seen):
    """Some of three cells, with 60, 200 and 400 test rows, have too few covered rows."""
    sizes = ((60, 45), (200, 300), (400, 400))
    p = [tails(m, n)[2] for m, n in sizes]
    rows = [row for m, n in sizes for row in cell_rows(("one", m), n_test=m, n_calibration=n)[:1]]
    for row in rows[:seen]:
        row["covered"] = 0
    (count,) = summarize([*rows, {**rows[0], "group": "all"}]).counts
    one = [p[0] * (1 - p[1]) * (1 - p[2]), p[1] * (1 - p[0]) * (1 - p[2]), p[2] * (1 - p[0]) * (1 - p[1])]
    two = [p[0] * p[1] * (1 - p[2]), p[0] * p[2] * (1 - p[1]), p[1] * p[2] * (1 - p[0])]
    three = p[0] * p[1] * p[2]
    assert count.below == seen
    exact = [1.0, sum(one) + sum(two) + three, sum(two) + three, three][seen]
    assert count.p_value == pytest.approx(exact)
    assert probability_of_at_least(seen, p) == pytest.approx(exact)


def imagined_rows(seed, *, shift=0.0, tied=False, variants=VARIANTS, binnings=BINNING_METHODS):
    """Return the rows of a benchmark with an imagined model: residuals grow with the spread; test targets may shift."""
    rows = []
    for split in range(20):
        rng = np.random.default_rng([seed, split])
        spread = rng.exponential(size=400) + 0.1
        noise = rng.exponential(size=400)
        if tied:
            spread, noise = np.ceil(4 * spread) / 4, np.ceil(noise)
        y = spread * noise + shift * (np.arange(400) >= 250)
        prediction = Prediction(np.zeros(400), spread, level=LEVEL)
        predictions = SplitPredictions(y, 250, prediction, prediction)
        for binning in binnings:
            for variant in variants:
                rows += run_trial(Trial("imagined", "one", split, variant, binning, LEVEL), predictions)
    return rows


def test_guaranteed_groups_are_outside_as_often_as_expected():
    """By the exact distribution, over 15 imagined benchmarks whose residuals grow with the spread."""
    variants = ("mPointCP", "PointCP", "IntCP", "NCP")
    summaries = [summarize(imagined_rows(seed, variants=variants, binnings=["exact"])) for seed in range(15)]
    for variant in ("PointCP", "NCP"):
        counts = [next(count for count in each.counts if count.variant == variant) for each in summaries]
        outside, expected = sum(count.outside for count in counts), sum(count.expected for count in counts)
        assert sum(count.cells for count in counts) == 15 * 60
        probabilities = [expected / 900] * 900  # those of the cells differ little
        assert probability_of_at_least(outside, probabilities) > ONE_IN_A_MILLION
        assert 1 - probability_of_at_least(outside + 1, probabilities) > ONE_IN_A_MILLION
    assert all(len(each.counts) == 4 and each.holds for each in summaries)
    marginal = [next(count for count in each.counts if count.variant == "mPointCP") for each in summaries]
    assert all(count.p_value < 1e-4 for count in marginal)
    assert all((count.lowest.group, count.highest.group) == ("high", "low") for count in marginal)


def cell_rows(*cells, n_test=400, n_calibration=400):
    """Return rows of cells, each a model and a number of covered rows, and a row of all groups."""
    row = {"variant": "NCP", "binning": "exact", "level": LEVEL, "data": "mine", "group": "low", "threshold": 1.0}
    row |= {"n_test": n_test, "n_calibration": n_calibration, "width": 1.0, "winkler": 1.0}
    rows = [{**row, "model": model, "covered": n, "coverage": n / n_test} for model, n in cells]
    return [*rows, {**rows[0], "group": "all"}]


def cell_count(*cells, **sizes):
    """Return the count for cells, each a model and a number of covered rows."""
    (count,) = summarize(cell_rows(*cells, **sizes)).counts
    return count


def test_over_coverage_does_not_violate_the_guarantee():
    """Tied scores cover more; the number of such cells is in the summary."""
    count = cell_count(("one", 400), ("one", 399))
    assert (count.above, count.below, count.p_value) == (2, 0, 1.0)


def test_p_values_are_adjusted_for_the_number_of_models():
    exact = betabinom(400, 361, 40)
    p_few = max(p for p in exact.cdf(np.arange(400)) if p <= 0.005)
    alone, with_another = cell_count(("one", 300)), cell_count(("one", 300), ("two", 361))
    assert alone.p_value == pytest.approx(p_few)
    assert with_another.p_value == pytest.approx(2 * p_few)
    assert (with_another.cells, with_another.below, with_another.outside) == (2, 1, 1)


def test_ties_only_raise_the_coverage():
    """The normalised scores are 1, 2, 3, ...; the threshold is 3, which covers 95 %."""
    counts = summarize(imagined_rows(3, tied=True, variants=["NCP"])).counts
    assert [count.binning for count in counts] == ["exact", "as run"]
    assert all(count.lowest.coverage > 0.92 for count in counts)
    assert all(count.below == 0 for count in counts)


@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
def test_tied_spreads_leave_the_distribution_exact():
    """Test rows on a learned edge are in no group, because they have another threshold."""
    few = many = 0
    p_few, p_many = [], []
    for seed in range(600):
        rng = np.random.default_rng(seed)
        spread = rng.integers(1, 4, 224).astype(float)
        prediction = Prediction(np.zeros(224), spread, level=LEVEL)
        predictions = SplitPredictions(rng.normal(size=224) * (1 + spread), 149, prediction, prediction)
        for row in run_trial(trial("PointCP", "exact"), predictions)[1:]:
            too_few, too_many, *p = tails(row["n_test"], row["n_calibration"])
            few, many = few + too_few[row["covered"]], many + too_many[row["covered"]]
            p_few.append(p[0])
            p_many.append(p[1])
    for observed, probabilities in ((few, p_few), (many, p_many)):
        assert probability_of_at_least(observed, probabilities) > ONE_IN_A_MILLION
    assert 1 - probability_of_at_least(few + 1, p_few) > ONE_IN_A_MILLION


def test_infinite_intervals_are_counted_and_drawn():
    """With two distinct spreads, one group has no calibration rows; its intervals are infinite, and shown as such."""
    rows = [row for split in range(2) for row in rows_with_infinite_intervals(split)]
    summary = summarize(rows)
    assert summary.n_infinite == sum(row["threshold"] == np.inf for row in rows) > 0
    assert f"{summary.n_infinite} cells have too few calibration rows for a finite threshold" in summary_text(summary)
    assert summary.as_data()["averages"]["width"]["NCP"]["mine"] is None
    (ax,) = [ax for ax in benchmark_figure(rows, "mine", "exact").axes if ax.get_title() == "width, all rows"]
    assert "2×∞" in [text.get_text() for text in ax.texts]


def rows_with_infinite_intervals(split):
    rng = np.random.default_rng(split)
    spread = np.where(np.arange(100) < 92, 1.0, 2.0)
    prediction = Prediction(np.zeros(100), rng.permutation(spread), level=LEVEL)
    predictions = SplitPredictions(rng.normal(size=100), 60, prediction, prediction)
    with pytest.warns(TooFewRowsWarning):
        return [
            row
            for variant in ("mNCP", "NCP")
            for row in run_trial(replace(trial(variant, "exact"), split=split), predictions)
        ]


def test_a_violated_guarantee_is_detected():
    summary = summarize(imagined_rows(0, shift=0.7))
    assert not summary.holds
    assert "keep the level in every group, up to chance: FAILS (" in summary_text(summary)
    assert all(count.below > count.above for count in summary.counts if count.by_group)


def test_the_summary_as_text(whole_run):
    _, _, rows = whole_run
    text = summary_text(summarize(rows))
    for variant in VARIANTS:
        assert text.count(f"| {variant} |") == 4
    assert "Groups: thirds of the estimated variance, as in the paper's code (as run)." in text
    few = [row for row in rows if row["variant"] == "baseline"]
    assert "there is no claim to check" in summary_text(summarize(few))
    assert summarize(few).holds
