"""What moves with the level: texts and marks that a page shows at one level and keeps for the others.

A page is made once for every level by the same functions. What they pass through `LevelRecorder` is noted in order, so
the n-th note of one level is the n-th of every other.
"""

from collections.abc import Sequence
from typing import Any

from evencover._internal.html import Markup, tag, visible

_NOTHING = Markup("")


class LevelRecorder:
    """Notes of what is said and drawn at one level.

    Parameters
    ----------
    written : bool
        Whether elements are written, too: they are shown at one level only.
    """

    def __init__(self, *, written: bool = True) -> None:
        self.written = written
        self.texts: list[str] = []
        self.marks: list[dict[str, str]] = []

    def text(self, value: Any, name: str = "span", **attributes: Any) -> Markup:
        """Return an element whose text moves with the level."""
        self.texts.append(visible(str(value)))
        if not self.written:
            return _NOTHING
        return tag(name, str(value), data_text=len(self.texts) - 1, **attributes)

    def mark(self, name: str, *content: Any, moving: dict[str, Any], **attributes: Any) -> Markup:
        """Return an element some of whose attributes move with the level; numbers are rounded to tenths of a pixel."""
        short = {key: f"{value:.1f}" if isinstance(value, float) else str(value) for key, value in moving.items()}
        self.marks.append({key.rstrip("_"): value for key, value in short.items()})
        if not self.written:
            return _NOTHING
        return tag(name, *content, data_mark=len(self.marks) - 1, **short, **attributes)


def moving(lives: Sequence[LevelRecorder]) -> dict[str, Any]:
    """Return what differs between levels: for each text and each attribute that does, its value at every level."""
    if len({(len(live.texts), len(live.marks)) for live in lives}) > 1:
        raise RuntimeError("a report must have the same parts at every level")
    texts = {
        place: list(values)
        for place, values in enumerate(zip(*(live.texts for live in lives), strict=True))
        if len(set(values)) > 1
    }
    marks: dict[int, dict[str, list[str]]] = {}
    for place, values in enumerate(zip(*(live.marks for live in lives), strict=True)):
        for key in values[0]:
            series = [value[key] for value in values]
            if len(set(series)) > 1:
                marks.setdefault(place, {})[key] = series
    return {"texts": texts, "marks": marks}
