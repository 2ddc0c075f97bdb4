"""Training, calibration and test parts."""

import numpy as np
import pytest

from evencover import three_way_split

X, Y = np.arange(200.0).reshape(100, 2), np.arange(100.0)


def test_parts_are_disjoint_and_whole():
    parts = three_way_split(X, Y, calibration_size=0.3, test_size=0.1, random_state=0)
    assert [len(part) for part in parts] == [60, 30, 10]
    np.testing.assert_array_equal(np.sort(np.concatenate([part.positions for part in parts])), np.arange(100))
    for part in parts:
        np.testing.assert_array_equal(part.X, X[part.positions])
        np.testing.assert_array_equal(part.y, Y[part.positions])


def test_the_seed_decides():
    first, again, other = (three_way_split(X, Y, random_state=seed)[0].positions for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_clusters_stay_together():
    clusters = np.arange(100) // 4
    parts = three_way_split(X, Y, clusters=clusters, random_state=0)
    found = [set(clusters[part.positions]) for part in parts]
    assert sum(map(len, found)) == 25
    assert len(set.union(*found)) == 25


def test_strata_keep_their_shares():
    strata = np.repeat(["many", "few"], [80, 20])
    for part in three_way_split(X, Y, stratify=strata, random_state=0):
        assert np.mean(strata[part.positions] == "few") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test_size": 20}, "test_size must be a share of the rows, between 0 and 1; got 20"),
        ({"calibration_size": 0.9}, "must leave rows for training; got 0.9 and 0.2"),
        ({"clusters": np.zeros(99)}, "clusters must have 100 rows, as many as X; got 99"),
        ({"stratify": np.zeros(99)}, "stratify must have 100 rows, as many as X; got 99"),
        ({"clusters": np.zeros(100), "stratify": np.zeros(100)}, "clusters and stratify cannot both be kept"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        three_way_split(X, Y, **arguments)


def test_lists_are_split_too():
    training, calibration, test = three_way_split(X.tolist(), Y.tolist(), random_state=0)
    assert len(training) == len(calibration) == 2 * len(test) == 40


def test_few_clusters_are_questioned_once():
    """With the count that was given."""
    with pytest.warns(UserWarning, match="clusters names only 9 clusters") as caught:
        three_way_split(X, Y, clusters=np.arange(100) % 9, random_state=0)
    assert len(caught) == 1
