"""`page`: a page for people, where they see, review and start runs."""

import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from commands.command import Exit, fail, flag, tell, with_client

if TYPE_CHECKING:
    from temporalio.client import Client


def page(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen at.")] = 8_401,
    read_only: Annotated[bool, flag("--read-only", help="Only show runs.")] = False,
    proxy: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Answer this proxy alone, by its address.")
    ] = None,
    author_header: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The header in which the proxy says who asks."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where browsers find the page behind the proxy."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen at, with --proxy.")
    ] = "127.0.0.1",
) -> None:
    """Serve a page: see runs, follow them, review and start them.

    It is for this machine's browser, which the printed link lets in; the link is good once. Behind
    a proxy that knows who asks it is for others, too.

    For example:

        mull page
        mull page --read-only
        mull page --proxy 10.0.0.5 --author-header X-Forwarded-User --url https://mull.example.org

    It stops at Ctrl-C. Exit codes: 0 stopped, 2 wrong usage, 3 no server.
    """
    from commands.web.door import Proxy

    given = (proxy, author_header, url)
    behind = None
    if proxy and author_header and url:
        parts = urlsplit(url.rstrip("/"))
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path:
            fail(f"--url {url}: expected an address such as https://mull.example.org.")
        behind = Proxy(proxy, author_header, f"{parts.scheme}://{parts.netloc.lower()}")
    elif any(one is not None for one in given):
        fail("--proxy, --author-header and --url belong together: give all three.")
    elif host != "127.0.0.1":
        fail(f"--host {host}: without --proxy it listens at 127.0.0.1 alone.")

    async def listen(client: "Client") -> Exit:
        from starlette.middleware import Middleware

        import mull
        from commands.http.application import answer_at
        from commands.web.application import application
        from commands.web.door import Door
        from commands.web.rendering import Page

        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            place = socket.create_server((host, port), family=family)
        except OSError as error:
            # Python adds the address to the system's words.
            fail(f"--host {host} --port {port}: {str(error.strerror).partition(' (while')[0]}.")
        encrypted = client.data_converter.payload_codec is not None
        told = Page(mull.Client(client), read_only, encrypted)
        door = Middleware(
            Door,
            port,
            browser_key(),
            behind,
            read_only=read_only,
            announce=lambda link: tell(f"The page, for a browser that is new: {link}"),
        )
        if behind:
            tell(f"The page is at {behind.origin}, for what {proxy} sends")
        made = application(told, door)
        await answer_at(place, made, made.state.watchers.end)
        return Exit.DONE

    with_client(listen)


def browser_key() -> str:
    """Return the value of the cookie that lets a browser in: the same one after a restart."""
    path = Path(typer.get_app_dir("mull")) / "page.key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))
        known = path.read_text("ascii").strip()
        if len(known) >= 32:
            return known
    except (OSError, ValueError):
        pass
    return secrets.token_urlsafe(32)
