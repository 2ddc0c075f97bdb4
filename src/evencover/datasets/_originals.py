"""Convert the original files to tables of numbers: features first, the response last."""

import csv
import tarfile
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZipFile

import numpy as np

from evencover.inputs.arrays import FloatArray
from evencover.inputs.optional import import_optional

Table: TypeAlias = tuple[list[str], FloatArray]  # column names, and values of shape (n, columns)

_CONCRETE = [
    *("cement", "blast_furnace_slag", "fly_ash", "water", "superplasticizer", "coarse_aggregate", "fine_aggregate"),
    *("age_days", "compressive_strength_mpa"),
]
_PUMA = [
    *(f"{part}{joint}" for part in ("theta", "thetad") for joint in range(1, 7)),
    *(f"{part}{joint}" for part in ("tau", "dm", "da", "db") for joint in range(1, 6)),
    "thetadd6",
]
_GRADES = ("k", "1", "2", "3")
_SCORES = [f"{subject}{grade}" for subject in ("read", "math") for grade in _GRADES]
_MISSING = ("", "NA")


def read_concrete(path: Path) -> Table:
    """Return the first sheet of UCI's Excel file (.xls), with new column names."""
    xlrd = import_optional("xlrd", extra="datasets", purpose="the original file of concrete")
    with ZipFile(path) as archive:
        sheet = xlrd.open_workbook(file_contents=archive.read("Concrete_Data.xls")).sheet_by_index(0)
    return _CONCRETE, _numbers(sheet.row_values(row) for row in range(1, sheet.nrows))


def read_turbine(path: Path) -> Table:
    """Return the first sheet of UCI's Excel file; the other sheets hold the same rows in another order."""
    header, *rows = _excel_rows(path, "CCPP/Folds5x2_pp.xlsx", "Sheet1")
    return list(header), _numbers(rows)


def read_puma(path: Path) -> Table:
    """Return the training rows, then the test rows, of Torgo's archive."""
    with tarfile.open(path) as archive:
        files = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}
        parts = [archive.extractfile(files[name]) for name in ("puma32H.data", "puma32H.test")]
        lines = [line.decode().strip() for part in parts if part is not None for line in part]
    return _PUMA, _numbers(line.split(",") for line in lines if line)


def read_residential(path: Path) -> Table:
    """Return the sheet without dates, locality and sale price; the five lags of nineteen indices get names."""
    _, names, *rows = _excel_rows(path, "Residential-Building-Data-Set.xlsx", "Data")
    first_index, n_indices, other_response = 12, 19, 107
    kept = [*range(5, other_response), other_response + 1]

    def column_name(index: int) -> str:
        lag = f"_lag{(index - first_index) // n_indices + 1}" if first_index <= index < other_response else ""
        return str(names[index]).strip().replace("-", "") + lag

    header = [*(column_name(index) for index in kept[:-1]), f"{column_name(kept[-1])}_construction_cost"]
    return header, _numbers([row[index] for index in kept] for row in rows)


def read_crime(path: Path) -> Table:
    """Return the predictors without missing values, and the response."""
    with ZipFile(path) as archive:
        names = [line.split()[1] for line in _lines(archive, "communities.names") if line.startswith("@attribute")]
        rows = [line.split(",") for line in _lines(archive, "communities.data") if line]
    kept = [index for index in range(5, len(names)) if all(row[index] != "?" for row in rows)]
    return [names[index] for index in kept], _numbers([row[index] for index in kept] for row in rows)


def read_star(path: Path) -> Table:
    """Return the rows without missing values, text coded by integers; the response is the mean of eight test scores."""
    with path.open(newline="", encoding="utf-8") as file:
        pupils = [pupil for pupil in csv.DictReader(file) if not any(value in _MISSING for value in pupil.values())]
    names = list(pupils[0])[1:]  # without the row name
    features = [name for name in names if name not in (*_SCORES, "lunchk")]
    codes = _star_codes()

    def value(pupil: dict[str, str], name: str) -> float:
        text = pupil[name]
        return float(codes[name].index(text)) if name in codes else _year(text) if name == "birth" else float(text)

    rows = [
        [*(value(pupil, name) for name in features), sum(float(pupil[name]) for name in _SCORES) / len(_SCORES)]
        for pupil in pupils
    ]
    return [*features, "mean_grade"], _numbers(rows)


ORIGINALS: dict[str, Callable[[Path], Table]] = {
    "concrete": read_concrete,
    "turbine": read_turbine,
    "puma32H": read_puma,
    "residential": read_residential,
    "crime2": read_crime,
    "star": read_star,
}


def _star_codes() -> dict[str, list[str]]:
    """Return, for each text column, its texts in the order of their codes 0, 1, ..."""
    codes = {
        "gender": ["female", "male"],
        "ethnicity": ["cauc", "afam", "asian", "hispanic", "amindian", "other"],
    }
    for grade in _GRADES:
        first = grade == "k"
        codes |= {
            f"star{grade}": ["regular", "small", "regular+aide"],
            f"lunch{grade}": ["free", "non-free"],
            f"school{grade}": ["inner-city", "suburban", "rural", "urban"],
            f"degree{grade}": ["bachelor", "master", "specialist", "master+" if first else "phd"],
            f"ladder{grade}": [
                *("level1", "level2", "level3", "apprentice", "probation"),
                *("pending" if first else "noladder", "notladder"),
            ],
            f"tethnicity{grade}": ["cauc", "afam", "asian"],
        }
    return codes


def _year(text: str) -> float:
    """Return a quarter of a year as a number: 1979 Q3 is 1979.5."""
    year, _, quarter = text.partition(" Q")
    return float(year) + (int(quarter) - 1) / 4 if quarter else float(year)


def _excel_rows(path: Path, member: str, sheet: str) -> list[Sequence[Any]]:
    """Return the rows of a sheet of an Excel file in a zip archive."""
    openpyxl = import_optional("openpyxl", extra="datasets", purpose=f"the original file {member}")
    with ZipFile(path) as archive, archive.open(member) as file:
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True)
        return list(workbook[sheet].iter_rows(values_only=True))


def _lines(archive: ZipFile, member: str) -> list[str]:
    """Return the lines of a text file in a zip archive."""
    with archive.open(member) as file:
        return [line.strip() for line in TextIOWrapper(file, encoding="latin-1")]


def _numbers(rows: Iterable[Sequence[Any]]) -> FloatArray:
    return np.array([[float(cell) for cell in row] for row in rows])
