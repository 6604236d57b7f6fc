"""The smallest parts of a report: escaped text and tables that name their headers."""

from collections.abc import Iterable, Sequence
from html import escape

from reflection.text import neutral


class Html(str):
    """Text that is HTML already; every other string is escaped where it is put in."""

    __slots__ = ()


def html(value: str) -> Html:
    """Escape a string for text and attributes alike, its control characters made visible."""
    return value if isinstance(value, Html) else Html(escape(neutral(value)))


def joined(parts: Iterable[str]) -> Html:
    """Put parts one below the other."""
    return Html("\n".join(html(each) for each in parts))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Html:
    """Draw a table, the first cell of each row its header; a wide one scrolls on its own."""
    head = "".join(f'<th scope="col">{html(each)}</th>' for each in headers)
    body = "\n".join(_row(each) for each in rows)
    return Html(
        f'<div class="wide" role="region" aria-label="{html(caption)}" tabindex="0"><table>'
        f"<caption>{html(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Draw a list of names and values."""
    items = "".join(
        f"<div><dt>{html(name)}</dt><dd>{html(value)}</dd></div>" for name, value in pairs
    )
    return Html(f'<dl class="facts">{items}</dl>')


def section(title: str, *parts: str) -> Html:
    """Put parts under a heading; a section with nothing in it is left out."""
    inside = joined(each for each in parts if each)
    return Html(f"<section><h2>{html(title)}</h2>\n{inside}</section>") if inside else Html("")


def _row(cells: Sequence[str]) -> str:
    first, *others = (html(each) for each in cells)
    return (
        f'<tr><th scope="row">{first}</th>'
        + "".join(f"<td>{each}</td>" for each in others)
        + "</tr>"
    )
