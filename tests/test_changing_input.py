"""Input that changes while it is read is an error that names the file."""

import pandas as pd
import pytest

from evencover.tables import files
from evencover.tables.arrow_data import arrow_data

TEXT = "a,y\n1,2\n3,4\n"


def appended(path):
    with path.open("a") as file:
        file.write("5,6\n")


def truncated(path):
    path.write_text("a,y\n1,2\n")


def replaced(path):
    path.with_name("new.csv").write_text(TEXT.replace("4", "5"))
    path.with_name("new.csv").replace(path)


@pytest.mark.parametrize("change", [appended, truncated, replaced])
def test_a_table_that_changes_while_it_is_read(tmp_path, monkeypatch, change):
    (path := tmp_path / "table.csv").write_text(TEXT)
    table = files._table

    def changed(*arguments):
        found = table(*arguments)
        change(path)
        return found

    monkeypatch.setattr(files, "_table", changed)
    with pytest.raises(ValueError, match=r"table\.csv cannot be read as a table: it changed while it was read"):
        files.read_table(path)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_parquet_file_that_is_replaced_between_two_passes(tmp_path, workers):
    for part in range(2):
        pd.DataFrame({"y": [1.0, 2.0]}).to_parquet(tmp_path / f"{part}.parquet")
    data = arrow_data(tmp_path, workers=workers)
    assert sum(len(batch) for batch in data.batches(["y"])) == 4
    pd.DataFrame({"y": [1.0, 3.0]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet.* changed while it was read"):
        sum(len(batch) for batch in data.batches(["y"]))
