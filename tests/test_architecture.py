"""The architecture: layers and imports, public and private names, the cost of importing, sizes."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import evencover

SOURCE = Path(evencover.__file__).parent
LAYERS = [  # a module imports from its own layer or from layers above, never from below
    {"_version"},
    {f"_internal.{name}" for name in ("optional", "saved_files", "saved_objects", "ecdf", "html", "json_values")}
    | {f"_internal.{name}" for name in ("arrays", "booster_files", "frames", "dates", "drawing", "quantile_functions")}
    | {"_internal", "_internal.monotone_maps", "_internal.worker_processes", "_internal.text_output"}
    | {"_internal.normal_distribution", "_internal.unfinished_files"},
    {
        "quantiles",
        "groups",
        "guarantees",
        "target_support",
        "intervals",
        "interval_unions",
        "predictions",
        "rows",
        "_internal.target_scales",
    },
    {f"scores.{name}" for name in ("score", "residuals", "bounds", "probability", "one_sided", "support", "evaluation")}
    | {"scores"},
    {
        "taxonomies",
        "calibration",
        "histogram_calibration",
        "table_columns",
        "sql",
        "metrics",
        "_internal.score_histograms",
        "_internal.sql_writer",
        "_internal.sql_scores",
    }
    | {f"_internal.{name}" for name in ("bins", "pools", "grouped_pools", "calibration_files")},
    {f"_internal.{name}" for name in ("score_steps", "upper_scores", "pool_rows", "fold_selection", "depth_sets")}
    | {"predictive", "_internal.joined_sets", "_internal.fold_cells"},
    {f"calibrators.{name}" for name in ("protocols", "by_group", "histogram", "two_tails", "cross", "_prediction_sets")}
    | {"calibrators", "calibrators._folds"},
    {f"theory.{name}" for name in ("families", "symbolic", "pivotality")} | {"theory"},
    {
        f"synthetic.{name}"
        for name in ("feature_distributions", "target_distributions", "data", "noise_shapes", "misspecification")
    }
    | {"synthetic"},
    {
        f"models.{name}"
        for name in ("_validation", "_row_splits", "_scaling", "_quantile_plan", "predict", "column_kinds")
    }
    | {f"models.{name}" for name in ("_output_columns", "_spread_learning", "_fold_models", "_best_regressor")},
    {f"models.{name}" for name in ("_ridge", "_kernel_regressor", "_stack_members", "_residual_distributions")}
    | {f"models.{name}" for name in ("_stack_report", "_stacking")},
    {f"models.{name}" for name in ("adapters", "auto", "encoding", "forest", "spread", "target_transforms")},
    {f"models.networks.{name}" for name in ("_layers", "_losses", "_training_settings", "_training")},
    {f"models.networks.{name}" for name in ("joint", "_saving", "_network_outputs")},
    {f"models.networks.{name}" for name in ("regressors", "ensembles")} | {"models.networks", "models"},
    {f"_internal.{name}" for name in ("predictor_files", "prediction_methods", "predictor_loading")}
    | {"model_selection", "conformal", "cross_conformal"},
    {f"datasets.{name}" for name in ("_column_names", "_number_texts", "_table_cells", "_text_files", "_excel_files")},
    {f"datasets.{name}" for name in ("registry", "_table_files", "dataset", "_downloads", "_originals", "loading")}
    | {"datasets"},
    {f"diagnostics.{name}" for name in ("_exact_tests", "_coverage_intervals", "_verdict", "_formatting")}
    | {"diagnostics._cluster_tests"},
    {f"diagnostics.{name}" for name in ("_marginal_threshold", "_interval_input", "_headlines", "_spelling")},
    {f"diagnostics.{name}" for name in ("_quantile_differences", "_score_distributions", "_spread_dependence")},
    {f"diagnostics.{name}" for name in ("_options", "sample_sizes", "_feature_strata", "_regions", "_excess_risk")},
    {
        f"diagnostics.{name}"
        for name in ("diagnosis_result", "audit_result", "recommendation_result", "quality", "_scope")
    }
    | {"diagnostics"},
    {f"diagnostics.{name}" for name in ("_answers", "_advice", "_audit_advice", "_coverage_tests")}
    | {"diagnostics._cross_fitted_models"},
    {f"diagnostics.{name}" for name in ("diagnosis", "audits", "recommendations")},
    {
        *(f"studies.{name}" for name in ("plan", "_messages", "_recognition", "_targets", "_leaks", "_columns")),
        *("studies", "studies._dependence", "studies._splits", "studies.study_result", "studies.table_study"),
        *(f"studies.{name}" for name in ("_study_folds", "_calibration_choice", "_cross_fitting", "_cross_texts")),
        *("studies._small_tables", "studies._calibrated_models", "studies._decisions"),
    },
    {f"array_api.{name}" for name in ("_array_checks", "_rank_selection", "array_scores", "array_groups")}
    | {"array_api.array_thresholds", "array_api.array_calibration", "array_api"},
    {f"distributed.{name}" for name in ("_batches", "_passes", "_data_parts", "_arrow_data", "_partitions")}
    | {f"distributed.{name}" for name in ("_dask_data", "_spark_data", "_engines", "_score_counts", "_coverage_counts")}
    | {f"distributed.{name}" for name in ("_interval_columns", "_batch_intervals", "_file_prediction")}
    | {f"distributed.{name}" for name in ("table_calibration", "table_prediction", "table_audit", "_audit_totals")}
    | {f"distributed.{name}" for name in ("_large_table", "_model_test", "large_study")}
    | {"distributed"},
    {"plots"},
    {f"reproduction.{name}" for name in ("simulation", "coverage_tables", "scenarios", "exact_coverages", "claims")},
    {f"reproduction.{name}" for name in ("verdict_rates", "audit_rates", "paper_figures")} | {"reproduction"},
    {f"reproduction.benchmark.{name}" for name in ("variants", "_progress_files", "_workers", "_model_fits", "trials")},
    {f"reproduction.benchmark.{name}" for name in ("_result_store", "runs", "summary", "_benchmark_figures")},
    {"reproduction.benchmark.result_files", "reproduction.benchmark"},
    {f"_report.{name}" for name in ("level_recorder", "axes", "charts", "contents", "level_sections", "first_screen")},
    {f"_report.{name}" for name in ("static_sections", "page", "writing", "json_data", "output_folders")} | {"_report"},
    {f"_cli.{name}" for name in ("progress_lines", "stop_signals", "terminal", "invocation", "reproduce_commands")},
    {
        f"_cli.{name}"
        for name in (
            "benchmark_command",
            "run_command",
            "loaded_table",
            "calibrate_command",
            "predict_command",
            "audit_columns",
        )
    }
    | {"_cli.audit_command", "_cli", "__main__"},
]
# Users import from these by path: figures by their functions, the paper's parts as docs/theory.md shows.
USED_BY_PATH = {
    "plots",
    *(f"reproduction.{name}" for name in ("simulation", "coverage_tables", "scenarios", "exact_coverages")),
    *(f"reproduction.{name}" for name in ("claims", "verdict_rates", "audit_rates", "paper_figures")),
}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
    if path != SOURCE / "__init__.py"
}
EXTRAS = [
    *("torch", "tqdm", "quantile_forest", "matplotlib", "pandas", "dask", "polars", "pyarrow", "sympy"),
    *("cyclopts", "rich", "distributed", "openpyxl", "xlrd", "skops", "array_api_compat", "jax"),
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
import evencover.array_api
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


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path):
    """Return the modules of the package that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "evencover":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evencover."):
            module = node.module.removeprefix("evencover.")
            modules = {f"{module}.{alias.name}" for alias in node.names} & set(MODULES)
            found |= modules or {module}
    return found


def functions():
    """Yield every function of the package with its full name."""
    for name, path in MODULES.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}.{node.name}", node


def code_lines(function):
    """Return the number of lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return body[-1].end_lineno - body[0].lineno + 1


def public_names():
    """Return the names in `evencover.__all__` and in the `__all__` of every package without an underscore."""
    packages = [name for name, path in MODULES.items() if path.name == "__init__.py" and not is_private(name)]
    return set(evencover.__all__).union(
        *(getattr(import_module(f"evencover.{name}"), "__all__", ()) for name in packages)
    )


def defined_names(path):
    """Return the public names that a module defines at its top: functions, classes and constants."""
    defined = set()
    for node in parsed(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        defined |= {target.id for target in targets if isinstance(target, ast.Name)}
        defined |= {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
    return {name for name in defined if not name.startswith("_")}


def is_private(module):
    """Return whether a part of the module's path starts with an underscore."""
    return any(part.startswith("_") for part in module.split("."))


def without_public_names(modules):
    """Return the modules that lack an underscore in their path, and define no public name."""
    public = public_names()
    plain = {name: defined_names(path) for name, path in modules.items() if path.name != "__init__.py"}
    return {
        name
        for name, defined in plain.items()
        if not is_private(name) and not (defined if name in USED_BY_PATH else defined & public)
    }


def repeated_names(modules):
    """Return the last names that several modules share."""
    return {name for name, count in Counter(module.split(".")[-1] for module in modules).items() if count > 1}


def uses_of_reproduction(modules):
    """Return the modules outside `reproduction` and `_cli` that import from `evencover.reproduction`."""
    return {
        name
        for name, path in modules.items()
        if not name.startswith(("reproduction", "_cli"))
        and any(imported.split(".")[0] == "reproduction" for imported in imports_of(path))
    }


def test_every_module_has_a_layer():
    assert set().union(*LAYERS) == set(MODULES)


def imports_from_below(modules):
    """Return the imports of each module from layers below its own, without the modules that have none."""
    layer_of = {name: layer for layer, names in enumerate(LAYERS) for name in names}
    below = {
        module: {name for name in imports_of(path) if layer_of.get(name, len(LAYERS)) > layer_of[module]}
        for module, path in modules.items()
    }
    return {module: names for module, names in below.items() if names}


def test_imports_point_up():
    assert imports_from_below(MODULES) == {}


def test_there_are_no_import_cycles():
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


def test_a_module_without_an_underscore_defines_a_public_name():
    """Users can import something from it; everything else is plumbing."""
    assert without_public_names(MODULES) == set()


def test_module_names_are_unique():
    assert repeated_names(MODULES) == set()


def test_only_the_reproduction_and_the_command_line_use_the_reproduction():
    assert uses_of_reproduction(MODULES) == set()


def test_broken_rules_are_found(tmp_path):
    """The tests above can fail."""
    helper, user = tmp_path / "helper.py", tmp_path / "user.py"
    helper.write_text("def useful(): ...\n")
    user.write_text("def f():\n    from evencover.reproduction.claims import claims\n")
    broken = {"models.helper": helper, "models._helper": helper, "scores": user}
    assert without_public_names(broken) == {"models.helper", "scores"}
    assert repeated_names([*broken, "theory.scores"]) == {"scores"}
    assert uses_of_reproduction({"_cli.user": user, **broken}) == {"scores"}
    assert imports_from_below({"scores": user, "_cli": user}) == {"scores": {"reproduction.claims"}}


def test_importing_the_package_loads_nothing_else():
    """Not even numpy: names are loaded on first use."""
    code = f"import sys, evencover; print([name for name in {OPTIONAL} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_core_needs_no_optional_package():
    """Every public name can be loaded and used without the extras."""
    assert subprocess.check_output([sys.executable, "-c", WITHOUT_EXTRAS], text=True).split() == ["[2.]", "True"]


def test_public_names_agree_with_the_type_checkers():
    """The names that load on first use are those that the type checker sees and that dir() shows."""
    block = next(node for node in parsed(SOURCE / "__init__.py").body if isinstance(node, ast.If))
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


def test_modules_are_small():
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: n for module, n in lines.items() if n > 700} == {}


def test_modules_are_named_by_what_they_hold():
    nameless = {"utils", "helpers", "common", "base"}
    assert not nameless & {part for module in MODULES for part in module.split(".")}


def test_the_architecture_page_names_every_module():
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", page))
    named = {module for module in MODULES if module.rpartition(".")[2] in words}
    assert set(MODULES) - named <= {"_version", "__main__"}
