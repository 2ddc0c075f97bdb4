"""The HTML of results and estimators in a notebook."""

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from evencover import BySpread, ConformalRegressor, Intervals, Normalized, audit, diagnose_scores, recommend
from evencover.display.html import tag
from evencover.models import FromQuantiles, TableEncoder, WithSpread
from evencover.report.writing import json_value
from evencover.synthetic import heteroskedastic
from tests.report_pages import result_data
from tests.synthetic import TwoLines

SCRIPT = "<script>alert(1)</script>"


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", SCRIPT, tag("b", "&")) == "<p>&lt;script&gt;alert(1)&lt;/script&gt;<b>&amp;</b></p>"


def test_attributes():
    made = tag("input", class_="a", data_text=3, title='"<', hidden=True, checked=False, value=None, x=1 / 3)
    assert made == '<input class="a" data-text="3" title="&quot;&lt;" hidden x="0.333333"/>'
    assert tag("line", x1=1.0) == '<line x1="1"/>'  # which in SVG has to be closed


def test_characters_that_turn_text_around_are_shown():
    assert tag("p", "a\u202eb") == "<p>a\\u202eb</p>"
    assert tag("p", title="\u2066") == '<p title="\\u2066"></p>'


class TestResults:
    def test_a_diagnosis(self):
        scores = np.abs(np.random.default_rng(0).normal(size=600)) * np.repeat([1.0, 3.0], 300)
        found = diagnose_scores(scores, np.repeat(["quiet", SCRIPT], 300))
        html = found._repr_html_()
        assert f"<b>Verdict: {found.verdict}. </b>" in html
        assert SCRIPT not in html
        assert all(f"<td>{row.coverage:.3f}</td>" in html for row in found.table)

    def test_an_audit(self):
        y = np.random.default_rng(0).normal(size=300)
        found = audit(y, (np.full(300, -1.6), np.full(300, 1.6)), groups=np.repeat([SCRIPT, "b"], 150))
        html = found._repr_html_()
        assert SCRIPT not in html
        assert '<table><thead><tr><th scope="col">group</th><th scope="col">rows</th>' in html
        assert '<tbody><tr><th scope="row">&lt;script&gt;alert(1)&lt;/script&gt;</th><td>150</td>' in html
        assert "all rows" in html
        assert f"<td>{found.table[0].coverage:.3f}</td>" in html

    def test_many_groups_are_cut(self):
        y = np.random.default_rng(0).normal(size=400)
        html = audit(y, (np.full(400, -1.6), np.full(400, 1.6)), groups=np.arange(400) % 40)._repr_html_()
        assert html.count("<tr>") == 31
        assert "And 11 more groups." in html

    def test_intervals(self):
        one = Intervals(np.arange(20.0), np.arange(20.0) + 1, level=0.9)._repr_html_()
        assert "Intervals(20 rows, level=0.9, mean width 1)" in one
        assert one.count("<tr>") == 11
        two = Intervals(np.zeros((3, 2)), np.ones((3, 2)), level=(0.5, 0.9))._repr_html_()
        assert "lower_0.5" in two
        assert "upper_0.9" in two

    def test_a_recommendation(self):
        sample = heteroskedastic(300, seed=0)
        html = recommend(TwoLines(), sample.X, sample.y).recommendation_._repr_html_()
        assert html.count("&lt;-") == 1
        assert "Normalized()" in html


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (ConformalRegressor(LinearRegression(), taxonomy=BySpread(3)), ["ConformalRegressor", "LinearRegression"]),
        (
            make_pipeline(TableEncoder(), WithSpread(LinearRegression())),
            ["TableEncoder", "WithSpread", "LinearRegression"],
        ),
        (FromQuantiles(LinearRegression(), LinearRegression()), ["FromQuantiles", "LinearRegression"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scikit_learns_diagram_shows_what_is_inside(estimator, names):
    boxes = re.findall(r"<label.*?</label>", estimator_html_repr(estimator), re.DOTALL)
    assert [name for name in names if not any(name in box for box in boxes)] == []


def test_the_diagram_of_a_fitted_one():
    sample = heteroskedastic(200, seed=0)
    model = ConformalRegressor(WithSpread(LinearRegression()), nonconformity=Normalized(), random_state=0)
    assert "fitted" in estimator_html_repr(model.fit(sample.X, sample.y))


def test_results_as_data():
    """JSON has neither NaN nor infinity; a score is written as in code."""
    assert json_value([np.nan, np.inf, -np.inf, np.float64(0.5), 1, True, None, "a"]) == [
        *(None, "inf", "-inf", 0.5, 1, True, None, "a")
    ]
    assert json_value({3: np.arange(2), "score": Normalized(epsilon=0.1), "taxonomy": BySpread(3)}) == {
        "3": [0, 1],
        "score": "Normalized(epsilon=0.1)",
        "taxonomy": "BySpread(n_groups=3)",
    }
    y = np.zeros(20)
    data = result_data(audit(y, (np.full(20, -np.inf), np.ones(20)), groups=np.repeat(["a", "b"], 10)))
    assert data["kind"] == "audit"
    assert data["overall"]["width"] == "inf"
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    found = diagnose_scores(np.arange(40.0), np.arange(40) % 2)
    assert json.dumps(result_data(found), allow_nan=False)
    assert "inputs" not in result_data(found)  # arrays of rows are left out
