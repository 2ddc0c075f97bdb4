"""Clusters in calibrations and regressors: exact weights, files, merging, warnings and errors."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from evencover import (
    ByFeature,
    ByGroup,
    ByPrediction,
    ByTarget,
    Calibration,
    ConformalRegressor,
    Marginal,
    Plan,
    Residual,
    TooFewRowsWarning,
    TwoTails,
    audit,
    calibrate,
    diagnose,
    study,
)
from evencover.diagnostics.exact_tests import clustered_p_values
from evencover.groups import Groups
from evencover.quantiles import clustered_thresholds, conformal_rank
from tests.report_pages import report_text

RNG = np.random.default_rng(0)
CLUSTERS = np.repeat(np.arange(40), RNG.integers(1, 9, size=40))
N = len(CLUSTERS)
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + RNG.normal(size=40)[CLUSTERS] + RNG.normal(size=N)
LEVELS = [0.1, 0.5, 0.8, 0.9, 0.95]


def in_fractions(scores, level, sizes):
    """Return the threshold by its definition, in fractions."""
    total = sum(Fraction(1, int(size)) for size in sizes) + 1
    for score in np.sort(scores):
        if sum(Fraction(1, int(size)) for size in sizes[scores <= score]) >= level * total:
            return score
    return np.inf


@pytest.mark.parametrize("largest", [1, 3, 10, 60])
def test_thresholds_are_exact_whatever_the_sizes(largest):
    """Sums of floating-point numbers miss the rank by rounding: ten rows of 1/10 weigh less than 1."""
    rng = np.random.default_rng(largest)
    for _ in range(15):
        sizes = rng.integers(1, largest + 1, size=60)
        scores = rng.integers(0, 40, size=60).astype(float)
        levels = (Fraction(1, 2), Fraction(2, 3), Fraction(9, 10), Fraction(int(rng.integers(1, 99)), 100))
        found = clustered_thresholds(scores, levels, sizes)
        assert found.tolist() == [in_fractions(scores, level, sizes) for level in levels]


def test_whole_clusters_reach_the_level_exactly():
    """Nine clusters of ten rows weigh 9 of 10 at level 0.9, although 0.1 has no exact binary representation."""
    scores = np.arange(90.0)
    assert calibrate(scores, np.zeros(90), clusters=np.arange(90) // 10).threshold(0.9)[0] == 89.0
    assert calibrate(scores, np.zeros(90), clusters=np.arange(90) // 10).p_values([89.0], [0.0])[0] == 11 / 100


def test_clusters_of_one_row_change_nothing():
    groups = np.where(X[:, 1] > 0, "a", "b")
    plain = calibrate(Y, X[:, 0], groups=groups)
    single = calibrate(Y, X[:, 0], groups=groups, clusters=np.arange(N))
    assert np.array_equal(plain.threshold(LEVELS), single.threshold(LEVELS))
    assert np.array_equal(
        plain.p_values(Y, X[:, 0], groups=groups, seed=1), single.p_values(Y, X[:, 0], groups=groups, seed=1)
    )
    assert single.guarantee.exact
    assert str(single.guarantee) == str(plain.guarantee)


def test_intervals_cover_what_has_a_large_p_value():
    """Also if the least common multiple of the sizes is too large for a floating-point number."""
    rng = np.random.default_rng(1)
    for sizes in (np.arange(1, 9), np.arange(1, 60)):
        clusters = np.repeat(np.arange(len(sizes)), sizes)
        calibration = calibrate(rng.normal(size=len(clusters)), np.zeros(len(clusters)), clusters=clusters)
        y = rng.normal(size=300)
        for level in (0.31, 0.5, 0.77):
            covered = calibration.interval(np.zeros(300), level=level).covers(y)
            assert np.array_equal(covered, calibration.p_values(y, np.zeros(300)) > 1 - level)


def test_a_row_in_no_group_counts_for_the_size_of_its_cluster():
    scores, clusters = np.arange(1.0, 9.0), np.repeat(np.arange(4), 2)
    half = Groups(np.array([0, -1] * 4), ("half",))
    calibration = calibrate(scores, np.zeros(8), groups=half, clusters=clusters)
    assert calibration.threshold(0.5)[0] == 5.0  # weight 3 of 2 + 1 at level 1/2: three rows of 1/2
    assert calibration.guarantee.clusters == {"half": 2}


class TestFiles:
    @pytest.mark.parametrize("calibrator", [None, TwoTails(ByFeature(0, edges=[0.0]))])
    def test_a_regressor_keeps_its_clusters(self, tmp_path, calibrator):
        model = ConformalRegressor(Ridge(), calibrator=calibrator, random_state=0)
        model.fit(X, Y, clusters=CLUSTERS)
        model.save(tmp_path / "model")
        loaded = ConformalRegressor.load(tmp_path / "model")
        assert str(loaded.guarantee_) == str(model.guarantee_)
        assert "a random row of a new cluster" in str(loaded.guarantee_)
        for level in (0.2, 0.6):
            expected, found = (each.predict_interval(X, level=level) for each in (model, loaded))
            assert np.array_equal(np.asarray(expected), np.asarray(found))

    def test_a_calibration_keeps_its_clusters(self, tmp_path):
        calibration = calibrate(Y, X[:, 0], clusters=CLUSTERS)
        calibration.save(tmp_path / "calibration")
        loaded = Calibration.load(tmp_path / "calibration")
        assert loaded.guarantee.clusters == calibration.guarantee.clusters == {"all": 40}
        assert np.array_equal(loaded.threshold(LEVELS), calibration.threshold(LEVELS))


class TestMerge:
    def test_parts_are_the_whole_if_no_cluster_spans_parts(self):
        first = CLUSTERS < 15
        parts = [calibrate(Y[rows], X[rows, 0], clusters=CLUSTERS[rows]) for rows in (first, ~first)]
        whole = calibrate(Y, X[:, 0], clusters=CLUSTERS)
        assert np.array_equal(parts[0].merge(parts[1]).threshold(LEVELS), whole.threshold(LEVELS))

    def test_clusters_in_some_parts_only_are_an_error(self):
        with pytest.raises(ValueError, match=r"merge needs clusters in all .* or in none; got 1"):
            calibrate(Y, X[:, 0], clusters=CLUSTERS).merge(calibrate(Y, X[:, 0]))

    def test_calibrate_batches(self):
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
        parts = [CLUSTERS % 3 == 0, CLUSTERS % 3 > 0]
        model.calibrate_batches((X[rows], Y[rows], CLUSTERS[rows]) for rows in parts)
        in_parts = model.calibration_.threshold(LEVELS)
        assert np.array_equal(in_parts, model.calibrate(X, Y, clusters=CLUSTERS).calibration_.threshold(LEVELS))
        with pytest.raises(ValueError, match=r"must be in the same part; in several parts: \[3\]"):
            model.calibrate_batches([(X[:5], Y[:5], [1, 1, 2, 2, 3]), (X[5:9], Y[5:9], [3, 3, 4, 4])])

    def test_calibrate_batches_of_which_some_have_clusters(self):
        """The error names the parts, and says what to pass."""
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=CLUSTERS)
        with_clusters, without = (X[:90], Y[:90], CLUSTERS[:90]), (X[90:], Y[90:])
        advice = r"Pass \(X, y, clusters\) for every part, or \(X, y\) for every part if all rows are independent"
        for parts, found in (
            ([with_clusters, without], "part 0 has clusters, part 1 has none"),
            ([without, without, with_clusters], "part 0 has no clusters, part 2 has some"),
            ([with_clusters, (*without, None)], "part 0 has clusters, part 1 has none"),
        ):
            text = rf"^clusters must be given for all parts, or for none; {found} \(counted from 0\)\. {advice}$"
            with pytest.raises(ValueError, match=text):
                model.calibrate_batches(parts)


class TestRegressor:
    def test_a_frozen_estimator_is_calibrated_with_all_clusters(self):
        frozen = FrozenEstimator(Ridge().fit(X, Y))
        model = ConformalRegressor(frozen).fit(X, Y, clusters=CLUSTERS)
        again = ConformalRegressor(frozen).calibrate(X, Y, clusters=CLUSTERS)
        expected = calibrate(Y, frozen.predict(X), clusters=CLUSTERS).threshold(LEVELS)
        assert np.array_equal(model.calibration_.threshold(LEVELS), expected)
        assert np.array_equal(again.calibration_.threshold(LEVELS), expected)

    def test_rows_keep_their_clusters(self):
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=CLUSTERS)
        rows = model.calibration_rows_
        assert len(np.unique(rows.clusters)) == 20
        assert np.array_equal(rows[3:9].clusters, np.unique(rows.clusters[3:9], return_inverse=True)[1])
        assert "clusters" in repr(rows)

    def test_thresholds_can_be_written_as_sql(self):
        groups = np.where(X[:, 1] > 0, "a", "b")
        calibration = calibrate(Y, X[:, 0], groups=groups, clusters=CLUSTERS)
        sql = calibration.to_sql(0.8, dialect="duckdb", center="center", group="region")
        assert all(repr(float(each)) in sql.threshold for each in calibration.threshold(0.8))


class TestTooFewClusters:
    def test_one_cluster(self):
        calibration = calibrate(Y, X[:, 0], clusters=np.zeros(N))
        assert np.isfinite(calibration.threshold(0.5)[0])
        with pytest.warns(TooFewRowsWarning, match="needs 2 clusters in each group; group 'all' has 1"):
            assert calibration.threshold(0.6)[0] == np.inf

    def test_the_warning_counts_clusters(self):
        calibration = calibrate(np.arange(80.0), np.zeros(80), clusters=np.arange(80) // 10)
        with pytest.warns(TooFewRowsWarning, match="too few calibration clusters.*needs 9 clusters.*'all' has 8"):
            assert calibration.threshold(0.9)[0] == np.inf

    def test_the_weight_decides_not_the_rounded_number_of_clusters(self):
        """Seven clusters with 5.75 of their weight in the group have a finite threshold at level 0.85."""
        inside = np.ones(28, dtype=bool)
        inside[:5] = False
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            calibration = calibrate(np.arange(28.0), np.zeros(28), groups=inside, clusters=np.arange(28) // 4)
            assert np.isfinite(calibration.interval([0.0], groups=[True], level=0.85).upper[0])
        with pytest.warns(TooFewRowsWarning, match=r"needs 7 clusters in each group; group True has 5\.75"):
            calibration.interval([0.0], groups=[True], level=0.86)


class TestDiagnosis:
    def test_a_model_is_diagnosed_on_one_row_of_each_cluster(self):
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=CLUSTERS)
        found, again = (diagnose(model, level=0.5, seed=seed) for seed in (0, 0))
        cluster_of = dict(zip(model.calibrator_.scores, model.calibration_rows_.clusters, strict=True))
        assert sorted(cluster_of[score] for score in found.inputs.scores) == list(range(20))
        assert np.array_equal(found.inputs.scores, again.inputs.scores)
        n = len(model.calibration_rows_)
        assert f"One random row of each of 20 clusters was tested, of {n} rows" in str(found)

    def test_learned_groups_are_not_called_guaranteed(self):
        found = {}
        for name, taxonomy in (("learned", ByPrediction(2)), ("given", ByPrediction(edges=[0.0]))):
            model = ConformalRegressor(Ridge(), taxonomy=taxonomy, random_state=0).fit(X, Y, clusters=CLUSTERS)
            found[name] = diagnose(model, taxonomy=taxonomy, level=0.5).advice
        assert "which makes them more even" in found["learned"]
        assert "which guarantees the coverage of every group" in found["given"]

    def test_clusters_of_new_rows(self):
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
        found = diagnose(model, X, Y, level=0.5, clusters=CLUSTERS)
        assert len(found.inputs.scores) == 40
        with pytest.raises(ValueError, match="got clusters without X and y"):
            diagnose(model, clusters=CLUSTERS)

    def test_clusters_of_one_row_are_all_rows(self):
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=np.arange(N))
        assert "One random row" not in str(diagnose(model, level=0.5))


def test_halves_of_a_study_are_of_different_clusters():
    """Each half has the thresholds of its clusters, of any size; the model for new rows has those of both."""
    table = pd.DataFrame({"x": X[:, 0], "y": Y, "cluster": CLUSTERS})
    plan = Plan(Ridge(), Residual(), Marginal(), held_out=0.5)
    found = study(table, "y", plan=plan, clusters="cluster")
    scores = dict(zip(Y, np.abs(Y - found.regressor.predict(table[["x"]])), strict=True))
    cluster_of = dict(zip(Y, CLUSTERS, strict=True))
    turns, used = found.evidence.turns, []
    for regressor in (*turns.regressors, found.regressor):
        y = regressor.calibration_rows_.y
        own = np.array([cluster_of[each] for each in y])
        expected = calibrate([scores[each] for each in y], np.zeros(len(y)), clusters=own).threshold(LEVELS[:-2])
        np.testing.assert_allclose(regressor.calibration_.threshold(LEVELS[:-2]), expected, rtol=1e-12)
        assert len(y) == np.isin(CLUSTERS, own).sum()
        used.append(set(own))
    assert [len(each) for each in used] == [10, 10, 20]
    assert not used[0] & used[1]
    assert used[2] == used[0] | used[1] == set(range(40)) - set(CLUSTERS[found.training])
    for rows, calibrating in zip(turns.rows, used, strict=False):
        assert sorted(cluster_of[each] for each in rows.y) == sorted(used[2] - calibrating)


def test_groups_with_clusters_have_no_law_and_are_not_compared():
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(400), 3)
    table = pd.DataFrame({"x": rng.normal(size=1200), "kind": np.array(["a", "b"])[clusters % 2], "cluster": clusters})
    table["y"] = table["x"] + rng.normal(size=400)[clusters] + rng.normal(size=1200)
    plan = Plan(Ridge(), Residual(), ByFeature("kind"), held_out=0.5)
    found = study(table, "y", plan=plan, clusters="cluster", drop=["kind"])
    assert (found.audit.evidence, found.audit.own_thresholds) == ("test rows", True)
    assert "so groups are not compared with each other." in str(found)
    text = report_text(found)
    assert "It cannot be uneven: each group has a threshold of its own, so groups are not compared." in text
    assert not any("law of their own thresholds" in each or "needs no test" in each for each in (text, str(found)))


class TestAudit:
    def test_one_row_of_each_cluster_is_used_for_everything(self):
        bounds = np.column_stack([X[:, 0] - 2, X[:, 0] + 2])
        found = audit(Y, bounds, X=X, groups=list(X[:, 1] > 0), clusters=CLUSTERS, prediction=X[:, 0])
        assert (found.overall.rows, found.sizes_known) == (40, False)
        assert f"One random row of each of 40 clusters was tested, of {N} rows" in str(found)
        assert audit(Y, bounds, clusters=CLUSTERS, seed=3).overall != found.overall

    def test_rows_without_their_clusters_have_a_note(self):
        """The tests take them for independent. With clusters, also if each has one row, there is nothing to say."""
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=CLUSTERS)
        note = (
            "The calibration had clusters, but the test rows were treated as independent: pass their clusters "
            "(clusters=, on the command line --clusters), unless each row is of another cluster."
        )
        for intervals in (model.predict_interval(X, level=0.5), model.predict_union(X, level=0.5)):
            assert note in audit(Y, intervals).notes
            for clusters in (CLUSTERS, np.arange(N)):
                assert "as independent" not in str(audit(Y, intervals, clusters=clusters))
        assert "One random row" not in str(audit(Y, intervals, clusters=np.arange(N)))
        assert "as independent" not in str(audit(Y, ConformalRegressor(Ridge()).fit(X, Y).predict_interval(X)))

    def test_a_diagnosis_cannot_be_used_with_thresholds_from_clusters(self):
        model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y, clusters=CLUSTERS)
        diagnosis = diagnose(model, level=0.5)
        intervals = model.predict_interval(X, level=0.5)
        with pytest.raises(ValueError, match=r"diagnosis must be left out: .* clusters"):
            audit(Y, intervals, groups=diagnosis.inputs.taxonomy.assign(model.rows(X)), diagnosis=diagnosis)

    def test_groups_that_depend_on_the_target(self):
        model = ConformalRegressor(Ridge(), taxonomy=ByTarget([0.0]), random_state=0).fit(X, Y, clusters=CLUSTERS)
        found = audit(Y, model.predict_union(X, level=0.5), clusters=CLUSTERS)
        assert (found.overall.rows, found.sizes_known) == (40, False)


class Marginally:
    """A calibrator of a user, which does not know clusters."""

    def learn(self, rows, nonconformity):
        raise NotImplementedError

    restore = learn


ERRORS = {
    "weights and clusters": (
        lambda: ConformalRegressor(Ridge()).fit(X, Y).calibrate(X, Y, weights=np.ones(N), clusters=CLUSTERS),
        "weights for covariate shift and clusters cannot be combined; got both",
    ),
    "weights of new rows": (
        lambda: calibrate(Y, X[:, 0], clusters=CLUSTERS).interval(X[:, 0], weights=np.ones(N)),
        "weights for covariate shift cannot be combined with clusters; leave weights out",
    ),
    "length": (
        lambda: calibrate(Y, X[:, 0], clusters=CLUSTERS[1:]),
        f"clusters must have {N} rows, as many as the prediction; got {N - 1}",
    ),
    "one cluster": (
        lambda: ConformalRegressor(Ridge()).fit(X, Y, clusters=np.zeros(N)),
        "clusters must hold at least 2 different clusters; got 1",
    ),
    "histograms": (
        lambda: ConformalRegressor(Ridge(), calibrator=ByGroup(bits=10)).fit(X, Y, clusters=CLUSTERS),
        "bits must be None for rows with weights or clusters: histograms have neither",
    ),
    "own calibrator": (
        lambda: ConformalRegressor(Ridge(), calibrator=Marginally()).fit(X, Y, clusters=CLUSTERS),
        "Marginally takes no clusters",
    ),
    "distributions": (
        lambda: ConformalRegressor(Ridge()).fit(X, Y, clusters=CLUSTERS).predict_distribution(X),
        "a predictive distribution takes no clusters",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    function, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        function()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_p_values_of_few_clusters_are_at_least_the_exact_ones(level):
    """If the rows of each cluster are identical, the number of covered clusters has an exact distribution."""
    covered = np.arange(31)
    for n in range(9, 25):
        k = conformal_rank(n, level)
        exact = betabinom(30, k, n + 1 - k)
        under, over = np.transpose([clustered_p_values([(30, n)], Fraction(str(level)), each) for each in covered])
        assert (under >= exact.cdf(covered) - 1e-12).all()
        assert (over >= exact.sf(covered - 1) - 1e-12).all()


def test_groups_of_features_keep_a_guarantee_per_group():
    model = ConformalRegressor(DummyRegressor(), taxonomy=ByFeature(0, edges=[0.0]), random_state=0)
    guarantee = model.fit(X, Y, clusters=CLUSTERS).guarantee_
    assert (guarantee.kind, guarantee.exact) == ("per group", False)
    assert sum(guarantee.clusters.values()) in (18, 19, 20)  # the weights of 20 clusters, rounded down in each group
