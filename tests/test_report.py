"""The report: one file with the numbers that Python computes, usable without JavaScript, sight or a mouse."""

import re
import shutil
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from evencover import (
    ByPrediction,
    BySpread,
    IntervalDistance,
    Marginal,
    Normalized,
    Prediction,
    Residual,
    TooFewRowsWarning,
    audit,
    diagnose_scores,
    write_report,
)
from evencover.diagnostics.diagnosis import at_level
from evencover.report.first_screen import command_again, predict_command
from evencover.report.snapshots import LevelRecorder, level_differences, levels_around
from evencover.studies import Plan, Study, study
from evencover.words.advice import advice_on_diagnosis, advice_on_study
from evencover.words.answers import model_text, share_text
from evencover.words.settings import COMMAND_LINE
from tests.canonical_studies import light_linear_model, study_of_prices
from tests.processes import LIMIT
from tests.report_pages import cells_of, few_levels, levels_of, page_at, report_page, report_text, rows_of

CHROMIUM = shutil.which("chromium")
NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>"]


def table(n=900):
    """Numbers, text and missing values, under names that an unescaped page would run as scripts."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    kinds = rng.choice([*NASTY, None], n)
    return pd.DataFrame(
        {"x": x, NASTY[0]: kinds, NASTY[1]: x + (rng.random(n) < 0.3) * np.nan, NASTY[2]: rng.normal(scale=0.1 + x)}
    )


def is_even(result):
    """Return the answer of a result to whether it is even: a study prints it, and the report on an audit shows it."""
    if isinstance(result, Study):
        return re.search("^Is it even: (.*)$", str(result), re.MULTILINE)[1]
    return plain(re.search('<p class="verdict-text"><span.*?>(.*?)</span>', report_page(result))[1])


@pytest.fixture(scope="module")
def found():
    with light_linear_model():
        return study(table(), NASTY[2], plan=Plan(model="linear"), name=NASTY[0])


@pytest.fixture(scope="module")
def page(found):
    return report_page(found, command=f"evencover run '{NASTY[1]}'")


def plain(text):
    """Return the text of a page without its no-break spaces."""
    return unescape(text).replace("\u00a0", " ")


class Tags(HTMLParser):
    """Every element of a page with its attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def test_whole_numbers_and_words_on_the_first_screen():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, 900)
    counts = pd.DataFrame({"x": x, "visits": rng.poisson(10 * x)})
    with few_levels(), light_linear_model():
        text = plain(report_page(study(counts, "visits", plan=Plan(model="linear"))))
    assert "An interval is right if the true value of visits lies in it." in text
    assert "Model: linear. Intervals hold only whole numbers of at least 0." in text
    assert "Only whole numbers count: an interval from 0 to 1 is 1 wide and holds two values." in text
    assert "for the narrowest third of the intervals, " in text
    for term in ("ProbabilityDistance", "RelativeIntervalDistance", "log of the target"):
        assert f"<dt>{term}</dt>" in text


def test_only_whole_numbers_are_counted(page):
    assert "Only whole numbers count" not in page


def test_the_scale_and_the_limits_of_the_target_are_on_the_first_screen():
    with few_levels():
        text = plain(report_page(study_of_prices()))
    assert "Model: TwoLines, fitted to the log of the target. Intervals hold only values of at least 0." in text


def test_names_are_escaped(page):
    """Untrusted names appear as text; the only scripts are the page's data and its own script."""
    tags = Tags(page)
    scripts = [attributes for tag, attributes in tags.found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "levels"}, {}]
    assert not [tag for tag, _ in tags.found if tag in ("img", "iframe", "object", "link")]
    assert not [attributes for _, attributes in tags.found if any(name.startswith("on") for name in attributes)]
    assert all(name in "".join(tags.texts) for name in NASTY)


def test_it_loads_nothing_and_is_small(page):
    assert len(page.encode()) < 3_000_000
    assert not [attributes for _, attributes in Tags(page).found if "src" in attributes or "srcset" in attributes]
    assert "url(" not in page
    (policy,) = (attributes["content"] for tag, attributes in Tags(page).found if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none';")


def test_every_part_is_there(page):
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert [unescape(title) for title in titles] == [
        *("How often are the intervals right?", "How wide are they?"),
        *("Are they right equally often for easy and hard rows?", "What should I do?", "Details"),
        *("The groups in numbers", "Intervals of test rows", "Is one threshold enough?", "Scores by group"),
        *("Alternatives", "When is it even?", "Statistical tests", "Coverage by feature", "Guarantee"),
        *("Evaluated scores and groups", "Data", "How to reproduce", "Glossary"),
    ]


def test_it_can_be_read_without_scripts(found, page):
    """The results are in the page itself, before any script has run."""
    text = plain("".join(Tags(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)).texts))
    assert is_even(found) in text
    assert share_text(found.audit) in text
    advised = advice_on_study(found, COMMAND_LINE)
    assert all(sentence in text for sentence in advised.sentences)
    assert found.diagnosis.headline in text
    assert advice_on_diagnosis(found.diagnosis, COMMAND_LINE) not in plain(page)  # one advice for one run
    assert model_text(found.quality) in text
    assert str(found.regressor.guarantee_) in text
    for row in found.audit.table:
        assert f"{row.coverage:.3f}" in text
        assert f"{row.low:.3f} to {row.high:.3f}" in text


@pytest.mark.parametrize(
    ("taxonomy", "rule"),
    [
        (ByPrediction(3), "It cannot be uneven: the coverage of these groups follows from the law"),
        (Marginal(), "or of the worst region, is shown to differ from that of other rows with the same threshold"),
    ],
)
def test_rows_that_take_turns_have_their_own_rule(taxonomy, rule):
    plan = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=taxonomy, held_out=0.2)
    assert rule in report_text(study(table(300), NASTY[2], plan=plan, drop=[NASTY[0]]))


def test_a_new_command_replaces_the_option_and_the_folder():
    """The command to copy differs from that of the report by the advised option, and does not overwrite the report."""
    command = "evencover run 'my houses.csv' --target price --groups none --output out"
    expected = "evencover run 'my houses.csv' --target price --groups 'column:my region' --output NEW_FOLDER"
    assert command_again(command, ("--groups", "column:my region")) == expected
    assert command_again(command, ("--model", "linear")).endswith("--groups none --model linear --output NEW_FOLDER")
    assert command_again(command, ()) == command_again("", ("--model", "linear")) == ""


def test_the_command_for_new_rows_names_the_folder():
    """Quoted for a shell; a name like an option is a path. Without a folder, the reader is told what to put there."""
    text, command = predict_command("my houses")
    assert text.startswith("To get intervals for new rows, where NEW.csv has the same columns")
    assert command == "evencover predict 'my houses' NEW.csv --output intervals.csv"
    assert predict_command("-out")[1].startswith("evencover predict ./-out NEW.csv")
    text, command = predict_command("")
    assert "where FOLDER is the folder of this report, and NEW.csv" in text
    assert command.startswith("evencover predict FOLDER NEW.csv")


def test_the_same_result_is_the_same_file(found, tmp_path):
    with few_levels():
        write_report(found, tmp_path / "report.html", command=f"evencover run '{NASTY[1]}'")
        text = report_page(found, command=f"evencover run '{NASTY[1]}'")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text


def test_headings_tables_and_pictures_have_names(page):
    tags = Tags(page).found
    assert ("html", {"lang": "en"}) in tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    pictures = [attributes for tag, attributes in tags if tag == "svg"]
    pictures = [attributes for attributes in pictures if "aria-hidden" not in attributes]  # those of legends
    assert len(pictures) == 5
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in pictures)
    n_tables = sum(tag == "table" for tag, _ in tags)
    assert n_tables == sum(tag == "caption" for tag, _ in tags)
    assert all("scope" in attributes for tag, attributes in tags if tag == "th")


class TestEveryResult:
    def test_a_diagnosis(self):
        rng = np.random.default_rng(0)
        scores = np.abs(rng.normal(size=600)) * np.repeat([1.0, 2.0], 300)
        found = diagnose_scores(scores, np.repeat(["quiet", "noisy"], 300), level=0.87)
        page = report_page(found)
        assert 0.87 in levels_of(page)
        assert f"No. {found.headline}" in plain(page)

    def test_an_audit_has_one_level_and_no_script(self):
        y = np.random.default_rng(0).normal(size=300)
        text = report_page(audit(y, (np.full(300, -1.7), np.full(300, 1.7)), X=y[:, None]))
        assert "<script" not in text
        assert "The groups in numbers" in text

    def test_many_groups(self):
        y = np.random.default_rng(0).normal(size=4000)
        groups = np.arange(4000) % 50
        reach = np.where(groups < 45, 1.7, 0.5)
        found = audit(y, (-reach, reach), groups=groups)
        page = report_page(found)
        *shown, last = (name for name, *_ in cells_of(page, "coverage"))
        assert (len(shown), last) == (30, "all rows")
        adjusted = {str(row.group): row.adjusted for row in found.table}
        assert sorted(adjusted[group] for group in shown) == sorted(adjusted.values())[:30]
        assert {"45", "46", "47", "48", "49"} < set(shown)
        assert "20 more groups are not shown" in page

    def test_infinite_and_empty_intervals(self):
        y = np.zeros(60)
        lower, upper = np.where(np.arange(60) < 20, -np.inf, -1.0), np.where(np.arange(60) < 20, np.inf, 1.0)
        lower[50:], upper[50:] = np.nan, np.nan
        text = report_page(audit(y, (lower, upper), groups=np.repeat(["a", "b", "c"], 20)))
        assert "Empty intervals: 10. Infinite intervals: 20." in text
        assert re.findall(r'<rect [^>]*class="(bar.*?)"', text) == ["bar infinite", "bar", "bar"]
        assert text.count(">infinite<") == 3  # on the bar, and in the table for the group and for all rows
        assert "nan" not in text

    @pytest.mark.slow
    def test_few_rows(self):
        with pytest.warns(TooFewRowsWarning, match="needs 99 rows"):
            text = report_page(study(table(60), NASTY[2], plan=Plan(model="linear", level=0.99)))
        assert "A finite threshold at level 0.99 needs at least 99 calibration rows" in text
        assert ">infinite<" in text

    def test_nothing_else(self, tmp_path):
        with pytest.raises(TypeError, match="result must be a Study, a Diagnosis or an Audit; got dict"):
            write_report({}, tmp_path / "report.html")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("taxonomy", [None, BySpread(3)])
def test_every_level_has_the_results_of_that_level(found, taxonomy):
    """Intervals, audit and diagnosis at other levels are those that the model gives at that level."""
    if taxonomy is not None:
        with light_linear_model():
            found = study(table(), NASTY[2], plan=Plan("linear", Normalized(), taxonomy))
    with few_levels(50, 95):
        page = report_page(found)
    assert levels_of(page) == [0.5, 0.9, 0.95]
    for index, level in ((0, 0.5), (2, 0.95)):
        text = page_at(page, index)
        expected, made = audit_at(found, level)
        assert is_even(expected) in plain(text)
        overall = [str(expected.overall.rows), *estimates(expected.overall)]
        assert [row[1:] for row in cells_of(text, "coverage")] == [
            *([str(row.rows), *estimates(row)] for row in expected.table),
            overall,
        ]
        by_feature = {row[0]: row[2:] for row in cells_of(text, "features")}  # in the order of the report's own level
        assert by_feature == {row.group: numbers(row) for row in expected.by_feature}
        forecast = at_level(found.diagnosis, level)
        assert [row[1:5] for row in cells_of(text, "one-threshold")] == [
            [str(row.rows), *numbers(row)] for row in forecast.table
        ]
        rows = [found.test.positions.tolist().index(int(row.split(",")[0][4:])) for row in rows_of(text)]
        y, covered = np.asarray(found.test.y)[rows], made.covers(found.test.y)[rows]
        shown = zip(made.lower[rows], made.upper[rows], y, covered, strict=True)
        assert [row.partition(": ")[2] for row in rows_of(text)] == [
            f"{low:.4g} to {high:.4g}; target {y:.4g}, {'covered' if inside else 'missed'}"
            for low, high, y, inside in shown
        ]
    assert (np.diff(found.prediction.spread[rows]) >= 0).all()


def audit_at(found, level):
    """Return the audit of a study's test rows at another level, and their intervals."""
    made = found.intervals_at(level)
    return found.evidence.audit(made, at_level(found.diagnosis, level), found.plan), made


def numbers(row):
    """Return the coverage of a group, its interval and its p-value, as in a table of the page."""
    p = "not tested" if np.isnan(row.adjusted) else "< 0.001" if row.adjusted < 0.001 else f"{row.adjusted:.3f}"
    return [f"{row.coverage:.3f}", f"{row.low:.3f} to {row.high:.3f}", p]


def estimates(row):
    """Return the numbers of a group with its estimated coverage and its mean width."""
    coverage, interval, p = numbers(row)
    return [coverage, f"{row.estimate:.3f}", interval, p, f"{row.width:.4g}"]


def answers(text):
    """Return the tests of a page: question, p-value, answer."""
    (table,) = re.findall(r'<details aria-labelledby="tests-title".*?</details>', text, re.DOTALL)
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", table)
    return [[re.sub(r"<.*?>", "", cell) for cell in row.split("<td>")[1:]] for row in rows]


def test_answers_agree_with_their_p_values(page):
    """Every test asks whether there is a difference; the answer is yes if and only if the p-value is small.

    All rows together are covered about as often as asked by construction, because they were tested in turn.
    """
    rows = answers(page)
    assert len(rows) == 9
    assert [row for row in rows if not row[1]] == [
        ["Does the coverage of all rows differ from the level?", "", "not tested"]
    ]
    for _, p, answer in (row for row in rows if row[1]):
        small = p.startswith("&lt;") or float(p) < 0.05
        assert answer == ("yes" if small else "not significant")


def test_answers_where_everything_differs_or_nothing_does():
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 500)
    for factor, answer in ((5.0, "yes"), (1.0, "not significant")):
        scores = np.abs(rng.normal(size=1000)) * np.repeat([1.0, factor], 500)
        assert {row[2] for row in answers(report_page(diagnose_scores(scores, groups)))} == {answer}
    one = answers(report_page(diagnose_scores(rng.normal(size=100), np.zeros(100))))
    assert ["Do scores differ between some groups, at any level?", "", "not tested"] in one


class FixedBounds(RegressorMixin, BaseEstimator):
    """A model with a wide interval for most rows, and a narrow one, which conformal prediction makes empty."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def predict_full(self, X):
        reach = np.where(np.asarray(X)[:, 0] > 0.8, 0.1, 5e12)
        return Prediction(np.zeros(len(X)), lower=-reach, upper=reach, level=0.9)


@pytest.fixture(scope="module")
def unusual():
    """The report on a study with targets of every size, some of whose intervals are empty."""
    rng = np.random.default_rng(0)
    targets = rng.choice([0.95821, 9999.4, 36_830.4, -1234567.8, 3e12], 100)
    table = pd.DataFrame({"x": rng.uniform(size=100), "y": targets})
    plan = Plan(model=FixedBounds(), nonconformity=IntervalDistance(), taxonomy=Marginal(), level=0.5)
    with few_levels(50, 99):
        return report_page(study(table, "y", plan=plan))


class TestPictures:
    def test_empty_intervals_are_points(self, unusual):
        lines = re.findall(r'row \d+, \w+: ([^;<]*);[^<]*</title>.*?y1="(\S+)" y2="(\S+)" class="interval"', unusual)
        assert len(lines) == len(rows_of(unusual)) == 20
        assert "empty interval" in {text for text, *_ in lines}
        assert {low == high for text, low, high in lines if "e+12" in text} == {False}
        assert {low == high for text, low, high in lines if "e+12" not in text} == {True}  # or too narrow to be seen

    def test_numbers_are_short_and_never_broken(self, unusual):
        """At level 0.99, there are too few calibration rows for finite intervals."""
        targets = set(re.findall(r"; target ([^,]*), ", unusual))
        assert targets == {"0.9582", "9999", "36\u00a0830", "-1\u00a0235\u00a0000", "3e+12"}
        assert all(": minus infinite to infinite; target" in row for row in rows_of(page_at(unusual, 1)))

    def test_of_many_groups_seven_distributions_are_drawn(self):
        rng = np.random.default_rng(0)
        groups = np.arange(3000) % 12
        with few_levels():
            text = report_page(diagnose_scores(np.abs(rng.normal(size=3000)) * (1 + (groups > 8)), groups))
        (part,) = re.findall(r'<details aria-labelledby="distributions-title".*?</details>', text, re.DOTALL)
        assert part.count('class="line group-') == 14  # and as many in the legend
        assert "Only the 7 groups with the smallest p-values are drawn." in part
        shown = set(re.findall(r"</svg> (\d+)</li>", part))
        assert {"9", "10", "11"} <= shown

    def test_a_large_tolerance_fits(self):
        assert "Coverage of each group" in report_page(
            diagnose_scores(np.arange(50.0), np.arange(50) % 2, tolerance=0.95)
        )


def test_levels_of_the_slider():
    assert levels_around(0.975, 100)[0] == 0.5
    assert 0.975 in levels_around(0.975, 100)
    assert levels_around(0.9, 100) == sorted(set(levels_around(0.9, 100)))
    many, some, few = (len(levels_around(0.9, n)) for n in (1000, 50_000, 10**6))
    assert many > some > few
    assert len(levels_around(0.9, 1000, 300)) == few


def test_texts_and_attributes_that_differ_between_levels():
    recorders = [LevelRecorder(), LevelRecorder()]
    for number, recorder in enumerate(recorders):
        recorder.text("the same")
        recorder.text(number)
        recorder.element("line", varying={"x1": 1.0, "x2": 2.0 + number})
    assert level_differences(recorders) == {"texts": {1: ["0", "1"]}, "attributes": {0: {"x2": ["2.0", "3.0"]}}}
    recorders[0].text("a\u202eb")
    recorders[1].text("a\u202ec")
    assert level_differences(recorders)["texts"][2] == ["a\\u202eb", "a\\u202ec"]  # as in the page itself
    recorders[1].text("more")
    with pytest.raises(RuntimeError, match="same parts at every level"):
        level_differences(recorders)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser, file):
    """The report in a browser, with the errors of the page and the addresses that it requests."""
    context = browser.new_context()
    tab = context.new_page()
    tab.errors, tab.requests = [], []
    tab.on("console", lambda message: tab.errors.append(message.text))
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.on("dialog", lambda dialog: tab.errors.append(dialog.message))
    tab.on("request", lambda request: tab.requests.append(request.url))
    tab.goto(file)
    tab.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    yield tab
    context.close()


@pytest.mark.system
class TestInABrowser:
    def test_it_opens_without_errors(self, opened, file, found):
        assert opened.errors == []
        assert opened.requests == [file]
        assert plain(opened.locator("#verdict .verdict-text").inner_text()) == is_even(found)
        assert opened.get_by_role("slider").is_visible()

    def test_the_slider_shows_the_numbers_of_every_level(self, opened, found, page):
        """By keyboard, one level down and then to the lowest one."""
        opened.get_by_role("slider").focus()
        for key, level in (("ArrowLeft", 0.89), ("Home", 0.5)):
            opened.keyboard.press(key)
            expected, made = audit_at(found, level)
            caption = plain(opened.locator("#level-caption").inner_text())
            assert caption.startswith(f"{100 * level:g} % ({expected.verdict}). All numbers")
            assert opened.locator("#verdict .verdict").get_attribute("class") == f"verdict {expected.verdict}"
            shown = plain(opened.locator("#verdict").inner_text())
            text = page_at(page, levels_of(page).index(level))
            advice = re.search(r'<p class="action"><span.*?>(.*?)</span></p><p><span.*?>(.*?)</span>', text)
            assert all(plain(each) in shown for each in advice.groups())
            assert is_even(expected) in shown
            assert f"{expected.quality.median_width:.4g}" in shown
            assert expected.quality.coverage == expected.overall.coverage
            for line, row in zip(
                opened.locator("#coverage tbody tr").all(), [*expected.table, expected.overall], strict=True
            ):
                cells = [cell.strip() for cell in line.inner_text().split("\t")]
                assert [*cells[1:3], *cells[4:6]] == [str(row.rows), *numbers(row)]
                assert float(cells[3]) == pytest.approx(row.estimate, abs=1e-3)
                assert float(cells[6]) == pytest.approx(row.width, rel=1e-3)
            forecast = at_level(found.diagnosis, level)
            lines = opened.locator("#one-threshold tbody tr").all()
            assert [line.inner_text().split("\t")[2].strip() for line in lines] == [
                f"{row.coverage:.3f}" for row in forecast.table
            ]
            inside = int(made.covers(found.test.y).sum())  # all test rows are drawn
            assert opened.locator("path.covered").count() == inside
            assert f"{inside} of these" in opened.locator("#rows figcaption").inner_text()
        assert opened.errors == []

    def test_moving_the_slider_back_restores_the_page(self, opened):
        before = opened.locator("main").inner_html()
        slider = opened.get_by_role("slider")
        slider.focus()
        opened.keyboard.press("ArrowRight")
        assert opened.locator("main").inner_html() != before
        opened.keyboard.press("ArrowLeft")
        assert opened.locator("main").inner_html() == before

    def test_coming_back_to_the_page(self, opened, file):
        """A browser restores the position of the slider; the numbers follow."""
        opened.get_by_role("slider").focus()
        opened.keyboard.press("Home")
        opened.goto("about:blank")
        opened.go_back()
        assert opened.url == file
        assert opened.get_by_role("slider").input_value() == "0"
        assert opened.locator("#level-caption").inner_text().startswith("50 % (")
        assert opened.locator("#verdict .number small").first.inner_text().strip() == "asked: 50\u00a0%"

    def test_choosing_a_group_fades_the_others(self, opened, found):
        (first, second, *_) = [str(row.group) for row in found.audit.table]
        from playwright.sync_api import expect

        opened.get_by_role("radio", name=first).check()
        for group, opacity in ((1, "0.12"), (0, "1")):
            element = opened.locator(f'#verdict [data-group="{group}"]').first
            expect(element).to_have_css("opacity", opacity, timeout=1000 * LIMIT)  # once the fading has ended
        assert opened.get_by_role("radio", name=second).is_visible()

    def test_without_scripts_there_is_no_slider(self, browser, file, found):
        context = browser.new_context(java_script_enabled=False)
        tab = context.new_page()
        tab.goto(file)
        assert plain(tab.locator("#verdict .verdict-text").inner_text()) == is_even(found)
        assert not tab.locator("#level-control").is_visible()
        context.close()

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_stands_out_from_the_background(self, browser, file, scheme):
        """The contrast of every text is at least 4.5 to 1 (WCAG AA)."""
        context = browser.new_context(color_scheme=scheme)
        tab = context.new_page()
        tab.goto(file)
        tab.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        colors = tab.evaluate("""() => [...document.querySelectorAll("body *:not(title, script)")]
            .filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
            .map(each => {
                let behind = each;
                const background = (one) => getComputedStyle(one).backgroundColor;
                while (background(behind) === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
                const style = getComputedStyle(each);
                return [each.namespaceURI.endsWith("svg") ? style.fill : style.color, background(behind)];
            })""")
        assert len({background for _, background in colors}) >= 2
        assert min(contrast(text, background) for text, background in colors) >= 4.5
        context.close()

    def test_it_fits_a_narrow_window(self, browser, file):
        context = browser.new_context(viewport={"width": 360, "height": 700})
        tab = context.new_page()
        tab.goto(file)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        picture = tab.locator("#verdict .picture").bounding_box()
        assert picture["x"] >= 0
        assert picture["x"] + picture["width"] <= 360  # without scrolling
        context.close()


def contrast(text, background):
    """Return the contrast of two colours, as WCAG defines it."""
    light, dark = sorted((luminance(text), luminance(background)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    channels = np.array([int(number) / 255 for number in re.findall(r"\d+", color)[:3]])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_contrast_by_hand():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)
