"""The contract of every taxonomy: each row in exactly one group, by itself."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from evencover import (
    ByFeature,
    ByFunction,
    ByPrediction,
    BySpread,
    ByTarget,
    Marginal,
    Product,
    Rows,
    taxonomies,
)
from tests.synthetic import draw


def sign(X):
    """Return the sign of a feature in words."""
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
    """Sixty rows with everything a taxonomy may want."""
    old = draw(np.random.default_rng(0), 60)
    return Rows(old.prediction, old.X, old.y)


def test_every_taxonomy_of_the_room_is_under_contract():
    """A new taxonomy cannot be forgotten here."""
    public = {
        value
        for name, value in vars(taxonomies).items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator) and value is not BaseEstimator
    }
    assert public == {type(taxonomy) for taxonomy in ALL_TAXONOMIES}
    assert len(public) >= 7


@each_taxonomy
def test_each_row_is_in_exactly_one_group(taxonomy, rows):
    """Codes point at labels, for calibration rows and new ones; labels are distinct."""
    taxonomy = clone(taxonomy)
    for groups in (taxonomy.learn(rows), taxonomy.assign(rows)):
        assert groups.labels == taxonomy.labels_
        assert len(set(groups.labels)) == len(groups.labels)
        assert len(groups) == len(rows)
        assert groups.codes.min() >= 0
        assert groups.codes.max() < len(groups.labels)
        assert groups.counts.sum() == len(rows)


@each_taxonomy
def test_calibration_rows_are_assigned_what_they_learned(taxonomy, rows):
    """Learning and assigning agree on the same rows, edges included."""
    taxonomy = clone(taxonomy)
    learned, assigned = taxonomy.learn(rows), taxonomy.assign(rows)
    np.testing.assert_array_equal(learned.codes, assigned.codes)
    assert learned.rules == assigned.rules
    if learned.edge is not None:
        np.testing.assert_array_equal(learned.edge, assigned.edge)


@each_taxonomy
def test_rows_are_grouped_by_themselves_in_any_order(taxonomy, rows):
    """Order does not matter when learning, nor company when assigning."""
    order = np.random.default_rng(1).permutation(len(rows))
    taxonomy = clone(taxonomy)
    learned = taxonomy.learn(rows)
    shuffled = clone(taxonomy).learn(rows[order])
    labels = learned.label_of_rows()
    np.testing.assert_array_equal(labels[order], shuffled.label_of_rows())
    np.testing.assert_array_equal(labels[7:8], taxonomy.assign(rows[7:8]).label_of_rows())


@each_taxonomy
def test_only_those_that_say_so_look_at_the_target(taxonomy, rows):
    """Other targets, or none, give the same groups, unless the taxonomy needs the target."""
    taxonomy = clone(taxonomy)
    codes = taxonomy.learn(rows).codes
    if taxonomy.needs_target:
        with pytest.raises(ValueError, match="needs y"):
            taxonomy.assign(Rows(rows.prediction, rows.X))
    else:
        np.testing.assert_array_equal(clone(taxonomy).learn(Rows(rows.prediction, rows.X, -rows.y)).codes, codes)
        np.testing.assert_array_equal(taxonomy.assign(Rows(rows.prediction, rows.X)).codes, codes)
