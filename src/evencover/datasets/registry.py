"""The data sets with a name, each with a card: source, licence, preparation, shape and checksum."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from evencover._internal.arrays import lookup


@dataclass(frozen=True)
class PaperStatistics:
    """The statistics of a data set in the paper's table.

    Parameters
    ----------
    rows, features : int
        Number of rows and of features.
    skewness, kurtosis : float
        Skewness and kurtosis of the response; a normal distribution has kurtosis 3.
    """

    rows: int
    features: int
    skewness: float
    kurtosis: float


@dataclass(frozen=True)
class DatasetCard:
    """The description of a data set: source, licence, preparation, shape and checksum.

    Parameters
    ----------
    name, title : str
        Short and long name.
    page : str
        Web page that describes it.
    urls : tuple of str
        Addresses of the original file, tried in this order.
    licence : str
        The licence that the source states.
    reference : str
        The publication to cite.
    rows, features : int
        Number of rows and of features of the prepared table.
    response : str
        Name of the response, the last column of the prepared table.
    dropped : str
        Rows and columns of the original that are left out, and why.
    sha256 : str
        Checksum of the prepared table as a CSV file.
    paper : PaperStatistics
        The statistics in the paper's table.
    """

    name: str
    title: str
    page: str
    urls: tuple[str, ...]
    licence: str
    reference: str
    rows: int
    features: int
    response: str
    dropped: str
    sha256: str
    paper: PaperStatistics


_NAMES = ("concrete", "turbine", "puma32H", "residential", "crime2", "star")  # in the order of the paper's table


@cache
def cards() -> dict[str, DatasetCard]:
    """Return the cards by name, in the order of the paper's table."""
    return {name: _read_card(name) for name in _NAMES}


def card_of(name: str) -> DatasetCard:
    """Return a data set's card; raise ValueError with the known names if there is none.

    Parameters
    ----------
    name : str
        Name of the data set, such as "concrete".
    """
    return lookup(name, cards(), "data set")


def _read_card(name: str) -> DatasetCard:
    text = (files("evencover.datasets") / "cards" / f"{name}.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return DatasetCard(**{**values, "urls": tuple(values["urls"]), "paper": PaperStatistics(**values["paper"])})
