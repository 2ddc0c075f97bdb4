"""Sphinx settings: `make docs` builds the site from these pages, the docstrings and the examples."""

import re
from pathlib import Path
from typing import Any

from docutils.nodes import Element
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import evencover

project = "evencover"
author = "The evencover developers"
project_copyright = author
version = release = evencover.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
templates_path = ["templates"]
exclude_patterns = ["templates"]
nitpicky = True
default_role = "py:obj"  # `name` in a docstring: a link if there is a page for it, else code, such as a parameter
nitpick_ignore_regex = [("py:obj", ".*")]
myst_heading_anchors = 4  # the same anchors as on GitHub

autodoc_typehints = "none"  # the docstrings describe the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the class template lists them on the page of the class

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "reference_url": {"evencover": None},
    "image_srcset": ["2x"],
    "notebook_extensions": set(),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,  # run times differ from build to build
}

html_theme = "pydata_sphinx_theme"
html_title = "evencover"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["sidebar-pages"]}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_center": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}

# Packages with public names, in the order in which a short name is searched.
_PACKAGES = ("studies", "models", "plots", "theory", "synthetic", "datasets", "reproduction.benchmark")
PACKAGES = ("evencover", *(f"evencover.{package}" for package in _PACKAGES))
# Pages that show a file from the root of the repository instead of their own text.
ROOT_FILES = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "security": "SECURITY.md"}
# Files outside docs/ that are pages of the site: patterns of their paths in links, and the pages.
PAGES_OF_FILES = {
    r"README\.md": "index.md",
    r"CHANGELOG\.md": "changelog.md",
    r"CONTRIBUTING\.md": "contributing.md",
    r"SECURITY\.md": "security.md",
    r"examples/(plot_\w+)\.py": r"generated/gallery/\1.rst",
}


def include_root_files(app: Sphinx, docname: str, source: list[str]) -> None:
    """Insert the text of files from the root, and point links to files of the repository to their pages."""
    if docname in ROOT_FILES:
        path = Path(app.srcdir).parent / ROOT_FILES[docname]
        app.env.note_dependency(path)
        text = path.read_text(encoding="utf-8")
        source[0] = re.sub(r"\]\((?!\w+:|#)", "](../", text).replace("](../docs/", "](")
    for name, page in PAGES_OF_FILES.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{name}(?=[)#])", rf"](/{page}", source[0])


def resolve_short_name(app: Sphinx, env: BuildEnvironment, node: Element, contnode: Element) -> Any:
    """Return the link for a short public name such as `BySpread` or `SyntheticData.coverage`."""
    objects = env.domains.python_domain.objects
    for package in PACKAGES:
        if (name := f"{package}.{node['reftarget']}") in objects:
            return env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)
    return None


def skip_metadata_requests(_app: Sphinx, _kind: str, name: str, *_: Any) -> bool | None:
    """Skip the methods that scikit-learn's metadata routing adds to every estimator, such as `set_fit_request`."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", include_root_files)
    app.connect("missing-reference", resolve_short_name)
    app.connect("autodoc-skip-member", skip_metadata_requests)
