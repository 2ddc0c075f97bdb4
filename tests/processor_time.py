"""The processor time of the tests: of each, in total, and what grew if the total is too high.

A pytest plugin. Processor time depends less on what else the machine does than the time on the clock. ``pytest
--record-times FILE`` stores the times, and ``python -m tests.processor_time FILE`` prints them by kind and by file.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

BUDGET = 9.0  # minutes; above it, the tests that grew most are printed
RECORDED = Path(__file__).with_name("processor_time.json")
SHOWN = 10
KINDS = {  # by the first beginning of a test's path that fits
    "scikit-learn's estimator checks": ("contracts/test_estimators",),
    "contracts of scores, taxonomies, calibrators, models": ("contracts/",),
    "guarantees against their exact distributions": ("guarantees/",),
    "pages, pictures and docstrings": ("test_docs", "test_site", "test_claims", "test_plots", "test_notebooks", "src/"),
    "studies, reports and the command line": (
        *("test_studies", "test_cross_studies", "test_recommend", "test_decisions", "test_columns", "test_main_job"),
        *("test_cli", "test_report", "test_one_pass", "test_one_sided_texts", "test_progress", "test_signals"),
        "test_start",
    ),
    "tables of any size, arrays and SQL": (
        *("test_tables_in_batches", "test_table_commands", "test_table_audits", "test_large_studies"),
        *("test_cluster_tables", "test_partitions", "test_device_arrays", "test_sql"),
    ),
    "reproduction of the paper and benchmarks": ("test_reproduction", "test_benchmark", "test_verdict_rates"),
    "parts on their own": ("",),
}


def seconds() -> float:
    """Return the processor time of this process and of its ended children so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_addoption(parser):
    parser.addoption("--record-times", metavar="FILE", type=Path, help="store the processor time of each test in FILE")


def pytest_configure(config):
    config.pluginmanager.register(Clock(), "clock")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(config), "processor time")


class Clock:
    """Give the last report of each test the processor seconds since those of the test before in this process.

    So no second is left out.
    """

    def __init__(self) -> None:
        self.last = seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        report.processor_seconds = 0.0
        if report.when == "teardown":
            now = seconds()
            report.processor_seconds, self.last = now - self.last, now
        return report

    def pytest_collection_finish(self):
        self.last = seconds()


class Summary:
    """Sum the seconds of each test function over its parameters, and print the total of the run."""

    def __init__(self, config) -> None:
        self.seconds: Counter[str] = Counter()
        self.file = config.getoption("--record-times")

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid.partition("[")[0]] += report.processor_seconds

    def pytest_terminal_summary(self, terminalreporter):
        if self.file is not None:
            shown = {test: round(each, 2) for test, each in sorted(self.seconds.items()) if each >= 0.05}
            self.file.write_text(json.dumps(shown, indent=0) + "\n")
        for line in summary(seconds() / 60, self.seconds, recorded()):
            terminalreporter.write_line(line)


def summary(minutes: float, now: Counter[str], before: Counter[str]) -> list[str]:
    """Return the total, and above the budget the tests whose seconds grew most."""
    lines = [f"processor time: {minutes:.1f} minutes"]
    if minutes > BUDGET:
        grown = Counter({test: now[test] - before[test] for test in now})
        lines.append(
            f"This is above the budget of {BUDGET:g} minutes. Grew most (seconds now, and since {RECORDED.name}):"
        )
        lines += [f"{now[test]:7.1f} {more:+7.1f}  {test}" for test, more in grown.most_common(SHOWN) if more > 0]
    return lines


def recorded() -> Counter[str]:
    """Return the recorded seconds of each test."""
    return Counter(json.loads(RECORDED.read_text()) if RECORDED.exists() else {})


def totals(times: Counter[str], name_of: Callable[[str], str]) -> Counter[str]:
    """Return the seconds by a name for each test, such as its file or its kind."""
    sums: Counter[str] = Counter()
    for test, each in times.items():
        sums[name_of(test)] += each
    return sums


def kind(test: str) -> str:
    path = test.removeprefix("tests/")
    return next(name for name, starts in KINDS.items() if path.startswith(starts))


def main() -> None:
    """Print the seconds in a file by kind and by test file."""
    parser = argparse.ArgumentParser(prog="python -m tests.processor_time", description=main.__doc__)
    parser.add_argument("file", type=argparse.FileType(), metavar="FILE", help="times from pytest --record-times FILE")
    times = Counter(json.load(parser.parse_args().file))
    for name_of in (kind, lambda test: test.partition("::")[0]):
        for name, total in totals(times, name_of).most_common():
            print(f"{total:8.1f} s  {name}")  # noqa: T201
        print()  # noqa: T201


if __name__ == "__main__":
    main()
