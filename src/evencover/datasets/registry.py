"""The data sets that are known by name, each with a card: where it comes from, what was done to it, what it must be."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from evencover._internal.arrays import lookup


@dataclass(frozen=True)
class PaperStatistics:
    """What the paper's table says about a data set.

    Parameters
    ----------
    rows, features : int
        Their number.
    skewness, kurtosis : float
        Of the response; a normal one has kurtosis 3.
    """

    rows: int
    features: int
    skewness: float
    kurtosis: float


@dataclass(frozen=True)
class Card:
    """What is known about a data set before it is read.

    Parameters
    ----------
    name, title : str
        Short and long.
    page : str
        Where people read about it.
    urls : tuple of str
        Where the original file is, tried in turn.
    licence : str
        What its source states.
    reference : str
        What to cite.
    rows, features : int
        Of the table that comes out.
    response : str
        Its last column.
    dropped : str
        What was left out of the original, and why.
    sha256 : str
        Checksum of the table that comes out, as a CSV file.
    paper : PaperStatistics
        What the paper's table says.
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


_NAMES = ("concrete", "turbine", "puma32H", "residential", "crime2", "star")  # as in the paper's table


@cache
def cards() -> dict[str, Card]:
    """Return the cards by name, in the order of the paper's table."""
    return {name: _read(name) for name in _NAMES}


def card(name: str) -> Card:
    """Return a data set's card, or say which names there are.

    Parameters
    ----------
    name : str
        Such as "concrete".
    """
    return lookup(name, cards(), "data set")


def _read(name: str) -> Card:
    text = (files("evencover.datasets") / "cards" / f"{name}.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return Card(**{**values, "urls": tuple(values["urls"]), "paper": PaperStatistics(**values["paper"])})
