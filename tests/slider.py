"""The slider of a report: the page at each of its levels, as the page's own script shows it."""

import json
import re
from html import escape, unescape


def slider_data(page):
    """Return the levels of a page, and the texts and attributes that differ between them."""
    return json.loads(re.search(r'<script type="application/json" id="levels">(.*?)</script>', page)[1])


def levels_of(page):
    """Return the levels of the slider."""
    return [float(level) for level in slider_data(page)["levels"]]


def page_at(page, index):
    """Return a page with its texts at one of the levels."""
    texts = slider_data(page)["texts"]

    def replaced(match):
        start, number, shown = match.groups()
        return f"{start}{escape(texts[number][index]) if number in texts else shown}<"

    return re.sub(r'(data-text="(\d+)"[^>]*>)([^<]*)<', replaced, page)


def cells_of(page, part):
    """Return the cells of the table in a part of a page, row by row."""
    (details,) = re.findall(rf'<details aria-labelledby="{part}-title".*?</details>', page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", re.search(r"<tbody>(.*?)</tbody>", details, re.DOTALL)[1], re.DOTALL)
    return [
        [
            unescape(re.sub(r"<.*?>", "", cell)).replace("\u00a0", " ")
            for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)
        ]
        for row in rows
    ]


def rows_of(page):
    """Return the texts of the test rows that are drawn one by one."""
    return [
        unescape(text).replace("\u00a0", " ")
        for text in re.findall(r"<title data-text[^>]*>(row \d+, [^<]*)</title>", page)
    ]
