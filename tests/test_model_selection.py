"""Splits into training, calibration and test parts."""

import numpy as np
import pytest

from evencover import three_way_split

X, Y = np.arange(200.0).reshape(100, 2), np.arange(100.0)


def test_parts_are_disjoint_and_hold_all_rows():
    parts = three_way_split(X, Y, calibration_size=0.3, test_size=0.1, random_state=0)
    assert [len(part) for part in parts] == [60, 30, 10]
    np.testing.assert_array_equal(np.sort(np.concatenate([part.positions for part in parts])), np.arange(100))
    for part in parts:
        np.testing.assert_array_equal(part.X, X[part.positions])
        np.testing.assert_array_equal(part.y, Y[part.positions])


def test_the_seed_determines_the_split():
    first, again, other = (three_way_split(X, Y, random_state=seed)[0].positions for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_rows_of_a_cluster_are_in_one_part():
    clusters = np.arange(100) // 4
    parts = three_way_split(X, Y, clusters=clusters, random_state=0)
    found = [set(clusters[part.positions]) for part in parts]
    assert sum(map(len, found)) == 25
    assert len(set.union(*found)) == 25


def test_strata_have_the_same_shares_in_all_parts():
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
        ({"clusters": np.zeros(100), "stratify": np.zeros(100)}, "clusters and stratify cannot be combined; got both"),
    ],
)
def test_bad_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        three_way_split(X, Y, **arguments)


def test_lists_can_be_split():
    training, calibration, test = three_way_split(X.tolist(), Y.tolist(), random_state=0)
    assert len(training) == len(calibration) == 2 * len(test) == 40


def test_few_clusters_give_one_warning():
    """With the number of clusters."""
    with pytest.warns(UserWarning, match="clusters has only 9 different clusters") as caught:
        three_way_split(X, Y, clusters=np.arange(100) % 9, random_state=0)
    assert len(caught) == 1
