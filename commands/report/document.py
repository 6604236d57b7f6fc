"""What every page has: its frame, what run it is of, and what that was asked for."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from commands.report.parts import Html, facts, html, joined
from reflection.text import terminal_safe

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = Path(__file__).with_name("report.css")


class RunFacts(NamedTuple):
    """What a page says of a run beside its result.

    `started` and `closed` are aware times; `web_ui` is the run's address, linked where it is http
    or https; `settings` are the request's fields.
    """

    workflow_id: str
    run_id: str
    started: datetime | None = None
    closed: datetime | None = None
    web_ui: str | None = None
    settings: Mapping[str, object] | None = None


def page(title: str, parts: Iterable[Html]) -> str:
    """Put parts into one file that loads nothing and runs no script."""
    inside = joined(each for each in parts if each)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html(terminal_safe(title, 80))}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
{inside}
</main>
</body>
</html>
"""


def identity(run: RunFacts) -> list[tuple[str, str]]:
    """Name a run: its ids, its address where it has one, and its times."""
    ids = [("workflow id", run.workflow_id), ("run id", run.run_id)]
    linked = [("Web UI", _link(run.web_ui))] if run.web_ui else []
    return [*ids, *linked, *_times(run.started, run.closed)]


def settings_facts(run: RunFacts, *shown_elsewhere: str) -> Html:
    """List the fields of a request that have a value, but for those shown elsewhere."""
    pairs = [
        (name, terminal_safe(_setting(value), 400))
        for name, value in (run.settings or {}).items()
        if value not in (None, (), [], {}) and name not in shown_elsewhere
    ]
    return facts(pairs) if pairs else Html("")


def _setting(value: object) -> str:
    """Write a value in words, whatever its type."""
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.12g}"
        case Mapping():
            known = {name: each for name, each in value.items() if each is not None}
            return ", ".join(f"{name} {_setting(each)}" for name, each in known.items())
        case list() | tuple():
            return ", ".join(map(_setting, value))
    return str(value)


def _times(started: datetime | None, closed: datetime | None) -> list[tuple[str, str]]:
    lasted = f"{(closed - started).total_seconds():,.1f} s" if started and closed else "unknown"
    return [("started", _time(started)), ("closed", _time(closed)), ("lasted", lasted)]


def _time(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "unknown"


def _link(address: str) -> Html:
    if urlsplit(address).scheme not in {"http", "https"}:
        return html(address)
    return Html(f'<a href="{html(address)}" rel="noreferrer">{html(address)}</a>')
