"""Each claim in `docs/claims.md` stands on its page, and what it names as evidence exists."""

import ast
import inspect
import re
import shlex
import tomllib
from fractions import Fraction
from functools import cache
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

import evencover.cli
from evencover import Intervals, audit, conformal_rank, diagnose_scores
from evencover.diagnostics import rows_needed
from evencover.quantiles import rows_for_finite_threshold
from evencover.studies import study
from evencover.tables import calibrate_sql
from tests.coverage_laws import clopper_pearson_lower

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md",
    "docs/guide.md",
    "docs/diagnostics.md",
    "docs/cross_conformal_guarantee.md",
    "docs/howto/small_data.md",
    "docs/howto/time_and_panels.md",
    "docs/scale.md",
    "docs/predictive_distributions.md",
    "docs/distributions.md",
    "SECURITY.md",
}
SECTION = re.compile(r"^## (\S+\.md)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (.+) \| (`.+`) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
WORDS = {4: "four", 8: "eight"}


@cache
def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def plain(text):
    """Return text without the marks of Markdown, and with one space between words."""
    return " ".join(re.sub("[*`]", "", LINK.sub(r"\1", text)).split())


@cache
def plain_text_of(path):
    return plain(text_of(path))


def claims():
    """Return page, claim and evidence of each row of the tables."""
    return [
        (page, plain(claim), re.findall("`([^`]+)`", evidence))
        for page, section in SECTION.findall(text_of("docs/claims.md"))
        for claim, evidence in ROW.findall(section)
    ]


def names_in(body, prefix=""):
    """Yield the names of test functions, those in classes after the name of the class."""
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield from names_in(each.body, f"{prefix}{each.name}::")
        elif isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            yield prefix + each.name


@cache
def names_of_tests(path):
    return set(names_in(ast.parse(text_of(path)).body)) if (ROOT / path).is_file() else set()


def exists(evidence):
    """Return whether a test, a target of make, a benchmark or a command exists."""
    path, _, name = evidence.partition("::")
    program, *arguments = shlex.split(evidence)
    if name:
        return path.startswith("tests/") and name in names_of_tests(path)
    if program == "make":
        return f"\n{arguments[0]}: " in text_of("Makefile")
    if program == "python":
        return arguments[0] == "-m" and (ROOT / f"{arguments[1].replace('.', '/')}.py").is_file()
    evencover.cli.app().parse_args(arguments, exit_on_error=False, print_error=False)
    return program == "evencover"


def test_each_page_has_claims():
    found = [page for page, _, _ in claims()]
    assert set(found) == PAGES
    assert all(found.count(page) >= 10 for page in PAGES)


def test_each_row_of_the_page_is_read():
    rows = [line for line in text_of("docs/claims.md").splitlines() if line.startswith("| ")]
    assert len(claims()) == len([row for row in rows if row != "| claim | evidence |"])


@pytest.mark.parametrize("page", sorted(PAGES))
def test_claims_stand_on_their_page(page):
    """If a sentence has changed, look at its tests, and quote the new one."""
    assert [claim for each, claim, _ in claims() if each == page and claim not in plain_text_of(page)] == []


def test_evidence_exists():
    assert {each for _, _, evidence in claims() for each in evidence if not exists(each)} == set()


@pytest.mark.parametrize(
    "evidence",
    [
        "tests/test_claims.py::test_of_nothing",
        "tests/test_claims.py::TestNothing::test_evidence_exists",
        "tests/test_nothing.py::test_evidence_exists",
        "make nothing",
        "python -m benchmarks.nothing",
    ],
)
def test_missing_evidence_is_noticed(evidence):
    assert not exists(evidence)


def test_links_and_marks_are_ignored_in_quotes():
    assert plain("**No**\n`row` is [dropped](a.md#b).") == "No row is dropped."


@cache
def source():
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))


def constants(name):
    """Return the values of the constants with this name in the source, in whichever modules they stand."""
    found = re.findall(rf"^{name} = ([\d_]+)(?:\*\*(\d+))?(?:  #.*)?$", source(), re.MULTILINE)
    return [int(base) ** int(power or 1) for base, power in found]


def default(function, name):
    return inspect.signature(function).parameters[name].default


@pytest.mark.parametrize(
    ("page", "phrase", "numbers"),
    [
        ("docs/scale.md", "read in batches of {} rows", constants("_BATCH_ROWS")),
        ("docs/scale.md", "uses {} random rows", constants("_SAMPLE_ROWS")),
        ("docs/scale.md", "Of a table with more than {} rows", constants("_MAX_ROWS_IN_MEMORY")),
        (
            "docs/scale.md",
            "{} of its rows decide which columns are ids or dates, fit the model",
            [default(study, "training_rows")],
        ),
        ("docs/scale.md", "With more than {} groups, scores are sorted", constants("_MAX_CODES_IN_ARRAY")),
        ("docs/scale.md", "The second pass keeps up to {} million", [n // 10**6 for n in constants("_MAX_VALUES")]),
        ("docs/scale.md", "{} tasks merge the results of all partitions", constants("_MERGERS")),
        ("docs/guide.md", "of up to {} rows, sorted", [default(Intervals.plot, "most")]),
        ("docs/diagnostics.md", "(at most {} of them)", constants("_MAX_SEARCHED_ROWS")),
    ],
)
def test_numbers_on_the_pages_are_those_of_the_code(page, phrase, numbers):
    """Of constants with the same name, one must have the number."""
    assert any(phrase.format(spelled(number)) in plain_text_of(page) for number in numbers)


def spelled(number):
    """Return a number as the pages write it."""
    return WORDS.get(number, str(number) if number < 10_000 else f"{number:,}".replace(",", " "))


def test_the_number_of_random_tables_is_that_of_the_joint_test():
    """No table is as uneven as this one, so the p-value is that of the observed table alone."""
    found = diagnose_scores(np.arange(300.0), np.arange(300) // 100, level=0.5)
    assert f"it comes from {round(1 / found.joint_p_value) - 1} random tables" in plain_text_of("docs/diagnostics.md")


def test_the_number_of_categories_is_that_of_an_audit():
    """The others are pooled."""
    found = audit(np.zeros(120), (-np.ones(120), np.ones(120)), X=np.arange(120)[:, None].astype(str))
    *categories, _ = found.by_feature
    assert f"the {len(categories)} most frequent ones" in plain_text_of("docs/diagnostics.md")


def project():
    return tomllib.loads(text_of("pyproject.toml"))["project"]


def test_the_oldest_python_is_that_of_the_package():
    assert project()["requires-python"] == ">=3.11"


def extras_within(name, extras):
    """Return the extras that an extra installs, directly or through others."""
    inside = {part for each in extras[name] for part in re.findall(r"\w+", each.partition("evencover[")[2])}
    return inside.union(*(extras_within(each, extras) for each in inside))


def test_the_extras_are_those_of_the_package():
    """The table of the README lists them; all of them without Spark are `all`; the rest is three packages."""
    extras = project()["optional-dependencies"]
    listed = re.findall(r"^\| `(\w+)` \| ", text_of("README.md").partition("## Install")[2], re.MULTILINE)
    assert {*listed, "all"} == set(extras)
    assert extras_within("all", extras) == set(listed) - {"spark"}
    assert {re.match(r"[\w-]+", each)[0] for each in project()["dependencies"]} == {"numpy", "scipy", "scikit-learn"}


def test_a_group_needs_about_400_calibration_rows():
    assert round(rows_needed(0.9, 0.03), -2) == 400


def test_rows_for_a_finite_interval():
    assert [rows_for_finite_threshold(level) for level in (0.9, 0.95, 0.99)] == [9, 19, 99]


def test_the_dialects_are_those_of_the_package():
    with pytest.raises(ValueError, match="unknown SQL dialect 'none'") as raised:
        calibrate_sql("t", target="y", center="p", dialect="none")
    *first, last = str(raised.value).rpartition(": ")[2].split(", ")
    assert f"The dialects are {', '.join(first)} and {last}." in plain_text_of("docs/scale.md")


def test_a_million_rows_show_a_coverage_up_to_a_thousandth():
    """Of three groups, for which the intervals hold jointly; the misses have the upper end."""
    low, high = clopper_pearson_lower(900_000, 10**6, 3), 1 - clopper_pearson_lower(100_000, 10**6, 3)
    assert max(0.9 - low, high - 0.9) < 0.001


def test_the_coverage_of_a_billion_calibration_rows():
    """Its standard deviation is a thousandth of a percent."""
    n = 10**9
    share = Fraction(conformal_rank(n, 0.9), n + 1)  # the mean of the Beta distribution
    assert f"{100 * sqrt(share * (1 - share) / (n + 2)):.3f}" == "0.001"
