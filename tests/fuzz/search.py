"""The search for bad outcomes: rounds of generated cases; a new finding ends a round, with its smallest case."""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException

from tests.fuzz.corpus import as_text
from tests.fuzz.kinds import KINDS
from tests.fuzz.outcomes import Outcome

_SECONDS_TO_SHRINK, _TRIES_TO_SHRINK = 20.0, 200
_SETTINGS = settings(
    database=None,
    deadline=None,
    derandomize=False,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Finding:
    """A bad outcome and the smallest case that has it."""

    kind: str
    case: object
    outcome: Outcome


@dataclass(frozen=True)
class Limits:
    """When a search ends: after so many seconds, or so many rounds of each kind."""

    seconds: float
    rounds: float = inf


@dataclass
class Progress:
    """How far a search has come: what continues it."""

    seed: int
    rounds: Counter = field(default_factory=Counter)  # by kind
    seconds: Counter = field(default_factory=Counter)  # by kind
    counts: Counter = field(default_factory=Counter)  # by kind and outcome
    findings: list = field(default_factory=list)

    def known(self):
        return {(each.kind, *each.outcome.signature) for each in self.findings}


class _OverError(BaseException):
    """Ends a round: there is no time left, to search or to shrink. Hypothesis lets it through."""


class _FoundError(Exception):
    """Tells hypothesis that a case has the outcome that it makes smaller."""


def searched(worker, progress, kinds, limits, report):
    """Search until a limit, in rounds; the kind that had the least time for its share is the next one."""
    deadline = time.monotonic() + limits.seconds
    while (start := time.monotonic()) < deadline:
        kinds = [kind for kind in kinds if progress.rounds[kind] < limits.rounds]
        if not kinds:
            break
        kind = min(kinds, key=lambda name: progress.seconds[name] / KINDS[name].share)
        _Round(worker, progress, kind, deadline, report).run()
        progress.rounds[kind] += 1
        progress.seconds[kind] += time.monotonic() - start
    return progress


class _Round:
    """Some cases of one kind. The first finding that is new is made smaller, and ends the round."""

    def __init__(self, worker, progress, kind, deadline, report):
        self._worker, self._progress, self._kind = worker, progress, kind
        self._deadline, self._report = deadline, report
        self._known, self._smallest = progress.known(), None

    def run(self):
        number = self._progress.rounds[self._kind]
        strategy = KINDS[self._kind].cases()
        options = settings(_SETTINGS, max_examples=KINDS[self._kind].cases_of_a_round)
        with suppress(_OverError, _FoundError, HypothesisException):
            seeded(f"{self._progress.seed} {self._kind} {number}")(options(given(strategy)(self._check)))()
        if self._smallest is not None:
            self._progress.findings.append(self._smallest)
            self._report(self._progress, self._smallest)

    def _check(self, case):
        if time.monotonic() > self._deadline:
            raise _OverError
        outcome = self._worker.outcome(self._kind, case)
        if self._smallest is None:
            self._progress.counts[self._kind, outcome.name] += 1
            self._report(self._progress, None)
            if not outcome.is_bad or (self._kind, *outcome.signature) in self._known:
                return
            self._tries, self._deadline = 0, min(self._deadline + 5, time.monotonic() + _SECONDS_TO_SHRINK)
        self._tries += 1
        if self._smallest is None or outcome.signature == self._smallest.outcome.signature:
            if self._smallest is None or len(as_text(case)) <= len(as_text(self._smallest.case)):
                self._smallest = Finding(self._kind, case, outcome)
            if self._tries > _TRIES_TO_SHRINK:
                raise _OverError
            raise _FoundError
