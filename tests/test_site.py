"""The site lists every public name; `make docs` finds broken links and what would be loaded from another host."""

import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = (  # a name of several modules is listed under the first
    "",
    ".protocols",
    ".diagnostics",
    ".metrics",
    ".model_selection",
    ".tables",
    ".studies",
    ".models",
    ".plots",
    ".theory",
    ".synthetic",
    ".datasets",
    ".reproduction.benchmark",
)
problems = runpy.run_path(str(ROOT / "docs" / "check_links.py"))["problems"]


def public_names(module):
    module = import_module(f"evencover{module}")
    functions = (name for name, _ in inspect.getmembers(module, inspect.isfunction) if not name.startswith("_"))
    names = getattr(module, "__all__", None) or [
        name for name in functions if getattr(module, name).__module__ == module.__name__
    ]
    return {f"{module.__name__}.{name}": getattr(module, name) for name in names}


def names_to_list():
    """Return all public names, each under the first of its modules."""
    found = {}
    for module in MODULES:
        known = {id(value) for value in found.values() if callable(value)}
        found |= {name: value for name, value in public_names(module).items() if id(value) not in known}
    return set(found)


def listed_names():
    """Return the names that the reference lists, each with its module."""
    module, names = "", []
    for line in (ROOT / "docs" / "api.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif name := re.fullmatch(r"(?:   |\.\. data:: | {10})(\w+)", line):
            names.append(f"{module}.{name[1]}")
    return names


def test_the_reference_lists_every_public_name_once():
    listed = listed_names()
    assert len(listed) == len(set(listed))
    assert set(listed) == names_to_list()


def test_a_correct_site_has_no_problems(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="sub/page.html#here">one</a> <a href="#top" id="top">two</a> <a href="https://example.org">three</a>'
    )
    (tmp_path / "sub" / "page.html").write_text('<h1 id="here">Here</h1> <a href="../index.html?q=1#top">back</a>')
    assert list(problems(tmp_path)) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="missing.html">', "index.html: nothing at missing.html"),
        ('<a href="#missing">', "index.html: nothing at #missing"),
        ('<a href="index.html#missing">', "index.html: nothing at index.html#missing"),
        ('<img src="missing.png">', "index.html: nothing at missing.png"),
        ('<img srcset="missing.png, missing.png 2x">', "index.html: nothing at missing.png"),
        ('<script src="https://example.org/a.js"></script>', "index.html: loads https://example.org/a.js"),
        ('<img src="//example.org/a.png">', "index.html: loads //example.org/a.png"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "index.html: loads https://example.org/a.css"),
    ],
)
def test_problems_are_found(html, problem, tmp_path):
    (tmp_path / "index.html").write_text(html)
    assert set(problems(tmp_path)) == {problem}


def test_style_sheets_are_checked(tmp_path):
    (tmp_path / "index.html").touch()
    (tmp_path / "a.css").write_text("@import 'a/b.css'; p { background: url(https://example.org/a.png) }")
    assert list(problems(tmp_path)) == ["a.css: loads https://example.org/a.png"]


def test_an_empty_folder_is_a_problem(tmp_path):
    assert list(problems(tmp_path)) == [f"{tmp_path}: no pages"]
