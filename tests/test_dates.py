"""Dates in columns: which formats are recognised, what is ambiguous, and how dates become numbers."""

from datetime import date, datetime, time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from evencover.inputs.dates import as_dates, date_format
from evencover.models import TableEncoder

FORMATS = {  # texts, with their dates in ISO format
    "ISO": (["2020-12-31", "2020-01-05"], ["2020-12-31", "2020-01-05"]),
    "ISO, time": (["2020-12-31 18:20:05"], ["2020-12-31T18:20:05"]),
    "ISO, T": (["2020-12-31T18:20"], ["2020-12-31T18:20"]),
    "ISO, parts of a second": (["2020-12-31 18:20:05.25"], ["2020-12-31T18:20:05.25"]),
    "ISO, time zones": (
        ["2020-12-31T18:20:05Z", "2020-12-31T18:20:05+02:00"],
        ["2020-12-31T18:20:05", "2020-12-31T16:20:05"],
    ),
    "slashes": (["2010/01/31 00:00"], ["2010-01-31"]),
    "German": (["31.12.2020", "1.2.2020"], ["2020-12-31", "2020-02-01"]),
    "German, ambiguous for others": (["1.2.2020"], ["2020-02-01"]),
    "American": (["01/02/2020", "12/31/2020"], ["2020-01-02", "2020-12-31"]),
    "American, time": (["7/31/20 3:05 PM", "8/6/20 12:57 AM"], ["2020-07-31T15:05", "2020-08-06T00:57"]),
    "British": (["01/02/2020", "31/12/2020"], ["2020-02-01", "2020-12-31"]),
    "two digits of a year": (["25/11/63", "22/3/29"], ["1963-11-25", "2029-03-22"]),
    "dashes": (["31-12-2020"], ["2020-12-31"]),
    "names of months": (["Jan 1 2000", "Mar 12 2010"], ["2000-01-01", "2010-03-12"]),
    "names of months, comma": (["March 12, 2010"], ["2010-03-12"]),
    "day and name": (["12-Mar-2010"], ["2010-03-12"]),
    "months": (["Mar-2018", "Feb-2018"], ["2018-03-01", "2018-02-01"]),
    "months, ISO": (["2018-03", "2018-02"], ["2018-03-01", "2018-02-01"]),
    "months, year first": (["1939 Jan", "1940 Dec"], ["1939-01-01", "1940-12-01"]),
    "months, name first": (["Jan 1939", "Dec 1940"], ["1939-01-01", "1940-12-01"]),
    "months, M": (["2020M01", "2020M12"], ["2020-01-01", "2020-12-01"]),
    "ISO weeks": (["2020-W07", "2020-W53", "2021-W01"], ["2020-02-10", "2020-12-28", "2021-01-04"]),
    "ISO weeks, space": (["1991 W06", "1991 W52"], ["1991-02-04", "1991-12-23"]),
    "quarters": (["1956 Q1", "1956 Q4"], ["1956-01-01", "1956-10-01"]),
    "quarters, no space": (["1956Q2", "1956Q3"], ["1956-04-01", "1956-07-01"]),
    "quarters, dash": (["1956-Q1", "1956-Q4"], ["1956-01-01", "1956-10-01"]),
    "quarters, first": (["Q1 1956", "Q4 1956"], ["1956-01-01", "1956-10-01"]),
    "no colons": (["20141013T000000"], ["2014-10-13"]),
    "time of day": (["11:38:36", "09:00:00"], ["1900-01-01T11:38:36", "1900-01-01T09:00"]),
}


def column(*values):
    return np.array(values, dtype=object)


@pytest.mark.parametrize("case", FORMATS)
def test_format(case):
    texts, expected = FORMATS[case]
    found = date_format(column(*texts, None))
    assert found.other is None
    dates = as_dates(column(*texts, None), found.pattern)
    assert dates[:-1].tolist() == np.array(expected, dtype="datetime64[us]").tolist()
    assert np.isnat(dates[-1])


@pytest.mark.parametrize(
    "texts",
    [
        ["1956 Q5"],
        ["2021-W54"],
        ["Q1", "Q2"],
        ["a", "b"],
        ["1.5Fin", "2Story"],
        ["5-10", "11-100"],
        ["2015-000001"],
        [None],
        ["12"],
    ],
)
def test_other_text(texts):
    assert date_format(column(*texts)) is None


@pytest.mark.parametrize(("day_first", "month"), [(False, 3), (True, 4)])
def test_ambiguous_dates(day_first, month):
    """No day above 12 tells which number is the month."""
    texts = column("03/04/2020", "05/06/2020")
    found = date_format(texts, day_first=day_first)
    assert {found.pattern, found.other} == {"%m/%d/%Y", "%d/%m/%Y"}
    assert as_dates(texts, found.pattern)[0].item().month == month


def test_the_same_day_and_month_is_not_ambiguous():
    assert date_format(column("03/03/2020", "05/05/2020")).other is None


def test_day_first_does_not_change_dates_that_tell():
    assert date_format(column("01/02/2020", "12/31/2020"), day_first=True).pattern == "%m/%d/%Y"


def test_most_values_decide():
    """The others are left to an error that names them."""
    assert date_format(column("2020-01-01", "2020-01-02", "soon")).pattern == "%Y-%m-%d"
    assert date_format(column("2020-01-01", "soon", "later")) is None


@pytest.mark.parametrize(
    ("numbers", "recognised"),
    [
        ([20200101, 20200102, 20201231, 20210228, 20190505], True),
        ([20200101, 20200102, 20201231, 20210228, 20191305], False),
        ([20200101, 20200102], False),
        ([20200101.5, 20200102, 20201231, 20210228, 20190505], False),
        ([2019, 2020, 2021, 2022, 2023], False),
    ],
)
def test_numbers(numbers, recognised):
    assert (date_format(np.array(numbers, dtype=float)) is not None) == recognised


def test_date_types():
    expected = [datetime(2020, 1, 2, 3, 4), None]  # noqa: DTZ001
    moment = pd.Timestamp("2020-01-02 03:04")
    for values in (
        np.asarray(pd.Series([moment, pd.NaT])),
        column(datetime(2020, 1, 2, 3, 4), None),  # noqa: DTZ001
        column(pd.Timestamp("2020-01-02 04:04", tz="Europe/Berlin"), pd.NaT),
        np.asarray(pa.chunked_array([[moment.to_pydatetime(), None]])),
    ):
        assert as_dates(values).tolist() == expected
    assert as_dates(column(date(2020, 1, 2))).tolist() == [datetime(2020, 1, 2)]  # noqa: DTZ001
    assert as_dates(column(time(3, 4))).tolist() == [datetime(1900, 1, 1, 3, 4)]  # noqa: DTZ001
    assert as_dates(np.array([1.0])) is None
    assert as_dates(column("2020-01-02")) is None


class TestEncoding:
    TABLE = pd.DataFrame(
        {
            "sold": ["31.12.2020", None, "1.3.2021", "2.3.2021"],
            "at": pd.to_datetime(["2020-01-06 06:00", "2020-01-07 18:30", "2020-01-06 06:00", "2020-01-12 06:00"]),
        }
    )

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    def test_parts(self, library):
        table = library(self.TABLE)
        encoder = TableEncoder(dates={"sold": "%d.%m.%Y"}).fit(table)
        parts = pd.DataFrame(encoder.transform(table), columns=encoder.get_feature_names_out())
        assert parts.to_dict("list") == {
            "sold year": [2020, 2021, 2021, 2021],  # the missing date is the median, 1 March 2021
            "sold month": [12, 3, 3, 3],
            "sold weekday": [3, 0, 0, 1],
            "sold elapsed": [0, 60, 60, 61],
            "sold missing": [0, 1, 0, 0],
            "at weekday": [0, 1, 0, 6],  # year and month do not vary
            "at hour": [6, 18.5, 6, 6],
            "at elapsed": [0, 1, 0, 6],
        }

    def test_a_column_without_dates(self):
        table = pd.DataFrame({"day": pd.to_datetime([None, None]), "x": [1.0, 2.0]})
        encoder = TableEncoder().fit(table)
        assert encoder.transform(table).tolist() == [[1, 1], [1, 2]]

    def test_new_rows_may_have_a_date_type(self):
        encoder = TableEncoder(dates={"sold": "%d.%m.%Y"}).fit(self.TABLE[["sold"]])
        dates = pd.DataFrame({"sold": pd.to_datetime(["2020-12-31", None, "2021-03-01", "2021-03-02"])})
        assert np.array_equal(encoder.transform(dates), encoder.transform(self.TABLE[["sold"]]))
        assert not encoder.outside(dates)

    def test_dates_before_1970(self):
        table = pd.DataFrame({"day": pd.to_datetime(["1969-12-31 23:00", "1958-03-29 00:00"])})
        encoder = TableEncoder().fit(table)
        row = dict(zip(encoder.get_feature_names_out(), encoder.transform(table)[0], strict=True))
        assert row == {"day year": 1969, "day month": 12, "day weekday": 2, "day hour": 23, "day elapsed": 4295}
