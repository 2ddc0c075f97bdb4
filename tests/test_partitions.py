"""Partitions of a DataFrame without a cluster: the outcomes of their tasks, and the names of new columns."""

import pickle

import numpy as np
import pytest

from evencover import Normalized
from evencover.calibration.table_columns import TableColumns
from evencover.tables import calibrate
from evencover.tables.batches import renamed
from evencover.tables.partitions import Outcome, merged_outcomes, partition_outcome
from evencover.tables.table_calibration import ScoreCounts
from tests.clusters import partitions
from tests.large_tables import table


def test_columns_are_renamed_next_to_new_ones():
    """Only where a name would stand twice; for Spark in any case of its letters."""
    outputs = ["lower", "upper"]
    assert renamed(["a", "lower", "table_lower", "Upper"], outputs) == [
        "a",
        "table_lower",
        "table_table_lower",
        "Upper",
    ]
    assert renamed(["A", "a", "Upper", "İ"], outputs, ignore_case=True) == ["A", "a", "table_Upper", "İ"]


def test_outcomes_merge_in_any_order():
    """The first partition with an error is reported, however the outcomes were grouped."""
    one_pass = ScoreCounts(TableColumns("y", "c", "s"), Normalized(), 10)
    tables = partitions(table(900), [300] * 3)
    outcomes = [partition_outcome(one_pass, part.to_batches(), position) for position, part in enumerate(tables)]
    failed = [Outcome(position=position, message=f"wrong {position}", n_errors=1) for position in (4, 3)]
    first = merged_outcomes(one_pass, [outcomes[2], failed[0]])
    second = merged_outcomes(one_pass, [failed[1], outcomes[0], outcomes[1]])
    with pytest.raises(ValueError, match=r"^partition 3: wrong 3; 2 partitions have such errors$") as caught:
        merged_outcomes(one_pass, [first, second]).result(one_pass.columns)
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # as on its way from another process
    assert (type(copied), str(copied)) == (type(caught.value), str(caught.value))
    assert (copied.part, copied.message) == ("partition 3", "wrong 3; 2 partitions have such errors")
    two = merged_outcomes(one_pass, [outcomes[2], outcomes[0]])
    nested = merged_outcomes(one_pass, [two, outcomes[1]]).result(one_pass.columns)
    together = calibrate(table(900), target="y", center="c", spread="s", exact=False).stored.pools[0, 0]
    np.testing.assert_array_equal(nested["all"].counts, together.counts)
    assert merged_outcomes(one_pass, []).result(one_pass.columns) == {}
    many = merged_outcomes(one_pass, outcomes * 11).result(one_pass.columns)
    np.testing.assert_array_equal(many["all"].counts, 11 * together.counts)
