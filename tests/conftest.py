"""How the tests run anywhere: one thread a process, and the same examples every time."""

import gc
import os

import pytest
from hypothesis import settings

from tests.processes import heard_signals

gc.disable()  # until the tests are collected

# Tests run in several processes, and threads that outnumber the cores wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A slow machine is no failure, and a new example found in passing should not be either; `make test-all` tries many.
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=300)
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def signals():
    """Tests may run in the background of a shell, which ignores SIGINT."""
    with heard_signals():
        yield


@pytest.fixture(autouse=True, scope="session")
def no_progress_lines():
    """On a slow machine, commands would print their progress among the errors that tests compare."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evencover.cli.terminal._SECONDS_BETWEEN_LINES", 3600.0)
        yield


@pytest.fixture(scope="module")
def few_trees():
    """Boosting that learns a spread with 10 trees instead of 100, for tests in which it need not learn much."""
    from sklearn.base import clone

    from evencover.models import spread

    few = clone(spread._BOOSTED_TREES).set_params(max_iter=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread, "_BOOSTED_TREES", few)
        yield


def pytest_configure(config):
    config.add_cleanup(gc.unfreeze)  # after pytest's own last collections; libraries complain about what is left


def pytest_collection_finish():
    """Let the garbage collector pass over the imported libraries and the collected tests: they stay to the end."""
    gc.enable()
    gc.freeze()
