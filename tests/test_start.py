"""What a command loads. Importing takes most of the time that `predict` needs for a few rows."""

import ctypes
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from evencover import BySpread, ConformalRegressor
from evencover.inputs.optional import import_disabled
from evencover.models import NeighborSpread, WithSpread
from tests.command_line import run_command_line

NOT_FOR_PREDICT = [
    *(
        f"evencover.{name}"
        for name in ("diagnostics", "studies", "plots", "reproduction", "report", "words", "synthetic")
    ),
    *("torch", "dask", "matplotlib", "sympy"),
]
PREDICT = f"""
import sys
from evencover.cli import main
for options in ([], ["--json"]):
    try:
        main(["predict", *sys.argv[1:], *options])
    except SystemExit as left:
        assert not left.code
    print("loaded:", [name for name in {NOT_FOR_PREDICT} if name in sys.modules])

def print_trusted():
    print("trusted:", sorted(sys.modules["skops.io._trusted_types"].SKLEARN_ESTIMATOR_TYPE_NAMES))

print_trusted()
for name in [name for name in sys.modules if name.partition(".")[0] == "skops"]:
    del sys.modules[name]
import skops.io
print_trusted()
"""


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictor")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    boosting = WithSpread(HistGradientBoostingRegressor(max_iter=3), NeighborSpread(), random_state=0)
    model = ConformalRegressor(boosting, taxonomy=BySpread(3), random_state=0).fit(table, rng.normal(size=300))
    model.save(folder / "predictor.evencover")
    table[:6].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def printed(predictor):
    """The lines of a process that predicts, as a table and as JSON, and then imports skops as it is."""
    arguments = [str(predictor), str(predictor / "new.csv")]
    return subprocess.check_output([sys.executable, "-c", PREDICT, *arguments], text=True).splitlines()


@pytest.mark.system
def test_predict_loads_only_what_it_needs(printed):
    """Whether it prints a table or JSON."""
    assert [line for line in printed if line.startswith("loaded: ")] == ["loaded: []"] * 2
    assert [line for line in printed if "prediction" in line]


@pytest.mark.system
def test_skops_trusts_the_same_estimators(printed):
    """Although modules of scikit-learn that define no estimator are not imported with it."""
    ours, plain = [line for line in printed if line.startswith("trusted: ")]
    assert plain == ours
    assert "sklearn.linear_model._ridge.Ridge" in plain


def test_imports_are_disabled_inside_the_context_only(monkeypatch):
    """A module that is loaded already can still be imported."""
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with import_disabled(["wave", "json"]):
        import json  # noqa: F401

        with pytest.raises(ImportError, match="wave"):
            import wave
    import wave  # noqa: F401


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is the C library of Linux")
@pytest.mark.parametrize(("variable", "n_options"), [("OTHER", 2), ("MALLOC_TRIM_THRESHOLD_", 0)])
def test_freed_memory_is_kept_unless_the_environment_sets_it(capsys, monkeypatch, variable, n_options):
    options = []

    class Library:
        def __init__(self, _):
            self.mallopt = lambda *option: options.append(option)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    assert run_command_line(capsys, "--version")[0] == 0
    assert len(options) == n_options


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is the C library of Linux")
def test_another_c_library_is_no_error(capsys, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert run_command_line(capsys, "--version")[0] == 0
