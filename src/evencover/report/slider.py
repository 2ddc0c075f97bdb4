"""Record which texts and attributes of a page depend on the level.

A page is made once for every level by the same functions. They pass everything that depends on the level to a
`LevelRecorder`, in the same order at every level, so the n-th record of one level belongs to the n-th of every other.
"""

from collections.abc import Sequence
from typing import Any

from evencover.display.html import Markup, tag, visible

_NOTHING = Markup("")


class LevelRecorder:
    """The texts and attributes of a page at one level.

    Parameters
    ----------
    is_shown : bool
        Whether the page opens at this level. Elements are written for that level only.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        self.is_shown = is_shown
        self.texts: list[str] = []
        self.attributes: list[dict[str, str]] = []

    def text(self, value: Any, name: str = "span", **attributes: Any) -> Markup:
        """Return an element whose text depends on the level; a percent sign stays in the line of its number."""
        text = str(value).replace(" %", "\u00a0%")
        self.texts.append(visible(text))
        if not self.is_shown:
            return _NOTHING
        return tag(name, text, data_text=len(self.texts) - 1, **attributes)

    def element(self, name: str, *content: Any, varying: dict[str, Any], **attributes: Any) -> Markup:
        """Return an element with some attributes that depend on the level; pixels are rounded to one decimal."""
        rounded = {key: f"{value:.1f}" if isinstance(value, float) else str(value) for key, value in varying.items()}
        self.attributes.append({key.rstrip("_"): value for key, value in rounded.items()})
        if not self.is_shown:
            return _NOTHING
        return tag(name, *content, data_attributes=len(self.attributes) - 1, **rounded, **attributes)


def level_differences(recorders: Sequence[LevelRecorder]) -> dict[str, Any]:
    """Return the texts and attributes that differ between levels, each with its value at every level."""
    if len({(len(recorder.texts), len(recorder.attributes)) for recorder in recorders}) > 1:
        raise RuntimeError("a report must have the same parts at every level")
    texts = {
        number: list(values)
        for number, values in enumerate(zip(*(recorder.texts for recorder in recorders), strict=True))
        if len(set(values)) > 1
    }
    attributes: dict[int, dict[str, list[str]]] = {}
    for number, values in enumerate(zip(*(recorder.attributes for recorder in recorders), strict=True)):
        for name in values[0]:
            series = [value[name] for value in values]
            if len(set(series)) > 1:
                attributes.setdefault(number, {})[name] = series
    return {"texts": texts, "attributes": attributes}
