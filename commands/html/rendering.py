"""Render templates; of a sheet one file to keep, send and print, which loads and runs nothing."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from commands.html.charts import drawing
from mull.details import cell_words
from mull.sheet import Sheet
from mull.text import neutral, terminal_safe

STATIC = Path(__file__).with_name("static")
STYLE = STATIC / "page.css"
CELL_COLUMNS = 600


class RunFacts(NamedTuple):
    """What a page shows of a run besides its sheet.

    `started` and `closed` are aware times; `web_ui` is the run's address, linked if it is http
    or https; `settings` are the request's fields.
    """

    workflow_id: str
    run_id: str
    started: datetime | None = None
    closed: datetime | None = None
    web_ui: str | None = None
    settings: Mapping[str, object] | None = None


def page_html(sheet: Sheet, run: RunFacts | None = None) -> str:
    """Render a sheet, with the run's facts if given, as one HTML file."""
    # It is the house's own.
    style = Markup(STYLE.read_text("utf-8"))  # noqa: S704
    return templates().get_template("report.html.j2").render(style=style, **shown(sheet, run))


def shown(sheet: Sheet, run: RunFacts | None = None) -> dict[str, object]:
    """Return the values of the template `sheet.html.j2`."""
    decisions = [sheet.decisions] if sheet.decisions else []
    return {
        "sheet": sheet,
        "title": terminal_safe(f"Mull: {sheet.subject}", 80),
        "charts": [drawing(chart) for chart in sheet.charts],
        "tables": [table for table in (*sheet.tables, *decisions) if table.rows],
        "run": run,
        "linked": bool(run and run.web_ui and _is_web(run.web_ui)),
        "settings": _settings(run, sheet.subject) if run else [],
    }


def _settings(run: RunFacts, subject: str) -> list[tuple[str, str]]:
    """List the fields of a request that have a value, without the question itself."""
    return [
        (
            name,
            terminal_safe(
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 400
            ),
        )
        for name, value in (run.settings or {}).items()
        if value not in (None, (), [], {}) and value != subject
    ]


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def _rendered(markdown: str) -> Markup:
    """Render Markdown: HTML stays text, only web addresses are linked, and no image is loaded."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    reader.validateLink = _is_web  # type: ignore[assignment]
    # An entity may stand for a character that must not be shown.
    return Markup(neutral(reader.render(markdown)))  # noqa: S704 - it escapes what it is given


@cache
def templates() -> Environment:
    """Load the templates; values are escaped, with control characters made visible."""
    found = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            neutral(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )
    found.filters["words"] = lambda cell, column: terminal_safe(
        cell_words(cell, column), CELL_COLUMNS
    )
    found.filters["rendered"] = _rendered
    # Keeps a per cent sign on the line of its number.
    found.filters["unbroken"] = lambda words: words.replace(" %", "\u00a0%")
    found.filters["time"] = lambda moment: (
        f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "unknown"
    )
    return found
