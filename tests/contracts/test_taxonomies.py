"""The contract of every taxonomy: each row is in exactly one group, independent of the other rows."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from evencover import ByFeature, ByFunction, ByPrediction, BySpread, ByTarget, Marginal, Product, Rows, taxonomies
from tests.synthetic import draw


def sign(X):
    """Return the sign of a feature as text."""
    return np.where(np.asarray(X)[:, 2] > 0, "plus", "minus")


ALL_TAXONOMIES = [
    Marginal(),
    BySpread(3),
    BySpread(edges=[1.0, 2.0]),
    BySpread(7, min_rows=20),
    ByPrediction(4),
    ByFeature(0),
    ByFeature(0, categories=[0.0, 1.0, 2.0]),
    ByFeature(1, edges=[0.5, 1.0]),
    ByFunction(sign),
    ByTarget([0.0, 1.0]),
    Product([BySpread(2), ByFunction(sign)]),
    Product([ByTarget([0.0]), ByPrediction(2), BySpread(2)]),
]
each_taxonomy = pytest.mark.parametrize("taxonomy", ALL_TAXONOMIES, ids=lambda taxonomy: type(taxonomy).__name__)


@pytest.fixture
def rows():
    """60 rows with predictions, features and targets."""
    old = draw(np.random.default_rng(0), 60)
    return Rows(old.prediction, old.X, old.y)


def test_every_taxonomy_of_the_module_is_tested():
    """A new taxonomy must be added to ALL_TAXONOMIES."""
    public = {
        value
        for name, value in vars(taxonomies).items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator) and value is not BaseEstimator
    }
    assert public == {type(taxonomy) for taxonomy in ALL_TAXONOMIES}
    assert len(public) >= 7


@each_taxonomy
def test_each_row_is_in_exactly_one_group(taxonomy, rows):
    """Codes are positions of labels, for calibration rows and new rows; labels are distinct."""
    taxonomy = clone(taxonomy)
    for groups in (taxonomy.learn(rows), taxonomy.assign(rows)):
        assert groups.labels == taxonomy.labels_
        assert len(set(groups.labels)) == len(groups.labels)
        assert len(groups) == len(rows)
        assert groups.codes.min() >= 0
        assert groups.codes.max() < len(groups.labels)
        assert groups.counts.sum() == len(rows)


@each_taxonomy
def test_assign_gives_calibration_rows_the_groups_of_learn(taxonomy, rows):
    """`learn` and `assign` give the same rows the same groups, edge rows included."""
    taxonomy = clone(taxonomy)
    learned, assigned = taxonomy.learn(rows), taxonomy.assign(rows)
    np.testing.assert_array_equal(learned.codes, assigned.codes)
    assert learned.rules == assigned.rules
    if learned.edge is not None:
        np.testing.assert_array_equal(learned.edge, assigned.edge)


@each_taxonomy
def test_groups_do_not_depend_on_the_order_or_on_other_rows(taxonomy, rows):
    """Not on the order of rows in `learn`, nor on the other rows in `assign`."""
    order = np.random.default_rng(1).permutation(len(rows))
    taxonomy = clone(taxonomy)
    learned = taxonomy.learn(rows)
    shuffled = clone(taxonomy).learn(rows[order])
    labels = learned.label_of_rows()
    np.testing.assert_array_equal(labels[order], shuffled.label_of_rows())
    np.testing.assert_array_equal(labels[7:8], taxonomy.assign(rows[7:8]).label_of_rows())


@each_taxonomy
def test_groups_depend_on_the_target_only_with_needs_target(taxonomy, rows):
    """Without `needs_target`, other targets, or none, give the same groups."""
    taxonomy = clone(taxonomy)
    codes = taxonomy.learn(rows).codes
    if taxonomy.needs_target:
        with pytest.raises(ValueError, match="needs y"):
            taxonomy.assign(Rows(rows.prediction, rows.X))
    else:
        np.testing.assert_array_equal(clone(taxonomy).learn(Rows(rows.prediction, rows.X, -rows.y)).codes, codes)
        np.testing.assert_array_equal(taxonomy.assign(Rows(rows.prediction, rows.X)).codes, codes)
