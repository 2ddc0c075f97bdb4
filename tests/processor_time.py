"""The processor time of the tests: of each, in total, and what grew if the total is too high.

A pytest plugin. Processor time, unlike the time on the clock, does not depend on what else the machine does. ``pytest
--record-times FILE`` stores the times, and ``python -m tests.processor_time FILE`` prints them by kind and by file.
"""

import argparse
import json
import os
from collections import Counter
from pathlib import Path

import pytest

MINUTES = 9.0  # above this, the tests that grew most are printed
RECORDED = Path(__file__).with_name("processor_time.json")
SHOWN = 10


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
    """Give each report the processor seconds since the last one in this process, so that no second is left out."""

    def __init__(self) -> None:
        self.last = seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
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
        minutes = seconds() / 60
        terminalreporter.write_line(f"processor time: {minutes:.1f} minutes")
        if self.file is not None:
            self.file.write_text(json.dumps({test: round(s, 2) for test, s in sorted(self.seconds.items())}, indent=0))
        if minutes > MINUTES:
            terminalreporter.write_line(f"That is more than {MINUTES:g} minutes. Grew most since {RECORDED.name}:")
            for test, grown in growth(self.seconds, recorded()).most_common(SHOWN):
                terminalreporter.write_line(f"{grown:+8.1f} s  {test}")


def recorded() -> Counter[str]:
    """Return the recorded seconds of each test."""
    return Counter(json.loads(RECORDED.read_text())) if RECORDED.exists() else Counter()


def growth(now: Counter[str], before: Counter[str]) -> Counter[str]:
    """Return by how many seconds each test became slower."""
    return Counter({test: grown for test in now if (grown := now[test] - before[test]) > 0})
