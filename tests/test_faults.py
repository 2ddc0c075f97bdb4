"""A few of the faults that `python -m tests.faults` tries at length."""

import sys

import pytest

from tests.faults import try_faults

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither SIGKILL nor limits of resources"),
]


def test_faults_of_all_kinds():
    outcomes = try_faults(1, 1, loads=3, seed=1, report=lambda _: None)
    assert [each for each in outcomes if each.problems] == []
    assert {each.fault for each in outcomes} >= {"killed", "two commands at once", "file too large"}
