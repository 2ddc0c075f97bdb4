"""Later rows and new units: what a study answers about them, and when it warns."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from benchmarks import other_rows as benchmark
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from evencover import ByFeature, BySpread, Marginal, Normalized, Plan, Residual, study
from evencover.models import NeighborSpread, WithSpread
from evencover.models.members import least_effort
from evencover.report.writing import report
from evencover.studies import other_rows as module
from evencover.studies.other_rows import OtherRows
from evencover.words.other_rows import advice_on_other_rows, other_rows_text
from evencover.words.settings import COMMAND_LINE
from evencover.words.studies import study_text
from tests.canonical_studies import use_light_stack, use_small_stack
from tests.command_line import run_command_line

QUICK = Plan(model=LinearRegression(), nonconformity=Residual(), taxonomy=Marginal())
SPREAD = WithSpread(LinearRegression(), NeighborSpread(), random_state=0)
DAYS = np.arange(600).astype("datetime64[D]")


def trend(n=600, seed=0):
    """Return a table whose target bends upwards with the date, which a straight line does not follow."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"day": DAYS[:n], "x": x, "y": x + 50 * (np.arange(n) / n) ** 8 + rng.normal(size=n)})


def drift(n=600):
    """Return a table whose noise grows with the date: later rows need wider intervals, which the latest rows show."""
    rng = np.random.default_rng(0)
    x, late = rng.normal(size=n), np.arange(n) >= n // 2
    return pd.DataFrame({"day": DAYS[:n], "x": x, "y": x + rng.normal(size=n) * np.where(late, 5, 0.5)})


def panel(effect, n_units=60, n_times=10):
    """Return a panel of units with an effect each, which only a model that knows the unit can predict."""
    rng = np.random.default_rng(0)
    unit, time = np.repeat(np.arange(n_units), n_times), np.tile(np.arange(n_times), n_units)
    x = rng.normal(size=len(unit))
    y = x + effect * rng.normal(size=n_units)[unit] + rng.normal(size=len(unit))
    return pd.DataFrame({"patient": [f"p{each}" for each in unit], "year": 2000 + time, "x": x, "y": y})


def walk(n=1000, seed=0):
    """Return rows without a date whose residuals are a random walk."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": x + np.cumsum(rng.normal(size=n))})


@pytest.fixture(scope="module")
def trend_study():
    """The study of a target that bends upwards."""
    return study(trend(), "y", plan=QUICK)


@pytest.fixture(scope="module")
def panel_study():
    """The study of a panel with large effects of units."""
    return study(panel(effect=10), "y", plan=Plan(model=SPREAD))


class TestLaterRows:
    def test_a_trend_that_the_model_does_not_follow(self, trend_study):
        (found,) = trend_study.other_rows
        assert (found.question, found.column, found.of_dates, found.units) == ("later", "day", True, None)
        assert found.rows == 120
        assert found.fails
        assert found.in_order.fails
        assert found.coverage < 0.6
        assert found.shown is found.in_order
        assert found.shown.coverage < 0.3
        assert trend_study.audit.overall.coverage > 0.85

    def test_the_result_in_order_is_that_of_a_split_by_time(self, trend_study):
        """With the setting time, the predictor of the first 480 rows has exactly this coverage of the last 120."""
        by_time = study(trend().head(480), "y", plan=replace(QUICK, held_out=0.5), time="day").regressor
        last, found = trend().tail(120), trend_study.other_rows[0].in_order
        assert found.rows == 120
        assert found.coverage == by_time.predict_interval(last.drop(columns="y")).covers(last["y"]).mean()
        assert found.r2 == pytest.approx(by_time.score(last.drop(columns="y"), last["y"]))

    def test_only_a_split_by_time_covers_later_rows(self):
        """The setting time helps: the rows that calibrate are as noisy as later ones."""
        (found,) = study(drift(), "y", plan=QUICK).other_rows
        assert found.fails
        assert not found.in_order.fails
        assert found.shown is found

    def test_nothing_changes_with_time(self):
        table = trend().assign(y=lambda table: table["x"] + np.random.default_rng(1).normal(size=600))
        (found,) = study(table, "y", plan=QUICK).other_rows
        assert not found.fails
        assert found.in_order is None

    def test_the_user_has_chosen_the_split(self):
        assert study(trend(), "y", plan=QUICK, time="day").other_rows == ()
        assert study(panel(effect=10), "y", plan=QUICK, clusters="patient").other_rows == ()

    def test_the_same_seed_gives_the_same_numbers(self, trend_study):
        assert study(trend(), "y", plan=QUICK).other_rows == trend_study.other_rows

    def test_small_tables_are_split_once(self):
        """A cross-fitted study has one more model for its answer, and not ten."""
        steps = []
        found = study(trend(120), "y", plan=replace(QUICK, calibration="cross"), progress=steps.append)
        assert found.evidence.kind == "cross"
        assert found.other_rows[0].rows == 24
        assert "testing later rows" in steps


class TestNewUnits:
    def test_units_with_an_effect(self, panel_study):
        later, new = panel_study.other_rows
        assert (new.question, new.column, new.units, new.rows) == ("new", "patient", 12, 96)
        assert new.fails
        assert new.coverage < 0.7
        assert new.r2 < new.r2_at_random
        assert (later.question, later.fails) == ("later", False)

    def test_units_without_an_effect(self):
        assert not any(each.fails for each in study(panel(effect=0), "y", plan=Plan(model=SPREAD)).other_rows)

    def test_the_remedy_holds(self):
        """With clusters, the intervals are right for new units."""
        found = study(panel(effect=10), "y", plan=Plan(model=SPREAD), clusters="patient")
        assert found.audit.overall.coverage > 0.8

    def test_groups_of_the_units(self):
        """New units are in no group of the calibration; their intervals come from all rows."""
        plan = replace(QUICK, taxonomy=ByFeature("patient"), calibration="split", level=0.5)
        assert [each.question for each in study(panel(effect=10), "y", plan=plan).other_rows] == ["later", "new"]


class TestRunningOrder:
    def test_residuals_that_depend_on_their_neighbours(self):
        (found,) = study(walk(), "y", plan=QUICK).other_rows
        assert (found.question, found.column, found.rows) == ("later", None, 200)

    def test_no_order(self):
        for seed in range(5):
            shuffled = walk().sample(frac=1, random_state=seed, ignore_index=True)
            assert study(shuffled, "y", plan=QUICK).other_rows == ()

    def test_rows_that_are_sorted_by_the_target(self):
        assert study(walk().sort_values("y", ignore_index=True), "y", plan=QUICK).other_rows == ()


class GoesWrong(RegressorMixin, BaseEstimator):
    """A model that fails on rows with a mark, if one of its training rows has the tag."""

    def __init__(self, tag=0.0):
        self.tag = tag

    def fit(self, X, y):
        self.wrong_ = bool((np.asarray(X)[:, 0] == self.tag).any())
        return self

    def predict(self, X):
        return 100.0 * self.wrong_ * np.asarray(X)[:, 1]


def test_one_model_that_goes_wrong_is_no_failure():
    """The tag is in one of the two halves that take turns to fit, so one of the two models fails."""
    rng = np.random.default_rng(0)
    late = np.arange(600) >= 480
    table = pd.DataFrame(
        {"tag": rng.permutation(600) + 0.5, "late": late + 0.0, "day": DAYS, "y": rng.normal(size=600)}
    )
    first = float(table["tag"][0])
    found = [study(table, "y", plan=replace(QUICK, model=GoesWrong(tag), seed=2)).other_rows[0] for tag in (first, 0.0)]
    assert not any(each.fails for each in found)
    assert {round(each.coverage, 1) for each in found} == {0.5, 0.9}


class FitsOnce(LinearRegression):
    """A model that can be fitted once."""

    fits = 0

    def fit(self, X, y):
        FitsOnce.fits += 1
        if FitsOnce.fits > 1:
            raise ValueError("these rows cannot be fitted")
        return super().fit(X, y)


def test_a_model_that_cannot_be_fitted_again_leaves_the_note():
    FitsOnce.fits = 0
    found = study(trend(), "y", plan=replace(QUICK, model=FitsOnce()))
    assert found.other_rows == ()
    assert any(note.endswith("add time='day'.") for note in found.notes)


def test_score_groups_and_a_quick_stack(monkeypatch):
    """Nothing is selected again, and a stack is fitted with less effort: only regressors that are used."""
    seen = []
    tested = module._Recipe.tested

    def spy(recipe, *parts):
        seen.append(recipe)
        return tested(recipe, *parts)

    monkeypatch.setattr(module._Recipe, "tested", spy)
    plan = Plan(model="stack", effort="normal", nonconformity=Normalized(), taxonomy=BySpread(2))
    use_light_stack(monkeypatch)
    use_small_stack(monkeypatch)
    found = study(trend(), "y", plan=plan)
    assert (seen[0].regressor.nonconformity, seen[0].regressor.calibrator.taxonomy.n_groups) == (Normalized(), 2)
    assert found.stack_report is not None
    effort, used = seen[0].estimator[-1].effort, {each.name for each in found.stack_report.members if each.weight}
    assert effort == least_effort(used)
    assert set(effort.members) <= {*used, "linear"}


def test_tables_in_batches_have_the_answers_of_their_sample(tmp_path):
    table = trend().astype({"day": "datetime64[ns]"})
    table.to_parquet(tmp_path / "table.parquet", index=False)
    found = study(tmp_path / "table.parquet", "y", plan=QUICK, output=tmp_path / "intervals.parquet")
    (answer,) = found.other_rows
    assert (answer.question, answer.fails, answer.rows) == ("later", True, 60)
    assert len(pq.read_table(tmp_path / "intervals.parquet")) == found.sizes["test"]


def test_large_tables_are_thinned(monkeypatch):
    """At equal distances in time, and all rows of random units."""
    monkeypatch.setattr("evencover.studies.other_rows._MAX_ROWS", 300)
    monkeypatch.setattr("evencover.studies.other_rows._MIN_UNITS", 20)
    assert study(trend(), "y", plan=QUICK).other_rows[0].rows == 60
    later, new = study(panel(effect=10), "y", plan=QUICK).other_rows
    assert new.units == 10
    assert new.rows == 80
    assert later.rows == 40


class TestWarnings:
    """Wrong warnings: of tables whose dates and ids mean nothing."""

    @pytest.mark.parametrize("n", [200, 600])
    def test_dates_and_ids_at_random(self, n):
        """Of 20 tables with two questions each; a rule without the laws of chance warns of some of them."""
        found = [benchmark.warned(benchmark.synthetic_table(n, seed), "y", seed, QUICK) for seed in range(20)]
        assert sum(found, benchmark.Warned()) == benchmark.Warned(tables=20)

    @pytest.mark.slow
    def test_many_tables(self):
        found = [
            benchmark.warned(benchmark.synthetic_table(500, seed), "y", seed, Plan(model=SPREAD)) for seed in range(200)
        ]
        total = sum(found, benchmark.Warned())
        assert max(total.later, total.new, total.running_order) <= 4

    def test_the_benchmark_prints_a_table(self, capsys):
        assert benchmark.main(["--sizes", "150", "--tables", "--repeats", "1"]) == 0
        assert "| synthetic, 150 rows | 1 | 0 | 0 | 0 |" in capsys.readouterr().out


LATER = OtherRows("later", "day", True, 0.9, 250, None, 0.15, True, -0.5, 0.99)


class TestWords:
    def test_failures(self):
        text = (
            "For later dates ('day'): 15.0 % of 250 rows instead of 90 %. These intervals hold only between the dates"
        )
        assert other_rows_text(LATER) == f"{text} in the table."
        years = replace(LATER, column="year", of_dates=False)
        assert other_rows_text(years).endswith("hold only between the first and the last 'year' in the table.")
        new = replace(LATER, question="new", column="state", of_dates=False, units=10, rows=140)
        assert other_rows_text(new) == (
            "For new values of 'state': 15.0 % of 140 rows of 10 such values instead of 90 %. These intervals hold "
            "only for the values of 'state' in the table."
        )
        assert other_rows_text(replace(LATER, column=None)).startswith("For rows after the last one: 15.0 % of 250")

    @pytest.mark.parametrize(
        ("coverage", "end"),
        [
            (0.89, "89.0 % of 250 rows, about as asked."),
            (1.0, "100.0 % of 250 rows, more often than asked."),
            (0.8, "80.0 % of 250 rows instead of 90 %. They are too few to tell whether this is chance."),
        ],
    )
    def test_no_failure(self, coverage, end):
        found = replace(LATER, fails=False, coverage=coverage)
        assert other_rows_text(found) == f"For later dates ('day'): {end}"
        assert advice_on_other_rows([found]).sentences == ()

    def test_advice_if_time_helps(self):
        advice = advice_on_other_rows([replace(LATER, in_order=replace(LATER, coverage=0.88, fails=False))])
        assert advice.sentences[0] == "Use time='day' to predict later dates ('day')."
        assert "88.0 % of 250 rows after these were covered" in advice.sentences[1]

    def test_advice_if_nothing_helps(self):
        advice = advice_on_other_rows([replace(LATER, in_order=LATER)], COMMAND_LINE)
        action, why, then = advice.sentences
        assert action == "Do not use these intervals for later dates ('day')."
        assert why.endswith("R2 is 0.99 on random rows, and -0.50 on later ones.")
        assert then.startswith(
            "To predict the future, use --time day, which tests on the last rows. As it is, about 15.0 %"
        )
        assert advice.option == ("--time", "day")
        assert "change with time" in advice_on_other_rows([replace(LATER, r2=0.98)]).sentences[1]

    def test_advice_without_a_column(self):
        advice = advice_on_other_rows([replace(LATER, column=None)], COMMAND_LINE)
        assert advice.sentences[-1].endswith("add a column of dates or of row numbers, and name it with --time COLUMN.")
        assert advice.option == ()

    def test_the_headline_leads_with_a_failure(self, trend_study, panel_study):
        assert trend_study.headline.startswith("For later dates ('day'): ")
        assert trend_study.headline.endswith(trend_study.audit.headline)
        assert next(iter(trend_study.answers())) == "Beyond the table"
        assert trend_study.advice.startswith("Do not use these intervals for later dates")
        assert trend_study.advice.endswith(
            f"For rows like those of the table, the advice is this. {advice_of(trend_study)}"
        )
        assert panel_study.headline.startswith("For new values of 'patient': ")
        assert "about as asked." in panel_study.headline
        assert panel_study.advice.startswith("Use clusters='patient' to predict for new values of 'patient'. ")
        assert trend_study.headline.split(".")[0] in trend_study._repr_html_().replace("&#x27;", "'")

    def test_an_answer_that_holds_comes_before_the_advice(self):
        found = study(panel(effect=0), "y", plan=Plan(model=SPREAD))
        assert list(found.answers())[-2:] == ["Beyond the table", "What to do"]
        assert found.headline.startswith(found.audit.headline)
        assert found.advice == advice_of(found)

    def test_the_report(self, trend_study):
        page = report(trend_study, command="evencover run trend.csv --target y")
        start = page.index("What about later dates (")
        assert start < page.index("How often are the intervals right?")
        assert "evencover run trend.csv --target y --time day --output NEW_FOLDER" in page
        assert "Tested with a model that was fitted and calibrated without these rows" in page

    def test_the_command_line(self, tmp_path, monkeypatch, capsys):
        """The answer is in the text and in results.json; the exit status is that of the verdict."""
        monkeypatch.chdir(tmp_path)
        trend().to_csv("trend.csv", index=False)
        options = ["--score", "residual", "--groups", "none", "--model", "linear", "--output", "out"]
        status, output, _ = run_command_line(capsys, "run", "trend.csv", "--target", "y", *options)
        assert status in (0, 3)
        (found,) = json.loads((tmp_path / "out" / "results.json").read_text())["other_rows"]
        assert found["fails"] is True
        assert found["in_order"]["fails"] is True
        assert f"Beyond the table: {found['summary']}" in output


def advice_of(found):
    """Return the advice on a study without other rows."""
    assert "Beyond the table" in study_text(found)
    return replace(found, other_rows=()).advice
