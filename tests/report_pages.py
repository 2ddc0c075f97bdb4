"""What a reader gets of a result: the page of its report, the text on it, and the data next to it."""

import json
import re
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

from evencover import write_report
from evencover._report.json_data import data_of


def report_page(result):
    """Return the report on a result as HTML."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(result, path)
        return path.read_text(encoding="utf-8")


def report_text(result):
    """Return the text that the report on a result shows at first, with one space between words."""
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", report_page(result), flags=re.DOTALL)
    blocks = re.sub(r"</(p|h\d|li|t[dhr]|div|text|title)>", " ", shown)
    return " ".join(unescape(re.sub("<[^>]+>", "", blocks)).split())


def result_data(result):
    """Return a result as the data that commands store in results.json."""
    return json.loads(json.dumps(data_of(result)))
