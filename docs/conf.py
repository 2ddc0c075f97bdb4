"""How Sphinx builds the site from these pages, the docstrings and the examples: `make docs`."""

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
default_role = "py:obj"  # `name` in a docstring: a link where there is such a page, else code, such as a parameter
nitpick_ignore_regex = [("py:obj", ".*")]
myst_heading_anchors = 4  # the anchors that headings have on GitHub

autodoc_typehints = "none"  # docstrings say them in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template of a class lists them, on its own page

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
    "min_reported_time": 3600,  # not a page's matter, and another one each time
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

# Where public names are, in the order in which a short name is looked for.
_BELOW = ("studies", "models", "plots", "theory", "synthetic", "datasets", "experiments.benchmark")
ROOMS = ("evencover", *(f"evencover.{room}" for room in _BELOW))
# Pages that show a file from the top of the repository instead of their own text.
FROM_THE_TOP = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
# Files outside docs/ that are pages of the site, as links name them, and where they are here.
ELSEWHERE = {
    r"README\.md": "index.md",
    r"CHANGELOG\.md": "changelog.md",
    r"CONTRIBUTING\.md": "contributing.md",
    r"examples/(plot_\w+)\.py": r"generated/gallery/\1.rst",
}


def at_home_here(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fetch what is shown from the top, and lead links to files of the repository to the site's pages where it can."""
    if docname in FROM_THE_TOP:
        path = Path(app.srcdir).parent / FROM_THE_TOP[docname]
        app.env.note_dependency(path)
        text = path.read_text(encoding="utf-8")
        source[0] = re.sub(r"\]\((?!\w+:|#)", "](../", text).replace("](../docs/", "](")
    for name, page in ELSEWHERE.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{name}(?=[)#])", rf"](/{page}", source[0])


def found_by_short_name(app: Sphinx, env: BuildEnvironment, node: Element, contnode: Element) -> Any:
    """Return the link for a public name written as users write it, `BySpread` or `SyntheticData.coverage`."""
    objects = env.domains.python_domain.objects
    for room in ROOMS:
        if (name := f"{room}.{node['reftarget']}") in objects:
            return env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)
    return None


def is_scikit_learns(_app: Sphinx, _kind: str, name: str, *_: Any) -> bool | None:
    """Skip what scikit-learn's metadata routing adds to every estimator, such as `set_fit_request`."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.connect("source-read", at_home_here)
    app.connect("missing-reference", found_by_short_name)
    app.connect("autodoc-skip-member", is_scikit_learns)
