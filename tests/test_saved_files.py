"""Files of earlier versions: they load, and answer what the saved object answered."""

import json
import warnings
from zipfile import ZipFile

import numpy as np
import pytest

from evencover import Bounded
from evencover.files.objects import TRUSTED
from tests.archives import header
from tests.saved_files import FILES, answers, current_version, load
from tests.synthetic import ALL_SCORES

OLDEST_VERSION = 3  # test_predictor_files shows that those before it cannot be read
SAVED = sorted(FILES.glob("v*/*.evencover"))
# Their files would depend on the version of scikit-learn; see tests/saved_files.py.
WITHOUT_FILE = {"QuantileForest", "NeighborSpread", "FromDistribution"} | {
    *("AutoRegressor", "StackMember", "KernelRegressor", "RidgeRegressor", "LeafDistribution", "ScaledShape"),
    *("Stack", "Mixture", "StackReport", "MemberResult", "DistributionResult"),
}


@pytest.fixture(params=SAVED, ids=lambda path: f"{path.parent.name} {path.stem}")
def path(request):
    for library in ("lightgbm", "xgboost", "catboost"):
        if library in request.param.stem:
            pytest.importorskip(library, reason=f"{library} is not installed; `make test-all` installs it")
    return request.param


def test_a_saved_file_answers_the_same(path):
    """Boosting libraries do not promise that earlier versions read a file, so they must be as new as the file."""
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of another version of scikit-learn
        found = answers(load(path, expected["class"]), expected["rows"])
    assert found.keys() == expected["answers"].keys()
    for name, values in expected["answers"].items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12, err_msg=name)


def test_every_version_that_can_be_read_has_files():
    """`python -m tests.saved_files` writes those of the current version."""
    versions = range(OLDEST_VERSION, current_version() + 1)
    assert {path.parent.name for path in SAVED} == {f"v{version}" for version in versions}
    kinds = ("calibration", "predictor", "network")
    for version in versions:
        headers = [header(path) for path in SAVED if path.parent.name == f"v{version}"]
        found = {(each["format"], each["version"]) for each in headers} - {("evencover.table_calibration", 4)}
        assert found == {(f"evencover.{kind}", version) for kind in kinds}


def test_every_class_is_in_a_file_of_the_current_version():
    """All scores, and all classes that a file may hold, except those that depend on the version of scikit-learn."""
    held = "".join(text(path) for path in SAVED if path.parent.name == f"v{current_version()}")
    names = {path.rpartition(".")[2] for path in TRUSTED if path.startswith("evencover.")}
    names |= {score.__name__ for score in (*map(type, ALL_SCORES), Bounded)}
    assert {name for name in names if f'"{name}"' not in held} == WITHOUT_FILE


def test_the_files_are_small():
    assert max(path.stat().st_size for path in SAVED) < 20_000


def text(path):
    """Return the header, and the description of the objects."""
    with ZipFile(path) as archive:
        if "objects.skops" not in archive.namelist():
            return archive.read("header.json").decode()
        with archive.open("objects.skops") as content, ZipFile(content) as objects:
            return archive.read("header.json").decode() + objects.read("schema.json").decode()
