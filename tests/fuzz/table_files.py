"""Tables in Feather, Parquet, Excel and gzip files: damaged ones, odd columns, small files that claim much."""

import gzip
import io
import zlib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from hypothesis import strategies as st

from evencover.tables.files import number_column, read_table
from evencover.tables.text_files import is_text
from tests.fuzz.outcomes import WrongAnswerError, clear_errors
from tests.fuzz.saved_files import damage, damaged

_WORDS = ["a", "b", None, "long text " * 5, "", "\u00e9", "a", "b"]
_PLAIN = {
    "n": pa.array([1, 2, None, 4, 5, 6, 7, 8]),
    "x": pa.array([0.5, float("nan"), 2.5, None, float("inf"), 1e300, -1.0, 0.0]),
    "s": pa.array(_WORDS),
    "c": pa.array(_WORDS).dictionary_encode(),
    "b": pa.array([True, False, None, True] * 2),
    "d": pa.array([date(2020, 1, 31)] * 8),
}
_ODD = {
    "null": pa.array([None, None]),
    "uint64": pa.array([2**64 - 1, 1], "uint64"),
    "int64": pa.array([2**63 - 1, -(2**63)]),
    "half": pa.array([1.5, 2.5]).cast("float16"),
    "decimal": pa.array([Decimal("1e-3"), Decimal(10) ** 30], pa.decimal128(38, 3)),
    "huge decimal": pa.array([Decimal(10) ** 60, None], pa.decimal256(70, 3)),
    "list": pa.array([[1], []]),
    "struct": pa.array([{"a": 1}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_("string", "int64")),
    "binary": pa.array([b"\xff", b"1"]),
    "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
    "large": pa.array(["a", "1"], pa.large_string()),
    "time": pa.array([time(1, 2), None]),
    "duration": pa.array([timedelta(1), None]),
    "zone": pa.array([datetime(2020, 1, 1), None], pa.timestamp("us", "Europe/Berlin")),  # noqa: DTZ001
    "early": pa.array([-(2**62), 2**62], pa.timestamp("s")),
    "numbers as codes": pa.array([1.0, 2.0]).dictionary_encode(),
    "dates as codes": pa.array([date(2020, 1, 1), None]).dictionary_encode(),
}
_NAMES = ("a", "", "a", "1", "x\ny", "\x1b[31m", " ")
SAMPLES = (
    "plain.feather",
    "lz4.feather",
    "stream.arrow",
    "plain.parquet",
    "snappy.parquet",
    "table.xlsx",
    "table.csv.gz",
)
_CHECKED = ("table.xlsx", "table.csv.gz")  # their formats have checksums


def cases():
    """Return the strategy: most files are damaged, some whole ones have odd columns."""
    hurt = st.fixed_dictionaries(
        {"sample": st.sampled_from(SAMPLES), "damage": st.lists(damage(), min_size=1, max_size=2)}
    )
    odd = st.fixed_dictionaries(
        {
            "format": st.sampled_from(["feather", "parquet"]),
            "columns": st.lists(st.tuples(st.sampled_from(_NAMES), st.sampled_from(list(_ODD))).map(list), max_size=3),
            "rows": st.integers(0, 2),
        }
    )
    return st.one_of(hurt, hurt, hurt, odd)


def run(case):
    """Read a file, and all of its cells."""
    path, content, expected = _file(case)
    path.write_bytes(content)
    with clear_errors(path.name):
        table = read_table(path)
    for name in table.column_names:
        if is_text(table[name]):
            table[name].to_pylist()
    if expected is not None and repr(table.to_pylist()) != expected:
        raise WrongAnswerError("a damaged file was read, and has other cells", path.suffix)
    with clear_errors(path.name):
        for name in table.column_names:
            number_column(table, name, f"column of {path.name}", finite=False)


def _file(case):
    """Return the name of a file, its content, and the cells that it must have, if it can be read."""
    if "made" in case:
        return *_made(case["made"]), None
    if "content" in case:
        return Path(case["name"]), case["content"], None
    if "sample" in case:
        name = case["sample"]
        content, cells = sample(name)
        return Path(f"damaged-{name}"), damaged(content, case["damage"]), cells if name in _CHECKED else None
    arrays = [_ODD[kind][: case["rows"]] for _, kind in case["columns"]]
    table = pa.table(arrays, names=[name for name, _ in case["columns"]])
    return Path(f"odd.{case['format']}"), _written(table, case["format"]), None


def _written(table, suffix, **options):
    content = io.BytesIO()
    if suffix == "parquet":
        try:
            pyarrow.parquet.write_table(table, content, **options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a type or a value that Parquet lacks
            return b""
    else:
        pyarrow.feather.write_feather(table, content, **options)
    return content.getvalue()


@cache
def sample(name):
    """Return the content of a whole file, and its cells as text."""
    content = _sample(name)
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return content, repr(read_table(path).to_pylist())


def _sample(name):
    table = pa.table(_PLAIN)
    if name == "table.csv.gz":
        return gzip.compress(b"a,b\n" + b"1,x\n2,y\n" * 20, mtime=0)
    if name == "table.xlsx":
        return _workbook([["a", "b"], *[[number, "x"] for number in range(9)]])
    if name == "stream.arrow":
        content = io.BytesIO()
        with pa.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
        return content.getvalue()
    kind, suffix = name.split(".")
    compression = "uncompressed" if kind == "plain" and suffix == "feather" else "none" if kind == "plain" else kind
    return _written(table, suffix, compression=compression)


def _workbook(rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(content := io.BytesIO())
    return content.getvalue()


def _made(name):
    """Return a small file whose content would take gigabytes; the corpus has each of them once."""
    if name == "gzip bomb":
        return Path("bomb.csv.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + _zeros(3000) + b"\0" * 8
    if name == "header without end":
        return Path("bomb.csv"), b'"' + b"a,\n" * 2**20
    parts = _parts(_workbook([["a", "b"], [1, 2]]))
    sheet = "xl/worksheets/sheet1.xml"
    if name == "far row":
        parts[sheet] = parts[sheet].replace(b'r="2"', b'r="999999999"').replace(b'"A2"', b'"A999999999"')
    elif name == "far column":
        parts[sheet] = parts[sheet].replace(b'"B2"', b'"XFD2"')
    else:
        parts[sheet] = parts[sheet].replace(b"<sheetData>", b"<sheetData>" + b" " * 2**27)
    return Path("bomb.xlsx"), _zipped(parts)


def _zeros(megabytes):
    """Return a deflated stream of zeros: one megabyte, many times; this is much faster than compressing all."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    one = deflate.compress(bytes(2**20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return one * megabytes + deflate.flush()


def _parts(content):
    with ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(parts):
    with ZipFile(content := io.BytesIO(), "w", ZIP_DEFLATED) as archive:
        for name, held in parts.items():
            archive.writestr(name, held)
    return content.getvalue()
