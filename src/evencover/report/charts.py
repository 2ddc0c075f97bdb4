"""The report's pictures as SVG, drawn at one level; a `LevelRecorder` notes what depends on the level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evencover.diagnostics.verdicts import GroupCoverage, is_off
from evencover.display.drawing import ecdf_steps, score_axis_limits
from evencover.display.html import Markup, tag
from evencover.display.text import number_text, range_text, share_number
from evencover.groups import Label
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.report.snapshots import LevelRecorder, ShownRows


@dataclass(frozen=True)
class Axis:
    """A linear map from numbers to pixels.

    Parameters
    ----------
    low, high : float
        The numbers at the two ends.
    start, stop : float
        The pixels at the two ends.
    """

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the pixel of a number; a number outside the axis is placed just beyond its end."""
        share = (value - self.low) / (self.high - self.low)
        return float(self.start + min(max(share, -0.05), 1.05) * (self.stop - self.start))

    def ticks(self) -> list[float]:
        """Return about five round numbers along the axis."""
        step = _round_step((self.high - self.low) / 5)
        first = int(np.ceil(self.low / step - 1e-9))
        last = int(np.floor(self.high / step + 1e-9))
        return [multiple * step for multiple in range(first, last + 1)]


def _round_step(width: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least the width."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= width * (1 - 1e-9)))


def format_number(value: float) -> str:
    """Return a number as text that a browser does not break, short enough for an axis: 36 830, but 3e+12."""
    return number_text(value, separator="\u00a0", limit=1e9)


_WIDTH, _NARROW = 720.0, 440.0  # a narrow picture fits a phone
_LEFT, _NEAR, _RIGHT = 190.0, 60.0, 700.0  # where axes start, next to group names or numbers, and where they stop
_ROW_HEIGHT, _TALL_ROW_HEIGHT = 30.0, 46.0  # a tall row has its name above it
_MAX_LETTERS = 26
_MAX_STEPS = 250
_HEIGHT = 300.0
_COLORS = 7
_HALF_WIDTHS = (0.05, 0.1, 0.2, 0.4, 1.0)  # of the axis of coverage

GroupNumbers: TypeAlias = Mapping[Label, int]


def coverage_chart(
    rows: Sequence[GroupCoverage],
    numbers: GroupNumbers,
    *,
    level: float,
    tolerance: float,
    recorder: LevelRecorder,
    names: Mapping[Label, str] | None = None,
) -> Markup:
    """Return each group's coverage with its confidence interval, and the tolerance around the level as a band.

    Parameters
    ----------
    rows : sequence of GroupCoverage
        The groups.
    numbers : mapping from label to int
        The number of each group, the same in all pictures.
    level, tolerance : float
        The middle, and half the width of the band.
    recorder : LevelRecorder
        Records what depends on the level.
    names : mapping from label to str, optional
        The text of each group, if not its label.
    """
    half = _axis_half_width(rows, level, tolerance)
    axis = Axis(level - half, level + half, 24.0, _NARROW - 24.0)
    bottom = 10 + _TALL_ROW_HEIGHT * len(rows)
    left, right = axis.at(level - tolerance), axis.at(min(level + tolerance, 1.0))
    tops = [24 + _TALL_ROW_HEIGHT * index for index in range(len(rows))]  # of the shaded strip of each group
    strips = (
        recorder.element("rect", class_="band", y=top, height=20, varying={"x": left, "width": right - left})
        for top in tops
    )
    middles = (tag("line", class_="level", x1=axis.at(level), x2=axis.at(level), y1=top, y2=top + 20) for top in tops)
    ticks = (
        recorder.text(
            _percent_text(level + part * half), "text", class_="tick", x=axis.at(level + part * half), y=bottom + 18
        )
        for part in (-1.0, -0.5, 0.0, 0.5, 1.0)
    )
    groups = (
        tag(
            "g",
            *_coverage_of_group(
                row,
                (names or {}).get(row.group, str(row.group)),
                14 + _TALL_ROW_HEIGHT * index,
                axis,
                recorder,
                off=is_off(row, level, tolerance),
            ),
            data_group=numbers[row.group],
        )
        for index, row in enumerate(rows)
    )
    return _svg_figure("Coverage of each group", bottom + 26, *strips, *middles, *ticks, *groups, width=_NARROW)


def widths_chart(
    widths: Mapping[Label, float], numbers: GroupNumbers, *, max_width: float, recorder: LevelRecorder
) -> Markup:
    """Return each group's mean width as a bar, on an axis that ends at `max_width`."""
    axis = Axis(0.0, max_width, _LEFT, _RIGHT - 60)
    bottom = 10 + _ROW_HEIGHT * len(widths)
    bars = []
    for index, (label, width) in enumerate(widths.items()):
        y = 8 + _ROW_HEIGHT * index
        stop, kind = (axis.at(width), "bar") if np.isfinite(width) else (_RIGHT - 30, "bar infinite")
        bar = recorder.element("rect", x=_LEFT, y=y, height=18, varying={"width": stop - _LEFT, "class_": kind})
        number = recorder.element(
            "text", recorder.text(format_number(width), "tspan"), class_="number", y=y + 14, varying={"x": stop + 5}
        )
        bars.append(tag("g", _name(label, y + 14), bar, number, data_group=numbers[label]))
    ticks = (tag("text", format_number(tick), class_="tick", x=axis.at(tick), y=bottom + 18) for tick in axis.ticks())
    return _svg_figure(
        "Mean width of each group", bottom + 46, *bars, *ticks, _axis_name("mean width", bottom + 38, _LEFT)
    )


def distribution_chart(
    all_scores: FloatArray,
    scores: Mapping[Label, FloatArray],
    numbers: GroupNumbers,
    *,
    level: float,
    threshold: float,
    recorder: LevelRecorder,
) -> Markup:
    """Return the empirical distribution functions of all scores and of each group's, with the level and the threshold.

    Parameters
    ----------
    all_scores : ndarray of shape (n,)
        The scores of all rows.
    scores : mapping from label to ndarray
        The scores of the groups to draw.
    numbers : mapping from label to int
        The number of each group, the same in all pictures.
    level, threshold : float
        The positions of the dashed lines.
    recorder : LevelRecorder
        Records what depends on the level.
    """
    across = Axis(*score_axis_limits(all_scores[np.isfinite(all_scores)]), _NEAR, _RIGHT)
    up = Axis(0.0, 1.0, _HEIGHT, 10.0)
    lines: list[Markup] = []
    if recorder.is_shown:  # the lines are the same at every level
        lines.append(_steps(all_scores, across, up, "all rows", {"class_": "line all"}))
    for label, values in scores.items() if recorder.is_shown else ():
        attributes: dict[str, str | int] = {"class_": f"line {color(numbers[label])}", "data_group": numbers[label]}
        lines.append(_steps(values, across, up, str(label), attributes))
    frame = _frame(across, up, "score", "share of rows with at most this score")
    at = across.at(threshold) if np.isfinite(threshold) else across.stop
    guides = (
        recorder.element("line", class_="level", x1=_NEAR, x2=_RIGHT, varying={"y1": up.at(level), "y2": up.at(level)}),
        recorder.element("line", class_="level", y1=10.0, y2=_HEIGHT, varying={"x1": at, "x2": at}),
    )
    return _svg_figure(
        "Distribution of the scores, of all rows and of each group", _HEIGHT + 46, *lines, *guides, *frame
    )


def legend_line(number: int) -> Markup:
    """Return a sample of a group's line, for the legend."""
    line = tag("line", x1=0.0, x2=32.0, y1=5.0, y2=5.0)
    return tag(
        "svg",
        tag("g", line, class_=f"line {color(number)}"),
        viewBox="0 0 32 10",
        class_="legend-line",
        aria_hidden="true",
    )


def rows_chart(rows: ShownRows, intervals: Intervals, numbers: GroupNumbers, *, recorder: LevelRecorder) -> Markup:
    """Return the rows' intervals as vertical lines and their targets as dots, side by side.

    Parameters
    ----------
    rows : ShownRows
        The rows.
    intervals : Intervals
        Their intervals.
    numbers : mapping from label to int
        The number of each group, the same in all pictures.
    recorder : LevelRecorder
        Records what depends on the level.
    """
    across, up = Axis(-1.0, float(len(rows)), _NEAR, _RIGHT), Axis(*rows.ends, _HEIGHT, 10.0)
    labels = rows.groups.label_of_rows().tolist()
    drawn = [
        tag(
            "g",
            *_draw_row(rows, intervals, index, label, (across.at(index), up), recorder),
            data_group=numbers.get(label),
        )
        for index, label in enumerate(labels)
    ]
    frame = _frame(across, up, "test rows, from the smallest predicted spread to the largest", "target", ticks=False)
    return _svg_figure("Intervals and targets of test rows, sorted by spread", _HEIGHT + 46, *drawn, *frame)


def _draw_row(
    rows: ShownRows, intervals: Intervals, index: int, label: Label, where: tuple[float, Axis], recorder: LevelRecorder
) -> list[Markup]:
    """Return a row's interval and target, with a tooltip and the area that shows it."""
    x, up = where
    lower, upper, y = float(intervals.lower[index]), float(intervals.upper[index]), float(rows.y[index])
    covered = lower <= y <= upper
    empty = not lower <= upper
    ends = (up.at(y), up.at(y)) if empty else (up.at(lower), up.at(upper))
    bounds = "empty interval" if empty else f"{format_number(lower)} to {format_number(upper)}"
    kind = "covered" if covered else "missed"
    tooltip = f"row {rows.positions[index]}, {label}: {bounds}; target {format_number(y)}, {kind}"
    area = tag("line", class_="hover-area", x1=x, x2=x, y1=up.start, y2=up.stop) if recorder.is_shown else Markup("")
    return [
        recorder.text(tooltip, "title"),
        area,
        recorder.element("line", class_="interval", x1=x, x2=x, varying={"y1": ends[0], "y2": ends[1]}),
        recorder.element("path", varying={"d": _dot(x, up.at(y), 2.2, missed=not covered), "class_": kind}),
    ]


def color(number: int) -> str:
    """Return the CSS class for the colour of a group."""
    return f"group-{number % _COLORS}"


def _coverage_of_group(
    row: GroupCoverage, name: str, y: float, axis: Axis, recorder: LevelRecorder, *, off: bool
) -> list[Markup]:
    """Return a group's tooltip, and below its name and numbers, its interval and dot; y is the height of the name."""
    tooltip = f"{row.group}: {share_number(row.coverage)} of {row.rows} rows; estimate {share_number(row.estimate)}"
    kind = "off" if off else "on"
    between = recorder.text(f": between {range_text(row.low, row.high)}", "tspan")
    text = tag("text", tag("tspan", _shortened(name), class_="label"), between, x=4, y=y + 4)
    height = y + 20
    span = recorder.element(
        "line",
        y1=height,
        y2=height,
        varying={"x1": axis.at(row.low), "x2": axis.at(row.high), "class_": f"span {kind}"},
    )
    place = "" if np.isnan(row.estimate) else _dot(axis.at(row.estimate), height, 5.5, missed=off)
    dot = recorder.element("path", varying={"d": place, "class_": kind})
    return [recorder.text(tooltip, "title"), text, span, dot]


def _axis_half_width(rows: Sequence[GroupCoverage], level: float, tolerance: float) -> float:
    """Return how far the axis goes on both sides of the level: enough for the band and the groups' intervals."""
    needed = max([1.2 * tolerance, *(abs(end - level) for row in rows for end in (row.low, row.high))])
    return next((half for half in _HALF_WIDTHS if half >= needed), _HALF_WIDTHS[-1])


def _dot(x: float, y: float, size: float, *, missed: bool) -> str:
    """Return the outline of a circle or, for a missed target, of a larger diamond."""
    if missed:
        size *= 1.3
        return f"M{x:.1f} {y - size:.1f}l{size:.1f} {size:.1f}l{-size:.1f} {size:.1f}l{-size:.1f} {-size:.1f}z"
    arc = f"a{size:.1f} {size:.1f} 0 1 0"
    return f"M{x - size:.1f} {y:.1f}{arc} {2 * size:.1f} 0{arc} {-2 * size:.1f} 0z"


def _steps(values: FloatArray, across: Axis, up: Axis, name: str, attributes: Mapping[str, str | int]) -> Markup:
    """Return an empirical distribution function as a step line."""
    steps, shares = ecdf_steps(values, across.low, across.high, max_steps=_MAX_STEPS)
    corners = (f"H{across.at(x):.1f}V{up.at(share):.1f}" for x, share in zip(steps, shares, strict=True))
    path = f"M{across.start:.1f} {up.at(0.0):.1f}{''.join(corners)}"
    return tag("g", tag("title", name), tag("path", d=path, fill="none"), **attributes)


def _frame(across: Axis, up: Axis, x_name: str, y_name: str, *, ticks: bool = True) -> list[Markup]:
    """Return both axes with their names."""
    lines = [
        tag("line", class_="axis", x1=across.start, x2=across.stop, y1=up.start, y2=up.start),
        tag("line", class_="axis", x1=across.start, x2=across.start, y1=up.start, y2=up.stop),
    ]
    labels = [
        tag("text", format_number(tick), class_="tick", x=across.at(tick), y=up.start + 18)
        for tick in across.ticks()
        if ticks
    ]
    labels += [
        tag("text", format_number(tick), class_="tick left", x=across.start - 6, y=up.at(tick) + 4)
        for tick in up.ticks()
    ]
    rotated = tag("text", y_name, class_="name", transform=f"translate(14 {(up.start + up.stop) / 2:.1f}) rotate(-90)")
    return [*lines, *labels, _axis_name(x_name, up.start + 38, across.start), rotated]


def _axis_name(text: str, y: float, start: float) -> Markup:
    return tag("text", text, class_="name", x=(start + _RIGHT) / 2, y=y)


def _name(label: Any, y: float) -> Markup:
    """Return a group's name, shortened in the middle if it is long; a tooltip shows all of it."""
    text = str(label)
    return tag("text", tag("title", text), _shortened(text), class_="group-name", x=_LEFT - 12, y=y)


def _shortened(text: str) -> str:
    half = _MAX_LETTERS // 2
    return text if len(text) <= _MAX_LETTERS else f"{text[:half]}…{text[-half:]}"


def _percent_text(share: float) -> str:
    return f"{100 * share:.3g} %" if -1e-9 <= share <= 1 + 1e-9 else ""


def _svg_figure(name: str, height: float, *content: Markup, width: float = _WIDTH) -> Markup:
    """Return a picture with a name for screen readers; a table next to it holds its numbers."""
    return tag(
        "svg",
        tag("g", *content, aria_hidden="true"),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=name,
        class_="picture" if width == _WIDTH else "picture narrow",
    )
