"""HTML elements as strings; all text is escaped unless it is marked as HTML, and holds no control characters."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from evencover.display.lines import shown

_VOID_ELEMENTS = ("br", "circle", "input", "line", "meta", "path", "rect")


class Markup(str):
    """A string that is HTML already and must not be escaped again."""

    __slots__ = ()


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """Return an element. Its attributes are escaped, and so is all content that is not `Markup`.

    Parameters
    ----------
    name : str
        Name of the element.
    *content : Any
        Its content: text or `Markup`.
    **attributes : Any
        Its attributes. ``class_`` stands for class; other underscores become hyphens. True gives an attribute without a
        value; None and False leave it out. Floats are written with 6 significant digits.

    Examples
    --------
    >>> tag("p", "a < b ", tag("b", "c"), class_="note")
    '<p class="note">a &lt; b <b>c</b></p>'
    """
    attribute_text = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{attribute_text}/>")
    return Markup(f"<{name}{attribute_text}>{joined(content)}</{name}>")


def joined(parts: Iterable[Any]) -> Markup:
    """Return the parts as one string; all that are not `Markup` are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else _escaped(str(part)) for part in parts))


def html_table(header: Sequence[Any], rows: Iterable[Sequence[Any]], *, caption: str = "", **attributes: Any) -> Markup:
    """Return a table whose first column holds the names of the rows.

    Parameters
    ----------
    header : sequence
        Names of the columns.
    rows : iterable of sequences
        The cells of each row.
    caption : str
        Caption of the table.
    **attributes : Any
        Attributes of the table element.
    """
    head = tag("tr", *(tag("th", name, scope="col") for name in header))
    body = (tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows)
    title = [tag("caption", caption)] if caption else []
    return tag("table", *title, tag("thead", head), tag("tbody", *body), **attributes)


class RecommendationHtmlMixin:
    """For an estimator: a notebook shows its `recommendation_`, if it has one, above scikit-learn's diagram."""

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        recommendation = getattr(self, "recommendation_", None)
        if recommendation is None:
            return bundle
        shown = {"text/plain": f"{recommendation}\n\n", "text/html": recommendation._repr_html_()}
        return {kind: shown.get(kind, "") + text for kind, text in bundle.items()}


def _escaped(text: str) -> str:
    return escape(shown(text))


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if isinstance(value, int | float):  # nothing to escape
        return f' {name}="{value:.6g}"' if isinstance(value, float) else f' {name}="{value}"'
    return f' {name}="{_escaped(str(value))}"'
