"""The contract of every taxonomy: each row is in exactly one group, independent of the other rows."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

from evencover import (
    ByFeature,
    ByFunction,
    ByPrediction,
    BySpread,
    ByTarget,
    Marginal,
    Prediction,
    Product,
    Rows,
    taxonomies,
)
from evencover.taxonomies import (
    BUILTIN_TAXONOMIES,
    fixed_taxonomy,
    group_meaning,
    group_names,
    group_option,
    has_known_sizes,
    has_one_group,
    is_by_features,
    rows_compared,
    table_columns,
    taxonomy_from_option,
    text_columns,
    with_categories,
    with_n_groups,
)
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
    assert public == {type(taxonomy) for taxonomy in ALL_TAXONOMIES} == set(BUILTIN_TAXONOMIES)
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


def with_other_predictions(rows):
    """Return rows with the same features and targets, and other predictions."""
    numbers = np.random.default_rng(2).permutation(len(rows)) + 1.0
    return Rows(Prediction(numbers, spread=numbers[::-1]), rows.X, rows.y)


@each_taxonomy
def test_groups_depend_on_the_prediction_only_with_uses_prediction(taxonomy, rows):
    """And a taxonomy that says so does depend on it."""
    codes, others = (clone(taxonomy).learn(each).codes for each in (rows, with_other_predictions(rows)))
    assert np.array_equal(codes, others) == (not taxonomy.uses_prediction)
    assert is_by_features(taxonomy) == (not taxonomy.uses_prediction and not taxonomy.needs_target)


@each_taxonomy
def test_known_sizes_do_not_depend_on_the_prediction(taxonomy, rows):
    """Random numbers in place of predictions give the same sizes. Combinations of bins have them only on average."""
    if has_known_sizes(taxonomy) and not isinstance(taxonomy, Product):
        counts, others = (clone(taxonomy).learn(each).counts for each in (rows, with_other_predictions(rows)))
        np.testing.assert_array_equal(np.sort(counts), np.sort(others))
    else:
        assert isinstance(taxonomy, ByTarget | Product) or taxonomy.edges is not None


@each_taxonomy
def test_one_group_is_one_group(taxonomy, rows):
    """A taxonomy that has one group by its nature says so, and no other does."""
    assert has_one_group(taxonomy) == (len(clone(taxonomy).learn(rows).labels) == 1)


@each_taxonomy
def test_the_fixed_form_has_the_learned_groups_whatever_rows_it_learns_from(taxonomy, rows):
    """Other rows neither move an edge nor take away a category."""
    learned = clone(taxonomy)
    codes = learned.learn(rows).codes
    fixed = clone(fixed_taxonomy(learned), safe=False)
    fixed.learn(rows[:7])
    np.testing.assert_array_equal(fixed.assign(rows).codes, codes)
    assert len(fixed.labels_) == len(learned.labels_)


@each_taxonomy
def test_facts_are_those_of_the_class_and_not_parameters(taxonomy, rows):
    """Scikit-learn's parameters are those of the constructor; facts survive cloning."""
    copied = clone(taxonomy)
    facts = (is_by_features, has_known_sizes, has_one_group, table_columns, group_option)
    assert [fact(copied) for fact in facts] == [fact(taxonomy) for fact in facts]
    assert set(taxonomy.get_params(deep=False)) == set(inspect.signature(type(taxonomy)).parameters)
    copied.learn(rows)
    assert set(text_columns(copied)) <= set(table_columns(copied))


@each_taxonomy
def test_every_taxonomy_says_what_its_groups_are(taxonomy, rows):
    """In whole sentences; or not at all, if the names of the groups say it."""
    taxonomy = clone(taxonomy)
    groups = taxonomy.learn(rows)
    text = group_meaning(taxonomy, groups.labels, groups.counts.tolist())
    if isinstance(taxonomy, Marginal | ByFunction | ByTarget):
        assert text == ""
    else:
        assert "groups" in text or "third" in text
        assert text.strip().endswith(".")
    assert set(group_names(taxonomy, groups.counts.tolist())) <= set(groups.labels)
    assert rows_compared(taxonomy).split()[0] in ("in", "for")


def column_of(text):
    """Return the name and the values of the column that a user typed."""
    return {"2": "region"}.get(text, text), ("north", "south")


@pytest.mark.parametrize("taxonomy", BUILTIN_TAXONOMIES, ids=lambda each: each.__name__)
def test_options_of_the_command_line_are_read_back(taxonomy):
    """The option that stands for a taxonomy gives the same taxonomy; those without an option have no value either."""
    if not hasattr(taxonomy, "option"):
        assert taxonomy in (ByFunction, ByTarget, Product)
        assert not hasattr(taxonomy, "option_value")
    for text in getattr(taxonomy, "option_examples", ()):
        found = taxonomy_from_option(text, column_of)
        assert type(found) is taxonomy
        assert repr(taxonomy_from_option(group_option(found), column_of)) == repr(found)


def test_every_option_has_its_own_word():
    options = [each.option for each in BUILTIN_TAXONOMIES if hasattr(each, "option")]
    assert len(set(options)) == len(options) >= 4


@pytest.mark.parametrize(
    "text", ["", "spreads", "spread:0", "spread:x", "prediction:-1", "column", "column:", "none:2"]
)
def test_other_texts_are_no_groups(text):
    """And the error says what would be."""
    with pytest.raises(ValueError, match=r"must be none, spread, spread:5, prediction:4 or column:NAME; got '"):
        taxonomy_from_option(text, column_of)


def test_a_column_can_be_named_by_its_position():
    assert repr(taxonomy_from_option("column:2", column_of)) == repr(ByFeature("region", categories=("north", "south")))


@pytest.mark.parametrize("taxonomy", [BySpread(edges=[1.0]), ByFeature("a", edges=[1.0]), ByFeature(0)], ids=repr)
def test_what_an_option_cannot_say_has_none(taxonomy):
    assert group_option(taxonomy) is None


def test_a_product_combines_what_its_parts_know(rows):
    """Columns, categories and numbers of groups; parts of one's own have the defaults."""
    product = Product([ByFeature("a"), ByFeature("b", edges=[1.0]), BySpread(2), ByFeature("a")])
    assert table_columns(product) == ("a", "b", "a")
    first, second, third, last = with_categories(product, {"a": ("x", "y")}.get).taxonomies
    assert first.categories == last.categories == ("x", "y")
    assert second.categories is None
    assert third is product.taxonomies[2]
    assert has_known_sizes(product)
    assert not has_known_sizes(Product([BySpread(2), ByTarget([0.0])]))
    assert not has_known_sizes(Product([BySpread(2), Plain()]))
    assert is_by_features(Product([ByFeature("a"), Marginal()]))
    assert not is_by_features(Product([ByFeature("a"), Plain()]))


def test_text_columns_are_those_with_text(rows):
    """They are read as text when new rows are read."""
    table = Rows(rows.prediction, pd.DataFrame({"a": ["x", "y"] * 30, "b": np.arange(60) % 2}))
    product = Product([ByFeature("a"), ByFeature("b"), BySpread(2)])
    product.learn(table)
    assert text_columns(product) == ("a",)


class Plain:
    """A taxonomy with `learn` and `assign` only."""

    def learn(self, rows):
        """Return two groups."""
        self.labels_ = ("even", "odd")
        return self.assign(rows)

    def assign(self, rows):
        """Return two groups."""
        return taxonomies.Groups(np.arange(len(rows)) % 2, ("even", "odd"))


def test_a_taxonomy_of_ones_own_needs_none_of_the_facts():
    """There is a default for each."""
    plain = Plain()
    assert fixed_taxonomy(plain) is with_categories(plain, dict.get) is plain
    assert with_n_groups(plain, 2) is group_option(plain) is None
    assert (table_columns(plain), text_columns(plain), group_names(plain, [1, 1])) == ((), (), {})
    assert [fact(plain) for fact in (is_by_features, has_known_sizes, has_one_group)] == [False] * 3
    assert (group_meaning(plain, ("even", "odd")), rows_compared(plain)) == ("", "in all groups")


def test_a_taxonomy_of_ones_own_can_state_facts():
    """As class attributes or methods."""

    class Own(Plain):
        uses_prediction = False
        has_known_sizes = True
        table_columns = ("a",)

        def meaning(self, labels, counts):
            """Return a sentence."""
            return f"Rows take turns: {len(labels)} groups."

    assert is_by_features(Own())
    assert has_known_sizes(Own())
    assert table_columns(Product([Own()])) == ("a",)
    assert group_meaning(Own(), ("even", "odd")) == "Rows take turns: 2 groups."


def test_the_number_of_groups_can_be_changed():
    assert repr(with_n_groups(ByPrediction(5), 2)) == repr(ByPrediction(2))
    assert with_n_groups(ByFeature("a"), 2) is None
