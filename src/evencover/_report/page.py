"""The page around a report's parts."""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from evencover._internal.html import Markup, joined, tag
from evencover._report.contents import Contents
from evencover._report.level_recorder import LevelRecorder, moving
from evencover._report.level_sections import VERDICTS

_LOCKED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_MANY_GROUPS = 9


def page(
    title: str, subtitle: str, contents: Contents, made: Sequence[tuple[LevelRecorder, Markup]], after: Markup
) -> str:
    """Return the whole page.

    Parameters
    ----------
    title, subtitle : str
        What it is on.
    contents : Contents
        The result.
    made : sequence of (Live, Markup)
        The parts that depend on the level, made at every level.
    after : Markup
        The parts that do not.
    """
    script = _resource("page.js") if len(made) > 1 else ""
    body = joined([made[contents.start][1], after])
    return "<!DOCTYPE html>\n" + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_locked(script)),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", title),
            tag("style", Markup(_resource("page.css") + _group_styles(len(contents.groups)))),
        ),
        tag(
            "body",
            tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
            tag("header", tag("h1", title), tag("p", subtitle, class_="sub")),
            *([_level_control(contents, len(made))] if len(made) > 1 else []),
            *([_group_control(contents)] if len(contents.groups) > 1 else []),
            tag("main", body),
            *_script(contents, [live for live, _ in made], script),
        ),
        lang="en",
    )


def _level_control(contents: Contents, n_levels: int) -> Markup:
    """Return the slider of levels, which appears with JavaScript."""
    slider = tag("input", type="range", id="level", min=0, max=n_levels - 1, step=1, value=contents.start)
    output = tag("output", _said(contents, contents.start), id="level-shown", for_="level")
    label = tag("label", tag("b", "Level "), slider, for_="level")
    return tag("section", label, " ", output, id="level-control", aria_label="Level", hidden=True)


def _said(contents: Contents, place: int) -> str:
    """Return what a reader is told who moves the slider to a level."""
    shot = contents.snapshots[place]
    return f"{shot.level:g}: {VERDICTS[shot.judged.verdict]}"


def _group_control(contents: Contents) -> Markup:
    """Return the choice of a group, which needs no JavaScript."""
    choices = [("All", "all"), *((str(label), str(place)) for place, label in enumerate(contents.groups))]
    radios = (
        tag("label", tag("input", type="radio", name="group", id=f"show-{value}", checked=value == "all"), " ", text)
        for text, value in choices
    )
    fields = tag("fieldset", tag("legend", "Show group"), *radios)
    hidden = tag("details", tag("summary", "Show one group"), fields) if len(choices) > _MANY_GROUPS else fields
    return tag("section", hidden, id="group-control", aria_label="Group")


def _group_styles(n_groups: int) -> str:
    """Return the rules by which choosing a group pales the others."""
    return "".join(
        f'body:has(#show-{place}:checked) [data-group]:not([data-group="{place}"]) {{ opacity: .12; }}\n'
        for place in range(n_groups)
    )


def _script(contents: Contents, lives: Sequence[LevelRecorder], script: str) -> list[Markup]:
    """Return the numbers of all levels, and what puts them in their places."""
    if not script:
        return []
    numbers: dict[str, Any] = {
        "levels": [f"{shot.level:g}" for shot in contents.snapshots],
        "said": [_said(contents, place) for place in range(len(lives))],
        **moving(lives),
    }
    text = json.dumps(numbers, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return [tag("script", Markup(text), type="application/json", id="levels"), tag("script", Markup(script))]


def _locked(script: str) -> str:
    """Return the policy under which a browser runs this script only, and loads nothing."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"{_LOCKED}; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return files("evencover._report").joinpath(name).read_text(encoding="utf-8")
