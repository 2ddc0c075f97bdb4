"""Original files of the paper's data sets, made from their CSV files: the same layout and numbers as at the source."""

import csv
import io
import tarfile
from pathlib import Path
from zipfile import ZipFile

import openpyxl
import xlwt


def original(name, folder, path):
    """Write a file in the layout of a data set's source, and return its path."""
    with (Path(folder) / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    MAKERS[name](header, rows, path)
    return path


def concrete(_, rows, path):
    workbook = xlwt.Workbook()
    sheet = workbook.add_sheet("Sheet1")
    for index, cells in enumerate([["Cement (component 1)"] + ["..."] * 8, *rows]):
        for column, cell in enumerate(cells):
            sheet.write(index, column, float(cell) if index else cell)
    workbook.save(content := io.BytesIO())
    with ZipFile(path, "w") as archive:
        archive.writestr("Concrete_Data.xls", content.getvalue())


def turbine(header, rows, path):
    excel(path, "CCPP/Folds5x2_pp.xlsx", "Sheet1", [header, *map(numbers, rows)])


def residential(header, rows, path):
    """The source also has dates, V-1 and V-9, and a row of titles above the header."""
    names = [name.split("_")[0].replace("V", "V-") for name in header]
    names = [
        "START YEAR",
        "START QUARTER",
        "COMPLETION YEAR",
        "COMPLETION QUARTER",
        "V-1",
        *names[:-1],
        "V-9",
        names[-1],
    ]
    lines = [[1, 2, 3, 4, 5, *numbers(row)[:-1], 9, numbers(row)[-1]] for row in rows]
    excel(path, "Residential-Building-Data-Set.xlsx", "Data", [["PROJECT DATES"] + [None] * 108, names, *lines])


def puma(_, rows, path):
    parts = {"puma32H.data": rows[:4500], "puma32H.test": rows[4500:]}
    with tarfile.open(path, "w:gz") as archive:
        for name, some in parts.items():
            content = "".join(", ".join(row) + "\n" for row in some).encode()
            member = tarfile.TarInfo(f"PumaDyn/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def crime(header, rows, path):
    """The source begins with five columns that are not predictors; the last but one has a missing value."""
    names = ["state", "county", "community", "communityname", "fold", *header[:-1], "OtherPerCap", header[-1]]
    lines = [[*"1??x1", *row[:-1], "?" if index == 3 else "0", row[-1]] for index, row in enumerate(rows)]
    with ZipFile(path, "w") as archive:
        archive.writestr("communities.names", "".join(f"@attribute {name} numeric\n" for name in names))
        archive.writestr("communities.data", "".join(",".join(line) + "\r\n" for line in lines))


def star(header, rows, path):
    """The source also has row names, scores, lunchk and a row with a missing value; quarters of a year are text."""
    codes = star_codes()
    scores = [f"{subject}{grade}" for subject in ("read", "math") for grade in "k123"]
    lines = []
    for index, row in enumerate(rows):
        pupil = dict(zip(header, row, strict=True))
        eighths = round(8 * float(pupil.pop("mean_grade")))
        for name in codes:
            if name in pupil:
                pupil[name] = codes[name][int(pupil[name])]
        year = float(pupil["birth"])
        pupil["birth"] = f"{int(year)} Q{round(4 * (year % 1)) + 1}"
        graded = dict.fromkeys(scores, "0") | {"readk": str(eighths)}
        lines.append({"rownames": str(index), **pupil, **graded, "lunchk": "free"})
    lines.insert(1, lines[0] | {"math3": ""})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def star_codes():
    """Return the texts of the source whose codes are 0, 1, ... in the CSV file, by column."""
    ladder = ["level1", "level2", "level3", "apprentice", "probation", "noladder", "notladder"]
    codes = {"gender": ["female", "male"], "ethnicity": ["cauc", "afam", "asian", "hispanic", "amindian", "other"]}
    for grade in "k123":
        codes[f"star{grade}"] = ["regular", "small", "regular+aide"]
        codes[f"lunch{grade}"] = ["free", "non-free"]
        codes[f"school{grade}"] = ["inner-city", "suburban", "rural", "urban"]
        codes[f"degree{grade}"] = ["bachelor", "master", "specialist", "phd"]
        codes[f"ladder{grade}"] = ladder
        codes[f"tethnicity{grade}"] = ["cauc", "afam", "asian"]
    return codes | {
        "degreek": ["bachelor", "master", "specialist", "master+"],
        "ladderk": [*ladder[:5], "pending", "notladder"],
    }


def excel(path, member, sheet, lines):
    workbook = openpyxl.Workbook(write_only=True)
    rows = workbook.create_sheet(sheet)
    for line in lines:
        rows.append(list(line))
    workbook.save(content := io.BytesIO())
    with ZipFile(path, "w") as archive:
        archive.writestr(member, content.getvalue())


def numbers(row):
    return [float(cell) for cell in row]


MAKERS = {
    "concrete": concrete,
    "turbine": turbine,
    "puma32H": puma,
    "residential": residential,
    "crime2": crime,
    "star": star,
}
