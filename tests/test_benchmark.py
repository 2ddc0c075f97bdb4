"""The benchmark: the same numbers however it is run, interrupted or spread out; and what it says about them."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

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
    _model_fits,
    paper_models,
    run,
)
from evencover.reproduction.benchmark import run_benchmark as run_it
from evencover.reproduction.benchmark._benchmark_figures import benchmark_figure
from evencover.reproduction.benchmark._model_fits import Split, SplitPredictions
from evencover.reproduction.benchmark._progress_files import progress_files, watched
from evencover.reproduction.benchmark._result_store import opened
from evencover.reproduction.benchmark._workers import results_of
from evencover.reproduction.benchmark.result_files import write_results
from evencover.reproduction.benchmark.runs import Task, outcome_of, unfinished
from evencover.reproduction.benchmark.summary import _outside, _tail, in_words, summarize
from evencover.reproduction.benchmark.variants import BINNINGS
from evencover.reproduction.simulation import seed_of
from evencover.synthetic import heteroskedastic
from tests.synthetic import ONE_IN_A_MILLION

LEVEL = 0.9
SPLITS = (13, 2)
DRIVER = """
import sys
from evencover.datasets import read_dataset
from evencover.reproduction.benchmark import Benchmark, paper_models, run_benchmark

def main(path, output, workers, epochs):
    run_benchmark(Benchmark(paper_models(epochs=int(epochs)), splits=(13, 2)), [read_dataset(path)], output,
                  workers=int(workers))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def synthetic(n=150, name="mine", seed=0):
    sample = heteroskedastic(n, seed=seed)
    return Dataset(name, sample.X, sample.y, tuple(f"x{i}" for i in range(sample.X.shape[1])), "y")


def written(folder, data):
    """Write a data set to a file, and return its path."""
    path = folder / f"{data.name}.csv"
    header = ",".join([*data.features, data.response])
    np.savetxt(path, np.column_stack([data.X, data.y]), delimiter=",", header=header, comments="", fmt="%.17g")
    return path


def small(**settings):
    return Benchmark(paper_models(epochs=2), **{"splits": SPLITS, **settings})


def by_hand(n=300, m=200, seed=0):
    """Return what an imagined model says about n calibration rows and m test rows."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 3.0, n + m)
    center = rng.normal(size=n + m)
    said = Prediction(center, spread, center - 0.8 * spread, center + spread, level=0.8)
    y = center + spread * rng.normal(size=n + m)
    return SplitPredictions(y, n, said, Prediction(center + 0.1, 1.1 * spread, level=LEVEL))


def trial(variant, binning="as run"):
    return Trial("mine", "QR", 13, variant, binning, LEVEL)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Return a data set's file, the folder of an uninterrupted run on it, and its rows."""
    folder = tmp_path_factory.mktemp("whole")
    path = written(folder, synthetic())
    rows = run_it(small(), [load_dataset(str(path))], folder / "out")
    list(write_results(rows, summarize(rows), folder / "out"))
    return path, folder / "out", rows


def test_a_trial_is_known_by_a_hash_that_never_changes():
    """Results of older versions would be lost otherwise."""
    one = Trial("concrete", "QR", 13, "mNCP", "exact", 0.9)
    assert one.key == "2fd96cff158583a54f8d"
    keys = {replace(one, **{name: value}).key for name, value in (("data", "x"), ("split", 2), ("binning", "as run"))}
    assert len(keys | {one.key}) == 4


def test_splits_are_the_papers():
    """A fifth tests, the rest is halved; the seed is used both times."""
    rows = np.arange(1030)
    rest, test = train_test_split(rows, test_size=0.2, random_state=13)
    training, calibration = train_test_split(rest, test_size=0.5, random_state=13)
    split = Split.of(1030, 13)
    for found, expected in ((split.training, training), (split.calibration, calibration), (split.test, test)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_a_trial_are_what_one_computes_by_hand(variant):
    """Groups as the paper's code cuts them; scores, ranks and measures spelled out."""
    told, n = by_hand(), 300
    y, said = told.y, told.prediction
    edges = np.quantile(said.spread[:n] ** 2, [1 / 3, 2 / 3])
    codes = np.searchsorted(edges, said.spread**2)
    scores = {
        "Point": np.abs(y - said.center),
        "Int": np.maximum(said.lower - y, y - said.upper),
        "N": np.abs(y - said.center) / said.spread,
    }
    low, high, center = told.baseline.lower, told.baseline.upper, told.baseline.center
    thresholds = np.full(4, np.nan)
    score = None
    if variant != "baseline":
        kind = variant.removeprefix("m").removesuffix("CP")
        score, center = scores[kind], said.center
        own = (lambda group: codes[:n] == group) if not variant.startswith("m") else (lambda group: np.full(n, True))
        pools = [np.sort(score[:n][own(group)]) for group in range(3)]
        limits = np.array([pool[int(np.ceil(0.9 * (len(pool) + 1))) - 1] for pool in pools])
        t = limits[codes]
        low = {"Point": center - t, "Int": said.lower - t, "N": center - t * said.spread}[kind]
        high = {"Point": center + t, "Int": said.upper + t, "N": center + t * said.spread}[kind]
        thresholds = np.append(limits[0] if variant.startswith("m") else np.nan, limits)
    found = run(trial(variant), told)
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


def test_exact_groups_leave_out_the_rows_on_learned_edges():
    sizes = {row["group"]: row["n_calibration"] for row in run(trial("NCP", "exact"), by_hand())}
    assert sizes == {"all": 300, "low": 99, "medium": 99, "high": 100}


def test_a_group_without_test_rows_has_no_measures():
    told = by_hand()
    calm = np.flatnonzero(told.prediction.spread[300:] < 1.0) + 300  # all of the lowest third
    rows = np.concatenate([np.arange(300), calm])
    few = SplitPredictions(told.y[rows], 300, told.prediction[rows], told.baseline[rows])
    for row in run(trial("NCP"), few)[2:]:
        assert (row["n_test"], row["covered"]) == (0, 0)
        assert np.isnan([row[name] for name in ("coverage", "width", "winkler", "r2")]).all()
        assert np.isfinite(row["threshold"])


def test_a_trial_depends_on_its_arguments_alone():
    told = by_hand()
    assert json.dumps(run(trial("NCP"), told)) == json.dumps(run(trial("NCP"), told))


def test_the_networks_of_all_splits_train_as_one_stack(tmp_path, monkeypatch):
    """Quantiles at two levels, and one network of mean and variance for both models that use it."""
    stacks, seeds = [], []

    def counted(networks, *rest, **settings):
        stacks.append([type(network) for network in networks])
        seeds.extend(network.random_state for network in networks)
        return fit_jointly(networks, *rest, **settings)

    fit_jointly = _model_fits.fit_jointly
    monkeypatch.setattr(_model_fits, "fit_jointly", counted)
    monkeypatch.setattr("evencover.models.networks.ensembles.fit_jointly", None)  # which would train another
    run_it(small(), [synthetic()], tmp_path)
    assert stacks == [[QuantileNetwork] * 4 + [MeanVarianceNetwork] * 2]
    kinds = ["QuantileNetwork"] * 2 + ["MeanVarianceNetwork"]
    assert seeds == [seed_of(0, "mine", str(split), kind) % 2**32 for kind in kinds for split in SPLITS]


def test_a_networks_seed_is_that_of_data_set_split_and_kind():
    """Whoever shares it, and whichever others are trained beside it."""
    data = synthetic()
    models = paper_models(epochs=2)
    every, alone = (
        dict(_model_fits.told(_model_fits.jobs_of("mine", some, SPLITS)[0], data, some, LEVEL))
        for some in (models, {"MVE": models["MVE"]})
    )
    assert set(alone) == {(13, "MVE"), (2, "MVE")}
    for fit, told in alone.items():
        np.testing.assert_allclose(told.prediction.spread, every[fit].prediction.spread, rtol=1e-4)
    first, second = (every[split, "MV"].prediction.center for split in SPLITS)
    assert not np.allclose(first[:20], second[:20])
    assert not np.allclose(every[13, "MV"].prediction.spread, every[13, "MVE"].prediction.spread)


def test_where_networks_train_is_settled_before_they_do():
    """So that a folder remembers it, and all processes do the same."""
    placed = _model_fits.ready(paper_models())
    networks = [network for model in placed.values() for network in _model_fits.networks_in(model)]
    assert len(networks) == 4
    assert {network.device for network in networks} == {"cuda" if torch.cuda.is_available() else "cpu"}


def test_baselines_are_at_the_level_and_what_is_calibrated_is_softened():
    """Twice as many misses, as in the paper; units are those of the training targets."""
    data, models = synthetic(), paper_models(epochs=2)
    told = {}
    for job in _model_fits.jobs_of("mine", models, SPLITS[:1]):
        told |= dict(_model_fits.told(job, data, models, LEVEL))
    assert {name: (said.baseline.level, said.prediction.level) for (_, name), said in told.items()} == {
        "QR": (0.9, 0.8),
        "QRF": (0.9, 0.8),
        "MV": (0.9, 0.9),
        "MVE": (0.9, 0.9),
    }
    forest = told[13, "QRF"]
    assert (forest.baseline.lower <= forest.prediction.lower).all()
    assert (forest.baseline.upper >= forest.prediction.upper).all()
    split = Split.of(len(data.y), 13)
    learned = data.y[split.training]
    rows = np.concatenate([split.calibration, split.test])
    for said in told.values():
        np.testing.assert_allclose(said.y, (data.y[rows] - learned.mean()) / learned.std())
        assert said.n_calibration == len(split.calibration)


def test_results_do_not_depend_on_the_targets_unit():
    data, models = synthetic(), paper_models(epochs=2)
    scaled = replace(data, y=1e3 * data.y + 5e3)
    for job in _model_fits.jobs_of("mine", models, SPLITS[:1]):
        pairs = zip(*(_model_fits.told(job, each, models, LEVEL) for each in (data, scaled)), strict=True)
        for (_, first), (_, second) in pairs:
            np.testing.assert_allclose(second.y, first.y, atol=1e-9)
            for part in ("center", "spread", "lower", "upper"):
                np.testing.assert_allclose(getattr(second.prediction, part), getattr(first.prediction, part), atol=1e-4)


def test_rows_come_in_the_order_of_the_trials(whole_run):
    _, _, rows = whole_run
    assert [Trial(**{name: row[name] for name in Trial.__annotations__}) for row in rows[::4]] == small().trials("mine")
    assert len(rows) == 4 * 7 * 2 * 2 * 4


def test_finished_trials_are_not_run_again(whole_run, monkeypatch):
    """Nothing is trained, and nothing is written twice."""
    path, folder, rows = whole_run
    before = (folder / "trials.jsonl").read_bytes()
    monkeypatch.setattr("evencover.reproduction.benchmark.runs.outcome_of", None)
    data = load_dataset(str(path))
    assert unfinished(small(), [data], folder) == {"mine": 0}
    assert json.dumps(run_it(small(), [data], folder)) == json.dumps(rows)
    assert (folder / "trials.jsonl").read_bytes() == before


def test_a_line_that_was_cut_off_is_run_again_from_what_the_model_said(whole_run, tmp_path, monkeypatch):
    """Without training, and to the same bytes; so is a variant that is new."""
    path, _, rows = whole_run
    data = load_dataset(str(path))
    some = small(variants={name: VARIANTS[name] for name in ("baseline", "NCP")})
    run_it(some, [data], tmp_path)
    whole = (tmp_path / "trials.jsonl").read_bytes()
    (tmp_path / "trials.jsonl").write_bytes(whole[:-100])
    monkeypatch.setattr("evencover.reproduction.benchmark.runs.told", None)
    assert unfinished(some, [data], tmp_path) == {"mine": 1}
    run_it(some, [data], tmp_path)
    assert (tmp_path / "trials.jsonl").read_bytes() == whole
    assert json.dumps(run_it(small(), [data], tmp_path)) == json.dumps(rows)


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(whole_run, tmp_path):
    """Killed, with all its processes, just after something new was there; the worker's number differs, too."""
    path, reference, _ = whole_run
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    output = tmp_path / "out"
    kept, n_kills = [0], 0
    for _ in range(30):
        process = subprocess.Popen([sys.executable, driver, path, output, "2", "2"], start_new_session=True)
        while process.poll() is None and n_finished(output) <= kept[-1]:
            time.sleep(0.002)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        n_kills += 1
        kept.append(n_finished(output))
    assert process.returncode == 0
    assert n_kills >= 3
    assert all(before <= after for before, after in pairwise(kept))
    lines = (output / "trials.jsonl").read_bytes().splitlines()
    assert sorted(lines) == sorted((reference / "trials.jsonl").read_bytes().splitlines())
    rows = run_it(small(), [load_dataset(str(path))], output)
    assert not list(output.rglob("*.part"))
    for written_path in write_results(rows, summarize(rows), output):
        assert written_path.read_bytes() == (reference / written_path.relative_to(output)).read_bytes()


def n_finished(output):
    """Return how many files and lines there are."""
    try:
        return len(list((output / "predictions").iterdir())) + (output / "trials.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows a process keeps the id of its dead parent")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    """A busy worker, an idle one, and the resource trackers that joblib starts with them."""
    driver = tmp_path / "driver.py"
    driver.write_text(BUSY_AND_IDLE)
    with subprocess.Popen([sys.executable, driver], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "one is busy, one is idle\n"
        started = descendants(process.pid, parents())
        process.kill()
    assert len(started) >= 3
    deadline = time.monotonic() + 15
    while (left := started & set(parents())) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):  # a tracker ends by itself after the workers
            os.kill(pid, signal.SIGKILL)
    assert not left


# Tasks are taken in their order, so that the long one has been taken when the short one is done.
BUSY_AND_IDLE = """
import time
from evencover.reproduction.benchmark._workers import results_of

def main():
    for _ in results_of(time.sleep, [600, 0], workers=2):
        print("one is busy, one is idle", flush=True)

if __name__ == "__main__":
    main()
"""


def parents():
    """Return the parent's id of every process that has not ended, by its own id."""
    columns = ["-o", "pid=", "-o", "ppid=", "-o", "stat="]
    listed = subprocess.check_output(["ps", "-A", *columns], text=True)  # noqa: S607
    processes = [line.split() for line in listed.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in processes if not state.startswith("Z")}


def descendants(pid, parent_of):
    """Return the ids of a process's children, of their children, and so on."""
    children = {child for child, parent in parent_of.items() if parent == pid}
    return children.union(*(descendants(child, parent_of) for child in children))


def test_a_cluster_gives_the_same_numbers_and_survives_the_death_of_a_worker(whole_run, tmp_path):
    """A real one, of separate processes; a worker is killed while it trains."""
    path, reference, _ = whole_run
    driver = tmp_path / "driver.py"
    driver.write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", driver, path, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["killed"]
    lines = (tmp_path / "out" / "trials.jsonl").read_bytes().splitlines()
    assert sorted(lines) == sorted((reference / "trials.jsonl").read_bytes().splitlines())


CLUSTER = """
import os, signal, sys
from threading import Thread
from time import sleep
from distributed import LocalCluster
from evencover.datasets import read_dataset
from evencover.reproduction.benchmark import Benchmark, paper_models, run_benchmark

def main(path, output):
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
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
    monkeypatch.setattr("evencover.reproduction.benchmark._progress_files._SECONDS", 0.001)
    told = []
    run_it(small(), [synthetic()], tmp_path, progress=lambda done, total: told.append((done, total)))
    shares = [done / total for done, total in told]
    assert all(before <= after for before, after in pairwise(shares))
    assert shares[0] < 0.5
    assert len(set(shares)) >= 4
    assert shares[-1] == pytest.approx(1.0)


def test_progress_never_goes_back(tmp_path, monkeypatch):
    """Not even if it is read while it is being written."""
    monkeypatch.setattr("evencover.reproduction.benchmark._progress_files._SECONDS", 0.001)
    told = []
    with progress_files(1) as (progress_file,), watched({progress_file: 10.0}, told.append):
        progress_file(1, 2)
        while 5.0 not in told:
            time.sleep(0.001)
        progress_file.path.write_bytes(b"")
    assert told[-1] == max(told) == 5.0


def test_the_longest_tasks_come_first(tmp_path, monkeypatch):
    costs = []

    def noted(function, tasks, **settings):
        costs.extend(task.cost for task in tasks)
        return results_of(function, tasks, **settings)

    monkeypatch.setattr("evencover.reproduction.benchmark.runs.results_of", noted)
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=[1])
    run_it(few, [synthetic(100), synthetic(400, "large"), synthetic(200, "larger")], tmp_path)
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == 3


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path):
    with opened(tmp_path, small().configuration([])), pytest.raises(ValueError, match="another run is writing to"):
        run_it(small(), [synthetic()], tmp_path)


def test_data_sets_can_be_added_to_a_folder(tmp_path):
    """What was there stays, and nothing else may change."""
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    first, second = synthetic(), synthetic(name="other", seed=1)
    rows = run_it(few, [first], tmp_path)
    both = run_it(few, [first, second], tmp_path)
    assert json.dumps(both[: len(rows)]) == json.dumps(rows)
    assert json.dumps(run_it(few, [second], tmp_path)) == json.dumps(both[len(rows) :])
    assert set(json.loads((tmp_path / "benchmark.json").read_text())["datasets"]) == {"mine", "other"}
    for other, data, what in (
        (replace(few, splits=(13,)), first, r"splits is \[13, 2\] there and \[13\] here"),
        (replace(few, models={**few.models, "more": few.models["linear"]}), first, "models.more is None there and"),
        (replace(few, level=0.8), first, "level is 0.9 there and 0.8 here"),
        (replace(few, models={"linear": BenchmarkModel(LinearRegression())}), first, "models.linear is .*WithSpread"),
        (few, replace(first, y=-first.y), "datasets.mine is .* there and .* here"),
        (replace(few, variants={"NCP": Variant(Residual())}), first, r"variants.NCP is Variant\(nonconformity=Normal"),
    ):
        with pytest.raises(ValueError, match=what):
            run_it(other, [data], tmp_path)


class Broken(LinearRegression):
    """A model that cannot be fitted."""

    def fit(self, X, y):
        raise ZeroDivisionError("no luck")


def test_a_training_that_fails_does_not_stop_the_others(tmp_path):
    """The error names it; when it is mended, only it is trained."""
    models = {"broken": BenchmarkModel(WithSpread(Broken())), "linear": BenchmarkModel(WithSpread(LinearRegression()))}
    both = Benchmark(models, splits=SPLITS)
    said = "2 of 4 trainings failed, and what the others found is kept. mine, broken: ZeroDivisionError: no luck"
    with pytest.raises(RuntimeError, match=said) as raised:
        run_it(both, [synthetic()], tmp_path)
    assert 'raise ZeroDivisionError("no luck")' in raised.value.__notes__[0]
    assert unfinished(both, [synthetic()], tmp_path) == {"mine": len(both.trials("mine", ["broken"]))}


def test_a_worker_with_other_packages_is_refused(tmp_path, monkeypatch):
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    (task, *_) = (
        Task(job, (), synthetic(), {}, few, {"numpy": "0.1"}) for job in _model_fits.jobs_of("mine", few.models, SPLITS)
    )
    assert outcome_of(task).error.startswith("ValueError: a worker has other packages, ")


def test_networks_with_seeds_of_their_own_are_two_trainings():
    models = {
        name: BenchmarkModel(MeanVarianceNetwork(epochs=2, random_state=seed)) for name, seed in (("a", 1), ("b", 2))
    }
    (job,) = _model_fits.jobs_of("mine", models, SPLITS[:1])
    told = dict(_model_fits.told(job, synthetic(), models, LEVEL))
    assert not np.allclose(told[13, "a"].prediction.center, told[13, "b"].prediction.center)


def test_sizes_of_a_split_are_those_of_its_rows():
    for n in [*range(5, 300), 1030, 9568]:
        split = Split.of(n, 1)
        assert Split.sizes(n) == (len(split.training), len(split.calibration), len(split.test))


def test_only_its_own_leftovers_are_removed(tmp_path):
    """Whatever else lies in the folder, or below it, is not ours."""
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    mine = [tmp_path / "predictions" / "x.npz.12.part", tmp_path / "benchmark.json.12.part"]
    others = [tmp_path / "movie.part", tmp_path / "below" / "x.npz.12.part"]
    for path in (*mine, *others):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    run_it(few, [synthetic()], tmp_path)
    assert [path.exists() for path in (*mine, *others)] == [False, False, True, True]


def test_damaged_files_are_named(tmp_path):
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    run_it(few, [synthetic()], tmp_path)
    (tmp_path / "trials.jsonl").write_text("")
    (first, *_) = (tmp_path / "predictions").iterdir()
    content = first.read_bytes()
    first.write_bytes(content[:100])
    with pytest.raises(ValueError, match=f"{first.name} is damaged .* delete it to train that model again"):
        run_it(few, [synthetic()], tmp_path)
    (tmp_path / "benchmark.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"benchmark.json is not the configuration of a benchmark"):
        run_it(few, [synthetic()], tmp_path)


def test_a_model_with_a_function_goes_on_in_another_process():
    """Its address is another one there."""
    models = {"piped": BenchmarkModel(make_pipeline(FunctionTransformer(np_log), WithSpread(LinearRegression())))}
    (text, _) = Benchmark(models).configuration([synthetic()])["models"]["piped"]
    assert "<function np_log>" in text


def np_log(X):
    return np.log1p(np.abs(X))


def test_a_data_set_is_known_by_its_names_and_numbers():
    data = synthetic()
    others = [
        replace(data, y=data.y[::-1]),
        replace(data, X=data.X[:, ::-1]),
        replace(data, response="z"),
        replace(data, features=("c", "b", "a")),
    ]
    assert len({each.fingerprint for each in [data, replace(data, y=data.y.copy()), *others]}) == 5
    assert Dataset("plain", data.X.tolist(), data.y.tolist()).features == ("x0", "x1", "x2")


def test_a_damaged_line_is_named(tmp_path):
    few = Benchmark({"linear": BenchmarkModel(WithSpread(LinearRegression()))}, splits=SPLITS)
    run_it(few, [synthetic()], tmp_path)
    lines = (tmp_path / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "trials.jsonl").write_text("".join([*lines[:2], "{\n", *lines[3:]]))
    with pytest.raises(ValueError, match=r"trials.jsonl, line 3 is damaged .* delete the line to run its trial again"):
        run_it(few, [synthetic()], tmp_path)


def test_models_and_variants_of_ones_own(tmp_path):
    """Any regressor with a spread, any score: a few lines each."""
    mine = Benchmark(
        {
            "linear": BenchmarkModel(WithSpread(LinearRegression())),
            "MVE": BenchmarkModel(DropoutEnsemble(MeanVarianceNetwork(epochs=1))),
        },
        {"own": Variant(), "one-sided": Variant(Standardized(), by_group=True)},
        splits=[1, 2, 3],
    )
    rows = run_it(mine, [synthetic()], tmp_path)
    assert {(row["model"], row["variant"]) for row in rows} == {
        (model, variant) for model in ("linear", "MVE") for variant in ("own", "one-sided")
    }
    summary = summarize(rows, mine.variants)
    assert {count.variant: count.by_group for count in summary.counts} == {"own": False, "one-sided": True}
    assert np.isinf(summary.averages["width"]["one-sided"]["mine"])
    paths = list(write_results(rows, summary, tmp_path))
    assert all(path.stat().st_size for path in paths)


def test_results_are_a_tidy_table(whole_run):
    _, folder, rows = whole_run
    table = parquet.read_table(folder / "results.parquet").to_pylist()
    assert json.dumps(table) == json.dumps(rows)
    assert list(table[0]) == [
        *("data", "model", "split", "variant", "binning", "level", "group", "n_calibration", "n_test", "covered"),
        *("coverage", "width", "winkler", "r2", "threshold", "ks_low_medium", "ks_low_high", "ks_medium_high"),
    ]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["holds"] is summarize(rows).holds
    assert (folder / "summary.md").read_text() == in_words(summarize(rows)) + "\n"
    assert sorted(path.name for path in (folder / "figures").iterdir()) == [
        *("mine_as_run.png", "mine_as_run.svg", "mine_exact.png", "mine_exact.svg"),
    ]
    drawn = (folder / "figures" / "mine_exact.svg").read_text()
    assert drawn.count("<use") > 2 * 7 * 4 * 2 * 4  # a point for each variant, model, split and group


@pytest.mark.parametrize(("m", "n"), [(60, 45), (200, 300), (3, 9)])
def test_a_cell__outside_where_so_few_or_so_many_are_rare(m, n):
    """Half a percent at most on either side, by the law of counts; one more would be too much."""
    few, many, law = _outside(m, n, LEVEL)
    k = int(np.ceil(0.9 * (n + 1)))
    exact = betabinom(m, k, n + 1 - k)
    np.testing.assert_allclose(law, exact.pmf(np.arange(m + 1)), rtol=1e-9, atol=1e-12)
    assert law[few].sum() <= 0.005
    assert law[many].sum() <= 0.005
    assert few[: few.sum()].all()
    assert many[len(many) - many.sum() :].all()
    assert law[: few.sum() + 1].sum() > 0.005
    assert law[len(law) - many.sum() - 1 :].sum() > 0.005


def test_the_tail_of_a_number_of_events_is_exact():
    chances = [0.1, 0.5, 0.9]
    exactly = {0: 1.0, 1: 1 - 0.9 * 0.5 * 0.1, 2: 0.1 * 0.5 + 0.1 * 0.9 + 0.5 * 0.9 - 2 * 0.045, 3: 0.045}
    assert {seen: _tail(seen, chances) for seen in exactly} == pytest.approx(exactly)


def imagined(seed, *, shift=0.0, tied=False):
    """Return the rows of a benchmark with an imagined model: residuals grow with the spread; test rows may shift."""
    rows = []
    for split in range(20):
        rng = np.random.default_rng([seed, split])
        spread = rng.exponential(size=400) + 0.1
        noise = rng.exponential(size=400)
        if tied:
            spread, noise = np.ceil(4 * spread) / 4, np.ceil(noise)
        y = spread * noise + shift * (np.arange(400) >= 250)
        said = Prediction(np.zeros(400), spread, level=LEVEL)
        told = SplitPredictions(y, 250, said, said)
        for binning in BINNINGS:
            for variant in VARIANTS:
                rows += run(Trial("imagined", "one", split, variant, binning, LEVEL), told)
    return rows


def test_what_is_promised__outside_as_often_as_chance_says():
    """By the exact law, over many imagined benchmarks; residuals that grow with the spread would show any leak."""
    found = [summarize(imagined(seed)) for seed in range(15)]
    for variant in ("PointCP", "NCP"):
        counts = [next(c for c in each.counts if (c.variant, c.binning) == (variant, "exact")) for each in found]
        outside, expected = sum(c.outside for c in counts), sum(c.expected for c in counts)
        assert sum(c.cells for c in counts) == 15 * 60
        chances = [expected / 900] * 900  # the cells' own chances differ little
        assert _tail(outside, chances) > ONE_IN_A_MILLION
        assert 1 - _tail(outside + 1, chances) > ONE_IN_A_MILLION
    assert all(each.holds for each in found)
    marginal = [next(c for c in each.counts if c.variant == "mPointCP") for each in found]
    assert all(c.p_value < 1e-4 for c in marginal)
    assert all((c.lowest.group, c.highest.group) == ("high", "low") for c in marginal)


def counted(*cells):
    """Return the count of a variant that covers so many of 400 rows, calibrated on 400, in cells of these models."""
    row = {"variant": "NCP", "binning": "exact", "level": LEVEL, "data": "mine", "group": "low", "threshold": 1.0}
    sizes = {"n_test": 400, "n_calibration": 400, "width": 1.0, "winkler": 1.0}
    rows = [{**row, **sizes, "model": model, "covered": n, "coverage": n / 400} for model, n in cells]
    (count,) = summarize([*rows, {**rows[0], "group": "all"}]).counts
    return count


def test_too_many_covered_break_no_promise():
    """Tied scores cover more, rightly; the number is there all the same."""
    count = counted(("one", 400), ("one", 399))
    assert (count.above, count.below, count.p_value) == (2, 0, 1.0)


def test_p_values_allow_for_the_number_of_models():
    law = betabinom(400, 361, 40)
    chance = max(p for p in law.cdf(np.arange(400)) if p <= 0.005)
    alone, beside = counted(("one", 300)), counted(("one", 300), ("two", 361))
    assert alone.p_value == pytest.approx(chance)
    assert beside.p_value == pytest.approx(2 * chance)
    assert (beside.cells, beside.below, beside.outside) == (2, 1, 1)


def test_ties_only_cover_more():
    """The normalised score is 1, 2, 3, ...; 3 is the threshold, and covers 95 %."""
    counts = [count for count in summarize(imagined(3, tied=True)).counts if count.variant == "NCP"]
    assert [count.binning for count in counts] == ["exact", "as run"]
    assert all(count.lowest.coverage > 0.92 for count in counts)
    assert all(count.below == 0 for count in counts)


@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
def test_tied_spreads_leave_the_law_exact():
    """Of test rows on a learned edge none is in a group: their threshold is another one."""
    few = many = 0
    chances_of_few, chances_of_many = [], []
    for seed in range(600):
        rng = np.random.default_rng(seed)
        spread = rng.integers(1, 4, 224).astype(float)
        said = Prediction(np.zeros(224), spread, level=LEVEL)
        told = SplitPredictions(rng.normal(size=224) * (1 + spread), 149, said, said)
        for row in run(trial("PointCP", "exact"), told)[1:]:
            too_few, too_many, law = _outside(row["n_test"], row["n_calibration"], LEVEL)
            few, many = few + too_few[row["covered"]], many + too_many[row["covered"]]
            chances_of_few.append(law[too_few].sum())
            chances_of_many.append(law[too_many].sum())
    for found, chances in ((few, chances_of_few), (many, chances_of_many)):
        assert _tail(found, chances) > ONE_IN_A_MILLION
    assert 1 - _tail(few + 1, chances_of_few) > ONE_IN_A_MILLION


def test_infinite_intervals_are_counted_and_drawn():
    """Two spreads, so that a group has no calibration rows of its own: nothing is left out in silence."""
    rows = [row for split in range(2) for row in imagined_infinite(split)]
    summary = summarize(rows)
    assert summary.n_infinite == sum(row["threshold"] == np.inf for row in rows) > 0
    assert f"{summary.n_infinite} cells have too few calibration rows for a threshold" in in_words(summary)
    assert summary.as_data()["averages"]["width"]["NCP"]["mine"] is None
    (ax,) = [ax for ax in benchmark_figure(rows, "mine", "exact").axes if ax.get_title() == "width, all rows"]
    assert "2×∞" in [text.get_text() for text in ax.texts]


def imagined_infinite(split):
    rng = np.random.default_rng(split)
    spread = np.where(np.arange(100) < 92, 1.0, 2.0)
    said = Prediction(np.zeros(100), rng.permutation(spread), level=LEVEL)
    told = SplitPredictions(rng.normal(size=100), 60, said, said)
    with pytest.warns(TooFewRowsWarning):
        return [row for variant in ("mNCP", "NCP") for row in run(replace(trial(variant, "exact"), split=split), told)]


def test_a_broken_promise_is_noticed():
    summary = summarize(imagined(0, shift=0.7))
    assert not summary.holds
    assert "miss no more than promised in any, up to chance: FAILS (" in in_words(summary)
    assert all(count.below > count.above for count in summary.counts if count.by_group)


def test_summary_in_words(whole_run):
    _, _, rows = whole_run
    text = in_words(summarize(rows))
    for variant in VARIANTS:
        assert text.count(f"| {variant} |") == 4
    assert "Groups cut as the paper's code did (as run):" in text
    few = [row for row in rows if row["variant"] == "baseline"]
    assert "there is no claim to check" in in_words(summarize(few))
    assert summarize(few).holds
