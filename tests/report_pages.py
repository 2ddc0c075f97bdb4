"""What a reader gets of a result: the page of its report at each level of the slider, and the data next to it."""

import json
import re
from contextlib import contextmanager
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from evencover import write_report
from evencover.report.writing import data_of


@contextmanager
def few_levels(*percentages):
    """Reports with two levels besides their own: test_report checks the slider, and each level takes time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evencover.report.snapshots._MANY_LEVELS", percentages or (50, 95))
        yield


def report_page(result, **options):
    """Return the report on a result as HTML."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(result, path, **options)
        return path.read_text(encoding="utf-8")


def short_report_page(result):
    """Return the report on a result as HTML, at few levels."""
    with few_levels():
        return report_page(result)


def report_text(result):
    """Return the text that the report on a result shows at first, with one space between words."""
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", report_page(result), flags=re.DOTALL)
    blocks = re.sub(r"</(p|h\d|li|t[dhr]|div|text|title)>", " ", shown)
    return " ".join(unescape(re.sub("<[^>]+>", "", blocks)).split())


def result_data(result):
    """Return a result as the data that commands store in results.json."""
    return json.loads(json.dumps(data_of(result)))


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
