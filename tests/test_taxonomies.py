"""The groups of each taxonomy, also at the limits: ties, constant values, few or no rows."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from evencover import ByFeature, ByPrediction, BySpread, Groups, Prediction, Product, Rows, TooFewRowsWarning, calibrate


def spread_rows(spread):
    return Rows(Prediction(np.zeros(len(spread)), spread))


@pytest.mark.parametrize(
    ("n_groups", "labels"),
    [
        (1, ("all",)),
        (2, ("low", "high")),
        (3, ("low", "medium", "high")),
        (4, ("1 (lowest)", "2", "3", "4 (highest)")),
    ],
)
def test_bins_have_readable_labels(n_groups, labels):
    assert BySpread(n_groups).learn(spread_rows(np.arange(1.0, 21.0))).labels == labels


def test_edges_are_rounded_in_the_repr_only():
    taxonomy = BySpread(2)
    groups = taxonomy.learn(spread_rows(np.array([1 / 3, 2 / 3, 1.0, 2.0])))
    assert repr(groups) == "Groups(4 rows: low (spread <= 0.6667) 2, high (0.6667 < spread) 2)"
    assert taxonomy.edges_.tolist() == [2 / 3]
    assert str(2 / 3) in groups.rules[0]


def test_edge_rows_are_calibrated_separately():
    """Ten distinct spreads in three bins: the third and the sixth are edge rows, the other eight are members."""
    groups = BySpread(3).learn(spread_rows(np.arange(1.0, 11.0)))
    assert groups.edge.tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 0, 0]
    calibration = calibrate(np.zeros(10), np.zeros(10), groups=groups)
    assert calibration.sizes == {"low": 2, "medium": 2, "high": 4}


def test_values_that_differ_by_rounding_errors_are_in_the_same_learned_bin():
    """Given edges are taken literally."""
    learned = BySpread(2)
    learned.learn(spread_rows(np.repeat([0.3, 0.7], 10)))
    new = spread_rows(np.array([0.3, 0.1 + 0.2, 0.3 * (1 + 1e-12), 0.3 * (1 + 1e-6)]))
    assert learned.assign(new).codes.tolist() == [0, 0, 0, 1]
    given = BySpread(edges=[0.3])
    given.learn(new)
    assert given.assign(new).codes.tolist() == [0, 1, 1, 1]


def test_rows_tied_with_the_edge_below_its_rank_are_ordinary_members():
    """The edge of 1 2 2 | 2 3 3 is 2, and a row with a lower rank is tied with it."""
    groups = BySpread(2).learn(spread_rows(np.array([1.0, 2.0, 2.0, 2.0, 3.0, 3.0])))
    assert groups.codes.tolist() == [0, 0, 0, 0, 1, 1]
    assert groups.edge is None


def test_tied_rows_from_the_rank_on_are_all_edge_rows():
    """The edge of 1 1 1 2 | 2 2 3 3 is 2, the first of its ties."""
    groups = BySpread(2).learn(spread_rows(np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0])))
    assert groups.codes.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert groups.edge.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]


class TestMergedBins:
    """Bins that cannot be told apart are one."""

    @pytest.mark.parametrize("taxonomy", [BySpread(3), BySpread(7), ByPrediction(3)], ids=repr)
    @pytest.mark.parametrize("error", [0.0, 1e-13])
    def test_a_constant_gives_one_group(self, taxonomy, error):
        """Also if it is constant up to rounding errors, and also for new rows with other values."""
        values = 0.7 * (1 + error * np.random.default_rng(0).normal(size=29))
        groups = taxonomy.learn(Rows(Prediction(values, spread=values)))
        assert groups.counts.tolist() == [29]
        assert groups.edge is None
        assert (taxonomy.labels_, taxonomy.edges_.tolist()) == (("all",), [])
        calibration = calibrate(np.arange(29.0), np.zeros(29), groups=groups)
        assert calibration.sizes == {"all": 29}
        assert np.isfinite(calibration.threshold(0.9)).all()
        new = np.array([0.5, 0.7, 2.0])
        assert taxonomy.assign(Rows(Prediction(new, spread=new))).codes.tolist() == [0, 0, 0]
        quantity = "prediction" if isinstance(taxonomy, ByPrediction) else "spread"
        assert taxonomy.merged_text == (
            f"All calibration rows have the same {quantity}, so it gives one group instead of {taxonomy.n_groups}."
        )

    def test_equal_edges_are_one(self):
        """A value with most of the rows: the bin between two equal edges could not have rows."""
        taxonomy = BySpread(5)
        groups = taxonomy.learn(spread_rows(np.repeat([1.0, 2.0, 3.0], [8, 28, 4])))
        assert groups.labels == ("low", "medium", "high")
        assert groups.counts.tolist() == [8, 28, 4]
        assert taxonomy.edges_.tolist() == [1.0, 2.0]
        assert (
            taxonomy.merged_text
            == "70 % of the calibration rows have the same spread, so it gives 3 groups instead of 5."
        )

    def test_without_rows_above_the_last_edge_larger_values_belong_to_the_bin_below(self):
        taxonomy = BySpread(2)
        groups = taxonomy.learn(spread_rows(np.array([1.0, 2.0, 3.0, 3.0, 3.0, 3.0])))
        assert groups.labels == ("all",)
        assert groups.edge.tolist() == [0, 0, 1, 1, 1, 1]  # the edge 3 is the first of its ties
        new = taxonomy.assign(spread_rows(np.array([2.0, 3.0, 4.0])))
        assert (new.codes.tolist(), new.edge.tolist()) == ([0, 0, 0], [0, 1, 1])

    def test_a_single_row_above_the_last_edge_counts_as_a_row_on_it(self):
        taxonomy = BySpread(3)
        groups = taxonomy.learn(spread_rows(np.append(np.ones(20), 3.0)))
        assert groups.counts.tolist() == [21, 0]
        assert taxonomy.assign(spread_rows(np.array([1.0, 2.0, 4.0]))).codes.tolist() == [0, 1, 1]

    def test_values_that_can_be_told_apart_are_as_before(self):
        values = 1 + np.arange(30.0) * 1e-8
        taxonomy = BySpread(3)
        groups = taxonomy.learn(spread_rows(values))
        assert groups.counts.tolist() == [10, 10, 10]
        assert taxonomy.edges_.tolist() == [values[9], values[19]]
        assert taxonomy.merged_text == ""

    def test_fewer_rows_than_groups_give_fewer_groups(self):
        taxonomy = BySpread(5)
        assert taxonomy.learn(spread_rows(np.array([1.0, 2.0]))).counts.tolist() == [1, 1]
        assert taxonomy.assign(spread_rows(np.array([0.1, 1.5, 9.0]))).codes.tolist() == [0, 1, 1]
        assert taxonomy.merged_text == ""

    def test_learning_from_no_rows(self):
        taxonomy = BySpread(3)
        taxonomy.learn(spread_rows(np.empty(0)))
        assert taxonomy.assign(spread_rows(np.array([1.0]))).codes.tolist() == [0]

    def test_a_product_says_which_part_was_merged(self):
        taxonomy = Product([BySpread(2), ByPrediction(2)])
        groups = taxonomy.learn(Rows(Prediction(np.arange(20.0), spread=np.ones(20))))
        assert groups.labels == ("all & low", "all & high")
        assert taxonomy.merged_text == "All calibration rows have the same spread, so it gives one group instead of 2."


@pytest.mark.parametrize(("n", "expected"), [(100, 9), (60, 5), (21, 1), (5, 1)])
def test_min_rows_reduces_the_number_of_bins(n, expected):
    """The number of bins depends only on n and the settings; every bin has the requested number of rows."""
    taxonomy = BySpread(9, min_rows=10)
    groups = taxonomy.learn(spread_rows(np.arange(1.0, n + 1)))
    assert len(taxonomy.labels_) == expected
    sizes = calibrate(np.zeros(n), np.zeros(n), groups=groups).sizes
    assert len(sizes) == 1 or min(sizes.values()) >= 10


def test_bins_with_given_edges_are_closed_above():
    groups = ByPrediction(edges=[0.0, 1.0]).learn(Rows(Prediction([-1.0, 0.0, 0.5, 1.0, 2.0])))
    assert groups.codes.tolist() == [0, 0, 1, 1, 2]
    assert groups.edge is None


def test_categories_without_rows_get_infinite_intervals():
    features = np.array([[0.0], [1.0]] * 10)
    taxonomy = ByFeature(0, categories=[0.0, 1.0, 2.0])
    groups = taxonomy.learn(Rows(Prediction(np.zeros(20)), features))
    calibration = calibrate(np.arange(20.0), np.zeros(20), groups=groups)
    new = taxonomy.assign(Rows(Prediction([0.0]), np.array([[2.0]])))
    with pytest.warns(TooFewRowsWarning, match=r"level 0\.5 needs 1 row in each group; group 2\.0 has 0"):
        assert np.isinf(calibration.interval([0.0], groups=new, level=0.5).width[0])
    with pytest.raises(ValueError, match=r"has values that are not in categories: \[1\.0\]"):
        ByFeature(0, categories=[0.0]).learn(Rows(Prediction(np.zeros(20)), features))


def test_products_combine_labels_rules_and_edges():
    features = np.array([["n"], ["s"]] * 4, dtype=object)
    rows = Rows(Prediction(np.arange(8.0), np.arange(8.0)[::-1] + 1), features)
    groups = Product([BySpread(2), ByPrediction(2), ByFeature(0)]).learn(rows)
    assert groups.labels[:2] == ("low & low & n", "low & low & s")
    assert len(groups.labels) == 8
    assert groups.edge.tolist() == [0, 0, 0, 2, 1, 0, 0, 0]
    assert groups.n_edge_bits == 2
    assert groups.rules[0] == "spread <= 4.0 and prediction <= 3.0 and column 0 = 'n'"


def test_equal_combined_labels_raise():
    a = Groups.from_labels(["x", "x & y"])
    b = Groups.from_labels(["y & z", "z"])
    with pytest.raises(ValueError, match="the combined labels must be distinct"):
        a.product(b)


def test_a_feature_of_a_sparse_matrix():
    from scipy.sparse import csr_array

    features = csr_array(np.array([[0.0, 1.0], [0.0, 0.0]] * 5))
    groups = ByFeature(1).learn(Rows(Prediction(np.zeros(10)), features))
    assert groups.counts.tolist() == [5, 5]


@pytest.mark.parametrize("values", [["a", None, "b"], [1.0, np.nan, 2.0]])
def test_missing_labels_raise(values):
    with pytest.raises(ValueError, match="groups must have a label for every row; missing labels: 1 of 3"):
        Groups.from_labels(np.array(values, dtype=object))


def test_given_edges_need_no_learning():
    """Groups can be assigned in another process, from the edges alone."""
    taxonomy = BySpread(3)
    rows = spread_rows(np.arange(1.0, 11.0))
    taxonomy.learn(rows)
    again = BySpread(edges=taxonomy.edges_).assign(rows)
    np.testing.assert_array_equal(again.codes, taxonomy.assign(rows).codes)
    assert again.rules == taxonomy.assign(rows).rules


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", None, "b"], dtype="category"),
        ["a", float("nan"), "b"],
        pd.to_datetime(pd.Series(["2020", None, "2021"])),
    ],
)
def test_missing_labels_of_every_type_raise(values):
    with pytest.raises(ValueError, match=r"missing labels: 1 of 3 \(the first in row 1, counted from 0\)"):
        Groups.from_labels(values)


def test_numbers_in_a_list_with_text_stay_numbers():
    assert set(Groups.from_labels(["a", 1, "b"]).labels) == {"a", 1, "b"}


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_dates_can_be_labels(unit):
    """The labels are the same in any unit."""
    labels = Groups.from_labels(np.array(["2020-01-01", "2021-01-01"], dtype=f"M8[{unit}]")).labels
    assert labels == (datetime(2020, 1, 1), datetime(2021, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("values", [[np.int64(3), "x"], [np.bool_(True), "x"], [np.float32(0.5), "x"]])
def test_numpy_scalars_become_python_labels(values):
    labels = Groups.from_labels(pd.Series(values, dtype=object)).labels
    assert {type(label) for label in labels} == {type(values[0].item()), str}


def test_large_integers_can_be_labels():
    assert Groups.from_labels(np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64)).labels == (2**64 - 2, 2**64 - 1)


def test_invalid_codes_and_edge_bits_raise():
    """So no row is lost."""
    with pytest.raises(ValueError, match="edge must be from 0 to 0; got 0 to 1"):
        Groups(np.zeros(2, dtype=int), ("a",), (), np.array([0, 1]))
    with pytest.raises(ValueError, match="edge must have 2 rows, as many as codes; got 1"):
        Groups(np.zeros(2, dtype=int), ("a",), (), np.array([0]), 1)
    with pytest.raises(ValueError, match="codes must be whole numbers"):
        Groups(np.zeros(2), ("a",))


def test_a_feature_of_a_subclassed_frame():
    class Special(pd.DataFrame):
        pass

    groups = ByFeature("a").learn(Rows(Prediction(np.zeros(2)), Special({"a": ["x", "y"]})))
    assert groups.labels == ("x", "y")
