"""Pictures as SVG, drawn at one level; what moves with the level goes through `LevelRecorder`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.ecdf import ecdf_steps, score_axis_limits
from evencover._internal.html import Markup, tag
from evencover._report.axes import Axis, short
from evencover._report.level_recorder import LevelRecorder
from evencover.diagnostics._verdict import GroupCoverage, excludes_level
from evencover.groups import Groups, Label
from evencover.intervals import Intervals

_WIDTH = 720.0
_LEFT, _NEAR, _RIGHT = 190.0, 60.0, 700.0  # where axes start, beside names and beside numbers, and where they stop
_ROW = 30.0
_LETTERS = 26
_MOST_STEPS = 250
_TALL = 300.0
_COLORS = 7
_REACHES = (0.05, 0.1, 0.2, 0.4, 1.0)

Places: TypeAlias = Mapping[Label, int]


def coverage_chart(
    rows: Sequence[GroupCoverage], places: Places, *, level: float, tolerance: float, live: LevelRecorder
) -> Markup:
    """Return each group's coverage with its interval, around the level; the shaded band counts as even.

    Parameters
    ----------
    rows : sequence of Covered
        The groups.
    places : mapping from label to int
        The number that a group has in all pictures.
    level, tolerance : float
        The middle, and half the width of the band.
    live : Live
        Takes notes.
    """
    reach = _reach(rows, level, tolerance)
    axis = Axis(level - reach, level + reach, _LEFT, _RIGHT)
    foot = 10 + _ROW * len(rows)
    left, right = axis.at(level - tolerance), axis.at(min(level + tolerance, 1.0))
    band = live.mark("rect", class_="band", y=4, height=foot - 4, moving={"x": left, "width": right - left})
    middle = tag("line", class_="level", x1=axis.at(level), x2=axis.at(level), y1=4.0, y2=foot)
    ticks = (
        live.text(_share(level + part * reach), "text", class_="tick", x=axis.at(level + part * reach), y=foot + 18)
        for part in (-1.0, -0.5, 0.0, 0.5, 1.0)
    )
    marks = (
        tag("g", *_covered(row, 25 + _ROW * line, axis, level, live), data_group=places[row.group])
        for line, row in enumerate(rows)
    )
    name = _axis_name("coverage, with 95 % intervals; dashed: the level; shaded: what counts as even", foot + 38, _LEFT)
    return _picture("Coverage of each group", foot + 46, band, middle, *ticks, *marks, name)


def widths_chart(widths: Mapping[Label, float], places: Places, *, most: float, live: LevelRecorder) -> Markup:
    """Return each group's mean width as a bar, the longest for the largest number `most`."""
    axis = Axis(0.0, most, _LEFT, _RIGHT - 60)
    foot = 10 + _ROW * len(widths)
    bars = []
    for line, (label, width) in enumerate(widths.items()):
        y = 8 + _ROW * line
        stop, kind = (axis.at(width), "bar") if np.isfinite(width) else (_RIGHT - 30, "bar endless")
        bar = live.mark("rect", x=_LEFT, y=y, height=18, moving={"width": stop - _LEFT, "class_": kind})
        number = live.mark("text", live.text(short(width), "tspan"), class_="number", y=y + 14, moving={"x": stop + 5})
        bars.append(tag("g", _name(label, y + 14), bar, number, data_group=places[label]))
    ticks = (tag("text", short(tick), class_="tick", x=axis.at(tick), y=foot + 18) for tick in axis.ticks())
    return _picture("Mean width of each group", foot + 46, *bars, *ticks, _axis_name("mean width", foot + 38, _LEFT))


def distribution_chart(
    every: FloatArray,
    scores: Mapping[Label, FloatArray],
    places: Places,
    *,
    level: float,
    threshold: float,
    live: LevelRecorder,
) -> Markup:
    """Return the share of all scores, and of each group's, up to any number, with the level and the threshold.

    Parameters
    ----------
    every : ndarray of shape (n,)
        The scores of all rows.
    scores : mapping from label to ndarray
        Those of some groups.
    places : mapping from label to int
        The number that a group has in all pictures.
    level, threshold : float
        Where the dashed lines are.
    live : Live
        Takes notes.
    """
    across = Axis(*score_axis_limits(every[np.isfinite(every)]), _NEAR, _RIGHT)
    up = Axis(0.0, 1.0, _TALL, 10.0)
    lines: list[Markup] = []
    if live.written:  # they are the same at every level
        lines.append(_steps(every, across, up, "all rows", {"class_": "line all"}))
    for label, values in scores.items() if live.written else ():
        attributes: dict[str, str | int] = {"class_": f"line {color(places[label])}", "data_group": places[label]}
        lines.append(_steps(values, across, up, str(label), attributes))
    frame = _frame(across, up, "score", "share of rows with a score up to it")
    at = across.at(threshold) if np.isfinite(threshold) else across.stop
    guides = (
        live.mark("line", class_="level", x1=_NEAR, x2=_RIGHT, moving={"y1": up.at(level), "y2": up.at(level)}),
        live.mark("line", class_="level", y1=10.0, y2=_TALL, moving={"x1": at, "x2": at}),
    )
    return _picture("Distribution of the scores, of all rows and of each group", _TALL + 46, *lines, *guides, *frame)


def key(place: int) -> Markup:
    """Return the line of a group in a legend, as it is in the picture."""
    line = tag("line", x1=0.0, x2=32.0, y1=5.0, y2=5.0)
    return tag(
        "svg", tag("g", line, class_=f"line {color(place)}"), viewBox="0 0 32 10", class_="key", aria_hidden="true"
    )


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Some rows of the test part, from the smallest spread to the largest.

    Parameters
    ----------
    positions : ndarray of shape (n,)
        Rows of the table they are.
    y : ndarray of shape (n,)
        Targets.
    groups : Groups of n rows
        Their groups.
    ends : pair of float
        The lowest and highest number shown.
    """

    positions: IntArray
    y: FloatArray
    groups: Groups
    ends: tuple[float, float]

    def __len__(self) -> int:
        return len(self.y)


def rows_chart(rows: ShownRows, made: Intervals, places: Places, *, live: LevelRecorder) -> Markup:
    """Return the rows' intervals as vertical lines and their targets as dots, side by side.

    Parameters
    ----------
    rows : ShownRows
        The rows.
    made : Intervals
        Theirs.
    places : mapping from label to int
        The number that a group has in all pictures.
    live : Live
        Takes notes.
    """
    across, up = Axis(-1.0, float(len(rows)), _NEAR, _RIGHT), Axis(*rows.ends, _TALL, 10.0)
    labels = rows.groups.label_of_rows().tolist()
    marks = [
        tag("g", *_row(rows, made, place, label, (across.at(place), up), live), data_group=places.get(label))
        for place, label in enumerate(labels)
    ]
    frame = _frame(across, up, "test rows, from the smallest predicted spread to the largest", "target", ticks=False)
    return _picture("Intervals and targets of test rows, sorted by spread", _TALL + 46, *marks, *frame)


def _row(
    rows: ShownRows, made: Intervals, place: int, label: Label, where: tuple[float, Axis], live: LevelRecorder
) -> list[Markup]:
    """Return a row's interval and target, what is said of them, and an area to point at."""
    x, up = where
    lower, upper, y = float(made.lower[place]), float(made.upper[place]), float(rows.y[place])
    covered = lower <= y <= upper
    empty = not lower <= upper
    ends = (up.at(y), up.at(y)) if empty else (up.at(lower), up.at(upper))
    what = "empty interval" if empty else f"{short(lower)} to {short(upper)}"
    kind = "covered" if covered else "missed"
    said = f"row {rows.positions[place]}, {label}: {what}; target {short(y)}, {kind}"
    pointed = tag("line", class_="pointed", x1=x, x2=x, y1=up.start, y2=up.stop) if live.written else Markup("")
    return [
        live.text(said, "title"),
        pointed,
        live.mark("line", class_="reach", x1=x, x2=x, moving={"y1": ends[0], "y2": ends[1]}),
        live.mark("path", moving={"d": _dot(x, up.at(y), 2.2, missed=not covered), "class_": kind}),
    ]


def color(place: int) -> str:
    """Return the class of a group's colour, by its number."""
    return f"group-{place % _COLORS}"


def _covered(row: GroupCoverage, y: float, axis: Axis, level: float, live: LevelRecorder) -> list[Markup]:
    """Return a group's name, interval and dot, at some height."""
    off = excludes_level(row, level)
    said = f"{row.group}: {row.coverage:.3f} of {row.rows} rows, {row.low:.3f} to {row.high:.3f}"
    kind = "off" if off else "on"
    reach = live.mark(
        "line", y1=y, y2=y, moving={"x1": axis.at(row.low), "x2": axis.at(row.high), "class_": f"span {kind}"}
    )
    dot = live.mark("path", moving={"d": _dot(axis.at(row.coverage), y, 5.5, missed=off), "class_": kind})
    return [live.text(said, "title"), _name(row.group, y + 4), reach, dot]


def _reach(rows: Sequence[GroupCoverage], level: float, tolerance: float) -> float:
    """Return how far from the level a picture goes: a round number that holds the groups' intervals and the band."""
    far = max([1.2 * tolerance, *(abs(end - level) for row in rows for end in (row.low, row.high))])
    return next((reach for reach in _REACHES if reach >= far), _REACHES[-1])


def _dot(x: float, y: float, size: float, *, missed: bool) -> str:
    """Return the outline of a circle or, for what was missed, of a diamond, larger."""
    if missed:
        size *= 1.3
        return f"M{x:.1f} {y - size:.1f}l{size:.1f} {size:.1f}l{-size:.1f} {size:.1f}l{-size:.1f} {-size:.1f}z"
    arc = f"a{size:.1f} {size:.1f} 0 1 0"
    return f"M{x - size:.1f} {y:.1f}{arc} {2 * size:.1f} 0{arc} {-2 * size:.1f} 0z"


def _steps(values: FloatArray, across: Axis, up: Axis, name: str, attributes: Mapping[str, str | int]) -> Markup:
    """Return an empirical distribution as a line of steps."""
    ladder, shares = ecdf_steps(values, across.low, across.high, max_steps=_MOST_STEPS)
    corners = (f"H{across.at(x):.1f}V{up.at(share):.1f}" for x, share in zip(ladder, shares, strict=True))
    path = f"M{across.start:.1f} {up.at(0.0):.1f}{''.join(corners)}"
    return tag("g", tag("title", name), tag("path", d=path, fill="none"), **attributes)


def _frame(across: Axis, up: Axis, below: str, beside: str, *, ticks: bool = True) -> list[Markup]:
    """Return both axes with their names."""
    lines = [
        tag("line", class_="axis", x1=across.start, x2=across.stop, y1=up.start, y2=up.start),
        tag("line", class_="axis", x1=across.start, x2=across.start, y1=up.start, y2=up.stop),
    ]
    numbers = [
        tag("text", short(tick), class_="tick", x=across.at(tick), y=up.start + 18) for tick in across.ticks() if ticks
    ]
    numbers += [
        tag("text", short(tick), class_="tick left", x=across.start - 6, y=up.at(tick) + 4) for tick in up.ticks()
    ]
    turned = tag("text", beside, class_="name", transform=f"translate(14 {(up.start + up.stop) / 2:.1f}) rotate(-90)")
    return [*lines, *numbers, _axis_name(below, up.start + 38, across.start), turned]


def _axis_name(text: str, y: float, start: float) -> Markup:
    return tag("text", text, class_="name", x=(start + _RIGHT) / 2, y=y)


def _name(label: Any, y: float) -> Markup:
    """Return a group's name, without its middle where it grows long; the whole of it on hovering."""
    text = str(label)
    half = _LETTERS // 2
    cut = text if len(text) <= _LETTERS else f"{text[:half]}…{text[-half:]}"
    return tag("text", tag("title", text), cut, class_="group-name", x=_LEFT - 12, y=y)


def _share(value: float) -> str:
    return f"{value:.3g}" if -1e-9 <= value <= 1 + 1e-9 else ""


def _picture(name: str, height: float, *content: Markup) -> Markup:
    """Return a picture that a screen reader knows by its name; its numbers are in a table beside it."""
    return tag(
        "svg",
        tag("g", *content, aria_hidden="true"),
        viewBox=f"0 0 {_WIDTH:g} {height:g}",
        role="img",
        aria_label=name,
        class_="picture",
    )
