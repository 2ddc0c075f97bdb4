"""The house: who may import whom, what importing costs, how large things may grow."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import evencover

SOURCE = Path(evencover.__file__).parent
LAYERS = [  # a module imports from its own layer or from layers above, never from below
    {"_version"},
    {f"_internal.{name}" for name in ("optional", "saved_files", "ecdf", "html", "arrays", "frames")} | {"_internal"},
    {"quantiles", "groups", "guarantees", "intervals", "predictions"},
    {"scores", "taxonomies", "calibration", "metrics"}
    | {f"_internal.{name}" for name in ("bins", "pools", "calibration_files")},
    {f"calibrators.{name}" for name in ("protocols", "by_group", "_prediction_sets")} | {"calibrators"},
    {f"theory.{name}" for name in ("families", "symbolic", "pivotality")} | {"theory"},
    {f"synthetic.{name}" for name in ("feature_distributions", "target_distributions", "data", "misspecification")}
    | {"synthetic"},
    {f"models.{name}" for name in ("_validation", "_scaling", "_quantile_plan", "predict")},
    {f"models.{name}" for name in ("adapters", "encoding", "forest", "spread")},
    {f"models.networks.{name}" for name in ("_layers", "_losses", "_training_settings", "_training")},
    {f"models.networks.{name}" for name in ("joint", "files")},
    {f"models.networks.{name}" for name in ("regressors", "ensembles")} | {"models.networks", "models"},
    {"_internal.predictor_files", "model_selection", "conformal"},
    {f"datasets.{name}" for name in ("registry", "_table_files", "dataset", "_downloads", "_originals", "loading")}
    | {"datasets"},
    {f"diagnostics.{name}" for name in ("_exact_tests", "_verdict", "_formatting", "_marginal_threshold")},
    {f"diagnostics.{name}" for name in ("_quantile_differences", "_score_distributions", "_spread_dependence")},
    {f"diagnostics.{name}" for name in ("_options", "sample_sizes", "_feature_strata", "_slabs", "_excess_risk")},
    {f"diagnostics.{name}" for name in ("diagnosis_result", "audit_result", "_advice")} | {"diagnostics"},
    {f"diagnostics.{name}" for name in ("diagnosis", "audits", "recommendations")},
    {f"studies.{name}" for name in ("plan", "_columns", "table_study")} | {"studies"},
    {"plots"},
    {f"reproduction.{name}" for name in ("simulation", "coverage_tables", "scenarios", "exact_coverages", "claims")},
    {f"reproduction.{name}" for name in ("verdict_rates", "paper_figures")} | {"reproduction"},
    {f"reproduction.benchmark.{name}" for name in ("variants", "_progress_files", "_workers", "_model_fits", "trials")},
    {f"reproduction.benchmark.{name}" for name in ("_result_store", "runs", "summary", "_benchmark_figures")},
    {"reproduction.benchmark.result_files", "reproduction.benchmark"},
    {f"_report.{name}" for name in ("level_recorder", "axes", "charts", "contents", "level_sections")},
    {f"_report.{name}" for name in ("static_sections", "page", "writing", "json_data", "output_folders")} | {"_report"},
    {f"_cli.{name}" for name in ("terminal", "run_command", "predict_command", "audit_command", "reproduce_commands")},
    {"_cli.benchmark_command", "_cli", "__main__"},
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
import evencover._cli
import evencover.datasets
import evencover.reproduction.benchmark.result_files
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
            module = node.module.removeprefix("evencover.")
            modules = {f"{module}.{alias.name}" for alias in node.names} & set(MODULES)
            found |= modules or {module}
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
    assert set().union(*LAYERS) == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_up(module):
    floor = next(i for i, names in enumerate(LAYERS) if module in names)
    allowed = set().union(*LAYERS[: floor + 1])
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
    loaded = {(name, f"evencover.{module}") for name, module in evencover._MODULE_OF.items()}
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
