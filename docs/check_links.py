"""Check a built site: every internal link has a target, and no page loads anything from another host.

Run it with ``python docs/check_links.py build/site``. It prints the problems, and fails if there are any.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {("link", "href"), ("object", "data")}  # fetched by a browser, in addition to every `src`
NOT_FETCHED = {"canonical", "next", "prev", "search", "index", "author", "license"}

FROM_ANOTHER_HOST = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]+)""")  # in a style sheet


@dataclass
class Page(HTMLParser):
    """The links of a page, the files it loads, and the anchors in it."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the addresses and anchors of a tag."""
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        for name in ("href", "src", "data"):
            if not attributes.get(name):
                continue
            fetched = name == "src" or ((tag, name) in LOADING and attributes.get("rel") not in NOT_FETCHED)
            (self.loads if fetched else self.links).append(attributes[name])
        sources = (candidate.split() for candidate in attributes.get("srcset", "").split(","))
        self.loads += [source[0] for source in sources if source]


def problems(site: Path) -> Iterator[str]:
    """Yield the problems of a site, page by page."""
    files = sorted(site.resolve().rglob("*.html"))
    pages = {path: read(path) for path in files if "_static" not in path.parts}  # templates of the theme
    if not pages:
        yield f"{site}: no pages"
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        yield from (f"{name}: loads {url}" for url in page.loads if urlsplit(url).netloc)
        for url in [*page.links, *page.loads]:
            if not has_target(url, path, pages):
                yield f"{name}: nothing at {url}"
    for path in sorted(site.rglob("*.css")):
        for url in FROM_ANOTHER_HOST.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {url}"


def read(path: Path) -> Page:
    """Return the links, files and anchors of a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def has_target(url: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Return whether the target of a link exists: the file and, if the link names one, the anchor."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return True  # another site, or data
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    sys.exit("\n".join(found) or 0)
