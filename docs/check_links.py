"""Check a built site: every link within it leads somewhere, and nothing is loaded from another host.

Run it with ``python docs/check_links.py build/site``. It prints what is wrong, and then fails.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {("link", "href"), ("object", "data")}  # what a browser fetches by itself, besides every `src`
NOT_FETCHED = {"canonical", "next", "prev", "search", "index", "author", "license"}

FROM_ANOTHER_HOST = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]+)""")  # in a style sheet


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that links can lead to."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and places of a tag."""
        said = {name: value or "" for name, value in attrs}
        self.places |= {said[name] for name in ("id", "name") if name in said}
        for name in ("href", "src", "data"):
            if not said.get(name):
                continue
            fetched = name == "src" or ((tag, name) in LOADING and said.get("rel") not in NOT_FETCHED)
            (self.loads if fetched else self.links).append(said[name])
        sources = (candidate.split() for candidate in said.get("srcset", "").split(","))
        self.loads += [source[0] for source in sources if source]


def problems(site: Path) -> Iterator[str]:
    """Yield what is wrong with a site, page by page."""
    files = sorted(site.resolve().rglob("*.html"))
    pages = {path: read(path) for path in files if "_static" not in path.parts}  # where themes leave their templates
    if not pages:
        yield f"{site}: no pages"
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        yield from (f"{name}: loads {url}" for url in page.loads if urlsplit(url).netloc)
        for url in [*page.links, *page.loads]:
            if not leads_somewhere(url, path, pages):
                yield f"{name}: nothing at {url}"
    for path in sorted(site.rglob("*.css")):
        for url in FROM_ANOTHER_HOST.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {url}"


def read(path: Path) -> Page:
    """Return what is on a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def leads_somewhere(url: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Return whether a link from a page leads to a file, and to a place in it if it names one."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return True  # another site's, or data
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    place = unquote(parts.fragment)
    return not place or target not in pages or place in pages[target].places


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    sys.exit("\n".join(found) or 0)
