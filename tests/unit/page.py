"""A report's page taken apart, and text that would break out of it."""

from html.parser import HTMLParser

HOSTILE = (
    "</title></style></script><script>alert('1')</script><img src=x onerror=\"y\"> \x1b[31m\x00"
)
UNCLOSED = {"meta"}
WEB_UI = "http://127.0.0.1:8233/namespaces/default/workflows/a/b/history"


class Page(HTMLParser):
    """Every element and attribute of a page, and whether each element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in UNCLOSED:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
