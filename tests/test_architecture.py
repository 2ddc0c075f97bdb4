"""The architecture: layers and imports, public and private names, the cost of importing, sizes."""

import ast
import re
import subprocess
import sys
import tokenize
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest

import evencover

SOURCE = Path(evencover.__file__).parent
LAYERS = (  # of packages and single modules: each imports from its own layer or from layers above, never from below
    "_version _lazy",
    "inputs",
    "display files",
    "quantiles quantile_functions arithmetic groups guarantees target_support intervals predictions rows metrics bins",
    "scores taxonomies",
    "calibration",
    "theory synthetic",
    "models",
    "model_selection protocols conformal",
    "diagnostics",
    "tables plots",
    "datasets studies",
    "words",
    "report",
    "reproduction",
    "cli",
    "__main__",
)
LAYER_OF = {package: layer for layer, packages in enumerate(LAYERS) for package in packages.split()}
MAX_LINES = 600  # of code in a file
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
import evencover.cli
import evencover.datasets
import evencover.reproduction.benchmark.results
import evencover.models
import evencover.synthetic
import evencover.theory
for name in evencover.__all__:
    getattr(evencover, name)
print(evencover.calibrate([1.0, 2.0], [0.0, 0.0]).threshold(0.5))
print(bool(evencover.theory.is_pivotal(evencover.Normalized(), evencover.theory.NORMAL)))
"""


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path):
    """Return the modules of the package that a file imports, at its top or inside functions, except its own words.

    A result shows itself: its methods, such as `__str__`, import from `words` what makes its sentences. Such an import
    inside a function is not counted. It points down, but runs only if the text is wanted.
    """
    found, own_words = set(), imports_of_words_inside_functions(path)
    for node in ast.walk(parsed(path)):
        if node in own_words:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "evencover":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evencover."):
            module = node.module.removeprefix("evencover.")
            modules = {f"{module}.{alias.name}" for alias in node.names} & set(MODULES)
            found |= modules or {module}
    return found


def imports_of_words_inside_functions(path):
    """Return the import statements inside functions of a file that import from `evencover.words`."""
    inside = (
        node
        for function in ast.walk(parsed(path))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    )
    return {
        node for node in inside if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("evencover.words.")
    }


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


def uses_of_reproduction(modules):
    """Return the modules outside `reproduction` and `cli` that import from `evencover.reproduction`."""
    return {
        name
        for name, path in modules.items()
        if not name.startswith(("reproduction", "cli"))
        and any(imported.split(".")[0] == "reproduction" for imported in imports_of(path))
    }


def imports_from_below(modules):
    """Return the imports of each module from layers below its own, without the modules that have none."""
    below = {
        module: {name for name in imports_of(path) if layer(name) > layer(module)} for module, path in modules.items()
    }
    return {module: names for module, names in below.items() if names}


def layer(module):
    return LAYER_OF[module.split(".")[0]]


def private_imports(modules):
    """Return the imports of each module that belong to another package and are private to it."""
    found = {
        module: {name for name in imports_of(path) if not module.startswith(package_of_private(name))}
        for module, path in modules.items()
    }
    return {module: names for module, names in found.items() if names}


def package_of_private(module):
    """Return the package that may import a module: that of its first part with an underscore; any, if it has none."""
    parts = module.split(".")
    private = [place for place, part in enumerate(parts) if part.startswith("_") and part != "_version"]
    return ".".join(parts[: private[0]]) if private else ""


def test_every_package_has_a_layer():
    assert {module.split(".")[0] for module in MODULES} == set(LAYER_OF)


def test_imports_point_up():
    assert imports_from_below(MODULES) == {}


def test_private_modules_are_used_inside_their_package():
    assert private_imports(MODULES) == {}


def test_there_are_no_import_cycles():
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


def test_only_the_reproduction_and_the_command_line_use_the_reproduction():
    assert uses_of_reproduction(MODULES) == set()


def test_broken_rules_are_found(tmp_path):
    """The tests above can fail."""
    user = tmp_path / "user.py"
    user.write_text("def f():\n    from evencover.reproduction.claims import claims\n")
    other = tmp_path / "other.py"
    other.write_text("from evencover.models._outputs import Scaling\nfrom evencover._version import __version__\n")
    assert uses_of_reproduction({"cli.user": user, "scores": user}) == {"scores"}
    assert imports_from_below({"scores": user, "cli": user}) == {"scores": {"reproduction.claims"}}
    assert private_imports({"models.networks.x": other, "models.y": other}) == {}
    assert private_imports({"studies.x": other}) == {"studies.x": {"models._outputs"}}


def test_words_are_imported_inside_functions(tmp_path):
    """A result may import its words inside a function, and nothing else from below."""
    shown, at_the_top, other = (tmp_path / name for name in ("shown.py", "at_the_top.py", "other.py"))
    statement = "from evencover.words.results import audit_text\n"
    shown.write_text(f"class Audit:\n    def __str__(self):\n        {statement}        return audit_text(self)\n")
    at_the_top.write_text(f"if TYPE_CHECKING:\n    {statement}")
    other.write_text(f"def f():\n    {statement.replace('words', 'report')}")
    modules = {"diagnostics.shown": shown, "diagnostics.at_the_top": at_the_top, "diagnostics.other": other}
    assert imports_from_below(modules) == {
        "diagnostics.at_the_top": {"words.results"},
        "diagnostics.other": {"report.results"},
    }


def test_importing_the_package_loads_nothing_else():
    """Not even numpy: names are loaded on first use."""
    code = f"import sys, evencover; print([name for name in {OPTIONAL} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_core_needs_no_optional_package():
    """Every public name can be loaded and used without the extras."""
    assert subprocess.check_output([sys.executable, "-c", WITHOUT_EXTRAS], text=True).split() == ["[2.]", "True"]


@pytest.mark.parametrize("package", ["evencover", "evencover.diagnostics", "evencover.tables"])
def test_public_names_agree_with_the_type_checkers(package):
    """The names that load on first use are those that the type checker sees and that dir() shows."""
    module = import_module(package)
    block = next(node for node in parsed(Path(module.__file__)).body if isinstance(node, ast.If))
    checked = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(checked) == set(module.__all__) == set(dir(module))
    for name, defined_in in checked.items():
        assert getattr(module, name) is getattr(import_module(defined_in), name)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_functions_are_small():
    sizes = sorted(code_lines(node) for _, node in functions())
    assert sizes[len(sizes) // 2] <= 6
    assert sizes[int(len(sizes) * 0.9)] <= 20
    assert sizes[-1] <= 50


def lines_of_code(path):
    """Return the number of lines of a file without blank lines, comments and docstrings."""
    source = path.read_text(encoding="utf-8")
    documented = set()
    for node in ast.walk(parsed(path)):
        has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        if has_docstring:
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = (token for token in tokenize.generate_tokens(StringIO(source).readline) if token.type not in skipped)
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documented)


def test_files_can_be_read_at_once():
    assert {module: n for module, path in MODULES.items() if (n := lines_of_code(path)) > MAX_LINES} == {}


def test_lines_of_code_are_counted(tmp_path):
    path = tmp_path / "counted.py"
    path.write_text(
        '"""Not.\n\nNot.\n"""\n\n# not\nx = [\n    1,  # once\n]\n\n\ndef f():\n    """Not."""\n    return x\n'
    )
    assert lines_of_code(path) == 5


def test_modules_are_named_by_what_they_hold():
    nameless = {"utils", "helpers", "common", "base", "_internal"}
    assert not nameless & {part for module in MODULES for part in module.split(".")}


def test_the_architecture_page_names_every_package():
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert set(LAYER_OF) - set(re.findall(r"\w+", page)) <= {"_version", "_lazy", "__main__"}
