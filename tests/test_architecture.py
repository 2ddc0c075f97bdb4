"""The house: who may import whom, what importing costs, how large things may grow."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import evencover

SOURCE = Path(evencover.__file__).parent
FLOORS = [  # a module imports from its own floor or from floors above, never from below
    {"_version"},
    {
        "extras",
        "files",
        "ladders",
        "markup",
        "inputs",
        "quantiles",
        "tables",
        "groups",
        "guarantees",
        "intervals",
        "predictions",
        "rows",
    },
    {"scores", "bins", "taxonomies", "pools", "calibration_files", "calibration", "metrics"},
    {"calibrators", "calibrators.protocols", "calibrators.by_group", "calibrators.answers"},
    {f"theory.{name}" for name in ("families", "symbolic", "pivotality")} | {"theory"},
    {f"synthetic.{name}" for name in ("features", "laws", "worlds", "misspecification")} | {"synthetic"},
    {"models.validation", "models.speech", "models.adapters", "models.spread", "models.floors", "models.scaling"},
    {"models.quantile_plans", "models.forest", "models.encoding"},
    {f"models.networks.{name}" for name in ("layers", "losses", "settings", "training")},
    {f"models.networks.{name}" for name in ("together", "files")},
    {"models.networks.regressors", "models.networks.ensembles", "models.networks"},
    {"models", "splits", "predictor_files", "conformal", "searches"},
    {f"datasets.{name}" for name in ("registry", "table_files", "tables", "downloads", "originals", "loading")}
    | {"datasets"},
    {f"diagnostics.{name}" for name in ("counts", "verdicts", "words", "evenness", "quantile_differences")},
    {f"diagnostics.{name}" for name in ("distributions", "dependence", "options", "planning")},
    {f"diagnostics.{name}" for name in ("features", "slabs", "excess_risk")},
    {"diagnostics", "diagnostics.diagnosis", "diagnostics.audits", "diagnostics.advice"},
    {f"diagnostics.{name}" for name in ("diagnosing", "auditing", "choosing")},
    {f"studies.{name}" for name in ("plan", "columns", "parts", "results", "studying")} | {"studies"},
    {"plots", "experiments"}
    | {f"experiments.{name}" for name in ("repeats", "tables", "scenarios", "exact", "claims", "verdicts")},
    {"experiments.figures"},
    {f"experiments.benchmark.{name}" for name in ("contenders", "pulses", "workers")},
    {f"experiments.benchmark.{name}" for name in ("fits", "trials", "plan", "store", "running", "summary")},
    {f"experiments.benchmark.{name}" for name in ("pictures", "results")} | {"experiments.benchmark"},
    {f"report.{name}" for name in ("live", "axes", "charts", "contents", "sections", "background", "page", "writing")},
    {"report", "report.data", "report.folders"},
    {
        f"cli.{name}"
        for name in ("terminal", "commands", "reproducing", "benchmarking", "running", "predicting", "auditing")
    }
    | {"cli", "__main__"},
]
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
    if path != SOURCE / "__init__.py"
}
EXTRAS = [
    *("torch", "safetensors", "tqdm", "quantile_forest", "matplotlib", "pandas", "dask", "polars", "pyarrow", "sympy"),
    *("cyclopts", "rich", "distributed", "openpyxl", "xlrd", "skops"),
]
OPTIONAL = [*EXTRAS, "narwhals", "numpy", "scipy", "sklearn"]
WITHOUT_EXTRAS = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import evencover
import evencover.cli
import evencover.datasets
import evencover.experiments.benchmark.results
import evencover.models
import evencover.synthetic
import evencover.theory
for name in evencover.__all__:
    getattr(evencover, name)
print(evencover.calibrate([1.0, 2.0], [0.0, 0.0]).threshold(0.5))
print(bool(evencover.is_pivotal(evencover.Normalized(), evencover.theory.NORMAL)))
"""


def imports_of(path):
    """Return the package's modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "evencover":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evencover."):
            room = node.module.removeprefix("evencover.")
            modules = {f"{room}.{alias.name}" for alias in node.names} & set(MODULES)
            found |= modules or {room}
    return found


def functions():
    """Yield every function of the package with its place."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}.{node.name}", node


def code_lines(function):
    """Return the number of lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return body[-1].end_lineno - body[0].lineno + 1


def test_every_module_has_a_floor():
    assert set().union(*FLOORS) == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_up(module):
    floor = next(i for i, names in enumerate(FLOORS) if module in names)
    allowed = set().union(*FLOORS[: floor + 1])
    assert imports_of(MODULES[module]) <= allowed


def test_there_are_no_import_cycles():
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


def test_importing_the_package_loads_nothing_else():
    """Not even numpy: names are loaded on first use."""
    code = f"import sys, evencover; print([name for name in {OPTIONAL} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_core_needs_no_optional_package():
    """Every public name can be loaded and used without the extras."""
    assert subprocess.check_output([sys.executable, "-c", WITHOUT_EXTRAS], text=True).split() == ["[2.]", "True"]


def test_public_names_agree_with_the_type_checkers():
    """What loads on first use is what the type checker sees, and what dir() shows."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    checked = {(alias.name, node.module) for node in block.body for alias in node.names}
    loaded = {(name, f"evencover.{room}") for name, room in evencover._ROOM_OF.items()}
    assert checked == loaded
    assert set(dir(evencover)) == {name for name, _ in loaded} | {"__version__"}
    with pytest.raises(AttributeError, match="module 'evencover' has no attribute 'nothing'"):
        evencover.nothing  # noqa: B018


def test_functions_are_small():
    sizes = sorted(code_lines(node) for _, node in functions())
    assert sizes[len(sizes) // 2] <= 6
    assert sizes[int(len(sizes) * 0.9)] <= 20
    assert sizes[-1] <= 50


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_small(module):
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= 400


def test_rooms_have_names():
    nameless = {"utils", "helpers", "common", "base"}
    assert not nameless & {part for module in MODULES for part in module.split(".")}
