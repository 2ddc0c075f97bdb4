"""The page around a report's parts."""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from evencover.display.html import Markup, tag
from evencover.report.slider import LevelRecorder, level_differences
from evencover.report.snapshots import Contents

_NO_LOADING = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_MANY_GROUPS = 9  # more choices are folded away


def page(
    title: str,
    subtitle: str,
    contents: Contents,
    levels: Sequence[tuple[LevelRecorder, Markup, Markup]],
    static_parts: Markup,
) -> str:
    """Return the whole page.

    Parameters
    ----------
    title, subtitle : str
        The heading and the line below it.
    contents : Contents
        The result.
    levels : sequence of (LevelRecorder, Markup, Markup)
        The first screen and the other parts that depend on the level, made at every level.
    static_parts : Markup
        The parts that do not.
    """
    script = _resource("page.js") if len(levels) > 1 else ""
    _, answers, details = levels[contents.start]
    return "<!DOCTYPE html>\n" + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_security_policy(script)),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", title),
            tag("style", Markup(_resource("page.css") + _group_styles(len(contents.groups)))),
        ),
        tag(
            "body",
            tag("a", "Skip to the answers", href="#verdict", class_="skip"),
            tag("header", tag("h1", title), tag("p", subtitle, class_="sub")),
            tag(
                "main",
                answers,
                *([_level_control(contents, len(levels))] if len(levels) > 1 else []),
                tag("h2", "Details", class_="details-title"),
                *([_group_control(contents)] if len(contents.groups) > 1 else []),
                details,
                static_parts,
            ),
            *_script(contents, [recorder for recorder, *_ in levels], script),
        ),
        lang="en",
    )


def _level_control(contents: Contents, n_levels: int) -> Markup:
    """Return the slider of levels, which only JavaScript makes visible."""
    slider = tag("input", type="range", id="level", min=0, max=n_levels - 1, step=1, value=contents.start)
    output = tag("output", _level_caption(contents, contents.start), id="level-caption", for_="level")
    label = tag("label", tag("b", "How often should they be right? "), slider, for_="level")
    note = tag("p", "Decide on the share before you look at its verdict.", class_="note")
    return tag("section", label, " ", output, note, id="level-control", aria_label="Level", hidden=True)


def _level_caption(contents: Contents, index: int) -> str:
    """Return the text next to the slider at a level: the level and the verdict."""
    snapshot = contents.snapshots[index]
    return f"{100 * snapshot.level:g} % ({snapshot.result.verdict}). All numbers on this page follow the slider."


def _group_control(contents: Contents) -> Markup:
    """Return the buttons that choose a group, which need no JavaScript."""
    choices = [("All", "all"), *((str(label), str(number)) for label, number in contents.group_numbers.items())]
    radios = (
        tag("label", tag("input", type="radio", name="group", id=f"show-{value}", checked=value == "all"), " ", text)
        for text, value in choices
    )
    fields = tag("fieldset", tag("legend", "Highlight a group"), *radios)
    folded = tag("details", tag("summary", "Highlight a group"), fields) if len(choices) > _MANY_GROUPS else fields
    return tag("section", folded, id="group-control", aria_label="Group")


def _group_styles(n_groups: int) -> str:
    """Return the CSS rules that fade the other groups when one is chosen."""
    return "".join(
        f'body:has(#show-{number}:checked) [data-group]:not([data-group="{number}"]) {{ opacity: .12; }}\n'
        for number in range(n_groups)
    )


def _script(contents: Contents, recorders: Sequence[LevelRecorder], script: str) -> list[Markup]:
    """Return the texts and attributes at all levels, and the script that shows those of one level."""
    if not script:
        return []
    values: dict[str, Any] = {
        "levels": [f"{snapshot.level:g}" for snapshot in contents.snapshots],
        "captions": [_level_caption(contents, index) for index in range(len(recorders))],
        **level_differences(recorders),
    }
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return [tag("script", Markup(text), type="application/json", id="levels"), tag("script", Markup(script))]


def _security_policy(script: str) -> str:
    """Return the policy that lets a browser run this script only, and load nothing."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"{_NO_LOADING}; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return files("evencover.report").joinpath(name).read_text(encoding="utf-8")
