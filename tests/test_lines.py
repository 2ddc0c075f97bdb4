"""Text that is shown: control characters are escape sequences, and ordinary text of any language is unchanged."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evencover.display.html import tag
from evencover.display.lines import joined_lines, json_text, shown
from evencover.display.text import text_table

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb\bc\td\ne", r"a\rb\x08c\td\ne"),
        ("\x9b31m\x85\x7f", r"\x9b31m\x85\x7f"),
        ("\u202eabc\u2066\u2028", r"\u202eabc\u2066\u2028"),
        ("not UTF-8: \udcff", r"not UTF-8: \udcff"),
    ],
)
def test_control_characters_are_escape_sequences(text, expected):
    assert shown(text) == expected
    assert tag("p", text) == f"<p>{expected}</p>"
    assert tag("p", title=text) == f'<p title="{expected}"></p>'


@pytest.mark.parametrize(
    "text",
    [
        "café, naïve, e\u0301",
        "価格 가격 价格",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1e9\U0001f1ea",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "می\u200cخواهم שלום\u200f!",
        "a\u00a0b\\n",
    ],
)
def test_ordinary_text_is_unchanged(text):
    assert shown(text) == text
    assert tag("p", text) == f"<p>{text}</p>"
    assert json_text(text) == json.dumps(text, ensure_ascii=False)


def test_a_line_break_in_a_name_begins_no_line():
    table = text_table(("group", "rows"), [("a\nb", 3), ("c", 40)])
    assert table.split("\n") == ["  group  rows", r"  a\nb      3", "  c        40"]
    whole = joined_lines(["one\ntwo", table, ""])
    assert whole == f"one\\ntwo\n{table}\n"
    assert shown(whole) == whole
    assert shown(f"{whole}") == whole.replace("\n", r"\n")


@given(ANY_TEXT)
def test_nothing_that_is_shown_holds_control_characters(text):
    assert CONTROL.search(shown(text)) is None
    assert CONTROL.search(tag("p", text, title=text)) is None


@given(st.dictionaries(ANY_TEXT, st.lists(ANY_TEXT, max_size=3), max_size=3))
def test_json_keeps_its_values(data):
    text = json_text(data, indent=2)
    assert json.loads(text.encode()) == data
    assert CONTROL.search(text.replace("\n", "")) is None
