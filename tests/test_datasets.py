"""Data sets: by name from a folder, the cache or the network, and from files."""

import os
import threading
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest
from pyarrow import parquet

from evencover.datasets import cards, load_dataset, read_dataset
from evencover.datasets.loading import cache_folder, download_dataset, local_path
from tests.originals import MAKERS, crime, original, turbine

FOLDER = os.environ.get("EVENCOVER_DATA")
NAMES = list(cards())
with_data = pytest.mark.skipif(
    FOLDER is None, reason="EVENCOVER_DATA names no folder with the paper's data sets as CSV files"
)
TINY = "a,y\n1,0.5\n2,1.5\n"
tiny_card = partial(replace, cards()["turbine"], sha256=sha256(TINY.encode()).hexdigest())


class Server:
    """A local server that answers each request with the next of some answers, then always with the last one."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests += 1
                status, content, length = outer.answers[min(outer.requests, len(outer.answers)) - 1]
                self.send_response(status)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/original"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def complete(content):
    return 200, content, len(content)


def truncated(content):
    return 200, content[:-5], len(content)


@pytest.fixture
def tiny(tmp_path_factory):
    """Return an original file of turbine with two rows, those of `TINY`."""
    turbine(["a", "y"], [[1.0, 0.5], [2.0, 1.5]], path := tmp_path_factory.mktemp("tiny") / "original")
    return path.read_bytes()


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("name", NAMES)
def test_cards_are_complete(name):
    card = cards()[name]
    assert card.name == name
    assert all(url.startswith("http") for url in card.urls)
    assert len(card.sha256) == 64
    assert all([card.title, card.page, card.licence, card.reference, card.dropped, card.response])
    assert name in MAKERS


@with_data
@pytest.mark.parametrize("name", NAMES)
def test_data_sets_agree_with_the_papers_table(name, tmp_path):
    """Rows, features and the response's moments are those on the card, and in the paper to its last digit."""
    data, card = load_dataset(name, data_dir=FOLDER, cache_dir=tmp_path), cards()[name]
    assert data.X.shape == (card.rows, card.features)
    assert (data.response, len(data.features), len(data.y)) == (card.response, card.features, card.paper.rows)
    assert (round(data.skewness, 2), round(data.kurtosis, 2)) == (card.paper.skewness, card.paper.kurtosis)


@with_data
@pytest.mark.parametrize("name", NAMES)
def test_originals_become_the_tables_on_the_cards(name, tmp_path):
    """From a file in the layout of the source, over the network into the cache, byte for byte."""
    content = original(name, FOLDER, tmp_path / "original").read_bytes()
    cache = tmp_path / "cache"
    with Server(complete(content)) as server:
        path = download_dataset(replace(cards()[name], urls=(server.url,)), cache)
    assert path.read_bytes() == (Path(FOLDER) / f"{name}.csv").read_bytes()
    assert files_in(cache) == [f"{name}.csv"]
    assert load_dataset(name, cache_dir=cache).name == name


def test_a_download_reports_its_progress(tmp_path, tiny):
    reports = []
    with ZipFile(file := BytesIO(tiny), "a") as archive:
        archive.writestr("more", bytes(200_000))
    content = file.getvalue()
    with Server(complete(content)) as server:
        card = tiny_card(urls=(server.url,))
        download_dataset(card, tmp_path, downloading=lambda _: lambda *bytes_: reports.append(bytes_))
    assert reports[-1] == (len(content), len(content))
    assert [received for received, _ in reports] == sorted({received for received, _ in reports})
    assert len(reports) > 2


@pytest.mark.parametrize("answers", [(truncated(bytes(99)),) * 2, ((503, b"busy", 4),) * 2], ids=["truncated", "busy"])
def test_temporary_errors_are_tried_again(tmp_path, answers, tiny):
    with Server(*answers, complete(tiny)) as server:
        path = download_dataset(tiny_card(urls=(server.url,)), tmp_path, tries=3, pause=0)
        assert server.requests == 3
    assert path.read_text() == TINY


def test_permanent_errors_are_not_tried_again(tmp_path):
    with Server((404, b"", 0)) as server:
        with pytest.raises(OSError, match=f"could not download {server.url}: the server answered 404 Not Found"):
            download_dataset(tiny_card(urls=(server.url,)), tmp_path, tries=3, pause=0)
        assert server.requests == 1


def test_a_truncated_file_is_not_used(tmp_path):
    (tmp_path / "turbine.csv").write_bytes(b"the old one")
    with (
        Server(truncated(bytes(100))) as server,
        pytest.raises(OSError, match="the connection ended after 95 of 100 bytes"),
    ):
        download_dataset(tiny_card(urls=(server.url,)), tmp_path, tries=2, pause=0)
    assert (tmp_path / "turbine.csv").read_bytes() == b"the old one"
    assert files_in(tmp_path) == ["turbine.csv"]


def test_an_interrupted_download_leaves_nothing(tmp_path, tiny):
    def interrupt(*_):
        raise KeyboardInterrupt

    with Server(complete(tiny)) as server, pytest.raises(KeyboardInterrupt):
        download_dataset(tiny_card(urls=(server.url,)), tmp_path, downloading=lambda name: interrupt)
    assert files_in(tmp_path) == []


def test_a_file_with_another_checksum_is_not_used(tmp_path, tiny):
    card = tiny_card(urls=("",), sha256="0" * 64)
    with (
        Server(complete(tiny)) as server,
        pytest.raises(OSError, match=r"is not turbine: its sha256 is .*, that on the card is 000"),
    ):
        download_dataset(replace(card, urls=(server.url,)), tmp_path)
    assert files_in(tmp_path) == []


def test_a_web_page_instead_of_the_file_is_not_used(tmp_path):
    """Such as a login page or an error page."""
    with (
        Server(complete(b"<html>")) as server,
        pytest.raises(OSError, match=r"cannot be read as turbine \(BadZipFile"),
    ):
        download_dataset(replace(cards()["turbine"], urls=(server.url,)), tmp_path)
    assert files_in(tmp_path) == []


def test_the_next_address_is_tried(tmp_path, tiny):
    with Server((404, b"", 0)) as first, Server(complete(b"wrong")) as second, Server(complete(tiny)) as third:
        urls = (first.url, second.url, third.url)
        assert download_dataset(tiny_card(urls=urls), tmp_path).read_text() == TINY


def test_without_a_network_the_error_says_what_to_do(tmp_path, monkeypatch):
    with Server(complete(b"")) as server:
        gone = server.url
    monkeypatch.setitem(cards(), "turbine", tiny_card(urls=(gone,)))
    with pytest.raises(OSError, match=r"turbine: could not .*refused.* put turbine.csv into a folder .* --data-dir"):
        download_dataset(cards()["turbine"], tmp_path, pause=0)


def test_data_sets_are_searched_in_the_folder_then_the_cache_then_the_network(tmp_path, monkeypatch, tiny):
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    folder.mkdir()
    with Server(complete(tiny)) as server:
        monkeypatch.setitem(cards(), "turbine", tiny_card(urls=(server.url,)))
        first = load_dataset("turbine", data_dir=folder, cache_dir=cache)
        again = load_dataset("turbine", data_dir=folder, cache_dir=cache)
        assert server.requests == 1
        assert local_path(cards()["turbine"], data_dir=folder, cache_dir=cache) == cache / "turbine.csv"
        (folder / "turbine.csv").write_text(TINY)
        assert local_path(cards()["turbine"], data_dir=folder, cache_dir=cache) == folder / "turbine.csv"
    assert first.y.tolist() == again.y.tolist() == [0.5, 1.5]


def test_a_corrupt_file_in_the_cache_is_downloaded_again(tmp_path, monkeypatch, tiny):
    (tmp_path / "turbine.csv").write_text(TINY[:-3])
    with Server(complete(tiny)) as server:
        monkeypatch.setitem(cards(), "turbine", tiny_card(urls=(server.url,)))
        with pytest.warns(UserWarning, match=r"corrupt file .*turbine.csv: its checksum is not that of turbine"):
            load_dataset("turbine", cache_dir=tmp_path)
    assert (tmp_path / "turbine.csv").read_text() == TINY


def test_the_cache_is_in_the_systems_folder_for_caches(monkeypatch):
    monkeypatch.setenv("EVENCOVER_CACHE", "here")
    assert cache_folder() == Path("here")
    assert cache_folder("there") == Path("there")
    monkeypatch.delenv("EVENCOVER_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert cache_folder() == Path("caches/evencover")


def test_any_csv_is_a_data_set(tmp_path):
    path = tmp_path / "rents.csv"
    path.write_bytes('﻿"area, m2",rent,floor\r\n50,700,1\r\n80.5,"1000",-2e0\r\n'.encode())
    data = load_dataset(str(path), target="rent")
    assert (data.name, data.response, data.features) == ("rents", "rent", ("area, m2", "floor"))
    assert data.X.tolist() == [[50.0, 1.0], [80.5, -2.0]]
    assert data.y.tolist() == [700.0, 1000.0]
    assert read_dataset(path).response == "floor"
    assert str(data) == "Dataset(rents: 2 rows, 2 features, response rent)"


def test_any_parquet_file_is_a_data_set(tmp_path):
    table = pa.table({"a": [1, 2, 3], "b": [True, False, True], "y": pa.array([0.5, 1.5, 2.5], "float32")})
    parquet.write_table(table, tmp_path / "mine.parquet")
    data = load_dataset(str(tmp_path / "mine.parquet"), target="y")
    assert data.X.tolist() == [[1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    assert data.y.tolist() == [0.5, 1.5, 2.5]


def test_downloaded_tables_preserve_numbers_exactly(tmp_path):
    rows = [[1.0, 0.1 + 0.2, 1e-300], [2.0, -4.7e-05, 3.0]] * 2
    crime(["a", "b", "c"], [list(map(repr, row)) for row in rows], tmp_path / "original")
    text = "a,b,c\n" + "1,0.30000000000000004,1e-300\n2,-4.7e-05,3.0\n" * 2
    with Server(complete((tmp_path / "original").read_bytes())) as server:
        card = replace(cards()["crime2"], urls=(server.url,), sha256=sha256(text.encode()).hexdigest())
        assert download_dataset(card, tmp_path / "cache").read_text() == text
