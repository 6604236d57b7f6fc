"""Who may come in: one's own browser, by a link that is good once, or whoever a proxy names."""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commands.html.rendering import templates
from commands.http.application import bounded
from commands.http.chat import RefusedError

BODY_BYTES = 10_000_000
AUTHOR_CHARACTERS = 200
COOKIE_DAYS = 30
NEWEST = "The newest link is in the terminal of `mull page` or `mull dev`: open that one."
SAFE = frozenset({"GET", "HEAD"})
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would not say from where a form is sent.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Proxy:
    """A proxy that says who asks: at this `address`, in this `header`, for this `origin`."""

    address: str
    header: str
    origin: str


class Door:
    """Lets in one's own browser, or what a proxy sends; and writes from this page alone.

    One's own browser shows a token once, for a cookie. It notes in the request's state who asks,
    bounds the bodies, and gives every answer its headers.
    """

    def __init__(
        self,
        app: ASGIApp,
        port: int,
        key: str,
        proxy: Proxy | None = None,
        *,
        read_only: bool = False,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._app, self._key, self._proxy = app, key, proxy
        self._read_only, self._announce = read_only, announce
        self._cookie, self._port, self._token = f"mull-{port}", port, ""
        if proxy is None:
            self._new_token()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope)
        try:
            if answer := self._let_in(request):
                await answer(scope, receive, send_with_headers)
                return
        except RefusedError as error:
            await closed(error)(scope, receive, send_with_headers)
            return
        await self._app(scope, bounded(receive, BODY_BYTES), send_with_headers)

    def _let_in(self, request: Request) -> Response | None:
        """Note who asks; return an answer if that is all there is to do. Raises RefusedError."""
        headers, host = request.headers, request.headers.get("host", "").lower()
        request.state.author = None
        if self._proxy is not None:
            request.state.author = self._named(request, self._proxy)
            origin = self._proxy.origin
            if host != urlsplit(origin).netloc:
                raise RefusedError(403, f"This page is at {origin}; the proxy has to pass Host on.")
        else:
            origin = f"http://{host}"
            if not re.fullmatch(rf"(127\.0\.0\.1|localhost|\[::1\]):{self._port}", host):
                # Whoever owns a web page can have its name point to this address.
                raise RefusedError(403, f"This page is at http://127.0.0.1:{self._port} alone.")
            if request.url.path == "/" and request.method == "GET":
                given = dict(parse_qsl(request.url.query)).get("token")
                if given is not None and self._knows(request):
                    return RedirectResponse("/", 303)
                if given is not None:
                    return self._welcome(given)
            if not request.url.path.startswith("/static/") and not self._knows(request):
                said = f"This browser has not come in within {COOKIE_DAYS} days. {NEWEST}"
                raise RefusedError(403, said)
        if request.method not in SAFE:
            self._check_write(headers, origin)
        return None

    def _named(self, request: Request, proxy: Proxy) -> str:
        """Return who asks, as the proxy says."""
        names = request.headers.getlist(proxy.header)
        if request.client is None or request.client.host != proxy.address:
            raise RefusedError(403, "This page answers its proxy alone.")
        # If there are several, one may be from the browser.
        if len(names) != 1 or not 0 < len(name := names[0].strip()) <= AUTHOR_CHARACTERS:
            raise RefusedError(403, f"The proxy has to send {proxy.header} once, with a name.")
        return name.encode("latin-1").decode("utf-8", "replace")

    def _check_write(self, headers: Headers, origin: str) -> None:
        if self._read_only:
            raise RefusedError(403, "This page is read-only.")
        came = {
            "sec-fetch-site": headers.get("sec-fetch-site", "same-origin") == "same-origin",
            "origin": headers.get("origin", origin) == origin,
        }
        if not (all(came.values()) and came.keys() & headers.keys()):
            raise RefusedError(403, "This was sent from another page, so nothing was done.")

    def _knows(self, request: Request) -> bool:
        had = cookie_parser(request.headers.get("cookie", "")).get(self._cookie, "")
        return secrets.compare_digest(had.encode(), self._key.encode())

    def _welcome(self, given: str) -> Response:
        """Take a token, which is good once, and have the browser forget it."""
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            raise RefusedError(403, f"This link was used before. {NEWEST}")
        self._new_token()
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._cookie, self._key, 86_400 * COOKIE_DAYS, httponly=True, samesite="strict"
        )
        return answer

    def _new_token(self) -> None:
        self._token = secrets.token_urlsafe(24)
        self._announce(f"http://127.0.0.1:{self._port}/?token={self._token}")


def closed(error: RefusedError) -> Response:
    """Say why somebody may not come in."""
    made = templates().get_template("closed.html.j2").render(said=str(error))
    return HTMLResponse(made, error.status)
