"""HTML in which nothing is unescaped by accident."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_UNSEEN = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}  # they turn text around
_VOID = ("br", "circle", "input", "line", "meta", "path", "rect")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """Return an element; whatever of its content is not `Markup` is escaped, and so are its attributes.

    Parameters
    ----------
    name : str
        Of the element.
    *content : Any
        What is in it, as text or `Markup`.
    **attributes : Any
        Of the element: ``class_`` is class, other underscores are hyphens, True has no value, None and False are left
        out, and numbers are written in short.

    Examples
    --------
    >>> tag("p", "a < b ", tag("b", "c"), class_="note")
    '<p class="note">a &lt; b <b>c</b></p>'
    """
    written = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{written}/>" if name in _VOID else f"<{name}{written}>{joined(content)}</{name}>")


def joined(parts: Iterable[Any]) -> Markup:
    """Return parts one after another; what is not `Markup` is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else _escaped(str(part)) for part in parts))


def html_table(header: Sequence[Any], rows: Iterable[Sequence[Any]], *, caption: str = "", **attributes: Any) -> Markup:
    """Return a table whose first column names its rows.

    Parameters
    ----------
    header : sequence
        Names of the columns.
    rows : iterable of sequences
        The cells.
    caption : str
        What the table shows.
    **attributes : Any
        Of the element.
    """
    head = tag("tr", *(tag("th", name, scope="col") for name in header))
    body = (tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows)
    title = [tag("caption", caption)] if caption else []
    return tag("table", *title, tag("thead", head), tag("tbody", *body), **attributes)


def visible(text: str) -> str:
    """Return text in which characters that turn others around are written out."""
    return text if text.isascii() else text.translate(_UNSEEN)


def _escaped(text: str) -> str:
    return escape(visible(text))


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if isinstance(value, int | float):  # has nothing to escape
        return f' {name}="{value:.6g}"' if isinstance(value, float) else f' {name}="{value}"'
    return f' {name}="{_escaped(str(value))}"'
