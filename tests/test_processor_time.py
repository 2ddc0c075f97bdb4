"""The processor time of the tests: what is printed, and that each test of the records exists."""

from collections import Counter

from tests import processor_time
from tests.processor_time import kind, recorded, summary, totals


def test_a_run_within_the_budget_prints_its_total():
    assert summary(7.94, Counter(a=400), Counter()) == ["processor time: 7.9 minutes"]


def test_a_longer_run_prints_the_tests_that_grew_most():
    now = Counter({"test_new": 30.0, "test_same": 50.0, "test_faster": 1.0, "test_slower": 25.0})
    before = Counter({"test_same": 50.0, "test_faster": 9.0, "test_slower": 5.0, "test_removed": 9.0})
    total, _, *grown = summary(9.1, now, before)
    assert total == "processor time: 9.1 minutes"
    assert [line.split() for line in grown] == [["30.0", "+30.0", "test_new"], ["25.0", "+20.0", "test_slower"]]
    assert len(summary(9.1, Counter({f"test_{i}": 1.0 for i in range(99)}), before)) == 2 + processor_time.SHOWN


def test_times_by_kind():
    times = Counter(
        {"tests/guarantees/test_a.py::test_b": 1.0, "src/evencover/a.py::b": 2.0, "tests/test_sql.py::c": 3.0}
    )
    sums = totals(times, kind)
    assert [seconds for _, seconds in sums.most_common()] == [3.0, 2.0, 1.0]


def test_the_recorded_times_are_within_the_budget():
    assert 0 < sum(recorded().values()) < 60 * processor_time.BUDGET
