"""Calibration on plain arrays: thresholds, intervals, p-values, merging, files."""

import json
import pickle
from dataclasses import dataclass
from fractions import Fraction
from zipfile import ZipFile

import numpy as np
import pytest

from evencover import (
    ByFeature,
    BySpread,
    Calibration,
    Groups,
    IntervalDistance,
    Intervals,
    Normalized,
    Prediction,
    Product,
    Residual,
    Rows,
    Standardized,
    TooFewRowsWarning,
    calibrate,
    conformal_quantile,
    conformal_rank,
)
from tests.archives import rewrite
from tests.synthetic import ALL_SCORES, draw


@pytest.fixture
def old():
    return draw(np.random.default_rng(0), 200)


@pytest.fixture
def new():
    return draw(np.random.default_rng(1), 80)


@dataclass(frozen=True)
class Squared:
    """A user's own score, with only the two methods."""

    def __call__(self, y, prediction):
        return (y - prediction.center) ** 2

    def interval(self, threshold, prediction):
        reach = np.sqrt(threshold)
        return Intervals(prediction.center - reach, prediction.center + reach)


def test_thresholds_are_the_conformal_quantiles_of_each_group(old):
    groups = np.where(old.X[:, 0] == 1, "b", "a")
    calibration = calibrate(old.y, old.prediction, groups=groups)
    scores = Residual()(old.y, old.prediction)
    expected = [[conformal_quantile(scores[groups == g], level) for level in (0.5, 0.9)] for g in ("a", "b")]
    np.testing.assert_array_equal(calibration.threshold([0.5, 0.9]), expected)
    np.testing.assert_array_equal(calibration.threshold(0.9), np.array(expected)[:, 1])
    assert calibration.labels == ("a", "b")


def test_each_row_gets_its_own_groups_threshold(old, new):
    calibration = calibrate(old.y, old.prediction, groups=old.X[:, 0].astype(int))
    reach = calibration.interval(new.prediction, groups=new.X[:, 0].astype(int)).width / 2
    np.testing.assert_allclose(reach, calibration.threshold(0.9)[new.X[:, 0].astype(int)])


@pytest.mark.parametrize("labels", [[0, 1], [5, 900_000], [True, False], ["a", "bb"], [0.5, -1.0], ["a", 1]])
def test_labels_of_any_type(labels, old, new):
    """Small and large integers, booleans, text, floats, mixed types: the intervals are the same."""
    plain = calibrate(old.y, old.prediction, groups=old.X[:, 0]).interval(new.prediction, groups=new.X[:, 0])
    named = [np.array([labels[int(code)] for code in rows.X[:, 0]], dtype=object) for rows in (old, new)]
    calibration = calibrate(old.y, old.prediction, groups=named[0])
    np.testing.assert_array_equal(calibration.interval(new.prediction, groups=named[1]).lower, plain.lower)
    assert set(calibration.sizes) == set(labels)


def test_intervals_of_several_levels_are_nested(old, new):
    intervals = calibrate(old.y, old.prediction).interval(new.prediction, level=[0.5, 0.8, 0.95])
    assert np.asarray(intervals).shape == (80, 3, 2)
    assert intervals.level == (0.5, 0.8, 0.95)
    assert (np.diff(intervals.lower, axis=1) <= 0).all()
    one = calibrate(old.y, old.prediction).interval(new.prediction, level=0.8)
    np.testing.assert_array_equal(one.lower, intervals.lower[:, 1])


def test_a_users_own_score_works_everywhere(old, new, tmp_path):
    squared = calibrate(old.y, old.prediction, nonconformity=Squared(), groups=old.X[:, 0])
    residual = calibrate(old.y, old.prediction, groups=old.X[:, 0])
    for level in (0.9, [0.5, 0.9]):
        found, expected = (
            each.interval(new.prediction, groups=new.X[:, 0], level=level) for each in (squared, residual)
        )
        np.testing.assert_allclose(found.lower, expected.lower)
    squared.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"its score is of your class Squared: pass it as nonconformity="):
        Calibration.load(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"its nonconformity is .*Squared.*; got .*Residual"):
        Calibration.load(tmp_path / "own.npz", nonconformity=Residual())
    assert Calibration.load(tmp_path / "own.npz", nonconformity=Squared()).nonconformity == Squared()


def test_each_group_can_have_its_own_score(old, new):
    """Equal to calibrating every group separately with its score."""
    score_of = {0.0: Residual(), 1.0: Normalized()}
    calibration = calibrate(old.y, old.prediction, nonconformity=score_of, groups=old.X[:, 0])
    intervals = calibration.interval(new.prediction, groups=new.X[:, 0], level=[0.5, 0.9])
    p_values = calibration.p_values(new.y, new.prediction, groups=new.X[:, 0])
    for label, score in score_of.items():
        o, n = old.X[:, 0] == label, new.X[:, 0] == label
        separate = calibrate(old.y[o], old.prediction[o], nonconformity=score)
        np.testing.assert_array_equal(intervals[n].lower, separate.interval(new.prediction[n], level=[0.5, 0.9]).lower)
        np.testing.assert_array_equal(p_values[n], separate.p_values(new.y[n], new.prediction[n]))


@pytest.mark.parametrize("score", ALL_SCORES, ids=repr)
def test_p_values_and_intervals_agree(score, old, new):
    """An interval covers a target if and only if its p-value exceeds 1 - level; both in exact arithmetic."""
    taxonomy = BySpread(3)
    calibration = calibrate(old.y, old.prediction, nonconformity=score, groups=taxonomy.learn(Rows(old.prediction)))
    groups = taxonomy.assign(Rows(new.prediction))
    p = calibration.p_values(new.y, new.prediction, groups=groups)
    sizes = np.array(list(calibration.sizes.values()))[groups.codes]
    at_least = np.round(p * (sizes + 1)).astype(int)  # scores at least as large, the row's own included
    for level in (0.1, 0.5, 0.9):
        ranks = np.array([conformal_rank(n, level) for n in sizes])
        covered = calibration.interval(new.prediction, groups=groups, level=level).covers(new.y)
        np.testing.assert_array_equal(covered, at_least > sizes + 1 - ranks)


def test_p_values_match_counts_by_hand():
    calibration = calibrate([1.0, 2.0, 2.0, 4.0], np.zeros(4))
    np.testing.assert_allclose(calibration.p_values([0.0, 2.0, 3.0, 9.0], np.zeros(4)), [1.0, 0.8, 0.4, 0.2])
    smoothed = calibration.p_values([2.0] * 1000, np.zeros(1000), seed=0)
    assert 0.2 <= smoothed.min() <= smoothed.max() <= 0.8
    np.testing.assert_array_equal(smoothed, calibration.p_values([2.0] * 1000, np.zeros(1000), seed=0))


def test_scores_tied_with_the_threshold_are_covered():
    """Without randomness: all of them are."""
    calibration = calibrate(np.ones(20), np.zeros(20))
    assert calibration.interval(np.zeros(3), level=0.5).covers([1.0, -1.0, 0.0]).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_merged_parts_equal_the_whole(weighted, old, new):
    """Groups are learned once; parts of the rows are calibrated separately and merged."""
    taxonomy = Product([BySpread(3), ByFeature(0)])
    groups = taxonomy.learn(Rows(old.prediction, old.X))
    weights = old.prediction.spread

    def calibrate_part(rows):
        return calibrate(
            old.y[rows], old.prediction[rows], groups=groups[rows], weights=weights[rows] if weighted else None
        )

    whole = calibrate_part(np.arange(200))
    first, *others = (calibrate_part(np.arange(start, stop)) for start, stop in ((0, 50), (50, 51), (51, 200)))
    merged = first.merge(*others)
    weights_new = {"weights": new.prediction.spread} if weighted else {}
    arguments = {"groups": taxonomy.assign(Rows(new.prediction, new.X)), **weights_new}
    intervals = [each.interval(new.prediction, level=0.5, **arguments) for each in (whole, merged)]
    np.testing.assert_array_equal(intervals[0].lower, intervals[1].lower)
    p_values = [each.p_values(new.y, new.prediction, **arguments) for each in (whole, merged)]
    np.testing.assert_allclose(p_values[0], p_values[1], rtol=1e-12)
    assert whole.sizes == merged.sizes


def test_merging_different_calibrations_raises(old):
    part = calibrate(old.y, old.prediction, groups=BySpread(3).learn(Rows(old.prediction)))
    others = {
        "nonconformity": calibrate(
            old.y, old.prediction, nonconformity=Normalized(), groups=BySpread(3).learn(Rows(old.prediction))
        ),
        "labels": calibrate(old.y, old.prediction, groups=BySpread(2).learn(Rows(old.prediction))),
        "rules": calibrate(old.y[50:], old.prediction[50:], groups=BySpread(3).learn(Rows(old.prediction[50:]))),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"merge needs calibrations with the same {name}"):
            part.merge(other)
    with pytest.raises(ValueError, match="the same weighted"):
        calibrate(old.y, old.prediction).merge(calibrate(old.y, old.prediction, weights=old.y**2))


@pytest.mark.parametrize(
    "nonconformity",
    [
        *ALL_SCORES,
        {"low": Residual(), "medium": IntervalDistance(), "high": Standardized(floor=0.1, scale=2.0)},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_saving_and_loading_changes_nothing(nonconformity, weighted, old, new, tmp_path):
    taxonomy = BySpread(3)
    calibration = calibrate(
        old.y,
        old.prediction,
        nonconformity=nonconformity,
        groups=taxonomy.learn(Rows(old.prediction)),
        weights=old.prediction.spread if weighted else None,
    )
    calibration.save(tmp_path / "calibration")
    loaded = Calibration.load(tmp_path / "calibration")
    arguments = {
        "groups": taxonomy.assign(Rows(new.prediction)),
        "level": [0.1, 0.9],
        "weights": new.prediction.spread if weighted else None,
    }
    expected, found = (each.interval(new.prediction, **arguments) for each in (calibration, loaded))
    np.testing.assert_array_equal(np.asarray(expected), np.asarray(found))
    assert loaded.nonconformity == calibration.nonconformity
    assert str(loaded.guarantee) == str(calibration.guarantee)
    assert list(tmp_path.iterdir()) == [tmp_path / "calibration"]


def test_saving_keeps_rows_without_a_group(tmp_path):
    """They count in no threshold."""
    groups = Groups(np.array([0, -1, 1, 0, -1, 1]), ("a", "b"))
    calibration = calibrate(np.arange(1.0, 7.0), np.zeros(6), groups=groups)
    calibration.save(tmp_path / "calibration")
    loaded = Calibration.load(tmp_path / "calibration")
    assert loaded.sizes == calibration.sizes == {"a": 2, "b": 2}
    np.testing.assert_array_equal(loaded.threshold([0.3, 0.6]), calibration.threshold([0.3, 0.6]))


def test_a_score_passed_to_load_must_match_the_file(old, tmp_path):
    calibrate(old.y, old.prediction, nonconformity=Normalized()).save(tmp_path / "c.npz")
    with pytest.raises(ValueError, match="its nonconformity is"):
        Calibration.load(tmp_path / "c.npz", nonconformity=Normalized(epsilon=0.5, scale=1.0))
    assert Calibration.load(tmp_path / "c.npz", nonconformity=Normalized()).nonconformity == Normalized()


@pytest.mark.parametrize("labels", [["a", "b"], [1, 2], [True, False], [0.5, 1.5]])
def test_labels_keep_their_type_in_a_file(labels, tmp_path):
    calibrate([1.0, 2.0], [0.0, 0.0], groups=labels).save(tmp_path / "c.npz")
    loaded = Calibration.load(tmp_path / "c.npz").labels
    assert sorted(loaded) == sorted(labels)
    assert {type(label) for label in loaded} == {type(label) for label in labels}


def test_invalid_and_corrupt_files_raise(old, tmp_path):
    """A text file, a truncated file, a flipped byte, another archive, another format version: one clear error each."""
    path = tmp_path / "c.npz"
    calibrate(old.y, old.prediction).save(path)
    valid = path.read_bytes()
    flipped = bytearray(valid)
    flipped[len(valid) // 2] ^= 0xFF
    for content in (b"", b"hello", valid[:-100], valid[: len(valid) // 2], bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"c\.npz is not a calibration file written by evencover, or it is corrupt"
        ):
            Calibration.load(path)
    np.savez(path, x=np.arange(3))
    with pytest.raises(ValueError, match="is not a calibration file"):
        Calibration.load(path)
    path.write_bytes(pickle.dumps({"format": "evencover.calibration"}))
    with pytest.raises(ValueError, match="is not a calibration file"):
        Calibration.load(path)
    for version, message in ((2, ", before its first release"), (99, "; this .* reads up to version 6: upgrade")):
        with ZipFile(path, "w") as archive:
            header = {"format": "evencover.calibration", "version": version, "evencover": "9.9"}
            archive.writestr("header.json", json.dumps(header))
        with pytest.raises(ValueError, match=rf"evencover 9\.9 in version {version} of the format{message}"):
            Calibration.load(path)
    with pytest.raises(FileNotFoundError):
        Calibration.load(tmp_path / "nowhere.npz")


def test_a_pickle_does_not_hold_the_caches(old, new):
    """Its size does not grow with use."""
    calibration = calibrate(old.y, old.prediction, groups=np.arange(len(old.y)) % 2)
    fresh = len(pickle.dumps(calibration))
    calibration.interval(new.prediction, groups=np.arange(len(new.y)) % 2)
    calibration.p_values(new.y, new.prediction, groups=np.arange(len(new.y)) % 2)
    assert len(pickle.dumps(calibration)) == fresh


def test_unseen_groups_raise_unless_allowed(old, new):
    groups = np.where(old.X[:, 0] == 1, "b", "a")
    calibration = calibrate(old.y, old.prediction, groups=groups)
    new_groups = np.array(["a", "c"] * 40)
    with pytest.raises(ValueError, match=r"groups must be among those of the calibration, \['a', 'b'\]; got \['c'\]"):
        calibration.interval(new.prediction, groups=new_groups)
    marginal = calibration.interval(new.prediction, groups=new_groups, unseen="marginal")
    pooled = calibrate(old.y, old.prediction).threshold(0.9)[0]
    np.testing.assert_allclose(marginal.width[1::2] / 2, pooled)
    assert "No guarantee for rows of unseen groups: c" in str(marginal.guarantee)
    infinite = calibration.interval(new.prediction, groups=new_groups, unseen="inf")
    assert np.isinf(infinite.width[1::2]).all()
    np.testing.assert_array_equal(infinite.width[::2], marginal.width[::2])
    p_values = calibration.p_values(new.y, new.prediction, groups=new_groups, unseen="inf")
    assert (p_values[1::2] == 1).all()
    np.testing.assert_array_equal(
        calibration.p_values(new.y, new.prediction, groups=new_groups, unseen="marginal")[1::2],
        calibrate(old.y, old.prediction).p_values(new.y, new.prediction)[1::2],
    )


def test_unseen_groups_with_a_score_for_each_group(old, new):
    score_of = {0.0: Residual(), 1.0: Normalized()}
    calibration = calibrate(old.y, old.prediction, nonconformity=score_of, groups=old.X[:, 0])
    new_groups = np.full(80, 7.0)
    assert np.isinf(calibration.interval(new.prediction, groups=new_groups, unseen="inf").width).all()
    with pytest.raises(ValueError, match="unseen='marginal' needs one score for all groups"):
        calibration.interval(new.prediction, groups=new_groups, unseen="marginal")


def test_too_few_rows_give_one_warning_with_the_number_needed():
    groups = Groups.from_labels(["a"] * 8 + ["b"] * 9, labels=["a", "b", "none"])
    calibration = calibrate(np.arange(17.0), np.zeros(17), groups=groups)
    with pytest.warns(TooFewRowsWarning) as caught:
        thresholds = calibration.threshold(0.9)
    assert len(caught) == 1
    assert "level 0.9 needs 9 rows in each group; group 'a' has 8, group 'none' has 0" in str(caught[0].message)
    assert np.isinf(thresholds).tolist() == [True, False, True]
    calibration.interval([0.0], groups=["b"])  # no warning: this group has enough rows


def test_rows_without_a_group_are_ignored():
    groups = Groups(np.array([0, -1, 0]), ("all",))
    calibration = calibrate([1.0, 100.0, 2.0], np.zeros(3), groups=groups)
    assert calibration.sizes == {"all": 2}
    assert calibration.threshold(0.5)[0] == 2.0


def test_equal_weights_change_nothing(old, new):
    plain = calibrate(old.y, old.prediction, groups=old.X[:, 0])
    weighted = calibrate(old.y, old.prediction, groups=old.X[:, 0], weights=np.full(200, 0.1))
    given = {"groups": new.X[:, 0], "level": [0.3, 0.9]}
    expected = plain.interval(new.prediction, **given)
    found = weighted.interval(new.prediction, weights=np.full(80, 0.1), **given)
    np.testing.assert_array_equal(np.asarray(expected), np.asarray(found))
    assert "likelihood ratios" in str(found.guarantee)
    np.testing.assert_array_equal(weighted.threshold(0.9, test_weight=0.1), plain.threshold(0.9))


def test_a_constant_factor_in_all_weights_does_not_matter(old, new):
    found = [
        calibrate(old.y, old.prediction, weights=factor * old.prediction.spread).interval(
            new.prediction, weights=factor * new.prediction.spread, level=[0.3, 0.9]
        )
        for factor in (1.0, 7.0, 1e-9)
    ]
    for each in found[1:]:
        np.testing.assert_array_equal(np.asarray(each), np.asarray(found[0]))
    assert len(np.unique(found[0].width[:, 1])) > 1


def test_each_weighted_row_has_its_own_threshold(old, new):
    """It is the weighted quantile for the weight of the row."""
    weights = old.prediction.spread
    calibration = calibrate(old.y, old.prediction, weights=weights)
    reach = calibration.interval(new.prediction, weights=new.prediction.spread).width / 2
    expected = conformal_quantile(
        Residual()(old.y, old.prediction), 0.9, weights=weights, test_weight=new.prediction.spread
    )
    np.testing.assert_allclose(reach, expected)


def test_a_new_row_with_a_large_weight_gets_an_infinite_interval():
    calibration = calibrate(np.arange(50.0), np.zeros(50), weights=np.ones(50))
    with pytest.warns(TooFewRowsWarning, match="some new rows have too much weight compared with the calibration rows"):
        width = calibration.interval([0.0, 0.0], weights=[1.0, 100.0]).width
    assert np.isinf(width).tolist() == [False, True]


def test_tied_prices_are_all_covered():
    """Scores and bounds are rounded differently; targets whose score equals the threshold are still covered."""
    y = np.repeat([4.99, 9.99, 19.99], [60, 60, 80])
    center = np.full(200, 0.266)
    calibration = calibrate(y, center)
    assert calibration.interval(center).covers(y).all()
    assert (calibration.p_values(y, center) > 0.1).all()


def test_p_values_with_equal_weights_are_the_unweighted_ones(old, new):
    plain = calibrate(old.y, old.prediction).p_values(new.y, new.prediction)
    weighted = calibrate(old.y, old.prediction, weights=np.full(200, 0.1))
    np.testing.assert_array_equal(weighted.p_values(new.y, new.prediction, weights=np.full(80, 0.1)), plain)


def test_40_000_groups():
    """More than 16-bit codes can hold, and as many unseen groups."""
    labels = np.arange(80_000) % 40_000
    calibration = calibrate(labels.astype(float), np.zeros(80_000), groups=labels)
    reach = calibration.interval(np.zeros(40_000), groups=np.arange(40_000), level=0.5).width / 2
    np.testing.assert_allclose(reach, np.arange(40_000))
    unseen = calibration.interval(np.zeros(40_000), groups=np.arange(40_000, 80_000), unseen="inf")
    assert np.isinf(unseen.width).all()


def test_unseen_labels_on_learned_edges(old):
    """In a product, a new row may belong to an unseen group of one taxonomy and lie on an edge of another."""
    taxonomy = Product([BySpread(2), ByFeature(0)])
    groups = taxonomy.learn(Rows(old.prediction, old.X))
    calibration = calibrate(old.y, old.prediction, groups=groups)
    edge = np.flatnonzero(groups.edge)[0]
    features = np.repeat(old.X[[edge]], 2, axis=0)
    features[1, 0] = 7.0
    new = taxonomy.assign(Rows(old.prediction[[edge, edge]], features))
    intervals = calibration.interval(old.prediction[[edge, edge]], groups=new, unseen="marginal")
    pooled = calibrate(old.y, old.prediction).threshold(0.9)[0]
    assert intervals.width[1] / 2 == pytest.approx(pooled)
    assert intervals.width[0] / 2 != pytest.approx(pooled)


def test_too_few_rows_for_the_marginal_threshold_give_a_warning():
    calibration = calibrate(np.arange(5.0), np.zeros(5), groups=["a"] * 5)
    with pytest.warns(TooFewRowsWarning, match="needs 9 rows in each group; group 'all rows together' has 5"):
        assert np.isinf(calibration.interval([0.0], groups=["b"], unseen="marginal").width[0])


def test_p_values_are_1_if_all_weights_are_0():
    calibration = calibrate([1.0, 2.0], [0.0, 0.0], weights=[0.0, 0.0])
    assert calibration.p_values([5.0], [0.0], weights=[0.0])[0] == 1.0


def test_numpy_scalars_as_settings_are_saved(old, tmp_path):
    score = Normalized(floor=np.float64(0.5), scale=np.int64(2))
    calibrate(old.y, old.prediction, nonconformity=score).save(tmp_path / "c.npz")
    assert Calibration.load(tmp_path / "c.npz").nonconformity == score


def test_groups_with_other_edges_raise(old, new):
    calibration = calibrate(old.y, old.prediction, groups=BySpread(3).learn(Rows(old.prediction)))
    with pytest.raises(ValueError, match="groups must have the rules of the calibration"):
        calibration.interval(new.prediction, groups=BySpread(3).learn(Rows(new.prediction)))


def test_no_calibration_rows_and_no_new_rows():
    calibration = calibrate([], [])
    with pytest.warns(TooFewRowsWarning):
        assert np.isinf(calibration.interval([1.0]).width).all()
    assert len(calibrate([1.0], [0.0]).interval(np.empty(0), level=0.5)) == 0


def test_text_and_coverage_of_the_guarantee(old):
    guarantee = calibrate(old.y, old.prediction, groups=np.repeat(["a", "b"], [150, 50])).guarantee
    assert guarantee.kind == "per group"
    assert str(guarantee).startswith("Coverage per group: in every group, a target lies in its interval")
    assert str(guarantee).endswith("Calibration rows: a 150, b 50.")
    assert guarantee.coverage(0.9) == {"a": Fraction(136, 151), "b": Fraction(46, 51)}


def test_a_plain_array_is_the_center(old, new):
    plain = calibrate(old.y, old.prediction.center).interval(new.prediction.center)
    np.testing.assert_array_equal(plain.lower, calibrate(old.y, old.prediction).interval(new.prediction).lower)


def test_calibrating_does_not_change_the_prediction(old):
    center = old.prediction.center.copy()
    calibrate(old.y, old.prediction, nonconformity=Normalized())
    np.testing.assert_array_equal(old.prediction.center, center)
    assert isinstance(old.prediction, Prediction)


@pytest.mark.parametrize("n_groups", [1, 127, 128, 129, 400])
def test_many_groups_are_loaded_from_a_file(n_groups, tmp_path):
    """Their codes are saved in the smallest integer type that holds them."""
    labels = np.arange(2 * n_groups) % n_groups
    calibration = calibrate(np.arange(2.0 * n_groups), np.zeros(2 * n_groups), groups=labels)
    calibration.save(tmp_path / "c.npz")
    loaded = Calibration.load(tmp_path / "c.npz")
    assert (loaded.labels, loaded.sizes) == (calibration.labels, calibration.sizes)
    np.testing.assert_array_equal(loaded.groups.codes, labels)
    np.testing.assert_array_equal(loaded.scores, calibration.scores)


def test_weights_in_a_file_are_checked(old, tmp_path):
    """A file with inconsistent arrays is corrupt."""
    ones = np.ones(len(old.y))
    for weights in (ones[:-1], -ones):
        calibrate(old.y, old.prediction, weights=ones).save(tmp_path / "c.npz")
        rewrite(tmp_path / "c.npz", arrays={"weights": weights})
        with pytest.raises(
            ValueError, match=r"c.npz is not a calibration file written by evencover, or it is corrupt: weights must"
        ):
            Calibration.load(tmp_path / "c.npz")


def test_histograms_and_scores_do_not_merge(old):
    """Nor histograms on different grids; weights and clusters need the scores."""
    scores, rounded, coarse = (calibrate(old.y, old.prediction, bits=bits) for bits in (None, 10, 5))
    for first, second, message in ((scores, rounded, "None and 10"), (rounded, coarse, "10 and 5")):
        with pytest.raises(ValueError, match=f"merge needs calibrations with the same bits; got {message}"):
            first.merge(second)
    for given in ({"weights": np.ones(len(old.y))}, {"clusters": np.arange(len(old.y)) // 2}):
        with pytest.raises(ValueError, match="bits must be None for rows with weights or clusters"):
            calibrate(old.y, old.prediction, bits=10, **given)
    with pytest.raises(ValueError, match="histograms have no weights for covariate shift"):
        rounded.interval(old.prediction, weights=np.ones(len(old.y)))
    with pytest.raises(AttributeError, match="does not keep the scores of its rows"):
        rounded.scores  # noqa: B018


def test_histograms_are_saved(old, tmp_path):
    found = calibrate(old.y, old.prediction, groups=old.y > 0, bits=6)
    found.save(tmp_path / "histograms")
    loaded = Calibration.load(tmp_path / "histograms")
    assert repr(loaded) == repr(found)
    np.testing.assert_array_equal(loaded.threshold([0.5, 0.9]), found.threshold([0.5, 0.9]))
    p_values = (each.p_values(old.y, old.prediction, groups=old.y > 0) for each in (loaded, found))
    np.testing.assert_array_equal(*p_values)
