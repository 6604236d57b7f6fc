"""Who may come in to the page, and what they may do."""

from typing import Any

import pytest

from commands.http.bearers import digest
from commands.web.door import BODY_BYTES
from tests.unit.web.doors import (
    HERE,
    KEY,
    NAMED,
    PORT,
    PROXY,
    Links,
    browser,
    entered,
    sent,
    served,
)

# The door refuses these before any address is looked for: behind it there is nothing there.
THROUGH = 404


async def test_a_link_is_good_once_and_leaves_no_trace() -> None:
    """It sets a cookie that no script reads and no other site sends, and goes from the address."""
    links = Links()
    app = served(links)
    first, thief = browser(app), browser(app)
    await first.get("/nothing")
    link = links.newest

    came = await first.get(link)

    assert (came.status_code, came.headers["location"]) == (303, "/")
    cookie = came.headers["set-cookie"]
    assert cookie == f"mull-{PORT}={KEY}; HttpOnly; Max-Age=2592000; Path=/; SameSite=strict"
    assert (await first.get("/nothing")).status_code == THROUGH
    stolen = await thief.get(link)
    assert (stolen.status_code, "set-cookie" in stolen.headers) == (403, False)
    assert "used before" in stolen.text
    assert (await first.get(link)).status_code == 303
    assert (await thief.get(links.newest)).status_code == 303


async def test_without_a_cookie_nothing_is_shown() -> None:
    """A page says how to come in; another cookie, or none, is not enough."""
    app = served(Links())

    guesses: list[Any] = [
        {},
        {"Cookie": f"mull-{PORT}=guess"},
        [(b"Cookie", f"mull-{PORT}=é".encode())],
    ]
    for headers in guesses:
        answer = await browser(app).get("/nothing", headers=headers)

        assert answer.status_code == 403
        assert "in the terminal of `mull page` or `mull dev`" in answer.text
    assert (await browser(app).get("/static/page.css")).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8401", "127.0.0.1", "127.0.0.1:9999", "127.0.0.1:8401.evil"]
)
async def test_another_host_is_refused(host: str) -> None:
    """A name that an attacker has point here, or another port, is not this page."""
    links = Links()
    own = await entered(links, served(links))

    assert (await own.get("/nothing", headers={"Host": host})).status_code == 403
    assert (await own.get("/nothing", headers={"Host": f"localhost:{PORT}"})).status_code == THROUGH


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": HERE}, True),
        (sent({}), True),
        ({}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "http://127.0.0.1:9999"}, False),
        (sent({"Sec-Fetch-Site": "same-site"}), False),
        (sent({"Sec-Fetch-Site": "cross-site"}), False),
        (sent({"Sec-Fetch-Site": "none"}), False),
        (sent({"Origin": "https://evil.example"}), False),
    ],
)
async def test_only_this_page_writes(headers: dict[str, str], passes: bool) -> None:
    """A form of another page is refused, though the browser sends the cookie along."""
    links = Links()
    own = await entered(links, served(links))

    for method in ("POST", "DELETE", "PUT"):
        answer = await own.request(method, "/nothing", headers=headers)

        assert answer.status_code == (THROUGH if passes else 403)


async def test_a_read_only_page_takes_nothing() -> None:
    """Each write is refused, also one that the page itself sends."""
    links = Links()
    own = await entered(links, served(links, read_only=True))

    assert (await own.get("/nothing")).status_code == THROUGH
    answer = await own.post("/nothing", headers=sent({}))
    assert (answer.status_code, "read-only" in answer.text) == (403, True)


async def test_a_body_is_bounded() -> None:
    """A body that is larger than any form is not read to its end."""
    links = Links()

    async def read(request: object) -> object:
        raise AssertionError(await request.body())  # type: ignore[attr-defined]

    app = served(links)
    app.add_route("/read", read, methods=["POST"])  # type: ignore[arg-type]
    own = await entered(links, app)

    answer = await own.post("/read", content=b"x" * (BODY_BYTES + 1), headers=sent({}))

    assert (answer.status_code, "larger than" in answer.text) == (413, True)


async def test_a_proxy_names_who_asks() -> None:
    """Its header counts from its address alone, once, with a name; there is no link, no cookie."""
    links = Links()
    app = served(links, PROXY)
    proxy = browser(app, "10.0.0.5", PROXY.origin)
    forger = browser(app, "10.0.0.6", PROXY.origin)

    assert links == []
    assert (await proxy.get("/nothing", headers=NAMED)).status_code == THROUGH
    assert ">Ann<" in (await proxy.get("/nothing", headers=NAMED)).text
    assert (
        ">Žofie<"
        in (await proxy.get("/nothing", headers=[(b"X-Forwarded-User", "Žofie".encode())])).text
    )
    for headers in ({}, {"X-Forwarded-User": ""}, {"X-Forwarded-User": "x" * 201}):
        assert (await proxy.get("/nothing", headers=headers)).status_code == 403
    twice = [("X-Forwarded-User", "Ann"), ("X-Forwarded-User", "Eve")]
    assert (await proxy.get("/nothing", headers=twice)).status_code == 403
    forged = {**NAMED, "X-Forwarded-For": "10.0.0.5", "Forwarded": "for=10.0.0.5"}
    assert (await forger.get("/nothing", headers=forged)).status_code == 403
    assert (await proxy.get("/nothing", headers={**NAMED, "Host": "other"})).status_code == 403


async def test_behind_a_proxy_only_its_address_writes() -> None:
    """The origin is that of the address which browsers have."""
    proxy = browser(served(Links(), PROXY), "10.0.0.5", PROXY.origin)

    own = await proxy.post("/nothing", headers={**NAMED, "Origin": PROXY.origin})
    other = await proxy.post("/nothing", headers={**NAMED, "Origin": HERE})

    assert (own.status_code, other.status_code) == (THROUGH, 403)


async def test_every_answer_forbids_what_no_page_needs() -> None:
    """No inline script or style, nothing of another host, no frame around it, and nothing kept."""
    links = Links()
    own = await entered(links, served(links))

    for answer in (await own.get("/nothing"), await browser(served(Links())).get("/")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<style" not in answer.text
        assert "style=" not in answer.text
        assert "<script>" not in answer.text
    assert digest(KEY) not in answer.text
