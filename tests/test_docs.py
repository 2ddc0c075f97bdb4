"""The documentation is correct: its code runs and prints the output on the page, and its links have targets."""

import contextlib
import inspect
import io
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

import evencover
import evencover.cli
import evencover.datasets
import evencover.diagnostics
import evencover.metrics
import evencover.model_selection
import evencover.models
import evencover.protocols
import evencover.reproduction.benchmark
import evencover.synthetic
import evencover.tables
import evencover.theory
from evencover.reproduction.claims import claims
from tests.report_pages import few_levels
from tests.test_boosting import LINES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"```(python|sh)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")
SET_UP = ("make ", "pip ")  # installation, not run here

NUMBER = re.compile(r"\d+(?:\.\d+)?")
WEIGHTS = re.compile(r"(?<=Model: stack) \([^)]*\)")  # of regressors that are about equally good
PROGRESS = re.compile(r"evencover: .*, (\d+ min )?\d+ s")  # on a slow machine


def text_of(page):
    return page.read_text(encoding="utf-8")


def test_there_are_pages():
    assert {"README.md", "guide.md", "architecture.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= {p.name for p in PAGES}


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")  # Dask, with pandas 3.1
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_runs_and_prints_the_output_on_the_page(page, tmp_path, monkeypatch):
    """The blocks of a page run one after another, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for language, code, expected in BLOCK.findall(text_of(page)):
        with few_levels():  # no page shows the others
            printed = command_output(code) if language == "sh" else python_output(code, names)
        printed, expected = (WEIGHTS.sub("", text) for text in (printed, expected))
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
        numbers, on_page = ([float(number) for number in NUMBER.findall(text)] for text in (printed, expected))
        assert numbers == pytest.approx(on_page, rel=0.02)  # versions of scikit-learn fit a little differently


def test_commands_that_are_not_run_can_be_parsed():
    """Commands for files that do not exist here, or that take long, use existing commands and options."""
    pages = "\n".join(text_of(page) for page in PAGES)
    for line in re.findall(r"^    (evencover .*)$", pages, re.MULTILINE):
        evencover.cli.app().parse_args(shlex.split(line, comments=True)[1:], exit_on_error=False, print_error=False)


def test_some_commands_are_not_run():
    """So the test above can fail."""
    assert re.search(r"^    evencover run", text_of(ROOT / "README.md"), re.MULTILINE)


def python_output(code, names):
    """Return the text that Python code prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)  # noqa: S102
    return printed.getvalue()


def command_output(lines):
    """Return the text that commands print; installation commands are skipped. Exit status: 0, or that of a verdict."""
    printed, errors = io.StringIO(), io.StringIO()
    for line in lines.splitlines():
        if line.startswith(SET_UP):
            continue
        name, *arguments = shlex.split(line)
        assert name == "evencover"
        streams = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors)
        with streams[0], streams[1], pytest.raises(SystemExit) as end:
            evencover.cli.main(arguments)
        assert end.value.code in (None, 0, 3, 4)
    assert [line for line in errors.getvalue().splitlines() if not PROGRESS.fullmatch(line)] == []
    return printed.getvalue()


def test_links_have_targets():
    links = [(page, target) for page in PAGES for target in LINK.findall(text_of(page)) if "://" not in target]
    assert len(links) > 100
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def test_the_code_of_pages_is_found():
    """So the test of code can fail."""
    first = ("README", "guide", "models", "distributions", "predictive_distributions", "theory", "diagnostics", "scale")
    others = ("cross_conformal_guarantee", "reproduction", "real_data", "tutorial", "command_line")
    assert {f"{name}.md" for name in (*first, *others)} <= {page.name for page in WITH_CODE}
    assert set(ROOT.glob("docs/howto/*.md")) <= set(WITH_CODE)


PAGES_OF_NAMES = {
    evencover: ("guide.md", "models.md"),
    evencover.diagnostics: ("guide.md", "diagnostics.md"),
    evencover.metrics: ("guide.md",),
    evencover.model_selection: ("guide.md",),
    evencover.protocols: ("guide.md", "howto/own_taxonomy.md", "howto/own_score.md", "models.md"),
    evencover.models: ("models.md", "guide.md"),
    evencover.theory: ("theory.md",),
    evencover.tables: ("scale.md", "guide.md"),
    evencover.synthetic: ("reproduction.md",),
    evencover.datasets: ("real_data.md",),
    evencover.reproduction.benchmark: ("real_data.md",),
}


@pytest.mark.parametrize("module", PAGES_OF_NAMES, ids=lambda module: module.__name__)
def test_every_public_name_is_documented(module):
    """It has a docstring that names its parameters, and a page mentions it."""
    pages = "".join(text_of(ROOT / "docs" / page) for page in PAGES_OF_NAMES[module])
    names = [name for name in module.__all__ if not name.startswith("_")]
    assert [name for name in names if name not in pages] == []
    assert {name: missing for name in names if (missing := undocumented(getattr(module, name)))} == {}


def undocumented(value):
    """Return the parameters that the docstring of a class or function does not name, or that there is none."""
    if not callable(value):
        return []
    if not (doc := inspect.getdoc(value)):
        return ["docstring"]
    is_class = inspect.isclass(value)
    if is_class and (issubclass(value, Warning) or getattr(value, "_is_protocol", False)):
        return []
    return [name for name in inspect.signature(value).parameters if name not in doc]


def test_every_command_is_documented():
    commands = [name for name in evencover.cli.app()["reproduce"] if not name.startswith("-")]
    assert commands
    assert all(f"evencover reproduce {name}" in text_of(ROOT / "docs/reproduction.md") for name in commands)
    others = {name for name in evencover.cli.app() if not name.startswith("-")} - {"reproduce"}
    assert others == {"run", "predict", "audit", "calibrate", "benchmark", "datasets"}
    assert all(f"evencover {name}" in text_of(ROOT / "docs/command_line.md") for name in others)
    assert all(f"evencover {name}" in text_of(ROOT / "docs/real_data.md") for name in ("benchmark", "datasets"))


@pytest.mark.parametrize("command", ["run", "predict", "audit", "calibrate"])
def test_every_option_is_documented(command):
    """On the page of the command line."""
    parameters = inspect.signature(getattr(evencover.cli, command)).parameters
    options = {f"--{name.replace('_', '-')}" for name in parameters}
    positional = {"--data", "--folder", "--new", "--file"}
    page = text_of(ROOT / "docs/command_line.md")
    assert {option for option in options - positional if option not in page} == set()


def claims_on_the_page():
    """Return number, statement and evidence of each claim on the page."""
    page = text_of(ROOT / "docs/reproduction.md")
    return re.findall(r"^\| (\d) \| (.*?) \| \*\*holds\*\*: (.*?) \|$", page, re.MULTILINE)


def test_the_page_states_the_claims_of_the_command():
    current = [(str(claim.number), claim.statement) for claim in claims(repeats=2)]
    assert [(number, statement) for number, statement, _ in claims_on_the_page()] == current


@pytest.mark.slow
def test_the_evidence_of_the_claims_is_up_to_date():
    for (_, _, on_page), claim in zip(claims_on_the_page(), claims(), strict=True):
        evidence = claim.evidence.replace("|z|", "z")
        assert NUMBER.sub("#", on_page) == NUMBER.sub("#", evidence)
        numbers = ([float(number) for number in NUMBER.findall(text)] for text in (on_page, evidence))
        np.testing.assert_allclose(*numbers, atol=0.002)


@pytest.mark.parametrize("library", LINES)
def test_the_line_for_each_library_is_the_tested_one(library):
    assert LINES[library].replace("LGBMRegressor()", "model") in text_of(ROOT / "docs/models.md")


def test_the_changelog_has_this_version():
    assert f"## {evencover.__version__}" in text_of(ROOT / "CHANGELOG.md")


def test_the_demo_finds_uneven_coverage(capsys):
    """In one split of its synthetic data; `make demo` runs it whole."""
    sample = evencover.synthetic.heteroskedastic(6000, seed=0)
    runpy.run_path(str(ROOT / "examples" / "demo.py"))["report"]("Synthetic data", sample.X, sample.y, splits=1)
    rows = re.findall(r"^(one [^\n]*?) +([01]\.\d+) .* ([01]\.\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(rows) == 3
    gaps = [float(gap) for _, _, gap in rows]
    assert gaps[0] > 0.1 > gaps[2]
