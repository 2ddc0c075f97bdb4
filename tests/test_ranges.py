"""Which new rows are outside of what a model has seen in training."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from evencover import ConformalRegressor, CrossConformalRegressor
from evencover.models import TableEncoder
from evencover.models.encoding import joined_encoder
from evencover.models.ranges import limits_of
from tests.messages import facts

RNG = np.random.default_rng(0)
WEATHER = pd.DataFrame(
    {
        "date": pd.date_range("2015-01-01", "2024-12-31", periods=1000),
        "pressure": RNG.normal(1013, 8, 1000),
        "latitude": RNG.uniform(32, 42, 1000),
        "rain": np.where(RNG.random(1000) < 0.7, 0, RNG.lognormal(1, 1, 1000)),
        "wind": np.where(RNG.random(1000) < 0.2, np.nan, RNG.uniform(0, 9, 1000)),
        "city": RNG.choice(["Oslo", "Rome"], 1000),
    }
)
ORDINARY = WEATHER[:4].reset_index(drop=True)


@pytest.fixture(scope="module")
def encoder():
    return TableEncoder().fit(WEATHER)


class TestRows:
    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("date", pd.Timestamp("2030-05-01")),
            ("date", pd.Timestamp("1970-01-01")),
            ("pressure", 1e9),
            ("pressure", -1013.0),
            ("latitude", 900.0),
            ("latitude", 44.0),
            ("rain", 1e5),
            ("rain", -5.0),
            ("city", "Paris"),
            ("city", None),
        ],
    )
    def test_a_value_that_training_did_not_show(self, encoder, column, value):
        new = ORDINARY.copy()
        new.loc[2, column] = value
        found = encoder.outside(new)
        assert found.rows.tolist() == [False, False, True, False]
        assert found.column_names == ["", "", column, ""]
        assert f"1 of 4 rows are outside what the model has seen: {column} (1, " in str(found)

    @pytest.mark.parametrize(
        ("column", "value"), [("pressure", 1050.0), ("latitude", 42.3), ("rain", 90.0), ("wind", np.nan)]
    )
    def test_ordinary_values_a_little_beyond_the_range(self, encoder, column, value):
        new = ORDINARY.copy()
        new.loc[2, column] = value
        assert not encoder.outside(new)

    def test_all_columns_of_a_row_are_named(self, encoder):
        new = ORDINARY.assign(pressure=1e9, city=["Oslo", "Paris", "Rome", "Bern"])
        found = encoder.outside(new)
        assert found.column_names == ["pressure", "pressure; city", "pressure", "pressure; city"]
        assert str(found).endswith("pressure (4, such as 1 000 000 000), city (2, such as 'Paris')")

    def test_dates_as_text_and_numbers_as_text(self):
        table = pd.DataFrame({"day": WEATHER["date"].dt.strftime("%d.%m.%Y"), "x": WEATHER["latitude"].astype(str)})
        fitted = TableEncoder(dates={"day": "%d.%m.%Y"}, categorical=[]).fit(table.assign(x=WEATHER["latitude"]))
        new = pd.DataFrame({"day": ["01.05.2020", "01.05.2030"], "x": ["900", "35"]})
        assert fitted.outside(new).column_names == ["x", "day"]

    def test_a_row_is_judged_by_itself(self, encoder):
        new = ORDINARY.assign(latitude=[900.0, 35.0, 900.0, 35.0])
        alone = [encoder.outside(new[i : i + 1]).column_names[0] for i in range(4)]
        assert alone == encoder.outside(new).column_names

    def test_a_constant_column_has_one_value(self):
        fitted = TableEncoder().fit(pd.DataFrame({"year": [2024] * 50, "x": range(50)}))
        assert fitted.outside(pd.DataFrame({"year": [2024, 2025], "x": [1, 1]})).rows.tolist() == [False, True]


class TestColumnsWithoutValues:
    def test_a_column_that_had_most_of_its_values(self, encoder):
        new = WEATHER[:20].assign(wind=np.nan)
        found = encoder.outside(new)
        assert (found.without_values, found.rows.any(), bool(found)) == (("wind",), False, True)
        assert re.search(facts("0 of 20 rows are outside ... without any value ... wind"), str(found))

    def test_few_rows_may_lack_it_by_chance(self, encoder):
        assert not encoder.outside(WEATHER[:2].assign(wind=np.nan))

    @pytest.mark.parametrize("column", ["date", "pressure", "city"])
    def test_a_column_that_was_never_missing(self, encoder, column):
        found = encoder.outside(WEATHER[:20].assign(**{column: None}))
        assert (found.without_values, found.rows.all()) == ((column,), True)
        assert f"{column} (20, missing)" in str(found)

    def test_no_rows(self, encoder):
        assert not encoder.outside(WEATHER[:0])


class TestLimits:
    @pytest.mark.parametrize("n", [200, 1000, 20_000])
    @pytest.mark.parametrize("tails", ["uniform", "normal", "exponential", "lognormal", "pareto", "counts"])
    def test_ordinary_values_are_rarely_beyond(self, n, tails):
        """At most one of 10 n values; without a margin, one of n/2."""
        draw = {
            "uniform": lambda size: RNG.uniform(0, 1, size),
            "normal": lambda size: RNG.normal(0, 1, size),
            "exponential": lambda size: RNG.exponential(1, size),
            "lognormal": lambda size: RNG.lognormal(0, 1, size),
            "pareto": lambda size: RNG.pareto(1, size),
            "counts": lambda size: RNG.poisson(3, size).astype(float),
        }[tails]
        beyond = []
        for _ in range(20):
            low, high = limits_of(draw(n))
            new = draw(100_000)
            beyond.append(np.mean((new < low) | (new > high)))
        assert np.mean(beyond) <= 0.1 / n

    def test_scale_and_sign_do_not_matter(self):
        numbers = RNG.lognormal(0, 1, 500)
        low, high = limits_of(numbers)
        np.testing.assert_allclose(limits_of(7 - 3 * numbers), [7 - 3 * high, 7 - 3 * low])

    @pytest.mark.parametrize(
        "numbers", [[1.0], [1.0, 2.0], [0.0] * 99 + [1.0], [-1e308, 0.0, 1e308], [0.0, 5e-324, 1e308], [3.0] * 50]
    )
    def test_the_range_is_inside(self, numbers):
        low, high = limits_of(np.array(numbers))
        assert low <= min(numbers)
        assert high >= max(numbers)

    def test_no_numbers(self):
        assert limits_of(np.empty(0)) is None


class TestModels:
    def test_models_of_folds_know_what_any_of_them_saw(self):
        late = WEATHER.assign(date=WEATHER["date"] + pd.Timedelta(days=4000), latitude=WEATHER["latitude"] + 30)
        joined = joined_encoder([TableEncoder().fit(table) for table in (WEATHER, late)])
        new = ORDINARY.assign(
            date=pd.to_datetime(["2014-12-30", "2030-01-01", "2040-01-01", "2010-01-01"]),
            latitude=[71.0, 35.0, 80.0, 20.0],
        )
        assert joined.outside(new).column_names == ["", "", "date; latitude", "date; latitude"]

    @pytest.mark.parametrize("regressor", [ConformalRegressor, CrossConformalRegressor])
    def test_a_calibrated_model_tells(self, regressor, tmp_path):
        y = RNG.normal(size=1000)
        model = regressor(make_pipeline(TableEncoder(), LinearRegression()), random_state=0).fit(WEATHER, y)
        new = ORDINARY.assign(latitude=[35.0, 900.0, 36.0, 37.0])
        assert model.outside(new).rows.tolist() == [False, True, False, False]
        model.save(tmp_path / "model")
        loaded = regressor.load(tmp_path / "model")
        assert loaded.outside(new).column_names == ["", "latitude", "", ""]

    def test_a_model_without_an_encoder_does_not_know(self):
        X = RNG.normal(size=(100, 2))
        model = ConformalRegressor(LinearRegression(), random_state=0).fit(X, X[:, 0])
        with pytest.raises(ValueError, match=r"begins with a TableEncoder.*got LinearRegression"):
            model.outside(X)

    def test_an_encoder_of_an_earlier_version_knows_its_categories(self, encoder):
        """Files that were saved without limits and without the number of rows."""
        old = TableEncoder().fit(WEATHER)
        old.columns_ = tuple(replace(each, limits=None) for each in old.columns_)
        del old.n_rows_
        new = WEATHER[:20].assign(pressure=1e9, wind=np.nan, city=["Paris", *["Rome"] * 19])
        found = old.outside(new)
        assert ([each.name for each in found.columns], found.without_values) == (["city"], ())
        assert [each.name for each in encoder.outside(new).columns] == ["pressure", "city"]
