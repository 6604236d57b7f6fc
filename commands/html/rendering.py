"""Render templates; of a sheet one file to keep, send and print, which loads and runs nothing."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from commands.html.charts import drawing
from mull.details import cell_words
from mull.request import Request
from mull.sheet import Chart, Sheet, moment_words
from mull.text import neutral, spaced, tally_words, terminal_safe, usd

STATIC = Path(__file__).with_name("static")
STYLE = STATIC / "page.css"
CELL_COLUMNS, SETTING_COLUMNS = 600, 400
# The fewest points of a chart: two are read faster as numbers.
FEWEST = 3
UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
JUST_NOW = 10
# A map of calibration has thousands of numbers.
UNSHOWN = {"calibration"}


class RunFacts(NamedTuple):
    """What a page shows of a run besides its sheet.

    `started` and `closed` are aware times; `web_ui` is the run's address, linked if it is http
    or https; `request` is what it was asked.
    """

    workflow_id: str
    run_id: str
    started: datetime | None = None
    closed: datetime | None = None
    web_ui: str | None = None
    request: Request | None = None


def page_html(sheet: Sheet, run: RunFacts | None = None) -> str:
    """Render a sheet, with the run's facts if given, as one HTML file."""
    # The style is Mull's own file.
    style = Markup(STYLE.read_text("utf-8"))  # noqa: S704
    return templates().get_template("report.html.j2").render(style=style, **shown(sheet, run))


def shown(sheet: Sheet, run: RunFacts | None = None) -> dict[str, object]:
    """Return the values of the template `sheet.html.j2`."""
    decisions = [sheet.decisions] if sheet.decisions else []
    return {
        "sheet": sheet,
        "title": terminal_safe(f"Mull: {sheet.subject}", 80),
        "charts": [drawing(chart) for chart in sheet.charts if _places(chart) >= FEWEST],
        "tables": [table for table in (*sheet.tables, *decisions) if table.rows],
        "run": run,
        "linked": bool(run and run.web_ui and _is_web(run.web_ui)),
        **_settings(run.request if run else None, sheet.subject),
    }


def _places(chart: Chart) -> int:
    return max((len(curve.points) for curve in chart.curves), default=0)


def _settings(request: Request | None, subject: str) -> dict[str, list[tuple[str, str]]]:
    """List the fields of a request that differ from their defaults, and those that do not.

    Fields without a value, and the run's subject, are left out.
    """
    if request is None:
        return {"settings": [], "defaults": []}
    dump = partial(request.model_dump, mode="json", exclude=UNSHOWN, exclude_none=True)
    differ = dump(exclude_defaults=True)
    same = {name: value for name, value in dump().items() if name not in differ}

    def rows(fields: dict[str, object]) -> list[tuple[str, str]]:
        kept = ((name, value) for name, value in fields.items() if value not in ([], {}, subject))
        return [(name, setting_words(value)) for name, value in kept]

    return {"settings": rows(differ), "defaults": rows(same)}


def setting_words(value: object) -> str:
    """Write the value of a setting on one line, which may be cut."""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return terminal_safe(said, SETTING_COLUMNS)


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def reader() -> MarkdownIt:
    """Read Markdown: HTML stays text, only web addresses are linked, and no image is loaded."""
    found = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    found.validateLink = _is_web  # type: ignore[assignment]
    for tag in ("th", "td"):
        found.add_render_rule(f"{tag}_open", _opened)
    return found


def _opened(_: object, cells: Sequence[Token], at: int, *__: object) -> str:
    """Open a cell of a table, by a class for what its style would say: no page allows one."""
    right = cells[at].attrGet("style") == "text-align:right"
    return f'<{cells[at].tag} class="number">' if right else f"<{cells[at].tag}>"


def _rendered(markdown: str) -> Markup:
    # An entity may become a control character, which is made visible.
    return Markup(neutral(reader().render(markdown)))  # noqa: S704 - it escapes what it is given


def _ago(moment: datetime) -> Markup:
    """Say how long ago something was, in the largest unit that fits, with the exact time."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    size, unit = next((one for one in UNITS if seconds >= one[0]), (1, "second"))
    words = f"{tally_words(seconds // size, unit)} ago" if seconds >= JUST_NOW else "just now"
    at = moment.isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at, _time(moment), words)


def _time(moment: datetime | None) -> str:
    return (moment and moment_words(moment.astimezone(UTC))) or "unknown"


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
    found.filters["line"] = terminal_safe
    # Keeps a per cent sign on the line of its number.
    found.filters["unbroken"] = lambda words: words.replace(" %", "\u00a0%")
    found.filters["ago"] = _ago
    found.filters["usd"] = usd
    found.filters["spaced"] = spaced
    found.filters["time"] = _time
    return found
