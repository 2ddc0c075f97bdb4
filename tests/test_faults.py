"""A few of the faults that `python -m tests.faults` tries at length."""

import random
import sys

import pytest

from tests.faults import changing_parts, loaded_while_saved, try_faults

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither SIGKILL nor limits of resources"),
]


def test_a_predictor_that_is_loaded_while_it_is_saved(tmp_path):
    outcomes = loaded_while_saved(100, tmp_path / "work")
    assert [each for each in outcomes if each.problems] == []
    assert len(outcomes) == 200


def test_a_parquet_file_that_is_replaced_at_random_moments(tmp_path):
    assert changing_parts(tmp_path, random.Random(0)).problems == ()  # noqa: S311


@pytest.mark.slow
def test_faults_of_all_kinds():
    outcomes = try_faults(1, 1, loads=3, seed=1, report=lambda _: None)
    assert [each for each in outcomes if each.problems] == []
    assert {each.fault for each in outcomes} >= {"killed", "two commands at once", "file too large"}
