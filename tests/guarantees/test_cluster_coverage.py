"""Calibration with clusters: a random row of a new cluster is covered with at least the level, in every group."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.dummy import DummyRegressor

from evencover import BySpread, ConformalRegressor, Prediction, TwoTails, audit, calibrate, diagnose_scores
from evencover.groups import Groups
from evencover.quantiles import clustered_thresholds
from evencover.rows import Rows

ONE_IN_A_MILLION = 4.9  # standard errors, one-sided, for up to two tests
LEVELS = [Fraction(1, 2), Fraction(4, 5), Fraction(9, 10)]


def weights_of_misses(scores, groups, clusters, table_of):
    """Return the weight of the rows that are missed if their cluster is the new one, and of all rows, by group.

    Shapes (groups, levels) and (groups, 1). `table_of` returns thresholds of this shape.
    """
    missed, total = np.zeros((2, len(LEVELS)), dtype=object), np.zeros((2, 1), dtype=object)
    for cluster in np.unique(clusters):
        own = clusters == cluster
        table = table_of(scores[~own], groups[~own], clusters[~own])
        for group in (0, 1):
            in_group = scores[own & (groups == group)]
            total[group] += Fraction(len(in_group), int(own.sum()))
            missed[group] += [Fraction(int((in_group > each).sum()), int(own.sum())) for each in table[group]]
    return missed, total


def hierarchical(scores, groups, clusters):
    """Return the thresholds of the package."""
    fixed = Groups.from_labels(groups, labels=[0, 1])
    return calibrate(scores, np.zeros(len(scores)), groups=fixed, clusters=clusters).threshold(LEVELS)


def by_rows_of_the_group(scores, groups, clusters):
    """Return the thresholds of a wrong rule: a row weighs 1 / (rows of its cluster in the group)."""
    table = np.full((2, len(LEVELS)), np.inf)
    for group in np.unique(groups):
        inside = groups == group
        sizes = np.bincount(clusters[inside])[clusters[inside]]
        table[group] = clustered_thresholds(scores[inside], tuple(LEVELS), sizes)
    return table


def independent_rows(scores, groups, clusters):
    """Return the thresholds of a wrong rule: rows of a cluster count as independent rows."""
    return calibrate(scores, np.zeros(len(scores)), groups=Groups.from_labels(groups, labels=[0, 1])).threshold(LEVELS)


def tiny_worlds(n, seed):
    """Yield scores, groups and clusters of few rows: any sizes, with ties, whose scores depend on the cluster."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        sizes = rng.integers(1, 7, size=rng.integers(3, 13))
        clusters = np.repeat(np.arange(len(sizes)), sizes)
        noise = rng.integers(0, 3, size=len(clusters)) * rng.integers(0, 2)
        scores = (3 * rng.integers(0, 9, size=len(sizes))[clusters] + noise).astype(float)
        share = rng.choice([0.1, 0.5, 0.9, 1.0], size=len(sizes))[clusters]
        yield scores, (rng.random(len(clusters)) > share).astype(int), clusters


@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
def test_no_more_than_1_minus_level_of_the_weight_is_missed_whichever_cluster_is_the_new_one():
    """The sum over all choices of the new cluster is the exact probability of a miss, for exchangeable clusters."""
    for world in tiny_worlds(150, seed=0):
        missed, total = weights_of_misses(*world, hierarchical)
        assert (missed <= (1 - np.array(LEVELS)) * total).all()


@pytest.mark.filterwarnings("ignore::evencover.TooFewRowsWarning")
@pytest.mark.parametrize("wrong", [by_rows_of_the_group, independent_rows])
def test_other_weights_miss_more(wrong):
    """The enumeration finds weights that do not guarantee the level."""
    results = (weights_of_misses(*world, wrong) for world in tiny_worlds(60, seed=1))
    assert sum((missed > (1 - np.array(LEVELS)) * total).any() for missed, total in results) > 5


class Simulated:
    """Clusters of given sizes: scores are absolute values of the sum of a normal cluster effect and normal noise."""

    def __init__(self, sizes, repeats, seed, share_between=0.9):
        rng = np.random.default_rng(seed)
        self.clusters = np.repeat(np.arange(len(sizes)), sizes)
        between = rng.normal(size=(repeats, len(sizes)))[:, self.clusters]
        within = rng.normal(size=between.shape)
        self.y = np.sqrt(share_between) * between + np.sqrt(1 - share_between) * within

    def coverages(self, level):
        """Return the coverage of each repeat for a random row of a new cluster."""
        repeats, clusters = in_each_repeat(len(self.y), self.clusters)
        calibration = calibrate(self.y.ravel(), np.zeros(self.y.size), groups=repeats, clusters=clusters)
        return 2 * norm.cdf(calibration.threshold(level)) - 1


def in_each_repeat(n_repeats, clusters):
    """Return the repeat of each row, and its cluster, which differs from those of other repeats."""
    repeats = np.repeat(np.arange(n_repeats), len(clusters))
    return repeats, repeats * len(clusters) + np.tile(clusters, n_repeats)


def clustered(rng, n_clusters, share_between):
    """Return standard normal targets, and their clusters of ten rows."""
    clusters = np.repeat(np.arange(n_clusters), 10)
    between, within = rng.normal(size=n_clusters)[clusters], rng.normal(size=len(clusters))
    return np.sqrt(share_between) * between + np.sqrt(1 - share_between) * within, clusters


def at_least(values, level):
    """Return whether independent values can have a mean of at least the level."""
    return (values.mean() - level) * np.sqrt(len(values)) > -ONE_IN_A_MILLION * values.std(ddof=1)


@pytest.mark.parametrize(
    "sizes", [[10] * 10, [20] * 12, [10] * 20, np.random.default_rng(5).integers(1, 21, size=100)], ids=len
)
def test_coverage_of_new_clusters_is_at_least_the_level(sizes):
    """With rows as if independent, it is 0.88 for 10 and 12 clusters, 0.89 for 20 and 0.897 for 100."""
    assert at_least(Simulated(sizes, 1000, seed=len(sizes)).coverages(0.9), 0.9)


def test_identical_rows_have_the_distribution_of_one_row_of_each_cluster():
    """Then the threshold is that of the clusters, bit for bit, so coverage is Beta(k, K + 1 − k)."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(30), rng.integers(1, 9, size=30))
    for scores in rng.exponential(size=(20, 30)):
        levels = [0.1, 0.5, 0.9, 0.95]
        rows = calibrate(scores[clusters], np.zeros(len(clusters)), clusters=clusters)
        assert np.array_equal(rows.threshold(levels), calibrate(scores, np.zeros(30)).threshold(levels))


def group_excess(weigh_by_group, repeats=800):
    """Return in-group coverage less the level, times the indicator, for a new row: its mean must be at least 0.

    Half of the clusters have 9 of 10 rows in the group, with scores of scale 3; the others have one, of scale 1.
    """
    rng, level = np.random.default_rng(7), 0.9
    many = rng.random((repeats, 60)) < 0.5
    inside = (np.arange(600) % 10 < np.where(many, 9, 1).repeat(10, axis=1)).ravel()
    y = (rng.normal(size=many.shape) * np.where(many, 3.0, 1.0)).repeat(10, axis=1).ravel()
    groups, clusters = in_each_repeat(repeats, np.repeat(np.arange(60), 10))
    if weigh_by_group:
        calibration = calibrate(y[inside], np.zeros(inside.sum()), groups=groups[inside], clusters=clusters[inside])
        thresholds = calibration.threshold(level)
    else:
        calibration = calibrate(y, np.zeros(len(y)), groups=2 * groups + inside, clusters=clusters)
        thresholds = calibration.threshold(level)[1::2]
    covered = 2 * norm.cdf([thresholds, thresholds / 3]) - 1
    return 0.5 * 0.1 * (covered[0] - level) + 0.5 * 0.9 * (covered[1] - level)


def test_coverage_in_a_group_needs_the_rows_of_the_cluster_in_all_groups():
    assert at_least(group_excess(weigh_by_group=False), 0.0)
    assert not at_least(group_excess(weigh_by_group=True, repeats=300), 0.0)


def test_the_regressor_covers_new_clusters_also_with_both_tails():
    """`fit` calibrates on six clusters; with their rows as if independent, coverage is 0.72 in place of 0.8."""
    rng = np.random.default_rng(3)
    joint, below, above = [], [], []
    for seed in range(200):
        y, clusters = clustered(rng, 12, share_between=0.999)
        one, two = (
            ConformalRegressor(DummyRegressor(), calibrator=calibrator, random_state=seed)
            .fit(np.zeros((120, 1)), y, clusters=clusters)
            .predict_interval(np.zeros((1, 1)), level=level)
            for calibrator, level in ((None, 0.8), (TwoTails(), 0.6))
        )
        joint.append(norm.cdf(one.upper[0]) - norm.cdf(one.lower[0]))
        below.append(norm.sf(two.lower[0]))
        above.append(norm.cdf(two.upper[0]))
    for covered in (joint, below, above):  # each tail misses at most half of 1 − level
        assert at_least(np.array(covered), 0.8)


def test_p_values_of_new_clusters_are_not_too_small():
    rng, n_repeats = np.random.default_rng(11), 1500
    y = rng.normal(size=(n_repeats, 16))
    repeats, clusters = in_each_repeat(n_repeats, np.repeat(np.arange(15), 6))
    calibration = calibrate(
        y[:, :15].repeat(6, axis=1).ravel(), np.zeros(len(repeats)), groups=repeats, clusters=clusters
    )
    p_values = calibration.p_values(y[:, 15], np.zeros(n_repeats), groups=np.arange(n_repeats))
    for share in (0.125, 0.25, 0.5):
        n = np.count_nonzero(p_values <= share)
        assert n <= n_repeats * share + ONE_IN_A_MILLION * np.sqrt(n_repeats * share * (1 - share))


def test_learned_edges_make_the_guarantee_approximate_and_given_edges_do_not():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(30), 5)
    y, tied = rng.normal(size=150), np.full(150, 2.0)
    for spread in (rng.uniform(size=150), tied):
        rows = Rows(Prediction(np.zeros(150), spread=spread), y=y)
        learned = calibrate(y, rows.prediction, groups=BySpread(3).learn(rows), clusters=clusters).guarantee
        assert (learned.kind, learned.exact, learned.lower_bound(0.9)) == ("approximate", False, 0)
        assert "the edges of the groups were learned from their rows" in str(learned)
        groups = BySpread(edges=[0.3, 0.6]).learn(rows)
        given = calibrate(y, rows.prediction, groups=groups, clusters=clusters).guarantee
        assert (given.kind, given.exact, given.lower_bound(0.9)) == ("per group", False, Fraction(9, 10))
    assert "a random row of a new cluster" in str(given)
    assert "Nothing is guaranteed for rows of clusters that the model was fitted or calibrated on" in str(given)


def rejected(results):
    """Return how many of these audits or diagnoses reject at 5 %."""
    return sum(result.joint_p_value < 0.05 for result in results)


def most(n):
    """Return the largest number of n rejections that a test at 5 % exceeds once in a million times."""
    return binom.isf(1e-6, n, 0.05)


def audits(n_clusters, share_between, *, groups):
    """Yield audits of a valid predictor, whose calibration and test rows are in clusters of ten rows."""
    rng = np.random.default_rng(n_clusters)
    for seed in range(100):
        (y, old), (y_new, new) = (clustered(rng, n, share_between) for n in (n_clusters, 150))
        of_old, of_new = ((np.arange(len(each)) % 10 < 7 * groups) for each in (old, new))
        calibration = calibrate(y, np.zeros(len(y)), groups=of_old, clusters=old)
        intervals = calibration.interval(np.zeros(len(y_new)), groups=of_new)
        yield audit(y_new, intervals, groups=of_new, clusters=new, seed=seed)


@pytest.mark.parametrize("world", [(10, 0.0, False), (19, 1.0, False), (40, 0.9, True)])
def test_a_valid_predictor_passes_the_audit(world):
    """Coverage varies with the calibration clusters, and lies above the level if there are few of them."""
    n_clusters, share_between, groups = world
    assert rejected(audits(n_clusters, share_between, groups=groups)) <= most(100)


def test_test_rows_in_clusters_need_one_row_of_each():
    """With all rows as if independent, intervals of the right coverage are rejected far too often."""
    rng = np.random.default_rng(1)
    rows = [clustered(rng, 60, 0.9) for _ in range(100)]
    bounds = (np.full(600, norm.ppf(0.05)), np.full(600, norm.ppf(0.95)))
    one_group = np.zeros(600)
    assert rejected(audit(y, bounds, groups=one_group) for y, _ in rows) > most(100)
    assert rejected(audit(y, bounds, groups=one_group, clusters=clusters) for y, clusters in rows) <= most(100)


def test_a_predictor_that_covers_too_little_fails_the_audit():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(200), 5)
    calibration = calibrate(rng.normal(size=200)[clusters], np.zeros(1000), clusters=clusters)
    y = 2 * rng.normal(size=300)
    found = audit(y, calibration.interval(np.zeros(300)), groups=np.zeros(300))
    assert (found.verdict, found.evidence) == ("uneven", "test rows")
    assert any("thresholds come from clusters" in note for note in found.notes)


def diagnoses(*, clusters):
    """Yield diagnoses of scores that are the same within a cluster, and do not depend on its group."""
    rng = np.random.default_rng(5)
    codes = np.repeat(np.arange(60), 5)
    for seed in range(40):
        scores, groups = rng.exponential(size=60)[codes], (np.arange(60) % 2)[codes]
        yield diagnose_scores(scores, groups, level=0.8, clusters=codes if clusters else None, seed=seed)


def test_the_diagnosis_of_rows_in_clusters_needs_one_row_of_each():
    assert rejected(diagnoses(clusters=False)) > most(40)
    assert rejected(diagnoses(clusters=True)) <= most(40)
