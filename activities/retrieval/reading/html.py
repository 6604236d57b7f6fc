"""The text of HTML, with the lines of its source."""

from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser

from activities.retrieval.bounds import LONGEST_TAG
from activities.retrieval.reading.lines import Line, UnreadableError
from activities.retrieval.threads import Going

PIECE_CHARACTERS = 65_536
SILENT = frozenset({"script", "style", "template", "noscript"})
PARAGRAPHS = frozenset(
    "address article aside blockquote body dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 "  # noqa: SIM905 - a column of thirty strings says no more
    "h6 header hr main nav ol p pre section table title ul".split()
)
ROWS = frozenset({"br", "li", "option", "tr"})
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "title"})


def html_lines(source: str, going: Going) -> Iterator[Line]:
    """Yield the lines of text, by where they stand in the source; scripts and styles are left out.

    `going` is called now and then, and may raise. Raises UnreadableError for a tag without an end.
    """
    reader = _Reader()
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    # The parser takes quadratic time to close what has no end, so it is never told to.
    for start in range(0, len(text), PIECE_CHARACTERS):
        going()
        try:
            reader.feed(text[start : start + PIECE_CHARACTERS])
        except AssertionError:  # how the parser says that it can't go on
            raise UnreadableError("broken HTML") from None
        if len(reader.rawdata) > LONGEST_TAG:
            raise UnreadableError("HTML with a tag that never ends")
        yield from reader.take()
    reader.end_line()
    yield from reader.take()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self._lines: list[Line] = []
        self._words: list[str] = []
        self._apart = True
        self._silent = 0
        self._pre = 0
        self._heading = False
        self._number = 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's signature
        self._silent += tag in SILENT
        self._pre += tag == "pre"
        self._separate(tag)
        if tag in HEADINGS:
            self._heading = True

    def handle_endtag(self, tag: str) -> None:
        self._separate(tag)
        self._silent = max(0, self._silent - (tag in SILENT))
        self._pre = max(0, self._pre - (tag == "pre"))
        if tag in HEADINGS:
            self._heading = False

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        for at, row in enumerate(data.split("\n")):
            if at:
                self.end_line()
            if not self._words:
                self._number = self.getpos()[0] + at
            self._words.append(row)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(unescape(f"&{name};").replace("\n", " "))

    def handle_charref(self, name: str) -> None:
        self.handle_data(unescape(f"&#{name};").replace("\n", " "))

    def take(self) -> list[Line]:
        taken, self._lines = self._lines, []
        return taken

    def end_line(self) -> None:
        said = "".join(self._words)
        words = said.rstrip() if self._pre else " ".join(said.split())
        if words:
            self._lines.append(Line(self._number, words, self._heading))
            self._apart = False
        self._words = []

    def _separate(self, tag: str) -> None:
        if tag in PARAGRAPHS or tag in ROWS:
            self.end_line()
        elif tag in {"td", "th"} and self._words:
            self._words.append(" ")
        if tag in PARAGRAPHS and not self._apart:
            self._lines.append(Line(self.getpos()[0], ""))
            self._apart = True
